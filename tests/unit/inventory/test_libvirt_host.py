# SPDX-License-Identifier: Apache-2.0
import dataclasses
import pathlib
import tempfile
import unittest

from iat_nova.inventory import libvirt_host
from iat_nova.inventory.libvirt_host import ThisHost

UUID = "07c6debd-2d1c-450f-b7ca-9ace86f90bbe"
OTHER_UUID = "17c6debd-2d1c-450f-b7ca-9ace86f90bbe"
HERE = ThisHost("compute-1.example.org", 4, UUID.upper())


@dataclasses.dataclass
class Connection:
    """What libvirt tells of the host that a connection leads to."""

    driver: str = "QEMU"
    cpus: int = 4
    name: str = "compute-1"
    uuid: str = UUID

    def getType(self):
        return self.driver

    def getCPUMap(self):
        return self.cpus, [True] * self.cpus, self.cpus

    def getHostname(self):
        return self.name

    def getCapabilities(self):
        return f"<capabilities><host><uuid>{self.uuid}</uuid></host></capabilities>"


LOCAL, REMOTE = "qemu:///system", "qemu+ssh://root@{}/system"


class ElsewhereTest(unittest.TestCase):
    def test_this_host(self):
        """One difference that containers and configurations make is no other host."""
        cases = {
            "the same": (Connection(), LOCAL),
            "libvirtd in a container": (Connection(name="libvirt-x7f2"), LOCAL),
            "host_uuid in libvirtd.conf": (Connection(uuid=OTHER_UUID), LOCAL),
            "by its own name": (Connection(), REMOTE.format("compute-1")),
            "by loopback": (Connection(name="pod"), REMOTE.format("127.0.0.1:22")),
            "by loopback, IPv6": (Connection(name="pod"), REMOTE.format("[::1]")),
            "libvirt's test driver": (Connection("Test", 16, "x", OTHER_UUID), "test:///default"),
        }
        for name, (connection, uri) in cases.items():
            with self.subTest(name):
                self.assertIsNone(libvirt_host.elsewhere(connection, uri, HERE))

    def test_nothing_known_of_this_host(self):
        """Then nothing is refused."""
        here = ThisHost("compute-1", None, None)
        self.assertIsNone(libvirt_host.elsewhere(Connection(cpus=9, name="x"), LOCAL, here))

    def test_another_host(self):
        """Each reason names both sides and the remedy."""
        cases = {
            "5 CPUs there, 4 here": (Connection(cpus=5), LOCAL),
            "'compute-2' there, 'compute-1.example.org' here": (
                Connection(name="compute-2"),
                REMOTE.format("10.0.0.2"),
            ),
            f"UUID {OTHER_UUID} there, {UUID} here": (  # a forwarded socket
                Connection(name="compute-2", uuid=OTHER_UUID),
                "qemu+unix:///system?socket=/tmp/forwarded",
            ),
        }
        for expected, (connection, uri) in cases.items():
            with self.subTest(expected):
                reason = libvirt_host.elsewhere(connection, uri, HERE)
                self.assertIn(expected, reason)
                self.assertIn("set [iat] libvirt_uri", reason)


class ThisHostTest(unittest.TestCase):
    def test_reads_sysfs(self):
        """Present CPUs count, online or not; what cannot be read is unknown."""
        root = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        unknown = libvirt_host.this_host(root)
        self.assertEqual((None, None), (unknown.cpus, unknown.uuid))
        for path, text in {
            "devices/system/cpu/present": "0-3,6\n",
            "class/dmi/id/product_uuid": f"{UUID}\n",
        }.items():
            (root / path).parent.mkdir(parents=True)
            (root / path).write_text(text)
        found = libvirt_host.this_host(root)
        self.assertEqual((7, UUID), (found.cpus, found.uuid))
        (root / "devices/system/cpu/present").write_text("none\n")
        self.assertIsNone(libvirt_host.this_host(root).cpus)
