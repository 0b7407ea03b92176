# SPDX-License-Identifier: Apache-2.0
"""Cards and disks with ways of their own on an emulated machine with I/O RDT."""

import unittest

import numpy as np

from iat_nova.experiments.engine import cache, nvme, rings
from iat_nova.experiments.machines.machine import MACHINES
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.model import DevicePort, PortGroup, WayMask
from tests.unit.experiments.sim import scenes

NIC, DISK = "0000:3b:00.0", "0000:5e:00.0"
TEXT = """\
machine: granite-rapids
length: 10s
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
disks:
  ssd: {address: "0000:5e:00.0", speed: 14GB/s}
workloads:
  fwd: {profile: testpmd, cpus: [0, 1], nic: nic0, ring: 1024, buffers: 65536}
  fio: {profile: fio, cpus: [2, 3], disk: ssd, block: 1MiB, depth: 32}
traffic:
  fwd: {to: fwd, rate: 20Gb/s, packet: 1024B}
"""


def device_ways(machine, first, end):
    """Return the ways in which lines of a stretch lie that no core has read."""
    entries = machine.plant.state.caches.llc[:, 0]
    lines = entries >> 3
    here = (entries >= 0) & (entries & 2 > 0) & (lines >= first) & (lines < end)
    return set(np.flatnonzero(here.any(axis=0)).tolist())


class PortsTest(unittest.TestCase):
    def setUp(self):
        self.machine = scenes.server(TEXT)

    def place(self, *groups):
        made = tuple(PortGroup(ports, WayMask(mask)) for ports, mask in groups)
        return self.machine.port_ways.place(0, made)

    def written(self):
        """Return the ways with unread lines of packets, and of blocks."""
        state = self.machine.plant.state
        blocks = state.disks.commands[:, nvme.COMMAND.line]
        end = int(blocks.max()) + (1 << 20) // 64 // self.machine.scenario.sampling
        lines = state.rings.lines[:, 0]
        packets = int(lines.min()), int(lines.max()) + 1
        return device_ways(self.machine, *packets), device_ways(
            self.machine, int(blocks.min()), end
        )

    def test_ports_of_the_machine(self):
        """Each card and each disk is one; other machines have none."""
        (domain,) = self.machine.domains()
        self.assertEqual((DevicePort(NIC, (NIC,)), DevicePort(DISK, (DISK,))), domain.device_ports)
        others = [name for name, one in MACHINES.items() if one.device_classes]
        self.assertEqual(["granite-rapids"], others)
        plain = scenes.server(TEXT.replace("granite-rapids", "gold-6140"))
        self.assertEqual((), plain.domains()[0].device_ports)
        self.assertEqual({1}, set(plain.plant.state.rings.state[:, rings.RING.dca]))

    def test_lines_lie_in_the_ways_of_their_port(self):
        """From the start in DDIO's; then each port's in its own; the other ports' in DDIO's.

        Victims of the cores that read blocks lie in ways 4 and 5, and are written again there.
        """
        self.machine.apply(0, (ClassMask("fio", (2, 3), WayMask(0x030)),))
        scenes.run(self.machine, 0.005)
        packets, blocks = self.written()
        self.assertLessEqual({14, 15}, packets)
        self.assertLessEqual(blocks, {4, 5, 14, 15})
        self.assertEqual({DISK: 0x1}, self.place(((DISK,), 0x1)))
        scenes.run(self.machine, 0.005)
        packets, blocks = self.written()
        self.assertNotIn(0, packets)
        self.assertIn(0, blocks)
        self.assertLessEqual(blocks, {0, 4, 5, 14, 15})
        self.machine.write(0, WayMask(0x3000))
        self.place(((DISK,), 0x1))
        rows = self.machine.plant.state.caches.forbidden
        masks = [cache.mask_of(self.machine.plant.state.caches, n) for n in range(len(rows))]
        self.assertEqual([0x3000, 0x1], masks[-2:])
        self.assertEqual({}, self.place())
        masks = [cache.mask_of(self.machine.plant.state.caches, n) for n in range(len(rows))]
        self.assertEqual([0x3000, 0x3000], masks[-2:])

    def test_occupancy(self):
        """Lines of each port's device, in the ways where they lie; none without I/O RDT."""
        self.machine.apply(0, (ClassMask("fio", (2, 3), WayMask(0x030)),))
        scenes.run(self.machine, 0.005)
        together = self.machine.read().monitored
        self.assertEqual({(0, NIC), (0, DISK)}, together.keys())
        way_bytes = self.machine.scenario.machine.way_bytes
        self.assertGreater(together[0, NIC].occupancy_bytes, 0)
        self.assertGreater(together[0, DISK].occupancy_bytes, 0.2 * way_bytes)
        total = sum(one.occupancy_bytes for one in together.values())
        self.assertLess(total, 4.1 * way_bytes)  # DDIO's two ways, and two of lines written there
        plain = scenes.server(TEXT.replace("granite-rapids", "gold-6140"))
        self.assertEqual({}, plain.read().monitored)

    def moved(self, machine, seconds):
        """Return the memory traffic by port, and counts of the caches, in bytes."""

        def count():
            caches, seen = machine.plant.state.caches, machine.read().monitored
            totals = dict(zip(cache.TOTAL_NAMES, caches.totals.tolist(), strict=True))
            return {port: seen[0, port].memory_bytes for port in (NIC, DISK)}, totals

        scenes.run(machine, 0.01)
        (ports, totals), _, (ports_now, totals_now) = count(), scenes.run(machine, seconds), count()
        line = 64 * machine.scenario.sampling / machine.scenario.compression
        return (
            {port: ports_now[port] - ports[port] for port in ports},
            {name: (totals_now[name] - totals[name]) * line for name in totals},
        )

    def test_memory_traffic(self):
        """Blocks of an array leave DDIO's ways before a core reads them, to memory."""
        text = TEXT.replace("14GB/s", "28GB/s, iops: 12000000, drives: 8")
        ports, totals = self.moved(scenes.server(text), 0.01)
        self.assertGreater(totals["leaked"], 50e6)
        self.assertLessEqual(totals["leaked"], sum(ports.values()))
        self.assertLessEqual(sum(ports.values()), totals["write_backs"] + totals["dma_read_misses"])
        self.assertGreater(ports[DISK], ports[NIC])

    def test_memory_traffic_of_a_disk_that_writes(self):
        """Blocks that wait until they have left the cache are read from memory."""
        text = TEXT.replace("depth: 32", "depth: 32, writes: 100%").replace("14GB/s", "3GB/s")
        machine = scenes.server(text)
        machine.apply(0, (ClassMask("fio", (2, 3), WayMask(0x030)),))
        ports, totals = self.moved(machine, 0.02)
        self.assertGreater(totals["dma_read_misses"], 10e6)
        self.assertAlmostEqual(
            totals["dma_read_misses"], ports[DISK], delta=0.1 * totals["dma_read_misses"]
        )

    def test_memory_traffic_unknown(self):
        """A device that always writes to memory has no class whose lines could be counted."""
        for old, new, known in (
            ("speed: 14GB/s}", "speed: 14GB/s, dca: false}", [NIC]),
            ("length: 10s", "length: 10s\nio: dma", []),
        ):
            with self.subTest(new):
                machine = scenes.server(TEXT.replace(old, new))
                scenes.run(machine, 0.005)
                seen = machine.read().monitored
                self.assertEqual({(0, NIC), (0, DISK)}, seen.keys())
                counted = [port for (_, port), one in seen.items() if one.memory_bytes is not None]
                self.assertEqual(known, counted)

    def test_no_switch_at_root_ports(self):
        """Only Skylake and Cascade Lake have the bits: elsewhere DDIO stays on at each disk."""
        able = {name for name, one in MACHINES.items() if one.port_dca}
        self.assertEqual({"gold-6140", "gold-6148", "gold-6140-3ghz", "gold-5120"}, able)
        for name in ("granite-rapids", "gold-6338"):
            machine = scenes.server(TEXT.replace("granite-rapids", name))
            column = machine.plant.state.disks.devices[:, nvme.DISK.dca]
            before = int(column[0])
            self.assertEqual((), machine.scenario.domains[0].dca_ports)
            machine.switch(0, [DISK])
            self.assertEqual(before, column[0])

    def test_refused(self):
        """What a real machine would refuse: masks, and more classes than there are."""
        for mask in (0, 0x5, 1 << 16):
            with self.assertRaises(HardwareError):
                self.place(((DISK,), mask))
        classes = [ClassMask(f"c{n}", (n,), WayMask(0x3)) for n in range(15)]
        self.machine.apply(0, tuple(classes))
        with self.assertRaises(HardwareError):
            self.place(((DISK,), 0x1))
        self.machine.apply(0, tuple(classes[:14]))
        self.place(((DISK, NIC), 0x1))
        self.assertEqual({DISK: 0x1, NIC: 0x1}, self.machine.port_ways.placed(0))


class StorageTest(unittest.TestCase):
    """The scenario of bulk storage beside network functions."""

    def costs(self, *aside):
        """Return busy cycles a unit of work of each workload, with these ports in one way."""
        machine = EmulatedServer(load_scenario("ports-bulk-storage"))
        machine.port_ways.place(0, (PortGroup(aside, WayMask(0x2000)),) if aside else ())
        scenes.run(machine, 3.0)  # until buffers have come round
        before = machine.metrics()
        scenes.run(machine, 0.5)
        after = machine.metrics()
        return {
            name: (one.busy_cycles - before[name].busy_cycles) / (one.work - before[name].work)
            for name, one in after.items()
        }

    def test_storage_aside(self):
        """Packets that wait are read from the LLC again; blocks were in memory before, too."""
        together, apart = self.costs(), self.costs("0000:5e:00.0", "0000:5f:00.0")
        self.assertLess(apart["fw1"], 0.85 * together["fw1"])
        self.assertLess(apart["fw2"], together["fw2"])
        for name in ("backup1", "backup2"):
            self.assertAlmostEqual(together[name], apart[name], delta=0.05 * together[name])
