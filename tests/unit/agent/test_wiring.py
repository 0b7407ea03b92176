# SPDX-License-Identifier: Apache-2.0
"""One agent a state directory, and a start that says why it cannot be."""

import dataclasses
import pathlib
import shutil
import tempfile
import unittest

from iat_nova import conf
from iat_nova.agent import wiring
from iat_nova.enforcement.snapshot import Guard
from iat_nova.hardware.resctrl import Resctrl
from iat_nova.hardware.rollback import AllReachable
from iat_nova.hardware.shape import INDEX
from iat_nova.model import WayMask
from tests.unit.hardware import trees


class HostReaderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = trees.folder(self)
        self.cpus = trees.Cpus(folder / "devices/system/cpu")
        self.tree = trees.KernelTree(folder / "resctrl", self.cpus)
        (folder / "bus/pci/devices").mkdir(parents=True)
        for cpu in (2, 3):
            self.tree.unplug(cpu)
        settings = dataclasses.replace(conf.load([]), sysfs_root=folder)
        masks = iter((WayMask(0x600), WayMask(0x700), WayMask(0x7C0)))
        allocator = Resctrl(
            self.tree,
            self.cpus.topology,
            complete=lambda domain: dataclasses.replace(domain, ddio_found=next(masks)),
        )
        self.read = wiring.host_reader(settings, allocator)

    def test_processors_that_come_later(self) -> None:
        """Whoever was off-line at the start is in the domain once it is on-line."""
        self.assertEqual((0, 1), self.read().domains[0].cpus)
        self.tree.plug(2)
        host = self.read()
        self.assertEqual(((0, 1, 2),) * 2, (host.domains[0].cpus, host.online_cpus))
        self.assertEqual(0x600, host.domains[0].ddio_found)  # not what an agent made of it

    def test_domains_that_cannot_be_read(self) -> None:
        """Later that is no end: it is an error of the facts, like any other of them."""
        shutil.rmtree(self.tree.root)
        with self.assertRaisesRegex(OSError, "no L3 cache allocation there"):
            self.read()


class SavedFirstTest(unittest.TestCase):
    def test_a_snapshot_before_counters_are_set_up(self) -> None:
        """Also for processors that come, and after a restore, which takes the snapshot away."""
        done: list[str] = []

        class Part(AllReachable):
            shape = staticmethod(INDEX)

            def save(self) -> int:
                done.append("saved")
                return 0

            def restore(self, saved: int) -> tuple[str, ...]:
                return ()

        class Counters:
            read = close = staticmethod(tuple)

            def watch(self, cpus: object) -> None:
                done.append("watched")

        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        boot = folder / "boot_id"
        boot.write_text("this boot")
        keeper = Guard(
            {"counters": Part()}, snapshot=folder / "s.json", lock=folder / "lock", boot_id=boot
        )
        counters = wiring._SavedFirst(Counters(), keeper)
        counters.watch((0,))
        counters.watch((0,))
        counters.watch((0, 1))
        keeper.restore()
        counters.watch((0,))
        first, more = ["saved", "watched", "watched"], ["saved", "watched"]
        self.assertEqual([*first, *more, *more], done)
        self.assertTrue(keeper.pending)
