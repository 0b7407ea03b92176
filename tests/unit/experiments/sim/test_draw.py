# SPDX-License-Identifier: Apache-2.0
"""Hosts drawn at random."""

import hashlib
import unittest

from iat_nova.experiments.hosts import draw
from iat_nova.experiments.runs import performance
from iat_nova.experiments.scenarios.profile import Form


class DrawTest(unittest.TestCase):
    def test_equal_seeds_draw_equal_hosts_under_every_python(self):
        """The digest was taken under Python 3.11; more hosts leave the first as they are."""
        self.assertEqual(
            [text for _, text in draw.scenarios(3, 9)],
            [text for _, text in draw.scenarios(2, 9)] + [draw.text(3, 9)],
        )
        drawn = "".join(draw.text(number, 1) for number in range(1, 31))
        digest = hashlib.sha256(drawn.encode()).hexdigest()[:16]
        self.assertEqual("f25c075bb8cf065f", digest)

    def test_hosts_of_every_kind(self):
        """Among fifty hosts is all that should tell strategies apart."""
        hosts = [scenario for scenario, _ in draw.scenarios(50, 4)]
        self.assertEqual([f"random-4-{n:03}" for n in range(1, 51)], [one.name for one in hosts])
        self.assertEqual({1, 2}, {one.machine.sockets for one in hosts})
        self.assertEqual({0.01, 0.03, 0.05}, {one.counter_noise for one in hosts})
        works = [(one, work) for one in hosts for work in one.workloads]
        rings = {work.ring for _, work in works if work.nic and work.profile.name != "ovs"}
        self.assertEqual({512, 1024, 2048, 4096}, rings)
        self.assertEqual(set(Form) - {Form.PIPELINE}, {work.profile.form for _, work in works})
        self.assertTrue(any(one.stays for one in hosts))
        self.assertTrue(any(one.machine.mba for one in hosts))
        keys = {event.key for one in hosts for event in one.events}
        self.assertEqual({"rate", "burst", "working_set", "duty"}, keys)
        specs = [guest.extra_specs for one in hosts for guest in one.guests]
        self.assertEqual({"PC", "BE"}, {spec["iat:priority"] for spec in specs})
        self.assertEqual({"1", "2", "3"}, {s["iat:llc_ways"] for s in specs if "iat:llc_ways" in s})
        for one in hosts:
            self.assertTrue(performance.workloads_of(one, performance.Priority.PC), one.name)

    def test_loads_from_idle_to_beyond_capacity(self):
        """Of what a receiver's cores can do by the profile's own cycles."""
        shares = []
        for scenario, _ in draw.scenarios(50, 4):
            for traffic in scenario.traffic:
                work = scenario.workload(traffic.to)
                if work.nic and not traffic.clients:
                    packets_per_s = traffic.rate_bits_per_s / 8 / traffic.packet_bytes
                    cycles = packets_per_s * (work.profile.own_cycles + draw.STALL_CYCLES)
                    shares.append(cycles / len(work.cpus) / scenario.machine.frequency_hz)
        self.assertLess(min(shares), 0.01)
        self.assertGreater(max(shares), 1.2)
        near = sum(0.6 < share < 1.4 for share in shares)
        self.assertGreater(near, len(shares) / 4)

    def test_storage_hosts(self):
        """Each has a critical receiver of packets and a disk, on the CPU with I/O RDT."""
        hosts = [scenario for scenario, _ in draw.scenarios(30, 4, draw.Kind.STORAGE)]
        self.assertEqual("storage-4-001", hosts[0].name)
        self.assertEqual({"granite-rapids"}, {one.machine.name for one in hosts})
        for one in hosts:
            first, second, *_ = one.workloads_of(one.guests[0]) + one.workloads_of(one.guests[1])
            self.assertEqual("PC", one.guests[0].extra_specs["iat:priority"])
            self.assertIsNotNone(one.workload(first).nic or one.workload(first).switch)
            self.assertIsNotNone(one.workload(second).disk)
        pools = {work.pool for one in hosts for work in one.workloads if work.profile.name != "fio"}
        self.assertEqual({"ring", "stack"}, pools)
        self.assertEqual({7e9, 14e9, 28e9}, {d.bytes_per_s for one in hosts for d in one.disks})
