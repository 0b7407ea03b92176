# SPDX-License-Identifier: Apache-2.0
"""AMD's inbound lines: by socket, never as hits or misses."""

import unittest
from pathlib import Path

from iat_nova.hardware.api import DomainCounts, HardwareError
from iat_nova.hardware.counters import events, fabric
from iat_nova.hardware.counters.cha import Pmu
from iat_nova.hardware.counters.perf_event import PerfEvent
from iat_nova.hardware.kernel.topology import Cache
from tests.proofs import proves
from tests.said import raises
from tests.unit.hardware import trees
from tests.unit.hardware.test_cha import Kernel

FORMATS = {"event": "config:0-7,32-37", "umask": "config:8-15,24-27"}


@proves("counters: perf", on=(events.ZEN_4.name, events.ZEN_5.name))
class Model(unittest.TestCase):
    """Which CPU has which events."""

    def model(self, family, model):
        return events.CpuModel("AuthenticAMD", family, model).known

    def test_servers(self):
        """Rome, Milan, Genoa, Siena, Bergamo; Turin and Turin dense. No other one is guessed."""
        for number in (0x11, 0xA0):
            self.assertIs(events.ZEN_4, self.model(0x19, number))
        for number in (0x02, 0x11):
            self.assertIs(events.ZEN_5, self.model(0x1A, number))
        self.assertIs(events.ZEN_2, self.model(0x17, 0x31))
        self.assertIs(events.ZEN_3, self.model(0x19, 0x01))
        for family, number in ((0x19, 0x61), (0x1A, 0x44), (0x17, 0x01), (0x17, 0x71), (6, 85)):
            self.assertIsNone(self.model(family, number))

    def test_events(self):
        """As `perf list` has them: beats of IO root complexes, 0x40 apart, by the PMU's formats."""
        pmu = Pmu("amd_df", 14, (0,), FORMATS)
        configs = [pmu.event(terms) for terms in events.ZEN_5.fabric]
        self.assertEqual(PerfEvent(14, 0x80700FF1F), configs[0])
        self.assertEqual(PerfEvent(14, 0x90700FFDF), configs[7])
        self.assertEqual(4, len(events.ZEN_4.fabric))


class Reading(unittest.TestCase):
    """Two sockets of two L3 caches each."""

    def setUp(self):
        self.kernel = Kernel()
        self.pmu = Pmu("amd_df", 14, (0, 4), FORMATS)
        self.caches = [Cache(n, (2 * n, 2 * n + 1), 1 << 25, n // 2) for n in range(4)]
        self.reader = fabric.FabricPerf(
            events.ZEN_5.fabric, lambda: self.caches, find=lambda: self.pmu,
            open_group=self.kernel.open,
        )  # fmt: skip
        self.addCleanup(self.reader.close)

    def say(self, cpu, *reading):
        self.kernel.groups[14, cpu].say(*reading)

    def test_by_socket(self):
        """Every domain has the lines of its socket; hits and misses are absent."""
        self.reader.watch()
        self.say(0, 100, 100, *range(8))
        self.say(4, 100, 100, *[5] * 8)
        first, second = DomainCounts(None, None, None, 28), DomainCounts(None, None, None, 40)
        self.assertEqual({0: first, 1: first, 2: second, 3: second}, self.reader.read())

    def test_a_socket_that_is_lost(self):
        """It is absent, not zero, until it is counted again."""
        self.reader.watch()
        self.kernel.groups[14, 4].break_()
        self.say(0, 100, 100, *[1] * 8)
        self.assertEqual({0, 1}, self.reader.read().keys())
        self.reader.watch()
        for cpu in (0, 4):
            self.say(cpu, 200, 200, *[2] * 8)
        self.assertEqual({0, 1, 2, 3}, self.reader.read().keys())

    def test_an_offline_socket(self):
        """What cannot be opened is absent."""
        self.kernel.off = {4}
        self.reader.watch()
        self.say(0, 100, 100, *[1] * 8)
        self.assertEqual({0, 1}, self.reader.read().keys())

    def test_no_pmu(self):
        """The driver is named."""
        self.pmu = None
        with raises(self, HardwareError, "no amd_df PMU; .*modprobe amd_uncore"):
            self.reader.watch()

    def test_found(self):
        """The kernel's PMU is one folder."""
        root = trees.folder(self)
        self.assertIsNone(fabric.fabric_pmu(root))
        folder = Path(root / "amd_df")
        (folder / "format").mkdir(parents=True)
        (folder / "type").write_text("14\n")
        (folder / "cpumask").write_text("0,4\n")
        for name, text in FORMATS.items():
            (folder / "format" / name).write_text(f"{text}\n")
        self.assertEqual(self.pmu, fabric.fabric_pmu(root))
