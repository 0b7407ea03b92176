# SPDX-License-Identifier: Apache-2.0
"""The policy's classification: tenants of a cache domain, and the ways that each may request."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections import Counter
from collections.abc import Iterable

from iat_nova.model.devices import pci_address
from iat_nova.model.facts import CacheDomain, DcaPort, DeviceModel
from iat_nova.model.message import Message, message


class Priority(enum.StrEnum):
    """A tenant's priority: performance-critical (PC), best-effort (BE), or that of the stack.

    The stack is the virtual switch. The IAT paper gives the stack a priority of its own
    (section IV-A).
    """

    STACK = "stack"
    PC = "PC"  # performance-critical
    BE = "BE"  # best effort


class TenantKind(enum.StrEnum):
    """The kind of a tenant's members."""

    GUEST = "guest"
    POOL = "pool"  # all floating guests together
    STACK = "stack"  # Open vSwitch's PMD threads
    HOST = "host"  # everything else: housekeeping, emulator threads without CPUs of their own


@dataclasses.dataclass(frozen=True, slots=True)
class WayRequest:
    """The number of ways a tenant starts with, and its bounds.

    `promised`: guaranteed ways of the tenant's flavor (``iat:llc_ways``) as part of `min`; 0: none.
    `held`: an operator holds the tenant at this number of ways (`Hold`): `min` and `max` are equal.
    """

    min: int = 1
    initial: int = 2
    max: int = 11
    promised: int = 0
    held: bool = False

    @property
    def kept(self) -> int:
        """The number of ways that no other tenant may fill, guaranteed or held; 0: none."""
        return self.min if self.held else self.promised


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """A pause of all decisions by an operator: its start, end and reason.

    Times are of the wall clock; `until_s` is infinite when only `resume` ends the pause.
    """

    since_s: float
    until_s: float = math.inf
    reason: str = ""
    by: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """An operator's hold: a fixed number of ways for one tenant, for a time or until released.

    `tenant` is a guest's UUID (a hold outlives a restart of the guest), or ``stack``, ``host``,
    ``pool``; `name` is the display name. Times are of the wall clock; `until_s` is infinite when
    only `release` ends the hold. `ways` 0: the request cannot be read, and `reason` says why.
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
    """A user of a cache domain, as the controller sees it.

    `id` is unique in the domain: ``<uuid>/<run>`` for a guest, ``stack``, ``host``, ``pool``.
    `cpus` are the tenant's CPUs in this domain, all with the tenant's class of service. A guest on
    two domains is one tenant in each. `emulator_cpus`: the part of `cpus` on which only the guest's
    emulator and I/O threads run. `bandwidth_min`: the least memory bandwidth, in percent, to which
    a strategy may limit the tenant. `weight`: how much its speed counts beside another tenant's of
    its priority.
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
    member_warnings: tuple[tuple[str, Message], ...] = ()  # of the pool, each with a guest's name
    bandwidth_min: int = 100
    weight: float = 1.0
    emulator_cpus: tuple[int, ...] = ()
    ports: tuple[str, ...] = ()  # of `CacheDomain.device_ports`: through which its devices write

    @property
    def all_warnings(self) -> tuple[Message, ...]:
        """The warnings, and those of the pool's guests with the guests' names."""
        of_members = (
            message("member-warning", name=name, warning=one) for name, one in self.member_warnings
        )
        return (*self.warnings, *of_members)

    @property
    def counted_cpus(self) -> tuple[int, ...]:
        """The CPUs whose counters make the tenant's rates: the CPUs of its vCPUs.

        Emulator threads run now and then, at another IPC. If the guest's rates included them, a
        disk request would look like a change of the guest's speed. Without any vCPU in this domain
        the emulator's CPUs count.
        """
        if not self.emulator_cpus:
            return self.cpus
        own = tuple(cpu for cpu in self.cpus if cpu not in self.emulator_cpus)
        return own or self.cpus

    @property
    def has_device(self) -> bool:
        """Whether a device of its own writes for the tenant: a card, a VF, a disk."""
        passed_through = any(map(pci_address, self.devices))
        return passed_through or self.model is DeviceModel.SLICING

    @property
    def uuid(self) -> str | None:
        """The guest's UUID; None for the stack, the host and the pool."""
        return self.id.partition("/")[0] if self.kind is TenantKind.GUEST else None

    @property
    def key(self) -> str:
        """The identity that survives a restart of the guest: the UUID; for other tenants the id."""
        return self.uuid or self.id


@dataclasses.dataclass(frozen=True, slots=True)
class DomainInventory:
    """The tenants of one cache domain: the inventory that `step` receives.

    `elsewhere`: devices whose owners have no CPU in this domain, by PCI address; also the names of
    the stack's ports whose cards are unknown.
    """

    domain: CacheDomain
    tenants: tuple[Tenant, ...]
    elsewhere: tuple[str, ...] = ()

    def behind(self, port: str) -> tuple[Tenant, ...]:
        """Return the tenants whose devices write through a port of `CacheDomain.device_ports`.

        Without any, the host's kernel has the port.
        """
        return tuple(tenant for tenant in self.tenants if port in tenant.ports)

    def below(self, port: DcaPort) -> tuple[Tenant, ...]:
        """Return the tenants with a device below a root port."""
        return tuple(one for one in self.tenants if not set(port.devices).isdisjoint(one.devices))

    def owns_all(self, devices: Iterable[str]) -> bool:
        """Tell whether the owners of all these devices are known, and have CPUs in this domain.

        If not, ways and DDIO of the devices' port must stay. A device of the stack without a PCI
        address is a port whose card is unknown: the card may be any of the devices.
        """
        stack = (one.devices for one in self.tenants if one.priority is Priority.STACK)
        known = all(pci_address(one) for ones in (self.elsewhere, *stack) for one in ones)
        return known and set(devices).isdisjoint(self.elsewhere)

    @property
    def names(self) -> dict[str, str]:
        """Display names of tenants and ports by id; equal names get the beginning of the UUID."""
        marks = self.marks
        ports = {one.id: f"port {one.id}" for one in self.domain.device_ports}
        return ports | {one.id: one.name + marks.get(one.id, "") for one in self.tenants}

    @property
    def marks(self) -> dict[str, str]:
        """By id, the end of a display name that distinguishes guests with equal names."""
        times = Counter(tenant.name for tenant in self.tenants)
        return {one.id: mark(one.uuid) for one in self.tenants if times[one.name] > 1 and one.uuid}


OF_THE_HOST = frozenset({"cpus-offline", "guest-stale", "switch-stale"})
"""Codes of tenants' warnings that the agent reports once, as a notice or a problem of the host."""


def own_warnings(inventories: Iterable[DomainInventory]) -> dict[tuple[str, Message], None]:
    """Return the warnings of tenants themselves with the tenants' names, each once.

    A tenant of several cache domains counts once. Equal names of guests get the beginning of the
    UUID, also in different cache domains. A guest in the pool has its own name. Warnings
    `OF_THE_HOST` are left out.
    """
    found: dict[tuple[str, Message], None] = {}
    tenants = [tenant for inventory in inventories for tenant in inventory.tenants]
    times = Counter(one.name for one in {tenant.key: tenant for tenant in tenants}.values())
    for tenant in tenants:
        own = tenant.name + (mark(tenant.uuid) if times[tenant.name] > 1 and tenant.uuid else "")
        for name, said in (*((own, one) for one in tenant.warnings), *tenant.member_warnings):
            if said.code not in OF_THE_HOST:
                found[name, said] = None
    return found


def mark(uuid: str) -> str:
    """Return the end of a display name that distinguishes guests with the same name."""
    return f" ({uuid[:8]})"
