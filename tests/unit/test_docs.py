# SPDX-License-Identifier: Apache-2.0
"""What the documentation quotes is what the program says."""

import configparser
import csv
import re
import sys
import unittest
from unittest import mock

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive

from iat_nova import conf
from iat_nova.strategies.pollute_buffer import moves
from tests.unit.pages import SOURCE, extension

QUOTED = re.compile(r":message:`([^`]+)`")
SET = re.compile(r"``(?:\[iat\]\s)?([a-z_]+)\s=\s([^`]+?)``")
CONSOLE = re.compile(r"^( *)\.\. code-block:: console\n\n((?:\1 {3}.*\n|\n)+)", re.MULTILINE)
JOINED = re.compile(r"\S [#$] [\w./]")
INI = re.compile(r"^( *)\.\. code-block:: ini\n\n((?:\1 {3}.*\n|\n)+)", re.MULTILINE)


class StrategyTest(unittest.TestCase):
    def test_every_family_of_moves(self) -> None:
        """The page of the default strategy has a row for each family of moves."""
        page = (SOURCE / "algorithm.rst").read_text(encoding="utf-8")
        rows = re.findall(r"^   \* - ``([a-z-]+)``$", page, re.MULTILINE)
        self.assertEqual([*moves.FAMILIES], rows)


class TablesTest(unittest.TestCase):
    def setUp(self) -> None:
        """Unit tests do without Sphinx: its parser is a list of the lines that it gets."""
        self.lines: list[str] = []
        nodes_, graphs = mock.Mock(), mock.MagicMock()
        nodes_.nested_parse_with_titles = lambda state, lines, node: self.lines.extend(lines)
        parts = {"sphinx.util.nodes": nodes_, "sphinx.ext.graphviz": graphs}
        parents = {name: mock.Mock() for name in ("sphinx", "sphinx.util", "sphinx.ext")}
        self.enterContext(mock.patch.dict(sys.modules, parents | parts))
        extension.cache_clear()
        self.addCleanup(extension.cache_clear)

    def directives(self) -> dict[str, type[Directive]]:
        """Return the directives of all extensions, by name."""
        app = mock.Mock()
        for path in (SOURCE / "_ext").glob("*.py"):
            if hasattr(module := extension(path.stem), "setup"):
                module.setup(app)
        return dict(call.args for call in app.add_directive.call_args_list)

    def test_rows(self) -> None:
        """Each row of a table that a directive makes has a cell below each heading."""
        state = mock.Mock()
        state.nested_parse = lambda lines, offset, node: self.lines.extend(lines)
        state.document.settings.env.relfn2path = lambda name: (name, SOURCE / "operator" / name)
        for name, directive in self.directives().items():
            directive(name, [], {}, ["pollute_buffer.judge"], 1, 0, "", state, state).run()
        lines, count = iter(self.lines), 0
        for line in lines:
            self.assertNotIn("list-table::", line)  # all are made by tables.py
            if "csv-table::" in line:
                self.assertTrue(any(not one.strip() for one in lines))  # behind the options
                rows = iter(lambda: next(lines).strip(), "")
                headings, *cells = csv.reader(rows, skipinitialspace=True)
                self.assertEqual({len(headings)}, {len(row) for row in cells}, headings)
                count += 1
        self.assertGreater(count, 20)


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


class ReleaseTest(unittest.TestCase):
    def test_the_notes_have_a_release(self) -> None:
        """Without a tag reno's heading is 0.0.0; the page's is the version that a build has."""
        text = "Release notes\n=============\n\n0.0.0\n-----\n\nNew.\n\n1.2.0\n-----\n\nLater.\n"
        document = publish_doctree(text)
        extension("release").head(None, document)
        config = configparser.ConfigParser()
        config.read(SOURCE.parents[1] / "setup.cfg")
        titles = [title.astext() for title in document.findall(nodes.title)]
        self.assertEqual(["Release notes", config["metadata"]["version"], "1.2.0"], titles)


class CommandsTest(unittest.TestCase):
    def test_one_command_a_line(self) -> None:
        """Who copies two joined commands runs the first alone: the second is a comment.

        Comments have two spaces before them.
        """
        found = [
            (page.name, line.strip())
            for page in (*SOURCE.rglob("*.rst"), SOURCE.parents[1] / "README.rst")
            for _, block in CONSOLE.findall(page.read_text(encoding="utf-8"))
            for line in block.splitlines()
        ]
        self.assertGreater(len(found), 100)
        self.assertEqual([], [one for one in found if JOINED.search(one[1])])


class OptionsTest(unittest.TestCase):
    def test_values_are_accepted(self) -> None:
        """Who copies an option from a page has an agent that starts."""
        options = {option.dest: option for option in conf.IAT_OPTS}
        found = [(page, *one) for page, text in self.pages() for one in SET.findall(text)]
        for page, text in self.pages():
            for _, block in INI.findall(text):
                lines = re.sub(r"(?m)^ +", "", block)
                parser = configparser.RawConfigParser(strict=False)
                parser.read_string(lines)
                for section in parser.sections():
                    for name, value in parser[section].items():
                        # oslo.config and systemd take a comment behind a value for a part of it.
                        self.assertNotIn(" #", value, f"{page}: {name}")
                    if section == "iat":
                        self.assertLessEqual({*parser["iat"]}, {*options}, page)
                        found += [(page, *one) for one in parser["iat"].items()]
        known = [one for one in found if one[1] in options]
        self.assertGreater(len(known), 50)
        for page, name, value in known:
            with self.subTest(page=page, name=name):
                options[name].type(value)

    def pages(self) -> list[tuple[str, str]]:
        """Return all pages by name."""
        return [(page.name, page.read_text("utf-8")) for page in sorted(SOURCE.rglob("*.rst"))]
