# SPDX-License-Identifier: Apache-2.0
"""The whole state of an emulated machine, and the engine's main loop (``engine.c``)."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine.cache import Caches
from iat_nova.experiments.engine.clients import Clients
from iat_nova.experiments.engine.layout import Block
from iat_nova.experiments.engine.library import FUNCTIONS
from iat_nova.experiments.engine.memory import Memory
from iat_nova.experiments.engine.nic import Nics
from iat_nova.experiments.engine.nvme import Disks
from iat_nova.experiments.engine.rings import Rings
from iat_nova.experiments.engine.threads import Threads


@dataclasses.dataclass(frozen=True, eq=False)
class State(Block):
    """The whole state: `caches` and `memory` of the first socket, `far...` of the second.

    With one socket, `far...` repeat the first socket and are not used. Disks belong to the first
    socket. `delays`: cycles by which each CPU's L2 misses are delayed (MBA).
    """

    caches: Caches
    memory: Memory
    rings: Rings
    nics: Nics
    clients: Clients
    disks: Disks
    threads: Threads
    far_caches: Caches
    far_memory: Memory
    delays: npt.NDArray[np.float64]
    delayed: npt.NDArray[np.float64]


def advance(
    s: State, start_ns: int, end_ns: int, step_ns: int, frequency_hz: float, sampling: int
) -> None:
    """Run the machine from `start_ns` to `end_ns` of simulated time."""
    FUNCTIONS["advance"](s.address, start_ns, end_ns, step_ns, frequency_hz, sampling)
