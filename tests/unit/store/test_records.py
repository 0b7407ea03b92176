# SPDX-License-Identifier: Apache-2.0
"""Records as values, as JSON and as compressed text; what is damaged or of another form is told."""

import dataclasses
import random
import unittest
import zlib
from unittest import mock

from iat_nova.model import (
    DDIO,
    Action,
    Decision,
    DomainInventory,
    Layout,
    Message,
    PortGroup,
    Step,
    WayMask,
    message,
)
from iat_nova.store import records
from iat_nova.store.records import RecordError
from tests.unit import frozen, stories

PORT = "0000:3b:00.0"


def decided(**changes):
    """A quiet iteration with other parts of its decision."""
    iteration = stories.quiet(1, 0.0)
    return dataclasses.replace(
        iteration, decision=dataclasses.replace(iteration.decision, **changes)
    )


def nested(depth):
    """Messages within one another, of so many levels."""
    said = message("inmost")
    for _ in range(depth - 1):
        said = message("outer", inner=said)
    return said


class TestIteration(unittest.TestCase):
    def test_eventful(self):
        """An action on ways, a rule, or another phase; a refusal is none."""
        for changes, eventful, about_ways in (
            ({}, False, False),
            ({"moved": (DDIO,)}, True, True),
            ({"steps": (Step(Action.GROW, DDIO, message("a")),)}, True, True),
            ({"steps": (Step(Action.REFUSE, DDIO, message("a")),)}, False, False),
            ({"rule": 3}, True, False),
            ({"rule": 0}, True, False),
            ({"phase": "aaa"}, True, False),
            ({"phase": "zzz"}, True, False),
        ):
            with self.subTest(changes):
                iteration = decided(**changes)
                self.assertIs(eventful, iteration.eventful)
                self.assertIs(about_ways, iteration.about_ways)

    def test_inbound(self):
        """The ways of DDIO and of ports apart: as read back, else as decided."""
        layout = dataclasses.replace(stories.layout(2), ports=(PortGroup((PORT,), WayMask(0x300)),))
        for effective, expected in (
            (None, 0x700),
            ({}, 0x700),
            ({DDIO: WayMask(0x400)}, 0x700),
            ({DDIO: WayMask(0x400), PORT: WayMask(0x100)}, 0x500),
            ({PORT: WayMask(0x400)}, 0x600),
        ):
            with self.subTest(effective):
                iteration = dataclasses.replace(decided(layout=layout), effective=effective)
                self.assertEqual(expected, iteration.inbound)
                self.assertIsInstance(iteration.inbound, WayMask)

    def test_coerced(self):
        """Masks that were read back otherwise than decided; what was not decided is none."""
        as_decided = {DDIO: WayMask(0x600), "stack": WayMask(0x3)}
        for effective, expected in (
            (None, {}),
            (as_decided, {}),
            ({**as_decided, DDIO: WayMask(0x700)}, {DDIO: (WayMask(0x600), WayMask(0x700))}),
            ({**as_decided, "stack": WayMask(0x1)}, {"stack": (WayMask(0x3), WayMask(0x1))}),
            ({"gone": WayMask(0x1)}, {}),
        ):
            with self.subTest(effective):
                iteration = dataclasses.replace(decided(), effective=effective)
                self.assertEqual(expected, iteration.coerced)


class TestForms(unittest.TestCase):
    def test_message(self):
        """A message keeps its numbers, texts, lists and messages."""
        inner = message("inner", x=1)
        for said in (
            message("code"),
            message("code", a=None, b=1, c=0.5, d="text", e=inner),
            message("code", several=("t1", inner, "t2")),
        ):
            with self.subTest(said):
                plain = records.parse(records.text(records.unstructure(said)))
                self.assertEqual(said, records.structure(plain, Message))

    def test_depth_of_messages(self):
        """Sixteen levels are read, one more is refused; lists count as well."""
        most = nested(16)
        self.assertEqual(most, records.structure(records.unstructure(most), Message))
        listed = message("outer", inner=(nested(15),))
        self.assertEqual(listed, records.structure(records.unstructure(listed), Message))
        for deep in (nested(17), message("outer", inner=(nested(16),))):
            with self.assertRaisesRegex(RecordError, "more than 16 levels"):
                records.structure(records.unstructure(deep), Message)

    def test_message_of_another_form(self):
        """Items of a list are texts; a list in a list, or a part that is missing, is refused."""
        read = records.structure({"code": "a", "values": {"x": [1, "t"]}}, Message)
        self.assertEqual(message("a", x=("1", "t")), read)
        for plain in ({"code": "a", "values": {"x": [["t"]]}}, {"code": "a"}, {"values": {}}, 3):
            with self.subTest(plain), self.assertRaises(RecordError):
                records.structure(plain, Message)

    def test_masks(self):
        """A mask is a number in JSON and a mask again."""
        plain = records.unstructure(stories.layout(2))
        self.assertIs(int, type(plain["ddio"]))
        layout = records.structure(plain, type(stories.layout(2)))
        self.assertEqual(stories.layout(2), layout)
        self.assertIsInstance(layout.ddio, WayMask)

    def test_status_without_later_fields(self):
        """What an earlier version did not say: nothing is paused, stopped or read again."""
        plain = records.unstructure(stories.status())
        named = ("mode", "pid", "version", "strategy", "interval_s", "started_s", "parameters")
        found = records.structure({name: plain[name] for name in named}, records.Status)
        self.assertIs(False, found.stopped)
        self.assertEqual((0, "", ()), (found.policy_reads, found.policy, found.reasons))
        self.assertIsNone(found.paused_until_s)

    def test_settings(self):
        """The settings that decisions depend on are part of the status."""
        status = stories.status(options={"a": 1})
        expected = records.SettingsInForce(status.strategy, status.parameters, {"a": 1})
        self.assertEqual(expected, status.settings)

    def test_before_bandwidth_was_limited(self):
        """Groups, tenants and cache domains of an earlier version: nobody was limited."""
        decision = stories.burst(1, stories.NIGHT, 2).decision
        plain = records.unstructure(decision)
        for group in plain["layout"]["groups"]:
            del group["bandwidth"]
        self.assertEqual(decision, records.structure(plain, Decision))
        inventory = stories.inventory()
        plain = records.unstructure(inventory)
        del plain["domain"]["bandwidth"]
        for tenant in plain["tenants"]:
            del tenant["bandwidth_min"], tenant["weight"]
        self.assertEqual(inventory, records.structure(plain, DomainInventory))

    def test_another_form_is_named(self):
        """A record of another version is an error that says so."""
        with self.assertRaisesRegex(records.RecordError, "Status has another form"):
            records.structure({"mode": "enforce"}, records.Status)
        with self.assertRaisesRegex(records.RecordError, "damaged"):
            records.unpack(b"no zlib", dict)

    def test_values(self):
        """No value can be changed, nor get another attribute; a state is stored unless told."""
        self.assertEqual([], frozen.changeable(records))
        self.assertEqual(8, len(frozen.values(records)))
        given = {field.name: field.default for field in dataclasses.fields(records.Iteration)}
        self.assertIs(False, given["follows"])


class TestLayout(unittest.TestCase):
    def test_made_again_only_if_another(self):
        """Layouts seldom change: the last one is returned for the same plain form."""
        one = records.unstructure(stories.quiet(1, 0.0).decision.layout)
        other = {**one, "ddio": 0x600}
        first = records.structure(one, Layout)
        self.assertIs(first, records.structure(dict(one), Layout))
        self.assertEqual(dataclasses.replace(first, ddio=WayMask(0x600)),
                         records.structure(other, Layout))  # fmt: skip
        again = records.structure(one, Layout)
        self.assertEqual(first, again)
        self.assertIs(again, records.structure(one, Layout))


class TestText(unittest.TestCase):
    def test_text(self):
        """JSON without spaces, in which numbers may be infinite."""
        plain = {"a": [1, 0.5, None], "b": float("inf")}
        self.assertEqual(b'{"a":[1,0.5,null],"b":Infinity}', records.text(plain))
        self.assertEqual(plain, records.parse(records.text(plain)))
        self.assertEqual(plain, records.unpack(records.pack(plain), dict))

    def test_damaged(self):
        """Text that is no JSON, and bytes that are no compressed text, are told as damaged."""
        whole = records.squeeze(b"some text")
        for broken in (
            lambda: records.parse(b"{"),
            lambda: records.parse(b"[" * 100_000),
            lambda: records.expand(b"no zlib"),
            lambda: records.expand(whole[:-1]),
            lambda: records.expand(None),
            lambda: records.expand(records.squeeze(b"text", b"base"), b"another"),
        ):
            with self.assertRaisesRegex(RecordError, "a stored record is damaged"):
                broken()

    def test_too_long(self):
        """A text above the limit is not expanded: a small record does not eat the memory."""
        with mock.patch.object(records, "MOST_BYTES", 1000):
            self.assertEqual(b"a" * 999, records.expand(records.squeeze(b"a" * 999)))
            with self.assertRaisesRegex(RecordError, "more than 1000 bytes"):
                records.expand(records.squeeze(b"a" * 100_000))


class TestSqueeze(unittest.TestCase):
    def test_counts(self):
        """Digits that do not recur take some 10 % less than zlib's defaults make of them."""
        chance = random.Random(3)
        base, written = (
            records.text(
                {f"guest{n}": [chance.randrange(10**9) for _ in range(4)] for n in range(15)}
            )
            for _ in range(2)
        )
        usual = zlib.compressobj(records.LEVEL, zdict=base)
        least = len(usual.compress(written) + usual.flush())
        squeezed = records.squeeze(written, base)
        self.assertEqual(written, records.expand(squeezed, base))
        self.assertLess(len(squeezed), 0.93 * least)

    def test_base(self):
        """The more occurs in the base, the shorter; of a long base the end counts."""
        chance = random.Random(5)
        written = chance.randbytes(300)
        far = chance.randbytes(40_000)
        alone = len(records.squeeze(written))
        for base, shorter in ((written, True), (far + written, True), (written + far, False)):
            with self.subTest(len(base)):
                squeezed = records.squeeze(written, base)
                self.assertEqual(written, records.expand(squeezed, base))
                self.assertIs(shorter, len(squeezed) < alone / 2)
