# SPDX-License-Identifier: Apache-2.0
"""A scenario's running machine: the engine's state, and methods to change the state."""

from __future__ import annotations

import numpy as np

from iat_nova.experiments.engine import cache, memory, nic, nvme
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.engine.state import State
from iat_nova.experiments.machines.machine import GIB
from iat_nova.experiments.scenarios import locality
from iat_nova.experiments.scenarios.profiles import NETWORKED, Form
from iat_nova.experiments.scenarios.scenario import Scenario, WireTraffic
from iat_nova.experiments.server import build, ports
from iat_nova.experiments.server.network import Network
from iat_nova.experiments.server.space import LINES_MAX, LineSpace


class Plant:
    """The engine's state, with the rows of each workload and traffic.

    `threads` and `queues`: rows and queues by workload, in the order of the workload's CPUs.
    `streams`: rows of streams by traffic. `sockets`: each socket's caches and memory. Raises
    `ScenarioError` if the workloads have more memory than the caches can distinguish.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.owners = [workload.name for workload in scenario.workloads]
        space = LineSpace(seed)
        network = Network(scenario, space)
        self.queues = network.queues
        rings = network.rings()
        threads, self.threads = build.threads(scenario, space, network)
        nics, self.streams = build.nics(scenario, space, network)
        loops = build.closed_loops(scenario, space, self.streams)
        disks = build.disks(scenario, space, self.threads)
        owned = build.owned(scenario, network, rings, disks)
        count = len(ports.rows(scenario))
        caches = cache.make_sockets(scenario.machine, scenario.sampling, count, owned)
        memories = [memory.make(scenario.machine, scenario.sampling) for _ in caches]
        self.sockets = list(zip(caches, memories, strict=True))
        self.state = State(
            caches[0],
            memories[0],
            rings,
            nics,
            loops,
            disks,
            threads,
            caches[-1],
            memories[-1],
            np.zeros(scenario.machine.cpu_count),
            np.zeros(cache.LEVELS),
        )
        most = LINES_MAX if scenario.machine.page_bytes >= GIB else cache.DRAWN_LINES
        space.check(scenario.name, scenario.sampling, most)
        for workload in scenario.workloads:
            if workload.profile.form is Form.MEMORY or workload.profile.locality:
                self.set_working_set(workload.name, workload.working_set_bytes)
        self.flows = {traffic.name: traffic.flows for traffic in scenario.traffic}
        self.apply_flows()

    def _set_locality(self, thread: int, spread: locality.Locality, touches: float) -> None:
        """Set the locality of a thread's accesses, and the accesses per unit of work."""
        t = self.state.threads
        first = int(t.ints[thread, th.INTS.first_line])
        t.stretches[thread] = locality.table(spread, first, self.scenario.sampling)
        t.ints[thread, th.INTS.slot_mask] = 0 if len(spread) == 1 else locality.SLOTS - 1
        t.floats[thread, th.FLOATS.touches] = touches

    def _past_l1(self, size_bytes: float) -> float:
        """Return the share of accesses to `size_bytes` of memory that L1 does not serve."""
        return 1.0 - min(0.95, self.scenario.machine.l1_bytes / size_bytes)

    def set_working_set(self, name: str, size_bytes: float) -> None:
        """Set the size of each thread's own memory; all lines are equally likely.

        Accesses that L1 serves are not simulated. A profile with a locality of its own ignores
        the size.
        """
        profile = self.scenario.workload(name).profile
        spread, touches = profile.locality, profile.accesses
        if not spread:
            spread = locality.uniform(size_bytes)
            touches *= self._past_l1(size_bytes)
        for thread in self.threads[name]:
            self._set_locality(thread, spread, touches)

    def set_disk_dca(self, number: int, on: bool) -> None:
        """Switch DCA of a disk on or off: whether the disk writes into the LLC."""
        address = self.scenario.disks[number].address
        dca = ports.target(self.scenario, address) if on else 0
        self.state.disks.devices[number, nvme.DISK.dca] = dca

    def limit_bandwidth(self, cpu: int, percent: int) -> None:
        """Limit a CPU to `percent` of its memory bandwidth; 100: no limit."""
        self.state.delays[cpu] = memory.delay(self.scenario.machine, percent)

    def set_duty(self, name: str, duty: float) -> None:
        """Set the share of time in which a workload runs; 0: the workload does not run."""
        self.state.threads.floats[self.threads[name], th.FLOATS.duty] = duty

    def set_traffic(self, traffic: WireTraffic) -> None:
        """Set a traffic's streams to the present rate, packet size, burst and flows."""
        rate = nic.packets_per_s(traffic.rate_bits_per_s, traffic.packet_bytes)
        rows = self.streams[traffic.name]
        self.state.nics.flow[rows, nic.FLOW.packets_per_s] = rate / len(rows)
        self.state.nics.streams[rows, nic.STREAM.frame_bytes] = traffic.packet_bytes
        self.state.nics.streams[rows, nic.STREAM.burst] = traffic.burst
        self.flows[traffic.name] = traffic.flows
        self.apply_flows()

    def apply_flows(self) -> None:
        """Size each core's flow table by its share of the passing flows."""
        for workload in self.scenario.workloads:
            profile = workload.profile
            if profile.form not in NETWORKED or not profile.table_touches:
                continue
            clients = self.scenario.clients_of(workload)
            passing = {workload.name, *(client.name for client in clients)}
            flows = sum(self.flows[t.name] for t in self.scenario.traffic if t.to in passing)
            table = profile.table_bytes(max(1, flows // len(workload.cpus)))
            touches = profile.table_touches * self._past_l1(table)
            for thread in self.threads[workload.name]:
                self._set_locality(thread, locality.uniform(table), touches)
