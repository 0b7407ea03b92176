# SPDX-License-Identifier: Apache-2.0
"""What a decision must be, whoever made it."""

import dataclasses
import unittest

from iat_nova.model import (
    Action,
    Allocation,
    Change,
    Decision,
    DomainInventory,
    Layout,
    Message,
    Quantity,
    Step,
    WayMask,
    message,
)
from iat_nova.model.message import MOST_DEPTH
from iat_nova.strategies import api
from iat_nova.strategies.layout.check import InvalidLayout
from iat_nova.strategies.outlook import Outlook
from tests.unit.build import domain

LARGEST = 9_223_372_036_854_775_807  # of SQLite
STEP = Step(Action.GROW, "a", message("x", count=1), 0, LARGEST)
GOOD = Decision(
    domain=3,
    iteration=1,
    at_s=1.0,
    stable=False,
    phase_before="rest",
    phase="trial",
    rule=7,
    changes=(Change("a", Quantity.IPC, 1.0, 2),),
    steps=(STEP,),
    allocation=Allocation(2, {"a": 3}),
    layout=Layout(WayMask(0x600), ()),
    moved=("a",),
    why=(message("y"),),
    since_s=0.5,
)


class Text(str):
    """A text whose methods might do anything."""


class TestCheck(unittest.TestCase):
    def refused(self, error, text, **changed):
        """Assert that the decision with these changes is refused with this text."""
        with self.subTest(text), self.assertRaisesRegex(error, text):
            api.check_decision(dataclasses.replace(GOOD, **changed), 3)

    def step(self, **changed):
        """Return the steps of a decision, one of them changed."""
        return (STEP, dataclasses.replace(STEP, **changed))

    def test_good_ones(self):
        """At both ends of what is allowed."""
        api.check_decision(GOOD, 3)
        for changed in (
            {"iteration": 0},
            {"iteration": LARGEST},
            {"rule": None, "since_s": None, "changes": (), "steps": (), "moved": (), "why": ()},
            {"at_s": 1, "since_s": 0},
            {"steps": self.step(ways_before=None, ways_after=None)},
        ):
            with self.subTest(changed):
                api.check_decision(dataclasses.replace(GOOD, **changed), 3)

    def test_kinds(self):
        """No decision, another domain's, parts of other kinds."""
        with self.assertRaisesRegex(TypeError, "returned NoneType, expected a Decision"):
            api.check_decision(None, 3)
        with self.assertRaisesRegex(ValueError, "decided for cache domain 3, expected 4"):
            api.check_decision(GOOD, 4)
        for changed, kind in (
            ({"steps": [STEP]}, "Step"),
            ({"steps": (STEP, 1)}, "Step"),
            ({"changes": (1,)}, "Change"),
            ({"why": ("text",)}, "Message"),
            ({"moved": (1,)}, "str"),
            ({"moved": "a"}, "str"),
        ):
            self.refused(TypeError, f"expected a tuple of {kind}", **changed)
        self.refused(TypeError, "has 1, expected text", phase=1)
        self.refused(TypeError, "has 2, expected text", phase_before=2)
        self.refused(TypeError, "has 3, expected text", steps=self.step(subject=3))
        self.refused(TypeError, "'why', expected a Message", steps=self.step(reason="why"))
        self.refused(TypeError, "'grow', expected an Action", steps=self.step(action="grow"))

    def test_numbers(self):
        """Whole numbers from 0 to the largest of the history's columns; times and changes."""
        for name in ("iteration", "rule"):
            for value in (True, 1.5, "1"):
                self.refused(TypeError, f"has {value!r}, expected a whole", **{name: value})
            for value in (-1, LARGEST + 1):
                self.refused(ValueError, f"has {value}, expected a number from 0", **{name: value})
        for name in ("ways_before", "ways_after"):
            for value in (-1, LARGEST + 1):
                text = f"has {value}, expected a number from 0"
                self.refused(ValueError, text, steps=self.step(**{name: value}))
            self.refused(TypeError, "has False, expected a whole", steps=self.step(**{name: False}))
        for name in ("at_s", "since_s"):
            for value in (True, "1"):
                self.refused(TypeError, f"has {value!r}, expected a number", **{name: value})
        for name in ("before", "after"):
            change = dataclasses.replace(GOOD.changes[0], **{name: "1"})
            self.refused(TypeError, "has '1', expected a number", changes=(change,))

    def test_messages(self):
        """In reasons and explanations: values of these types, of this depth, within this range."""
        for values in (
            {"a": LARGEST, "b": -LARGEST, "c": 1.5, "d": None, "e": True, "f": "text"},
            {"a": ("text", message("y")), "b": ()},
        ):
            api.check_decision(dataclasses.replace(GOOD, why=(Message("x", values),)), 3)
        for values, error, text in (
            ({"a": LARGEST + 1}, ValueError, "'a' of the message 'x' beyond"),
            ({"a": -LARGEST - 1}, ValueError, "'a' of the message 'x' beyond"),
            ({"a": (LARGEST + 1,)}, ValueError, "'a' of the message 'x' beyond"),
            ({"a": (1,)}, TypeError, "'a' of the message 'x' of type int"),
            ({"a": [1]}, TypeError, "'a' of the message 'x' of type list"),
            ({"a": Text("b")}, TypeError, "'a' of the message 'x' of type Text"),
            ({"a": message(1)}, TypeError, "whose code is of type int, expected str"),
            ({1: "a"}, TypeError, "'x', whose values are no dict"),
            ((), TypeError, "'x', whose values are no dict"),
        ):
            self.refused(error, text, why=(Message("x", values),))
            self.refused(error, text, steps=self.step(reason=Message("x", values)))

    def test_depth(self):
        """As deep as a message may be, and a level deeper."""

        def nested(levels):
            return message("x") if levels == 1 else message("x", inner=nested(levels - 1))

        api.check_decision(dataclasses.replace(GOOD, why=(nested(MOST_DEPTH),)), 3)
        self.refused(ValueError, "nested more than", why=(nested(MOST_DEPTH + 1),))


class TestDecide(unittest.TestCase):
    """A step, and the check of its layout."""

    def test_layout_checked_once(self):
        """The layout that was checked for this inventory passes; any other object does not."""
        inventory = DomainInventory(dataclasses.replace(domain(11), id=3), ())
        wrong = dataclasses.replace(GOOD.layout, ddio=WayMask(0x800))

        class Wrong:
            def step(self, state, inventory, sample):
                return state, dataclasses.replace(GOOD, layout=wrong)

        copies = dataclasses.replace(inventory), dataclasses.replace(wrong)
        for checked in (None, (inventory, copies[1]), (copies[0], wrong)):
            with self.subTest(checked), self.assertRaisesRegex(InvalidLayout, "beyond"):
                api.decide(Wrong(), 1, inventory, None, 0.0, checked)
        _, _, decision = api.decide(Wrong(), 1, inventory, None, 0.0, (inventory, wrong))
        self.assertIs(wrong, decision.layout)


class TestOutlook(unittest.TestCase):
    def test_with_and_without(self):
        """Unknown of a strategy that does not tell; an unlisted code is an error."""
        state, codes = object(), list(Outlook)

        class Telling:
            code = str(codes[0].value)

            def outlook(self, known, at_s):
                return self.code if (known, at_s) == (state, 2.0) else None

        strategy = Telling()
        self.assertIs(Outlook.UNKNOWN, api.outlook(object(), state, 2.0))
        self.assertIs(codes[0], api.outlook(strategy, state, 2.0))
        strategy.code = "no such code"
        with self.assertRaises(ValueError):
            api.outlook(strategy, state, 2.0)
