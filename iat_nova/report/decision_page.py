# SPDX-License-Identifier: Apache-2.0
"""The page of `iat-nova explain` on one decision: transition, steps, way maps and inputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from iat_nova.common import amounts as figures
from iat_nova.model import (
    DDIO,
    Change,
    Decision,
    DomainInventory,
    Layout,
    Parameters,
    Quantity,
)
from iat_nova.report import escape, sentences, times, waymap
from iat_nova.report.words import (
    Names,
    coerced,
    columns,
    inbound,
    limited,
    limits,
    phase,
    titled,
)
from iat_nova.store import records
from iat_nova.store.records import Iteration, SettingsInForce

QUANTITY_NAMES: Mapping[Quantity, str] = {
    Quantity.IPC: "IPC",
    Quantity.REFERENCES: "LLC references",
    Quantity.MISSES: "LLC misses",
    Quantity.DDIO_HITS: "DDIO hits",
    Quantity.DDIO_MISSES: "DDIO misses",
}


def quantity(kind: Quantity, value: float) -> str:
    """Return a value with its unit."""
    return f"{value:.2f}" if kind is Quantity.IPC else figures.rate(value)


def explain(
    iteration: Iteration,
    inventory: DomainInventory,
    settings: SettingsInForce | None,
    *,
    width: int = 80,
    colour: bool = False,
    thresholds: bool = True,
    search: str = "",
) -> str:
    """Return the page of reasons: transition, steps, way maps, inputs and, if asked, thresholds.

    `search`: why the last search for moves ended, for an iteration that did nothing since.
    """
    decision = iteration.decision
    names = Names(inventory, iteration.former)
    written = "written" if iteration.effective is not None else "not written"
    parameters = settings.parameters.of(iteration.domain) if settings else None
    blocks = [
        [
            f"Iteration #{decision.iteration} of cache domain {decision.domain}, "
            f"{times.moment(iteration.wall_s)}, {written}"
        ],
        _state_block(decision, names, search, width),
        _changes_block(decision, iteration, names, parameters),
        _steps_block(iteration, names, width),
        _map_block(iteration, inventory, width, colour),
        _inputs_block(iteration, inventory, width),
    ]
    if thresholds and settings is not None and parameters is not None:
        blocks.append(_thresholds_block(settings.strategy, parameters, width))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _state_block(decision: Decision, names: Names, search: str, width: int) -> list[str]:
    before, after = phase(decision.phase_before), phase(decision.phase)
    why = [names.within(one) for one in decision.why]
    if decision.rule is not None:
        meaning = f": {why.pop(0)}" if why else ""
        texts = [f"{before} -> {after}, transition {decision.rule}{meaning}"]
    elif before != after:
        texts = [f"{before} -> {after}"]
    else:
        texts = [after]
    if decision.stable:
        texts.append("nothing was done in this iteration")
        why = why or ["the strategy gave no reason"]
        why += [search] if search else []
    return titled("State", (*texts, *why), width)


def _changes_block(
    decision: Decision, iteration: Iteration, names: Names, parameters: Parameters | None
) -> list[str]:
    if not decision.changes:  # actions without changes have another cause, given by their steps
        return ["Changes: none"] if decision.stable else []
    since = ""
    if decision.since_s is not None:
        since = f" since {times.moment(iteration.wall_s - (iteration.at_s - decision.since_s))}"
    lines = [f"Changes{since}"]
    lines += columns([_change_row(change, names) for change in decision.changes], "lrrr")
    for change in decision.changes:
        if parameters is not None and change.quantity is Quantity.DDIO_MISSES:
            low = parameters.threshold_miss_low_per_s
            side = "above" if change.after > low else "not above"
            lines.append(f"  DDIO misses are {side} THRESHOLD_MISS_LOW {figures.rate(low)}")
    return lines


def _change_row(change: Change, names: Names) -> tuple[str, ...]:
    what = QUANTITY_NAMES[change.quantity]
    if change.subject != DDIO:
        what = f"{names.cut(change.subject, 24)}: {what}"
    return (
        what,
        quantity(change.quantity, change.before),
        "-> " + quantity(change.quantity, change.after),
        figures.percent(change.fraction),
    )


def _steps_block(iteration: Iteration, names: Names, width: int) -> list[str]:
    if not iteration.steps:
        return ["What was done: nothing"]
    lines = ["What was done"]
    for step in iteration.steps:
        lines += escape.hanging(escape.plain(names.step(step)), width, 12, "  ", "    ")
    return lines


def _map_block(
    iteration: Iteration, inventory: DomainInventory, width: int, colour: bool
) -> list[str]:
    """Draw the ways before (if different) and after; list moves and coerced masks."""
    decision = iteration.decision
    lines = ["Ways"]
    before = iteration.layout_before
    if before is not None and before != decision.layout:
        drawn = waymap.text(before, inventory, width=width - 9, colour=colour)
        lines.append(f"  before {drawn}")
    drawn, *sets = waymap.drawn(decision.layout, inventory, width - 9, colour=colour)
    lines.append(f"  after  {drawn}")
    lines += [f"         {line}" for line in sets]
    names = Names(inventory, iteration.former)
    moved = [
        (
            "" if number else "moved",
            names.cut(subject, 24),
            _ways_of(subject, before),
            f"-> {_ways_of(subject, decision.layout)}",
        )
        for number, subject in enumerate(decision.moved)
    ]
    lines += columns(moved, "llll")
    texts = [
        *_lent(decision.layout, names),
        *limits(iteration, inventory, names),
        *limited(decision.layout, inventory, names),
        *coerced(iteration, inventory),
    ]
    return lines + [f"  {text}" for text in texts]


def _lent(layout: Layout, names: Names) -> Iterator[str]:
    """Yield the ways that are guaranteed to no tenant and lent to the host's class."""
    if layout.lent is None:
        return
    (host,) = layout.lent.tenants
    yield (
        f"{names(host)}: {figures.ways(layout.lent.mask.count)} counted; {_ways_of(host, layout)} "
        "lent, as they are idle: a tenant that is granted a way takes it back"
    )


def _ways_of(subject: str, layout: Layout | None) -> str:
    """Return ``2 ways 0x3``."""
    mask = layout.mask_of(subject) if layout is not None else None
    return f"{figures.ways(mask.count)} {mask}" if mask is not None else "-"


def _inputs_block(iteration: Iteration, inventory: DomainInventory, width: int) -> list[str]:
    """List the rates with the masks during the measurement, i.e. before the decision."""
    sample, before = iteration.sample, iteration.layout_before
    layout = before or iteration.decision.layout
    rows: list[tuple[str, ...]] = [
        ("tenant", "priority", "ways", "mask", "IPC", "references", "misses", "rate", "")
    ]
    overlapping, names = layout.overlaps_ddio, Names(inventory)
    for tenant in inventory.tenants:
        mask = layout.mask_of(tenant.id)
        rates = sample.tenants.get(tenant.id)
        rows.append(
            (
                names.cut(tenant.id, max(12, width - _OTHERS)),
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
    ddio = inbound(sample)
    place = f"{layout.ddio} ({figures.ways(layout.ddio.count)})" if layout.ddio else "in any way"
    beside = "with the ways before the decision" if before else "beside the ways after the decision"
    if iteration.effective is None:
        beside = "beside ways that were decided and not written"
    if layout.dca_off:
        ddio += f", off at root ports {', '.join(layout.dca_off)}"
    return [
        f"What was measured over {sample.interval_s:.2f} s, {beside}",
        f"  DDIO {place}: {ddio}",
        *(
            line
            for text in waymap.counted_ports(sample, inventory)
            for line in escape.hanging(text, width, 2, "  ", "    ")
        ),
        *columns(rows, "llrrrrrrl", 1),
    ]


def _thresholds_block(strategy: str, parameters: Parameters, width: int) -> list[str]:
    """Return lines with the strategy's thresholds; general thresholds if it lists none."""
    from iat_nova.strategies import registry  # noqa: PLC0415 - it finds plug-ins: only here

    try:
        said = registry.thresholds(strategy, parameters)
    except registry.StrategyError:  # no longer installed
        said = None
    if said is None:
        texts = [
            f"THRESHOLD_STABLE {parameters.threshold_stable:.1%}",
            f"THRESHOLD_MISS_LOW {figures.rate(parameters.threshold_miss_low_per_s)}",
            f"DDIO {parameters.ddio_ways_min}..{parameters.ddio_ways_max} ways",
        ]
    else:
        texts = [sentences.text(one) for one in said] or ["none"]
    texts.append(f"every {parameters.interval_s:g} s")
    lines = [f"Thresholds of {escape.plain(strategy)}"]
    for text in texts:
        lines += escape.hanging(escape.plain(text), width, 4, "  ", "    ")
    return lines


_OTHERS = 2 + 10 + 5 + 8 + 5 + 11 + 9 + 7 + 6
"""Columns of the table of inputs beside the names."""


def as_data(
    iteration: Iteration, inventory: DomainInventory, settings: SettingsInForce | None
) -> dict[str, Any]:
    """Return the content of the page as plain data, for programs."""
    decision = iteration.decision
    names = Names(inventory, iteration.former)
    plain = records.unstructure(dataclasses.replace(decision, steps=iteration.steps))
    plain["why"] = [names.sentence(one) for one in decision.why]
    for step, row in zip(decision.steps, plain["steps"], strict=True):
        row["text"] = names.sentence(step.reason)
    plain["layout"] = _plain_layout(decision.layout)
    return {
        "iteration": decision.iteration,
        "domain": decision.domain,
        "wall_s": iteration.wall_s,
        "written": iteration.effective is not None,
        "way_map": waymap.text(decision.layout, inventory),
        "layout_before": iteration.layout_before and _plain_layout(iteration.layout_before),
        "decision": plain,
        "effective": iteration.effective
        and {subject: str(mask) for subject, mask in iteration.effective.items()},
        "sample": records.unstructure(iteration.sample),
        "timings_us": dict(iteration.timings_us),
        "tenants": {**iteration.former, **{one.id: one.name for one in inventory.tenants}},
        "settings": records.unstructure(settings),
    }


def _plain_layout(layout: Layout) -> dict[str, Any]:
    """Return a layout as plain data, with masks as in all other output: ``0x7ff``."""
    plain: dict[str, Any] = records.unstructure(layout)
    plain["ddio"] = str(layout.ddio)
    for group, row in zip(layout.groups, plain["groups"], strict=True):
        row["mask"] = str(group.mask)
    for one, row in zip(layout.ports, plain["ports"], strict=True):
        row["mask"] = str(one.mask)
    if layout.lent is not None:
        plain["lent"]["mask"] = str(layout.lent.mask)
    return plain
