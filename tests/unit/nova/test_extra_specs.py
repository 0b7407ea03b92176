# SPDX-License-Identifier: Apache-2.0
"""The extra specs mean what they say, and wrong ones are told."""

import unittest

from iat_nova.nova import extra_specs
from iat_nova.nova.extra_specs import Io, Wishes


class ParseTest(unittest.TestCase):
    def test_all_keys(self) -> None:
        """Each key sets its wish; other namespaces are not looked at."""
        specs = {
            "iat:priority": "PC",
            "iat:io": "auto",
            "iat:llc_ways": "2",
            "iat:llc_ways_max": "4",
            "hw:cpu_policy": "dedicated",
        }
        self.assertEqual(Wishes("PC", Io.AUTO, 2, 4), extra_specs.parse(specs))

    def test_one_spelling(self) -> None:
        """Another spelling is what nova-api and a class's match make of it too: no such value."""
        for name, value, meant in (
            ("iat:priority", "pc", "PC"),
            ("iat:priority", " BE", "BE"),
            ("iat:io", "True", "true"),
        ):
            wishes = extra_specs.parse({name: value})
            self.assertEqual((None, None), (wishes.priority, wishes.io))
            (problem,) = wishes.problems
            self.assertEqual("extra-spec-misspelt", problem.code)
            self.assertEqual(meant, problem.values["near"])

    def test_numbers_are_what_nova_takes_for_numbers(self) -> None:
        """A value that nova-api accepts is used: Nova reads it with Python's int()."""
        for value in ("3", " 3", "+3", "0000000000003", "0_3", "\u0663"):
            with self.subTest(value=value):
                wishes = extra_specs.parse({"iat:llc_ways": value})
                self.assertEqual((3, ()), (wishes.llc_ways, wishes.problems))
                counted = {extra_specs.RESOURCE: value}
                self.assertEqual(3, extra_specs.placement_ways(counted))
        for value in ("-1", "9" * 12, "9" * 5000, "x"):
            self.assertIsNone(extra_specs.placement_ways({extra_specs.RESOURCE: value}))

    def test_wrong_values_are_told_and_not_used(self) -> None:
        """A wrong value leaves its wish open and the others standing."""
        ways = {"least": 1, "most": 64}
        for name, value, code, told in (
            ("iat:priority", "high", "extra-spec-not-one-of", {"allowed": ("PC", "BE")}),
            ("iat:io", "perhaps", "extra-spec-not-one-of", {"allowed": ("true", "false", "auto")}),
            ("iat:llc_ways", "0", "extra-spec-no-number", ways),
            ("iat:llc_ways", "2.5", "extra-spec-no-number", ways),
            ("iat:llc_ways", "²", "extra-spec-no-number", ways),
            ("iat:llc_ways_max", "9" * 5000, "extra-spec-no-number", ways),
            ("iat:priorty", "PC", "extra-spec-unknown-near", {"near": "iat:priority"}),
            ("iat:prio", "PC", "extra-spec-unknown-near", {"near": "iat:priority"}),
            ("iat:colour", "red", "extra-spec-unknown", {}),
        ):
            with self.subTest(name=name, value=value):
                wishes = extra_specs.parse({name: value, "iat:io": "true"} | {name: value})
                (problem,) = wishes.problems
                self.assertEqual((code, name), (problem.code, problem.values["name"]))
                self.assertLessEqual(told.items(), problem.values.items())
                self.assertIsNone(wishes.priority)
                self.assertIsNone(wishes.llc_ways)

    def test_maximum_below_guarantee(self) -> None:
        """The guarantee stands, the maximum that contradicts it does not."""
        wishes = extra_specs.parse({"iat:llc_ways": "4", "iat:llc_ways_max": "2"})
        self.assertEqual((4, None), (wishes.llc_ways, wishes.llc_ways_max))
        (problem,) = wishes.problems
        self.assertEqual("extra-spec-above", problem.code)
        self.assertEqual(("iat:llc_ways", 4), (problem.values["by"], problem.values["ways"]))

    def test_ways_said_to_placement_alone(self) -> None:
        """They are the guarantee; what the agent is told itself goes before; groups are added."""
        counted = "resources:CUSTOM_IAT_LLC_WAY"
        self.assertEqual(2, extra_specs.parse({counted: "2"}).llc_ways)
        self.assertEqual(3, extra_specs.parse({counted: "2", "iat:llc_ways": "3"}).llc_ways)
        groups = {"resources1:CUSTOM_IAT_LLC_WAY": "1", "resources_B:CUSTOM_IAT_LLC_WAY": "2"}
        self.assertEqual(3, extra_specs.parse(groups).llc_ways)
        for text in ("0", "65", "two", "-1"):
            self.assertIsNone(extra_specs.parse({counted: text}).llc_ways, text)
        (problem,) = extra_specs.parse({counted: "4", "iat:llc_ways_max": "3"}).problems
        self.assertEqual("extra-spec-above", problem.code)
        self.assertEqual((counted, 4), (problem.values["by"], problem.values["ways"]))
