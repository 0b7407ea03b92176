# SPDX-License-Identifier: Apache-2.0
"""The guest's machine: the registers behind it, and what tests need to have mounted."""

import os
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, os.environ["IAT_NOVA_RDT_LAB"])

import rdtlab

from iat_nova.hardware.resctrl_fs import DEFAULT_ROOT
from iat_nova.hardware.topology import Topology

RESCTRL = DEFAULT_ROOT
TOPOLOGY = Topology()


class Registers(rdtlab.Lab):
    """The lab's shared file from inside the guest, where it cannot be mapped, only read."""

    def __init__(self, path="/mnt/shm"):
        self._fd = os.open(path, os.O_RDWR)

    def _get(self, word):
        return struct.unpack("<Q", os.pread(self._fd, 8, word * 8))[0]

    def _put(self, word, value):
        os.pwrite(self._fd, struct.pack("<Q", int(value) & (1 << 64) - 1), word * 8)

    def everything(self):
        """Return what a restore must bring back: masks, DDIO's ways, classes of processors."""
        sockets = sorted({cache.package for cache in TOPOLOGY.caches()})
        return {
            "cbm": [[self.cbm(n, s) for n in range(rdtlab.COS)] for s in sockets],
            "ddio": [self.ddio_ways(s) for s in sockets],
            "classes": {cpu: self.pqr_assoc(cpu)[0] for cpu in sorted(TOPOLOGY.online())},
        }


def mount(*options):
    """Mount resctrl with these options; leave it where it is mounted so."""
    text = ",".join(options)
    marker = Path("/run/resctrl-options")
    if (RESCTRL / "schemata").exists():
        if marker.exists() and marker.read_text() == text:
            return
        subprocess.run(["umount", str(RESCTRL)], check=True)
    flags = ["-o", text] if options else []
    subprocess.run(["mount", "-t", "resctrl", *flags, "resctrl", str(RESCTRL)], check=True)
    marker.write_text(text)


def unmount():
    """Unmount resctrl if it is mounted: all classes are then as after a reset."""
    if (RESCTRL / "schemata").exists():
        subprocess.run(["umount", str(RESCTRL)], check=True)


def plug(cpu, on):
    """Take a processor off-line or on-line."""
    Path(f"/sys/devices/system/cpu/cpu{cpu}/online").write_text("1" if on else "0")
