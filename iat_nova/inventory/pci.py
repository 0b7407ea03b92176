# SPDX-License-Identifier: Apache-2.0
"""PCI devices in sysfs: VF or PF, socket, net device, speed.

Files: `/sys/bus/pci/devices/<address>/{class,physfn,numa_node,net}`, `/sys/bus/auxiliary/devices`,
`/sys/class/net/<name>/{address,speed,dev_port,phys_port_name,lower_*}` and
`/sys/bus/vdpa/devices/<name>/vhost-vdpa-<n>` (kernel: Documentation/ABI/testing/sysfs-bus-pci,
sysfs-class-net, sysfs-bus-vdpa; drivers/vhost/vdpa.c; phys_port_name: net/devlink/port.c). Nothing
is cached: each call reads the present state of the machine. Unreadable values are None.
"""

from __future__ import annotations

import dataclasses
import errno
import pathlib
import re
from collections.abc import Iterable

from iat_nova.common.kernel_files import absent, exists, names, number_of, target, text_of
from iat_nova.model import Attachment, AttachmentKind, Nic
from iat_nova.model.devices import Cards

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_NAME = re.compile(r"(?:/dev/)?(?!\.{1,2}$)[^/\0\ud800-\udfff]{1,60}")
_LOWER = "lower_"  # begins the links of a bond or VLAN to its interfaces
_NETWORK_CLASS = "0x02"  # base class of the PCI class code
_VHOST_VDPA = re.compile(r"vhost-vdpa-[0-9]+")
_UPLINK = re.compile(
    r"(l[0-9]+)?p[0-9]+(s[0-9]+)?"
)  # a port of the card: p0; of a line card; split
_REPRESENTOR = re.compile(r"(c[0-9]+)?pf[0-9]+.*")  # of a VF, a subfunction, a PF: pf0vf1, pf0sf88
# SPEED_UNKNOWN (-1) as an unsigned number, of 32 bits, or of 16 bits in old drivers.
_UNKNOWN_MBPS = (0xFFFF, 0xFFFFFFFF)


class Pci:
    """PCI devices below a sysfs mounted at `root`."""

    def __init__(self, root: str | pathlib.Path = "/sys") -> None:
        root = pathlib.Path(root)
        self._devices = root / "bus/pci/devices"
        self._class = root / "class"
        self._vdpa = root / "bus/vdpa/devices"
        self._auxiliary = root / "bus/auxiliary/devices"

    def physfn(self, address: str) -> str | None:
        """Return the PCI address of a VF's physical function; None if not known to be a VF."""
        return target(self._devices / address / "physfn")

    def numa_node(self, address: str) -> int | None:
        """Return the node of a device; None if unknown, or if the machine has no nodes (-1)."""
        node = number_of(self._devices / address / "numa_node")
        return node if node is not None and node >= 0 else None

    def is_network(self, address: str) -> bool:
        """Tell whether the device is a network controller, with any driver."""
        return text_of(self._devices / address / "class").startswith(_NETWORK_CLASS)

    def net_names(self, address: str) -> tuple[str, ...]:
        """Return the network interfaces of a PCI device's own ports, the first port first.

        A device at one PCI address may have several ports. The result is empty while a userspace
        driver has the device. In switchdev mode, sysfs lists the representors of VFs under the
        device, too; representors are left out.
        """
        device = self._devices / address
        virtio = (name for name in names(device) if name.startswith("virtio"))
        found = [name for one in ("", *virtio) for name in names(device / one / "net")]
        labels = {
            name: text_of(self._class / "net" / name / "phys_port_name", errno.EOPNOTSUPP)
            for name in found
        }
        named = [name for name in found if _UPLINK.fullmatch(labels[name])]
        own = named or [name for name in found if not _REPRESENTOR.fullmatch(labels[name])]
        ports = {name: number_of(self._class / "net" / name / "dev_port") or 0 for name in own}
        return tuple(sorted(own, key=lambda name: (ports[name], labels[name], name)))

    def speed_gbps(self, name: str) -> float | None:
        """Return a net device's speed, None while unknown or while the link is down."""
        mbps = number_of(self._class / "net" / name / "speed", errno.EINVAL)  # down
        return mbps / 1000 if mbps is not None and mbps > 0 and mbps not in _UNKNOWN_MBPS else None

    def address_behind(self, device: str) -> str | None:
        """Return the PCI address behind a net or auxiliary device or a ``/dev/vhost-vdpa-N`` node.

        The device may be a child of other devices (a vdpa device, a subfunction): the nearest PCI
        device among its ancestors counts. None for a device that is absent or not behind PCI.
        """
        name = device.removeprefix("/dev/")
        vdpa = names(self._vdpa) if _VHOST_VDPA.fullmatch(name) else []
        nodes = (self._vdpa / one / name for one in vdpa)
        for path in (self._class / "net" / name, self._auxiliary / name, *nodes):
            try:
                real = path.resolve(strict=True)
            except OSError as error:
                if not absent(error):
                    raise
                continue
            except ValueError:  # a zero byte in the name
                continue
            found = (part for part in reversed(real.parts) if _ADDRESS.fullmatch(part))
            return next(found, None)
        return None

    def cards(self, name: str) -> Cards | None:
        """Return the PCI addresses behind an interface, a MAC, or a device's address or name.

        A virtual function comes with its physical function, a bond or VLAN with its lower
        interfaces. The result is empty if no PCI device is behind, and None if nothing has the
        name.
        """
        if not _NAME.fullmatch(name):
            return None
        if _MAC.fullmatch(name):
            alike = [one for one in names(self._class / "net") if self._mac(one) == name]
            return self._union(alike) if alike else None
        address = name if _ADDRESS.fullmatch(name) else self.address_behind(name)
        if address is not None:
            return tuple(filter(None, (address, self.physfn(address))))
        if not exists(self._class / "net" / name):
            return None
        links = names(self._class / "net" / name)
        return self._union(one[len(_LOWER) :] for one in links if one.startswith(_LOWER))

    def _union(self, interfaces: Iterable[str]) -> Cards:
        found = (card for one in sorted(interfaces) for card in self.cards(one) or ())
        return tuple(dict.fromkeys(found))

    def nics(self) -> tuple[Nic, ...]:
        """Return all physical functions that are network controllers, by address.

        Raises `OSError`.
        """
        return tuple(
            self._nic(address)
            for address in names(self._devices)
            if self.is_network(address) and self.physfn(address) is None
        )

    def _nic(self, address: str) -> Nic:
        ports = self.net_names(address)
        speeds = [speed for name in ports if (speed := self.speed_gbps(name)) is not None]
        name = ports[0] if ports else None
        mac = self._mac(name) if name else None
        speed = sum(speeds) if speeds else None
        return Nic(address, name, self.numa_node(address), speed, mac)

    def _mac(self, name: str) -> str | None:
        """Return an interface's MAC; None for an interface that is being removed (EINVAL)."""
        return text_of(self._class / "net" / name / "address", errno.EINVAL).lower() or None

    def locate(self, attachment: Attachment) -> Attachment:
        """Add physical function and NUMA node, and determine the kind of a `<hostdev>`."""
        match attachment.kind:
            case AttachmentKind.PCI | AttachmentKind.VF | AttachmentKind.PF:
                address: str | None = attachment.device
            case AttachmentKind.MACVTAP | AttachmentKind.VDPA:
                address = self.address_behind(attachment.device)
            case _:
                return attachment
        if address is None:
            return attachment
        pf = self.physfn(address)
        kind = attachment.kind
        if kind is AttachmentKind.PCI and self.is_network(address):
            kind = AttachmentKind.VF if pf else AttachmentKind.PF
        if pf is None and kind in (AttachmentKind.PF, AttachmentKind.MACVTAP, AttachmentKind.VDPA):
            pf = address
        return dataclasses.replace(attachment, kind=kind, pf=pf, numa_node=self.numa_node(address))
