# SPDX-License-Identifier: Apache-2.0
"""IAT, figures 10 and 11: slicing, a PC tenant that grows and DDIO that then does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.model import WayMask
from iat_nova.sim.figures import claims, summary
from iat_nova.sim.figures.api import Figure, Finding, Point, Row
from iat_nova.sim.reader import read_scenario
from iat_nova.sim.run import Result, run
from iat_nova.sim.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

PACKETS = (64, 256, 512, 1024, 1500)
LARGE = (1024, 1500)

GROWS_S, DDIO_S, LENGTH_S = 5.0, 15.0, 25.0
STRATEGIES = ("baseline", "core-only", "io-iso", "iat")
# DDIO is resized by hand here, so IAT may not do it.
OPTIONS = {"iat": {"resize_ddio": False}}
COMPRESSION = 0.05
# The guests own all processors, so that no way goes to the host; DDIO's ways are idle at the start.
# Container 4 may have four ways, which hold its 10 MB; best-effort guests may shrink to one way.
_TEXT = """
title: "IAT figure 10: a PC tenant grows, then DDIO does; packets of {packet} B"
length: 25s
compression: {compression:g}
nics:
  nic0: {{address: "0000:3b:00.0", speed: 40Gb/s}}
  nic1: {{address: "0000:5e:00.0", speed: 40Gb/s}}
guests:
  - name: instance-00000001
    display_name: testpmd
    uuid: 00000001-0a10-4000-8000-000000000001
    extra_specs: {{"iat:priority": PC, "iat:io": "true", "iat:llc_ways": "3"}}
    cpus: [0, 1, 2, 3, 4, 5]
    attachments:
      - {{kind: vf, device: "0000:3b:02.0", nic: nic0}}
      - {{kind: vf, device: "0000:5e:02.0", nic: nic1}}
  - name: instance-00000002
    display_name: xmem2
    uuid: 00000002-0a10-4000-8000-000000000002
    extra_specs: {{"iat:priority": BE, "iat:io": "false"}}
    cpus: [6, 7, 8, 9]
  - name: instance-00000003
    display_name: xmem3
    uuid: 00000003-0a10-4000-8000-000000000003
    extra_specs: {{"iat:priority": BE, "iat:io": "false"}}
    cpus: [10, 11, 12, 13]
  - name: instance-00000004
    display_name: xmem4
    uuid: 00000004-0a10-4000-8000-000000000004
    extra_specs: {{"iat:priority": PC, "iat:io": "false", "iat:llc_ways": "2",
                  "iat:llc_ways_max": "4"}}
    cpus: [14, 15, 16, 17]
workloads:
  testpmd0: {{profile: testpmd, cpus: [0], nic: nic0}}
  testpmd1: {{profile: testpmd, cpus: [1], nic: nic1}}
  xmem2: {{profile: xmem, cpus: [6], working_set: 2MB}}
  xmem3: {{profile: xmem, cpus: [10], working_set: 2MB}}
  xmem4: {{profile: xmem, cpus: [14], working_set: 2MB}}
masks: {{testpmd0: 0x007, testpmd1: 0x007, xmem2: 0x018, xmem3: 0x060, xmem4: 0x180}}
traffic:
  nic0: {{to: testpmd0, rate: 40Gb/s, packet: {packet}B}}
  nic1: {{to: testpmd1, rate: 40Gb/s, packet: {packet}B}}
events:
  - {{at: {grows:g}s, set: xmem4.working_set, to: 10MB}}
  - {{at: {ddio:g}s, set: ddio.ways, to: 4}}
"""


def scenario(packet_bytes: int) -> Scenario:
    """Return the run at one packet size."""
    text = _TEXT.format(packet=packet_bytes, compression=COMPRESSION, grows=GROWS_S, ddio=DDIO_S)
    return read_scenario(text, f"iat-10-{packet_bytes}", "iat_10.py")


def _run(point: Point, packet_bytes: int, marks: Sequence[float]) -> Result:
    strategy = str(point["strategy"])
    return run(
        scenario(packet_bytes),
        strategy,
        int(point["seed"] or 0),
        marks=marks,
        options=OPTIONS.get(strategy),
    )


# ------------------------------------------------------------------------------ figure 10


def points_10(seeds: int) -> list[Point]:
    """List each packet size under each strategy."""
    return [
        {"packet_bytes": packet, "strategy": strategy, "seed": seed}
        for packet in PACKETS
        for strategy in STRATEGIES
        for seed in range(1, seeds + 1)
    ]


def measure_10(point: Point) -> Row:
    """Measure container 4 before it grows, from then until DDIO grows, and after that."""
    found = _run(point, int(point["packet_bytes"] or 0), (GROWS_S, DDIO_S))
    row: dict[str, float] = {}
    for part, window in zip(("small", "grown", "after"), found.windows, strict=True):
        xmem = window.workloads["xmem4"]
        row[f"{part}_accesses_per_s"] = round(xmem.work_per_s)
        row[f"{part}_latency_cycles"] = round(xmem.access_cycles or 0.0, 3)
        row[f"{part}_ddio_misses_per_s"] = round(window.ddio_misses_per_s)
    return row


Cells = Mapping[tuple[int, str], float]

# The claims of IAT's changes over another strategy at 5-15 s, by column.
_CLAIMS_10 = {
    "accesses_per_s": {"baseline": "iat-10a-base", "core-only": "iat-10a-core"},
    "latency_cycles": {"baseline": "iat-10b-base", "core-only": "iat-10b-core"},
}


def _against(cells: Cells, other: str, name: str = "iat") -> dict[int, float]:
    """Return by how many percent a strategy differs from another, by packet size."""
    return {packet: summary.change(cells[packet, name], cells[packet, other]) for packet in PACKETS}


def _listing(changes: Mapping[int, float]) -> str:
    return "; ".join(f"{packet} B: {percent:+.1f} %" for packet, percent in changes.items())


def judge_10(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge container 4's throughput and latency, and what DDIO's growth does to each strategy."""

    def cells(column: str) -> Cells:
        return summary.medians(rows, ("packet_bytes", "strategy"), column)

    for column, others in _CLAIMS_10.items():
        for other, claim in others.items():
            changes = _against(cells(f"grown_{column}"), other)
            yield Finding(claim, summary.spread(changes.values()), _listing(changes))
    rate, after = cells("grown_accesses_per_s"), cells("after_accesses_per_s")
    isolated, isolated_after = _against(rate, "iat", "io-iso"), _against(after, "iat", "io-iso")
    near = all(abs(percent) <= 10 for percent in isolated.values())
    below = all(percent < 0 for percent in isolated_after.values())
    yield Finding(
        "iat-10-iso",
        near and below,
        f"I/O-iso against IAT, 5-15 s: {_listing(isolated)}. After: {_listing(isolated_after)}",
    )
    core, gain = _against(after, "baseline", "core-only"), _against(after, "baseline")
    close = all(abs(core[packet]) <= 15 for packet in LARGE)
    above = all(gain[packet] > max(15.0, core[packet] + 15.0) for packet in LARGE)
    yield Finding(
        "iat-10-after",
        close and above,
        f"against baseline, Core-only: {_listing(core)}. IAT: {_listing(gain)}",
    )


_COLOURS = {
    "baseline": "tab:gray",
    "core-only": "tab:green",
    "io-iso": "tab:purple",
    "iat": "tab:blue",
}


def _draw_published_10(axes: Axes, cells: Cells, column: str, unit: float) -> None:
    """Draw on IAT's bars what the published changes make of the others' measured values."""
    for (other, claim), at, colour in zip(
        _CLAIMS_10[column].items(), (0.25, 0.35), ("tab:orange", "tab:red"), strict=True
    ):
        ends = [
            [cells[packet, other] * unit * (1 + percent / 100) for packet in PACKETS]
            for percent in claims.span(claim)
        ]
        axes.bar(
            [x + at for x in range(len(PACKETS))],
            [high - low for low, high in zip(*ends, strict=True)],
            0.08,
            ends[0],
            color=colour,
            edgecolor="black",
            linewidth=0.5,
            label=f"published over {other}",
        )


def draw_10(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw bars by packet size, throughput above latency, before and after DDIO grows."""
    grid = canvas.subplots(2, 2, sharex=True)
    for place, part in enumerate(("grown", "after")):
        for axes, column, unit, label in (
            (grid[0][place], "accesses_per_s", 1e-6, "M accesses/s"),
            (grid[1][place], "latency_cycles", 1.0, "latency (cycles)"),
        ):
            cells = summary.medians(rows, ("packet_bytes", "strategy"), f"{part}_{column}")
            for at, strategy in enumerate(STRATEGIES):
                xs = [x + (at - 1.5) * 0.2 for x in range(len(PACKETS))]
                ys = [cells[packet, strategy] * unit for packet in PACKETS]
                axes.bar(xs, ys, 0.2, color=_COLOURS[strategy], label=strategy)
            if part == "grown":
                _draw_published_10(axes, cells, column, unit)
            axes.set_ylabel(label)
            axes.set_xticks(range(len(PACKETS)), [f"{packet} B" for packet in PACKETS])
    grid[0][0].set_title("5-15 s", fontsize=9)
    grid[0][1].set_title("after 15 s, DDIO has 4 ways", fontsize=9)
    summary.legend_below(canvas)


# ------------------------------------------------------------------------------ figure 11

TIMELINE_BYTES = 1500
REACTION_S = 3.0


def points_11(seeds: int) -> list[Point]:
    """List each strategy."""
    return [
        {"strategy": strategy, "seed": seed}
        for strategy in STRATEGIES
        for seed in range(1, seeds + 1)
    ]


def overlaps(found: Result, ways: int) -> list[tuple[float, bool]]:
    """Return from each moment on whether container 4 shares ways with DDIO as it really lies."""
    inventory = found.inventory
    assert inventory is not None
    owner = next(tenant.id for tenant in inventory.tenants if tenant.name == "xmem4")
    moments = [(one.at_s, one.layout.mask_of(owner) or WayMask(0)) for one in found.decisions]
    moments += [
        (moment, [mask for at_s, mask in moments if at_s <= moment][-1])
        for moment in (GROWS_S, DDIO_S)
    ]
    return [
        (at_s, mask.overlaps(WayMask.span(ways - count, count)))
        for at_s, mask in sorted(moments, key=lambda one: one[0])
        for count in [4 if at_s >= DDIO_S else 2]
    ]


def free_after(seen: Sequence[tuple[float, bool]], from_s: float, to_s: float) -> float | None:
    """Return how long after `from_s` the overlap ended for good until `to_s`; None: it did not."""
    part = [(at_s, shared) for at_s, shared in seen if from_s <= at_s < to_s]
    last = max((number for number, (_, shared) in enumerate(part) if shared), default=-1)
    if last + 1 == len(part):
        return None
    return part[last + 1][0] - from_s if last >= 0 else 0.0


def measure_11(point: Point) -> Row:
    """Measure container 4 second by second, and when it is free of DDIO."""
    seconds = [float(second) for second in range(1, int(LENGTH_S))]
    found = _run(point, TIMELINE_BYTES, seconds)
    seen = overlaps(found, scenario(TIMELINE_BYTES).machine.llc_ways)
    row: dict[str, float | None] = {
        "free_after_growth_s": free_after(seen, GROWS_S, DDIO_S),
        "free_after_ddio_s": free_after(seen, DDIO_S, LENGTH_S),
    }
    for second, window in enumerate(found.windows):
        xmem = window.workloads["xmem4"]
        row[f"latency_cycles_{second:02}"] = round(xmem.access_cycles or 0.0, 3)
        row[f"accesses_per_s_{second:02}"] = round(xmem.work_per_s)
    return row


def judge_11(rows: Sequence[Row]) -> Iterator[Finding]:
    """Judge how soon IAT frees container 4, in every run."""
    mine = [row for row in rows if row["strategy"] == "iat"]
    times = {event: [row[f"free_after_{event}_s"] for row in mine] for event in ("growth", "ddio")}
    within = all(
        isinstance(time, float | int) and time <= REACTION_S
        for several in times.values()
        for time in several
    )
    words = {
        event: ", ".join("never" if time is None else f"{time:.1f} s" for time in several)
        for event, several in times.items()
    }
    reason = f"free of DDIO after growth: {words['growth']}; after DDIO grew: {words['ddio']}"
    yield Finding("iat-11-react", within, reason)


def draw_11(canvas: Canvas, rows: Sequence[Row]) -> None:
    """Draw latency and throughput over time, with the two events."""
    for axes, column, unit, label in zip(
        canvas.subplots(2, 1, sharex=True),
        ("accesses_per_s", "latency_cycles"),
        (1e-6, 1.0),
        ("M accesses/s", "latency (cycles)"),
        strict=True,
    ):
        for strategy in STRATEGIES:
            mine = [row for row in rows if row["strategy"] == strategy][:1]
            ys = [
                summary.number(row, f"{column}_{second:02}") * unit
                for row in mine
                for second in range(int(LENGTH_S))
            ]
            axes.step(range(1, len(ys) + 1), ys, color=_COLOURS[strategy], label=strategy)
        for moment in (GROWS_S, DDIO_S):
            axes.axvline(moment, color="black", linestyle=":")
            axes.axvspan(moment, moment + REACTION_S, color="tab:orange", alpha=0.25)
        axes.set_ylabel(label)
    axes.set_xlabel("seconds (dotted: events; orange: the time in which IAT is to react)")
    axes.legend(fontsize=8, ncols=4)


_SETUP = (
    "As published; the guests own all processors, container 4 may have at most 4 ways and the "
    f"best-effort ones at least 1. {COMPRESSION:.0%} of each second are simulated. IAT may not "
    "resize DDIO; the change by hand is made known to the agent."
)
FIGURES = (
    Figure(
        name="iat-10",
        title="Container 4 (X-Mem, 10 MB) beside two testpmd on 2 x 40 Gb/s",
        source="IAT (ISCA 2021), figure 10",
        setup=_SETUP,
        points=points_10,
        measure=measure_10,
        judge=judge_10,
        draw=draw_10,
        compression=COMPRESSION,
    ),
    Figure(
        name="iat-11",
        title="Container 4 over time at 1.5 KB",
        source="IAT (ISCA 2021), figure 11",
        setup=_SETUP,
        points=points_11,
        measure=measure_11,
        judge=judge_11,
        draw=draw_11,
        compression=COMPRESSION,
    ),
)
