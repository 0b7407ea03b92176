# SPDX-License-Identifier: Apache-2.0
"""The role ``message``: a text of the agent, quoted. The page fails to build when none says it.

Parts that differ from case to case are written in capitals or as ``...``; what is between them must
stand in a text of the program.
"""

import ast
import functools
import pathlib
import re

from docutils import nodes

import iat_nova
from iat_nova.report.sentences import SENTENCES

VARIABLE = re.compile(r"\.\.\.|\b[A-Z][A-Z_]*[A-Z]\b|\bN\b")
LEAST = 4  # shorter parts would be found anywhere
PROGRAM_NAMES = ("PMD", "MSR", "CHA", "PC", "DPDK", "XML", "OVSDB", "LLC", "DDIO", "CPU")


@functools.cache
def said():
    """Return all constant texts and sentences of the package, one after the other."""
    package = pathlib.Path(iat_nova.__file__).parent
    texts = [
        node.value
        for path in sorted(package.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join((*texts, *SENTENCES.values()))


def missing(text):
    """Return the parts of a quoted message that the program does not say."""
    parts = _parts(text)
    return [part for part in parts if len(part) >= LEAST and part not in said()]


def _parts(text):
    """Cut a message at what varies, and between what happened and the remedy.

    Names that the program itself writes in capitals stay.
    """
    pieces: list[str] = []
    begin = 0
    for found in VARIABLE.finditer(text):
        if found[0] not in PROGRAM_NAMES:
            pieces.append(text[begin : found.start()])
            begin = found.end()
    parts = [part for piece in [*pieces, text[begin:]] for part in piece.split("; ")]
    return [part.strip(" :;,()") for part in parts]


def message(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Return the message as a literal, or an error where the program says otherwise."""
    lost = missing(text)
    if lost:
        told = inliner.reporter.error(f"no text of iat_nova says {lost}: {text}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, told)], [told]
    return [nodes.literal(rawtext, text)], []


def setup(app):
    app.add_role("message", message)
    return {"parallel_read_safe": True}
