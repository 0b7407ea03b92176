# SPDX-License-Identifier: Apache-2.0
"""What the quick start's guests did with the agent, beside the same seconds without the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

Workload = Mapping[str, Any]
"""A workload's results, in the form of ``iat-nova simulate run -f json``."""

LOSS = 0.005  # share of the offered packets; less is not shown


def lines(
    with_agent: str, without: str, critical: Sequence[str], rest: Sequence[str]
) -> list[str] | None:
    """Return the gain of each guest in work, as two lines for a terminal.

    `with_agent`, `without`: the results of both runs, JSON texts with ``seconds`` and
    ``workloads``. Work is packets of network guests and memory accesses of other guests. `critical`
    and `rest` name the guests in order. None if the runs do not have the same length: the agent
    was stopped early.
    """
    ours, theirs = json.loads(with_agent), json.loads(without)
    if round(ours["seconds"]) != round(theirs["seconds"]):
        return None
    now = {one["name"]: one for one in ours["workloads"]}
    before = {one["name"]: one for one in theirs["workloads"]}
    return [
        f"{kind}: " + ", ".join(_gain(name, now[name], before[name]) for name in names)
        for kind, names in (("critical", critical), ("best effort", rest))
    ]


def _gain(name: str, now: Workload, before: Workload) -> str:
    """Return a guest's gain in work, with its loss of packets in both runs."""
    gain = now["work_per_s"] / before["work_per_s"] - 1.0
    change = f"{gain:+.0%}" if round(gain, 2) else "+0%"
    if max(now["loss"], before["loss"]) < LOSS:
        return f"{name} {change}"
    return f"{name} {change} (packets lost: {before['loss']:.0%} -> {now['loss']:.0%})"
