# SPDX-License-Identifier: Apache-2.0
"""The agent's process in the lab's guest.

Kills, foreign hands, CPUs that go, guests that come: IAT_NOVA_LAB_* set how many. A class for
each guest, so that two may run at a time.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.lab.lab import GuestCase

MODULES = ("process", "others")


class OneSocket(GuestCase):
    """Also the programs as they are typed."""

    def test_process(self):
        """Whatever happens to the agent, the machine ends as it was found."""
        self.guest(*MODULES, "typed", least=10, cpus=8)


class TwoSockets(GuestCase):
    """Also what the loop asks of the kernel."""

    def test_process(self):
        """Whatever happens to the agent, both cache domains end as they were found."""
        self.guest(*MODULES, "calls", least=11, cpus=8, sockets=2)


class Power(GuestCase):
    """Nova's power management beside the agent; IAT_NOVA_LAB_REBOOTS sets how many reboots."""

    def test_power(self):
        """CPUs come and go with their guests: no fault, no blame, ways in place in time."""
        with tempfile.TemporaryDirectory(prefix="iat-nova-lab-") as share:
            try:
                self.guest("power", least=3, cpus=8, sockets=2, share=share)
            finally:
                tell(Path(share) / "power.json")


def tell(record):
    """Print how long guests waited for their ways, also where a test failed in the end."""
    if record.exists():
        waits_s = sorted(json.loads(record.read_text()))
        print(
            f"{len(waits_s)} hard reboots: ways in place {waits_s[len(waits_s) // 2]} s (median), "
            f"{waits_s[-1]} s (longest) after the CPUs' return",
            file=sys.stderr,
        )
