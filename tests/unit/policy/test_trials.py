# SPDX-License-Identifier: Apache-2.0
"""Policies can be tested, shown in full and checked in an editor."""

import functools
import pathlib
import unittest

import jsonschema
import yaml

from iat_nova import policy
from iat_nova.policy import PolicyError, schema, trials
from tests.unit.policy.hosts import EXAMPLES, ONE, TWO

ROOT = pathlib.Path(__file__).parents[3]
PAGES = ROOT / "doc" / "source" / "operator" / "examples"
FULL = """
parameters: {threshold_stable: 7%, interval: 500ms, io_on: 12k/s, ddio_growth: miss-curve}
domains: {0: {threshold_miss_low: 2M/s, ddio_ways_max: 3}, "1": {backoff_max: 20min}}
default: {priority: PC, io: true, ways: {min: 2}}
classes:
- name: a
  match:
    extra_specs: {"hw:mem_page_size": [1GB, "2*"]}
    image_properties: {os_type: linux}
    flavor: x
    project_name: [p, q]
    attachment: [vf, tap]
    model: slicing
    domain: [0, 1]
    not: {instance: "db*", domain: 1}
  ways: {min: 3MiB, max: 9}
- {name: b, priority: BE, io: auto}
flavors: {m1: {"iat:priority": PC}}
pool: {priority: highest}
reserved_ways: [9, 10]
"""


def outcomes(tests, text="{}"):
    """Run tests of a policy; return what is wrong with each."""
    found = trials.run(trials.parse(tests, "t.yaml"), functools.partial(policy.parse, text))
    return [one.wrong for one in found]


class TestEffective(unittest.TestCase):
    def test_it_is_a_policy_that_says_the_same(self):
        """Of every shipped policy, and of one that uses everything."""
        texts = [policy.default_text(), FULL]
        texts += [path.read_text() for path in (*EXAMPLES.glob("*.yaml"), PAGES / "nfv.yaml")]
        for text in texts:
            for host in (ONE, TWO):
                first = policy.parse(text, host)
                again = policy.parse(first.effective, host)
                self.assertTrue(first.same(again), first.effective)
                self.assertEqual(first.effective, again.effective)

    def test_nothing_is_left_out(self):
        """The shortest policy shows every parameter."""
        shown = yaml.safe_load(policy.parse("{}", ONE).effective)
        known = schema.SCHEMA["properties"]
        self.assertEqual(set(known), set(shown))
        self.assertEqual(set(known["parameters"]["properties"]), set(shown["parameters"]))


class TestEditors(unittest.TestCase):
    def test_known_keywords_alone(self):
        """A tool that knows JSON Schema takes shipped policies, and refuses a misspelt key."""
        made = schema.for_editors()
        jsonschema.Draft202012Validator.check_schema(made)
        validator = jsonschema.Draft202012Validator(made)
        for text in (policy.parse(policy.default_text(), ONE).effective, FULL):
            self.assertEqual([], list(validator.iter_errors(yaml.safe_load(text))))
        for wrong in ({"parameters": {"intervall": 1}}, {"default": {"priority": "PX"}}):
            self.assertTrue(list(validator.iter_errors(wrong)), wrong)
        ours = {"quantity", "least", "most", "field"}
        self.assertFalse(ours & set(words(made)), "keywords of ours are left")


def words(part):
    """Yield every key of a schema that is no name of a property."""
    for key, value in part.items() if isinstance(part, dict) else ():
        yield key
        for one in value.values() if key == "properties" else [value]:
            yield from words(one)


class TestTrials(unittest.TestCase):
    def test_shipped(self):
        """The tests that ship hold for the policies that ship."""
        for path, text in (
            (ROOT / "etc" / "iat-nova" / "policy-tests.yaml", policy.default_text()),
            (PAGES / "nfv-tests.yaml", (PAGES / "nfv.yaml").read_text()),
        ):
            found = outcomes(path.read_text(), text)
            self.assertEqual([()] * len(found), found)
            self.assertGreater(len(found), 2)

    def test_differences_are_named(self):
        """Each that is other than expected, and no other."""
        tests = """
tests:
- {name: a, guest: {flavor: f}, expect: {class: c, priority: BE, max: 4}}
- {name: b, host: {hour: 3}, expect: {parameters: {ddio_ways_max: 6, interval: 1s}}}
"""
        text = """
parameters: {ddio_ways_max: {{ 3 if hour < 6 else 6 }}}
classes: [{name: c, match: {flavor: f}, priority: PC, ways: {max: 4}}]
"""
        self.assertEqual(
            [
                ("priority: expected BE, found PC",),
                ("parameters.ddio_ways_max: expected 6, found 3",),
            ],
            outcomes(tests, text),
        )

    def test_a_policy_that_cannot_be_used_there(self):
        """It is a difference, unless that is what is expected."""
        tests = """
tests:
- {name: a, host: {ways: 4}, expect: {class: c}}
- {name: b, host: {ways: 4}, expect: {error: "up to 4, the ways"}}
- {name: c, host: {ways: 4}, expect: {error: something else}}
"""
        first, second, third = outcomes(tests, "parameters: {ddio_ways_max: 5}")
        self.assertIn("cannot be used on this host", first[0])
        self.assertEqual((), second)
        self.assertIn("expected something else", third[0])

    def test_what_is_wrong_with_a_file_of_tests(self):
        """Line and path, as of a policy; nothing is taken for a test that is none."""
        for text, message in (
            ("tests:\n- name: a\n  expect: {clas: x}", "line 3: tests[0].expect.clas: unknown key"),
            ("tests: []", "at least one"),
            ("{}", "the key tests is missing"),
            ("tests: [{name: a, guest: {cpus: x}, expect: {io: true}}]", "tests[0].guest.cpus"),
            ("tests: [{name: a, guest: {cpus: '40'}, expect: {io: true}}]", "has CPUs 0 to 17"),
            ("tests: [{name: a, expect: {}}]", "at least one"),
        ):
            with self.assertRaises(PolicyError) as caught:
                trials.parse(text, "t.yaml")
            self.assertIn(message, str(caught.exception), text)
