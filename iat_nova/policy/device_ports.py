# SPDX-License-Identifier: Apache-2.0
"""The ports through which the devices of guests and of the virtual switch write. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.model import Attachment, CacheDomain, VirtualSwitch


def of_guest(domain: CacheDomain, attachments: Iterable[Attachment]) -> tuple[str, ...]:
    """Return the ids of a domain's ports behind a guest's own devices.

    A virtual function, and an interface on a physical function, write through the port of the
    physical function. Interfaces of a virtual switch have no device: the switch's devices write.
    """
    addresses = {address for one in attachments for address in (one.device, one.pf)}
    return _of(domain, addresses)


def of_switch(domain: CacheDomain, switch: VirtualSwitch) -> tuple[str, ...]:
    """Return the ids of a domain's ports behind the DPDK ports of a virtual switch."""
    # Arguments follow the address: 0000:3b:00.0,representor=[0]
    return _of(domain, {(one.dpdk_device or "").split(",")[0] for one in switch.ports})


def _of(domain: CacheDomain, addresses: set[str | None]) -> tuple[str, ...]:
    return tuple(port.id for port in domain.device_ports if not addresses.isdisjoint(port.devices))
