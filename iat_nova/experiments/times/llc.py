# SPDX-License-Identifier: Apache-2.0
"""Benchmark of the cache model on one core, in accesses per second, beside pycachesim.

A second benchmark measures the whole emulated server: emulated seconds of a busy socket per second.

The traces go straight to the caches of the paper's testbed at the default sampling: every counted
access walks at least one tag array. Addresses are generated before the clock starts. The clock is
the CPU time of this thread: other load on the machine counts less.
"""

from __future__ import annotations

import dataclasses
import importlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from iat_nova.common.extras import install
from iat_nova.experiments.engine import cache
from iat_nova.experiments.machines.machine import GOLD_6140, LINE_BYTES
from iat_nova.experiments.scenarios.profiles import SURROGATES
from iat_nova.experiments.scenarios.reader import read_scenario
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer

SAMPLING = 32
ACCESSES = 4_000_000
# pycachesim takes Python objects; more accesses would not fit in every machine's memory.
PYCACHESIM_ACCESSES = 1_000_000
ROUNDS = 5
# The paper's socket: network functions on two cards at line rate; numbers of further busy cores.
FUNCTIONS, PROGRAMS = 4, (3, 14)
# Emulated seconds of a pass.
TESTBED_S = 0.2

# Kinds of an access in a trace, as of `cache.replay`.
READ, WRITE, DMA_WRITE, DMA_READ = range(4)

ENGINE = "iat-nova"
PYCACHESIM = "pycachesim"

Note = Callable[[str], None]
"""Called with a remark for the operator that does not fit into a row."""


@dataclasses.dataclass(frozen=True, slots=True)
class AccessTrace:
    """Accesses of one core and its devices, in order: kinds and numbers of sampled lines."""

    name: str
    kinds: npt.NDArray[np.int8]
    lines: npt.NDArray[np.int32]

    @property
    def has_devices(self) -> bool:
        """Whether the trace has accesses by devices."""
        return bool((self.kinds >= DMA_WRITE).any())


@dataclasses.dataclass(frozen=True, slots=True)
class PassRow:
    """A measurement: the median of `ROUNDS` passes over a trace with warm caches.

    `l2_hits` and `llc_hits` are shares of the cores' accesses, 0..1, and characterise the trace.
    `emulated_s_per_s` is measured for the whole server alone: from 1 on, the server runs in real
    time.
    """

    trace: str
    engine: str
    accesses_per_s: float
    l2_hits: float
    llc_hits: float
    emulated_s_per_s: float | None = None


def _sampled_lines(size_bytes: int) -> int:
    return size_bytes // LINE_BYTES // SAMPLING


def traces(accesses: int) -> Iterator[AccessTrace]:
    """Yield the traces: packets, and random accesses to half of L2, the LLC, four times the LLC.

    One random access in four is a write.
    """
    random = np.random.default_rng(1)
    writes = (random.random(accesses) < 0.25).astype(np.int8)
    for name, size in (
        ("hit-heavy", GOLD_6140.l2_bytes // 2),
        ("llc-heavy", GOLD_6140.llc_bytes),
        ("miss-heavy", 4 * GOLD_6140.llc_bytes),
    ):
        lines = random.integers(0, _sampled_lines(size), accesses, dtype=np.int32)
        yield AccessTrace(name, writes, lines)
    yield _packets(accesses)


def _packets(accesses: int) -> AccessTrace:
    """Return a trace of packet buffers that exceed DDIO's ways.

    The card writes each line, the core reads the line and the card reads the line again, in bursts
    of 32 lines. Buffers are used in turn and take 6 MiB; DDIO's two ways hold 4.5 MiB.
    """
    burst = 32
    lines = np.arange(-(-accesses // 3 // burst) * burst, dtype=np.int32)
    bursts = (lines % _sampled_lines(6 << 20)).reshape(-1, burst)
    kinds = np.repeat(np.array([DMA_WRITE, READ, DMA_READ], np.int8), burst)
    every = np.tile(bursts, (1, 3)).reshape(-1)[:accesses]
    return AccessTrace("dma", np.tile(kinds, len(bursts))[:accesses], every)


def _median_s(once: Callable[[], object]) -> float:
    """Return the median CPU time of a pass, after a first pass that warms the caches."""
    once()
    found = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        once()
        found.append(time.thread_time() - started)
    return statistics.median(found)


def _ours(trace: AccessTrace) -> PassRow:
    caches = cache.make(GOLD_6140, SAMPLING)

    def once() -> None:
        cache.renumber(caches)
        cache.replay(caches, trace.kinds, trace.lines)

    seconds = _median_s(once)
    served = caches.served[0] / caches.served[0].sum()
    return PassRow(
        trace.name,
        ENGINE,
        trace.kinds.size / seconds,
        float(served[cache.L2]),
        float(served[cache.LLC]),
    )


def _pycachesim(cachesim: Any, trace: AccessTrace) -> PassRow:
    """Measure pycachesim on the start of a trace: an L2 and an LLC of the same sizes."""
    caches = cache.make(GOLD_6140, SAMPLING)
    memory = cachesim.MainMemory()
    llc = cachesim.Cache("LLC", caches.llc.shape[0], GOLD_6140.llc_ways, LINE_BYTES, "LRU")
    l2 = cachesim.Cache(
        "L2", caches.l2.shape[1], GOLD_6140.l2_ways, LINE_BYTES, "LRU", load_from=llc, store_to=llc
    )
    memory.load_to(llc)
    memory.store_from(llc)
    simulator = cachesim.CacheSimulator(l2, memory)
    kinds = trace.kinds[:PYCACHESIM_ACCESSES].tolist()
    addresses = (trace.lines[:PYCACHESIM_ACCESSES].astype(np.int64) * LINE_BYTES).tolist()
    accesses = [
        (None, (address,)) if kind == WRITE else ((address,), None)
        for kind, address in zip(kinds, addresses, strict=True)
    ]
    seconds = _median_s(lambda: simulator.loadstore(accesses, length=1))
    # pycachesim counts a missing store as a load of the line, so misses are taken, not hits.
    total = (ROUNDS + 1) * len(accesses)
    l2_misses = l2.stats()["MISS_count"]
    served = l2_misses - llc.stats()["MISS_count"]
    return PassRow(
        trace.name, PYCACHESIM, len(accesses) / seconds, 1 - l2_misses / total, served / total
    )


def _find_pycachesim() -> Any:
    """Return the module ``cachesim``, or None if not installed."""
    try:
        return importlib.import_module("cachesim")
    except ModuleNotFoundError:
        return None


def rows(accesses: int = ACCESSES, note: Note = lambda text: None) -> Iterator[PassRow]:
    """Yield a row per trace and engine; call `note` with the reason for each omitted row."""
    cachesim = _find_pycachesim()
    if cachesim is None:
        note(f"pycachesim is not installed, its rows are left out: {install('bench')}")
    for trace in traces(accesses):
        yield _ours(trace)
        if cachesim is None:
            continue
        if trace.has_devices:
            note(f"pycachesim knows no devices: no row for {trace.name}")
        else:
            yield _pycachesim(cachesim, trace)


def testbed(programs: int) -> Scenario:
    """Return the paper's socket at the default sampling, without time compression.

    Four FastClick share two cards at 40 Gb/s with packets of 1,500 B; SPEC surrogates run on
    `programs` more cores.
    """
    functions = range(FUNCTIONS)
    cards = "".join(
        f'  nic{card}: {{address: "0000:{bus}:00.0", speed: 40Gb/s}}\n'
        for card, bus in enumerate(("3b", "5e"))
    )
    workloads = "".join(
        f"  nf{core}: {{profile: fastclick, cpus: [{core}], nic: nic{core // 2}}}\n"
        for core in functions
    )
    for number in range(programs):
        profile = SURROGATES[number % len(SURROGATES)]
        workloads += f"  app{number}: {{profile: {profile}, cpus: [{FUNCTIONS + number}]}}\n"
    traffic = "".join(
        f"  nf{core}: {{to: nf{core}, rate: 20Gb/s, packet: 1500B, flows: 10000}}\n"
        for core in functions
    )
    text = f"length: 1s\nnics:\n{cards}workloads:\n{workloads}traffic:\n{traffic}"
    return read_scenario(text, f"testbed-{FUNCTIONS + programs}", "bench.py")


def testbed_rows(seconds: float = TESTBED_S) -> Iterator[PassRow]:
    """Yield a row for each number of busy cores; a pass takes `seconds` of emulated time."""
    for programs in PROGRAMS:
        yield _emulated(testbed(programs), seconds)


def _emulated(scenario: Scenario, seconds: float) -> PassRow:
    server, wake = EmulatedServer(scenario, 1), threading.Event()
    caches = server.plant.state.caches
    before = _walks(caches)
    taken_s = _median_s(lambda: server.wait(wake, seconds))
    walks = (_walks(caches) - before) / (ROUNDS + 1)
    served = caches.served.sum(axis=0) / caches.served.sum()
    return PassRow(
        scenario.name,
        ENGINE,
        walks / taken_s,
        float(served[cache.L2]),
        float(served[cache.LLC]),
        seconds / taken_s,
    )


def _walks(caches: cache.Caches) -> int:
    """Return the number of accesses by cores and devices that the caches have served so far."""
    devices = ("ddio_hits", "ddio_misses", "dma_memory_writes", "dma_read_hits", "dma_read_misses")
    counted = sum(caches.totals[cache.TOTAL_NAMES.index(name)] for name in devices)
    return int(caches.served.sum() + counted)
