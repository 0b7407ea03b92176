# SPDX-License-Identifier: Apache-2.0
"""The type of a named workload: cost of a unit of work, and accessed memory."""

from __future__ import annotations

import dataclasses
import enum

from iat_nova.experiments.scenarios.locality import Locality


class Form(enum.StrEnum):
    """The forms of profiles: each has a kind of thread and certain attachments."""

    MEMORY = "memory"  # its own memory only
    NETWORK = "network"  # receives from a NIC or a switch and sends back
    SWITCH = "switch"  # forwards between a NIC and the workloads attached to the switch
    PIPELINE = "pipeline"  # two threads per core: one receives from a NIC, the other sends
    STORAGE = "storage"  # reads and writes blocks of a disk


NETWORKED = (Form.NETWORK, Form.SWITCH, Form.PIPELINE)


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """One named workload.

    `overlap`: memory-level parallelism of accesses to own memory, to packets, and of reads and
    writes of copying. `table_lines` per flow and `table_touches` per packet describe a flow table;
    `flows_held`: maximum number of flows in the table. A memory workload has a working set instead,
    with `accesses` per unit of work. With a `locality`, `accesses` counts accesses beyond L1;
    otherwise all lines of the working set are equally likely. `reply_bytes`: size of a server's
    reply (0: as received); `request_bytes`: size of a client's request. `sends` is false for a
    workload that only receives. `payload_writes`: the payload that is read is also written. `then`:
    second stage of a pipeline.
    """

    name: str
    form: Form
    own_cycles: float
    own_instructions: float
    # Chosen: own accesses depend on each other, a packet's lines do not, copying is a stream.
    overlap: tuple[float, float, float, float] = (1.0, 4.0, 8.0, 8.0)
    working_set_bytes: int = 2 << 20
    accesses: float = 1.0
    locality: Locality = ()
    writes_percent: int = 0
    duty: float = 1.0
    payload_share: float = 0.0
    copy_cycles: float = 4.0  # per line of 64 B, by AVX2 loads and stores; chosen
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
        """Return the bytes of one core's flow table for this number of flows."""
        return int(min(flows, self.flows_held) * self.table_lines * 64)
