# SPDX-License-Identifier: Apache-2.0
"""What a policy says, compiled: plain values that `classify` applies."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator, Mapping

from iat_nova.model import AttachmentKind, DeviceModel, Guest, Priority, WayMask
from iat_nova.nova.extra_specs import Io

DEFAULT_CLASS = "default"
"""The name of the class of whoever matches no other."""


@dataclasses.dataclass(frozen=True, slots=True)
class WayBounds:
    """LLC ways of a tenant; `max` None means all that the cache domain has."""

    min: int
    initial: int
    max: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Conditions on a guest. All must hold; of the values within one, any. Empty: no condition.

    Extra-spec values, flavors and projects may be globs (``*``, ``?``, ``[a-z]``).
    """

    extra_specs: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    flavor: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    attachment: tuple[AttachmentKind, ...] = ()
    model: tuple[DeviceModel, ...] = ()

    def reason(self, guest: Guest, extra_specs: Mapping[str, str]) -> str | None:
        """Tell which values of the guest met the conditions, None when one was not met."""
        met = []
        for condition in self._conditions():
            values = _answers(guest, extra_specs, condition)
            hit = next((value for value in values if condition.accepts(value)), None)
            if hit is None:
                return None
            met.append(f"{condition.name}={hit}")
        return ", ".join(met) or "matches everyone"

    def covers(self, other: Match) -> bool:
        """Tell whether every guest that meets `other` surely meets this one too."""
        theirs = {(c.extra_spec, c.name): c for c in other._conditions()}
        return all(
            (mine.extra_spec, mine.name) in theirs
            and mine.covers(theirs[mine.extra_spec, mine.name])
            for mine in self._conditions()
        )

    def _conditions(self) -> Iterator[_Condition]:
        for name, patterns in self.extra_specs.items():
            yield _Condition(True, name, patterns)
        for name in ("flavor", "project", "attachment", "model"):
            if patterns := getattr(self, name):
                yield _Condition(False, name, patterns)


@dataclasses.dataclass(frozen=True, slots=True)
class _Condition:
    """One question to a guest: its extra spec of that name, or the fact of that name."""

    extra_spec: bool
    name: str
    patterns: tuple[str, ...]

    def accepts(self, value: str) -> bool:
        return any(fnmatch.fnmatchcase(value, pattern) for pattern in self.patterns)

    def covers(self, other: _Condition) -> bool:
        return all(
            theirs in self.patterns
            or "*" in self.patterns
            or (not set(theirs) & set("*?[") and self.accepts(theirs))
            for theirs in other.patterns
        )


def _answers(
    guest: Guest, extra_specs: Mapping[str, str], condition: _Condition
) -> tuple[str, ...]:
    """Return the values that a guest has for a condition; empty when it has none."""
    if condition.extra_spec:
        return (extra_specs[condition.name],) if condition.name in extra_specs else ()
    match condition.name:
        case "attachment":
            return tuple(attachment.kind for attachment in guest.attachments)
        case "model":
            return (model_of(guest),)
        case "flavor":
            return (guest.flavor,) if guest.flavor is not None else ()
        case _:
            return (guest.project,) if guest.project is not None else ()


@dataclasses.dataclass(frozen=True, slots=True)
class ClassRule:
    """One class: who falls into it, and what its members get unless their flavor says more."""

    name: str
    match: Match
    priority: Priority
    io: Io
    ways: WayBounds


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The whole policy but for the controller's parameters.

    `pool_priority` None: the highest of the pool's members. `flavors` gives the extra specs of
    flavors of which the host cannot know them. Packet rates count both directions, packets/s.
    """

    default: ClassRule
    classes: tuple[ClassRule, ...]
    stack_ways: WayBounds
    host_ways: WayBounds
    host_priority: Priority
    pool_ways: WayBounds
    pool_priority: Priority | None
    flavors: Mapping[str, Mapping[str, str]]
    reserved_ways: WayMask
    io_on_packets_per_s: float
    io_off_packets_per_s: float


def model_of(guest: Guest) -> DeviceModel:
    """Return how a guest meets its devices; slicing where it does both ways."""
    models = {attachment.model for attachment in guest.attachments}
    for model in (DeviceModel.SLICING, DeviceModel.AGGREGATION):
        if model in models:
            return model
    return DeviceModel.NONE
