# SPDX-License-Identifier: Apache-2.0
"""Counters of CPUs read from registers, for hosts that cannot use perf.

The module uses the four general counters (IA32_PMC0..3 with IA32_PERFEVTSEL0..3). No arbitration
exists with the kernel: perf counts with the same registers, so the perf back end is the better
choice wherever possible. Counters in use by other programs are refused, not taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import CoreCounts, Counts, HardwareError
from iat_nova.hardware.counters.events import CoreEvents
from iat_nova.hardware.counters.perf import DomainReader
from iat_nova.hardware.kernel.msr import (
    CORE_REGISTERS,
    PERF_GLOBAL_CTRL,
    PERFEVTSEL,
    PMC,
    Msr,
    MsrError,
    SavedRegisters,
    Wrapping,
)
from iat_nova.hardware.kernel.rollback import Reach, SavedKeys
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import Message, message

_USER, _KERNEL, _ENABLE = 1 << 16, 1 << 17, 1 << 22
_COUNTERS = range(4)
_ENABLES = 0xF  # of PERF_GLOBAL_CTRL: the four counters
_SELECTION = (
    1 << 35
) - 1  # of PERFEVTSELn, written as a whole; bits 32 and 33 are TSX, 34 adaptive PEBS


class MsrCounters:
    """`hardware.api.Counters` through the registers: four reads per CPU and poll.

    `watch` programs counters, and `close` restores the original values. A CPU that was offline, or
    whose registers another program reset, is absent in this reading and programmed again by the
    next `watch`. So is a CPU that came online after the last `save`. Totals never decrease.
    """

    shape = CORE_REGISTERS

    def __init__(
        self,
        msr: Msr,
        events: CoreEvents,
        topology: Topology,
        clock: Clock,
        domains: DomainReader | None = None,
    ) -> None:
        self._msr = msr
        self._selections = tuple(
            event.config | _USER | _KERNEL | _ENABLE for event in events.events
        )
        self._topology = topology
        self._clock = clock
        self._domains = domains
        self._saved = SavedRegisters(msr, self._reach)
        self.written = self._saved.written
        self._writable = SavedKeys()
        self._counted: set[int] = set()
        self._totals: dict[int, Wrapping] = {}

    def _reach(self, cpu: int) -> int | None:
        return cpu if cpu in self._topology.online() else None

    def watch(self, cpus: Iterable[int]) -> None:
        """Count on exactly these CPUs from now on; see `api.Counters`."""
        wanted = set(filter(self._writable.has, self._topology.online().intersection(cpus)))
        gone = self._counted - wanted
        self._saved.put_back(gone)
        self._counted -= gone
        for cpu in sorted(wanted):
            if cpu not in self._counted or not self._is_ours(cpu):
                self._counted.discard(cpu)
                self._program(cpu)
                values = self._values(cpu)
                self._totals.setdefault(cpu, Wrapping(values)).restart(values)
                self._counted.add(cpu)
        if self._domains is not None:
            self._domains.watch()

    def _is_ours(self, cpu: int) -> bool:
        return all(
            self._msr.read(cpu, PERFEVTSEL + n) == selection
            for n, selection in zip(_COUNTERS, self._selections, strict=True)
        )

    def _program(self, cpu: int) -> None:
        ours = set(self._selections)
        for n in _COUNTERS:
            found = self._msr.read(cpu, PERFEVTSEL + n)
            if found & _ENABLE and found not in ours:
                raise HardwareError(
                    message(
                        "counter-in-use",
                        cpu=cpu,
                        counter=n,
                        register=PERFEVTSEL + n,
                        value=found,
                    ),
                    message("end-counting-or-use-perf"),
                )
        enabled = self._msr.read(cpu, PERF_GLOBAL_CTRL)
        if enabled & _ENABLES != _ENABLES:
            self._saved.set(cpu, PERF_GLOBAL_CTRL, enabled | _ENABLES)
        for n, selection in zip(_COUNTERS, self._selections, strict=True):
            self._saved.set(cpu, PERFEVTSEL + n, selection)

    def _values(self, cpu: int) -> tuple[int, ...]:
        return tuple(self._msr.read(cpu, PMC + n) for n in _COUNTERS)

    def read(self) -> Counts:
        """Return the running totals; see `api.Counters`."""
        taken_at_s = self._clock.now()
        cores = {}
        for cpu in self._counted:
            try:
                totals = self._totals[cpu].grow(self._values(cpu))
            except MsrError:
                continue
            if totals is not None:
                cores[cpu] = CoreCounts._make(totals)
        domains = self._domains.read() if self._domains is not None else {}
        return Counts(taken_at_s, cores, domains)

    def close(self) -> None:
        """Stop counting, and restore the counters' registers to their earlier values."""
        self._counted.clear()
        self._saved.put_back()
        if self._domains is not None:
            self._domains.close()

    def save(self) -> list[list[int]]:
        """Return, as plain JSON values, the registers that `watch` may change, by CPU."""
        registers = (PERF_GLOBAL_CTRL, *(PERFEVTSEL + n for n in _COUNTERS))
        online = sorted(self._topology.online())
        found = self._saved.save((cpu, cpu, at) for cpu in online for at in registers)
        self._writable.renew(online)
        return found

    def reachable(self, saved: Sequence[Sequence[int]]) -> Reach:
        """Divide the registers: an offline CPU keeps its registers, but out of reach."""
        return self._saved.reachable(
            saved, lambda cpus: message("cpu-registers-offline", cpus=cpus)
        )

    def restore(self, saved: Sequence[Sequence[int]]) -> tuple[Message, ...]:
        """Restore the registers; return a message for each change. May be repeated.

        Then counting stops on these CPUs until the next `watch`.
        """
        self._counted -= {one[0] for one in saved}
        return self._saved.restore(saved, _bits)


def _bits(register: int) -> int:
    """Return the bits of a register that `MsrCounters` sets."""
    return _ENABLES if register == PERF_GLOBAL_CTRL else _SELECTION
