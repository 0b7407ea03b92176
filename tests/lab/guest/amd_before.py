# SPDX-License-Identifier: Apache-2.0
"""An EPYC under Linux 6.12, which has no io_alloc yet."""

import unittest

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.backends import choose
from iat_nova.hardware.host.probe import Host
from tests.lab.guest.machine import mount


class WithoutIoAlloc(unittest.TestCase):
    """There is no knob, and where devices write is not known."""

    def test_devices_are_left_alone(self):
        """All classes are tenants'; doctor says since when there is a knob."""
        mount()
        hands = choose(Host(), SystemClock())
        chosen = [choice.chosen for choice in hands.choices]
        self.assertEqual(["resctrl", "none", "perf", "perf"], chosen)
        for domain in hands.allocator.domains():
            seen = (domain.classes, domain.ddio_found, domain.ddio_resizable)
            self.assertEqual((16, None, False), seen)
        found = {one.subject: one for one in probe.findings(Host())}
        self.assertEqual("io-alloc-absent", found["io_alloc"].state.code)
