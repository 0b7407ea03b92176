# SPDX-License-Identifier: Apache-2.0
"""ADCA, figures 6 to 10: the time of a device's write, and the judgement of the figures."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.engine import memory, rings
from iat_nova.experiments.engine.nic import OVERHEAD_BYTES
from iat_nova.experiments.machines.machine import WriteTarget
from iat_nova.experiments.papers import claims, summary
from iat_nova.experiments.papers.api import ClaimFinding, Point, Row
from iat_nova.experiments.papers.definition import Definition
from iat_nova.experiments.papers.measure import execute, taken
from iat_nova.experiments.papers.steady import Steady
from iat_nova.experiments.scenarios.scenario import Scenario

# From this packet size on, the network limits netperf alone, at the rate of TCP over 1 GbE.
LINE_FROM = 512
# Only below this packet size, DCA and ADCA are compared with plain DMA.
SMALL, CLAIM_ALONE = 256, "adca-6-alone"
LINE_MBPS = 940.0
SUITES = ("int", "fp")
ALONE = "none"
# Before the first line of a packet, a DRAM row is closed and another row opened: tRP and tRCD of
# DDR3-800 (JESD79-3, 6-6-6: 15 ns each). The other lines are in the open row.
_ROW_NS = 30.0

Curves = Mapping[tuple[str, str, int], float]
"""Medians over seeds by kind of I/O, suite that runs beside netperf, and packet size."""


def offered(point: Point) -> Mapping[str, float]:
    """Return the offered rate on the wire that saturates the network, in Mb/s."""
    size = int(point["packet_bytes"] or 0)
    return {"offered_mbps": _line_mbps(size) * (size + OVERHEAD_BYTES) / size}


def measure(definition: Definition, point: Point) -> Row:
    """Emulate one set-up: return netperf's bandwidth, SPEC's speed, and a line's write time.

    The write time, in ns, is the mean over the cache lines that the network card writes.
    """
    found: Steady = execute(definition, point)
    row = taken(definition, found, point)
    if "netperf" not in found.workloads:
        return row
    lines = rings.payload_lines(int(point["packet_bytes"] or 0))
    write_ns = round(_write_ns(definition.made(point), found, lines), 2)
    return {"bandwidth_mbps": row["bandwidth_mbps"], "write_ns": write_ns, **row}


def _write_ns(chosen: Scenario, steady: Steady, packet_lines: int) -> float:
    """Return the mean time of a device's write of a line, in ns.

    A write to the cache takes the time of a hit, plus the write-back of a replaced dirty line. A
    write to memory takes memory's latency under the present load; only a packet's first line opens
    a row. A write-through is complete once the cache has the line.
    """
    machine, lines = chosen.machine, steady.lines_per_s
    used = steady.memory_read_bytes_per_s + memory.WRITE_COST * steady.memory_write_bytes_per_s
    memory_ns = machine.memory_ns * float(memory.slowdown(used / machine.memory_bytes_per_s))
    cache_ns = machine.llc_cycles / machine.frequency_hz * 1e9
    cached = lines["ddio_hits"] + lines["ddio_misses"]
    to_memory = lines["dma_memory_writes"]
    line_ns = memory_ns - _ROW_NS * (packet_lines - 1) / packet_lines
    waits_ns = to_memory * line_ns + lines["dma_write_backs"] * memory_ns
    return (cached * cache_ns + waits_ns) / (cached + to_memory)


def _curves(rows: Sequence[Row], column: str) -> Curves:
    found = summary.medians(rows, ("io", "suite", "packet_bytes"), column)
    return {(str(io), str(suite), int(size)): n for (io, suite, size), n in found.items()}


def _sizes(curves: Curves) -> list[int]:
    return list(dict.fromkeys(size for _, _, size in curves))


def bandwidth(rows: Sequence[Row], suite: str) -> Mapping[str, Mapping[int, Sequence[float]]]:
    """Return netperf's bandwidth beside a suite, by kind of I/O and packet size."""
    mbps = _curves(rows, "bandwidth_mbps")
    return {str(io): {size: [mbps[io, suite, size]] for size in _sizes(mbps)} for io in WriteTarget}


def claimed(rows: Sequence[Row], io: str, suite: str, claim: str) -> Mapping[int, Sequence[float]]:
    """Return a measured bandwidth after a published change, at the judged packet sizes."""
    mbps = _curves(rows, "bandwidth_mbps")
    judged = [size for size in _sizes(mbps) if size < SMALL] if claim == CLAIM_ALONE else None
    return {
        size: [mbps[io, suite, size] * (1 + percent / 100) for percent in claims.ends(claim)]
        for size in judged or _unlimited(mbps)
    }


def _mean_change(now: Sequence[float], before: Sequence[float]) -> float:
    """Return the mean relative change in percent."""
    return statistics.mean(map(summary.change, now, before))


def _line_mbps(packet_bytes: int) -> float:
    """Return the network's rate for packets of a size, in Mb/s."""
    return min(LINE_MBPS, 1000.0 * packet_bytes / (packet_bytes + OVERHEAD_BYTES))


def _unlimited(mbps: Curves) -> list[int]:
    """Return the packet sizes at which netperf, with no suite beside it, is below the line rate."""
    return [
        size
        for size in _sizes(mbps)
        if all(mbps[str(io), ALONE, size] < 0.99 * _line_mbps(size) for io in WriteTarget)
    ]


def judge_6(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge figure 6, bandwidth. Means beside a suite use only the sizes of `_unlimited`."""
    mbps = _curves(rows, "bandwidth_mbps")
    small = _unlimited(mbps)
    sizes = ", ".join(map(str, small))
    below = [size for size in _sizes(mbps) if size < SMALL]

    def take(io: str, suite: str, sizes: Sequence[int]) -> list[float]:
        return [mbps[io, suite, size] for size in sizes]

    gains = {
        io: _mean_change(take(io, ALONE, below), take("dma", ALONE, below))
        for io in ("dca", "adca")
    }
    listing = "; ".join(
        f"{io} {'/'.join(f'{n:.0f}' for n in take(io, ALONE, _sizes(mbps)))}"
        for io in map(str, WriteTarget)
    )
    yield ClaimFinding(
        CLAIM_ALONE,
        (min(gains.values()), max(gains.values())),
        f"mean of 64 and 128 B: DCA {gains['dca']:+.1f} %, ADCA {gains['adca']:+.1f} %",
    )
    capped = min(n for (_, suite, size), n in mbps.items() if suite == ALONE and size >= LINE_FROM)
    yield ClaimFinding("adca-6-cap", capped >= 0.99 * LINE_MBPS, f"Mb/s by packet size: {listing}")
    for io in ("dma", "dca"):
        loss = statistics.mean(
            _mean_change(take(io, suite, small), take(io, ALONE, small)) for suite in SUITES
        )
        yield ClaimFinding(f"adca-6-{io}", loss, f"mean of int and fp at {sizes} B")
    gain = statistics.mean(
        _mean_change(take("adca", suite, small), take("dca", suite, small)) for suite in SUITES
    )
    each = "; ".join(
        f"{suite} {size} B {summary.change(mbps['adca', suite, size], before):+.1f} %"
        for suite in SUITES
        for size, before in zip(small, take("dca", suite, small), strict=True)
    )
    yield ClaimFinding(
        "adca-6-adca",
        gain,
        each,
    )


def _gains(rows: Sequence[Row]) -> Mapping[str, float]:
    """Return SPEC's gains in percent; 0 beside netperf with plain DMA."""
    found = summary.medians(rows, ("io", "netperf"), "spec_mips")
    base = found["dma", True]
    return {
        str(io) if netperf else ALONE: summary.change(mips, base)
        for (io, netperf), mips in found.items()
    }


def gains(rows: Sequence[Row]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return SPEC's gains for the chart."""
    found = _gains(rows)
    return {"measured": {name: [found[name]] for name in ("dca", "adca", ALONE)}}


def _judge_spec(rows: Sequence[Row], claim: str) -> Iterator[ClaimFinding]:
    found = _gains(rows)
    reason = "over DMA: " + ", ".join(
        f"{'without netperf' if io == ALONE else io.upper()} {found[io]:+.1f} %"
        for io in ("dca", "adca", ALONE)
    )
    yield ClaimFinding(claim, found["adca"], reason)
    yield ClaimFinding(f"{claim}-dca", found["dca"], reason)
    yield ClaimFinding(f"{claim}-alone", found[ALONE], reason)


judge_7 = functools.partial(_judge_spec, claim="adca-7")
judge_8 = functools.partial(_judge_spec, claim="adca-8")


def _savings(rows: Sequence[Row]) -> Mapping[str, list[float]]:
    """Return the share of DMA's write latency saved by DCA and ADCA, in percent, by packet size."""
    found = _curves(rows, "write_ns")
    suites = sorted({suite for _, suite, _ in found})
    return {
        io: [
            -statistics.mean(
                summary.change(found[io, suite, size], found["dma", suite, size])
                for suite in suites
            )
            for size in _sizes(found)
        ]
        for io in ("dca", "adca")
    }


def _saved(savings: Mapping[str, list[float]]) -> str:
    return "saved of DMA's, by packet size: " + "; ".join(
        f"{io.upper()} {'/'.join(f'{saved:.0f}' for saved in by_size)} %"
        for io, by_size in savings.items()
    )


def judge_9(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge write latency without SPEC: "about as" is within 10 points of DMA's latency."""
    savings = _savings(rows)
    alike = all(abs(dca - adca) <= 10 for dca, adca in zip(*savings.values(), strict=True))
    below = all(saved > 0 for by_size in savings.values() for saved in by_size)
    shrinks = all(by_size[-1] < by_size[0] for by_size in savings.values())
    yield ClaimFinding("adca-9", alike and below and shrinks, _saved(savings))


def judge_10(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge write latency beside SPEC: how far each gain falls from 64 B packets to 1,500 B."""
    savings = _savings(rows)
    dca, adca = (by_size[0] - by_size[-1] for by_size in savings.values())
    yield ClaimFinding("adca-10", dca > adca, _saved(savings))
