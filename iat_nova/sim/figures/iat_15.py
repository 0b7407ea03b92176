# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 15: times the real loop on this machine, and judges it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iat_nova.bench import loop as bench
from iat_nova.hardware.api import HardwareError
from iat_nova.sim.figures import summary
from iat_nova.sim.figures.api import REFUSED, Finding, Point, Row
from iat_nova.sim.figures.definition import Definition

ITERATIONS = 300


def measure(definition: Definition, point: Point) -> Row:
    """Time the loop; medians over its iterations. Where perf is shut, the reason only."""
    tenants, cores = int(point["tenants"] or 0), int(point["cores_per_tenant"] or 0)
    try:
        (row,) = bench.rows(
            (tenants,), (cores,), (str(point["phase"]),), ITERATIONS, strategy="iat"
        )
    except HardwareError as error:
        return {REFUSED: str(error)}
    return {
        "iteration_us": round(row.overhead_us + row.floor_us + row.write_us, 1),
        "read_us": row.read_us,
        "decide_us": row.decide_us,
        "layout_us": row.layout_us,
        "record_us": row.record_us,
    }


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge the slowest case with the most tenants."""
    keys = ("tenants", "cores_per_tenant", "phase")
    found = summary.medians(rows, keys, "iteration_us")
    read = summary.medians(rows, keys, "read_us")
    least, most = min(key[0] for key in found), max(key[0] for key in found)
    slowest = max((key for key in found if key[0] == most), key=lambda key: found[key])
    yield Finding(
        "iat-15",
        found[slowest],
        f"{most} tenants of {slowest[1]} cores, {slowest[2]}: {found[slowest]:.0f} us, of which "
        f"{read[slowest]:.0f} us read counters; {least} tenant: {found[least, *slowest[1:]]:.0f} "
        "us. Medians",
    )
