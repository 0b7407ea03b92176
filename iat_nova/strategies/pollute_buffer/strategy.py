# SPDX-License-Identifier: Apache-2.0
"""One iteration: measure, try, keep or undo, rest. Pure: all memory is in the `State`."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from iat_nova.model import (
    DDIO,
    Action,
    CacheDomain,
    Decision,
    DomainInventory,
    Layout,
    Message,
    Parameters,
    Priority,
    Sample,
    Step,
    message,
)
from iat_nova.strategies import readings
from iat_nova.strategies.outlook import Outlook
from iat_nova.strategies.pollute_buffer import arrivals, judge, masks, search, trial, watch
from iat_nova.strategies.pollute_buffer import plan as plans
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase, State, members_of

Outcome = tuple[State, tuple[Step, ...], tuple[Message, ...]]
"""The next state, the steps, and the reasons for the phase or for doing nothing."""

_MINUTE_S = 60.0
SHORT_S = 5.0  # seconds; after a shorter load, the next load must last this long before a trial


class PolluteBuffer:
    """The pollute-buffer strategy; see the package.

    `without`: families of moves (`moves.FAMILIES`) to leave out, to measure the benefit of each.
    """

    state_type = State
    phases = tuple(phase.value for phase in Phase)

    def __init__(self, parameters: Parameters, *, without: Collection[str] = ()) -> None:
        self.parameters = parameters
        self._without = frozenset(without)

    @staticmethod
    def thresholds(parameters: Parameters) -> tuple[Message, ...]:
        """Return the thresholds of the strategy and of the policy."""
        return (
            message("threshold-tried", samples=judge.ENOUGH),
            message("threshold-kept", gain=judge.PAYS, samples=trial.LOOKS),
            message("threshold-kept-at-once", gain=judge.OBVIOUS),
            message("threshold-best-effort", share=parameters.best_effort_min),
            message("threshold-undone-at-once"),
            message("threshold-suffers", share=trial.SUFFERS),
            message("threshold-repaid", cost_s=search.COST * parameters.interval_s),
            message("threshold-port-dca-saves", share=trial.SUFFERS),
            message("threshold-ddio-least", ways=parameters.ddio_ways_min),
            message("threshold-ddio-busy", misses_per_s=parameters.threshold_miss_low_per_s),
        )

    def initial(
        self, inventory: DomainInventory, at_s: float, layout: Layout | None = None
    ) -> State:
        """Return the state before the first step: a host as found, no tenant confined."""
        del layout, at_s
        domain = inventory.domain
        return State(iteration=0, domain=domain, members=(), plan=self._found(domain))

    def _found(self, domain: CacheDomain) -> Plan:
        """Return the plan of a host as found."""
        return plans.found(domain, self.parameters.ddio_ways_min)

    def outlook(self, state: State, at_s: float) -> Outlook:
        """Return whether moves are left; `at_s`: now, in seconds of the loop's clock."""
        if state.calm_s and at_s < state.load_since_s + state.calm_s:
            return Outlook.UNSETTLED
        if state.phase is not Phase.REST or search.least(state, at_s, self.parameters) > judge.PAYS:
            return Outlook.SEARCHING  # a promise may repay a trial later
        failed = any(one.what is not None for one in search.failures(state, at_s, self.parameters))
        return Outlook.ALL_FAILED if failed else Outlook.NO_PROMISE

    def step(
        self, state: State, inventory: DomainInventory, sample: Sample
    ) -> tuple[State, Decision]:
        """Run one iteration: return the next state and the decision."""
        now = Now.seen(inventory, sample)
        facts = members_of(inventory), inventory.domain
        known = state.layout is not None and facts == (state.members, state.domain)
        phases = {Phase.MEASURE: self._measure, Phase.TRIAL: self._judge, Phase.REST: self._rest}
        act = phases[state.phase] if known else self._adopt
        return _written(state, now, act(state, now))

    def _adopt(self, state: State, now: Now) -> Outcome:
        """Keep the plan for unchanged tenants after a change of tenants or domain, and measure."""
        inventory = now.inventory
        members = members_of(inventory)
        here = frozenset(member.id for member in members)
        before = {member.id for member in state.members}
        unchanged = {member.id for member in members if member in state.members}
        confined = state.plan.confined
        # Where no tenant outside the buffer is left, none is in it either.
        plan = state.plan.without(confined if confined >= here else confined - here)
        if state.layout is None or inventory.domain.ddio_found != state.domain.ddio_found:
            plan = dataclasses.replace(plan, ddio=self._found(inventory.domain).ddio)
        plan = dataclasses.replace(arrivals.ports_in_use(plan, inventory), limits=())
        fits = masks.fits(inventory.domain, plan.own, plan.ddio)
        # Where DDIO has fewer ways than before, there may be room for further guarantees.
        if members != state.members or not fits or plan.ddio < state.plan.ddio:
            plan = self._with_promises(plan, now)
        failures = arrivals.still_failed(state, members)  # would fail again
        after = dataclasses.replace(
            state,
            domain=inventory.domain,
            members=members,
            plan=self._with_classes(plan, now),
            load_since_s=state.load_since_s if failures else now.at_s - SHORT_S,
            failures=failures,
            found={one: look for one, look in state.found.items() if one in unchanged},
        )
        told = {one: message("left") for one in before - here}
        told |= {
            one: message("arrived-with", ways=arrivals.has(inventory, after.plan, one))
            for one in here - before
        }
        told = told or arrivals.changes(state.members, members)
        told = told or {"layout": message("domain-changed")}
        steps = [Step(Action.ADOPT, one, what) for one, what in told.items()]
        if state.trial is not None and members != state.members:
            steps.append(_undone(state.trial, message("tenants-changed")))
        return _afresh(after), tuple(sorted(steps, key=lambda step: step.subject)), ()

    def _with_promises(self, plan: Plan, now: Now) -> Plan:
        """Return the plan with guaranteed ways.

        Without room for guaranteed ways, additional ways of DDIO end. A tenant whose held ways do
        not fit leaves the buffer: it has all shared ways.
        """
        domain, found = now.inventory.domain, self._found(now.inventory.domain).ddio
        fewest = min(found, plan.ddio or found)  # 0: devices may fill any way
        own = masks.promised(now.inventory, fewest, now.looks)
        if set(own) == set(plan.own):  # in the same order, as far as `promised` leaves a choice
            standing = {one.id: masks.standing(one) for one in now.inventory.tenants}
            own = tuple(sorted(plan.own, key=lambda one: standing[one.tenant]))
        ddio = plan.ddio if masks.fits(domain, own, plan.ddio) else fewest
        held = {one.id for one in now.inventory.tenants if one.ways.held}
        plan = plan.without(frozenset(held - {one.tenant for one in own}))
        return dataclasses.replace(plan, own=own, lenders=(), ddio=ddio)

    def _with_classes(self, plan: Plan, now: Now) -> Plan:
        """Return the plan, or the plan as found if there are too few classes of service.

        A plan may need too many classes after a tenant arrives, gets own ways again, or leaves the
        buffer.
        """
        if masks.has_classes(now.inventory, plan):
            return plan
        return self._with_promises(self._found(now.inventory.domain), now)

    def _measure(self, state: State, now: Now) -> Outcome:
        """Measure speeds under the present plan, then begin a trial."""
        changed = judge.other_loads(now.inventory.tenants, state.looks, now.looks)
        if state.counted and changed:
            return self._another_load(state, now, changed)
        seen = judge.measured_outside(_looked(state, now), now.inventory.tenants)
        if now.at_s < seen.load_since_s + seen.calm_s:
            lasted_s = now.at_s - seen.load_since_s
            why = message("load-too-short", lasted_s=round(lasted_s, 1), calm_s=seen.calm_s)
            return seen, (), (why,)
        if seen.counted < judge.ENOUGH:
            why = message("first-samples", number=seen.counted, samples=judge.ENOUGH)
            return seen, (), (why,)
        return self._search(seen, now)

    def _another_load(
        self, state: State, now: Now, changed: tuple[str, ...], why: Message | None = None
    ) -> Outcome:
        """Measure again after a change of load; `changed`: tenants with another load.

        `why`: another cause than the load of the first of them.
        If loads change too often for trials, the plan is that of a host without the agent, with
        guaranteed ways. A tenant with a new load leaves the buffer, because the former load was
        the reason for confinement. All lending ends if misses stall a lender.
        """
        why = why or message("another-load", tenant=changed[0])
        lasted_s = now.at_s - state.load_since_s
        short_s = SHORT_S if changed else 0.0  # traffic alone may come in bursts
        often = lasted_s < max(short_s, 2 * state.calm_s)
        calm_s = 0.0
        if often:
            calm_s = min(max(2 * state.calm_s, SHORT_S), self.parameters.backoff_max_s)
            plan = self._with_promises(self._found(now.inventory.domain), now)
            what = message("no-trials", cause=why, lasted_s=lasted_s, calm_s=calm_s)
        else:
            plan = dataclasses.replace(state.plan, limits=())
            # One sample of the new load does not show yet what it costs lenders.
            lenders = now.looks.keys() & plan.lenders
            called = any(now.looks[one].stalled > judge.PAYS for one in lenders)
            plan = self._anew(plan, changed, state, now, called=called)
            what = message("measuring-anew", cause=why)
        fresh = dataclasses.replace(_afresh(state), load_since_s=now.at_s, calm_s=calm_s, plan=plan)
        subject = state.trial.subject if state.trial is not None else "layout"
        action = Action.WATCH if state.trial is None else Action.UNDO
        return fresh, (Step(action, subject, what),), ()

    def _judge(self, state: State, now: Now) -> Outcome:
        """Keep the move on trial, undo the move, or take another sample.

        After a kept move the trial's readings are the next base. After an undone move the strategy
        rests, so that the next baseline is free of the trial's after-effects.
        """
        move, seen = state.trial, trial.shown(state, now, self.parameters)
        assert move is not None
        if seen.other:
            why = message("undone-by-load", move=move.what, tenant=seen.other)
            return self._another_load(state, now, seen.changed, why)
        if seen.keep is None:
            on = dataclasses.replace(state, trial_looks=seen.looks, trial_counted=seen.counted)
            return on, (), (seen.why,)
        if not seen.keep:
            barred = move.plan.barred(state.plan)
            failures = self._failed(state, barred, move.what, now.at_s, seen.why)
            undone = dataclasses.replace(state, failures=failures)
            return _to_rest(undone), (_undone(move, seen.why),), ()
        kept = dataclasses.replace(
            state,
            plan=move.plan,
            failures=self._failed(state, state.plan.barred(move.plan), None, now.at_s),
            looks=seen.looks,
            counted=seen.counted,
            trial=None,
        )
        why = message("kept", move=move.what, cause=seen.why)
        step = Step(Action.KEEP, move.subject, why, ports=move.ports)
        return self._search(kept, now, step)

    def _failed(
        self,
        state: State,
        plan: Plan,
        what: Message | None,
        at_s: float,
        why: Message | None = None,
    ) -> tuple[Failure, ...]:
        """Return the failures with a further one, barred for twice as long as the last time."""
        least, most = self.parameters.backoff_initial_s, self.parameters.backoff_max_s
        last = next((one.delay_s for one in state.failures if one.plan == plan), 0.0)
        delay_s = min(max(2 * last, least), most)
        others = (one for one in state.failures if one.plan != plan and one.until_s + most > at_s)
        return (*others, Failure(plan, what, delay_s, at_s + delay_s, why))

    def _search(self, state: State, now: Now, *steps: Step) -> Outcome:
        """Begin a trial of the next move; without a move, rest."""
        move, causes = search.next_move(state, now, self.parameters, self._without)
        if move is None:
            return _to_rest(state), steps, (message("nothing-to-try", causes=causes),)
        return _on_trial(state, move, causes[0], *steps)

    def _rest(self, state: State, now: Now) -> Outcome:
        """Watch the load; measure again after a change, else try the next move that may pay."""
        both = now.inventory.tenants, state.looks, now.looks
        if changed := judge.other_loads(*both):
            return self._another_load(state, now, changed)
        seen, cause, calm = watch.watch(state, now)
        if cause and judge.other_traffic(*both, state.deviation):
            return self._another_load(state, now, (), cause)
        if cause:
            lenders = frozenset(state.plan.lenders)
            woken = lenders & (now.looks.keys() - state.looks.keys())
            called = bool(woken or trial.suffering(state, now.looks, lenders))
            plan = self._anew(state.plan, (), state, now, called=called)
            step = Step(Action.WATCH, "layout", message("measuring-anew", cause=cause))
            fresh = _afresh(dataclasses.replace(seen, plan=plan))
            return fresh if plan != seen.plan else _looked(fresh, now), (step,), ()
        why = (*calm, *watch.ddio(now, self.parameters))
        if seen.strange or seen.counted < judge.ENOUGH:
            return seen, (), why
        move, causes = search.next_move(seen, now, self.parameters, self._without)
        if move is not None:
            return _on_trial(seen, move, causes[0])
        if state.counted < judge.ENOUGH:
            why = (*why, message("nothing-to-try", causes=causes))  # once
        return seen, (), why

    def _anew(
        self, plan: Plan, gone: tuple[str, ...], state: State, now: Now, *, called: bool
    ) -> Plan:
        """Return the plan to begin with, without the confined tenants `gone`.

        Nor are receivers with other traffic in the buffer. `called`: whether all lending ends.
        """
        if called:
            plan = self._with_promises(plan, now)
        plan = plan.without(_receivers_with_other_traffic(state, now).union(gone))
        return self._with_classes(plan, now)


def _receivers_with_other_traffic(state: State, now: Now) -> frozenset[str]:
    """Return the critical tenants with I/O in the buffer whose references have changed.

    A receiver without packets looks like a stream, and may have been confined for that.
    """
    return frozenset(
        one.id
        for one in now.inventory.tenants
        if one.io and one.priority is not Priority.BE and one.id in state.plan.confined
        if (was := state.looks.get(one.id)) and (seen := now.looks.get(one.id))
        if readings.another(was.references_per_s, seen.references_per_s)
    )


def _on_trial(state: State, move: Move, why: Message, *steps: Step) -> Outcome:
    begun = dataclasses.replace(
        state, phase=Phase.TRIAL, trial=move, trial_looks={}, trial_counted=0
    )
    reason = message("tried", move=move.what, cause=why)
    step = Step(Action.TRY, move.subject, reason, ports=move.ports)
    return begun, (*steps, step), ()


def _undone(move: Move, why: Message) -> Step:
    reason = message("undone", move=move.what, cause=why)
    return Step(Action.UNDO, move.subject, reason, ports=move.ports)


def _afresh(state: State) -> State:
    """Reset measurements for a new search."""
    return dataclasses.replace(
        state, phase=Phase.MEASURE, looks={}, counted=0, trial=None, strange=0
    )


def _to_rest(state: State) -> State:
    """Rest. The first samples at rest replace the readings, which may include a move's cost."""
    return dataclasses.replace(state, phase=Phase.REST, trial=None, counted=0, strange=0)


def _looked(state: State, now: Now) -> State:
    """Add a sample to the readings under the plan."""
    count = state.counted + 1
    looks = readings.mean(state.looks, now.looks, count)
    return dataclasses.replace(state, looks=looks, counted=count)


def _written(before: State, now: Now, outcome: Outcome) -> tuple[State, Decision]:
    """Return the state and the decision with the layout of the plan in force."""
    after, steps, why = outcome
    inventory = now.inventory
    plan, placed = after.in_force, before.layout
    facts = (before.members, before.domain)
    if placed is None or plan != before.in_force or facts != (after.members, inventory.domain):
        placed = masks.layout(inventory, plan)  # otherwise unchanged
    moved = () if placed is before.layout else _moved(before.layout, placed, inventory)
    written = moved or placed.limits_since(before.layout)
    recent = tuple(at_s for at_s in before.changes_at_s if at_s > now.at_s - _MINUTE_S)
    after = dataclasses.replace(
        after,
        iteration=before.iteration + 1,
        layout=placed,
        changes_at_s=(*recent, now.at_s) if written else recent,
    )
    decision = Decision(
        domain=now.sample.domain,
        iteration=after.iteration,
        at_s=now.at_s,
        stable=not (steps or moved),
        phase_before=before.phase.value,
        phase=after.phase.value,
        rule=None,
        changes=(),
        steps=steps,
        allocation=placed.allocation(one.id for one in inventory.tenants),
        layout=placed,
        moved=moved,
        why=why,
    )
    return after, decision


def _moved(before: Layout | None, after: Layout, inventory: DomainInventory) -> tuple[str, ...]:
    """Return tenants and ports with a changed mask, and ``ddio`` for a change of DDIO.

    A new tenant had all ways before, as without an agent.
    """
    everything = inventory.domain.open_ways
    if before is None:
        before = Layout(inventory.domain.ddio_found or after.ddio, ())
    found = [
        tenant.id
        for tenant in inventory.tenants
        if after.mask_of(tenant.id) != (before.mask_of(tenant.id) or everything)
    ]
    found += after.ports_moved_since(before)
    ddio = (before.ddio, before.dca_off) != (after.ddio, after.dca_off)
    return (*found, DDIO) if ddio else tuple(found)
