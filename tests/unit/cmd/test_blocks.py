# SPDX-License-Identifier: Apache-2.0
"""Lists with more columns than a terminal has room for."""

import argparse
import io
import os
import types
import unittest
from unittest import mock

from iat_nova.cmd import blocks
from iat_nova.cmd.base import Lister

COLUMNS = ("strategy", *(f"column_{number:02}" for number in range(8)))
ROWS = [("pollute-buffer", *range(8)), ("iat", *range(7), None)]


class BlocksTest(unittest.TestCase):
    def test_too_wide(self) -> None:
        """Cells shrink to eight columns, headings do not."""
        self.assertTrue(blocks.too_wide(COLUMNS, ROWS, 80))
        self.assertFalse(blocks.too_wide(COLUMNS, ROWS, 120))
        self.assertFalse(blocks.too_wide(("a", "b"), [("x" * 200, 1)], 80))

    def test_lines(self) -> None:
        """A heading a row, a line a cell; empty cells have none."""
        lines = list(blocks.lines(COLUMNS, ROWS, 80))
        self.assertEqual("pollute-buffer", lines[0])
        self.assertEqual(["", "iat", "  column_00  0"], lines[9:12])
        self.assertEqual(2 + 8 + 7 + 1, len(lines))
        narrow = list(blocks.lines(("name", "a" * 20), [("x", "12345678")], 20))
        self.assertEqual(["x", f"  {'a' * 20}  12345678"], narrow)

    def test_a_list(self) -> None:
        """A terminal of 80 columns gets lines, one of 120 a table; chosen columns stay a table."""
        for width, chosen, table in (
            ("80", [], False),
            ("120", [], True),
            ("80", ["strategy"], True),
        ):
            out = io.StringIO()
            app = types.SimpleNamespace(stdout=out, NAME="x", options=None)
            lister = Lister(app, argparse.Namespace())
            with mock.patch.dict(os.environ, {"COLUMNS": width}):
                parsed = lister.get_parser("x").parse_args(
                    [word for one in chosen for word in ("-c", one)]
                )
                lister.formatter = lister._formatter_plugins["table"].obj
                lister.produce_output(parsed, COLUMNS, iter(ROWS))
            with self.subTest(width=width, chosen=chosen):
                self.assertIs(table, out.getvalue().startswith("+--"))
                self.assertLessEqual(max(map(len, out.getvalue().splitlines())), int(width))

    def test_a_sorted_list(self) -> None:
        """Lines are sorted as a table is."""
        out = io.StringIO()
        lister = Lister(types.SimpleNamespace(stdout=out, NAME="x"), argparse.Namespace())
        parsed = lister.get_parser("x").parse_args(["--sort-column", "strategy"])
        with mock.patch.dict(os.environ, {"COLUMNS": "80"}):
            lister.produce_output(parsed, COLUMNS, ROWS)
        self.assertEqual("iat", out.getvalue().splitlines()[0])
