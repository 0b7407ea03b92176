/* SPDX-License-Identifier: Apache-2.0
 *
 * One set of a cache: the search for a line, and for the way with the oldest stamp.
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

#endif

INLINE void lower_lanes(i32 *row, const i32 *other, i32 amount) {
    for (int way = 0; way < LANES; way++) row[way] -= other[way] ? 0 : amount;
}

/* The rows of a set, see Caches.llc; the third row is of the core that took a copy, or in L2 the line's set. `policy` and
 * `clock`: of replacement.h. */
typedef struct { i32 *entries, *stamps, *others; i64 ways, policy, *clock; } Set;

/* Return the way of a set that holds a line, -1 if the line is absent. */
INLINE int find(Set set, i32 line) {
    i32 wanted = (i32)((u32)line << LINE_SHIFT);
    u32 bits = equal_lanes(set.entries, wanted);
    if (bits) return __builtin_ctz(bits);
    for (int start = LANES; UNLIKELY(start < set.ways); start += LANES) {
        bits = equal_lanes(set.entries + start, wanted);
        if (bits) return start + __builtin_ctz(bits);
    }
    return -1;
}

INLINE int way_of(i32 stamp) { return LAST_WAY - (stamp & LAST_WAY); }

/* Return the way with the smallest stamp, among the allowed ways if a row of `forbidden` is given: an empty way, else the
 * oldest. Stamps of forbidden ways read as NEVER. */
INLINE int oldest_way(Set set, const i32 *forbidden) {
    i32 oldest = least_lane(set.stamps, forbidden);
    for (int start = LANES; UNLIKELY(start < set.ways); start += LANES)
        oldest = (i32)min_i64(oldest, least_lane(set.stamps + start, forbidden ? forbidden + start : 0));
    return way_of(oldest);
}

/* Return the stamp of a way last used at `clock`; clock 0: empty, or replaced next. Among ways with the same clock, the
 * highest way has the smallest stamp. */
INLINE i32 stamp_of(i64 clock, int way) { return (i32)(clock << WAY_BITS | (LAST_WAY - way)); }

#endif
