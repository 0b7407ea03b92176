# SPDX-License-Identifier: Apache-2.0
"""Every refusal and degradation in the code has its line in the operator's documentation.

`test_docs` looks the other way: what the documentation quotes is said by the code.
"""

import ast
import pathlib
import re
import unittest

from iat_nova.report.sentences import SENTENCES
from tests.unit import pages
from tests.unit.test_docs import QUOTED

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "iat_nova"
SOURCES = (
    *sorted((PACKAGE / "hardware").rglob("*.py")),
    *(
        PACKAGE / "agent" / f"{name}.py"
        for name in (
            "loop",
            "sources",
            "wiring",
            "restoring",
            "interlock",
            "holding",
            "policy_keeper",
            "shadow",
        )
    ),
    PACKAGE / "checks" / "doctor.py",
)
ERRORS = re.compile(r"\w*Error|HostTaken|CpuOffline|AlreadyRunning")
NO_MESSAGES = {"ValueError", "OSError", "TimeoutError"}  # never shown, or the kernel's
# method -> which argument is the text
TELLING = {"problem": 1, "note": 1, "failed": 1, "_only_observe": 1, "_tell": 1}
LEAST_LETTERS = 12  # less is a path and what the kernel says of it


def template(node, names):
    """Return a message with a \\0 for each value in it, None where it is not written here."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
        return "".join(map(str, parts))
    if isinstance(node, ast.IfExp):
        return template(node.body, names) or template(node.orelse, names)
    if isinstance(node, ast.BinOp):
        sides = [template(side, names) for side in (node.left, node.right)]
        return None if sides == [None, None] else "".join(side or "\0" for side in sides)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "message":
        (code, *_) = node.args
        codes = [one.value for one in ast.walk(code) if isinstance(one, ast.Constant)]
        return re.sub(r"{.*?}", "\0", SENTENCES[codes[0]]) if codes else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def text_of(node):
    """Return the part of a call that is a message for the operator."""
    if not isinstance(node, ast.Call):
        return None
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if ERRORS.fullmatch(name) and name not in NO_MESSAGES and node.args:
        return node.args[0]
    if name in TELLING and len(node.args) > TELLING[name]:
        return node.args[TELLING[name]]
    if name == "Finding" and "OBSERVE" in ast.unparse(node) and len(node.args) > 2:
        return node.args[2]
    return None


def messages(source):
    """Return the messages of a file with their lines."""
    found = []
    for function in ast.walk(ast.parse(source.read_text())):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {}
        # in the order of the text: a name holds what was last assigned to it
        nodes = [node for node in ast.walk(function) if hasattr(node, "lineno")]
        for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset)):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names[node.targets[0].id] = template(node.value, {})
            argument = text_of(node)
            text = template(argument, names) if argument is not None else None
            remedy = node.args[-1] if argument is not None and len(node.args) > 1 else None
            if text is not None and remedy is not None and argument is node.args[0]:
                text += "; " + (template(remedy, names) or "\0")
            if text is not None and len(re.sub(r"[^a-z]", "", text)) >= LEAST_LETTERS:
                found.append((f"{source.name}:{node.lineno}", " ".join(text.split())))
    return found


def quoted():
    """Return the messages of the operator's pages, each as its parts that do not vary."""
    role = pages.extension("message")
    return [
        [part for part in role._parts(" ".join(text.split())) if part]
        for page in sorted((pages.SOURCE / "operator").glob("*.rst"))
        for text in QUOTED.findall(page.read_text(encoding="utf-8"))
    ]


def matches(parts, text):
    """Tell whether the parts follow one another in a message."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len("".join(parts)) >= LEAST_LETTERS


class Documentation(unittest.TestCase):
    """The code's messages, looked up in the pages."""

    def test_every_message_is_documented(self):
        """What the code says has a line that tells what to do."""
        said = [message for source in SOURCES for message in messages(source)]
        self.assertGreater(len(said), 60)  # an empty search would pass everything
        known = quoted()
        missing = [
            f"{where}: {text}".replace("\0", "...")
            for where, text in said
            if not any(matches(parts, text) for parts in known)
        ]
        self.assertEqual([], missing, "\n".join(missing))
