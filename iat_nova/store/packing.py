# SPDX-License-Identifier: Apache-2.0
"""Iterations as text and back.

Most of an iteration are rates, which are counts over the measured interval. If the count gives the
rate again bit by bit, the count is stored, because it is shorter.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from iat_nova.common.untrusted import worded
from iat_nova.model import Decision, Layout, Message, PortRates, Rates, Sample, WayMask, message
from iat_nova.store.records import (
    OTHER_FORMS,
    Iteration,
    RecordError,
    parse,
    structure,
    text,
    unstructure,
)
from iat_nova.strategies.outlook import Outlook


@dataclasses.dataclass(frozen=True, slots=True)
class Packed:
    """An iteration without its columns, as text: observations with decision, and the state.

    `lost`: the parts that could not be recorded, and the error of each.
    """

    seen: bytes | None  # None: not even the decision can be recorded
    state: bytes | None
    lost: Mapping[Message, Exception]


def pack_iteration(iteration: Iteration, *, whole: bool) -> Packed:
    """Return an iteration as text; with `whole` also its state, if the state can be packed.

    This is the boundary for errors of a strategy: its state may be of any type, and packing may
    raise any error. The history continues.
    """
    lost: dict[Message, Exception] = {}
    state = None
    if whole and iteration.state_lost is None:
        try:
            state = text(unstructure(iteration.state))
        except Exception as error:  # noqa: BLE001 - see above
            lost[message("state-not-recorded", error=worded(error))] = error
            iteration = dataclasses.replace(iteration, state=None, state_lost=worded(error))
    try:
        return Packed(text(_seen(iteration)), state, lost)
    except Exception as error:  # noqa: BLE001 - see above
        lost[message("decision-not-recorded", error=worded(error))] = error
        return Packed(None, None, lost)


def _seen(iteration: Iteration) -> dict[str, Any]:
    """Return everything without a column of its own, except the state, in plain JSON types."""
    seen: dict[str, Any] = {
        "at_s": iteration.at_s,
        "sample": _counted(iteration.sample),
        "decision": unstructure(iteration.decision),
        "effective": iteration.effective,
        "timings_us": {name: round(us, 1) for name, us in iteration.timings_us.items()},
        "layout_before": unstructure(iteration.layout_before),
    }
    if iteration.state_lost is not None:
        seen["state_lost"] = iteration.state_lost
    if iteration.former:
        seen["former"] = iteration.former
    if iteration.shown:
        seen["shown"] = iteration.shown
    if iteration.outlook != Outlook.UNKNOWN:
        seen["outlook"] = iteration.outlook
    return seen


def unpack_iteration(
    seen: bytes,
    state: bytes | None,
    *,
    wall_s: float,
    domain: int,
    inventory_id: int,
) -> Iteration:
    """Make an iteration from its columns and its texts. Raises `RecordError`."""
    plain = parse(seen)
    try:
        effective, lost = plain["effective"], plain.get("state_lost")
        return Iteration(
            at_s=plain["at_s"],
            wall_s=wall_s,
            domain=domain,
            inventory_id=inventory_id,
            state=None if state is None else parse(state),
            sample=_sample(plain["sample"]),
            decision=structure(plain["decision"], Decision),
            effective=effective and {name: WayMask(mask) for name, mask in effective.items()},
            timings_us=plain["timings_us"],
            layout_before=plain["layout_before"] and structure(plain["layout_before"], Layout),
            state_lost=lost,
            former=plain.get("former", {}),
            follows=state is None and lost is None,
            shown={str(one): float(loss) for one, loss in plain.get("shown", {}).items()},
            outlook=str(plain.get("outlook", Outlook.UNKNOWN)),
        )
    except OTHER_FORMS as error:
        raise RecordError(f"a stored iteration lacks a part ({worded(error)})") from error


# Stored form of a sample: a tenant's rates are a list in the order of the fields, up to the last
# known rate. A whole number stands for a count over the interval.
_RATES = tuple(field.name for field in dataclasses.fields(Rates))
_LEVELS = ("occupancy_bytes",)  # not a rate
_PORT_RATES = tuple(field.name for field in dataclasses.fields(PortRates))
_MEASURED = ("domain", "taken_at_s", "interval_s", "tenants")
_LISTED = ("tenants", "ports")  # all other fields are rates


def _counted(sample: Sample) -> dict[str, Any]:
    interval_s = sample.interval_s
    plain: dict[str, Any] = {name: getattr(sample, name) for name in _MEASURED}
    plain["tenants"] = {
        tenant: _listed(_RATES, rates, interval_s) for tenant, rates in sample.tenants.items()
    }
    if sample.ports:
        plain["ports"] = {
            port: _listed(_PORT_RATES, rates, interval_s) for port, rates in sample.ports.items()
        }
    for field in dataclasses.fields(Sample):
        value = getattr(sample, field.name)
        if field.name not in (*_MEASURED, *_LISTED) and value is not None:
            plain[field.name] = _count(value, interval_s)
    return plain


def _listed(names: Sequence[str], rates: Rates | PortRates, interval_s: float) -> list[Any]:
    values = []
    for name in names:
        value = getattr(rates, name)
        values.append(value if name in _LEVELS else _count(value, interval_s))
    while values and values[-1] is None:
        values.pop()
    return values


def _count(rate: float | None, interval_s: float) -> float | int | None:
    """Return the count of a rate; the rate itself if no count gives it bit by bit."""
    if rate is None or not interval_s or not math.isfinite(rate):
        return rate
    count = round(rate * interval_s)
    return count if count * (1.0 / interval_s) == rate else rate


def _sample(plain: Any) -> Sample:
    """Make a sample from `_counted`'s result. Raises `RecordError`, or errors of other forms."""
    per_s = 1.0 / plain["interval_s"] if plain["interval_s"] else 0.0

    def rate(value: Any) -> Any:
        return value * per_s if isinstance(value, int) else value

    def listed(names: Sequence[str], all_values: Any) -> dict[str, Any]:
        return {
            subject: {
                name: value if name in _LEVELS else rate(value)
                for name, value in zip(names, values, strict=False)
            }
            for subject, values in all_values.items()
        }

    measured = (*_MEASURED, *_LISTED)
    others = {name: rate(value) for name, value in plain.items() if name not in measured}
    known = {name: plain[name] for name in _MEASURED}
    tenants = listed(_RATES, plain["tenants"])
    ports = listed(_PORT_RATES, plain.get("ports", {}))
    return structure({**known, "tenants": tenants, "ports": ports, **others}, Sample)
