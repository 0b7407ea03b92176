# SPDX-License-Identifier: Apache-2.0
"""The directive that shows which interface is proven on which CPU, as the tests recorded it."""

import pathlib

import yaml
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

TABLE = pathlib.Path(__file__).parents[1] / "support.yaml"


def rows(table):
    """Yield (CPU, interface, in the lab, on file trees): counts of tests that passed."""
    found = {}
    for one in table:
        cell = found.setdefault((one["cpu"], one["interface"]), {})
        cell[one["how"]] = cell.get(one["how"], 0) + one["passed"]
    for (cpu, interface), cell in sorted(found.items()):
        lab = [
            f"{how.removeprefix('lab, ')} ({count})"
            for how, count in sorted(cell.items())
            if how.startswith("lab")
        ]
        yield cpu, interface, ", ".join(lab) or "\\-", str(cell.get("file tree", "\\-"))


def lines(table):
    """Yield the table in reStructuredText; a CPU is named in its first row."""
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 28 26 10 24 12", "")
    before = None
    header = ("CPU", "Interface", "Silicon", "Lab", "File tree")
    for cpu, *cells in (header[:2] + header[2:], *rows(table)):
        shown = "" if cpu == before else cpu
        before = cpu
        if len(cells) == 3:
            cells.insert(1, "none yet")
        yield f"   * - {shown}"
        yield from (f"     - {cell}" for cell in cells)
    yield ""


class Support(Directive):
    """``.. support::``."""

    def run(self):
        """Return the table."""
        self.state.document.settings.env.note_dependency(str(TABLE))
        table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
        text = StringList(list(lines(table)), source=str(TABLE))
        parent = nodes.Element()
        nested_parse_with_titles(self.state, text, parent)
        return parent.children


def setup(app):
    """Tell Sphinx."""
    app.add_directive("support", Support)
    return {"parallel_read_safe": True}
