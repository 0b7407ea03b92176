# SPDX-License-Identifier: Apache-2.0
"""What the policy made of it: who shares a cache domain, and what each may ask for."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter

from iat_nova.model.facts import CacheDomain, DeviceModel
from iat_nova.model.message import Message


class Priority(enum.StrEnum):
    """Who is served first. The software stack's priority is special (section IV-A)."""

    STACK = "stack"
    PC = "PC"  # performance-critical
    BE = "BE"  # best effort


class TenantKind(enum.StrEnum):
    """What a tenant is made of."""

    GUEST = "guest"
    POOL = "pool"  # all floating guests together
    STACK = "stack"  # Open vSwitch's PMD threads
    HOST = "host"  # everything else: housekeeping, emulator threads without CPUs of their own


@dataclasses.dataclass(frozen=True, slots=True)
class WayRequest:
    """How many ways a tenant starts with and between which bounds it moves.

    `promised`: of the least, what its flavor promises it (``iat:llc_ways``); 0: nothing. `held`: a
    person holds it at so many ways (`Hold`): least and most are the same.
    """

    min: int = 1
    initial: int = 2
    max: int = 11
    promised: int = 0
    held: bool = False

    @property
    def kept(self) -> int:
        """The ways that are to be its own, as promised or held; 0: none."""
        return self.min if self.held else self.promised


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A pause of all decisions, as an operator asked: since when, how long and why.

    Times are of the wall clock; `until_s` is infinite when only `resume` ends the pause.
    """

    since_s: float
    until_s: float = math.inf
    reason: str = ""
    by: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """So many ways for one tenant for a while, as a person asked: no more, no fewer.

    `tenant` is a guest's UUID (so it outlives a restart of the guest), or ``stack``, ``host``,
    ``pool``; `name` what people call it. Times are of the wall clock; `until_s` is infinite when
    only `release` ends it. `ways` 0: what was asked cannot be read, and `reason` says why.
    """

    tenant: str
    name: str
    ways: int
    since_s: float
    until_s: float = math.inf
    reason: str = ""
    by: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """Who shares a cache domain, as the controller knows it.

    `id` is unique in the domain: ``<uuid>/<run>`` for a guest, ``stack``, ``host``,
    ``pool``. `cpus` are the ones in this domain: all have the tenant's class of service. A guest
    on two domains is one tenant in each. `emulator_cpus`: of `cpus`, those on which only the
    guest's emulator and I/O threads run.
    `bandwidth_min`: the least of its memory bandwidth, in percent, that a strategy may leave it.
    """

    id: str
    name: str
    kind: TenantKind
    priority: Priority
    io: bool
    cpus: tuple[int, ...]
    ways: WayRequest
    model: DeviceModel = DeviceModel.NONE
    class_name: str = ""  # the policy's class it fell into
    flavor: str | None = None
    project: str | None = None
    devices: tuple[str, ...] = ()
    members: tuple[str, ...] = ()  # of the pool: the guests' names
    warnings: tuple[Message, ...] = ()
    bandwidth_min: int = 100
    emulator_cpus: tuple[int, ...] = ()

    @property
    def counted_cpus(self) -> tuple[int, ...]:
        """The CPUs whose counters make the tenant's rates: those of its vCPUs.

        An emulator thread runs now and then, at an IPC of its own: in the guest's rates a disk
        request would look like a change of the guest's speed. Without any vCPU in this domain the
        emulator's CPUs count.
        """
        if not self.emulator_cpus:
            return self.cpus
        own = tuple(cpu for cpu in self.cpus if cpu not in self.emulator_cpus)
        return own or self.cpus

    @property
    def uuid(self) -> str | None:
        """The guest's UUID; None for the stack, the host and the pool."""
        return self.id.partition("/")[0] if self.kind is TenantKind.GUEST else None

    @property
    def key(self) -> str:
        """What stays when a guest is started again: its UUID; the id of all others."""
        return self.uuid or self.id


@dataclasses.dataclass(frozen=True, slots=True)
class DomainInventory:
    """The tenants of one cache domain: what `step` knows of the world."""

    domain: CacheDomain
    tenants: tuple[Tenant, ...]

    @property
    def names(self) -> dict[str, str]:
        """Names by id, for people: with the begin of the UUID where several are named alike."""
        times = Counter(tenant.name for tenant in self.tenants)
        return {
            one.id: f"{one.name} ({one.uuid[:8]})" if times[one.name] > 1 and one.uuid else one.name
            for one in self.tenants
        }


# ------------------------------------------------------------------------- control
