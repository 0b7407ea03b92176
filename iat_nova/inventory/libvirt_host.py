# SPDX-License-Identifier: Apache-2.0
"""Check that a libvirt connection leads to this host: masks must follow this host's guests.

A wrong refusal would leave a host unmanaged, so only certain differences count. Containers may have
their own hostname, and `host_uuid` of ``libvirtd.conf`` may replace the host's UUID. Neither is
enough alone.
"""

from __future__ import annotations

import dataclasses
import errno
import pathlib
import socket
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from iat_nova.common.cpulist import parse_cpus
from iat_nova.common.kernel_files import text_of

REMEDY = "set [iat] libvirt_uri to the libvirt of this host, qemu:///system"
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_DRIVER = "QEMU"  # libvirt's test driver shows an invented host


@dataclasses.dataclass(frozen=True, slots=True)
class ThisHost:
    """The identity of a host; None: not known.

    `cpus`: the number of present CPUs, online or not. `uuid`: the firmware's (SMBIOS).
    """

    name: str
    cpus: int | None
    uuid: str | None


def this_host(root: pathlib.Path = pathlib.Path("/sys")) -> ThisHost:
    """Return the identity of this host; the UUID needs root's rights."""
    try:
        present = parse_cpus(text_of(root / "devices/system/cpu/present"))
        cpus = max(present, default=-1) + 1 or None
    except ValueError:
        cpus = None
    return ThisHost(
        socket.gethostname(),
        cpus,
        text_of(root / "class/dmi/id/product_uuid", errno.EACCES) or None,
    )


def elsewhere(connection: Any, uri: str, here: ThisHost) -> str | None:
    """Return the evidence that the connection's host is not `here`, or None.

    Raises `libvirt.libvirtError`.
    """
    if connection.getType() != _DRIVER:
        return None
    cpus = len(connection.getCPUMap()[1])
    if here.cpus is not None and cpus != here.cpus:
        return f"another host's libvirt: {cpus} CPUs there, {here.cpus} here; {REMEDY}"
    name = connection.getHostname()
    if _short(name) == _short(here.name):
        return None
    names = f"'{name}' there, '{here.name}' here"
    server = urlsplit(uri).hostname
    if server is not None and server not in _LOOPBACK:
        return f"another host's libvirt: hostname {names}; {REMEDY}"
    # Last, because libvirtd runs each emulator at the first such request.
    uuid = _host_uuid(connection.getCapabilities())
    if uuid is None or here.uuid is None or uuid == here.uuid.lower():
        return None
    uuids = f"UUID {uuid} there, {here.uuid.lower()} here"
    return f"another host's libvirt: hostname {names}, {uuids}; {REMEDY}"


def _host_uuid(capabilities: str) -> str | None:
    try:
        uuid = ElementTree.fromstring(capabilities).findtext("host/uuid")
    except ElementTree.ParseError:
        return None
    return uuid.strip().lower() if uuid else None


def _short(name: str) -> str:
    """Return a hostname without its domain: libvirt adds a domain known to DNS."""
    return name.partition(".")[0].lower()
