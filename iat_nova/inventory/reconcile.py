# SPDX-License-Identifier: Apache-2.0
"""A complete inventory of the host at each call, joined from libvirt, Open vSwitch and sysfs."""

from __future__ import annotations

import dataclasses
import os.path
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.common.clock import Clock, SystemClock
from iat_nova.common.last_good import LastGood
from iat_nova.inventory.debounce import Debouncer
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.traffic import Key, Traffic
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    DeviceModel,
    Facts,
    Guest,
    HostFacts,
    Source,
    SourceProblem,
    SwitchPort,
    Trouble,
    VirtualSwitch,
    message,
)
from iat_nova.model.message import as_message

if TYPE_CHECKING:
    from iat_nova.inventory.libvirt import LibvirtSource
    from iat_nova.inventory.ovs import OvsSource

Ports = Mapping[str | None, Sequence[SwitchPort]]
"""The switch's ports by the UUID of the guest that a port names."""

_BOUND = 10  # a burst of hints is forwarded at the latest after this many quiet times


class Reconciler:
    """Facts on demand, and an event that requests a new call.

    `changed` is debounced: set `debounce_s` after the last of a burst of hints, at the latest ten
    times `debounce_s` after the first, and every `slow_timer_s`. Only the loop's thread may call
    `facts` and `close`. `host` is called at each reconcile, as CPUs may come and go. `clock`
    measures the packet rates; hints use real time, as their sources do.
    """

    def __init__(
        self,
        libvirt_source: LibvirtSource,
        ovs_source: OvsSource | None,
        pci: Pci,
        host: Callable[[], HostFacts],
        clock: Clock | None = None,
        *,
        debounce_s: float = 0.2,
        slow_timer_s: float = 30.0,
    ) -> None:
        self.changed = threading.Event()
        self._guest_source = libvirt_source
        self._guests: LastGood[tuple[Guest, ...]] = LastGood("the guests of libvirt", ())
        self._switch: LastGood[VirtualSwitch | None] = LastGood("Open vSwitch", None)
        self._joined: LastGood[tuple[Guest, ...]] = LastGood("the guests' devices", ())
        self._switch_source = ovs_source
        self._sources: dict[Source, LibvirtSource | OvsSource] = {Source.LIBVIRT: libvirt_source}
        if ovs_source is not None:
            self._sources[Source.SWITCH] = ovs_source
        self._pci = pci
        self._host_source = host
        self._host: HostFacts | None = None
        self._clock = clock or SystemClock()
        self._traffic = Traffic()
        self._debouncer = Debouncer(
            self.changed,
            SystemClock(),
            quiet_s=debounce_s,
            bound_s=_BOUND * debounce_s,
            slow_timer_s=slow_timer_s,
        )

    def start(self) -> None:
        """Start the sources. A source that does not answer shows in `facts().warnings`."""
        self._debouncer.start()
        for source in self._sources.values():
            source.start(self._debouncer.hint)

    def close(self) -> None:
        """Close the sources, and stop the debouncer of hints."""
        for source in self._sources.values():
            source.close()
        self._debouncer.close()

    def facts(self) -> Facts:
        """Read all sources again, after clearing `changed`.

        Raises `OSError` only when the host's own facts could not be read even once.
        """
        self.changed.clear()
        host, problems = self._read_host()
        online = frozenset(host.online_cpus)
        guests = self._guests.update(lambda: self._guest_source.guests(online))
        source = self._switch_source
        switch = self._switch.update(lambda: None if source is None else self._resolved(source))
        joined = self._joined.update(lambda: self._with_devices(guests, switch))
        waiting = {name: each.waiting_for for name, each in self._sources.items()}
        for name, each in self._sources.items():
            problems += [SourceProblem(name, Trouble.WARNING, one) for one in each.warnings]
        parts: tuple[tuple[Source, LastGood[Any]], ...] = (
            (Source.LIBVIRT, self._guests),
            (Source.SWITCH, self._switch),
            (Source.LIBVIRT, self._joined),
        )
        for name, part in parts:
            if part.error is not None:
                kept = message("last-good-kept", what=part.what, error=part.error)
                problems.append(SourceProblem(name, Trouble.UNREADABLE, kept))
                if not part.good:
                    waiting[name] = waiting[name] or message("never-read", what=part.what)
        problems += [
            SourceProblem(name, Trouble.WAITING, one)
            for name, one in waiting.items()
            if one is not None
        ]
        return Facts(host, joined, switch, tuple(problems))

    def _resolved(self, source: OvsSource) -> VirtualSwitch | None:
        """Read the switch, with the cards of its ports as sysfs knows these."""
        switch = source.switch()
        return None if switch is None else switch.resolved(self._pci.cards)

    def _with_devices(
        self, guests: Sequence[Guest], switch: VirtualSwitch | None
    ) -> tuple[Guest, ...]:
        """Join guests with their ports and the host's devices, and compute packet rates."""
        ports = _ports_by_guest(switch)
        joined = [
            (guest, [self._located(one, guest, ports) for one in guest.attachments])
            for guest in guests
        ]
        counts = {
            _key(guest, one): one.packets
            for guest, attachments in joined
            for one in attachments
            if one.packets is not None
        }
        rates = self._traffic.rates(self._clock.now(), counts)
        return tuple(
            dataclasses.replace(
                guest,
                attachments=tuple(
                    dataclasses.replace(one, packets_per_s=rates.get(_key(guest, one)))
                    for one in attachments
                ),
            )
            for guest, attachments in joined
        )

    def _located(self, attachment: Attachment, guest: Guest, ports: Ports) -> Attachment:
        return self._pci.locate(_with_port(attachment, _port_of(attachment, guest, ports)))

    def _read_host(self) -> tuple[HostFacts, list[SourceProblem]]:
        try:
            self._host = self._host_source()
        except (OSError, ValueError) as error:
            if self._host is None:
                raise
            stale = message("host-stale", error=as_message(error))
            return self._host, [SourceProblem(Source.HOST, Trouble.WARNING, stale)]
        return self._host, []


def _ports_by_guest(switch: VirtualSwitch | None) -> Ports:
    ports: dict[str | None, list[SwitchPort]] = {None: []}
    for port in switch.ports if switch is not None else ():
        ports.setdefault(port.vm_uuid, []).append(port)
    return ports


def _port_of(attachment: Attachment, guest: Guest, ports: Ports) -> SwitchPort | None:
    """Find the switch's port of an attachment: by MAC, by vhost-user socket, else by name.

    The MAC also identifies a hybrid plug's ``qvo...`` and the representor of a VF. A vhost-user
    interface may have a port that names no guest.
    """
    own = ports.get(guest.uuid, ())
    for port in own:
        if attachment.mac and port.mac and port.mac.lower() == attachment.mac:
            return port
    if attachment.kind is AttachmentKind.VHOST_USER:
        own = (*own, *ports[None])
    alike = [port for port in own if port.vhost_path and _real(port) == _real(attachment)] or [
        port for port in own if port.name == attachment.device
    ]
    return alike[0] if alike else None


def _real(end: SwitchPort | Attachment) -> str:
    """Return the path of a vhost-user socket; /var/run is /run."""
    return os.path.normpath(end.vhost_path or "").removeprefix("/var")


def _with_port(attachment: Attachment, port: SwitchPort | None) -> Attachment:
    """Add the switch's facts, but never the kind: a VF is slicing regardless of OVSDB.

    A VF's packets stay unknown, too: its representor sees only packets that the hardware does not
    forward.
    """
    if port is None:
        return attachment
    packets = attachment.packets
    if packets is None and attachment.model is not DeviceModel.SLICING:
        packets = port.packets
    return dataclasses.replace(
        attachment,
        device=port.name if attachment.kind is AttachmentKind.VHOST_USER else attachment.device,
        port=port.iface_id or attachment.port,
        bridge=port.bridge,
        packets=packets,
    )


def _key(guest: Guest, attachment: Attachment) -> Key:
    return (guest.uuid, guest.run, attachment.device)
