# SPDX-License-Identifier: Apache-2.0
"""From a scenario to the arrays of the engine, and the handles by which events change them."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from iat_nova.sim import cache, clients, engine, memory, nic, nvme, rings
from iat_nova.sim.machine import LINE_BYTES, Io
from iat_nova.sim.scenario import DiskSpec, Scenario, ScenarioError, Traffic, Workload
from iat_nova.sim.workloads import locality, poller
from iat_nova.sim.workloads import threads as th
from iat_nova.sim.workloads.profiles import NETWORKED, Form, Profile

# Each thread's own memory has a stretch of the address space to itself, with room to grow.
STRETCH_BYTES = 256 << 20
# Lines of a page of 4 KiB; the largest sampling, too.
PAGE_LINES = 64
HANDOFF_RING = 1024  # between the two threads of a pipeline
# Sampled lines that can be told apart: an entry of a cache is a line and three bits, in 32 with a
# sign.
LINES_MAX = 1 << 28
_KINDS = {
    Form.MEMORY: th.MEMORY_BOUND,
    Form.NETWORK: th.POLLER,
    Form.SWITCH: th.POLLER,
    Form.PIPELINE: th.POLLER,
    Form.STORAGE: th.STORAGE,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Queue:
    """One queue of a workload: its receive and its send ring, by number."""

    receive: int
    send: int
    handoff: int = -1  # between the two threads of a pipeline


class Plant:
    """A scenario's running machine: the engine's state and who is where in it.

    `threads` and `queues` give a workload's rows and queues in the order of its processors;
    `streams` the rows of a traffic's streams; `sockets` each socket's caches and memory. Raises
    `ScenarioError` where that is more memory than the caches can tell apart.
    """

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self._random = np.random.default_rng(seed)
        self._next_line = 0
        self._pools: list[rings.PoolPlan] = []
        self._rings: list[rings.RingPlan] = []
        self.owners = [workload.name for workload in scenario.workloads]
        self._pool_of: dict[str, int] = {}
        self.queues: dict[str, list[Queue]] = {}
        self.threads: dict[str, list[int]] = {}
        self.streams: dict[str, list[int]] = {}
        for workload in scenario.workloads:
            if workload.profile.form in NETWORKED:
                self._plan_network(workload)
        made = rings.make(self._pools, self._rings, scenario.sampling)
        threads = self._make_threads()
        caches = cache.make_sockets(scenario.machine, scenario.sampling)
        memories = [memory.make(scenario.machine, scenario.sampling) for _ in caches]
        self.sockets = list(zip(caches, memories, strict=True))
        self.state = engine.State(
            caches[0],
            memories[0],
            made,
            self._make_nics(),
            self._make_clients(),
            self._make_disks(),
            threads,
            caches[-1],
            memories[-1],
        )
        self._check_lines()
        for workload in scenario.workloads:
            if workload.profile.form is Form.MEMORY or workload.profile.locality:
                self.set_working_set(workload.name, workload.working_set_bytes)
        self.flows = {traffic.name: traffic.flows for traffic in scenario.traffic}
        self.apply_flows()

    # ------------------------------------------------------------------ planning

    def _workload(self, name: str) -> Workload:
        return next(workload for workload in self.scenario.workloads if workload.name == name)

    def _stretch(self, lines: int) -> int:
        """Reserve lines; the start is shifted at random by pages, whatever the sampling."""
        start = self._next_line + int(self._random.integers(0, 4096)) * PAGE_LINES
        self._next_line = -(-(start + lines) // PAGE_LINES) * PAGE_LINES
        return start

    def _check_lines(self) -> None:
        """Raise where the last sampled line has too high a number for the caches' arrays."""
        given = enough = self.scenario.sampling
        while self._next_line // enough >= LINES_MAX:
            enough *= 2
        if enough > given:
            raise ScenarioError(
                f"{self.scenario.name}: sampling: found {given}; allowed: {enough} and more, as "
                "its workloads have more memory than the caches can tell apart at that"
            )

    def _plan_network(self, workload: Workload) -> None:
        """Plan a workload's mempool and a pair of rings for each of its processors."""
        cores = list(workload.cpus)
        if workload.switch is not None:  # the switch reads and writes the guest's buffers
            cores += self._workload(workload.switch).cpus
        sharers = sum(1 << core for core in cores)
        lines = workload.buffers * rings.BUFFER_LINES
        pool = len(self._pools)
        self._pools.append(
            rings.PoolPlan(
                self._stretch(lines), workload.buffers, workload.pool == "stack", sharers
            )
        )
        self._pool_of[workload.name] = pool
        card = next((card for card in self.scenario.nics if card.name == workload.nic), None)
        dca = self.scenario.machine.io is not Io.DMA and (card is None or card.dca)
        socket = 0 if card is None else card.socket
        queues = []
        for _ in workload.cpus:
            first = len(self._rings)
            slots = workload.ring + workload.backlog
            self._rings.append(
                rings.RingPlan(slots, pool, True, dca, socket, backlog=workload.backlog)
            )
            self._rings.append(rings.RingPlan(workload.send_ring, pool, False, dca, socket))
            queues.append(Queue(first, first + 1))
            if workload.profile.form is Form.PIPELINE:
                self._rings.append(
                    rings.RingPlan(HANDOFF_RING, pool, False, dca, socket, handoff=True)
                )
                queues[-1] = Queue(first, first + 1, first + 2)
        self.queues[workload.name] = queues

    def _clients(self, switch: Workload) -> list[Workload]:
        return [w for w in self.scenario.workloads if w.switch == switch.name]

    def _inputs(self, workload: Workload, lane: int, stage: int) -> list[tuple[int, int, int]]:
        """Return the inputs of one of a workload's threads: ring, output, lane."""
        own = self.queues[workload.name][lane]
        if workload.profile.form is Form.PIPELINE:
            return [(own.handoff, own.send, lane) if stage else (own.receive, own.handoff, lane)]
        if workload.profile.form is Form.NETWORK:
            output = own.send if workload.profile.sends else poller.CONSUME
            return [(own.receive, output, lane)]
        inputs = [(own.receive, poller.BY_TARGET, lane)]
        lanes = len(workload.cpus)
        for client in self._clients(workload):
            for number, queue in enumerate(self.queues[client.name]):
                if number % lanes == lane:  # Open vSwitch deals queues out in turn
                    inputs.append((queue.send, own.send, lane))
        return inputs

    def _routes(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Return the output ring for each target (a workload's number) and lane."""
        lanes = max(len(workload.cpus) for workload in self.scenario.workloads)
        routes = np.full((len(self.owners), lanes), poller.CONSUME, np.int64)
        for number, name in enumerate(self.owners):
            queues = self.queues.get(name, [])
            for lane in range(lanes):
                if not queues:
                    continue
                queue = queues[lane % len(queues)]
                is_switch = self._workload(name).profile.form is Form.SWITCH
                routes[number, lane] = queue.send if is_switch else queue.receive
        return routes

    def _make_threads(self) -> th.Threads:
        ints: list[list[int]] = []
        floats: list[list[float]] = []
        overlaps: list[tuple[float, ...]] = []
        inputs: list[tuple[int, int, int]] = []
        for workload in self.scenario.workloads:
            self.threads[workload.name] = []
            stages = [one for one in (workload.profile, workload.profile.then) if one]
            for (lane, cpu), (stage, profile) in itertools.product(
                enumerate(workload.cpus), enumerate(stages)
            ):
                self.threads[workload.name].append(len(ints))
                mine = []
                if profile.form in NETWORKED:
                    mine = self._inputs(workload, lane, stage)
                ints.append(self._thread_ints(workload, cpu, len(inputs), len(mine)))
                floats.append(_thread_floats(workload, profile, self.scenario.machine.frequency_hz))
                overlaps.append(profile.overlap)
                inputs += mine
        overlap = np.array(overlaps, np.float64)
        return th.Threads(
            np.array(ints, np.int64),
            np.array(floats, np.float64),
            self.scenario.machine.llc_cycles / overlap,
            overlap,
            np.array(inputs, np.int64).reshape(-1, 3),
            self._routes(),
            np.ones((len(ints), locality.SLOTS, 2), np.int32),
        )

    def _thread_ints(self, workload: Workload, cpu: int, inputs: int, count: int) -> list[int]:
        row = [0] * th.INTS
        row[th.KIND] = _KINDS[workload.profile.form]
        row[th.CORE] = cpu
        row[th.RANDOM] = int(self._random.integers(1, 2**62))
        memory_bytes = max(STRETCH_BYTES, locality.size_bytes(workload.profile.locality))
        first = self._stretch(round(memory_bytes / LINE_BYTES))
        row[th.FIRST_LINE] = first // self.scenario.sampling
        row[th.WRITES_PERCENT] = workload.writes_percent
        row[th.POOL] = self._pool_of.get(workload.name, -1)
        row[th.INPUTS] = inputs
        row[th.INPUTS_COUNT] = count
        return row

    def _make_nics(self) -> nic.Nics:
        scenario = self.scenario
        flow: list[list[float]] = []
        streams: list[list[int]] = []
        for traffic in scenario.traffic:
            target = self._workload(traffic.to)
            entry = traffic.to if target.nic is not None else str(target.switch)
            queues = self.queues[entry]
            rate = nic.packets_per_s(traffic.rate_bits_per_s, traffic.packet_bytes)
            self.streams[traffic.name] = []
            for queue in queues:
                self.streams[traffic.name].append(len(streams))
                # Streams start at random phases, or all would send in the same step.
                phase = float(self._random.random()) * (0 if traffic.clients else traffic.burst)
                flow.append([rate / len(queues), phase])
                streams.append(
                    [
                        queue.receive,
                        traffic.packet_bytes,
                        self.owners.index(traffic.to),
                        traffic.burst,
                        0,
                        traffic.burst,
                        int(self._random.integers(1, 2**62)),
                    ]
                )
        cards = {card.name: number for number, card in enumerate(scenario.nics)}
        tx = [
            [queue.send, cards[workload.nic]]
            for workload in scenario.workloads
            if workload.nic is not None
            for queue in self.queues[workload.name]
        ]
        return nic.Nics(
            np.array(flow, np.float64).reshape(-1, 2),
            np.array(streams, np.int64).reshape(-1, 7),
            np.array([[c.speed_bits_per_s / 8, 0.0, 0.0] for c in scenario.nics]).reshape(-1, 3),
            np.array(tx, np.int64).reshape(-1, 2),
            np.zeros((len(self.owners), 3)),
            np.zeros((len(self.owners), nic.BINS), np.int64),
        )

    def _make_clients(self) -> clients.Clients:
        plans = [
            clients.LoopPlan(
                self.owners.index(traffic.to),
                self.streams[traffic.name],
                traffic.clients,
                traffic.round_trip_s,
            )
            for traffic in self.scenario.traffic
            if traffic.clients
        ]
        return clients.make(plans, np.random.default_rng(self._random.integers(2**32)))

    def _make_disks(self) -> nvme.Disks:
        scenario = self.scenario
        numbers = {disk.name: number for number, disk in enumerate(scenario.disks)}
        jobs = []
        for owner, workload in enumerate(scenario.workloads):
            if workload.disk is None:
                continue
            lines = workload.depth * workload.block_bytes // LINE_BYTES
            for thread, cpu in zip(self.threads[workload.name], workload.cpus, strict=True):
                jobs.append(
                    nvme.JobPlan(
                        owner,
                        thread,
                        cpu,
                        numbers[workload.disk],
                        workload.depth,
                        workload.block_bytes,
                        self._stretch(lines) // scenario.sampling,
                    )
                )
        dca = scenario.machine.io is not Io.DMA
        return nvme.make(
            [
                nvme.DiskPlan(disk.bytes_per_s, _command_s(disk), disk.medium_s, disk.dca and dca)
                for disk in scenario.disks
            ],
            jobs,
            sum(len(rows) for rows in self.threads.values()),
            scenario.sampling,
            int(self._random.integers(1, 2**62)) if scenario.disks else 1,
        )

    # ------------------------------------------------------------------- changes

    def _set_locality(self, thread: int, spread: locality.Locality, touches: float) -> None:
        """Set how a thread's accesses spread over its memory, and how many a unit of work has."""
        t = self.state.threads
        first = int(t.ints[thread, th.FIRST_LINE])
        t.stretches[thread] = locality.table(spread, first, self.scenario.sampling)
        t.ints[thread, th.SLOT_MASK] = 0 if len(spread) == 1 else locality.SLOTS - 1
        t.floats[thread, th.TOUCHES] = touches

    def set_working_set(self, name: str, size_bytes: float) -> None:
        """Set the size of each thread's own memory, every line alike; L1's share is not simulated.

        A profile with a locality of its own keeps that.
        """
        profile = self._workload(name).profile
        past_l1 = 1.0 - min(0.95, self.scenario.machine.l1_bytes / size_bytes)
        for thread in self.threads[name]:
            if profile.locality:
                self._set_locality(thread, profile.locality, profile.accesses)
            else:
                spread = locality.uniform(size_bytes)
                self._set_locality(thread, spread, profile.accesses * past_l1)

    def set_disk_dca(self, number: int, on: bool) -> None:
        """Let a disk's writes into the LLC, or keep them out."""
        self.state.disks.devices[number, nvme.DCA] = on

    def set_duty(self, name: str, duty: float) -> None:
        """Set the share of the time for which a workload does not sleep; at 0 it does not run."""
        self.state.threads.floats[self.threads[name], th.DUTY] = duty

    def set_traffic(self, traffic: Traffic) -> None:
        """Bring a traffic's streams to what it says now."""
        rate = nic.packets_per_s(traffic.rate_bits_per_s, traffic.packet_bytes)
        rows = self.streams[traffic.name]
        self.state.nics.flow[rows, nic.PACKETS_PER_S] = rate / len(rows)
        self.state.nics.streams[rows, nic.FRAME_BYTES] = traffic.packet_bytes
        self.state.nics.streams[rows, nic.BURST] = traffic.burst
        self.flows[traffic.name] = traffic.flows
        self.apply_flows()

    def apply_flows(self) -> None:
        """Size the flow tables by the flows that pass; they are dealt out over the cores."""
        for workload in self.scenario.workloads:
            if workload.profile.form not in NETWORKED or not workload.profile.table_touches:
                continue
            passing = {workload.name, *(client.name for client in self._clients(workload))}
            flows = sum(self.flows[t.name] for t in self.scenario.traffic if t.to in passing)
            each = max(1, flows // len(workload.cpus))
            table = workload.profile.table_bytes(each)
            past_l1 = 1.0 - min(0.95, self.scenario.machine.l1_bytes / table)
            touches = workload.profile.table_touches * past_l1
            for thread in self.threads[workload.name]:
                self._set_locality(thread, locality.uniform(table), touches)


def _command_s(disk: DiskSpec) -> float:
    """Return what a command takes of a disk's time beside moving its bytes."""
    if disk.commands_per_s is None:
        return 0.0
    return max(0.0, 1.0 / disk.commands_per_s - nvme.PAGE_BYTES / disk.bytes_per_s)


def _thread_floats(workload: Workload, profile: Profile, frequency_hz: float) -> list[float]:
    row = [0.0] * th.FLOATS
    row[th.OWN_CYCLES] = profile.own_cycles
    row[th.OWN_INSTRUCTIONS] = profile.own_instructions
    row[th.DUTY] = workload.duty
    row[th.PAYLOAD_SHARE] = profile.payload_share
    row[th.COPY_CYCLES] = profile.copy_cycles
    row[th.SPIN_IPC] = profile.spin_ipc
    row[th.OFF_MAX_CYCLES] = workload.jitter_s * frequency_hz
    row[th.REPLY_BYTES] = profile.reply_bytes
    row[th.PAYLOAD_WRITES] = profile.payload_writes
    return row
