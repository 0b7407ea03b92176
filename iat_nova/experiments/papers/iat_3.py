# SPDX-License-Identifier: Apache-2.0
"""IAT, figures 3a and 3b: the judgement of rates without loss."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.engine import nic
from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import ClaimFinding, Point, Row
from iat_nova.experiments.runs import rfc2544

LINE_BITS_PER_S = 40e9


def share_of_line(share: float, point: Point) -> float:
    """Return the highest share of line rate without packet loss."""
    return round(share, 5)


def zero_loss_mpps(share: float, point: Point) -> float:
    """Return the highest rate without packet loss, in millions of packets per second."""
    rate = share * nic.packets_per_s(LINE_BITS_PER_S, int(point["packet_bytes"] or 0))
    return round(rate / 1e6, 4)


def _rates(rows: Sequence[Row]) -> Mapping[int, float]:
    """Return the median rate of each ring size."""
    return summary.by(rows, "ring", "zero_loss_mpps")


def shares(rows: Sequence[Row]) -> Mapping[str, Mapping[int, Sequence[float]]]:
    """Return the rates in percent of the largest ring's rate."""
    rates = _rates(rows)
    return {"measured": {ring: [100 * rate / rates[1024]] for ring, rate in rates.items()}}


def _listing(rates: Mapping[int, float]) -> str:
    return "; ".join(f"{ring}: {rate:.2f} M/s" for ring, rate in rates.items())


def judge_a(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge packets of 64 B."""
    rates = _rates(rows)
    listing = _listing(rates)
    yield ClaimFinding("iat-3a-512", summary.change(rates[512], rates[1024]), listing)
    yield ClaimFinding("iat-3a-64", 100 * rates[64] / rates[1024], listing)
    falls = all(before > after for before, after in itertools.pairwise(rates.values()))
    yield ClaimFinding("iat-3a-mono", falls, listing)


def judge_b(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge packets of 1.5 KB: "does not drop" means within the search's resolution."""
    rates = _rates(rows)
    kept = 1 - 2 * rfc2544.RESOLUTION
    holds = all(rates[ring] >= kept * rates[1024] for ring in (512, 256))
    drops = min(rates[128], rates[64]) < kept * rates[1024]
    yield ClaimFinding("iat-3b-128", holds and drops, _listing(rates))
