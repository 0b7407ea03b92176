# SPDX-License-Identifier: Apache-2.0
"""Strategies side by side."""

import dataclasses
import pathlib
import tempfile
import threading
import unittest

from iat_nova.experiments.compare import compare, compare_chart
from iat_nova.experiments.runs import performance
from iat_nova.experiments.scenarios import phases
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.experiments.server.workload_metrics import WorkloadMetrics
from iat_nova.model import Priority
from tests.unit.experiments.sim import scenes

# A PC guest whose working set is larger than its ways, and a BE guest that streams beside it.
TEXT = """\
length: 3s
compression: 1%
guests:
  - name: instance-00000001
    uuid: 00000001-c03e-4000-8000-000000000001
    extra_specs: {"iat:priority": PC}
    cpus: [0]
  - name: instance-00000002
    uuid: 00000002-c03e-4000-8000-000000000001
    extra_specs: {"iat:priority": BE}
    cpus: [1]
workloads:
  pc: {profile: xmem, cpus: [0], working_set: 12MiB}
  be: {profile: xmem, cpus: [1], working_set: 64MiB}
"""

FORWARDER = scenes.FORWARDER.format(ring=256, rate="1Gb/s", packet=512)

BEHIND = """\
workloads:
  sw: {profile: ovs, cpus: [0, 1], nic: nic0}
  fwd: {profile: virtio-forward, cpus: [2, 3], switch: sw}
traffic:
  fwd: {to: fwd, rate: 2Gb/s, packet: 256B}
"""

METRICS = WorkloadMetrics(
    **{
        **dict.fromkeys((field.name for field in dataclasses.fields(WorkloadMetrics)), 0.0),
        "packets": 10.0,
        "offered": 10.0,
        "work": 10.0,
        "busy_cycles": 1000.0,
        "latency_ns": 0.0,
        "latency_histogram": (),
    }
)


class CompareTest(unittest.TestCase):
    def test_rows(self):
        """A row a strategy and seed; the baseline's BE throughput is 1, its ways do not move."""
        scenario = read_scenario(TEXT, "test", "test.yaml")
        told = []
        found = compare.compare(
            scenario,
            ["iat", "baseline"],
            [1, 2],
            against="baseline",
            progress=lambda *a: told.append(a),
        )
        rows = found.rows
        self.assertEqual((), found.left_out)
        self.assertEqual(
            [("iat", 1), ("iat", 2), ("baseline", 1), ("baseline", 2)],
            [(row.strategy, row.seed) for row in rows],
        )
        self.assertEqual([(done, 5) for done in range(1, 6)], told)
        self.assertEqual([1.0, 1.0], [row.be_throughput for row in rows[2:]])
        self.assertEqual([0.0, 0.0], [row.way_changes_per_minute for row in rows[2:]])
        for row in rows:
            self.assertLess(row.pc_performance, 0.99)
            self.assertGreater(row.pc_performance, 0.2)
            self.assertGreater(row.memory_bandwidth, 0.1)
        self.assertEqual(
            [("pc", "PC"), ("be", "BE")] * 4, [(row.tenant, row.priority) for row in found.tenants]
        )
        self.assertEqual([1.0] * 4, [row.related for row in found.tenants[4:]])
        self.assertEqual([rows[0].pc_performance, None], [t.alone for t in found.tenants[:2]])
        self.assertEqual(
            [("iat", 1, "pc"), ("iat", 1, "be"), ("iat", 2, "pc")],
            [(row.strategy, row.seed, row.workload) for row in found.workloads[:3]],
        )
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "picture.svg"
            compare_chart.draw(path, "Title", rows, "baseline")
            self.assertIn("PC performance", path.read_text())
            self.assertIn("BE throughput (baseline: 1)", path.read_text())

    def test_a_host_without_the_agent_is_what_others_are_related_to(self):
        """Under no masks a guest has all the ways it wants, and nothing ever moves."""
        scenario = read_scenario(TEXT, "test", "test.yaml")
        found = compare.compare(scenario, ["unmanaged", "baseline"], [1])
        free, held = found.rows
        self.assertEqual((1.0, 0.0), (free.be_throughput, free.way_changes_per_minute))
        self.assertGreater(free.pc_performance, 1.05 * held.pc_performance)
        self.assertEqual(("pc", "baseline"), (found.worst("baseline")[0], held.strategy))
        self.assertLess(found.worst("baseline")[1], 0.95)
        self.assertEqual(1.0, found.worst("unmanaged")[1])

    def test_counters_are_as_hardware_has_them(self):
        """Noise and one CHA's count are the default; a scenario may say otherwise."""
        default = compare.as_hardware_counts(read_scenario(TEXT, "test", "test.yaml"))
        self.assertEqual((0.01, True), (default.counter_noise, default.one_slice))
        exact = TEXT + "counter_noise: 0%\none_slice: false\n"
        asked = compare.as_hardware_counts(read_scenario(exact, "test", "test.yaml"))
        self.assertEqual((0.0, False), (asked.counter_noise, asked.one_slice))

    def test_every_guest_counts(self):
        """Those who come later, who leave before the end and who run on the other socket, too."""
        churn = load_scenario("tenant-churn")
        self.assertEqual(["stays", "database"], performance.workloads_of(churn, Priority.PC))
        self.assertEqual(
            ["batch1", "batch2", "second-forwarder", "batch3"],
            performance.workloads_of(churn, Priority.BE),
        )
        sockets = load_scenario("two-sockets-remote-vf")
        self.assertEqual(["near", "remote"], performance.workloads_of(sockets, Priority.PC))
        self.assertEqual(
            ["near-neighbour", "remote-neighbour"], performance.workloads_of(sockets, Priority.BE)
        )

    def performance(self, text, **metrics):
        """Return the performance of a workload named fwd behind a workload named sw."""
        scenario = scenes.scenario(scenes.HEAD + text)
        own = {"sw": METRICS, "fwd": dataclasses.replace(METRICS, **metrics)}
        results = {name: performance.workload_result(name, done, 1.0) for name, done in own.items()}
        return performance.performance(scenario, results, "fwd")

    def test_a_network_guest_is_judged_by_what_a_packet_costs(self):
        """Twice the busy cycles are half the performance; what its own rings refuse is in them."""
        quick = self.performance(FORWARDER)
        self.assertEqual(1 / 100, quick)
        self.assertEqual(quick / 2, self.performance(FORWARDER, busy_cycles=2000.0))
        saturated = {"work": 5.0, "packets": 5.0, "dropped": 5.0, "busy_cycles": 500.0}
        self.assertEqual(quick, self.performance(FORWARDER, **saturated))

    def test_a_guest_is_judged_by_its_latency_in_places_of_its_rings(self):
        """Packets that wait in a quarter of its rings cost a quarter; a switch's count, too."""
        quarter = {"latency_ns": 128e9}
        self.assertAlmostEqual(0.75 / 100, self.performance(FORWARDER, **quarter))
        self.assertAlmostEqual(1 / 512 / 100, self.performance(FORWARDER, latency_ns=600e9))
        behind = self.performance(BEHIND, latency_ns=1024e9)
        self.assertAlmostEqual((1 - 1024 / (2 * (1024 + 256))) / 100, 1 / (1 / behind - 100))

    def test_behind_a_switch_its_cost_and_its_loss_count(self):
        """A packet costs the switch's cycles, too; what never reached the guest is lost."""
        whole = self.performance(BEHIND)
        self.assertEqual(1 / 200, whole)
        self.assertEqual(whole / 2, self.performance(BEHIND, work=5.0, busy_cycles=500.0))
        refused = {"work": 5.0, "busy_cycles": 500.0, "dropped": 5.0}
        self.assertEqual(whole, self.performance(BEHIND, **refused))

    def test_a_guest_that_does_nothing_achieves_nothing(self):
        """All its packets were lost."""
        self.assertEqual(0.0, self.performance(FORWARDER, work=0.0, packets=0.0, dropped=10.0))

    def test_alone_others_are_silent(self):
        """They do no work and get no packets, and the dice fall as beside them."""
        scenario = scenes.scenario(scenes.HEAD + BEHIND)
        server = EmulatedServer(scenario, 1)
        server.silence(["fwd"])
        server.wait(threading.Event(), 0.01)
        done = server.metrics()
        self.assertEqual((0.0, 0.0), (done["fwd"].work, done["fwd"].offered))

    def test_starvation_pulls_the_mean_to_0(self):
        """One workload that achieves nothing is not made up for by the others."""
        self.assertIsNone(performance.mean([]))
        self.assertAlmostEqual(1.0, performance.mean([0.5, 2.0]))
        self.assertEqual(0.0, performance.mean([0.0, 2.0]))

    def test_settling(self):
        """The longest time from an event to the last move before the next; no moves, no time."""
        self.assertEqual(0.0, compare.settle_s([], [0.0, 5.0]))
        self.assertEqual(3.0, compare.settle_s([1.0, 6.0, 8.0], [0.0, 5.0]))
        self.assertEqual(4.0, compare.settle_s([4.0, 6.0], [0.0, 5.0]))
        self.assertEqual(1.0, compare.settle_s([6.0], [5.0, 0.0, 5.0, 10.0]))

    def test_coming_and_going_is_to_be_settled_like_an_event(self):
        """The stays' ends count beside the events; who stays for ever has none."""
        churn = phases.moments_of(load_scenario("tenant-churn"))
        self.assertLessEqual({0.0, 10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 50.0}, set(churn))
        self.assertEqual(0.0, compare.settle_s([10.0, 15.0, 20.0, 30.0], churn))
        grows = phases.moments_of(load_scenario("xmem-grows"))
        self.assertEqual([0.0, 5.0, 15.0], grows)
