# SPDX-License-Identifier: Apache-2.0
"""What a policy says, compiled: plain values that `classify` applies."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping

from iat_nova.model import (
    AttachmentKind,
    DeviceModel,
    Guest,
    Message,
    Priority,
    WayMask,
    message,
)
from iat_nova.nova.extra_specs import Io

DEFAULT_CLASS = "default"
"""The name of the class of who matches no other."""


@dataclasses.dataclass(frozen=True, slots=True)
class WayBounds:
    """LLC ways of a tenant; `max` None means all that the cache domain has."""

    min: int
    initial: int
    max: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """A guest as conditions see it: `domains` are the cache domains its CPUs are in."""

    guest: Guest
    extra_specs: Mapping[str, str]
    domains: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Conditions on a guest. All must hold; of the values within one, any. Empty: no condition.

    Of those of `none_of` none may hold. Values are globs (``*``, ``?``, ``[a-z]``) but for
    attachments, models and cache domains.
    """

    extra_specs: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    flavor: tuple[str, ...] = ()
    project: tuple[str, ...] = ()
    attachment: tuple[AttachmentKind, ...] = ()
    model: tuple[DeviceModel, ...] = ()
    image_properties: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    project_name: tuple[str, ...] = ()
    instance: tuple[str, ...] = ()
    domain: tuple[str, ...] = ()
    none_of: Match | None = None

    def reason(self, asked: Asked) -> Message | None:
        """Return which values of the guest met the conditions, None when one was not met."""
        met: list[Message] = []
        for condition in self._conditions():
            hit = condition.hit(asked)
            if hit is None:
                return None
            met.append(message("condition-met", name=condition.name, value=hit))
        if self.none_of is not None:
            barred = list(self.none_of._conditions())
            if any(condition.hit(asked) is not None for condition in barred):
                return None
            names = tuple(condition.name for condition in barred)
            met.append(message("conditions-not-met", names=names))
        return message("conditions-met", met=tuple(met)) if met else message("no-condition")

    def covers(self, other: Match) -> bool:
        """Tell whether every guest that meets `other` surely meets this one too."""
        theirs = {(c.kind, c.name): c for c in other._conditions()}
        if self.none_of not in (None, other.none_of):
            return False
        return all(
            (mine.kind, mine.name) in theirs and mine.covers(theirs[mine.kind, mine.name])
            for mine in self._conditions()
        )

    def _conditions(self) -> Iterator[_Condition]:
        for kind in ("extra_specs", "image_properties"):
            for name, patterns in getattr(self, kind).items():
                yield _Condition(kind, name, patterns)
        for kind in _FACTS:
            if patterns := getattr(self, kind):
                yield _Condition(kind, kind, patterns)


@dataclasses.dataclass(frozen=True, slots=True)
class _Condition:
    """One question to a guest: a fact of it, or its extra spec or image property of that name."""

    kind: str
    name: str
    patterns: tuple[str, ...]

    def hit(self, asked: Asked) -> str | None:
        """Return the value that is accepted, None where there is none."""
        return next((value for value in self._values(asked) if self.accepts(value)), None)

    def accepts(self, value: str) -> bool:
        return any(fnmatch.fnmatchcase(value, pattern) for pattern in self.patterns)

    def covers(self, other: _Condition) -> bool:
        return all(
            theirs in self.patterns
            or "*" in self.patterns
            or (not set(theirs) & set("*?[") and self.accepts(theirs))
            for theirs in other.patterns
        )

    def _values(self, asked: Asked) -> Iterable[str]:
        """Return what a guest has for this; nothing where that is not known."""
        if self.kind in _FACTS:
            return (value for value in _FACTS[self.kind](asked) if value is not None)
        known = asked.extra_specs
        if self.kind == "image_properties":
            known = asked.guest.image_properties or {}
        return (known[self.name],) if self.name in known else ()


# What conditions ask of a guest, in the order in which they are listed.
_FACTS: Mapping[str, Callable[[Asked], Iterable[str | None]]] = {
    "flavor": lambda asked: (asked.guest.flavor,),
    "project": lambda asked: (asked.guest.project,),
    "attachment": lambda asked: (one.kind for one in asked.guest.attachments),
    "model": lambda asked: (model_of(asked.guest),),
    "project_name": lambda asked: (asked.guest.project_name,),
    "instance": lambda asked: (asked.guest.display_name, asked.guest.name),
    "domain": lambda asked: map(str, asked.domains),
}


@dataclasses.dataclass(frozen=True, slots=True)
class ClassRule:
    """One class: who falls into it, and what its members get unless their flavor says more.

    `bandwidth_min`: the least of its memory bandwidth that may be left to a member, in percent.
    """

    name: str
    match: Match
    priority: Priority
    io: Io
    ways: WayBounds
    bandwidth_min: int = 100


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
    pool_bandwidth_min: int = 100


def model_of(guest: Guest) -> DeviceModel:
    """Return how a guest meets its devices; slicing where it does both ways."""
    models = {attachment.model for attachment in guest.attachments}
    for model in (DeviceModel.SLICING, DeviceModel.AGGREGATION):
        if model in models:
            return model
    return DeviceModel.NONE
