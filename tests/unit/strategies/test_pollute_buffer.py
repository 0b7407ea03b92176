# SPDX-License-Identifier: Apache-2.0
"""The pollute buffer: who pollutes is found by trial, what does not pay is undone."""

import dataclasses
import functools
import math
import random
import statistics
import unittest
from collections.abc import Callable

from iat_nova.model import (
    DDIO,
    Action,
    BandwidthControl,
    CacheDomain,
    DcaPort,
    Decision,
    DeviceModel,
    DomainInventory,
    Layout,
    Message,
    Parameters,
    Priority,
    Rates,
    Sample,
    Step,
    TenantKind,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.policy import holds
from iat_nova.report import sentences
from iat_nova.store import records
from iat_nova.strategies import readings
from iat_nova.strategies.layout.check import check
from iat_nova.strategies.outlook import Outlook
from iat_nova.strategies.pollute_buffer import (
    arrivals,
    judge,
    masks,
    moves,
    plan,
    search,
    trial,
    watch,
)
from iat_nova.strategies.pollute_buffer.plan import Own, Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase, State, members_of
from iat_nova.strategies.pollute_buffer.strategy import PolluteBuffer
from iat_nova.strategies.pollute_buffer.view import View
from tests import said
from tests.unit import build
from tests.unit.strategies.formulas import draw
from tests.unit.strategies.formulas.curves import InboundWrites, Load, MissCurve, Piece
from tests.unit.strategies.formulas.host import FormulaHost

FITS = MissCurve(0.0, (Piece(0.9, 8.0, 8.0),))  # a loop over 8 ways
STREAM = MissCurve(1.0, ())
PART = MissCurve(0.0, (Piece(0.35, 8.0, 8.0),))  # a loop over 8 ways, and much that always hits
CALM = InboundWrites(1e4, MissCurve(0.0, ()))


def host(*curves: tuple[Priority, MissCurve], **domain: object) -> FormulaHost:
    """Return a host of 11 ways; each tenant refers to the LLC 20 times in 1,000 instructions."""
    tenants = tuple(
        build.tenant(f"t{n}", n, priority=priority, ways=WayRequest(1, 2, 11))
        for n, (priority, _) in enumerate(curves)
    )
    cpus = tuple(range(len(tenants)))
    known = {"classes": 16, "ddio_found": WayMask(0x600), **domain}
    inventory = DomainInventory(CacheDomain(0, cpus, 11, **known), tenants)  # type: ignore[arg-type]
    loads = {f"t{n}": Load(1, 0.7, 0.02, curve) for n, (_, curve) in enumerate(curves)}
    return FormulaHost(inventory, loads, CALM)


def without_last(here: FormulaHost) -> FormulaHost:
    """Return the same host before its last tenant came."""
    tenants = here.tenants[:-1]
    loads = {one.id: load for one, load in zip(tenants, here.loads[:-1], strict=True)}
    return FormulaHost(dataclasses.replace(here.inventory, tenants=tenants), loads, here.inbound)


def long_after(here: FormulaHost) -> judge.Now:
    """Return a sample of the host as found, long after its start."""
    return judge.Now.seen(here.inventory, here.sample(None, 500.0, random.Random(1), 0.0))


def reasons(decision: Decision) -> set[str]:
    """Return the codes of a decision's steps."""
    return {step.reason.code for step in decision.steps}


class Run:
    """The closed loop on a host that may be exchanged for another."""

    def __init__(self, noise: float = 0.01, **numbers: float) -> None:
        self.strategy = PolluteBuffer(Parameters(**numbers))
        self.dice = random.Random("pollute buffer")
        self.noise = noise
        self.at_s = 0.0
        self.state: State | None = None
        self.decisions: list[Decision] = []

    def on(
        self, here: FormulaHost, seconds: int, look: Callable[[Decision], None] = lambda d: None
    ) -> None:
        """Let time pass."""
        for _ in range(seconds):
            state = self.state or self.strategy.initial(here.inventory, self.at_s)
            self.at_s += 1.0
            sample = here.sample(state.layout, self.at_s, self.dice, self.noise)
            self.state, decision = self.strategy.step(state, here.inventory, sample)
            self.decisions.append(decision)
            assert decision.iteration == state.iteration + 1
            look(decision)

    def steps(self, *codes: str) -> list[Step]:
        """Return the steps whose reasons have all these codes, the first step first."""
        steps = [step for decision in self.decisions for step in decision.steps]
        return [step for step in steps if {*codes} <= {*said.codes(step.reason)}]

    def tried(self) -> list[Message]:
        """Return the moves that were tried, the first one first."""
        return [step.reason.values["move"] for step in self.steps("tried")]

    def moves(self) -> int:
        """Return how many decisions moved masks, and forget them."""
        moved = sum(bool(decision.moved) for decision in self.decisions)
        self.decisions.clear()
        return moved


PC, BE = Priority.PC, Priority.BE


class TrialTest(unittest.TestCase):
    """What a second under other masks tells."""

    def test_who_streams_is_confined_and_critical_tenants_keep_clear_of_it(self) -> None:
        """A loop that fits no longer beside a stream runs as if it were alone."""
        here, run = host((PC, FITS), (BE, STREAM)), Run()
        before = here.under(None).speeds[0]
        run.on(here, 20)
        layout = run.decisions[-1].layout
        mine, buffer = layout.mask_of("t0"), layout.mask_of("t1")
        assert mine is not None and buffer is not None
        self.assertEqual((9, False), (mine.count, mine.overlaps(buffer)))
        self.assertLessEqual(buffer.count, 2)
        self.assertGreater(here.under(layout).speeds[0], 1.5 * before)
        kept = run.steps("kept")[0]
        self.assertEqual((Action.KEEP, "layout"), (kept.action, kept.subject))
        self.assertEqual("best-effort-topmost", kept.reason.values["move"].code)
        self.assertGreater(kept.reason.values["cause"].values["gain"], 0.0)

    def test_a_trial_tells_nothing_once_somebody_does_something_else(self) -> None:
        """A tenant's references an instruction do not depend on its ways."""
        here, run = host((PC, FITS), (BE, STREAM)), Run()
        run.on(here, 3)
        loads = {"t0": Load(1, 0.7, 0.03, FITS), "t1": Load(1, 0.7, 0.02, STREAM)}
        run.on(FormulaHost(here.inventory, loads, CALM), 1)
        (step,) = run.decisions[-1].steps
        self.assertEqual(Action.UNDO, step.action)
        self.assertEqual(("measuring-anew", "undone-by-load"), said.codes(step.reason)[:2])
        self.assertEqual("t0", step.reason.values["cause"].values["tenant"])
        self.assertIs(Phase.MEASURE, run.state.phase)

    def test_a_burst_of_traffic_ends_a_trial_without_a_verdict(self) -> None:
        """Its baseline is another load's. Traffic that is light, or stalls nobody, is no load."""
        calm = host((PC, FITS), (BE, STREAM))
        loads = {f"t{n}": load for n, load in enumerate(calm.loads)}
        for reader, lines_per_s, ends in (
            ("t0", 2e6, True),
            ("none", 2e6, False),
            ("t0", 2e4, False),
        ):
            tenants = tuple(dataclasses.replace(t, io=t.id == reader) for t in calm.tenants)
            inventory = dataclasses.replace(calm.inventory, tenants=tenants)
            run = Run(0.0)
            run.on(FormulaHost(inventory, loads, CALM), 3)
            assert run.state is not None
            self.assertIs(Phase.TRIAL, run.state.phase)
            burst = dataclasses.replace(CALM, lines_per_s=lines_per_s)
            run.on(FormulaHost(inventory, loads, burst), 1)
            ended = [one.reason.values["cause"].values for one in run.steps("undone-by-load")]
            with self.subTest(reader=reader, lines_per_s=lines_per_s):
                self.assertEqual(["ddio"] if ends else [], [one["tenant"] for one in ended])
                self.assertFalse([one for one in run.state.failures if one.what])
                self.assertEqual(run.at_s if ends else -4.0, run.state.load_since_s)

    def test_a_verdict_that_the_traffic_explains_as_well_is_none(self) -> None:
        """More packets come and their reader slows down: that may be the burst. A gain counts."""
        calm, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        tenants = tuple(dataclasses.replace(t, io=t.id == "t0") for t in calm.tenants)
        tenants = (dataclasses.replace(tenants[0], devices=("0000:3b:02.0",)), tenants[1])
        loads = {f"t{n}": load for n, load in enumerate(calm.loads)}
        busy = dataclasses.replace(CALM, lines_per_s=4e6)
        inventory = dataclasses.replace(calm.inventory, tenants=tenants)
        run.on(FormulaHost(inventory, loads, busy), 3)
        assert run.state is not None
        move = plan.Move(
            "ddio", dataclasses.replace(run.state.plan, ddio=4), message("ddio-ways", ways=4)
        )
        apart = dataclasses.replace(run.state, trial_looks={}, trial_counted=0)
        state = dataclasses.replace(apart, trial=move)
        full = dataclasses.replace(
            state.looks["t0"], stalled=readings.MOST_STALLED, speed=1.0 - readings.MOST_STALLED
        )
        limit = dataclasses.replace(apart, looks={**state.looks, "t0": full})
        now = long_after(FormulaHost(inventory, loads, busy))
        for begun, speed, lines, keep, other in (
            (state, 0.5, 3.0, False, "ddio"),
            (state, 0.5, 1.0, False, None),
            (state, 0.5, 0.5, False, None),  # the move may have cost the traffic
            (state, 2.0, 3.0, True, None),
            (state, 2.0, 0.5, True, "ddio"),  # the end of a burst
            (apart, 0.5, 3.0, False, "ddio"),
            (apart, 0.5, 0.5, False, None),
            (apart, 2.0, 3.0, True, "ddio"),  # other ways of tenants bring no traffic
            (limit, 2.0, 3.0, True, None),  # but a receiver at its limit then takes more
            (limit, 0.5, 3.0, False, "ddio"),
        ):
            looks = {
                **begun.looks,
                "t0": dataclasses.replace(
                    begun.looks["t0"],
                    speed=begun.looks["t0"].speed * (1.0 if begun is limit else speed),
                    ipc=begun.looks["t0"].ipc * speed,
                ),
                "ddio": dataclasses.replace(
                    state.looks["ddio"],
                    references_per_s=lines * state.looks["ddio"].references_per_s,
                ),
            }
            shown = trial.shown(begun, dataclasses.replace(now, looks=looks), Parameters())
            with self.subTest(trial=begun.trial.subject, speed=speed, lines=lines):
                self.assertEqual((keep, other), (shown.keep, shown.other))

    def test_on_a_noisy_host_more_must_be_gained(self) -> None:
        """The usual deviation is kept when a tenant comes."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(without_last(here), 3)
        assert run.state is not None
        run.state = dataclasses.replace(run.state, deviation=0.12)
        run.on(here, 3)
        assert run.state.trial is not None
        self.assertAlmostEqual(0.12, run.state.deviation)
        faster = {one: readings.scaled(look, 1.05) for one, look in run.state.looks.items()}
        now = dataclasses.replace(long_after(here), looks=faster)
        for deviation, keep in ((0.0, True), (0.12, None)):
            state = dataclasses.replace(run.state, deviation=deviation)
            self.assertEqual(keep, trial.shown(state, now, Parameters()).keep)

    def test_a_gain_and_the_same_loss_are_no_gain(self) -> None:
        """A quarter more and a fifth less: the geometric mean is as before."""
        here = host((PC, FITS), (PC, FITS))
        before = long_after(here).looks
        factors = {"t0": 1.25, "t1": 0.8}
        after = {one: readings.scaled(before[one], factor) for one, factor in factors.items()}
        gain = judge.gain(here.tenants, before, after, {}).speeds
        self.assertAlmostEqual(0.0, gain)
        for weights, better in (((2.0, 1.0), True), ((0.5, 1.0), False)):  # of their classes
            weighed = [
                dataclasses.replace(tenant, weight=weight)
                for tenant, weight in zip(here.tenants, weights, strict=True)
            ]
            gain = judge.gain(weighed, before, after, {}).speeds
            self.assertEqual(better, gain > 0.05)
            self.assertEqual(not better, gain < -0.05)
            mine, other = (judge.stakes(weighed, before, {})[one].misses for one in ("t0", "t1"))
            self.assertAlmostEqual(weights[0], mine / other)

    def test_the_stack_is_never_confined(self) -> None:
        """A trial would delay packets of all guests; a critical guest that streams is tried."""
        here = host((PC, STREAM), (PC, FITS))
        stack = dataclasses.replace(
            here.tenants[0], kind=TenantKind.STACK, priority=Priority.STACK, io=True
        )
        for first, confined in ((here.tenants[0], True), (stack, False)):
            now = long_after(here)
            inventory = dataclasses.replace(here.inventory, tenants=(first, here.tenants[1]))
            view = View(inventory, Parameters(), now.sample, now.looks)
            found = moves.candidates(view, Plan(frozenset(), 2, 2))
            tried = {move.subject for _, move in found if move.what.code == "confine"}
            self.assertEqual(confined, "t0" in tried)

    def test_a_buffer_keeps_the_least_ways_of_the_hardware(self) -> None:
        """A way where the hardware takes masks of one way, otherwise as many as it takes."""
        for least, sizes in ((1, {4, 1}), (2, {4})):
            here, run = host((PC, PART), (BE, STREAM), min_ways=least), Run(0.0)
            run.on(here, 2)
            assert run.state is not None
            now = long_after(here)
            view = View(here.inventory, Parameters(), now.sample, run.state.looks)
            found = moves.candidates(view, Plan(frozenset({"t1"}), 2, 2))
            ways = {one.what.values["ways"] for _, one in found if one.what.code == "buffer-size"}
            with self.subTest(least=least):
                self.assertEqual(sizes, ways)

    def test_critical_streams_go_apart_with_best_effort_tenants(self) -> None:
        """Both streams beside a loop, a part of which always hits: it needs neither in its ways."""
        here, run = host((PC, PART), (PC, STREAM), (BE, STREAM)), Run()
        before = here.under(None).speeds[0]
        run.on(here, 20)
        assert run.state is not None
        self.assertEqual({"t1", "t2"}, run.state.plan.confined)
        self.assertGreater(here.under(run.state.layout).speeds[0], 1.2 * before)

    def test_a_buffer_on_ddio_beside_two_owners_has_ddios_ways(self) -> None:
        """Its size is then that of DDIO's ways; beside one owner it is tried like any other."""
        here, run = host((PC, PART), (PC, PART), (BE, STREAM)), Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        view = View(here.inventory, Parameters(), long_after(here).sample, run.state.looks)
        confined = Plan(frozenset({"t2"}), 3, 3, on_ddio=True)
        for own, sizes in (((Own("t0", 2),), True), ((Own("t0", 2), Own("t1", 2)), False)):
            found = moves.candidates(view, dataclasses.replace(confined, own=own))
            codes = {move.what.code for _, move in found}
            self.assertEqual(sizes, "buffer-size" in codes)

    def test_best_effort_above_its_minimum_stays_in_the_buffer(self) -> None:
        """Its confinement has paid; below its minimum, and if critical, it may be released."""
        here = host((PC, FITS), (PC, STREAM), (BE, PART), (BE, STREAM))
        run = Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        looks, confined = run.state.looks, frozenset({"t1", "t2", "t3"})
        now = long_after(here)
        floors = {
            one: readings.scaled(looks[one], share) for one, share in (("t2", 0.9), ("t3", 1.1))
        }
        view = View(here.inventory, Parameters(), now.sample, looks, floors)
        found = moves.candidates(view, Plan(confined, 2, 2))
        released = {one.subject for _, one in found if one.what.code == "release"}
        self.assertEqual({"t1", "t3"}, released)

    def test_a_tenant_leaves_the_buffer_when_its_own_load_changes(self) -> None:
        """Another's change says nothing of what it does."""
        for changed in ("t1", "t2"):
            here, run = (
                host((PC, MissCurve(0.0, (Piece(0.35, 8.0, 8.0),))), (PC, STREAM), (BE, STREAM)),
                Run(),
            )
            run.on(here, 20)
            assert run.state is not None and "t1" in run.state.plan.confined
            loads = {f"t{n}": load for n, load in enumerate(here.loads)}
            loads[changed] = dataclasses.replace(loads[changed], references=0.03)
            run.on(FormulaHost(here.inventory, loads, CALM), 1)
            assert run.state is not None
            self.assertEqual({"t1", "t2"} - {changed}, run.state.plan.confined)

    def test_a_critical_receiver_leaves_the_buffer_when_packets_come(self) -> None:
        """Without packets it looked like a stream; it is none with them."""
        here, run = host((PC, PART), (PC, STREAM), (BE, STREAM)), Run()
        tenants = tuple(dataclasses.replace(t, io=t.id == "t1") for t in here.tenants)
        inventory = dataclasses.replace(here.inventory, tenants=tenants)
        loads = {f"t{n}": load for n, load in enumerate(here.loads)}
        loads["t1"] = dataclasses.replace(loads["t1"], references=0.004)
        idle = FormulaHost(inventory, loads, CALM)
        run.on(idle, 3)
        assert run.state is not None
        run.state = dataclasses.replace(
            run.state,
            phase=Phase.REST,
            trial=None,
            plan=dataclasses.replace(run.state.plan, confined=frozenset(("t1", "t2"))),
        )
        run.on(idle, 3)
        loads["t1"] = dataclasses.replace(loads["t1"], references=0.02)
        run.on(FormulaHost(inventory, loads, CALM), 2)
        self.assertEqual({"t2"}, run.state.plan.confined)

    def test_an_empty_buffer_has_no_size(self) -> None:
        """Who is confined next is not given the ways that others once needed there."""
        used = Plan(frozenset({"t1"}), 6, 2, on_ddio=True)
        self.assertEqual(Plan(frozenset(), 2, 2), used.without(frozenset({"t1"})))

    def test_the_host_class_has_what_nobody_else_may_fill(self) -> None:
        """At each moment, also when it was confined and those it would have harmed have left."""

        def look(decision: Decision) -> None:
            masks = {tenant: g.mask for g in decision.layout.groups for tenant in g.tenants}
            mine, others = masks.pop("t1"), 0
            for mask in masks.values():
                others |= mask
            self.assertGreaterEqual(mine.count, (0x7FF & ~others).bit_count())

        both, run = host((PC, FITS), (BE, STREAM)), Run()
        guest, mine = both.inventory.tenants
        mine = dataclasses.replace(mine, kind=TenantKind.HOST)
        loads = {"t0": Load(1, 0.7, 0.02, FITS), "t1": Load(1, 0.7, 0.02, STREAM)}
        for tenants, confined in (((guest, mine), {"t1"}), ((mine,), set())):
            inventory = dataclasses.replace(both.inventory, tenants=tenants)
            run.on(FormulaHost(inventory, loads, CALM), 20, look)
            assert run.state is not None
            self.assertEqual(confined, run.state.plan.confined)

    def test_the_hosts_own_processes_hold_up_no_search(self) -> None:
        """Their load changes every two seconds; if a guest's does, no trial begins."""
        for kind, tried in ((TenantKind.HOST, True), (TenantKind.GUEST, False)):
            plain = host((PC, FITS), (BE, STREAM), (BE, PART))
            *others, last = plain.tenants
            tenants = (*others, dataclasses.replace(last, kind=kind))
            inventory = dataclasses.replace(plain.inventory, tenants=tenants)
            loads = dict(zip((one.id for one in tenants), plain.loads, strict=True))
            run = Run()
            for second in range(20):
                references = 0.02 if second % 4 < 2 else 0.04
                loads["t2"] = Load(1, 0.7, references, PART)
                run.on(FormulaHost(inventory, loads, CALM), 1)
            with self.subTest(kind):
                self.assertEqual(tried, bool(run.tried()))

    def test_another_load_of_the_hosts_own_processes_is_no_gain(self) -> None:
        """Nor is a speed that no misses slow down; with the same load the host counts."""
        here = host((PC, FITS), (BE, FITS), (BE, FITS))
        tenants = (*here.tenants[:2], dataclasses.replace(here.tenants[2], kind=TenantKind.HOST))
        same = readings.Look(1.0, 0.1, 1e6, 1e7)
        look = functools.partial(readings.Look, cycles_per_s=1e9)
        for before, after, counts in (
            (look(0.5, 0.2, 1e6, 1e7), look(1.0, 0.01, 1e5, 1e7), False),
            (look(0.5, 0.0, 1e3, 1e7), look(1.0, 0.0, 1e3, 2e7), False),
            (look(0.5, 0.2, 1e6, 1e7), look(1.0, 0.01, 1e5, 2e7), True),
        ):
            looks = [{"t0": same, "t1": same, "t2": one} for one in (before, after)]
            gain = judge.gain(tenants, *looks, {}).speeds
            self.assertEqual(counts, gain > judge.OBVIOUS)
            self.assertGreater(judge.gain(here.tenants, *looks, {}).speeds, judge.OBVIOUS)

    def test_instructions_show_the_gain_of_a_receiver_at_its_limit(self) -> None:
        """At 100 cycles each its misses take all cycles, before and after."""
        here = host((PC, FITS), (PC, FITS))
        tenants = (dataclasses.replace(here.tenants[0], io=True), here.tenants[1])
        same = readings.Look(1.0, 0.1, 1e6, 1e7, 1.0)
        full = readings.Look(1.0 - readings.MOST_STALLED, readings.MOST_STALLED, 7e7, 1e8, 0.3)
        for after, gains in (
            (dataclasses.replace(full, ipc=0.4), True),
            (dataclasses.replace(full, ipc=0.3), False),
            (readings.Look(0.2, 0.8, 3e7, 1.5e8, 0.2), True),  # below its limit: stalled less
        ):
            after_all = {"t0": after, "t1": same}
            found = judge.gain(tenants, {"t0": full, "t1": same}, after_all, {}).speeds
            self.assertEqual(gains, found > judge.OBVIOUS)

    def test_a_poller_loses_no_more_than_its_instructions(self) -> None:
        """Misses that overlap stall less than estimated; a gain is left as estimated."""
        before = readings.Look(0.9, 0.1, 5e6, 9e7, 1.6)
        for speed, ipc, ratio in (
            (0.6, 1.55, 1.55 / 1.6),
            (0.6, 1.7, 1.0),
            (0.6, 0.8, 0.6 / 0.9),  # instructions vary with traffic as well
            (0.6, 0.0, 0.6 / 0.9),  # a state of an earlier version has none
            (0.99, 1.5, 0.99 / 0.9),
            (0.4, 1.55, 0.4 / 0.9),  # near the limit rings fill: as estimated
        ):
            after = readings.Look(speed, 1.0 - speed, 2e7, 9e7, ipc)
            with self.subTest(speed=speed, ipc=ipc):
                self.assertAlmostEqual(ratio, readings.speedup(before, after))

    def test_the_mean_of_instructions_begins_with_the_first_that_is_known(self) -> None:
        """A state of an earlier version has none."""
        old, new = readings.Look(0.05, 0.95, 7e7, 1e8), readings.Look(0.05, 0.95, 7e7, 1e8, 0.3)
        self.assertEqual(0.3, readings.mean({"t0": old}, {"t0": new}, 8)["t0"].ipc)
        faster = dataclasses.replace(new, ipc=0.4)
        self.assertAlmostEqual(0.35, readings.mean({"t0": new}, {"t0": faster}, 2)["t0"].ipc)

    def test_a_promise_must_repay_a_trial_in_as_long_as_the_load_has_lasted(self) -> None:
        """Much is tried after two samples, little once the load has lasted."""
        for critical, at_s in ((FITS, 3.0), (MissCurve(0.0, (Piece(0.01, 8.0, 8.0),)), 5.0)):
            here, run = host((PC, critical), (PC, critical), (PC, STREAM)), Run()
            while not run.tried():
                run.on(here, 1)
            self.assertEqual(at_s, run.at_s)  # the first adopts the tenants

    def test_what_does_not_pay_is_undone(self) -> None:
        """Two equal tenants: whatever was tried, both may fill all ways in the end."""
        here, run = host((PC, FITS), (PC, FITS)), Run()
        run.on(here, 60)
        worth = here.under(run.decisions[-1].layout).utility
        self.assertGreaterEqual(worth, 0.99 * here.under(None).utility)

    def test_where_nobody_misses_nothing_is_tried(self) -> None:
        """No move can bring anything: no mask ever moves."""
        here, run = host((PC, MissCurve(0.001, ())), (BE, MissCurve(0.001, ()))), Run()
        run.on(here, 120)
        self.assertEqual(0, run.moves())
        assert run.state is not None
        self.assertIs(Phase.REST, run.state.phase)

    def test_at_rest_nothing_moves_until_the_load_changes(self) -> None:
        """Five minutes of steady load; then the stream ends, and what it cost is looked at anew."""
        here, run = host((PC, FITS), (BE, STREAM)), Run()
        run.on(here, 60)
        run.moves()
        run.on(here, 300)
        self.assertEqual(0, run.moves())
        run.on(host((PC, FITS), (BE, MissCurve(0.1, ()))), 30)
        self.assertTrue(run.steps("measuring-anew"))

    def test_the_first_samples_at_rest_are_what_later_ones_are_judged_by(self) -> None:
        """Trials had the cost of the move in them. What differs by much is another load at once."""
        here = host((PC, FITS), (BE, STREAM))
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)

        def seen(state: State, factor: float) -> watch.Watched:
            looks = {
                one: dataclasses.replace(
                    look,
                    misses_per_s=factor * look.misses_per_s,
                    references_per_s=factor * look.references_per_s,
                    speed=factor * look.speed,
                )
                for one, look in now.looks.items()
            }
            return watch.watch(state, dataclasses.replace(now, looks=looks))

        state = PolluteBuffer(Parameters()).initial(here.inventory, 0.0)
        state = dataclasses.replace(state, looks=now.looks, phase=Phase.REST)
        for factors, changed in (
            ((0.8, 0.8, 0.8, 0.8), False),  # faster or slower than in the trial, and steady
            ((0.8, 0.8, 0.7, 0.7), True),  # by an eighth
            ((0.8, 0.8, 0.7, 0.8), False),  # once
            ((0.6, 0.6), True),
            ((0.6, 1.0, 1.0), False),
        ):
            with self.subTest(factors=factors):
                after, why = state, None
                for factor in factors:
                    self.assertIsNone(why)
                    after, why, _ = seen(after, factor)
                self.assertEqual(changed, why is not None)

    def test_counters_of_ddio_that_come_are_no_other_load(self) -> None:
        """At rest tenants are watched: whether devices' lines are counted changes nothing."""
        here = host((PC, FITS), (BE, STREAM))
        now = judge.Now.seen(here.inventory, here.sample(None, 1.0, random.Random(1), 0.0))
        self.assertIn(DDIO, now.looks)
        uncounted = {one: look for one, look in now.looks.items() if one != DDIO}
        state = PolluteBuffer(Parameters()).initial(here.inventory, 0.0)
        for before, after in ((uncounted, now.looks), (now.looks, uncounted)):
            rest = dataclasses.replace(state, looks=before, phase=Phase.REST)
            _, why, reasons = watch.watch(rest, dataclasses.replace(now, looks=after))
            self.assertIsNone(why)
            self.assertEqual(["same-load"], [one.code for one in reasons])

    def test_what_did_not_pay_is_not_tried_again_because_a_neighbour_comes(self) -> None:
        """A best-effort guest that fills nothing changes nothing; a critical one might."""
        pair = ((PC, FITS), (PC, FITS))
        for priority, again in ((BE, False), (PC, True)):
            run = Run()
            run.on(host(*pair), 60)
            undone = {step.reason.values["move"] for step in run.steps("undone")}
            self.assertTrue(undone)
            run.decisions.clear()
            run.on(host(*pair, (priority, MissCurve(0.001, ()))), 20)
            tried = set(run.tried())
            self.assertEqual(again, not undone.isdisjoint(tried), (undone, tried))

    def test_nothing_is_known_to_fail_for_another_priority(self) -> None:
        """A guest becomes critical, or best effort: what it lost counts otherwise."""
        for before, after in ((PC, BE), (BE, PC), (BE, BE)):
            run, here = Run(), host((PC, FITS), (before, FITS))
            run.on(here, 60)
            assert run.state is not None
            failed = run.state.failures
            self.assertTrue(failed)
            one = dataclasses.replace(here.inventory.tenants[1], priority=after)
            members = members_of(
                dataclasses.replace(here.inventory, tenants=(here.inventory.tenants[0], one))
            )
            expected = failed if before is after else ()
            self.assertEqual(expected, arrivals.still_failed(run.state, members))
            heavy = tuple(dataclasses.replace(one, weight=2.0) for one in run.state.members)
            self.assertEqual((), arrivals.still_failed(run.state, heavy))

    def test_what_failed_is_barred_twice_as_long_each_time(self) -> None:
        """10 s, 20 s, and so on to the most; long after, it begins anew."""
        strategy, plan = PolluteBuffer(Parameters()), Plan(frozenset(("t1",)), 2, 2)
        other, what = Plan(frozenset(("t0",)), 2, 2), message("confine", tenant="t1")
        state = strategy.initial(host((PC, FITS)).inventory, 0.0)

        def failed(plan: Plan, at_s: float) -> tuple[Failure, ...]:
            return strategy._failed(state, plan, what, at_s)

        barred, at_s, delays = failed(other, 0.0), 0.0, []
        for _ in range(9):
            state = dataclasses.replace(state, failures=barred)
            barred = failed(dataclasses.replace(plan), at_s)  # as read from the state
            self.assertEqual((what, at_s), (barred[-1].what, barred[-1].at_s))
            delays.append(barred[-1].delay_s)
            at_s = barred[-1].until_s
        state = dataclasses.replace(state, failures=barred)
        self.assertEqual([10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 640.0, 640.0], delays)
        self.assertEqual([plan], [one.plan for one in barred])  # the other is forgotten by now
        self.assertEqual(10.0, failed(other, at_s)[-1].delay_s)

    def test_the_outlook_is_unsettled_until_a_load_that_changed_is_calm(self) -> None:
        """After that time it is what the search says."""
        here, run = host((PC, FITS)), Run(0.0)
        run.on(here, 20)
        assert run.state is not None
        waits = dataclasses.replace(run.state, load_since_s=run.at_s, calm_s=8.0)
        self.assertIs(Outlook.UNSETTLED, run.strategy.outlook(waits, run.at_s + 7.9))
        self.assertIsNot(Outlook.UNSETTLED, run.strategy.outlook(waits, run.at_s + 8.0))

    def test_a_load_that_goes_back_and_forth_does_not_have_the_same_tried_again(self) -> None:
        """Until its time is over, or a critical guest comes."""
        run, tried = Run(), 0
        calm, busy = host((PC, FITS), (BE, FITS)), host((PC, STREAM), (BE, FITS))
        for _ in range(60):
            for here in (calm, busy):
                for _ in range(7):
                    run.on(here, 1)
                    assert run.state is not None
                    if run.state.phase is Phase.TRIAL and run.state.trial_counted == 0:
                        assert run.state.trial is not None
                        tried += 1
                        until_s = [
                            b.until_s for b in run.state.failures if b.plan == run.state.trial.plan
                        ]
                        self.assertLessEqual(max(until_s, default=0.0), run.at_s)
        self.assertGreater(tried, 3)
        self.assertTrue(run.state.failures)
        run.on(host((PC, FITS), (BE, FITS), (PC, FITS)), 1)
        self.assertEqual((), run.state.failures)

    def test_loads_that_change_too_often_for_trials_are_left_as_found(self) -> None:
        """Each shorter than what a search takes; one that lasts is searched for again."""
        run = Run()
        busy = host((PC, FITS), (BE, STREAM))
        less = [dataclasses.replace(load, references=0.01) for load in busy.loads]
        calm = FormulaHost(busy.inventory, {"t0": less[0], "t1": less[1]}, CALM)
        for number in range(12):
            run.on((busy, calm)[number % 2], 4)
            if number == 5:
                run.moves()
        found = WayMask(0x7FF)
        self.assertEqual(0, run.moves())
        assert run.state is not None and run.state.layout is not None
        self.assertEqual({found}, {group.mask for group in run.state.layout.groups})
        run.on(busy, int(run.state.calm_s) + 20)
        self.assertGreater(run.moves(), 0)

    def test_a_kind_of_move_that_failed_must_promise_twice_as_much(self) -> None:
        """After each failure; other kinds need not."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, STREAM)), Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        state, now = run.state, long_after(here)
        view = View(here.inventory, Parameters(), now.sample, state.looks)
        singles = [
            promise
            for promise, move in moves.candidates(view, state.plan)
            if move.what.code == "confine"
        ]
        bears = int(math.log2(singles[0] / judge.PAYS))
        for kind, times, tried in (
            ("confine", bears, True),
            ("confine", bears + 1, False),
            ("release", bears + 1, True),
        ):
            failures = tuple(
                Failure(Plan(frozenset({one}), 2, 2), message(kind, tenant=one), 1e3, 1e3)
                for one in map(str, range(times))
            )
            found, why = search.next_move(
                dataclasses.replace(state, failures=failures), now, Parameters(), {"topmost-ways"}
            )
            with self.subTest(kind=kind, times=times):
                self.assertEqual(tried, found is not None)
            if found is not None and kind == "confine":  # the trial says what it must repay
                said = why[0].values
                self.assertEqual(round(judge.PAYS * 2**times, 4), said["least"])
                self.assertGreater(said["promise"], said["least"])

    def test_failures_do_not_delay_moves_of_other_kinds(self) -> None:
        """However many failed a moment before."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        now = long_after(here)
        failures = tuple(
            Failure(Plan(frozenset({one}), 2, 2), message("release"), 10.0, now.at_s + 9.0)
            for one in map(str, range(9))
        )
        state = dataclasses.replace(run.state, failures=failures, load_since_s=0.0)
        found, _ = search.next_move(state, now, Parameters())
        assert found is not None
        self.assertNotEqual("release", found.what.code)

    def test_a_failure_under_the_same_load_is_forgotten_in_the_end(self) -> None:
        """640 s after its wait; under another load after the wait."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 3)
        assert run.state is not None and run.state.trial is not None
        now, plan_ = long_after(here), run.state.trial.plan
        for ago_s, since_s, tried in (
            (645.0, -1e3, False),
            (655.0, -1e3, True),
            (15.0, now.at_s - 9.0, True),
            (5.0, now.at_s - 1.0, False),
        ):
            at_s = now.at_s - ago_s
            failed = Failure(plan_, run.state.trial.what, 10.0, at_s + 10.0)
            state = dataclasses.replace(run.state, failures=(failed,), load_since_s=since_s)
            found, _ = search.next_move(state, now, Parameters())
            with self.subTest(ago_s=ago_s):
                self.assertEqual(tried, found is not None and found.plan == plan_)

    def test_the_time_until_a_new_trial_is_that_of_a_failure_under_another_load(self) -> None:
        """Under the load of the failure the move is barred for longer than its wait."""
        here, run = host((PC, FITS), (BE, STREAM)), Run(0.0)
        run.on(here, 3)
        assert run.state is not None and run.state.trial is not None
        now, move = long_after(here), run.state.trial
        failed = Failure(move.plan, move.what, 80.0, now.at_s + 60.0)
        for since_s, told in (
            (now.at_s - 30.0, "undone under this load (no gain)"),
            (now.at_s - 15.0, "undone before (no gain), not tried again for 60 s"),
        ):
            state = dataclasses.replace(run.state, failures=(failed,), load_since_s=since_s)
            others = moves.FAMILIES.keys() - {"topmost-ways"}
            _, why = search.next_move(state, now, Parameters(), others)
            self.assertIn(told, [sentences.text(one).partition(": ")[2] for one in why])

    def test_an_undone_trial_is_followed_by_two_samples_under_the_former_masks(self) -> None:
        """The next trial is judged by readings that the last one did not disturb."""
        here, run = host((PC, FITS), (PC, FITS)), Run()
        run.on(here, 60)
        undone = [one.at_s for one in run.decisions if "undone" in reasons(one)]
        tried = [one.at_s for one in run.decisions if "tried" in reasons(one)]
        self.assertGreater(len(tried), 1)
        for before_s in undone:
            self.assertFalse([at_s for at_s in tried if before_s <= at_s < before_s + 2.0])

    def test_a_trial_that_an_arrival_ends_says_nothing(self) -> None:
        """Nor one that a departure ends; a best-effort newcomer begins outside the buffer."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, MissCurve(0.0, ()))), Run(0.0)
        run.on(without_last(here), 3)
        for now in (here, without_last(here)):
            assert run.state is not None and run.state.trial is not None
            run.on(now, 1)
            (undone,) = (one for one in run.decisions[-1].steps if one.action is Action.UNDO)
            self.assertEqual("tenants-changed", undone.reason.values["cause"].code)
            self.assertEqual((frozenset(), ()), (run.state.plan.confined, run.state.failures))
            run.on(now, 2)

    def test_ways_of_one_that_arrives(self) -> None:
        """All ways, the ways that nobody owns, its own, or fewer: out of DDIO's, or its maximum."""
        here = host((PC, FITS), (PC, FITS)).inventory
        first, other = here.tenants
        few = dataclasses.replace(first, ways=WayRequest(1, 2, 6))
        small = dataclasses.replace(here, tenants=(few, other))
        for inventory, changes, told in (
            (here, {}, "may fill all ways"),
            (
                here,
                {"own": (Own("t1", 2),)},
                "may fill all ways but other tenants' guaranteed ways",
            ),
            (here, {"own": (Own("t0", 3),)}, "guaranteed ways of its own (3)"),
            (here, {"clear": True}, "may fill 9 ways"),
            (small, {}, "may fill 6 ways"),
        ):
            one = dataclasses.replace(Plan(frozenset(), 2, 2), **changes)  # type: ignore[arg-type]
            self.assertEqual(told, sentences.text(arrivals.has(inventory, one, "t0")))

    def test_ddio_keeps_its_ways_when_somebody_comes(self) -> None:
        """What was gained by DDIO's ways stays, until another program sets other ways."""
        here, run = host((PC, PART), (BE, STREAM)), Run(0.0)
        run.on(without_last(here), 2)
        assert run.state is not None
        grown = dataclasses.replace(run.state.plan, ddio=4)
        run.state = dataclasses.replace(run.state, plan=grown)
        run.on(here, 1)
        self.assertEqual(4, run.state.plan.ddio)
        moved = dataclasses.replace(here.inventory.domain, ddio_found=WayMask(0x700))
        inventory = dataclasses.replace(here.inventory, domain=moved)
        run.on(FormulaHost(inventory, dict(zip(("t0", "t1"), here.loads)), CALM), 1)  # noqa: B905
        self.assertEqual(3, run.state.plan.ddio)

    def test_another_program_widens_ddio_over_guaranteed_ways(self) -> None:
        """Of guarantees of 4 and 3 ways, 4 fit once devices may fill 5 of 11."""
        here, run = promising(host((PC, FITS), (PC, FITS), (BE, STREAM)), 4, 3, 0), Run(0.0)
        run.on(here, 1)
        assert run.state is not None
        self.assertEqual({"t0", "t1"}, run.state.plan.owners)
        widened = dataclasses.replace(here.inventory.domain, ddio_found=WayMask.span(6, 5))
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        inventory = dataclasses.replace(here.inventory, domain=widened)
        run.on(FormulaHost(inventory, loads, CALM), 1)
        self.assertEqual({"t0"}, run.state.plan.owners)
        self.assertTrue(all(one.mask for one in run.state.layout.groups))  # type: ignore[union-attr]

    def test_too_few_classes_for_every_maximum(self) -> None:
        """No tenant has a maximum, so that each tenant has a mask."""
        here = host(*[(BE, FITS)] * 4, classes=4)
        maxima = (WayRequest(1, 1, most) for most in (2, 3, 4, 5))
        tenants = [
            dataclasses.replace(one, ways=ways)
            for one, ways in zip(here.tenants, maxima, strict=True)
        ]
        for number, expected in ((3, {2, 3, 4}), (4, {11})):
            some = dataclasses.replace(here.inventory, tenants=tuple(tenants[:number]))
            placed = masks.layout(some, Plan(frozenset(), 2, 2))
            self.assertEqual(expected, {one.mask.count for one in placed.groups})

    def test_who_arrives_may_fill_all_ways_and_who_leaves_is_forgotten(self) -> None:
        """Also during a trial."""
        pair, alone = host((PC, FITS), (BE, STREAM)), host((PC, FITS))
        run = Run()
        run.on(alone, 5)
        self.assertEqual(0, run.moves())
        run.on(pair, 3)
        assert run.state is not None
        self.assertIs(Phase.TRIAL, run.state.phase)
        run.on(alone, 20)
        self.assertEqual((WayMask(0x7FF),), tuple(g.mask for g in run.decisions[-1].layout.groups))
        self.assertIsNone(run.decisions[-1].layout.mask_of("t1"))


class OnMemory(Run):
    """The closed loop where memory is what limits: whom `gain` says gains as streams lose it."""

    def __init__(self, gain: float, best_effort_min: float = 0.0) -> None:
        super().__init__(0.0, best_effort_min=best_effort_min)
        self.gain = gain

    def on(
        self, here: FormulaHost, seconds: int, look: Callable[[Decision], None] = lambda d: None
    ) -> None:
        for _ in range(seconds):
            super().on(_Memory(here, self.gain), 1, look)  # type: ignore[arg-type]

    def limits(self) -> dict[str, int]:
        """Return whose memory bandwidth is limited now."""
        layout = self.decisions[-1].layout
        return {
            t: one.bandwidth for one in layout.groups for t in one.tenants if one.bandwidth < 100
        }


class _Memory:
    def __init__(self, here: FormulaHost, gain: float) -> None:
        self.inventory = here.inventory
        self._here = here
        self._gain = gain

    def sample(
        self, layout: Layout | None, at_s: float, dice: random.Random, noise: float
    ) -> Sample:
        seen = self._here.sample(layout, at_s, dice, noise)
        shares = {t: layout.bandwidth_of(t) / 100 if layout else 1.0 for t in seen.tenants}
        faster = 1.0 + self._gain * sum(1.0 - share for share in shares.values())
        speeds = {t: share if share < 1.0 else faster for t, share in shares.items()}
        tenants = {t: _scaled(rates, speeds[t]) for t, rates in seen.tenants.items()}
        return dataclasses.replace(seen, tenants=tenants)


def _scaled(rates: Rates, factor: float) -> Rates:
    return dataclasses.replace(
        rates,
        instructions_per_s=rates.instructions_per_s * factor,
        references_per_s=rates.references_per_s * factor,
        misses_per_s=rates.misses_per_s * factor,
    )


def on_memory(*least: int, **domain: object) -> FormulaHost:
    """Return a host of a critical and a best-effort stream for each least percentage."""
    known = {"bandwidth": BandwidthControl(10, 10, 100, percent=True), **domain}
    here = host((PC, STREAM), *((BE, STREAM) for _ in least), **known)
    tenants = tuple(
        dataclasses.replace(tenant, bandwidth_min=percent)
        for tenant, percent in zip(here.inventory.tenants, (10, *least), strict=True)
    )
    loads = {tenant.id: load for tenant, load in zip(tenants, here.loads, strict=True)}
    return FormulaHost(dataclasses.replace(here.inventory, tenants=tenants), loads, CALM)


class BandwidthTest(unittest.TestCase):
    """Best-effort streams are throttled where that makes critical tenants faster."""

    def test_streams_are_throttled_as_far_as_it_pays_and_the_policy_allows(self) -> None:
        """Each not below its least, rounded up to a step; the critical stream never.

        Where best effort keeps nothing of its speed, the least is the first step.
        """
        for kept, limits in ((0.0, [20]), (0.5, [50])):
            run = OnMemory(0.3, kept)
            run.on(on_memory(20, 45, 100), 60)
            self.assertEqual({"t1": limits[-1], "t2": 50}, run.limits())
            moves_ = [step.reason.values["move"] for step in run.steps("kept", "limit-streams")]
            self.assertEqual(limits, [move.values["percent"] for move in moves_])

    def test_streams_keep_their_minimum_speed_unless_critical_tenants_gain_more(self) -> None:
        """Limits go down in small steps; below the minimum each costs as much as it brings."""
        for gain, kept, limits in (
            (0.3, 0.85, [90]),
            (2.0, 0.85, [90, 80]),
            (0.3, 1.0, []),
            (2.0, 1.0, [90, 80]),
        ):
            run = OnMemory(gain, kept)
            run.on(on_memory(20, 45, 100), 60)
            moves_ = [step.reason.values["move"] for step in run.steps("kept", "limit-streams")]
            with self.subTest(gain=gain, kept=kept):
                self.assertEqual(limits, [move.values["percent"] for move in moves_])
                lowest = dict.fromkeys(("t1", "t2"), limits[-1]) if limits else {}
                self.assertEqual(lowest, run.limits())

    def test_what_does_not_pay_is_undone(self) -> None:
        """Memory is not what limits: streams keep all, and the attempt is told."""
        run = OnMemory(0.0)
        run.on(on_memory(20), 40)
        self.assertTrue(run.steps("tried", "limit-streams"))
        self.assertEqual({}, run.limits())

    def test_masks_that_failed_are_not_tried_again_under_each_limit(self) -> None:
        """A limit changes nothing of what they cost; a further limit is another move."""
        run = OnMemory(2.0, 0.85)
        run.on(on_memory(20, 45, 100), 30)
        kept = [step.reason.values["move"] for step in run.steps("kept", "limit-streams")]
        self.assertGreater(len(kept), 1)
        masks_ = [move for move in run.tried() if not move.code.startswith("limit-")]
        self.assertTrue(masks_)
        self.assertEqual(len(masks_), len(set(map(str, masks_))))

    def test_limits_in_gbps(self) -> None:
        """AMD's, of a whole cache domain: lowered until a stream feels it, or else not at all.

        A stream moves 1.1 GB/s: half, a third and a tenth of what the domains have.
        """
        for whole, least, first, limits in (
            (16, (21, 45), 21, {"t1": 21, "t2": 49}),
            (24, (21,), 25, {"t1": 25}),
            (24, (45,), None, {}),
            (90, (21, 45), None, {}),
            (16, (21, 45), 49, None),
        ):
            control = BandwidthControl(1, 1, 2048, percent=False, whole=whole)
            run = OnMemory(0.3, 0.85 if limits is None else 0.0)
            run.on(on_memory(*least, bandwidth=control), 40)
            self.assertEqual(limits or {}, run.limits())
            tried = [move for move in run.tried() if move.code == "limit-streams"]
            self.assertEqual(first, tried[0].values["percent"] if tried else None)

    def test_what_is_monitored_is_felt_too(self) -> None:
        """What was fetched ahead misses nowhere, and has its part of memory all the same."""
        here = on_memory(20, bandwidth=BandwidthControl(1, 1, 2048, percent=False, whole=90))
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        found = plan.found(here.inventory.domain, 2)
        tenant = here.inventory.tenants[1]
        for monitored, percent, share in (
            (None, 100, 0.0),
            (3.4e9, 28, 0.074),
            (9e9, 74, 0.075),
        ):
            rates = dataclasses.replace(sample.tenants["t1"], memory_bytes_per_s=monitored)
            seen = dataclasses.replace(sample, tenants={**sample.tenants, "t1": rates})
            looks = readings.look(here.inventory.tenants, seen)
            view = View(here.inventory, Parameters(), seen, looks)
            lowered, kept_out = moves._lowered(view, found, tenant)
            self.assertEqual(percent, lowered)
            self.assertAlmostEqual(share, kept_out, 3)

    def test_only_where_the_hardware_and_the_policy_have_it(self) -> None:
        """Not without MBA, nor where nobody said what 100 % is, nor at 100 %."""
        absolute = BandwidthControl(1, 1, 2048, percent=False)
        for here in (
            on_memory(20, bandwidth=None),
            on_memory(20, bandwidth=absolute),
            on_memory(100),
        ):
            run = OnMemory(0.3)
            run.on(here, 40)
            self.assertEqual([], run.steps("limit-streams") + run.steps("limit-streams-no-more"))
            self.assertEqual({}, run.limits())

    def test_limits_end_when_somebody_comes(self) -> None:
        """They were judged beside others."""
        run = OnMemory(0.3)
        run.on(on_memory(20), 40)
        self.assertEqual({"t1": 20}, run.limits())
        run.on(on_memory(20, 20), 1)
        self.assertEqual({}, run.limits())

    def test_masks_cost_classes(self) -> None:
        """What takes more classes of service than there are is not tried."""
        here = host((PC, FITS), (BE, STREAM), classes=2)
        run = Run()
        run.on(here, 20, lambda decision: check(here.inventory, decision.layout))
        self.assertEqual([], run.tried())

    def test_who_comes_may_take_a_class_more_than_there_are(self) -> None:
        """Then nobody is confined any more, until a trial shows what fits."""
        here = host((PC, FITS), (BE, STREAM), (PC, FITS), classes=3)
        router = dataclasses.replace(here.tenants[2], io=True)
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        tenants = (*here.tenants[:2], router)
        here = FormulaHost(dataclasses.replace(here.inventory, tenants=tenants), loads, CALM)
        run = Run()
        run.on(without_last(here), 20)
        assert run.state is not None
        self.assertTrue(run.state.plan.confined and run.state.plan.clear)
        run.on(here, 20, lambda decision: check(here.inventory, decision.layout))

    def test_ways_called_in_may_take_a_class_more_than_there_are(self) -> None:
        """Its promised ways are its own again, and nobody is confined any more."""
        here = promising(host((PC, FITS), (BE, STREAM), (PC, FITS), classes=4), 2, 0, 0)
        reader = dataclasses.replace(here.tenants[0], io=True)
        inventory = dataclasses.replace(here.inventory, tenants=(reader, *here.tenants[1:]))
        run = run_once(here)
        lent = dataclasses.replace(
            run.plan,
            confined=frozenset({"t1"}),
            on_ddio=True,
            clear=True,
            own=(),
            lenders=tuple(one.tenant for one in run.plan.own),
        )
        self.assertTrue(lent.lenders)
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        now = judge.Now.seen(inventory, sample)
        for classes, confined in ((5, {"t1"}), (3, set())):
            domain = dataclasses.replace(inventory.domain, classes=classes)
            here_now = dataclasses.replace(
                now, inventory=dataclasses.replace(inventory, domain=domain)
            )
            strategy = PolluteBuffer(Parameters())
            called = strategy._anew(lent, frozenset(), run, here_now, called=True)
            self.assertTrue(masks.has_classes(here_now.inventory, called))
            self.assertEqual(confined, called.confined)

    def test_who_leaves_the_buffer_may_take_a_class_more_than_there_are(self) -> None:
        """A critical tenant whose load has changed; then nobody is confined any more."""
        here = host((PC, FITS), (PC, STREAM), (BE, STREAM))
        reader = dataclasses.replace(here.tenants[0], io=True)
        tenants = (reader, *here.tenants[1:])
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        for classes, confined in ((4, {"t2"}), (3, set())):
            domain = dataclasses.replace(here.inventory.domain, classes=classes)
            now = judge.Now.seen(DomainInventory(domain, tenants), sample)
            before = now.looks["t1"]
            other = dataclasses.replace(before, references_per_s=2 * before.references_per_s)
            state = run_once(here)
            apart = dataclasses.replace(
                state.plan, confined=frozenset({"t1", "t2"}), on_ddio=True, clear=True
            )
            self.assertTrue(masks.has_classes(now.inventory, apart))
            state = dataclasses.replace(state, plan=apart, looks={**now.looks, "t1": other})
            after, *_ = PolluteBuffer(Parameters())._another_load(state, now, ("t1",))
            self.assertTrue(masks.has_classes(now.inventory, after.plan))
            self.assertEqual(confined, after.plan.confined)

    def test_limits_cost_classes(self) -> None:
        """With no class of service left for them nobody is limited."""
        run = OnMemory(0.3)
        here = on_memory(20)
        domain = dataclasses.replace(here.inventory.domain, classes=2)
        loads = {one.id: load for one, load in zip(here.tenants, here.loads, strict=True)}
        inventory = dataclasses.replace(here.inventory, domain=domain)
        run.on(FormulaHost(inventory, loads, CALM), 40)
        self.assertEqual({}, run.limits())


def promising(here: FormulaHost, *ways: int, **domain: object) -> FormulaHost:
    """Return the host with ways promised to its tenants in order; 0: none."""
    tenants = tuple(
        dataclasses.replace(tenant, ways=WayRequest(max(count, 1), 2, 11, promised=count))
        for tenant, count in zip(here.tenants, ways, strict=True)
    )
    known = dataclasses.replace(here.inventory.domain, **domain)  # type: ignore[arg-type]
    loads = {t.id: load for t, load in zip(tenants, here.loads, strict=True)}
    return FormulaHost(DomainInventory(known, tenants), loads, here.inbound)


def run_once(here: FormulaHost) -> State:
    """Return the state after a first step."""
    run = Run()
    run.on(here, 1)
    assert run.state is not None
    return run.state


def alone(decision: Decision, tenant: str) -> int:
    """Return how many ways nobody but this tenant may fill, devices included."""
    mine = decision.layout.mask_of(tenant)
    assert mine is not None
    for group in decision.layout.groups:
        if tenant not in group.tenants:
            mine = WayMask(mine & ~group.mask)
    return WayMask(mine & ~decision.layout.ddio).count


class OnPort(Run):
    """The closed loop where a disk of t1 fills the LLC, so that t0 has `loss` of its speed less.

    When it writes to memory, its owner has `owner` less.
    """

    def __init__(self, loss: float, owner: float = 0.0) -> None:
        super().__init__(0.0)
        self.loss, self.owner = loss, owner

    def on(
        self, here: FormulaHost, seconds: int, look: Callable[[Decision], None] = lambda d: None
    ) -> None:
        for _ in range(seconds):
            super().on(_Disk(here, self.loss, self.owner), 1, look)  # type: ignore[arg-type]

    @property
    def off(self) -> tuple[str, ...]:
        """Return the root ports without DDIO now."""
        return self.decisions[-1].layout.dca_off


class _Disk:
    def __init__(self, here: FormulaHost, loss: float, owner: float) -> None:
        self.inventory = here.inventory
        self._here = here
        self._loss, self._owner = loss, owner

    def sample(
        self, layout: Layout | None, at_s: float, dice: random.Random, noise: float
    ) -> Sample:
        seen = self._here.sample(layout, at_s, dice, noise)
        if layout is not None and PORT in layout.dca_off:
            owner = seen.tenants["t1"]
            reads = dataclasses.replace(  # blocks, which it finds in memory now
                owner,
                instructions_per_s=(1.0 - self._owner) * owner.instructions_per_s,
                references_per_s=2.0 * owner.references_per_s,
            )
            return dataclasses.replace(seen, tenants={**seen.tenants, "t1": reads})
        slow = dataclasses.replace(
            seen.tenants["t0"],
            instructions_per_s=(1.0 - self._loss) * seen.tenants["t0"].instructions_per_s,
            references_per_s=(1.0 - self._loss) * seen.tenants["t0"].references_per_s,
        )
        return dataclasses.replace(
            seen, tenants={**seen.tenants, "t0": slow}, ddio_misses_per_s=DISK_LINES_PER_S
        )


PORT, DISK = "0000:17:00.0", "0000:18:00.0"
DISK_LINES_PER_S = 5e7


def with_disk(
    ports: tuple[DcaPort, ...] = (DcaPort(PORT, (DISK,)),), owner: MissCurve = STREAM
) -> FormulaHost:
    """Return a host of a critical tenant and two that stream, the first of them with a disk."""
    here = host((PC, STREAM), (BE, owner), (BE, STREAM), dca_ports=ports)
    first, disk, other = here.inventory.tenants
    owner_of = dataclasses.replace(disk, devices=(DISK,))  # no network card: of no model
    tenants = (first, owner_of, other)
    loads = {tenant.id: load for tenant, load in zip(tenants, here.loads, strict=True)}
    return FormulaHost(dataclasses.replace(here.inventory, tenants=tenants), loads, CALM)


class PortTest(unittest.TestCase):
    """DDIO goes off at a storage device's root port where that pays."""

    def test_off_where_others_gain_by_it(self) -> None:
        """Though its owner has other references then: that is no other load."""
        run = OnPort(0.2)
        run.on(with_disk(), 40)
        self.assertEqual((PORT,), run.off)
        (kept,) = run.steps("kept", "port-dca-off")
        self.assertEqual("ddio", kept.subject)
        self.assertTrue([one for one in run.decisions if "ddio" in one.moved])

    def test_more_ways_for_ddio_promise_a_gain_to_the_owner_of_a_disk(self) -> None:
        """Its device writes there. Nobody else here reads what devices write."""
        here = with_disk()
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        sample = dataclasses.replace(sample, ddio_misses_per_s=DISK_LINES_PER_S)
        first, disk, other = here.inventory.tenants
        for owner, gains in ((disk, True), (dataclasses.replace(disk, devices=("tap-db",)), False)):
            inventory = dataclasses.replace(here.inventory, tenants=(first, owner, other))
            now = judge.Now.seen(inventory, sample)
            seen = View(inventory, Parameters(), sample, now.looks)
            promises = moves.candidates(seen, plan.Plan(frozenset(), 2, 2))
            (found,) = [each for each, move in promises if move.what.code == "ddio-ways"]
            with self.subTest(gains=gains):
                self.assertEqual(gains, found > judge.PAYS)

    def test_who_reads_what_devices_write_may_do_it_otherwise_with_other_ways(self) -> None:
        """Other references of a device's owner are no other load in a trial of DDIO's ways.

        Those of a guest are, also of a guest with a tap: no device writes for the tap.
        """
        here = with_disk()
        state = PolluteBuffer(Parameters()).initial(here.inventory, 0.0)
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        more = dataclasses.replace(state.plan, ddio=4)
        for plan_, other in ((more, None), (dataclasses.replace(state.plan, buffer=3), "t1")):
            tried = plan.Move("ddio", plan_, message("ddio-ways", ways=4))
            seen = dataclasses.replace(state, looks=now.looks, trial=tried)
            rates = sample.tenants["t1"]
            rates = dataclasses.replace(rates, references_per_s=2 * rates.references_per_s)
            later = dataclasses.replace(sample, tenants={**sample.tenants, "t1": rates})
            shown = trial.shown(seen, judge.Now.seen(here.inventory, later), Parameters())
            self.assertEqual(other, shown.other)
        tap = {"devices": ("tap-db",), "model": DeviceModel.NONE}
        first, disk, last = here.inventory.tenants
        taps = (first, dataclasses.replace(disk, **tap), last)
        inventory = dataclasses.replace(here.inventory, tenants=taps)
        seen = dataclasses.replace(seen, trial=plan.Move("ddio", more, tried.what))
        shown = trial.shown(seen, judge.Now.seen(inventory, later), Parameters())
        self.assertEqual("t1", shown.other)

    def test_another_load_frees_no_owner_of_a_device_whose_ways_the_trial_changed(self) -> None:
        """Its references show nothing; the tenant whose load changed leaves the buffer."""
        here, run = with_disk(), Run(0.0)
        run.on(here, 2)
        assert run.state is not None
        sample = here.sample(run.state.layout, run.at_s + 1.0, random.Random(1), 0.0)
        confined = dataclasses.replace(run.state.plan, confined=frozenset({"t1", "t2"}))
        move = plan.Move(
            "ddio", dataclasses.replace(confined, ddio=4), message("ddio-ways", ways=4)
        )
        looks = judge.Now.seen(here.inventory, sample).looks
        state = dataclasses.replace(
            run.state, phase=Phase.TRIAL, plan=confined, trial=move, looks=looks, load_since_s=-1e3
        )
        rates = {
            one: dataclasses.replace(seen, references_per_s=2 * seen.references_per_s)
            for one, seen in sample.tenants.items()
            if one != "t0"
        }
        later = dataclasses.replace(sample, tenants={**sample.tenants, **rates})
        after, _ = run.strategy.step(state, here.inventory, later)
        self.assertEqual((Phase.MEASURE, {"t1"}), (after.phase, after.plan.confined))

    def test_on_again_where_its_owner_loses_much(self) -> None:
        """A twentieth of its speed, for any gain of the others."""
        run = OnPort(0.2, owner=0.06)
        run.on(with_disk(), 40)
        self.assertEqual((), run.off)
        undone = run.steps("port-dca-off")[-1].reason
        lost = undone.values["cause"]
        self.assertEqual(("undone", "would-lose"), (undone.code, lost.code))
        self.assertEqual(("t1", 0.05), (lost.values["tenant"], lost.values["limit"]))
        self.assertAlmostEqual(0.06, lost.values["loss"])

    def test_not_tried_where_its_owner_finds_much_in_the_llc(self) -> None:
        """That may be what its device writes: it would lose more than it may."""
        run = OnPort(0.2)
        run.on(with_disk(owner=MissCurve(0.5, ())), 40)
        self.assertTrue(run.steps())
        self.assertEqual([], run.steps("port-dca-off") + run.steps("port-dca-on"))

    def test_on_again_where_nobody_gains(self) -> None:
        """The trial is told, and undone."""
        run = OnPort(0.0)
        run.on(with_disk(), 40)
        self.assertTrue(run.steps("tried", "port-dca-off"))
        self.assertEqual((), run.off)

    def test_only_ports_that_the_operator_names_and_a_tenant_uses(self) -> None:
        """Neither without the right nor for a device of nobody."""
        for ports in ((), (DcaPort(PORT, ("0000:99:00.0",)),)):
            run = OnPort(0.2)
            run.on(with_disk(ports), 40)
            self.assertEqual([], run.steps("port-dca-off") + run.steps("port-dca-on"))

    def test_on_again_when_the_owner_leaves(self) -> None:
        """What was kept out is there no more."""
        run = OnPort(0.2)
        run.on(with_disk(), 40)
        here = with_disk()
        tenants = tuple(dataclasses.replace(one, devices=()) for one in here.inventory.tenants)
        loads = {one.id: load for one, load in zip(tenants, here.loads, strict=True)}
        inventory = dataclasses.replace(here.inventory, tenants=(*tenants[:2],))
        del loads["t2"]
        run.on(FormulaHost(inventory, loads, CALM), 1)
        self.assertEqual((), run.off)


class CleanTest(unittest.TestCase):
    """Who keeps out of the ways that devices and the confined fill, and who is let in."""

    def masks(self, io: str, **changes: object) -> dict[str, WayMask | None]:
        """Return each tenant's mask under a plan; `io`: who reads packets."""
        here = host((PC, FITS), (PC, FITS), (BE, STREAM)).inventory
        tenants = tuple(dataclasses.replace(t, io=t.id == io) for t in here.tenants)
        made = Plan(frozenset({"t2"}), 3, 2, on_ddio=True, clear=True)
        inventory = dataclasses.replace(here, tenants=tenants)
        placed = masks.layout(inventory, dataclasses.replace(made, **changes))  # type: ignore[arg-type]
        return {tenant.id: placed.mask_of(tenant.id) for tenant in tenants}

    def test_a_layout_says_whether_tenants_share_a_class(self) -> None:
        """Tenants with equal masks do; each alone in its class does not."""
        here = host((PC, FITS), (BE, STREAM))
        found = plan.found(here.inventory.domain, 2)
        self.assertTrue(masks.layout(here.inventory, found).grouped)
        confined = dataclasses.replace(found, confined=frozenset({"t1"}))
        self.assertFalse(masks.layout(here.inventory, confined).grouped)

    def test_critical_tenants_without_io_keep_clear(self) -> None:
        """Who reads packets may fill DDIO's ways: its packets are there."""
        self.assertEqual({"t0": 0x7FF, "t1": 0x0FF, "t2": 0x700}, self.masks("t0"))
        below = {"t0": 0x7FF, "t1": 0x1FF, "t2": 0x1C0}
        self.assertEqual(below, self.masks("t0", on_ddio=False))

    def test_lines_of_devices_count_among_the_fills(self) -> None:
        """The more lines come from devices, the less a tenant's own lines are to blame."""
        here = host((PC, FITS), (BE, STREAM))
        quiet = here.sample(None, 1.0, random.Random(1), 0.0)
        looks = readings.look(here.tenants, quiet)
        reliefs = []
        for inbound in (0.0, 3e6):
            seen = dataclasses.replace(quiet, ddio_misses_per_s=inbound)
            view = View(here.inventory, Parameters(), seen, looks)
            reliefs.append(view.relief(frozenset({"t0"}), view.misses("t1")))
            fills = view.misses("t0") + view.misses("t1")
        self.assertAlmostEqual(reliefs[0] * fills / (fills + 3e6), reliefs[1])

    def test_ddio_may_have_more_ways_than_tenants_may_fill(self) -> None:
        """Where others reserved most ways: to be let in again promises all there is to gain."""
        here = host((PC, FITS), (BE, STREAM), reserved_ways=WayMask(0x0FF))
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        view = View(here.inventory, Parameters(), sample, readings.look(here.tenants, sample))
        shut = Plan(frozenset(), 2, 6, clear=True)
        found = {move.what.code: promise for promise, move in moves.candidates(view, shut)}
        self.assertEqual(view.stake(frozenset({"t0"})), found["keep-clear-no-more"])

    def test_lending_says_whose_ways(self) -> None:
        """One owner's ways are named; several owners' are lent together or each alone."""
        here = promising(host((PC, FITS), (PC, FITS), (BE, STREAM)), 2, 2, 0)
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        view = View(here.inventory, Parameters(), sample, readings.look(here.tenants, sample))
        for owners, codes in ((1, ["lend"]), (2, ["lend", "lend", "lend-all"])):
            own = tuple(Own(f"t{number}", 2) for number in range(owners))
            plan = Plan(frozenset(), 2, 2, own=own)
            found = [
                move.what.code
                for _, move in moves.candidates(view, plan)
                if move.what.code.startswith("lend")
            ]
            self.assertEqual(codes, sorted(found))


class PromiseTest(unittest.TestCase):
    """Ways that a flavor promises are filled by others only if that costs their owner nothing."""

    def test_ways_are_called_in_when_their_owner_misses(self) -> None:
        """Before anything is tried."""
        idle = promising(host((PC, MissCurve(0.0, ())), (PC, FITS), (PC, FITS)), 4, 0, 0)
        run = Run()
        run.on(idle, 25)
        assert run.state is not None
        self.assertEqual((("t0",), Phase.REST), (run.state.plan.lenders, run.state.phase))
        missing = MissCurve(0.3, ())  # of as many references as before
        run.on(promising(host((PC, missing), (PC, FITS), (PC, FITS)), 4, 0, 0), 3)
        self.assertEqual({"t0"}, run.state.plan.owners)

    def test_lending_ends_for_a_lender_that_lost(self) -> None:
        """At rest, after a change that is no other load. A poller at its limit loses instructions.

        Under another load all lending ends if a lender misses, as one sample does not show a loss.
        """
        here = promising(host((PC, MissCurve(0.1, ())), (PC, FITS), (PC, FITS)), 4, 0, 0)
        run = Run(0.0)
        run.on(here, 25)
        state = run.state
        assert state is not None
        self.assertEqual(("t0",), state.plan.lenders)
        now, full = long_after(here), readings.Look(0.05, 0.95, 7e7, 1e8, 0.3)
        was = dataclasses.replace(state, looks={**now.looks, "t0": full}, deviation=0.0)
        for later, ends in (
            ({"t0": full}, False),
            ({"t0": dataclasses.replace(full, ipc=0.2)}, True),
            ({"t1": dataclasses.replace(now.looks["t1"], speed=0.1)}, False),
        ):
            looks = {**was.looks, **later}
            with self.subTest(later=later):
                self.assertEqual(ends, trial.suffering(was, looks, {"t0"}) is not None)
        loads = {tenant.id: load for tenant, load in zip(here.tenants, here.loads, strict=True)}
        loads["t1"] = dataclasses.replace(loads["t1"], references=2 * loads["t1"].references)
        run.on(FormulaHost(here.inventory, loads, here.inbound), 2)
        self.assertTrue(run.steps("measuring-anew"))
        assert run.state is not None
        self.assertEqual({"t0"}, run.state.plan.owners)

    def kept(self, here: FormulaHost) -> list[Decision]:
        """Run, and see every promise kept in each decision, and what it is worth at the end."""
        run = Run()
        kept = [one.tenant for one in run_once(here).plan.own]

        def look(decision: Decision) -> None:
            check(here.inventory, decision.layout)
            assert run.state is not None
            tried = run.state.trial.plan if run.state.trial else run.state.plan
            for tenant in here.tenants:
                if tenant.id in kept:
                    mask = decision.layout.mask_of(tenant.id)
                    self.assertGreaterEqual(mask.count if mask else 0, tenant.ways.promised)
                    if tenant.id not in tried.lenders:
                        self.assertGreaterEqual(alone(decision, tenant.id), tenant.ways.promised)

        run.on(here, 40, look)
        assert run.state is not None
        rest = masks.layout(here.inventory, run.state.plan)
        for tenant, before, after in zip(
            here.tenants,
            here.under(run.decisions[0].layout).speeds,
            here.under(rest).speeds,
            strict=True,
        ):
            if tenant.id in run.state.plan.lenders:
                self.assertGreater(after, 0.95 * before)
        return run.decisions

    def test_idle_promised_ways_are_lent_and_called_in_when_their_owner_wants_them(self) -> None:
        """Its load was none; what it needs then is its own again two samples after it began."""
        idle = promising(host((PC, MissCurve(0.0, ())), (PC, FITS), (PC, FITS)), 4, 0, 0)
        run = Run()
        run.on(idle, 25)
        assert run.state is not None
        self.assertEqual((("t0",), Phase.REST), (run.state.plan.lenders, run.state.phase))
        layout = run.decisions[-1].layout
        others = {layout.mask_of("t1"), layout.mask_of("t2")}
        self.assertIn(layout.mask_of("t0"), others)
        busy = promising(host((PC, MissCurve(0.3, ())), (PC, FITS), (PC, FITS)), 4, 0, 0)
        run.on(busy, 2)
        self.assertEqual({"t0"}, run.state.plan.owners)

    def test_who_is_held_has_so_many_ways_alone_and_no_others(self) -> None:
        """Whatever is tried, busy or idle: more than it was promised, fewer than it would take."""
        for ways, curve in ((3, FITS), (5, STREAM), (4, MissCurve(0.0, ()))):
            free = promising(host((PC, curve), (PC, FITS), (BE, STREAM)), 2, 2, 0)
            held = WayRequest(ways, ways, ways, promised=2, held=True)
            first, *others = free.tenants
            tenants = (dataclasses.replace(first, ways=held), *others)
            loads = {t.id: load for t, load in zip(tenants, free.loads, strict=True)}
            here = FormulaHost(DomainInventory(free.inventory.domain, tenants), loads, free.inbound)
            run = Run()
            run.on(free, 15)

            def look(decision: Decision, here: FormulaHost = here, ways: int = ways) -> None:
                check(here.inventory, decision.layout)
                mask = decision.layout.mask_of("t0")
                self.assertEqual((ways, ways), (mask and mask.count, alone(decision, "t0")))

            run.on(here, 40, look)
            run.on(free, 1)
            (begun,), (ended,) = run.steps("now-held"), run.steps("now-released")
            self.assertEqual(("t0", ways), (begun.subject, begun.reason.values["ways"]))
            self.assertEqual("t0", ended.subject)

    def test_who_has_changed_is_named(self) -> None:
        """Other facts of a tenant, and the cache domain where no tenant has changed."""
        before = host((PC, FITS), (PC, FITS))
        loads = {t.id: load for t, load in zip(before.tenants, before.loads, strict=True)}
        domain, (first, second) = before.inventory.domain, before.tenants
        tenants = (first, dataclasses.replace(second, priority=BE))
        run = Run()
        run.on(before, 5)
        for found in (domain, dataclasses.replace(domain, classes=8)):
            run.on(FormulaHost(DomainInventory(found, tenants), loads, before.inbound), 5)
        changed = [[(s.subject, s.reason.code) for s in d.steps][:1] for d in run.decisions[5::5]]
        self.assertEqual([[("t1", "facts-changed")], [("layout", "domain-changed")]], changed)

    def test_a_hold_precedes_guarantees_and_takes_none_of_the_two_places(self) -> None:
        """The two other owners reach the shared ways; of too many ways the held ways are kept."""
        for asked, kept in (((2, 2, 2), ("t1", "t2", "t0")), ((2, 7, 1), ("t2", "t0"))):
            free = promising(host((PC, FITS), (PC, FITS), (PC, FITS)), *asked)
            held = WayRequest(asked[0], asked[0], asked[0], held=True)
            first, *others = free.tenants
            tenants = (dataclasses.replace(first, ways=held), *others)
            inventory = DomainInventory(free.inventory.domain, tenants)
            own = masks.promised(inventory, 2, {})
            self.assertEqual(kept, tuple(one.tenant for one in own))

    def test_a_hold_of_the_guaranteed_ways_changes_the_order_of_the_owners(self) -> None:
        """A held tenant goes to the end; after its hold a critical one is first again."""
        run, free = Run(), promising(host((PC, FITS), (BE, FITS), (BE, FITS)), 2, 2, 2)
        first, *others = free.tenants
        held = dataclasses.replace(first, ways=WayRequest(2, 2, 2, promised=2, held=True))
        for tenant, place in ((first, 0), (held, 2), (first, 0)):
            inventory = DomainInventory(free.inventory.domain, (tenant, *others))
            loads = {t.id: load for t, load in zip(free.tenants, free.loads, strict=True)}
            run.on(FormulaHost(inventory, loads, free.inbound), 1)
            assert run.state is not None
            self.assertEqual("t0", run.state.plan.own[place].tenant)

    def test_a_hold_without_a_class_of_service_takes_none(self) -> None:
        """The domain is decided on all the same; the agent reports the hold that is not kept."""
        free = host((PC, FITS), (PC, FITS), (BE, FITS), (BE, STREAM), classes=4)
        held = [
            dataclasses.replace(tenant, ways=WayRequest(ways, ways, ways, held=True))
            for ways, tenant in zip((2, 4, 3), free.tenants, strict=False)
        ]
        inventory = DomainInventory(free.inventory.domain, (*held, free.tenants[3]))
        loads = {t.id: load for t, load in zip(free.tenants, free.loads, strict=True)}
        run = Run()
        run.on(FormulaHost(inventory, loads, free.inbound), 5, lambda d: check(inventory, d.layout))
        kept = {tenant.id for tenant in held if not holds.kept(tenant, run.decisions[-1].layout)}
        self.assertEqual({"t1"}, kept)

    def test_a_hold_that_does_not_fit_leaves_all_shared_ways(self) -> None:
        """Its tenant was in the pollute buffer before the hold: it does not stay there."""
        free = host((PC, FITS), (PC, FITS), (BE, FITS), (BE, STREAM), classes=4)
        run = Run()
        run.on(free, 40)
        assert run.state is not None
        self.assertIn("t3", run.state.plan.confined)
        held = {"t0": WayRequest(4, 4, 4, held=True), "t3": WayRequest(3, 3, 3, held=True)}
        tenants = (dataclasses.replace(t, ways=held.get(t.id, t.ways)) for t in free.tenants)
        inventory = DomainInventory(free.inventory.domain, tuple(tenants))
        loads = {t.id: load for t, load in zip(free.tenants, free.loads, strict=True)}
        run.on(FormulaHost(inventory, loads, free.inbound), 3)
        self.assertEqual({"t0"}, run.state.plan.owners)
        shared = masks.shared(inventory.domain, run.state.plan)
        self.assertEqual(shared, run.decisions[-1].layout.mask_of("t3"))

    def test_a_hold_that_does_not_fit_ends_no_search(self) -> None:
        """Moves of other tenants are tried; its own tenant has all shared ways in each."""
        free = host((PC, FITS), (PC, FITS), (BE, STREAM), (BE, STREAM))
        held = {one: WayRequest(4, 4, 4, held=True) for one in ("t0", "t2")}
        tenants = (dataclasses.replace(t, ways=held.get(t.id, t.ways)) for t in free.tenants)
        inventory = DomainInventory(free.inventory.domain, tuple(tenants))
        loads = {t.id: load for t, load in zip(free.tenants, free.loads, strict=True)}
        run = Run()
        run.on(FormulaHost(inventory, loads, free.inbound), 40)
        assert run.state is not None
        self.assertEqual({"t0"}, run.state.plan.owners)
        self.assertTrue(run.tried())
        ways = {decision.layout.mask_of("t2") for decision in run.decisions}
        self.assertEqual({masks.shared(inventory.domain, run.state.plan)}, ways)

    def test_one_promise_takes_its_ways_and_shares_the_others(self) -> None:
        """Who was promised two may fill all, the others all but these."""
        first = self.kept(promising(host((PC, FITS), (PC, FITS)), 2, 0))[0].layout
        self.assertEqual(WayMask(0x7FF), first.mask_of("t0"))
        self.assertEqual(WayMask(0x7FC), first.mask_of("t1"))

    def test_two_promises_reach_the_shared_ways_from_both_ends(self) -> None:
        """The best-effort guest is left what lies between them."""
        here = host((PC, FITS), (PC, FITS), (BE, STREAM))
        first = self.kept(promising(here, 2, 2, 0))[0].layout
        self.assertEqual(WayMask(0x07C), first.mask_of("t2"))
        masks = {first.mask_of("t0"), first.mask_of("t1")}
        self.assertEqual({WayMask(0x07F), WayMask(0x7FC)}, masks)

    def test_with_two_promises_who_streams_may_be_confined_to_ddios_ways(self) -> None:
        """Below them the second tenant's own ways lie, so that the buffer can be nowhere else."""
        six_ways = MissCurve(0.0, (Piece(0.9, 6.0, 6.0),))
        here = host((PC, six_ways), (PC, six_ways), (BE, STREAM), (BE, STREAM))
        last = self.kept(promising(here, 2, 2, 0, 0))[-1].layout
        self.assertEqual(last.ddio, last.mask_of("t2"))
        self.assertEqual(last.ddio, last.mask_of("t3"))
        for reserved in (WayMask(0x600), WayMask(0x700)):  # none of DDIO's ways is open
            self.kept(promising(here, 2, 2, 0, 0, reserved_ways=reserved))

    def test_who_reaches_no_shared_way_may_give_its_own_for_them(self) -> None:
        """The third owner has its own ways alone, fewer than without a promise."""
        little = MissCurve(0.0, (Piece(0.6, 6.0, 1.0),))  # each way more helps
        here = promising(host((PC, FITS), (PC, FITS), (PC, little), (BE, PART)), 1, 1, 1, 0)
        cut_off = here.under(run_once(here).layout).speeds[2]
        run = Run()
        run.on(here, 60)
        assert run.state is not None
        self.assertIn("t2", run.state.plan.lenders)
        self.assertGreaterEqual(here.under(run.state.layout).speeds[2], cut_off)

    def test_three_promises_and_a_stream(self) -> None:
        """The third has its own ways, as many as promised at least."""
        here = host((PC, FITS), (PC, FITS), (PC, FITS), (BE, STREAM))
        self.kept(promising(here, 1, 2, 2, 0))

    def test_masks_are_unbroken_where_the_hardware_takes_others(self) -> None:
        """AMD's does: the picture is the same as on any host."""
        here = host((PC, FITS), (PC, FITS), (PC, FITS), (BE, FITS))
        for decision in (
            self.kept(promising(here, 1, 1, 1, 0)),
            self.kept(
                promising(
                    host((PC, FITS), (PC, FITS), (PC, FITS), (BE, FITS), sparse_masks=True),
                    1,
                    1,
                    1,
                    0,
                )
            ),
        ):
            masks = [decision[0].layout.mask_of(f"t{n}") for n in range(4)]
            self.assertTrue(all(mask and mask.is_contiguous for mask in masks), masks)

    def test_nobody_without_a_promise_no_way_left_to_share(self) -> None:
        """All 9 ways besides DDIO's may be promised where everybody has a promise."""
        here = host((PC, FITS), (PC, FITS), (BE, FITS), (BE, STREAM))
        self.kept(promising(here, 3, 2, 2, 2))

    def test_ddio_gives_back_what_a_guest_that_arrives_is_promised(self) -> None:
        """Its ways had grown to 6 of 11."""
        here = host((PC, FITS), (PC, FITS))
        run = Run()
        run.on(here, 2)
        assert run.state is not None
        grown = dataclasses.replace(run.state.plan, ddio=6)
        run.state = dataclasses.replace(run.state, plan=grown)
        run.on(promising(here, 4, 0), 1)
        self.assertEqual(2, run.decisions[-1].layout.ddio.count)
        self.assertGreaterEqual(alone(run.decisions[-1], "t0"), 4)

    def test_a_best_effort_guest_that_streams_keeps_what_it_was_promised(self) -> None:
        """It is confined to these ways instead of the buffer."""
        last = self.kept(promising(host((PC, FITS), (BE, STREAM)), 0, 2))[-1].layout
        mine, other = last.mask_of("t1"), last.mask_of("t0")
        assert mine is not None and other is not None
        self.assertEqual((2, False), (mine.count, mine.overlaps(other)))

    def test_more_promises_than_ways_are_kept_for_critical_tenants_first(self) -> None:
        """The rest share, as the inventory warns."""
        here = promising(host((BE, FITS), (PC, FITS), (PC, FITS)), 4, 4, 3)
        self.kept(here)
        self.assertEqual({"t1", "t2"}, run_once(here).plan.owners)

    def test_a_large_critical_guest_is_not_skipped_for_a_small_one(self) -> None:
        """Seven ways are free: as many of them as possible are kept as guaranteed."""
        for ways, owners in (
            ((3, 6, 1), {"t1", "t2"}),
            ((6, 2, 0), {"t0"}),
            ((2, 5, 3), {"t0", "t1"}),
        ):
            here = promising(host((PC, FITS), (PC, PART), (BE, FITS)), *ways)
            with self.subTest(ways=ways):
                self.kept(here)
                self.assertEqual(owners, run_once(here).plan.owners)

    def test_few_classes_go_to_the_largest_guarantees(self) -> None:
        """Of 1, 1, 2 and 3 ways, two classes hold 2 and 3; with less room 3, and the first of 1."""
        here = promising(host(*[(PC, FITS)] * 4, classes=5), 1, 1, 2, 3)
        for ddio, owners in ((2, {"t2", "t3"}), (5, {"t0", "t3"})):  # 7 and 4 ways are free
            kept = masks.promised(here.inventory, ddio, {})
            self.assertEqual(owners, {one.tenant for one in kept})


class RulesTest(unittest.TestCase):
    """What holds of every decision."""

    def test_devices_are_confined_only_where_there_is_room(self) -> None:
        """Where they were found to fill any way, beside promised and shared ones."""
        here = host((PC, STREAM), (PC, STREAM), (BE, STREAM), ddio_found=WayMask(0))
        sample = here.sample(None, 1.0, random.Random(1), 0.0)
        busy = dataclasses.replace(sample, ddio_hits_per_s=1e7, ddio_misses_per_s=8e7)
        for ways, fits in ((3, True), (4, False)):
            view = View(here.inventory, Parameters(), busy, readings.look(here.tenants, sample))
            own = (plan.Own("t0", ways), plan.Own("t1", ways))
            found = moves._ddio(view, Plan(frozenset(), 2, 0, own=own))
            self.assertEqual(fits, any(move.plan.ddio for _, move in found))

    def test_every_layout_can_be_applied(self) -> None:
        """On random hosts, with coerced and with reserved ways."""
        for number in range(4):
            for changes in ({}, {"coerced_ways": WayMask(0x600)}, {"reserved_ways": WayMask(0x3)}):
                for drawn in draw.hosts(number)[1:]:
                    ways = [number % 3 for number in range(len(drawn.tenants))]
                    here = promising(drawn, *ways, **changes)
                    run = Run()
                    run.on(here, 40, lambda d, here=here: check(here.inventory, d.layout))

    def test_a_state_that_was_read_back_decides_the_same(self) -> None:
        """So a recorded iteration can be replayed."""
        here, run = host((PC, FITS), (BE, STREAM), (BE, FITS)), Run()
        for _ in range(25):
            run.on(here, 1)
            assert run.state is not None
            again = records.structure(records.unstructure(run.state), State)
            self.assertEqual(run.state, again)
            sample = here.sample(run.state.layout, run.at_s + 1, random.Random(1), 0.01)
            first = run.strategy.step(run.state, here.inventory, sample)
            second = PolluteBuffer(Parameters()).step(again, here.inventory, sample)
            self.assertEqual(first, second)

    def test_what_is_at_stake_is_the_same_in_any_order(self) -> None:
        """A set's order is another in each process, and a replay is to decide the same."""
        here = host(*((PC, MissCurve(0.01 * number, ())) for number in range(1, 9)))
        sample = here.sample(None, 1.0, random.Random(1), 0.01)
        looks = readings.look(here.tenants, sample)
        view = View(here.inventory, Parameters(), sample, looks)
        orders = [random.Random(n).sample(sorted(view.ids), 8) for n in range(50)]
        for what in (view.stake, view.fills):
            self.assertEqual(1, len({what(order) for order in orders}))  # type: ignore[arg-type]

    def test_better_than_no_agent_on_random_hosts(self) -> None:
        """The mean over some hosts, with the cost of trials. Undone trials take little time."""
        gains, undone, samples = [], 0, 0
        for number in (0, 1, 3, 5):
            run = Run()
            for here in draw.hosts(number):
                before = len(run.decisions)
                run.on(here, 90)
                decisions = run.decisions[before:]
                undone += samples_undone(decisions)
                samples += len(decisions)
                as_found = here.under(None).utility
                gains += [here.under(made.layout).utility / as_found for made in decisions]
        self.assertGreater(statistics.fmean(gains), 1.02)
        self.assertLess(undone, 0.07 * samples)


def samples_undone(decisions: list[Decision]) -> int:
    """Return how many samples were taken under masks of trials that were not kept."""
    undone = trials = 0
    for decision in decisions:
        trials += decision.phase_before == Phase.TRIAL
        if decision.phase_before == Phase.TRIAL and decision.steps:
            undone += 0 if "kept" in reasons(decision) else trials
            trials = 0
    return undone
