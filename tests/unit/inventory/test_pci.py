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
        (self.path(VF) / "vdpa0/vhost-vdpa-0").mkdir(parents=True)
        self.link(self.root / "bus/vdpa/devices/vdpa0", self.path(VF) / "vdpa0")
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
            self.net(address, net, mbps)

    def net(self, address, name, mbps, **files):
        path = self.path(address) / "net" / name
        path.mkdir(parents=True)
        for file, text in {"speed": mbps, **files}.items():
            (path / file).write_text(f"{text}\n")
        self.link(self.root / "class/net" / name, path)


class SysfsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.sysfs = Sysfs(folder.name)
        self.root = self.sysfs.root
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

    def test_no_speed(self):
        """The kernel has numbers that mean an unknown speed, a link that is down among them."""
        for text, expected in (
            ("-1", None), ("0", None), ("65535", None), ("4294967295", None), ("", None),
            ("65534", 65.534), ("400000", 400.0),
        ):  # fmt: skip
            with self.subTest(text=text):
                (self.root / "class/net/eth0/speed").write_text(f"{text}\n")
                self.assertEqual(expected, self.pci.speed_gbps("eth0"))

    def test_representors(self):
        """With switchdev the card's own port is the one taken, whatever the names are."""
        for name, port in (("a0", "pf0vf0"), ("a1", "pf0sf88"), ("z0", "p0"), ("a2", "c1pf0")):
            mbps = 100000 if port == "p0" else 10000
            self.sysfs.net(BOUND, name, mbps, phys_port_name=port, dev_port=0)
        self.assertEqual(Nic(BOUND, "z0", None, 100.0), self.pci.nics()[1])
        (self.root / "class/net/z0/phys_port_name").unlink()
        self.assertEqual(("z0",), self.pci.net_names(BOUND))

    def test_several_ports(self):
        """Ports behind one PCI address carry traffic together; the first gives the name."""
        for name, port, mbps in (("a", 1, "40000"), ("b", 0, "40000"), ("c", 2, "-1")):
            self.sysfs.net(BOUND, name, mbps, dev_port=port)
        self.assertEqual(Nic(BOUND, "b", None, 80.0), self.pci.nics()[1])

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
