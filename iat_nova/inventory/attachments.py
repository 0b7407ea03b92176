# SPDX-License-Identifier: Apache-2.0
"""All forms in which a domain's XML attaches a guest to a network or assigns a device."""

from __future__ import annotations

import dataclasses
import functools
from xml.etree import ElementTree

from iat_nova.model import Attachment, AttachmentKind, Message, message
from iat_nova.model.message import MessageError


@dataclasses.dataclass(frozen=True, slots=True)
class XmlDevice:
    """An attachment as described by the XML, and the host's interface with its packet counts.

    `target` is None where the host sees no packets (VF, PF, vDPA). `target` is also None where
    another source gives the counts more cheaply (Open vSwitch for its vhost-user ports).
    """

    attachment: Attachment
    target: str | None = None


class _Unintelligible(MessageError):
    """The element does not name its device; `message` gives the missing part."""


def parse(domain: ElementTree.Element) -> tuple[tuple[XmlDevice, ...], tuple[Message, ...]]:
    """Return a domain's devices, in the XML's order, and a warning for each unknown device."""
    devices: list[XmlDevice] = []
    warnings: list[Message] = []
    found = [(element, _interface) for element in domain.iterfind("devices/interface")]
    found += [  # usb, scsi, mdev do not use DDIO
        (element, _hostdev)
        for element in domain.iterfind("devices/hostdev")
        if element.get("type") == "pci"
    ]
    for element, read in found:
        try:
            devices.append(read(element))
        except _Unintelligible as error:
            warnings.append(message("device-unwatched", cause=error.message))
    return tuple(devices), tuple(warnings)


def _hostdev(element: ElementTree.Element) -> XmlDevice:
    """Read a flavor's PCI alias or a whole NIC: only sysfs distinguishes VFs, PFs and others."""
    return XmlDevice(Attachment(AttachmentKind.PCI, _pci_address(element, message("hostdev"))))


def _interface(element: ElementTree.Element) -> XmlDevice:
    mac = _get(element, "mac", "address")
    mac = mac.lower() if mac else None
    # Neutron's port, if the XML has its id; OVSDB is the better source.
    port = _get(element, "virtualport/parameters", "interfaceid")
    make = functools.partial(Attachment, mac=mac, port=port)
    target = _get(element, "target", "dev")
    match element.get("type", ""):
        case "hostdev":
            address = _pci_address(element, message("interface-hostdev"))
            return XmlDevice(make(AttachmentKind.VF, address))
        case "direct":
            # Named by the lower device (a VF, if Nova made it): the name `macvtapN` has no meaning.
            below, mode = _required(element, "source", "dev"), _get(element, "source", "mode")
            exclusive = mode == "passthrough"
            return XmlDevice(make(AttachmentKind.MACVTAP, below, exclusive=exclusive), target)
        case "vdpa":
            return XmlDevice(make(AttachmentKind.VDPA, _required(element, "source", "dev")))
        case "vhostuser":
            # Otherwise named by the socket, whose last part is the port's name in OVS.
            name = target or _required(element, "source", "path").rpartition("/")[2]
            return XmlDevice(make(AttachmentKind.VHOST_USER, name))
        case "bridge" | "ethernet" | "network" as kind:
            tap = target or mac
            if tap is None:
                raise _Unintelligible(message("interface-without-target", type=kind))
            bridge = _get(element, "source", "bridge")  # qbr... with the hybrid plug
            return XmlDevice(make(AttachmentKind.TAP, tap, bridge=bridge), target)
        case unknown:
            raise _Unintelligible(message("interface-of-unknown-type", type=unknown))


def _get(element: ElementTree.Element, child: str, attribute: str) -> str | None:
    found = element.find(child)
    return (found.get(attribute) or None) if found is not None else None


def _required(element: ElementTree.Element, child: str, attribute: str) -> str:
    value = _get(element, child, attribute)
    if value is None:
        said = message(
            "interface-without", type=element.get("type"), child=child, attribute=attribute
        )
        raise _Unintelligible(said)
    return value


def _pci_address(element: ElementTree.Element, device: Message) -> str:
    """Return ``dddd:bb:ss.f`` from `<source><address .../>`, hexadecimal with or without 0x."""
    address = element.find("source/address")
    if address is None:
        raise _Unintelligible(message("device-without-address", device=device))
    try:
        domain, bus, slot, function = (
            int(address.get(part, default), 16)
            for part, default in (("domain", "0"), ("bus", ""), ("slot", ""), ("function", "0"))
        )
    except ValueError:
        said = message("device-address-unreadable", device=device, address=str(address.attrib))
        raise _Unintelligible(said) from None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
