# SPDX-License-Identifier: Apache-2.0
"""The agent's process in the lab's guest."""

from tests.lab.lab import GuestCase

MODULES = ("process", "others")


class Process(GuestCase):
    """Kills, foreign hands, processors that go, guests that come: IAT_NOVA_LAB_* set how many."""

    def test_on_one_socket(self):
        """Whatever happens to the agent, the machine ends as it was found."""
        self.guest(*MODULES, "typed", least=9, cpus=8)

    def test_on_two_sockets(self):
        """The same with two cache domains; and what the loop asks of the kernel."""
        self.guest(*MODULES, "calls", least=10, cpus=8, sockets=2)
