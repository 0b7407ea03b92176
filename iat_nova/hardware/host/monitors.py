# SPDX-License-Identifier: Apache-2.0
"""Monitors of a host: of tenants, and with I/O RDT of devices' ports as well."""

from __future__ import annotations

from collections.abc import Mapping

from iat_nova.hardware.api import HardwareError, TenantCounts
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP
from iat_nova.hardware.counters.monitor import BANDWIDTH, OCCUPANCY, Monitor, offered
from iat_nova.hardware.ddio.iordt_monitor import PortMonitor
from iat_nova.hardware.host.probe import Host
from iat_nova.model import DomainInventory, Message, message


class TenantsAndPorts:
    """A monitor of tenants whose counts include those of ports, by cache domain and port id.

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


def port_monitor(host: Host) -> PortMonitor | None:
    """Return a monitor of ports.

    None without RMIDs for ports, without monitoring by resctrl, or without its ``debug``.

    Raises `HardwareError` if the host has no I/O RDT.
    """
    cpu, offer = host.io_rdt().cpu, offered(host.fs)
    if offer is None or not cpu.occupancy or host.fs.hardware_class(DEFAULT_GROUP) is None:
        return None
    return PortMonitor(
        host.fs,
        host.msr,
        host.topology,
        host.tags,
        OCCUPANCY if OCCUPANCY in offer.events else None,
        BANDWIDTH if cpu.traffic and BANDWIDTH in offer.events else None,
    )
