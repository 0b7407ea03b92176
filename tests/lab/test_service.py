# SPDX-License-Identifier: Apache-2.0
"""The systemd unit in the lab's guest, at the kernel's own kernel.perf_event_paranoid.

A class for each kernel, so that two guests may run at a time.
"""

from tests.lab.lab import NEW_KERNEL, GuestCase

OWN_DEFAULT = ("--perf-paranoid", "kernel")


class Service(GuestCase):
    """User, capabilities, sandbox, watchdog and ExecStopPost, with the real systemd."""

    def test_unit(self):
        """The unit as it ships enforces, restarts, and leaves the machine as it was."""
        test = "service.Service.test_restarted_and_stopped"
        self.guest(test, least=1, options=OWN_DEFAULT)

    def test_lost(self):
        """Snapshot, state directory or configuration lost: the unit restores the machine."""
        self.guest("service.Service.test_lost", least=1, options=OWN_DEFAULT)


class NewKernel(GuestCase):
    """A later kernel than Debian 12's."""

    def test_unit(self):
        """The unit as it ships counts and enforces there too, and puts the machine back."""
        test = "service.Service.test_hung_and_through_libpqos"
        self.guest(test, least=1, kernel=NEW_KERNEL, options=OWN_DEFAULT)
