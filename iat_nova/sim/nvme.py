# SPDX-License-Identifier: Apache-2.0
"""NVMe disks: commands of whole blocks, moved by DMA a page at a time.

A disk has a bandwidth, a cost a command (what its data sheet's IOPS leave beside the bandwidth)
and the latency of its medium. Its many flash dies work at once, and the next page moved is of any
of the commands in progress; but they are no more than it takes to keep the disk busy, by Little's
law its bandwidth times its medium's latency (at least a command): the others wait for their turn.
Without that bound half of all that is under way would lie in the LLC unread. A read fills its block
through DDIO, or in memory where the disk's port has no DCA; a write takes its block from wherever
the lines are. A striped array of disks is one disk with the sum of their bandwidths.

A *job* is one thread's pair of queues: some commands, each with a buffer of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.sim import cache, lcg
from iat_nova.sim._compile import kernel
from iat_nova.sim.machine import LINE_BYTES

PAGE_BYTES = 4096
PAGE_LINES = PAGE_BYTES // LINE_BYTES

# Columns of `Disks.rates` (float64). CREDIT: seconds of its time that it may spend.
PAGE_S, COMMAND_S, CREDIT_S, MOVED_BYTES = range(4)
# Columns of `Disks.devices` (int64). STARTED .. SUBMITTED count commands; ACTIVE are in progress.
# These have PAGES; none is begun that finds PAGES_MAX of them.
DCA, MEDIUM_NS, RANDOM, STARTED, SUBMITTED, ACTIVE, PAGES, PAGES_MAX = range(8)
# Columns of `Disks.jobs` (int64). OWNER is a row of `Nics.served`; FRESH of its commands have
# never been submitted; COMPLETED and TAKEN count completions; CURRENT is the command that the
# thread works on (-1: none), PAGE the next of its pages that it reads or (FILLING) writes.
DISK, OWNER, FIRST, FRESH, BLOCK_PAGES, CORES, COMPLETED, TAKEN, CURRENT, PAGE, FILLING = range(11)
# Columns of `Disks.commands` (int64).
JOB, WRITES, MOVED, LINE, SUBMITTED_NS = range(5)


class Disks(NamedTuple):
    """State of all disks, jobs and commands."""

    rates: npt.NDArray[np.float64]
    devices: npt.NDArray[np.int64]
    jobs: npt.NDArray[np.int64]
    commands: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int32]  # [disk, slot]: commands the medium has yet to find, in turn
    active: npt.NDArray[np.int32]  # [disk, n]: commands in progress
    done: npt.NDArray[np.int32]  # [job, slot]: commands done and not yet taken
    job_of: npt.NDArray[np.int32]  # [thread]


class DiskPlan(NamedTuple):
    """A disk to be made: see the module; `command_s` and `medium_s` in seconds."""

    bytes_per_s: float
    command_s: float
    medium_s: float
    dca: bool


class JobPlan(NamedTuple):
    """A job to be made: `first_line` is a sampled line, the start of `depth` blocks."""

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
    """Return disks at rest; each job's thread has yet to submit its commands."""
    count = sum(job.depth for job in jobs)
    devices = np.zeros((max(1, len(disks)), 8), np.int64)
    rates = np.zeros((max(1, len(disks)), 4))
    for number, disk in enumerate(disks):
        rates[number, :2] = (PAGE_BYTES / disk.bytes_per_s, disk.command_s)
        devices[number, :3] = (disk.dca, round(disk.medium_s * 1e9), seed + number)
        devices[number, PAGES_MAX] = max(1, round(disk.bytes_per_s * disk.medium_s / PAGE_BYTES))
    table = np.zeros((max(1, len(jobs)), 11), np.int64)
    commands = np.zeros((max(1, count), 5), np.int64)
    job_of = np.full(max(1, threads), -1, np.int32)
    first = 0
    for number, job in enumerate(jobs):
        pages = job.block_bytes // PAGE_BYTES
        table[number, :6] = (job.disk, job.owner, first, job.depth, pages, 1 << job.core)
        table[number, CURRENT] = -1
        lines = pages * PAGE_LINES // sampling
        for slot in range(job.depth):
            commands[first + slot, [JOB, LINE]] = (number, job.first_line + slot * lines)
        job_of[job.thread] = number
        first += job.depth
    shape = (max(1, len(disks)), max(1, count))
    deepest = max((job.depth for job in jobs), default=1)
    return Disks(
        rates,
        devices,
        table,
        commands,
        np.zeros(shape, np.int32),
        np.zeros(shape, np.int32),
        np.zeros((max(1, len(jobs)), deepest), np.int32),
        job_of,
    )


@kernel
def submit(d: Disks, command: int, now_ns: int) -> None:
    """Hand a command to its disk; it writes when its WRITES is 1."""
    disk = d.jobs[d.commands[command, JOB], DISK]
    d.commands[command, MOVED] = 0
    d.commands[command, SUBMITTED_NS] = now_ns
    slot = d.devices[disk, SUBMITTED] % d.waiting.shape[1]
    d.waiting[disk, slot] = command
    d.devices[disk, SUBMITTED] += 1


@kernel
def take_done(d: Disks, job: int) -> int:
    """Return a job's next completed command; -1 when there is none."""
    j = d.jobs[job]
    if j[TAKEN] == j[COMPLETED]:
        return -1
    command: int = d.done[job, j[TAKEN] % d.done.shape[1]]
    j[TAKEN] += 1
    return command


@kernel
def _start(d: Disks, disk: int, now_ns: int) -> None:
    """Begin to move the commands that the medium has found, as many as keep the disk busy."""
    v = d.devices[disk]
    while v[STARTED] < v[SUBMITTED] and v[PAGES] < v[PAGES_MAX]:
        command = d.waiting[disk, v[STARTED] % d.waiting.shape[1]]
        if d.commands[command, SUBMITTED_NS] + v[MEDIUM_NS] > now_ns:
            return
        v[STARTED] += 1
        d.active[disk, v[ACTIVE]] = command
        v[ACTIVE] += 1
        v[PAGES] += d.jobs[d.commands[command, JOB], BLOCK_PAGES]


@kernel
def _move_page(d: Disks, c: cache.Caches, disk: int, place: int, sampling: int) -> None:
    """Move one page of the active command at `place`; complete it after its last."""
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
    if command[MOVED] == job[BLOCK_PAGES]:
        v[ACTIVE] -= 1
        v[PAGES] -= job[BLOCK_PAGES]
        d.active[disk, place] = d.active[disk, v[ACTIVE]]
        d.done[command[JOB], job[COMPLETED] % d.done.shape[1]] = number
        job[COMPLETED] += 1


@kernel
def step(d: Disks, c: cache.Caches, seconds: float, now_ns: int, sampling: int) -> None:
    """Let every disk work for `seconds`."""
    for disk in range(d.devices.shape[0]):
        v = d.devices[disk]
        # Idle time is not saved up beyond this step.
        d.rates[disk, CREDIT_S] = min(d.rates[disk, CREDIT_S], 0.0) + seconds
        while d.rates[disk, CREDIT_S] > 0:
            _start(d, disk, now_ns)
            if v[ACTIVE] == 0:
                break
            v[RANDOM] = lcg.following(v[RANDOM])
            place = lcg.number(v[RANDOM]) * v[ACTIVE] // lcg.RANGE
            _move_page(d, c, disk, place, sampling)
