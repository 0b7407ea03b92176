# SPDX-License-Identifier: Apache-2.0
"""The guest's machine: the registers behind it, and what tests need to have mounted."""

import subprocess
import time
from pathlib import Path

from iat_nova.hardware.cat.resctrl_fs import DEFAULT_ROOT
from iat_nova.hardware.kernel.topology import Topology
from tests.lab import registers

RESCTRL = DEFAULT_ROOT
TOPOLOGY = Topology()
BUSY_S = 30.0  # so long an unmount may be refused for files that are open


class Registers(registers.Registers):
    """The registers of this guest, looked at from outside the kernel."""

    def __init__(self, path="/mnt/shm"):
        super().__init__(path)

    def everything(self):
        """Return what a restore must bring back: masks, DDIO's ways, classes of CPUs."""
        sockets = range(len(TOPOLOGY.caches()))
        return {
            "cbm": [[self.cbm(n, s) for n in range(registers.CLASSES)] for s in sockets],
            "mba": [[self.mba(n, s) for n in range(registers.CLASSES)] for s in sockets],
            "ddio": [self.ddio_ways(s) for s in sockets],
            "io_alloc": [self.io_alloc(s) for s in sockets],
            "cdp": [self.cdp(s) for s in sockets],
            "classes": {cpu: self.pqr_assoc(cpu)[0] for cpu in sorted(TOPOLOGY.online())},
        }


def mount(*options):
    """Mount resctrl with these options; leave it where it is mounted so."""
    text = ",".join(options)
    marker = Path("/run/resctrl-options")
    if (RESCTRL / "schemata").exists():
        if marker.exists() and marker.read_text() == text:
            return
        unmount()
    flags = ["-o", text] if options else []
    subprocess.run(["mount", "-t", "resctrl", *flags, "resctrl", str(RESCTRL)], check=True)
    marker.write_text(text)


def unmount():
    """Unmount resctrl if it is mounted: all classes are then as after a reset.

    The kernel refuses while an agent that runs has one of its files open, which is often and
    never for long: then it is tried again.
    """
    deadline = time.monotonic() + BUSY_S
    while (RESCTRL / "schemata").exists():
        done = subprocess.run(["umount", str(RESCTRL)], capture_output=True, text=True, check=False)
        if done.returncode and ("busy" not in done.stderr or time.monotonic() > deadline):
            raise AssertionError(f"umount {RESCTRL}: {done.returncode}: {done.stderr}")


def plug(cpu, on):
    """Take a CPU offline or online."""
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1" if on else "0")
