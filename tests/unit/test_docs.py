# SPDX-License-Identifier: Apache-2.0
"""What the documentation quotes is what the program says."""

import re
import unittest

from iat_nova.strategies.pollute_buffer import moves
from tests.unit.pages import SOURCE, extension

QUOTED = re.compile(r":message:`([^`]+)`")


class StrategyTest(unittest.TestCase):
    def test_every_family_of_moves(self) -> None:
        """The page of the default strategy has a row for each family of moves."""
        page = (SOURCE / "algorithm.rst").read_text(encoding="utf-8")
        rows = re.findall(r"^   \* - ``([a-z-]+)``$", page, re.MULTILINE)
        self.assertEqual([*moves.FAMILIES], rows)


class MessagesTest(unittest.TestCase):
    def test_quoted_messages_are_said(self) -> None:
        """A message that was reworded in the code is found out before an operator searches it."""
        message = extension("message")
        quoted = [
            (page.name, text)
            for page in sorted(SOURCE.rglob("*.rst"))
            for text in QUOTED.findall(page.read_text(encoding="utf-8"))
        ]
        self.assertGreater(len(quoted), 50)
        for page, text in quoted:
            with self.subTest(page=page, text=text):
                self.assertEqual([], message.missing(" ".join(text.split())))

    def test_a_message_nobody_says_is_found_out(self) -> None:
        """The check is not one that cannot fail."""
        message = extension("message")
        self.assertEqual([], message.missing("no iteration N is recorded"))
        self.assertEqual(["the moon is full at"], message.missing("the moon is full at N"))
