# SPDX-License-Identifier: Apache-2.0
"""The table of supported hardware is what marked tests proved, all of them and no others."""

import ast
import unittest
from pathlib import Path

import yaml

PROJECT = Path(__file__).resolve().parents[2]
TABLE = PROJECT / "doc/source/support.yaml"
MARKED = ("tests/lab/guest", "tests/unit/hardware")


def marks():
    """Return {(test class, interface)} of what is marked by `proves`."""
    found = set()
    for path in (path for folder in MARKED for path in (PROJECT / folder).glob("*.py")):
        module = ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for cls in ast.walk(ast.parse(path.read_text())):
            if isinstance(cls, ast.ClassDef):
                nodes = [cls, *(one for one in cls.body if isinstance(one, ast.FunctionDef))]
                calls = [call for node in nodes for call in node.decorator_list]
                found |= {
                    (f"{module}.{cls.name}", call.args[0].value)
                    for call in calls
                    if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "proves"
                }
    return found


class SupportTest(unittest.TestCase):
    def test_nothing_is_listed_that_no_test_proves(self) -> None:
        """A test that went, or proves something else now, is in the table no more."""
        marked = marks()
        classes = {name for name, _ in marked}
        rows = yaml.safe_load(TABLE.read_text())
        wrong = [
            row
            for row in rows
            if (row["tests"], row["interface"]) not in marked and row["tests"] in classes
        ]
        self.assertEqual([], wrong, "tools/record-support")
        self.assertTrue(all(row["passed"] > 0 for row in rows))
        gone = {row["tests"] for row in rows} - classes - INHERITED
        self.assertEqual(set(), gone, "tools/record-support")

    def test_all_that_is_proven_is_listed(self) -> None:
        """A new proof was recorded."""
        listed = {(row["tests"], row["interface"]) for row in yaml.safe_load(TABLE.read_text())}
        self.assertEqual(set(), marks() - listed, "tools/record-support")


INHERITED = {"tests.lab.guest.counters.PerfAllSlices"}
"""Marked by the class they are derived from."""
