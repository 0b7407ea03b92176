# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 4: the latent contender, X-Mem on two ways of its own that DDIO uses as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iat_nova.sim.figures import bench, summary
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

SIZES_MB = (4, 8, 16)
MASKS = {"dedicated": "0x00c", "ddio": "0x600"}
WARM_S, RUN_S = 0.1, 0.05
# The packets' size is not known. It sets how much of DDIO's ways the buffers in flight take (2,048
# buffers: those of the receive ring and those sent and not yet reclaimed), so it is calibrated,
# on claim iat-4-thru and on no other.
PACKET_BYTES = 960
_TEXT = """
title: "IAT figure 4: l3fwd and X-Mem"
length: 1s
nics:
  nic0: {{address: "0000:3b:00.0", speed: 40Gb/s}}
workloads:
  l3fwd: {{profile: l3fwd, cpus: [0], nic: nic0}}
  xmem: {{profile: xmem, cpus: [1], working_set: {size}MB}}
masks: {{l3fwd: 0x003, xmem: {mask}}}
traffic:
  l3fwd: {{to: l3fwd, rate: 40Gb/s, packet: {packet}B, flows: 1000000}}
"""


def scenario(size_mb: int, ways: str) -> Scenario:
    """Return the set-up with X-Mem on ``dedicated`` ways or on those of ``ddio``."""
    text = _TEXT.format(size=size_mb, mask=MASKS[ways], packet=PACKET_BYTES)
    return read_scenario(text, f"iat-4-{size_mb}-{ways}", "iat_4.py")


def points(seeds: int) -> list[Point]:
    """List each working set on either pair of ways."""
    return [
        {"working_set_mb": size, "ways": ways, "seed": seed}
        for size in SIZES_MB
        for ways in MASKS
        for seed in range(1, seeds + 1)
    ]


def measure(point: Point) -> Row:
    """Measure X-Mem's rate and latency, from which it takes its own loop's time away."""
    made = scenario(int(point["working_set_mb"] or 0), str(point["ways"]))
    found = bench.steady(made, int(point["seed"] or 0), WARM_S, RUN_S)
    xmem = found.workloads["xmem"]
    return {
        "xmem_accesses_per_s": round(xmem.work_per_s),
        "xmem_latency_cycles": round(xmem.access_cycles or 0.0, 3),
        "ddio_miss_ratio": round(found.ddio_miss_ratio, 5),
        "l3fwd_loss": round(found.workloads["l3fwd"].loss, 5),
    }


def _changes(rows: Sequence[Row], column: str) -> dict[int, float]:
    """Return by how many percent overlap with DDIO changes a column, by working set."""
    found = summary.medians(rows, ("working_set_mb", "ways"), column)
    return {
        size: summary.change(found[size, "ddio"], found[size, "dedicated"]) for size in SIZES_MB
    }


def _listing(changes: dict[int, float]) -> str:
    return "; ".join(f"{size} MB: {percent:+.1f} %" for size, percent in changes.items())


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge the largest changes."""
    rate, latency = (
        _changes(rows, f"xmem_{name}") for name in ("accesses_per_s", "latency_cycles")
    )
    yield Finding("iat-4-thru", min(rate.values()), _listing(rate))
    yield Finding("iat-4-lat", max(latency.values()), _listing(latency))


def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw bars by working set, rate on the left and latency on the right."""
    parts = (
        ("xmem_accesses_per_s", "throughput (M accesses/s)", 1e-6, -26.0),
        ("xmem_latency_cycles", "latency (cycles)", 1.0, 32.0),
    )
    for axes, (column, label, unit, percent) in zip(canvas.subplots(1, 2), parts, strict=True):
        found = summary.medians(rows, ("working_set_mb", "ways"), column)
        alone = [found[size, "dedicated"] * unit for size in SIZES_MB]
        overlap = [found[size, "ddio"] * unit for size in SIZES_MB]
        changes = _changes(rows, column)
        worst = max(range(len(SIZES_MB)), key=lambda at: abs(changes[SIZES_MB[at]]))
        places = range(len(SIZES_MB))
        axes.bar([x - 0.2 for x in places], alone, 0.4, label="dedicated ways")
        axes.bar([x + 0.2 for x in places], overlap, 0.4, label="DDIO's ways")
        summary.published(axes, [worst + 0.2], [alone[worst] * (1 + percent / 100)])
        for x, size in zip(places, SIZES_MB, strict=True):
            axes.annotate(
                f"{changes[size]:+.1f} %", (x + 0.2, overlap[x]), ha="center", va="bottom"
            )
        axes.set_xticks(list(places), [f"{size} MB" for size in SIZES_MB])
        axes.set_xlabel("X-Mem's working set")
        axes.set_ylabel(label)
        axes.legend(loc="best")


FIGURE = Figure(
    name="iat-4",
    title="X-Mem on two dedicated ways and on DDIO's two",
    source="IAT (ISCA 2021), figure 4",
    setup=(
        f"l3fwd on ways 0-1 forwards 40 Gb/s of {PACKET_BYTES} B packets (size calibrated on "
        f"iat-4-thru), 1 M flows; X-Mem reads at random. {RUN_S:g} s measured after {WARM_S:g} s, "
        "not time-compressed."
    ),
    points=points,
    measure=measure,
    judge=judge,
    draw=draw,
)
