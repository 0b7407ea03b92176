# SPDX-License-Identifier: Apache-2.0
"""Hosts and guests for the choice of migrations: Nova's view and the agents' readings."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping


class Fixed(str, enum.Enum):
    """The reason why a guest cannot be moved."""

    __str__ = str.__str__

    RESOURCES = "resources"  # has devices or resources that Watcher does not count
    EXCLUDED = "excluded"  # outside the audit's scope, or tagged optimize=false
    INACTIVE = "inactive"  # does not run, or is locked
    MIXED = "mixed"  # has dedicated and shared vCPUs: free CPUs cannot be counted


class Unusable(str, enum.Enum):
    """Why a host is neither relieved nor a destination."""

    __str__ = str.__str__

    NO_AGENT = "no-agent"  # no metrics of iat-nova
    STALE = "stale"  # the agent's last iteration is too old
    OBSERVING = "observing"  # the agent writes no masks
    DOWN = "down"  # nova-compute is down or disabled


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """An agent's readings of a guest in one cache domain; shares of 1, over the audit's period.

    `stalled`: cycles stalled by LLC misses. `loss`: cycles lost to other tenants; None if unknown
    for any part of the period. `fills`: the guest's share of the LLC.
    """

    stalled: float
    fills: float
    loss: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Free:
    """Free resources of a host, by Nova. `pcpus`: dedicated CPUs."""

    vcpus: float
    pcpus: float
    memory_mb: float
    disk_gb: float

    def without(self, guest: Guest) -> Free:
        """Return the free resources after the arrival of a guest."""
        shared = 0 if guest.pinned else guest.vcpus
        return Free(
            self.vcpus - shared,
            self.pcpus - (guest.vcpus - shared),
            self.memory_mb - guest.memory_mb,
            self.disk_gb - guest.disk_gb,
        )

    def fits(self, guest: Guest) -> bool:
        """Return whether a guest fits: memory, disk, and CPUs of the guest's kind."""
        cpus = self.pcpus if guest.pinned else self.vcpus
        memory, disk = self.memory_mb >= guest.memory_mb, self.disk_gb >= guest.disk_gb
        return cpus >= guest.vcpus and memory and disk


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest. `fixed`: the reason against any move, or None. `readings`: by cache domain."""

    uuid: str
    name: str
    vcpus: int
    memory_mb: int
    disk_gb: int
    critical: bool
    pinned: bool = False
    fixed: Fixed | None = None
    readings: Mapping[int, Reading] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Domain:
    """A cache domain of a host.

    `exhausted`: whether the agent has no layout left to try; None if unknown. `finds`: a newcomer's
    share of the LLC, by whether the newcomer is critical.
    """

    exhausted: bool | None = None
    ways: int = 0
    finds: Mapping[bool, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host. `groups`: the aggregates of the host, with its availability zone."""

    name: str
    guests: tuple[Guest, ...]
    free: Free
    groups: frozenset[str] = frozenset()
    domains: Mapping[int, Domain] = dataclasses.field(default_factory=dict)
    unusable: Unusable | None = None
