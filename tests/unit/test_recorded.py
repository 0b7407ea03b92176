# SPDX-License-Identifier: Apache-2.0
"""The readers of sysfs and resctrl on trees that a real kernel made: see tests/data/hosts."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.inventory.pci import Pci
from iat_nova.model import Attachment, AttachmentKind, Nic
from tests import recorded
from tests.unit.hardware import trees

CARD = "0000:41:00.0"  # beneath a root port of node 1
CARD_FOLDER = f"/sys/devices/pci0000:40/0000:40:00.0/{CARD}"


class Recorded(unittest.TestCase):
    def lay(self, name, **options):
        return recorded.lay(name, trees.folder(self), **options)

    def topology(self, root):
        return Topology(root / "sys/devices/system/cpu")

    def test_two_nodes_in_a_socket(self):
        """Each L3 cache has two nodes, with whole lists of CPUs or with lists cut at the node."""
        for name, ways in (("nodes-intel", 11), ("nodes-amd", 16)):
            with self.subTest(name=name):
                root = self.lay(name)
                resctrl = ResctrlFs(root / "sys/fs/resctrl", root / "mounts")
                domains = Resctrl(resctrl, self.topology(root)).domains()
                self.assertEqual(
                    [(0, (0, 1, 2, 3), (0, 1), ways), (1, (4, 5, 6, 7), (2, 3), ways)],
                    [(one.id, one.cpus, one.numa_nodes, one.ways) for one in domains],
                )

    def test_the_kernel_cuts_lists(self):
        """What the tree of AMD is there for: one id, two lists."""
        cache = self.lay("nodes-amd") / "sys/devices/system/cpu/cpu0/cache/index3"
        self.assertEqual(
            ("0-1\n", "0\n"), tuple((cache / n).read_text() for n in ("shared_cpu_list", "id"))
        )

    def test_cards(self):
        """A card on another node; a virtio device has its net device a folder further down."""
        nics = Pci(self.lay("nodes-intel") / "sys").nics()
        expected = (Nic("0000:00:05.0", "eth1", None, None), Nic(CARD, "eth0", 1, 1.0))
        self.assertEqual(expected, nics)

    def test_vdpa(self):
        """A vhost-vdpa node is found beneath its vdpa device: here on the card, as a vDPA NIC's."""
        node = Attachment(AttachmentKind.VDPA, "/dev/vhost-vdpa-0")
        in_software = Pci(self.lay("nodes-intel") / "sys").locate(node)
        self.assertEqual((None, None), (in_software.pf, in_software.numa_node))
        moved = (
            ("/sys/devices/virtual/vduse/vduse0/vduse0", f"{CARD_FOLDER}/vduse0"),
            ("../../../devices/virtual/vduse/vduse0/vduse0", f"../../..{CARD_FOLDER[4:]}/vduse0"),
        )
        on_card = Pci(self.lay("nodes-intel", moved=moved) / "sys").locate(node)
        self.assertEqual((CARD, 1), (on_card.pf, on_card.numa_node))

    def test_switchdev(self):
        """Of ports and representors in one folder the ports are the card's, in their order."""
        root = self.lay("switchdev")
        card = root / "sys/bus/pci/devices/0000:03:00.0"
        card.symlink_to("../../../devices/netdevsim10")  # which is on no PCI bus
        self.assertEqual(("eth0", "eth1"), Pci(root / "sys").net_names(card.name))
        self.assertEqual(4, len(list((card / "net").iterdir())))

    def test_this_machine(self):
        """The recorder writes what these tests read, on any machine."""
        tool = Path(__file__).resolve().parents[2] / "tools/record-host"
        said = subprocess.run(
            [sys.executable, tool], check=True, capture_output=True, text=True, timeout=60
        )
        lines = said.stdout.splitlines()
        self.assertRegex(lines[0], "^# Linux ")
        self.assertIn("/sys/devices/system/cpu/online = ", said.stdout)
        wrong = [
            line for line in lines[1:] if not re.fullmatch(r"/\S+ (= .*|=|-> \S+|! .+|/)", line)
        ]
        self.assertEqual([], wrong)
