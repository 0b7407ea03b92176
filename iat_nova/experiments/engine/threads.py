# SPDX-License-Identifier: Apache-2.0
"""State of the threads; ``threads.c``, ``poller.c`` and ``fio.c`` have the rules."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.layout import Block, columns, number
from iat_nova.experiments.engine.library import FUNCTIONS

MEMORY_BOUND, POLLER, STORAGE = map(number, ("MEMORY_BOUND", "POLLER", "STORAGE"))
# Outputs of an input that are no ring.
BY_TARGET, CONSUME = number("BY_TARGET"), number("CONSUME")
CLASSES = number("CLASSES")
INTS, FLOATS, INPUT = columns("ThreadInts"), columns("ThreadFloats"), columns("Input")


@dataclasses.dataclass(frozen=True, eq=False)
class Threads(Block):
    """All threads, one row each."""

    ints: npt.NDArray[np.int64]
    floats: npt.NDArray[np.float64]
    stalls: npt.NDArray[np.float64]
    bursts: npt.NDArray[np.float64]
    overlap: npt.NDArray[np.float64]
    inputs: npt.NDArray[np.int64]
    routes: npt.NDArray[np.int64]
    stretches: npt.NDArray[np.int32]


def settle(t: Threads, thread: int, row: int, sampling: int) -> float:
    """Return the cycles by which a thread's burst cost more than charged; update the means."""
    return FUNCTIONS["settle"](t.address, thread, row, sampling)
