# SPDX-License-Identifier: Apache-2.0
"""The compiled rules of a policy: plain values that `classify` applies."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.model import (
    Attachment,
    DeviceModel,
    Guest,
    Message,
    Priority,
    WayMask,
    message,
)
from iat_nova.nova.extra_specs import Io

DEFAULT_CLASS = "default"
"""The name of the class of guests that match no other class."""


@dataclasses.dataclass(frozen=True, slots=True)
class WayBounds:
    """LLC ways of a tenant; `max` None means all ways of the cache domain."""

    min: int
    initial: int
    max: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """The facts of a guest that conditions test; `domains`: ids of its CPUs' cache domains."""

    guest: Guest
    extra_specs: Mapping[str, str]
    domains: tuple[int, ...] = ()


SPECS = ("extra_specs", "image_properties")
"""The kinds of conditions on values with names of their own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Conditions on a guest: all must hold. Any value of a condition suffices. Empty: no condition.

    No condition of `none_of` may hold. Values are globs (``*``, ``?``, ``[a-z]``) except for
    attachments, models and cache domains.
    """

    conditions: tuple[Condition, ...] = ()
    none_of: Match | None = None

    @classmethod
    def of(cls, none_of: Match | None = None, **asked: Any) -> Match:
        """Return the conditions of a class, by kind, in the order in which messages list kinds."""
        found = [
            Condition(kind, name, patterns)
            for kind in SPECS
            for name, patterns in asked.get(kind, {}).items()
        ]
        found += [Condition(kind, kind, asked[kind]) for kind in _FACTS if asked.get(kind)]
        return cls(tuple(found), none_of)

    def reason(self, asked: Asked) -> Message | None:
        """Return the guest's values that met the conditions, None if a condition was not met."""
        met: list[Message] = []
        for condition in self.conditions:
            hit = condition.hit(asked)
            if hit is None:
                return None
            met.append(message("condition-met", name=condition.name, value=hit))
        if self.none_of is not None:
            barred = self.none_of.conditions
            if any(condition.hit(asked) is not None for condition in barred):
                return None
            names = tuple(condition.name for condition in barred)
            met.append(message("conditions-not-met", names=names))
        return message("conditions-met", met=tuple(met)) if met else message("no-condition")

    def covers(self, other: Match) -> bool:
        """Return whether every guest that meets `other` certainly meets these conditions."""
        theirs = {(c.kind, c.name): c for c in other.conditions}
        if self.none_of not in (None, other.none_of):
            return False
        return all(
            (mine.kind, mine.name) in theirs and mine.covers(theirs[mine.kind, mine.name])
            for mine in self.conditions
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a guest's fact, or on the extra spec or image property `name`."""

    kind: str
    name: str
    patterns: tuple[str, ...]

    def hit(self, asked: Asked) -> str | None:
        """Return the guest's first accepted value, or None."""
        return next((value for value in self._values(asked) if self.accepts(value)), None)

    def accepts(self, value: str) -> bool:
        """Return whether a value matches one of the patterns."""
        return any(fnmatch.fnmatchcase(value, pattern) for pattern in self.patterns)

    def covers(self, other: Condition) -> bool:
        """Return whether every value that matches `other` certainly matches this condition."""
        return all(
            theirs in self.patterns
            or "*" in self.patterns
            or (not set(theirs) & set("*?[") and self.accepts(theirs))
            for theirs in other.patterns
        )

    def _values(self, asked: Asked) -> Iterable[str]:
        """Return the guest's values for this condition; none where unknown."""
        if self.kind in _FACTS:
            return (value for value in _FACTS[self.kind](asked) if value is not None)
        known = asked.extra_specs
        if self.kind == "image_properties":
            known = asked.guest.image_properties or {}
        return (known[self.name],) if self.name in known else ()


# The facts that conditions compare, in the order of messages.
_FACTS: Mapping[str, Callable[[Asked], Iterable[str | None]]] = {
    "flavor": lambda asked: (asked.guest.flavor,),
    "project": lambda asked: (asked.guest.project,),
    "attachment": lambda asked: (one.kind for one in asked.guest.attachments),
    "model": lambda asked: (model_of(asked.guest.attachments),),
    "project_name": lambda asked: (asked.guest.project_name,),
    "instance": lambda asked: (asked.guest.display_name, asked.guest.name),
    "domain": lambda asked: map(str, asked.domains),
}


@dataclasses.dataclass(frozen=True, slots=True)
class ClassRule:
    """A class of guests: conditions on members, and settings that a flavor may override.

    `bandwidth_min`: the lowest limit of a member's memory bandwidth, in percent. `weight`: weight
    of a member's speed relative to other guests of the same priority.
    """

    name: str
    match: Match
    priority: Priority
    io: Io
    ways: WayBounds
    bandwidth_min: int = 100
    weight: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Rules:
    """The whole policy except the controller's parameters.

    `pool_priority` None: the highest priority of the pool's members. `flavors`: extra specs by
    flavor, where libvirt's metadata lacks them. Packet rates count both directions, in packets/s.
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


def model_of(attachments: Iterable[Attachment]) -> DeviceModel:
    """Return the device model of attachments; slicing where both models are."""
    models = {one.model for one in attachments}
    order = (DeviceModel.SLICING, DeviceModel.AGGREGATION)
    return next((model for model in order if model in models), DeviceModel.NONE)
