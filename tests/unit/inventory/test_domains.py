# SPDX-License-Identifier: Apache-2.0
"""Which guests' XML a reading requests."""

import types
import unittest

from iat_nova.inventory.domains import REREAD_PARTS, LibvirtDomains


class Rereading(unittest.TestCase):
    """Changes without an event, such as vCPU hot plug."""

    def read(self):
        return {one.uuid: one.vcpus for one in self.domains.read().domains}

    def handle(self, uuid):
        return types.SimpleNamespace(
            UUIDString=lambda: uuid, ID=lambda: 1, name=lambda: uuid,
            XMLDesc=lambda _flags: f"<domain id='1'><vcpu>{self.vcpus}</vcpu></domain>",
        )  # fmt: skip

    def test_ten_readings_cover_every_guest(self):
        """Also where a tenth of the guests is no whole number."""
        for count in (1, 20, 21, 201, 219):
            with self.subTest(count):
                handles = [self.handle(str(number)) for number in range(count)]
                link = types.SimpleNamespace(listAllDomains=lambda _flags, all=handles: all)
                self.domains = LibvirtDomains(link)
                self.vcpus = 1
                self.read()
                self.vcpus = 2
                for _ in range(REREAD_PARTS):
                    found = self.read()
                self.assertEqual({2}, set(found.values()))
