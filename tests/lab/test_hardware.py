# SPDX-License-Identifier: Apache-2.0
"""The back ends on a real kernel over emulated registers; tests inside are reported one by one.

perf and registers read what is fed; masks, classes and DDIO's ways are in the registers, through
resctrl and through both interfaces of libpqos; back ends are killed while they write. A class for
each guest, so that two may run at a time.
"""

from tests.lab.lab import GuestCase

MODULES = ("counters", "allocation", "pqos", "guarded")


class OneSocket(GuestCase):
    """One cache domain."""

    def test_hardware(self):
        """All back ends."""
        self.guest(*MODULES, least=100)


class TwoSockets(GuestCase):
    """Two cache domains."""

    def test_hardware(self):
        """All back ends."""
        self.guest(*MODULES, least=100, sockets=2)
