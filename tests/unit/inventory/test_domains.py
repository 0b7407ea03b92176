# SPDX-License-Identifier: Apache-2.0
"""Which guests' XML a reading requests."""

import types
import unittest

import libvirt

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

    def test_the_choice_of_numad(self):
        """libvirt is asked where the XML does not name the CPUs: once, or again after an error."""
        handle, asked = self.handle("a"), []

        def answer(flags):
            asked.append(flags)
            if len(asked) == 1:
                raise libvirt.libvirtError("not now")
            return [(False, True, True, False)] * 2

        handle.XMLDesc = lambda _flags: "<domain id='1'><vcpu placement='auto'>2</vcpu></domain>"
        handle.vcpuPinInfo = answer
        domains = LibvirtDomains(types.SimpleNamespace(listAllDomains=lambda _flags: [handle]))
        found = [domains.read().domains[0].cpuset for _ in range(3)]
        self.assertEqual([None, {1, 2}, {1, 2}], found)
        self.assertEqual([libvirt.VIR_DOMAIN_AFFECT_LIVE] * 2, asked)
