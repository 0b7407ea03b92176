# SPDX-License-Identifier: Apache-2.0
"""Runs of a scenario under a strategy: windows between marks, moves, restarts."""

import pickle
import unittest
from unittest import mock

from iat_nova.experiments.runs.failure import StrategyFailed
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.model import Message
from iat_nova.report import sentences
from iat_nova.strategies import registry
from tests.unit.experiments.sim import scenes
from tests.unit.experiments.strategies import failing

TEXT = (
    scenes.HEAD
    + "compression: 1%\n"
    + scenes.FORWARDER.format(ring=256, rate="4Gb/s", packet=1024)
    + "events:\n  - {at: 1500ms, set: traffic.fwd.rate, to: 8Gb/s}\n"
)


class WindowsTest(unittest.TestCase):
    def test_marks(self):
        """Each window has the rates of its own time; one that ends off the loop's beat, too."""
        scenario = read_scenario(TEXT, "test", "test.yaml")
        result = run(scenario, "baseline", seconds=3.0, marks=(1.5,))
        first, second = result.windows
        self.assertEqual((0.0, 1.5, 3.0), (first.from_s, first.to_s, second.to_s))
        goodput = 1024 / 1044
        self.assertAlmostEqual(4 * goodput, first.workloads["fwd"].gbps, delta=0.1)
        self.assertAlmostEqual(8 * goodput, second.workloads["fwd"].gbps, delta=0.2)
        whole = next(one for one in result.workloads if one.name == "fwd")
        self.assertAlmostEqual(6 * goodput, whole.gbps, delta=0.15)
        self.assertGreater(first.ddio_hits_per_s + first.ddio_misses_per_s, 1e6)

    def test_without_marks(self):
        """Without marks the one window is the whole run."""
        scenario = read_scenario(TEXT, "test", "test.yaml")
        (window,) = run(scenario, "baseline", seconds=1.0, marks=(0.0, 7.0)).windows
        self.assertEqual((0.0, 1.0), (window.from_s, window.to_s))

    def test_a_guest_arrives_at_the_end(self):
        """The arrival wakes the loop at the very moment of the mark, which ends a window still."""
        scenario = load_scenario("tenant-churn")
        arrives_s = min(one.arrives_s for one in scenario.stays.values() if one.arrives_s)
        result = run(scenario, "baseline", seconds=arrives_s)
        self.assertEqual([(0.0, arrives_s)], [(one.from_s, one.to_s) for one in result.windows])


class FailureTest(unittest.TestCase):
    def test_a_failing_strategy_ends_the_run(self):
        """It decided nothing, so its figures mean nothing. The error names strategy and line.

        The line is the strategy's own; what it decided wrong has none. The error also arrives from
        a worker process, and its cause is a value: the commands make the sentence.
        """
        scenario = read_scenario(TEXT, "test", "test.yaml")
        wrong = {
            failing.Raises: "strategy 'mine' failed at .* s: ValueError.*failing.py, line [0-9]+.$",
            failing.NoDecision: "strategy 'mine' failed at [0-9.]+ s: TypeError[^/]*$",
            failing.Impossible: "strategy 'mine' failed at .* s: .*way",
            failing.NoRoom: "^strategy 'mine' failed at [0-9.]+ s: cache domain 0: no mask [^;]*$",
        }
        for kind, text in wrong.items():
            with (
                self.subTest(kind),
                mock.patch.object(registry, "find", return_value=kind),
                self.assertRaises(StrategyFailed) as caught,
            ):
                run(scenario, "mine", seconds=1.0)
            arrived = pickle.loads(pickle.dumps(caught.exception)).message
            self.assertEqual(caught.exception.message, arrived)
            self.assertRegex(sentences.text(arrived), text)
            if kind is failing.NoRoom:
                self.assertIsInstance(arrived.values["cause"], Message)


class MovesTest(unittest.TestCase):
    def test_the_operators_hand_is_no_move(self):
        """DDIO's ways that the scenario sets are adopted; the host gives back lent ways."""
        text = TEXT + "  - {at: 1300ms, set: ddio.ways, to: 4}\n"
        result = run(read_scenario(text, "test", "test.yaml"), "baseline", seconds=3.0)
        ways = [one.layout.ddio.count for one in result.decisions]
        self.assertEqual((2, 4), (ways[0], ways[-1]))
        moved = {subject for one in result.decisions[1:] for subject in one.moved}
        self.assertEqual({"host"}, moved - {"ddio"})
        held = {one.layout.lent is None for one in result.decisions}
        self.assertEqual({False}, held)
        self.assertEqual((), result.moves)


WALL = """\
length: 40s
compression: 0.5%
guests:
  - {name: a, uuid: 00000001-57e3-4000-8000-000000000001, extra_specs: {"iat:priority": PC},
     cpus: [1, 2]}
  - {name: b, uuid: 00000002-57e3-4000-8000-000000000002, extra_specs: {"iat:priority": BE},
     cpus: [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
workloads:
  a: {profile: mcf, cpus: [1, 2]}
  b: {profile: lbm, cpus: [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]}
"""


class BandwidthTest(unittest.TestCase):
    def test_streams_are_throttled_where_the_scenario_has_it(self):
        """By steps down to where no gain is left; critical work gains. Without MBA nobody is."""
        done = {}
        for keys, least in (("mba: true\nbandwidth_min: 35%\n", 40), ("", 100)):
            result = run(read_scenario(keys + WALL, "x", "x"), "pollute-buffer")
            seen = {group.bandwidth for one in result.decisions for group in one.layout.groups}
            self.assertEqual(set(range(min(seen), 101, 10)), seen)
            self.assertTrue(least <= min(seen) and (least == 100 or min(seen) < 90), seen)
            done[keys] = next(one.work_per_s for one in result.workloads if one.name == "a")
        self.assertGreater(done["mba: true\nbandwidth_min: 35%\n"], 1.05 * done[""])


class RestartTest(unittest.TestCase):
    def test_the_host_is_as_found_until_the_next_agents_first_layout(self):
        """Its first sample is four seconds later; it decides from nothing, masks included."""
        text = TEXT + "restarts: [3s]\n"
        masks = {}
        allocate = EmulatedServer.apply

        def apply(server, domain, classes):
            masks[server.now()] = bool(classes)
            return allocate(server, domain, classes)

        with mock.patch.object(EmulatedServer, "apply", apply):
            result = run(read_scenario(text, "test", "test.yaml"), "baseline", seconds=9.0)
        starts = [one.at_s for one in result.decisions if one.iteration == 1]
        self.assertEqual(2, len(starts))
        self.assertAlmostEqual(7.0, starts[1], delta=0.3)
        restored = [at_s for at_s, classes in masks.items() if not classes]
        self.assertAlmostEqual(3.0, restored[0], delta=0.3)
        self.assertFalse([at_s for at_s in masks if restored[0] < at_s < 7.0])
        self.assertEqual((3.0,), result.restarts)
