# SPDX-License-Identifier: Apache-2.0
"""All running guests of one libvirt connection, read with as few requests as possible.

A reading makes one request for the list (libvirt's handles carry name, UUID and run) and one for
all guests' packet counts. The XML is requested for each guest that may have changed: after a new
run or an event. Some changes have no event (``virsh update-device``). Therefore each reading also
requests the oldest tenth of all XML: ten readings cover every guest. The CPUs of vCPUs are
requested only where numad has chosen these: the XML does not name them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import libvirt

from iat_nova.inventory import domain_xml
from iat_nova.inventory.domain_xml import LibvirtDomain
from iat_nova.model import message

Counters = Mapping[str, int]  # packets by the host's net device

_RUNNING = libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING | libvirt.VIR_CONNECT_LIST_DOMAINS_PAUSED
REREAD_PARTS = 10
REREAD_LEAST = 20  # cheap: a small host is read completely each time


@dataclasses.dataclass(frozen=True, slots=True)
class RunningGuests:
    """The running guests in libvirt's order, and the packet counts of the host's net devices."""

    domains: tuple[LibvirtDomain, ...]
    packets: Counters


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """A domain as last read: `digest` is a hash of its XML, `run` comes from libvirt's handle."""

    run: int
    digest: bytes
    domain: LibvirtDomain


class LibvirtDomains:
    """Reads the guests of `connection` in one thread; any thread may call `changed`.

    `progress` is called after each answer from libvirt.
    """

    def __init__(self, connection: Any, progress: Callable[[], None] = lambda: None) -> None:
        self._connection = connection
        self._progress = progress
        self._known: dict[str, _Known] = {}  # by UUID, the oldest reading first
        self._lock = threading.Lock()
        self._changed: set[str] = set()

    def changed(self, uuid: str) -> None:
        """Note that a guest's XML may have changed."""
        with self._lock:
            self._changed.add(uuid)

    def read(self) -> RunningGuests:
        """Return all running guests. Raises `libvirt.libvirtError`."""
        handles = {one.UUIDString(): one for one in self._connection.listAllDomains(_RUNNING)}
        self._progress()
        self._known = {uuid: one for uuid, one in self._known.items() if uuid in handles}
        due = self._due(handles)
        try:
            while due:
                self._look(due[-1], handles[due[-1]])
                due.pop()
        finally:
            with self._lock:  # guests left unread by an error are read the next time
                self._changed.update(due)
        known = ((uuid, self._known[uuid].domain) for uuid in handles if uuid in self._known)
        running = {uuid: domain for uuid, domain in known if domain.run is not None}
        counted = [
            handles[uuid]
            for uuid, domain in running.items()
            if any(device.target for device in domain.devices)
        ]
        return RunningGuests(tuple(running.values()), self._packets(counted) if counted else {})

    def _due(self, handles: Mapping[str, Any]) -> list[str]:
        """Return the guests whose XML must be read: new, changed, and part of the rest."""
        with self._lock:
            changed, self._changed = self._changed, set()
        due = [
            uuid
            for uuid, handle in handles.items()
            if uuid in changed or uuid not in self._known or self._known[uuid].run != handle.ID()
        ]
        asked = frozenset(due)
        others = [uuid for uuid in self._known if uuid not in asked]
        return due + others[: max(REREAD_LEAST, -(-len(handles) // REREAD_PARTS))]

    def _look(self, uuid: str, handle: Any) -> None:
        """Read one guest; forget a guest that has ended."""
        before = self._known.pop(uuid, None)
        try:
            xml = handle.XMLDesc(0)
        except libvirt.libvirtError as error:
            if not self._connection.isAlive():
                raise
            if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                self._known[uuid] = _undescribed(uuid, handle, error)
        else:
            self._known[uuid] = _described(uuid, handle, xml, before)
        self._progress()

    def _packets(self, handles: Sequence[Any]) -> Counters:
        """Request all guests' counts at once, without waiting for busy guests (NOWAIT).

        libvirt itself leaves out guests that have ended; its test driver has no counts.
        """
        records = self._connection.domainListGetStats(
            list(handles),
            libvirt.VIR_DOMAIN_STATS_INTERFACE,
            libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
        )
        self._progress()
        packets: dict[str, int] = {}
        for _, stats in records:
            for index in range(stats.get("net.count", 0)):
                name = stats.get(f"net.{index}.name")
                counts = [stats.get(f"net.{index}.{way}.pkts") for way in ("rx", "tx")]
                if name is not None and None not in counts:
                    packets[name] = sum(counts)
        return packets


def _described(uuid: str, handle: Any, xml: str, before: _Known | None) -> _Known:
    """Parse a guest's XML, unless unchanged."""
    digest = hashlib.blake2b(xml.encode(errors="replace"), digest_size=16).digest()
    run = handle.ID()
    if before is not None and before.digest == digest:
        return _Known(run, digest, before.domain)
    domain = domain_xml.parse(xml, uuid=uuid, name=handle.name(), run=run)
    if domain.by_numad:
        try:
            domain = domain.placed(handle.vcpuPinInfo(libvirt.VIR_DOMAIN_AFFECT_LIVE))
        except libvirt.libvirtError:  # `pinning` warns
            digest = b""  # asked again with the next reading
    return _Known(run, digest, domain)


def _undescribed(uuid: str, handle: Any, error: Exception) -> _Known:
    """Return a guest whose XML could not be read; the next reading tries again."""
    warnings = (message("domain-undescribed", error=str(error)),)
    return _Known(-1, b"", LibvirtDomain(uuid, handle.ID(), handle.name(), warnings=warnings))
