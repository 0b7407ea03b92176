/* SPDX-License-Identifier: Apache-2.0
 *
 * The quad-age LRU that Abel and Reineke found in Intel's client CPUs ("nanoBench", ISPASS 2020: QLRU_H11_M1_R0_U0).
 * Among the ways of the mask, an empty way is taken, else a way of age 3. Without such a way, the ages of the mask's ways
 * alone rise until one is 3, so that masks without a common way do not affect each other. The age of a line:
 * - A hit lowers 3 and 2 to 1, and 1 to 0.
 * - L2's victim gets 0 if the LLC had served the line before, else 3. Such a round trip shows reuse in an exclusive cache
 *   (Gaur, Chaudhuri and Subramoney, "Bypass and insertion algorithms for exclusive last-level caches", ISCA 2011). The
 *   3 (not 2) for other victims is calibrated, on claim a4-8b at 0x1e0.
 * - A device's write gets 1, as a fill, with or without the line in the LLC. A later move to a core's L2 does not count
 *   as a round trip.
 * - A line that migrates to the inclusive ways gets 3. On a machine without inclusive ways, a victim that merges into
 *   its copy also gets 3. Both lines have been read, and are or were in an L2. Calibrated, on claim a4-3b at 0x0c0,
 *   before L2's victims left the inclusive ways.
 */

/* Ages of two bits: of a victim that the LLC had served, of a fill, and the greatest. */
enum { REUSED_AGE = 0, FILL_AGE = 1, OLDEST = 3 };

INLINE int age_of(int cause) { return cause == REUSED ? REUSED_AGE : cause <= DEVICE ? FILL_AGE : OLDEST; }
INLINE i32 age_stamp(int age, int way) { return stamp_of(OLDEST + 1 - age, way); }
INLINE int qlru_victim(Set set, const i32 *forbidden) { return oldest_way(set, forbidden); }

INLINE void qlru_hit(Set set, int way, int cause) {
    int read_age = OLDEST + 1 - (set.stamps[way] >> WAY_BITS) >= 2;
    set.stamps[way] = age_stamp(cause == READ ? read_age : age_of(cause), way);
}

INLINE void qlru_fill(Set set, const i32 *forbidden, int way, int cause) {
    i32 growth = (set.stamps[way] >> WAY_BITS) - 1;
    if (growth > 0)
        for (int start = 0; start < set.ways; start += LANES)
            lower_lanes(set.stamps + start, forbidden + start, growth << WAY_BITS);
    set.stamps[way] = age_stamp(age_of(cause), way);
}
