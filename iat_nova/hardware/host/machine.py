# SPDX-License-Identifier: Apache-2.0
"""One machine of an agent: the chosen interfaces of a host, or of an emulated server."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import (
    CacheAllocator,
    Counters,
    DdioWays,
    HardwareError,
    PortDca,
    PortWays,
    TenantCounts,
)
from iat_nova.hardware.counters.monitor import Monitor
from iat_nova.hardware.ddio.iordt_monitor import PortMonitor
from iat_nova.hardware.host.probe import Host
from iat_nova.hardware.kernel.cpu_watch import FIXED, Cpus, CpuWatch
from iat_nova.hardware.kernel.rollback import Restorable
from iat_nova.model import CacheDomain, DomainInventory, Message, message


@dataclasses.dataclass(frozen=True, slots=True)
class ChosenInterface:
    """One role (cat, ddio, counters, ddio counters), the chosen interface, and the reason.

    `denied`: the CPU has a better interface, which a repairable problem prevents. `remedy`: how to
    get the better interface, or None.
    """

    role: str
    chosen: str
    why: Message
    denied: bool = False
    remedy: Message | None = None

    @property
    def reason(self) -> Message:
        """The reason, with the remedy if there is one."""
        return HardwareError(self.why, self.remedy).message


ASKED = message("asked-for")
"""The reason of a choice that the configuration makes."""


class TenantsAndPorts:
    """A monitor of tenants that also counts ports, by cache domain and port id.

    `full`: the reason why tenants or ports are not counted; None if all are counted.
    """

    def __init__(self, tenants: Monitor, ports: PortMonitor) -> None:
        self._tenants = tenants
        self._ports = ports
        self.full: Message | None = None

    def watch(self, inventories: Mapping[int, DomainInventory]) -> None:
        """Count these tenants, and the ports of their domains. Raises `HardwareError`.

        After an error of ports, tenants are counted all the same, and tenants get RMIDs first.
        """
        self._tenants.watch(inventories)
        if self._tenants.full is not None and self._ports.counts:
            self._ports.close()
            self._tenants.watch(inventories)
        self.full = self._tenants.full
        try:
            self._ports.watch([one.domain for one in inventories.values()], self._tenants.free())
        except HardwareError as error:
            self.full = self.full or message("ports-not-monitored", error=error.message)

    def read(self) -> Mapping[tuple[int, str], TenantCounts]:
        """Return the counts by cache domain and tenant or port."""
        return {**self._tenants.read(), **self._ports.read()}

    def close(self) -> None:
        """Stop counting. Raises `HardwareError`."""
        self._ports.close()
        self._tenants.close()


@dataclasses.dataclass(frozen=True)
class Machine:
    """The interfaces of one machine, and its clock.

    `ends_s`: end of the machine's time, in seconds of `clock`. `dca`: switchable root ports.
    `port_ways`: ports with selectable ways. `host`: the host of the interfaces; None for a machine
    in memory, which needs no snapshot. `choices`: the chosen interfaces, with reasons. `parts`: the
    parts that a snapshot saves, in this order. `inspect` returns changes by other programs to the
    agent's classes and to `dca`; CPUs that were offline also get their classes again. `forget`
    drops the DDIO ways found at the start, to read DDIO's ways again. `locate` adds root ports and
    device ports to cache domains, by the domain to which the devices write; raises `HardwareError`.
    `monitor` counts each tenant's and port's part of the LLC, if configured.
    """

    counters: Counters
    allocator: CacheAllocator
    ddio: DdioWays
    clock: Clock
    ends_s: float = math.inf
    dca: PortDca | None = None
    port_ways: PortWays | None = None
    host: Host | None = None
    choices: tuple[ChosenInterface, ...] = ()
    parts: Mapping[str, Restorable] = dataclasses.field(default_factory=dict)
    inspect: Callable[[], tuple[Message, ...]] = tuple
    forget: Callable[[], None] = lambda: None
    locate: Callable[[tuple[CacheDomain, ...]], tuple[CacheDomain, ...]] = tuple
    monitor: Monitor | TenantsAndPorts | None = None

    def missing(self) -> tuple[Message, ...]:
        """Return messages on interfaces that are missing for writes of masks, with remedies."""
        if self.host is None or "pqos-msr" in self.parts or self.host.resctrl.mounted():
            return ()
        return (message("resctrl-unmounted", path=str(self.host.fs.root)),)

    def watch(self) -> Cpus:
        """Return a new watch for CPUs that go offline or come online."""
        return FIXED if self.host is None else CpuWatch(self.host.topology)

    def unseen(self, domains: tuple[CacheDomain, ...]) -> int:
        """Return the number of cache domains beyond `domains`, all offline."""
        return 0 if self.host is None else self.host.sockets.unseen(domains)
