# SPDX-License-Identifier: Apache-2.0
"""What the policy made of it: who shares a cache domain, and what each may ask for."""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.model.facts import CacheDomain, DeviceModel


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
    HOST = "host"  # everything else: housekeeping, emulator threads


@dataclasses.dataclass(frozen=True, slots=True)
class WayRequest:
    """How many ways a tenant starts with and between which bounds it moves."""

    min: int = 1
    initial: int = 2
    max: int = 11


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """Who shares a cache domain, as the controller knows it.

    `id` is unique in the domain: ``<uuid>/<run>`` for a guest, ``stack``, ``host``,
    ``pool``. `cpus` are the ones in this domain. A guest on two domains is one tenant in each.
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
    warnings: tuple[str, ...] = ()

    @property
    def uuid(self) -> str | None:
        """The guest's UUID; None for the stack, the host and the pool."""
        return self.id.partition("/")[0] if self.kind is TenantKind.GUEST else None


@dataclasses.dataclass(frozen=True, slots=True)
class DomainInventory:
    """The tenants of one cache domain: what `step` is told of the world."""

    domain: CacheDomain
    tenants: tuple[Tenant, ...]


# ------------------------------------------------------------------------- control
