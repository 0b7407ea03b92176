# SPDX-License-Identifier: Apache-2.0
"""Who runs here, asked of libvirt; a full picture at each call.

Events only say "look again". What libvirt cannot tell shows as a warning on the guest or on the
source; nothing that a domain holds raises.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import libvirt

from iat_nova.clock import Clock, SystemClock
from iat_nova.inventory import domain_xml, pinning
from iat_nova.inventory.cpusets import CpuSets
from iat_nova.inventory.domain_xml import Domain
from iat_nova.inventory.libvirt_link import LibvirtLink
from iat_nova.inventory.nova_metadata import NovaMetadata
from iat_nova.inventory.patience import Patience
from iat_nova.inventory.pinning import Placement
from iat_nova.inventory.spool import ExtraSpecsReader, SpoolError
from iat_nova.model import Attachment, Guest

ANSWER_S = 1.0  # what the loop can spare; keep-alives take 20 s to find a libvirtd that hangs

_RUNNING = libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING | libvirt.VIR_CONNECT_LIST_DOMAINS_PAUSED

Counters = Mapping[str, int]  # packets by the host's net device
_Parsed = dict[str, tuple[str, Domain]]  # XML and what it means, by UUID


class LibvirtSource:
    """The running and paused domains of one libvirt, as guests.

    `guests` is for one thread, the loop's. While libvirt is away it returns the last good
    picture with a warning on every guest, and `warnings` says what is wrong. A libvirtd that hangs
    holds it up for `ANSWER_S` at the most.
    """

    def __init__(
        self,
        uri: str,
        cpusets: CpuSets,
        spool: ExtraSpecsReader | None = None,
        *,
        clock: Clock | None = None,
        link: LibvirtLink | None = None,
    ) -> None:
        self._link = link or LibvirtLink(uri)
        self._cpusets = cpusets
        self._spool = spool
        self._clock = clock or SystemClock()
        self._on_hint: Callable[[], None] = lambda: None
        self._patience = Patience(ANSWER_S, libvirt.libvirtError, on_late=self._look_again)
        self._problem: str | None = None  # of the last reading
        self._parsed: _Parsed = {}
        self._last: tuple[Guest, ...] = ()
        self._last_seen_s: float | None = None  # wall clock

    def start(self, on_hint: Callable[[], None]) -> None:
        """Connect; from now on `on_hint` is called, on libvirt's thread, when to look again."""
        self._on_hint = on_hint
        self._link.start(on_hint)

    def _look_again(self) -> None:
        """A late answer came: libvirtd can be asked again."""
        self._on_hint()

    def close(self) -> None:
        """Give the connection back."""
        self._link.close()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with the source as a whole now."""
        problem = self._link.problem or self._problem
        if problem is None:
            return ()
        return (f"libvirt at {self._link.uri}: {problem}; {self._as_of()}",)

    def guests(self, online: frozenset[int]) -> tuple[Guest, ...]:
        """Return all guests; `online` are the host's processors on which anything can run."""
        connection = self._link.connection
        if connection is None:
            return self._stale()
        try:
            domains, counters, self._parsed = self._patience.ask(
                lambda: _read(connection, self._parsed)
            )
        except TimeoutError as error:
            self._problem = f"libvirtd hangs: {error}"
            return self._stale()
        except libvirt.libvirtError as error:
            # Should the connection have died, the link learns of it by itself.
            self._problem = str(error)
            return self._stale()
        self._problem = None
        self._last = self._guests(domains, counters, online)
        self._last_seen_s = self._clock.wall()
        return self._last

    def _guests(
        self, domains: Sequence[Domain], counters: Counters, online: frozenset[int]
    ) -> tuple[Guest, ...]:
        told = [(domain, *self._extra_specs(domain)) for domain in domains]
        places = pinning.place(
            [(domain, specs) for domain, specs, _ in told], self._cpusets, online
        )
        return tuple(
            _guest(domain, specs, place, counters, warnings)
            for (domain, specs, warnings), place in zip(told, places, strict=True)
        )

    def _extra_specs(self, domain: Domain) -> tuple[Mapping[str, str] | None, tuple[str, ...]]:
        """Ask the metadata first (Nova 32 and later), then the spool."""
        if domain.nova is not None and domain.nova.extra_specs is not None:
            return domain.nova.extra_specs, ()
        if self._spool is None:
            return None, ()
        try:
            return self._spool.extra_specs_of(domain.uuid), ()
        except SpoolError as error:
            return None, (str(error),)

    def _stale(self) -> tuple[Guest, ...]:
        warning = f"stale: libvirt is away; {self._as_of()}"
        return tuple(
            dataclasses.replace(guest, warnings=(*guest.warnings, warning)) for guest in self._last
        )

    def _as_of(self) -> str:
        if self._last_seen_s is None:
            return "no guests have been seen yet"
        seen = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self._last_seen_s))
        return f"guests are shown as of {seen}"


def _read(connection: Any, before: _Parsed) -> tuple[list[Domain], Counters, _Parsed]:
    """Read all running guests; XML that is what it was `before` is not parsed again."""
    parsed: _Parsed = {}
    domains: list[Domain] = []
    counted: list[Any] = []
    for handle in connection.listAllDomains(_RUNNING):
        domain = _describe(connection, handle, before, parsed)
        if domain is None:
            continue
        domains.append(domain)
        if any(device.target for device in domain.devices):
            counted.append(handle)
    return domains, _packets(connection, counted) if counted else {}, parsed


def _describe(connection: Any, handle: Any, before: _Parsed, parsed: _Parsed) -> Domain | None:
    """Return a listed guest, None when it has gone or stopped since."""
    uuid, name, run = handle.UUIDString(), handle.name(), handle.ID()
    try:
        xml = handle.XMLDesc(0)
    except libvirt.libvirtError as error:
        if not connection.isAlive():
            raise
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        return Domain(uuid, run, name, warnings=(f"libvirt does not describe it: {error}",))
    last_xml, domain = before.get(uuid, (None, None))
    if domain is None or xml != last_xml:
        domain = domain_xml.parse(xml, uuid=uuid, name=name, run=run)
    parsed[uuid] = (xml, domain)
    return domain if domain.run is not None else None


def _packets(connection: Any, handles: Sequence[Any]) -> Counters:
    """Ask for all guests' counts at once, and never wait for one that is busy (NOWAIT).

    A guest that vanished is left out by libvirt itself; the test driver knows no counts.
    """
    records = connection.domainListGetStats(
        list(handles),
        libvirt.VIR_DOMAIN_STATS_INTERFACE,
        libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT,
    )
    packets: dict[str, int] = {}
    for _, stats in records:
        for index in range(stats.get("net.count", 0)):
            name = stats.get(f"net.{index}.name")
            counts = [stats.get(f"net.{index}.{way}.pkts") for way in ("rx", "tx")]
            if name is not None and None not in counts:
                packets[name] = sum(counts)
    return packets


def _guest(
    domain: Domain,
    specs: Mapping[str, str] | None,
    place: Placement,
    counters: Counters,
    warnings: tuple[str, ...],
) -> Guest:
    nova = domain.nova or NovaMetadata()
    return Guest(
        uuid=domain.uuid,
        run=domain.run or 0,
        name=domain.name,
        display_name=nova.name or domain.name,
        flavor=nova.flavor,
        extra_specs=specs,
        project=nova.project,
        dedicated_cpus=tuple(sorted(place.dedicated)),
        floating_cpus=tuple(sorted(place.floating)),
        emulator_cpus=tuple(sorted(domain.helper_cpus)),
        numa_nodes=tuple(sorted(domain.numa_nodes)),
        attachments=_attachments(domain, counters),
        cachetune=domain.cachetune,
        warnings=(*domain.warnings, *warnings, *place.warnings),
    )


def _attachments(domain: Domain, counters: Counters) -> tuple[Attachment, ...]:
    return tuple(
        dataclasses.replace(device.attachment, packets=counters.get(device.target))
        if device.target
        else device.attachment
        for device in domain.devices
    )
