# SPDX-License-Identifier: Apache-2.0
"""NVMe disks: commands of whole blocks, moved by DMA page by page.

A disk has a bandwidth, a cost per command (from the IOPS in the data sheet), and the latency of the
medium. The many flash dies work in parallel, and the next page may belong to any command in
progress. The number of these commands determines how long a page waits for the rest of its block,
and so how many lines leak:

* A controller serves its submission queues in turn (NVM Express base specification, "Round Robin
  Arbitration", which every controller has). Linux gives each CPU its own queue to each drive
  (drivers/nvme/host/pci.c). So one command of each queue is in progress. In a striped array of
  `drives`, each thread has one command in progress per drive, and the drive of a block is random.
* Further commands begin, from the queues in turn, until enough bytes are in progress to keep the
  disk busy. By Little's law this is the bandwidth times the latency of the medium.

A read fills the block through DDIO, or in memory if the disk's port has no DCA. A write reads the
block from the present place of the lines. An array has the sum of its drives' bandwidths. A block
lies on one drive: the splitting of blocks larger than an array's chunk is not modelled.

A *job* is one thread's commands, each with its own buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.sim import cache, lcg
from iat_nova.experiments.sim._compile import inlined, kernel, merged
from iat_nova.experiments.sim.machine import LINE_BYTES

PAGE_BYTES = 4096
PAGE_LINES = PAGE_BYTES // LINE_BYTES

# Columns of `Disks.rates` (float64). CREDIT: seconds of the disk's time that may be spent.
PAGE_S, COMMAND_S, CREDIT_S, MOVED_BYTES = range(4)
# Columns of `Disks.devices` (int64). ACTIVE: commands in progress, with PAGES in total. With
# PAGES_MAX or more, a queue begins no second command. The disk has QUEUES from FIRST_QUEUE on; NEXT
# is the queue whose turn is next.
DCA, MEDIUM_NS, RANDOM, ACTIVE, PAGES, PAGES_MAX, DRIVES, FIRST_QUEUE, QUEUES, NEXT = range(10)
# Columns of `Disks.queues` (int64): numbers of commands submitted and begun so far, and of commands
# in progress.
SUBMITTED, STARTED, UNDER_WAY = range(3)
# Columns of `Disks.jobs` (int64). LANES: the queue to the disk's first drive. OWNER: a row of
# `Nics.served`. FRESH: number of commands that were never submitted. COMPLETED and TAKEN count
# completions. CURRENT: the command that the thread processes (-1: none). PAGE: the next page that
# the thread reads or (FILLING) writes.
(DISK, OWNER, FIRST, FRESH, BLOCK_PAGES, CORES, LANES, COMPLETED, TAKEN, CURRENT, PAGE, FILLING) = (
    range(12)
)
# Columns of `Disks.commands` (int64).
JOB, WRITES, MOVED, LINE, SUBMITTED_NS, QUEUE = range(6)


class Disks(NamedTuple):
    """State of all disks, jobs and commands."""

    rates: npt.NDArray[np.float64]
    devices: npt.NDArray[np.int64]
    jobs: npt.NDArray[np.int64]
    queues: npt.NDArray[np.int64]
    commands: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int32]  # [queue, slot]: commands that have not begun, in order
    active: npt.NDArray[np.int32]  # [disk, n]: commands in progress
    done: npt.NDArray[np.int32]  # [job, slot]: commands done and not yet taken
    job_of: npt.NDArray[np.int32]  # [thread]


class DiskPlan(NamedTuple):
    """The plan of a disk, or of an array of `drives`; `command_s` and `medium_s` in seconds."""

    bytes_per_s: float
    command_s: float
    medium_s: float
    dca: int  # as of `cache.dma_write`
    drives: int = 1


class JobPlan(NamedTuple):
    """The plan of a job: `first_line` is a sampled line, the start of `depth` blocks."""

    owner: int  # a workload's number
    thread: int
    core: int
    disk: int
    depth: int
    block_bytes: int
    first_line: int


def make(
    disks: Sequence[DiskPlan], jobs: Sequence[JobPlan], threads: int, sampling: int, seed: int
) -> Disks:
    """Return idle disks; no job has submitted commands yet."""
    count = sum(job.depth for job in jobs)
    devices = np.zeros((max(1, len(disks)), 10), np.int64)
    rates = np.zeros((max(1, len(disks)), 4))
    for number, disk in enumerate(disks):
        rates[number, :2] = (PAGE_BYTES / disk.bytes_per_s, disk.command_s)
        devices[number, :3] = (disk.dca, round(disk.medium_s * 1e9), seed + number)
        devices[number, PAGES_MAX] = max(1, round(disk.bytes_per_s * disk.medium_s / PAGE_BYTES))
        devices[number, DRIVES] = disk.drives
    lanes = _deal_queues(devices, jobs)
    table = np.zeros((max(1, len(jobs)), 12), np.int64)
    commands = np.zeros((max(1, count), 6), np.int64)
    job_of = np.full(max(1, threads), -1, np.int32)
    first = 0
    for number, job in enumerate(jobs):
        pages = job.block_bytes // PAGE_BYTES
        table[number, :6] = (job.disk, job.owner, first, job.depth, pages, 1 << job.core)
        table[number, [CURRENT, LANES]] = (-1, lanes[number])
        lines = pages * PAGE_LINES // sampling
        for slot in range(job.depth):
            commands[first + slot, [JOB, LINE]] = (number, job.first_line + slot * lines)
        job_of[job.thread] = number
        first += job.depth
    deepest = max((job.depth for job in jobs), default=1)
    queues = max(1, int(devices[:, QUEUES].sum()))
    return Disks(
        rates,
        devices,
        table,
        np.zeros((queues, 3), np.int64),
        commands,
        np.zeros((queues, deepest), np.int32),
        np.zeros((max(1, len(disks)), max(1, count)), np.int32),
        np.zeros((max(1, len(jobs)), deepest), np.int32),
        job_of,
    )


def _deal_queues(devices: npt.NDArray[np.int64], jobs: Sequence[JobPlan]) -> dict[int, int]:
    """Give each job a queue to each drive of the job's disk; return the first queue by job."""
    lanes: dict[int, int] = {}
    queue = 0
    for disk in range(devices.shape[0]):
        devices[disk, FIRST_QUEUE] = queue
        for number, job in enumerate(jobs):
            if job.disk == disk:
                lanes[number] = queue
                queue += int(devices[disk, DRIVES])
        devices[disk, QUEUES] = queue - devices[disk, FIRST_QUEUE]
    return lanes


@kernel
def submit(d: Disks, command: int, now_ns: int) -> None:
    """Submit a command to a random drive of the disk; WRITES 1: the command writes."""
    job = d.jobs[d.commands[command, JOB]]
    v = d.devices[job[DISK]]
    queue = job[LANES]
    if v[DRIVES] > 1:
        v[RANDOM] = lcg.following(v[RANDOM])
        queue += lcg.number(v[RANDOM]) * v[DRIVES] // lcg.RANGE
    d.commands[command, QUEUE] = queue
    d.commands[command, MOVED] = 0
    d.commands[command, SUBMITTED_NS] = now_ns
    d.waiting[queue, d.queues[queue, SUBMITTED] % d.waiting.shape[1]] = command
    d.queues[queue, SUBMITTED] += 1


@kernel
def take_done(d: Disks, job: int) -> int:
    """Return a job's next completed command, -1 without one."""
    j = d.jobs[job]
    if j[TAKEN] == j[COMPLETED]:
        return -1
    command: int = d.done[job, j[TAKEN] % d.done.shape[1]]
    j[TAKEN] += 1
    return command


@inlined
def _start(d: Disks, disk: int, now_ns: int) -> None:
    """Begin the transfer of commands whose blocks the medium has found, as the module describes."""
    v = d.devices[disk]
    passed = 0
    while passed < v[QUEUES]:
        queue = v[FIRST_QUEUE] + v[NEXT]
        v[NEXT] = (v[NEXT] + 1) % v[QUEUES]
        passed += 1
        q = d.queues[queue]
        if q[STARTED] == q[SUBMITTED] or (q[UNDER_WAY] > 0 and v[PAGES] >= v[PAGES_MAX]):
            continue
        command = d.waiting[queue, q[STARTED] % d.waiting.shape[1]]
        if d.commands[command, SUBMITTED_NS] + v[MEDIUM_NS] > now_ns:
            continue
        passed = 0
        q[STARTED] += 1
        q[UNDER_WAY] += 1
        d.active[disk, v[ACTIVE]] = command
        v[ACTIVE] += 1
        v[PAGES] += d.jobs[d.commands[command, JOB], BLOCK_PAGES]


@merged
def _move_page(d: Disks, c: cache.Caches, disk: int, place: int, sampling: int) -> bool:
    """Move one page of the active command at `place`; True: the command is complete."""
    v = d.devices[disk]
    number = d.active[disk, place]
    command = d.commands[number]
    job = d.jobs[command[JOB]]
    lines = PAGE_LINES // sampling
    first = command[LINE] + command[MOVED] * lines
    for line in range(first, first + lines):
        if command[WRITES]:
            cache.dma_read(c, line, job[CORES])
        else:
            cache.dma_write(c, line, job[CORES], v[DCA])
    if command[MOVED] == 0:
        d.rates[disk, CREDIT_S] -= d.rates[disk, COMMAND_S]
    command[MOVED] += 1
    d.rates[disk, CREDIT_S] -= d.rates[disk, PAGE_S]
    d.rates[disk, MOVED_BYTES] += PAGE_BYTES
    if command[MOVED] < job[BLOCK_PAGES]:
        return False
    v[ACTIVE] -= 1
    v[PAGES] -= job[BLOCK_PAGES]
    d.queues[command[QUEUE], UNDER_WAY] -= 1
    d.active[disk, place] = d.active[disk, v[ACTIVE]]
    d.done[command[JOB], job[COMPLETED] % d.done.shape[1]] = number
    job[COMPLETED] += 1
    return True


@merged
def step(d: Disks, c: cache.Caches, seconds: float, now_ns: int, sampling: int) -> None:
    """Let every disk transfer pages for `seconds`."""
    for disk in range(d.devices.shape[0]):
        v = d.devices[disk]
        # Idle time is not saved up beyond this step.
        d.rates[disk, CREDIT_S] = min(d.rates[disk, CREDIT_S], 0.0) + seconds
        _start(d, disk, now_ns)
        while d.rates[disk, CREDIT_S] > 0 and v[ACTIVE] > 0:
            v[RANDOM] = lcg.following(v[RANDOM])
            place = lcg.number(v[RANDOM]) * v[ACTIVE] // lcg.RANGE
            if _move_page(d, c, disk, place, sampling):
                _start(d, disk, now_ns)
