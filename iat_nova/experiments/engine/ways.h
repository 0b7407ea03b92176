/* SPDX-License-Identifier: Apache-2.0
 *
 * One set of a cache: the search for a line, and the choice of the way to replace.
 *
 * A set has rows with one number per way: entries (a line and, below, state bits; -1 is empty) and stamps (a clock and,
 * below, LAST_WAY minus the way, so the smallest stamp identifies the way). Nearly all time goes into these functions,
 * so they use the compiler's vectors, as wide as the CPU has them. With -DSCALAR they are plain loops.
 */
#ifndef WAYS_H
#define WAYS_H

#include <string.h>

#include "state.h"

#define INLINE static inline __attribute__((always_inline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

INLINE i64 min_i64(i64 a, i64 b) { return a < b ? a : b; }
INLINE i64 max_i64(i64 a, i64 b) { return a > b ? a : b; }
INLINE f64 min_f64(f64 a, f64 b) { return b < a ? b : a; }
INLINE f64 max_f64(f64 a, f64 b) { return b > a ? b : a; }

#ifdef SCALAR

INLINE u32 equal_lanes(const i32 *row, i32 wanted) {
    u32 bits = 0;
    for (int way = 0; way < LANES; way++) bits |= (u32)((row[way] & -(1 << LINE_SHIFT)) == wanted) << way;
    return bits;
}

INLINE i32 least_lane(const i32 *row, const i32 *other) {
    i32 least = NEVER;
    for (int way = 0; way < LANES; way++) {
        i32 lane = row[way] | (other ? other[way] : 0);
        least = lane < least ? lane : least;
    }
    return least;
}

INLINE void lower_lanes(i32 *row, const i32 *other, i32 amount) {
    for (int way = 0; way < LANES; way++) row[way] -= other[way] ? 0 : amount;
}

#else

#ifdef VECTORS_AVX2
#include <immintrin.h>

typedef __m256i Vector;
enum { WIDTH = 8 };

INLINE Vector loaded(const i32 *row) { return _mm256_loadu_si256((const __m256i *)row); }
INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_epi32(a, b); }
INLINE Vector all_lanes(i32 number) { return _mm256_set1_epi32(number); }

INLINE u32 lane_bits(const i32 *row, Vector wanted) {
    Vector lines = _mm256_and_si256(loaded(row), all_lanes(-(1 << LINE_SHIFT)));
    return (u32)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(lines, wanted)));
}

INLINE i32 first_of_least(Vector lanes) {
    __m128i least = _mm_min_epi32(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256(lanes, 1));
    least = _mm_min_epi32(least, _mm_shuffle_epi32(least, 0x4e));
    least = _mm_min_epi32(least, _mm_shuffle_epi32(least, 0xb1));
    return _mm_cvtsi128_si32(least);
}

#else

typedef i32 Vector __attribute__((vector_size(16)));
enum { WIDTH = 4 };

INLINE Vector loaded(const i32 *row) {
    Vector lanes;
    memcpy(&lanes, row, sizeof lanes);
    return lanes;
}

INLINE Vector smaller(Vector a, Vector b) {
    Vector less = a < b;
    return (a & less) | (b & ~less);
}

INLINE Vector all_lanes(i32 number) { return (Vector){number, number, number, number}; }

INLINE u32 lane_bits(const i32 *row, Vector wanted) {
    Vector bits = ((loaded(row) & -(1 << LINE_SHIFT)) == wanted) & (Vector){1, 2, 4, 8};
    return (u32)(bits[0] | bits[1] | bits[2] | bits[3]);
}

INLINE i32 first_of_least(Vector lanes) {
    return (i32)min_i64(min_i64(lanes[0], lanes[1]), min_i64(lanes[2], lanes[3]));
}

#endif

INLINE u32 equal_lanes(const i32 *row, i32 wanted) {
    Vector same = all_lanes(wanted);
    u32 bits = 0;
    for (int lane = 0; lane < LANES; lane += WIDTH) bits |= lane_bits(row + lane, same) << lane;
    return bits;
}

INLINE i32 least_lane(const i32 *row, const i32 *other) {
    Vector least = all_lanes(NEVER);
    for (int lane = 0; lane < LANES; lane += WIDTH) {
        Vector lanes = loaded(row + lane);
        if (other) lanes |= loaded(other + lane);
        least = smaller(least, lanes);
    }
    return first_of_least(least);
}

INLINE void lower_lanes(i32 *row, const i32 *other, i32 amount) {
    for (int way = 0; way < LANES; way++) row[way] -= other[way] ? 0 : amount;
}

#endif

/* Return the way of a set that holds a line, -1 if the line is absent. */
INLINE int find(const i32 *entries, i64 ways, i32 line) {
    i32 wanted = (i32)((u32)line << LINE_SHIFT);
    u32 bits = equal_lanes(entries, wanted);
    if (bits) return __builtin_ctz(bits);
    for (int start = LANES; UNLIKELY(start < ways); start += LANES) {
        bits = equal_lanes(entries + start, wanted);
        if (bits) return start + __builtin_ctz(bits);
    }
    return -1;
}

INLINE int way_of(i32 stamp) { return LAST_WAY - (stamp & LAST_WAY); }

/* Return the way to replace among the allowed ways: an empty way, else the oldest. Depending on the kind of stamps, the
 * oldest way is the longest unused way or the way of the highest age. Stamps of forbidden ways read as NEVER. */
INLINE int victim_way(const i32 *stamps, const i32 *forbidden, i64 ways) {
    i32 oldest = least_lane(stamps, forbidden);
    for (int start = LANES; UNLIKELY(start < ways); start += LANES)
        oldest = (i32)min_i64(oldest, least_lane(stamps + start, forbidden + start));
    return way_of(oldest);
}

/* Return the way to replace when all ways are allowed. */
INLINE int oldest_way(const i32 *stamps, i64 ways) {
    i32 oldest = least_lane(stamps, 0);
    for (int start = LANES; UNLIKELY(start < ways); start += LANES)
        oldest = (i32)min_i64(oldest, least_lane(stamps + start, 0));
    return way_of(oldest);
}

/* Return the stamp of a way last used at `clock`; clock 0: empty, or replaced next. Among ways with the same clock, the
 * highest way has the smallest stamp. */
INLINE i32 stamp_of(i64 clock, int way) { return (i32)(clock << WAY_BITS | (LAST_WAY - way)); }

enum { OLDEST = 3 }; /* an age has two bits */

/* Return the stamp of a way with an age of 0 (kept longest) to OLDEST. */
INLINE i32 age_stamp(int age, int way) { return stamp_of(OLDEST + 1 - age, way); }

/* Return the age that a hit gives a way: 2 and 3 become 1, less becomes 0. */
INLINE int age_when_hit(i32 stamp) { return OLDEST + 1 - (stamp >> WAY_BITS) >= 2; }

/* Raise the ages of the allowed ways until the age of `way`, the oldest of these, is 3. The allowed ways are the ways
 * of this replacement's mask. Other ways keep their ages, so that masks without a common way do not affect each other. */
INLINE void grow_old(i32 *stamps, const i32 *forbidden, i64 ways, int way) {
    i32 growth = (stamps[way] >> WAY_BITS) - 1;
    if (growth > 0)
        for (int start = 0; start < ways; start += LANES)
            lower_lanes(stamps + start, forbidden + start, growth << WAY_BITS);
}

/* Replace the clocks in the stamps of a set by their ranks, from 1; a clock of 0 stays. The way with the lowest
 * remaining old stamp gets the next new stamp. New stamps are negative until all ways have a new stamp. */
static void rank_stamps(i32 *stamps, i64 ways) {
    for (int number = 1; number <= ways; number++) {
        int lowest = -1;
        for (int way = 0; way < ways; way++) {
            int used = stamps[way] > LAST_WAY && stamps[way] != NEVER;
            if (used && (lowest < 0 || stamps[way] < stamps[lowest])) lowest = way;
        }
        if (lowest >= 0) stamps[lowest] = -stamp_of(number, lowest);
    }
    for (int way = 0; way < ways; way++)
        if (stamps[way] < 0) stamps[way] = -stamps[way];
}

#endif
