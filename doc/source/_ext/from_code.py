# SPDX-License-Identifier: Apache-2.0
"""Directives that draw from the code, so that the pages cannot say anything else than it does."""

import csv
import importlib
import inspect
import re

import metrics_reference
import policy_reference
import scenario_reference
import tables
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.ext.graphviz import graphviz
from sphinx.util.nodes import nested_parse_with_titles

from iat_nova.model import Priority
from iat_nova.nova import extra_specs
from iat_nova.report import sentences
from iat_nova.strategies import outlook
from iat_nova.strategies.iat import fsm, own_demand
from iat_nova.strategies.iat.state import FsmState
from iat_nova.strategies.pollute_buffer import judge

STYLE = [
    "rankdir=LR; bgcolor=transparent;",
    'node [shape=box, style="rounded,filled", fillcolor="#eef4fa", fontname=Helvetica];',
    "edge [fontname=Helvetica, fontsize=11];",
]


class FsmDiagram(Directive):
    """The state machine of `iat_nova.strategies.iat.fsm.RULES`: one arrow a numbered transition."""

    states = FsmState
    alt = "The five states and their twelve transitions, numbered as in the paper."

    def arrows(self):
        """Return each arrow: from, to, its text."""
        return [(rule.source, rule.target, number) for number, rule in sorted(fsm.NUMBERED.items())]

    def run(self):
        lines = ["digraph machine {", *STYLE]
        lines += [f'{state.name} [label="{state.value}"];' for state in self.states]
        lines += [
            f'{source.name} -> {target.name} [label="{text}"];'
            for source, target, text in self.arrows()
        ]
        node = graphviz()
        node["code"] = "\n".join([*lines, "}"])
        node["options"] = {}
        node["alt"] = self.alt
        return [node]


class OwnDemandDiagram(FsmDiagram):
    """The table of `own_demand.RULES`: one arrow a pair of standings, with the rows' numbers."""

    states = own_demand.DemandStanding
    alt = "The five standings of a tenant with its own demand; the numbers are those of the rows."

    def arrows(self):
        """Return each arrow: from, to, the rows that lead there."""
        rows = {}
        for number, rule in enumerate(own_demand.RULES, 1):
            if rule.source is not rule.target or rule.do is not own_demand.Do.NOTHING:
                rows.setdefault((rule.source, rule.target), []).append(str(number))
        return [(*ends, ", ".join(numbers)) for ends, numbers in rows.items()]


class FsmTable(Directive):
    """The rows of the state machine, in the order in which they are tried."""

    widths = "16 8 16 60"
    head = ("In", "Nr", "To", "When (first match wins)")

    def rows(self):
        """Yield the cells of each row."""
        for rule in fsm.RULES:
            number = "" if rule.number is None else str(rule.number)
            target = "*stay*" if rule.target is rule.source else rule.target.value
            yield rule.source.value, number, target, sentences.SENTENCES[rule.meaning]

    def run(self):
        lines = tables.plain(self.head, self.rows(), f":widths: {self.widths}")
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source="RULES"), self.content_offset, node)
        return node.children


class OwnDemandTable(FsmTable):
    """The rows of a tenant's own demand, in the order in which they are tried."""

    widths = "12 5 12 12 7 52"
    head = ("In", "Nr", "To", "Does", "Ends", "When (first match wins)")

    def rows(self):
        """Yield the cells of each row."""
        for number, rule in enumerate(own_demand.RULES, 1):
            target = "*stay*" if rule.target is rule.source else rule.target.value
            does = "" if rule.do is own_demand.Do.NOTHING else rule.do.value
            ends = "yes" if rule.ends else ""
            yield rule.source.value, str(number), target, does, ends, rule.text


class PolicyReference(Directive):
    """Every key of the policy with its meaning, default and unit, from the schema."""

    def run(self):
        node = nodes.container()
        lines = StringList(policy_reference.reference().splitlines(), source="policy/schema.py")
        nested_parse_with_titles(self.state, lines, node)
        return node.children


class ScenarioReference(Directive):
    """Every key of a scenario with its meaning, default and unit, from the schema."""

    def run(self):
        node = nodes.container()
        lines = StringList(scenario_reference.reference().splitlines(), "scenario.schema.yaml")
        nested_parse_with_titles(self.state, lines, node)
        return node.children


class ExtraSpecs(Directive):
    """The flavor extra specs with what they take, from where the agent and Nova read them."""

    def run(self):
        lines = []
        for key in extra_specs.KEYS:
            lines += [f"``{key.name}``", f"   {key.description} It takes {key.allowed}.", ""]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, "extra_specs.py"), self.content_offset, node)
        return node.children


class MetricsReference(Directive):
    """Every metric with its kind, labels and meaning, from the table that serves them."""

    def run(self):
        node = nodes.container()
        lines = StringList(metrics_reference.reference().splitlines(), source="metrics.py")
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


def _exhausted(code):
    if code in outlook.EXHAUSTED:
        return "yes"
    return "not known" if code in outlook.UNDECIDED else "no"


class OutlookCodes(Directive):
    """The codes of a strategy's outlook with their meaning, from the list the agent uses."""

    def run(self):
        node = nodes.container()
        columns = (
            ("Code", lambda row: f"``{row[0]}``"),
            ("Exhausted", lambda row: _exhausted(row[0])),
            ("Meaning", 1),
        )
        lines = tables.lines(columns, outlook.MEANINGS.items(), ":widths: 20 14 66")
        self.state.nested_parse(StringList(lines, "outlook.py"), self.content_offset, node)
        return node.children


CONSTANT = re.compile(r"^([A-Z][A-Z_]*) = (-?[\d.]+(?:e\d+)?)  # (.+)$", re.MULTILINE)


class Constants(Directive):
    """The commented constants of modules of `iat_nova.strategies`, one module a line."""

    has_content = True

    def run(self):
        names = filter(None, (line.strip() for line in self.content))
        modules = (importlib.import_module(f"iat_nova.strategies.{name}") for name in names)
        found = [one for module in modules for one in CONSTANT.findall(inspect.getsource(module))]
        columns = (
            ("Constant", lambda row: f"``{row[0]}``"),
            ("Value", 1),
            ("Meaning", lambda row: re.sub(r"`([^`]+)`", r"``\1``", row[2])),
        )
        lines = tables.lines(columns, found, ":widths: 24 12 64")
        node = nodes.container()
        self.state.nested_parse(StringList(lines, "strategies"), self.content_offset, node)
        return node.children


def weight(name, rawtext, text, lineno, inliner, options=None, content=()):
    """Return the weight of a priority in the default strategy."""
    return [nodes.Text(f"{judge.WEIGHTS[Priority(text)]:g}")], []


class BenchLoop(Directive):
    """What `iat-nova bench loop -f csv` printed, with headings short enough for a page."""

    def run(self):
        env = self.state.document.settings.env
        name, path = env.relfn2path("output/bench-loop.csv")
        env.note_dependency(name)
        with open(path, encoding="utf-8", newline="") as file:
            headings, *rows = csv.reader(file)
        short = [re.sub(r"_us$|_per_tenant$", "", name).replace("_", " ") for name in headings]
        lines = tables.plain(short, rows)
        node = nodes.container()
        self.state.nested_parse(StringList(lines, path), self.content_offset, node)
        return node.children


def setup(app):
    app.add_directive("iat-bench-loop", BenchLoop)
    app.add_directive("iat-constants", Constants)
    app.add_role("iat-weight", weight)
    app.add_directive("iat-extra-specs", ExtraSpecs)
    app.add_directive("iat-metrics", MetricsReference)
    app.add_directive("iat-outlook-codes", OutlookCodes)
    app.add_directive("iat-policy-reference", PolicyReference)
    app.add_directive("iat-scenario-reference", ScenarioReference)
    app.add_directive("iat-fsm-diagram", FsmDiagram)
    app.add_directive("iat-fsm-table", FsmTable)
    app.add_directive("iat-own-demand-diagram", OwnDemandDiagram)
    app.add_directive("iat-own-demand-table", OwnDemandTable)
    return {"parallel_read_safe": True}
