# SPDX-License-Identifier: Apache-2.0
"""The directive that shows what `iat-nova simulate bound --random` found, as it was written."""

import json
import pathlib
import statistics

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

RECORD = pathlib.Path(__file__).parents[1] / "drawn" / "bound.json"
SHARES = (0.01, 0.05)


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


class DrawnHosts(Directive):
    """On what share of drawn hosts a layout gains anything, and what it gains on each."""

    def run(self):
        found = gains()
        told = " and ".join(
            f"more than {share:.0%} on {sum(gain > share for gain in found.values())}".replace(
                "%", " %"
            )
            for share in SHARES
        )
        lines = [
            f"**Of {len(found)} drawn hosts the best layout found gains {told}.** The median gain "
            f"is {100 * statistics.median(found.values()):.1f} %, the largest "
            f"{100 * max(found.values()):.1f} %.",
            "",
            ".. list-table::",
            "   :header-rows: 1",
            "",
            "   * - Host",
            "     - Gain of critical guests",
        ]
        for host, gain in found.items():
            lines += [f"   * - {host}", f"     - {100 * gain:.1f} %"]
        node = nodes.container()
        nested_parse_with_titles(self.state, StringList([*lines, ""], source="drawn"), node)
        return node.children


def setup(app):
    """Add the directive."""
    app.add_directive("drawn-hosts", DrawnHosts)
    return {"parallel_read_safe": True}
