# SPDX-License-Identifier: Apache-2.0
"""No name harms a terminal or a spreadsheet, and texts are cut to columns."""

import unicodedata
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.report import escape


class HarmlessTest(unittest.TestCase):
    """What tenants may have chosen."""

    def test_plain(self) -> None:
        """Control, bidirectional and zero-width characters become escapes, letters stay."""
        for name, shown in (
            ("web-1", "web-1"),
            ("\x1b[2J", "\\x1b[2J"),
            ("a\nb\r", "a\\nb\\r"),
            ("\x9b31m", "\\x9b31m"),
            ("gnp.\u202eexe", "gnp.\\u202eexe"),
            ("pc\u200b1", "pc\\u200b1"),
            ("tag\U000e0001", "tag\\U000e0001"),
            ("\\x1b", "\\\\x1b"),
            ("日本é", "日本é"),
            ("é\x1b", "é\\x1b"),
        ):
            self.assertEqual(shown, escape.plain(name))
        self.assertEqual("a\n\\x1bb", escape.lines("a\n\x1bb"))

    def test_cells_of_csv(self) -> None:
        """A text that a spreadsheet would compute gets a quote; numbers and a lone sign do not."""
        for value, shown in (
            ("=A1", "'=A1"),
            ("-1+1", "'-1+1"),
            ("@a", "'@a"),
            ("a=1", "a=1"),
            ("-1.5", "-1.5"),
            ("-", "-"),
            (-2, -2),
            (None, None),
        ):
            self.assertEqual(shown, escape.csv_cell(value))


class CutTest(unittest.TestCase):
    """What is left of a text that is too wide."""

    def test_columns(self) -> None:
        """Ideographs take two columns, accents none."""
        for text, columns in (("web", 3), ("日本", 4), ("e\u0301", 1), ("a\u20dd", 1)):
            self.assertEqual(columns, escape.width(text))

    def test_cut(self) -> None:
        """The ellipsis takes the last column; no column, no text."""
        for columns, shown in ((4, "webs"), (3, "we…"), (1, "…"), (0, ""), (-1, "")):
            self.assertEqual(shown, escape.cut("webs", columns))

    def test_middle(self) -> None:
        """Begin and end stay, the end with at most half of the other columns."""
        self.assertEqual("compute-0…pute-017", escape.middle("compute-0000-in-compute-017", 18))
        self.assertEqual("compute-0…mpute-017", escape.middle("compute-0000-in-compute-017", 19))
        self.assertEqual("compute-0000", escape.middle("compute-0000", 12))
        self.assertEqual("compute-0000", escape.middle("compute-0000", 18))
        self.assertEqual("web", escape.middle("web", 3))

    def test_few_columns(self) -> None:
        """Below nine columns the begin alone stays."""
        self.assertEqual("comp…0000", escape.middle("compute-0000", 9))
        self.assertEqual("compute…", escape.middle("compute-0000", 8))

    def test_the_middle_of_wide_characters(self) -> None:
        """No text is wider than its columns."""
        for columns in range(1, 20):
            cut = escape.middle("計算機計算機計算機-10", columns)
            self.assertLessEqual(escape.width(cut), columns)
        self.assertEqual("ab計算…算機", escape.middle("ab計算機計算機", 12))

    def test_wrap(self) -> None:
        """Lines break between words; the last one, and a word that is too long, are cut."""
        self.assertEqual(["one two", "three f…"], escape.wrap("one two three four five", 8, 2))
        self.assertEqual(["of the", "pool"], escape.wrap("of the  pool", 7, 2))
        self.assertEqual(["of the", "pool"], escape.wrap("of the pool", 6, 2))
        self.assertEqual(["of the", "pool o…"], escape.wrap("of the pool of guests", 7, 2))
        self.assertEqual(["vswitc…", "is"], escape.wrap("vswitches is", 7, 3))
        self.assertEqual(["表表", "表"], escape.wrap("表表 表", 5, 3))
        self.assertEqual([""], escape.wrap("", 7, 2))

    def test_hanging(self) -> None:
        """Text stands beside a title; the longer of both beginnings takes its columns."""
        self.assertEqual(
            ["why no idle", "    way of", "    the pool"],
            escape.hanging("no idle way of the pool", 12, 3, "why "),
        )
        self.assertEqual(["- one", "    two"], escape.hanging("one two", 8, 2, "- ", "    "))

    @settings(derandomize=True, max_examples=200)
    @given(st.text(), st.integers(0, 20))
    def test_fit(self, name: str, columns: int) -> None:
        """What is fitted has exactly the columns asked for and no control character."""
        shown = escape.fit(escape.plain(name), columns)
        self.assertEqual(columns, escape.width(shown))
        self.assertFalse([one for one in shown if unicodedata.category(one) in ("Cc", "Cf")])

    def test_filled(self) -> None:
        """To the left, or to the right."""
        self.assertEqual("web  ", escape.fit("web", 5))
        self.assertEqual("  web", escape.fit("web", 5, right=True))
