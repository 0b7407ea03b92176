# SPDX-License-Identifier: Apache-2.0
"""Best-effort tenants are not left much less than they had outside the buffer."""

from __future__ import annotations

import dataclasses
import math
import random
import unittest

from iat_nova.model import (
    Parameters,
    Priority,
    WayRequest,
    message,
)
from iat_nova.strategies import readings
from iat_nova.strategies.pollute_buffer import judge, plan, search, trial
from iat_nova.strategies.pollute_buffer.plan import Limit
from iat_nova.strategies.pollute_buffer.state import Phase, State
from iat_nova.strategies.readings import Look
from tests.unit.strategies.formulas.curves import MissCurve, Piece
from tests.unit.strategies.formulas.host import FormulaHost
from tests.unit.strategies.test_pollute_buffer import FITS, STREAM, Run, host, without_last

PC, BE = Priority.PC, Priority.BE
MODEST = MissCurve(0.0, (Piece(0.5, 4.0, 4.0),))  # a loop over 4 ways
LITTLE = MissCurve(0.0, (Piece(0.1, 10.0, 10.0),))  # that misses seldom, and needs most ways
GREEDY = MissCurve(0.02, (Piece(0.7, 2.0, 4.0),))  # a loop that two ways of its own hold


def begun(here: FormulaHost) -> State:
    """Return what is remembered of a host whose tenants were seen once."""
    run = Run(0.0)
    run.on(here, 1)
    assert run.state is not None
    sample = here.sample(None, 2.0, random.Random(1), 0.0)
    return dataclasses.replace(run.state, looks=readings.look(here.tenants, sample))


def with_references(here: FormulaHost, tenant: str, references: float) -> FormulaHost:
    """Return the same host with another load of one tenant: so many references an instruction."""
    loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
    loads[tenant] = dataclasses.replace(loads[tenant], references=references)
    return FormulaHost(here.inventory, loads, here.inbound)


class KnownTest(unittest.TestCase):
    """The speed outside the buffer, and what of it is a minimum."""

    def test_measured_before_anything_is_tried(self) -> None:
        """Best-effort tenants alone; most of that speed is theirs to keep."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, run.state.found.keys())
        speed = run.state.found["t2"].speed
        self.assertEqual(
            readings.look(here.tenants, here.sample(None, 2.0, random.Random(1), 0.0))["t2"].speed,
            speed,
        )
        known = judge.floors_in_force(run.state, here.tenants, Parameters())
        self.assertAlmostEqual(Parameters().best_effort_min * speed, known["t2"].speed)

    def test_confined_tenants_keep_what_was_measured(self) -> None:
        """In the buffer, and beside it: who profits from others' confinement is owed no more."""
        here = host((PC, FITS), (BE, STREAM), (BE, MODEST))
        state = begun(here)
        faster = {
            one: dataclasses.replace(
                readings.scaled(look, 2.0), references_per_s=2 * look.references_per_s
            )
            for one, look in state.looks.items()
        }
        confined = dataclasses.replace(state.plan, confined=frozenset({"t1"}))
        limited = dataclasses.replace(state.plan, limits=(Limit("t1", 50),))
        first = judge.measured_outside(state, here.tenants)
        later = dataclasses.replace(first, looks=faster)
        for restricted in (confined, limited):
            beside = dataclasses.replace(later, plan=restricted)
            self.assertEqual(first.found, judge.measured_outside(beside, here.tenants).found)
        self.assertNotEqual(first.found, judge.measured_outside(later, here.tenants).found)

    def test_a_newcomer_is_measured_beside_confined_tenants(self) -> None:
        """It begins outside the buffer, also where all others are in it."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        run.on(without_last(here), 20)
        assert run.state is not None
        self.assertEqual({"t1"}, run.state.plan.confined)
        run.on(here, 1)
        self.assertEqual({"t1"}, run.state.plan.confined)
        run.on(here, 1)
        self.assertEqual({"t1", "t2"}, run.state.found.keys())

    def test_another_load(self) -> None:
        """What was measured says nothing of it; a newly measured one does."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 30)
        assert run.state is not None
        self.assertEqual(
            {"t1", "t2"}, judge.floors_in_force(run.state, here.tenants, Parameters()).keys()
        )
        other = with_references(here, "t2", 0.01)
        sample = other.sample(None, 40.0, random.Random(1), 0.0)
        changed = dataclasses.replace(run.state, looks=readings.look(other.tenants, sample))
        self.assertEqual({"t1"}, judge.floors_in_force(changed, here.tenants, Parameters()).keys())

    def test_who_changed_is_measured_anew(self) -> None:
        """Another class, or other ways."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MODEST)), Run(0.0)
        run.on(here, 30)
        assert run.state is not None
        tenants = here.inventory.tenants
        wider = dataclasses.replace(tenants[1], ways=WayRequest(1, 3, 11))
        inventory = dataclasses.replace(here.inventory, tenants=(tenants[0], wider, tenants[2]))
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        run.on(FormulaHost(inventory, loads, here.inbound), 1)
        self.assertEqual({"t2"}, run.state.found.keys())

    def test_a_limit_of_memory_bandwidth_ends_no_minimum(self) -> None:
        """Neither a limit in force nor one on trial: the share to keep is one for all moves."""
        here = host((PC, FITS), (BE, STREAM))
        tenants, state = here.tenants, begun(here)
        state = dataclasses.replace(state, found={"t1": state.looks["t1"]})
        known = judge.floors_in_force(state, tenants, Parameters())
        self.assertEqual({"t1"}, known.keys())
        limited = dataclasses.replace(state.plan, limits=(Limit("t1", 50),))
        move = plan.Move("layout", limited, message("limit-streams", percent=50))
        for changes in ({"plan": limited}, {"trial": move}):
            after = dataclasses.replace(state, **changes)  # type: ignore[arg-type]
            self.assertEqual(known, judge.floors_in_force(after, tenants, Parameters()))


class FloorTest(unittest.TestCase):
    """What a tenant lacks of its floor counts like a critical tenant's speed."""

    def test_what_is_lacking_counts(self) -> None:
        """Down to the floor a best-effort tenant's speed is one of seventeen, below it as much."""
        here = host((PC, FITS), (BE, MODEST))
        before = {"t0": Look(1.0, 0.0, 0.0, 0.0), "t1": Look(1.0, 0.0, 0.0, 0.0)}
        least = {"t1": readings.scaled(before["t1"], 0.9)}
        for speed in (0.9, 0.8):
            after = {**before, "t1": readings.scaled(before["t1"], speed)}
            plain = judge.gain(here.tenants, before, after, {}).with_floors
            self.assertAlmostEqual(math.log(speed) / 17, math.log1p(plain))
            lacks = max(0.0, 1 - speed / 0.9)
            counted = judge.gain(here.tenants, before, after, least).with_floors
            self.assertAlmostEqual(math.log1p(plain) - 16 * lacks / 17, math.log1p(counted))
            back = judge.gain(here.tenants, after, before, least).with_floors
            self.assertAlmostEqual((-math.log(speed) + 16 * lacks) / 17, math.log1p(back))
            stakes = judge.stakes(here.tenants, after, least)
            self.assertAlmostEqual(16 * lacks / 17, stakes["t1"].lack)

    def test_a_receiver_at_its_limit_lacks_instructions(self) -> None:
        """Its misses take all cycles before and after: the estimate of stalls is the same."""
        here = host((PC, FITS), (BE, MODEST))
        full = Look(1.0 - readings.MOST_STALLED, readings.MOST_STALLED, 7e7, 1e8, 0.4)
        least = {"t1": readings.scaled(full, 0.9)}
        for ipc, lacks in ((0.38, False), (0.3, True)):
            looks = {"t1": dataclasses.replace(full, ipc=ipc)}
            stakes = judge.stakes(here.tenants, looks, least)
            self.assertEqual(lacks, stakes["t1"].lack > 0.1)

    def test_nobody_is_confined_for_little(self) -> None:
        """A critical tenant would gain 8 % by what costs another two thirds of its speed."""
        here = host((PC, LITTLE), (BE, GREEDY), (BE, STREAM), (BE, STREAM))
        fair = here.under(None).speeds

        def left(seed: int, **numbers: float) -> tuple[float, ...]:
            run = Run(0.005, **numbers)
            run.dice = random.Random(seed)
            run.on(here, 60)
            speeds = here.under(run.decisions[-1].layout).speeds
            return tuple(now / before for now, before in zip(speeds, fair, strict=True))

        for seed in range(10):
            with self.subTest(seed=seed):
                self.assertGreater(left(seed)[1], 0.95)
        unbound = (left(seed, best_effort_min=0.0) for seed in range(10))
        starved = [one for one in unbound if one[1] < 0.4]
        self.assertTrue(starved)
        self.assertGreater(min(one[0] for one in starved), 1.03)

    def test_no_critical_tenant_is_confined_for_it(self) -> None:
        """Four guests that lack a little together weigh more than the critical one: not enough."""
        here = host(
            (PC, MissCurve(0.42, (Piece(0.5, 8.0, 1.0),))),
            *((BE, MissCurve(0.0, (Piece(0.9, 2.0, 2.0),))) for _ in range(4)),
        )
        run = Run()
        run.on(here, 60)
        layout = run.decisions[-1].layout
        self.assertGreater(here.under(layout).speeds[0], 0.98 * here.under(None).speeds[0])

    def test_no_release_promises_what_a_limit_of_memory_bandwidth_costs(self) -> None:
        """At half the bandwidth half the speed is lacking: other ways would not bring it back."""
        here = host((PC, FITS), (BE, STREAM))
        state = begun(here)
        one, fast = state.looks["t0"], state.looks["t1"]
        one = dataclasses.replace(one, stalled=0.01, misses_per_s=0.01 * one.misses_per_s)
        now = judge.Now.seen(here.inventory, here.sample(None, 500.0, random.Random(1), 0.0))
        for percent, speed, released in ((50, 0.5, False), (100, 0.5, True), (50, 0.2, True)):
            limits = (Limit("t1", percent),) if percent < 100 else ()
            slow = dataclasses.replace(
                readings.scaled(fast, speed), references_per_s=speed * fast.references_per_s
            )
            confined = dataclasses.replace(
                state.plan, confined=frozenset({"t1"}), clear=True, limits=limits
            )
            seen = dataclasses.replace(
                state,
                plan=confined,
                phase=Phase.REST,
                looks={"t0": one, "t1": slow},
                found={"t1": fast},
            )
            found, _ = search.next_move(seen, now, Parameters())
            with self.subTest(percent=percent, speed=speed):
                self.assertEqual(released, found is not None and found.what.code == "release")

    def test_what_was_taken_is_given_back_at_a_cost(self) -> None:
        """Who came into the buffer before its floor was known; nothing else may cost as much."""
        here = host((PC, FITS), (BE, STREAM))
        state = begun(here)
        fast = state.looks["t1"]
        slow = dataclasses.replace(
            readings.scaled(fast, 0.5), references_per_s=fast.references_per_s / 2
        )
        one = state.looks["t0"]
        faster = readings.scaled(one, 1.05)
        confined = dataclasses.replace(state.plan, confined=frozenset({"t1"}), clear=True)
        released = dataclasses.replace(confined, confined=frozenset())
        larger = dataclasses.replace(confined, buffer=6)
        limited = dataclasses.replace(confined, limits=(Limit("t1", 50),))
        sample = here.sample(None, 3.0, random.Random(1), 0.0)
        for before, after, keep in (
            (confined, released, True),
            (limited, confined, True),
            (confined, larger, False),
        ):
            seen = dataclasses.replace(
                state,
                plan=before,
                trial=plan.Move("t1", after, message("release")),
                looks={"t0": faster, "t1": slow},
                found={"t1": fast},
            )
            shown = trial.shown(seen, judge.Now.seen(here.inventory, sample), Parameters())
            self.assertEqual(keep, shown.keep)
