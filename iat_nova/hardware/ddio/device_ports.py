# SPDX-License-Identifier: Apache-2.0
"""The ports of the firmware's table (`irdt`), with the devices that sysfs shows behind each."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from iat_nova.hardware.ddio import pci_place
from iat_nova.hardware.ddio.irdt import Device, Irdt
from iat_nova.model import CacheDomain, DevicePort

SHARED_CLASSES = 1
"""Classes of service for ports with ways of their own, on a host with several cache domains.

A resctrl group takes a class in all domains. The strategy of a domain does not know the other
domains' groups, so the number is fixed.
"""


def assign(table: Irdt, devices: Path, domains: Iterable[CacheDomain]) -> tuple[CacheDomain, ...]:
    """Return the domains with the ports whose devices write there. Raises `HardwareError`.

    A virtual function has no channel of its own: it writes through the port of its physical
    function, like the devices below a bridge through the port of the bridge. A port without a
    device in sysfs belongs to no domain.
    """
    domains = tuple(domains)
    ports: dict[str, DevicePort] = {}  # by the device that shows where the port is
    for members in table.ports():
        there = [one for one in members if one.channels and (devices / one.address).exists()]
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


def _behind(devices: Path, device: Device) -> Iterator[str]:
    yield device.address
    folder = (devices / device.address).resolve()
    yield from sorted(pci_place.virtual_functions(folder))
    if device.hierarchy:
        yield from sorted(pci_place.below(folder))
