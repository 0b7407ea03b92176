# SPDX-License-Identifier: Apache-2.0
"""Messages, helps, pages and YAML use the glossary's words, and not those that it retires."""

import ast
import pathlib
import re
import unittest

from iat_nova.cmd import agent
from iat_nova.cmd.main import Application
from iat_nova.report import sentences
from tools import command_reference

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "iat_nova"
GLOSSARY = ROOT / "doc" / "source" / "contributing.rst"
ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     -(.*)$", re.MULTILINE)
# What a page quotes: literals, roles and the addresses of links; literal blocks are left out, too.
QUOTED = re.compile(r"``[^`]*``|:[a-z:-]+:`[^`]*`|<https?:[^>]*>")
BLOCK = re.compile(r"^(?:.*[^:]::|\.\. (?:code-block|literalinclude|graphviz)::.*)$")
# Recorded hosts are what a kernel said. Release notes, in no folder here, keep their words.
OLD = ("tests/data/", "doc/build/")
FOLDERS = ("devstack", "doc", "etc", "iat_nova", "playbooks", "rally-jobs", "tests", "tools")
# Reports of measured figures, which are rows of the published pages, are no messages.
ELSEWHERE = PACKAGE / "experiments" / "papers"


def retired():
    """Return the words that the glossary retires, as one expression."""
    text = GLOSSARY.read_text(encoding="utf-8")
    table = text[text.index("\nWords\n=====") : text.index("\nDocumentation\n=====")]
    words = [word for row in ROW.findall(table)[1:] for word in row[2].strip().split(", ")]
    found = [re.escape(word).replace("\\ ", r"\s+") for word in words if word]
    # `there is no such file` says what is so, `is no longer` too; `X is no number` is retired.
    return re.compile(rf"(?<!there )\b(?:{'|'.join(found)})\b(?!\s+longer)", re.IGNORECASE)


def texts(path):
    """Yield the texts of a file that people may see, each with its line.

    Those with a space in them that are no docstring, but a command's docstring, which is its help.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            is_help = isinstance(node, ast.ClassDef) and "cmd" in path.parts
            docstrings |= {
                id(one.value) for one in node.body if isinstance(one, ast.Expr) and not is_help
            }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if " " in node.value and id(node) not in docstrings:
            yield node.lineno, node.value


def docstrings(path):
    """Yield what a file's docstrings say, without the titles of other works, each with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, re.sub(r'"[^"]*"', "", str(node.value.value))


def files(*patterns):
    """Return the files of the project that match, but what a build makes and what is `OLD`."""
    folders = (one for one in ROOT.iterdir() if one.is_dir() and one.name in FOLDERS)
    found = (path for one in folders for pattern in patterns for path in one.rglob(pattern))
    top = (path for pattern in patterns for path in ROOT.glob(pattern))
    return sorted(
        path for path in (*top, *found) if not str(path.relative_to(ROOT)).startswith(OLD)
    )


def prose(path):
    """Return the sentences of a page: all its text but quotations, and but the glossary's table."""
    text = path.read_text(encoding="utf-8")
    if path == GLOSSARY:
        begin, end = text.index("\nWords\n====="), text.index("\nDocumentation\n=====")
        text = text[:begin] + "\n" * text.count("\n", begin, end) + text[end:]
    lines, inside = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if inside is not None and line.strip() and indent <= inside:
            inside = None
        lines.append("" if inside is not None else line)
        if inside is None and BLOCK.match(line):
            inside = indent
    return QUOTED.sub(lambda found: "\n" * found[0].count("\n"), "\n".join(lines))


def helps():
    """Yield the help of each program and command by its name."""
    yield "iat-nova-agent", agent._parser().format_help()
    for name, (parser, _) in command_reference.parsers(Application()).items():
        yield f"iat-nova {name}", parser.format_help()


def occurrences(words, text):
    """Yield each retired word of a text with its line."""
    for found in words.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0]


class GlossaryTest(unittest.TestCase):
    def test_retired_words_are_in_no_message(self):
        """Who searches for a message finds what others wrote about it."""
        words = retired()
        wrong = [
            f"{path.relative_to(ROOT)}:{line}: {found[0]!r} in {text!r}"
            for path in sorted(PACKAGE.rglob("*.py"))
            if ELSEWHERE not in path.parents
            for line, text in texts(path)
            if (found := words.search(text))
        ]
        wrong += [
            f"{code}: {found[0]!r} in {text!r}"
            for code, text in sentences.SENTENCES.items()
            if (found := words.search(text))
        ]
        self.assertEqual([], wrong, "\n".join(wrong))

    def test_retired_words_are_in_no_docstring(self):
        """Who reads the code meets the words of its messages."""
        words = retired()
        wrong = [
            f"{path.relative_to(ROOT)}:{line}: {found[0]!r}"
            for path in sorted(PACKAGE.rglob("*.py"))
            for line, text in docstrings(path)
            if (found := words.search(text))
        ]
        self.assertEqual([], wrong, "\n".join(wrong))

    def test_retired_words_are_in_no_page(self):
        """Who looks up a message finds a page that speaks as the message does."""
        words, pages = retired(), files("*.rst")
        self.assertGreater(len(pages), 35)
        wrong = [
            f"{path.relative_to(ROOT)}:{line}: {word!r}"
            for path in pages
            for line, word in occurrences(words, prose(path))
        ]
        self.assertEqual([], wrong, "\n".join(wrong))

    def test_retired_words_are_in_no_yaml(self):
        """Options, metrics, alerts, scenarios and claims are read by people, too."""
        words = retired()
        found = files("*.yaml", "*.yml", "*.sample")
        read = [one for one in found if one not in sentences.FILES]  # codes stay as they are
        self.assertGreater(len(read), 40)
        wrong = [
            f"{path.relative_to(ROOT)}:{line}: {word!r}"
            for path in read
            for line, word in occurrences(words, path.read_text(encoding="utf-8"))
        ]
        self.assertEqual([], wrong, "\n".join(wrong))

    def test_retired_words_are_in_no_help(self):
        """Helps are put together when they are shown."""
        words, shown = retired(), list(helps())
        self.assertGreater(len(shown), 25)
        wrong = [
            f"{name}: {word!r}" for name, text in shown for _, word in occurrences(words, text)
        ]
        self.assertEqual([], wrong, "\n".join(wrong))
