# SPDX-License-Identifier: Apache-2.0
"""Decisions in words: the line for the log, and phrases that several pages share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.common import amounts as figures
from iat_nova.model import (
    UNLIMITED,
    Decision,
    DeviceModel,
    DomainInventory,
    Hold,
    Layout,
    Message,
    Pause,
    PmdThread,
    Sample,
    Step,
    VirtualSwitch,
    WayMask,
)
from iat_nova.model.reasons import Reason
from iat_nova.report import escape, sentences, times

if TYPE_CHECKING:  # slow to load, and every command loads this module
    from iat_nova.store.records import Iteration, Status

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
    acted = [step for step in iteration.steps if step.action.acts]
    shown = iteration.steps if why or not acted else acted
    parts = [state, *(escape.plain(names.step(step)) for step in shown)]
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
        """Return the sentence of a message with unescaped names, for programs."""
        return sentences.text(message, self.of)

    def step(self, step: Step) -> str:
        """Return ``grow ddio 2 -> 3 ways: reason``; without a tenant ``keep: reason``."""
        ways = ""
        if step.ways_before is not None and step.ways_after is not None:
            ways = f" {step.ways_before} -> {step.ways_after} ways"
        elif step.ways_after is not None:
            ways = f" {figures.ways(step.ways_after)}"
        whom = "" if step.subject == "layout" else f" {self.of(step.subject)}"
        return f"{step.action}{whom}{ways}: {self.sentence(step.reason)}"

    def cut(self, subject: str, columns: int) -> str:
        """Shorten a name to `columns`, but keep the suffix that distinguishes equal names."""
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


def coerced(iteration: Iteration, inventory: DomainInventory) -> list[str]:
    """Return the masks that the machine changed, one sentence each."""
    names = Names(inventory, iteration.former)
    return [
        f"{names(subject)}: asked for {decided}, the machine has {mask}"
        for subject, (decided, mask) in iteration.coerced.items()
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


TITLE = 11
"""The columns of the titles in pages of `iat-nova explain`."""


def titled(title: str, texts: Iterable[str], width: int, most: int = 12) -> list[str]:
    """Return texts in lines behind a title, each text wrapped in at most `most` lines."""
    lines = (line for text in texts for line in escape.wrap(text, width - TITLE, most))
    return [f"{'' if number else title:<{TITLE}}{line}" for number, line in enumerate(lines)]


def columns(rows: Sequence[tuple[str, ...]], alignment: str, blanks: int = 2) -> list[str]:
    """Align rows in columns, with `blanks` between columns and two in front."""
    widths = escape.widths(rows)
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


def once(said: Sequence[tuple[int, Sequence[str]]]) -> list[str]:
    """Return the texts of all cache domains, each once, with a domain if not said of all."""
    found: dict[str, list[int]] = {}
    for domain, texts in said:
        for text in texts:
            found.setdefault(text, []).append(domain)
    return [
        f"domain {domains[0]}: {text}"
        if len(domains) < len(said) and f"domain {domains[0]}" not in text
        else text
        for text, domains in found.items()
    ]
