# SPDX-License-Identifier: Apache-2.0
"""What the history keeps, as values, and how those become text and values again.

Everything is written as JSON so that a history can be read without this program. Floating-point
numbers keep every bit and mappings keep their order: a decision computed anew from what was read
back is equal to the recorded one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import cattrs
from cattrs.preconf.json import make_converter

from iat_nova.control.state import DDIO, State
from iat_nova.model import (
    Decision,
    DomainInventory,
    Facts,
    Parameters,
    Sample,
    Switches,
    WayMask,
)

T = TypeVar("T")

ROUTINE_ZLIB_LEVEL = 1  # speed counts: the history is written beside the loop


class RecordError(Exception):
    """A stored record does not have the form this version reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of one cache domain: all that went in and all that came out.

    `state` is the controller's memory *before* the step, so that the step can be repeated; the
    state of a plug-in strategy is read back as plain JSON types.
    `effective` holds the masks read back from the machine by tenant id, and by ``ddio``; None
    when nothing was written (observing only, paused). `timings_us` names the loop's phases.
    """

    at_s: float  # on the loop's clock
    wall_s: float  # since 1970
    domain: int
    inventory_id: int  # what `History.inventory` returned; a row's id when read back
    state: Any
    sample: Sample
    decision: Decision
    effective: Mapping[str, WayMask] | None = None
    timings_us: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def eventful(self) -> bool:
        """Whether the decision did something, as opposed to letting everything be."""
        return self.decision.transition is not None or self.about_ways

    @property
    def about_ways(self) -> bool:
        """Whether the decision gave, took or moved ways."""
        decision = self.decision
        return bool(decision.moved) or any(step.action != "hold" for step in decision.steps)

    @property
    def coerced(self) -> Mapping[str, tuple[WayMask, WayMask]]:
        """Where the machine made something else of a mask: (decided, read back) by subject."""
        layout = self.decision.layout
        pairs = {
            subject: (layout.ddio if subject == DDIO else layout.mask_of(subject), mask)
            for subject, mask in (self.effective or {}).items()
        }
        return {
            subject: (decided, mask)
            for subject, (decided, mask) in pairs.items()
            if decided is not None and decided != mask
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """What the agent says of itself. The latest one counts."""

    mode: str  # enforce or observe
    pid: int
    version: str
    strategy: str
    interval_s: float
    started_s: float  # wall clock
    parameters: Parameters
    switches: Switches
    reason: str | None = None  # why it only observes
    paused_until_s: float | None = None  # wall clock; infinite: until resumed; None: not paused
    paused_reason: str | None = None
    degraded: tuple[str, ...] = ()
    last_error: str | None = None
    stopped: bool = False  # it said goodbye

    @property
    def settings(self) -> Settings:
        """What decisions depend on, besides their inputs."""
        return Settings(self.strategy, self.parameters, self.switches)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Strategy and numbers in force when an iteration was decided."""

    strategy: str
    parameters: Parameters
    switches: Switches


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """One full picture of the host and what the policy made of it, by domain id."""

    wall_s: float
    facts: Facts
    domains: Mapping[int, DomainInventory]


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something to tell that is no decision: a degraded source, a refused write, a reload."""

    wall_s: float
    severity: str  # info, warning or error
    text: str


@functools.cache
def _converter() -> cattrs.Converter:
    converter = make_converter(detailed_validation=False)
    converter.register_unstructure_hook(WayMask, int)
    converter.register_structure_hook(WayMask, lambda value, _: WayMask(value))
    return converter


def unstructure(value: object) -> Any:
    """Turn a value of the model into plain JSON types."""
    return _converter().unstructure(value)


def structure(plain: Any, kind: type[T]) -> T:
    """Make a value of `kind` from plain JSON types. Raises `RecordError`."""
    try:
        return _converter().structure(plain, kind)
    except (cattrs.BaseValidationError, TypeError, ValueError, KeyError, AttributeError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise RecordError(
            f"a stored {name} has another form than this version of iat-nova reads ({error!r})"
        ) from error


def pack(plain: Any) -> bytes:
    """Return compressed JSON. Numbers may be infinite."""
    text = json.dumps(plain, separators=(",", ":"))
    return zlib.compress(text.encode(), ROUTINE_ZLIB_LEVEL)


def unpack(blob: bytes) -> Any:
    """Return what `pack` was given. Raises `RecordError`."""
    try:
        return json.loads(zlib.decompress(blob))
    except (zlib.error, ValueError, TypeError) as error:
        raise RecordError(f"a stored record is damaged ({error})") from error


def pack_iteration(iteration: Iteration) -> bytes:
    """Return the part of an iteration that has no column of its own."""
    return pack(
        {
            "state": unstructure(iteration.state),
            "sample": unstructure(iteration.sample),
            "decision": unstructure(iteration.decision),
            "effective": iteration.effective,
            "timings_us": iteration.timings_us,
        }
    )


def unpack_iteration(
    blob: bytes, *, at_s: float, wall_s: float, domain: int, inventory_id: int
) -> Iteration:
    """Make an iteration from its columns and its packed part. Raises `RecordError`."""
    plain = unpack(blob)
    try:
        effective = plain["effective"]
        return Iteration(
            at_s=at_s,
            wall_s=wall_s,
            domain=domain,
            inventory_id=inventory_id,
            state=_state(plain["state"]),
            sample=structure(plain["sample"], Sample),
            decision=structure(plain["decision"], Decision),
            effective=effective and {name: WayMask(mask) for name, mask in effective.items()},
            timings_us=plain["timings_us"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"a stored iteration lacks a part ({error!r})") from error


def _state(plain: Any) -> Any:
    """Return the controller's state; as it lies there when a plug-in's has another form."""
    try:
        return structure(plain, State)
    except RecordError:
        return plain
