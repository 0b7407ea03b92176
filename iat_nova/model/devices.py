# SPDX-License-Identifier: Apache-2.0
"""PCI addresses, and the network cards behind ports of Open vSwitch's userspace datapath.

Open vSwitch passes ``options:dpdk-devargs`` to DPDK, which has two syntaxes (DPDK, "Device
Arguments"): ``[bus:]device[,key=value...]`` and ``bus=...,.../class=...,.../driver=...,...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Cards = tuple[str, ...]
"""PCI addresses of network cards; empty: no card, as behind a tap."""

LookUp = Callable[[str], Cards | None]
"""Returns the cards of an interface, a MAC, or a device's address or name; None: unknown."""

_ADDRESS = re.compile(
    r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])", re.IGNORECASE | re.ASCII
)
_LAYERS = re.compile(r"(?:^|/)(?=(?:bus|class|driver)=)")
_BUS = re.compile(r"^(?:pci|vdev|auxiliary)[^0-9a-z_]", re.IGNORECASE)  # any separator, as DPDK
_PARTS = re.compile(r"(dev|fd|exec)\(([^()]*)\)")  # of net_failsafe
_PAIR = re.compile(r"(\w+)=([^,()]*)")

_WITHOUT_CARD = re.compile(
    "bareudp|dpdkr|dpdkvhostuser(client)?|(ip6)?(erspan|gre)|geneve|gtpu|internal|lisp|patch|srv6"
    "|stt|tap|vxlan"
)
_BY_NAME = ("system", "afxdp", "afxdp-nonpmd")  # types of ports that are named as an interface
_VIRTUAL = {  # DPDK's virtual devices, with the arguments that name interfaces or devices
    "af_packet": "iface",
    "af_xdp": "iface",
    "bond": "slave member",
    "failsafe": "dev",
    "mvneta": "iface",
    "mvpp2": "iface",
    "vdev_netvsc": "iface mac",
    "pcap": "iface rx_iface rx_iface_in tx_iface",
    "tap": "remote",
    "virtio_user": "path",
}
_MAYBE_WITHOUT = ("kni", "memif", "null", "pcap", "ring", "tap", "vhost", "virtio_user")


def pci_address(text: str) -> str | None:
    """Return a PCI address as the kernel writes it; None for another text.

    The domain may be missing, and digits may be capital or without leading zeros.
    """
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        return None
    domain, bus, device, function = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function}"


def cards_of(name: str, kind: str, devargs: str | None, look_up: LookUp) -> Cards | None:
    """Return the cards of a port with this name and type; None: unknown."""
    if _WITHOUT_CARD.fullmatch(kind):
        return ()
    if kind in _BY_NAME or not devargs:
        return look_up(name)
    text = devargs.strip()
    if not _LAYERS.match(text):
        return _of_device(_BUS.sub("", text), look_up)
    pairs = [pair.partition("=") for layer in _LAYERS.split(text) for pair in layer.split(",")]
    values = {key: value for key, _, value in reversed(pairs)}
    for key in ("addr", "id", "name"):
        if key in values:
            return _of_device(f"{values[key]},{text}", look_up)
    return _of_value("mac", values.get("mac", ""), look_up)


def _of_device(text: str, look_up: LookUp) -> Cards | None:
    """Return the cards of a device with its arguments."""
    name = text.split(",", maxsplit=1)[0]
    if address := pci_address(name):
        return look_up(address) or (address,)
    name = re.sub("^(?:net|eth)_", "", name)
    driver = next((one for one in (*_VIRTUAL, *_MAYBE_WITHOUT) if name.startswith(one)), None)
    if driver is None:
        return look_up(name)  # mlx5_core.sf.2
    keys = _VIRTUAL.get(driver, "").split()
    named = [(key, value) for key, value in _PAIR.findall(text) if key in keys]
    named += [(how, device) for how, device in _PARTS.findall(text) if driver == "failsafe"]
    found = [_of_value(key, value.strip(), look_up) for key, value in named]
    if None in found or not (found or driver in _MAYBE_WITHOUT):
        return None
    return tuple(dict.fromkeys(card for cards in found for card in cards or ()))


def _of_value(key: str, value: str, look_up: LookUp) -> Cards | None:
    """Return the cards that a value names: a MAC, a path, or an interface or device."""
    if key == "mac":
        digits = re.findall("[0-9a-f]", value.lower())
        pairs = ("".join(digits[at : at + 2]) for at in range(0, len(digits), 2))
        return look_up(":".join(pairs))
    if key == "path" and not value.startswith("/dev/vhost-vdpa-"):
        return ()  # a socket, or /dev/vhost-net
    found = look_up(value)
    return (
        _of_device(value, look_up) if found is None and key in ("slave", "member", "dev") else found
    )
