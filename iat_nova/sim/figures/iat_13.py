# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 13: RocksDB's latency beside network functions, weighted over operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.sim.figures import claims, consolidation
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.figures.consolidation import NETWORKS, ROCKSDB
from iat_nova.sim.machine import GOLD_6140
from iat_nova.sim.workloads.profiles import PROFILES
from iat_nova.sim.workloads.stores import ROCKSDB_MIXES

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

# Beside Redis with IAT; the claim is the larger one, beside FastClick.
PUBLISHED_REDIS_IAT = 6.4


def points(seeds: int) -> Sequence[Point]:
    """List RocksDB's mixes solo, and beside each network under baseline and IAT."""
    return consolidation.points(NETWORKS, ROCKSDB, seeds)


def measure(point: Point) -> Row:
    """Run one mix; each operation takes its own cycles and what its accesses wait for."""
    network = None if point["network"] == "none" else str(point["network"])
    name = str(point["app"])
    window = consolidation.settled(network, name, str(point["strategy"]), int(point["seed"] or 0))
    access_cycles = window.workloads["app"].access_cycles or 0.0
    stall = access_cycles / PROFILES[name].overlap[0]
    mix = ROCKSDB_MIXES[name.rpartition("-")[2]]
    cycles = sum(share * (op.own_cycles + op.accesses * stall) for op, share in mix.items())
    return {
        "access_cycles": round(access_cycles, 2),
        "weighted_latency_us": round(cycles / GOLD_6140.frequency_hz * 1e6, 5),
        "ddio_lines_per_s": round(window.ddio_hits_per_s + window.ddio_misses_per_s),
    }


def rises(rows: Sequence[Row], network: str, strategy: str) -> Mapping[str, list[float]]:
    """Return by mix the rise of the weighted latency over solo, percent, by run."""
    ratios = consolidation.against_solo(rows, "weighted_latency_us", network, strategy)
    return {app: [100 * (ratio - 1) for ratio in each] for app, each in ratios.items()}


def _top(rows: Sequence[Row], network: str, strategy: str) -> tuple[float, str]:
    found = {app: max(each) for app, each in rises(rows, network, strategy).items()}
    top = max(found, key=lambda app: found[app])
    return found[top], f"{top} beside {network} {found[top]:+.1f} %"


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge the largest rise over mixes and starts, beside each network."""
    redis, fastclick = (_top(rows, network, "baseline") for network in NETWORKS)
    traffic = "; ".join(consolidation.ddio_traffic(rows, network) for network in NETWORKS)
    reason = f"{redis[1]}; {fastclick[1]}; {traffic}"
    yield Finding("iat-13-base", (redis[0], fastclick[0]), reason)
    redis, fastclick = (_top(rows, network, "iat") for network in NETWORKS)
    largest = max(0.0, redis[0], fastclick[0])
    yield Finding("iat-13-iat", largest, f"{redis[1]}; {fastclick[1]}")


def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw a panel a network: the rise by mix, with the published largest ones."""
    panels = canvas.subplots(1, 2, sharey=True)
    baseline = claims.span("iat-13-base")
    iat = (PUBLISHED_REDIS_IAT, claims.span("iat-13-iat")[1])
    for axes, network, *limits in zip(panels, NETWORKS, baseline, iat, strict=True):
        for strategy, limit, colour in zip(
            ("baseline", "IAT"), limits, ("tab:gray", "tab:blue"), strict=True
        ):
            label = f"published, {strategy} at most"
            axes.axhline(limit, color=colour, linestyle=":", label=label)
        groups = {
            strategy: rises(rows, network, strategy) for strategy in consolidation.STRATEGIES[1:]
        }
        consolidation.bars(axes, ROCKSDB, groups)
        axes.set_title(f"beside {network}")
    panels[0].set_ylabel("rise of weighted latency (%)")
    panels[0].legend(fontsize=8)


FIGURE = Figure(
    name="iat-13",
    title="Rise of RocksDB's weighted latency over solo",
    source="Yuan et al., ISCA 2021, figure 13",
    setup=consolidation.SETUP
    + " The types of operation of a mix share one mean latency of an access.",
    points=points,
    measure=measure,
    judge=judge,
    draw=draw,
    compression=consolidation.COMPRESSION,
)
