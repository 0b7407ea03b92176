# SPDX-License-Identifier: Apache-2.0
"""Best-effort tenants are not left much less than ways of their own would give them."""

from __future__ import annotations

import dataclasses
import random
import unittest

from iat_nova.layout.check import check
from iat_nova.model import Action, Layout, Parameters, Priority, TenantKind, WayMask, WayRequest
from iat_nova.plant.curves import Curve, Load, Piece
from iat_nova.plant.host import Host
from iat_nova.strategies.pollute_buffer import PolluteBuffer, floors, judge, plan, trial
from iat_nova.strategies.pollute_buffer.plan import Limit
from iat_nova.strategies.pollute_buffer.room import Own
from iat_nova.strategies.pollute_buffer.state import Phase, State
from iat_nova.strategies.pollute_buffer.strategy import SAMPLES
from tests.unit.strategies.test_pollute_buffer import FITS, STREAM, Run, host

PC, BE = Priority.PC, Priority.BE
MODEST = Curve(0.0, (Piece(0.5, 4.0, 4.0),))  # a loop over 4 ways
LITTLE = Curve(0.0, (Piece(0.03, 10.0, 10.0),))  # that misses seldom, and needs most ways
GREEDY = Curve(0.2, (Piece(0.6, 4.0, 4.0),))  # a loop over 4 ways that streams as well


def mask(layout: Layout | None, tenant: str) -> WayMask:
    """Return a tenant's mask, which it has."""
    found = layout.mask_of(tenant) if layout is not None else None
    assert found is not None
    return found


def begun(here: Host) -> State:
    """Return what is remembered of a host whose tenants were seen once."""
    run = Run(0.0)
    run.on(here, 1)
    assert run.state is not None
    sample = here.sample(None, 2.0, random.Random(1), 0.0)
    return dataclasses.replace(run.state, looks=judge.look(here.tenants, sample))


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
        alone = here.under(layout).speeds
        run.on(here, 1)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, run.state.floors.keys())
        sample = here.sample(layout, 3.0, random.Random(1), 0.0)
        speeds = judge.look(here.tenants, sample)
        for one in ("t1", "t2"):
            self.assertAlmostEqual(judge.FLOOR * speeds[one].speed, run.state.floors[one])
        self.assertGreater(min(alone), 0.0)
        self.assertEqual((), run.state.plan.apart)
        undone = [s for s in run.decisions[-1].steps if s.action is Action.UNDO]
        self.assertRegex(undone[0].reason, "ways of its own for each of t1, t2, .*: seen, undone")

    def test_once(self) -> None:
        """Nobody's is looked at again while the load is the same."""
        here, run = host((PC, FITS), (BE, STREAM)), Run()
        run.on(here, 60)
        seen = [s for d in run.decisions for s in d.steps if "to see its speed" in s.reason]
        self.assertEqual([Action.SHUFFLE, Action.UNDO], [one.action for one in seen])

    def test_those_there_is_no_room_for_come_after_the_first(self) -> None:
        """Five of two ways do not fit below DDIO's beside two for the others."""
        here = host((PC, FITS), *((BE, MODEST) for _ in range(5)))
        state = begun(here)
        first = floors.reference(here.inventory, state)
        assert first is not None
        self.assertEqual(("t1", "t2", "t3"), tuple(one.tenant for one in first.plan.apart))
        known = dict.fromkeys(("t1", "t2", "t3"), 0.5)
        second = floors.reference(here.inventory, dataclasses.replace(state, floors=known))
        assert second is not None
        self.assertEqual(("t4", "t5"), tuple(one.tenant for one in second.plan.apart))

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

    def test_none_without_room_or_classes(self) -> None:
        """A tenant that asks for all ways at first; a host with a class too few."""
        pair = host((PC, FITS), (BE, STREAM))
        first, second = pair.inventory.tenants
        wide = dataclasses.replace(second, ways=WayRequest(1, 11, 11))
        inventory = dataclasses.replace(pair.inventory, tenants=(first, wide))
        self.assertIsNone(floors.reference(inventory, begun(pair)))
        few = host((PC, FITS), (BE, STREAM), classes=2)
        self.assertIsNone(floors.reference(few.inventory, begun(few)))

    def test_who_comes_soon_after_others_does_not_put_off_what_may_help_most(self) -> None:
        """One after another, each would end the sample of the last."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        tenants = here.inventory.tenants
        for number, seconds in ((1, 2), (2, 2), (3, 2)):
            now = dataclasses.replace(here.inventory, tenants=tenants[:number])
            loads = {one.id: Load(1, 0.7, 0.02, STREAM) for one in tenants[1:number]}
            run.on(Host(now, {"t0": Load(1, 0.7, 0.02, FITS), **loads}, here.inbound), seconds)
        reason = run.decisions[-1].steps[-1].reason
        self.assertIn("tried: ", reason)
        self.assertNotIn("to see its speed", reason)

    def test_a_newcomer_ends_it_and_nothing_is_kept(self) -> None:
        """However much the others gained."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        two = dataclasses.replace(here.inventory, tenants=here.inventory.tenants[:2])
        loads = {"t0": Load(1, 0.7, 0.02, FITS), "t1": Load(1, 0.7, 0.02, STREAM)}
        run.on(Host(two, loads, here.inbound), 2)
        run.on(here, 1)
        assert run.state is not None
        self.assertIn("others came, undone", run.decisions[-1].steps[0].reason)
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
                    Host(inventory, loads, here.inbound),
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
            stakes = [judge.stakes(here.tenants, after, known)["t1"] for known in ({}, {"t1": 0.9})]
            self.assertAlmostEqual(16 * lacks / 17, stakes[1] - stakes[0])

    def test_nobody_is_confined_for_little(self) -> None:
        """A critical tenant would gain 3 % by what costs another half its speed."""
        here = host((PC, LITTLE), (BE, GREEDY))
        fair, run = here.under(None).speeds, Run()
        run.on(here, 40)
        left = here.under(run.decisions[-1].layout).speeds
        self.assertGreater(left[1], 0.95 * fair[1])
        without = Run()
        for _ in range(40):
            without.on(here, 1)
            assert without.state is not None
            without.state = dataclasses.replace(
                without.state, floors=dict.fromkeys(without.state.floors, 0.0)
            )
        starved = here.under(without.decisions[-1].layout).speeds
        self.assertLess(starved[1], 0.6 * fair[1])
        self.assertGreater(starved[0], left[0])

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
            trial=plan.Move("t1", state.plan, "into the pollute buffer"),
            looks={**state.looks, "t1": fast},
            floors={"t1": fast.speed},
        )
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        after, decision = PolluteBuffer(Parameters()).step(state, here.inventory, sample)
        self.assertIn("% with what best-effort ones lack, undone", decision.steps[0].reason)
        self.assertAlmostEqual(0.3 / 17, after.lost)

    def test_who_is_limited_by_policy_has_none(self) -> None:
        """The operator let its memory bandwidth be limited, before the trial or by it."""
        state = dataclasses.replace(begun(host((PC, FITS), (BE, STREAM))), floors={"t1": 1.0})
        self.assertEqual({"t1": 1.0}, floors.known(state))
        limited = dataclasses.replace(state.plan, limits=(Limit("t1", 50),))
        self.assertEqual({}, floors.known(dataclasses.replace(state, plan=limited)))
        move = plan.Move("layout", limited, "best-effort streams to 50 %")
        self.assertEqual({}, floors.known(dataclasses.replace(state, trial=move)))

    def test_forgotten_with_the_load_and_the_tenant(self) -> None:
        """Its own load; another's changes nothing in what it has with ways of its own."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 30)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, run.state.floors.keys())
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        idle = dataclasses.replace(loads["t2"], references=0.01)
        run.on(Host(here.inventory, {**loads, "t2": idle}, here.inbound), 1)
        self.assertEqual({"t1"}, run.state.floors.keys())
        tenants = here.inventory.tenants
        wider = dataclasses.replace(tenants[1], ways=WayRequest(1, 3, 11))
        inventory = dataclasses.replace(here.inventory, tenants=(tenants[0], wider, tenants[2]))
        run.on(Host(inventory, loads, here.inbound), 1)
        self.assertEqual(set(), run.state.floors.keys() & {"t1"})

    def test_looked_at_again_after_long(self) -> None:
        """What nobody noticed may have changed."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 20)
        parameters = Parameters()
        run.at_s += parameters.backoff_max_s + 60.0
        run.on(here, 1)
        assert run.state is not None
        self.assertEqual({}, run.state.floors)


class SearchTest(unittest.TestCase):
    """How long a search takes."""

    def test_a_search_ends_after_so_many_samples(self) -> None:
        """But where a trial was kept at once there may be more to find."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 3)
        state = run.state
        assert state is not None and state.trial is not None and not state.trial.plan.apart
        spent = dataclasses.replace(state, samples=SAMPLES)
        self.assertIsNotNone(PolluteBuffer(Parameters())._move(state, here.inventory))
        self.assertIsNone(PolluteBuffer(Parameters())._move(spent, here.inventory))
        run.state = dataclasses.replace(state, samples=SAMPLES - 1)
        run.on(here, 1)
        self.assertIn("kept", run.decisions[-1].steps[0].reason)
        self.assertEqual(0, run.state.samples)

    def test_the_first_sample_after_ways_are_lent_has_the_cost_of_the_move_in_it(self) -> None:
        """3 % are too much from the second on; 6 % always."""
        here = host((PC, FITS), (BE, STREAM))
        state = begun(here)
        lent = dataclasses.replace(state.plan, lent=(Own("t0", 2),))
        state = dataclasses.replace(state, trial=plan.Move("t0", lent, "others may fill its ways"))
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        for slower, counted, suffers in (
            (0.03, 0, None),
            (0.03, 1, "t0"),
            (0.06, 0, "t0"),
            (0.01, 1, None),
        ):
            look = now.looks["t0"]
            before = {**now.looks, "t0": dataclasses.replace(look, speed=look.speed / (1 - slower))}
            seen = dataclasses.replace(
                state, looks=before, trial_looks=now.looks, trial_counted=counted
            )
            with self.subTest(slower=slower, counted=counted):
                self.assertEqual(suffers, trial.shown(seen, now, here.tenants).suffers)
