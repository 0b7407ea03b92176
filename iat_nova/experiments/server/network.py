# SPDX-License-Identifier: Apache-2.0
"""The mempools and rings of a scenario's workloads, and the paths of packets between rings."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import rings
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.machines.machine import WriteTarget
from iat_nova.experiments.scenarios.profiles import NETWORKED, Form
from iat_nova.experiments.scenarios.scenario import Scenario, Workload
from iat_nova.experiments.server import ports
from iat_nova.experiments.server.space import LineSpace

HANDOFF_RING = 1024  # between the two threads of a pipeline


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """One queue of a workload: the indices of its receive ring and send ring."""

    receive: int
    send: int
    handoff: int = -1  # between the two threads of a pipeline


class Network:
    """A scenario's pools and rings; `queues`: by workload, in the order of the workload's CPUs."""

    def __init__(self, scenario: Scenario, space: LineSpace) -> None:
        self._scenario = scenario
        self._pools: list[rings.PoolPlan] = []
        self._rings: list[rings.RingPlan] = []
        self._pool_of: dict[str, int] = {}
        self.queues: dict[str, list[Queue]] = {}
        for workload in scenario.workloads:
            if workload.profile.form in NETWORKED:
                self._plan(workload, space)

    def rings(self) -> rings.Rings:
        """Return all rings, with their buffers."""
        return rings.make(self._pools, self._rings, self._scenario.sampling)

    def pool_of(self, workload: Workload) -> int:
        """Return the number of a workload's mempool, -1 without a mempool."""
        return self._pool_of.get(workload.name, -1)

    def _plan(self, workload: Workload, space: LineSpace) -> None:
        """Plan a workload's mempool, and the rings of each of the workload's CPUs."""
        cores = list(workload.cpus)
        if workload.switch is not None:  # the switch reads and writes the guest's buffers
            cores += self._scenario.workload(workload.switch).cpus
        sharers = sum(1 << core for core in cores)
        start = space.stretch(workload.buffers * rings.BUFFER_LINES)
        pool = self._pool_of[workload.name] = len(self._pools)
        is_stack = workload.pool == "stack"
        self._pools.append(rings.PoolPlan(start, workload.buffers, is_stack, sharers))
        card = next((card for card in self._scenario.nics if card.name == workload.nic), None)
        on = self._scenario.machine.io is not WriteTarget.DMA and (card is None or card.dca)
        dca = ports.target(self._scenario, card.address if card else None) if on else 0
        socket = 0 if card is None else card.socket
        slots = workload.ring + workload.backlog
        made = [
            rings.RingPlan(slots, pool, True, dca, socket, backlog=workload.backlog),
            rings.RingPlan(workload.send_ring, pool, False, dca, socket),
        ]
        if workload.profile.form is Form.PIPELINE:
            made.append(rings.RingPlan(HANDOFF_RING, pool, False, dca, socket, handoff=True))
        self.queues[workload.name] = []
        for _ in workload.cpus:
            first = len(self._rings)
            self._rings += made
            self.queues[workload.name].append(Queue(*range(first, first + len(made))))

    def inputs(self, workload: Workload, lane: int, stage: int) -> list[tuple[int, int, int]]:
        """Return the inputs of one of a workload's threads: ring, output, lane."""
        if workload.profile.form not in NETWORKED:
            return []
        own = self.queues[workload.name][lane]
        if workload.profile.form is Form.PIPELINE:
            return [(own.handoff, own.send, lane) if stage else (own.receive, own.handoff, lane)]
        if workload.profile.form is Form.NETWORK:
            output = own.send if workload.profile.sends else th.CONSUME
            return [(own.receive, output, lane)]
        inputs = [(own.receive, th.BY_TARGET, lane)]
        lanes = len(workload.cpus)
        for client in self._scenario.clients_of(workload):
            for number, queue in enumerate(self.queues[client.name]):
                if number % lanes == lane:  # Open vSwitch assigns queues to PMD threads in turn
                    inputs.append((queue.send, own.send, lane))
        return inputs

    def routes(self) -> npt.NDArray[np.int64]:
        """Return the output ring by target (the number of a workload) and lane (a sender's CPU)."""
        workloads = self._scenario.workloads
        lanes = max(len(workload.cpus) for workload in workloads)
        routes = np.full((len(workloads), lanes), th.CONSUME, np.int64)
        for number, workload in enumerate(workloads):
            queues = self.queues.get(workload.name, [])
            for lane in range(lanes if queues else 0):
                queue = queues[lane % len(queues)]
                is_switch = workload.profile.form is Form.SWITCH
                routes[number, lane] = queue.send if is_switch else queue.receive
        return routes
