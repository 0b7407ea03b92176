# SPDX-License-Identifier: Apache-2.0
"""One sentence a message code; sentences change no decision."""

import ast
import collections
import contextlib
import dataclasses
import functools
import json
import pathlib
import string
import unittest

import yaml

import iat_nova
from iat_nova.cmd import agent
from iat_nova.experiments.rivals.a4 import zones
from iat_nova.model import Message, message
from iat_nova.model.message import MessageError
from iat_nova.report import sentences
from iat_nova.report.log import LogLanguage
from iat_nova.report.sentences import SENTENCES, text
from iat_nova.store import records
from iat_nova.strategies import registry
from iat_nova.strategies.iat import controller, fsm
from tests.said import reworded
from tests.unit.strategies.test_pollute_buffer import BE, FITS, PC, STREAM, Run, host

TABLES = {
    *(code for *_, code in zones.TRANSITIONS),
    *(rule.meaning for rule in fsm.RULES),
    *controller._EXCEPTIONS,
}
"""Codes that stand in tables of rules instead of in calls of `message`."""


@functools.cache
def nodes():
    """Return the package's syntax, without what reads the tables of sentences."""
    return [
        (f"{path.name}:{getattr(node, 'lineno', 0)}", node)
        for path in pathlib.Path(iat_nova.__file__).parent.rglob("*.py")
        if path != pathlib.Path(sentences.__file__)
        for node in ast.walk(ast.parse(path.read_text()))
    ]


def calls():
    """Return the calls of `message` with a code in them: where, code, names of the values.

    The names are None where they are known at run time alone.
    """
    for where, node in nodes():
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "message":
            names = {keyword.arg for keyword in node.keywords}
            for code in codes(node.args[0]):
                yield where, code, None if None in names else names


def codes(node):
    """Return the codes that an expression may have."""
    if isinstance(node, ast.IfExp):
        return codes(node.body) | codes(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) else set()


def named(sentence):
    """Return the names of the values in a sentence."""
    fields = (field for _, field, _, _ in string.Formatter().parse(sentence) if field)
    return {field.split(".")[0].split("[")[0] for field in fields}


class TestTable(unittest.TestCase):
    """The tables and the package name the same codes."""

    def test_every_code_has_its_sentence(self):
        """No call of `message` names a code without a sentence."""
        known = {code for _, code, _ in calls()} | TABLES
        self.assertLess(100, len(known))
        self.assertEqual(set(), known - SENTENCES.keys())

    def test_every_value_of_a_sentence_is_given(self):
        """No sentence names a value that a call of `message` with its code does not give."""
        wrong = [
            f"{where}: {code} has no {', '.join(missing)}"
            for where, code, names in calls()
            if names is not None and code in SENTENCES
            for missing in (sorted(named(SENTENCES[code]) - names),)
            if missing
        ]
        self.assertEqual([], wrong)

    def test_one_sentence_a_code(self):
        """No code is in the tables twice: one sentence would hide the other."""
        found = collections.Counter(
            code.value
            for file in sentences.FILES
            for code, _ in yaml.compose(file.read_text(encoding="utf-8")).value
        )
        self.assertLess(1000, len(found))
        self.assertEqual({str}, set(map(type, SENTENCES.values())))  # YAML has words for more
        self.assertEqual([], [code for code, count in found.items() if count > 1])
        self.assertLessEqual(found.keys(), SENTENCES.keys())

    def test_every_sentence_is_used(self):
        """No sentence is left of a code that nothing uses."""
        texts = {
            node.value
            for _, node in nodes()
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        self.assertEqual(set(), SENTENCES.keys() - texts)

    def test_a_message_that_does_not_fit_is_shown_as_it_is(self):
        """Records of other versions and plug-ins may hold anything."""
        self.assertEqual("of-tomorrow(ways=3)", text(message("of-tomorrow", ways=3)))
        self.assertEqual("confine-to(ways=3)", text(message("confine-to", ways=3)))
        self.assertEqual("ddio-ways(way=3)", text(message("ddio-ways", way=3)))
        self.assertEqual("kept(move=1, cause=2)", text(message("kept", move=1, cause=2)))

    def test_several_problems_have_a_line_each_only_alone(self):
        """Within another sentence they stand in one line: of the log, of status, of a reason."""
        both = message("problems", problems=(message("policy-empty"), message("too-deep")))
        self.assertEqual(2, len(text(both).splitlines()))
        self.assertEqual(
            f"policy reload failed, keeping previous policy: {'; '.join(text(both).splitlines())}",
            text(message("policy-reload-failed", error=both)),
        )
        for line in (LogLanguage().sentence(both), agent._line(MessageError(both))):
            self.assertEqual("; ".join(text(both).splitlines()), line)

    def test_values_beyond_what_can_be_shown(self):
        """Too large a number, and messages nested deeper than Python's stack."""
        self.assertEqual("ddio-misses(change=1", text(message("ddio-misses", change=10**400))[:20])
        deep = message("lend")
        for _ in range(2000):
            deep = message("several", causes=(deep,))
        self.assertIn("several(", text(deep))

    def test_a_message_without_a_form(self):
        """It is a sentence in every place, also where the table asks for no form of the value."""
        why = message("several", causes=(message("policy-empty"), message("too-deep")))
        said = message("last-good-kept", what="x", error=why)
        self.assertIn(text(why), text(said))

    def test_names(self):
        """Tenants' ids become names, also within causes; DDIO is no tenant."""
        inner = message("would-lose", tenant="uuid/1", loss=0.071, limit=0.05)
        outer = message("undone", move=message("ddio-ways", ways=4), cause=inner)
        self.assertEqual(
            "4 ways for DDIO (web lost 7.1% of its speed, more than 5%)",
            text(outer, {"uuid/1": "web"}.get),
        )
        self.assertIn("that DDIO held", text(message("way-back", tenant="ddio")))

    def test_a_change_from_zero(self):
        """An infinite change is stored as null and has its own words."""
        change = message("miss-rate", change=float("inf"))
        self.assertIsNone(change.values["change"])
        self.assertEqual("miss rate from zero", text(change))


class TestRecords(unittest.TestCase):
    """Messages in the history and in what is handed over."""

    def test_there_and_back(self):
        """Every kind of value is the same after JSON."""
        every = message("a", one=1, two=0.1, three=None, four="x", five=("a", "b"))
        nested = message("kept", move=every, causes=(every, message("b")))
        plain = json.loads(json.dumps(records.unstructure(nested)))
        self.assertEqual(nested, records.structure(plain, Message))

    def test_not_a_message(self):
        """A damaged record is an error of the reader's kind."""
        for plain in (3, {}, {"code": "a"}, {"code": "a", "values": 3}, {"code": 1, "values": [1]}):
            with self.subTest(plain=plain), self.assertRaises(records.RecordError):
                records.structure(plain, Message)

    def test_nested_too_deeply(self):
        """Sixteen levels are read, more are an error of the reader's kind, however many."""
        plain = {"code": "a", "values": {}}
        for levels in range(1, 401):
            if levels in (16, 17, 400):
                with self.subTest(levels=levels), contextlib.ExitStack() as stack:
                    if levels > 16:
                        stack.enter_context(self.assertRaisesRegex(records.RecordError, "deep"))
                    records.structure(plain, Message)
            plain = {"code": "several", "values": {"causes": [plain]}}
        lists = {"code": "a", "values": {"b": [[[]]]}}
        with self.assertRaises(records.RecordError):
            records.structure(lists, Message)


class TestRewording(unittest.TestCase):
    """A random sentence for each code: decisions and stored states stay equal."""

    def test_decisions_and_states(self):
        """Two runs over trials that are kept and undone, one with nonsense."""

        def run():
            told = Run()
            told.on(host((PC, FITS), (BE, STREAM)), 60)
            states = records.unstructure(told.state)
            return [records.unstructure(one) for one in told.decisions], states

        before = run()
        with reworded() as nonsense:
            self.assertEqual(nonsense["confine"], text(message("confine")))
            self.assertEqual(before, run())
        self.assertGreater(sum(len(decision["steps"]) for decision in before[0]), 4)

    def test_thresholds(self):
        """Every strategy that ships gives its thresholds as messages of the table."""
        parameters = controller.Parameters()
        for name in registry.BUILT_IN:
            for one in registry.thresholds(name, parameters) or ():
                with self.subTest(strategy=name, code=one.code):
                    self.assertIn(one.code, SENTENCES)
                    self.assertNotEqual(f"{one.code}(", text(one)[: len(one.code) + 1])


class TestFrozen(unittest.TestCase):
    """Messages are values."""

    def test_equal_and_frozen(self):
        """Equal code and values are the same statement, and nobody changes it."""
        self.assertEqual(message("lend", tenant="a"), message("lend", tenant="a"))
        self.assertNotEqual(message("lend", tenant="a"), message("lend", tenant="b"))
        with self.assertRaises(dataclasses.FrozenInstanceError):
            message("lend").code = "x"
