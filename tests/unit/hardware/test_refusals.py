# SPDX-License-Identifier: Apache-2.0
"""Refusals that no other test comes across: each with its text, and nothing left half-done."""

import errno
import os
import unittest
from unittest import mock

from iat_nova.experiments.times.fake import SKYLAKE
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.counters import cha, perf_event
from iat_nova.hardware.counters.perf_event import PerfEvent
from iat_nova.hardware.ddio.rootport import RootPorts
from iat_nova.hardware.ddio.ways import IoAllocDdio, MsrDdio
from iat_nova.hardware.enforcement import snapshot as snapshot
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import WayMask, message
from tests.said import raises
from tests.unit.hardware import trees
from tests.unit.hardware.registers import FakeMsr
from tests.unit.hardware.test_ddio import AmdTree
from tests.unit.hardware.test_rootport import PORT, Tree


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = trees.folder(self)

    def refused(self, text):
        return raises(self, HardwareError, text)


class Files(Case):
    """resctrl, sysfs and the snapshot, with something missing."""

    def setUp(self):
        super().setUp()
        self.cpus = trees.Cpus(self.folder / "cpus")
        self.tree = trees.KernelTree(self.folder / "resctrl", self.cpus)

    def test_unmounted_meanwhile(self):
        """Groups, files and the lock each name the path; the lock asks for the mount."""
        gone = ResctrlFs(self.folder / "none")
        with self.refused("none: No such file"):
            gone.groups()
        with self.refused("none/cpus_list: No such file"):
            gone.cpus_of("")
        with self.refused("is resctrl mounted"), gone.locked():
            self.fail("locked")

    def test_unmounted_while_the_limits_are_read(self):
        """It was there when it was looked for, and is not when its folders or files are read."""
        gone = ResctrlFs(self.folder / "none")
        with (
            mock.patch("iat_nova.hardware.kernel.files.exists", return_value=True),
            self.refused("none/info: No such"),
        ):
            gone.info()
        (gone.root / "info/L3").mkdir(parents=True)
        with self.refused("none/info/L3/num_closids: No such file"):
            gone.info()

    def test_masks_beyond_their_limits(self):
        """A mask is held against cbm_mask and min_cbm_bits, which the kernel shows beside it."""
        for mask in ("fff", "0"):
            self.tree._put("schemata", f"L3:0={mask}")
            with self.refused("L3=0x[0f]*, cbm_mask=7ff, min_cbm_bits=1"):
                self.tree.masks("", "L3")

    def test_mounted_with_other_options(self):
        """A resource that schemata no longer has."""
        with self.refused("schemata has no line L3CODE"):
            self.tree.masks("", "L3CODE")

    def test_mounted_without_l3(self):
        """Mounted for memory bandwidth alone: to mount it once more is no remedy."""
        for path in (self.tree.root / "info/L3").iterdir():
            path.unlink()
        (self.tree.root / "info/L3").rmdir()
        text = r"mounted, without L3 cache allocation \(its info has MB\)"
        with self.refused(text):
            self.tree.info()

    def test_limits_of_memory_bandwidth_are_not_told(self):
        """Masks can be written where the kernel tells too little of another resource."""
        made = Resctrl(self.tree, self.cpus.topology)
        for name, text in (
            ("delay_linear", None), ("bandwidth_gran", "0"), ("min_bandwidth", "ten"),
        ):  # fmt: skip
            with self.subTest(name=name):
                path = self.tree.root / "info/MB" / name
                before = path.read_text()
                path.unlink() if text is None else path.write_text(text)
                (domain,) = made.domains()
                self.assertEqual((11, None), (domain.ways, domain.bandwidth))
                code = "mba-unreadable" if text != "0" else "mba-step-invalid"
                self.assertEqual(code, self.tree.bandwidth_control().how.code)
                path.write_text(before)

    def test_size_unknown(self):
        """A cache without a size has ways of an unknown size."""
        for text in ("0K", "much", None):
            with self.subTest(text=text):
                path = self.cpus.root / "cpu0/cache/index3/size"
                path.unlink() if text is None else path.write_text(text)
                self.assertIsNone(Resctrl(self.tree, self.cpus.topology).domains()[0].way_bytes)

    def test_io_alloc_without_its_masks(self):
        """The kernel says that it is enabled and shows no masks."""
        amd = AmdTree(self.folder / "amd", self.cpus)
        knob = amd.root / "info/L3"
        (knob / "io_alloc").write_text("enabled\n")
        (knob / "io_alloc_cbm").unlink()
        with self.refused("io_alloc_cbm: No such file"):
            IoAllocDdio(amd, lambda: (SKYLAKE,)).read(0)

    def test_no_sysfs(self):
        """Without sysfs nothing is known of CPUs."""
        with self.refused("online: No such file.*is sysfs mounted"):
            Topology(self.folder / "none").online()

    def test_siblings_unknown(self):
        """A CPU whose core cannot be told is alone on it."""
        self.assertEqual({7}, self.cpus.topology.siblings(7))

    def test_domains_that_sysfs_does_not_show(self):
        """resctrl's cache domains have other numbers than sysfs's caches."""
        self.cpus.ids = (7,)
        self.tree.mkdir("other")  # its files have the new number, the default group's the old
        text = (self.tree.root / "other/schemata").read_text()
        (self.tree.root / "schemata").write_text(text)
        with self.refused("no cache domain with CPUs online"):
            Resctrl(self.tree, self.cpus.topology).domains()

    def test_a_pmu_that_vanishes(self):
        """Half a PMU's folder is a refusal, not a crash."""
        (self.folder / "uncore_cha_0").mkdir()
        with self.refused("uncore_cha_0: No such file"):
            cha.cha_pmus(self.folder)

    def snapshot(self, boot_id=snapshot.BOOT_ID):
        return snapshot.Snapshot(
            {"ports": RootPorts()},
            snapshot=self.folder / "snapshot.json", lock=self.folder / "l", boot_id=boot_id,
        )  # fmt: skip

    def test_a_snapshot_that_cannot_be_read(self):
        """Neither restored nor taken for absent."""
        (self.folder / "snapshot.json").mkdir()
        with self.refused("snapshot.json: is not a regular file"):
            self.snapshot().restore()

    def test_a_snapshot_that_cannot_be_removed(self):
        """The restore says so: it would be restored again."""
        keeper = self.snapshot()
        keeper.protect()
        denied = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch("os.unlink", side_effect=denied):
            stale = keeper.restore().stale
        path = str(self.folder / "snapshot.json")
        denied = message("file-unusable", path=path, reason="Permission denied")
        self.assertEqual(message("snapshot-not-updated", error=denied), stale)
        self.assertTrue(self.snapshot().pending)

    def test_no_boot_id(self):
        """Without it a snapshot could outlive its boot: none is written."""
        with self.refused("none: No such file"):
            self.snapshot(self.folder / "none").protect()
        self.assertFalse((self.folder / "snapshot.json").exists())


class Masks(Case):
    """What is checked before anything is written."""

    def test_no_such_domain(self):
        """The domains that there are, are named."""
        with self.refused(r"no cache domain 7 on this machine \(there are: 0\)"):
            limits.find((SKYLAKE,), 7)
        with self.refused("there are: none"):
            limits.find((), 0)

    def test_ddio(self):
        """DDIO is given an unbroken run of existing ways only."""
        for mask, text in ((0, "not within"), (0x800, "not within the 11 ways"), (0x500, "a gap")):
            with self.subTest(mask), self.refused(text):
                limits.check_ddio(SKYLAKE, WayMask(mask))


class Registers(Case):
    """Registers whose owner is away, or that refuse."""

    def setUp(self):
        super().setUp()
        self.msr = FakeMsr({0: 0, 1: 0})

    def test_a_whole_socket_off_line(self):
        """DDIO's register is then out of reach."""
        cpus = trees.Cpus(self.folder / "cpus", packages=((20, 21),))
        with self.refused("cache domain 0: none of its CPUs is online"):
            MsrDdio(self.msr, lambda: (SKYLAKE,), cpus.topology).read(0)


class Perf(Case):
    """perf_event_open's refusals."""

    EVENT = PerfEvent(4, 0xC0)

    def test_every_errno_has_advice(self):
        """What the kernel says, on which CPU, and what to do."""
        for code, advice in (
            (errno.EMFILE, "raise-open-files"),
            (errno.ENOENT, "event-absent"),
            (errno.EINVAL, "event-unknown"),
            (errno.EBUSY, "counters-held"),
            (errno.E2BIG, "see-perf-event-open"),
        ):
            error = perf_event._refusal(code, self.EVENT, 3)
            self.assertEqual((self.refusal(code), message(advice)), (error.state, error.remedy))
        gone = perf_event._refusal(errno.ENODEV, self.EVENT, 3)
        self.assertIsInstance(gone, perf_event.CpuOffline)
        refusal = self.refusal(errno.ENODEV)
        self.assertEqual(message("perf-cpu-offline", refusal=refusal), gone.message)

    def refusal(self, code):
        """Return that the kernel refused to open the event on CPU 3."""
        return message("perf-refused", cpu=3, type=4, config=0xC0, reason=os.strerror(code))

    def test_the_right_to_count(self):
        """Chosen by the value and the capabilities held: only what is missing is advised."""
        perfmon, admin = frozenset({"CAP_PERFMON"}), frozenset({"CAP_SYS_ADMIN"})
        enough, other = message("lower-paranoid", paranoid=2), message("other-refuses-perf")
        for paranoid, capabilities, why, remedy in (
            (4, perfmon, message("paranoid-too-strict", paranoid=4), enough),
            (3, perfmon, message("paranoid-too-strict", paranoid=3), enough),
            (
                3,
                frozenset(),
                message("paranoid-too-strict", paranoid=3),
                message("lower-paranoid-give-perfmon", paranoid=2),
            ),
            (
                2,
                frozenset(),
                message("paranoid-without-perfmon", paranoid=2),
                message("give-perfmon-as-unit"),
            ),
            (
                2,
                perfmon,
                message("paranoid-with-right", paranoid=2, capabilities=("CAP_PERFMON",)),
                other,
            ),
            (
                3,
                admin,
                message("paranoid-with-right", paranoid=3, capabilities=("CAP_SYS_ADMIN",)),
                other,
            ),
            (None, perfmon, message("paranoid-unknown"), message("give-perfmon")),
        ):
            self.assertEqual((why, remedy), perf_event.no_right(paranoid, capabilities))
        for code in (errno.EACCES, errno.EPERM):
            error = perf_event._refusal(code, self.EVENT, 3)
            self.assertEqual("perf-no-right", error.state.code)
            self.assertEqual(self.refusal(code), error.state.values["refusal"])

    def test_another_machine(self):
        """A machine whose system call number is not known is told, not guessed."""
        with mock.patch("platform.machine", return_value="vax"), self.refused("not known on vax"):
            perf_event.EventGroup((self.EVENT,), 0)

    def test_available(self):
        """The probe's question leaves nothing open and returns the reason."""
        with mock.patch("platform.machine", return_value="vax"):
            self.assertIn("vax", str(perf_event.available((self.EVENT,))))


class Ports(Case):
    """Root ports."""

    def test_a_write_that_is_refused(self):
        """The missing right is named."""
        tree = Tree(self.folder)
        tree.add(PORT)
        ports = RootPorts((PORT,), tree.root)
        denied = PermissionError(errno.EPERM, "Operation not permitted")
        with mock.patch("os.pwrite", side_effect=denied), self.refused("write: .*CAP_SYS_ADMIN"):
            ports.off()
