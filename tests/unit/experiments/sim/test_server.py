# SPDX-License-Identifier: Apache-2.0
"""The emulated server: what the papers saw, its clock, its counters and its knobs."""

import itertools
import threading
import time
import unittest

from iat_nova.experiments.engine import rings
from iat_nova.experiments.engine.layout import number
from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.model import WayMask
from tests.unit.experiments.sim import scenes

XMEM = """\
length: 10s
workloads:
  xmem: {profile: xmem, cpus: [0], working_set: 12MiB}
"""


class TestPhenomena(unittest.TestCase):
    """The shapes of the literature."""

    def ddio_miss_ratio(self, ring, packet, ways=2):
        machine = scenes.server(
            scenes.HEAD + scenes.FORWARDER.format(ring=ring, rate="30Gb/s", packet=packet)
        )
        machine.write(0, WayMask.span(11 - ways, ways))
        ddio, _ = scenes.measured(machine, 0.01, 0.01)
        return ddio["ddio_misses"] / (ddio["ddio_hits"] + ddio["ddio_misses"])

    def test_leaky_dma_appears_when_buffers_outgrow_ddios_ways(self):
        """Buffers in flight of 1.5 MB hit, of 6 MB miss in 4.5 MB and hit again in 9 MB."""
        self.assertLess(self.ddio_miss_ratio(256, 1500), 0.1)
        self.assertGreater(self.ddio_miss_ratio(1024, 1500), 0.5)
        self.assertLess(self.ddio_miss_ratio(1024, 1500, ways=6), 0.1)

    def test_latent_contender_slows_xmem_on_ddios_ways(self):
        """X-Mem is slower on DDIO's two ways than on two others, beside the same traffic."""
        text = scenes.HEAD + (
            "workloads:\n"
            "  fwd: {profile: l3fwd, cpus: [0, 1], nic: nic0}\n"
            "  xmem: {profile: xmem, cpus: [2], working_set: 4MiB}\n"
            "masks: {fwd: 0x003, xmem: %s}\n"
            "traffic: {fwd: {to: fwd, rate: 38Gb/s, packet: 1500B, flows: 1000}}\n"
        )
        work = {}
        for mask in ("0x600", "0x060"):
            _, done = scenes.measured(scenes.server(text % mask), 0.03, 0.02)
            work[mask] = done["xmem"]["work"]
        self.assertLess(work["0x600"], 0.9 * work["0x060"])

    def test_more_flows_more_misses_in_the_switch(self):
        """The switch misses the LLC only where its flow table has outgrown its ways."""
        rates = []
        for flows in (1, 1000, 100000):
            text = scenes.HEAD + scenes.SWITCHED.format(flows=flows)
            _, done = scenes.measured(scenes.server(text), 0.03, 0.02)
            rates.append(done["ovs"]["misses"] / done["ovs"]["work"])
        self.assertLess(rates[0], 0.1)
        self.assertLess(rates[1], 0.1)
        self.assertGreater(rates[2], 1)

    def test_more_ways_fewer_misses(self):
        """X-Mem's misses fall with each way that it gets."""
        misses = []
        for ways in (1, 3, 6):
            machine = scenes.server(XMEM)
            machine.apply(0, (ClassMask("x", (0,), WayMask.span(0, ways)),))
            _, done = scenes.measured(machine, 0.02, 0.02)
            misses.append(done["xmem"]["misses"] / done["xmem"]["work"])
        self.assertGreater(misses[0], misses[1])
        self.assertGreater(misses[1], misses[2])

    def test_packets_drop_only_when_a_ring_is_full(self):
        """Below capacity nothing drops; above it what drops and what is served add up."""
        for rate, drops in (("2Gb/s", False), ("38Gb/s", True)):
            machine = scenes.server(
                scenes.HEAD + scenes.FORWARDER.format(ring=512, rate=rate, packet=64)
            )
            scenes.run(machine, 0.004)
            state = machine.plant.state.rings.state
            done = machine.metrics()["fwd"]
            receive = [queue.receive for queue in machine.plant.queues["fwd"]]
            peak = max(state[receive, rings.RING.peak])
            # Between full bursts two lots of buffers have yet to be given to the card: one is when
            # more than one is due, and then the burst takes one more.
            full = 512 - 2 * number("REARM")
            self.assertEqual(drops, done.dropped > 0, rate)
            self.assertEqual(drops, peak == full, f"{rate}: at most {peak} waited")
            waiting = sum(state[ring, 1] - state[ring, 2] for ring in receive)
            for queue in machine.plant.queues["fwd"]:
                waiting += state[queue.send, 0] - state[queue.send, 1]
            self.assertEqual(done.offered, done.packets + done.dropped + waiting)

    def test_sampling_agrees_with_the_full_simulation(self):
        """One line in 32 gives X-Mem's miss ratio within 2 points of all lines."""
        ratios = []
        for sampling in (1, 32):
            machine = scenes.server(XMEM + f"masks: {{xmem: 0x007}}\nsampling: {sampling}\n")
            _, done = scenes.measured(machine, 0.03, 0.01)
            ratios.append(done["xmem"]["misses"] / done["xmem"]["references"])
        self.assertLess(abs(ratios[0] - ratios[1]), 0.02, ratios)


class TestClock(unittest.TestCase):
    """Virtual time."""

    def test_time_is_exact(self):
        """Ten waits of a tenth of a second are one second to the nanosecond."""
        machine = scenes.server(XMEM + "compression: 1%\n")
        for _ in range(10):
            self.assertFalse(machine.wait(threading.Event(), 0.1))
        self.assertEqual(1.0, machine.now())
        self.assertEqual(machine.wall() - 1.0, scenes.server(XMEM).wall())

    def test_wake_ends_the_wait(self):
        """A set event ends the wait before any time passes."""
        machine, wake = scenes.server(XMEM), threading.Event()
        wake.set()
        self.assertTrue(machine.wait(wake, 1.0))
        self.assertEqual(0.0, machine.now())

    def test_pace_holds_emulated_time_back(self):
        """At ten times real time 0.2 emulated seconds take at least 20 ms."""
        started = time.monotonic()  # the machine's time begins when it is made
        machine = scenes.server(XMEM + "compression: 1%\n", pace=10.0)
        scenes.run(machine, 0.2)
        self.assertGreaterEqual(time.monotonic() - started, 0.02)

    def test_events_happen_at_their_time(self):
        """A change of DDIO's ways is there from its moment on and not before."""
        text = XMEM + "compression: 1%\nevents: [{at: 150ms, set: ddio.ways, to: 4}]\n"
        machine = scenes.server(text)
        scenes.run(machine, 0.149)
        self.assertEqual(0x600, machine.read(0))
        scenes.run(machine, 0.002)
        self.assertEqual(0x780, machine.read(0))


class TestCounters(unittest.TestCase):
    """What a strategy sees."""

    TEXT = scenes.HEAD + scenes.FORWARDER.format(ring=512, rate="20Gb/s", packet=512)

    def readings(self, count=5, **options):
        machine = scenes.server(self.TEXT, **options)
        machine.watch(range(18))
        found = []
        for _ in range(count):
            scenes.run(machine, 0.002)
            found.append(machine.read())
        return found

    def test_deterministic_for_a_seed(self):
        """Two runs with one seed read the same; another seed reads otherwise."""
        self.assertEqual(self.readings(seed=7, noise=0.01), self.readings(seed=7, noise=0.01))
        self.assertNotEqual(self.readings(seed=7, noise=0.01), self.readings(seed=8, noise=0.01))

    def test_counters_never_go_back(self):
        """Each reading is at least the one before, even with much noise."""
        found = self.readings(count=8, noise=2.0, one_slice=True)
        for before, after in itertools.pairwise(found):
            for cpu, counts in before.cores.items():
                self.assertTrue(all(a >= b for a, b in zip(after.cores[cpu], counts, strict=True)))
            pairs = zip(after.domains[0], before.domains[0], strict=True)
            self.assertTrue(all(a >= b for a, b in pairs if a is not None))

    def test_one_slice_stands_for_all(self):
        """One CHA's counts times their number are near the sum of all."""
        one, every = (
            scenes.measured(scenes.server(self.TEXT + "sampling: 1\n", one_slice=flag), 0, 0.004)[0]
            for flag in (True, False)
        )
        total = every["ddio_hits"] + every["ddio_misses"]
        self.assertNotEqual(one, every)
        self.assertLess(abs(one["ddio_hits"] + one["ddio_misses"] - total) / total, 0.1)

    def test_ddio_counts_the_lines_on_the_wire(self):
        """DDIO's hits and misses are the arriving packets' lines, scaled up right."""
        machine = scenes.server(self.TEXT)
        ddio, done = scenes.measured(machine, 0.002, 0.01)
        lines = 8 * (done["fwd"]["offered"] - done["fwd"]["dropped"])
        self.assertLess(abs(ddio["ddio_hits"] + ddio["ddio_misses"] - lines) / lines, 0.02)

    def test_compression_keeps_rates(self):
        """Simulating a quarter of the time shows the same instructions a second."""
        whole, part = (
            scenes.measured(scenes.server(self.TEXT + f"compression: {share}\n"), 0.01, 0.02)[1]
            for share in ("100%", "25%")
        )
        for name in ("instructions", "work", "offered"):
            ratio = part["fwd"][name] / whole["fwd"][name]
            self.assertLess(abs(ratio - 1), 0.02, name)

    def test_only_watched_processors_are_read(self):
        """A processor that is not watched, or does not exist, is absent."""
        machine = scenes.server(XMEM)
        machine.watch([0, 3, 99])
        self.assertEqual({0, 3}, set(machine.read().cores))
        machine.close()
        self.assertEqual({}, dict(machine.read().cores))


class TestKnobs(unittest.TestCase):
    """CAT and DDIO's ways keep the hardware's rules."""

    def test_effective_masks_show_coerced_ways(self):
        """0x400 reads back 0x600, as on Skylake."""
        machine = scenes.server(XMEM)
        effective = machine.apply(0, (ClassMask("a", (0,), WayMask(0x400)),))
        self.assertEqual({"a": 0x600}, dict(effective))
        self.assertEqual({"a": 0x600}, dict(machine.effective(0)))

    def test_processors_in_no_class_have_the_default_ones_mask(self):
        """The default class's mask holds for them and is full again when it is given up."""
        machine = scenes.server(XMEM)
        machine.apply(0, (ClassMask(DEFAULT_CLASS, (), WayMask(0x3)),))
        _, narrow = scenes.measured(machine, 0.02, 0.01)
        machine.apply(0, ())
        _, full = scenes.measured(machine, 0.02, 0.01)
        self.assertGreater(narrow["xmem"]["misses"], 2 * full["xmem"]["misses"])

    def test_refusals_leave_everything_as_it_was(self):
        """A mask with a gap, a full house of classes or an unknown domain change nothing."""
        machine = scenes.server(XMEM)
        machine.apply(0, (ClassMask("a", (0,), WayMask(0x3)),))
        wrong = [
            (0, (ClassMask("b", (0,), WayMask(0x5)),)),
            (0, tuple(ClassMask(f"c{n}", (), WayMask(1)) for n in range(16))),
            (3, ()),
        ]
        for domain, classes in wrong:
            with self.assertRaises(HardwareError):
                machine.apply(domain, classes)
        with self.assertRaises(HardwareError):
            machine.write(0, WayMask(0x1000))
        self.assertEqual({"a": 0x3}, dict(machine.effective(0)))
        self.assertEqual(0x600, machine.read(0))

    def test_domains_tell_ddios_ways_as_they_are(self):
        """The domain found later shows the DDIO mask that was written."""
        machine = scenes.server(XMEM)
        machine.write(0, WayMask(0x780))
        self.assertEqual(0x780, machine.domains()[0].ddio_found)
