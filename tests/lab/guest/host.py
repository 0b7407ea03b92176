# SPDX-License-Identifier: Apache-2.0
"""A compute host inside the guest: a private libvirtd's test driver, a real ovsdb-server."""

import json
import shutil
import sys
from pathlib import Path

from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from tests.functional import host_case
from tests.lab.guest.machine import Registers, mount
from tools import demo_host

BIN = Path(sys.executable).parent
REGISTERS = Registers()


def found():
    """Return everything that must be as it was found, registers and resctrl."""
    now = REGISTERS.everything()
    return {
        "default": [masks[0] for masks in now["cbm"]],
        "ddio": now["ddio"],
        "io_alloc": now["io_alloc"],
        "classes": now["classes"],
        "groups": ResctrlFs().groups(),
        "schemata": ResctrlFs().read("schemata"),
    }


class HostCase(host_case.HostCase):
    """With resctrl mounted; `guests` and `switch` say what is on the host."""

    guests = ()
    switch = ()
    dedicated = shared = ""

    @classmethod
    def setUpClass(cls):
        mount()
        super().setUpClass()

    def setUp(self):
        super().setUp()
        cpus = self.folder / "sys/devices/system/cpu"
        shutil.rmtree(cpus)
        cpus.symlink_to("/sys/devices/system/cpu")  # the kernel's own


def described(path="/mnt/host.json"):
    """Return the host that the other side describes; its guests are those of `demo_host`."""
    told = json.loads(Path(path).read_text())
    told["guests"] = tuple(
        demo_host.Guest(**{**one, "cpus": tuple(one["cpus"])}) for one in told["guests"]
    )
    return told
