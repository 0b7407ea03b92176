# SPDX-License-Identifier: Apache-2.0
"""IAT, figure 14: Redis beside other applications: throughput, mean latency, 95th percentile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.sim.figures import claims, consolidation
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.figures.consolidation import REDIS, STRATEGIES, spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

NEIGHBOUR = "mcf"
ROUND_TRIP_US = 50.0
# Column, heading, its sign of harm, how its claims begin: -b of the baseline, -i of IAT.
MEASURES = {
    "requests_per_s": ("throughput lost", -1, "iat-14-thru"),
    "latency_us": ("mean latency", 1, "iat-14-lat"),
    "latency_p95_us": ("95th percentile", 1, "iat-14-tail"),
}


def points(seeds: int) -> Sequence[Point]:
    """List YCSB's mixes on Redis alone, and beside the neighbours under baseline and IAT."""
    return [
        {"app": app, "network": "redis", "strategy": strategy, "seed": seed}
        for seed, app, strategy in itertools.product(range(1, seeds + 1), REDIS, STRATEGIES)
    ]


def measure(point: Point) -> Row:
    """Run both servers under one mix; latencies are the clients', the round trip included."""
    strategy = str(point["strategy"])
    window = consolidation.settled(
        "redis",
        None if strategy == "solo" else NEIGHBOUR,
        strategy,
        int(point["seed"] or 0),
        redis=str(point["app"]),
        step="1us",
    )
    servers = [window.workloads[name] for name in ("redis0", "redis1")]
    p95 = sum(server.latency_p95_us or 0.0 for server in servers) / len(servers)
    return {
        "requests_per_s": round(sum(server.work_per_s for server in servers)),
        "latency_us": round(
            sum(server.latency_us or 0.0 for server in servers) / len(servers) + ROUND_TRIP_US, 4
        ),
        "latency_p95_us": round(p95 + ROUND_TRIP_US, 4),
        "ddio_lines_per_s": round(window.ddio_hits_per_s + window.ddio_misses_per_s),
    }


def harms(rows: Sequence[Row], column: str, strategy: str) -> Mapping[str, list[float]]:
    """Return by mix how much worse a column is than solo, percent, by run."""
    sign = MEASURES[column][1]
    ratios = consolidation.against_solo(rows, column, "redis", strategy)
    return {app: [sign * 100 * (ratio - 1) for ratio in each] for app, each in ratios.items()}


def judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge the spreads over mixes, each at the worst of its random starts."""
    for (column, (*_, claim)), (letter, strategy) in itertools.product(
        MEASURES.items(), (("b", "baseline"), ("i", "iat"))
    ):
        worst = {app: max(each) for app, each in harms(rows, column, strategy).items()}
        listing = ", ".join(f"{app} {value:.1f} %" for app, value in worst.items())
        reason = f"{consolidation.ddio_traffic(rows, 'redis')}; worst starts: {listing}"
        yield Finding(f"{claim}-{letter}", spread(worst.values()), reason)


def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw a panel a measure: the harm by mix, with the published ranges."""
    panels = canvas.subplots(1, 3)
    for axes, (column, (heading, _, claim)) in zip(panels, MEASURES.items(), strict=True):
        baseline, iat = claims.span(f"{claim}-b"), claims.span(f"{claim}-i")
        axes.axhspan(*baseline, color="tab:gray", alpha=0.25, label="published, baseline")
        axes.axhspan(*iat, color="tab:blue", alpha=0.25, label="published, IAT")
        groups = {strategy: harms(rows, column, strategy) for strategy in STRATEGIES[1:]}
        consolidation.bars(axes, REDIS, groups)
        axes.set_title(heading)
    panels[0].set_ylabel("worse than solo (%)")
    panels[0].legend(fontsize=7)


FIGURE = Figure(
    name="iat-14",
    title="Redis under YCSB beside other tenants, against solo",
    source="Yuan et al., ISCA 2021, figure 14",
    setup=consolidation.SETUP
    + f" The application beside Redis is {NEIGHBOUR}; solo is Redis and the switch alone on their "
    f"three ways. Clients see the host's latency and a round trip of {ROUND_TRIP_US:g} us.",
    points=points,
    measure=measure,
    judge=judge,
    draw=draw,
    compression=consolidation.COMPRESSION,
)
