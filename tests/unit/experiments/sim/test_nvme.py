# SPDX-License-Identifier: Apache-2.0
"""Disks and FIO: limits, conservation, where the data lands, and how a scenario names them."""

import unittest

from iat_nova.experiments.engine import cache, nvme
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import ScenarioError
from iat_nova.model import AttachmentKind, DcaPort
from tests.said import sentence
from tests.unit.experiments.sim import scenes

FIO = """\
length: 10s
disks:
  ssd: {{address: "0000:5e:00.0", speed: {speed}, dca: {dca}{more}}}
workloads:
  fio: {{profile: fio, cpus: {cpus}, disk: ssd, block: {block}, depth: {depth}{writes}}}
"""


def text(**changed):
    standard = {
        "speed": "10GB/s",
        "dca": "true",
        "more": "",
        "cpus": "[0, 1, 2, 3]",
        "block": "64KiB",
        "depth": 32,
        "writes": "",
    }
    return FIO.format(**(standard | changed))


def measured(seconds=0.01, warm_s=0.01, **changed):
    """Return the metrics and the cache's totals over `seconds`, in lines of the whole machine."""
    machine = scenes.server(text(**changed))
    scenes.run(machine, warm_s)
    before = machine.plant.state.caches.totals.copy()
    _, done = scenes.measured(machine, 0, seconds)
    totals = (machine.plant.state.caches.totals - before) * machine.scenario.sampling
    return done["fio"], dict(zip(cache.TOTAL_NAMES, totals, strict=True))


class TestLimits(unittest.TestCase):
    """What a disk and a core can do at most."""

    def test_large_blocks_are_limited_by_bandwidth(self):
        """Blocks of 64 KiB come at the disk's bandwidth, four cores being enough for them."""
        done, _ = measured(speed="5GB/s")
        self.assertAlmostEqual(5e9, done["work"] * 65536 / 0.01, delta=0.02 * 5e9)

    def test_small_blocks_are_limited_by_the_cores(self):
        """A core does so many commands a second, whatever the disk could; two do twice as many."""
        one, _ = measured(block="4KiB", cpus="[0]")
        two, _ = measured(block="4KiB", cpus="[0, 1]")
        self.assertAlmostEqual(2.0, two["work"] / one["work"], delta=0.05)
        self.assertLess(one["work"] / 0.01, 2.3e9 / 8600)
        self.assertGreater(one["work"] / 0.01, 0.8 * 2.3e9 / 8600)

    def test_commands_are_limited_by_iops(self):
        """A disk of 100,000 IOPS completes no more commands of a page, four cores or not."""
        done, _ = measured(block="4KiB", more=", iops: 100000")
        self.assertAlmostEqual(1000, done["work"], delta=20)

    def test_one_command_at_a_time_takes_the_mediums_latency(self):
        """At depth 1 a command takes the medium's time, its own transfer and at most two steps."""
        done, _ = measured(block="4KiB", cpus="[0]", depth=1, more=", latency: 200us")
        latency_us = done["latency_ns"] / done["packets"] / 1e3
        self.assertGreaterEqual(latency_us, 200)
        self.assertLess(latency_us, 200 + 0.4 + 10)

    def test_latency_follows_littles_law(self):
        """Commands in flight are throughput times latency, less those the cores work on."""
        done, _ = measured(seconds=0.02)
        in_flight = done["packets"] / 0.02 * done["latency_ns"] / done["packets"] / 1e9
        self.assertLess(in_flight, 128.5)
        self.assertGreater(in_flight, 122)

    def test_a_core_with_nothing_to_do_sleeps(self):
        """Cores that wait for a slow disk spend few cycles."""
        done, _ = measured(speed="500MB/s")
        self.assertLess(done["cycles"], 0.1 * 4 * 0.01 * 2.3e9)


class TestConservation(unittest.TestCase):
    """Nothing is lost or made."""

    def test_each_command_is_in_one_place(self):
        """Waiting, in progress, done, in hand: together all 128, each once; pages add up."""
        machine = scenes.server(text(writes=", writes: 50%", block="16KiB"))
        for _ in range(5):
            scenes.run(machine, 0.0007)
            d = machine.plant.state.disks
            v = d.devices[0]
            places = [
                int(d.waiting[number, n % 32])
                for number, queue in enumerate(d.queues)
                for n in range(queue[nvme.QUEUE.started], queue[nvme.QUEUE.submitted])
            ]
            places += [int(n) for n in d.active[0, : v[nvme.DISK.active]]]
            for number, job in enumerate(d.jobs):
                taken = range(job[nvme.JOB.taken], job[nvme.JOB.completed])
                places += [int(d.done[number, n % 32]) for n in taken]
                places += [int(job[nvme.JOB.current])] if job[nvme.JOB.current] >= 0 else []
            self.assertEqual(list(range(128)), sorted(places))
            done = int(d.jobs[:, nvme.JOB.completed].sum())
            partly = int(d.commands[d.active[0, : v[nvme.DISK.active]], nvme.COMMAND.moved].sum())
            moved = d.rates[0, nvme.RATES.moved_bytes]
            self.assertEqual((done * 4 + partly) * nvme.PAGE_BYTES, moved)
            self.assertEqual(4 * v[nvme.DISK.active], v[nvme.DISK.pages])
            self.assertEqual(v[nvme.DISK.active], d.queues[:, nvme.QUEUE.under_way].sum())

    def most_in_progress(self, **changed):
        """Return the most pages in progress, and the fewest commands of a queue, over 10 ms."""
        machine = scenes.server(text(**changed))
        disks = machine.plant.state.disks
        most, fewest = 0, 99
        for _ in range(20):
            scenes.run(machine, 0.0005)
            most = max(most, int(disks.devices[0, nvme.DISK.pages]))
            fewest = min(fewest, int(disks.queues[:, nvme.QUEUE.under_way].min()))
        return most, fewest

    def test_no_more_is_in_progress_than_keeps_the_disk_busy(self):
        """By Little's law 10 GB/s times 85 us, 207 pages, and what the last command brings.

        A queue's only command is begun all the same.
        """
        most, fewest = self.most_in_progress(block="64KiB")
        self.assertTrue(207 <= most < 207 + 4 * 16, most)
        self.assertGreaterEqual(fewest, 1)

    def test_each_queue_has_a_command_in_progress(self):
        """A thread's queue to each drive of an array has a command of its own in progress."""
        self.assertEqual((4 * 256, 1), self.most_in_progress(block="1MiB"))
        most, _ = self.most_in_progress(block="1MiB", more=", drives: 4")
        self.assertTrue(12 * 256 <= most <= 16 * 256, most)

    def test_reads_are_dma_writes_line_by_line(self):
        """What FIO reads passes DDIO once, a line at a time; what it writes passes as DMA reads."""
        for share, reads in (("", 1.0), (", writes: 100%", 0.0), (", writes: 50%", 0.5)):
            done, totals = measured(seconds=0.02, warm_s=0.02, writes=share)
            lines = done["work"] * 65536 / 64
            inbound = totals["ddio_hits"] + totals["ddio_misses"]
            outbound = totals["dma_read_hits"] + totals["dma_read_misses"]
            self.assertAlmostEqual(reads, inbound / lines, delta=0.06, msg=share)
            self.assertAlmostEqual(1 - reads, outbound / lines, delta=0.06, msg=share)


class TestWhereDataLands(unittest.TestCase):
    """A4's observations, in shape."""

    def misses(self, block, dca, **changed):
        done, totals = measured(
            seconds=0.02, warm_s=0.03, block=block, dca=dca, speed="10.5GB/s", **changed
        )
        return done["misses"] / done["references"], totals

    def test_a_strategy_switches_a_disks_port(self):
        """Off: what comes from then on goes to memory; on again: into the LLC."""
        machine = scenes.server(text(block="16KiB"))
        (domain,) = machine.domains()
        self.assertEqual((DcaPort("0000:5e:00.0", ("0000:5e:00.0",)),), domain.dca_ports)

        def inbound():
            before = dict(zip(cache.TOTAL_NAMES, machine.plant.state.caches.totals, strict=True))
            scenes.run(machine, 0.01)
            totals = dict(zip(cache.TOTAL_NAMES, machine.plant.state.caches.totals, strict=True))
            gone = {name: totals[name] - before[name] for name in totals}
            return gone["ddio_hits"] + gone["ddio_misses"], gone["dma_memory_writes"]

        self.assertEqual(0, inbound()[1])
        machine.switch(0, ["0000:5e:00.0"])
        into_llc, to_memory = inbound()
        self.assertEqual(0, into_llc)
        self.assertGreater(to_memory, 0)
        machine.switch(0, [])
        self.assertEqual(0, inbound()[1])

    def test_a_port_that_has_no_dca_is_no_port_to_switch(self):
        """It stays off."""
        machine = scenes.server(text(dca="false"))
        self.assertEqual((), machine.domains()[0].dca_ports)
        machine.switch(0, [])
        self.assertEqual(0, machine.plant.state.disks.devices[0, nvme.DISK.dca])

    def test_without_dca_every_line_is_read_from_memory(self):
        """A port without DCA writes memory, and DDIO counts nothing."""
        ratio, totals = self.misses("16KiB", "false")
        self.assertGreater(ratio, 0.99)
        self.assertEqual(0, totals["ddio_hits"] + totals["ddio_misses"])
        self.assertGreater(totals["dma_memory_writes"], 0)

    def test_blocks_in_flight_that_outgrow_ddio_leak(self):
        """What fills at a time, a block a queue, fits at 128 KiB and not at 1 MiB, four drives."""
        for block in ("16KiB", "128KiB"):
            self.assertLess(self.misses(block, "true", more=", drives: 4")[0], 0.1, block)
        large, totals = self.misses("1MiB", "true", more=", drives: 4")
        self.assertGreater(large, 0.6)
        self.assertGreater(totals["leaked"], 0.6 * totals["ddio_misses"])
        one_drive, _ = self.misses("1MiB", "true")
        self.assertLess(one_drive, 0.7 * large)

    def test_small_blocks_come_faster_with_dca(self):
        """The cores that touch every line are the limit at 4 KiB, and faster from the LLC."""
        done = {dca: measured(block="4KiB", dca=dca)[0]["work"] for dca in ("true", "false")}
        self.assertGreater(done["true"], 1.03 * done["false"])


class TestScenario(unittest.TestCase):
    """Disks in a scenario file."""

    CASES = (
        (
            "speed: 10GB/s",
            "speed: 10Gb/s",
            "line 3: disks.ssd.speed: invalid value .*: expected a bandwidth such as",
        ),
        ("speed: 10GB/s", "speed: 0GB/s", "line 3: disks.ssd.speed: invalid value .*: expected"),
        ('address: "0000:5e:00.0", ', "", "line 3: disks.ssd: the key address is missing"),
        (
            "dca: true",
            "dca: perhaps",
            "line 3: disks.ssd.dca: invalid value .*: expected true or false",
        ),
        (
            "dca: true",
            "iops: 0",
            "line 3: disks.ssd.iops: invalid value .*: expected a whole number",
        ),
        ("disk: ssd", "disk: sdd", "line 5: workloads.fio.disk: invalid value .*: expected ssd"),
        (", disk: ssd", "", "line 5: workloads.fio: fio needs disk"),
        ("profile: fio", "profile: xmem", "line 5: workloads.fio.disk: xmem has no disk"),
        (
            "block: 64KiB",
            "block: 5000B",
            "line 5: workloads.fio.block: invalid value .*: expected a power of two",
        ),
        (
            "block: 64KiB",
            "block: 512B",
            "line 5: workloads.fio.block: invalid value .*: expected a size .* from 4KiB to",
        ),
        (
            "depth: 32",
            "depth: 0",
            "line 5: workloads.fio.depth: invalid value .*: expected a whole number",
        ),
    )

    def test_each_mistake_is_named_with_line_and_path(self):
        """One mistake gives one line of text that tells where it is and what is allowed."""
        for right, wrong, expected in self.CASES:
            with self.subTest(wrong), self.assertRaises(ScenarioError) as caught:
                read_scenario(text().replace(right, wrong, 1), "x", "x.yaml")
            self.assertRegex(sentence(caught.exception), "^x.yaml: " + expected)
            self.assertEqual(1, len(sentence(caught.exception).splitlines()))

    def test_a_guest_with_a_disk_of_its_own_is_no_network_tenant(self):
        """The inventory sees a PCI device that is no network card, as on a real host."""
        guests = (
            "guests: [{name: a, uuid: 00000001-1a7a-4000-8000-000000000001, cpus: [0, 1, 2, 3],\n"
            '          attachments: [{kind: pci, device: "0000:5e:00.0"}]}]\n'
        )
        facts = read_scenario(text() + guests, "x", "x.yaml").facts()
        self.assertEqual(AttachmentKind.PCI, facts.guests[0].attachments[0].kind)
        self.assertEqual((), facts.host.nics)
