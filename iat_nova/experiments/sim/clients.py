# SPDX-License-Identifier: Apache-2.0
"""Closed-loop clients: each client has one request under way and sends the next after the reply.

A reply that leaves through the network card comes back as the next request after the delay of wire
and client. The delay is drawn evenly between half and one and a half of the scenario's round trip,
because hosts at the other end are never in step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import lcg, nic
from iat_nova.experiments.sim._compile import kernel

# Columns of `Clients.loops`: the workload whose packets are replies, the number of replies seen,
# the streams of `Nics` that carry the requests in turn, the round trip, the random state.
TARGET, SEEN, STREAM, STREAMS, NEXT, ROUND_TRIP_NS, RANDOM = range(7)
# Requests that wait to be sent lie in slots of a microsecond.
SLOT_NS = 1000
SLOTS = 4096


class Clients(NamedTuple):
    """All closed loops: one row for each traffic with clients."""

    loops: npt.NDArray[np.int64]
    due: npt.NDArray[np.int64]  # [loop, slot]: requests to be sent then


class LoopPlan(NamedTuple):
    """The plan of a loop: `streams` are consecutive rows of `Nics`."""

    target: int
    streams: Sequence[int]
    clients: int
    round_trip_s: float


def make(plans: Sequence[LoopPlan], random: np.random.Generator) -> Clients:
    """Return loops whose clients all send their first request within a round trip."""
    loops = np.zeros((len(plans), 7), np.int64)
    due = np.zeros((len(plans), SLOTS), np.int64)
    for row, plan in enumerate(plans):
        round_trip_ns = round(plan.round_trip_s * 1e9)
        seed = int(random.integers(1, 2**62))
        loops[row] = (plan.target, 0, plan.streams[0], len(plan.streams), 0, round_trip_ns, seed)
        first = random.integers(0, max(1, round_trip_ns // SLOT_NS), plan.clients)
        np.add.at(due[row], first, 1)
    return Clients(loops, due)


@kernel
def _draw(loop: npt.NDArray[np.int64]) -> float:
    """Return a random number, 0 .. 1."""
    state = lcg.following(loop[RANDOM])
    loop[RANDOM] = state
    return lcg.number(state) / lcg.RANGE


@kernel
def step(c: Clients, n: nic.Nics, from_ns: int, to_ns: int) -> None:
    """Take the replies that have left, and send the requests due after `from_ns` to `to_ns`."""
    for row in range(c.loops.shape[0]):
        loop = c.loops[row]
        replies = int(n.served[loop[TARGET], nic.PACKETS]) - loop[SEEN]
        loop[SEEN] += replies
        for _ in range(replies):
            delay_ns = int(loop[ROUND_TRIP_NS] * (0.5 + _draw(loop)))
            # At the earliest in the next slot: the requests of this slot are sent below.
            slot = max((to_ns + delay_ns) // SLOT_NS, to_ns // SLOT_NS + 1)
            c.due[row, slot % SLOTS] += 1
        for slot in range(from_ns // SLOT_NS, to_ns // SLOT_NS):
            while c.due[row, slot % SLOTS] > 0:
                c.due[row, slot % SLOTS] -= 1
                stream = loop[STREAM] + loop[NEXT]
                loop[NEXT] = (loop[NEXT] + 1) % loop[STREAMS]
                n.flow[stream, nic.CREDIT] += 1.0
