# SPDX-License-Identifier: Apache-2.0
"""Counters against a real kernel: what is fed into the registers is what is read."""

import os
import threading
import unittest

from iat_nova.agent.loop import LEAST_SAMPLE_S
from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import CoreCounts, HardwareError
from iat_nova.hardware.counters import events
from iat_nova.hardware.counters.cha import ChaPerf, cha_pmus
from iat_nova.hardware.counters.perf import PerfCounters
from iat_nova.hardware.counters.perf_event import PerfEvent
from tests.lab.guest.machine import TOPOLOGY, Registers, plug
from tests.proofs import proves
from tests.said import raises

MODEL = events.cpu_model().known
REGISTERS = Registers()


def domain_of_processors():
    return {cpu: cache.id for cache in TOPOLOGY.caches() for cpu in cache.cpus}


def first_cpus():
    return {cache.id: cache.cpus[0] for cache in TOPOLOGY.caches()}


@proves("counters: perf")
class Perf(unittest.TestCase):
    """perf_event_open and the kernel's CHA PMUs, one slice for all."""

    slices = 1

    def setUp(self):
        self.cpus = sorted(TOPOLOGY.online())
        self.domains = [cache.id for cache in TOPOLOGY.caches()]
        domains = ChaPerf(MODEL.cha, domain_of_processors, slices=self.slices)
        self.counters = PerfCounters(MODEL.core, SystemClock(), domains=domains)
        self.addCleanup(self.counters.close)
        self.counters.watch(self.cpus)

    def read(self):
        """Read, no sooner than the loop would: the kernel's clock moves in ticks in here."""
        threading.Event().wait(LEAST_SAMPLE_S)
        return self.counters.read()

    def feed(self, cpu, *counts):
        REGISTERS.add_core(cpu, *counts)

    def core_deltas(self, before, after):
        return {
            cpu: CoreCounts(*(b - a for a, b in zip(before.cores[cpu], counts, strict=True)))
            for cpu, counts in after.cores.items()
        }

    def test_the_model_is_known(self):
        """The lab's CPU is found in the event tables."""
        self.assertEqual(events.SKYLAKE, MODEL)

    def test_cores(self):
        """Each CPU's own counts arrive, all four of them, and nobody else's."""
        before = self.read()
        for cpu in self.cpus:
            self.feed(cpu, 4_000_000 + cpu, 1_000_000 + cpu, 10_000 + cpu, 1_000 + cpu)
        after = self.read()
        self.assertEqual(
            {
                cpu: CoreCounts(4_000_000 + cpu, 1_000_000 + cpu, 10_000 + cpu, 1_000 + cpu)
                for cpu in self.cpus
            },
            self.core_deltas(before, after),
        )
        rest = self.core_deltas(after, self.read())
        self.assertEqual(dict.fromkeys(self.cpus, (0, 0, 0, 0)), rest)

    def test_ddio(self):
        """PCIe writes of each socket arrive as hits and misses of its domain."""
        before = self.read().domains
        for socket in self.domains:
            REGISTERS.add_pcie(
                write_hits=180_000 * (socket + 1), write_misses=18_000, read_hits=999_000,
                read_misses=99_000, socket=socket,
            )  # fmt: skip
        after = self.read().domains
        for socket in self.domains:
            hits = after[socket].ddio_hits - before[socket].ddio_hits
            misses = after[socket].ddio_misses - before[socket].ddio_misses
            self.assertEqual((180_000 * (socket + 1), 18_000), (hits, misses))

    def test_offline_and_back(self):
        """A CPU that goes is absent, and counts on from its totals when it comes back."""
        cpu = self.cpus[-1]
        self.feed(cpu, 100, 100, 100, 100)
        before = self.read().cores[cpu]
        plug(cpu, False)
        try:
            self.assertNotIn(cpu, self.read().cores)
            self.counters.watch(self.cpus)
            self.assertEqual(set(self.cpus) - {cpu}, self.read().cores.keys())
        finally:
            plug(cpu, True)
        self.assertNotIn(cpu, self.read().cores)
        self.counters.watch(self.cpus)
        again = self.read().cores[cpu]
        self.assertTrue(all(b >= a for a, b in zip(before, again, strict=True)), (before, again))
        self.feed(cpu, 7, 6, 5, 4)
        after = self.read().cores[cpu]
        self.assertEqual((7, 6, 5, 4), tuple(b - a for a, b in zip(again, after, strict=True)))

    def test_off_and_on_between_two_readings(self):
        """Even after an absence nobody saw totals never fall, and the next watch counts again."""
        cpu = self.cpus[-1]
        before = self.read().cores[cpu]
        plug(cpu, False)
        plug(cpu, True)
        self.assertNotIn(cpu, self.read().cores)
        self.counters.watch(self.cpus)
        after = self.read().cores[cpu]
        self.assertTrue(all(b >= a for a, b in zip(before, after, strict=True)), (before, after))

    def test_no_descriptor_is_leaked(self):
        """Many changes of the watched set end with as many descriptors as before."""
        self.read()
        before = len(os.listdir("/proc/self/fd"))
        for n in range(8):
            self.counters.watch(self.cpus[n % 2 :: 2])
            self.read()
        self.counters.watch(self.cpus)
        self.assertEqual(before, len(os.listdir("/proc/self/fd")))

    def test_pmus(self):
        """The kernel shows one PMU a slice, and one CPU of each socket to count."""
        pmus = cha_pmus()
        self.assertEqual(18, len(pmus))
        self.assertEqual(tuple(first_cpus().values()), pmus[0].cpumask)

    def test_an_event_that_does_not_exist(self):
        """A PMU that is not there is refused with the event in the text."""
        bad = events.CoreEvents("bad", (PerfEvent(99, 1),) * 4)
        with raises(self, HardwareError, "type 99 config 0x1: .*does not offer"):
            PerfCounters(bad, SystemClock()).watch([0])


class PerfAllSlices(Perf):
    """All slices added up."""

    slices = None
