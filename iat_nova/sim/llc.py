# SPDX-License-Identifier: Apache-2.0
"""The LLC's sets: what goes to make room, and what goes with it.

Each way has an *age* of two bits. Of the ways that the mask allows an empty one is taken, else one
of age 3; if there is none, all their ages rise until there is. This is the quad-age LRU that Abel
and Reineke found in Intel's client CPUs ("nanoBench", ISPASS 2020: QLRU_H11_M1_R0_U0), but
that only the ages of the mask's ways rise, so that masks with no way in common leave each other
alone. How old a line is:

* A hit lowers 3 and 2 to 1, and 1 to 0.
* L2's victim comes with 0 if it had been here before, that is, if the LLC had served it; else with
  3. Whether a line has made that trip is what shows reuse in an exclusive cache (Gaur, Chaudhuri
  and Subramoney, "Bypass and insertion algorithms for exclusive last-level caches", ISCA 2011);
  that others get 3, not 2, is calibrated, on claim a4-8b at 0x1e0.
* What a device writes is a fill, 1, whether it finds its line here or not; it does not count as
  having been here before when a core takes it.
* A line that migrates to the inclusive ways, and one that L2 returns to its copy (of a machine
  without such ways), gets 3: it has been read, and L2 has it, or had. Calibrated, on claim a4-3b at
  0x0c0, before L2's victims left the inclusive ways.

An LLC that fills has no ages: the least recently used way goes, as in L2.
"""

from __future__ import annotations

from iat_nova.sim import adaptive
from iat_nova.sim._compile import inlined, kernel
from iat_nova.sim.cachestate import (
    ADAPTS,
    CLOCK,
    DIRTY,
    EVICTED,
    FILLS,
    LEAKED,
    MIGRATES,
    RECALLED,
    SHARED,
    UNREAD,
    WRITE_BACKS,
    Caches,
    Int32,
)
from iat_nova.sim.ways import age_stamp, age_when_hit, find, grow_old, stamp_of, victim_way

# Ages of what L2 returns, and of what a device writes.
REUSED, FRESH, USED_ONCE = 0, 1, 3


@inlined
def touch(c: Caches, stamps: Int32, way: int) -> None:
    """Make a way the most recently used one of its set."""
    c.registers[CLOCK] += 1
    stamps[way] = stamp_of(c.registers[CLOCK], way)


@inlined
def give_age(c: Caches, index: int, way: int, age: int) -> None:
    """Give a way of the LLC an age; of an LLC that fills it becomes the most recently used."""
    if c.registers[FILLS]:
        touch(c, c.llc[index, 1], way)
    else:
        c.llc[index, 1, way] = age_stamp(age, way)


@inlined
def hit(c: Caches, index: int, way: int) -> None:
    """Make a way of the LLC younger; of an LLC that fills the most recently used."""
    give_age(c, index, way, age_when_hit(c.llc[index, 1, way]))


@inlined
def drop(c: Caches, index: int, way: int) -> None:
    """Empty a way of the LLC without a write-back."""
    c.llc[index, 0, way] = -1
    c.llc[index, 1, way] = stamp_of(0, way)


@kernel
def take_from_l2(c: Caches, line: int, cores: int) -> int:
    """Take a line out of the L2 that has it: its dirty bit, or -1 when none of `cores` has it."""
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
def _recall(c: Caches, index: int, way: int, line: int) -> int:
    """Take the copy of an evicted line out of the L2 that has it; return the copy's dirty bit."""
    owner = c.llc[index, 2, way]
    if owner < 0:
        return 0
    found = take_from_l2(c, line, 1 << owner)
    if found < 0:
        return 0
    c.totals[RECALLED] += 1
    return found


@inlined
def place(c: Caches, index: int, entry: int, row: int, age: int) -> int:
    """Put an entry into a way that a row of `forbidden` allows, evicting what is there."""
    way = victim_way(c.llc[index, 1], c.forbidden[row])
    old = c.llc[index, 0, way]
    if old >= 0:
        if not c.registers[FILLS]:
            grow_old(c.llc[index, 1], c.forbidden[row], way)
        if old & SHARED and c.registers[MIGRATES]:
            old |= _recall(c, index, way, old >> 3)
        c.totals[EVICTED] += 1
        c.totals[WRITE_BACKS] += old & DIRTY
        c.totals[LEAKED] += (old & UNREAD) >> 1
    c.llc[index, 0, way] = entry
    give_age(c, index, way, age)
    return way


@inlined
def put_up(c: Caches, index: int, way: int) -> None:
    """Have a line of the LLC replaced next, if it is a device's and ADCA says that it is done."""
    if c.registers[ADAPTS] and c.llc[index, 0, way] & SHARED and adaptive.prioritised(c.adaptive):
        c.llc[index, 1, way] = stamp_of(0, way)
