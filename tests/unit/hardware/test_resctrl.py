# SPDX-License-Identifier: Apache-2.0
import dataclasses
import errno
import fcntl
import json
import os
import shutil
import unittest
from unittest import mock

from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    ClassMask,
    DomainOffline,
    ForeignHand,
    HardwareError,
)
from iat_nova.hardware.cat import limits, resctrl_fs
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import PREFIX, ResctrlFs
from iat_nova.model import BandwidthControl, WayMask, message
from tests.said import raises, sentence
from tests.unit.hardware import contract, trees


def limit_changed(domain, limit, wrote):
    """Return that another program wrote a limit of the first group."""
    return message(
        "group-limit-changed", group=f"{PREFIX}1", domain=domain, limit=limit, wrote=wrote
    )


class Tree:
    """Gives a test case a machine of two sockets in a temporary folder."""

    tree_options = {}
    cpu_options = {"packages": ((0, 1, 2, 3), (4, 5, 6, 7)), "l3_ids": (0, 1)}
    coupled = True

    def setUp(self):
        self.folder = trees.folder(self)
        self.cpus = trees.Cpus(self.folder / "cpu", **self.cpu_options)
        self.tree = trees.KernelTree(self.folder / "resctrl", self.cpus, **self.tree_options)
        self.found = self.tree.state()
        super().setUp()

    def make(self):
        return Resctrl(self.tree, self.cpus.topology, coupled=self.coupled)

    def class_of(self, cpu):
        return self.tree.group_of(cpu)

    def groups(self):
        return tuple(name for name in self.tree.groups() if name.startswith(PREFIX))


class SkylakeTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """Two sockets of 11 ways; MBA leaves 8 classes."""


class SparseTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """One domain with id 3, masks with gaps, no MBA, 16 classes."""

    tree_options = {"sparse": True, "mba_closids": None}
    cpu_options = {"packages": ((0, 1, 2, 3),), "l3_ids": (3,)}
    coupled = False


class AmdTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """Limits of memory bandwidth in eighths of a GB/s."""

    tree_options = {"ways": 16, "sparse": True}
    coupled = False

    def make(self):
        self.tree.be_amd()
        return super().make()


class HaswellTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """20 ways, four classes, at least two bits."""

    tree_options = {"ways": 20, "closids": 4, "mba_closids": None, "min_bits": 2}
    coupled = False


class OddIdsTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """Cache domains whose numbers are neither from 0 nor without gaps."""

    cpu_options = {"packages": ((0, 1, 2, 3), (4, 5, 6, 7)), "l3_ids": (4, 9)}


class MpamTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """Arm: memory bandwidth by NUMA node, some without CPUs."""

    cpu_options = {"packages": ((0, 1, 2, 3), (4, 5, 6, 7)), "l3_ids": (1, 2)}
    tree_options = {"mb_ids": (0, 1, 2, 10)}
    nodes = (0, 1, 2, 3), (4, 5, 6, 7)
    coupled = False

    def make(self):
        if not (self.cpus.root / "cpu0/node0").exists():
            self.cpus.put_nodes(*self.nodes)
        return super().make()

    def test_limits_are_the_nodes(self):
        """A limit is written, read back, renewed and watched at the node of the cache."""
        allocator = self.make()
        self.assertIsNotNone(allocator.domains()[0].bandwidth)
        limited = ClassMask("a", (3,), WayMask(3), 20)
        allocator.apply(1, (limited,))
        self.assertEqual("0=20;1=100;2=100;10=100", self.shown())
        self.assertEqual({"a": 20}, allocator.bandwidth(1))
        self.tree.write("schemata", "MB:1=70\n")
        self.assertEqual((), allocator.inspect())
        self.assertEqual("0=20;1=70;2=100;10=100", self.shown())
        self.tree.write(f"{PREFIX}1/schemata", "MB:0=30\n")
        self.assertEqual((limit_changed(0, 30, 20),), allocator.inspect(1))
        self.assertEqual((), allocator.inspect(2))

    def test_no_limits(self):
        """None where a node has several caches, or a cache several nodes, or no line says which."""
        for nodes, ids, limited in (
            ((range(8),), (0, 1, 2), []),
            ((range(2), (2, 3), range(4, 8)), (0, 1, 2), [2]),
            (((4, 5, 6, 7), (0, 1, 2, 3)), (0, 1), [1, 2]),
            (((), (4, 5, 6, 7), (0, 1, 2, 3)), (1, 2), []),  # of caches, or of the other node
            ((range(8),), (1, 2), [1, 2]),
            ((), (0, 1), []),
        ):
            with self.subTest(nodes=nodes, ids=ids):
                self.setUp()
                self.nodes, self.tree.mb_ids = nodes, ids
                self.tree._domains()
                for node in self.cpus.root.glob("cpu*/node*"):
                    node.rmdir()
                domains = self.make().domains()
                found = [one.id for one in domains if one.bandwidth is not None]
                self.assertEqual(limited, found)

    def shown(self):
        return self.tree.other_lines(f"{PREFIX}1")["MB"]


class CdpTree(Tree, contract.AllocatorContract, unittest.TestCase):
    """Code and data prioritisation halves the classes; both masks are ours."""

    tree_options = {"cdp": True, "mba_closids": None}

    def test_io_alloc_takes_a_class(self):
        """The highest class is the devices' also where code and data are apart."""
        before = self.allocator.domains()[0].classes
        for resource in ("L3CODE", "L3DATA"):
            self.tree._put(f"info/{resource}/io_alloc", "enabled")
        self.assertEqual(before - 1, self.allocator.domains()[0].classes)

    def test_code_and_data_get_the_same(self):
        """A class has its mask for code and for data."""
        self.apply(*self.classes(a=WayMask(0x3)))
        text = self.tree.read(f"{PREFIX}1/schemata")
        self.assertIn("L3CODE:0=3;1=7ff", text)
        self.assertIn("L3DATA:0=3;1=7ff", text)

    def test_a_default_class_whose_code_and_data_differ(self):
        """Both get the mask wanted, and each its own when the class is given up."""
        self.tree.write("schemata", "L3DATA:0=3f\n")
        self.apply(ClassMask(DEFAULT_CLASS, (), WayMask(0x7FF)))
        self.assertIn("L3DATA:0=7ff", self.tree.read("schemata"))
        self.assertEqual((), self.allocator.inspect())
        self.apply(ClassMask(DEFAULT_CLASS, (), WayMask(0x7)))
        self.apply()
        self.assertIn("L3CODE:0=7ff", self.tree.read("schemata"))
        self.assertIn("L3DATA:0=3f", self.tree.read("schemata"))

    def test_two_registers_a_class(self):
        """The mask read back is that of the register for data, twice the class's number."""
        self.tree.debug = True
        allocator = Resctrl(
            self.tree, self.cpus.topology, read_register=lambda _cpu, number: WayMask(1 << number)
        )
        masks = allocator.apply(0, tuple(ClassMask(n, (), WayMask(0x3)) for n in "ab"))
        self.assertEqual({"a": 1 << 2, "b": 1 << 4}, masks)


class Applying(Tree, unittest.TestCase):
    """A test case with an allocator on the tree."""

    def setUp(self):
        super().setUp()
        self.allocator = self.make()

    def apply(self, domain=0, **classes):
        """Each class: (CPUs, mask)."""
        return self.allocator.apply(
            domain,
            tuple(
                ClassMask(name, tuple(cpus), WayMask(mask))
                for name, (cpus, mask) in classes.items()
            ),
        )


class Resctrls(Applying):
    """What is particular to resctrl."""

    def test_a_domain_online_after_the_saving(self):
        """The default group's mask there could not be restored: nothing is written there."""
        for cpu in (4, 5, 6, 7):
            self.tree.unplug(cpu)
        self.allocator.save()
        for cpu in (4, 5, 6, 7):
            self.tree.plug(cpu)
        with self.assertRaises(DomainOffline):
            self.apply(1, **{DEFAULT_CLASS: ((), 0x3F)})
        self.assertEqual(self.found, self.tree.state())
        self.allocator.save()
        self.assertEqual({DEFAULT_CLASS: 0x3F}, self.apply(1, **{DEFAULT_CLASS: ((), 0x3F)}))

    def test_a_mask_of_the_default_group_that_is_refused(self):
        """CPUs do not fall back to the few ways that the agent left there: they stay in groups."""
        saved = json.loads(json.dumps(self.allocator.save()))
        classes = {DEFAULT_CLASS: ((), 0x3)}
        self.apply(0, **classes, a=((0, 1), 0x3C), b=((2,), 0x3C0))
        self.apply(1, **classes, a=((4,), 0x3C))
        write = self.tree.write

        def refuse(name, text):
            if name == "schemata" and "L3:0=" in text:
                raise OSError(errno.EINVAL, "overlaps with exclusive group")
            write(name, text)

        with mock.patch.object(self.tree, "write", refuse):
            for _ in range(2):
                with raises(self, HardwareError, "overlaps with exclusive group"):
                    self.make().restore(saved)
        left = {cpu: self.tree.group_of(cpu) for cpu in (0, 1, 2, 4)}
        self.assertEqual({0: f"{PREFIX}1", 1: f"{PREFIX}1", 2: f"{PREFIX}2", 4: None}, left)
        self.assertEqual(0x7FF, self.tree.masks("", "L3")[1])
        self.make().restore(saved)
        self.assertEqual(self.found, self.tree.state())

    def test_groups_serve_all_domains(self):
        """Classes of two domains share groups: as many as the fuller domain needs."""
        self.apply(0, a=((0,), 0x3), b=((1,), 0xC))
        self.apply(1, x=((4,), 0x30), y=((5,), 0xC0), z=((6,), 0x300))
        self.assertEqual(3, len(self.groups()))
        self.assertEqual("0,4", self.tree.cpus_list(f"{PREFIX}1"))
        self.assertIn("L3:0=3;1=30", self.tree.read(f"{PREFIX}1/schemata"))

    def test_only_changes_are_written(self):
        """The same classes again write nothing; a moved mask writes one file."""
        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        self.tree.changes.clear()
        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        self.assertEqual([], self.tree.changes)
        self.apply(a=((0, 1), 0x3), b=((2,), 0x1C))
        self.assertEqual([f"write {PREFIX}2/schemata L3:0=1c"], self.tree.changes)

    def test_a_class_keeps_its_group(self):
        """When a class goes, the others stay where they are."""
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        group = self.class_of(1)
        self.apply(b=((1,), 0xC))
        self.assertEqual(group, self.class_of(1))
        self.assertEqual((group,), self.groups())

    def test_every_failing_step_is_undone(self):
        """Whichever change the kernel refuses, everything is as before, and works afterwards."""
        start = {"a": ((0, 1), 0x3), "b": ((2,), 0xC), "c": ((3,), 0x30)}
        goal = {"b": ((0, 2), 0x7), "d": ((1,), 0xC0), DEFAULT_CLASS: ((3,), 0x700)}
        self.apply(1, x=((4,), 0x3))
        failures = 0
        for step in range(1, 100):
            self.apply(**start)
            before, had = self.tree.state(), dict(self.allocator.effective(0))
            self.tree.fail_at, done = step, len(self.tree.changes)
            try:
                self.apply(**goal)
            except HardwareError as error:
                failures += 1
                self.assertIn("Input/output error", str(error))
                self.tree.fail_at = None
                self.assertEqual(before, self.tree.state(), f"step {step}")
                self.assertEqual(had, self.allocator.effective(0))
            else:
                steps = len(self.tree.changes) - done
                break
        self.assertEqual(steps, failures)
        self.assertGreaterEqual(steps, 6)
        self.assertEqual({"b": 0x7, "d": 0xC0, DEFAULT_CLASS: 0x700}, self.allocator.effective(0))

    def test_a_failing_undo_says_so(self):
        """When undoing fails as well the text says both and what to do."""
        self.apply(a=((0,), 0x3))
        self.tree.fail_at, self.tree.dead = 2, True
        with raises(self, HardwareError, "undoing it failed too.*iat-nova restore"):
            self.apply(a=((0,), 0x7), b=((1,), 0x38), c=((2,), 0x1C0))

    def test_the_kernels_words(self):
        """A refusal carries the file, what was written and what last_cmd_status says."""
        self.tree.mkdir("foreign")
        self.tree.write("foreign/schemata", "L3:0=f0\n")
        self.allocator.domains()
        self.tree.write("foreign/mode", "exclusive")  # after we looked
        with raises(self, HardwareError, r"schemata: L3:0=30: refused; the kernel says: Overlaps"):
            self.apply(a=((0,), 0x30))
        self.assertEqual((), self.groups())

    def test_exclusive_ways_are_reserved(self):
        """Ways of exclusive and pseudo-locked groups are not ours to give."""
        self.tree.mkdir("locked")
        self.tree.write("locked/schemata", "L3:0=3;1=c\n")
        self.tree.write("locked/mode", "pseudo-locked")
        domains = self.allocator.domains()
        self.assertEqual([0x3, 0xC], [domain.reserved_ways for domain in domains])
        with raises(self, HardwareError, "reserved ways 0x3"):
            self.apply(a=((0,), 0x6))

    def test_foreign_groups_take_classes(self):
        """Each foreign control group costs a class; a monitoring group does not."""
        (self.tree.root / "mon_groups/watcher").mkdir()
        self.assertEqual(8, self.allocator.domains()[0].classes)
        self.tree.mkdir("qemu-1-instance-vcpus_0-1")
        self.assertEqual(7, self.allocator.domains()[0].classes)
        self.assertEqual(("qemu-1-instance-vcpus_0-1",), self.allocator.foreign_groups())

    def test_foreign_processors_are_left_alone(self):
        """A CPU in somebody else's group is refused with the group's name."""
        self.tree.mkdir("theirs")
        self.tree.write("theirs/cpus_list", "2-3")
        self.allocator.domains()
        with raises(self, HardwareError, "theirs: CPUs 2 are in this group"):
            self.apply(a=((1, 2), 0x3))
        self.assertEqual("theirs", self.class_of(2))

    def test_out_of_rmids(self):
        """The kernel's words in one line, and what to do about them."""

        def out_of_rmids(name):
            raise self.tree._refuse(errno.ENOSPC, "Out of RMIDs\nmkdir failed")

        with (
            mock.patch.object(self.tree, "mkdir", out_of_rmids),
            self.assertRaises(HardwareError) as caught,
        ):
            self.apply(a=((0,), 0x3))
        text = "the kernel says: Out of RMIDs, mkdir failed; remove monitoring groups that nobody"
        self.assertIn(text, sentence(caught.exception))

    def test_a_group_that_exists(self):
        """A group left behind by a killed agent is never adopted."""
        self.tree.mkdir(f"{PREFIX}1")
        with raises(self, HardwareError, "File exists"):
            self.apply(a=((0,), 0x3))

    def test_groups_of_a_domain_that_is_gone(self):
        """What the last agent left there cannot be read back: none of its groups is adopted."""
        self.apply(0, a=((0,), 0x3))
        self.apply(1, x=((4,), 0x30))
        for cpu in (4, 5, 6, 7):
            self.tree.unplug(cpu)
        after, before = self.make(), self.tree.state()
        with self.assertRaises(HardwareError) as caught:
            after.adopt(self.allocator.memory)
        self.assertEqual(message("groups-of-absent-domains"), caught.exception.message)
        self.assertEqual(({}, before), (after.memory.classes, self.tree.state()))

    def test_io_alloc_takes_a_class(self):
        """Devices with io_alloc hold the highest class."""
        (self.tree.root / "info/L3/io_alloc").write_text("enabled\n")
        self.assertEqual(7, self.allocator.domains()[0].classes)

    def test_the_register_is_the_truth(self):
        """With the class's number from a debug mount, effective masks come from its register."""
        self.tree.debug = True
        seen = []

        def read_register(cpu, number):
            seen.append((cpu, number))
            return WayMask(0x703)

        allocator = Resctrl(self.tree, self.cpus.topology, read_register=read_register)
        masks = allocator.apply(1, (ClassMask("a", (4,), WayMask(0x3)),))
        self.assertEqual({"a": 0x703}, masks)
        self.assertEqual([(4, 1)], seen)
        for cpu in (4, 5, 6, 7):
            self.cpus.unplug(cpu)
        with self.assertRaises(DomainOffline):  # although resctrl showed it a moment ago
            allocator.effective(1)

    def test_unplugged_while_written(self):
        """A CPU that goes in the midst of it is left out, and joins when it is back."""
        self.apply(a=((0,), 0x3))
        write = self.tree.write

        def unplug_first(name, text):
            if name.endswith("cpus_list"):
                self.tree.write = write
                self.tree.unplug(1)
            write(name, text)

        self.tree.write = unplug_first
        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        self.assertEqual(["0", "2"], [self.tree.cpus_list(f"{PREFIX}{n}") for n in (1, 2)])
        self.tree.plug(1)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual("0-1", self.tree.cpus_list(f"{PREFIX}1"))

    def test_unplugged_before_an_undo(self):
        """What goes before a refusal does not stand against undoing what was done."""
        self.apply(a=((0, 1), 0x3))
        rmdir = self.tree.rmdir

        def refuse(_name):
            self.tree.unplug(1)
            self.tree.rmdir = rmdir
            raise OSError(errno.EBUSY, "Device or resource busy")

        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        self.tree.rmdir = refuse
        self.apply(a=((0, 1, 2), 0x3))
        self.assertEqual("0,2", self.tree.cpus_list(f"{PREFIX}1"))
        self.assertEqual((f"{PREFIX}1",), self.groups())

    def test_a_refusal_stays_one(self):
        """Nothing is tried again where no CPU came or went."""
        self.tree.fail_at = 1
        with raises(self, HardwareError, "Input/output error"):
            self.apply(a=((0,), 0x3))

    def test_way_bytes(self):
        """A way's size is the cache's divided by the ways."""
        self.assertEqual(22528 * 1024 // 11, self.allocator.domains()[0].way_bytes)

    def test_not_mounted(self):
        """Without the file system the text says how to mount it."""
        empty = ResctrlFs(self.folder)
        with raises(self, HardwareError, "no L3 cache allocation there"):
            Resctrl(empty, self.cpus.topology).domains()

    def test_the_lock_is_shared(self):
        """While another program holds the lock nothing is written; the text tells how to see it."""
        holder = os.open(self.tree.root, os.O_RDONLY)
        self.addCleanup(os.close, holder)
        fcntl.flock(holder, fcntl.LOCK_EX)
        with (
            mock.patch.object(resctrl_fs, "_LOCK_DEADLINE_S", 0.0),
            raises(self, HardwareError, "lslocks"),
        ):
            self.apply(a=((0,), 0x3))
        self.assertEqual(self.found, self.tree.state())
        fcntl.flock(holder, fcntl.LOCK_UN)
        self.apply(a=((0,), 0x3))


class Watching(Applying):
    """Other hands, and CPUs that come and go."""

    def inspect(self):
        return self.allocator.inspect()

    def changed(self, domain, mask, wrote):
        """Return that another program wrote a mask of the first group."""
        return message(
            "group-mask-changed",
            group=f"{PREFIX}1",
            resource="L3",
            domain=domain,
            mask=mask,
            wrote=wrote,
        )

    def test_nothing_happened(self):
        """Our own state is no foreign change, whatever is applied."""
        self.assertEqual((), self.inspect())
        self.apply(a=((0,), 0x3), b=((), 0xC))
        self.apply(1, c=((4, 5), 0x400))
        self.tree.changes.clear()
        self.assertEqual(((), []), (self.inspect(), self.tree.changes))

    def test_a_foreign_mask(self):
        """A mask somebody else wrote is told with both values, and left."""
        self.apply(a=((0,), 0x3))
        self.tree.write(f"{PREFIX}1/schemata", "L3:0=7\n")
        self.assertEqual((self.changed(0, 0x7, 0x3),), self.inspect())
        self.assertIn("L3:0=7", self.tree.read(f"{PREFIX}1/schemata"))

    def test_a_change_counts_if_seen_twice(self):
        """A single reading may have met a CPU that goes or comes; nothing is written either way."""
        seen = [(self.changed(0, 0x7, 0x3),), ()]
        limits.check_unchanged(lambda: seen.pop(0))
        self.assertEqual([], seen)
        with raises(self, ForeignHand, "is 0x7, the agent wrote 0x3"):
            limits.check_unchanged(lambda: (self.changed(0, 0x7, 0x3),))

    def test_a_foreign_default_mask(self):
        """The default group counts once we have written it."""
        self.tree.write("schemata", "L3:0=7\n")
        self.assertEqual((), self.inspect())
        self.apply(**{DEFAULT_CLASS: ((), 0x3)})
        self.tree.write("schemata", "L3:0=7\n")
        self.assertEqual(1, len(self.inspect()))

    def test_a_foreign_register(self):
        """A register that another tool wrote is told where it can be read."""
        self.tree.debug = True
        registers = {}
        self.allocator = Resctrl(
            self.tree,
            self.cpus.topology,
            read_register=lambda _cpu, number: registers.get(number, WayMask(0x703)),
        )
        self.apply(a=((0,), 0x3))
        self.assertEqual((), self.inspect())
        registers[1] = WayMask(0x7FF)
        self.assertEqual(
            (
                message(
                    "group-register-changed", group=f"{PREFIX}1", domain=0, mask=0x7FF, left=0x703
                ),
            ),
            self.inspect(),
        )

    def test_a_group_removed(self):
        """A group of ours that somebody removed is told."""
        self.apply(a=((0,), 0x3))
        self.tree.rmdir(f"{PREFIX}1")
        self.assertEqual((message("group-removed", group=f"{PREFIX}1"),), self.inspect())

    def test_processors_moved(self):
        """A CPU somebody took out of, or put into, a group of ours is told."""
        self.apply(a=((0, 1), 0x3))
        self.tree.write(f"{PREFIX}1/cpus_list", "1-2")
        self.assertEqual(
            (message("group-cpus-moved", group=f"{PREFIX}1", cpus="0,2"),), self.inspect()
        )

    def test_unplugged_and_plugged(self):
        """A CPU that went and came back is put back, once."""
        self.apply(a=((0, 1), 0x3))
        self.tree.unplug(1)
        self.tree.changes.clear()
        self.assertEqual(((), []), (self.inspect(), self.tree.changes))
        self.tree.plug(1)
        self.assertIsNone(self.class_of(1))
        self.assertEqual((), self.inspect())
        self.assertEqual(f"{PREFIX}1", self.class_of(1))
        self.tree.changes.clear()
        self.assertEqual(((), []), (self.inspect(), self.tree.changes))

    def test_plugged_between_two_looks(self):
        """It is known from a foreign change even when the absence was not seen."""
        self.apply(a=((0, 1), 0x3))
        self.tree.unplug(1)
        self.tree.plug(1)
        self.assertEqual((), self.inspect())
        self.assertEqual(f"{PREFIX}1", self.class_of(1))

    def test_offline_when_applied(self):
        """A CPU that is offline when its class is applied joins when it comes."""
        self.allocator.domains()
        self.tree.unplug(1)
        self.assertIn(1, self.allocator.domains()[0].cpus)
        self.apply(a=((0, 1), 0x3))
        self.assertEqual("0", self.tree.cpus_list(f"{PREFIX}1"))
        self.tree.plug(1)
        self.assertEqual((), self.inspect())
        self.assertEqual("0-1", self.tree.cpus_list(f"{PREFIX}1"))

    def test_nodes(self):
        """A domain has the NUMA nodes of its socket, of CPUs that are offline meanwhile too."""
        self.cpus.put_nodes([0, 1], [4, 5], [2, 3], [6, 7])
        expected = [(0, 2), (1, 3)]
        self.assertEqual(expected, [one.numa_nodes for one in self.allocator.domains()])
        for cpu in (2, 3):
            self.cpus.unplug(cpu)
        self.assertEqual(expected, [one.numa_nodes for one in self.allocator.domains()])

    def test_offline_at_the_start(self):
        """CPUs, and a socket, that come later are taken in."""
        for cpu in (2, 3, 4, 5, 6, 7):
            self.tree.unplug(cpu)
        self.assertEqual([(0, 1)], [domain.cpus for domain in self.allocator.domains()])
        for cpu in (2, 6):
            self.tree.plug(cpu)
        domains = self.allocator.domains()
        self.assertEqual([(0, 1, 2), (6,)], [domain.cpus for domain in domains])
        self.apply(a=((2,), 0x3))
        self.apply(1, b=((6,), 0xC))
        self.assertEqual("2,6", self.tree.cpus_list(f"{PREFIX}1"))

    def test_a_socket_goes_and_comes(self):
        """It can be neither read nor written meanwhile, and gets its masks at its return."""
        self.apply(a=((0,), 0x3))
        self.apply(1, b=((4,), 0xC), c=((5,), 0x30), **{DEFAULT_CLASS: ((), 0x7C0)})
        self.allocator.domains()
        for cpu in (4, 5, 6, 7):
            self.tree.unplug(cpu)
        self.assertEqual(2, len(self.allocator.domains()))
        self.tree.changes.clear()
        self.assertEqual(((), []), (self.inspect(), self.tree.changes))
        text = "^cache domain 1: none of its CPUs is online$"
        before = self.tree.state()
        with raises(self, DomainOffline, text):
            self.allocator.effective(1)
        with raises(self, DomainOffline, text):
            self.apply(1, b=((4,), 0x3), d=((6,), 0x30), e=((7,), 0x1))
        self.assertEqual(before, self.tree.state())
        self.apply(a=((0,), 0x7), f=((1,), 0x18))
        for cpu in (4, 5):
            self.tree.plug(cpu)
        self.assertEqual((), self.inspect())
        groups = [f"{PREFIX}1", f"{PREFIX}2"]
        self.assertEqual(groups, [self.class_of(cpu) for cpu in (4, 5)])
        self.assertEqual({"b": 0xC, "c": 0x30, DEFAULT_CLASS: 0x7C0}, self.allocator.effective(1))
        self.tree.write(f"{PREFIX}1/schemata", "L3:1=7\n")
        self.assertEqual((self.changed(1, 0x7, 0xC),), self.inspect())

    def test_a_socket_goes_and_comes_during_a_look(self):
        """Whichever step of the look that is at: its masks are ours again, nobody is blamed."""
        cpus = (4, 5, 6, 7)
        groups = self.allocator._groups
        steps = [(self.allocator, one) for one in ("_renew_masks", "_follow_default")]
        steps += [
            (self.allocator, "_foreign_masks"),
            (groups, "inspect_cpus"),
            (groups, "latecomers"),
        ]
        for owner, name in steps:
            with self.subTest(name):
                self.allocator.apply(1, (ClassMask("a", (4, 5), WayMask(0x3)),))
                step = getattr(owner, name)

                def between(*arguments, owner=owner, name=name, step=step):
                    setattr(owner, name, step)
                    for change in (self.tree.unplug, self.tree.plug):
                        for cpu in cpus:
                            change(cpu)
                    return step(*arguments)

                setattr(owner, name, between)
                for _ in range(2):
                    self.assertEqual((), self.allocator.inspect())
                self.assertEqual({"a": 0x3}, dict(self.allocator.effective(1)))
                self.assertEqual("4-5", self.tree.cpus_list("iat-nova.1"))

    def test_a_cpu_goes_and_comes_after_a_write(self):
        """Between the write of a group and the note of it: the CPU is put back, nobody blamed."""
        plugged = self.allocator.topology.plugged
        write = self.tree.write

        def written(name, text):
            write(name, text)
            if name.endswith("cpus_list"):
                self.tree.write = write
                self.tree.unplug(4)
                self.tree.plug(4)

        self.tree.write = written
        self.allocator.apply(1, (ClassMask("a", (4, 5), WayMask(0x3)),))
        self.assertEqual("5", self.tree.cpus_list("iat-nova.1"))
        self.assertIsNotNone(plugged(4))
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual("4-5", self.tree.cpus_list("iat-nova.1"))


class Restoring(Applying):
    """The machine ends as it was found."""

    def setUp(self):
        super().setUp()
        self.tree.write("schemata", "L3:1=3f\n")
        self.found = self.tree.state()
        self.saved = json.loads(json.dumps(self.allocator.save()))

    def work(self):
        self.apply(a=((0, 1), 0x3), b=((2,), 0xC))
        self.apply(1, c=((4,), 0x3), **{DEFAULT_CLASS: ((), 0x700)})
        self.apply(0, b=((1, 2), 0x3C), **{DEFAULT_CLASS: ((), 0x7C0)})

    def test_restored(self):
        """Masks and CPUs are those found; a second time does nothing."""
        self.work()
        self.assertNotEqual(self.found, self.tree.state())
        self.assertEqual(4, len(self.allocator.restore(self.saved)))
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual((), self.allocator.restore(self.saved))
        self.work()  # and we may start afresh

    def test_killed_anywhere(self):
        """Killed before any of its changes, another process restores all."""
        for step in range(1, 40):
            self.tree.fail_at, self.tree.dead = step, True
            try:
                self.work()
                killed = False
            except HardwareError:
                killed = True
            self.tree.fail_at = None
            self.make().restore(self.saved)
            self.assertEqual(self.found, self.tree.state(), f"step {step}")
            self.allocator = self.make()
            if not killed:
                break
        self.assertFalse(killed)
        self.assertGreater(step, 8)

    def test_what_fails_keeps_nothing_else(self):
        """A group that stays does not keep the other ones and the masks from being put back."""
        self.work()
        rmdir = self.tree.rmdir

        def refuse(name):
            if name == f"{PREFIX}1":
                raise OSError(errno.EBUSY, "Device or resource busy")
            rmdir(name)

        self.tree.rmdir = refuse
        with raises(self, HardwareError, rf"{PREFIX}1: rmdir: Device or resource busy$"):
            self.allocator.restore(self.saved)
        self.assertEqual((f"{PREFIX}1",), self.groups())
        self.assertEqual(
            {0: 0x7FF, 1: 0x3F}, dict(self.tree.masks("", "L3")), "the default group's masks"
        )
        self.tree.rmdir = rmdir
        self.allocator.restore(self.saved)
        self.assertEqual(self.found, self.tree.state())

    def test_foreign_groups_stay(self):
        """What others made is not ours to remove."""
        self.work()
        self.tree.mkdir("theirs")
        self.allocator.restore(self.saved)
        self.assertEqual(("theirs",), self.tree.groups())

    def test_monitoring_groups(self):
        """They get the CPUs back that the kernel took out of them, and those alone."""
        self.tree.add_monitor("theirs", "0-2,5")
        self.tree.add_monitor("other", "6")
        self.found, self.saved = self.tree.state(), json.loads(json.dumps(self.allocator.save()))
        self.work()
        self.assertEqual({5}, self.tree.monitored("theirs"))
        done = self.make().restore(self.saved)
        self.assertIn(message("monitored-cpus-restored", group="theirs", cpus="0-2"), done)
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual((), self.allocator.restore(self.saved))

    def test_monitoring_groups_that_changed_hands(self):
        """What their owners did meanwhile stays as it is."""
        for name, cpus in (("moved", "0"), ("removed", "1"), ("robbed", "2,3")):
            self.tree.add_monitor(name, cpus)
        saved = json.loads(json.dumps(self.allocator.save()))
        self.work()
        self.tree.write("mon_groups/moved/cpus_list", "7")
        shutil.rmtree(self.tree.root / "mon_groups/removed")
        self.tree.add_monitor("robber", "3")
        self.allocator.restore(saved)
        now = {name: self.tree.monitored(name) for name in ("moved", "robbed", "robber")}
        self.assertEqual({"moved": {7}, "robbed": {2}, "robber": {3}}, now)

    def test_forged_monitoring_groups(self):
        """A group gets CPUs of the default group that no group monitors, and no others."""
        self.tree.add_monitor("theirs", "5")
        self.tree.add_monitor("other", "6")
        self.tree.mkdir("controlled")
        self.tree.write("controlled/cpus_list", "1")
        self.allocator.restore({**self.saved, "monitors": {"theirs": "0-7", "none": "2"}})
        now = {name: self.tree.monitored(name) for name in ("theirs", "other")}
        self.assertEqual({"theirs": {0, 2, 3, 4, 5, 7}, "other": {6}}, now)
        self.assertEqual("1", self.tree.cpus_list("controlled"))

    def test_unmounted_meanwhile(self):
        """Without the file system there is nothing to restore."""
        other = Resctrl(ResctrlFs(self.folder / "nowhere"), self.cpus.topology)
        self.assertEqual((), other.restore(self.saved))


class OtherLimits(Applying):
    """An operator's limits of memory bandwidth hold for every CPU, whatever group it is in."""

    def setUp(self):
        super().setUp()
        self.tree.write("schemata", "MB:0=50;1=70\n")

    def limits(self):
        return [self.tree.other_lines(group) for group in ("", *self.groups())]

    def test_a_new_group(self):
        """Has them before the first CPU is in it."""
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.assertEqual([{"MB": "0=50;1=70"}] * 3, self.limits())
        for group in self.groups():
            changes = [one for one in self.tree.changes if f"{group}/" in one]
            self.assertIn("MB:", changes[0])

    def test_a_limit_that_is_changed(self):
        """Our groups follow; what somebody set in ours alone is let be until then."""
        self.apply(a=((0,), 0x3), b=((1,), 0xC))
        self.tree.write(f"{PREFIX}1/schemata", "MB:0=20\n")
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual({"MB": "0=20;1=70"}, self.tree.other_lines(f"{PREFIX}1"))
        self.tree.write("schemata", "MB:0=90\n")
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual([{"MB": "0=90;1=70"}] * 3, self.limits())

    def test_a_limit_of_ours(self):
        """The lower of the two holds in each domain, and follows the default group's."""
        one = ClassMask("a", (0,), WayMask(0x3), 60)
        other = dataclasses.replace(one, cpus=(4,))
        self.allocator.apply(0, (one,))
        self.allocator.apply(1, (other,))
        self.assertEqual({"MB": "0=50;1=60"}, self.tree.other_lines(f"{PREFIX}1"))
        self.tree.write("schemata", "MB:0=90;1=40\n")
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual({"MB": "0=60;1=40"}, self.tree.other_lines(f"{PREFIX}1"))
        self.assertEqual({"a": 40}, self.allocator.bandwidth(1))
        self.allocator.apply(0, (dataclasses.replace(one, bandwidth=None),))
        self.assertEqual({"MB": "0=90;1=40"}, self.tree.other_lines(f"{PREFIX}1"))

    def test_a_limit_of_ours_that_is_changed(self):
        """Is told with both values and left, like a mask."""
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.tree.write(f"{PREFIX}1/schemata", "MB:0=20\n")
        self.assertEqual((limit_changed(0, 20, 30),), self.allocator.inspect())
        self.assertEqual({"a": 20}, self.allocator.bandwidth(0))

    def test_a_limit_that_the_kernel_reset_in_another_domain(self):
        """A write to one domain neither compares nor renews it; the next look does."""
        self.tree.write("schemata", "MB:0=100;1=100\n")
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0x3), 40),))
        for change in (self.tree.unplug, self.tree.plug):
            for cpu in (4, 5, 6, 7):
                change(cpu)
        self.assertEqual({"MB": "0=30;1=100"}, self.tree.other_lines(f"{PREFIX}1"))
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0xC), 30),))
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual({"MB": "0=30;1=40"}, self.tree.other_lines(f"{PREFIX}1"))
        self.tree.write(f"{PREFIX}1/schemata", "MB:1=20\n")
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.assertEqual((limit_changed(1, 20, 40),), self.allocator.inspect())
        with raises(self, ForeignHand, "20"):
            self.allocator.apply(1, (ClassMask("b", (4,), WayMask(0xC), 40),))

    def test_a_limit_of_ours_is_written_once(self):
        """What has not changed is not written, nor is a limit where there is none."""
        limited = ClassMask("a", (0,), WayMask(0x3), 30)
        self.allocator.apply(0, (limited, ClassMask("b", (1,), WayMask(0xC))))
        before = len(self.tree.changes)
        self.allocator.apply(0, (limited, ClassMask("b", (1,), WayMask(0xC))))
        self.assertEqual(before, len(self.tree.changes))
        self.allocator.apply(0, (dataclasses.replace(limited, bandwidth=20),
                                 ClassMask("b", (1,), WayMask(0xC))))  # fmt: skip
        self.assertEqual([f"write {PREFIX}1/schemata MB:0=20"], self.tree.changes[before:])

    def test_every_refused_step_is_undone_with_limits(self):
        """Whichever step fails, limits, groups and masks are as before."""
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),
                                 ClassMask("b", (1,), WayMask(0xC), 20)))  # fmt: skip
        goal = (ClassMask("b", (0, 1), WayMask(0x1C)), ClassMask("c", (2,), WayMask(0x60), 10))
        for step in range(1, 30):
            before, self.tree.fail_at = self.tree.state(), step
            try:
                self.allocator.apply(0, goal)
            except HardwareError:
                self.tree.fail_at = None
                self.assertEqual(before, self.tree.state(), f"step {step}")
                self.assertEqual((), self.allocator.inspect())
            else:
                break
        self.tree.fail_at = None
        self.assertGreater(step, 3)
        self.assertEqual({"b": 50, "c": 10}, self.allocator.bandwidth(0))

    def test_a_domain_that_was_offline(self):
        """The kernel forgets its limits, and gets ours again."""
        self.allocator.apply(1, (ClassMask("a", (4,), WayMask(0x3), 30),))
        for cpu in (4, 5, 6, 7):
            self.tree.unplug(cpu)
        self.assertEqual((), self.allocator.inspect())
        for cpu in (4, 5, 6, 7):
            self.tree.plug(cpu)
        self.allocator.inspect()
        self.assertEqual({"a": 30}, self.allocator.bandwidth(1))
        self.assertEqual((), self.allocator.inspect())

    def test_a_domain_that_was_offline_between_two_looks(self):
        """The default group's lines are as before then; its limits are written all the same."""
        self.tree.write("schemata", "MB:1=100\n")
        self.allocator.apply(1, (ClassMask("a", (4,), WayMask(0x3), 30),))
        self.allocator.inspect()
        for change in (self.tree.unplug, self.tree.plug):
            for cpu in (4, 5, 6, 7):
                change(cpu)
        self.assertEqual((), self.allocator.inspect())
        self.assertEqual({"a": 30}, self.allocator.bandwidth(1))

    def test_another_process_restores(self):
        """A writer was killed: who restores finds the limits of others only."""
        found = self.tree.state()
        saved = json.loads(json.dumps(self.allocator.save()))
        self.allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 30),))
        self.assertNotEqual(found, self.tree.state())
        Resctrl(self.tree, self.cpus.topology).restore(saved)
        self.assertEqual(found, self.tree.state())

    def test_a_limit_that_is_refused(self):
        """Then there is no group either."""
        before = self.tree.state()
        write = self.tree.write

        def refuse(name, text):
            if text.startswith("MB:"):
                raise OSError(errno.EINVAL, "Invalid argument")
            write(name, text)

        with (
            mock.patch.object(self.tree, "write", refuse),
            raises(self, HardwareError, "schemata: MB:0=50;1=70: Invalid"),
        ):
            self.apply(a=((0,), 0x3))
        self.assertEqual(before, self.tree.state())

    def test_a_machine_without_other_limits(self):
        """Nothing is written for them."""
        for group in ("", "theirs"):
            with mock.patch.object(self.tree, "read", return_value="    L3:0=7ff\nL3CODE:0=7ff"):
                self.assertEqual({}, self.tree.other_lines(group))


class Bandwidth(Tree, unittest.TestCase):
    """What can be limited, as the kernel says it."""

    def control(self):
        return self.make().domains()[0].bandwidth

    def test_intel(self):
        """Percent, with the kernel's least and step."""
        self.assertEqual(BandwidthControl(10, 10, 100, percent=True), self.control())

    def test_amd(self):
        """Eighths of a GB/s; whatever the default group has more than 2048 is no limit either."""
        self.tree.be_amd()
        self.assertEqual(BandwidthControl(1, 1, 2048, percent=False), self.control())
        allocator = self.make()
        allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 80),))
        self.assertEqual({"a": 80}, allocator.bandwidth(0))
        self.assertEqual({"MB": "0=80;1=2048"}, self.tree.other_lines(f"{PREFIX}1"))
        with mock.patch.object(self.tree, "bandwidth", return_value={0: 4096}):
            self.assertEqual(4096, self.control().most)

    def test_amd_beside_others(self):
        """Limits of others that are no step of ours are kept to the eighth, and lower ones hold."""
        self.tree.be_amd()
        self.tree.mkdir("theirs")
        for group, shown in (("", "0=333;1=2047"), ("theirs", "0=17;1=1001")):
            self.tree.write(f"{group}/schemata".lstrip("/"), f"MB:{shown}\n")
        found, allocator = self.tree.state(), self.make()
        saved = json.loads(json.dumps(allocator.save()))
        for domain, limit in ((0, 480), (1, 191)):
            item = ClassMask("a", (4 * domain,), WayMask(0x3), limit)
            allocator.apply(domain, (item,))
        self.assertEqual("0=333;1=191", self.tree.other_lines(f"{PREFIX}1")["MB"])
        self.assertEqual((), allocator.inspect())
        self.tree.write(f"{PREFIX}1/schemata", "MB:1=190\n")
        self.assertEqual((limit_changed(1, 190, 191),), allocator.inspect())
        self.make().restore(saved)
        self.assertEqual(found, self.tree.state())

    def test_steered_by_the_kernel(self):
        """With mba_MBps limits are MB/s: none of ours is written, and those of others are kept."""
        self.tree.mounted_with("relatime,mba_MBps")
        self.assertIsNone(self.control())
        allocator = self.make()
        with raises(self, HardwareError, "memory bandwidth cannot be limited here"):
            allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3), 50),))
        self.assertEqual(self.found, self.tree.state())
        self.tree.write("schemata", "MB:0=70\n")
        allocator.apply(0, (ClassMask("a", (0,), WayMask(0x3)),))
        self.assertEqual("0=70;1=100", self.tree.other_lines(f"{PREFIX}1")["MB"])

    def test_mounted_elsewhere(self):
        """Options of another mount do not count."""
        self.tree.mounted_with("relatime")
        self.tree._mounts.write_text(
            f"{self.tree._mounts.read_text()}resctrl /mnt/other resctrl rw,mba_MBps 0 0\n"
        )
        self.assertIsNotNone(self.control())


class ClosingTheLoop(Tree, unittest.TestCase):
    """Long runs."""

    cpu_options = {"packages": (tuple(range(16)),), "l3_ids": (0,)}

    def test_two_hundred_arrivals(self):
        """200 classes come and go without a leaked group, and nothing is left at the end."""
        allocator = self.make()
        saved = allocator.save()
        mask = WayMask(0x3)
        for n in range(200):
            living = range(max(0, n - 5), n + 1)
            allocator.apply(0, tuple(ClassMask(f"tenant {i}", (i % 16,), mask) for i in living))
            self.assertEqual(len(living), len(self.groups()))
            self.assertEqual((), allocator.inspect())
        allocator.apply(0, ())
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual((), allocator.restore(saved))
