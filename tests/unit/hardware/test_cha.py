# SPDX-License-Identifier: Apache-2.0
import dataclasses
import unittest
from unittest import mock

from iat_nova.hardware.api import DomainCounts, HardwareError
from iat_nova.hardware.counters import cha, events
from iat_nova.hardware.counters.perf_event import CpuOffline, PerfEvent
from tests.proofs import proves
from tests.said import raises
from tests.unit.hardware import trees
from tests.unit.hardware.test_perf import PipeGroup

SKX_FORMATS = {
    "event": "config:0-7", "umask": "config:8-15", "edge": "config:18",
    "filter_tid": "config1:0-8", "filter_rem": "config1:32", "filter_loc": "config1:33",
    "filter_nm": "config1:36", "filter_not_nm": "config1:37",
    "filter_opc0": "config1:41-50", "filter_opc1": "config1:51-60",
}  # fmt: skip
ICX_FORMATS = {"event": "config:0-7", "umask": "config:8-15,32-57", "edge": "config:18"}
INTEL = (events.SKYLAKE, events.ICE_LAKE, events.SAPPHIRE_RAPIDS, events.GRANITE_RAPIDS)


class Kernel:
    """Hands out groups by (PMU type, CPU), `most` of them where that is set."""

    def __init__(self):
        self.groups = {}
        self.off = set()
        self.most = None

    def open(self, events_, cpu):
        if cpu in self.off:
            raise CpuOffline("offline")
        if len(self.groups) == self.most:
            raise HardwareError("Too many open files")
        group = self.groups[events_[0].type, cpu] = PipeGroup()
        return group


@proves("counters: perf", on=[model.name for model in INTEL])
class Formats(unittest.TestCase):
    """From terms to the words of perf_event_attr."""

    def setUp(self):
        self.root = trees.folder(self)

    def add(self, number, formats=SKX_FORMATS, type_=12, cpumask="0,2"):
        pmu = self.root / f"uncore_cha_{number}"
        (pmu / "format").mkdir(parents=True)
        (pmu / "type").write_text(f"{type_}\n")
        (pmu / "cpumask").write_text(f"{cpumask}\n")
        for name, place in formats.items():
            (pmu / "format" / name).write_text(f"{place}\n")

    def test_found_in_order_of_slices(self):
        """Slice 10 comes after slice 9, and other PMUs do not count."""
        for number in (10, 9, 0):
            self.add(number)
        (self.root / "uncore_cha").mkdir()
        (self.root / "uncore_iio_0").mkdir()
        names = [pmu.name for pmu in cha.cha_pmus(self.root)]
        self.assertEqual(["uncore_cha_0", "uncore_cha_9", "uncore_cha_10"], names)
        self.assertEqual((0, 2), cha.cha_pmus(self.root)[0].cpumask)

    def test_what_lasts_is_read_once(self):
        """Formats and types are read again for folders that a driver has made anew, only."""
        self.add(0)
        first = cha.cha_pmus(self.root)
        (self.root / "uncore_cha_0/type").unlink()
        (self.root / "uncore_cha_0/cpumask").write_text("1\n")
        self.assertEqual((dataclasses.replace(first[0], cpumask=(1,)),), cha.cha_pmus(self.root))
        (self.root / "uncore_cha_0").rename(self.root / "before")
        self.add(0, ICX_FORMATS, type_=13)
        (pmu,) = cha.cha_pmus(self.root)
        self.assertEqual((13, ICX_FORMATS), (pmu.type, pmu.formats))

    def test_skylake(self):
        """Skylake's filter is config1's upper half, as the register value 0x10049033."""
        self.add(0)
        (pmu,) = cha.cha_pmus(self.root)
        event = pmu.event(events.SKYLAKE.cha.misses[0])
        self.assertEqual(PerfEvent(12, 0x2435, 0x10049033 << 32), event)

    def test_ice_lake(self):
        """The extended umask lies in bits 32 and up."""
        self.add(0, ICX_FORMATS)
        (pmu,) = cha.cha_pmus(self.root)
        event = pmu.event(events.ICE_LAKE.cha.hits[0])
        self.assertEqual(PerfEvent(12, 0xCC43FD_00000435), event)

    def test_a_term_this_kernel_lacks(self):
        """A term without a format is refused with those there are."""
        self.add(0, ICX_FORMATS)
        (pmu,) = cha.cha_pmus(self.root)
        with raises(self, HardwareError, "no term 'filter_rem' .*edge, event, umask"):
            pmu.event(events.SKYLAKE.cha.hits[0])

    def test_a_value_too_wide(self):
        """A value that does not fit is refused, not cut off."""
        self.add(0, {"event": "config:0-7", "umask": "config:8-15"})
        (pmu,) = cha.cha_pmus(self.root)
        with raises(self, HardwareError, "too wide"):
            pmu.event(events.ICE_LAKE.cha.hits[0])


class Reading(unittest.TestCase):
    """Hits and misses of two packages."""

    def setUp(self):
        self.kernel = Kernel()
        self.pmus = [cha.Pmu(f"uncore_cha_{n}", 12 + n, (0, 2), SKX_FORMATS) for n in range(18)]
        self.domains = mock.Mock(return_value={0: 0, 1: 0, 2: 1, 3: 1})

    def unwatched(self, slices=1):
        reader = cha.ChaPerf(
            events.SKYLAKE.cha, self.domains, slices=slices,
            find=lambda: self.pmus, open_group=self.kernel.open,
        )  # fmt: skip
        self.addCleanup(reader.close)
        return reader

    def reader(self, slices=1):
        reader = self.unwatched(slices)
        reader.watch()
        return reader

    def say(self, cpu, *reading, slice_=0):
        self.kernel.groups[12 + slice_, cpu].say(*reading)

    def test_one_slice(self):
        """One slice's counts are multiplied by the number of slices, by package."""
        reader = self.reader()
        self.say(0, 100, 100, 1000, 10)
        self.say(2, 100, 100, 5, 0)
        self.assertEqual(
            {0: DomainCounts(18000, 180, None), 1: DomainCounts(90, 0, None)}, reader.read()
        )

    def test_all_slices(self):
        """All slices are added up."""
        reader = self.reader(slices=None)
        for n in range(18):
            self.say(0, 100, 100, n, 1, slice_=n)
            self.say(2, 100, 100, 0, 0, slice_=n)
        self.assertEqual(DomainCounts(153, 18, None), reader.read()[0])

    def test_shared_counters_are_scaled(self):
        """A box that ran part of the time is scaled, below half it is absent."""
        reader = self.reader()
        self.say(0, 100, 50, 10, 1)
        self.say(2, 100, 49, 10, 1)
        self.assertEqual({0: DomainCounts(360, 36, None)}, reader.read())

    def test_slices_lie_far_apart(self):
        """So every cluster of sub-NUMA clustering has one: its slices have numbers in a row."""
        self.assertEqual((0,), cha.spread(18, 1))
        self.assertEqual((0, 9), cha.spread(18, 2))
        self.assertEqual((0, 4, 9, 13), cha.spread(18, 4))
        self.assertEqual(tuple(range(18)), cha.spread(18, 40))
        self.assertEqual(tuple(range(18)), cha.spread(18, None))

    def test_one_lost_slice_spoils_its_package(self):
        """A sum with a part missing is absent until the slice is counted again."""
        reader = self.reader(slices=2)
        for cpu in (0, 2):
            for n in (0, 9):
                self.say(cpu, 100, 100, 1, 1, slice_=n)
        self.kernel.groups[21, 0].break_()
        self.assertEqual({0, 1}, reader.read().keys())
        for cpu, n in ((0, 0), (2, 0), (2, 9)):
            self.say(cpu, 200, 200, 2, 2, slice_=n)
        self.assertEqual({1}, reader.read().keys())
        reader.watch()
        for cpu, n in ((0, 0), (0, 9), (2, 0), (2, 9)):
            self.say(cpu, 300, 300, 3, 3, slice_=n)
        self.assertEqual({0, 1}, reader.read().keys())

    def test_not_all_slices_could_be_opened(self):
        """A sum with slices missing is absent until all of them are counted."""
        reader = self.unwatched(slices=2)
        self.kernel.most = 3
        with raises(self, HardwareError, "Too many"):
            reader.watch()
        for cpu, n in ((0, 0), (2, 0), (0, 9)):
            self.say(cpu, 100, 100, 10, 1, slice_=n)
        self.assertEqual({0: DomainCounts(180, 18, None)}, reader.read())
        self.kernel.most = None
        reader.watch()
        for cpu, n in ((0, 0), (2, 0), (0, 9), (2, 9)):
            self.say(cpu, 200, 200, 20, 2, slice_=n)
        self.assertEqual({0, 1}, reader.read().keys())

    def test_descriptors(self):
        """The limit of open files is raised for what is not open yet: two a slice and package."""
        with mock.patch("iat_nova.hardware.counters.perf_event.allow_descriptors") as allowed:
            reader = self.reader(slices=None)
            reader.watch()
        self.assertEqual([mock.call(72), mock.call(0)], allowed.mock_calls)

    def test_domains_are_looked_up_once(self):
        """Sysfs is not read for every slice: that took seconds on a large host."""
        self.reader(slices=None)
        self.domains.assert_called_once_with()

    def test_the_kernel_moved_the_events(self):
        """When another CPU of the package counts, the open group goes on."""
        reader = self.reader()
        self.pmus = [cha.Pmu("uncore_cha_0", 12, (1, 2), SKX_FORMATS)]
        reader.watch()
        self.assertEqual({(12, 0), (12, 2)}, self.kernel.groups.keys())

    def test_no_pmus(self):
        """Without PMUs the text says which module has them."""
        self.pmus = []
        with raises(self, HardwareError, "modprobe intel_uncore"):
            self.reader()
