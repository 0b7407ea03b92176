# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 15: what an iteration of the real loop takes on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iat_nova.bench import loop as bench
from iat_nova.hardware.api import HardwareError
from iat_nova.sim.figures import summary
from iat_nova.sim.figures.api import REFUSED, Figure, Finding, Point, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

TENANTS = (1, 2, 4, 8, 16)
LIMIT_US = 800.0
ITERATIONS = 300


def points(seeds: int) -> list[Point]:
    """List each number of tenants, width and phase; a seed is a repetition."""
    return [
        {"tenants": tenants, "cores_per_tenant": cores, "phase": phase, "seed": seed}
        for tenants in TENANTS
        for cores in bench.CORES
        for phase in bench.PHASES
        for seed in range(1, seeds + 1)
    ]


def measure(point: Point) -> Row:
    """Time the loop; medians over its iterations. Where perf is shut only the reason is told."""
    tenants, cores = int(point["tenants"] or 0), int(point["cores_per_tenant"] or 0)
    try:
        (row,) = bench.rows((tenants,), (cores,), (str(point["phase"]),), ITERATIONS)
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
    """Judge the slowest case with 16 tenants."""
    if refused := _refusal(rows):
        yield Finding("iat-15", None, f"not measured: {refused}")
        return
    found = summary.medians(rows, ("tenants", "cores_per_tenant", "phase"), "iteration_us")
    read = summary.medians(rows, ("tenants", "cores_per_tenant", "phase"), "read_us")
    most = TENANTS[-1]
    slowest = max((key for key in found if key[0] == most), key=lambda key: found[key])
    least = found[(TENANTS[0], *slowest[1:])]
    yield Finding(
        "iat-15",
        found[slowest],
        f"{most} tenants of {slowest[1]} cores, {slowest[2]}: {found[slowest]:.0f} us, of which "
        f"{read[slowest]:.0f} us read counters; {TENANTS[0]} tenant: {least:.0f} us. Medians",
    )


def _refusal(rows: Sequence[Row]) -> str | None:
    """Return why a point could not be measured, None when all were."""
    return next((str(row[REFUSED]) for row in rows if REFUSED in row), None)


def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw the time by tenants, a line for each width and phase."""
    if _refusal(rows):
        canvas.text(0.5, 0.5, "not measured", ha="center", va="center")
        return
    found = summary.medians(rows, ("tenants", "cores_per_tenant", "phase"), "iteration_us")
    axes = canvas.subplots()
    axes.axhspan(0, LIMIT_US, color="tab:orange", alpha=0.2, label="published")
    for cores in bench.CORES:
        for phase in bench.PHASES:
            ys = [found[tenants, cores, phase] for tenants in TENANTS]
            axes.plot(TENANTS, ys, marker="o", label=f"{cores} core(s) each, {phase}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(TENANTS, [str(tenants) for tenants in TENANTS])
    axes.set_xlabel("tenants")
    axes.set_ylabel("an iteration (us)")
    axes.legend()


FIGURE = Figure(
    name="iat-15",
    title="The loop's time an iteration, by tenants",
    source="IAT (ISCA 2021), figure 15",
    setup=(
        f"The real loop as in `iat-nova bench loop`, on this machine: {ITERATIONS} iterations a "
        "case, counters through perf (where the machine has fewer processors than the tenants, "
        "several groups count on one), masks written to hardware in memory."
    ),
    points=points,
    measure=measure,
    judge=judge,
    draw=draw,
    alone=True,
)
