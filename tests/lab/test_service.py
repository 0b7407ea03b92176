# SPDX-License-Identifier: Apache-2.0
"""The systemd unit in the lab's guest."""

from tests.lab.lab import GuestCase


class Service(GuestCase):
    """User, capabilities, sandbox, watchdog and ExecStopPost, with the real systemd."""

    def test_unit(self):
        """The unit as it ships enforces, and whatever ends it, the machine is as it was."""
        self.guest("service", least=1)
