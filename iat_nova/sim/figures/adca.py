# SPDX-License-Identifier: Apache-2.0
"""ADCA, figures 6 to 10: netperf beside SPEC CPU2000 with plain DMA, DCA and ADCA."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.sim import memory, rings
from iat_nova.sim.figures import bench, summary
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.machine import Io
from iat_nova.sim.nic import OVERHEAD_BYTES
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

PACKETS = (64, 128, 256, 512, 1024, 1500)
# From here on the network is the limit when netperf is alone, at what TCP carries over 1 GbE.
LINE_FROM = 512
LINE_MBPS = 940.0
SPEC_PACKET = 512
SUITES = ("int", "fp")
FP_FIGURE = 8
ALONE = "none"
_COLOURS = {"dma": "tab:gray", "dca": "tab:blue", "adca": "tab:green", "none": "tab:olive"}
_WARM_S, _RUN_S = 0.1, 0.2
# A DRAM row has to be closed and another one opened, tRP and tRCD of DDR3-800 (JESD79-3, 6-6-6:
# 15 ns each), before the first line of a packet; the others lie in the row that is then open.
_ROW_NS = 30.0
# 512 descriptors are the default of Linux's driver for this card (stmmac, DMA_DEFAULT_RX_SIZE);
# Loongson's own Linux 3.10 has 256, and which of the two it was is settled on claim adca-7, which
# 256 do not meet (nor adca-8). A packet's buffer is freed when it is read and serves the next one,
# so no more are in use than the card has and wait in the socket. There wait as many as fit in the
# receive buffer at its largest (tcp_rmem, 6 MB of 2 KB buffers with their heads: some 2,300), here
# down to a power of two with the card's. What finds no room a TCP sender would have held back.
_TEXT = """
title: "ADCA: netperf at {packet} B, SPEC CPU2000: {suite}, {io}"
length: 1s
machine: loongson-2k1000
io: {io}
sampling: 1
nics:
  eth0: {{address: "0000:01:00.0", speed: 1Gb/s}}
workloads:
  {netperf}
  {spec}
{traffic}
"""
_NETPERF = (
    "netperf: {profile: netperf, cpus: [0], nic: eth0, ring: 512, backlog: 1536, send_ring: 32,"
    " pool: stack, buffers: 2112}"
)
_SPEC = "spec: {{profile: spec2000-{suite}, cpus: [1]}}"
_TRAFFIC = "traffic: {{netperf: {{to: netperf, rate: {rate:.1f}Mb/s, packet: {packet}B}}}}"


def scenario(io: str, packet_bytes: int, suite: str, netperf: bool = True) -> Scenario:
    """Return the set-up; `suite` is ``int``, ``fp`` or ``none``."""
    rate = _line_mbps(packet_bytes) * (packet_bytes + OVERHEAD_BYTES) / packet_bytes
    text = _TEXT.format(
        packet=packet_bytes,
        suite=suite,
        io=io,
        netperf=_NETPERF if netperf else "",
        spec=_SPEC.format(suite=suite) if suite != ALONE else "",
        traffic=_TRAFFIC.format(rate=rate, packet=packet_bytes) if netperf else "",
    )
    return read_scenario(text, f"adca-{io}-{packet_bytes}-{suite}", "adca.py")


def measure(point: Point) -> Row:
    """Measure one set-up: bandwidth, SPEC's speed and how long a line's write takes."""
    chosen = scenario(
        str(point["io"]),
        int(point["packet_bytes"] or SPEC_PACKET),
        str(point["suite"]),
        bool(point.get("netperf", True)),
    )
    steady = bench.steady(chosen, int(point["seed"] or 0), _WARM_S, _RUN_S)
    found: dict[str, float] = {}
    if "netperf" in steady.workloads:
        found["bandwidth_mbps"] = round(1000 * steady.workloads["netperf"].gbps, 2)
        lines = rings.payload_lines(int(point["packet_bytes"] or SPEC_PACKET))
        found["write_ns"] = round(_write_ns(chosen, steady, lines), 2)
    if "spec" in steady.workloads:
        found["spec_mips"] = round(steady.workloads["spec"].work_per_s / 1e4, 3)
    return found


def _write_ns(chosen: Scenario, steady: bench.Steady, packet_lines: int) -> float:
    """Return the mean time of a device's write of a line.

    In the cache it takes as long as a hit, and has to wait for the write-back of a dirty line that
    it replaces; to memory it takes memory's latency under the load there is, without opening a row
    for all but a packet's first line. What is written through is done when the cache has it.
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


def points(suites: Sequence[str], seeds: int) -> list[Point]:
    """List each packet size and each way of doing I/O, beside each of `suites`."""
    return [
        {"io": str(io), "packet_bytes": size, "suite": suite, "seed": seed}
        for suite, size, io, seed in itertools.product(suites, PACKETS, Io, range(1, seeds + 1))
    ]


def spec_points(suite: str, seeds: int) -> list[Point]:
    """List SPEC beside netperf with each way of doing I/O, and without it."""
    cases = [(str(io), True) for io in Io] + [(str(Io.DCA), False)]
    return [
        {"io": io, "packet_bytes": SPEC_PACKET, "suite": suite, "netperf": netperf, "seed": seed}
        for (io, netperf), seed in itertools.product(cases, range(1, seeds + 1))
    ]


Curves = Mapping[tuple[str, str, int], float]
"""Medians over seeds by way of doing I/O, suite beside it and packet size."""


def _curves(rows: Sequence[Row], column: str) -> Curves:
    found = summary.medians(rows, ("io", "suite", "packet_bytes"), column)
    return {(str(io), str(suite), int(size)): n for (io, suite, size), n in found.items()}


def _mean_change(now: Sequence[float], before: Sequence[float]) -> float:
    """Return the mean relative change in percent."""
    return statistics.mean(map(summary.change, now, before))


def _line_mbps(packet_bytes: int) -> float:
    """Return what the network carries in packets of a size."""
    return min(LINE_MBPS, 1000.0 * packet_bytes / (packet_bytes + OVERHEAD_BYTES))


def _unlimited(mbps: Curves) -> list[int]:
    """Return the packet sizes at which the network is no limit when netperf is alone."""
    return [
        size
        for size in PACKETS
        if all(mbps[str(io), ALONE, size] < 0.99 * _line_mbps(size) for io in Io)
    ]


def judge_6(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge bandwidth; what the network limits when netperf is alone is left out of means."""
    mbps = _curves(rows, "bandwidth_mbps")
    small = _unlimited(mbps)
    sizes = ", ".join(map(str, small))
    below = [size for size in PACKETS if size < 256]

    def take(io: str, suite: str, sizes: Sequence[int]) -> list[float]:
        return [mbps[io, suite, size] for size in sizes]

    gains = {
        io: _mean_change(take(io, ALONE, below), take("dma", ALONE, below))
        for io in ("dca", "adca")
    }
    listing = "; ".join(
        f"{io} {'/'.join(f'{n:.0f}' for n in take(io, ALONE, PACKETS))}" for io in map(str, Io)
    )
    yield Finding(
        "adca-6-alone",
        (min(gains.values()), max(gains.values())),
        f"mean of 64 and 128 B: DCA {gains['dca']:+.1f} %, ADCA {gains['adca']:+.1f} %",
    )
    capped = min(n for (_, suite, size), n in mbps.items() if suite == ALONE and size >= LINE_FROM)
    yield Finding("adca-6-cap", capped >= 0.99 * LINE_MBPS, f"Mb/s by packet size: {listing}")
    for io in ("dma", "dca"):
        loss = statistics.mean(
            _mean_change(take(io, suite, small), take(io, ALONE, small)) for suite in SUITES
        )
        yield Finding(f"adca-6-{io}", loss, f"mean of int and fp at {sizes} B")
    gain = statistics.mean(
        _mean_change(take("adca", suite, small), take("dca", suite, small)) for suite in SUITES
    )
    each = "; ".join(
        f"{suite} {size} B {summary.change(mbps['adca', suite, size], before):+.1f} %"
        for suite in SUITES
        for size, before in zip(small, take("dca", suite, small), strict=True)
    )
    yield Finding(
        "adca-6-adca",
        gain,
        f"{each}; a late core's packets wait in the socket, and lines are lost before they are "
        "read with ADCA as with DCA: its share does not hold for writes that hit, and buffers just "
        "read are used again at once",
    )


def _gains(rows: Sequence[Row]) -> Mapping[str, float]:
    """Return by how many percent SPEC is quicker than beside netperf with plain DMA."""
    found = summary.medians(rows, ("io", "netperf"), "spec_mips")
    base = found["dma", True]
    return {
        str(io) if netperf else ALONE: summary.change(mips, base)
        for (io, netperf), mips in found.items()
    }


def judge_spec(number: int, rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge figures 7 and 8."""
    gains = _gains(rows)
    reason = "over DMA: " + ", ".join(
        f"{'without netperf' if io == ALONE else io.upper()} {gains[io]:+.1f} %"
        for io in ("dca", "adca", ALONE)
    )
    yield Finding(f"adca-{number}", gains["adca"], reason)
    if number == FP_FIGURE:
        reason += "; the stand-in for fp loads the memory where its latency rises steeply"
    yield Finding(f"adca-{number}-dca", gains["dca"], reason)


def _savings(rows: Sequence[Row]) -> Mapping[tuple[str, int], float]:
    """Return what share of plain DMA's write latency DCA and ADCA save, in percent, by size."""
    found = _curves(rows, "write_ns")
    suites = sorted({suite for _, suite, _ in found})
    return {
        (io, size): -statistics.mean(
            summary.change(found[io, suite, size], found["dma", suite, size]) for suite in suites
        )
        for io in ("dca", "adca")
        for size in PACKETS
    }


def _saved(savings: Mapping[tuple[str, int], float]) -> str:
    return "saved of DMA's, by packet size: " + "; ".join(
        f"{io.upper()} {'/'.join(f'{savings[io, size]:.0f}' for size in PACKETS)} %"
        for io in ("dca", "adca")
    )


def judge_9(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge write latency without SPEC: "about as" is within 10 points of DMA's latency."""
    savings = _savings(rows)
    alike = all(abs(savings["dca", size] - savings["adca", size]) <= 10 for size in PACKETS)
    below = all(saved > 0 for saved in savings.values())
    shrinks = all(savings[io, PACKETS[-1]] < savings[io, PACKETS[0]] for io in ("dca", "adca"))
    yield Finding("adca-9", alike and below and shrinks, _saved(savings))


def judge_10(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge write latency beside SPEC: what of the gain is lost from 64 to 1,500 B."""
    savings = _savings(rows)
    dca, adca = (savings[io, PACKETS[0]] - savings[io, PACKETS[-1]] for io in ("dca", "adca"))
    yield Finding("adca-10", dca > adca, _saved(savings))


def draw_6(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw bandwidth over packet size, without SPEC and beside it."""
    mbps = _curves(rows, "bandwidth_mbps")
    for axes, suite in zip(canvas.subplots(1, 3, sharey=True), (ALONE, *SUITES), strict=True):
        for io in map(str, Io):
            values = [mbps[io, suite, size] for size in PACKETS]
            axes.plot(range(len(PACKETS)), values, "o-", color=_COLOURS[io], label=io.upper())
        dma = [mbps["dma", ALONE, size] for size in PACKETS]
        if suite == ALONE:
            axes.fill_between(
                [0, 1], [1.10 * n for n in dma[:2]], [1.15 * n for n in dma[:2]],
                color="tab:orange", alpha=0.4, label="published, over DMA",
            )  # fmt: skip
            axes.axhline(LINE_MBPS, color="tab:orange", linestyle=":", label="published: 940 Mb/s")
        else:
            _draw_published_6(axes, mbps, suite)
        axes.set_xticks(range(len(PACKETS)), [str(size) for size in PACKETS], rotation=45)
        axes.set_title("netperf alone" if suite == ALONE else f"beside SPEC {suite}")
        axes.set_xlabel("packet (B)")
    canvas.axes[0].set_ylabel("bandwidth (Mb/s)")
    summary.legend_below(canvas)


def _draw_published_6(axes: Axes, mbps: Curves, suite: str) -> None:
    """Mark what the published changes make of our bandwidths, at the sizes that are judged."""
    for at, (io, base, other, factor, label) in enumerate(
        (
            ("dma", "dma", ALONE, 0.80, "DMA -20 % of alone"),
            ("dca", "dca", ALONE, 0.75, "DCA -25 % of alone"),
            ("adca", "dca", suite, 1.10, "ADCA +10 % over DCA"),
        )
    ):
        axes.plot(
            [PACKETS.index(size) + 0.22 * (at - 1) for size in _unlimited(mbps)],
            [factor * mbps[base, other, size] for size in _unlimited(mbps)],
            "D", color=_COLOURS[io], markeredgecolor="black", zorder=3, label=f"published: {label}",
        )  # fmt: skip


def draw_spec(published: Mapping[str, float], canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw bars of SPEC's gain over plain DMA."""
    gains = _gains(rows)
    axes = canvas.subplots()
    names = ("dca", "adca", ALONE)
    axes.bar(range(3), [gains[name] for name in names], 0.6, color=[_COLOURS[n] for n in names])
    summary.published(axes, range(3), [published[name] for name in names])
    axes.set_xticks(range(3), ["DCA", "ADCA", "without netperf"])
    axes.set_ylabel("SPEC over plain DMA (%)")
    axes.legend()


def draw_latency(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw the time of a line's write over packet size."""
    found = _curves(rows, "write_ns")
    suites = sorted({suite for _, suite, _ in found})
    axes = canvas.subplots()
    for io in map(str, Io):
        values = [statistics.mean(found[io, suite, size] for suite in suites) for size in PACKETS]
        axes.plot(range(len(PACKETS)), values, "o-", color=_COLOURS[io], label=io.upper())
    axes.set_xticks(range(len(PACKETS)), [str(size) for size in PACKETS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("packet (B)")
    axes.set_ylabel("device's write of a line (ns)")
    axes.legend(title="published: an order, no numbers")


_SETUP = (
    "Loongson 2K1000 (2 cores, 1 MB L2, every set simulated): netperf receives over TCP on one "
    "core (512 descriptors, 1,536 packets more may wait in the socket), a stand-in for the mean of "
    "SPEC CPU2000 runs on the other; "
    f"{_RUN_S:g} s after {_WARM_S:g} s, not time-compressed. "
)


def _figure(
    number: int,
    title: str,
    listed: Callable[[int], list[Point]],
    judge: Callable[[Sequence[Row]], Iterable[Finding]],
    draw: Callable[[Canvas, Sequence[Row]], None],
) -> Figure:
    return Figure(
        name=f"adca-{number}",
        title=title,
        source=f"ADCA (Li Peng et al.), figure {number}",
        setup=_SETUP,
        points=listed,
        measure=measure,
        judge=judge,
        draw=draw,
    )


def _spec_figure(number: int, suite: str, dca: float, adca: float, alone: float) -> Figure:
    published = {"dca": dca, "adca": adca, ALONE: alone}
    return _figure(
        number,
        f"SPEC CPU2000 ({suite}) beside netperf at {SPEC_PACKET} B",
        functools.partial(spec_points, suite),
        functools.partial(judge_spec, number),
        functools.partial(draw_spec, published),
    )


FIGURES = (
    _figure(
        6,
        "netperf's bandwidth by packet size",
        functools.partial(points, (ALONE, *SUITES)),
        judge_6,
        draw_6,
    ),
    _spec_figure(7, "int", 3.4, 11.5, 14.8),
    _spec_figure(8, "fp", 2.1, 8.9, 11.8),
    _figure(
        9,
        "Time of a device's write, netperf alone",
        functools.partial(points, (ALONE,)),
        judge_9,
        draw_latency,
    ),
    _figure(
        10,
        "Time of a device's write beside SPEC CPU2000",
        functools.partial(points, SUITES),
        judge_10,
        draw_latency,
    ),
)
