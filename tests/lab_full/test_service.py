# SPDX-License-Identifier: Apache-2.0
"""The systemd unit where the lab's own suite has no time for it."""

import tempfile
from pathlib import Path

from tests.lab.lab import NEW_KERNEL, GuestCase
from tests.lab.test_service import OWN_DEFAULT

TIMEOUT_S = 1200.0  # five starts of the service; two guests on a busy machine take 95 s for one


class HandedOver(GuestCase):
    """From one agent to the next, and to none."""

    def test_unit(self):
        """An agent that adopted is killed; what another handed over is adopted by nobody."""
        self.guest(
            "service.Service.test_handed_over",
            least=1, options=OWN_DEFAULT, timeout_s=TIMEOUT_S,
        )  # fmt: skip


class Gap(GuestCase):
    """Between two agents."""

    def test_unit(self):
        """An agent that is killed before it has adopted leaves the machine as it was."""
        self.guest("service.Service.test_killed_in_the_gap", least=1, options=OWN_DEFAULT)


class Rebooted(GuestCase):
    """Two boots of a host with one state directory."""

    def test_unit(self):
        """The power goes while the agent enforces; after the boot the enabled unit begins anew."""
        with tempfile.TemporaryDirectory(prefix="iat-nova-lab-") as share:
            for boot in ("before", "after"):
                self.guest(
                    f"service.Service.test_{boot}_a_reboot", least=1, options=OWN_DEFAULT,
                    share=share, timeout_s=TIMEOUT_S,
                )  # fmt: skip
                for name in ("results", "shm"):
                    Path(share, name).unlink(missing_ok=True)


class Amd(GuestCase):
    """An EPYC with two L3 caches."""

    def test_unit(self):
        """The unit as it ships counts and enforces there too, and puts the machine back."""
        self.guest(
            "service.Service.test_restarted_and_stopped",
            least=1, kernel=NEW_KERNEL, options=("--cpu", "amd", "--ccx", "2", *OWN_DEFAULT),
            timeout_s=TIMEOUT_S,
        )  # fmt: skip
