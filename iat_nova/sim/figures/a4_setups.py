# SPDX-License-Identifier: Apache-2.0
"""A4, figures 4, 5, 7, 11, 12 and 13b: set-ups of which no values are at hand; nothing is judged.

Where the original compares A4 with other ways of managing the LLC, here are the layouts that these
come to: *shared* (no masks) and *zones* (A4's masks when storage is an antagonist: others keep
clear of DDIO's and the inclusive ways, storage without DCA).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.sim import a4_testbed as a4
from iat_nova.sim.figures import summary
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.figures.bench import llc_miss_ratio, steady

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

WARM_S, RUN_S = 0.08, 0.05
BLOCKS_KIB = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
DPDK_MASKS_7 = (0x003, 0x00C, 0x00F, 0x03C, 0x03F, 0x0FC, 0x0FF)
XMEM_MASKS_4 = (0x600, 0x0C0, 0x030, 0x003)
PACKETS = (64, 128, 256, 512, 1024, 1514)
LAYOUTS = ("shared", "zones")
ALONE = "X-Mem alone"
# A4's masks: tenants of high priority without devices, those of low priority, the antagonists.
HIGH, LOW, ANTAGONISTS = 0x1FF, 0x01C, 0x00C


def _integer(point: Point, key: str) -> int:
    return int(point[key] or 0)


def _judge(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge nothing: there is no claim."""
    yield from ()


def _masks(layout: object) -> tuple[int | None, int | None, int | None]:
    """Return the masks of high priority, low priority and storage in a layout."""
    return (HIGH, LOW, ANTAGONISTS) if layout == "zones" else (None, None, None)


# ----------------------------------------------------------------------- figures 4, 5, 7


def points_4(seeds: int) -> list[Point]:
    """List X-Mem's masks with the network's DCA on and off, and X-Mem alone."""
    points: list[Point] = [
        {"dca": dca, "xmem_mask": mask, "seed": 1} for dca in ("on", "off") for mask in XMEM_MASKS_4
    ]
    return [*points, {"dca": ALONE, "xmem_mask": 0x003, "seed": 1}]


def measure_4(point: Point) -> Row:
    """Measure X-Mem on a mask beside DPDK-T on 0x030, or alone."""
    mask = _integer(point, "xmem_mask")
    parts = [a4.memory("xmem", "xmem-stream", (0, 1), mask, working_set="4MiB")]
    if point["dca"] != ALONE:
        dca = point["dca"] == "on"
        parts.append(a4.receiver("dpdk-t", (10, 11, 12, 13), 0x030, dca=dca))
    found = steady(a4.scenario("a4-4", *parts), _integer(point, "seed"), WARM_S, RUN_S)
    xmem = {"xmem_miss_percent": round(100 * llc_miss_ratio(found.workloads["xmem"]), 2)}
    return {**xmem, **a4.memory_row(found)}


def draw_4(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw X-Mem's miss rate by its mask."""
    axes = canvas.subplots()
    order = [f"{mask:#05x}" for mask in XMEM_MASKS_4]
    width = 0.35
    for number, dca in enumerate(("on", "off")):
        values = [summary.number(row, "xmem_miss_percent") for row in rows if row["dca"] == dca]
        places = [place + (number - 0.5) * width for place in range(len(order))]
        axes.bar(places, values, width, label=f"network's DCA {dca}")
    alone = [summary.number(row, "xmem_miss_percent") for row in rows if row["dca"] == ALONE]
    axes.axhline(alone[0], color="black", linestyle="--", label=f"{ALONE}, 0x003")
    axes.set_xticks(range(len(order)), order)
    axes.set_xlabel("X-Mem's mask")
    axes.set_ylabel("X-Mem's LLC misses (%)")
    axes.legend()


def points_5(seeds: int) -> list[Point]:
    """List the blocks with the disks' DCA on and off."""
    return [
        {"dca": dca, "block_kib": block, "seed": 1} for dca in ("on", "off") for block in BLOCKS_KIB
    ]


def measure_5(point: Point) -> Row:
    """Measure FIO alone on 0x300."""
    part = a4.fio((10, 11, 12, 13), 0x300, _integer(point, "block_kib"), dca=point["dca"] == "on")
    found = steady(a4.scenario("a4-5", part), _integer(point, "seed"), WARM_S, RUN_S)
    leaked = found.lines_per_s["leaked"] * 64e-9
    return {
        **a4.storage_row(found), **a4.memory_row(found), "leaked_gbytes_per_s": round(leaked, 2),
    }  # fmt: skip


def points_7(seeds: int) -> list[Point]:
    """List DPDK's masks."""
    return [{"dpdk_mask": mask, "seed": 1} for mask in DPDK_MASKS_7]


def measure_7(point: Point) -> Row:
    """Measure DPDK-T alone on a mask."""
    mask = _integer(point, "dpdk_mask")
    scene = a4.scenario("a4-7", a4.receiver("dpdk-t-100ns", (10, 11, 12, 13), mask))
    found = steady(scene, _integer(point, "seed"), WARM_S, RUN_S)
    return {**a4.network_row(found), **a4.memory_row(found)}


# -------------------------------------------------------------------- figures 11 and 12


def points_11(seeds: int) -> list[Point]:
    """List the packet sizes beside blocks of 2 MiB."""
    return [
        {"layout": layout, "packet_bytes": size, "block_kib": 2048, "seed": 1}
        for layout in LAYOUTS
        for size in PACKETS
    ]


def points_12(seeds: int) -> list[Point]:
    """List the blocks beside packets of 1,514 B."""
    return [
        {"layout": layout, "packet_bytes": 1514, "block_kib": block, "seed": 1}
        for layout in LAYOUTS
        for block in BLOCKS_KIB
    ]


def measure_11(point: Point) -> Row:
    """Measure the five tenants of the microbenchmarks in a layout."""
    high, low, storage = _masks(point["layout"])
    scene = a4.scenario(
        "a4-11",
        a4.memory("hp-xmem", "xmem-stream", (0, 1, 2), high, working_set="4MiB"),
        a4.receiver(
            "dpdk-t-100ns", (3, 4, 5, 6), None, packet_bytes=_integer(point, "packet_bytes")
        ),
        a4.fio(
            (7, 8, 9, 10), storage, _integer(point, "block_kib"), dca=storage is None, writes=0.5
        ),
        a4.memory("lp-writes", "xmem-stream", (11, 12, 13), low, working_set="4MiB", writes="100%"),
        a4.memory("lp-random", "xmem", (14, 15, 16), low, working_set="10MiB"),
    )
    found = steady(scene, _integer(point, "seed"), WARM_S, RUN_S)
    rates = {
        f"{name.replace('-', '_')}_maccesses_per_s": round(
            found.workloads[name].work_per_s / 1e6, 2
        )
        for name in ("hp-xmem", "lp-writes", "lp-random")
    }
    return {**a4.network_row(found), **a4.storage_row(found), **rates, **a4.memory_row(found)}


# --------------------------------------------------------------------------- figure 13b

# name, profile, processors, whether of high priority. What SPEC CPU2017 has and the surrogates of
# CPU2006 have not is stood in for by a relative: x264 by bzip2, parest by sphinx3, fotonik3d by
# GemsFDTD, blender by gcc, bwaves by leslie3d; the store and its clients by RocksDB under the same
# mix, YCSB C.
PROGRAMS_13B = (
    ("mcf", "mcf", 10, True),
    ("blender", "gcc", 11, True),
    ("store", "rocksdb-c", 8, False),
    ("store2", "rocksdb-c", 9, False),
    ("x264", "bzip2", 12, False),
    ("parest", "sphinx3", 13, False),
    ("fotonik3d", "GemsFDTD", 14, False),
    ("lbm", "lbm", 15, False),
    ("bwaves", "leslie3d", 16, False),
)


def points_13b(seeds: int) -> list[Point]:
    """List the layouts."""
    return [{"layout": layout, "seed": 1} for layout in LAYOUTS]


def storage_13b(layout: object) -> a4.Part:
    """Return the light and the heavy storage tenant, half writes each, on disks of their own."""
    _, _, storage = _masks(layout)
    light = {"profile": "fio", "cpus": [7], "disk": "light", "block": "32KiB", "depth": 32}
    heavy = {"profile": "fio", "cpus": [4, 5, 6], "disk": "heavy", "block": "2MiB", "depth": 21}
    return {
        "disks": {
            "light": {"address": "0000:5e:00.0", "speed": "2.6GB/s"},
            "heavy": {"address": "0000:5f:00.0", "speed": "7.9GB/s", "dca": storage is None},
        },
        "workloads": {
            "light-storage": {**light, "writes": "50%"},
            "heavy-storage": {**heavy, "writes": "50%"},
        },
        "masks": {} if storage is None else {"heavy-storage": storage},
    }


def measure_13b(point: Point) -> Row:
    """Measure every tenant of the mix in which low priority is heavy."""
    high, low, _ = _masks(point["layout"])
    network: a4.Part = {
        "nics": {"nic0": {"address": "0000:3b:00.0", "speed": "100Gb/s"}},
        "workloads": {
            "fastclick": {
                "profile": "fastclick", "cpus": [0, 1, 2, 3], "nic": "nic0", "ring": 1024,
                "buffers": 16384,
            }
        },
        "traffic": {
            "fastclick": {
                "to": "fastclick", "rate": "100Gb/s", "packet": "1024B", "flows": 10000,
            }
        },
    }  # fmt: skip
    programs = [
        a4.memory(name, profile, (cpu,), high if first else low)
        for name, profile, cpu, first in PROGRAMS_13B
    ]
    scene = a4.scenario("a4-13b", network, storage_13b(point["layout"]), *programs)
    found = steady(scene, _integer(point, "seed"), WARM_S, RUN_S)
    row: dict[str, Any] = {
        f"{name}_ipc": round(found.workloads[name].ipc, 4) for name, *_ in PROGRAMS_13B
    }
    for name in ("fastclick", "light-storage", "heavy-storage"):
        latency = found.workloads[name].latency_us or 0.0
        row[f"{name.replace('-', '_')}_latency_us"] = round(latency, 1)
    return {**row, **a4.memory_row(found)}


def draw_13b(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw each tenant's performance in zones over that in a shared LLC."""
    shared, zones = ({**row} for row in rows)
    axes = canvas.subplots()
    columns = [key for key in shared if key.endswith(("_ipc", "_latency_us"))]
    values = []
    for column in columns:
        ratio = summary.number(zones, column) / max(summary.number(shared, column), 1e-9)
        values.append(1 / ratio if column.endswith("_latency_us") and ratio else ratio)
    names = [column.removesuffix("_ipc").removesuffix("_latency_us") for column in columns]
    axes.bar(names, values)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_ylabel("performance in zones over shared")
    axes.tick_params(axis="x", labelrotation=60)


# ------------------------------------------------------------------------------- all


def _draw_lines(
    x: str, columns: Sequence[tuple[str, str]], series: str | None = None
) -> Callable[[Canvas, Sequence[Row]], None]:
    """Return a drawing with one set of axes a column, over `x`, a line for each of a series."""

    def draw(canvas: Canvas, rows: Sequence[Row]) -> None:
        every = canvas.subplots(len(columns), 1, sharex=True, squeeze=False)[:, 0]
        kinds = list(dict.fromkeys(row[series] for row in rows)) if series else [None]
        for axes, (column, label) in zip(every, columns, strict=True):
            for kind in kinds:
                mine = [row for row in rows if series is None or row[series] == kind]
                values = [summary.number(row, column) for row in mine]
                axes.plot(range(len(mine)), values, "o-", label=str(kind))
                names = [f"{_integer(row, x):#05x}" if "mask" in x else str(row[x]) for row in mine]
                axes.set_xticks(range(len(mine)), names)
            axes.set_ylabel(label, fontsize=8)
            axes.set_ylim(0.0, 1.15 * axes.get_ylim()[1])
        every[-1].set_xlabel(x.replace("_", " "))
        if series:
            every[0].legend(title=series, fontsize=8)

    return draw


_TIME = (
    "80 ms of emulated time to settle and 50 ms to measure in place of 10 s, one run, as no "
    "published values are at hand to judge it by."
)
_MIX = (
    "X-Mem, DPDK-T of high priority beside FIO with half writes and two X-Mem of low priority, one "
    "of which writes (lines of all three are drawn at random; published: of the last only, the "
    "others go through them in order); the layouts 'shared' and 'zones' stand for the strategies "
    "compared; "
)
_TENANTS = (
    ("network_latency_us", "network (us)"),
    ("hp_xmem_maccesses_per_s", "HP X-Mem\n(M/s)"),
    ("storage_gbytes_per_s", "storage (GB/s)"),
    ("lp_random_maccesses_per_s", "LP X-Mem\n(M/s)"),
)
_STORAGE = (
    ("storage_gbytes_per_s", "storage (GB/s)"),
    ("memory_read_gbytes_per_s", "memory read\n(GB/s)"),
    ("memory_write_gbytes_per_s", "memory written\n(GB/s)"),
)
_NETWORK = (
    ("dpdk_miss_percent", "DPDK's LLC misses (%)"),
    ("network_latency_us", "latency (us)"),
)


def _figure(
    number: str,
    title: str,
    setup: str,
    points: Callable[[int], Sequence[Point]],
    measure: Callable[[Point], Row],
    draw: Callable[[Canvas, Sequence[Row]], None],
) -> Figure:
    source = f"A4 (ISCA 2025), set-up of figure {number}"
    return Figure(f"a4-{number}", title, source, setup + _TIME, points, measure, _judge, draw)


FIGURES = (
    _figure(
        "4",
        "X-Mem's LLC misses by its mask, the network's DCA on and off",
        "DPDK-T on 0x030, X-Mem (2 x 4 MiB; published: sequential, here lines drawn at random); ",
        points_4,
        measure_4,
        draw_4,
    ),
    _figure(
        "5",
        "Storage alone by block, DCA on and off",
        "FIO (4 x 32 random reads, 10.5 GB/s) on 0x300; ",
        points_5,
        measure_5,
        _draw_lines("block_kib", _STORAGE, "dca"),
    ),
    _figure(
        "7",
        "DPDK-T alone by its mask",
        "DPDK-T with 100 ns of waiting a packet; ",
        points_7,
        measure_7,
        _draw_lines("dpdk_mask", _NETWORK),
    ),
    _figure(
        "11",
        "Five tenants by packet size",
        _MIX,
        points_11,
        measure_11,
        _draw_lines("packet_bytes", _TENANTS, "layout"),
    ),
    _figure(
        "12",
        "Five tenants by storage block",
        _MIX,
        points_12,
        measure_11,
        _draw_lines("block_kib", _TENANTS, "layout"),
    ),
    _figure(
        "13b",
        "Twelve tenants, the heavy ones of low priority",
        "FastClick, storage and programs in the layouts 'shared' and 'zones', which stand for the "
        "strategies compared; SPEC CPU2017, Redis and FFSB are stood in for by CPU2006, RocksDB "
        "and FIO; ",
        points_13b,
        measure_13b,
        draw_13b,
    ),
)
