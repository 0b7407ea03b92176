# SPDX-License-Identifier: Apache-2.0
"""The published claims, and whether a finding meets one: with a tolerance, and strictly."""

from __future__ import annotations

import dataclasses
import enum
import functools
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from iat_nova.experiments.papers.api import NOT_MEASURED, ClaimFinding

SOURCE = pathlib.Path(__file__).with_name("claims.yaml")
# A value meets a published one from outside within this share of the published value.
TOLERANCE = 0.25

Published = float | tuple[float, float] | None


class ClaimKind(enum.StrEnum):
    """How a claim is judged: by its value, as an upper bound, or as an order or a sign."""

    VALUE = "value"
    BOUND = "bound"
    ORDER = "order"


class DataSet(enum.StrEnum):
    """What a claim's data is used for. Constants are fitted on the calibration set alone."""

    JUDGED = "judged"
    CALIBRATION = "calibration"
    VALIDATION = "validation"


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One published claim. `published`: a number, an interval, or None for an order or a sign.

    A claim that is several has the published number of each in `parts`, by name. `digits`: the
    decimals in print. `calibration`: names of the parts that a constant is fitted on,
    or True for the whole claim. `validation`: nothing was fitted on the claim, nor chosen by it.
    `why`: the mechanism by which the emulated server misses the claim.
    """

    id: str
    figure: str
    text: str
    kind: ClaimKind
    unit: str | None
    published: Published
    parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
    digits: int = 0
    calibration: bool | tuple[str, ...] = False
    validation: bool = False
    why: str = ""

    def set_of(self, part: str | None) -> DataSet:
        """Return the data set of the claim, or of one of its parts."""
        if self.validation:
            return DataSet.VALIDATION
        fitted = self.calibration
        used = fitted if isinstance(fitted, bool) else part in fitted
        return DataSet.CALIBRATION if used else DataSet.JUDGED


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """Whether a claim is met, and what was seen. `claim` is its id, with the part if it has any.

    `met`: within the tolerance. `strict`: without any; see `judge`. `set`: a `DataSet`.
    """

    figure: str
    claim: str
    text: str
    unit: str | None
    published: Published
    measured: float | tuple[float, float] | bool | None
    met: bool
    reason: str
    strict: bool = False
    set: str = DataSet.JUDGED.value


@functools.cache
def load() -> Mapping[str, Claim]:
    """Return all claims by id, in the file's order."""
    listed: list[dict[str, Any]] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return {item["id"]: _claim(item) for item in listed}


def ends(claim: str) -> tuple[float, float]:
    """Return both ends of what was published for a claim. Raises `TypeError` without any."""
    published = load()[claim].published
    if published is None:
        raise TypeError(f"{claim}: no value was published")
    return published if isinstance(published, tuple) else (published, published)


def judge(findings: Iterable[ClaimFinding]) -> list[ClaimVerdict]:
    """Return the verdict on each finding. Raises KeyError on a claim or part not published.

    A number meets a published number or range within `TOLERANCE` of the nearer end. A number meets
    a claim strictly if within the range, or if equal to the published number in the printed digits.
    Each end of a spread meets its own published end: low to low, high to high. A spread is strict
    if also no end lies outside the published range. A bound has no tolerance. An order holds or
    does not.
    """
    verdicts = []
    for finding in findings:
        claim = load()[finding.claim]
        published = claim.published
        if finding.part is not None:
            published = finding.published
            if claim.parts:
                published = claim.parts[finding.part]
        verdicts.append(_verdict(claim, finding, published))
    return verdicts


def missing(figure: str, verdicts: Iterable[ClaimVerdict]) -> list[ClaimVerdict]:
    """Return a verdict "not met" for each claim of a figure on which there is no finding.

    A claim that is several has one for each part on which there is none.
    """
    verdicts = list(verdicts)
    judged = {verdict.claim for verdict in verdicts}
    judged |= {verdict.claim.partition("/")[0] for verdict in verdicts}
    unjudged = []
    for claim in load().values():
        if claim.figure != figure:
            continue
        parts: list[tuple[str | None, Published]] = [*claim.parts.items()]
        for part, published in parts or [(None, claim.published)]:
            if (claim.id if part is None else f"{claim.id}/{part}") not in judged:
                finding = ClaimFinding(claim.id, None, NOT_MEASURED, part=part)
                unjudged.append(_verdict(claim, finding, published))
    return unjudged


def meets(
    measured: float | tuple[float, float], published: float | tuple[float, float], points: float = 0
) -> bool:
    """Tell whether a value is as near to a published one as is allowed; of a spread both ends.

    Allowed is `TOLERANCE` of the nearer end, or `points` if that is more.
    """
    if isinstance(measured, tuple):
        own = published if isinstance(published, tuple) else (published, published)
        return all(meets(end, its, points) for end, its in zip(measured, own, strict=True))
    low, high = published if isinstance(published, tuple) else (published, published)
    below = max(abs(low) * TOLERANCE, points)
    above = max(abs(high) * TOLERANCE, points)
    return low - below <= measured <= high + above


def _verdict(claim: Claim, finding: ClaimFinding, published: Published) -> ClaimVerdict:
    measured = finding.measured
    if isinstance(measured, bool | None):
        met = strict = bool(measured)
    elif published is None:
        raise ValueError(f"{claim.id}: a value was measured, but none was published")
    elif claim.kind is ClaimKind.BOUND:
        met = strict = _inside(measured, published)
    else:
        met = meets(measured, published, finding.points)
        strict = met and (
            _inside(measured, published)
            if isinstance(published, tuple)
            else all(round(end, claim.digits) == published for end in _ends(measured))
        )
    why = "" if met or not claim.why else f". Why: {claim.why}"
    return ClaimVerdict(
        figure=claim.figure,
        claim=claim.id if finding.part is None else f"{claim.id}/{finding.part}",
        text=claim.text,
        unit=claim.unit,
        published=published,
        measured=measured,
        met=met,
        reason=finding.reason + why,
        strict=strict,
        set=claim.set_of(finding.part).value,
    )


def _inside(measured: float | tuple[float, float], published: float | tuple[float, float]) -> bool:
    low, high = published if isinstance(published, tuple) else (published, published)
    return all(low <= end <= high for end in _ends(measured))


def _ends(value: float | tuple[float, float]) -> tuple[float, ...]:
    return value if isinstance(value, tuple) else (value,)


def _claim(item: Mapping[str, Any]) -> Claim:
    printed = item.get("range")
    parts: Mapping[str, int | float] = item.get("parts", {})
    fitted = item.get("calibration", False)
    if parts and not isinstance(fitted, bool) and not set(fitted) <= set(parts):
        raise ValueError(f"{item['id']}: calibration names {fitted}, the parts are {list(parts)}")
    return Claim(
        id=item["id"],
        figure=item["figure"],
        text=item["claim"],
        kind=ClaimKind(item["kind"]),
        unit=item.get("unit"),
        published=None if printed is None else _interval(*printed),
        parts={name: float(number) for name, number in parts.items()},
        digits=max(map(_decimals, [*(printed or ()), *parts.values()]), default=0),
        calibration=fitted if isinstance(fitted, bool) else tuple(fitted),
        validation=item.get("validation", False),
        why=item.get("why", ""),
    )


def _decimals(number: float) -> int:
    return 0 if isinstance(number, int) else len(repr(number).partition(".")[2])


def _interval(low: float, high: float) -> Published:
    return float(low) if low == high else (float(low), float(high))
