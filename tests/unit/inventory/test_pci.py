# SPDX-License-Identifier: Apache-2.0
import pathlib
import tempfile
import unittest

from iat_nova.inventory.host import online_cpus, read_host
from iat_nova.inventory.pci import Pci
from iat_nova.model import Attachment, AttachmentKind, Nic

PF = "0000:3b:00.0"
VF = "0000:3b:02.1"
BOUND = "0000:3b:00.1"  # a NIC that a userspace driver holds
DISK = "0000:5e:00.0"


class Sysfs:
    """A sysfs in a folder, links and all, as the kernel lays it out."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.device(PF, "0x020000", node=1, net="eth0", mbps="25000")
        self.device(VF, "0x020000", node=1, net="eth9", mbps="-1", physfn=PF)
        self.device(BOUND, "0x020000", node=-1)
        self.device(DISK, "0x010802", node=0)
        vdpa = self.path(VF) / "vdpa0/vhost-vdpa/vhost-vdpa-0"
        vdpa.mkdir(parents=True)
        self.link(self.root / "class/vhost-vdpa/vhost-vdpa-0", vdpa)
        (self.root / "devices/virtual/net/tap0").mkdir(parents=True)
        self.link(self.root / "class/net/tap0", self.root / "devices/virtual/net/tap0")
        (self.root / "devices/system/cpu").mkdir(parents=True)
        (self.root / "devices/system/cpu/online").write_text("0-2,5\n")

    def path(self, address):
        return self.root / "devices/pci0000:3a/0000:3a:00.0" / address

    def link(self, name, target):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.symlink_to(target)

    def device(self, address, code, node, net=None, mbps=None, physfn=None):
        path = self.path(address)
        path.mkdir(parents=True)
        (path / "class").write_text(f"{code}\n")
        (path / "numa_node").write_text(f"{node}\n")
        self.link(self.root / "bus/pci/devices" / address, path)
        if physfn:
            (path / "physfn").symlink_to(f"../{physfn}")
        if net:
            (path / "net" / net).mkdir(parents=True)
            (path / "net" / net / "speed").write_text(f"{mbps}\n")
            self.link(self.root / "class/net" / net, path / "net" / net)


class SysfsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Sysfs(folder.name).root
        self.pci = Pci(self.root)

    def locate(self, kind, device):
        found = self.pci.locate(Attachment(kind, device))
        return found.kind, found.pf, found.numa_node

    def test_attachments(self):
        """Each kind is traced to its physical function and its node."""
        kind = AttachmentKind
        cases = [
            (kind.VF, VF, (kind.VF, PF, 1)),
            (kind.PCI, VF, (kind.VF, PF, 1)),
            (kind.PCI, PF, (kind.PF, PF, 1)),
            (kind.PCI, BOUND, (kind.PF, BOUND, None)),
            (kind.PCI, DISK, (kind.PCI, None, 0)),
            (kind.MACVTAP, "eth9", (kind.MACVTAP, PF, 1)),
            (kind.MACVTAP, "eth0", (kind.MACVTAP, PF, 1)),
            (kind.VDPA, "/dev/vhost-vdpa-0", (kind.VDPA, PF, 1)),
            (kind.TAP, "tap0", (kind.TAP, None, None)),
            (kind.VHOST_USER, "vhu1", (kind.VHOST_USER, None, None)),
        ]
        for kind_, device, expected in cases:
            with self.subTest(kind=kind_, device=device):
                self.assertEqual(expected, self.locate(kind_, device))

    def test_absent(self):
        """What sysfs does not know stays unknown and keeps its kind."""
        for kind, device in (
            (AttachmentKind.VF, "0000:ff:00.0"),
            (AttachmentKind.PCI, "0000:ff:00.0"),
            (AttachmentKind.MACVTAP, "gone0"),
            (AttachmentKind.MACVTAP, "tap0"),
            (AttachmentKind.VDPA, "/dev/vhost-vdpa-9"),
        ):
            with self.subTest(device=device):
                self.assertEqual((kind, None, None), self.locate(kind, device))

    def test_nics(self):
        """Physical functions are listed; a link that is down has no speed, a bound NIC no name."""
        expected = (Nic(PF, "eth0", 1, 25.0), Nic(BOUND, None, None, None))
        self.assertEqual(expected, self.pci.nics())

    def test_link_down(self):
        """A link that is down has no speed: the kernel says -1."""
        self.assertIsNone(self.pci.speed_gbps("eth9"))

    def test_no_pci_at_all(self):
        """A machine without PCI has no NICs."""
        self.assertEqual((), Pci(self.root / "nowhere").nics())

    def test_host(self):
        """The host's facts name the CPUs that are online, and the NICs."""
        self.assertEqual((0, 1, 2, 5), online_cpus(self.root))
        host = read_host((), self.root, wall_s=0.0)
        self.assertEqual((0, 1, 2, 5), host.online_cpus)
        self.assertEqual([PF, BOUND], [nic.address for nic in host.nics])

    def test_no_host(self):
        """Without sysfs there is an error, not an empty host."""
        with self.assertRaises(OSError):
            read_host((), self.root / "nowhere", wall_s=0.0)
