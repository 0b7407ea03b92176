# SPDX-License-Identifier: Apache-2.0
"""A4, figures 13a and 13b: each tenant's performance under A4, and how the means are judged."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import ClaimFinding, Row

# Cores of each tenant, by which a mean is weighted, in the order of the original.
HIGH_13A = {"fastclick": 4, "redis": 1, "ycsb": 1, "x264": 1, "parest": 1, "xalancbmk": 1, "lbm": 1}
LOW_13A = {"ffsb": 4, "omnetpp": 1, "exchange2": 1, "bwaves": 1}
HIGH_13B = {"fastclick": 4, "light": 1, "mcf": 1, "blender": 1}
LOW_13B = {
    "heavy": 3, "store": 2, "x264": 1, "parest": 1, "fotonik3d": 1, "lbm": 1, "bwaves": 1,
}  # fmt: skip
# "Without notably compromising" tenants of low priority has no number: chosen, percent.
NOTABLE = 5.0


def performance(rows: Sequence[Row]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return each tenant's performance under A4 over that without, one ratio a seed."""
    bases = {row["seed"]: row for row in rows if row["strategy"] == "unmanaged"}
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["strategy"] != "a4":
            continue
        for column in row:
            name = column.removesuffix("_ipc").removesuffix("_latency_us")
            if name == column:
                continue
            before, now = summary.number(bases[row["seed"]], column), summary.number(row, column)
            inverse = column.endswith("_latency_us")
            found.setdefault(name, []).append(before / now if inverse else now / before)
    return {"a4": found}


def judge_13a(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the gain of high priority, and that low priority loses nothing notable."""
    yield from _judge("a4-13a", rows, HIGH_13A, LOW_13A)


def judge_13b(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the same where low priority is heavy."""
    yield from _judge("a4-13b", rows, HIGH_13B, LOW_13B)


def _judge(
    figure: str, rows: Sequence[Row], high: Mapping[str, int], low: Mapping[str, int]
) -> Iterator[ClaimFinding]:
    each = performance(rows)["a4"]
    gains = {name: 100 * (statistics.median(ratios) - 1) for name, ratios in each.items()}
    waits = {
        str(strategy): latency
        for (strategy,), latency in summary.medians(
            rows, ("strategy",), "fastclick_latency_us"
        ).items()
    }
    seen = (
        f"FastClick's queues wait {waits['unmanaged']:.0f} us in the mean without A4, "
        f"{waits['a4']:.0f} us with it"
    )
    for part, weights, text in (("hpw", high, seen), ("lpw", low, "")):
        mean = statistics.fmean((gains[name] for name in weights), weights.values())
        listing = ", ".join(f"{name} {gains[name]:+.1f} %" for name in weights)
        reason = f"{listing}; {text}" if text else listing
        if part == "hpw":
            yield ClaimFinding(f"{figure}-hpw", mean, reason)
        else:
            yield ClaimFinding(f"{figure}-lpw", mean > -NOTABLE, f"mean {mean:+.1f} %: {reason}")
