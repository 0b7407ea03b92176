# SPDX-License-Identifier: Apache-2.0
"""The back ends on a real kernel over emulated registers."""

from tests.lab.lab import GuestCase


class Hardware(GuestCase):
    """One guest a test; the tests inside it are reported one by one."""

    def test_counters_of_one_socket(self):
        """perf and registers read what is fed, on one socket."""
        self.guest("counters", least=24)

    def test_counters_of_two_sockets(self):
        """perf and registers read what is fed, on two sockets."""
        self.guest("counters", least=24, sockets=2)

    def test_allocation_on_one_socket(self):
        """Masks, classes and DDIO's ways are in the registers, on one socket."""
        self.guest("allocation", least=40)

    def test_allocation_on_two_sockets(self):
        """Masks, classes and DDIO's ways are in the registers, on two sockets."""
        self.guest("allocation", least=40, sockets=2)

    def test_libpqos_on_one_socket(self):
        """libpqos's MSR and OS interfaces, on one socket."""
        self.guest("pqos", least=30)

    def test_libpqos_on_two_sockets(self):
        """libpqos's MSR and OS interfaces, on two sockets."""
        self.guest("pqos", least=30, sockets=2)

    def test_guard_on_one_socket(self):
        """Killed at 20 random moments, on one socket; and what the probe finds."""
        self.guest("guarded", least=5)

    def test_guard_on_two_sockets(self):
        """Killed at 20 random moments, on two sockets; and what the probe finds."""
        self.guest("guarded", least=5, sockets=2)
