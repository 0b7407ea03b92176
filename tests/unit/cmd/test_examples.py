# SPDX-License-Identifier: Apache-2.0
"""What the help and the pages tell people to type is taken by the programs' own parsers."""

import contextlib
import io
import pathlib
import re
import shlex
import unittest

from iat_nova.cmd import agent
from iat_nova.cmd import main as program

ROOT = pathlib.Path(__file__).parents[3]

# In help an example begins a line, and what it does may follow after a gap.
_IN_HELP = re.compile(r"^  (iat-nova .*?)(?:  .*)?$", re.MULTILINE)
# On pages a command line in a block follows a prompt; in running text it is a literal.
_IN_BLOCK = re.compile(r"^ +[$#] ((?:.*\\\n)*.*)$", re.MULTILINE)
_GROUPS = "|".join(sorted({name.split()[0] for name in program.commands() if " " in name}))
_LITERAL = re.compile(rf"``(iat-nova (?!(?:{_GROUPS})``)[^`]+)``")  # a group's name is none
# What ends one command of a line.
_END = re.compile(r"\|\||&&|[|;>&]+")


def commands(line):
    """Return the calls of our programs in a line of shell, as words."""
    split = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    split.whitespace_split = True
    found = [[]]
    for word in split:
        if _END.fullmatch(word):
            found.append([])
        else:
            found[-1].append(word)
    for words in found:
        if words and pathlib.PurePath(words[0]).name in ("iat-nova", "iat-nova-agent"):
            yield [pathlib.PurePath(words[0]).name, *words[1:]]


def helps():
    """Return every help text of ours by its name."""
    yield "iat-nova", program.EPILOG
    yield "iat-nova-agent", agent.EPILOG
    for name, point in program.commands().items():
        yield f"iat-nova {name}", point.load()._epilog or ""


def pages():
    """Return README and every page by its name."""
    for page in (ROOT / "README.rst", *sorted((ROOT / "doc" / "source").rglob("*.rst"))):
        yield str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")


def refusal(words):
    """Return what a program's parser says of a command line it does not take, else None."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parse(words)
    except SystemExit as end:
        return said.getvalue() if end.code else None
    except ValueError as error:  # cliff knows no such command
        return str(error)
    return None


def parse(words):
    """Parse a command line as far as possible without running anything."""
    name, *arguments = words
    if name == "iat-nova-agent":
        agent._parser().parse_args(arguments)
        return
    app = program.Application()
    _, rest = app.parser.parse_known_args(arguments)
    if rest and rest[0] != "help":
        factory, command, rest = app.command_manager.find_command(rest)
        factory(app, None, cmd_name=command).get_parser(command).parse_args(rest)
    elif rest[1:]:
        app.command_manager.find_command(rest[1:])


class ExamplesTest(unittest.TestCase):
    """Every example, wherever it is written."""

    def check(self, texts, *patterns, least):
        """Parse what the patterns find in texts; there must be so many at least."""
        seen = 0
        for where, text in texts:
            for line in (line for pattern in patterns for line in pattern.findall(text)):
                for words in commands(line):
                    seen += 1
                    with self.subTest(where=where, line=line):
                        self.assertIsNone(refusal(words))
        self.assertGreaterEqual(seen, least)

    def test_help(self):
        """An example of a help text can be typed as it stands."""
        self.check(helps(), _IN_HELP, least=40)

    def test_pages(self):
        """So can what a page shows at a prompt, or names in its text."""
        self.check(pages(), _IN_BLOCK, _LITERAL, least=60)

    def test_what_is_wrong_is_found(self):
        """The check is not one that cannot fail."""
        for line in ("iat-nova report --sinse -2h", "iat-nova expalin", "iat-nova-agent --mode x"):
            with self.subTest(line):
                (words,) = commands(line)
                self.assertIsNotNone(refusal(words))

    def test_each_command_of_a_line_is_seen(self):
        """Pipes, lists, comments and continued lines are taken apart as a shell does."""
        line = "iat-nova top -f json | jq . && /opt/bin/iat-nova \\\n status > x  # iat-nova top"
        self.assertEqual(
            [["iat-nova", "top", "-f", "json"], ["iat-nova", "status"]], list(commands(line))
        )
