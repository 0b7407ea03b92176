# SPDX-License-Identifier: Apache-2.0
"""Ports of the table with what sysfs has behind them, in the domain into which they write."""

import unittest

from iat_nova.hardware.ddio import iordt, irdt
from iat_nova.model import CacheDomain
from tests.unit.hardware import irdt_tables
from tests.unit.hardware.test_ddio import Folder

DOMAINS = tuple(CacheDomain(n, (2 * n, 2 * n + 1), 11, 16, numa_nodes=(n,)) for n in range(2))


class DevicePortsTest(Folder, unittest.TestCase):
    def device(self, address, cpus="0-1", above=""):
        """Make a device in sysfs, below another one if so told."""
        real = self.folder / "devices" / above / address
        real.mkdir(parents=True)
        (real / "local_cpulist").write_text(f"{cpus}\n")
        (self.folder / "pci").mkdir(exist_ok=True)
        (self.folder / "pci" / address).symlink_to(real)
        return real

    def ports(self):
        table = irdt.read(irdt_tables.server())
        found = iordt.assign(table, self.folder / "pci", DOMAINS)
        return [{port.id: port.devices for port in one.device_ports} for one in found]

    def test_what_is_behind(self):
        """Virtual functions, devices below a bridge, and devices that share a channel."""
        nic = self.device("0000:3b:00.0")
        self.device("0000:3b:00.1")
        vf = self.device("0000:3b:02.0")
        (nic / "virtfn0").symlink_to(vf)
        self.device("0000:ae:00.0", "2-3")
        self.device("0000:b0:00.0", "2-3", above="0000:ae:00.0")
        self.device("0000:af:00.0", "2-3")
        self.device("0000:af:00.1", "2-3")
        self.assertEqual(
            [
                {
                    "0000:3b:00.0": ("0000:3b:00.0", "0000:3b:02.0"),
                    "0000:3b:00.1": ("0000:3b:00.1",),
                },
                {
                    "0000:ae:00.0": ("0000:ae:00.0", "0000:b0:00.0"),
                    "0000:af:00.0": ("0000:af:00.0", "0000:af:00.1"),
                },
            ],
            self.ports(),
        )

    def test_devices_that_are_not_there(self):
        """A port is named by the table, whichever of its devices are plugged in."""
        self.device("0000:af:00.1")
        self.assertEqual([{"0000:af:00.0": ("0000:af:00.1",)}, {}], self.ports())

    def test_domains_share_a_class_for_ports(self):
        """Where a domain has ports, each domain keeps a class; a single domain's are its own."""
        self.device("0000:3b:00.0")
        table = irdt.read(irdt_tables.server())
        for domains, shared in ((DOMAINS, [1, 1]), (DOMAINS[:1], [0])):
            found = iordt.assign(table, self.folder / "pci", domains)
            self.assertEqual(shared, [one.shared_port_classes for one in found])
        (self.folder / "pci" / "0000:3b:00.0").unlink()
        found = iordt.assign(table, self.folder / "pci", DOMAINS)
        self.assertEqual([0, 0], [one.shared_port_classes for one in found])
