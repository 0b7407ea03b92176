# SPDX-License-Identifier: Apache-2.0
"""Activity of Open vSwitch's PMD threads between two readings of their counts.

``dpif-netdev/pmd-stats-show`` has cycles (of the TSC) and packets since the thread's start, or
since ``pmd-stats-clear``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from iat_nova.model import PmdThread

METHOD = "dpif-netdev/pmd-stats-show"
WINDOW_S = 1.0  # readings may come in bursts: rates need two readings this far apart

_HEAD = re.compile(r"^pmd thread numa_id -?[0-9]+ core_id ([0-9]{1,6}):\s*$", re.MULTILINE)
_COUNT = re.compile(r"^\s+([a-z][a-z. ]*?): ([0-9]{1,20})\b")
_NAMES = ("packets received", "miss with failed upcall", "processing cycles", "idle cycles")


class PmdCounts(NamedTuple):
    """A thread's counts: packets taken from its queues, lost upcalls, busy and idle cycles."""

    packets: int
    lost: int
    busy: int
    idle: int


def parse(text: str) -> dict[int, PmdCounts]:
    """Return the counts of each PMD thread by its CPU; threads without a count are absent.

    A thread without any activity so far shows no cycles.
    """
    found: dict[int, dict[str, int]] = {}
    of: dict[str, int] = {}
    for line in text.splitlines():
        if head := _HEAD.match(line):
            of = found.setdefault(int(head[1]), {})
        elif not line.startswith(" "):  # the main thread
            of = {}
        elif count := _COUNT.match(line):
            of[count[1]] = int(count[2])
    return {
        cpu: PmdCounts(*(counts[name] for name in _NAMES))
        for cpu, counts in found.items()
        if all(name in counts for name in _NAMES)
    }


class PmdStats:
    """Computes load and packet rates of PMD threads from successive readings of their counts."""

    def __init__(self) -> None:
        self._before: dict[int, PmdCounts] = {}
        self._at_s = 0.0
        self._last: tuple[PmdThread, ...] = ()
        self.unknown_form = False  # threads without a name that Open vSwitch has used since 2.10

    def update(self, now_s: float, text: str) -> tuple[PmdThread, ...]:
        """Return each thread's activity since the last reading, the lowest CPU first.

        New threads, and threads with cleared counts, are absent until the next reading. Within the
        window the last result is returned.
        """
        if self._before and now_s - self._at_s < WINDOW_S:
            return self._last
        self.unknown_form = _HEAD.search(text) is not None and _NAMES[0] not in text
        before, self._before = self._before, parse(text)
        passed_s, self._at_s = now_s - self._at_s, now_s
        self._last = tuple(
            _thread(cpu, before[cpu], after, passed_s)
            for cpu, after in sorted(self._before.items())
            if cpu in before and all(n >= b for n, b in zip(after, before[cpu], strict=True))
        )
        return self._last


def _thread(cpu: int, before: PmdCounts, after: PmdCounts, passed_s: float) -> PmdThread:
    packets, lost, busy, idle = (new - old for new, old in zip(after, before, strict=True))
    cycles = busy + idle
    return PmdThread(
        cpu=cpu,
        busy=busy / cycles if cycles else None,
        packets_per_s=packets / passed_s,
        cycles_per_packet=busy / packets if packets else None,
        lost_upcalls_per_s=lost / passed_s,
    )
