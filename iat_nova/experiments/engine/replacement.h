/* SPDX-License-Identifier: Apache-2.0
 *
 * Replacement. A policy is a file of three functions, a name and a case below; a machine's `replacement` names the LLC's.
 * - NAME_victim returns the way to replace, an allowed way, and changes nothing.
 * - NAME_fill ranks a line that was placed in an allowed way, NAME_hit a line that was used or written in place.
 * A policy ranks ways by the clocks in their stamps, from 1 up; an empty way, or a line to replace next, has clock 0.
 */

/* What brings or uses a line: a core's access that hits or misses, a device's write, the migration to the inclusive ways,
 * or L2 returns its victim, which the LLC had (REUSED) or had not served before. */
enum { READ, MISS, DEVICE, MIGRATED, RETURNED, REUSED };
/* The first is known when compiling, for the usual machine. */
enum { QLRU, LRU };
#include "lru.h"
#include "qlru.h"
#define BY_POLICY(function, set, ...) \
    (UNLIKELY((set).policy == LRU) ? lru_##function(set, __VA_ARGS__) : qlru_##function(set, __VA_ARGS__))

INLINE int victim(Set set, const i32 *forbidden) { return BY_POLICY(victim, set, forbidden); }
INLINE void fill(Set set, const i32 *forbidden, int way, int cause) { BY_POLICY(fill, set, forbidden, way, cause); }
INLINE void hit(Set set, int way, int cause) { BY_POLICY(hit, set, way, cause); }
