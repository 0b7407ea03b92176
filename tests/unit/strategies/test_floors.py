# SPDX-License-Identifier: Apache-2.0
"""Best-effort tenants are not left much less than ways of their own would give them."""

from __future__ import annotations

import dataclasses
import random
import unittest
from unittest import mock

from iat_nova.layout.check import check
from iat_nova.model import (
    Action,
    Layout,
    Parameters,
    Priority,
    TenantKind,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.plant.curves import Curve, Load, Piece
from iat_nova.plant.formula_host import FormulaHost
from iat_nova.strategies.pollute_buffer import PolluteBuffer, floors, judge, plan, search, trial
from iat_nova.strategies.pollute_buffer.plan import Limit
from iat_nova.strategies.pollute_buffer.room import Own
from iat_nova.strategies.pollute_buffer.search import SAMPLES
from iat_nova.strategies.pollute_buffer.state import Phase, State
from tests import said
from tests.unit.strategies.test_pollute_buffer import FITS, STREAM, Run, host

PC, BE = Priority.PC, Priority.BE
MODEST = Curve(0.0, (Piece(0.5, 4.0, 4.0),))  # a loop over 4 ways
LITTLE = Curve(0.0, (Piece(0.05, 10.0, 10.0),))  # that misses seldom, and needs most ways
GREEDY = Curve(0.02, (Piece(0.7, 2.0, 4.0),))  # a loop that two ways of its own hold


def mask(layout: Layout | None, tenant: str) -> WayMask:
    """Return a tenant's mask, which it has."""
    found = layout.mask_of(tenant) if layout is not None else None
    assert found is not None
    return found


def begun(here: FormulaHost) -> State:
    """Return what is remembered of a host whose tenants were seen once."""
    run = Run(0.0)
    run.on(here, 1)
    assert run.state is not None
    sample = here.sample(None, 2.0, random.Random(1), 0.0)
    return dataclasses.replace(run.state, looks=judge.look(here.tenants, sample))


def with_references(here: FormulaHost, tenant: str, references: float) -> FormulaHost:
    """Return the same host with another load of one tenant: so many references an instruction."""
    loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
    loads[tenant] = dataclasses.replace(loads[tenant], references=references)
    return FormulaHost(here.inventory, loads, here.inbound)


class ReferenceTest(unittest.TestCase):
    """The sample in which best-effort tenants have ways of their own."""

    def test_who_is_not_known_yet_has_ways_of_its_own_for_a_sample(self) -> None:
        """As many as it asks for at first, below DDIO's; the others keep out of them."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 2)
        layout = run.decisions[-1].layout
        first, second, rest = (mask(layout, one) for one in ("t1", "t2", "t0"))
        self.assertEqual((2, 2), (first.count, second.count))
        self.assertFalse(first.overlaps(second) or rest.overlaps(WayMask(first | second)))
        self.assertLess(max(first, second), layout.ddio)
        run.on(here, 1)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, run.state.floors.keys())
        sample = here.sample(layout, 3.0, random.Random(1), 0.0)
        speeds = judge.look(here.tenants, sample)
        for one in ("t1", "t2"):
            self.assertEqual((speeds[one],), run.state.floors[one])
        known = floors.known(run.state, here.tenants)
        self.assertAlmostEqual(0.98 * speeds["t2"].speed, known["t2"])
        self.assertEqual((), run.state.plan.apart)
        (undone,) = [s.reason for s in run.decisions[-1].steps if s.action is Action.UNDO]
        self.assertEqual(("undone", "reference", "seen"), said.codes(undone))
        self.assertEqual(("t1", "t2"), undone.values["move"].values["tenants"])

    def test_once(self) -> None:
        """Nobody's is looked at again while the load is the same."""
        here, run = host((PC, FITS), (BE, STREAM)), Run()
        run.on(here, 60)
        seen = [step.action for step in run.steps("reference")]
        self.assertEqual([Action.SHUFFLE, Action.UNDO], seen)

    def test_those_there_is_no_room_for_come_after_the_first(self) -> None:
        """Five of two ways do not fit below DDIO's beside two for the others."""
        here = host((PC, FITS), *((BE, MODEST) for _ in range(5)))
        state = begun(here)
        first = floors.reference(here.inventory, state)
        assert first is not None
        self.assertEqual(("t1", "t2", "t3"), tuple(one.tenant for one in first.plan.apart))
        known = {one: (state.looks[one],) for one in ("t1", "t2", "t3")}
        second = floors.reference(here.inventory, dataclasses.replace(state, floors=known))
        assert second is not None
        self.assertEqual(("t4", "t5"), tuple(one.tenant for one in second.plan.apart))

    def test_three_samples_a_minute_at_most(self) -> None:
        """Critical tenants have few ways meanwhile; the others come in a later search."""
        here, run = host((PC, FITS), *((BE, STREAM) for _ in range(12))), Run(0.0)
        run.on(here, 30)
        self.assertEqual(3, len(run.steps("undone", "seen")))
        assert run.state is not None
        self.assertEqual(9, len(run.state.floors))
        run.at_s += Parameters().backoff_max_s + 60.0
        run.on(here, 30)
        self.assertEqual(12, len(run.state.floors))

    def test_none_where_nobody_can_lose_by_it(self) -> None:
        """No critical tenant; the host's own class; one asleep; one with promised ways."""
        pair = host((PC, FITS), (BE, STREAM))
        state = begun(pair)
        self.assertIsNotNone(floors.reference(pair.inventory, state))
        only = host((BE, FITS), (BE, STREAM))
        self.assertIsNone(floors.reference(only.inventory, begun(only)))
        first, second = pair.inventory.tenants
        hosts = dataclasses.replace(second, kind=TenantKind.HOST)
        theirs = dataclasses.replace(pair.inventory, tenants=(first, hosts))
        self.assertIsNone(floors.reference(theirs, state))
        asleep = {"t0": state.looks["t0"]}
        self.assertIsNone(
            floors.reference(pair.inventory, dataclasses.replace(state, looks=asleep))
        )
        promised = dataclasses.replace(state.plan, own=(Own("t1", 2),))
        self.assertIsNone(
            floors.reference(pair.inventory, dataclasses.replace(state, plan=promised))
        )

    def test_as_many_as_there_are_ways_and_classes_for(self) -> None:
        """A guest that asks for all ways at first; few classes; others that ask for much."""
        for changes, requests, apart in (
            ({}, ((1, 2), (1, 2), (1, 11), (1, 2)), ("t1", "t3")),
            ({"classes": 4}, ((1, 2), (1, 2), (1, 2), (1, 2)), ("t1", "t2")),
            ({"classes": 3}, ((1, 2), (1, 2), (1, 2), (1, 2)), ("t1",)),
            ({"classes": 2}, ((1, 2), (1, 2), (1, 2), (1, 2)), ()),
            ({}, ((5, 5), (1, 2), (1, 2), (1, 2)), ("t1", "t2")),
            ({"min_ways": 3}, ((1, 2), (1, 2), (1, 2), (1, 2)), ("t1", "t2")),
            ({"coerced_ways": WayMask(0x700)}, ((5, 5), (1, 2), (1, 2), (1, 2)), ("t1",)),
            ({"reserved_ways": WayMask(0x3)}, ((3, 3), (1, 2), (1, 2), (1, 2)), ("t1", "t2")),
        ):
            here = host((PC, FITS), *((BE, STREAM) for _ in range(3)), **changes)
            tenants = tuple(
                dataclasses.replace(one, ways=WayRequest(least, first, 11))
                for one, (least, first) in zip(here.inventory.tenants, requests, strict=True)
            )
            inventory = dataclasses.replace(here.inventory, tenants=tenants)
            move = floors.reference(inventory, begun(here))
            with self.subTest(changes=changes, requests=requests):
                found = tuple(one.tenant for one in move.plan.apart) if move else ()
                self.assertEqual(apart, found)
            if move is not None:
                layout = plan.layout(inventory, move.plan)
                check(inventory, layout)
                masks = [mask(layout, one) for one in found]
                self.assertEqual(
                    sum(one.count for one in masks), WayMask(sum(int(one) for one in masks)).count
                )
                self.assertFalse(any(mask(layout, "t0").overlaps(one) for one in masks))

    def test_not_below_a_limit(self) -> None:
        """Limits are not what ways give."""
        here = host((PC, FITS), *((BE, STREAM) for _ in range(3)))
        state = begun(here)
        limited = dataclasses.replace(state.plan, limits=(Limit("t1", 50),))
        move = floors.reference(here.inventory, dataclasses.replace(state, plan=limited))
        assert move is not None
        self.assertEqual((), move.plan.limits)

    def test_who_does_something_else_in_it_is_asked_again_when_a_move_is_kept(self) -> None:
        """With few ways some spin, and refer to less: that ends no search."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 2)
        spinning = with_references(here, "t1", 0.01)
        run.on(spinning, 1)
        state = run.state
        assert state is not None and state.trial is not None and not state.trial.plan.apart
        self.assertEqual((floors.NOTHING,), state.floors["t1"])
        self.assertEqual({"t2"}, {o for o, f in floors.known(state, here.tenants).items() if f})
        run.on(here, 1)
        self.assertEqual("kept", run.decisions[-1].steps[0].reason.code)
        assert run.state is not None and run.state.trial is not None
        self.assertEqual(["t1"], [one.tenant for one in run.state.trial.plan.apart])
        run.on(spinning, 1)
        self.assertEqual((floors.NOTHING,), run.state.floors["t1"])
        strategy = PolluteBuffer(Parameters())
        kept, _ = strategy._keep(
            dataclasses.replace(
                run.state, trial=plan.Move("t1", run.state.plan, message("release"))
            ),
            judge.Now.seen(here.inventory, here.sample(None, 9.0, random.Random(1), 0.0)),
            trial.Shown(run.state.looks, 1, 0.1, 0.1, False, None, None),
        )
        self.assertEqual((floors.NOTHING,), kept.floors["t1"])

    def test_who_slept_in_it_is_not_starved(self) -> None:
        """A guest boots in that very second."""
        here = host((PC, LITTLE), (BE, GREEDY), (BE, STREAM), (BE, STREAM))
        fair = here.under(None).speeds
        for seed in range(10):
            run = Run(0.005)
            run.dice = random.Random(seed)
            run.on(here, 2)
            run.on(with_references(here, "t1", 0.01), 1)
            run.on(here, 57)
            with self.subTest(seed=seed):
                left = here.under(run.decisions[-1].layout).speeds
                self.assertGreater(left[1], 0.95 * fair[1])

    def test_who_alternates_is_not_asked_at_every_turn(self) -> None:
        """Its last four loads are remembered."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        other = with_references(here, "t2", 0.035)
        for _ in range(10):
            run.on(here, 8)
            run.on(other, 8)
        self.assertEqual(2, len(run.steps("undone", "seen")))

    def test_with_io_it_holds_for_one_search(self) -> None:
        """Such a tenant polls: what it did then may be far from what it does now."""
        here = host((PC, FITS), (BE, MODEST))
        tenants = [dataclasses.replace(here.tenants[1], io=True)]
        state = begun(here)
        state = dataclasses.replace(state, floors={"t1": (state.looks["t1"],)})
        self.assertEqual({}, floors.known(state, tenants))
        now = dataclasses.replace(state, referenced=frozenset({"t1"}))
        self.assertEqual({"t1"}, floors.known(now, tenants).keys())

    def test_who_comes_soon_after_others_does_not_put_off_what_may_help_most(self) -> None:
        """One after another, each would end the sample of the last."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        tenants = here.inventory.tenants
        for number, seconds in ((1, 2), (2, 2), (3, 2)):
            now = dataclasses.replace(here.inventory, tenants=tenants[:number])
            loads = {one.id: Load(1, 0.7, 0.02, STREAM) for one in tenants[1:number]}
            run.on(
                FormulaHost(now, {"t0": Load(1, 0.7, 0.02, FITS), **loads}, here.inbound), seconds
            )
        reason = run.decisions[-1].steps[-1].reason
        self.assertEqual("tried", reason.code)
        self.assertNotEqual("reference", reason.values["move"].code)

    def test_a_newcomer_ends_it_and_nothing_is_kept(self) -> None:
        """However much the others gained."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        two = dataclasses.replace(here.inventory, tenants=here.inventory.tenants[:2])
        loads = {"t0": Load(1, 0.7, 0.02, FITS), "t1": Load(1, 0.7, 0.02, STREAM)}
        run.on(FormulaHost(two, loads, here.inbound), 2)
        run.on(here, 1)
        assert run.state is not None
        undone = run.decisions[-1].steps[0].reason
        self.assertEqual(("undone", "reference", "tenants-changed"), said.codes(undone))
        self.assertEqual(((), {}), (run.state.plan.apart, run.state.floors))

    def test_every_layout_can_be_applied(self) -> None:
        """With promised ways, and few classes."""
        for classes in (2, 3, 4, 5):
            here = host((PC, FITS), (BE, STREAM), (BE, MODEST), (PC, STREAM), classes=classes)
            tenants = list(here.inventory.tenants)
            tenants[3] = dataclasses.replace(tenants[3], ways=WayRequest(2, 2, 11, 2))
            inventory = dataclasses.replace(here.inventory, tenants=tuple(tenants))
            loads = {one.id: load for one, load in zip(tenants, here.loads, strict=True)}
            with self.subTest(classes=classes):
                run = Run()
                run.on(
                    FormulaHost(inventory, loads, here.inbound),
                    40,
                    lambda d, inventory=inventory: check(inventory, d.layout),
                )


class FloorTest(unittest.TestCase):
    """What a tenant lacks of its floor counts like a critical tenant's speed."""

    def test_what_is_lacking_counts(self) -> None:
        """Down to the floor a best-effort tenant's speed is one of seventeen, below it as much."""
        here = host((PC, FITS), (BE, MODEST))
        before = {"t0": judge.Look(1.0, 0.0, 0.0, 0.0), "t1": judge.Look(1.0, 0.0, 0.0, 0.0)}
        for speed, lost in ((0.9, 0.1), (0.8, 0.2)):
            after = {**before, "t1": dataclasses.replace(before["t1"], speed=speed)}
            plain = judge.gain(here.tenants, before, after)
            self.assertAlmostEqual(-lost / 17, plain)
            lacks = max(0.0, 1 - speed / 0.9)
            self.assertAlmostEqual(
                plain - 16 * lacks / 17, judge.gain(here.tenants, before, after, {"t1": 0.9})
            )
            back = judge.gain(here.tenants, after, before, {"t1": 0.9})
            self.assertAlmostEqual((lost / speed + 16 * lacks) / 17, back)
            lack = judge.lacks(here.tenants, after, {"t1": 0.9})
            self.assertAlmostEqual(16 * lacks / 17, lack.get("t1", 0.0))

    def test_nobody_is_confined_for_little(self) -> None:
        """A critical tenant would gain 4 % by what costs another two thirds of its speed."""
        here = host((PC, LITTLE), (BE, GREEDY), (BE, STREAM), (BE, STREAM))
        fair = here.under(None).speeds

        def left(seed: int) -> tuple[float, ...]:
            run = Run(0.005)
            run.dice = random.Random(seed)
            run.on(here, 60)
            speeds = here.under(run.decisions[-1].layout).speeds
            return tuple(now / before for now, before in zip(speeds, fair, strict=True))

        for seed in range(10):
            with self.subTest(seed=seed):
                self.assertGreater(left(seed)[1], 0.95)
        with mock.patch.object(floors, "FLOOR", 0.0):
            starved = [one for one in map(left, range(10)) if one[1] < 0.4]
        self.assertTrue(starved)
        self.assertGreater(min(one[0] for one in starved), 1.03)

    def test_it_does_not_count_as_cost(self) -> None:
        """A search ends by what its trials cost all together, not by whom they would starve."""
        here = host((PC, FITS), (BE, MODEST))
        state = begun(here)
        slow = state.looks["t1"]
        fast = dataclasses.replace(
            slow, speed=slow.speed / 0.7, references_per_s=slow.references_per_s / 0.7
        )
        state = dataclasses.replace(
            state,
            phase=Phase.TRIAL,
            trial=plan.Move("t1", state.plan, message("confine")),
            looks={**state.looks, "t1": fast},
            floors={"t1": (fast,)},
        )
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        after, decision = PolluteBuffer(Parameters()).step(state, here.inventory, sample)
        undone = decision.steps[0].reason
        self.assertEqual(("undone", "confine", "speeds-and-floors"), said.codes(undone))
        self.assertAlmostEqual(0.3 / 17, after.lost)

    def test_who_is_limited_by_policy_has_none(self) -> None:
        """The operator let its memory bandwidth be limited, before the trial or by it."""
        here = host((PC, FITS), (BE, STREAM))
        tenants, state = here.tenants, begun(here)
        state = dataclasses.replace(state, floors={"t1": (state.looks["t1"],)})
        self.assertEqual({"t1"}, floors.known(state, tenants).keys())
        limited = dataclasses.replace(state.plan, limits=(Limit("t1", 50),))
        self.assertEqual({}, floors.known(dataclasses.replace(state, plan=limited), tenants))
        move = plan.Move("layout", limited, message("limit-streams", percent=50))
        self.assertEqual({}, floors.known(dataclasses.replace(state, trial=move), tenants))

    def test_holds_while_the_tenant_does_what_it_did(self) -> None:
        """Its own load; another's changes nothing in what it has with ways of its own."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 30)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, floors.known(run.state, here.tenants).keys())
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        idle = dataclasses.replace(loads["t2"], references=0.01)
        run.on(FormulaHost(here.inventory, {**loads, "t2": idle}, here.inbound), 2)
        self.assertEqual({"t1"}, floors.known(run.state, here.tenants).keys())
        tenants = here.inventory.tenants
        wider = dataclasses.replace(tenants[1], ways=WayRequest(1, 3, 11))
        inventory = dataclasses.replace(here.inventory, tenants=(tenants[0], wider, tenants[2]))
        run.on(FormulaHost(inventory, loads, here.inbound), 1)
        self.assertNotIn("t1", run.state.floors)

    def test_no_critical_tenant_is_confined_for_it(self) -> None:
        """Four guests that lack a little together weigh more than the critical one: not enough."""
        here = host(
            (PC, Curve(0.42, (Piece(0.5, 8.0, 1.0),))),
            *((BE, Curve(0.0, (Piece(0.9, 2.0, 2.0),))) for _ in range(4)),
        )
        run = Run()
        run.on(here, 60)
        layout = run.decisions[-1].layout
        self.assertGreater(here.under(layout).speeds[0], 0.98 * here.under(None).speeds[0])

    def test_what_was_taken_is_given_back_at_a_cost(self) -> None:
        """Who came into the buffer before its floor was known; nothing else may cost as much."""
        here = host((PC, FITS), (BE, STREAM))
        state = begun(here)
        fast = state.looks["t1"]
        slow = dataclasses.replace(
            fast, speed=fast.speed / 2, references_per_s=fast.references_per_s / 2
        )
        one = state.looks["t0"]
        faster = dataclasses.replace(one, speed=1.05 * one.speed)
        confined = dataclasses.replace(state.plan, confined=frozenset({"t1"}), clear=True)
        released = dataclasses.replace(confined, confined=frozenset())
        larger = dataclasses.replace(confined, buffer=6)
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        for after, credited in ((released, True), (larger, False)):
            seen = dataclasses.replace(
                state,
                plan=confined,
                trial=plan.Move("t1", after, message("release")),
                looks={"t0": faster, "t1": slow},
                floors={"t1": (fast,)},
            )
            shown = trial.shown(seen, judge.Now.seen(here.inventory, sample), here.tenants)
            self.assertEqual(credited, shown.gain > shown.speeds)


class SearchTest(unittest.TestCase):
    """How long a search takes."""

    def test_a_search_ends_after_so_many_samples(self) -> None:
        """But where a trial was kept at once there may be more to find."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 3)
        state = run.state
        assert state is not None and state.trial is not None and not state.trial.plan.apart
        spent = dataclasses.replace(state, samples=SAMPLES)
        self.assertIsNotNone(search.next_move(state, here.inventory, Parameters()))
        self.assertIsNone(search.next_move(spent, here.inventory, Parameters()))
        run.state = dataclasses.replace(state, samples=SAMPLES - 1)
        run.on(here, 1)
        self.assertEqual("kept", run.decisions[-1].steps[0].reason.code)
        self.assertEqual(0, run.state.samples)

    def test_the_first_sample_after_ways_are_lent_has_the_cost_of_the_move_in_it(self) -> None:
        """3 % decide nothing in it and are too much after it; 6 % always; who lent before, too."""
        here = host((PC, FITS), (BE, STREAM))
        state = begun(here)
        lent = dataclasses.replace(state.plan, lent=(Own("t0", 2),))
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        for slower, counted, before, suffers, unsure in (
            (0.03, 0, state.plan, None, True),
            (0.03, 0, lent, None, True),
            (0.03, 1, state.plan, "t0", False),
            (0.06, 0, state.plan, "t0", True),
            (0.01, 0, state.plan, None, False),
        ):
            look, slow = now.looks["t0"], now.looks["t1"]
            looks = {
                "t0": dataclasses.replace(look, speed=look.speed / (1 - slower)),
                "t1": dataclasses.replace(slow, speed=slow.speed / 9),
            }
            seen = dataclasses.replace(
                state,
                phase=Phase.TRIAL,
                plan=before,
                trial=plan.Move("t0", lent, message("lend")),
                looks=looks,
                trial_looks=now.looks,
                trial_counted=counted,
            )
            with self.subTest(slower=slower, counted=counted):
                shown = trial.shown(seen, now, here.tenants)
                self.assertEqual((suffers, unsure), (shown.suffers, shown.unsure))
                if unsure and not suffers:  # though t1 gains much
                    self.assertGreater(shown.gain, 0.03)
