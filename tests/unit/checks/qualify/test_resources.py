# SPDX-License-Identifier: Apache-2.0
"""The walk, the programs and the CPUs of iat-nova qualify, as real as they can be here."""

import os
import pathlib
import platform
import tempfile
import unittest
from unittest import mock

from iat_nova.checks.qualify.api import Unavailable, lowest_free
from iat_nova.checks.qualify.programs import DiskReads, PresentTraffic, rate_of, running
from iat_nova.checks.qualify.resources import NoCpus, busy_times, choose_cpus
from iat_nova.checks.qualify.walker import LINE, Chase
from iat_nova.common.clock import SystemClock
from iat_nova.model import CacheDomain, message

DOMAINS = (CacheDomain(0, (0, 1, 2, 3), 11, 8), CacheDomain(1, (4, 5, 6, 7), 11, 8))
CPU = min(os.sched_getaffinity(0))
# What stress-ng 0.15.06 wrote.
METRICS = """---
metrics:
    - stressor: stream
      bogo-ops: 39
      memory-read-rate-mb-per-sec: 6022.999961
      memory-write-rate-mb-per-sec: 4015.333307
      memory-rate-mflop-per-sec: 526.297767
...
"""


@unittest.skipUnless(platform.machine() == "x86_64", "the walk is written for x86_64")
class Walk(unittest.TestCase):
    """The loop of machine code."""

    def test_it_meets_every_line_once(self):
        """The addresses in an array make one circle through all of its lines."""
        walk = Chase()(CPU, 100 * LINE, 1000)
        array, _ = walk.keep
        with memoryview(array) as view, view.cast("Q") as words:
            at = {words[place] for place in range(0, len(words), LINE // 8)}
            begin = min(at)
            self.assertEqual({begin + number * LINE for number in range(100)}, at)
            seen, place = set(), begin
            while place not in seen:
                seen.add(place)
                place = words[(place - begin) // 8]
        self.assertEqual(at, seen)

    def test_it_takes_time_by_accesses(self):
        """A hundred times the accesses take longer, on the CPU asked for; affinity is restored."""
        before = os.sched_getaffinity(0)
        few, many = Chase()(CPU, 1 << 16, 20_000), Chase()(CPU, 1 << 16, 2_000_000)
        self.assertLess(few(), many())
        self.assertEqual(before, os.sched_getaffinity(0))

    def test_what_cannot_be(self):
        """A CPU that is not there, and another machine."""
        with self.assertRaisesRegex(Unavailable, "cpu-unusable.cpu=9999"):
            Chase()(9999, 1 << 16, 1)
        with (
            mock.patch.object(platform, "machine", lambda: "aarch64"),
            self.assertRaisesRegex(Unavailable, "walk-not-written-for.machine=aarch64"),
        ):
            Chase()(CPU, 1 << 16, 1)


class Programs(unittest.TestCase):
    """What runs beside."""

    def test_rate(self):
        """What stress-ng reads and writes; nothing where it had too little time."""
        self.assertAlmostEqual(10_038.333e6, rate_of(METRICS), delta=1e4)
        for text in ("metrics:\n  - stressor: stream\n", "", "metrics:\n"):
            with self.subTest(text), self.assertRaisesRegex(Unavailable, "no-memory-rate"):
                rate_of(text)

    def test_nothing_is_left_running(self):
        """A program ends with what it runs for, also after an error."""
        with self.assertRaises(KeyError), running(["sleep", "1000"]) as process:
            raise KeyError
        self.assertIsNotNone(process.poll())
        refused = r"program-not-started.path=/nowhere, reason=No such file"
        with self.assertRaisesRegex(Unavailable, refused), running(["/nowhere"]):
            self.fail("it ran")

    def test_disk(self):
        """A missing, a small, and a wrong kind of file are refused, a missing fio as well."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        small = folder / "small"
        small.write_bytes(b"x")
        with mock.patch("shutil.which", lambda name: f"/usr/bin/{name}"):
            for path, why in (
                (folder / "none", "disk-unreadable.reason=No such file"), (small, "disk-unfit"),
                (folder, "disk-unfit"), (pathlib.Path("/dev/null"), "disk-unfit"),
            ):  # fmt: skip
                with (
                    self.subTest(path),
                    self.assertRaisesRegex(Unavailable, why) as refused,
                    DiskReads(path, SystemClock()).flowing(0, 1 << 20),
                ):
                    self.fail("it was read")
                self.assertNotIn(str(folder), str(refused.exception))
        with (
            mock.patch("shutil.which", lambda name: None),
            self.assertRaisesRegex(Unavailable, "program-not-installed.program=fio") as refused,
            DiskReads(small, SystemClock()).flowing(0, 1 << 20),
        ):
            self.fail("it was read")
        self.assertEqual(message("install-program", program="fio"), refused.exception.remedy)

    def test_where_a_disk_is(self):
        """A block device by its place in sysfs, the bridges above included; a file nowhere."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            place = folder / "pci0000:5d/0000:5d:00.0/0000:5e:00.0/nvme/nvme0/nvme0n1"
            place.mkdir(parents=True)
            (folder / "block").mkdir()
            (folder / "block" / "nvme0n1").symlink_to(place)
            disk = DiskReads(folder / "dev" / "nvme0n1", SystemClock(), folder / "block")
            self.assertEqual(("0000:5d:00.0", "0000:5e:00.0"), disk.devices)
            file = DiskReads(folder / "some.img", SystemClock(), folder / "block")
            self.assertEqual((), file.devices)
            self.assertEqual((), PresentTraffic().devices)

    def test_where_a_multipath_disk_is(self):
        """The kernel shows it below a virtual subsystem, which links to the controllers."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            subsystem = folder / "devices/virtual/nvme-subsystem/nvme-subsys3"
            (subsystem / "nvme3n1").mkdir(parents=True)
            (folder / "block").mkdir()
            (folder / "block" / "nvme3n1").symlink_to(subsystem / "nvme3n1")
            disk = DiskReads(folder / "dev" / "nvme3n1", SystemClock(), folder / "block")
            part = DiskReads(folder / "dev" / "nvme3n1p1", SystemClock(), folder / "block")
            (subsystem / "nvme3n1" / "nvme3n1p1").mkdir()
            (folder / "block" / "nvme3n1p1").symlink_to(subsystem / "nvme3n1" / "nvme3n1p1")
            self.assertEqual((), disk.devices)
            for number, above in enumerate(("0000:5e:00.0", "0000:af:00.0")):
                controller = folder / f"devices/pci0000:5d/{above}/nvme/nvme{number}"
                (controller / f"nvme3c{number}n1").mkdir(parents=True)
                (subsystem / f"nvme{number}").symlink_to(controller)
                if not number:
                    self.assertEqual(("0000:5e:00.0",), disk.devices)
                    self.assertEqual(("0000:5e:00.0",), part.devices)
            with self.assertRaisesRegex(Unavailable, "disk-has-controllers.controllers=2"):
                _ = disk.devices


class Cpus(unittest.TestCase):
    """Which CPUs are used."""

    idle = dict.fromkeys(range(8), (0, 0)), dict.fromkeys(range(8), (1, 100))

    def test_chosen(self):
        """The last two of a domain that are idle and nobody's."""
        self.assertEqual((DOMAINS[0], (2, 3)), choose_cpus(frozenset(), DOMAINS, *self.idle))
        taken = frozenset({1, 2, 3})
        self.assertEqual((DOMAINS[1], (6, 7)), choose_cpus(frozenset(), DOMAINS, *self.idle, taken))
        asked = frozenset({1, 2})
        self.assertEqual((DOMAINS[0], (1, 2)), choose_cpus(asked, DOMAINS, *self.idle, taken))

    def test_refused(self):
        """Busy ones, those of two domains, and where there is no idle one."""
        before, after = self.idle
        busy = {**after, 2: (50, 100)}
        for asked, now, why in (
            ({2, 3}, busy, "cpus-busy.cpus=2-3, busy=2"),
            ({3, 4}, after, r"cpus-of-several-domains.cpus=3-4, domains=.0-3, 4-7"),
            ((), dict.fromkeys(range(8), (90, 100)), "no-idle-cpus"),
            ((), {}, "no-idle-cpus"),
        ):
            with self.subTest(asked), self.assertRaisesRegex(NoCpus, why):
                choose_cpus(frozenset(asked), DOMAINS, before, now)

    def test_the_kernels_figures(self):
        """Each CPU's ticks never exceed all of its ticks."""
        found = busy_times(pathlib.Path("/proc"))
        self.assertLessEqual(os.sched_getaffinity(0), found.keys())
        self.assertTrue(all(0 <= busy <= passed for busy, passed in found.values()))

    def test_ways_of_others(self):
        """The lowest run that nobody reserved, none where there is none."""
        held = CacheDomain(0, (0,), 11, 8, reserved_ways=0x6)
        self.assertEqual((0x1, 0x78), (lowest_free(held, 1), lowest_free(held, 4)))
        with self.assertRaisesRegex(Unavailable, "no-adjoining-ways-free.ways=9"):
            lowest_free(held, 9)
