# SPDX-License-Identifier: Apache-2.0
"""Bad policies: each with the line, the path and the words that its author gets to read."""

import unittest

from iat_nova import policy
from iat_nova.model import HostFacts
from iat_nova.policy.problems import path_text
from tests.said import raises, sentence
from tests.unit.policy.hosts import ONE, TWO, domain

# name, text, and each problem's line, path and a piece of its message, in file order
BAD = (
    ("empty", "", [(None, "", "the file is empty")]),
    ("comments alone", "# nothing\n", [(None, "", "the file is empty")]),
    ("a list", "- a\n- b", [(1, "", "invalid value a list: expected a mapping")]),
    ("a word", "\nparameters", [(2, "", 'invalid value "parameters": expected a mapping')]),
    ("two documents", "{}\n---\n{}", [(2, "", "but found another document")]),
    ("unclosed", "parameters: {\n", [(1, "", "not YAML")]),
    (
        "tabs",
        "parameters:\n\tinterval: 1s\n\tfloor_ddio: 1k/s\n",
        [(2, "", "invalid tab: expected spaces as indentation"), (3, "", "invalid tab")],
    ),
    ("control character", "a: 1\nb: \x07\n", [(2, "", "invalid character U+0007")]),
    ("a tag", "parameters: !!python/object:os.system {}", [(1, "parameters", "invalid tag")]),
    ("a list as key", "? [a, b]\n: 1", [(1, "", "a key must be text")]),
    ("an alias to itself", "classes: &a\n- *a", [
        (1, "classes[0]", "an alias stands within the value that it names"),
        (1, "classes[0]", "invalid value null: expected a mapping"),
    ]),
    ("too deep", "a: " + "[" * 60 + "]" * 60, [(1, "", "nested too deeply")]),
    ("far too deep", "[\n" * 20000, [(None, "", "nested too deeply")]),
    ("duplicate", "stack:\n  ways: {min: 1}\nhost: {}\nstack: {}\n", [
        (4, "stack", "key given twice, first in line 1"),
    ]),
    ("unknown section", "clases: []", [(1, "clases", "unknown key; did you mean classes?")]),
    ("unknown key far off", "pool: {zzz: 1}", [
        (1, "pool.zzz", "unknown key: expected priority or ways"),
    ]),
    ("merge key", "stack: {<<: {}}", [(1, 'stack["<<"]', "unknown key")]),
    ("wrong unit", "parameters:\n  interval: 5 parsecs", [
        (2, "parameters.interval",
         "invalid value \"5 parsecs\": unknown unit 'parsecs', expected a duration such as 500ms"),
    ]),
    ("bytes for a rate", "parameters: {threshold_miss_low: 1MB/s}", [
        (1, "parameters.threshold_miss_low", "expected a rate such as 100k/s, 1M/s"),
    ]),
    ("a percentage without its sign", "parameters: {threshold_stable: 3}", [
        (1, "parameters.threshold_stable", "invalid value 3: expected a fraction such as 3%"),
    ]),
    ("out of range", "parameters: {interval: 1us}", [
        (1, "parameters.interval", "from 10ms to 1h"),
    ]),
    ("minutes and seconds", "parameters: {interval: 1:30}", [
        (1, "parameters.interval", 'invalid value "1:30"'),
    ]),
    ("no choice", "parameters: {ddio_growth: tow}", [
        (1, "parameters.ddio_growth", 'invalid value "tow": expected one or miss-curve'),
    ]),
    ("a fraction of a way", "parameters: {ddio_ways_min: 1.5}", [
        (1, "parameters.ddio_ways_min", "invalid value 1.5: expected a whole number from 1 to 64"),
    ]),
    ("DDIO's bounds", "parameters:\n  ddio_ways_min: 4\n  ddio_ways_max: 3", [
        (2, "parameters.ddio_ways_min", "invalid value 4: expected up to ddio_ways_max, which"),
    ]),
    ("more than the LLC", "parameters:\n  ddio_ways_max: 12", [
        (2, "parameters.ddio_ways_max", "expected up to 11, the ways of this host's LLC"),
    ]),
    ("more than is not reserved", "parameters: {ddio_ways_max: 10}\nreserved_ways: [9, 10]", [
        (1, "parameters.ddio_ways_max", "up to 9, the ways of this host's LLC less 2 reserved"),
    ]),
    ("hysteresis upside down", "parameters: {io_on: 1k/s, io_off: 2k/s}", [
        (1, "parameters.io_off", "invalid value 2000/s: expected up to io_on, which is 1000/s"),
    ]),
    ("back-off", "parameters: {backoff_initial: 20min}", [
        (1, "parameters.backoff_initial", "up to backoff_max, which is 640 s"),
    ]),
    ("io", "default: {io: maybe}", [
        (1, "default.io", 'invalid value "maybe": expected true or false or auto'),
    ]),
    ("priority", "classes:\n- name: a\n  priority: pc", [
        (3, "classes[0].priority", 'invalid value "pc": expected PC or BE'),
    ]),
    ("bounds out of order", "default:\n  ways: {min: 3, initial: 2}", [
        (2, "default.ways.min", "invalid value 3 ways: expected up to initial, which is 2"),
    ]),
    ("no ways at all", "stack: {ways: {min: 0}}", [
        (1, "stack.ways.min", "invalid value 0: expected a whole number from 1 to 64, or a size"),
    ]),
    ("size without unit", 'stack: {ways: {min: "3"}}', [
        (1, "stack.ways.min", "the unit is missing, expected a size such as 512KiB"),
    ]),
    ("size above the LLC", "pool: {ways: {max: 1GiB}}", [
        (1, "pool.ways.max", "invalid value 456 ways: expected up to 11"),
    ]),
    ("class without name", "classes:\n- priority: PC", [
        (2, "classes[0]", "the key name is missing"),
    ]),
    ("class name twice", "classes:\n- {name: a, match: {flavor: x}}\n- name: a", [
        (3, "classes[1].name", "invalid name 'a': expected a name not used before, classes[0]"),
    ]),
    ("class name taken", "classes:\n- name: pool", [
        (2, "classes[0].name", "invalid name 'pool': expected a name that iat-nova does not"),
    ]),
    ("class name unfit", "classes:\n- name: a b", [
        (2, "classes[0].name", 'invalid value "a b": expected text of the form'),
    ]),
    ("attachment", "classes:\n- name: a\n  match:\n    attachment: [vf, vhost_user]", [
        (4, "classes[0].match.attachment[1]", "did you mean vhost-user?"),
    ]),
    ("empty condition", "classes:\n- {name: a, match: {flavor: []}}", [
        (2, "classes[0].match.flavor", "invalid empty value: expected at least one entry"),
    ]),
    ("extra spec of ours", 'classes:\n- name: a\n  match: {extra_specs: {"iat:prio": "*"}}', [
        (3, 'classes[0].match.extra_specs["iat:prio"]', "did you mean iat:priority?"),
    ]),
    ("flavor's extra spec", 'flavors:\n  m1.a:\n    "iat:priority": high', [
        (3, 'flavors["m1.a"]["iat:priority"]', "it takes PC or BE"),
    ]),
    ("flavor contradicts itself", 'flavors:\n  m1: {"iat:llc_ways": 4, "iat:llc_ways_max": 2}', [
        (2, "flavors.m1", "iat:llc_ways=4 is above it"),
    ]),
    ("reserved in the middle", "reserved_ways: [5]", [
        (1, "reserved_ways", "expected ways at either end"),
    ]),
    ("all reserved", "reserved_ways: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]", [
        (1, "reserved_ways", "leave contiguous ways"),
    ]),
    ("reserved beyond", "reserved_ways: [11]", [
        (1, "reserved_ways[0]", "invalid way 11: expected 0 to 10, this host's ways"),
    ]),
    ("reserved as a mask", "reserved_ways: 0x600", [
        (1, "reserved_ways", "invalid value 1536: expected a list"),
    ]),
    ("a mask without digits", "reserved_ways: 0x_", [
        (1, "reserved_ways", "invalid value \"0x_\": expected a list"),
    ]),
    ("reserved twice", "reserved_ways: [10, 10]", [
        (1, "reserved_ways", "expected each value once"),
    ]),
    ("template", "a: 1\nb: {{ nothing }}", [(2, "", "'nothing' is undefined")]),
    ("loop", "classes:\n{% for d in domains %}\n- name: c{{ d.id }}\n  wasy: 1\n{% endfor %}", [
        (4, "classes[0].wasy", "did you mean ways?"),
        (4, "classes[1].wasy", "did you mean ways?"),
    ]),
)  # fmt: skip


class BadPolicyTest(unittest.TestCase):
    def test_each_problem_is_told_with_line_path_and_what_is_allowed(self) -> None:
        """The table of bad policies holds, problem by problem."""
        for name, text, expected in BAD:
            with self.subTest(name):
                with self.assertRaises(policy.PolicyError) as caught:
                    policy.parse(text, TWO)
                problems = caught.exception.problems
                found = [(problem.line, problem.path) for problem in problems]
                self.assertEqual([(line, path) for line, path, _ in expected], found)
                for problem, (_, _, message) in zip(problems, expected, strict=True):
                    self.assertIn(message, sentence(problem.message))

    def test_all_problems_at_once(self) -> None:
        """Problems of YAML, schema and sense are told together, in file order."""
        text = """parameters:
  intervall: 1s
  ddio_ways_min: 8
classes:
- name: a
  priority: XX
- name: a
reserved_ways: [4]
reserved_ways: []
"""
        with self.assertRaises(policy.PolicyError) as caught:
            policy.parse(text, ONE, "my.yaml")
        self.assertEqual([2, 3, 6, 7, 8, 9], [p.line for p in caught.exception.problems])
        first = sentence(caught.exception).splitlines()[0]
        self.assertEqual(
            "my.yaml: line 2: parameters.intervall: unknown key; did you mean interval?", first
        )

    def test_rendered_line_where_the_file_s_is_not_known(self) -> None:
        """A template that measures itself still gets the line after rendering."""
        text = "{% set t %}x{% endset %}{{ 'stack' if t|length == 1 else 'host' }}: 1\n"
        with self.assertRaises(policy.PolicyError) as caught:
            policy.parse(text, ONE)
        (problem,) = caught.exception.problems
        self.assertIsNone(problem.line)
        self.assertIn("(line 1 after Jinja2)", sentence(problem.message))

    def test_sizes_need_the_host_to_tell_its_ways(self) -> None:
        """Where the size of a way is not known only counts will do."""
        host = HostFacts("h", (domain(way_bytes=None),), (0,))
        with raises(self, policy.PolicyError, "way_bytes. is not known here"):
            policy.parse("stack: {ways: {min: 1MiB}}", host)

    def test_paths(self) -> None:
        """Odd keys are quoted so that a path can be read back."""
        self.assertEqual('a[0]["m1.x"].b-c["\\""]', path_text(("a", 0, "m1.x", "b-c", '"')))


class WarningTest(unittest.TestCase):
    def warnings(self, text: str) -> list[tuple[int | None, str]]:
        found = policy.parse(text, ONE).warnings
        return [(warning.line, f"{warning.path}: {sentence(warning.message)}") for warning in found]

    def test_unreachable_classes(self) -> None:
        """A class behind one that matches all its guests is pointed out."""
        for name, first, second, reached in (
            ("catch-all", "", "flavor: a", False),
            ("the same", "flavor: a", "flavor: a", False),
            ("glob and literal", "flavor: 'a*'", "flavor: ab", False),
            ("one of several", "flavor: [a, b]", "{flavor: b, model: slicing}", False),
            ("any value", 'extra_specs: {x: "*"}', "extra_specs: {x: 1}", False),
            ("two globs", "flavor: 'a?'", "flavor: 'a*'", True),
            ("narrower first", "{flavor: a, model: none}", "flavor: a", True),
            ("an extra spec named like a fact", "flavor: a", "extra_specs: {flavor: a}", True),
        ):
            with self.subTest(name):
                head = f"  match: {first if first.startswith('{') else '{' + first + '}'}\n"
                tail = f"  match: {second if second.startswith('{') else '{' + second + '}'}\n"
                text = f"classes:\n- name: a\n{head if first else ''}- name: b\n{tail}"
                expected = (
                    "classes[1]: never reached: classes[0] matches all guests that this class "
                    "matches"
                )
                line = 4 if first else 3
                self.assertEqual([] if reached else [(line, expected)], self.warnings(text))

    def test_guarantees_beyond_the_cache(self) -> None:
        """Guarantees that cannot all be kept beside the host's own are pointed out."""
        text = (
            "stack: {ways: {min: 3}}\nclasses:\n- name: big\n  match: {flavor: x}\n  ways: {min: 7}"
        )
        ((line, message),) = self.warnings(text)
        self.assertEqual(5, line)
        self.assertIn("guest of big is 7 ways, of stack, host and pool 5; the LLC has 11", message)
        ((line, message),) = self.warnings(
            "stack: {ways: {min: 5}}\npool: {ways: {min: 6}}\nhost: {ways: {min: 1}}"
        )
        self.assertIn("are 12 ways together, the LLC has 11", message)
