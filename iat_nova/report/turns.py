# SPDX-License-Identifier: Apache-2.0
"""Decisions as rows, one row per action, as listed by `iat-nova decisions`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from iat_nova.model import DDIO, Action, DomainInventory
from iat_nova.report import escape, times, words
from iat_nova.report.subjects import Subject
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Iteration

PHASE, MOVE = "phase", "move"
KINDS = (*(action.value for action in Action), PHASE, MOVE)
"""The kinds of rows: a strategy's action, a change of its phase, or ways that moved."""

CAUSES = 3  # steps that the reason of a moved mask names


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """One action of a decision. `subject`: a tenant's or port's id, ``ddio``, ``layout``.

    Counts are of ways, None where not known or not applicable. `ports`: ids of ports of devices
    of a strategy's action.
    """

    row: int  # of the history
    wall_s: float
    domain: int
    iteration: int
    kind: str
    subject: str
    name: str
    ways_before: int | None
    ways_after: int | None
    reason: str
    written: bool
    ports: tuple[str, ...] = ()

    @property
    def acts(self) -> bool:
        """Whether the row is a change of ways or phase, not a reason against one."""
        return self.kind not in (Action.WATCH, Action.REFUSE)

    @property
    def what(self) -> str:
        """The action with its tenant and counts: ``grow ddio 2 -> 3``, ``try``."""
        whom = "" if self.subject == "layout" else self.name
        return " ".join(part for part in (self.kind, whom, self.ways) if part)

    @property
    def ways(self) -> str:
        """The counts as ``2 -> 3``; one number if unchanged; empty if not known."""
        counts = [str(one) for one in (self.ways_before, self.ways_after) if one is not None]
        return " -> ".join(counts if self.ways_before != self.ways_after else counts[:1])


def of(reader: HistoryReader, recorded: Recorded) -> list[Turn]:
    """Return one row per action of a recorded decision, in the order of the actions.

    Names are those of the iteration's own inventory; without it the list is empty.
    """
    iteration = recorded.iteration
    inventory = reader.domain_inventory(iteration)
    return [] if inventory is None else list(_turns(recorded.row, iteration, inventory))


def lines(turn: Turn, width: int, name: str = "", also: str = "") -> list[str]:
    """Return an action in lines, its time in front: ``#57 grow 2 -> 3 ways: reason``.

    `name`: the tenant or port, if the page is of another one. `also`: added to the reason.
    """
    ways = f" {turn.ways} way{'' if turn.ways == '1' else 's'}" if turn.ways else ""
    whom = f" {name}" if name else ""
    text = escape.plain(f"#{turn.iteration} {turn.kind}{whom}{ways}: {turn.reason}{also}")
    return escape.hanging(text, width, 4, f"  {times.moment(turn.wall_s)}  ")


def concerns(subject: Subject, turn: Turn) -> bool:
    """Tell whether an action concerns this subject, or a port of the subject's devices."""
    ports = {port for _, tenant in subject.tenants for port in tenant.ports}
    return subject.is_it(turn.subject) or turn.subject in ports


def _turns(row: int, iteration: Iteration, inventory: DomainInventory) -> Iterator[Turn]:
    decision = iteration.decision
    names = words.Names(inventory, iteration.former)

    def turn(kind: str, subject: str, before: int | None, after: int | None, why: str) -> Turn:
        return Turn(
            row,
            iteration.wall_s,
            iteration.domain,
            decision.iteration,
            kind,
            subject,
            names.of(subject),
            before,
            after,
            why,
            iteration.effective is not None,
        )

    if decision.rule is not None or decision.phase != decision.phase_before:
        why = "; ".join((words.state_change(decision), *map(names.sentence, decision.why)))
        yield turn(PHASE, "layout", None, None, why)
    for step in iteration.steps:
        reason = names.sentence(step.reason)
        made = turn(step.action, step.subject, step.ways_before, step.ways_after, reason)
        yield dataclasses.replace(made, ports=step.ports)
    done = [step for step in iteration.steps if step.action.acts]
    changes = [step for step in done if step.action is not Action.KEEP]
    movers = changes or done or iteration.steps
    counted = {step.subject for step in changes}
    ports = {one.id for one in inventory.domain.device_ports}
    for subject in decision.moved:
        if subject not in counted:
            before, after = iteration.layout_before, decision.layout
            was = before.mask_of(subject) if before is not None else None
            now = after.mask_of(subject)
            counts = was and was.count, now and now.count
            why = f"from {was or 'unknown ways'} to {now or 'none'}"
            whole: tuple[str, ...] = ("layout",)
            if subject in ports:  # without ways of its own it has those of DDIO
                why = f"from {was or 'those of DDIO'} to {now or 'those of DDIO'}"
                whole = ("layout", DDIO)
            causes = [step for step in movers if step.subject in whole] or movers
            reasons = "; ".join(map(names.step, causes[:CAUSES]))
            if len(causes) > CAUSES:
                reasons += f"; {len(causes) - CAUSES} more steps"
            yield turn(MOVE, subject, *counts, f"{why}: {reasons}" if reasons else why)


def record(turn: Turn) -> dict[str, Any]:
    """Return a turn as plain values."""
    return {name: value for name, value in dataclasses.asdict(turn).items() if name != "row"}
