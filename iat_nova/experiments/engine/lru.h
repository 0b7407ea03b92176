/* SPDX-License-Identifier: Apache-2.0
 * LRU, in L2 and in an LLC that fills: the least recently used way is replaced. */

INLINE int lru_victim(Set set, const i32 *forbidden) { return oldest_way(set, forbidden); }

INLINE void lru_hit(Set set, int way, int cause) {
    (void)cause;
    set.stamps[way] = stamp_of(++*set.clock, way);
}

INLINE void lru_fill(Set set, const i32 *forbidden, int way, int cause) {
    (void)forbidden;
    lru_hit(set, way, cause);
}

/* Replace the clocks in the stamps of a set by their ranks, from 1; a clock of 0 stays. The way with the lowest
 * remaining old stamp gets the next new stamp. New stamps are negative until all ways have a new stamp. */
static void rank_stamps(Set set) {
    i32 *stamps = set.stamps;
    for (int number = 1; number <= set.ways; number++) {
        int lowest = -1;
        for (int way = 0; way < set.ways; way++) {
            int used = stamps[way] > LAST_WAY && stamps[way] != NEVER;
            if (used && (lowest < 0 || stamps[way] < stamps[lowest])) lowest = way;
        }
        if (lowest >= 0) stamps[lowest] = -stamp_of(number, lowest);
    }
    for (int way = 0; way < set.ways; way++)
        if (stamps[way] < 0) stamps[way] = -stamps[way];
}
