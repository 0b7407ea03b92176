# SPDX-License-Identifier: Apache-2.0
"""Counts keep their bounds and masks agree with them; what does not fit is cut once, fairly."""

from __future__ import annotations

import dataclasses
import random
import unittest
from collections.abc import Callable

from iat_nova.model import (
    Action,
    Allocation,
    Decision,
    DomainInventory,
    Group,
    Hold,
    Parameters,
    Priority,
    Tenant,
    WayMask,
    message,
)
from iat_nova.policy import holds
from iat_nova.strategies.iat import invariants
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.ledger import Granted, Ledger
from iat_nova.strategies.iat.presets import PRESETS
from iat_nova.strategies.iat.roster import Roster
from iat_nova.strategies.iat.state import Cause, Grant, RosterMember
from tests.unit.build import domain
from tests.unit.strategies.iat import plant
from tests.unit.strategies.iat.worlds import M, Story, guest, rates, stack

PC, BE = Priority.PC, Priority.BE


def noise_of(fraction: float, dice: random.Random) -> Callable[[], float]:
    return lambda: dice.uniform(1 - fraction, 1 + fraction)


class TestWhoGives(unittest.TestCase):
    """Who gives a way gives his latest grant with it."""

    HUNGRY = rates(9 * M, 6 * M, 0.6)

    def _grown(self) -> Story:
        """A BE tenant that grew from 2 to 6 on idle ways, and a PC tenant beside it."""
        story = Story((guest("x", BE, 2), guest("pc", PC, 2, io=True), guest("y", PC, 3)))
        story.settled()
        for step in range(5):
            story.second({"x": rates(9 * M, (6 - 0.5 * step) * M, 0.6 + 0.05 * step)})
        self.assertEqual(6, story.ways("x"))
        return story

    def _taken(self) -> Story:
        """The PC tenant then takes them: x is left with its minimum."""
        story = self._grown()
        story.second({"pc": rates(12 * M, 8 * M, 0.7)}, hits=15 * M, misses=4 * M)
        for step in range(1, 6):
            story.second({"pc": rates(12 * M, (8 - step) * M, 0.7)}, misses=(4 - 0.4 * step) * M)
        self.assertEqual((1, 7), (story.ways("x"), story.ways("pc")))
        return story

    def test_a_load_that_ends_takes_nothing_that_was_given_before(self) -> None:
        """All grants of x went to the taker: nothing of x lapses below its minimum."""
        story = self._taken()
        for _ in range(8):
            story.second({"x": rates(0.2 * M, 0.01 * M, 1.2)})
            self.assertEqual(1, story.ways("x"))

    def test_it_is_served_again_when_it_is_hungry_again(self) -> None:
        """Idle ways are counted right: the pool serves x again once ways are in it."""
        story = self._taken()
        for _ in range(8):
            story.second(
                {"x": rates(0.2 * M, 0.01 * M, 1.2), "pc": rates(2 * M, 0.2 * M, 1.2)},
                hits=2 * M,
                misses=0.1 * M,
            )
        story.second({"x": self.HUNGRY})
        self.assertEqual(2, story.ways("x"))

    def test_a_way_that_comes_back_brings_its_grant(self) -> None:
        """After the taker's way is undone, the giver's own grant lapses with its own demand."""
        story = Story((guest("x", BE, 2), guest("pc", PC, 5), guest("z", BE, 2, least=2)))
        story.settled()
        for step in range(3):
            story.second({"x": rates(9 * M, (6 - 0.5 * step) * M, 0.6)})
        self.assertEqual(4, story.ways("x"))  # 11 of 11 ways
        story.second({"pc": rates(30 * M, 20 * M, 0.4), "z": rates(9 * M, 8 * M, 0.4)})
        self.assertEqual((3, 6), (story.ways("x"), story.ways("pc")))
        story.second()  # no help: undone
        self.assertEqual((4, 5), (story.ways("x"), story.ways("pc")))
        back = next(one for one in story.decision.steps if one.reason.code == "way-back")
        self.assertEqual(("x", 3, 4), (back.subject, back.ways_before, back.ways_after))
        for _ in range(4):
            story.second({"x": rates(0.2 * M, 0.01 * M, 1.2)})
        self.assertEqual((2, 5), (story.ways("x"), story.ways("pc")))

    def test_a_way_comes_back_to_who_misses_it(self) -> None:
        """When its demand has gone: to the giver if that misses more since, else to the pool."""
        story = Story((guest("x", BE, 2), guest("pc", PC, 2))).settled()
        counts = {"x": 1, "pc": 3}
        for misses, wanted in ((5.1 * M, 1), (5.2 * M, 2)):
            grant = Grant("pc", Cause.CORE_DEMAND, 9 * M, 1.0, "x", 0.5)
            state = dataclasses.replace(
                story.state, grants=(grant,), allocation=Allocation(2, counts)
            )
            sample = dataclasses.replace(story.sample(), tenants={"x": rates(10 * M, misses)})
            roster = Roster.of(story.inventory)
            ledger = Ledger(roster, Parameters(), PRESETS["iat"], state, sample)
            ledger.take_back(grant, Action.SHRINK, message("lapsed"))
            self.assertEqual({"x": wanted, "pc": 2}, ledger.counts)
            taken = ledger.steps[0]
            self.assertEqual(("pc", 3, 2), (taken.subject, taken.ways_before, taken.ways_after))

    def test_who_gives_a_way(self) -> None:
        """The step names the giver's misses; they are unknown of a giver without counters."""
        story = Story((guest("x", BE, 5), guest("pc", PC, 6))).settled()
        roster, pc = Roster.of(story.inventory), RosterMember.of(story.inventory.tenants[1])
        for seen, expected in (({"x": rates(10 * M, 3 * M)}, 3 * M), ({}, None)):
            sample = dataclasses.replace(story.sample(), tenants=seen)
            ledger = Ledger(roster, Parameters(), PRESETS["iat"], story.state, sample)
            self.assertIs(Granted.YES, ledger.grant(pc, Cause.CORE_DEMAND, message("why")))
            (gave, *_) = ledger.steps
            self.assertEqual((Action.GIVE, "x", 5, 4), (
                gave.action, gave.subject, gave.ways_before, gave.ways_after
            ))  # fmt: skip
            self.assertEqual(expected, gave.reason.values["misses_per_s"])
            self.assertEqual({"x": 4, "pc": 7}, ledger.counts)

    def test_no_way_comes_back_to_who_has_its_maximum(self) -> None:
        """It stays in the pool then."""
        x, pc = guest("x", BE, 4, most=4, least=2), guest("pc", PC, 6)
        story = Story((x, pc, guest("o", BE, 1))).settled()
        story.second({"pc": rates(30 * M, 20 * M, 0.4)})
        self.assertEqual((3, 7), (story.ways("x"), story.ways("pc")))
        story.tenants(x, pc)  # a way is idle now
        story.second()
        self.assertEqual((4, 7), (story.ways("x"), story.ways("pc")))


class TestClosedLoop(unittest.TestCase):
    """Grow, give and lapse, for hundreds of steps, with and without noise."""

    def _holds(self, inventory: DomainInventory, decision: Decision) -> None:
        roster, counts = Roster.of(inventory), decision.allocation.tenants
        for member in roster.members:
            self.assertLessEqual(roster.least(member), counts[member.id])
            self.assertLessEqual(counts[member.id], roster.most(member))
        taken = sum(group.mask for group in decision.layout.groups)  # disjoint: adds up
        masks = sum(group.mask.count for group in decision.layout.groups)
        self.assertEqual((masks, taken.bit_count()), (taken.bit_count(), masks))
        usable = inventory.domain.ways - (
            decision.layout.ddio.count if self.preset == "io-iso" else 0
        )
        self.assertEqual(min(sum(counts.values()), usable), masks)
        for group in decision.layout.groups:
            if sum(counts.values()) <= usable:
                self.assertEqual(sum(counts[t] for t in group.tenants), group.mask.count)
            self.assertLess(0, group.mask.count)

    def _phase(self, server: plant.Plant, dice: random.Random) -> None:
        """Some begin a load that more ways help, the loads of others end."""
        for tenant in server.references:
            if dice.random() < 0.5:
                busy = server.references[tenant] > M
                server.references[tenant] = 0.2 * M if busy else dice.uniform(5, 40) * M
                server.curves[tenant] = plant.Curve(0.02, 0.6, dice.uniform(1, 6))
        server.traffic_per_s = dice.choice((1, 20, 60)) * M

    def _play(self, seed: int, fraction: float) -> None:
        """Phases of 40 s, in each of which some loads rise and some end."""
        dice = random.Random(seed)
        found = [stack(2)] if seed % 2 else []
        found += [
            guest(f"g{n}", (BE, PC)[n % 2], dice.randint(1, 3), io=dice.random() < 0.4)
            for n in range(dice.randint(3, 5))
        ]
        inventory = DomainInventory(domain(dice.choice((11, 12))), tuple(found))
        server = plant.Plant.at_random(inventory, dice)
        controller = Controller(Parameters(), PRESETS[self.preset])
        state = None
        for _ in range(8):
            state, decisions = plant.run(
                controller, inventory, server, noise_of(fraction, dice), 40, state
            )
            for decision in decisions:
                self._holds(inventory, decision)
            self._phase(server, dice)

    def test_counts_and_masks_agree_throughout(self) -> None:
        """320 steps a host, every one looked at."""
        for self.preset, seeds in (("iat", (2, 8, 10, 12, 15, 16, 18)), ("io-iso", (2, 16))):
            for fraction in (0.0, 0.01, 0.05):
                for seed in seeds:  # in which ways change hands most
                    with self.subTest(preset=self.preset, noise=fraction, seed=seed):
                        self._play(seed, fraction)


def critical(count: int, ways: int) -> tuple[Tenant, ...]:
    return tuple(guest(f"p{n:02}", PC, ways, io=n % 2 == 0) for n in range(count))


CROWDED = {
    "6 PC x 2 on 11": (11, critical(6, 2)),
    "7 PC x 2 on 12": (12, critical(7, 2)),
    "10 PC x 2 on 15": (15, critical(10, 2)),
    "stack + 5 PC x 2 on 11": (11, (stack(2), *critical(5, 2))),
    "4 PC x 3 + 16 BE on 11": (11, (*critical(4, 3), *(guest(f"b{n:02}", BE) for n in range(16)))),
    "18 PC on 11": (11, critical(18, 2)),
}


class TestCrowded(unittest.TestCase):
    """Tenants whose counts do not fit."""

    def _server(self, inventory: DomainInventory) -> plant.Plant:
        """Everybody is hungry: a way less is clearly more misses."""
        curve = plant.Curve(0.05, 0.8, 2.0)
        ids = [tenant.id for tenant in inventory.tenants]
        references = {tenant: (6 + 0.1 * n) * M for n, tenant in enumerate(ids)}
        return plant.Plant(references, dict.fromkeys(ids, curve), 3 * M, plant.Curve(0, 0.3, 2))

    def _rested(self, name: str, fraction: float) -> None:
        ways, tenants = CROWDED[name]
        inventory = DomainInventory(domain(ways), tenants)
        server, noise = self._server(inventory), noise_of(fraction, random.Random(1))
        controller = Controller(Parameters(), PRESETS["iat"])
        state, decisions = plant.run(controller, inventory, server, noise, 130)
        self.assertEqual([], [d.moved for d in decisions[10:] if d.moved])
        was = state.allocation.ddio_ways
        server.traffic_per_s *= 10
        state, decisions = plant.run(controller, inventory, server, noise, 3, state)
        self.assertGreater(state.allocation.ddio_ways, was)

    def test_at_rest_no_mask_moves_and_a_burst_is_served_at_once(self) -> None:
        """Two minutes of steady load move nothing; DDIO then grows within 3 s."""
        for name in CROWDED:
            for fraction in (0.0, 0.01):
                with self.subTest(name, noise=fraction):
                    self._rested(name, fraction)

    def _first(self, name: str) -> Story:
        ways, tenants = CROWDED[name]
        story = Story(tenants, ways=domain(ways))
        story.second()
        return story

    def test_the_cut_is_fair_and_in_the_allocation(self) -> None:
        """Nobody of a rank has two ways less than another that asked for as much."""
        for name, expected in (
            ("6 PC x 2 on 11", [1, 2, 2, 2, 2, 2]),
            ("7 PC x 2 on 12", [1, 1, 2, 2, 2, 2, 2]),
            ("10 PC x 2 on 15", [1] * 5 + [2] * 5),
            ("stack + 5 PC x 2 on 11", [1, 2, 2, 2, 2]),
            ("4 PC x 3 + 16 BE on 11", [2, 2, 3, 3]),
            ("18 PC on 11", [1] * 18),
        ):
            with self.subTest(name):
                counts = self._first(name).state.allocation.tenants
                cut = sorted(counts[tenant] for tenant in counts if tenant.startswith("p"))
                self.assertEqual(expected, cut)

    def test_reserved_ways_are_for_nobody(self) -> None:
        """What tenants ask for is cut to the ways that no other program has reserved."""
        guests = [guest(name, PC, 4) for name in "abc"]
        story = Story((*guests,), ways=domain(11, reserved_ways=WayMask(0x7))).settled()
        self.assertEqual([3, 3, 2], sorted((story.ways(one.id) for one in guests), reverse=True))

    def test_the_cut_is_told_once_with_its_reason(self) -> None:
        """A step for each who was cut, and for those who share; none when nothing changed."""
        story = self._first("7 PC x 2 on 12")
        cut = [step for step in story.decision.steps if step.action is Action.GIVE]
        self.assertEqual([(2, 1)] * 2, [(step.ways_before, step.ways_after) for step in cut])
        reason = cut[0].reason
        self.assertEqual(("cut", 14), (reason.code, reason.values["wanted"]))
        self.assertEqual((), story.second().steps)
        crowd = self._first("18 PC on 11").decision.steps
        self.assertEqual(7, [step.reason.code for step in crowd].count("share-partition"))

    def test_companions_stay_together(self) -> None:
        """Who shares a partition does so until the tenants change, whoever misses most."""
        story = self._first("18 PC on 11")
        groups = {group.tenants for group in story.decision.layout.groups}
        for second in range(20):
            hungry = f"p{second % 18:02}"
            story.second({hungry: rates(9 * M, 8 * M, 0.4)}, misses=(1 + second % 3) * M)
            self.assertEqual(groups, {group.tenants for group in story.decision.layout.groups})

    def test_who_is_held_shares_with_nobody(self) -> None:
        """One and several, of either priority: held at every step of a closed loop."""
        for name, asked in (
            ("4 PC x 3 + 16 BE on 11", {"b03": 4}),
            ("4 PC x 3 + 16 BE on 11", {"p01": 7, "b00": 2}),
            ("18 PC on 11", {"p17": 10}),
            ("stack + 21 on 11", {"stack": 5, "p02": 3}),
        ):
            with self.subTest(name, asked=asked):
                ways, tenants = CROWDED.get(name, (11, (stack(2), *critical(21, 1))))
                found = {0: DomainInventory(domain(ways), tenants)}
                wanted = [Hold(one, one, count, 0.0) for one, count in asked.items()]
                held, refused = holds.apply(found, wanted)
                self.assertEqual({}, refused)
                server = self._server(held[0])
                _, decisions = plant.run(
                    Controller(Parameters(), PRESETS["iat"]), held[0], server, lambda: 1.0, 20
                )
                for decision in decisions:
                    for tenant in held[0].tenants:
                        if tenant.ways.held:
                            self.assertIsNone(holds.kept(tenant, decision.layout))

    def test_a_newcomer_is_cut_before_those_who_are_there(self) -> None:
        """Among equals who holds the fewest ways gives: nobody else's mask shrinks for it."""
        ways, tenants = CROWDED["6 PC x 2 on 11"]
        story = Story(tenants[1:], ways=domain(ways)).settled()
        story.tenants(*tenants)
        story.second()
        self.assertEqual(1, story.ways("p00"))


class TestCheck(unittest.TestCase):
    """What the check at the end of a step finds."""

    def _broken(self, **allocation: int) -> str:
        story = Story((guest("a", BE, 2), guest("b", PC, 2, most=4))).settled()
        counts = {**story.state.allocation.tenants, **allocation}
        state = dataclasses.replace(
            story.state, allocation=dataclasses.replace(story.state.allocation, tenants=counts)
        )
        with self.assertRaises(invariants.InvariantError) as caught:
            invariants.check(Roster.of(story.inventory), 11, state)
        return str(caught.exception)

    def test_a_count_outside_its_bounds(self) -> None:
        """Below the minimum, above the maximum."""
        self.assertIn("a has 0 ways, its bounds are 1 and 11", self._broken(a=0))
        self.assertIn("b has 5 ways, its bounds are 1 and 4", self._broken(b=5))

    def test_ways_that_nobody_granted(self) -> None:
        """More than the initial ways without a grant for each."""
        self.assertIn("b has 3 ways that nobody granted", self._broken(b=3))

    def test_a_tenant_without_a_mask(self) -> None:
        """And masks of somebody who is not here."""
        story = Story((guest("a", BE, 2), guest("b", PC, 2))).settled()
        assert story.state.layout is not None
        of_a, of_b = story.state.layout.groups
        for groups in ((of_a,), (of_b,), (of_a, of_b, Group(("c",), of_a.mask))):
            layout = dataclasses.replace(story.state.layout, groups=groups)
            state = dataclasses.replace(story.state, layout=layout)
            with self.assertRaisesRegex(invariants.InvariantError, "the masks are those of"):
                invariants.check(Roster.of(story.inventory), 11, state)

    def test_masks_that_do_not_agree(self) -> None:
        """All together, and each."""
        text = self._broken(a=1)
        self.assertIn("all masks together have 4 ways, 3 are counted", text)
        self.assertIn("a: mask 0x", text)

    def test_a_step_lets_nothing_out_that_contradicts_itself(self) -> None:
        """The state handed in stays the last good one: it is raised, not returned."""
        story = Story((guest("a", BE, 2), guest("v", PC, io=True))).settled()
        wrong = dataclasses.replace(story.state.allocation, tenants={"a": -3, "v": 2})
        story.state = dataclasses.replace(story.state, allocation=wrong)
        with self.assertRaisesRegex(invariants.InvariantError, "a has -3 ways"):
            story.second(misses=5 * M)
