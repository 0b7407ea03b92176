# SPDX-License-Identifier: Apache-2.0
"""Measurements without any fitted constant: columns, and findings for each published number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iat_nova.experiments.machines.machine import MACHINES
from iat_nova.experiments.papers.api import ClaimFinding, Point, Row
from iat_nova.experiments.papers.steady import Steady
from iat_nova.experiments.papers.summary import medians

# The LLC size of each mask in MB, as the authors state.
SIZES_MB = {0x001: 1.75, 0x003: 3.5, 0x00F: 7, 0x0FF: 14, 0x7FF: 19.25}
_FREQUENCY_HZ = MACHINES["gold-5120"].frequency_hz


def misses(found: Steady, point: Point) -> float:
    """Return the measured program's LLC misses per thousand instructions."""
    app = found.workloads["app"]
    return round(1000 * app.misses_per_s / (app.ipc * _FREQUENCY_HZ), 3)


def cycles(found: Steady, point: Point) -> float:
    """Return the measured program's cycles per instruction."""
    return round(1 / found.workloads["app"].ipc, 3)


def hits(found: Steady, point: Point) -> float:
    """Return the share of inbound writes that hit, in percent."""
    return round(100 * (1 - found.ddio_miss_ratio), 2)


def judge_spec(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Compare misses and cycles with the published values, by program and LLC size."""
    for claim, column in (
        ("spec-misses", "misses_per_1000_instructions"),
        ("spec-cycles", "cycles_per_instruction"),
    ):
        for (program, mask), value in medians(rows, ("program", "mask"), column).items():
            yield ClaimFinding(claim, value, "", f"{program}, {SIZES_MB[mask]:g} MB")


def judge_ways(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Compare hits and packets per second with the published values, for each number of ways."""
    yield from _judge(rows, "ways", "ddio-ways")


def judge_rings(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Compare hits and packets per second with the published values, for each receive ring size."""
    yield from _judge(rows, "ring", "ddio-rings")


def _judge(rows: Sequence[Row], key: str, claim: str) -> Iterator[ClaimFinding]:
    for ending, column in (("hits", "hits_percent"), ("rate", "packets_mpps")):
        for (value,), measured in medians(rows, (key,), column).items():
            yield ClaimFinding(f"{claim}-{ending}", measured, "", f"{value}")
