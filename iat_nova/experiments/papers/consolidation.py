# SPDX-License-Identifier: Apache-2.0
"""IAT, figures 12 to 14: the tenants' initial masks, and their performance against solo runs."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iat_nova.experiments.machines.machine import GOLD_6140
from iat_nova.experiments.papers.api import NOT_MEASURED, ClaimFinding, Point, Row
from iat_nova.experiments.papers.summary import number, spread
from iat_nova.experiments.runs.run import Result
from iat_nova.experiments.scenarios.profiles import MIXES, PROFILES
from iat_nova.model import WayMask

# Ways of each tenant, and the order in which seeds put tenants on DDIO's ways.
WAYS = {"app": 2, "net": 3, "be10": 2, "be1": 2}
NETWORKS = ("redis", "fastclick")
MANAGED = ("baseline", "iat")
# The columns of figure 14: the sign of harm, and the beginning of the claims' names: -b for the
# baseline, -i for IAT.
MEASURES = {
    "requests_per_s": (-1, "iat-14-thru"),
    "latency_us": (1, "iat-14-lat"),
    "latency_p95_us": (1, "iat-14-tail"),
}
ByApp = Mapping[str, list[float]]
"""A number for each run, by application."""


def start_masks(seed: int, ways: int = 11, ddio: int = 2) -> dict[str, WayMask]:
    """Return the initial mask of each tenant of `WAYS`.

    The four tenants and two idle ways follow in random order. DDIO's ways belong entirely to one
    tenant: app, net, be10, be1 in turn for seeds 1, 2, 3, 4 and so on.
    """
    names = list(WAYS)
    top = names[(seed - 1) % len(names)]
    below: list[str | None] = [name for name in names if name != top]
    below += [None] * (ways - sum(WAYS.values()))
    random.Random(seed).shuffle(below)
    masks, at = {}, 0
    for name in [*below, top]:
        size = 1 if name is None else WAYS[name]
        if name is not None:
            masks[name] = WayMask.span(at, size)
        at += size
    assert masks[top].overlaps(WayMask.span(ways - ddio, ddio))
    return masks


def placed(point: Point) -> dict[str, Any]:
    """Return strategy and masks: application and network alone, or all tenants on drawn masks."""
    alone = point["strategy"] == "solo"
    masks = start_masks(int(point["seed"] or 0))
    if alone:
        masks = {"app": WayMask.span(2, 2), "net": WayMask.span(4, 3)}
    parts = {"redis": ("ovs", "redis0", "redis1"), "fastclick": ("nf0", "nf1", "nf2", "nf3")}
    laid = {part: int(masks["net"]) for part in parts.get(str(point["network"]), ())}
    laid["app"] = int(masks["app"])
    if not alone:
        laid |= {"be1": int(masks["be1"]), "be10": int(masks["be10"])}
    strategy = "baseline" if alone else point["strategy"]
    return {"strategy": strategy, "best_effort": not alone, "masks": laid}


def served(point: Point) -> dict[str, Any]:
    """Return `placed` for figures that measure Redis, alone in a solo run."""
    found = placed(point)
    alone = not found["best_effort"]
    if alone:
        del found["masks"]["app"]
    return {**found, "redis": point["app"], "app": None if alone else "mcf"}


def weighted_latency_us(found: Result, point: Point) -> float:
    """Return the mean time of an operation in us: own cycles, and the stalls of accesses."""
    name = str(point["app"])
    access_cycles = found.windows[-1].workloads["app"].access_cycles or 0.0
    stall = access_cycles / PROFILES[name].overlap[0]
    mix = MIXES[name]
    cycles = sum(share * (op.own_cycles + op.accesses * stall) for op, share in mix.items())
    return round(cycles / GOLD_6140.frequency_hz * 1e6, 5)


# --------------------------------------------------------------------------- against solo


def against_solo(rows: Sequence[Row], column: str, network: str, strategy: str) -> ByApp:
    """Return the ratios of a column to the same seed's solo run, by application."""
    solo = {
        (row["app"], row["seed"]): number(row, column) for row in rows if row["strategy"] == "solo"
    }
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["network"] == network and row["strategy"] == strategy:
            ratio = number(row, column) / solo[row["app"], row["seed"]]
            found.setdefault(str(row["app"]), []).append(ratio)
    return found


def slow_downs(rows: Sequence[Row], network: str) -> Mapping[str, ByApp]:
    """Return how much longer each application's work takes than solo, in percent, by strategy."""
    return {
        strategy: {
            app: [100 * (1 / ratio - 1) for ratio in each]
            for app, each in against_solo(rows, "work_per_s", network, strategy).items()
        }
        for strategy in MANAGED
    }


def rises(rows: Sequence[Row], network: str) -> Mapping[str, ByApp]:
    """Return the rise of the weighted latency over solo, in percent, by strategy and mix."""
    return {
        strategy: {
            app: [100 * (ratio - 1) for ratio in each]
            for app, each in against_solo(rows, "weighted_latency_us", network, strategy).items()
        }
        for strategy in MANAGED
    }


def harms(rows: Sequence[Row], column: str) -> Mapping[str, ByApp]:
    """Return the loss in a column against solo, in percent, by strategy and mix."""
    sign, _ = MEASURES[column]
    return {
        strategy: {
            app: [sign * 100 * (ratio - 1) for ratio in each]
            for app, each in against_solo(rows, column, "redis", strategy).items()
        }
        for strategy in MANAGED
    }


def _traffic(rows: Sequence[Row], network: str) -> str:
    """Return a sentence on the network's DDIO traffic, from which all other effects follow."""
    lines = [number(row, "ddio_lines_per_s") for row in rows if row["network"] == network]
    return f"beside {network} DDIO writes {statistics.median(lines) / 1e6:.1f} M lines/s"


def _worst(by_app: ByApp) -> dict[str, float]:
    """Return each application's value at its worst start."""
    return {app: max(each) for app, each in by_app.items()}


def _spread(claim: str, traffic: str, worst: Mapping[str, float]) -> ClaimFinding:
    """Return the spread over applications, each at the worst random start."""
    listing = ", ".join(f"{app} {value:.1f} %" for app, value in worst.items())
    return ClaimFinding(claim, spread(worst.values()), f"{traffic}; worst starts: {listing}")


# -------------------------------------------------------------------------------- figures


def judge_12(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the spreads over SPEC and over RocksDB's mixes."""
    slower = {network: slow_downs(rows, network) for network in NETWORKS}
    spec = {
        network: {
            strategy: {app: n for app, n in _worst(of).items() if not app.startswith("rocksdb")}
            for strategy, of in by_strategy.items()
        }
        for network, by_strategy in slower.items()
    }
    for network, claim in zip(NETWORKS, ("iat-12-redis", "iat-12-fc"), strict=True):
        yield _spread(claim, _traffic(rows, network), spec[network]["baseline"])
    with_iat = {
        f"{app} beside {network}": value
        for network in NETWORKS
        for app, value in spec[network]["iat"].items()
    }
    top = max(with_iat, key=lambda name: with_iat[name])
    yield ClaimFinding("iat-12-iat", max(0.0, with_iat[top]), f"largest: {top}")
    traffic = "; ".join(_traffic(rows, network) for network in NETWORKS)
    for claim, strategy in (("iat-12-rdb-b", "baseline"), ("iat-12-rdb-i", "iat")):
        lost = {
            network: {
                f"{app} beside {network}": [100 * (1 - ratio) for ratio in each]
                for app, each in against_solo(rows, "work_per_s", network, strategy).items()
                if app.startswith("rocksdb")
            }
            for network in NETWORKS
        }
        yield _spread(claim, traffic, _worst({**lost["redis"], **lost["fastclick"]}))
        for network, ending in (("redis", "redis"), ("fastclick", "fc")):
            yield _spread(f"{claim}-{ending}", _traffic(rows, network), _worst(lost[network]))
    yield _narrower(slower)
    yield ClaimFinding("iat-12-jitter", None, NOT_MEASURED)


def _narrower(slower: Mapping[str, Mapping[str, ByApp]]) -> ClaimFinding:
    """Judge whether IAT has the smaller spread over starts in every case."""
    wider, total = [], 0
    for network, by_strategy in slower.items():
        for app, starts in by_strategy["baseline"].items():
            total += 1
            before, after = (max(of) - min(of) for of in (starts, by_strategy["iat"][app]))
            if after >= before:
                wider.append(f"{app} beside {network} ({after:.1f} against {before:.1f} points)")
    reason = f"smaller in {total - len(wider)} of {total} cases"
    if wider:
        reason += f", not with {', '.join(wider[:3])}" + (" and others" if wider[3:] else "")
    return ClaimFinding("iat-12-spread", not wider, reason)


def judge_13(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the largest rise over mixes and starts, beside each network."""
    largest, words = {}, {}
    for strategy, network in itertools.product(MANAGED, NETWORKS):
        worst = _worst(rises(rows, network)[strategy])
        top = max(worst, key=lambda app: worst[app])
        largest[strategy, network] = worst[top]
        words[strategy, network] = f"{top} beside {network} {worst[top]:+.1f} %"
    redis, fastclick = NETWORKS
    traffic = "; ".join(_traffic(rows, network) for network in NETWORKS)
    yield ClaimFinding(
        "iat-13-base",
        (largest["baseline", redis], largest["baseline", fastclick]),
        f"{words['baseline', redis]}; {words['baseline', fastclick]}; {traffic}",
    )
    yield ClaimFinding(
        "iat-13-iat",
        max(0.0, largest["iat", redis], largest["iat", fastclick]),
        f"{words['iat', redis]}; {words['iat', fastclick]}",
    )
    yield ClaimFinding("iat-13-iat-redis", max(0.0, largest["iat", redis]), words["iat", redis])


def judge_14(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the spreads over mixes."""
    for column, (_, claim) in MEASURES.items():
        for letter, strategy in (("b", "baseline"), ("i", "iat")):
            worst = _worst(harms(rows, column)[strategy])
            yield _spread(f"{claim}-{letter}", _traffic(rows, "redis"), worst)
