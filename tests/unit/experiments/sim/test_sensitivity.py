# SPDX-License-Identifier: Apache-2.0
"""Constants of the emulated server, moved by a quarter, and the verdicts that turn."""

import ast
import dataclasses
import importlib
import json
import pathlib
import re
import tempfile
import unittest
from unittest import mock

from iat_nova.experiments.cmd.figures import SimulateFigures
from iat_nova.experiments.engine import layout
from iat_nova.experiments.machines.machine import Machine
from iat_nova.experiments.papers import catalogue, constants, sensitivity
from iat_nova.experiments.papers.constants import CONSTANTS
from iat_nova.experiments.runs import sources
from iat_nova.experiments.scenarios.profile import Profile
from iat_nova.experiments.scenarios.scenario import DiskSpec

EXPERIMENTS = sources.PACKAGE / "experiments"
# Numbers with a written value, in enums and macros.
IN_C = re.compile(r"(?:#define |[{,] *)([A-Z]\w*)(?: = | +-?[\d.]+ *$)", re.MULTILINE)


def made(name, **point):
    definition = catalogue.definitions()[name]
    return definition.made({**definition.points(1)[0], **point})


def numbers():
    """Yield the numbers in the emulated server's sources, and in what describes its parts."""
    for source in sorted((EXPERIMENTS / "engine").glob("*.[ch]")):
        yield from (f"{source.stem}.{name}" for name in IN_C.findall(layout.source(source.name)))
    closure = sources.closure("iat_nova.experiments.server.plant")
    for source in (
        one for one in closure if one.suffix == ".py" and one.is_relative_to(EXPERIMENTS)
    ):
        parts = source.relative_to(EXPERIMENTS).with_suffix("").parts
        module = importlib.import_module(".".join(("iat_nova.experiments", *parts)))
        for node in ast.parse(source.read_text()).body:
            if isinstance(node, ast.Assign) and "number" not in ast.dump(node.value):
                for name in ast.walk(node.targets[0]):
                    if isinstance(name, ast.Name) and type(getattr(module, name.id)) in (
                        int,
                        float,
                    ):
                        yield f"{parts[-1]}.{name.id}"
    for described in (Machine, Profile, DiskSpec):
        for field in dataclasses.fields(described):
            if {"int", "float"} & set(str(field.type).split(" | ")):
                yield f"{described.__name__}.{field.name}"


class ConstantsTest(unittest.TestCase):
    def test_none_is_forgotten(self):
        """Each number of the server is moved, or the list says why not."""
        left_out = [name for names in constants.LEFT_OUT.values() for name in names]
        found = set(numbers())
        self.assertEqual(
            set(), {one for one in found - set(left_out) if one.split(".")[1] not in CONSTANTS}
        )
        self.assertEqual(set(), set(left_out) - found)
        self.assertEqual(len(left_out), len(set(left_out)))
        self.assertEqual(set(), {one for one in left_out if one.split(".")[1] in CONSTANTS})

    def test_each_moves_something(self):
        """Each constant changes a scenario of some figure, both ways, and nothing else by name."""
        scenarios = [made("iat-3a"), made("a4-3b"), made("iat-8"), made("adca-6")]
        scenarios += [made("a4-8b")]
        for name in CONSTANTS:
            for factor in constants.FACTORS:
                with self.subTest(name, factor=factor):
                    moved = [constants.moved(one, name, factor) for one in scenarios]
                    self.assertNotEqual(scenarios, moved)
                    masks = [[one.masks for one in several] for several in (scenarios, moved)]
                    self.assertEqual(*masks)

    def test_machine(self):
        """A field of the machine is multiplied; a whole number stays whole and moves."""
        scenario = made("a4-3b")
        moved = constants.moved(scenario, "memory_ns", 1.25).machine
        self.assertEqual(1.25 * scenario.machine.memory_ns, moved.memory_ns)
        self.assertEqual(
            scenario.machine, dataclasses.replace(moved, memory_ns=scenario.machine.memory_ns)
        )
        for lines, fewer, more in ((2, 1, 3), (20, 15, 25), (1, 0, 2), (0, 0, 0)):
            one = dataclasses.replace(scenario.machine, streamer_lines=lines)
            one = dataclasses.replace(scenario, machine=one)
            found = [
                constants.moved(one, "streamer_lines", factor).machine.streamer_lines
                for factor in constants.FACTORS
            ]
            self.assertEqual([fewer, more], found)

    def test_overlap(self):
        """One kind of access of every workload that has the kind, and never fewer than one."""
        scenario = made("a4-3b")
        moved = constants.moved(scenario, "overlap_1", 0.75)
        before, after = (
            {one.name: one.profile.overlap for one in found.workloads}
            for found in (scenario, moved)
        )
        own, packets, *copies = before["dpdk0"]
        self.assertEqual((own, 0.75 * packets, *copies), after["dpdk0"])
        self.assertEqual(before["xmem"], after["xmem"])
        self.assertEqual(1.0, own)
        unmoved = constants.moved(scenario, "overlap_0", 0.75).workload("dpdk0").profile.overlap
        self.assertEqual(before["dpdk0"], unmoved)

    def test_stages(self):
        """The second stage of a pipeline moves with the first."""
        scenario = made("mempool")
        name = scenario.workloads[0].name
        first = scenario.workload(name).profile
        moved = constants.moved(scenario, "own_cycles", 1.25).workload(name).profile
        self.assertEqual(1.25 * first.own_cycles, moved.own_cycles)
        self.assertEqual(1.25 * first.then.own_cycles, moved.then.own_cycles)

    def test_shares(self):
        """Unequal shares come nearer to their mean or go farther, and the sum is kept."""
        scenario = made("a4-3b")
        moved = constants.moved(scenario, "shares", 0.75)
        before, after = (
            [one.rate_bits_per_s / 1e9 for one in found.traffic] for found in (scenario, moved)
        )
        self.assertAlmostEqual(sum(before), sum(after))
        self.assertAlmostEqual(25 + 0.75 * (before[0] - 25), after[0])
        late = {one.subject: one.value / 1e9 for one in moved.events if one.at_s}
        self.assertEqual(after, list(late.values()))
        even = made("iat-8")
        self.assertEqual(even, constants.moved(even, "shares", 0.75))


class SensitivityTest(unittest.TestCase):
    def test_affected(self):
        """A figure that does not have what a constant moves is not measured again."""
        names = ["iat-3a", "a4-8b", "iat-15"]
        found = {
            constant: [one.name for one in sensitivity.affected(names, constant, 0.75)]
            for constant in ("jitter", "memory_ns")
        }
        self.assertEqual({"jitter": ["iat-3a"], "memory_ns": ["iat-3a", "a4-8b"]}, found)

    def test_help(self):
        """It says how many constants move, by how much, and that the others stay."""
        parser = SimulateFigures(mock.Mock(), None).get_parser("simulate figures")
        (option,) = (one for one in parser._actions if one.dest == "sensitivity")
        low, high = constants.FACTORS
        wanted = f"one of {len(CONSTANTS)} constants of the emulated server multiplied by {low}, "
        self.assertIn(f"{wanted}then by {high}", option.help)

    def test_turns(self):
        """Verdicts that differ from the unmoved server's are told, and all moves are recorded."""
        asked = []

        def measure(figures, folder):
            asked.append(folder.name)
            # Made up: with a slower memory X-Mem misses far more, which turns the claims on masks.
            worse = folder.name == "memory_ns-1.25"
            return {
                figure.name: [
                    {
                        **point,
                        "xmem_miss_percent": 60.0 if worse else 28.0,
                        "storage_gbytes_per_s": 10.5 if point["fio_mask"] else None,
                    }
                    for point in figure.points(1)
                ]
                for figure in figures
            }

        with tempfile.TemporaryDirectory() as folder:
            turns = sensitivity.run(["a4-8b"], pathlib.Path(folder), measure)
            record = json.loads((pathlib.Path(folder) / sensitivity.RECORD).read_text())
        self.assertEqual("points", asked[0])
        self.assertEqual({("memory_ns", 1.25)}, {(one.constant, one.factor) for one in turns})
        self.assertEqual(
            ["a4-8b/0x1e0", "a4-8b/0x1c0", "a4-8b/0x180"], [one.before.claim for one in turns]
        )
        self.assertEqual(2 * len(CONSTANTS), len(record["moves"]))
        (move,) = (one for one in record["moves"] if one["turns"])
        self.assertEqual(
            ("memory_ns", 6, ["a4-8b"]), (move["constant"], move["claims"], move["figures"])
        )
        untouched = next(one for one in record["moves"] if one["constant"] == "jitter")
        self.assertEqual((0, []), (untouched["claims"], untouched["figures"]))
