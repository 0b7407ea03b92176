# SPDX-License-Identifier: Apache-2.0
"""The random numbers of the kernels: a linear congruential generator whose state is one number.

The multiplier is Knuth's (The Art of Computer Programming, volume 2, MMIX). The low bits of such a
generator repeat soon, so only the high bits are used.
"""

from __future__ import annotations

import numpy as np

from iat_nova.experiments.sim._compile import inlined

# Upper limit (exclusive) of a drawn number.
RANGE = 1 << 31


@inlined
def following(state: int) -> int:
    """Return the next state, 0 to 2^63 - 1.

    The computation uses unsigned integers: LLVM assumes that a signed product never overflows, and
    would remove the mask of the sign.
    """
    product = np.uint64(state) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
    return int(np.int64(product & np.uint64(0x7FFFFFFFFFFFFFFF)))


@inlined
def number(state: int) -> int:
    """Return the random number of a state: 0 to `RANGE` - 1."""
    return state >> 32
