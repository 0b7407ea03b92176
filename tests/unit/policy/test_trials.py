# SPDX-License-Identifier: Apache-2.0
"""Policies can be tested, shown in full and checked in an editor."""

import functools
import pathlib
import unittest

import jsonschema
import yaml

from iat_nova import policy
from iat_nova.policy import PolicyError, schema, trials
from tests.said import raises, sentence
from tests.unit import frozen
from tests.unit.policy.hosts import EXAMPLES, ONE, TWO, facts, guest

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
    return [tuple(map(sentence, one.wrong)) for one in found]


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
- {name: b, host: {ways: 4}, expect: {error: number-above-llc}}
- {name: c, host: {ways: 4}, expect: {error: parameters.ddio_ways_max}}
- {name: d, host: {ways: 4}, expect: {error: something else}}
- {name: e, host: {ways: 4}, expect: {error: parameters}}
"""
        first, by_code, by_place, *others = outcomes(tests, "parameters: {ddio_ways_max: 5}")
        self.assertIn("cannot be used on this host", first[0])
        self.assertEqual(((), ()), (by_code, by_place))
        self.assertIn("expected something else, found parameters.ddio_ways_max", others[0][0])
        self.assertIn("expected parameters, found", others[1][0])

    def test_what_is_wrong_with_a_file_of_tests(self):
        """Line and path, as of a policy; nothing is taken for a test that is none."""
        for text, message in (
            ("tests:\n- name: a\n  expect: {clas: x}", "line 3: tests[0].expect.clas: unknown key"),
            ("tests: []", "at least one"),
            ("{}", "the key tests is missing"),
            ("tests: [{name: a, guest: {cpus: x}, expect: {io: true}}]", "tests[0].guest.cpus"),
            ("tests: [{name: a, guest: {cpus: '40'}, expect: {io: true}}]", "has CPUs 0-17"),
            ("tests: [{name: a, expect: {}}]", "at least one"),
        ):
            with self.assertRaises(PolicyError) as caught:
                trials.parse(text, "t.yaml")
            self.assertIn(message, sentence(caught.exception), text)


WHOLE = """
parameters: {threshold_miss_low: 1M/s}
domains: {"1": {threshold_miss_low: 2M/s}}
classes:
- {name: night, match: {instance: db}, priority: {{ "PC" if hour < 6 else "BE" }}}
- {name: second, match: {domain: 1}, ways: {min: 3}}
"""


class TestOfAWholeHost(unittest.TestCase):
    """Tests of the guests of a host's facts, by name, all of them being there."""

    def setUp(self):
        self.facts = facts(
            guest("db", dedicated_cpus=(2, 9)),
            guest("web", dedicated_cpus=(10, 11)),
            guest("dev", dedicated_cpus=(), floating_cpus=(4, 12)),
            guest("twin"),
            guest("twin-b", display_name="twin", dedicated_cpus=(2, 5)),
            host=TWO,
        )

    def outcomes(self, tests, text=WHOLE, **given):
        given = given or {"facts": self.facts}
        found = trials.parse(tests, "t.yaml", **given)
        made = trials.run(found, functools.partial(policy.parse, text))
        return [tuple(map(sentence, one.wrong)) for one in made]

    def test_guests_by_name(self):
        """By any of their names; time of day and socket as the test says."""
        tests = """
host: {hour: 12}
tests:
- {name: a, guest: db, expect: {class: night, priority: BE, parameters: {threshold_miss_low: 1M/s}}}
- {name: b, guest: instance-db, host: {hour: 3}, expect: {priority: PC}}
- {name: c, guest: web, domain: 1, expect: {class: second, min: 3}}
- {name: d, guest: web, domain: 1, expect: {parameters: {threshold_miss_low: 2M/s}}}
- {name: e, guest: dev, domain: 1, expect: {class: pool}}
- {name: f, guest: web, domain: 0, expect: {class: second}}
- {name: g, guest: web, expect: {max: 4}, host: {ways: 4}}
- {name: h, guest: {instance: db, cpus: 10-11}, domain: 1, expect: {class: night}}
"""
        wrong = ("class: expected second, found none",)  # it has no CPU there
        self.assertEqual([(), (), (), (), (), wrong, (), ()], self.outcomes(tests))

    def test_others_are_there(self):
        """What a guest gets among all others, who may have its CPUs."""
        tests = "tests: [{name: a, guest: instance-twin-b, expect: {class: default, min: 1}}]"
        tests = f"host: {{hour: 1}}\n{tests}"
        self.assertEqual([()], self.outcomes(tests))

    def test_facts_that_the_file_names(self):
        """They are loaded by that name; others that are given come first."""
        asked = []

        def load(name):
            asked.append(name)
            return self.facts

        tests = (
            "facts: f.yaml\ntests: [{name: a, guest: db, host: {hour: 1}, expect: {priority: PC}}]"
        )
        self.assertEqual([()], self.outcomes(tests, load=load))
        self.assertEqual([()], self.outcomes(tests, facts=self.facts, load=load))
        self.assertEqual(["f.yaml"], asked)

    def test_what_is_wrong_with_them(self):
        """A guest that is not there, or two; what facts do not leave open."""
        for test, message in (
            ("guest: nobody", "tests[0].guest: no guest is called nobody; the facts have: db, web"),
            ("guest: twin", "2 guests are called twin"),
            ("domain: 7", "tests[0].domain: the host has no cache domain 7"),
            ("host: {sockets: 1}", "tests[0].host: sockets cannot be changed"),
            ("guest: {cpus: '40'}", "has CPUs 0-15"),
        ):
            with self.assertRaises(PolicyError) as caught:
                self.outcomes(f"tests: [{{name: a, {test}, expect: {{io: true}}}}]")
            self.assertIn(message, sentence(caught.exception))
        with raises(self, PolicyError, "tests.0..guest: a name needs the facts of a host"):
            trials.parse("tests: [{name: a, guest: db, expect: {io: true}}]", "t.yaml")


class TestHost(unittest.TestCase):
    def test_cpus_of_all_sockets(self):
        """A host of two sockets of four CPUs has eight CPUs."""
        host = "host: {cpus: 4, sockets: 2}"
        tests = f"tests: [{{name: a, {host}, guest: {{cpus: '%s'}}, expect: {{priority: BE}}}}]"
        (one,) = trials.parse(tests % "4-7", "t.yaml")
        self.assertEqual(tuple(range(8)), one.facts.host.online_cpus)
        self.assertEqual([(0, 1, 2, 3), (4, 5, 6, 7)], [d.cpus for d in one.facts.host.domains])
        with raises(self, PolicyError, "has CPUs 0-7"):
            trials.parse(tests % "8", "t.yaml")


class TestValues(unittest.TestCase):
    def test_frozen(self):
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(trials))
        self.assertTrue(frozen.values(trials))
