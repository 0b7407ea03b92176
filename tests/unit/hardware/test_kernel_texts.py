# SPDX-License-Identifier: Apache-2.0
"""Texts of the kernel in another form than its documentation gives: a refusal, never a traceback.

A restore that ended with any other exception would leave the parts after resctrl as they are.
"""

import contextlib
import unittest
from pathlib import Path

from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.counters.monitor import Monitor
from iat_nova.hardware.ddio.ways import IoAllocDdio
from iat_nova.model import WayMask
from tests.said import raises
from tests.unit.hardware import trees

TEXTS = ("", "words", "-1", "0-", "99999999999", "0=", "0=7ff=1", "0=zz", ";;;=", "L3:", "L3:0",
         "L3:uninitialized", "L3CODE:0=7ff;1", "MB:0=max", "mbm_total_bytes:0=e=e")  # fmt: skip
CLASSES = (ClassMask("a", (0, 1), WayMask(0x7)), ClassMask("b", (2,), WayMask(0x38)))


class OtherTexts(unittest.TestCase):
    """Each file in turn has each text, for all that reads."""

    def setUp(self):
        self.folder = trees.folder(self)

    def make(self, name, **options):
        """Return a host with two classes, devices' class and a monitoring group, and its files."""
        cpus = trees.Cpus(self.folder / name / "cpus", packages=((0, 1, 2, 3), (4, 5, 6, 7)))
        tree = trees.KernelTree(self.folder / name / "resctrl", cpus, debug=True, **options)
        tree.monitoring(64)
        for file, text in (("io_alloc", "enabled"), ("io_alloc_cbm", "0=7ff;1=7ff")):
            (tree.root / f"info/{tree.resources[-1]}/{file}").write_text(f"{text}\n")
        tree.add_monitor("theirs", "3")
        resctrl = Resctrl(tree, cpus.topology)
        saved = resctrl.save()
        resctrl.apply(0, CLASSES)
        return cpus, tree, resctrl, saved

    def refused_at_most(self, tree, name, text, reads):
        """Read with this text in a file: the answer, or a refusal with a reason."""
        whole = tree.read
        tree.read = lambda one: text if one == name else whole(one)
        try:
            for read in reads:
                with contextlib.suppress(HardwareError):
                    read()
        finally:
            tree.read = whole

    def check(self, **options):
        cpus, tree, resctrl, _ = self.make("host", **options)
        monitor, ddio = Monitor(tree, cpus.topology), IoAllocDdio(tree, resctrl.domains)
        as_found = ddio.save()
        reads = (
            resctrl.domains, resctrl.foreign_groups, resctrl.save, resctrl.inspect,
            lambda: resctrl.effective(0), lambda: resctrl.bandwidth(0),
            monitor.free, lambda: monitor.watch({}),
            ddio.save, ddio.shut, lambda: ddio.read(0), lambda: ddio.restore(as_found),
        )  # fmt: skip
        for path in filter(Path.is_file, sorted(tree.root.rglob("*"))):
            for text in TEXTS:
                name = str(path.relative_to(tree.root))
                with self.subTest(name=name, text=text):
                    self.refused_at_most(tree, name, text, reads)
        self.assertEqual({"a": 0x7, "b": 0x38}, dict(resctrl.effective(0)))

    def test_resctrl(self):
        """All files of resctrl."""
        self.check()

    def test_code_and_data(self):
        """With code and data prioritisation."""
        self.check(cdp=True)

    def test_limits_that_a_restore_does_not_need(self):
        """Groups and masks are restored although the limits cannot be understood."""
        cpus, tree, _, saved = self.make("plain")
        tree.write("info/L3/num_closids", "words")
        tree.write("info/L3/cbm_mask", "words")
        tree.write("schemata", "L3:0=3")
        with raises(self, HardwareError, "num_closids: invalid literal"):
            Resctrl(tree, cpus.topology).domains()
        Resctrl(tree, cpus.topology).restore(saved)
        self.assertEqual(((), 0x7FF), (tree.groups(), tree.masks("", "L3")[0]))

    def test_limits_that_a_restore_without_a_snapshot_does_not_need(self):
        """Left-over groups go, and the default group gets all ways, of the width of the mask."""
        for options, name in (({}, "L3"), ({"cdp": True}, "L3CODE")):
            cpus, tree, _, _ = self.make(name, **options)
            for file in ("num_closids", "min_cbm_bits", "shareable_bits"):
                tree.write(f"info/{name}/{file}", "words")
            for domain in (0, 1):
                tree.set_masks("", domain, dict.fromkeys(tree.resources, WayMask(0x3)))
            with self.subTest(name=name):
                Resctrl(tree, cpus.topology).remove_left_over()
                left = [tuple(tree.masks("", one).values()) for one in tree.resources]
                self.assertEqual(((), [(0x7FF, 0x7FF)] * len(left)), (tree.groups(), left))

    def test_mounts(self):
        """A mount point of another file system need not be UTF-8."""
        _, tree, resctrl, _ = self.make("host")
        tree._mounts.write_bytes(b"/dev/sda1 /mnt/caf\xe9 ext4 rw 0 0\n")
        self.assertEqual([0, 1], [one.id for one in resctrl.domains()])

    def test_sysfs(self):
        """Lists and numbers of CPUs and caches."""
        cpus = trees.Cpus(self.folder / "cpus")
        for name in ("online", "cpu0/cache/index3/id", "cpu0/cache/index3/shared_cpu_list",
                     "cpu0/topology/physical_package_id"):  # fmt: skip
            path = self.folder / "cpus" / name
            before = path.read_text()
            for text in ("words", "0-", "99999999999999999999x"):
                path.write_text(text)
                with self.subTest(name=name, text=text), raises(self, HardwareError, name):
                    cpus.topology.caches()
            path.write_text(before)
        self.assertEqual(1, len(cpus.topology.caches()))
