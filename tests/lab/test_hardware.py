# SPDX-License-Identifier: Apache-2.0
"""The back ends on a real kernel over emulated registers."""

from tests.lab.lab import GuestCase

MODULES = ("counters", "allocation", "pqos", "guarded")


class Hardware(GuestCase):
    """One guest a test; the tests inside it are reported one by one.

    perf and registers read what is fed; masks, classes and DDIO's ways are in the registers,
    through resctrl and through both interfaces of libpqos; back ends are killed while they write.
    """

    def test_on_one_socket(self):
        """All back ends on one socket."""
        self.guest(*MODULES, least=100)

    def test_on_two_sockets(self):
        """All back ends on two sockets."""
        self.guest(*MODULES, least=100, sockets=2)
