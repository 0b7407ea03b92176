# SPDX-License-Identifier: Apache-2.0
"""Directives that draw from the code, so that the pages cannot say anything else than it does."""

import csv
import re

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.ext.graphviz import graphviz
from sphinx.util.nodes import nested_parse_with_titles

from iat_nova.model import reasons
from iat_nova.nova import extra_specs
from iat_nova.policy.reference import reference
from iat_nova.report import metrics_reference
from iat_nova.strategies.iat import fsm
from iat_nova.strategies.iat.state import FsmState


class FsmDiagram(Directive):
    """The state machine of `iat_nova.strategies.iat.fsm.RULES`: one arrow a numbered transition."""

    def run(self):
        names = {state: state.name for state in FsmState}
        lines = ["digraph fsm {", "rankdir=LR; bgcolor=transparent;"]
        lines += ['node [shape=box, style="rounded,filled", fillcolor="#eef4fa"];']
        lines += ["node [fontname=Helvetica];"]
        lines += ["edge [fontname=Helvetica, fontsize=11];"]
        lines += [f'{names[state]} [label="{state.value}"];' for state in FsmState]
        lines += [
            f'{names[rule.source]} -> {names[rule.target]} [label="{number}"];'
            for number, rule in sorted(fsm.NUMBERED.items())
        ]
        node = graphviz()
        node["code"] = "\n".join([*lines, "}"])
        node["options"] = {}
        node["alt"] = "The five states and their twelve transitions, numbered as in the paper."
        return [node]


class FsmTable(Directive):
    """The rows of the state machine, in the order in which they are tried."""

    def run(self):
        rows = [".. list-table::", "   :header-rows: 1", "   :widths: 16 8 16 60", ""]
        rows += ["   * - In", "     - Nr", "     - To", "     - When (first match wins)"]
        for rule in fsm.RULES:
            number = "" if rule.number is None else str(rule.number)
            target = "*stay*" if rule.target is rule.source else rule.target.value
            rows += [
                f"   * - {rule.source.value}",
                f"     - {number}".rstrip(),
                f"     - {target}",
                f"     - {rule.text}",
            ]
        node = nodes.container()
        self.state.nested_parse(StringList(rows, source="fsm.py"), self.content_offset, node)
        return node.children


class PolicyReference(Directive):
    """Every key of the policy with its meaning, default and unit, from the schema."""

    def run(self):
        node = nodes.container()
        lines = StringList(reference().splitlines(), source="policy/schema.py")
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


class ReasonCodes(Directive):
    """The codes of reasons with their meaning, from the list the agent uses."""

    def run(self):
        node = nodes.container()
        lines = StringList(reasons.reference().splitlines(), source="reasons.py")
        self.state.nested_parse(lines, self.content_offset, node)
        return node.children


class BenchLoop(Directive):
    """What `iat-nova bench loop -f csv` printed, with headings short enough for a page."""

    def run(self):
        env = self.state.document.settings.env
        name, path = env.relfn2path("output/bench-loop.csv")
        env.note_dependency(name)
        with open(path, encoding="utf-8", newline="") as file:
            headings, *rows = csv.reader(file)
        short = [re.sub(r"_us$|_per_tenant$", "", name).replace("_", " ") for name in headings]
        lines = [".. list-table::", "   :header-rows: 1", ""]
        for row in (short, *rows):
            marks = ["*", *" " * (len(row) - 1)]
            lines += [f"   {mark} - {cell}" for mark, cell in zip(marks, row, strict=True)]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, path), self.content_offset, node)
        return node.children


def setup(app):
    app.add_directive("iat-bench-loop", BenchLoop)
    app.add_directive("iat-extra-specs", ExtraSpecs)
    app.add_directive("iat-metrics", MetricsReference)
    app.add_directive("iat-reason-codes", ReasonCodes)
    app.add_directive("iat-policy-reference", PolicyReference)
    app.add_directive("iat-fsm-diagram", FsmDiagram)
    app.add_directive("iat-fsm-table", FsmTable)
    return {"parallel_read_safe": True}
