# SPDX-License-Identifier: Apache-2.0
"""State of ADCA's monitors; ``adaptive.c`` has the rules."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.layout import Block, columns, number
from iat_nova.experiments.engine.library import FUNCTIONS
from iat_nova.experiments.machines.machine import AdcaChoice

NUMBERS, WATCH = columns("AdaptiveNumbers"), columns("Watch")
Int64 = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, eq=False)
class Adaptive(Block):
    """State of ADCA's monitors; none on a machine without ADCA."""

    numbers: Int64
    watch: Int64
    stack: Int64
    directory: Int64


def make(choice: AdcaChoice, sets: int, ways: int, sampling: int) -> Adaptive:
    """Return monitors without any observation; devices may take all ways at first."""
    shift = max(0, number("SPACING_BITS") - (sampling.bit_length() - 1))
    monitors = -(-sets >> shift)
    watch = np.full((monitors, len(WATCH)), -1, np.int64)
    watch[:, WATCH.deepest] = 0
    start = [list(AdcaChoice).index(choice), 0, ways, shift, 0]
    return Adaptive(
        np.array(start, np.int64),
        watch,
        np.full((monitors, ways), -1, np.int64),
        np.full((monitors, ways, 2), number("OF_CORES"), np.int64),
    )


def left(a: Adaptive) -> int:
    """Return P, the number of ways of each set for device lines."""
    return int(a.numbers[NUMBERS.left])


def prioritised(a: Adaptive) -> bool:
    """Return whether a device's line is the next to be replaced after a core has read the line."""
    return bool(a.numbers[NUMBERS.priority])


def core_used(a: Adaptive, index: int, line: int) -> None:
    """Report a core's access to the monitors."""
    FUNCTIONS["core_used"](a.address, index, line)


def device_wrote(a: Adaptive, index: int, line: int) -> None:
    """Report a device's write to the monitors, also a write past the cache."""
    FUNCTIONS["device_wrote"](a.address, index, line)
