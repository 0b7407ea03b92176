# SPDX-License-Identifier: Apache-2.0
"""The directive that shows which interface is proven on which CPU, as the tests recorded it."""

import pathlib

import tables
import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

TABLE = pathlib.Path(__file__).parents[1] / "support.yaml"


COLUMNS = (
    ("CPU", "cpu"),
    ("Interface", "interface"),
    ("Silicon", lambda row: "none yet"),
    ("Lab", "lab"),
    ("File tree", "file tree"),
)


def rows(table):
    """Yield a row a CPU and interface, with counts of tests that passed; each CPU is named once."""
    found = {}
    for one in table:
        cell = found.setdefault((one["cpu"], one["interface"]), {})
        cell[one["how"]] = cell.get(one["how"], 0) + one["passed"]
    before = None
    for (cpu, interface), cell in sorted(found.items()):
        lab = [
            f"{how.removeprefix('lab, ')} ({count})"
            for how, count in sorted(cell.items())
            if how.startswith("lab")
        ]
        yield {
            "cpu": "" if cpu == before else cpu,
            "interface": interface,
            "lab": ", ".join(lab) or "\\-",
            "file tree": cell.get("file tree", "\\-"),
        }
        before = cpu


class Support(Directive):
    """``.. support::``."""

    def run(self):
        """Return the table."""
        self.state.document.settings.env.note_dependency(str(TABLE))
        table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
        lines = tables.lines(COLUMNS, rows(table), ":widths: 28 26 10 24 12")
        text = StringList(lines, source=str(TABLE))
        parent = nodes.Element()
        nested_parse_with_titles(self.state, text, parent)
        return parent.children


def setup(app):
    """Tell Sphinx."""
    app.add_directive("support", Support)
    return {"parallel_read_safe": True}
