# SPDX-License-Identifier: Apache-2.0
"""The guests of this host, read from libvirt; each call returns the complete list.

Events only request a new reading. Facts that libvirt does not give become a warning on the guest or
the source. No content of a domain raises an exception.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import libvirt

from iat_nova.common.deadline import Deadline
from iat_nova.inventory import cgroups, pinning
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.domain_xml import LibvirtDomain
from iat_nova.inventory.domains import Counters, LibvirtDomains, RunningGuests
from iat_nova.inventory.libvirt_link import LibvirtLink
from iat_nova.inventory.nova_metadata import NovaMetadata
from iat_nova.inventory.pinning import PinnedCpus
from iat_nova.inventory.spool import Spool, SpoolError
from iat_nova.model import Attachment, Guest, Message, message, verbatim

ANSWER_S = 1.0  # time that the loop can wait; keep-alives take 20 s to find a dead libvirtd
SLOW_S = 60.0  # a longer reading is reported: the inventory is older than twice the timer


class _Session:
    """One connection's reader, and the reading in progress in its own thread, if any.

    `begun_s`: the start of the reading. `heard_s`: libvirt's last answer or this start, whichever
    is later. Both are on the monotonic clock.
    """

    def __init__(self, connection: Any, answer_s: float, on_late: Callable[[], None]) -> None:
        self.connection = connection
        self.reader = LibvirtDomains(connection, self._note)
        self._deadline: Deadline[RunningGuests] = Deadline(answer_s, on_late)
        self.begun_s = self.heard_s = time.monotonic()

    def ask(self) -> RunningGuests:
        """Return the latest reading. Raises `TimeoutError`, `libvirt.libvirtError`."""
        if not self._deadline.asked:
            self.begun_s = self.heard_s = time.monotonic()
        return self._deadline.ask(self.reader.read)

    def _note(self) -> None:
        self.heard_s = time.monotonic()


class LibvirtSource:
    """The running and paused domains of one libvirt, as guests.

    Only the loop's thread may call `guests`. While libvirt is unavailable, `guests` returns the
    last good list with a warning on every guest, and `warnings` gives the problem. `guests` waits
    at most `answer_s`. If libvirtd takes longer, the last list is used until the next reading is
    complete; the completion is a hint. A libvirtd without any answer for `answer_s` counts as not
    responding.
    """

    def __init__(
        self,
        uri: str,
        cpusets: CpuSets,
        spool: Spool | None = None,
        *,
        link: LibvirtLink | None = None,
        answer_s: float = ANSWER_S,
        sysfs_root: str | Path = "/sys",
    ) -> None:
        self._cgroups = Path(sysfs_root) / "fs/cgroup"
        self._link = link or LibvirtLink(uri)
        self._cpusets = cpusets
        self._spool = spool
        self._answer_s = answer_s
        self._on_hint: Callable[[], None] = lambda: None
        self._session: _Session | None = None
        self._problem: Message | None = None  # of the last reading
        self._last: tuple[Guest, ...] = ()
        self._last_seen_s: float | None = None  # wall clock

    def start(self, on_hint: Callable[[], None]) -> None:
        """Connect. From now on other threads call `on_hint` when a new reading is needed."""
        self._on_hint = on_hint
        self._link.start(on_hint, self._changed)

    def close(self) -> None:
        """Close the connection."""
        self._link.close()

    @property
    def warnings(self) -> tuple[Message, ...]:
        """Present problems of the source as a whole."""
        problem = self._link.problem or self._problem
        if problem is None:
            return ()
        uri, seen_s = self._link.uri, self._last_seen_s
        if seen_s is None:
            return (message("libvirt-problem", uri=uri, problem=problem),)
        return (message("libvirt-problem-since", uri=uri, problem=problem, seen_s=seen_s),)

    @property
    def waiting_for(self) -> Message | None:
        """The source that must answer before anything is known of this host, or None."""
        if self._last_seen_s is not None:
            return None
        return message("libvirt-unanswered", uri=self._link.uri)

    def guests(self, online: frozenset[int]) -> tuple[Guest, ...]:
        """Return all guests; `online` are the host's CPUs that are online."""
        connection = self._link.connection
        if connection is None:
            return self._stale()
        if self._session is None or self._session.connection is not connection:
            # The session's thread ends with its connection; changes in between had no events.
            self._session = _Session(connection, self._answer_s, self._on_hint)
        try:
            reading = self._session.ask()
        except TimeoutError:
            return self._unanswered(self._session)
        except libvirt.libvirtError as error:
            # If the connection is closed, the link notices by itself.
            self._problem = verbatim(str(error))
            return self._stale()
        self._problem = None
        self._last = self._guests(reading.domains, reading.packets, online)
        self._last_seen_s = time.time()
        return self._last

    def _unanswered(self, session: _Session) -> tuple[Guest, ...]:
        """Return the last guests, marked as stale if libvirt does not answer at all."""
        now_s = time.monotonic()
        if now_s - session.heard_s >= self._answer_s:
            self._problem = message("libvirt-silent")
            return self._stale()
        slow = message("libvirt-slow", slow_s=SLOW_S)
        self._problem = slow if now_s - session.begun_s >= SLOW_S else None
        return self._last

    def _changed(self, uuid: str) -> None:
        """Note that a domain had an event; called on libvirt's thread."""
        session = self._session
        if session is not None:
            session.reader.changed(uuid)

    def _guests(
        self, domains: Sequence[LibvirtDomain], counters: Counters, online: frozenset[int]
    ) -> tuple[Guest, ...]:
        groups = cgroups.of_guests(self._cgroups)
        limited = [
            dataclasses.replace(one, allowed=cgroups.allowed_cpus(groups.get(one.run or 0)))
            for one in domains
        ]
        told = [(domain, *self._extra_specs(domain)) for domain in limited]
        places = pinning.place(
            [(domain, specs) for domain, specs, _ in told], self._cpusets, online
        )
        return tuple(
            _guest(domain, specs, place, counters, warnings)
            for (domain, specs, warnings), place in zip(told, places, strict=True)
        )

    def _extra_specs(
        self, domain: LibvirtDomain
    ) -> tuple[Mapping[str, str] | None, tuple[Message, ...]]:
        """Return extra specs from the metadata (Nova 32 and later), else from the spool."""
        if domain.nova is not None and domain.nova.extra_specs is not None:
            return domain.nova.extra_specs, ()
        if self._spool is None:
            return None, ()
        try:
            return self._spool.extra_specs_of(domain.uuid), ()
        except SpoolError as error:
            return None, (error.message,)

    def _stale(self) -> tuple[Guest, ...]:
        warning = message("guest-stale", seen_s=self._last_seen_s)
        return tuple(
            dataclasses.replace(guest, warnings=(*guest.warnings, warning)) for guest in self._last
        )


def _guest(
    domain: LibvirtDomain,
    specs: Mapping[str, str] | None,
    place: PinnedCpus,
    counters: Counters,
    warnings: tuple[Message, ...],
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
        emulator_cpus=tuple(sorted(place.emulator)),
        numa_nodes=tuple(sorted(domain.numa_nodes)),
        attachments=_attachments(domain, counters),
        cachetune=domain.cachetune,
        warnings=(*domain.warnings, *warnings, *place.warnings),
        project_name=nova.project_name,
        image_properties=nova.image_properties,
        offline_cpus=tuple(sorted(place.offline)),
    )


def _attachments(domain: LibvirtDomain, counters: Counters) -> tuple[Attachment, ...]:
    return tuple(
        dataclasses.replace(device.attachment, packets=counters.get(device.target))
        if device.target
        else device.attachment
        for device in domain.devices
    )
