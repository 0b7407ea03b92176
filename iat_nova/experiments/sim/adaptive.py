# SPDX-License-Identifier: Apache-2.0
"""The monitors of a cache with ADCA: the ways for device lines, and early replacement of these.

After Li Peng et al., "Memory access optimization of I/O devices on multi-core processor systems".
One set in 64 has a *monitor* beside the cache. A monitor changes nothing in the cache and has two
parts:

* A stack of the lines that cores used last, most recent first, with as many entries as the cache
  has ways (W). From a device's write of a line until a core's read of this line, N is the deepest
  stack position at which a core's access hits. The cores need N ways, and P = W - N are left. The
  largest (aggressive) or the smallest (conservative) of the monitors' latest P holds for all sets,
  or the mean of these two (normal).
* A directory of the set's lines under pure LRU replacement. A device's line is judged when evicted
  from the directory or written again. A line that was read once adds one to a saturating counter,
  a line read more often takes one. The counter starts at 0, with LRU. *Priority replacement* starts
  when all bits are ones, and LRU again when all are zeros.

The paper leaves the counter's width open: 4 bits are chosen here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim._compile import kernel
from iat_nova.experiments.sim.machine import AdcaChoice

# `Adaptive.numbers`: the choice, the counter, the ways left for devices (P), the shift from a set's
# number to the number of its monitor, and whether priority replacement holds.
CHOICE, COUNTER, LEFT, SHIFT, PRIORITY = range(5)
COUNTER_MAX = 15
# One set in 64 has a monitor: 16 of 1,024.
SPACING_BITS = 6

# Columns of `Adaptive.watch`: a line that a device wrote and no core has read, -1 for none; the
# deepest hit since that write; the monitor's P, -1 before the first.
LINE, DEEPEST, ROOM = range(3)
# Columns of an entry of `Adaptive.directory`: the line, -1 for none; the number of reads by cores
# since a device's write, _OF_CORES for a line that no device wrote.
_READS = 1
_OF_CORES = -1

Int64 = npt.NDArray[np.int64]


class Adaptive(NamedTuple):
    """State of ADCA's monitors; none on a machine without ADCA."""

    numbers: Int64  # see CHOICE ...
    watch: Int64  # [monitor, see LINE ...]
    stack: Int64  # [monitor, position]: line, -1 for none
    directory: Int64  # [monitor, position, LINE or _READS]


def make(choice: AdcaChoice, sets: int, ways: int, sampling: int) -> Adaptive:
    """Return monitors without any observation; devices may take all ways at first."""
    shift = max(0, SPACING_BITS - (sampling.bit_length() - 1))
    monitors = -(-sets >> shift)
    watch = np.full((monitors, 3), -1, np.int64)
    watch[:, DEEPEST] = 0
    numbers = np.array([list(AdcaChoice).index(choice), 0, ways, shift, 0], np.int64)
    return Adaptive(
        numbers,
        watch,
        np.full((monitors, ways), -1, np.int64),
        np.full((monitors, ways, 2), _OF_CORES, np.int64),
    )


@kernel
def left(a: Adaptive) -> int:
    """Return P, the number of ways of each set for device lines."""
    found: int = a.numbers[LEFT]
    return found


@kernel
def prioritised(a: Adaptive) -> bool:
    """Return whether a device's line is the next to be replaced after a core has read the line."""
    decided: bool = a.numbers[PRIORITY] == 1
    return decided


@kernel
def _monitor(a: Adaptive, index: int) -> int:
    """Return the monitor of a set, -1 for a set without monitor."""
    number: int = index >> a.numbers[SHIFT]
    return number if number << a.numbers[SHIFT] == index else -1


@kernel
def _use(stack: Int64, line: int) -> int:
    """Bring a line to the front of a stack; return the previous position, -1 for a new line."""
    depth = -1
    last = stack.size - 1
    for position in range(stack.size):
        if stack[position] == line:
            depth = last = position
            break
    for position in range(last, 0, -1):
        stack[position] = stack[position - 1]
    stack[0] = line
    return depth


@kernel
def _judge(a: Adaptive, reads: int) -> None:
    """Count a device's line by its number of reads; lines that no core read do not count."""
    if reads == 1:
        a.numbers[COUNTER] = min(COUNTER_MAX, a.numbers[COUNTER] + 1)
    elif reads > 1:
        a.numbers[COUNTER] = max(0, a.numbers[COUNTER] - 1)
    if a.numbers[COUNTER] == COUNTER_MAX:
        a.numbers[PRIORITY] = 1
    elif a.numbers[COUNTER] == 0:
        a.numbers[PRIORITY] = 0


@kernel
def _enter(a: Adaptive, monitor: int, line: int, by_device: bool) -> None:
    """Record the use of a line in the directory, which always replaces the LRU line."""
    entries = a.directory[monitor]
    last = entries.shape[0] - 1
    place = last
    for position in range(last + 1):
        if entries[position, LINE] == line:
            place = position
            break
    held = entries[place, LINE] == line
    reads = entries[place, _READS]
    if by_device or not held:
        _judge(a, reads)
        reads = 0 if by_device else _OF_CORES
    elif reads != _OF_CORES:
        reads += 1
    for position in range(place, 0, -1):
        entries[position, LINE] = entries[position - 1, LINE]
        entries[position, _READS] = entries[position - 1, _READS]
    entries[0, LINE] = line
    entries[0, _READS] = reads


@kernel
def _close(a: Adaptive, monitor: int) -> None:
    """End a monitor's watch and choose the common P again from all monitors with a P."""
    a.watch[monitor, ROOM] = a.stack.shape[1] - a.watch[monitor, DEEPEST]
    a.watch[monitor, LINE] = -1
    least = a.stack.shape[1]
    most = 0
    for number in range(a.watch.shape[0]):
        room = a.watch[number, ROOM]
        if room >= 0:
            least = min(least, room)
            most = max(most, room)
    if a.numbers[CHOICE] == 0:
        a.numbers[LEFT] = most
    elif a.numbers[CHOICE] == 1:
        a.numbers[LEFT] = (least + most) // 2
    else:
        a.numbers[LEFT] = least


@kernel
def core_used(a: Adaptive, index: int, line: int) -> None:
    """Report a core's access to the monitors."""
    monitor = _monitor(a, index)
    if monitor < 0:
        return
    depth = _use(a.stack[monitor], line)
    _enter(a, monitor, line, False)
    if a.watch[monitor, LINE] == line:
        _close(a, monitor)
    elif a.watch[monitor, LINE] >= 0:
        a.watch[monitor, DEEPEST] = max(a.watch[monitor, DEEPEST], depth + 1)


@kernel
def device_wrote(a: Adaptive, index: int, line: int) -> None:
    """Report a device's write to the monitors, also a write past the cache."""
    monitor = _monitor(a, index)
    if monitor < 0:
        return
    _enter(a, monitor, line, True)
    if a.watch[monitor, LINE] == line:  # written again before a core read it
        _close(a, monitor)
    if a.watch[monitor, LINE] < 0:
        a.watch[monitor, LINE] = line
        a.watch[monitor, DEEPEST] = 0
