# SPDX-License-Identifier: Apache-2.0
"""The directive that shows what `iat-nova simulate figures` wrote, as it wrote it."""

import json
import pathlib
import statistics

import tables
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


def _count(verdicts, how):
    return sum(one[how] for one in verdicts)


def _plain(text):
    """Return a text in which nothing is markup."""
    return "".join(f"\\{sign}" if sign in "\\*`_|<>" else sign for sign in text)


def _error(one):
    """Return by how much a number is off a published number, in percent; a dash elsewhere."""
    measured, published = one["measured"], one["published"]
    if any(
        isinstance(value, bool) or not isinstance(value, int | float)
        for value in (measured, published)
    ):
        return "\\-"
    return f"{100 * (measured - published) / abs(published):+.0f} %" if published else "\\-"


CLAIM = (
    ("Id", lambda one: _plain(one["claim"])),
    ("Claim", lambda one: _plain(one["text"])),
    ("Published", lambda one: _shown(one["published"], one["unit"])),
    ("Measured", lambda one: _shown(one["measured"], one["unit"])),
    ("Error", _error),
    ("Within 25 %", lambda one: "yes" if one["met"] else "**no**"),
    ("Strictly", lambda one: "yes" if one["strict"] else "no"),
    ("Seen", lambda one: _plain(one["reason"]) or "\\-"),
)


def _errors(several):
    return [one["measured"] / one["published"] - 1 for one in several]


SEVERAL = (
    ("Id", 0),
    ("Values", lambda row: f"{_plain(row[1][0]['text'])} ({row[1][0]['unit']})"),
    ("Number", lambda row: len(row[1])),
    (
        "Size of the error (median)",
        lambda row: f"{100 * statistics.median(map(abs, _errors(row[1]))):.0f} %",
    ),
    ("Error (median)", lambda row: f"{100 * statistics.median(_errors(row[1])):+.0f} %"),
    ("Within 25 %", lambda row: _count(row[1], "met")),
)


def _turned(move):
    turns = (
        f"{_plain(turn['claim'])}{_mark(turn)}: {'met' if turn['met'] else 'missed'} "
        f"({_shown(turn['before'], '')} before, {_shown(turn['after'], '')} then)"
        for turn in move["turns"]
    )
    return "; ".join(turns) or "\\-"


MOVE = (
    ("Constant", lambda move: _plain(move["constant"])),
    ("What the constant is", lambda move: _plain(move["meaning"])),
    ("Times", "factor"),
    ("Claims", "claims"),
    ("Verdicts that turn (25 %)", _turned),
)


def _validation(verdicts):
    """Yield a row a claim with its errors, then every published number with what was measured."""
    claims = {}
    for one in verdicts:
        claims.setdefault(one["claim"].partition("/")[0], []).append(one)
    yield from tables.lines(SEVERAL, claims.items(), ":widths: 18 38 10 12 12 10")
    for name, several in claims.items():
        yield from (f"*{name}*, published and measured:", "")
        yield "; ".join(
            f"{_plain(one['claim'].partition('/')[2])}: "
            f"{_number(one['published'])} and {_number(one['measured'])}"
            for one in several
        )
        yield ""


def _mark(turn):
    return "" if turn["set"] == "judged" else f" ({turn['set']})"


class Sensitivity(Directive):
    """What ``iat-nova simulate figures --sensitivity`` wrote."""

    def run(self):
        record = json.loads((FOLDER / "sensitivity.json").read_text(encoding="utf-8"))
        lines = [f"Figures: {', '.join(record['figures'])}.", ""]
        lines += tables.lines(MOVE, record["moves"], ":widths: 18 30 10 10 42")
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="sensitivity"), node)
        return node.children


class PublishedFigures(Directive):
    """All figures in the folder: a table of all verdicts, then each picture with its set-up."""

    def run(self):
        records = [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(FOLDER.glob("*.json"))
            if path.name not in {"verdicts.json", "sensitivity.json"}
        ]
        verdicts = [verdict for record in records for verdict in record["verdicts"]]
        sets = {
            name: [one for one in verdicts if one["set"] == name]
            for name in ("judged", "calibration", "validation")
        }
        judged = sets["judged"]
        lines = [
            f"**{_count(judged, 'met')} of {len(judged)} judged claims are met within 25 %, "
            f"{_count(judged, 'strict')} strictly.** Of the {len(sets['calibration'])} claims of "
            "the calibration set, which are not judged, "
            f"{_count(sets['calibration'], 'met')} are met, "
            f"{_count(sets['calibration'], 'strict')} strictly.",
            "",
        ]
        for title, name in (("Judged claims", "judged"), ("Calibration set", "calibration")):
            lines += [title, "-" * len(title), ""]
            lines += tables.lines(CLAIM, sets[name], ":widths: 14 28 10 10 6 6 6 36")
        lines += ["Validation set", "--------------", "", *_validation(sets["validation"])]
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
    app.add_directive("figures-sensitivity", Sensitivity)
    return {"parallel_read_safe": True}
