# SPDX-License-Identifier: Apache-2.0
"""The strategy's description of the hardware state, and moves from plan to plan."""

from __future__ import annotations

import dataclasses

from iat_nova.model import UNLIMITED, CacheDomain, Message

BUFFER_WAYS = 2  # ways: least buffer at first, step of its growth, least shared ways besides DDIO's


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """Ways that no other tenant may fill."""

    tenant: str
    ways: int


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A tenant's limit of memory bandwidth, in percent."""

    tenant: str
    percent: int


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Confined tenants, the buffer, and DDIO's ways.

    Without confined tenants and without further settings, a plan is a host without the agent.

    * `confined`: tenants in the buffer.
    * `buffer`: number of the buffer's ways. The buffer lies below DDIO's ways.
    * `ddio`: number of DDIO's ways.
    * `on_ddio`: the buffer lies in the topmost ways, where devices write as well.
    * `clear`: critical tenants without I/O stay out of DDIO's ways, and out of a buffer in the
      topmost ways. Lines in ways that others fill are soon evicted.
    * `own`: tenants with ways that no other tenant may fill (see `masks`). A confined owner has no
      other ways.
    * `lenders`: tenants with guaranteed ways that lose nothing if others fill these ways, too.
    * `limits`: limits of memory bandwidth.
    * `dca_off`: root ports whose devices write to memory instead of into the LLC.
    * `aside`: ports (`CacheDomain.device_ports`) that write into `masks.aside`, not DDIO's ways.
    """

    confined: frozenset[str]
    buffer: int
    ddio: int
    on_ddio: bool = False
    clear: bool = False
    own: tuple[Own, ...] = ()
    lenders: tuple[str, ...] = ()
    limits: tuple[Limit, ...] = ()
    dca_off: tuple[str, ...] = ()
    aside: frozenset[str] = frozenset()

    def bandwidth_of(self, tenant: str) -> int:
        """Return a tenant's limit of memory bandwidth, in percent."""
        return next((one.percent for one in self.limits if one.tenant == tenant), UNLIMITED)

    def without(self, gone: frozenset[str]) -> Plan:
        """Return the plan without the tenants `gone` in the buffer; an empty buffer is reset."""
        left = self.confined - gone
        if left:
            return dataclasses.replace(self, confined=left)
        return dataclasses.replace(self, confined=left, buffer=BUFFER_WAYS, on_ddio=False)

    def barred(self, other: Plan) -> Plan:
        """Return the plan to bar if this plan is worse than `other`.

        If both have the same limits of memory bandwidth, the barred plan has no limits: its masks
        would fail under other limits, too.
        """
        return self if self.limits != other.limits else dataclasses.replace(self, limits=())

    @property
    def owners(self) -> frozenset[str]:
        """Tenants with ways of their own."""
        return frozenset(one.tenant for one in self.own)

    @property
    def reaching(self) -> frozenset[str]:
        """Owners that may also fill shared ways."""
        return frozenset(one.tenant for one in self.own[:2])


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A change of plan to try. `what` names the change, independent of the plan before.

    `tenant`: the tenant that `what` names, None if it names none. `ports`: the ports of devices.
    """

    subject: str  # a tenant's id, "ddio" or "layout"
    plan: Plan
    what: Message
    tenant: str | None = None
    ports: tuple[str, ...] = ()


def found(domain: CacheDomain, ddio_least: int) -> Plan:
    """Return the plan of a host as found: no tenant confined."""
    ddio = domain.ddio_found.count if domain.ddio_found is not None else ddio_least
    return Plan(frozenset(), BUFFER_WAYS, ddio)
