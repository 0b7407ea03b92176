# SPDX-License-Identifier: Apache-2.0
"""What the documentation quotes is what the program says."""

import functools
import importlib.util
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).parents[2] / "doc" / "source"
QUOTED = re.compile(r":message:`([^`]+)`")


@functools.cache
def role():
    """Return the module behind the role ``message`` of the pages."""
    spec = importlib.util.spec_from_file_location("message", SOURCE / "_ext" / "message.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class MessagesTest(unittest.TestCase):
    def test_quoted_messages_are_said(self) -> None:
        """A message that was reworded in the code is found out before an operator searches it."""
        message = role()
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
        message = role()
        self.assertEqual([], message.missing("no iteration N is recorded"))
        self.assertEqual(["the moon is full at"], message.missing("the moon is full at N"))
