# SPDX-License-Identifier: Apache-2.0
"""State of closed-loop clients; ``clients.c`` has the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.layout import Block, columns, number


@dataclasses.dataclass(frozen=True, eq=False)
class Clients(Block):
    """All closed loops: one row for each traffic with clients."""

    loops: npt.NDArray[np.int64]
    due: npt.NDArray[np.int64]


class LoopPlan(NamedTuple):
    """The plan of a loop: `streams` are consecutive rows of `Nics`."""

    target: int
    streams: Sequence[int]
    clients: int
    round_trip_s: float


def make(plans: Sequence[LoopPlan], random: np.random.Generator) -> Clients:
    """Return loops whose clients all send their first request within a round trip."""
    loops = np.zeros((len(plans), len(columns("Loop"))), np.int64)
    due = np.zeros((len(plans), number("DUE_SLOTS")), np.int64)
    for row, plan in enumerate(plans):
        round_trip_ns = round(plan.round_trip_s * 1e9)
        seed = int(random.integers(1, 2**62))
        loops[row] = (plan.target, 0, plan.streams[0], len(plan.streams), 0, round_trip_ns, seed)
        first = random.integers(0, max(1, round_trip_ns // number("SLOT_NS")), plan.clients)
        np.add.at(due[row], first, 1)
    return Clients(loops, due)
