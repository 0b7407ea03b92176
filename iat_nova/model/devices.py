# SPDX-License-Identifier: Apache-2.0
"""PCI addresses, and the network cards behind ports of Open vSwitch's userspace datapath.

Open vSwitch passes ``options:dpdk-devargs`` to DPDK, which has two syntaxes (DPDK, "Device
Arguments"): ``[bus:]device[,key=value...]`` and ``bus=...,.../class=...,.../driver=...,...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Cards = tuple[str, ...]
"""PCI addresses of network cards; empty: no card, as behind a tap."""

LookUp = Callable[[str], Cards | None]
"""Returns the cards of an interface, a MAC, or a device's address or name; None: unknown."""

_ADDRESS = re.compile(
    r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([01]?[0-9a-f])\.([0-7])", re.IGNORECASE | re.ASCII
)
_MAC_DIGITS = 12
_LAYER = re.compile(r"(?:bus|class|driver)=")
_BUS = re.compile(r"(?:pci|vdev|auxiliary)[^0-9A-Za-z_]")  # any separator, as DPDK
_AUXILIARY = re.compile(r"\w+\.\w+\.[0-9]+")  # mlx5_core.sf.2
_VDPA = re.compile(r"/dev/vhost-vdpa-[0-9]+")
_NESTED = re.compile(r"(dev|fd|exec)\(([^()]*)\)")  # of net_failsafe

_TUNNELS = ("bareudp", "erspan", "geneve", "gre", "gtpu", "lisp", "srv6", "stt", "vxlan")
_GUESTS = ("dpdkr", "dpdkvhostuser", "dpdkvhostuserclient", "internal", "patch", "tap")
_WITHOUT_CARD = frozenset((*_TUNNELS, "ip6erspan", "ip6gre", *_GUESTS))
_NAMED = frozenset(
    ("system", "afxdp", "afxdp-nonpmd")
)  # types whose ports bear an interface's name
_INTERFACES = {  # of virtual devices that need a card: keys with interfaces or devices
    "af_packet": ("iface",),
    "af_xdp": ("iface",),
    "bond": ("slave", "member"),
    "failsafe": ("dev",),
    "mvneta": ("iface",),
    "mvpp2": ("iface",),
    "vdev_netvsc": ("iface", "mac"),
}
_MAYBE = {  # of virtual devices that have a card only if one of these keys names it
    "kni": (),
    "memif": (),
    "null": (),
    "pcap": ("iface", "rx_iface", "rx_iface_in", "tx_iface"),
    "ring": (),
    "tap": ("remote",),
    "vhost": (),
    "virtio_user": ("path",),
}


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
    if kind in _WITHOUT_CARD:
        return ()
    if kind in _NAMED or not devargs:
        return look_up(name)
    text = devargs.strip()
    return _of_layers(text, look_up) if _LAYER.match(text) else _of_device(text, look_up)


def _of_device(text: str, look_up: LookUp) -> Cards | None:
    """Return the cards of ``[bus:]device[,key=value...]``."""
    if bus := _BUS.match(text):
        text = text[bus.end() :]
    name, *arguments = text.split(",")
    if address := pci_address(name):
        return look_up(address) or (address,)
    if _AUXILIARY.fullmatch(name):
        return look_up(name)
    pairs = [
        (key.strip(), value.strip()) for key, _, value in (a.partition("=") for a in arguments)
    ]
    pairs += [("dev", device if how == "dev" else "") for how, device in _NESTED.findall(text)]
    return _of_virtual(re.sub("^(?:net|eth)_", "", name), pairs, look_up)


def _of_virtual(driver: str, pairs: Iterable[tuple[str, str]], look_up: LookUp) -> Cards | None:
    """Return the cards that the arguments of a virtual device name."""
    known = _INTERFACES | _MAYBE
    kind = next((one for one in known if driver.startswith(one)), None)
    if kind is None:
        return None
    named = [
        (_mac(value) or "") if key == "mac" else value for key, value in pairs if key in known[kind]
    ]
    if kind == "virtio_user":  # another path is a socket, or /dev/vhost-net
        named = list(filter(_VDPA.fullmatch, named))
    if not named and kind in _INTERFACES:
        return None
    return _together(_of_value(value, look_up) for value in named)


def _of_value(value: str, look_up: LookUp) -> Cards | None:
    """Return the cards of an interface, of a MAC, or of a device within a virtual device."""
    found = look_up(value) if value else None
    return _of_device(value, look_up) if found is None else found


def _of_layers(text: str, look_up: LookUp) -> Cards | None:
    """Return the cards of ``bus=pci,addr=.../class=eth,mac=.../driver=...``."""
    layers = re.split("/(?=(?:bus|class|driver)=)", text)
    pairs = [pair.partition("=")[::2] for layer in layers for pair in layer.split(",")]
    values = {key.strip(): value.strip() for key, value in reversed(pairs)}
    for key in ("addr", "id", "name"):
        if values.get(key):
            return _of_device(",".join([values[key], *map("=".join, pairs)]), look_up)
    mac = _mac(values.get("mac", ""))
    return look_up(mac) if mac else None


def _mac(text: str) -> str | None:
    digits = re.sub("[:.-]", "", text.lower())
    if len(digits) != _MAC_DIGITS or re.search("[^0-9a-f]", digits):
        return None
    return ":".join(digits[at : at + 2] for at in range(0, _MAC_DIGITS, 2))


def _together(found: Iterable[Cards | None]) -> Cards | None:
    """Return all cards, each once; None if some are unknown."""
    cards: dict[str, None] = {}
    for one in found:
        if one is None:
            return None
        cards |= dict.fromkeys(one)
    return tuple(cards)
