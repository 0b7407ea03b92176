# SPDX-License-Identifier: Apache-2.0
"""Decisions in words: one line for the log, a page for `iat-nova explain`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from iat_nova.common import amounts as figures
from iat_nova.model import (
    DDIO,
    UNLIMITED,
    Change,
    Decision,
    DeviceModel,
    DomainInventory,
    Hold,
    Layout,
    Message,
    Parameters,
    Pause,
    PmdThread,
    Quantity,
    Sample,
    Step,
    VirtualSwitch,
    WayMask,
)
from iat_nova.model.reasons import Reason
from iat_nova.report import escape, sentences, times, waymap
from iat_nova.store.records import Iteration, SettingsInForce, Status

QUANTITY_NAMES: Mapping[Quantity, str] = {
    Quantity.IPC: "IPC",
    Quantity.REFERENCES: "LLC references",
    Quantity.MISSES: "LLC misses",
    Quantity.DDIO_HITS: "DDIO hits",
    Quantity.DDIO_MISSES: "DDIO misses",
}

ATTACHED: Mapping[str, str] = {
    DeviceModel.AGGREGATION: "via OVS",
    DeviceModel.SLICING: "VF or device",
    DeviceModel.NONE: "-",
}
"""What people read for a `DeviceModel`; policies and JSON have the codes."""


def line(iteration: Iteration, inventory: DomainInventory) -> str:
    """Return a decision in one line, for the log."""
    decision = iteration.decision
    done = deeds(iteration, inventory, why=True)
    return f"domain {decision.domain} #{decision.iteration}: {done}"


def deeds(iteration: Iteration, inventory: DomainInventory, *, why: bool = False) -> str:
    """Return a decision's actions in one line: phase, steps, moved tenants, bandwidth limits.

    Rejected changes, and reasons of the phase or for doing nothing, are left out beside actions
    unless `why` is true.
    """
    decision = iteration.decision
    names = Names(inventory, iteration.former)
    state = state_change(decision)
    if decision.why and (why or not decision.steps):
        state += f": {'; '.join(map(names.within, decision.why))}"
    acted = [step for step in decision.steps if step.action.acts]
    parts = [state]
    parts += [step_words(one, names) for one in (decision.steps if why or not acted else acted)]
    if decision.moved:
        moved = [*map(names, decision.moved)]
        parts.append(f"moved: {', '.join(moved) if why else figures.names(moved)}")
    parts += limits(iteration, inventory, names)
    return "; ".join(parts)


def phase(name: str) -> str:
    """Return a strategy's phase name as a harmless title: ``I/O demand`` becomes I/O Demand."""
    return " ".join(word[:1].upper() + word[1:] for word in escape.plain(name).split(" "))


def state_change(decision: Decision, arrow: str = "->") -> str:
    """Return ``Low Keep -> I/O Demand (1)``, or the unchanged phase."""
    after = phase(decision.phase)
    if decision.phase == decision.phase_before and decision.rule is None:
        return after
    number = f" ({decision.rule})" if decision.rule is not None else ""
    return f"{phase(decision.phase_before)} {arrow} {after}{number}"


def step_words(step: Step, names: Names) -> str:
    """Return ``grow ddio 2 -> 3 ways: reason``; without a tenant ``keep: reason``."""
    ways = ""
    if step.ways_before is not None and step.ways_after is not None:
        ways = f" {step.ways_before} -> {step.ways_after} ways"
    elif step.ways_after is not None:
        ways = f" {figures.ways(step.ways_after)}"
    whom = "" if step.subject == "layout" else f" {names(step.subject)}"
    return f"{step.action}{whom}{ways}: {names.within(step.reason)}"


class Names:
    """Maps tenant ids to names, harmless for a terminal. `former`: names of tenants that left."""

    def __init__(self, inventory: DomainInventory, former: Mapping[str, str] | None = None) -> None:
        self._names = {**(former or {}), **inventory.names}
        self._marks = inventory.marks

    def __call__(self, subject: str) -> str:
        """Return a tenant's name; the subject itself for DDIO, the layout and unknown ids."""
        return escape.plain(self.of(subject))

    def within(self, message: Message) -> str:
        """Return the sentence of a message, harmless for a terminal."""
        return escape.plain(self.sentence(message))

    def of(self, subject: str) -> str:
        """Return the unescaped name, for programs."""
        return self._names.get(subject, subject)

    def sentence(self, message: Message) -> str:
        """Return the sentence of a message with names as their owners chose them, for programs."""
        return sentences.text(message, self.of)

    def cut(self, subject: str, columns: int) -> str:
        """Return the name in at most that many columns, with its distinguishing suffix."""
        name = self(subject)
        end = self._marks.get(subject, "")
        return escape.middle(name[: len(name) - len(end)], columns - len(end)) + end


def observing(status: Status) -> str | None:
    """Return why the agent only observes, or None."""
    return "; ".join(texts(status.reasons)) or None


def texts(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """Return the sentences of reasons."""
    return tuple(sentences.text(reason.message) for reason in reasons)


def held(hold: Hold, wall_s: float | None = None) -> str:
    """Return tenant, ways, end, author and reason of a hold.

    For an unreadable file return only the reason.
    """
    if not hold.ways:
        return hold.reason
    return f"{hold.name} at {figures.ways(hold.ways)} " + until(hold, "release", wall_s)


def until(one: Hold | Pause, command: str, wall_s: float | None = None) -> str:
    """Return ``until ... by eve: why``; without an end, `command` is named as the end.

    With `wall_s`, the text includes the remaining time.
    """
    if math.isinf(one.until_s):
        text = f"until `iat-nova {command}`"
    else:
        text = f"until {times.moment(one.until_s)}"
        text += f" ({times.duration(one.until_s - wall_s)} left)" if wall_s is not None else ""
    text += f" by {one.by}" if one.by else ""
    return f"{text}: {one.reason}" if one.reason else text


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
) -> str:
    """Return the page of reasons: transition, steps, way maps, inputs and, if asked, thresholds."""
    decision = iteration.decision
    names = Names(inventory, iteration.former)
    written = "written" if iteration.effective is not None else "only observed, nothing written"
    parameters = settings.parameters.of(iteration.domain) if settings else None
    blocks = [
        [
            f"Iteration #{decision.iteration} of cache domain {decision.domain}, "
            f"{times.moment(iteration.wall_s)}, {written}"
        ],
        _state_block(decision, names, width),
        _changes_block(decision, iteration, names, parameters),
        _steps_block(decision, names, width),
        _map_block(iteration, inventory, width, colour),
        _inputs_block(iteration, inventory, width),
    ]
    if thresholds and settings is not None and parameters is not None:
        blocks.append(_thresholds_block(settings.strategy, parameters, width))
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _state_block(decision: Decision, names: Names, width: int) -> list[str]:
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
    wrapped = [line for text in (*texts, *why) for line in escape.wrap(text, width - 11, 12)]
    return [f"{'' if number else 'State':<11}{line}" for number, line in enumerate(wrapped)]


def _changes_block(
    decision: Decision, iteration: Iteration, names: Names, parameters: Parameters | None
) -> list[str]:
    if not decision.changes:  # actions without changes have another cause, given by their steps
        return ["Changes: none"] if decision.stable else []
    since = ""
    if decision.since_s is not None:
        since = f" since {times.moment(iteration.wall_s - (iteration.at_s - decision.since_s))}"
    lines = [f"Changes{since}"]
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


def _steps_block(decision: Decision, names: Names, width: int) -> list[str]:
    if not decision.steps:
        return ["What was done: nothing"]
    lines = ["What was done"]
    for step in decision.steps:
        first, *more = escape.wrap(step_words(step, names), width - 4, 12)
        lines += [f"  {first}", *(f"    {line}" for line in more)]
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
    drawn = waymap.text(decision.layout, inventory, width=width - 9, colour=colour)
    lines.append(f"  after  {drawn}")
    lines += [f"         {line}" for line in waymap.sets(decision.layout, inventory, width - 9)]
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
    lines += columns(moved, "llll") if moved else []
    lines += [f"  {text}" for text in _lent(decision.layout, names)]
    lines += [f"  {text}" for text in limits(iteration, inventory, names)]
    lines += [f"  {text}" for text in limited(decision.layout, inventory, names)]
    return lines + [f"  {text}" for text in coerced(iteration, inventory)]


def _lent(layout: Layout, names: Names) -> Iterator[str]:
    """Yield the ways that are guaranteed to no tenant and lent to the host's class."""
    if layout.lent is None:
        return
    (host,) = layout.lent.tenants
    yield (
        f"{names(host)}: {figures.ways(layout.lent.mask.count)} counted; {_ways_of(host, layout)} "
        "lent, as nobody is promised them: they return to the tenant that is granted them"
    )


def limits(
    iteration: Iteration, inventory: DomainInventory, names: Callable[[str], str]
) -> list[str]:
    """Return the changed limits of memory bandwidth, one sentence each."""
    changed = iteration.decision.layout.limits_since(iteration.layout_before)
    return [
        f"{names(tenant)}: memory bandwidth {left(was, inventory)} -> {left(now, inventory)}"
        for tenant, (was, now) in changed.items()
    ]


def left(percent: int, inventory: DomainInventory) -> str:
    """Return the memory bandwidth that a limit leaves: ``40 %``, or ``40 % (19 GB/s)``."""
    control = inventory.domain.bandwidth
    gbps = control.gbps(percent) if control is not None and percent < UNLIMITED else None
    return f"{percent} %" if gbps is None else f"{percent} % ({gbps:g} GB/s)"


def limited(
    layout: Layout, inventory: DomainInventory, names: Callable[[str], str]
) -> Iterator[str]:
    """Yield the tenants with a limit of memory bandwidth, one sentence each."""
    for group in layout.groups:
        for tenant in group.tenants:
            if group.bandwidth != UNLIMITED:
                share = left(group.bandwidth, inventory)
                yield f"{names(tenant)}: memory bandwidth limited to {share}"


def _ways_of(subject: str, layout: Layout | None) -> str:
    """Return ``2 ways 0x3``."""
    if layout is None:
        return "-"
    mask = layout.ddio if subject == DDIO else layout.mask_of(subject)
    return f"{figures.ways(mask.count)} {mask}" if mask is not None else "-"


def coerced(iteration: Iteration, inventory: DomainInventory) -> list[str]:
    """Return the masks that the machine changed, one sentence each."""
    names = Names(inventory, iteration.former)
    return [
        f"{names(subject)}: asked for {decided}, the machine has {mask}"
        for subject, (decided, mask) in iteration.coerced.items()
    ]


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
    if layout.dca_off:
        ddio += f", off at root ports {', '.join(layout.dca_off)}"
    return [
        f"What was measured over {sample.interval_s:.2f} s, "
        + ("with the ways before the decision" if before else "beside the ways after the decision"),
        f"  DDIO {place}: {ddio}",
        *(line.rstrip() for line in columns(rows, "llrrrrrrl", 1)),
    ]


def ddio_place(mask: WayMask) -> str:
    """Return the ways to which devices write: ``2 ways 0x600``."""
    return f"{figures.ways(mask.count)} {mask}" if mask else "in any way"


def inbound(sample: Sample) -> str:
    """Return the rates of inbound writes: DDIO hits and misses where both are counted."""
    hits, misses = sample.ddio_hits_per_s, sample.ddio_misses_per_s
    if hits is not None and misses is not None:
        return f"hits {figures.rate(hits)}, misses {figures.rate(misses)}"
    if sample.ddio_writes_per_s is not None:
        return f"writes {figures.rate(sample.ddio_writes_per_s)}, hits not known"
    return "no counters"


def pmd_threads(switch: VirtualSwitch | None, cpus: Iterable[int]) -> list[str]:
    """Return the activity of PMD threads on these CPUs, a text each: ``CPU 2 83% busy, ...``."""
    among = frozenset(cpus)
    return [
        _pmd_thread(one)
        for one in (switch.pmd_threads if switch is not None else ())
        if one.cpu in among
    ]


def _pmd_thread(one: PmdThread) -> str:
    parts = [f"{one.busy:.0%} busy" if one.busy is not None else "did nothing"]
    if one.cycles_per_packet is not None:
        parts.append(f"{one.cycles_per_packet:.0f} cycles/packet")
        parts.append(f"{figures.rate(one.packets_per_s)} packets")
    if one.lost_upcalls_per_s:
        parts.append(f"{figures.rate(one.lost_upcalls_per_s)} upcalls lost")
    return f"CPU {one.cpu} {', '.join(parts)}"


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
        first, *more = escape.wrap(escape.plain(text), width - 4, 4)
        lines += [f"  {first}", *(f"    {line}" for line in more)]
    return lines


_OTHERS = 2 + 10 + 5 + 8 + 5 + 11 + 9 + 7 + 6
"""Columns of the table of inputs beside the names."""


def columns(rows: Sequence[tuple[str, ...]], alignment: str, blanks: int = 2) -> list[str]:
    """Align rows in columns, with `blanks` between columns and two in front."""
    widths = [max(escape.width(row[number]) for row in rows) for number in range(len(alignment))]
    return [
        (
            "  "
            + (" " * blanks).join(
                escape.fit(text, room, right=side == "r")
                for text, room, side in zip(row, widths, alignment, strict=True)
            )
        ).rstrip()
        for row in rows
    ]
