# SPDX-License-Identifier: Apache-2.0
"""The published claims, and whether a finding meets one."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping

import yaml

from iat_nova.sim.figures.api import Finding

SOURCE = pathlib.Path(__file__).with_name("claims.yaml")
# A value meets a published range from outside within this share of the range's nearer end.
TOLERANCE = 0.25
NOT_MEASURED = "not measured"

Published = float | tuple[float, float] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One published claim. `published`: a number, an interval, or None for an order or a sign.

    A claim that is several has the published number of each in `parts`, in the original's order.
    """

    id: str
    figure: str
    text: str
    unit: str | None
    published: Published
    parts: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim is met, and what was seen. `claim` is its id, with the part if it has any.

    `range_only`: it is met because both ends of a spread meet the published range, but not both
    are near their own published end, the low one near the low one and the high one near the high.
    """

    figure: str
    claim: str
    text: str
    unit: str | None
    published: Published
    measured: float | tuple[float, float] | bool | None
    met: bool
    reason: str
    range_only: bool = False


@functools.cache
def load() -> Mapping[str, Claim]:
    """Return all claims by id, in the file's order."""
    claims = {}
    for item in yaml.safe_load(SOURCE.read_text(encoding="utf-8")):
        ends = item.get("range")
        several = ends is not None and isinstance(ends[0], list)
        claims[item["id"]] = Claim(
            item["id"],
            item["figure"],
            item["claim"],
            item.get("unit"),
            None if ends is None or several else _interval(*ends),
            tuple(float(number) for (number,) in ends) if several else (),
        )
    return claims


def ends(claim: str) -> tuple[float, float]:
    """Return both ends of what was published for a claim. Raises `TypeError` without any."""
    published = load()[claim].published
    if published is None:
        raise TypeError(f"{claim}: no value was published")
    return published if isinstance(published, tuple) else (published, published)


def judge(findings: Iterable[Finding]) -> list[Verdict]:
    """Return the verdict on each finding. Raises KeyError on a claim that nobody published."""
    seen: dict[str, int] = {}
    verdicts = []
    for finding in findings:
        claim = load()[finding.claim]
        published = claim.published
        if finding.part is not None:
            published = finding.published
            if claim.parts:
                published = claim.parts[seen.setdefault(claim.id, 0)]
                seen[claim.id] += 1
        verdicts.append(_verdict(claim, finding, published))
    return verdicts


def missing(figure: str, verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return a verdict "not met" for each claim of a figure on which there is no finding.

    A claim that is several has one for each part, known by its number, on which there is none.
    """
    judged = collections.Counter(verdict.claim.split("/")[0] for verdict in verdicts)
    left = []
    for claim in load().values():
        if claim.figure != figure:
            continue
        parts = list(enumerate(claim.parts or (claim.published,), 1))
        for number, published in parts[judged[claim.id] :]:
            name = f"{claim.id}/{number}" if claim.parts else claim.id
            left.append(
                Verdict(figure, name, claim.text, claim.unit, published, None, False, NOT_MEASURED)
            )
    return left


def meets(measured: float, published: float | tuple[float, float], points: float = 0.0) -> bool:
    """Tell whether a value lies in a range, or as near to it as is allowed.

    Allowed is `TOLERANCE` of the range's nearer end, or `points` if that is more.
    """
    low, high = published if isinstance(published, tuple) else (published, published)
    below = max(abs(low) * TOLERANCE, points)
    above = max(abs(high) * TOLERANCE, points)
    return low - below <= measured <= high + above


def _verdict(claim: Claim, finding: Finding, published: Published) -> Verdict:
    measured, apart = finding.measured, False
    if isinstance(measured, bool | None):
        met = bool(measured)
    elif published is None:
        raise ValueError(f"{claim.id}: a value was measured, but none was published")
    else:
        ends = measured if isinstance(measured, tuple) else (measured,)
        met = all(meets(end, published, finding.points) for end in ends)
        if isinstance(published, tuple) and len(ends) == len(published):
            pairs = zip(ends, published, strict=True)
            apart = not all(meets(end, its, finding.points) for end, its in pairs)
    name = claim.id if finding.part is None else f"{claim.id}/{finding.part}"
    return Verdict(
        claim.figure,
        name,
        claim.text,
        claim.unit,
        published,
        measured,
        met,
        finding.reason,
        met and apart,
    )


def _interval(low: float, high: float) -> Published:
    return float(low) if low == high else (float(low), float(high))
