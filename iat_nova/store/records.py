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

from iat_nova.model import (
    DDIO,
    Decision,
    DomainInventory,
    Facts,
    Hold,
    Layout,
    Parameters,
    Sample,
    WayMask,
)
from iat_nova.model.reasons import Reason
from iat_nova.strategies.api import Rule

T = TypeVar("T")

ROUTINE_ZLIB_LEVEL = 1  # speed counts: the history is written beside the loop


class RecordError(Exception):
    """A stored record does not have the form this version reads."""


@dataclasses.dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration of one cache domain: all that went in and all that came out.

    `state` is the strategy's memory *before* the step, so that the step can be repeated; it is read
    back as plain JSON types, of which `replay` makes the strategy's own type. `layout_before` is
    where the ways lay while it was measured; None where that is not known. `former` names by id
    those the decision is about who are not in its inventory any more.
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
    layout_before: Layout | None = None
    state_lost: str | None = None  # why the state could not be recorded; the rest is there
    former: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def eventful(self) -> bool:
        """Whether the decision did something, as opposed to letting everything be."""
        decision = self.decision
        rule = decision.rule is not None or decision.phase != decision.phase_before
        return rule or self.about_ways

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
class ShadowDomain:
    """Where the shadow strategy would have the ways, and how many masks it would have moved.

    `moved_meanwhile`: those that the strategy in force moved in the same time.
    """

    layout: Layout
    moved: int
    moved_meanwhile: int


@dataclasses.dataclass(frozen=True, slots=True)
class Shadow:
    """What a second strategy would have done since a time of the wall clock, by cache domain."""

    strategy: str
    since_s: float
    domains: Mapping[int, ShadowDomain] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """What provider.yaml offers Placement, and what it would offer if it were written now.

    Ways are those for new guests: none of what is withdrawn. `offered_ways` is None where no file
    speaks of ours, or it cannot be read; then no traits are known either.
    """

    able_ways: int
    able_traits: tuple[str, ...]
    offered_ways: int | None = None
    offered_traits: tuple[str, ...] = ()


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
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the strategy
    phases: tuple[str, ...] = ()  # that the strategy declares
    rules: tuple[Rule, ...] = ()
    reasons: tuple[Reason, ...] = ()  # why it only observes
    paused_until_s: float | None = None  # wall clock; infinite: until resumed; None: not paused
    paused_reason: str | None = None
    holds: tuple[Hold, ...] = ()  # in force
    shadow: Shadow | None = None
    placement: Placement | None = None  # None: not compared yet
    policy: str = ""  # in force, every default written out
    policy_reads: int = 0  # since the start, as somebody asked; refused ones count
    problems: tuple[Reason, ...] = ()  # what is wrong while the loop goes on
    last_error: str | None = None
    stopped: bool = False  # it said that it stopped

    @property
    def reason(self) -> str | None:
        """Why it only observes, in words; None while it does not."""
        return "; ".join(reason.text for reason in self.reasons) or None

    @property
    def degraded(self) -> tuple[str, ...]:
        """What is wrong, in words."""
        return tuple(problem.text for problem in self.problems)

    @property
    def settings(self) -> Settings:
        """What decisions depend on, besides their inputs."""
        return Settings(self.strategy, self.parameters, self.options)


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Strategy and numbers in force when an iteration was decided."""

    strategy: str
    parameters: Parameters
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """One full picture of the host and what the policy made of it, by domain id.

    `reasons` tell why each tenant, and each member of the pool, is in its class, by their ids.
    """

    wall_s: float
    facts: Facts
    domains: Mapping[int, DomainInventory]
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something to tell that is not a decision: a degraded source, a refused write, a reload."""

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
            "layout_before": unstructure(iteration.layout_before),
            "state_lost": iteration.state_lost,
            **({"former": iteration.former} if iteration.former else {}),
        }
    )


def pack_what_can_be(iteration: Iteration) -> tuple[bytes | None, Mapping[str, Exception]]:
    """Pack an iteration, without its state if that is what cannot be; tell what was lost and why.

    The boundary beyond which nothing of a strategy ends the history: its state may be anything,
    and packing it may raise anything. None when the decision cannot be packed either.
    """
    lost: dict[str, Exception] = {}
    for what in ("states", "decisions"):
        try:
            return pack_iteration(iteration), lost
        except Exception as error:  # noqa: BLE001 - see above
            lost[f"{what} of this strategy cannot be recorded: {error!r}"] = error
            iteration = dataclasses.replace(iteration, state=None, state_lost=repr(error))
    return None, lost


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
            state=plain["state"],
            sample=structure(plain["sample"], Sample),
            decision=structure(_upgraded(plain["decision"]), Decision),
            effective=effective and {name: WayMask(mask) for name, mask in effective.items()},
            timings_us=plain["timings_us"],
            layout_before=_layout_before(plain),
            state_lost=plain.get("state_lost"),
            former=plain.get("former", {}),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"a stored iteration lacks a part ({error!r})") from error


def _upgraded(decision: Any) -> Any:
    """Return a stored decision in today's form; earlier ones are those of the paper's machine."""
    if "state_before" not in decision:
        return decision
    exception = decision.get("exception")
    return {
        **decision,
        "phase_before": decision["state_before"],
        "phase": decision["state_after"],
        "rule": decision["transition"],
        "why": [] if exception is None else [f"exception {exception} of the paper"],
    }


def _layout_before(plain: Any) -> Layout | None:
    """Return the layout before a decision; earlier versions had it in the state only."""
    state = plain["state"] if isinstance(plain["state"], dict) else {}
    found = plain["layout_before"] if "layout_before" in plain else state.get("layout")
    return None if found is None else structure(found, Layout)
