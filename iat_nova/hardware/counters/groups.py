# SPDX-License-Identifier: Apache-2.0
"""Open groups of perf counters by key: which are open, and totals that never decrease."""

from __future__ import annotations

import contextlib
import operator
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from iat_nova.hardware.counters.perf_event import (
    CpuOffline,
    EventGroup,
    PerfEvent,
    allow_descriptors,
)

Key = TypeVar("Key")

_TIMES = 3  # values of a reading before the counts: their number, time enabled, time running


OpenEvents = Callable[[Sequence[PerfEvent], int], EventGroup]
"""A function that opens events on a CPU and starts counting."""


class Groups(Generic[Key]):
    """Groups of counters by key, such as a CPU's number.

    Descriptors are opened and closed in `follow` and `close` only, so a group whose CPU went
    offline stays absent until the first `follow` after the CPU's return. A new group continues from
    the totals of the group before.
    """

    def __init__(self, open_group: OpenEvents = EventGroup) -> None:
        self._open_group = open_group
        self._groups: dict[Key, _Group] = {}
        self._totals: dict[Key, tuple[int, ...]] = {}  # of groups that are closed now

    def follow(self, wanted: Mapping[Key, tuple[Sequence[PerfEvent], int]]) -> None:
        """Count exactly these events on these CPUs from now on; groups that are open stay open.

        Raises `HardwareError` if the kernel refuses; then some groups are missing.
        """
        self._close([key for key, one in self._groups.items() if key not in wanted or one.lost])
        missing = {key: one for key, one in wanted.items() if key not in self._groups}
        allow_descriptors(sum(len(events) for events, _ in missing.values()))
        for key, (events, cpu) in missing.items():
            with contextlib.suppress(CpuOffline):
                group = self._open_group(events, cpu)
                totals = self._totals.pop(key, (0,) * len(events))
                self._groups[key] = _Group(group, totals)

    def read(self) -> dict[Key, tuple[int, ...]]:
        """Return the running totals of each group; a group without reliable counts is absent."""
        found = {}
        for key, group in self._groups.items():
            totals = group.read()
            if totals is not None:
                found[key] = totals
        return found

    @property
    def fds(self) -> list[int]:
        """The descriptors of which `read` reads each once."""
        return [one.leader.fd for one in self._groups.values()]

    def close(self) -> None:
        """Close all descriptors; the totals are kept for a later `follow`."""
        self._close(list(self._groups))

    def _close(self, keys: list[Key]) -> None:
        for key in keys:
            self._totals[key] = self._groups.pop(key).close()


class _Group:
    """An open group.

    The totals are the kernel's counts plus `_offset`: the counts of earlier groups, and additions
    by scaling. `lost`: counting has ended, because the CPU went offline.
    """

    __slots__ = ("_last", "_offset", "_struct", "leader", "lost")

    def __init__(self, group: EventGroup, offset: tuple[int, ...]) -> None:
        self.leader = group
        self.lost = False
        self._struct = struct.Struct(f"={_TIMES + len(offset)}Q")
        self._offset = offset
        self._last: tuple[int, ...] = (0,) * (_TIMES + len(offset))

    def read(self) -> tuple[int, ...] | None:
        """Return the totals, None if the counts of this interval are not reliable.

        An interval in which the group ran less than half of the time is rejected; the scaled counts
        still enter the totals, as the best estimate. When the CPU goes offline, the kernel removes
        the group and its time stops: then the group is lost.
        """
        if self.lost:
            return None
        try:
            reading = self._struct.unpack(os.read(self.leader.fd, self._struct.size))
        except (OSError, struct.error):  # an error, or fewer members than before
            self.lost = True
            return None
        last, self._last = self._last, reading
        interval, ran = reading[1] - last[1], reading[2] - last[2]
        if interval <= 0:
            self.lost = True
            return None
        if ran != interval:
            missed = interval - ran
            self._offset = tuple(
                old + ((after - before) * missed // ran if ran else 0)
                for old, before, after in zip(
                    self._offset, last[_TIMES:], reading[_TIMES:], strict=True
                )
            )
            if 2 * ran < interval:
                return None
        return self._total()

    def _total(self) -> tuple[int, ...]:
        return tuple(map(operator.add, self._offset, self._last[_TIMES:]))

    def close(self) -> tuple[int, ...]:
        """Close the group and return its totals."""
        self.leader.close()
        return self._total()
