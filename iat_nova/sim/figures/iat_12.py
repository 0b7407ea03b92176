# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 12: how much slower applications are beside network functions than alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.sim.figures import claims, consolidation
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.figures.consolidation import NETWORKS, ROCKSDB, SPEC, ddio_traffic, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

CLAIMS = {"redis": "iat-12-redis", "fastclick": "iat-12-fc"}


def points(seeds: int) -> Sequence[Point]:
    """List every application solo, and beside each network under baseline and IAT."""
    return consolidation.points(NETWORKS, (*SPEC, *ROCKSDB), seeds)


def measure(point: Point) -> Row:
    """Run one application; its work is a fixed number of instructions, or operations."""
    network = None if point["network"] == "none" else str(point["network"])
    window = consolidation.settled(
        network, str(point["app"]), str(point["strategy"]), int(point["seed"] or 0)
    )
    app = window.workloads["app"]
    return {
        "work_per_s": round(app.work_per_s),
        "instructions_per_cycle": round(app.ipc, 4),
        "misses_per_s": round(app.misses_per_s),
        "ddio_lines_per_s": round(window.ddio_hits_per_s + window.ddio_misses_per_s),
        "memory_gb_per_s": round(window.memory_bytes_per_s / 1e9, 3),
    }


def slow_downs(rows: Sequence[Row], network: str, strategy: str) -> Mapping[str, list[float]]:
    """Return by application how much longer the same work takes than solo, percent, by run."""
    ratios = consolidation.against_solo(rows, "work_per_s", network, strategy)
    return {app: [100 * (1 / ratio - 1) for ratio in each] for app, each in ratios.items()}


def losses(rows: Sequence[Row], strategy: str) -> Mapping[str, list[float]]:
    """Return RocksDB's losses of throughput, percent, by mix and network."""
    found = {}
    for network in NETWORKS:
        ratios = consolidation.against_solo(rows, "work_per_s", network, strategy)
        for app in ROCKSDB:
            found[f"{app} beside {network}"] = [100 * (1 - ratio) for ratio in ratios[app]]
    return found


def _largest(by_app: Mapping[str, list[float]], apps: Iterable[str]) -> dict[str, float]:
    """Return each application's worst start."""
    return {app: max(by_app[app]) for app in apps}


def _listing(by_app: Mapping[str, float]) -> str:
    return ", ".join(f"{app} {value:.1f} %" for app, value in by_app.items())


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge the spreads over applications, each at the worst of its random starts."""
    for network, claim in CLAIMS.items():
        worst = _largest(slow_downs(rows, network, "baseline"), SPEC)
        reason = f"{ddio_traffic(rows, network)}; worst starts: {_listing(worst)}"
        yield Finding(claim, spread(worst.values()), reason)
    with_iat = {
        f"{app} beside {network}": value
        for network in NETWORKS
        for app, value in _largest(slow_downs(rows, network, "iat"), SPEC).items()
    }
    top = max(with_iat, key=lambda name: with_iat[name])
    yield Finding("iat-12-iat", max(0.0, with_iat[top]), f"largest: {top}")
    for claim, strategy in (("iat-12-rdb-b", "baseline"), ("iat-12-rdb-i", "iat")):
        lost = losses(rows, strategy)
        worst = _largest(lost, lost)
        traffic = "; ".join(ddio_traffic(rows, network) for network in NETWORKS)
        reason = f"{traffic}; worst starts: {_listing(worst)}"
        yield Finding(claim, spread(worst.values()), reason)
    yield _judge_spread(rows)


def _judge_spread(rows: Sequence[Row]) -> Finding:
    wider = []
    for network in NETWORKS:
        baseline = slow_downs(rows, network, "baseline")
        iat = slow_downs(rows, network, "iat")
        for app in (*SPEC, *ROCKSDB):
            before, after = (max(by[app]) - min(by[app]) for by in (baseline, iat))
            if after >= before:
                wider.append(f"{app} beside {network} ({after:.1f} against {before:.1f} points)")
    total = len(NETWORKS) * len((*SPEC, *ROCKSDB))
    reason = f"smaller in {total - len(wider)} of {total} cases"
    if wider:
        reason += f", not with {', '.join(wider[:3])}" + (" and others" if wider[3:] else "")
    return Finding("iat-12-spread", not wider, reason)


def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw a panel a network: slow-down over solo by application, with the published range."""
    panels = canvas.subplots(2, 1, sharex=True)
    labels = (*SPEC, *ROCKSDB)
    _, most = claims.span("iat-12-iat")
    for axes, network in zip(panels, NETWORKS, strict=True):
        low, high = claims.span(CLAIMS[network])
        axes.axhspan(low, high, color="tab:orange", alpha=0.2, label="published, baseline")
        axes.axhline(most, color="tab:blue", linestyle=":", label="published, IAT at most")
        groups = {
            strategy: slow_downs(rows, network, strategy)
            for strategy in consolidation.STRATEGIES[1:]
        }
        consolidation.bars(axes, labels, groups)
        axes.set_ylabel(f"slow-down beside\n{network} (%)")
    panels[0].legend(ncols=4, fontsize=8)


FIGURE = Figure(
    name="iat-12",
    title="Slow-down of applications over solo, beside Redis and beside FastClick",
    source="Yuan et al., ISCA 2021, figure 12",
    setup=consolidation.SETUP
    + " SPEC CPU2006 are surrogates. The spread over applications is of each one's worst start.",
    points=points,
    measure=measure,
    judge=judge,
    draw=draw,
    compression=consolidation.COMPRESSION,
)
