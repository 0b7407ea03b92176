# SPDX-License-Identifier: Apache-2.0
"""What a named workload is: the cost of a unit of its work and the memory it touches."""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.sim.workloads.locality import Locality


class Form(enum.StrEnum):
    """Which compiled kind runs a profile and what it needs."""

    MEMORY = "memory"  # its own memory only
    NETWORK = "network"  # receives from a NIC or a switch and sends back
    SWITCH = "switch"  # forwards between a NIC and those attached to it
    PIPELINE = "pipeline"  # two threads a core: one receives from a NIC, the next sends to it
    STORAGE = "storage"  # reads and writes blocks of a disk


NETWORKED = (Form.NETWORK, Form.SWITCH, Form.PIPELINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """One named workload.

    `overlap` is the memory-level parallelism of accesses to its own memory, to packets, and of
    the reads and writes of copying. `table_lines` a flow and `table_touches` a packet describe
    a flow table (`flows_held`: at most so many flows take room); a memory workload has a working
    set instead, of which it makes `accesses` a unit of work. With a `locality` those are the
    accesses beyond L1; without one every line of the working set is alike. A server answers each
    request with `reply_bytes` (0: it sends what it received); `request_bytes` is what its clients
    send; one that only receives `sends` nothing. With `payload_writes` the payload that is read is
    written as well. `then` is the second stage of a pipeline.
    """

    name: str
    form: Form
    own_cycles: float
    own_instructions: float
    # Chosen: own accesses wait for one another, a packet's lines do not, copying is a stream.
    overlap: tuple[float, float, float, float] = (1.0, 4.0, 8.0, 8.0)
    working_set_bytes: int = 2 << 20
    accesses: float = 1.0
    locality: Locality = ()
    writes_percent: int = 0
    duty: float = 1.0
    payload_share: float = 0.0
    copy_cycles: float = 4.0  # 64 B a line by AVX2 loads and stores; chosen
    spin_ipc: float = 2.0  # an empty poll is a short loop of predicted branches; chosen
    table_lines: float = 0.0
    table_touches: float = 0.0
    flows_held: int = 1 << 20
    sends: bool = True
    request_bytes: int = 0
    reply_bytes: int = 0
    payload_writes: bool = False
    then: Profile | None = None

    def table_bytes(self, flows: int) -> int:
        """Return the footprint of the flow table of one core that sees `flows`."""
        return int(min(flows, self.flows_held) * self.table_lines * 64)
