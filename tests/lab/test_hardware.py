# SPDX-License-Identifier: Apache-2.0
"""The back ends on a real kernel over emulated registers; tests inside are reported one by one.

perf and registers read what is fed; masks, classes and DDIO's ways are in the registers, through
resctrl, with code and data prioritisation too, and through libpqos; back ends
are killed while they write. A class for each guest, so that two may run at a time.
"""

from tests.lab.lab import NEW_KERNEL, GuestCase

MODULES = ("counters", "allocation", "pqos", "guarded", "monitoring")


class OneSocket(GuestCase):
    """One cache domain."""

    def test_hardware(self):
        """All back ends."""
        self.guest(*MODULES, "qualify", least=89)


class TwoSockets(GuestCase):
    """Two cache domains."""

    def test_hardware(self):
        """All back ends."""
        self.guest(*MODULES, least=85, sockets=2)


class DeviceClasses(GuestCase):
    """Intel I/O RDT over two cache domains: the lab itself, then the back end."""

    def test_pqos(self):
        """A pqos that knows I/O RDT finds devices, sets tags and reads tags."""
        self.needs("iordt")
        self.needs_pqos()
        self.guest("iordt", least=4, options=("--iordt",), sockets=2)

    def test_back_end(self):
        """The back end of DDIO's ways by a class of devices, and the snapshot."""
        self.needs("iordt")
        self.guest("device_class", least=18, options=("--iordt",), sockets=2)


class NewKernel(GuestCase):
    """A later kernel than Debian 12's, and root ports, which it does not mind."""

    def test_hardware(self):
        """What differs by kernel: resctrl, perf, the msr driver, configuration space."""
        self.guest(
            "allocation.ResctrlContract", "allocation.DdioContract", "counters.Perf",
            "guarded", "rootports", "monitoring",
            least=45, kernel=NEW_KERNEL, options=("--root-ports", "2"),
        )  # fmt: skip


class Amd(GuestCase):
    """An EPYC with two L3 caches a socket, on two sockets, under the newer kernel."""

    def test_hardware(self):
        """All back ends it has: resctrl, io_alloc, perf on cores and data fabric; the snapshot."""
        self.guest(
            "amd", "guarded.Killed", "monitoring",
            least=37, kernel=NEW_KERNEL, options=("--cpu", "amd", "--ccx", "2"), sockets=2, cpus=8,
        )  # fmt: skip
