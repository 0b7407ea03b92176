# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 15: time the real loop on this machine, and judge the times."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import NOT_MEASURED, REFUSED, ClaimFinding, Point, Row
from iat_nova.experiments.papers.definition import Definition
from iat_nova.experiments.times import loop as bench
from iat_nova.hardware.api import HardwareError
from iat_nova.report import sentences

ITERATIONS = 300
CORES = 18  # of the paper's CPU
UNSTABLE = "unstable"


def measure(definition: Definition, point: Point) -> Row:
    """Time the loop; medians over the iterations. If perf is not allowed, only the reason."""
    tenants, cores = int(point["tenants"] or 0), int(point["cores_per_tenant"] or 0)
    try:
        (row,) = bench.rows(
            (tenants,), (cores,), (str(point["phase"]),), ITERATIONS, strategy="iat"
        )
    except HardwareError as error:
        return {REFUSED: sentences.text(error.message)}
    return {
        "iteration_us": round(row.overhead_us + row.floor_us + row.write_us, 1),
        "read_us": row.read_us,
        "decide_us": row.decide_us,
        "layout_us": row.layout_us,
        "record_us": row.record_us,
    }


def judge(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the cases with enough cores on the paper's CPU.

    The claims on orders are judged on the unstable loop, the more expensive loop in the paper.
    """
    keys = ("tenants", "cores_per_tenant", "phase")
    found = summary.medians(rows, keys, "iteration_us")
    read = summary.medians(rows, keys, "read_us")
    shown = {key: time for key, time in found.items() if key[0] * key[1] <= CORES}
    slowest = max(shown, key=lambda key: shown[key])
    yield ClaimFinding(
        "iat-15",
        shown[slowest],
        f"slowest: {_case(slowest)}: {shown[slowest]:.0f} us, of which {read[slowest]:.0f} us read "
        f"counters. Medians. 16 tenants of 2 cores, more than the paper's {CORES} cores: "
        f"{max(found.values()):.0f} us",
    )
    unstable = {key[:2]: time for key, time in shown.items() if key[2] == UNSTABLE}
    least, most = min(unstable), max(unstable)
    factor = most[0] * most[1] / (least[0] * least[1])
    yield ClaimFinding(
        "iat-15-cores",
        all(
            unstable[many] / unstable[few] < many[0] / few[0]
            for few, many in itertools.combinations(sorted(unstable), 2)
            if few[1] == many[1] and few[0] < many[0]
        ),
        f"{factor:g} times the cores take {unstable[most] / unstable[least]:.1f} times the time",
    )
    pairs = [
        ((tenants, 2), (2 * tenants, 1))
        for tenants, cores in unstable
        if cores == 2 and (2 * tenants, 1) in unstable
    ]
    yield ClaimFinding(
        "iat-15-tenants",
        all(unstable[few] < unstable[many] for few, many in pairs),
        "; ".join(
            f"{few[0]} tenants of 2 {unstable[few]:.0f} us, {many[0]} of 1 {unstable[many]:.0f} us"
            for few, many in pairs
        ),
    )
    share = read[slowest] / found[slowest]
    yield ClaimFinding("iat-15-poll", share > 0.5, f"{_case(slowest)}: {share:.0%} read counters")
    yield ClaimFinding("iat-15-xmem", None, NOT_MEASURED)


def _case(key: tuple[Any, ...]) -> str:
    tenants, cores, phase = key
    return f"{tenants} tenants of {cores} core{'s' if cores > 1 else ''}, {phase}"
