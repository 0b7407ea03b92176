# SPDX-License-Identifier: Apache-2.0
"""IAT, figures 8 and 9: the virtual switch's ways, and the judgement of the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from iat_nova.experiments.papers import summary
from iat_nova.experiments.papers.api import NOT_MEASURED, ClaimFinding, Point, Row
from iat_nova.experiments.runs.run import Result
from iat_nova.model import TenantKind
from iat_nova.strategies.iat.state import FsmState

LARGE = (1024, 1500)

Pairs = Mapping[int, tuple[float, float]]
"""Medians under baseline and IAT, by packet size or flows."""


def ddio_ways(found: Result, point: Point) -> int:
    """Return the number of DDIO ways at the end."""
    assert found.last is not None
    return found.last.allocation.ddio_ways


def stack_ways(found: Result, point: Point) -> int:
    """Return the number of the switch's ways at the end."""
    return _stack_ways(found)[-1]


def stack_ways_most(found: Result, point: Point) -> int:
    """Return the largest number of ways of the switch."""
    return max(_stack_ways(found))


def states(found: Result, point: Point) -> str:
    """Return the states of the strategy, in order of their first appearance."""
    return ", ".join(dict.fromkeys(one.phase for one in found.decisions))


def _stack_ways(found: Result) -> list[int]:
    assert found.inventory is not None
    stack = next(one for one in found.inventory.tenants if one.kind is TenantKind.STACK)
    return [one.allocation.tenants.get(stack.id, 0) for one in found.decisions]


def _both(rows: Sequence[Row], key: str, column: str) -> Pairs:
    cells = summary.medians(rows, (key, "strategy"), column)
    found = sorted({int(value) for value, _ in cells})
    return {value: (cells[value, "baseline"], cells[value, "iat"]) for value in found}


def _changes(pairs: Pairs) -> dict[int, float]:
    return {at: summary.change(iat, base) if base else 0.0 for at, (base, iat) in pairs.items()}


def _listing(pairs: Pairs, unit: float, word: str) -> str:
    cells = (f"{at}: {base / unit:.3g} to {iat / unit:.3g}" for at, (base, iat) in pairs.items())
    return f"{word}, baseline to IAT: {'; '.join(cells)}"


def judge_8(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the effect of DDIO's ways on DDIO's hits and misses, on memory and on the switch."""
    hits, misses, memory, ipc, ways = (
        _both(rows, "packet_bytes", column)
        for column in (
            "ddio_hits_per_s", "ddio_misses_per_s", "memory_bytes_per_s", "ovs_ipc", "ddio_ways"
        )
    )  # fmt: skip
    # If IAT does not change DDIO, runs differ by chance only: one part in a thousand.
    more = all(hits[packet][1] >= 0.999 * hits[packet][0] for packet in LARGE)
    yield ClaimFinding("iat-8-hit", more, _listing(hits, 1e6, "M hits/s"))
    fewer = all(misses[packet][1] < misses[packet][0] for packet in LARGE)
    yield ClaimFinding("iat-8-miss", fewer, _listing(misses, 1e6, "M misses/s"))
    stack = _both(rows, "packet_bytes", "stack_ways")[64]
    share = misses[64][0] / (misses[64][0] + hits[64][0])
    yield ClaimFinding(
        "iat-8-small",
        share < 0.05 and ways[64][0] == ways[64][1] and stack[0] == stack[1],
        f"64 B, baseline: {share:.2%} of inbound lines miss; ways with IAT: DDIO {ways[64][1]:g} "
        f"(baseline {ways[64][0]:g}), switch {stack[1]:g} (baseline {stack[0]:g})",
    )
    changes = _changes(memory)  # of small packets next to nothing reaches memory
    saved = min(changes[packet] for packet in LARGE)
    yield ClaimFinding("iat-8-bw", saved, _listing(memory, 1e9, "GB/s"))
    gains = _changes(ipc)
    gain = max(gains[packet] for packet in LARGE)
    yield ClaimFinding("iat-8-ipc", gain, _listing(ipc, 1.0, "OVS IPC"))
    yield ClaimFinding("iat-8-ring", None, NOT_MEASURED)


def judge_guests(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge whether the switch gains as much with more containers as with two, within 25 %."""
    ipc = _both(rows, "guests", "ovs_ipc")
    two, *more = _changes(ipc).values()
    alike = all(abs(gain - two) <= 0.25 * two for gain in more)
    yield ClaimFinding("iat-8-guests", alike and two > 0, _listing(ipc, 1.0, "OVS IPC"))


def judge_9(rows: Sequence[Row]) -> Iterator[ClaimFinding]:
    """Judge the rise of the switch's LLC misses with flows, IAT's gain, and the state reached."""
    misses = _by_flows(rows, "ovs_misses_per_packet")
    few = max(base for flows, (base, _) in misses.items() if flows <= 1000)
    many = min(base for flows, (base, _) in misses.items() if flows >= 100_000)
    yield ClaimFinding(
        "iat-9-knee",
        few < 0.1 and many > max(0.5, 5 * few),
        _listing(misses, 1.0, "LLC misses a packet"),
    )
    ipc = _by_flows(rows, "ovs_ipc")
    yield ClaimFinding("iat-9-ipc", max(_changes(ipc).values()), _listing(ipc, 1.0, "OVS IPC"))
    mine = [row for row in rows if row["strategy"] == "iat"]
    demand = all(FsmState.CORE_DEMAND.value in str(row["states"]) for row in mine)
    grown = [summary.number(row, "stack_ways_most") for row in mine]
    seen = sorted({str(row["states"]) for row in mine})
    leaking = max(number for _, number in _by_flows(rows, "ddio_misses_per_s").values())
    yield ClaimFinding(
        "iat-9-state",
        demand and min(grown) > 2,
        f"states {', '.join(seen)}; the switch has {min(grown):g} ways at most, in the best run "
        f"{max(grown):g}; DDIO misses at most {leaking / 1e6:.2f} M/s, the machine leaves Low Keep "
        "above 1 M/s",
    )


def _by_flows(rows: Sequence[Row], column: str) -> Pairs:
    """Return the medians of baseline and iat by number of flows, from columns `column`_FLOWS."""
    flows = [int(name.removeprefix(f"{column}_")) for name in rows[0] if name.startswith(column)]
    found = {}
    for number in flows:
        cells = summary.medians(rows, ("strategy",), f"{column}_{number}")
        found[number] = (cells[("baseline",)], cells[("iat",)])
    return found
