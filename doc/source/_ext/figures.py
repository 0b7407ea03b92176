# SPDX-License-Identifier: Apache-2.0
"""The directive that shows what `iat-nova simulate figures` wrote, as it wrote it."""

import json
import pathlib

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

FOLDER = pathlib.Path(__file__).parents[1] / "figures"


def _number(value):
    return f"{value:.3g}"


def _shown(value, unit):
    if value is None:
        return "\\-"
    if isinstance(value, bool):
        return "holds" if value else "does not hold"
    numbers = " to ".join(_number(end) for end in value) if isinstance(value, list) else None
    return f"{numbers or _number(value)} {unit or ''}".strip()


def _plain(text):
    """Return a text in which nothing is markup."""
    return "".join(f"\\{sign}" if sign in "\\*`_|<>" else sign for sign in text)


def _table(verdicts):
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 16 32 12 12 6 34", "")
    yield "   * - Id"
    yield from (f"     - {name}" for name in ("Claim", "Published", "Measured", "Met", "Seen"))
    for one in verdicts:
        yield f"   * - {_plain(one['claim'])}"
        for cell in (
            _plain(one["text"]),
            _shown(one["published"], one["unit"]),
            _shown(one["measured"], one["unit"]),
            ("yes \\*" if one.get("range_only") else "yes") if one["met"] else "**no**",
            _plain(one["reason"]) or "\\-",
        ):
            yield f"     - {cell}"
    yield ""


class PublishedFigures(Directive):
    """All figures in the folder: a table of all verdicts, then each picture with its set-up."""

    def run(self):
        records = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(FOLDER.glob("*.json"))
            if path.name != "verdicts.json"
        ]
        verdicts = [verdict for record in records for verdict in record["verdicts"]]
        met = sum(verdict["met"] for verdict in verdicts)
        narrow = met - sum(one.get("range_only", False) for one in verdicts)
        lines = [
            f"**{met} of {len(verdicts)} claims are met**; {narrow} would be if the low end of a "
            "spread had to be near the published low end, and the high end near the high one. "
            "The claims that turn on this are marked \\*.",
            "",
        ]
        lines += ["All verdicts", "------------", "", *_table(verdicts)]
        for record in records:
            title = _plain(f"{record['figure']}: {record['title']}")
            lines += [title, "-" * len(title), "", _plain(record["setup"]), ""]
            lines += [f".. image:: figures/{record['figure']}.svg", "   :width: 100%"]
            lines += [f"   :alt: {record['title']}", ""]
            lines += [f"*Source: {_plain(record['source'])}*", ""]
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="figures"), node)
        return node.children


def setup(app):
    """Add the directive."""
    app.add_directive("published-figures", PublishedFigures)
    return {"parallel_read_safe": True}
