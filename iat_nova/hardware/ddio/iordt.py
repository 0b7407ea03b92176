# SPDX-License-Identifier: Apache-2.0
"""What a host offers of Intel I/O RDT: classes of service and RMIDs of devices. Reads only.

Granite Rapids and Sierra Forest have it. Source: Intel RDT architecture specification
(document 356688). Nothing here has met silicon.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.cat import cpuid
from iat_nova.hardware.ddio import irdt, pci_place
from iat_nova.hardware.ddio.iordt_registers import SWITCH, Tag, TagRegisters
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.msr import L3_IO_QOS_CFG, Msr
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain, DevicePort, Message, message

TABLE = Path("/sys/firmware/acpi/tables/IRDT")

SHARED_CLASSES = 1
"""Classes of service for ports with ways of their own, on a host with several cache domains.

A resctrl group takes a class in all domains. The strategy of a domain does not know the other
domains' groups, so the number is fixed.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class IoRdt:
    """I/O RDT of a host: the CPU's features, registers by the table, the switch by cache domain."""

    cpu: cpuid.IoRdtFeatures
    registers: TagRegisters
    switches: Mapping[int, int]

    def described(self) -> Message:
        """Return the message on ports, channels, tags and switches."""
        table = self.registers.table
        on = tuple(str(one) for one, value in self.switches.items() if value & SWITCH[Tag.CLASS])
        return message(
            "iordt-present",
            ports=len(table.ports()),
            devices=len(table.devices),
            channels=len(table.channels),
            classes=len(self.registers.channels(Tag.CLASS)),
            rmids=len(self.registers.channels(Tag.RMID)),
            on=on,
        )


def read_table(path: Path = TABLE) -> irdt.Irdt:
    """Return the firmware's table. Raises `HardwareError` without a table, or a malformed one."""
    try:
        with path.open("rb") as file:
            data = file.read(irdt.MOST_BYTES + 1)
    except FileNotFoundError:
        raise HardwareError(message("iordt-no-table", path=str(path))) from None
    except OSError as error:
        raise HardwareError(unusable(path, error), message("run-as-root")) from error
    return irdt.read(data)


def tag_registers(memory: PhysicalMemory, table: Path) -> TagRegisters:
    """Return the registers of the host's channels. Raises `HardwareError` unless readable."""
    registers = TagRegisters(read_table(table), memory)
    for tag in Tag:
        registers.read(tag)
    memory.check()
    return registers


def look(topology: Topology, msr: Msr, memory: PhysicalMemory, table: Path, cpus: Path) -> IoRdt:
    """Return the host's I/O RDT. Raises `HardwareError` with the reason if it cannot be used.

    `cpus`: the folder of the cpuid driver. The table (IRDT) is read first: hosts without I/O RDT
    need no driver to show that.
    """
    read_table(table)
    features = cpuid.io_rdt(min(topology.online()), cpus)
    if not any(features):
        raise HardwareError(message("iordt-not-in-cpu"))
    switches = {one.id: msr.read(one.cpus[0], L3_IO_QOS_CFG) for one in topology.caches()}
    return IoRdt(features, tag_registers(memory, table), switches)


def assign(
    table: irdt.Irdt, devices: Path, domains: Iterable[CacheDomain]
) -> tuple[CacheDomain, ...]:
    """Return the domains with the ports whose devices write there. Raises `HardwareError`.

    A virtual function has no channel of its own: it writes through the port of its physical
    function, like the devices below a bridge through the port of the bridge. A port without a
    device in sysfs belongs to no domain.
    """
    domains = tuple(domains)
    ports: dict[str, DevicePort] = {}  # by the device that shows where the port is
    for members in table.ports():
        there = [one for one in members if one.channels and files.exists(devices / one.address)]
        if there:
            found = dict.fromkeys(address for one in there for address in _behind(devices, one))
            ports[there[0].address] = DevicePort(members[0].address, tuple(found))
    places = pci_place.by_domain(devices, domains, ports)
    shared = SHARED_CLASSES if len(domains) > 1 and any(places.values()) else 0
    return tuple(
        dataclasses.replace(
            domain,
            device_ports=tuple(ports[n] for n in places[domain.id]),
            shared_port_classes=shared,
        )
        for domain in domains
    )


def _behind(devices: Path, device: irdt.Device) -> Iterator[str]:
    yield device.address
    folder = devices / device.address
    yield from sorted(pci_place.virtual_functions(folder))
    if device.hierarchy:
        yield from sorted(pci_place.below(folder))
