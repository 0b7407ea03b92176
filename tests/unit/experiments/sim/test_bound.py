# SPDX-License-Identifier: Apache-2.0
"""The search for layouts, on the emulated server; and scenarios cut short."""

import dataclasses
import math
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.experiments.compare import bound, compare
from iat_nova.experiments.engine import nvme
from iat_nova.experiments.machines.machine import MACHINES
from iat_nova.experiments.runs import bound_run, performance, sources
from iat_nova.experiments.runs.bound_run import (
    BoundError,
    Job,
    lay,
    measure,
    performances,
    space_of,
)
from iat_nova.experiments.runs.bound_search import add, unmanaged
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios import phases
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.model import Priority, WayMask
from tests.unit.experiments.sim import in_process

# A forwarder and a database, a guest with a disk that comes, a load that changes.
TEXT = """\
length: 1500ms
compression: 1%
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
disks:
  nvme0: {address: "0000:5e:00.0", speed: 2GB/s}
guests:
  - name: instance-00000001
    uuid: 00000001-b0d0-4000-8000-000000000001
    extra_specs: {"iat:priority": PC, "iat:io": "true"}
    cpus: [0]
    attachments: [{kind: vf, device: "0000:3b:02.0", nic: nic0}]
  - name: instance-00000002
    uuid: 00000002-b0d0-4000-8000-000000000001
    extra_specs: {"iat:priority": PC}
    cpus: [1]
  - name: instance-00000003
    uuid: 00000003-b0d0-4000-8000-000000000001
    extra_specs: {"iat:priority": BE}
    cpus: [2]
    attachments: [{kind: pci, device: "0000:5e:00.0"}]
    arrives: 500ms
workloads:
  forwarder: {profile: testpmd, cpus: [0], nic: nic0}
  database: {profile: xmem, cpus: [1], working_set: 12MiB}
  storage: {profile: fio, cpus: [2], disk: nvme0, block: 64KiB, depth: 8}
traffic:
  forwarder: {to: forwarder, rate: 2Gb/s, packet: 512B}
events:
  - {at: 1s, set: traffic.forwarder.rate, to: 8Gb/s}
"""


def _scenario(text=TEXT):
    return read_scenario(text, "test", "test.yaml")


class RunTest(unittest.TestCase):
    def setUp(self):
        self.scenario = _scenario()
        self.space = space_of(self.scenario)
        self.ends = phases.of(self.scenario, 12)
        self.free = (unmanaged(self.space),) * len(self.ends)

    def test_what_can_be_laid_out(self):
        """A unit a workload with its guest's priority, and the ports."""
        self.assertEqual((0.5, 1.0, 1.5), self.ends)
        self.assertEqual(
            [("forwarder", Priority.PC), ("database", Priority.PC), ("storage", Priority.BE)],
            [(unit.name, unit.priority) for unit in self.space.units],
        )
        self.assertEqual(("0000:5e:00.0",), self.space.ports)
        far = space_of(load_scenario("two-sockets-remote-vf"))
        self.assertEqual({0, 1}, {unit.socket for unit in far.units})

    def test_a_machine_without_ways(self):
        """Where nothing can be laid out that is said."""
        bare = dataclasses.replace(self.scenario, machine=MACHINES["loongson-2k1000"])
        with self.assertRaisesRegex(BoundError, "Loongson 2K1000 .* has no ways"):
            space_of(bare)

    def test_no_masks_are_what_compare_calls_unmanaged(self):
        """Run in full, a layout is worth to the search what it is worth to compare."""
        job = Job(self.scenario, self.space, self.ends, self.free, 1, math.inf)
        mine = performances(self.scenario, add(measure(job)["phases"]))
        result = run(compare.as_hardware_counts(self.scenario), "unmanaged", 1)
        results = {one.name: one for one in result.workloads}
        for name, value in mine.items():
            self.assertAlmostEqual(performance.performance(self.scenario, results, name), value, 9)

    def test_laid_out(self):
        """Masks, DDIO's ways and ports are as the placement says, and go back."""
        server = EmulatedServer(self.scenario, 1)
        masks = (WayMask(0x7FF), WayMask(0x00F), WayMask(0x00F))
        placement = dataclasses.replace(
            self.free[0], masks=masks, ddio=(4,), dca_off=("0000:5e:00.0",)
        )
        lay(server, self.space, placement)
        self.assertEqual([None, "0xf", "0xf"], [server.class_of(cpu) for cpu in range(3)])
        self.assertEqual(WayMask(0x780), server.read_ddio())
        self.assertEqual(0, server.plant.state.disks.devices[0, nvme.DISK.dca])
        lay(server, self.space, self.free[0])
        self.assertEqual([None] * 3, [server.class_of(cpu) for cpu in range(3)])
        self.assertEqual(WayMask(0x600), server.read_ddio())
        self.assertEqual(1, server.plant.state.disks.devices[0, nvme.DISK.dca])


class SearchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="iat-bound-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def search(self, progress=lambda done, total: None, runs=12, tenant_least=0.0):
        with in_process.executor() as executor:
            return bound.search(
                _scenario(),
                self.folder,
                seeds=1,
                runs=runs,
                be_loss=0.05,
                tenant_least=tenant_least,
                executor=executor,
                progress=progress,
            )

    def test_found_kept_and_read(self):
        """No worse than without an agent; compare reads it, for this scenario only."""
        found = self.search()
        self.assertGreaterEqual(found.fixed.pc, found.unmanaged.pc)
        self.assertGreaterEqual(found.phased.pc, found.fixed.pc)
        self.assertGreaterEqual(found.fixed.be, 0.95)
        self.assertEqual(1.0, found.unmanaged.be)
        read = bound.read(self.folder, compare.as_hardware_counts(_scenario()))
        self.assertEqual(found.pc, read.pc)
        other = _scenario(TEXT.replace("12MiB", "8MiB"))
        self.assertIsNone(bound.read(self.folder, other))
        self.assertIsNone(bound.read(self.folder / "elsewhere", _scenario()))

    def test_no_tenant_below_what_it_is_to_have(self):
        """Beside the static baseline: what leaves each guest enough, else what lacks least."""
        self.assertEqual(0.0, self.search().fixed.lack)
        found = self.search(tenant_least=0.5)
        self.assertEqual((0.0, 0.5), (found.fixed.lack, found.tenant_least))
        scenario = compare.as_hardware_counts(_scenario())
        baseline = {one.name: one for one in run(scenario, "baseline", 1).workloads}
        free = {one.name: one for one in run(scenario, "unmanaged", 1).workloads}
        names = [workload.name for workload in scenario.workloads]
        shares = [
            performance.performance(scenario, free, name)
            / performance.performance(scenario, baseline, name)
            for name in names
        ]
        least = 1.5 * max(shares)  # which no layout can bring
        with in_process.executor() as executor:
            none = bound.search(
                _scenario(), self.folder, seeds=1, runs=12, be_loss=1.0, tenant_least=least,
                executor=executor,
            )  # fmt: skip
        read = bound.read(self.folder, scenario)
        self.assertEqual(least, read.tenant_least)
        runs = (self.folder / "test.jsonl").read_text().splitlines()
        with mock.patch.object(bound, "_STATIC", ("iat_nova.agent.loop",)):  # as if edited
            self.assertIsNone(bound.read(self.folder, scenario))
            self.search(tenant_least=0.5)
        (baseline,) = (self.folder / "test.jsonl").read_text().splitlines()[len(runs) :]
        self.assertIn('"strategy": "baseline"', baseline)
        expected = sum(min(0.0, share / least - 1.0) for share in shares)
        self.assertAlmostEqual(expected, none.unmanaged.lack, 6)
        self.assertGreaterEqual(none.fixed.lack, none.unmanaged.lack)

    def test_stopped_and_resumed(self):
        """What was run before Ctrl-C is not run again, and the end is the same."""
        told = []

        def stopping(done, total):
            told.append(done)
            if len(told) == 9:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            self.search(stopping)
        kept = (self.folder / "test.jsonl").read_text().splitlines()
        self.assertEqual(9, len(kept))
        resumed = self.search(lambda done, total: told.append(done))
        self.assertEqual(sorted(set(told)), told)
        self.assertEqual(kept, (self.folder / "test.jsonl").read_text().splitlines()[:9])
        again = []
        self.assertEqual(resumed, self.search(lambda done, total: again.append(done)))
        self.assertEqual([], again)

    def test_nobody_to_serve(self):
        """Without a performance-critical guest there is nothing to search for."""
        with self.assertRaisesRegex(BoundError, "no performance-critical guest"):
            bound.search(
                _scenario(TEXT.replace("PC", "BE")), self.folder, seeds=1, runs=1, be_loss=0.05
            )

    def test_what_counts_as_sources(self):
        """What a layout is worth depends on the emulated server, not on strategies nor pictures."""
        found = {
            str(source.relative_to(sources.PACKAGE))
            for source in sources.closure(bound_run.__name__)
        }
        self.assertLessEqual(
            {
                "experiments/engine/cache.py",
                "experiments/runs/performance.py",
                "experiments/engine/fio.c",
            },
            found,
        )
        self.assertLessEqual(
            {"model/ways.py", "hardware/cat/limits.py", "experiments/runs/bound_run.py"}, found
        )
        for name in (
            "experiments/compare/overview.py",
            "experiments/scenarios/files/diurnal.yaml",
            "experiments/rivals/unmanaged.py",
            "agent/loop.py",
        ):
            self.assertNotIn(name, found)


class PhasesTest(unittest.TestCase):
    def test_cut_short(self):
        """Phases keep their order and what begins them; what is shorter stays whole."""
        scenario = _scenario(
            TEXT.replace("1500ms", "9s").replace("500ms", "1s").replace("at: 1s", "at: 5s")
        )
        ends = phases.of(scenario, 12)
        self.assertEqual((1.0, 5.0, 9.0), ends)
        cut = phases.cut(scenario, ends, 2.0)
        self.assertEqual((5.0, 3.0), (cut.scenario.length_s, cut.scenario.events[0].at_s))
        (stay,) = cut.scenario.stays.values()
        self.assertEqual((1.0, math.inf), (stay.arrives_s, stay.leaves_s))
        self.assertEqual(
            [(0.0, 1.0, 1.0, True), (1.0, 3.0, 4.0, False), (3.0, 5.0, 4.0, False)],
            [(one.start_s, one.end_s, one.true_s, one.whole) for one in cut.phases],
        )
        self.assertEqual(scenario, phases.cut(scenario, ends, math.inf).scenario)

    def test_too_many(self):
        """The shortest are taken together; what happens in one stays in its place."""
        diurnal = load_scenario("diurnal")
        ends = phases.of(diurnal, 12)
        self.assertEqual((12, diurnal.length_s), (len(ends), ends[-1]))
        cut = phases.cut(diurnal, ends, 3.0)
        times = [event.at_s for event in cut.scenario.events]
        self.assertEqual(sorted(times), times)
        self.assertLessEqual(max(times), cut.scenario.length_s)
        self.assertEqual(len(diurnal.events), len(times))
