# SPDX-License-Identifier: Apache-2.0
"""One set of a cache: the search for a line, and the choice of the way to replace.

A set has two rows with one number per way, padded to a multiple of `LANES`: entries (a line shifted
left, with state bits below; -1 is empty) and stamps (see `stamp_of`). The padding is empty and
never replaced.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim._compile import inlined, kernel
from iat_nova.experiments.sim._lanes import LANES, equal, first, least, least_of_both, lower

Int32 = npt.NDArray[np.int32]

# A stamp is a clock and, in the low bits, the way; the clock has room for 2^26 ticks.
_WAY_BITS = 5
LAST_WAY = (1 << _WAY_BITS) - 1
CLOCK_LIMIT = 1 << 25
OLDEST = 3  # an age has two bits
NEVER = np.int32((1 << 31) - 1)


def padded(ways: int) -> int:
    """Return the next multiple of `LANES`."""
    return -(-ways // LANES) * LANES


@inlined
def find(entries: Int32, shift: int, line: int) -> int:
    """Return the way of a set that holds a line, -1 if the line is absent.

    The comparison uses 32 bits, so that LANES ways are compared at once.
    """
    for start in range(0, entries.size, LANES):
        found = equal(entries, start, np.int32(-1 << shift), np.int32(line << shift))
        if found:
            return start + int(first(found))
    return -1


@inlined
def victim_way(stamps: Int32, forbidden: Int32) -> int:
    """Return the way to replace among the allowed ways: an empty way, else the oldest.

    Depending on the kind of stamps, the oldest way is the longest unused way or the way of the
    highest age. The low bits of a stamp are the way, see `stamp_of`, so the smallest stamp
    identifies the way. Stamps of forbidden ways read as the largest number.
    """
    oldest = NEVER
    for start in range(0, stamps.size, LANES):
        oldest = min(oldest, least_of_both(stamps, forbidden, start))
    return LAST_WAY - int(oldest & LAST_WAY)


@inlined
def oldest_way(stamps: Int32) -> int:
    """Return the way to replace when all ways are allowed."""
    oldest = NEVER
    for start in range(0, stamps.size, LANES):
        oldest = min(oldest, least(stamps, start))
    return LAST_WAY - int(oldest & LAST_WAY)


@inlined
def stamp_of(clock: int, way: int) -> int:
    """Return the stamp of a way last used at `clock`; clock 0: empty, or replaced next.

    Among ways with the same clock (such as 0), the highest way has the smallest stamp.
    """
    return clock << _WAY_BITS | (LAST_WAY - way)


@inlined
def age_stamp(age: int, way: int) -> int:
    """Return the stamp of a way with an age of 0 (kept longest) to `OLDEST`."""
    return stamp_of(OLDEST + 1 - age, way)


@inlined
def age_when_hit(stamp: int) -> int:
    """Return the age that a hit gives a way: 2 and 3 become 1, less becomes 0."""
    return 1 if OLDEST + 1 - (stamp >> _WAY_BITS) >= 2 else 0


@inlined
def grow_old(stamps: Int32, forbidden: Int32, way: int) -> None:
    """Raise the ages of the allowed ways until the age of `way`, the oldest of these, is 3.

    The allowed ways are the ways of this replacement's mask. Other ways keep their ages, so that
    masks without a common way do not affect each other.
    """
    growth = (stamps[way] >> _WAY_BITS) - 1
    if growth > 0:
        for start in range(0, stamps.size, LANES):
            lower(stamps, forbidden, start, np.int32(growth << _WAY_BITS))


@kernel
def rank(stamps: Int32) -> None:
    """Replace the clocks in the stamps of a set by their ranks, from 1; a clock of 0 stays."""
    # The way with the lowest remaining old stamp gets the next new stamp. New stamps are negative
    # until all ways have a new stamp.
    for number in range(1, stamps.size + 1):
        lowest = -1
        for way in range(stamps.size):
            used = stamps[way] > LAST_WAY and stamps[way] != NEVER
            if used and (lowest < 0 or stamps[way] < stamps[lowest]):
                lowest = way
        if lowest >= 0:
            stamps[lowest] = -stamp_of(number, lowest)
    for way in range(stamps.size):
        if stamps[way] < 0:
            stamps[way] = -stamps[way]
