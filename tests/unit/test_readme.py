# SPDX-License-Identifier: Apache-2.0
"""README.rst is short, its figures are recorded ones, and its links lead somewhere."""

import pathlib
import re
import unittest

from tests.unit.pages import SOURCE, extension

ROOT = pathlib.Path(__file__).parents[2]
LINK = re.compile(r"<((?!https?:)[^>]+)>`_")


def readme() -> str:
    return (ROOT / "README.rst").read_text(encoding="utf-8")


class ReadmeTest(unittest.TestCase):
    def test_length(self) -> None:
        """At most 500 words, markup included, and one picture."""
        self.assertLessEqual(len(readme().split()), 500)
        self.assertEqual(1, readme().count(".. image::"))

    def test_gain_and_cost(self) -> None:
        """The table is the one that the documentation makes from recorded outputs."""
        table = "\n".join(extension("gains").table())
        self.assertIn(table, readme(), f"README.rst should have this table:\n{table}")

    def test_map(self) -> None:
        """A few lines of the way map and the gains, each recorded."""
        line = r"^   ( *\d+\.\d  [#.]+ .+|(?:critical|best effort): .+)$"
        shown = re.findall(line, readme(), re.MULTILINE)
        recorded = (SOURCE / "output/quickstart.txt").read_text(encoding="utf-8")
        self.assertIn(len(shown), range(3, 6))
        for line in shown:
            self.assertIn(line, recorded)

    def test_status(self) -> None:
        """What has not been seen on silicon is said before the first heading."""
        self.assertIn("never run on real RDT hardware", readme().split("Try it")[0])

    def test_links(self) -> None:
        """Each names a file of the repository."""
        linked = LINK.findall(readme())
        self.assertGreater(len(linked), 15)
        for path in linked:
            self.assertTrue((ROOT / path).is_file(), path)

    def test_commands(self) -> None:
        """The script knows the words that README.rst tells people to type."""
        script = (ROOT / "quickstart").read_text(encoding="utf-8")
        for word in re.findall(r"\./quickstart (\w+)", readme()):
            self.assertRegex(script, rf"(?m)^    {word}\)")


class RecordedTest(unittest.TestCase):
    def test_pages_quote_known_numbers(self) -> None:
        """The role writes numbers of the recorded outputs alone."""
        facts = extension("gains").facts()
        quoted = [
            name
            for page in SOURCE.rglob("*.rst")
            for name in re.findall(r":recorded:`([^`]+)`", page.read_text(encoding="utf-8"))
        ]
        self.assertGreater(len(quoted), 3)
        self.assertEqual(set(), set(quoted) - set(facts))
