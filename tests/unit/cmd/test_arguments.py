# SPDX-License-Identifier: Apache-2.0
"""What numbers options take."""

import argparse
import unittest

from iat_nova.cmd.arguments import natural, whole


class NumbersTest(unittest.TestCase):
    """Whole ones, with 0 (a seed) or without (a count)."""

    def test_taken(self):
        """As they are written."""
        self.assertEqual([0, 7], [whole(text) for text in ("0", "7")])
        self.assertEqual(7, natural("7"))

    def test_refused(self):
        """With what was given."""
        for kind, texts in ((whole, ("-1", "x", "", "1.5")), (natural, ("0", "-1", "x", ""))):
            for text in texts:
                with (
                    self.subTest(kind=kind, text=text),
                    self.assertRaisesRegex(argparse.ArgumentTypeError, f"invalid number {text!r}"),
                ):
                    kind(text)
