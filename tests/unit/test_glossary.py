# SPDX-License-Identifier: Apache-2.0
"""Messages and helps use the words of the contributors' glossary, and not those it retires."""

import ast
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = ROOT / "iat_nova"
GLOSSARY = ROOT / "doc" / "source" / "contributing.rst"
ROW = re.compile(r"^   \* - (.+)\n     - (.+)\n     -(.*)$", re.MULTILINE)
# Reports of measured figures, which are rows of the published pages, are no messages.
ELSEWHERE = PACKAGE / "sim" / "figures"


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

    def test_the_glossary_is_read(self):
        """Some thirty terms, and what they retire is found."""
        text = GLOSSARY.read_text(encoding="utf-8")
        self.assertGreater(len(ROW.findall(text)), 30)
        for message in ("CPU 3: this processor is off-line", "'x' is no number", "Libvirt hangs"):
            self.assertRegex(message, retired())
        for message in ("there is no user iat-nova", "CPU 3 is offline", "libvirt unavailable"):
            self.assertNotRegex(message, retired())
