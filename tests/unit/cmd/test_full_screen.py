# SPDX-License-Identifier: Apache-2.0
"""Keys of terminals that do not send what their terminfo says."""

import unittest

from iat_nova.cmd.full_screen import named


class Named(unittest.TestCase):
    def test_sequences(self):
        """Arrows, Home and End in the forms that terminals send in either mode."""
        typed = "\x1b[A\x1bOB\x1b[1~\x1b[4~\x1b[F"
        self.assertEqual(["up", "down", "home", "end", "end"], named(typed))

    def test_an_unknown_sequence(self):
        """It is one key, not a key for each of its characters."""
        self.assertEqual(["\x1b[99~", "["], named("\x1b[99~["))

    def test_characters(self):
        """Letters, Enter, and Esc alone."""
        self.assertEqual(["q", "ä", "enter", "esc"], named("qä\r\x1b"))
