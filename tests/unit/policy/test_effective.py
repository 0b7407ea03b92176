# SPDX-License-Identifier: Apache-2.0
"""Policies can be shown in full and checked in an editor."""

import pathlib
import unittest

import jsonschema
import yaml

from iat_nova import policy
from iat_nova.policy import schema
from tests.said import sentence
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
        made = schema.for_editors(sentence)
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
