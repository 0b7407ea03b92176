# SPDX-License-Identifier: Apache-2.0
"""From a scenario to the arrays of the engine: threads, cards with their traffic, disks."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import clients, nic, nvme, rings
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.machines.machine import LINE_BYTES, Machine, WriteTarget
from iat_nova.experiments.scenarios import locality
from iat_nova.experiments.scenarios.profiles import Form, Profile
from iat_nova.experiments.scenarios.scenario import DiskSpec, Scenario, Workload
from iat_nova.experiments.server import ports
from iat_nova.experiments.server.network import Network
from iat_nova.experiments.server.space import LineSpace

Rows = Mapping[str, Sequence[int]]
"""The rows of an array that belong to a workload or a traffic, by name."""

# Each thread's own memory has a separate stretch of the address space, with room to grow.
STRETCH_BYTES = 256 << 20
_KINDS = {
    Form.MEMORY: th.MEMORY_BOUND,
    Form.NETWORK: th.POLLER,
    Form.SWITCH: th.POLLER,
    Form.PIPELINE: th.POLLER,
    Form.STORAGE: th.STORAGE,
}


def threads(scenario: Scenario, space: LineSpace, network: Network) -> tuple[th.Threads, Rows]:
    """Return all threads, and each workload's threads in the order of the workload's CPUs."""
    rows: dict[str, list[int]] = {}
    ints: list[list[int]] = []
    floats: list[list[float]] = []
    overlaps: list[tuple[float, ...]] = []
    inputs: list[tuple[int, int, int]] = []
    served_by: list[int] = []  # the thread of each input
    for workload in scenario.workloads:
        rows[workload.name] = []
        stages = [one for one in (workload.profile, workload.profile.then) if one]
        for (lane, cpu), (stage, profile) in itertools.product(
            enumerate(workload.cpus), enumerate(stages)
        ):
            rows[workload.name].append(len(ints))
            mine = network.inputs(workload, lane, stage)
            row = _thread_ints(workload, cpu, space, scenario.sampling)
            row[th.INTS.pool] = network.pool_of(workload)
            row[th.INTS.inputs], row[th.INTS.inputs_count] = len(inputs), len(mine)
            ints.append(row)
            floats.append(_thread_floats(workload, profile, scenario.machine))
            overlaps.append(profile.overlap)
            inputs += mine
            served_by += [len(ints) - 1] * len(mine)
    overlap = np.array(overlaps, np.float64)
    stalls = scenario.machine.llc_cycles / overlap
    stalls_rows = len(ints) + np.arange(len(inputs))
    made = th.Threads(
        np.array(ints, np.int64),
        np.array(floats, np.float64),
        np.concatenate([stalls, stalls[served_by]]) if served_by else stalls,
        np.zeros((len(ints) + len(inputs), th.CLASSES, 2)),
        overlap,
        np.column_stack([np.array(inputs, np.int64).reshape(-1, 3), stalls_rows]),
        network.routes(),
        np.ones((len(ints), locality.SLOTS, 2), np.int32),
    )
    return made, rows


def _thread_ints(workload: Workload, cpu: int, space: LineSpace, sampling: int) -> list[int]:
    row = [0] * len(th.INTS)
    row[th.INTS.kind] = _KINDS[workload.profile.form]
    row[th.INTS.core] = cpu
    row[th.INTS.random] = space.seed()
    memory_bytes = max(STRETCH_BYTES, locality.size_bytes(workload.profile.locality))
    row[th.INTS.first_line] = space.stretch(round(memory_bytes / LINE_BYTES)) // sampling
    row[th.INTS.writes_percent] = workload.writes_percent
    return row


def _thread_floats(workload: Workload, profile: Profile, machine: Machine) -> list[float]:
    row = [0.0] * len(th.FLOATS)
    row[th.FLOATS.own_cycles] = profile.own_cycles
    row[th.FLOATS.own_instructions] = profile.own_instructions
    row[th.FLOATS.duty] = workload.duty
    row[th.FLOATS.payload_share] = profile.payload_share
    row[th.FLOATS.copy_cycles] = profile.copy_cycles
    row[th.FLOATS.spin_ipc] = profile.spin_ipc
    row[th.FLOATS.off_max_cycles] = workload.jitter_s * machine.frequency_hz
    row[th.FLOATS.reply_bytes] = profile.reply_bytes
    row[th.FLOATS.payload_writes] = profile.payload_writes
    row[th.FLOATS.off_every_cycles] = machine.off_every_cycles
    row[th.FLOATS.running] = machine.running_weight
    row[th.FLOATS.credible_lines] = machine.credible_lines
    return row


def nics(scenario: Scenario, space: LineSpace, network: Network) -> tuple[nic.Nics, Rows]:
    """Return the cards with their incoming streams, and each traffic's streams."""
    owners = [workload.name for workload in scenario.workloads]
    rows: dict[str, list[int]] = {}
    flow: list[list[float]] = []
    streams: list[list[int]] = []
    for traffic in scenario.traffic:
        target = scenario.workload(traffic.to)
        entry = traffic.to if target.nic is not None else str(target.switch)
        queues = network.queues[entry]
        rate = nic.packets_per_s(traffic.rate_bits_per_s, traffic.packet_bytes)
        rows[traffic.name] = []
        for queue in queues:
            rows[traffic.name].append(len(streams))
            # Streams start at random phases, so that not all send in the same step.
            phase = float(space.random.random()) * (0 if traffic.clients else traffic.burst)
            flow.append([rate / len(queues), phase])
            streams.append(
                [
                    queue.receive,
                    traffic.packet_bytes,
                    owners.index(traffic.to),
                    traffic.burst,
                    0,
                    traffic.burst,
                    space.seed(),
                ]
            )
    cards = {card.name: number for number, card in enumerate(scenario.nics)}
    tx = [
        [queue.send, cards[workload.nic]]
        for workload in scenario.workloads
        if workload.nic is not None
        for queue in network.queues[workload.name]
    ]
    made = nic.Nics(
        np.array(flow, np.float64).reshape(-1, 2),
        np.array(streams, np.int64).reshape(-1, 7),
        np.array([[c.speed_bits_per_s / 8, 0.0, 0.0] for c in scenario.nics]).reshape(-1, 3),
        np.array(tx, np.int64).reshape(-1, 2),
        np.zeros((len(owners), 3)),
        np.zeros((len(owners), nic.BINS), np.int64),
    )
    return made, rows


def closed_loops(scenario: Scenario, space: LineSpace, streams: Rows) -> clients.Clients:
    """Return the closed-loop clients, which wait for each reply."""
    owners = [workload.name for workload in scenario.workloads]
    plans = [
        clients.LoopPlan(
            owners.index(traffic.to), streams[traffic.name], traffic.clients, traffic.round_trip_s
        )
        for traffic in scenario.traffic
        if traffic.clients
    ]
    return clients.make(plans, np.random.default_rng(space.random.integers(2**32)))


def disks(scenario: Scenario, space: LineSpace, rows: Rows) -> nvme.Disks:
    """Return the disks and the jobs of their threads."""
    numbers = {disk.name: number for number, disk in enumerate(scenario.disks)}
    jobs = []
    for owner, workload in enumerate(scenario.workloads):
        if workload.disk is None:
            continue
        lines = workload.depth * workload.block_bytes // LINE_BYTES
        for thread, cpu in zip(rows[workload.name], workload.cpus, strict=True):
            jobs.append(
                nvme.JobPlan(
                    owner,
                    thread,
                    cpu,
                    numbers[workload.disk],
                    workload.depth,
                    workload.block_bytes,
                    space.stretch(lines) // scenario.sampling,
                )
            )
    dca = scenario.machine.io is not WriteTarget.DMA
    return nvme.make(
        [
            nvme.DiskPlan(
                disk.bytes_per_s,
                _command_s(disk),
                disk.medium_s,
                ports.target(scenario, disk.address) if disk.dca and dca else 0,
                disk.drives,
            )
            for disk in scenario.disks
        ],
        jobs,
        sum(map(len, rows.values())),
        scenario.sampling,
        space.seed() if scenario.disks else 1,
    )


def owned(
    scenario: Scenario, network: Network, made: rings.Rings, disks: nvme.Disks
) -> npt.NDArray[np.int64]:
    """Return the lines that each port's device writes, as of `Caches.owned`."""
    numbers = {port: number for number, port in enumerate(ports.rows(scenario))}
    addresses = {card.name: card.address for card in scenario.nics}
    found: list[tuple[int, int, int]] = []
    for workload in scenario.workloads if numbers else ():
        address, its = addresses.get(workload.nic or ""), network.queues.get(workload.name)
        if address is not None and its:
            pool = made.pools[made.state[its[0].receive, rings.RING.pool]]
            base, count = int(pool[rings.POOL.base]), int(pool[rings.POOL.count])
            lines = made.lines[made.first[base] : made.first[base + count], 0]
            found.append((int(lines.min()), int(lines.max()) + 1, numbers[address]))
    for number, job in enumerate(disks.jobs if numbers else ()):
        if not job[nvme.JOB.block_pages]:
            continue  # no job at all
        length = int(job[nvme.JOB.block_pages]) * nvme.PAGE_LINES // scenario.sampling
        blocks = disks.commands[disks.commands[:, nvme.COMMAND.job] == number, nvme.COMMAND.line]
        start, disk = int(blocks.min()), scenario.disks[int(job[nvme.JOB.disk])]
        found.append((start, start + len(blocks) * length, numbers[disk.address]))
    return np.array(sorted(found), np.int64).reshape(-1, 3)


def _command_s(disk: DiskSpec) -> float:
    """Return the seconds of a disk's time per command, beside the transfer of the bytes."""
    if disk.commands_per_s is None:
        return 0.0
    return max(0.0, 1.0 / disk.commands_per_s - nvme.PAGE_BYTES / disk.bytes_per_s)
