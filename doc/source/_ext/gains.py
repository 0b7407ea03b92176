# SPDX-License-Identifier: Apache-2.0
"""What the agent gains and costs, counted from recorded outputs: a table and a role.

The directive ``gain-and-cost`` shows the table, which README.rst repeats for readers of the
repository. The role ``recorded`` writes one number of `facts` into a sentence.
"""

import csv
import functools
import json
import pathlib
import re
import statistics

import drawn_records
import tables
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

PAGES = pathlib.Path(__file__).parents[1]
STANDINGS = PAGES / "tournament" / "overview-standings.csv"
LOOP = PAGES / "operator" / "output" / "bench-loop.csv"
VERDICTS = PAGES / "figures" / "verdicts.json"
QUICKSTART = PAGES / "output" / "quickstart.txt"
HISTORY = PAGES / "output" / "bench-history.txt"
MEMORY_TEST = PAGES.parents[1] / "tests" / "functional" / "test_agent.py"
AGENT = "pollute-buffer"
NOTICEABLE = 0.01
"""Smallest difference of performance that counts, as a share."""


def _rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _standings():
    """Return critical and best-effort figures by strategy, then by scenario."""
    found = {}
    for row in _rows(STANDINGS):
        values = row["pc_performance"], row["be_throughput"]
        found.setdefault(row["strategy"], {})[row["scenario"]] = [
            float(value) if value else None for value in values
        ]
    return found


def _mean(values):
    return statistics.geometric_mean(value for value in values if value is not None)


def _quickstart():
    """Return DDIO's ways in the quick start: at first, most and last."""
    maps = re.findall(r"^ +[\d.]+  [#.]+ .* ([.~]+)$", QUICKSTART.read_text("utf-8"), re.MULTILINE)
    ways = [one.count("~") for one in maps]
    found = {"first": ways[0], "most": max(ways), "last": ways[-1]}
    return {f"quickstart-ddio-{name}": str(count) for name, count in found.items()}


@functools.cache
def facts():
    """Return every number that pages quote, as text, by its name."""
    standings = _standings()
    without = standings["unmanaged"]
    found = {"scenarios": str(len(without))}
    best = {
        scenario: max(one[scenario][0] or 0.0 for one in standings.values()) for scenario in without
    }
    for strategy, scenarios in standings.items():
        shares = [
            critical / without[scenario][0]
            for scenario, (critical, _) in scenarios.items()
            if critical is not None and without[scenario][0]
        ]
        best_effort = [value for _, value in scenarios.values() if value is not None]
        found |= {
            f"{strategy}-gain": f"{_mean(shares):.3f}",
            f"{strategy}-gain-median": f"{statistics.median(shares):.2f}",
            f"{strategy}-gain-least": f"{min(shares):.2f}",
            f"{strategy}-critical": f"{_mean(value for value, _ in scenarios.values()):.2f}",
            f"{strategy}-best-effort": f"{_mean(best_effort):.2f}",
            f"{strategy}-best-effort-least": f"{min(best_effort):.2f}",
            f"{strategy}-better": str(sum(share > 1 + NOTICEABLE for share in shares)),
            f"{strategy}-worse": str(sum(share < 1 - NOTICEABLE for share in shares)),
            f"{strategy}-near-best": str(
                sum(
                    critical is not None and critical >= (1 - NOTICEABLE) * best[scenario]
                    for scenario, (critical, _) in scenarios.items()
                )
            ),
        }
    drawn = drawn_records.standing(AGENT)
    found |= {f"drawn-{name}": drawn[name] for name in ("best-effort", "best-effort-least")}
    loop = {(row["tenants"], row["cores_per_tenant"], row["phase"]): row for row in _rows(LOOP)}
    for phase in ("stable", "unstable"):
        row = loop["16", "2", phase]
        spent_us = sum(float(row[name]) for name in ("floor_us", "overhead_us", "write_us"))
        found[f"cpu-{phase}"] = f"{spent_us / 1000:.1f}"
    limit = re.search(r"assertLessEqual\(megabytes, (\d+)\)", MEMORY_TEST.read_text("utf-8"))
    days = re.findall(r"^- days: ([\d.]+)$", HISTORY.read_text("utf-8"), re.MULTILINE)
    verdicts = json.loads(VERDICTS.read_text(encoding="utf-8"))
    judged = [verdict for verdict in verdicts if verdict["set"] == "judged"]
    measured = {verdict["claim"]: verdict["measured"] for verdict in verdicts}
    found |= {claim: f"{measured[claim]:.0f}" for claim in ("a4-13a-hpw", "a4-13b-hpw")}
    return (
        found
        | _quickstart()
        | {
            "memory": limit[1],
            "history-days": days[-1],
            "claims-judged": str(len(judged)),
            "claims-within": str(sum(verdict["met"] for verdict in judged)),
            "claims-strict": str(sum(verdict["strict"] for verdict in judged)),
        }
    )


def table():
    """Return the lines of the table, in reStructuredText."""
    values = facts()
    without, found = (drawn_records.standing(strategy) for strategy in ("unmanaged", AGENT))
    time = f"{values['cpu-stable']}-{values['cpu-unstable']} ms"

    def both(name):
        return without[name], found[name]

    rows = (
        (
            f"critical guests of {found['hosts']} random hosts: mean (median)",
            without["critical"],
            f"{found['critical']} ({found['critical-median']})",
        ),
        ("hosts whose critical mean rises / falls over 1 %", "", found["better-worse"]),
        ("worst critical guest", *both("critical-least")),
        (
            "best-effort guests there (worst guest)",
            without["best-effort"],
            f"{found['best-effort']} ({found['best-effort-least']})",
        ),
        (
            f"critical guests of {values['scenarios']} scenarios (median, worst scenario)",
            f"{1:.3f}",
            f"{values[f'{AGENT}-gain']} ({values[f'{AGENT}-gain-median']}, "
            f"{values[f'{AGENT}-gain-least']})",
        ),
        (
            "best-effort guests there (worst scenario)",
            f"{1:.2f}",
            f"{values[f'{AGENT}-best-effort']} ({values[f'{AGENT}-best-effort-least']})",
        ),
        (
            "agent: median iteration, memory (16 tenants, 32 CPUs)",
            "0",
            f"{time} a second, at most {values['memory']} MB",
        ),
    )
    headings = ("Simulated performance, measured cost", "no agent", "iat-nova")
    return tables.plain(headings, rows)


class GainAndCost(Directive):
    """The table of gain and cost."""

    def run(self):
        node = nodes.container()
        lines = StringList(table(), source="gains.py")
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


def recorded(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Return a recorded number, or an error where none has this name."""
    if text not in facts():
        told = inliner.reporter.error(f"no recorded number is called {text}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, told)], [told]
    return [nodes.Text(facts()[text])], []


def setup(app):
    """Add directive and role."""
    app.add_directive("gain-and-cost", GainAndCost)
    app.add_role("recorded", recorded)
    return {"parallel_read_safe": True}
