# SPDX-License-Identifier: Apache-2.0
"""Detection of CPUs that go offline or online, also during an operation.

Nova's ``[libvirt] cpu_power_management`` takes the CPUs of a guest offline and online at any
moment. An operation on such a CPU fails, or sees settings that the kernel has reset. Such a result
is invalid, and the operation is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel.topology import Topology

T = TypeVar("T")

TRIES = 10  # of an operation during which CPUs go online or offline


class Cpus:
    """The CPUs of a machine, as an agent watches them; here all CPUs are always online."""

    def begin(self) -> bool:
        """Record the online CPUs; return whether any changed since the last call."""
        return False

    def moved(self) -> str | None:
        """Return a text on the CPUs that went online or offline since `begin`; None: no CPU."""
        return None

    def lost(self, cpus: Iterable[int]) -> bool:
        """Return whether all these CPUs may have been offline at the same time.

        The period is the time between the last two calls of `begin`.
        """
        return False


FIXED = Cpus()


class CpuWatch(Cpus):
    """The CPUs of a host by sysfs: one `stat` for each online CPU."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._before: dict[int, int | None] = {}
        self._now = topology.stamps()
        self._moving = False

    def begin(self) -> bool:
        """Record the online CPUs; return whether any changed since the last call."""
        self._before, self._now = self._now, self._topology.stamps()
        moving, self._moving = self._moving, False
        return moving or self._now != self._before

    def moved(self) -> str | None:
        """Return a text on the CPUs that went online or offline since `begin`; None: no CPU.

        A CPU that the kernel is taking offline, or bringing online, counts as well: resctrl may
        have forgotten the CPU while sysfs still shows it online.
        """
        now = self._topology.stamps()
        words = _difference(self._now, now) or _under_way(self._topology)
        self._moving = self._moving or words is not None
        return words

    def lost(self, cpus: Iterable[int]) -> bool:
        """Return whether all these CPUs may have been offline at the same time; see `Cpus`."""
        known = [cpu for cpu in cpus if self._before.get(cpu) is not None]
        return all(self._now.get(cpu) != self._before[cpu] for cpu in known)


def settled(cpus: Cpus, operation: Callable[[], T], *, lasting: bool = False) -> T:
    """Return the result of an operation, repeated after failures while online CPUs change.

    `lasting`: the result must fit the CPUs at its end, so a success is repeated as well. Raises the
    operation's `HardwareError` if no CPU went online or offline, or after `TRIES`.
    """
    for _ in range(TRIES - 1):
        cpus.begin()
        try:
            result = operation()
        except HardwareError:
            if cpus.moved() is None:
                raise
        else:
            if not lasting or cpus.moved() is None:
                return result
    return operation()


def _difference(before: dict[int, int | None], now: dict[int, int | None]) -> str | None:
    went = before.keys() - now.keys()
    came = now.keys() - before.keys()
    back = {cpu for cpu in before.keys() & now.keys() if before[cpu] != now[cpu]}
    told = [
        f"{_cpus(cpus)} {what}"
        for cpus, what in (
            (went, "went offline"),
            (came, "came online"),
            (back, "went offline and came online"),
        )
        if cpus
    ]
    return ", ".join(told) or None


def _under_way(topology: Topology) -> str | None:
    cpus = topology.in_transition()
    verb = "is" if len(cpus) == 1 else "are"
    return f"{_cpus(cpus)} {verb} going offline or coming online" if cpus else None


def _cpus(cpus: Iterable[int]) -> str:
    numbers = frozenset(cpus)
    return f"CPU{'s' if len(numbers) > 1 else ''} {format_cpus(numbers)}"
