# SPDX-License-Identifier: Apache-2.0
"""Rings, mempools and the time that packets take between them."""

import unittest

from iat_nova.sim import cache, rings
from tests.unit.sim import scenes

PIPELINE = """\
workloads:
  mac: {{profile: vcmts, cpus: [0], nic: nic0, pool: {pool}, ring: 256, buffers: 8192}}
traffic:
  mac: {{to: mac, rate: {rate}, packet: 1520B}}
"""


def circulating(state, pool):
    """Return how many of a pool's buffers are on its rings."""
    mine = state[state[:, rings.POOL] == pool]
    return int((mine[:, rings.POSTED] - mine[:, rings.TAKEN]).sum())


class TestPipeline(unittest.TestCase):
    def machine(self, pool, rate="5Gb/s"):
        return scenes.server(scenes.HEAD + PIPELINE.format(pool=pool, rate=rate))

    def test_no_buffer_is_lost(self):
        """What is not free is on a ring, under any load; what arrives leaves or is dropped."""
        for pool in ("stack", "ring"):
            for rate in ("5Gb/s", "40Gb/s"):
                with self.subTest(pool=pool, rate=rate):
                    machine = self.machine(pool, rate)
                    scenes.run(machine, 0.01)
                    table = machine.plant.state.rings
                    free = table.pools[0, rings.TAIL] - table.pools[0, rings.HEAD]
                    self.assertEqual(8192, free + circulating(table.state, 0))
                    done = machine.metrics()["mac"]
                    waiting = done.offered - done.dropped - done.packets
                    self.assertTrue(0 <= waiting <= 256 + 1024 + 256 + 64, waiting)
                    self.assertEqual(rate == "40Gb/s", done.dropped > 0)

    def test_a_ring_pool_walks_through_all_buffers(self):
        """First in, first out leaves every buffer cold; last in, first out keeps a few warm."""
        to_memory = {}
        for pool in ("stack", "ring"):
            machine = self.machine(pool)
            caches = machine.plant.state.caches
            scenes.run(machine, 0.05)
            before, received = cache.memory_writes(caches), caches.totals[0] + caches.totals[1]
            scenes.run(machine, 0.02)
            received = caches.totals[0] + caches.totals[1] - received
            to_memory[pool] = (cache.memory_writes(caches) - before) / received
        self.assertLess(to_memory["stack"], 0.05)
        self.assertGreater(to_memory["ring"], 0.5)


class TestBacklog(unittest.TestCase):
    """What waits beside what the card has."""

    def ring(self, rate):
        text = scenes.HEAD + (
            "workloads:\n"
            "  app: {profile: netperf, cpus: [0], nic: nic0, ring: 64, backlog: 192,"
            " send_ring: 32, buffers: 512}\n"
            f"traffic:\n  app: {{to: app, rate: {rate}, packet: 1500B}}\n"
        )
        machine = scenes.server(text)
        scenes.run(machine, 0.01)
        return machine.plant.state.rings.state[0]

    def test_grows_only_when_the_owner_is_late(self):
        """At low load the card's 64 buffers are all there are, under overload all 256 are."""
        ring = self.ring("100Mb/s")
        self.assertLessEqual(ring[rings.POSTED] - ring[rings.TAKEN], 64 + rings.REARM)
        self.assertEqual(0, ring[rings.DROPPED])
        ring = self.ring("40Gb/s")
        self.assertGreater(ring[rings.DROPPED], 0)
        self.assertGreater(ring[rings.POSTED] - ring[rings.TAKEN], 256 - rings.REARM)

    def test_the_card_has_its_descriptors_and_no_more(self):
        """However much waits, no more empty buffers than descriptors are posted."""
        for rate in ("100Mb/s", "40Gb/s"):
            ring = self.ring(rate)
            self.assertLessEqual(ring[rings.POSTED] - ring[rings.DONE], 64)


class TestLatency(unittest.TestCase):
    def latency_ns(self, rate, step="5us"):
        text = f"step: {step}\n" + scenes.HEAD
        text += scenes.FORWARDER.format(ring=1024, rate=rate, packet=512)
        _, done = scenes.measured(scenes.server(text), 0.005, 0.01)
        return done["fwd"]["latency_ns"] / done["fwd"]["packets"]

    def test_a_latency_shorter_than_a_step_is_resolved(self):
        """At low load a packet takes its service and the wire; the length of steps is no matter."""
        wire_ns = (512 + 20) * 8 / 40
        long, short = self.latency_ns("1Gb/s"), self.latency_ns("1Gb/s", "1us")
        self.assertGreater(long, wire_ns)
        self.assertLess(long, 1000)
        self.assertLess(abs(long - short) / short, 0.15)

    def test_load_adds_waiting(self):
        """More load, longer latency."""
        self.assertLess(self.latency_ns("1Gb/s"), self.latency_ns("35Gb/s"))
