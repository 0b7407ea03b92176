# SPDX-License-Identifier: Apache-2.0
"""The owner of each CPU: every online CPU of a cache domain has exactly one tenant.

A CPU has one class of service, so conflicting claims must be settled. The stack comes before
guests, PC guests before BE guests, dedicated vCPUs before emulator threads, and both before
floating vCPUs. The host owns the remaining CPUs.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set

from iat_nova.common.cpulist import format_cpus
from iat_nova.model import AttachmentKind, Facts, Guest, Message, message

STACK = "stack"
POOL = "pool"
_SHARED = frozenset((AttachmentKind.TAP, AttachmentKind.TARGET))


@dataclasses.dataclass(frozen=True, slots=True)
class Owners:
    """CPUs by owner, disjoint. `dedicated`, `emulator` and `floats` are by guest id.

    `emulator`: CPUs for a guest's emulator and I/O threads. `floats`: CPUs without an owner on
    which a guest's vCPUs float; `floating`, the CPUs of the pool, is their union. `notes`: warnings
    by guest id, ``stack`` or ``pool``. `warnings` concern the host.
    """

    stack: frozenset[int]
    dedicated: Mapping[str, frozenset[int]]
    emulator: Mapping[str, frozenset[int]]
    floats: Mapping[str, frozenset[int]]
    floating: frozenset[int]
    host: frozenset[int]
    notes: Mapping[str, tuple[Message, ...]]
    warnings: tuple[Message, ...]


def guest_id(guest: Guest) -> str:
    """Return the identity of a guest, also the id of the guest's tenant."""
    return f"{guest.uuid}/{guest.run}"


def owners_of(facts: Facts, guests: Iterable[Guest], important: Set[str]) -> Owners:
    """Settle the owner of each CPU. `important`: the ids of the PC guests."""
    return _Settlement(facts).settle(list(guests), important)


def shared_devices(guests: Iterable[Guest]) -> Mapping[str, tuple[Message, ...]]:
    """Return warnings, by guest id, of exclusive devices that several guests have.

    Traffic of such a device reaches at most one of the guests. Taps belong to the kernel, and
    several macvtaps may share a device.
    """
    users: defaultdict[str, list[Guest]] = defaultdict(list)
    for guest in guests:
        own = {a.device for a in guest.attachments if a.exclusive and a.kind not in _SHARED}
        for device in sorted(own):
            users[device].append(guest)
    notes: defaultdict[str, list[Message]] = defaultdict(list)
    for device, several in users.items():
        for guest in several:
            others = tuple(
                f"{one.display_name} ({one.name})" for one in several if one is not guest
            )
            if others:
                note = message("device-shared", device=device, guests=others)
                notes[guest_id(guest)].append(note)
    return {key: tuple(several) for key, several in notes.items()}


class _Settlement:
    """Assign CPUs, first come first served, and record the owners."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        managed = {cpu for domain in facts.host.domains for cpu in domain.cpus}
        self.online = set(facts.host.online_cpus)
        self.usable = frozenset(managed & self.online)
        self.owner: dict[int, tuple[str, str]] = {}  # CPU -> id and name of its owner
        self.notes: defaultdict[str, list[Message]] = defaultdict(list)
        self.warnings: list[Message] = []

    def settle(self, guests: list[Guest], important: Set[str]) -> Owners:
        switch = self.facts.switch
        stack = self._claim(STACK, "the stack", self._pmd_cpus())
        if switch is not None and "netdev" in switch.bridges.values() and not switch.pmd_source:
            self.warnings.append(message("stack-unknown"))
        important_first = sorted(guests, key=lambda guest: guest_id(guest) not in important)
        dedicated = self._claims((guest, guest.dedicated_cpus) for guest in important_first)
        emulator = self._claims((guest, guest.emulator_cpus) for guest in important_first)
        floats, floating = self._floating(guests)
        for guest in guests:
            key, known = guest_id(guest), dedicated.keys() | floats.keys()
            if key not in known and not guest.offline_cpus:  # a notice of the agent
                self._homeless(guest)
        return Owners(
            stack=stack,
            dedicated=dedicated,
            emulator=emulator,
            floats=floats,
            floating=floating,
            host=self.usable - self.owner.keys() - floating,
            notes={key: tuple(notes) for key, notes in self.notes.items()},
            warnings=tuple(self.warnings),
        )

    def _pmd_cpus(self) -> frozenset[int]:
        """Return the CPUs of the PMD threads; of ``pmd-cpu-mask`` only the online CPUs."""
        switch = self.facts.switch
        cpus = frozenset(switch.pmd_cpus if switch is not None else ())
        masked = switch is not None and switch.pmd_source == "pmd-cpu-mask"
        return cpus & self.online if masked else cpus

    def _claims(self, wanted: Iterable[tuple[Guest, Iterable[int]]]) -> dict[str, frozenset[int]]:
        """Assign CPUs to guests in turn; guests that get none are absent from the result."""
        claims = {
            guest_id(one): self._claim(guest_id(one), one.display_name, cpus)
            for one, cpus in wanted
        }
        return {key: cpus for key, cpus in claims.items() if cpus}

    def _claim(self, key: str, name: str, cpus: Iterable[int]) -> frozenset[int]:
        """Assign the usable and free CPUs to `key`; note unusable and taken CPUs."""
        wanted = frozenset(cpus)
        self._note_unusable(key, wanted)
        taken = {cpu: self.owner[cpu] for cpu in wanted if cpu in self.owner}
        for cpu, (other_key, other) in sorted(taken.items()):
            self.notes[key].append(message("cpu-taken", cpu=cpu, owner=other))
            self.notes[other_key].append(message("cpu-claimed", cpu=cpu, claimant=name))
        granted = wanted & self.usable - taken.keys()
        self.owner.update(dict.fromkeys(granted, (key, name)))
        return granted

    def _floating(self, guests: list[Guest]) -> tuple[dict[str, frozenset[int]], frozenset[int]]:
        floats = {}
        for guest in guests:
            wanted = frozenset(guest.floating_cpus)
            usable = wanted & self.usable - self.owner.keys()
            if usable:
                floats[guest_id(guest)] = usable
            elif wanted:
                note = message("shared-cpus-gone", cpus=format_cpus(wanted))
                self.notes[guest_id(guest)].append(note)
            if usable and (others := wanted & self.owner.keys()):
                cpus = format_cpus(others)
                note = message("floats-over-dedicated", name=guest.display_name, cpus=cpus)
                self.notes[POOL].append(note)
        return floats, frozenset().union(*floats.values())

    def _note_unusable(self, key: str, wanted: frozenset[int]) -> None:
        if offline := wanted - self.online:
            self.notes[key].append(message("cpus-offline", cpus=format_cpus(offline)))
        if outside := wanted & self.online - self.usable:
            self.notes[key].append(message("cpus-outside", cpus=format_cpus(outside)))

    def _homeless(self, guest: Guest) -> None:
        causes = tuple(self.notes.get(guest_id(guest), [message("cpus-unknown")]))
        self.warnings.append(
            message("guest-unmanaged", name=guest.display_name, uuid=guest.uuid, causes=causes)
        )
