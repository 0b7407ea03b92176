# SPDX-License-Identifier: Apache-2.0
"""The registers that are saved before libpqos's first write, and their restore.

The registers are masks and limits of every class, and the class of every CPU. Registers of offline
CPUs and sockets keep their values and are out of reach.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.pqos_lib import Pqos
from iat_nova.hardware.kernel.rollback import PARTIAL, Reach, put_all_back
from iat_nova.hardware.kernel.shape import INDEX, NUMBER, VALUE, mapping, record, whole
from iat_nova.model import Message, message

SHAPE = record(
    {
        "masks": mapping(NUMBER, mapping(NUMBER, VALUE)),
        "classes": mapping(NUMBER, INDEX),
        "bandwidth": mapping(NUMBER, mapping(NUMBER, INDEX)),
    },
    {PARTIAL: whole(1, 1)},
)
"""The schema of saved registers."""

_TABLES = ("masks", "bandwidth")
"""The keys of values by class, in each cache domain."""


@dataclasses.dataclass(slots=True)
class Mine:
    """The class registers that a process wrote, and the CPUs that the process put into classes.

    `registers`: written registers as (table, cache, class). `known`: the process saved the
    registers before its first write, so this record is complete. `given_up`: a restore has begun
    since the last write. If the restore failed, a class without a CPU of this process may still be
    a class of this process. `left`: CPUs in agents' classes, offline at the last restore.
    """

    registers: set[tuple[str, int, int]] = dataclasses.field(default_factory=set)
    cpus: set[int] = dataclasses.field(default_factory=set)
    left: frozenset[int] = frozenset()
    known: bool = False
    given_up: bool = False
    _waiting: set[tuple[str, int, int]] = dataclasses.field(default_factory=set)

    def note(self, table: str, number: int, classes: Iterable[int]) -> None:
        """Note classes whose registers in a table of a cache are about to be written."""
        self.registers.update((table, number, one) for one in classes)
        self.given_up = False

    def note_cpu(self, cpu: int) -> None:
        """Note a CPU that is about to be put into a class."""
        self.cpus.add(cpu)
        self.given_up = False

    def begin(self) -> None:
        """Note that the registers are saved: the next restore covers later writes only.

        It also covers settings that an earlier restore could not reach.
        """
        if self.given_up:
            self.registers.clear()
            self.cpus.clear()
            self.given_up = False
        self.known = True
        self.registers |= self._waiting
        self.cpus |= self.left

    def give_up(self, taken: Container[int]) -> None:
        """Begin a restore; `taken`: classes that other programs have begun to use."""
        self.registers = {one for one in self.registers if one[-1] not in taken}
        self.given_up = True

    def leave(self, later: Mapping[str, Any] | None) -> None:
        """Note the settings whose restore waits, because their CPUs are offline."""
        later = later or {key: {} for key in (*_TABLES, "classes")}
        self._waiting = {
            (key, int(number), int(one))
            for key in _TABLES
            for number, values in later[key].items()
            for one in values
        }
        self.left = frozenset(int(cpu) for cpu, number in later["classes"].items() if not number)

    def of(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the saved registers without masks and limits that this process did not write."""
        kept = {
            key: {
                number: {
                    n: value
                    for n, value in values.items()
                    if (key, int(number), int(n)) in self.registers
                }
                for number, values in saved[key].items()
            }
            for key in _TABLES
        }
        return {**saved, **kept}

    def owns(self, cpu: int, l3cat: int | None, number: int) -> bool:
        """Return whether this process put a CPU into a class, or wrote the mask of the class."""
        return cpu in self.cpus or ("masks", l3cat, number) in self.registers


def save(library: Pqos, ours: Container[int]) -> dict[str, Any]:
    """Return the registers for `restore`; `ours`: CPUs in our classes, which were in class 0."""
    ids = sorted({core.l3cat_id for core in library.cores})
    mbas = sorted({core.mba_id for core in library.cores} if library.capability.bandwidth else ())
    return {
        "bandwidth": {
            str(number): {str(n): limit for n, limit in library.bandwidth(number).items()}
            for number in mbas
        },
        "masks": {
            str(number): {str(n): mask for n, mask in library.masks(number).items()}
            for number in ids
        },
        "classes": {
            str(core.cpu): 0 if core.cpu in ours else library.class_of(core.cpu)
            for core in library.cores
        },
    }


def _without_theirs(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return saved registers without the classes of other programs.

    If a CPU had a class before an agent's first write, a restore writes neither the class nor the
    CPU: the other program may have changed both since.
    """
    theirs = set(saved["classes"].values()) - {0}
    known = {int(n) for key in _TABLES for one in saved[key].values() for n in one}
    return _of_these(saved, known - theirs)


def _of_these(saved: Mapping[str, Any], classes: Container[int]) -> dict[str, Any]:
    """Return the saved registers with the masks and limits of some classes alone."""
    kept = {
        key: {
            number: {n: value for n, value in values.items() if int(n) in classes}
            for number, values in saved[key].items()
        }
        for key in _TABLES
    }
    return {**saved, **kept}


def reachable(library: Pqos, saved: Mapping[str, Any], mine: Mine | None = None) -> Reach:
    """Divide saved registers by whether their CPUs and sockets are online.

    CPUs of other programs are in both parts, as a restore must know their classes but does not
    write them. No restore waits for such CPUs. `mine` as in `restore`.
    """
    saved, cores = _without_theirs(saved), library.cores
    if mine is not None:
        saved = mine.of(saved)
    theirs = {cpu: number for cpu, number in saved["classes"].items() if number}
    there = {
        "masks": {str(core.l3cat_id) for core in cores},
        "bandwidth": {str(core.mba_id) for core in cores},
        "classes": {str(core.cpu) for core in cores},
    }
    now, later = dict(saved), {}
    for key, names in there.items():
        had = {n: one for n, one in saved[key].items() if key != "classes" or n not in theirs}
        now[key] = {n: one for n, one in had.items() if n in names}
        later[key] = {n: one for n, one in had.items() if n not in names and one != {}}
    if mine is not None:
        later["classes"] = {n: 0 for n in later["classes"] if int(n) in mine.cpus}
    places = [message("class-masks-offline", cache=n) for n in later["masks"]]
    places += [message("class-limits-offline", cache=n) for n in later["bandwidth"]]
    if later["classes"]:
        cpus = format_cpus(map(int, later["classes"]))
        places.append(message("classes-of-cpus-offline", cpus=cpus))
    # The process that wrote the registers restores in any case: it forgets its classes then.
    reached = mine is not None or any(now[key] for key in there)
    for part in (now, later):
        part["classes"] |= theirs
    if not places:
        return Reach(now)
    return Reach(now if reached else None, later | {PARTIAL: 1}, tuple(places))


def restore(
    library: Pqos, saved: Mapping[str, Any], mine: Mine | None = None
) -> tuple[Message, ...]:
    """Restore the registers; return a message for each change. May be repeated.

    CPUs that had, or have now, a class of another program are not written. `mine`: the only
    registers and CPUs to restore; None: all. The masks of class 0 come first, because CPUs of our
    classes return to class 0. If such a mask is refused, CPUs of this cache stay in our classes.
    """
    saved = _without_theirs(saved)
    if mine is not None:
        saved = mine.of(saved)
    found = {int(cpu): number for cpu, number in saved["classes"].items()}
    theirs = set(found.values()) - {0}
    cache_of = {core.cpu: core.l3cat_id for core in library.cores}
    refused: set[int] = set()

    def widen(l3cat: int, values: Mapping[str, int]) -> Message | None:
        try:
            return _put_back_masks(library, l3cat, values)
        except HardwareError:
            refused.add(l3cat)
            raise

    def put_back(cpu: int) -> Message | None:
        if (l3cat := cache_of.get(cpu)) in refused:
            return None
        return _put_back_class(library, cpu, l3cat, theirs, mine)

    default = _of_these(saved, {0})["masks"]
    others = {
        number: {n: mask for n, mask in values.items() if n != "0"}
        for number, values in saved["masks"].items()
    }
    steps: list[Callable[[], Message | None]] = [
        functools.partial(widen, int(number), values) for number, values in default.items()
    ]
    steps += [functools.partial(put_back, cpu) for cpu, number in found.items() if not number]
    tables = (others, _put_back_masks), (saved["bandwidth"], _put_back_bandwidth)
    steps += [
        functools.partial(put_table_back, library, int(number), values)
        for table, put_table_back in tables
        for number, values in table.items()
    ]
    return put_all_back(steps, lambda step: step())


def _put_back_class(
    library: Pqos, cpu: int, l3cat: int | None, theirs: Container[int], mine: Mine | None
) -> Message | None:
    now = library.class_of(cpu)
    if now == 0 or now in theirs:
        return None
    if mine is not None and not mine.owns(cpu, l3cat, now):
        return None
    library.set_class(cpu, 0)
    if mine is not None and library.class_of(cpu) != now:
        mine.cpus.discard(cpu)  # another program may take it before the restore ends
    return message("cpu-class-restored", cpu=cpu, number=0)


def _put_back_masks(library: Pqos, l3cat: int, found: Mapping[str, int]) -> Message | None:
    masks = _changed(library.masks(l3cat), found)
    if not masks:
        return None
    library.set_masks(l3cat, masks)
    each = tuple(message("pqos-class-mask", number=n, mask=mask) for n, mask in masks.items())
    return message("class-masks-restored", domain=l3cat, masks=each)


def _put_back_bandwidth(library: Pqos, mba: int, found: Mapping[str, int]) -> Message | None:
    limits = _changed(library.bandwidth(mba), found)
    if not limits:
        return None
    library.set_bandwidth(mba, limits)
    each = tuple(message("pqos-class-limit", number=n, limit=limit) for n, limit in limits.items())
    return message("class-limits-restored", domain=mba, limits=each)


def _changed(now: Mapping[int, int], found: Mapping[str, int]) -> dict[int, int]:
    """Return the saved values of classes whose present value differs."""
    return {int(n): value for n, value in found.items() if now.get(int(n)) != value}
