# SPDX-License-Identifier: Apache-2.0
"""The LLC's sets: replacement, and the effects of an eviction.

Each way has an *age* of two bits. Among the ways of the mask, an empty way is taken, else a way of
age 3. Without such a way, the ages of all ways of the mask rise until one is 3. This is the
quad-age LRU that Abel and Reineke found in Intel's client CPUs ("nanoBench", ISPASS 2020:
QLRU_H11_M1_R0_U0), except that only the ages of the mask's ways rise. So masks without a common way
do not affect each other. The age of a line:

* A hit lowers 3 and 2 to 1, and 1 to 0.
* L2's victim gets 0 if the LLC had served the line before, else 3. Such a round trip shows reuse in
  an exclusive cache (Gaur, Chaudhuri and Subramoney, "Bypass and insertion algorithms for exclusive
  last-level caches", ISCA 2011). The 3 (not 2) for other victims is calibrated, on claim a4-8b at
  0x1e0.
* A device's write gets 1, as a fill, with or without the line in the LLC. A later move to a core's
  L2 does not count as a round trip.
* A line that migrates to the inclusive ways gets 3. On a machine without inclusive ways, a victim
  that merges into its copy also gets 3. Both lines have been read, and are or were in an L2.
  Calibrated, on claim a4-3b at 0x0c0, before L2's victims left the inclusive ways.

An LLC that fills has no ages: the least recently used way is replaced, as in L2.
"""

from __future__ import annotations

from iat_nova.experiments.sim import adaptive
from iat_nova.experiments.sim._compile import inlined, kernel
from iat_nova.experiments.sim.cachestate import (
    ADAPTS,
    CLOCK,
    DIRTY,
    EVICTED,
    FILLS,
    LEAKED,
    MIGRATES,
    PORTS,
    RECALLED,
    SHARED,
    UNREAD,
    WRITE_BACKS,
    Caches,
    Int32,
)
from iat_nova.experiments.sim.ways import (
    age_stamp,
    age_when_hit,
    find,
    grow_old,
    stamp_of,
    victim_way,
)

# Ages of lines that return from L2, and of lines that a device writes.
REUSED, FRESH, USED_ONCE = 0, 1, 3


@inlined
def touch(c: Caches, stamps: Int32, way: int) -> None:
    """Make a way the most recently used one of its set."""
    c.registers[CLOCK] += 1
    stamps[way] = stamp_of(c.registers[CLOCK], way)


@inlined
def give_age(c: Caches, index: int, way: int, age: int) -> None:
    """Set the age of a way of the LLC; in an LLC that fills, mark the way as most recently used."""
    if c.registers[FILLS]:
        touch(c, c.llc[index, 1], way)
    else:
        c.llc[index, 1, way] = age_stamp(age, way)


@inlined
def hit(c: Caches, index: int, way: int) -> None:
    """Lower the age of a way of the LLC after a hit, or mark the way as most recently used."""
    give_age(c, index, way, age_when_hit(c.llc[index, 1, way]))


@inlined
def drop(c: Caches, index: int, way: int) -> None:
    """Empty a way of the LLC without a write-back."""
    c.llc[index, 0, way] = -1
    c.llc[index, 1, way] = stamp_of(0, way)


@kernel
def take_from_l2(c: Caches, line: int, cores: int) -> int:
    """Remove a line from the L2 of one of `cores`; return the line's dirty bit, -1 if absent."""
    index = line & (c.l2.shape[1] - 1)
    core = 0
    while cores:
        if cores & 1:
            way = find(c.l2[core, index, 0], 3, line)
            if way >= 0:
                entry: int = c.l2[core, index, 0, way]
                c.l2[core, index, 0, way] = -1
                c.l2[core, index, 1, way] = stamp_of(0, way)
                return entry & DIRTY
        cores >>= 1
        core += 1
    return -1


@kernel
def in_l2(c: Caches, line: int, cores: int) -> bool:
    """Tell whether an L2 of `cores` has the line."""
    index = line & (c.l2.shape[1] - 1)
    core = 0
    while cores:
        if cores & 1 and find(c.l2[core, index, 0], 3, line) >= 0:
            return True
        cores >>= 1
        core += 1
    return False


@kernel
def _recall(c: Caches, index: int, way: int, line: int) -> int:
    """Remove the L2's copy of an evicted line; return the copy's dirty bit, 0 without a copy."""
    owner = c.llc[index, 2, way]
    if owner < 0:
        return 0
    found = take_from_l2(c, line, 1 << owner)
    if found < 0:
        return 0
    c.totals[RECALLED] += 1
    return found


@kernel
def _charge(c: Caches, line: int) -> None:
    low, high = 0, c.owned.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if line < c.owned[middle, 1]:
            high = middle
        else:
            low = middle + 1
    if low < c.owned.shape[0] and line >= c.owned[low, 0]:
        c.moved[c.owned[low, 2]] += 1


@inlined
def charge(c: Caches, line: int) -> None:
    """Count a transfer of a line from or to memory, for the port whose device writes the line."""
    if c.registers[PORTS]:
        _charge(c, line)


@inlined
def place(c: Caches, index: int, entry: int, row: int, age: int, options: bool) -> int:
    """Put an entry into a way that a row of `forbidden` allows, and evict the line there.

    `options`: whether the machine may have ports. Each caller passes a constant.
    """
    way = victim_way(c.llc[index, 1], c.forbidden[row])
    # Without a branch on whether the way is empty: CPUs would often predict it wrongly, and late.
    entry_or_none = int(c.llc[index, 0, way])
    some = 1 + (entry_or_none >> 63)
    old = entry_or_none & -some
    if not c.registers[FILLS]:
        grow_old(c.llc[index, 1], c.forbidden[row], way)
    if old & SHARED and c.registers[MIGRATES]:
        old |= _recall(c, index, way, old >> 3)
    if options and old & (UNREAD | SHARED) and old & DIRTY:
        charge(c, old >> 3)
    c.totals[EVICTED] += some
    c.totals[WRITE_BACKS] += old & DIRTY
    c.totals[LEAKED] += (old & UNREAD) >> 1
    c.llc[index, 0, way] = entry
    give_age(c, index, way, age)
    return way


@kernel
def place_for_port(c: Caches, index: int, entry: int, row: int, age: int) -> None:
    """Put the line of a port's device into the port's ways, and evict the line there."""
    place(c, index, entry, row, age, True)


@inlined
def put_up(c: Caches, index: int, way: int) -> None:
    """Mark a device's line for replacement next, if ADCA gives such lines priority."""
    if c.registers[ADAPTS] and c.llc[index, 0, way] & SHARED and adaptive.prioritised(c.adaptive):
        c.llc[index, 1, way] = stamp_of(0, way)
