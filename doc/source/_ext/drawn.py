# SPDX-License-Identifier: Apache-2.0
"""Directives that show what `iat-nova simulate` found on random hosts, as it was written."""

import json
import pathlib
import statistics

import drawn_records
import tables
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

from iat_nova.experiments.compare import ranks

RECORD = pathlib.Path(__file__).parents[1] / "drawn" / "bound.json"
SHARES = (0.01, 0.05)
NOTICED = 0.01  # gain or loss of a host that counts
PARTS = ("lowest", "middle", "highest")  # thirds of the hosts, by the estimate


def percent(share):
    """Return a share as text, such as `1.2 %`."""
    return f"{100 * share:.1f} %"


STANDING = (
    ("Strategy", lambda row: f"``{row['strategy']}``"),
    ("Critical guests, mean", "critical"),
    ("Median", "critical-median"),
    (f"Hosts that gain / lose over {100 * drawn_records.NOTICEABLE:.0f} %", "better-worse"),
    (f"Critical guests below {drawn_records.LEAST}", "below"),
    ("Critical guest that loses most", "critical-least"),
    ("Best effort, mean", "best-effort"),
    ("Best-effort guest that loses most", "best-effort-least"),
)
HOST = (("Host", 0), ("Gain of critical guests", lambda row: percent(row[1])))
THIRD = (
    ("Estimate", lambda row: f"{row[0]} third, up to {percent(max(row[1]))}"),
    ("Hosts", lambda row: len(row[2])),
    ("Mean estimate", lambda row: percent(statistics.fmean(row[1]))),
    ("Mean gain that came", lambda row: percent(statistics.fmean(row[2]))),
    (f"Gained over {100 * NOTICED:.0f} %", lambda row: sum(one > NOTICED for one in row[2])),
    (f"Lost over {100 * NOTICED:.0f} %", lambda row: sum(one < -NOTICED for one in row[2])),
)


def gains():
    """Return by host what the best layout gains over a host without an agent, as a share.

    Only layouts count that lack nothing of what best-effort guests must keep.
    """
    found = {}
    for row in json.loads(RECORD.read_text(encoding="utf-8")):
        pc = statistics.median(row["pc_performance"])
        if row["layout"] == "unmanaged":
            found[row["scenario"]] = (pc, pc)
        elif row["lack"] >= 0:
            before, best = found[row["scenario"]]
            found[row["scenario"]] = (before, max(best, pc))
    return {host: best / before - 1 for host, (before, best) in found.items()}


class DrawnStrategies(Directive):
    """How guests fare under each strategy on the random hosts, against no agent."""

    def run(self):
        standings = [
            drawn_records.standing(strategy)
            for strategy in dict.fromkeys(strategy for strategy, _ in drawn_records.shares())
        ]
        lines = tables.lines(STANDING, standings)
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="drawn"), node)
        return node.children


class DrawnHosts(Directive):
    """On what share of random hosts a layout gains anything, and what it gains on each."""

    def run(self):
        found = gains()
        told = " and ".join(
            f"more than {share:.0%} on {sum(gain > share for gain in found.values())}".replace(
                "%", " %"
            )
            for share in SHARES
        )
        lines = [
            f"**Of {len(found)} random hosts the best layout found gains {told}.** The median gain "
            f"is {100 * statistics.median(found.values()):.1f} %, the largest "
            f"{100 * max(found.values()):.1f} %.",
            "",
            *tables.lines(HOST, found.items()),
        ]
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="drawn"), node)
        return node.children


class Worth(Directive):
    """How well the estimate of observe mode puts hosts in the order of what enforcing brought."""

    def run(self):
        drawn, scenarios = (
            drawn_records.estimates(drawn_records.WORTH),
            drawn_records.estimates(drawn_records.WORTH_SCENARIOS),
        )
        few = sum(abs(came) <= NOTICED for _, came in drawn)
        lines = [
            f"**On {len(drawn)} random hosts the rank correlation is "
            f"{ranks.correlation(drawn):.2f}, on the {len(scenarios)} scenarios "
            f"{ranks.correlation(scenarios):.2f}.** {few} random hosts neither gained nor lost "
            f"{percent(NOTICED)}. Random hosts, by thirds of the estimate:",
            "",
        ]
        thirds = zip(PARTS, drawn_records.parts(drawn, len(PARTS)), strict=True)
        lines += tables.lines(THIRD, ((name, *pairs) for name, pairs in thirds))
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList(lines, source="drawn"), node)
        return node.children


def setup(app):
    """Add the directives."""
    app.add_directive("drawn-hosts", DrawnHosts)
    app.add_directive("estimate-of-gain", Worth)
    app.add_directive("drawn-strategies", DrawnStrategies)
    return {"parallel_read_safe": True}
