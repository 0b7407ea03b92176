# SPDX-License-Identifier: Apache-2.0
"""The directive that shows what `iat-nova simulate compare --all` wrote, as it wrote it."""

import csv
import pathlib
import statistics

import tables
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

FOLDER = pathlib.Path(__file__).parents[1] / "tournament"
TIE, CONTENDED, FLOOR = 0.01, 1.05, 0.95


def _rows(name):
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _number(text):
    return float(text) if text else None


def _table(header, rows, widths):
    return tables.plain(header, rows, f":widths: {widths}")


def _geometric(values):
    found = [value for value in values if value is not None]
    if not found:
        return "\\-"
    return f"{statistics.geometric_mean(found):.3f}" if all(found) else "0"


def _cell(one):
    value = _number(one["pc_performance"])
    if value is None:
        return "\\-"
    best = _number(one["pc_of_best"]) >= 1 - TIE
    return f"**{value:.3f}**" if best else f"{value:.3f}"


def _means(by, scenarios, strategies):
    """Yield the rows below the scenarios: means, of all and of those that tell strategies apart."""
    worth = {key: _number(one["pc_performance"]) for key, one in by.items()}

    def spread(scenario):
        values = [v for v in (worth[scenario, name] for name in strategies) if v]
        return max(values) / min(values) if values else 1.0

    contended = [one for one in scenarios if spread(one) >= CONTENDED]
    for title, chosen in (("all", scenarios), ("contended", contended)):
        means = (_geometric(worth[one, name] for one in chosen) for name in strategies)
        yield (f"*geometric mean, {title} ({len(chosen)})*", *means)


def _floors(strategies, against, priority=None):
    """Yield for each strategy how many tenants fall below the floor, and who falls deepest."""
    seen = {}
    for row in _rows("overview-tenants.csv"):
        value = _number(row["related"])
        if value is not None and priority in (None, row["priority"]):
            seen.setdefault((row["strategy"], row["scenario"], row["tenant"]), []).append(value)
    medians = {key: statistics.median(values) for key, values in seen.items()}
    base = {key[1:]: value for key, value in medians.items() if key[0] == against}
    for name in strategies:
        shares = {
            key[1:]: value / base[key[1:]]
            for key, value in medians.items()
            if key[0] == name and base.get(key[1:])
        }
        if shares:
            (scenario, tenant), least = min(shares.items(), key=lambda item: item[1])
            below = sum(value < FLOOR for value in shares.values())
            yield name, f"{below} of {len(shares)}", f"{least:.3f}", f"{tenant} in {scenario}"


class Tournament(Directive):
    """Each scenario under each strategy, the means, and who falls below what it might have."""

    def run(self):
        by = {(one["scenario"], one["strategy"]): one for one in _rows("overview-standings.csv")}
        scenarios = list(dict.fromkeys(scenario for scenario, _ in by))
        strategies = list(dict.fromkeys(name for _, name in by))
        seeds = next(iter(by.values()))["seeds"]
        lines = [f"Medians of {len(scenarios)} scenarios; seeds of each: {seeds}.", ""]
        rows = [(f"``{one}``", *(_cell(by[one, n]) for n in strategies)) for one in scenarios]
        rows += _means(by, scenarios, strategies)
        wins = (sum(_cell(by[one, name])[0] == "*" for one in scenarios) for name in strategies)
        rows.append(("*won or tied*", *wins))
        widths = " ".join(["28", *("12" for _ in strategies)])
        lines += ["PC performance", "--------------", "", *_table(("", *strategies), rows, widths)]
        be = {key: _number(one["be_throughput"]) for key, one in by.items()}
        rest = [
            (
                name,
                _geometric(be[one, name] for one in scenarios),
                *(
                    f"{statistics.median(float(by[one, name][what]) for one in scenarios):.1f}"
                    for what in ("way_changes_per_minute", "settle_s")
                ),
            )
            for name in strategies
        ]
        lines += ["The rest", "--------", ""]
        header = ("", "BE, geometric mean", "way changes a minute, median", "settling s, median")
        lines += _table(header, rest, "25 25 25 25")
        lines += ["Against a static partition", "--------------------------", ""]
        lines += [f"Tenants with less than {FLOOR} of what they have under ``baseline``.", ""]
        header = ("", "tenants below", "least", "who")
        lines += _table(header, _floors(strategies, "baseline"), "20 20 15 45")
        lines += ["Critical tenants one by one", "---------------------------", ""]
        lines += [f"Those with less than {FLOOR} of what they have without an agent.", ""]
        lines += _table(header, _floors(strategies, "unmanaged", "PC"), "20 20 15 45")
        lines += [".. image:: tournament/overview.svg", "   :width: 100%"]
        lines += ["   :alt: every scenario under every strategy", ""]
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="tournament"), node)
        return node.children


def setup(app):
    """Add the directive."""
    app.add_directive("tournament", Tournament)
    return {"parallel_read_safe": True}
