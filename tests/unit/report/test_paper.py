# SPDX-License-Identifier: Apache-2.0
"""The report on a small screen and on paper, as far as that shows without a browser."""

import contextlib
import html.parser
import pathlib
import re
import shutil
import tempfile
import unittest

from iat_nova.report import html as report
from iat_nova.report import page
from iat_nova.store.reader import HistoryReader
from iat_nova.store.writer import History
from tests.unit import stories

LEAST = 4.5  # WCAG 2.2, 1.4.3, level AA


def luminance(colour):
    """Return the relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Return the contrast ratio of two colours."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


class Boxes(html.parser.HTMLParser):
    """Notes which tables and drawings lie in no box that scrolls."""

    def __init__(self):
        super().__init__()
        self.open, self.loose, self.seen = [], [], []
        self.tables, self.cells = [], []

    def handle_starttag(self, tag, attributes):
        styles = (dict(attributes).get("class") or "").split()
        if tag == "table":
            self.tables.append(styles)
        if tag == "td" and "stack" in self.tables[-1]:
            self.cells.append("data-label" in dict(attributes))
        if tag in ("table", "svg") and dict(attributes).get("aria-hidden") != "true":
            self.seen.append(tag)
            if not any({"scroll", "chart"} & set(one) for _, one in self.open):
                self.loose.append(self.get_starttag_text())
        if tag not in ("meta", "br", "link"):
            self.open.append((tag, styles))

    def handle_startendtag(self, tag, attributes):
        """Have nothing in it."""

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass


class TestStyle(unittest.TestCase):
    def setUp(self):
        self.style = page.template("iat_nova.report", "style.css.j2").render()
        blocks = re.findall(r":root \{(.*?)\}", self.style, re.DOTALL)
        self.themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks]

    def test_words_can_be_read_on_their_ground(self):
        """Light and dark: states in their strip, all text on page and card."""
        self.assertEqual(2, len(self.themes))
        for theme in self.themes:
            pairs = [(f"on-{'dark' if n > 2 else 'light'}", f"state{n}") for n in range(5)]
            pairs += [(ink, on) for ink in ("ink", "soft", "bad") for on in ("page", "card")]
            for ink, ground in pairs:
                with self.subTest(ink=ink, ground=ground, page=theme["page"]):
                    self.assertGreaterEqual(contrast(theme[ink], theme[ground]), LEAST)

    def test_paper_has_the_colours_of_the_legend(self):
        """And those of the light theme, whatever the screen has."""
        printed = self.style.partition("@media print {")[2]
        self.assertIn("print-color-adjust: exact", printed)
        self.assertRegex(printed, r"\.scroll, \.chart \{ overflow: visible; \}")
        self.assertIn("@media screen and (prefers-color-scheme: dark)", self.style)
        self.assertIn("size: A4", self.style)

    def test_long_names_break(self):
        """Nor has a list of CPUs that lie apart any place where a line may end by itself."""
        rules = re.findall(r"([^{}]+)\{([^{}]*)\}", self.style)
        found = {one.strip() for one, rule in rules if "overflow-wrap: anywhere" in rule}
        self.assertLessEqual({".name", ".step", ".sets", ".stack td"}, found)


class TestPage(unittest.TestCase):
    def boxes(self):
        """Return what the page of a story has in boxes."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-paper-"))
        self.addCleanup(shutil.rmtree, folder)
        clock = stories.SetClock()
        history = History(folder / "history.sqlite", max_age_s=1e9, max_bytes=8 << 20, clock=clock)
        with contextlib.closing(history):
            stories.tell(history, clock=clock)
        with HistoryReader(folder / "history.sqlite") as reader:
            boxes = Boxes()
            boxes.feed(report.write(reader))
        return boxes

    def test_what_is_wide_scrolls_in_a_box_of_its_own(self):
        """No table and no drawing makes the page wider than a telephone."""
        boxes = self.boxes()
        self.assertEqual([], boxes.loose)
        self.assertEqual({"table", "svg"}, set(boxes.seen))
        self.assertGreater(len(boxes.seen), 8)

    def test_a_row_is_a_paragraph_on_a_telephone(self):
        """Values bring their headings along, and no table has to be scrolled."""
        boxes = self.boxes()
        self.assertEqual([], [one for one in boxes.tables if not {"stack", "steps"} & set(one)])
        self.assertGreater(boxes.cells.count(True), boxes.cells.count(False))
