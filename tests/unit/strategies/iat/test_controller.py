# SPDX-License-Identifier: Apache-2.0
"""One step after the other: start, re-allocation, own demand, damping, tenants that come and go."""

from __future__ import annotations

import dataclasses
import unittest

from iat_nova.model import Action, Allocation, Decision, Parameters, Priority, WayMask
from iat_nova.model.message import Message, message, verbatim
from iat_nova.strategies.iat import controller, fsm
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.presets import PRESETS, Features
from iat_nova.strategies.iat.state import Cause, FsmState, Grant
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, Story, exception_of, guest, host, rates, stack

PC, BE = Priority.PC, Priority.BE


def actions(decision: Decision) -> list[tuple[Action, str]]:
    return [(step.action, step.subject) for step in decision.steps]


class TestStart(unittest.TestCase):
    """The first steps."""

    def test_the_first_step_adopts_and_keeps_ddio(self) -> None:
        """It lays out the initial ways in Low Keep and leaves DDIO as found."""
        story = Story((stack(2), guest("a", ways=3)), ways=domain(ddio=4))
        first = story.second()
        self.assertEqual([(Action.ADOPT, "layout")], actions(first))
        self.assertEqual(FsmState.LOW_KEEP, first.phase)
        self.assertEqual((4, 2, 3), (story.ddio, story.ways("stack"), story.ways("a")))
        self.assertEqual({"stack", "a", "ddio"}, set(first.moved))
        story.second()
        self.assertTrue(story.second().stable)
        self.assertEqual(4, story.ddio)

    def test_pressure_found_at_the_start_is_served(self) -> None:
        """The first write counts as a change, so steady high misses need no trigger."""
        story = Story((guest("a", io=True),))
        story.second(misses=3 * M)
        self.assertEqual(1, story.second().rule)

    def test_a_layout_found_is_what_moves_are_counted_from(self) -> None:
        """With the layout of a former state nothing moves in the first step."""
        before = Story((stack(), guest("a"))).settled()
        again = Story((stack(), guest("a")), layout=before.decision.layout)
        self.assertEqual((), again.second().moved)


class TestIoDemand(unittest.TestCase):
    """DDIO's ways."""

    def test_a_way_an_iteration_up_to_the_maximum(self) -> None:
        """While misses stay high DDIO grows one by one, then High Keep (10)."""
        story = Story((guest("a", io=True),), parameters=Parameters(ddio_ways_max=4)).settled()
        self.assertEqual(1, story.second(misses=5 * M).rule)
        self.assertEqual(3, story.ddio)
        story.second()
        self.assertEqual(4, story.ddio)
        last = story.second()
        self.assertEqual((10, FsmState.HIGH_KEEP), (last.rule, last.phase))
        story.second()
        self.assertTrue(story.second().stable)
        self.assertEqual(4, story.ddio)

    def test_a_satisfied_load_is_left_alone(self) -> None:
        """Reclaim takes nothing back while the traffic that earned the ways is there."""
        story = Story((guest("a", io=True),)).settled()
        story.second(misses=5 * M)
        satisfied = story.second(hits=24.5 * M, misses=0.8 * M)
        self.assertEqual((6, FsmState.RECLAIM), (satisfied.rule, satisfied.phase))
        for _ in range(10):
            story.second()
        self.assertTrue(story.decision.stable)
        self.assertEqual((3, FsmState.RECLAIM), (story.ddio, story.state.fsm))
        story.second(hits=20 * M)
        self.assertEqual(2, story.ddio)
        fell = story.decision.steps[0].reason
        self.assertEqual("ddio-demand-fell", fell.code)
        self.assertAlmostEqual(-0.168, fell.values["change"])

    def test_ways_nobody_granted_go_back_while_misses_are_low(self) -> None:
        """DDIO found above MIN shrinks in Reclaim; what then proves needed is granted for good."""
        story = Story(
            (guest("a", io=True),), ways=domain(ddio=3), parameters=Parameters(ddio_ways_max=4)
        ).settled()
        story.second(misses=3 * M)  # 1: 4 ways
        story.second(hits=22 * M, misses=0.5 * M)  # 6: one was found above MIN
        self.assertEqual((3, FsmState.RECLAIM), (story.ddio, story.state.fsm))
        self.assertEqual(5, story.second(misses=2 * M).rule)
        self.assertEqual(4, story.ddio)
        story.second(misses=0.5 * M)
        for _ in range(5):
            story.second()
        self.assertEqual((4, True), (story.ddio, story.decision.stable))

    def test_miss_curve_grows_by_what_it_takes(self) -> None:
        """With the alternative increment a second growth follows the slope of the first."""
        parameters = Parameters(ddio_growth="miss-curve")
        story = Story((guest("a", io=True),), parameters=parameters).settled()
        story.second(misses=5 * M)
        self.assertEqual(3, story.ddio)
        story.second(hits=25 * M, misses=3.5 * M)  # 1.5 M/s a way, 2.5 M/s too many
        self.assertEqual(5, story.ddio)

    def test_ddio_that_cannot_be_resized_holds(self) -> None:
        """The machine says what it would do; nothing moves and it comes to rest."""
        story = Story((guest("a", io=True),), ways=domain(ddio_resizable=False)).settled()
        wants = story.second(misses=5 * M)
        self.assertEqual([(Action.REFUSE, "ddio")], actions(wants))
        story.second()
        self.assertTrue(story.second().stable)
        self.assertEqual((2, FsmState.IO_DEMAND), (story.ddio, story.state.fsm))

    def test_coerced_ways_stay_together(self) -> None:
        """Where the two top ways are tied a minimum of one is not reached for."""
        parameters = Parameters(ddio_ways_min=1)
        tied = domain(coerced_ways=WayMask(0x600))
        story = Story((guest("a", io=True),), ways=tied, parameters=parameters).settled()
        story.second(misses=5 * M)
        story.second(hits=5 * M, misses=0.1 * M)
        for _ in range(4):
            story.second()
        self.assertEqual((2, FsmState.LOW_KEEP), (story.ddio, story.state.fsm))


class TestShutWays(unittest.TestCase):
    """DDIO grows while its ways are shut to cores: each of its ways costs somebody one."""

    SHUT = Features(True, True, True, True)

    def test_best_effort_makes_room(self) -> None:
        """Idle ways first, then a BE tenant's, then there are none."""
        story = Story(
            (guest("pc", PC, 5, io=True), guest("be", BE, 3, least=2)), features=self.SHUT
        ).settled()
        story.second(misses=5 * M)
        self.assertEqual((3, 3), (story.ddio, story.ways("be")))
        story.second()
        self.assertEqual((4, 2), (story.ddio, story.ways("be")))
        story.second()
        self.assertEqual((4, [(Action.REFUSE, "ddio")]), (story.ddio, actions(story.decision)))
        self.assertEqual((), story.sharing)

    def test_what_cannot_be_laid_out_is_held(self) -> None:
        """A growth that leaves no mask for the tenants is not done; the loop goes on."""
        tied = domain(3, ddio=1, coerced_ways=WayMask(0x3))
        parameters = Parameters(ddio_ways_min=1)
        story = Story(
            (guest("a", io=True, ways=1),), ways=tied, features=self.SHUT, parameters=parameters
        ).settled()
        decision = story.second(misses=5 * M)
        self.assertEqual([(Action.REFUSE, "layout")], actions(decision))
        self.assertEqual("no-layout", decision.steps[0].reason.code)
        self.assertEqual((1, (), ()), (story.ddio, decision.moved, story.state.grants))
        self.assertEqual(FsmState.IO_DEMAND, story.state.fsm)


class TestCoreDemand(unittest.TestCase):
    """Ways of the stack and of I/O tenants."""

    PRESS = {"vf": rates(12 * M, 5 * M, 0.7)}

    def _pressed(self, *others: object, **more: object) -> Story:
        story = Story((guest("vf", PC, io=True), *others), **more).settled()  # type: ignore[arg-type]
        story.second(self.PRESS, hits=15 * M, misses=4 * M)
        return story

    def test_a_grant_that_did_not_help_is_the_last(self) -> None:
        """It is kept, noted, and not repeated for this demand until its back-off has passed."""
        story = self._pressed()
        self.assertEqual((3, 3), (story.decision.rule, story.ways("vf")))
        grown = story.decision.steps[0]
        self.assertEqual((2, 3), (grown.ways_before, grown.ways_after))
        story.second()
        self.assertEqual([(Action.REFUSE, "vf")], actions(story.decision))
        self.assertEqual(3, story.ways("vf"))
        backoff = story.state.backoffs[0]
        self.assertEqual(("vf", 10.0), (backoff.subject, backoff.delay_s))
        story.second({"vf": rates(12 * M, 5.5 * M, 0.65)}, misses=4.1 * M)
        self.assertEqual([(Action.REFUSE, "vf")], actions(story.decision))
        story.second({"vf": rates(14 * M, 6.5 * M, 0.6)})  # 17 % more references
        self.assertEqual([(Action.GROW, "vf")], actions(story.decision)[:1])

    def test_back_off_doubles(self) -> None:
        """The second useless grant for one demand waits twice as long, up to the maximum."""
        story = self._pressed(parameters=Parameters(backoff_max_s=15.0))
        story.second()
        story.second({"vf": rates(12 * M, 5.6 * M, 0.6)}, seconds=11.0)
        self.assertEqual(4, story.ways("vf"))
        story.second()
        self.assertEqual(15.0, story.state.backoffs[0].delay_s)

    def test_a_best_effort_tenant_gives_and_never_below_its_minimum(self) -> None:
        """With no idle way the one with fewest misses gives; then the wish is held."""
        story = self._pressed(
            guest("be", BE, 2), guest("other", PC, 7), ways=domain(), be=rates(M, 1e3)
        )
        self.assertIn((Action.GIVE, "be"), actions(story.decision))
        self.assertEqual((3, 1), (story.ways("vf"), story.ways("be")))
        story.second({"vf": rates(12 * M, 4 * M, 0.8)}, misses=3.5 * M)  # it helped
        self.assertEqual((3, 1, 7), (story.ways("vf"), story.ways("be"), story.ways("other")))
        self.assertEqual([(Action.REFUSE, "vf")], actions(story.decision))

    def test_a_best_effort_io_tenant_takes_from_others(self) -> None:
        """What presses is I/O: unlike a core's own hunger, it is served from others' ways too."""
        story = Story((guest("vf", BE, 4, io=True), guest("be", BE, 7)), be=rates(M, 1e3))
        story.settled().second(self.PRESS, hits=15 * M, misses=4 * M)
        self.assertEqual((5, 6), (story.ways("vf"), story.ways("be")))

    def test_the_stack_gives_first_in_reclaim(self) -> None:
        """Before a tenant whose way was granted later."""
        story = Story((stack(2), guest("vf", PC, 2, io=True))).settled()
        grants = tuple(
            Grant(subject, Cause.CORE_DEMAND, 20 * M, at_s)
            for subject, at_s in (("stack", 1.0), ("vf", 2.0))
        )
        story.state = dataclasses.replace(
            story.state,
            fsm=FsmState.RECLAIM,
            grants=grants,
            acted=True,
            allocation=Allocation(2, {"stack": 3, "vf": 3}),
        )
        story.second()
        self.assertEqual((2, 3), (story.ways("stack"), story.ways("vf")))
        story.second()
        self.assertEqual((2, 2), (story.ways("stack"), story.ways("vf")))

    def test_the_maximum_of_a_request_is_kept(self) -> None:
        """Who has its maximum is passed over with the reason."""
        story = Story((guest("vf", PC, io=True, most=2),)).settled()
        story.second(self.PRESS, hits=15 * M, misses=4 * M)
        self.assertEqual(2, story.ways("vf"))
        self.assertEqual("at-maximum", story.decision.steps[0].reason.code)


class TestOwnDemand(unittest.TestCase):
    """Exception 2: what Core-only does, and IAT beside its machine."""

    HUNGRY = {"x": rates(9 * M, 6 * M, 0.6)}

    def test_ways_while_each_helps_then_the_last_is_undone(self) -> None:
        """Two ways that cut the miss rate stay, the third that does not goes."""
        for preset in ("iat", "core-only", "io-iso"):
            with self.subTest(preset=preset):
                story = Story((guest("x", PC, 2), guest("v", io=True)), features=PRESETS[preset])
                story.settled()
                self.assertEqual(2, exception_of(story.second(self.HUNGRY)))
                self.assertEqual(3, story.ways("x"))
                story.second({"x": rates(9 * M, 5 * M, 0.7)})
                self.assertEqual(4, story.ways("x"))
                story.second({"x": rates(9 * M, 4 * M, 0.8)})
                self.assertEqual(5, story.ways("x"))
                story.second({"x": rates(9 * M, 3.95 * M, 0.8)})
                self.assertEqual((Action.UNDO, "x"), actions(story.decision)[0])
                self.assertEqual(4, story.ways("x"))
                story.second()
                self.assertTrue(story.second().stable)

    def test_a_sample_from_the_beginning_of_a_phase_judges_nothing(self) -> None:
        """A way granted when little of a phase had been seen stays on trial with the next one."""
        for after, expected in ((7 * M, 4), (7.95 * M, 2)):
            with self.subTest(after=after):
                story = Story((guest("x", PC, 2), guest("v", io=True))).settled()
                story.second({"x": rates(9 * M, 2 * M, 0.9)})  # a tenth of a second of it
                story.second({"x": rates(9 * M, 8 * M, 0.5)})  # all of it, one way more
                self.assertEqual("own-demand-still-rises", story.decision.steps[0].reason.code)
                self.assertEqual(4, story.ways("x"))
                story.second({"x": rates(9 * M, after, 0.6)})
                self.assertEqual({4: 5, 2: 2}[expected], story.ways("x"))

    def test_a_miss_rate_that_creeps_up_earns_one_way_more_at_most(self) -> None:
        """The second way that cannot be told to help ends it; both go back."""
        story = Story((guest("x", PC, 2), guest("v", io=True))).settled()
        most = 2
        for step in range(1, 9):
            story.second({"x": rates(9 * M, (2 + 0.5 * step) * M, 0.9 - 0.05 * step)})
            most = max(most, story.ways("x"))
        self.assertEqual(4, most)
        self.assertEqual(2, story.ways("x"))

    def test_at_its_maximum_what_cannot_be_told_goes_back(self) -> None:
        """Where the next way cannot be had, the one on trial goes back as well."""
        story = Story((guest("x", PC, 2, most=3), guest("v", io=True))).settled()
        story.second({"x": rates(9 * M, 2 * M, 0.9)})
        self.assertEqual(3, story.ways("x"))
        story.second({"x": rates(9 * M, 8 * M, 0.5)})
        self.assertEqual(2, story.ways("x"))

    def test_its_ways_go_back_when_the_demand_has_gone(self) -> None:
        """References far below those that earned the ways end them, in Low Keep too."""
        story = Story((guest("x", PC, 2),)).settled()
        story.second(self.HUNGRY)
        story.second({"x": rates(9 * M, 5 * M, 0.7)})
        story.second({"x": rates(9 * M, 4.95 * M, 0.7)})  # undone
        self.assertEqual(3, story.ways("x"))
        story.second({"x": rates(1 * M, 0.1 * M, 1.2)})
        self.assertEqual(2, story.ways("x"))
        self.assertEqual(FsmState.LOW_KEEP, story.state.fsm)

    def test_two_that_ask_at_once_are_served_in_turn(self) -> None:
        """The second is not forgotten while the first is on trial; PC goes first."""
        story = Story((guest("be", BE, 1), guest("pc", PC, 1))).settled()
        story.second({"pc": rates(9 * M, 6 * M, 0.6), "be": rates(9 * M, 8 * M, 0.5)})
        self.assertEqual((2, 1), (story.ways("pc"), story.ways("be")))
        story.second()  # no help: undone
        story.second()
        self.assertEqual((1, 2), (story.ways("pc"), story.ways("be")))

    def test_it_waits_while_ddio_moves(self) -> None:
        """A hunger that coincides with a transition is served in the iteration after it."""
        story = Story((guest("x", PC, 2), guest("v", PC, 1, io=True))).settled()
        story.second(self.HUNGRY, misses=2 * M)
        self.assertEqual((1, 2), (story.decision.rule, story.ways("x")))
        self.assertEqual(6, story.second(hits=22 * M, misses=0.5 * M).rule)
        story.second()
        self.assertEqual((2, 3), (exception_of(story.decision), story.ways("x")))

    def test_best_effort_takes_idle_ways_only(self) -> None:
        """A BE tenant's own hunger takes nothing from another, a PC tenant's does."""
        for priority, expected in ((BE, (4, 7)), (PC, (5, 6))):
            with self.subTest(priority=priority):
                story = Story(
                    (guest("x", priority, 4), guest("y", BE, 7)), y=rates(1 * M, 0.1 * M)
                ).settled()
                self.assertEqual(2, exception_of(story.second(self.HUNGRY)))
                self.assertEqual(expected, (story.ways("x"), story.ways("y")))

    def test_exceptions_stop_the_machine(self) -> None:
        """In any state an exception comes instead of a transition, which a write brings about."""
        x, be = {"x": rates(9 * M, 6 * M, 0.6)}, {"be": rates(9 * M, 6 * M, 0.6)}
        exceptions = ((1, {"x": rates(ipc=0.5)}, 20), (2, x, 20), (3, be, 21))
        low, reclaim = FsmState.LOW_KEEP, FsmState.RECLAIM
        rules = {
            low: 1,
            reclaim: 2,
            FsmState.IO_DEMAND: 6,
            FsmState.CORE_DEMAND: 8,
            FsmState.HIGH_KEEP: 11,
        }
        for phase, rule in rules.items():
            for number, changed, hits in exceptions:
                for acted in (False, True):
                    with self.subTest(phase=phase, number=number, acted=acted):
                        story = Story((stack(2), guest("x", PC, 2), guest("be", BE, 6)))
                        story.misses = 0.985 * M
                        story.settled()
                        self.assertEqual(("be",), story.sharing)
                        story.state = dataclasses.replace(story.state, fsm=phase, acted=acted)
                        drift = 1.005 * M if phase is low else None  # below 3 %
                        decision = story.second(changed, hits=hits * M, misses=drift)
                        if acted:  # the agent's own write counts as a change
                            self.assertEqual(rule, decision.rule)
                            continue
                        self.assertEqual((number, None), (exception_of(decision), decision.rule))
                        self.assertEqual((phase.value, 2), (decision.phase, story.ddio))
                        self.assertEqual(3 if number == 2 else 2, story.ways("x"))
                        waits = number == 1 or (number == 2 and phase is reclaim)
                        self.assertEqual(None if waits else rule, story.second().rule)

    def test_exception_3_shuffles_first(self) -> None:
        """Who overlaps and grew hungry while DDIO moved changes places with a lesser one."""
        story = Story(
            (stack(3), guest("a", BE, 4), guest("b", BE, 4)),
            a=rates(2 * M, 0.5 * M),
            b=rates(4 * M, 0.5 * M),
        ).settled()
        self.assertEqual(("a",), story.sharing)
        decision = story.second({"a": rates(12 * M, 2 * M, 0.7)}, hits=18 * M, misses=0.9 * M)
        self.assertEqual(3, exception_of(decision))
        self.assertEqual([(Action.SHUFFLE, "layout")], actions(decision))
        self.assertEqual(("b",), story.sharing)


class TestPresets(unittest.TestCase):
    """What a policy may do, it does; what not, not."""

    def _press(self, features: Features) -> Story:
        story = Story(
            (stack(2), guest("vf", PC, 2, io=True), guest("be", BE, 5)), features=features
        ).settled()
        for second in range(4):
            story.second(
                {"stack": rates((9 + 3 * second) * M, (2 + 3 * second) * M, 0.7)},
                hits=(15 - second) * M,
                misses=(3 + second) * M,
            )
        return story

    def test_baseline_does_nothing(self) -> None:
        """After the first layout nothing ever moves, and old news is no news."""
        story = self._press(PRESETS["baseline"])
        self.assertFalse(any(decision.moved for decision in story.decisions[1:]))
        self.assertTrue(story.second().stable)

    def test_core_only_and_io_iso_have_no_machine(self) -> None:
        """Neither leaves Low Keep or touches DDIO; I/O-iso keeps cores off DDIO's ways."""
        for preset, sharing in (("core-only", ("vf",)), ("io-iso", ())):
            with self.subTest(preset=preset):
                story = self._press(PRESETS[preset])
                self.assertEqual({FsmState.LOW_KEEP}, {d.phase for d in story.decisions})
                self.assertEqual(2, story.ddio)
                self.assertEqual(sharing, story.sharing)

    def test_core_only_and_io_iso_know_no_io(self) -> None:
        """The stack and a guest with I/O get ways and give them back as a guest without I/O."""
        for preset in ("core-only", "io-iso"):
            for tenant in ("stack", "vf", "x"):
                with self.subTest(preset=preset, tenant=tenant):
                    story = Story(
                        (stack(2), guest("vf", PC, 2, io=True), guest("x", PC, 2)),
                        features=PRESETS[preset],
                    ).settled()
                    for misses in (6, 5, 4, 4):
                        story.second(
                            {tenant: rates(12 * M, misses * M, 1 - misses / 10)}, misses=1.5 * M
                        )
                    self.assertEqual(
                        {"stack": 2, "vf": 2, "x": 2} | {tenant: 4}, story.state.allocation.tenants
                    )
                    story.second({tenant: rates(1 * M, 0.1 * M)})
                    story.second()
                    self.assertEqual(2, story.ways(tenant))

    def test_io_iso_cuts_best_effort_when_ddio_is_widened_by_hand(self) -> None:
        """Another hand's DDIO ways are adopted, and 7 ways remain for cores."""
        story = Story((guest("pc", PC, 5), guest("be", BE, 4)), features=PRESETS["io-iso"])
        story.settled()
        story.retell(ddio_found=WayMask(0x780))
        decision = story.second()
        self.assertEqual((4, 5, 2), (story.ddio, story.ways("pc"), story.ways("be")))
        self.assertEqual((), decision.layout.overlaps_ddio)
        self.assertIn((Action.GIVE, "be"), actions(decision))

    def test_ddio_by_hand_wider_and_narrower(self) -> None:
        """Another hand's DDIO ways are adopted, whether more or fewer than before."""
        story = Story((guest("pc", PC, 5), guest("be", BE, 2)), features=PRESETS["io-iso"])
        story.settled()
        for mask, expected in ((0x780, 4), (0x700, 3), (0x600, 2)):
            story.retell(ddio_found=WayMask(mask))
            story.second()
            self.assertEqual(expected, story.ddio)

    def test_variants_of_figures_10_and_12(self) -> None:
        """Without resize_ddio DDIO stays; without resize_cores the tenants' counts stay."""
        fixed_ddio = self._press(Features(False, True, True, False))
        self.assertEqual({2}, {d.allocation.ddio_ways for d in fixed_ddio.decisions})
        self.assertGreater(fixed_ddio.ways("stack"), 2)
        fixed_cores = Story((stack(2), guest("be")), features=Features(True, False, True, False))
        fixed_cores.settled()
        fixed_cores.second({"be": rates(9 * M, 6 * M, 0.5)}, misses=3 * M)
        self.assertEqual((3, 2), (fixed_cores.ddio, fixed_cores.ways("be")))
        fixed_cores.second({"stack": rates(9 * M, 6 * M, 0.5)}, hits=15 * M)
        self.assertEqual(FsmState.CORE_DEMAND, fixed_cores.state.fsm)
        self.assertEqual((3, 2), (fixed_cores.ddio, fixed_cores.ways("stack")))
        self.assertEqual("tenants-fixed", fixed_cores.decision.steps[0].reason.code)

    def test_without_ddio_counters_the_machine_holds(self) -> None:
        """Core demand goes on, that of I/O tenants too, and the state stays."""
        story = Story((guest("vf", PC, io=True), guest("x", PC)), ways=domain(ddio_counters=False))
        story.hits = story.misses = None
        story.settled()
        story.second({"vf": rates(12 * M, 6 * M, 0.6)})
        self.assertEqual((3, FsmState.LOW_KEEP), (story.ways("vf"), story.state.fsm))


class TestReasons(unittest.TestCase):
    """What a decision says."""

    def codes(self, story: Story) -> list[str]:
        return [one.code for one in story.decision.why]

    def test_nothing_done(self) -> None:
        """Counters stay where they are, or the machine has no row for what they show."""
        story = Story((guest("a", io=True), guest("x", PC))).settled()
        self.assertNotEqual([], self.codes(story))
        self.assertNotIn("ways-never-change", self.codes(story))
        story.second(hits=22 * M)
        self.assertEqual(["no-transition"], self.codes(story))
        core = Story((guest("x", PC),), features=PRESETS["core-only"]).settled()
        core.second({"x": rates(9 * M, 1 * M, 1.0)})
        self.assertIn("nobody-asks", self.codes(core))
        without = Story((guest("x", PC),), ways=domain(ddio_counters=False))
        without.hits = without.misses = None
        without.settled().second({"x": rates(9 * M, 1 * M, 1.0)})
        self.assertIn("nobody-asks", self.codes(without))

    def test_ways_that_never_change(self) -> None:
        """The baseline says so, quiet or not, and takes what it saw as the new reference."""
        story = Story((guest("x", PC),), features=PRESETS["baseline"]).settled()
        self.assertEqual(["ways-never-change"], self.codes(story))
        self.assertEqual(1, len(story.second({"x": rates(9 * M)}).changes))
        self.assertEqual(["ways-never-change"], self.codes(story))
        self.assertEqual((), story.second().changes)
        self.assertFalse(story.state.acted)

    def test_a_transition_and_its_step(self) -> None:
        """The row's meaning; the step names the row, and later that the state is the same."""
        story = Story((guest("a", io=True),)).settled()
        story.second(misses=5 * M)
        self.assertEqual([fsm.NUMBERED[1].meaning], self.codes(story))
        (step,) = story.decision.steps
        self.assertEqual((Action.GROW, "ddio"), (step.action, step.subject))
        cause = self.causes(step.reason)
        self.assertIn("row", cause)
        self.assertNotIn("still", cause)
        story.second()
        self.assertEqual([], self.codes(story))
        (step,) = story.decision.steps
        self.assertIn("still", self.causes(step.reason))

    def causes(self, told: Message) -> set[str]:
        """The codes of a message and of those within."""
        inner = [one for one in told.values.values() if isinstance(one, Message)]
        return {told.code}.union(*map(self.causes, inner))

    def test_stable(self) -> None:
        """Only without changes, steps, transitions and moved masks."""
        story = Story((guest("a", io=True), guest("x", PC))).settled()
        self.assertTrue(story.second().stable)
        self.assertFalse(story.second({"x": rates(9 * M, 1 * M, 1.2)}).stable)
        story.second(misses=5 * M)
        moving = story.second()
        self.assertEqual((), moving.changes)
        self.assertFalse(moving.stable)
        self.assertTrue(moving.moved)


class TestReferences(unittest.TestCase):
    """What the next sample is compared with."""

    def test_after_an_action_all_of_the_sample(self) -> None:
        """Small drifts beside an action start anew; beside a change without one they go on."""
        for misses, action in ((5 * M, True), (0.5 * M, False)):
            with self.subTest(action=action):
                story = Story((guest("a", io=True), guest("x", PC), guest("y", PC))).settled()
                story.second({"x": rates(5.1 * M), "y": rates(9 * M, 1 * M, 1.2)}, misses=misses)
                self.assertEqual(action, story.state.acted)
                assert story.state.reference is not None
                x = story.state.reference.tenants["x"].references_per_s
                self.assertEqual(5.1 * M if action else 5 * M, x)
                self.assertEqual(9 * M, story.state.reference.tenants["y"].references_per_s)

    def test_a_grant_is_an_action(self) -> None:
        """A way of its own for a guest, without a transition; a quiet iteration is none."""
        story = Story((guest("x", PC), guest("v", io=True))).settled()
        self.assertFalse(story.state.acted)
        story.second({"x": rates(9 * M, 6 * M, 0.6)})
        self.assertIsNone(story.decision.rule)
        self.assertTrue(story.state.acted)


class TestRecent(unittest.TestCase):
    def test_within_a_minute(self) -> None:
        """Mask changes of the last sixty seconds, with the present one."""
        story = Story((guest("a", io=True),)).settled()
        before = dataclasses.replace(story.state, mask_changes_at_s=(100.0, 140.0, 140.5, 199.0))
        sample = dataclasses.replace(story.sample(), taken_at_s=200.0)
        self.assertEqual((140.5, 199.0), controller._recent(before, sample, False))
        self.assertEqual((140.5, 199.0, 200.0), controller._recent(before, sample, True))


class TestDamping(unittest.TestCase):
    """No more than so many mask changes a minute."""

    def test_what_is_said(self) -> None:
        """How often masks moved, and after how many seconds they may again."""
        for limit, times, delay_s in ((2, 3, 42.0), (3, 3, 31.0), (0, 3, 60.0)):
            for iteration in (6, 7):
                with self.subTest(limit=limit, iteration=iteration):
                    parameters = Parameters(mask_changes_per_minute=limit)
                    story = Story((guest("a", io=True),)).settled()
                    story.controller = Controller(parameters)
                    story.state = dataclasses.replace(
                        story.state,
                        iteration=iteration,
                        acted=True,
                        mask_changes_at_s=(71.0, 82.0, 95.0),
                    )
                    story.at_s = 100.0
                    sample = story.sample()
                    after, told = story.controller.step(story.state, story.inventory, sample)
                    (step,) = told.steps
                    self.assertEqual("masks-moved-often", step.reason.code)
                    self.assertEqual(((), (), False), (told.changes, told.moved, told.stable))
                    values = step.reason.values
                    self.assertEqual((times, delay_s), (values["times"], values["delay_s"]))
                    self.assertEqual((iteration + 1, False), (after.iteration, after.acted))
                    self.assertEqual(100.0 + delay_s, after.retry_at_s)
                    self.assertEqual((71.0, 82.0, 95.0), after.mask_changes_at_s)

    def test_the_limit_holds_and_then_goes_on(self) -> None:
        """What the limit held back is taken up when a minute has passed, without a new change."""
        parameters = Parameters(mask_changes_per_minute=2)
        story = Story((guest("a", io=True),), parameters=parameters)
        story.second(misses=9 * M)  # the first layout is one change
        story.second()
        self.assertEqual(3, story.ddio)
        held = story.second()
        self.assertEqual([(Action.REFUSE, "layout")], actions(held))
        for _ in range(57):
            self.assertTrue(story.second().stable)
        self.assertEqual(3, story.ddio)
        story.second()
        self.assertEqual(4, story.ddio)

    def test_a_late_iteration_goes_on(self) -> None:
        """No iteration need come in the very second in which the limit ends."""
        parameters = Parameters(mask_changes_per_minute=2)
        story = Story((guest("a", io=True),), parameters=parameters)
        story.second(misses=9 * M)
        story.second()
        self.assertEqual([(Action.REFUSE, "layout")], actions(story.second()))
        self.assertEqual(3, story.ddio)
        story.second(seconds=70.0)
        self.assertEqual(4, story.ddio)


class TestTenants(unittest.TestCase):
    """Tenants that come, go and change."""

    def test_leavers_take_their_grants_along(self) -> None:
        """Grants and back-offs of a leaver vanish; the others keep theirs."""
        story = Story((guest("x", PC, 2), guest("y", PC, 2))).settled()
        story.second({"x": rates(9 * M, 6 * M, 0.6)})
        story.second({"x": rates(9 * M, 5 * M, 0.7)})
        self.assertEqual(4, story.ways("x"))
        story.tenants(guest("x", PC, 2))
        self.assertEqual([(Action.ADOPT, "y")], actions(story.second()))
        self.assertEqual(4, story.ways("x"))
        story.tenants(guest("y", PC, 2))
        story.second()
        self.assertEqual({"y": 2}, dict(story.state.allocation.tenants))
        self.assertEqual((), story.state.grants)

    def test_a_newcomers_initial_ways_come_before_grants(self) -> None:
        """A grant is given up for want of ways before anybody's initial ways are cut."""
        story = Story((guest("x", PC, 4), guest("y", PC, 4))).settled()
        story.second({"x": rates(9 * M, 6 * M, 0.6)})
        story.second({"x": rates(9 * M, 5 * M, 0.7)})
        self.assertEqual(6, story.ways("x"))
        story.tenants(guest("x", PC, 4), guest("y", PC, 4), guest("z", PC, 2))
        story.second()
        self.assertEqual((5, 4, 2), (story.ways("x"), story.ways("y"), story.ways("z")))

    def test_a_way_that_was_given_is_given_again(self) -> None:
        """Somebody else's coming leaves a grant and its giver alone; the giver's going ends it."""
        vf, be, other = guest("vf", PC, 2, io=True), guest("be", BE, 3), guest("o", PC, 5)
        story = Story((vf, be, other), be=rates(M, 1e3)).settled()
        story.second({"o": rates()})  # 10 of 11 ways taken: one is idle
        story.second({"vf": rates(12 * M, 5 * M, 0.7)}, hits=15 * M, misses=4 * M)
        story.second({"vf": rates(12 * M, 4 * M, 0.8)}, hits=16 * M, misses=3 * M)
        self.assertEqual((4, 2), (story.ways("vf"), story.ways("be")))
        story.tenants(vf, be, other, guest("new", BE, 1))
        story.second()  # the newcomer takes the way that was idle once
        self.assertEqual((3, 2), (story.ways("vf"), story.ways("be")))
        story.tenants(vf, other, guest("new", BE, 4))
        story.second()
        self.assertEqual((2, 0), (story.ways("vf"), len(story.state.grants)))

    def test_a_useless_way_is_undone_though_somebody_arrives(self) -> None:
        """What is on trial when the tenants change is judged after it."""
        story = Story((guest("x", PC, 2), guest("v", io=True))).settled()
        story.second({"x": rates(9 * M, 6 * M, 0.6)})
        self.assertEqual(3, story.ways("x"))
        story.tenants(*story.inventory.tenants, guest("new", BE, 1))
        story.second()
        story.second()
        self.assertEqual((2, (Action.UNDO, "x")), (story.ways("x"), actions(story.decision)[0]))

    def test_hunger_in_the_second_of_an_arrival_is_served(self) -> None:
        """The reference of who was there stays, so that its rise is still one."""
        story = Story((guest("x", PC, 2), guest("v", io=True))).settled()
        story.tenants(*story.inventory.tenants, guest("new", BE, 1))
        story.second({"x": rates(9 * M, 6 * M, 0.6)})
        story.second()
        self.assertEqual(3, story.ways("x"))

    def test_a_lowered_maximum_of_ddio_takes_effect(self) -> None:
        """Granted ways above it go at once; those that were found stay."""
        story = Story((guest("a", io=True),)).settled()
        for _ in range(3):
            story.second(misses=5 * M)
        self.assertEqual(5, story.ddio)
        for most, expected in ((4, 4), (1, 2)):
            story.controller = Controller(Parameters(ddio_ways_max=most), PRESETS["iat"])
            decision = story.second()
            self.assertEqual(expected, story.ddio)
            self.assertEqual([(Action.SHRINK, "ddio")], actions(decision))
        story.second()
        story.second()
        self.assertEqual(2, story.ddio)

    def test_ddio_keeps_its_ways_when_the_host_runs_empty(self) -> None:
        """DDIO's grants outlive the tenants; what was found counts at the start only."""
        story = Story((guest("a", io=True),)).settled()
        story.second(misses=3 * M)
        story.tenants()
        story.second()
        story.tenants(guest("b", io=True))
        story.second()
        self.assertEqual(3, story.ddio)

    def test_a_changed_request_is_followed(self) -> None:
        """New bounds take effect at once and say what changed."""
        story = Story((guest("x", PC, 4),)).settled()
        story.tenants(guest("x", PC, 2, most=3))
        decision = story.second()
        self.assertEqual(2, story.ways("x"))
        self.assertEqual(message("fields-changed", fields=("ways",)), decision.steps[0].reason)

    def test_cosmetics_are_no_change(self) -> None:
        """Another name, device or warning of a tenant moves nothing and is no adoption."""
        story = Story((guest("x", PC),)).settled()
        renamed = dataclasses.replace(
            story.inventory.tenants[0], name="y", warnings=(verbatim("odd"),)
        )
        story.tenants(renamed)
        self.assertTrue(story.second().stable)

    def test_a_tenant_absent_from_the_sample_is_tolerated(self) -> None:
        """It keeps its ways, and its return is no change."""
        story = Story((guest("x", PC), guest("y", PC))).settled()
        away = story.rates.pop("x")
        self.assertTrue(story.second().stable)
        story.rates["x"] = away
        self.assertTrue(story.second().stable)
        newcomer = Story((guest("x", PC),))
        newcomer.rates.clear()
        newcomer.settled()
        newcomer.second({"x": rates()})
        self.assertTrue(newcomer.decision.stable)
        self.assertFalse(newcomer.second({"x": rates(9 * M, 6 * M, 0.5)}).stable)

    def test_more_tenants_than_ways(self) -> None:
        """Forty tenants share partitions and the loop goes on."""
        crowd = tuple(guest(f"g{n}", PC if n % 5 == 0 else BE, io=n % 2 == 0) for n in range(40))
        story = Story((stack(), *crowd), ways=domain(classes=8)).settled()
        self.assertTrue(story.decision.layout.grouped)
        self.assertLessEqual(len(story.decision.layout.groups), 8)
        self.assertEqual(1, story.second(misses=3 * M).rule)
        self.assertEqual(3, story.ddio)

    def test_no_tenants_at_all(self) -> None:
        """An empty host steps as well."""
        story = Story(()).settled()
        story.second(misses=3 * M)
        self.assertEqual(3, story.ddio)

    def test_the_host_class_is_a_tenant_like_others(self) -> None:
        """Class `host` is best effort and may give a way."""
        story = Story((stack(8), host(3)), host=rates(M, 10)).settled()
        story.second({"stack": rates(12 * M, 5 * M, 0.7)}, hits=15 * M, misses=4 * M)
        self.assertIn((Action.GIVE, "host"), actions(story.decision))

    def test_idle_ways_are_lent_to_the_host_class(self) -> None:
        """In the masks alone; whoever is granted one takes it back in the same decision."""
        story = Story((host(), guest("x", PC, 3))).settled()
        layout = story.decision.layout
        self.assertEqual((0x7, 0x1F8), (layout.mask_of("x"), layout.mask_of("host")))
        self.assertEqual(1, story.decision.allocation.tenants["host"])
        self.assertEqual(0x8, layout.counted.mask_of("host"))
        story.second({"x": rates(9 * M, 5 * M, 0.8)})
        self.assertEqual(4, story.decision.allocation.tenants["x"])
        layout = story.decision.layout  # x goes where its mask alone has to move
        self.assertEqual((0xF0, 0xF), (layout.mask_of("x"), layout.mask_of("host")))
        self.assertEqual(0x8, layout.counted.mask_of("host"))
        self.assertEqual({"x", "host"}, set(story.decision.moved))

    def test_a_drift_of_two_percent_an_iteration_is_seen(self) -> None:
        """Every sample is compared with the last change acted on, not with the one before."""
        story = Story((guest("x", PC),)).settled()
        seen = [story.second({"x": rates(5 * M * 1.02**n, 1 * M)}).stable for n in (1, 2)]
        self.assertEqual([True, False], seen)
