# SPDX-License-Identifier: Apache-2.0
"""Facts about a domain's tenants, computed once per inventory."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.model import CacheDomain, DeviceModel, DomainInventory, Priority, TenantKind
from iat_nova.strategies.iat.state import RosterMember


def is_best_effort(member: RosterMember) -> bool:
    """Return whether a tenant may have to give ways; false for the stack."""
    return member.priority is Priority.BE and member.kind is not TenantKind.STACK


@dataclasses.dataclass(frozen=True, slots=True)
class Roster:
    """The tenants of a domain, sorted by role.

    `io`: the stack and the I/O tenants, whose LLC references the machine watches. `sliced`: I/O
    tenants with their own buffers. `aggregated`: I/O tenants behind the stack. Without a known
    stack every I/O tenant counts as sliced.
    """

    inventory: DomainInventory
    members: tuple[RosterMember, ...]
    by_id: Mapping[str, RosterMember]
    ids: tuple[str, ...]
    stack: RosterMember | None
    sliced: tuple[RosterMember, ...]
    aggregated: tuple[RosterMember, ...]
    best_effort: tuple[RosterMember, ...]
    critical: tuple[RosterMember, ...]

    @classmethod
    def of(cls, inventory: DomainInventory) -> Roster:
        """Return the tenants of an inventory, sorted by role."""
        members = tuple(RosterMember.of(tenant) for tenant in inventory.tenants)
        stack = next((m for m in members if m.kind is TenantKind.STACK), None)
        io = [m for m in members if m.io and m is not stack]
        behind = {m.id for m in io if stack is not None and m.model is DeviceModel.AGGREGATION}
        return cls(
            inventory=inventory,
            members=members,
            by_id={m.id: m for m in members},
            ids=tuple(m.id for m in members),
            stack=stack,
            sliced=tuple(m for m in io if m.id not in behind),
            aggregated=tuple(m for m in io if m.id in behind),
            best_effort=tuple(m for m in members if is_best_effort(m)),
            critical=tuple(m for m in members if m is not stack and not is_best_effort(m)),
        )

    @property
    def domain(self) -> CacheDomain:
        """The cache domain of the tenants."""
        return self.inventory.domain

    @property
    def host(self) -> str | None:
        """The id of the host's class; None if every CPU has an owner."""
        return next((m.id for m in self.members if m.kind is TenantKind.HOST), None)

    @property
    def io(self) -> tuple[RosterMember, ...]:
        """The stack and all I/O tenants."""
        stack = (self.stack,) if self.stack is not None else ()
        return stack + self.sliced + self.aggregated

    def is_io(self, tenant: str) -> bool:
        """Return whether a tenant is the stack or does I/O."""
        member = self.by_id[tenant]
        return member.io or member is self.stack

    def least(self, member: RosterMember) -> int:
        """The fewest ways of a tenant, by policy and hardware."""
        return max(member.ways.min, self.domain.min_ways)

    def most(self, member: RosterMember) -> int:
        """The most ways of a tenant, by policy and unreserved ways."""
        free = self.domain.ways - self.domain.reserved_ways.count
        return max(self.least(member), min(member.ways.max, free))

    def initial(self, member: RosterMember) -> int:
        """The ways at a tenant's start, within the tenant's bounds."""
        return min(max(member.ways.initial, self.least(member)), self.most(member))
