/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers: a linear congruential generator whose state is one number. The multiplier is Knuth's (The Art of
 * Computer Programming, volume 2, MMIX). The low bits of such a generator repeat soon, so only the high bits are used.
 */
#ifndef RANDOM_H
#define RANDOM_H

#include "ways.h"

#define RANDOM_RANGE 2147483648.0 /* upper limit (exclusive) of a drawn number */
enum { RANDOM_BITS = 31 };

/* Return the next state, 0 to 2^63 - 1. */
INLINE i64 next_state(i64 state) {
    return (i64)(((u64)state * 6364136223846793005u + 1442695040888963407u) & 0x7fffffffffffffffu);
}

/* Advance a state and return the random number, 0 to 2^31 - 1. */
INLINE i64 draw(i64 *state) {
    *state = next_state(*state);
    return *state >> 32;
}

#endif
