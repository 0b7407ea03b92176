# SPDX-License-Identifier: Apache-2.0
"""What the lab's own suite has no time for: all back ends on the other kernel, AMD on the older."""

from tests.lab.lab import NEW_KERNEL, GuestCase
from tests.lab.test_hardware import MODULES

AMD = ("--cpu", "amd")


class NewKernel(GuestCase):
    """All back ends on a later kernel than Debian 12's, two sockets."""

    def test_hardware(self):
        """As on Debian 12's."""
        self.guest(*MODULES, least=100, kernel=NEW_KERNEL, sockets=2)


class Qualify(GuestCase):
    """What one who qualified the host may leave to the agent."""

    def test_left(self):
        """Killed, and no restore before the agent starts."""
        self.guest("qualify_left", least=2, cpus=8)


class Monitored(GuestCase):
    """Occupancy and traffic, beside what Intel's own tool shows."""

    def test_against_pqos(self):
        """Through resctrl and through the registers."""
        self.guest("monitored_pqos", least=2)


class Assigned(GuestCase):
    """Counters of memory bandwidth that are assigned: an EPYC with ABMC."""

    def test_hardware(self):
        """Two L3 caches, six counters in each."""
        self.needs("abmc")
        self.guest(
            "assigned",
            least=11, kernel=NEW_KERNEL, options=(*AMD, "--ccx", "4", "--abmc", "6"), cpus=8,
        )  # fmt: skip


class RootPorts(GuestCase):
    """Root ports on Debian 12's kernel."""

    def test_hardware(self):
        """As on the newer one."""
        self.guest("rootports", least=5, options=("--root-ports", "2"))


class Amd(GuestCase):
    """An EPYC where the kernel has no io_alloc yet, and a large one."""

    def test_without_io_alloc(self):
        """Linux 6.12: resctrl, perf and the guard; DDIO stays as it is."""
        self.guest(
            "amd.Allocation", "amd.Counting", "amd_before", "guarded.Killed",
            least=25, options=(*AMD, "--ccx", "2"), sockets=2, cpus=8,
        )  # fmt: skip

    def test_sixteen_caches(self):
        """Sixteen L3 caches, as many as a socket has at most: one domain each."""
        allocation = "amd.Allocation.test_"
        self.guest(
            f"{allocation}masks_are_in_the_registers_of_each_cache",
            f"{allocation}domains_are_independent", f"{allocation}all_classes", "amd.IoAlloc",
            "guarded.Killed.test_the_next_start_restores",
            least=12, kernel=NEW_KERNEL, options=(*AMD, "--ccx", "2"), cpus=32,
        )  # fmt: skip
