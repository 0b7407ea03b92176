# SPDX-License-Identifier: Apache-2.0
"""All forms in which a domain's XML attaches a guest to a network, a device or a storage target."""

from __future__ import annotations

import dataclasses
import functools
import re
from xml.etree import ElementTree

from iat_nova.common.untrusted import shortened
from iat_nova.model import Attachment, AttachmentKind, Message, message
from iat_nova.model.message import MessageError

_ARGUMENTS = (
    "{http://libvirt.org/schemas/domain/qemu/1.0}commandline/*"  # given to QEMU as they are
)
_TARGETS = re.compile(r"vhost-user-(?:blk|scsi|fs)|vhost-scsi")  # QEMU's devices


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
    """Return a domain's devices, in the XML's order.

    Unknown devices, and storage that other threads serve, have a warning.
    """
    devices: list[XmlDevice] = []
    warnings: list[Message] = []
    for element in (*domain.iterfind("devices/*"), *domain.iterfind(_ARGUMENTS)):
        try:
            device = _read(element)
        except _Unintelligible as error:
            warnings.append(message("device-unwatched", cause=error.message))
            continue
        if device is None:
            continue
        devices.append(device)
        if device.attachment.kind is AttachmentKind.TARGET or element.get("type") == "nvme":
            served = device.attachment.device
            warnings.append(message("storage-threads-unmanaged", device=served))
    return tuple(devices), tuple(warnings)


def _read(element: ElementTree.Element) -> XmlDevice | None:
    """Read one device; None for a device of a kind that does not use DDIO, and no vhost target."""
    match element.tag, element.get("type", ""):
        case "interface", kind:
            return _interface(element, kind)
        case "hostdev", "pci":  # a PCI alias or a whole NIC: only sysfs distinguishes these
            return XmlDevice(Attachment(AttachmentKind.PCI, _pci_address(element)))
        case "hostdev", "scsi_host" if _get(element, "source", "protocol") == "vhost":
            target = "wwpn"
        case "disk", "vhostuser":
            target = "path"
        case "disk", "vhostvdpa":
            device = _required(element, "source", "dev")
            return XmlDevice(Attachment(AttachmentKind.VDPA, device))
        case "disk", "nvme":  # QEMU's own driver
            return XmlDevice(Attachment(AttachmentKind.PCI, _pci_address(element)))
        case "filesystem", _ if _get(element, "source", "socket"):  # else libvirt starts the server
            target = "socket"
        case _:
            named = _TARGETS.search(element.get("value", ""))
            return XmlDevice(Attachment(AttachmentKind.TARGET, named[0])) if named else None
    return XmlDevice(Attachment(AttachmentKind.TARGET, _required(element, "source", target)))


def _interface(element: ElementTree.Element, kind: str) -> XmlDevice:
    mac = _get(element, "mac", "address")
    mac = mac.lower() if mac else None
    # Neutron's port, if the XML has its id; OVSDB is the better source.
    port = _get(element, "virtualport/parameters", "interfaceid")
    make = functools.partial(Attachment, mac=mac, port=port)
    target = _get(element, "target", "dev")
    match kind:
        case "hostdev":
            return XmlDevice(make(AttachmentKind.VF, _pci_address(element)))
        case "direct":
            # Named by the lower device (a VF, if Nova made it): the name `macvtapN` has no meaning.
            below, mode = _required(element, "source", "dev"), _get(element, "source", "mode")
            exclusive = mode == "passthrough"
            return XmlDevice(make(AttachmentKind.MACVTAP, below, exclusive=exclusive), target)
        case "vdpa":
            return XmlDevice(make(AttachmentKind.VDPA, _required(element, "source", "dev")))
        case "vhostuser":
            # Otherwise named by the socket, whose last part is mostly the port's name in OVS.
            path = _get(element, "source", "path")
            name = target or _required(element, "source", "path").rpartition("/")[2]
            return XmlDevice(make(AttachmentKind.VHOST_USER, name, vhost_path=path))
        case "bridge" | "ethernet" | "network":
            tap = target or mac or _required(element, "target", "dev")
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
        raise _Unintelligible(_without(element, f"<{child} {attribute}=...>"))
    return value


def _without(element: ElementTree.Element, part: str) -> Message:
    return message("device-without", element=element.tag, type=element.get("type"), part=part)


def _pci_address(element: ElementTree.Element) -> str:
    """Return ``dddd:bb:ss.f`` from `<source><address .../>`, hexadecimal with or without 0x."""
    address = element.find("source/address")
    given = {} if address is None else address.attrib
    try:
        domain, bus, slot, function = (
            int(given.get(part, default), 16)
            for part, default in (("domain", "0"), ("bus", ""), ("slot", ""), ("function", "0"))
        )
    except ValueError:
        said = _without(element, f"<address>: {shortened(str(given))}")
        raise _Unintelligible(said) from None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
