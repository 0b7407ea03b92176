# SPDX-License-Identifier: Apache-2.0
"""State of network cards; ``card.c`` has the rules."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.layout import Block, columns, number
from iat_nova.experiments.engine.library import FUNCTIONS

# Bytes on the wire beside the frame.
OVERHEAD_BYTES = number("OVERHEAD_BYTES")
FLOW, STREAM, SERVED = columns("Flow"), columns("Stream"), columns("Served")
BIN_BITS, BINS = number("BIN_BITS"), number("BINS")


@dataclasses.dataclass(frozen=True, eq=False)
class Nics(Block):
    """State of all cards: incoming streams from the wire, send rings to the wire."""

    flow: npt.NDArray[np.float64]
    streams: npt.NDArray[np.int64]
    ports: npt.NDArray[np.float64]
    tx: npt.NDArray[np.int64]
    served: npt.NDArray[np.float64]
    latency: npt.NDArray[np.int64]


def packets_per_s(bits_per_s: float, frame_bytes: int) -> float:
    """Return the packet rate of frames that fill `bits_per_s` of the wire."""
    return bits_per_s / 8 / (frame_bytes + OVERHEAD_BYTES)


def bin_of(latency_ns: int) -> int:
    """Return the bin of a latency in the histogram."""
    return int(FUNCTIONS["bin_of"](latency_ns))


def middle_ns(bin_number: int) -> float:
    """Return the latency in the middle of a bin of the histogram."""
    octave, part = divmod(bin_number, 1 << BIN_BITS)
    return float((1 + (part + 0.5) / (1 << BIN_BITS)) * 2.0**octave)
