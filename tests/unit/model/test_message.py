# SPDX-License-Identifier: Apache-2.0
"""Messages made of what others raise."""

import math
import unittest

from iat_nova.model.message import as_message, message, verbatim


class Raised(Exception):
    """An error of a plug-in, with an attribute of its own."""

    message = frozenset({1})


class AsMessage(unittest.TestCase):
    def test_an_attribute_of_another_kind(self):
        """What is no message stays out of the history: the text of the error counts."""
        self.assertEqual(verbatim("no room"), as_message(Raised("no room")))

    def test_an_errors_own(self):
        """An error that carries a message is that message."""
        error = Raised()
        error.message = message("left")
        self.assertEqual(message("left"), as_message(error))


class TestMessage(unittest.TestCase):
    def test_numbers_that_are_none(self):
        """A number that is not finite is None; each other value stays."""
        inner = message("inner")
        given = {"a": math.inf, "b": -math.inf, "c": math.nan, "d": 0.5, "e": 3, "f": "x"}
        expected = {"a": None, "b": None, "c": None, "d": 0.5, "e": 3, "f": "x"}
        self.assertEqual({**expected, "g": inner}, message("code", **given, g=inner).values)

    def test_text(self):
        """Code and values; of messages within it their codes."""
        inner = message("inner", x=1)
        said = message("code", a=1.5, b=(inner, "t1"), c=inner)
        self.assertEqual("code(a=1.5, b=[inner(...), t1], c=inner(...))", str(said))

    def test_key(self):
        """A message can be a key."""
        self.assertEqual(1, {message("code", x=1): 1}[message("code", x=1)])
