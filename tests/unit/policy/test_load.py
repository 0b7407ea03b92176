# SPDX-License-Identifier: Apache-2.0
"""Good policies compile to what they say; files that cannot be read are refused."""

import dataclasses
import pathlib
import tempfile
import unittest

from iat_nova import policy
from iat_nova.agent import policy_file
from iat_nova.model import AttachmentKind, HostFacts, Parameters, Priority, WayMask
from iat_nova.nova.extra_specs import Io
from iat_nova.policy import schema
from iat_nova.policy.rules import Match, WayBounds
from tests.said import raises, sentence
from tests.unit.policy.hosts import EXAMPLES, ONE, TWO, domain

ROOT = pathlib.Path(__file__).parents[3]


class DefaultTest(unittest.TestCase):
    def test_the_file_says_the_defaults(self) -> None:
        """The commented file and the least policy mean the same, and the model's numbers."""
        shipped, least = policy.default(ONE), policy.parse("{}", ONE)
        self.assertEqual(Parameters(), shipped.parameters)
        self.assertEqual(Parameters(), least.parameters)
        self.assertEqual(shipped.rules, least.rules)
        self.assertEqual((), shipped.warnings)

    def test_one_source(self) -> None:
        """What etc/ offers for installation is the file that is used without one."""
        self.assertEqual(
            policy.default_text(), (ROOT / "etc/iat-nova/policy.yaml").read_text(encoding="utf-8")
        )

    def test_small_caches(self) -> None:
        """The default fits an LLC with fewer ways than DDIO may have."""
        small = HostFacts("small", (domain(ways=4),), tuple(range(8)))
        self.assertEqual(3, policy.default(small).parameters.ddio_ways_max)
        self.assertEqual(3, policy.parse("{}", small).parameters.ddio_ways_max)

    def test_commented_examples_are_valid(self) -> None:
        """The default file's commented lines can be taken into use as they are."""
        before, classes, after = policy.default_text().partition("\nclasses:\n")
        lines = [
            line.removeprefix("#") if line.startswith(("# - ", "#   ", "# m1")) else line
            for line in after.splitlines()
        ]
        loaded = policy.parse(before + classes + "\n".join(lines), ONE)
        self.assertEqual(["nfv"], [rule.name for rule in loaded.rules.classes])
        self.assertEqual(["m1.critical"], list(loaded.rules.flavors))


class ParameterTest(unittest.TestCase):
    def test_every_parameter_can_be_set(self) -> None:
        """No field of the controller's parameters is out of the policy's reach."""
        fields = set(schema.FIELDS.values())
        known = {field.name for field in dataclasses.fields(Parameters)} - {"domains"}
        self.assertEqual(known, fields)

    def test_values_and_units(self) -> None:
        """Each parameter arrives in the unit of its field."""
        text = """
parameters:
  threshold_stable: 5%
  threshold_miss_low: 2M/s
  ddio_ways_min: 1
  ddio_ways_max: 7
  interval: 500ms
  floor_references: 50k/s
  floor_ddio: 20k/s
  reclaim_fall: 0.2
  retry_change: 30 %
  backoff_initial: 1s
  backoff_max: 2min
  mask_changes_per_minute: 12
  ddio_growth: miss-curve
  best_effort_min: 95%
"""
        expected = Parameters(
            0.05, 2e6, 1, 7, 0.5, 50e3, 20e3, 0.2, 0.3, 1.0, 120.0, 12, "miss-curve", 0.95
        )
        self.assertEqual(expected, policy.parse(text, ONE).parameters)

    def test_one_packet_threshold_pulls_the_other(self) -> None:
        """Setting io_on alone never asks for an io_off above it."""
        rules = policy.parse("parameters: {io_on: 1k/s}", ONE).rules
        self.assertEqual((1e3, 1e3), (rules.io_on_packets_per_s, rules.io_off_packets_per_s))


class ContentTest(unittest.TestCase):
    def test_network_functions(self) -> None:
        """Template, classes, sizes and reserved ways come out as values."""
        loaded = policy_file.load(EXAMPLES / "nfv.yaml", TWO)
        vnf, gold, silver = loaded.rules.classes
        self.assertEqual((8, 0.5), (loaded.parameters.ddio_ways_max, loaded.parameters.interval_s))
        self.assertEqual(
            Match.of(flavor=("vnf.*",), attachment=(AttachmentKind.VF, AttachmentKind.VDPA)),
            vnf.match,
        )
        self.assertEqual((Priority.PC, Io.TRUE), (vnf.priority, vnf.io))
        self.assertEqual(WayBounds(2, 3, 4), vnf.ways)  # 4 MiB are 1.8 ways, 6 MiB are 2.7
        self.assertEqual((Priority.PC, "gold"), (gold.priority, gold.name))
        self.assertEqual(Match.of(extra_specs={"cloud:tier": ("silver",)}), silver.match)
        self.assertEqual(WayMask(0x400), loaded.rules.reserved_ways)
        self.assertIsNone(loaded.rules.pool_priority)

    def test_extra_specs_keep_their_spelling(self) -> None:
        """YAML's reading of 010, yes and 1.10 does not reach extra specs."""
        text = """flavors: {a: {x: 010, y: yes, z: 1.10}}
classes:
- name: c
  match: {extra_specs: {x: [010, on]}}
"""
        rules = policy.parse(text, ONE).rules
        self.assertEqual({"a": {"x": "010", "y": "yes", "z": "1.10"}}, rules.flavors)
        wanted = Match.of(extra_specs={"x": ("010", "on")})
        self.assertEqual(wanted, rules.classes[0].match)

    def test_bounds_left_out_follow_the_given_ones(self) -> None:
        """One bound alone never contradicts an inherited one."""
        for written, bounds in (
            ("{max: 1}", WayBounds(1, 1, 1)),
            ("{min: 4}", WayBounds(4, 4, None)),
            ("{initial: 3}", WayBounds(1, 3, None)),
            ("{min: 3, max: 3}", WayBounds(3, 3, 3)),
            ("{max: 6}", WayBounds(1, 2, 6)),
        ):
            with self.subTest(written=written):
                rules = policy.parse(f"default: {{ways: {written}}}", ONE).rules
                self.assertEqual(bounds, rules.default.ways)

    def test_the_least_bandwidth(self) -> None:
        """Of a class, inherited from the default; of the pool, by itself. Percent, rounded up."""
        text = """default: {bandwidth_min: 40%}
classes:
- {name: a, bandwidth_min: 12.5%}
- {name: b, match: {flavor: x}}
"""
        for written, pool in (("", 100), ("pool: {bandwidth_min: 0.3}", 30)):
            rules = policy.parse(text + written, ONE).rules
            found = (rules.default, *rules.classes)
            self.assertEqual([40, 13, 40], [one.bandwidth_min for one in found])
            self.assertEqual(pool, rules.pool_bandwidth_min)

    def test_the_weight(self) -> None:
        """Of a class, or inherited from the default; a number within limits."""
        text = "default: {weight: 2}\nclasses: [{name: a, weight: 0.5}, {name: b}]\n"
        rules = policy.parse(text, ONE).rules
        self.assertEqual([2.0, 0.5, 2.0], [one.weight for one in (rules.default, *rules.classes)])
        for value, said in (("0", "from 0.25 to 4"), ("5", "from 0.25 to 4"), ("high", "a number")):
            with self.subTest(value), self.assertRaises(policy.PolicyError) as caught:
                policy.parse(f"classes:\n- name: a\n  weight: {value}\n", ONE)
            (problem,) = caught.exception.problems
            self.assertEqual(("classes[0].weight", 3), (problem.path, problem.line))
            self.assertIn(said, sentence(problem.message))

    def test_a_least_bandwidth_that_is_refused(self) -> None:
        """What, where and what is allowed."""
        for value in ("0", "101%", "50 MB", "[]"):
            with self.subTest(value), self.assertRaises(policy.PolicyError) as caught:
                policy.parse(f"classes:\n- name: a\n  bandwidth_min: {value}\n", ONE)
            (problem,) = caught.exception.problems
            self.assertEqual(("classes[0].bandwidth_min", 3), (problem.path, problem.line))
            self.assertIn("expected a fraction such as", sentence(problem.message))

    def test_anchors(self) -> None:
        """An alias repeats what it names."""
        text = "stack: {ways: &w {min: 2}}\npool: {ways: *w}"
        self.assertEqual(2, policy.parse(text, ONE).rules.pool_ways.min)

    def test_sections_of_comments_alone(self) -> None:
        """A section whose lines are all comments is as good as absent."""
        self.assertEqual((), policy.parse("classes:\n# - name: a\n", ONE).rules.classes)


class FileTest(unittest.TestCase):
    def setUp(self) -> None:
        self.path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "policy.yaml"

    def test_absent(self) -> None:
        """The error names the file and the reason."""
        with self.assertRaises(policy.PolicyError) as caught:
            policy_file.load(self.path, ONE)
        self.assertEqual(
            f"{self.path}: cannot be read: No such file or directory", sentence(caught.exception)
        )

    def test_not_text(self) -> None:
        """Bytes that are no UTF-8 are refused, not guessed at."""
        self.path.write_bytes(b"\xff\xfe\x00")
        with raises(self, policy.PolicyError, "is not UTF-8 text: 'utf-8'.*iconv"):
            policy_file.load(self.path, ONE)

    def test_byte_order_mark_and_carriage_returns(self) -> None:
        """What Windows editors add does no harm, lines included."""
        self.path.write_bytes(b"\xef\xbb\xbfparameters:\r\n  interval: 2s\r\n  oops: 1\r\n")
        with self.assertRaises(policy.PolicyError) as caught:
            policy_file.load(self.path, ONE)
        (problem,) = caught.exception.problems
        self.assertEqual((3, "parameters.oops"), (problem.line, problem.path))


class DomainTest(unittest.TestCase):
    """Parameters of single cache domains."""

    def test_what_is_left_out_is_what_all_have(self) -> None:
        """Only what is given differs; a domain without an entry has the others'."""
        text = """
parameters: {threshold_miss_low: 2M/s, ddio_ways_max: 5}
domains: {1: {ddio_ways_max: 4}}
"""
        parameters = policy.parse(text, TWO).parameters
        both = (parameters.of(0), parameters.of(1))
        self.assertEqual([2e6, 2e6], [one.threshold_miss_low_per_s for one in both])
        self.assertEqual([5, 4], [one.ddio_ways_max for one in both])

    def test_what_is_wrong(self) -> None:
        """Each with its path."""
        for entry, message in (
            (
                "{x: {ddio_ways_max: 4}}",
                "domains.x: invalid key 'x': expected the number of a cache",
            ),
            ("{1: {interval: 1s}}", 'domains["1"].interval: unknown key'),
            (
                "{1: {ddio_ways_max: 12}}",
                'domains["1"].ddio_ways_max: invalid value 12: expected up to 11',
            ),
            (
                "{1: {ddio_ways_min: 6, ddio_ways_max: 5}}",
                'domains["1"].ddio_ways_min: invalid value 6',
            ),
            ("{1: {}}", "at least one"),
        ):
            with self.assertRaises(policy.PolicyError) as caught:
                policy.parse(f"domains: {entry}", TWO)
            self.assertIn(message, sentence(caught.exception), entry)
