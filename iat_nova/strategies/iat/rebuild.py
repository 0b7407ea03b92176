# SPDX-License-Identifier: Apache-2.0
"""Way counts after a change of tenants."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

from iat_nova.model import (
    DDIO,
    Action,
    Allocation,
    CacheDomain,
    Message,
    Parameters,
    Sample,
    Step,
    message,
)
from iat_nova.strategies.iat import demand
from iat_nova.strategies.iat.ledger import ddio_bounds, usable_ways
from iat_nova.strategies.iat.presets import Features
from iat_nova.strategies.iat.roster import Roster, is_best_effort
from iat_nova.strategies.iat.state import Grant, IatState, RosterMember


def found_ddio_ways(roster: Roster, parameters: Parameters) -> int:
    """Return the number of DDIO's ways before any write: as found, otherwise the policy's minimum.

    The number is 0 if devices may fill all ways: such ways are not DDIO's own.
    """
    found = roster.domain.ddio_found
    return found.count if found is not None else ddio_bounds(roster.domain, parameters)[0]


def start_allocation(roster: Roster, parameters: Parameters, features: Features) -> Allocation:
    """Return the counts at a start: initial ways for every tenant, DDIO's ways as found."""
    ddio_ways = found_ddio_ways(roster, parameters)
    return Allocation(ddio_ways, demand.fit(roster, usable_ways(roster, features, ddio_ways), {}))


def above_maximum(
    state: IatState, domain: CacheDomain, parameters: Parameters, features: Features
) -> int:
    """Return the number of granted DDIO ways above DDIO's maximum.

    A new policy may have lowered the maximum. Ways from the start, not granted, stay.
    """
    if not (features.resize_ddio and domain.ddio_resizable):
        return 0
    above = state.allocation.ddio_ways - ddio_bounds(domain, parameters)[1]
    return max(0, min(above, state.granted(DDIO)))


def adopt(
    state: IatState, roster: Roster, parameters: Parameters, features: Features, sample: Sample
) -> tuple[IatState, tuple[Step, ...]]:
    """Return the state for the tenants of `roster`, and steps that describe the changes.

    All tenants start from their initial ways. Then the grants of unchanged tenants are repeated,
    oldest first, as far as ways suffice. Initial ways of new tenants thus come before grants.
    Grants of departed tenants vanish. DDIO keeps its ways unless another program moved them or the
    maximum was lowered. Demands and trials of unchanged tenants continue.
    """
    unchanged = {m.id for m in state.members if roster.by_id.get(m.id) == m}
    ddio_ways, ddio_grants, above = _ddio(state, roster, parameters, features)
    usable = usable_ways(roster, features, ddio_ways)
    fitted = demand.fit(roster, usable, state.allocation.tenants)
    again = _Again(roster, dict(fitted), usable, unchanged)
    grants = [g for g in state.grants if g.subject in unchanged]
    for grant in sorted((*grants, *ddio_grants), key=lambda each: each.at_s):
        again.repeat(grant)
    steps = _steps(state, roster, fitted, again.counts)
    if above:
        reason = message("maximum-is-now", ways=ddio_bounds(roster.domain, parameters)[1])
        steps += (Step(Action.SHRINK, DDIO, reason, state.allocation.ddio_ways, ddio_ways),)
    adopted = dataclasses.replace(
        state,
        domain=roster.domain,
        members=roster.members,
        allocation=Allocation(ddio_ways, again.counts),
        grants=tuple(again.grants),
        backoffs=tuple(b for b in state.backoffs if b.subject in unchanged | {DDIO}),
        reference=_reference(state, sample, unchanged),
        pressing_per_s={tenant: rates.misses_per_s for tenant, rates in sample.tenants.items()},
    )
    trials = (
        one for one in state.trials if state.granted(one.subject) == adopted.granted(one.subject)
    )
    return dataclasses.replace(adopted, trials=tuple(trials)), steps


def _ddio(
    state: IatState, roster: Roster, parameters: Parameters, features: Features
) -> tuple[int, list[Grant], int]:
    """Return the number of DDIO's ways, DDIO's grants, and the ways above a lowered maximum."""
    ddio_ways = state.allocation.ddio_ways
    found = found_ddio_ways(roster, parameters)
    by_hand = roster.domain.ddio_found != state.domain.ddio_found and found != ddio_ways
    # The register was found without effect meanwhile: DDIO's ways are as found.
    fixed_now = state.domain.ddio_resizable and not roster.domain.ddio_resizable
    if state.reference is None or by_hand or fixed_now:
        return found, [], 0
    grants = [grant for grant in state.grants if grant.subject == DDIO]
    above = above_maximum(state, roster.domain, parameters, features)
    return ddio_ways - above, grants[: len(grants) - above], above


def _reference(state: IatState, sample: Sample, unchanged: Collection[str]) -> Sample:
    """Return the new reference: present rates of new tenants, former rates of unchanged tenants.

    A demand that grew while another guest arrived is thus still visible.
    """
    before = state.reference.tenants if state.reference is not None else {}
    kept = {tenant: rates for tenant, rates in before.items() if tenant in unchanged}
    return dataclasses.replace(sample, tenants={**sample.tenants, **kept})


class _Again:
    """Former grants, repeated on fresh counts as far as ways suffice."""

    def __init__(
        self, roster: Roster, counts: dict[str, int], usable: int, unchanged: Collection[str]
    ) -> None:
        self.roster = roster
        self.counts = counts
        self.usable = usable
        self.unchanged = unchanged
        self.grants: list[Grant] = []

    def repeat(self, grant: Grant) -> None:
        """Repeat a grant; do nothing if no way is available."""
        if grant.subject == DDIO:
            self.grants.append(dataclasses.replace(grant, giver=None, given=None))
            return
        if self.counts[grant.subject] >= self.roster.most(self.roster.by_id[grant.subject]):
            return
        idle = self.usable - sum(self.counts.values())
        if idle > 0:
            self.counts[grant.subject] += 1
            # The giver has its initial way back, but not a way granted to the giver.
            away = grant.given is not None and grant.giver in self.unchanged
            self.grants.append(
                grant if away else dataclasses.replace(grant, giver=None, given=None)
            )
        elif idle == 0 and grant.giver is not None and grant.giver in self.unchanged:
            self._take(grant, self.roster.by_id[grant.giver])

    def _take(self, grant: Grant, giver: RosterMember) -> None:
        """Take the way from its giver again, with the giver's latest repeated grant."""
        if not is_best_effort(giver) or self.counts[giver.id] <= self.roster.least(giver):
            return
        given = next((g for g in reversed(self.grants) if g.subject == giver.id), None)
        if given is not None:
            self.grants.remove(given)
        self.counts[giver.id] -= 1
        self.counts[grant.subject] += 1
        self.grants.append(dataclasses.replace(grant, given=given))


def _steps(
    state: IatState, roster: Roster, fitted: Mapping[str, int], counts: Mapping[str, int]
) -> tuple[Step, ...]:
    """Return steps for arrived, departed, changed and reduced tenants."""
    steps: list[Step] = []
    before = {member.id: member for member in state.members}
    if state.reference is None:
        steps.append(
            Step(Action.ADOPT, "layout", message("first-layout", tenants_count=len(counts)))
        )
    else:
        for member in roster.members:
            reason = _difference(before.get(member.id), member)
            if reason is not None:
                was = state.allocation.tenants.get(member.id)
                steps.append(Step(Action.ADOPT, member.id, reason, was, counts[member.id]))
        steps += [
            Step(Action.ADOPT, gone, message("left"), state.allocation.tenants.get(gone), None)
            for gone in before
            if gone not in roster.by_id
        ]
        if not steps and state.domain != roster.domain:
            steps.append(Step(Action.ADOPT, "layout", message("domain-changed")))
    wanted = {member.id: roster.initial(member) for member in roster.members}
    for tenant, ways in fitted.items():
        known = (
            state.reference is not None and state.allocation.tenants.get(tenant) == counts[tenant]
        )
        if ways < wanted[tenant] and not known:
            reason = message("cut", wanted=sum(wanted.values()), ways=wanted[tenant])
            steps.append(Step(Action.GIVE, tenant, reason, wanted[tenant], ways))
    return tuple(steps)


def _difference(before: RosterMember | None, after: RosterMember) -> Message | None:
    """Return a message about a tenant's change, or None."""
    if before is None:
        return message("arrived")
    if before == after:
        return None
    if after.ways.held and after.ways != before.ways:
        return message("held", ways=after.ways.min)
    if before.ways.held and not after.ways.held:
        return message("held-no-more")
    fields = tuple(
        field.name
        for field in dataclasses.fields(RosterMember)
        if getattr(before, field.name) != getattr(after, field.name)
    )
    return message("fields-changed", fields=fields)
