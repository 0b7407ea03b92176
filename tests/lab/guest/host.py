# SPDX-License-Identifier: Apache-2.0
"""A compute host inside the guest: a private libvirtd's test driver, a real ovsdb-server."""

import json
import shlex
import sys
from pathlib import Path

import libvirt

from iat_nova.hardware.resctrl_fs import ResctrlFs
from tests.functional.daemons import TestLibvirtd, short_folder
from tests.functional.ovs_daemons import OvsDaemons
from tests.lab.guest.machine import TOPOLOGY, Registers, mount
from tools import demo_host

BIN = Path(sys.executable).parent
REGISTERS = Registers()


def found():
    """Return everything that must be as it was found, registers and resctrl."""
    now = REGISTERS.everything()
    return {
        "default": [masks[0] for masks in now["cbm"]],
        "ddio": now["ddio"],
        "classes": now["classes"],
        "groups": ResctrlFs().groups(),
        "schemata": ResctrlFs().read("schemata"),
    }


class HostCase:
    """Starts the daemons once a class; `guests` and `switch` say what is on the host."""

    guests = ()
    switch = ()
    dedicated = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        mount()
        cls.hypervisor = TestLibvirtd(cls.enterClassContext(short_folder()))
        cls.addClassCleanup(cls.hypervisor.stop)
        cls.hypervisor.start()
        cls.connection = libvirt.open(cls.hypervisor.uri)
        cls.addClassCleanup(cls.connection.close)
        cls.connection.lookupByName("test").destroy()
        for guest in cls.guests:
            cls.connection.defineXML(demo_host.domain_xml(guest)).create()
        cls.ovs = OvsDaemons(cls.enterClassContext(short_folder()))
        cls.addClassCleanup(cls.ovs.stop)
        cls.ovs.start_ovsdb()
        cls.ovs.vsctl("--no-wait", "init")
        for command in cls.switch:
            cls.ovs.vsctl("--no-wait", *shlex.split(command))

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(short_folder())
        self.state = self.folder / "state"
        demo_host.write_sysfs(self.folder / "sys")
        online = f"0-{max(TOPOLOGY.online())}\n"
        (self.folder / "sys/devices/system/cpu/online").write_text(online)

    def configure(self, **options):
        """Write a nova.conf; `options` are those of [iat]."""
        values = {
            "libvirt_uri": self.hypervisor.uri,
            "ovsdb_connection": self.ovs.address,
            "sysfs_root": self.folder / "sys",
            "state_dir": self.state,
            **options,
        }
        lines = [f"{name} = {value}" for name, value in values.items()]
        path = self.folder / "nova.conf"
        path.write_text(
            f"[compute]\ncpu_dedicated_set = {self.dedicated}\n[iat]\n" + "\n".join(lines) + "\n"
        )
        return path


def described(path="/mnt/host.json"):
    """Return the host that the other side describes; its guests are those of `demo_host`."""
    told = json.loads(Path(path).read_text())
    told["guests"] = tuple(
        demo_host.Guest(**{**one, "cpus": tuple(one["cpus"])}) for one in told["guests"]
    )
    return told
