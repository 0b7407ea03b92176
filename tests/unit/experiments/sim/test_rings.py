# SPDX-License-Identifier: Apache-2.0
"""Rings, mempools and the time that packets take between them."""

import unittest

from iat_nova.experiments.engine import cache, nic, rings
from iat_nova.experiments.engine.layout import number
from iat_nova.experiments.engine.memory import memory_writes
from tests.unit.experiments.sim import scenes

PIPELINE = """\
workloads:
  mac: {{profile: vcmts, cpus: [0], nic: nic0, pool: {pool}, ring: 256, buffers: 8192}}
traffic:
  mac: {{to: mac, rate: {rate}, packet: 1520B}}
"""


def circulating(state, pool):
    """Return how many of a pool's buffers are on its rings."""
    mine = state[state[:, rings.RING.pool] == pool]
    return int((mine[:, rings.RING.posted] - mine[:, rings.RING.taken]).sum())


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
                    free = table.pools[0, rings.POOL.tail] - table.pools[0, rings.POOL.head]
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
            before, received = memory_writes(caches), caches.totals[0] + caches.totals[1]
            scenes.run(machine, 0.02)
            received = caches.totals[0] + caches.totals[1] - received
            to_memory[pool] = (memory_writes(caches) - before) / received
        self.assertLess(to_memory["stack"], 0.05)
        self.assertGreater(to_memory["ring"], 0.5)


def lines_in_l2(machine, core):
    """Return the sampled lines that a core's L2 has."""
    entries = machine.plant.state.caches.l2[core, :, 0]
    return set((entries[entries >= 0] >> 3).tolist())


class TestDriver(unittest.TestCase):
    """Whose buffers are used again, and which of their lines are written."""

    def placed(self, text):
        """Return the shares of inbound lines that were placed anew, and that missed."""
        machine = scenes.server(scenes.HEAD + text)
        scenes.run(machine, 0.01)
        totals = machine.plant.state.caches.totals
        before = totals.copy()
        scenes.run(machine, 0.01)
        count = dict(zip(cache.TOTAL_NAMES, (totals - before).tolist(), strict=True))
        inbound = count["ddio_hits"] + count["ddio_misses"]
        return count["ddio_placed"] / inbound, count["ddio_misses"] / inbound

    def test_who_writes_the_header_owns_it(self):
        """What a core wrote, the next packet is placed anew; what it read is in the LLC still."""
        writer = scenes.FORWARDER.format(ring=256, rate="1Gb/s", packet=64)
        self.assertEqual((1, 0), self.placed(writer))
        self.assertEqual((0, 0), self.placed(writer.replace("testpmd", "touch")))

    def test_a_switch_receives_into_what_it_has_sent(self):
        """The card gets the buffers that were sent last: written by copies."""
        text = scenes.SWITCHED.format(flows=1)
        # Bursts that are full, and one thread that allocates and frees.
        for before, after in (("2Gb/s", "30Gb/s"), ("[0, 1]", "[0]"), ("[2, 3]", "[2]")):
            text = text.replace(before, after)
        self.assertEqual((1, 0), self.placed(text))

    def test_sent_buffers_are_freed_once_a_burst(self):
        """A sender has a lot of descriptors free after each step, not only when it needs one."""
        text = scenes.FORWARDER.format(ring=512, rate="5Gb/s", packet=64)
        machine = scenes.server(scenes.HEAD + text)
        scenes.run(machine, 0.005)
        send = machine.plant.queues["fwd"][0].send
        for _ in range(20):
            scenes.run(machine, 0.00001)
            ring = machine.plant.state.rings.state[send]
            vacant = ring[rings.RING.size] - (ring[rings.RING.posted] - ring[rings.RING.taken])
            self.assertTrue(number("RECLAIM") <= vacant < 2 * number("RECLAIM"), vacant)

    def test_a_switch_leaves_a_guests_mbufs_alone(self):
        """Through a virtqueue it sees packets; its own mbufs it has all the more."""
        machine = scenes.server(scenes.HEAD + scenes.SWITCHED.format(flows=1))
        scenes.run(machine, 0.01)
        table, seen = machine.plant.state.rings, lines_in_l2(machine, 0)
        found = {}
        for owner in ("ovs", "guest"):
            pool = table.state[machine.plant.queues[owner][0].receive, rings.RING.pool]
            base, count = table.pools[pool, [rings.POOL.base, rings.POOL.count]]
            rows = table.lines[table.first[base] : table.first[base + count]]
            mbufs = (rows[:, 1] >= number("MBUF_LINE")) & (rows[:, 1] < number("MBUF_LINE") + 2)
            found[owner] = len(seen & set(rows[mbufs, 0].tolist()))
        self.assertGreater(found["ovs"], 0)
        self.assertEqual(0, found["guest"])

    def test_a_ring_of_one_lot_is_filled_again(self):
        """As long as packets come, so do buffers.

        Only when all 32 are used, so of the four packets of a step up to three find none left.
        """
        text = scenes.FORWARDER.format(ring=32, rate="1Gb/s", packet=64)
        machine = scenes.server(scenes.HEAD + text)
        scenes.run(machine, 0.01)
        done = machine.metrics()["fwd"]
        self.assertGreater(done.packets, (1 - 3 / 32) * done.offered)


class TestEmptyPool(unittest.TestCase):
    """A pool that was empty for a while stops nothing for ever."""

    def test_a_kernels_ring_goes_on(self):
        """Buffers that are freed while none is with the card reach it at the next poll."""
        text = scenes.HEAD + (
            "workloads:\n"
            "  mac: {profile: vcmts, cpus: [0], nic: nic0, ring: 32, backlog: 32, send_ring: 32,"
            " buffers: 128, jitter: 50us}\n"
            "traffic:\n  mac: {to: mac, rate: 10Gb/s, packet: 256B, burst: 64}\n"
        )
        machine = scenes.server(text)
        scenes.run(machine, 0.03)
        before = machine.metrics()["mac"].packets
        scenes.run(machine, 0.005)
        self.assertGreater(machine.metrics()["mac"].packets, before)


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
        self.assertLessEqual(ring[rings.RING.posted] - ring[rings.RING.taken], 64 + number("REARM"))
        self.assertEqual(0, ring[rings.RING.dropped])
        ring = self.ring("40Gb/s")
        self.assertGreater(ring[rings.RING.dropped], 0)
        self.assertGreater(ring[rings.RING.posted] - ring[rings.RING.taken], 256 - number("REARM"))

    def test_the_card_has_its_descriptors_and_no_more(self):
        """However much waits, no more empty buffers than descriptors are posted."""
        for rate in ("100Mb/s", "40Gb/s"):
            ring = self.ring(rate)
            self.assertLessEqual(ring[rings.RING.posted] - ring[rings.RING.done], 64)


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

    def test_a_bin_tells_a_latency_to_one_in_64(self):
        """The middle of the bin that a latency falls into is near it, from 1 ns to 97 s."""
        for latency_ns in [1, 2, 3, 63, 64, 65, 1000] + [7**n for n in range(2, 14)]:
            middle_ns = nic.middle_ns(nic.bin_of(latency_ns))
            self.assertLessEqual(abs(middle_ns - latency_ns), latency_ns / 64, latency_ns)
        self.assertEqual(nic.BINS - 1, nic.bin_of(1 << 62))

    def test_load_adds_waiting(self):
        """More load, longer latency."""
        self.assertLess(self.latency_ns("1Gb/s"), self.latency_ns("35Gb/s"))
