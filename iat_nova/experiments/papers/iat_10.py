# SPDX-License-Identifier: Apache-2.0
"""IAT, figures 10 and 11: the time until container 4 is free of DDIO, and the judgement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import ClaimFinding, Point, Row
from iat_nova.experiments.papers.definition import Definition
from iat_nova.experiments.papers.measure import execute
from iat_nova.experiments.runs.run import Result
from iat_nova.model import WayMask

LARGE = (1024, 1500)
# The moments at which container 4 grows and DDIO grows, and the end of the run.
GROWS_S, DDIO_S, LENGTH_S = 5.0, 15.0, 25.0
REACTION_S = 3.0
# The claims of IAT's changes over another strategy at 5-15 s, by column.
_CLAIMS_10 = {
    "accesses_per_s": {"baseline": "iat-10a-base", "core-only": "iat-10a-core"},
    "latency_cycles": {"baseline": "iat-10b-base", "core-only": "iat-10b-core"},
}


def _listing(changes: Mapping[int, float]) -> str:
    return "; ".join(f"{packet} B: {percent:+.1f} %" for packet, percent in changes.items())


def judge_10(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge container 4's throughput and latency, and the effect of DDIO's growth by strategy."""

    def against(column: str, other: str, name: str = "iat") -> Mapping[int, float]:
        return summary.changes(rows, "packet_bytes", "strategy", column, name, other)

    for column, others in _CLAIMS_10.items():
        for other, claim in others.items():
            changes = against(f"grown_{column}", other)
            yield ClaimFinding(claim, summary.spread(changes.values()), _listing(changes))
    isolated = against("grown_accesses_per_s", "iat", "io-iso")
    isolated_after = against("after_accesses_per_s", "iat", "io-iso")
    near = all(abs(percent) <= 10 for percent in isolated.values())
    below = all(percent < 0 for percent in isolated_after.values())
    yield ClaimFinding(
        "iat-10-iso",
        near and below,
        f"I/O-iso against IAT, 5-15 s: {_listing(isolated)}. After: {_listing(isolated_after)}",
    )
    core = against("after_accesses_per_s", "baseline", "core-only")
    gain = against("after_accesses_per_s", "baseline")
    close = all(abs(core[packet]) <= 15 for packet in LARGE)
    above = all(gain[packet] > max(15.0, core[packet] + 15.0) for packet in LARGE)
    yield ClaimFinding(
        "iat-10-after",
        close and above,
        f"against baseline, Core-only: {_listing(core)}. IAT: {_listing(gain)}",
    )


def overlaps(found: Result, ways: int) -> list[tuple[float, bool]]:
    """Return, from each moment on, whether container 4 shares ways with the real DDIO ways."""
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
    """Return the seconds from `from_s` until the overlap ends for good; None: not before `to_s`."""
    part = [(at_s, shared) for at_s, shared in seen if from_s <= at_s < to_s]
    last = max((number for number, (_, shared) in enumerate(part) if shared), default=-1)
    if last + 1 == len(part):
        return None
    return part[last + 1][0] - from_s if last >= 0 else 0.0


def measure_11(definition: Definition, point: Point) -> Row:
    """Measure container 4 in each second, and the seconds until its ways are free of DDIO."""
    found = execute(definition, point)
    seen = overlaps(found, definition.made(point).machine.llc_ways)
    row: dict[str, float | None] = {
        "free_after_growth_s": free_after(seen, GROWS_S, DDIO_S),
        "free_after_ddio_s": free_after(seen, DDIO_S, LENGTH_S),
    }
    for second, window in enumerate(found.windows):
        xmem = window.workloads["xmem4"]
        row[f"latency_cycles_{second:02}"] = round(xmem.access_cycles or 0.0, 3)
        row[f"accesses_per_s_{second:02}"] = round(xmem.work_per_s)
    return row


def judge_11(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the time until IAT frees container 4, in every run."""
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
    yield ClaimFinding("iat-11-react", within, reason)
