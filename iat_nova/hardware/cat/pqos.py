# SPDX-License-Identifier: Apache-2.0
"""CAT through libpqos's MSR interface: for hosts without resctrl.

The interface writes the class registers directly. No other program may write these, so it is
refused while resctrl is mounted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, DomainOffline, HardwareError
from iat_nova.hardware.cat import limits, pqos_saved
from iat_nova.hardware.cat.cpuid import L3Allocation, l3_allocation
from iat_nova.hardware.cat.pqos_lib import Core, Pqos
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.locks import PQOS_LOCK, lock_holder
from iat_nova.hardware.kernel.rollback import PARTIAL, Reach, SavedKeys, Step, undoing
from iat_nova.hardware.kernel.shape import Shape
from iat_nova.hardware.kernel.topology import Cache, Topology
from iat_nova.model import CacheDomain, Message, WayMask, message


class PqosAllocator:
    """`hardware.api.CacheAllocator` on libpqos.

    The library is initialised at first use. `resctrl`: the kernel's mount point, where nothing may
    be mounted. `coupled` and `complete` as in `resctrl.Resctrl`.
    """

    def __init__(
        self,
        topology: Topology,
        resctrl: Path,
        *,
        coupled: bool = False,
        complete: Callable[[CacheDomain], CacheDomain] = lambda domain: domain,
        open_library: Callable[[Iterable[int]], Pqos] = Pqos,
        lock: Path = PQOS_LOCK,
        devices: Path = Path("/dev/cpu"),
    ) -> None:
        self._topology = topology
        self._resctrl = resctrl
        self._coupled = coupled
        self._complete = complete
        self._open_library = open_library
        self._lock = lock
        self._devices = devices
        self._opened: Pqos | None = None
        self._min_ways = 0  # of a mask; 0 before the first question
        self._saved = SavedKeys()  # libpqos's numbers of caches
        self._saved_cpus = SavedKeys()
        self._mine = pqos_saved.Mine()
        self._domains: dict[int, CacheDomain] = {}
        self._taken: frozenset[int] = frozenset()  # classes of other programs
        self._classes: dict[int, dict[str, ClassMask]] = {}
        self._numbers: dict[int, dict[str, int]] = {}
        self._written: dict[int, tuple[int, int | None]] = {}  # cpu -> (class, when plugged)
        self._online: dict[int, dict[int, int | None]] = {}  # stamps of each domain's online CPUs
        self._default_found: dict[int, int] = {}
        self._bandwidth_found: dict[int, dict[int, int]] = {}  # before ours, by domain and class

    def domains(self) -> tuple[CacheDomain, ...]:
        """Read the cache domains; see `api.CacheAllocator`.

        A CPU seen once stays in its domain while it is offline.
        """
        self._renew_library()
        self._domains |= {one.id: self._complete(one) for one in self._domains_of_library()}
        return tuple(self._domains[number] for number in sorted(self._domains))

    def look(self) -> tuple[CacheDomain, ...]:
        """Return the cache domains without libpqos, whose lock would block other programs.

        The number of classes includes classes of other programs, and masks may need more ways than
        reported.
        """
        return tuple(
            self._complete(self._domain(cache, l3_allocation(cache.cpus[0], self._devices)))
            for cache in self._topology.caches()
        )

    def _domain(self, cache: Cache, can: L3Allocation, min_ways: int = 1) -> CacheDomain:
        return CacheDomain(
            id=cache.id,
            cpus=cache.cpus,
            ways=can.ways,
            classes=can.classes,
            min_ways=min_ways,
            coerced_ways=WayMask(can.shared if self._coupled else 0),
            way_bytes=cache.size_bytes and cache.size_bytes // can.ways,
            numa_nodes=cache.socket_nodes,
            bandwidth=can.bandwidth,
        )

    def _domains_of_library(self) -> tuple[CacheDomain, ...]:
        library = self._library()
        self._min_ways = self._min_ways or library.min_ways()
        can = library.capability
        self._taken |= self._classes_of_others()
        free = can.classes - len([n for n in self._taken if n < can.classes])
        can = can._replace(classes=free)
        found = (self._domain(cache, can, self._min_ways) for cache in self._topology.caches())
        return tuple(limits.with_seen(one, self._domains.get(one.id)) for one in found)

    def _classes_of_others(self) -> frozenset[int]:
        """Return the classes, beside ours, of CPUs that are in no class of ours.

        Other programs may begin to use a class at any time. A class seen once stays theirs: its
        CPUs may be offline for a while.
        """
        library = self._library()
        ours = {n for numbers in self._numbers.values() for n in numbers.values()}
        taken = self._written.keys() | self._mine.left | self._mine.cpus
        cpus = (core.cpu for core in library.cores if core.cpu not in taken)
        return frozenset(map(library.class_of, cpus)) - ours - {0}

    def _library(self) -> Pqos:
        if self._opened is None:
            self._check_alone()
            self._opened = self._open_library(self._topology.online())
        return self._opened

    def _renew_library(self) -> None:
        """Shut libpqos down if the online CPUs changed: libpqos knows the CPUs of its start."""
        if self._opened is not None:
            known = {core.cpu for core in self._opened.cores}
            if known != self._topology.online():
                self.close()

    def _check_alone(self) -> None:
        owner = lock_holder(self._lock)
        if owner not in (None, os.getpid()):  # initialising could wait for the lock for ever
            raise HardwareError(
                message("pqos-in-use", process=owner, path=str(self._lock)),
                message("end-or-use-resctrl"),
            )
        self._check_unmounted()

    def _check_unmounted(self) -> None:
        if (mounted := self.beside_resctrl()) is not None:
            remedy = message("use-resctrl-or-umount", path=str(self._resctrl))
            raise HardwareError(mounted, remedy)

    def beside_resctrl(self) -> Message | None:
        """Return a message if resctrl is mounted, because the kernel then manages the registers.

        A restore goes on: the registers then have the values that the kernel expects.
        """
        if not files.exists(self._resctrl / "schemata"):
            return None
        return message("pqos-beside-resctrl", path=str(self._resctrl))

    def _l3cat(self, domain: CacheDomain) -> int:
        return self._core(domain).l3cat_id

    def _core(self, domain: CacheDomain) -> Core:
        """Return a CPU of a domain, with libpqos's ids of the domain. Raises `DomainOffline`."""
        if self._topology.online().isdisjoint(domain.cpus):
            raise DomainOffline(domain.id)
        for core in self._library().cores:
            if core.cpu in domain.cpus:
                return core
        raise HardwareError(message("pqos-without-cpus", domain=domain.id))

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of our classes; see `api.CacheAllocator`."""
        found = limits.find(self.domains(), domain)
        numbers = self._numbers.get(domain)
        if not numbers:
            return {}
        masks = self._library().masks(self._l3cat(found))
        return {name: WayMask(masks[number]) for name, number in numbers.items()}

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Read back the memory bandwidth of our classes; see `api.CacheAllocator`."""
        found = limits.find(self.domains(), domain)
        numbers = {name: n for name, n in self._numbers.get(domain, {}).items() if n}
        if found.bandwidth is None or not numbers:
            return {}
        shown = self._library().bandwidth(self._core(found).mba_id)
        return {name: shown[number] for name, number in numbers.items()}

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program exactly these classes; see `api.CacheAllocator`."""
        found = limits.find(self.domains(), domain)
        limits.check_classes(found, classes)
        self._check_unmounted()
        cpus = {cpu for item in classes if item.name != DEFAULT_CLASS for cpu in item.cpus}
        if not (self._saved.has(self._l3cat(found)) and all(map(self._saved_cpus.has, cpus))):
            raise DomainOffline(domain)
        limits.check_unchanged(lambda: self.inspect(domain))
        named = {item.name: item for item in classes}
        numbers = limits.numbered(named, self._numbers.get(domain, {}), self._taken)
        came = self._topology.stamps(found.cpus)  # before writing: later changes are detected
        with undoing() as undo:
            self._program(found, named, numbers, undo)
        self._classes[domain], self._numbers[domain] = named, numbers
        self._online.setdefault(domain, came)  # otherwise `inspect` keeps the stamps
        if DEFAULT_CLASS not in named:
            self._default_found.pop(domain, None)
        had = self._bandwidth_found.get(domain, {})
        self._bandwidth_found[domain] = {n: had[n] for n in numbers.values() if n in had}
        return self.effective(domain)

    def _program(
        self,
        domain: CacheDomain,
        named: Mapping[str, ClassMask],
        numbers: Mapping[str, int],
        undo: list[Step],
    ) -> None:
        self._write_registers(domain, named, numbers, undo)
        owner = {
            cpu: numbers[name]
            for name, item in named.items()
            for cpu in item.cpus
            if name != DEFAULT_CLASS
        }
        for cpu in sorted(self._topology.online() & set(domain.cpus)):
            self._move(cpu, owner.get(cpu, 0), undo)

    def _write_registers(
        self,
        domain: CacheDomain,
        named: Mapping[str, ClassMask],
        numbers: Mapping[str, int],
        undo: list[Step],
    ) -> None:
        """Write the masks and limits of these classes, and the original ones of released classes.

        Only registers with another value are written.
        """
        library, l3cat = self._library(), self._l3cat(domain)
        if domain.bandwidth is not None:
            self._limit(domain, {numbers[name]: one.bandwidth for name, one in named.items()}, undo)
        before = library.masks(l3cat)
        wanted = {numbers[name]: int(item.mask) for name, item in named.items()}
        if 0 in wanted:
            self._default_found.setdefault(domain.id, before[0])
        elif domain.id in self._default_found:
            wanted[0] = self._default_found[domain.id]
        given_up = set(self._numbers.get(domain.id, {}).values()) - wanted.keys() - {0}
        wanted |= dict.fromkeys(given_up, (1 << domain.ways) - 1)
        changed = {n: mask for n, mask in wanted.items() if before[n] != mask}
        if changed:
            self._mine.note("masks", l3cat, changed)
            undo.append(lambda: library.set_masks(l3cat, {n: before[n] for n in changed}))
            library.set_masks(l3cat, changed)

    def _limit(
        self, domain: CacheDomain, wanted: Mapping[int, int | None], undo: list[Step]
    ) -> None:
        """Write the memory bandwidth of classes; None: the limit of class 0.

        No class exceeds class 0, so that a CPU keeps an operator's limit of class 0 in our classes.
        A released class gets its original limit.
        """
        library, mba = self._library(), self._core(domain).mba_id
        before = library.bandwidth(mba)
        limits = {n: min(before[0], limit or before[0]) for n, limit in wanted.items() if n}
        found = self._bandwidth_found.setdefault(domain.id, {})
        limits |= {n: limit for n, limit in found.items() if n not in limits}
        changed = {n: limit for n, limit in limits.items() if before[n] != limit}
        if changed:
            self._mine.note("bandwidth", mba, changed)
            undo.append(lambda: library.set_bandwidth(mba, {n: before[n] for n in changed}))
            library.set_bandwidth(mba, changed)
        for number in limits:
            found.setdefault(number, before[number])

    def _move(self, cpu: int, number: int, undo: list[Step]) -> None:
        was, _ = self._written.get(cpu, (0, None))
        if was == number:
            return
        before = self._library().class_of(cpu)
        if before != was and before in self._taken:
            raise HardwareError(
                message("cpu-in-foreign-class", cpu=cpu, number=before),
                message("spare-or-free-class"),
            )
        self._put(cpu, number)
        undo.append(lambda: self._put(cpu, was))

    def _put(self, cpu: int, number: int) -> None:
        self._mine.note_cpu(cpu)
        plugged = self._topology.plugged(cpu)  # before writing: the CPU may go offline meanwhile
        self._library().set_class(cpu, number)
        if number:
            self._written[cpu] = (number, plugged)
        else:
            was, _ = self._written.pop(cpu, (0, None))
            if self._library().class_of(cpu) != was:
                self._mine.cpus.discard(cpu)  # as found: another program may take it from now on

    def inspect(self, only: int | None = None) -> tuple[Message, ...]:
        """Compare the machine with our last writes; see `resctrl.Resctrl.inspect`.

        `only`: the domain that is compared; None for all.
        """
        if not self._classes:
            return ()
        self._renew_library()
        foreign: list[Message] = []
        for number in sorted(self._numbers) if only is None else self._numbers.keys() & {only}:
            found, numbers = self._domains[number], self._numbers[number]
            try:
                self._renew_registers(found)
                masks = self._library().masks(self._l3cat(found))
            except DomainOffline:
                continue
            for name, item in self._classes[number].items():
                now = WayMask(masks[numbers[name]])
                if now not in (item.mask, limits.effective(found, item.mask)):
                    foreign.append(
                        message(
                            "class-mask-changed",
                            number=numbers[name],
                            domain=number,
                            mask=now,
                            wrote=item.mask,
                        )
                    )
            foreign += self._foreign_bandwidth(found)
        wanted = self._wanted(only)
        for cpu in sorted(wanted.keys() & self._topology.online()):
            number = wanted[cpu]
            _, plugged = self._written.get(cpu, (0, None))
            if plugged != self._topology.plugged(cpu):
                self._put(cpu, number)
            elif self._library().class_of(cpu) != number:
                foreign.append(message("class-cpu-moved", cpu=cpu, number=number))
        return tuple(foreign)

    def _foreign_bandwidth(self, domain: CacheDomain) -> list[Message]:
        """Return messages on our limits that another program changed."""
        wrote = {n: one.bandwidth for n, one in self._classes[domain.id].items() if one.bandwidth}
        if not wrote:
            return []
        shown = self._library().bandwidth(self._core(domain).mba_id)
        numbers = {self._numbers[domain.id][name]: limit for name, limit in wrote.items()}
        return [
            message(
                "class-limit-changed",
                number=n,
                domain=domain.id,
                limit=shown[n],
                wrote=min(limit, shown[0]),
            )
            for n, limit in numbers.items()
            if shown[n] != min(limit, shown[0])
        ]

    def _renew_registers(self, domain: CacheDomain) -> None:
        """Write our masks and limits again in a domain that was entirely offline.

        A kernel with resctrl resets them when the first CPU is online again, also while resctrl is
        not mounted.
        """
        now = self._topology.stamps(domain.cpus)
        before = self._online.get(domain.id, {})
        if now and all(now.get(cpu) != when for cpu, when in before.items()):
            named = self._classes[domain.id]
            self._write_registers(domain, named, self._numbers[domain.id], [])
        if now:
            self._online[domain.id] = now

    def _wanted(self, only: int | None) -> dict[int, int]:
        """Return the class of every CPU in our classes, online or offline; `only`: of a domain."""
        return {
            cpu: self._numbers[domain][name]
            for domain, named in self._classes.items()
            if only in (None, domain)
            for name, item in named.items()
            for cpu in item.cpus
            if name != DEFAULT_CLASS
        }

    @property
    def shape(self) -> Shape:
        """The schema that saved settings must satisfy before use; see `rollback.Restorable`."""
        return pqos_saved.SHAPE

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        self._renew_library()
        found = pqos_saved.save(self._library(), self._written)
        self._mine.begin()
        self._saved.renew(found["masks"])
        self._saved_cpus.renew(found["classes"])
        return found

    def reachable(self, saved: Mapping[str, Any]) -> Reach:
        """Divide the settings: offline CPUs and sockets keep their registers, but out of reach."""
        self._renew_library()
        reach = pqos_saved.reachable(self._library(), saved, self._mine_of(saved))
        self._mine.leave(reach.later)
        return reach

    def _mine_of(self, saved: Mapping[str, Any]) -> pqos_saved.Mine | None:
        """Return the registers and CPUs to restore among saved settings; None: all.

        The process that saved the settings restores only its own writes, because another program
        may have begun to use other classes. Any other process does not know these writes.
        """
        if not self._mine.known or PARTIAL in saved:
            return None
        if not self._mine.given_up:
            self._taken |= self._classes_of_others()
            self._mine.give_up(self._taken)
        return self._mine

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Restore classes, masks and limits; return a message for each change. May be repeated."""
        self._renew_library()
        mine = self._mine_of(saved)
        if PARTIAL not in saved:
            found = self._default_found, self._bandwidth_found
            for memory in (self._classes, self._numbers, self._written, self._online, *found):
                memory.clear()
        return pqos_saved.restore(self._library(), saved, mine)

    def close(self) -> None:
        """Shut libpqos down without changing the hardware."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
