# SPDX-License-Identifier: Apache-2.0
"""Decisions in words: one line for the log, a page for `iat-nova explain`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from iat_nova.control import words as figures
from iat_nova.control.fsm import NUMBERED
from iat_nova.control.state import DDIO
from iat_nova.model import (
    Change,
    Decision,
    DomainInventory,
    FsmState,
    Layout,
    Parameters,
    Quantity,
    Step,
)
from iat_nova.records import Iteration, Settings
from iat_nova.report import escape, waymap

STATE_NAMES: Mapping[FsmState, str] = {
    FsmState.LOW_KEEP: "Low Keep",
    FsmState.IO_DEMAND: "I/O Demand",
    FsmState.CORE_DEMAND: "Core Demand",
    FsmState.RECLAIM: "Reclaim",
    FsmState.HIGH_KEEP: "High Keep",
}
QUANTITY_NAMES: Mapping[Quantity, str] = {
    Quantity.IPC: "IPC",
    Quantity.REFERENCES: "LLC references",
    Quantity.MISSES: "LLC misses",
    Quantity.DDIO_HITS: "DDIO hits",
    Quantity.DDIO_MISSES: "DDIO misses",
}
EXCEPTIONS: Mapping[int, str] = {
    1: "only IPC moved: neither cache nor I/O, so nothing was done",
    2: "a non-I/O tenant that does not overlap DDIO moved, DDIO did not: its own demand",
    3: "a non-I/O tenant that overlaps DDIO moved, and DDIO with it: a shuffle first",
}


def line(decision: Decision, inventory: DomainInventory) -> str:
    """Return a decision in one line, for the log."""
    parts = [state_change(decision)]
    names = Names(inventory)
    parts += [step_words(step, names) for step in decision.steps if step.action != "hold"]
    if decision.moved:
        parts.append(f"moved: {', '.join(map(names, decision.moved))}")
    return f"domain {decision.domain} #{decision.iteration}: {'; '.join(parts)}"


def state_change(decision: Decision) -> str:
    """Return ``Low Keep -> I/O Demand (1)`` or the state that stayed."""
    after = STATE_NAMES[decision.state_after]
    if decision.state_after is decision.state_before and decision.transition is None:
        return after
    number = f" ({decision.transition})" if decision.transition is not None else ""
    return f"{STATE_NAMES[decision.state_before]} -> {after}{number}"


def step_words(step: Step, names: Names) -> str:
    """Return ``grow ddio 2 -> 3 ways: reason``."""
    ways = ""
    if step.ways_before is not None and step.ways_after is not None:
        ways = f" {step.ways_before} -> {step.ways_after} ways"
    elif step.ways_after is not None:
        ways = f" {figures.ways(step.ways_after)}"
    return f"{step.action} {names(step.subject)}{ways}: {escape.plain(step.reason)}"


class Names:
    """From tenant ids to their names, harmless for a terminal."""

    def __init__(self, inventory: DomainInventory) -> None:
        self._names = {tenant.id: tenant.name for tenant in inventory.tenants}

    def __call__(self, subject: str) -> str:
        """Return a tenant's name; the subject itself for DDIO, the layout and who has gone."""
        return escape.plain(self._names.get(subject, subject))


def moment(wall_s: float) -> str:
    """Return local date and time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(wall_s))


def duration(seconds: float) -> str:
    """Return ``0.4 s``, ``4 min 10 s``, ``2 h 5 min`` or ``3 d 4 h``."""
    if not math.isfinite(seconds):
        return "for ever"
    if 0 < seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = max(0, round(seconds))
    for size, name, small_size, small_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size} {name}" + (f" {rest} {small_name}" if rest else "")
    return f"{whole} s"


def quantity(kind: Quantity, value: float) -> str:
    """Return a value with its unit."""
    return f"{value:.2f}" if kind is Quantity.IPC else figures.rate(value)


def explain(
    iteration: Iteration,
    inventory: DomainInventory,
    settings: Settings | None,
    *,
    width: int = 80,
    colour: bool = False,
) -> str:
    """Return the page that tells why: inputs, thresholds, transition, steps, way maps."""
    decision = iteration.decision
    names = Names(inventory)
    written = "written" if iteration.effective is not None else "only observed, nothing written"
    parameters = settings.parameters if settings else None
    blocks = [
        [
            f"Iteration #{decision.iteration} of cache domain {decision.domain}, "
            f"{moment(iteration.wall_s)}, {written}"
        ],
        _state_block(decision),
        _changes_block(decision, iteration, names, parameters),
        _steps_block(decision, names),
        _map_block(iteration, inventory, width, colour),
        _inputs_block(iteration, inventory),
    ]
    if parameters is not None:
        blocks.append(_thresholds_block(parameters))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def as_data(
    iteration: Iteration, inventory: DomainInventory, settings: Settings | None
) -> dict[str, Any]:
    """Return the same as plain data, for machines."""
    from iat_nova import records  # noqa: PLC0415 - cattrs is slow to load; only needed here

    decision = iteration.decision
    row = NUMBERED.get(decision.transition) if decision.transition is not None else None
    return {
        "iteration": decision.iteration,
        "domain": decision.domain,
        "wall_s": iteration.wall_s,
        "written": iteration.effective is not None,
        "transition_text": row.text if row else None,
        "exception_text": EXCEPTIONS.get(decision.exception or 0),
        "way_map": waymap.text(decision.layout, inventory),
        "layout_before": records.unstructure(_layout_before(iteration)),
        "decision": records.unstructure(decision),
        "effective": iteration.effective,
        "sample": records.unstructure(iteration.sample),
        "timings_us": dict(iteration.timings_us),
        "tenants": {tenant.id: tenant.name for tenant in inventory.tenants},
        "settings": records.unstructure(settings),
    }


def _state_block(decision: Decision) -> list[str]:
    before, after = STATE_NAMES[decision.state_before], STATE_NAMES[decision.state_after]
    if decision.transition is not None:
        row = NUMBERED.get(decision.transition)
        why = f": {row.text}" if row else ""
        lines = [f"State      {before} -> {after}, transition {decision.transition}{why}"]
    else:
        lines = [f"State      {after}, no transition"]
    if decision.stable:
        lines.append("           stable: nothing moved by more than THRESHOLD_STABLE")
    if decision.exception is not None:
        meaning = EXCEPTIONS.get(decision.exception, "unknown")
        lines.append(f"           exception {decision.exception} of the paper: {meaning}")
    return lines


def _changes_block(
    decision: Decision, iteration: Iteration, names: Names, parameters: Parameters | None
) -> list[str]:
    if not decision.changes:
        return ["What moved nothing"]
    reference = getattr(iteration.state, "reference", None)
    since = ""
    if reference is not None:
        since = f" since {moment(iteration.wall_s - (iteration.at_s - reference.taken_at_s))}"
    lines = [f"What moved{since}"]
    rows = [_change_row(change, names, parameters) for change in decision.changes]
    return lines + columns(rows, "lrrrl")


def _change_row(change: Change, names: Names, parameters: Parameters | None) -> tuple[str, ...]:
    what = QUANTITY_NAMES[change.quantity]
    if change.subject != DDIO:
        what = f"{names(change.subject)}: {what}"
    note = ""
    if parameters is not None and change.quantity is Quantity.DDIO_MISSES:
        low = parameters.threshold_miss_low_per_s
        side = "above" if change.after > low else "not above"
        note = f"{side} THRESHOLD_MISS_LOW {figures.rate(low)}"
    return (
        what,
        quantity(change.quantity, change.before),
        "-> " + quantity(change.quantity, change.after),
        figures.percent(change.fraction),
        note,
    )


def _steps_block(decision: Decision, names: Names) -> list[str]:
    if not decision.steps:
        return ["What was done: nothing"]
    return ["What was done"] + [f"  {step_words(step, names)}" for step in decision.steps]


def _map_block(
    iteration: Iteration, inventory: DomainInventory, width: int, colour: bool
) -> list[str]:
    """Draw the ways before (if they differ) and after; what moved, what the machine made of it."""
    decision = iteration.decision
    lines = ["Ways"]
    before = _layout_before(iteration)
    if before is not None and before != decision.layout:
        drawn = waymap.text(before, inventory, width=width - 9, colour=colour)
        lines.append(f"  before {drawn}")
    drawn = waymap.text(decision.layout, inventory, width=width - 9, colour=colour)
    lines.append(f"  after  {drawn}")
    names = Names(inventory)
    moved = [
        (
            "" if number else "moved",
            escape.cut(names(subject), 24),
            _ways_of(subject, before),
            f"-> {_ways_of(subject, decision.layout)}",
        )
        for number, subject in enumerate(decision.moved)
    ]
    lines += columns(moved, "llll") if moved else []
    return lines + [f"  {text}" for text in coerced(iteration, inventory)]


def _ways_of(subject: str, layout: Layout | None) -> str:
    """Return ``2 ways 0x3``."""
    if layout is None:
        return "-"
    mask = layout.ddio if subject == DDIO else layout.mask_of(subject)
    return f"{figures.ways(mask.count)} {mask}" if mask is not None else "-"


def _layout_before(iteration: Iteration) -> Layout | None:
    """Return where the ways lay while it was measured; None where the strategy does not tell."""
    before: Layout | None = getattr(iteration.state, "layout", None)
    return before


def coerced(iteration: Iteration, inventory: DomainInventory) -> list[str]:
    """Tell of which masks the machine made something else, one sentence each."""
    names = Names(inventory)
    return [
        f"{names(subject)}: asked for {decided}, the machine has {mask}"
        for subject, (decided, mask) in iteration.coerced.items()
    ]


def _inputs_block(iteration: Iteration, inventory: DomainInventory) -> list[str]:
    """List the rates beside the masks with which they were measured: those before the decision."""
    sample, before = iteration.sample, _layout_before(iteration)
    layout = before or iteration.decision.layout
    rows: list[tuple[str, ...]] = [
        ("tenant", "priority", "ways", "mask", "IPC", "references", "misses", "miss rate", "")
    ]
    overlapping = layout.overlaps_ddio
    for tenant in inventory.tenants:
        mask = layout.mask_of(tenant.id)
        rates = sample.tenants.get(tenant.id)
        rows.append(
            (
                escape.cut(escape.plain(tenant.name), 24),
                tenant.priority + (" I/O" if tenant.io else ""),
                str(mask.count) if mask is not None else "-",
                str(mask) if mask is not None else "-",
                f"{rates.ipc:.2f}" if rates else "-",
                figures.rate(rates.references_per_s) if rates else "-",
                figures.rate(rates.misses_per_s) if rates else "-",
                f"{rates.miss_ratio:.1%}" if rates else "-",
                "~ddio" if tenant.id in overlapping else "",
            )
        )
    hits, misses = sample.ddio_hits_per_s, sample.ddio_misses_per_s
    ddio = (
        "no counters"
        if hits is None or misses is None
        else (f"hits {figures.rate(hits)}, misses {figures.rate(misses)}")
    )
    return [
        f"What was measured over {sample.interval_s:.2f} s, "
        + ("with the ways before the decision" if before else "beside the ways after the decision"),
        f"  DDIO {layout.ddio} ({figures.ways(layout.ddio.count)}): {ddio}",
        *columns(rows, "llrrrrrrl"),
    ]


def _thresholds_block(parameters: Parameters) -> list[str]:
    return [
        "Thresholds",
        f"  stable {parameters.threshold_stable:.1%}, "
        f"DDIO misses low {figures.rate(parameters.threshold_miss_low_per_s)}, "
        f"DDIO {parameters.ddio_ways_min}..{parameters.ddio_ways_max} ways, "
        f"every {parameters.interval_s:g} s",
    ]


def columns(rows: Sequence[tuple[str, ...]], alignment: str) -> list[str]:
    """Align rows in columns, two blanks apart and two in front."""
    widths = [max(escape.width(row[number]) for row in rows) for number in range(len(alignment))]
    return [
        (
            "  "
            + "  ".join(
                escape.fit(text, room, right=side == "r")
                for text, room, side in zip(row, widths, alignment, strict=True)
            )
        ).rstrip()
        for row in rows
    ]
