# SPDX-License-Identifier: Apache-2.0
"""Memory under load, held against published loaded latencies, and its saturation."""

import dataclasses
import threading
import unittest

import numpy as np

from iat_nova.experiments.engine import cache, memory
from iat_nova.experiments.machines.machine import GOLD_6140
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.hardware.api import ClassMask
from iat_nova.model import WayMask

STREAMS = """\
length: 10s
sampling: {sampling}
workloads:
  streams: {{profile: xmem, cpus: {cpus}, working_set: 256MiB, writes: {writes}}}
"""
# Intel's Memory Latency Checker on a Xeon Platinum 8180, one of two sockets, reads only (FD.io
# CSIT, calibration data of its Skylake testbeds): GB/s and nanoseconds. Same DIMMs as the 6140's.
PUBLISHED = ((24.9, 92.3), (34.4, 94.5), (42.5, 95.5), (55.8, 101.2), (80.1, 121.9))
# The same tool's saturated bandwidth by the share of writes, GB/s.
SATURATED = ((0.0, 108.4), (0.25, 91.3), (0.33, 89.4), (0.5, 74.7))


def latency_ns(reads_gbps, writes_gbps=0.0):
    """Return the latency that `update` settles on under a constant load."""
    state = memory.make(GOLD_6140, 1)
    caches = cache.make(GOLD_6140, 32)
    for step in range(1, 200):
        seconds = step * 50e-6
        caches.served[0, cache.MEMORY] = reads_gbps * 1e9 / 64 * seconds
        caches.totals[cache.TOTALS.write_backs] = writes_gbps * 1e9 / 64 * seconds
        memory.update(state, caches, seconds)
    return state.latency[cache.MEMORY] / GOLD_6140.frequency_hz * 1e9


def streaming(cores, writes="0.1%", sampling=32):
    """Return GB/s and latency when `cores` keep 20 misses in flight each, as prefetchers do."""
    text = STREAMS.format(cpus=list(range(cores)), writes=writes, sampling=sampling)
    scenario = read_scenario(text, "x", "x")
    workload = scenario.workloads[0]
    profile = dataclasses.replace(workload.profile, own_cycles=1.0, overlap=(20.0,) * 4)
    workloads = (dataclasses.replace(workload, profile=profile),)
    server = EmulatedServer(dataclasses.replace(scenario, workloads=workloads))
    wake, caches = threading.Event(), server.plant.state.caches
    server.wait(wake, 0.006)
    before = memory.memory_lines(caches)
    server.wait(wake, 0.004)
    moved = (memory.memory_lines(caches) - before) * sampling * 64
    return moved / 0.004 / 1e9, server.plant.state.memory.latency[cache.MEMORY] / 2.3


class TestLoadedLatency(unittest.TestCase):
    """The curve."""

    def test_follows_the_published_curve(self):
        """From a fifth to three quarters of what can be had, within 10 % of the measurements."""
        for load, published_ns in PUBLISHED:
            with self.subTest(load):
                self.assertAlmostEqual(1.0, latency_ns(load) / published_ns, delta=0.1)

    def test_is_two_to_four_times_as_high_when_saturated(self):
        """At the 108 GB/s that reads reach: published are 227 to 283 ns."""
        self.assertGreater(latency_ns(108.4), 215)
        self.assertLess(latency_ns(108.4), 300)

    def test_rises_with_every_load_and_stays_finite(self):
        """More load is never quicker, and a load above the peak has an end."""
        found = [latency_ns(load) for load in range(0, 200, 10)]
        self.assertEqual(sorted(found), found)
        self.assertAlmostEqual(GOLD_6140.memory_ns, found[0])
        self.assertTrue(np.isfinite(found[-1]))

    def test_writes_load_more_than_reads(self):
        """Where a mix saturates, the latency is that of saturated reads, within a quarter."""
        reads_only = latency_ns(SATURATED[0][1])
        for share, saturated in SATURATED[1:]:
            with self.subTest(share):
                mixed = latency_ns((1 - share) * saturated, share * saturated)
                self.assertAlmostEqual(1.0, mixed / reads_only, delta=0.25)


class TestSaturation(unittest.TestCase):
    """What cores get when they want all they can."""

    def test_few_cores_get_what_they_ask_for_and_many_share_what_there_is(self):
        """Three cores scale; from 9 to 18 bandwidth hardly rises, latency does."""
        one, three, nine, all_cores = (streaming(cores) for cores in (1, 3, 9, 18))
        self.assertGreater(three[0], 2.5 * one[0])
        self.assertLess(all_cores[0], 1.3 * nine[0])
        self.assertGreater(all_cores[1], 1.5 * nine[1])
        self.assertLess(all_cores[0], 0.92 * 128)
        self.assertGreater(all_cores[0], 0.75 * 128)

    def test_half_writes_get_less(self):
        """Lines that are all written back come to less than reads alone; published are 69 %.

        Here it is more, as these cores ask for no more lines than with reads alone.
        """
        reads, mixed = (streaming(18, writes)[0] for writes in ("0.1%", "100%"))
        self.assertGreater(mixed, 0.6 * reads)
        self.assertLess(mixed, 0.86 * reads)

    def test_sampling_does_not_change_it(self):
        """One line in 8 or in 32: the same bandwidth within 3 %."""
        some, few = (streaming(12, sampling=sampling)[0] for sampling in (8, 32))
        self.assertAlmostEqual(1.0, some / few, delta=0.03)


LIMITED = """\
length: 10s
mba: true
workloads:
  far: {profile: xmem, cpus: [0], working_set: 256MiB}
  near: {profile: xmem, cpus: [1], working_set: 8MiB}
  inside: {profile: xmem, cpus: [2], working_set: 256KiB}
"""


def work(percent):
    """Return what each workload gets done with so much of its memory bandwidth."""
    server = EmulatedServer(read_scenario(LIMITED, "x", "x"))
    mask = WayMask(0x7FF)
    names = ("far", "near", "inside")
    server.apply(0, tuple(ClassMask(n, (c,), mask, percent) for c, n in enumerate(names)))
    wake = threading.Event()
    server.wait(wake, 0.02)
    before = server.metrics()
    server.wait(wake, 0.02)
    return {name: one.since(before[name]).work for name, one in server.metrics().items()}


class TestLimit(unittest.TestCase):
    """MBA's steps."""

    def test_who_only_waits_for_memory_gets_its_percentage(self):
        """At each of the ten steps, within 3 % of what it had."""
        whole = work(None)["far"]
        for percent in range(10, 100, 20):
            with self.subTest(percent):
                self.assertAlmostEqual(percent / 100, work(percent)["far"] / whole, delta=0.03)

    def test_who_hits_the_cache_is_delayed_as_well(self):
        """More than the limit says in the LLC, whose hits are shorter; not at all within L2."""
        whole, half = work(None), work(50)
        self.assertLess(half["near"] / whole["near"], half["far"] / whole["far"] - 0.02)
        self.assertGreater(half["inside"] / whole["inside"], 0.99)

    def test_no_limit_is_no_change(self):
        """All of it is, to the last bit, what an unlimited machine does."""
        self.assertEqual(work(None), work(100))
