# SPDX-License-Identifier: Apache-2.0
"""A compute host of private daemons: libvirtd's test driver, ovsdb-server, files of sysfs."""

import shlex
import unittest

import libvirt

from tests.functional.daemons import TestLibvirtd, short_folder
from tests.functional.ovs_daemons import OvsDaemons, why_no_ovsdb
from tools import demo_host


class HostCase:
    """Mixed into a test case: starts the daemons once a class, writes each test's nova.conf.

    `guests`, of `demo_host`, and `switch`, arguments of ovs-vsctl, say what is on the host;
    `dedicated` are its CPUs for pinned guests, `shared` those for others, `options` are
    those of [iat] in every test.
    """

    guests = demo_host.GUESTS
    switch = tuple(demo_host.switch_commands())
    dedicated, shared = demo_host.DEDICATED, demo_host.SHARED
    options = {}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if (why := why_no_ovsdb() or TestLibvirtd.missing()) is not None:
            raise unittest.SkipTest(why)
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

    def configure(self, **options):
        """Write a nova.conf; `options` are those of [iat] in this test. Return its path."""
        values = {
            "mode": "enforce",
            "libvirt_uri": self.hypervisor.uri,
            "ovsdb_connection": self.ovs.address,
            "sysfs_root": self.folder / "sys",
            "state_dir": self.state,
            **self.options,
            **options,
        }
        lines = [f"{name} = {value}" for name, value in values.items()]
        sets = {"cpu_dedicated_set": self.dedicated, "cpu_shared_set": self.shared}
        compute = [f"{name} = {cpus}" for name, cpus in sets.items() if cpus]
        path = self.folder / "nova.conf"
        path.write_text("\n".join(["[compute]", *compute, "[iat]", *lines, ""]))
        return path
