# SPDX-License-Identifier: Apache-2.0
"""The agent's process in the lab's guest."""

import os

from tests.lab.lab import GuestCase


class Process(GuestCase):
    """Kills, foreign hands, processors that go, guests that come: IAT_NOVA_LAB_* set how many."""

    def test_the_agents_life(self):
        """Whatever happens to the agent, the machine ends as it was found."""
        timeout_s = float(os.environ.get("IAT_NOVA_LAB_TIMEOUT_S", "600"))
        self.guest("process", least=4, timeout_s=timeout_s)
