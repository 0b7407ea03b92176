# SPDX-License-Identifier: Apache-2.0
"""Tenants came, went or changed: the way counts with which the loop goes on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.control import demand, words
from iat_nova.control.ledger import ddio_bounds
from iat_nova.control.roster import Roster, is_best_effort
from iat_nova.control.state import DDIO, Grant, Member, State
from iat_nova.model import Action, Allocation, Parameters, Sample, Step, Switches


def found_ddio_ways(roster: Roster, parameters: Parameters) -> int:
    """Return how many ways DDIO has before we touch it: as found, else the policy's minimum."""
    found = roster.domain.ddio_found
    return found.count if found else ddio_bounds(roster.domain, parameters)[0]


def start_allocation(
    roster: Roster, parameters: Parameters, switches: Switches, sample: Sample | None
) -> Allocation:
    """Return the counts of a start: every tenant its initial ways, DDIO those found."""
    ddio_ways = found_ddio_ways(roster, parameters)
    usable = _usable(roster, switches, ddio_ways)
    return Allocation(ddio_ways, demand.fit(roster, usable, sample))


def adopt(
    state: State, roster: Roster, parameters: Parameters, switches: Switches, sample: Sample
) -> tuple[State, tuple[Step, ...]]:
    """Return the state with the tenants of `roster`, and what changed.

    Everybody starts from the initial ways again, then the grants of those who are still here and
    unchanged are repeated, oldest first, as far as ways suffice; so a newcomer's initial ways come
    before grants. Grants of leavers vanish. DDIO keeps its ways unless another hand moved them.
    """
    unchanged = {m.id for m in state.members if roster.by_id.get(m.id) == m} | {DDIO}
    ddio_ways = state.allocation.ddio_ways
    grants = [grant for grant in state.grants if grant.subject in unchanged]
    found = found_ddio_ways(roster, parameters)
    by_hand = roster.domain.ddio_found != state.domain.ddio_found and found != ddio_ways
    # its knob was found without effect meanwhile: it lies where it was found
    fixed_now = state.domain.ddio_resizable and not roster.domain.ddio_resizable
    if state.reference is None or by_hand or fixed_now:
        ddio_ways = found
        grants = [grant for grant in grants if grant.subject != DDIO]
    usable = _usable(roster, switches, ddio_ways)
    counts = demand.fit(roster, usable, sample)
    kept = tuple(
        repeated
        for grant in grants
        if (repeated := _repeat(grant, roster, counts, usable)) is not None
    )
    steps = _steps(state, roster, counts)
    adopted = dataclasses.replace(
        state,
        domain=roster.domain,
        members=roster.members,
        allocation=Allocation(ddio_ways, counts),
        grants=kept,
        trials=(),
        backoffs=tuple(b for b in state.backoffs if b.subject in unchanged),
    )
    return adopted, steps


def _usable(roster: Roster, switches: Switches, ddio_ways: int) -> int:
    shut = ddio_ways if switches.avoid_ddio else 0
    return roster.domain.ways - roster.domain.reserved_ways.count - shut


def _repeat(grant: Grant, roster: Roster, counts: dict[str, int], usable: int) -> Grant | None:
    """Apply a former grant to fresh counts; None when there is no way for it any more."""
    if grant.subject == DDIO:
        return dataclasses.replace(grant, giver=None)
    if counts[grant.subject] >= roster.most(roster.by_id[grant.subject]):
        return None
    if sum(counts.values()) < usable:
        counts[grant.subject] += 1
        return dataclasses.replace(grant, giver=None)
    giver = roster.by_id.get(grant.giver or "")
    if giver is None or not is_best_effort(giver):
        return None
    if counts[giver.id] <= roster.least(giver) or sum(counts.values()) > usable:
        return None
    counts[giver.id] -= 1
    counts[grant.subject] += 1
    return grant


def _steps(state: State, roster: Roster, counts: Mapping[str, int]) -> tuple[Step, ...]:
    """Name what changed: who came, left and changed, and who was cut to fit."""
    steps: list[Step] = []
    before = {member.id: member for member in state.members}
    if state.reference is None:
        steps.append(Step(Action.ADOPT, "layout", f"first layout of {len(counts)} tenants"))
    else:
        for member in roster.members:
            reason = _difference(before.get(member.id), member)
            if reason is not None:
                was = state.allocation.tenants.get(member.id)
                steps.append(Step(Action.ADOPT, member.id, reason, was, counts[member.id]))
        steps += [
            Step(Action.ADOPT, gone, "left", state.allocation.tenants.get(gone), None)
            for gone in before
            if gone not in roster.by_id
        ]
        if not steps:
            steps.append(Step(Action.ADOPT, "layout", "the cache domain changed"))
    for member in roster.best_effort:
        wanted = roster.initial(member)
        if (
            counts[member.id] < wanted
            and state.allocation.tenants.get(member.id) != counts[member.id]
        ):
            reason = f"all together want more ways than there are: cut from {words.ways(wanted)}"
            steps.append(Step(Action.GIVE, member.id, reason, wanted, counts[member.id]))
    return tuple(steps)


def _difference(before: Member | None, after: Member) -> str | None:
    """Say what became different of a tenant, None when nothing did."""
    if before is None:
        return "arrived"
    if before == after:
        return None
    fields = [
        field.name
        for field in dataclasses.fields(Member)
        if getattr(before, field.name) != getattr(after, field.name)
    ]
    return f"its {', '.join(fields)} changed"
