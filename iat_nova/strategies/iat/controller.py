# SPDX-License-Identifier: Apache-2.0
"""One iteration of IAT for one cache domain: ``step(state, inventory, sample)``.

The order is that of figure 5 of ISCA 2021: Get Tenant Info (adopt on a change), LLC Alloc, Poll
Prof Data (the sample), stable?, State Transition, LLC Re-alloc, Sleep. Pure: equal arguments give
equal results, and all memory is in the returned `IatState`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from typing import ClassVar

from iat_nova.model import (
    DDIO,
    Action,
    Change,
    Decision,
    DomainInventory,
    Layout,
    Message,
    Parameters,
    Quantity,
    Sample,
    Step,
    message,
)
from iat_nova.strategies.api import Rule
from iat_nova.strategies.iat import (
    change,
    fsm,
    invariants,
    masks,
    own_demand,
    realloc,
    rebuild,
)
from iat_nova.strategies.iat.ledger import Ledger, usable_ways
from iat_nova.strategies.iat.presets import PRESETS, Features
from iat_nova.strategies.iat.realloc import RoundView
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import FsmState, IatState
from iat_nova.strategies.layout import plan as layout

_MINUTE_S = 60.0
_EXCEPTIONS = ("exception-only-ipc", "exception-own-demand", "exception-shuffle")


@dataclasses.dataclass(frozen=True, slots=True)
class _Outcome:
    """Result of an iteration, before the decision is composed."""

    fsm: FsmState
    transition: int | None = None
    exception: int | None = None
    steps: tuple[Step, ...] = ()
    waiting: tuple[str, ...] = ()
    quiet: tuple[Message, ...] = ()  # why nothing was done

    @property
    def why(self) -> Iterator[Message]:
        """Messages on the transition, the exception, or the reason for doing nothing."""
        if self.transition is not None:
            yield message(fsm.NUMBERED[self.transition].meaning)
        if self.exception is not None:
            yield message(_EXCEPTIONS[self.exception - 1], number=self.exception)
        if self.transition is None and self.exception is None and not self.steps:
            yield from self.quiet


class Controller:
    """The controller of any number of cache domains; all memory is in their `IatState`.

    `step` raises `layout.LayoutError` only after a change of tenants, if no layout exists in the
    domain. `step` raises `invariants.InvariantError` rather than return an inconsistent result (a
    bug). After an error the caller keeps the previous state and layout.
    """

    state_type = IatState
    phases = tuple(state.value for state in FsmState)
    rules: tuple[Rule, ...] = tuple(
        (number, rule.source.value, rule.target.value)
        for number, rule in sorted(fsm.NUMBERED.items())
    )
    preset: ClassVar[Features] = PRESETS["iat"]

    def __init__(
        self, parameters: Parameters, features: Features | None = None, **changed: bool
    ) -> None:
        self.parameters = parameters
        self.features = dataclasses.replace(features or self.preset, **changed)
        self._rosters: dict[int, Roster] = {}  # by domain; derived from the inventory alone

    @staticmethod
    def thresholds(parameters: Parameters) -> tuple[Message, ...]:
        """Return the policy's thresholds."""
        return (
            message("threshold-stable", share=parameters.threshold_stable),
            message("threshold-miss-low", misses_per_s=parameters.threshold_miss_low_per_s),
            message(
                "threshold-ddio-ways",
                least=parameters.ddio_ways_min,
                most=parameters.ddio_ways_max,
            ),
        )

    @property
    def runs_machine(self) -> bool:
        """Whether the state machine runs; Core-only and I/O-iso do without the machine."""
        return self.features.resize_ddio or self.features.shuffle

    def initial(
        self, inventory: DomainInventory, at_s: float, layout: Layout | None = None
    ) -> IatState:
        """Return the state before the first step: Low Keep, nothing granted.

        `layout`: the agent's layout on the hardware, or None.
        """
        del at_s  # the memory has no start time
        return IatState(
            domain=inventory.domain,
            iteration=0,
            fsm=FsmState.LOW_KEEP,
            allocation=rebuild.start_allocation(
                self._roster(inventory), self.parameters, self.features
            ),
            layout=layout,
        )

    def step(
        self, state: IatState, inventory: DomainInventory, sample: Sample
    ) -> tuple[IatState, Decision]:
        """Run one iteration: return the next state and the decision.

        Tenants absent from the sample keep their ways and take no part in comparisons.
        """
        roster = self._roster(inventory)
        reference = state.reference
        if (
            reference is None
            or state.layout is None
            or state.members != roster.members
            or state.domain != inventory.domain
            or rebuild.above_maximum(state, inventory.domain, self.parameters, self.features)
        ):
            return self._adopt(state, roster, sample)
        changes, unseen = change.compare(reference, sample, roster.ids, self.parameters)
        held = state.retry_at_s is not None and sample.taken_at_s < state.retry_at_s
        due = changes or state.acted or state.retry_at_s is not None
        idle = not (self.runs_machine or self.features.resize_cores)
        if held or idle or not due:
            if unseen or (idle and changes):
                judged = () if held else changes
                reference = change.rebase(reference, sample, judged, ())
            never = (message("ways-never-change"),) if idle else ()
            why = never or change.why_quiet(state, reference, sample, roster.ids, self.parameters)
            return self._sleep(state, reference, sample, changes, why)
        view = RoundView(
            roster=roster,
            parameters=self.parameters,
            features=self.features,
            reference=reference,
            sample=sample,
            placed=state.layout,
            moves=change.Moves(changes),
            io=change.io_moves(reference, sample, roster, self.parameters),
        )
        return self._run(state, view, changes)

    def _roster(self, inventory: DomainInventory) -> Roster:
        """Return the roster of an inventory, computed once for each inventory."""
        roster = self._rosters.get(inventory.domain.id)
        if roster is None or roster.inventory is not inventory:
            roster = Roster.of(inventory)
            self._rosters[inventory.domain.id] = roster
        return roster

    # ------------------------------------------------------------ results of a step

    def _sleep(
        self,
        state: IatState,
        reference: Sample,
        sample: Sample,
        changes: tuple[Change, ...],
        why: tuple[Message, ...],
    ) -> tuple[IatState, Decision]:
        """Change nothing; count the iteration and remember `reference`."""
        after = dataclasses.replace(
            state, iteration=state.iteration + 1, reference=reference, acted=False
        )
        return after, self._decision(
            state, after, sample, outcome=_Outcome(state.fsm, quiet=why), changes=changes
        )

    def _adopt(self, state: IatState, roster: Roster, sample: Sample) -> tuple[IatState, Decision]:
        """Lay out tenants after a change; renew the reference except for unchanged tenants."""
        adopted, steps = rebuild.adopt(state, roster, self.parameters, self.features, sample)
        ranking = dict(sample.tenants)
        placed = masks.plan(roster, self.features, adopted, ranking, state.layout)
        moved = placed.moved_since(state.layout)
        after = dataclasses.replace(
            adopted,
            iteration=state.iteration + 1,
            layout=placed,
            acted=True,
            ranking=ranking,
            mask_changes_at_s=_recent(state, sample, bool(moved)),
            retry_at_s=None,
        )
        outcome = _Outcome(state.fsm, steps=(*steps, *masks.sharing(state, after)))
        self._check(roster, after)
        return after, self._decision(state, after, sample, outcome=outcome, moved=moved)

    def _run(
        self, state: IatState, view: RoundView, changes: tuple[Change, ...]
    ) -> tuple[IatState, Decision]:
        """Run the state machine and re-allocate ways, after a change or a write of the agent."""
        sample = view.sample
        recent = _recent(state, sample, False)
        if len(recent) >= self.parameters.mask_changes_per_minute:
            return self._hold(state, recent, sample, changes)
        ledger = Ledger(view.roster, self.parameters, self.features, state, sample)
        outcome = self._reallocate(state, view, ledger)
        ranking = masks.ranked(state.ranking, sample, self.parameters)
        try:
            placed = masks.place(state, view, ledger, ranking)
        except layout.LayoutError as error:
            hold = Step(Action.REFUSE, "layout", message("no-layout", error=error.message))
            placed, ranking, kept = view.placed, state.ranking, state
            outcome = dataclasses.replace(outcome, steps=(hold,), waiting=())
        else:
            kept = ledger.kept(state)
            outcome = _with_shuffle(outcome, state, view, ledger, placed)
        moved = placed.moved_since(view.placed)
        acted = bool(moved) or outcome.transition is not None or kept.grants != state.grants
        follow = (
            change.restart(view.reference, sample, outcome.waiting)
            if acted
            else change.rebase(view.reference, sample, changes, outcome.waiting)
        )
        after = dataclasses.replace(
            kept,
            iteration=state.iteration + 1,
            fsm=outcome.fsm,
            layout=placed,
            reference=follow,
            # After exception 3 a shuffle has been tried, and the machine has its turn.
            acted=acted or (outcome.exception == 3 and not state.acted),
            ranking=ranking,
            mask_changes_at_s=(*recent, sample.taken_at_s) if moved else recent,
            retry_at_s=None,
        )
        self._check(view.roster, after)
        return after, self._decision(
            state, after, sample, outcome=outcome, changes=changes, moved=moved
        )

    def _hold(
        self,
        state: IatState,
        recent: tuple[float, ...],
        sample: Sample,
        changes: tuple[Change, ...],
    ) -> tuple[IatState, Decision]:
        """Decide nothing until the limit of mask changes per minute allows a change."""
        limit = self.parameters.mask_changes_per_minute
        retry_at_s = (recent[-limit] if limit else sample.taken_at_s) + _MINUTE_S
        after = dataclasses.replace(
            state,
            iteration=state.iteration + 1,
            acted=False,
            mask_changes_at_s=recent,
            retry_at_s=retry_at_s,
        )
        left_s = retry_at_s - sample.taken_at_s
        reason = message("masks-moved-often", times=len(recent), delay_s=left_s)
        outcome = _Outcome(state.fsm, steps=(Step(Action.REFUSE, "layout", reason),))
        return after, self._decision(state, after, sample, outcome=outcome, changes=changes)

    def _decision(
        self,
        before: IatState,
        after: IatState,
        sample: Sample,
        *,
        outcome: _Outcome,
        changes: tuple[Change, ...] = (),
        moved: tuple[str, ...] = (),
    ) -> Decision:
        """Compose the decision. Stable means that nothing changed and nothing was done."""
        assert after.layout is not None
        return Decision(
            domain=sample.domain,
            iteration=after.iteration,
            at_s=sample.taken_at_s,
            stable=not (changes or outcome.steps or outcome.transition is not None or moved),
            phase_before=before.fsm.value,
            phase=after.fsm.value,
            rule=outcome.transition,
            changes=changes,
            steps=outcome.steps,
            allocation=after.allocation,
            layout=after.layout,
            moved=moved,
            why=tuple(outcome.why),
            since_s=None if before.reference is None else before.reference.taken_at_s,
        )

    def _check(self, roster: Roster, after: IatState) -> None:
        """Raise `InvariantError` if counts, grants and masks of the new state disagree.

        Iterations that change nothing skip the check.
        """
        usable = usable_ways(roster, self.features, after.allocation.ddio_ways)
        invariants.check(roster, usable, after)

    # ------------------------------------------------------------ way counts

    def _reallocate(self, state: IatState, view: RoundView, ledger: Ledger) -> _Outcome:
        """Do State Transition and LLC Re-alloc, except in the paper's three exceptions.

        After a write of the agent an exception does not stop the machine. Tenants with rising
        misses ask for a way in exception 2, else in a later iteration. Changes that the machine has
        still to judge keep their reference.
        """
        target, transition = state.fsm, None
        machine = self.runs_machine and view.io is not None
        number, pressed = self._exception(view, blind=not machine)
        gated = number is not None and not state.acted and state.retry_at_s is None
        if machine and not gated:
            rule = fsm.RULES.first(state.fsm, self._signals(view, ledger))
            target, transition = rule.target, rule.number
            self._act(target, transition, view, ledger)
        acted = ledger.allocation != state.allocation or transition is not None
        number = number if transition is None else None
        askers, waiting = (pressed, ()) if number == 2 else ((), pressed)
        if machine and gated and number != 1:
            waiting += (DDIO, *(member.id for member in view.roster.io))
        if self.features.resize_cores:
            waiting += own_demand.serve(view, ledger, askers, free=not acted)
        stays = message("nobody-asks")
        if machine and view.io is not None:
            figures = view.io.describe(self.parameters.threshold_miss_low_per_s)
            stays = message("no-transition", state=state.fsm.value, figures=figures)
        return _Outcome(target, transition, number, waiting=waiting, quiet=(stays,))

    def _signals(self, view: RoundView, ledger: Ledger) -> fsm.Signal:
        assert view.io is not None
        signals = view.io.signals(self.parameters.threshold_miss_low_per_s)
        if ledger.ddio <= ledger.ddio_least:
            signals |= fsm.Signal.DDIO_AT_MIN
        if ledger.ddio >= ledger.ddio_most:
            signals |= fsm.Signal.DDIO_AT_MAX
        if any(ledger.counts[m.id] > view.roster.initial(m) for m in view.roster.members):
            signals |= fsm.Signal.CORES_ABOVE_INITIAL
        return signals

    def _act(
        self, target: FsmState, transition: int | None, view: RoundView, ledger: Ledger
    ) -> None:
        """Change way counts as the new state of the machine demands."""
        assert view.io is not None
        figures = view.io.describe(self.parameters.threshold_miss_low_per_s)
        reason = message("still", state=target.value, figures=figures)
        if transition:
            reason = message("row", number=transition, figures=figures)
        match target:
            case FsmState.IO_DEMAND:
                realloc.io_demand(view, ledger, reason)
            case FsmState.CORE_DEMAND:
                realloc.core_demand(view, ledger, reason, entering=transition is not None)
            case FsmState.RECLAIM:
                realloc.reclaim(view, ledger)
            case FsmState.LOW_KEEP | FsmState.HIGH_KEEP:
                pass

    def _exception(self, view: RoundView, *, blind: bool) -> tuple[int | None, tuple[str, ...]]:
        """Return the exception's number, and the tenants with a demand of their own.

        `blind`: without the machine or DDIO's counters, moves of DDIO do not count, and tenants
        with and without I/O are alike.
        """
        roster, moves = view.roster, view.moves
        overlapping: Collection[str] = frozenset(view.placed.overlaps_ddio)
        if blind:
            moves, overlapping = change.Moves(moves.without(DDIO)), frozenset()
        tenants = [t for t in roster.ids if blind or not roster.is_io(t)]
        pressed = tuple(
            tenant
            for tenant in tenants
            if self.features.resize_cores
            and tenant not in overlapping
            and moves.own(tenant)
            and moves.rose(tenant, Quantity.MISSES)
        )
        return change.exception(moves, tenants, overlapping), pressed


def _recent(state: IatState, sample: Sample, moved: bool) -> tuple[float, ...]:
    """Return the times of mask changes within the last minute."""
    since_s = sample.taken_at_s - _MINUTE_S
    recent = tuple(at_s for at_s in state.mask_changes_at_s if at_s > since_s)
    return (*recent, sample.taken_at_s) if moved else recent


def _with_shuffle(
    outcome: _Outcome, state: IatState, view: RoundView, ledger: Ledger, placed: Layout
) -> _Outcome:
    """Return the outcome with the ledger's steps, and one more step if masks only moved.

    A mask moved if it has the same number of ways in another place.
    """
    steps, waiting = tuple(ledger.steps), outcome.waiting
    step = masks.moved(view.placed.counted, placed.counted, ledger, state.allocation)
    if step is not None:
        steps = (*steps, step)
        waiting += masks.served(view.placed, placed, view)
    return dataclasses.replace(outcome, steps=steps, waiting=waiting)


class Baseline(Controller):
    """Initial ways, DDIO as found; nothing ever moves."""

    preset = PRESETS["baseline"]


class CoreOnly(Controller):
    """Any tenant's demand is served by core counters alone, without the machine or a shuffle."""

    preset = PRESETS["core-only"]


class IoIso(Controller):
    """Core-only, and cores never get DDIO's ways."""

    preset = PRESETS["io-iso"]
