# SPDX-License-Identifier: Apache-2.0
"""DDIO's hits and misses from the CHAs' registers, for hosts that must not use perf events.

No arbitration exists between this module and the kernel, so boxes in use by other programs are
refused. The registers do not show the number of slices per package: the kernel's list of PMUs does.
Registers: `events.ChaRegisters`; Intel's uncore performance monitoring manuals.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from iat_nova.hardware.api import DomainCounts, HardwareError
from iat_nova.hardware.counters.cha import counts, spread
from iat_nova.hardware.counters.events import ChaEvents, ChaRegisters
from iat_nova.hardware.kernel.msr import (
    CHA_REGISTERS,
    Msr,
    MsrError,
    SavedRegisters,
    Wrapping,
)
from iat_nova.hardware.kernel.rollback import Reach, SavedKeys
from iat_nova.model import Message, message

_WHOLE = (1 << 64) - 1


class ChaMsr:
    """`perf.DomainReader` on the CHAs' registers (uncore performance monitoring manuals).

    `domains` returns an online CPU for every domain. `slices`: number of slices per package;
    `counted`: number of counted slices, None: all. Boxes in use by other programs are refused; a
    domain with a box that does not count for us is absent. So is a domain that came online after
    the last `save`, until the next `watch`.
    """

    shape = CHA_REGISTERS

    def __init__(
        self,
        msr: Msr,
        registers: ChaRegisters,
        events: ChaEvents,
        domains: Callable[[], Mapping[int, int]],
        *,
        slices: int,
        counted: int | None = 1,
    ) -> None:
        if not 0 < slices <= registers.slices_max:
            most = registers.slices_max
            raise HardwareError(message("slices-too-many", slices=slices, most=most))
        self._msr = msr
        self._registers = registers
        self._terms = (*events.hits, *events.misses)
        self._hits = len(events.hits)
        self._domains = domains
        self._counted = spread(slices, counted)
        self._factor = (slices, len(self._counted))
        self._saved = SavedRegisters(msr, self._reach)
        self.written = self._saved.written
        self._writable = SavedKeys()
        self._totals: dict[tuple[int, int], Wrapping] = {}  # (domain, slice)
        self._ours: set[tuple[int, int]] = set()  # boxes that count for us
        self._cpus: Mapping[int, int] = {}

    def _reach(self, domain: int) -> int | None:
        return self._cpus.get(domain)

    def watch(self) -> None:
        """Program the boxes that do not count for us yet. Raises `HardwareError`."""
        there = self._domains()
        self._cpus = {domain: cpu for domain, cpu in there.items() if self._writable.has(domain)}
        for domain, cpu in self._cpus.items():
            for box in self._counted:
                if (domain, box) not in self._ours or not self._is_ours(cpu, box):
                    self._ours.discard((domain, box))
                    self._program(domain, cpu, box)
                    values = self._values(cpu, box)
                    self._totals.setdefault((domain, box), Wrapping(values)).restart(values)
                    self._ours.add((domain, box))

    def _at(self, box: int, offset: int) -> int:
        return self._registers.first + box * self._registers.stride + offset

    def _selections(self) -> dict[int, int]:
        return {
            n: _selection(terms) | self._registers.enable for n, terms in enumerate(self._terms)
        }

    def _is_ours(self, cpu: int, box: int) -> bool:
        return all(
            self._msr.read(cpu, self._at(box, self._registers.event + n)) == selection
            for n, selection in self._selections().items()
        )

    def _program(self, domain: int, cpu: int, box: int) -> None:
        selections = self._selections()
        for n in range(4):
            register = self._at(box, self._registers.event + n)
            found = self._msr.read(cpu, register)
            counts_there = found & self._registers.enable if self._registers.enable else found
            if counts_there and found != selections.get(n):
                raise HardwareError(
                    message(
                        "cha-counter-in-use",
                        cpu=cpu,
                        slice=box,
                        counter=n,
                        register=register,
                        value=found,
                    ),
                    message("end-counting-or-use-perf"),
                )
        control = self._at(box, self._registers.control)
        found = self._msr.read(cpu, control)
        if found & self._registers.freeze:
            self._saved.set(domain, control, found & ~self._registers.freeze)
        if self._registers.filter1 is not None:
            self._saved.set(
                domain, self._at(box, self._registers.filter1), _filter1(self._terms[0])
            )
        for n, selection in selections.items():
            self._saved.set(domain, self._at(box, self._registers.event + n), selection)

    def _values(self, cpu: int, box: int) -> tuple[int, ...]:
        return tuple(
            self._msr.read(cpu, self._at(box, self._registers.counter + n))
            for n in range(len(self._terms))
        )

    def read(self) -> Mapping[int, DomainCounts]:
        """Return the running totals by domain, scaled to all slices."""
        found = {}
        for domain, cpu in self._cpus.items():
            total = self._domain(domain, cpu)
            if total is not None:
                found[domain] = counts(total, self._hits, self._factor)
        return found

    def _domain(self, domain: int, cpu: int) -> list[int] | None:
        """Return a domain's sums, None if unreliable; all boxes are read in any case."""
        if any((domain, box) not in self._ours for box in self._counted):
            return None
        readings = []
        try:
            for box in self._counted:
                readings.append(self._totals[domain, box].grow(self._values(cpu, box)))
        except MsrError as error:
            if error.code not in (errno.ENXIO, errno.EIO):
                raise
            return None
        good = [reading for reading in readings if reading is not None]
        if len(good) < len(readings):
            return None
        return [sum(values) for values in zip(*good, strict=True)]

    def close(self) -> None:
        """Restore the registers."""
        self._cpus = self._domains()
        self._ours.clear()
        self._saved.put_back()
        self._cpus = {}

    def _registers_changed(self) -> list[int]:
        offsets = [self._registers.control]
        offsets += [self._registers.event + n for n in range(len(self._terms))]
        if self._registers.filter1 is not None:
            offsets.append(self._registers.filter1)
        return [self._at(box, offset) for box in self._counted for offset in offsets]

    def save(self) -> list[list[int]]:
        """Return, as plain JSON values, the registers that `watch` may change, by package."""
        registers, there = self._registers_changed(), self._domains()
        places = ((domain, cpu, at) for domain, cpu in there.items() for at in registers)
        found = self._saved.save(places)
        self._writable.renew(there)
        return found

    def reachable(self, saved: Sequence[Sequence[int]]) -> Reach:
        """Divide saved registers: some can be restored now, others wait for an offline socket."""
        self._cpus = self._domains()
        return self._saved.reachable(
            saved, lambda domains: message("domain-registers-offline", domains=domains)
        )

    def restore(self, saved: Sequence[Sequence[int]]) -> tuple[Message, ...]:
        """Restore the registers; return a message for each change. May be repeated.

        Counting stops in the cache domains of these registers until the next `watch`.
        """
        self._cpus = self._domains()
        domains = {one[0] for one in saved}
        self._ours = {place for place in self._ours if place[0] not in domains}
        return self._saved.restore(saved, self._bits)

    def _bits(self, register: int) -> int:
        """Return the bits that `watch` sets in a register of any box."""
        box, offset = divmod(register - self._registers.first, self._registers.stride)
        if not 0 <= box < self._registers.slices_max:
            return 0
        if offset == self._registers.control:
            return self._registers.freeze
        events = range(self._registers.event, self._registers.event + len(self._terms))
        return _WHOLE if offset in events or offset == self._registers.filter1 else 0


def _selection(terms: Mapping[str, int]) -> int:
    """Return the event select register: event 7..0, umask 15..8, extended umask from 32 on."""
    umask = terms["umask"]
    return terms["event"] | (umask & 0xFF) << 8 | (umask >> 8) << 32


_FILTER1_BITS = {
    "filter_rem": 0,
    "filter_loc": 1,
    "filter_nm": 4,
    "filter_not_nm": 5,
    "filter_opc0": 9,
    "filter_opc1": 19,
}


def _filter1(terms: Mapping[str, int]) -> int:
    return sum(terms[name] << bit for name, bit in _FILTER1_BITS.items() if name in terms)
