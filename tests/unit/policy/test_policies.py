# SPDX-License-Identifier: Apache-2.0
"""A compiled policy: what it came from, which policy equals it, and which facts changed since."""

import dataclasses
import unittest

from iat_nova.model import HostFacts
from iat_nova.policy import policies
from tests.said import raises
from tests.unit.policy.hosts import ONE, TWO, domain, facts, guest

CORES = "{{ cores }} cores, {{ hostname }}, hour {{ hour }}"
TEMPLATE = f"# {CORES}\nstack: {{ways: {{min: 1}}}}\n"


def host(**changed: object) -> HostFacts:
    """The first host, with other facts."""
    return dataclasses.replace(ONE, hour=12, **changed)


class TestParse(unittest.TestCase):
    def test_what_it_came_from(self) -> None:
        """The policy keeps source, template, rendered text, host and the facts asked for."""
        made = policies.parse(TEMPLATE, host(), "my.yaml")
        self.assertEqual(("my.yaml", TEMPLATE, host()), (made.source, made.text, made.host))
        self.assertEqual({"cores", "hostname", "hour"}, set(made.asked))
        self.assertIn("8 cores, node1, hour 12", made.rendered)
        self.assertIn("reserved_ways: []", made.effective)

    def test_problems_in_the_order_of_the_file(self) -> None:
        """Whichever step finds them, after problems of the whole file."""
        text = "stakc: {}\nreserved_ways: [99]\nhost: {}\nhost: {}\n"
        with self.assertRaises(policies.PolicyError) as caught:
            policies.parse(text, ONE, "my.yaml")
        lines = [problem.line for problem in caught.exception.problems]
        self.assertEqual(sorted(lines), lines)
        self.assertLessEqual(3, len(lines))
        self.assertEqual("my.yaml", caught.exception.source)

    def test_refused(self) -> None:
        """No policy comes of a text with a problem."""
        with raises(self, policies.PolicyError, "empty"):
            policies.parse("", ONE)

    def test_default(self) -> None:
        """The default policy names itself and has no warning."""
        made = policies.default(ONE)
        self.assertEqual((policies.DEFAULT_NAME, ()), (made.source, made.warnings))


class TestSame(unittest.TestCase):
    def test_pairs(self) -> None:
        """Policies that say the same are the same, also from another file; no other is."""
        least = policies.parse("{}", ONE)
        self.assertTrue(least.same(policies.parse("stack: {}", ONE, "another")))
        self.assertTrue(least.same(policies.default(ONE)))
        for text in (
            "parameters: {interval: 500ms}",
            "parameters: {interval: 2s}",
            "stack: {ways: {min: 2}}",
            "default: {priority: PC}",
        ):
            with self.subTest(text):
                other = policies.parse(text, ONE)
                self.assertFalse(least.same(other))
                self.assertFalse(other.same(least))


class TestChangedFacts(unittest.TestCase):
    def test_facts_of_the_template(self) -> None:
        """A fact counts if the template asks for it, whichever way it changed; ways always do."""
        made = policies.parse(TEMPLATE, host())
        small, large = domain(ways=10), domain(ways=12)
        for changed, expected in (
            (host(), ()),
            (host(hostname="".join(("node", "1"))), ()),
            (dataclasses.replace(ONE, hour=11), ("hour",)),
            (dataclasses.replace(ONE, hour=13), ("hour",)),
            (host(weekday="mon"), ()),
            (host(online_cpus=(0, 1)), ("cores",)),
            (host(online_cpus=tuple(range(9)), hostname="a"), ("hostname", "cores")),
            (host(domains=(small,)), ("ways",)),
            (host(domains=(large,)), ("ways",)),
            (host(domains=(domain(way_bytes=None),)), ("ways",)),
            (host(domains=()), ("ways",)),
        ):
            with self.subTest(changed):
                self.assertEqual(set(expected), set(made.changed_facts(changed)))

    def test_each_name_once(self) -> None:
        """Ways that the template asks for as well are named once."""
        made = policies.parse("# {{ ways }}\nstack: {}\n", ONE)
        self.assertEqual(("ways",), made.changed_facts(host(domains=(domain(ways=10),))))

    def test_without_a_host(self) -> None:
        """A policy that was compiled for no host known has no fact that could change."""
        made = dataclasses.replace(policies.parse(TEMPLATE, host()), host=None)
        self.assertEqual((), made.changed_facts(TWO))


class TestPolicy(unittest.TestCase):
    def test_classify(self) -> None:
        """Guests are classified, and a promise that cannot be kept is a warning."""
        made = policies.parse("default: {ways: {min: 6}}", ONE)
        one, two = guest("web"), guest("db", dedicated_cpus=(4, 5))
        self.assertEqual((), made.classify(facts(one), {}).warnings)
        self.assertTrue(made.classify(facts(one, two), {}).warnings)
