# SPDX-License-Identifier: Apache-2.0
"""L2's adjacent-line prefetcher: which lines it brings, and what they cost."""

import dataclasses
import threading
import unittest

import numpy as np

from iat_nova.experiments.sim import cache, machine
from iat_nova.experiments.sim.reader import read_scenario
from iat_nova.experiments.sim.server import EmulatedServer
from iat_nova.experiments.sim.workloads import threads as th

MEMORY = """\
length: 1s
workloads:
  app: {profile: xmem, cpus: [0], working_set: 200MiB}
"""
PACKETS = """\
length: 1s
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
workloads:
  app: {profile: touch, cpus: [0], nic: nic0, ring: 256}
traffic:
  nic0: {to: app, rate: 1Gb/s, packet: 64B}
"""


def run(text, adjacent_line=True, seconds=0.02, **profile):
    """Return the server after a run of a workload whose profile is changed as given."""
    scenario = read_scenario(text, "pairs", "pairs")
    described = dataclasses.replace(scenario.machine, adjacent_line=adjacent_line)
    changed = [
        dataclasses.replace(one, profile=dataclasses.replace(one.profile, **profile))
        for one in scenario.workloads
    ]
    scenario = dataclasses.replace(scenario, machine=described, workloads=tuple(changed))
    server = EmulatedServer(scenario, 1)
    server.wait(threading.Event(), seconds)
    return server


def counts(server):
    """Return the lines that core 0's instructions and its prefetchers had from memory."""
    caches = server.plant.state.caches
    return int(caches.served[0, cache.MEMORY]), int(caches.prefetched[0, cache.MEMORY])


class AdjacentLineTest(unittest.TestCase):
    def test_off_by_default_without_a_prefetch(self):
        """Machines have it off, and then no line of a thread's own memory is prefetched."""
        self.assertFalse(any(one.adjacent_line for one in machine.MACHINES.values()))
        demanded, fetched = counts(run(MEMORY, adjacent_line=False))
        self.assertGreater(demanded, 1000)
        self.assertEqual(0, fetched)

    def test_each_miss_fetches_the_pair(self):
        """Random reads of 200 MiB: memory is read twice as often, and the counters see both."""
        server = run(MEMORY)
        demanded, fetched = counts(server)
        self.assertGreater(demanded, 1000)
        self.assertAlmostEqual(1.0, fetched / demanded, delta=0.03)
        server.watch([0])
        seen = server.read_counts().cores[0].misses / server._scale
        self.assertEqual(demanded + fetched, round(seen))

    def test_pairs_that_are_used(self):
        """Lines used in twos: as many lines as without the prefetcher, half of them fetched."""
        plain = run(MEMORY, adjacent_line=False)
        paired = run(MEMORY, pair_used=1.0)
        lines = sum(counts(paired))
        self.assertAlmostEqual(1.0, lines / sum(counts(plain)), delta=0.03)
        self.assertAlmostEqual(0.5, counts(paired)[1] / lines, delta=0.02)
        # What comes together waits together: the fetch saves no time.
        latency = [
            one.metrics()["app"].access_cycles / one.metrics()["app"].accesses
            for one in (plain, paired)
        ]
        self.assertAlmostEqual(1.0, latency[1] / latency[0], delta=0.03)

    def test_shares_of_accesses(self):
        """The share of accesses that come in twos is what the profile says."""
        for share in (0.3, 0.8):
            served = run(MEMORY, pair_used=share).plant.state.caches.served[0]
            # Half of the accesses that come in twos find what the prefetcher has fetched.
            self.assertAlmostEqual(share / 2, served[cache.L2] / served.sum(), delta=0.02)

    def test_empty_pairs(self):
        """Empty pair lines push others out of L2, unless all lines in use fit."""
        hits = {}
        for size in ("768KiB", "2MiB"):
            for empty in (0.0, 1.0):
                server = run(MEMORY.replace("200MiB", size), seconds=0.1, pair_empty=empty)
                served = server.plant.state.caches.served[0]
                hits[size, empty] = served[cache.L2] / served.sum()
        self.assertGreater(hits["768KiB", 1.0], 0.98)
        self.assertGreater(hits["2MiB", 0.0] - hits["2MiB", 1.0], 0.1)

    def test_places(self):
        """Full pairs come first; of the others each has a block of its own, in either half."""
        t = run(MEMORY, seconds=0.001, pair_empty=0.75).plant.state.threads
        places = np.array([th._pair_place(t, 0, line, 4000) for line in range(4000)])
        self.assertEqual(list(range(1000)), places[:1000].tolist())
        blocks = places[1000:] >> 1
        self.assertEqual(list(range(500, 3500)), blocks.tolist())
        self.assertAlmostEqual(0.5, float((places[1000:] & 1).mean()), delta=0.05)

    def test_buffers(self):
        """A packet of one line: beside its header and its mbuf, in the same blocks, lines come.

        Three lines of a buffer are accessed. Where the buffer starts in the first half of a block,
        each has a pair that is not accessed; else the header has.
        """
        server = run(PACKETS, seconds=0.05)
        caches, rings = server.plant.state.caches, server.plant.state.rings
        self.assertGreater(caches.prefetched[0].sum(), 0)
        held = {int(one) >> 3 for one in caches.l2[0, :, 0].ravel() if one >= 0}
        places = set()
        for buffer in range(len(rings.offsets)):
            for row in range(rings.first[buffer], rings.first[buffer + 1]):
                if int(rings.lines[row, 0]) in held:
                    places.add((int(rings.offsets[buffer]) & 1, int(rings.lines[row, 1])))
        even = {(0, 1), (0, 2), (0, 5), (0, 0), (0, 3), (0, 4)}
        odd = {(1, 1), (1, 2), (1, 5), (1, 6)}
        self.assertEqual(even | odd, places)
        alone = run(PACKETS, adjacent_line=False, seconds=0.05)
        self.assertEqual(0, alone.plant.state.caches.prefetched[0].sum())
