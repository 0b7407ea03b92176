# SPDX-License-Identifier: Apache-2.0
"""State of NVMe disks; ``disk.c`` has the rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import layout
from iat_nova.experiments.engine.layout import Block, columns

PAGE_BYTES, PAGE_LINES = layout.number("DISK_PAGE_BYTES"), layout.number("DISK_PAGE_LINES")
RATES, DISK, JOB = columns("DiskRates"), columns("Disk"), columns("Job")
QUEUE, COMMAND = columns("Queue"), columns("Command")


@dataclasses.dataclass(frozen=True, eq=False)
class Disks(Block):
    """State of all disks, jobs and commands."""

    rates: npt.NDArray[np.float64]
    devices: npt.NDArray[np.int64]
    jobs: npt.NDArray[np.int64]
    queues: npt.NDArray[np.int64]
    commands: npt.NDArray[np.int64]
    waiting: npt.NDArray[np.int32]
    active: npt.NDArray[np.int32]
    done: npt.NDArray[np.int32]
    job_of: npt.NDArray[np.int32]


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
    devices = np.zeros((max(1, len(disks)), len(DISK)), np.int64)
    rates = np.zeros((max(1, len(disks)), len(RATES)))
    for number, disk in enumerate(disks):
        rates[number, :2] = (PAGE_BYTES / disk.bytes_per_s, disk.command_s)
        devices[number, :3] = (disk.dca, round(disk.medium_s * 1e9), seed + number)
        devices[number, DISK.pages_max] = max(
            1, round(disk.bytes_per_s * disk.medium_s / PAGE_BYTES)
        )
        devices[number, DISK.drives] = disk.drives
    lanes = _deal_queues(devices, jobs)
    table = np.zeros((max(1, len(jobs)), len(JOB)), np.int64)
    commands = np.zeros((max(1, count), len(COMMAND)), np.int64)
    job_of = np.full(max(1, threads), -1, np.int32)
    first = 0
    for number, job in enumerate(jobs):
        pages = job.block_bytes // PAGE_BYTES
        table[number, :6] = (job.disk, job.owner, first, job.depth, pages, 1 << job.core)
        table[number, [JOB.current, JOB.lanes]] = (-1, lanes[number])
        lines = pages * PAGE_LINES // sampling
        for slot in range(job.depth):
            commands[first + slot, [COMMAND.job, COMMAND.line]] = (
                number,
                job.first_line + slot * lines,
            )
        job_of[job.thread] = number
        first += job.depth
    deepest = max((job.depth for job in jobs), default=1)
    queues = max(1, int(devices[:, DISK.queues].sum()))
    return Disks(
        rates,
        devices,
        table,
        np.zeros((queues, len(QUEUE)), np.int64),
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
        devices[disk, DISK.first_queue] = queue
        for number, job in enumerate(jobs):
            if job.disk == disk:
                lanes[number] = queue
                queue += int(devices[disk, DISK.drives])
        devices[disk, DISK.queues] = queue - devices[disk, DISK.first_queue]
    return lanes
