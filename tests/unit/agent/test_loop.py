# SPDX-License-Identifier: Apache-2.0
"""The loop: what it does in which order, and what it does when something fails."""

import contextlib
import dataclasses
import functools
import logging
import pathlib
import signal
import socket
import tempfile
import threading
import unittest
from unittest import mock

from iat_nova.agent.endings import Endings
from iat_nova.agent.interlock import Outside
from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent, ThreadDied
from iat_nova.agent.parts import Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.agent.watchdog import Watchdog
from iat_nova.experiments.times.fake import SKYLAKE, FakeAllocator, FakeDdio
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts, DomainOffline, HardwareError
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.hardware.enforcement.snapshot import HostTaken
from iat_nova.model import (
    Action,
    Allocation,
    Change,
    Decision,
    DomainInventory,
    Facts,
    Group,
    Guest,
    Hold,
    HostFacts,
    Layout,
    Parameters,
    Pause,
    Quantity,
    Step,
    WayMask,
)
from iat_nova.model.message import Message, message, verbatim
from iat_nova.model.reasons import Code
from iat_nova.policy import Classified, PolicyError, Problem
from iat_nova.report import sentences
from iat_nova.report import words as words_of
from iat_nova.report.log import LogLanguage
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Status
from iat_nova.store.replay import Replay
from iat_nova.store.writer import History
from iat_nova.strategies import registry
from iat_nova.strategies.iat.state import FsmState, IatState
from iat_nova.strategies.layout.plan import LayoutError
from iat_nova.strategies.registry import StrategyError
from tests import said
from tests.unit.build import Clock, problems, tenant


class Counters:
    """Totals that grow by a second's worth each second, or an error."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.cpus = set()
        self.closed = False
        self.ddio_per_s = (1e6, 1e6)

    def watch(self, cpus) -> None:
        self.cpus = set(cpus)

    def read(self) -> Counts:
        count = int(self.clock.now_s * 1e6)
        return Counts(
            self.clock.now_s,
            {cpu: CoreCounts(count, count, count, count) for cpu in self.cpus},
            {0: DomainCounts(*(int(self.clock.now_s * rate) for rate in self.ddio_per_s), None)},
        )

    def close(self) -> None:
        self.closed = True


class Cpus:
    """Events of CPUs, as a test plans them."""

    def __init__(self) -> None:
        self.events = []
        self.seen = 0

    def begin(self) -> bool:
        before, self.seen = self.seen, len(self.events)
        return before != self.seen

    def moved(self) -> str | None:
        return self.events[-1] if len(self.events) > self.seen else None

    def lost(self, cpus) -> bool:
        return False


class Inventory:
    def __init__(self) -> None:
        self.changed = threading.Event()
        self.guests = ()
        self.warnings = ()
        self.waiting_for = ()
        self.asked = 0
        self.online = tuple(range(18))

    def facts(self) -> Facts:
        self.asked += 1
        host = HostFacts("h", (SKYLAKE,), self.online)
        return Facts(host, self.guests, None, problems(self.warnings, self.waiting_for))


@dataclasses.dataclass(frozen=True)
class Policy:
    """One tenant on CPU 4, more when the facts have guests."""

    parameters: Parameters = Parameters()
    warnings: tuple = ()
    effective: str = ""

    def classify(self, facts, io_before) -> Classified:
        tenants = [tenant("first/1", 4)]
        tenants += [tenant(f"{guest.uuid}/{guest.run}", 5 + guest.run) for guest in facts.guests]
        return Classified({0: DomainInventory(SKYLAKE, tuple(tenants))}, {}, (), {})


class Strategy:
    """Gives the first tenant one way more each iteration."""

    def __init__(self) -> None:
        self.samples = []

    def initial(self, inventory, at_s, layout=None):
        return IatState(inventory.domain, 0, FsmState.LOW_KEEP, Allocation(2, {}))

    def step(self, state, inventory, sample):
        self.samples.append(sample)
        number = state.iteration + 1
        layout = Layout(
            WayMask(0x600),
            tuple(
                Group((tenant.id,), WayMask.span(place * 2, 1 + number % 2))
                for place, tenant in enumerate(inventory.tenants)
            ),
        )
        allocation = Allocation(2, {tenant.id: 1 + number % 2 for tenant in inventory.tenants})
        decision = Decision(
            0, number, sample.taken_at_s, False, "low keep", "low keep", None,
            (), (), allocation, layout, tuple(tenant.id for tenant in inventory.tenants),
        )  # fmt: skip
        return dataclasses.replace(state, iteration=number, layout=layout), decision


class _NoText(str):
    """A text that cannot be shown."""

    def __format__(self, spec):
        raise ZeroDivisionError


def _nested(levels):
    """Return a message in so many levels of messages."""
    return message("x") if levels == 1 else message("kept", move=_nested(levels - 1), cause="")


def _changed(step, changes, *arguments):
    """Return what a strategy's step returns, with these fields of the decision."""
    after, decision = step(*arguments)
    return after, dataclasses.replace(decision, **changes)


CACHETUNED = Guest("u", 1, "instance-1", "tuned", None, None, None, (6,), (), cachetune=True)


class AgentTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = folder / "history.sqlite"
        self.clock = Clock()
        self.counters = Counters(self.clock)
        self.inventory = Inventory()
        self.allocator, self.ddio = FakeAllocator(), FakeDdio()
        self.strategy = Strategy()
        self.policy = Policy()
        self.pause = None
        self.watchdog = None
        logging.getLogger("iat_nova").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("iat_nova").setLevel, logging.NOTSET)

    def read_policy(self):
        if isinstance(self.policy, Exception):
            raise self.policy
        return self.policy

    def make(self, **options) -> Agent:
        history = History(self.path, max_age_s=1e9, max_bytes=1 << 24, clock=self.clock)
        self.addCleanup(history.close)
        status = Status("enforce", 1, "0", "iat", 1.0, 0.0, Parameters())
        journal = Journal(history, status, self.clock, LogLanguage(), watchdog=self.watchdog)
        policies = PolicyKeeper(
            self.read_policy(), lambda: self.read_policy(), None, journal, self.inventory.changed
        )
        parts = Parts(
            inventory=self.inventory,
            policies=policies,
            make_strategy=lambda parameters: self.strategy,
            counters=self.counters,
            enforcer=Enforcer(self.allocator, self.ddio),
            journal=journal,
            clock=self.clock,
            paused=lambda wall_s: self.pause,
            **options,
        )
        self.agent = Agent(parts)
        return self.agent

    def run_for(self, seconds: float, *planned, **options) -> Agent:
        """Run the loop; `planned` are called, one a sleep, from the first on."""
        self.clock.planned = list(planned)
        agent = self.make(**options)
        agent.run(self.clock.now_s + seconds)
        return agent

    def decisions(self):
        with contextlib.closing(HistoryReader(self.path)) as reader:
            return [one.iteration.decision for one in reader.decisions(1000)]

    def status(self):
        with contextlib.closing(HistoryReader(self.path)) as reader:
            return reader.status()

    def masks(self):
        """The masks asked of the machine for the first tenant, in order; None: given up."""
        return [write.requested for write in self.allocator.writes if write.subject == "first"]

    def test_the_first_layout_comes_at_once_and_then_one_an_interval(self) -> None:
        """A tenth of a second after the start, then every second."""
        self.run_for(3.0)
        times = [sample.taken_at_s for sample in self.strategy.samples]
        self.assertEqual([100.1, 101.1, 102.1, 103.1], [round(t, 6) for t in times])

    def test_a_first_reading_that_fails(self) -> None:
        """The host is read again at the next iteration, and the problem is over."""
        facts, codes = self.inventory.facts, []
        self.inventory.facts = mock.Mock(side_effect=[OSError("no file"), facts(), facts()])
        self.run_for(3.0, lambda: None, lambda: codes.extend(self.agent.journal.latest.problems))
        self.assertEqual([], codes)
        self.assertEqual("host-stale", self.status().status.last_error.code)
        self.assertTrue(self.strategy.samples)

    def test_the_end_leaves_the_machine_as_found(self) -> None:
        """Classes are given up and the counters closed."""
        self.run_for(2.0)
        self.assertIsNone(self.masks()[-1])
        self.assertEqual({}, self.allocator.effective(0))
        self.assertTrue(self.counters.closed)

    def test_another_writer(self) -> None:
        """Monitoring groups are the other writer's by then: they are neither made nor removed."""
        monitor, taken = mock.Mock(full=None), HostTaken(message("several", causes=()))
        monitor.read.return_value = {}
        guard = mock.Mock(side_effect=[None] * 3 + [taken] * 9)

        def come():
            """Have a guest start: its group would be made."""
            self.inventory.guests = (CACHETUNED,)
            self.inventory.changed.set()
            self.before = monitor.watch.call_count

        planned = [lambda: None] * 4 + [come]
        self.run_for(8.0, *planned, monitor=monitor, outside=Outside(guard=guard))
        self.assertGreater(self.before, 0)
        self.assertEqual(self.before, monitor.watch.call_count)
        monitor.close.assert_not_called()

    def die(self, endings: Endings) -> None:
        """Have a thread end by an error, and `endings` told as Python tells it."""
        self.addCleanup(setattr, threading, "excepthook", threading.excepthook)
        threading.excepthook = endings.died
        thread = threading.Thread(target=lambda: 1 / 0, name="inventory-hints")
        thread.start()
        thread.join()

    def test_a_dead_thread_ends_the_agent_in_order(self) -> None:
        """Whichever thread: restored, said in the journal, and an error for the exit status."""

        def die() -> None:
            endings = Endings(self.fail)
            endings.attach(self.agent)
            self.die(endings)

        with self.assertRaisesRegex(ThreadDied, "thread=inventory-hints, .*ZeroDivisionError"):
            self.run_for(5.0, lambda: None, lambda: None, die)
        self.assertEqual({}, self.allocator.effective(0))
        self.assertIn("inventory-hints", sentences.text(self.status().status.last_error))

    def test_what_ends_it_before_it_is_there(self) -> None:
        """A thread that died, a signal: kept for the agent, which ends before it decides."""
        for end, error in (
            (self.die, self.assertRaisesRegex(ThreadDied, "inventory-hints")),
            (lambda endings: endings.obey(signal.SIGTERM), contextlib.nullcontext()),
        ):
            endings = Endings(self.fail)
            end(endings)
            agent = self.make()
            endings.attach(agent)
            with error:
                agent.run(1e9)
            self.assertEqual([], self.strategy.samples)

    def test_a_signal_ends_at_once_only_where_nothing_is_to_be_put_back(self) -> None:
        """One that came where something is, ends at the next place where nothing is."""
        left = []
        endings = Endings(lambda: left.append(1))
        with endings.at_once():
            pass
        endings.obey(signal.SIGINT)
        self.assertEqual([], left)
        with endings.at_once():
            self.assertEqual([1], left)

    def test_the_end_restores_after_a_bug_too(self) -> None:
        """An error nobody expected still ends with the host as it was found."""

        def bug() -> None:
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            self.run_for(5.0, lambda: None, lambda: None, bug)
        self.assertEqual({}, self.allocator.effective(0))

    def test_nothing_is_decided_or_written_after_stop(self) -> None:
        """The iteration under way is the last; then the hardware is put back."""
        self.run_for(1e6, lambda: None, lambda: self.agent.stop())
        self.assertEqual(1, self.inventory.asked)
        self.assertEqual(1, len(self.strategy.samples))
        self.assertEqual(2, len(self.masks()))  # one write, and its end

    def test_a_storm_of_hints_does_not_make_rates_of_nothing(self) -> None:
        """Woken again and again, the loop looks but measures over a fair interval."""

        def storm() -> None:
            self.clock.now_s += 0.001 - self.waited()
            self.inventory.changed.set()

        self.run_for(1.0, *[storm] * 300)
        self.assertGreater(self.inventory.asked, 100)
        self.assertTrue(all(one.interval_s > 0.04 for one in self.strategy.samples))

    def waited(self) -> float:
        """What the clock was asked to wait last."""
        return self.clock.asked_s

    def held(self):
        """The ways of the last iterations' first tenant, and at how many it was held."""
        with contextlib.closing(HistoryReader(self.path)) as reader:
            recorded = list(reader.between(0.0, 1e12, 0))
            return [
                (one.iteration.decision.allocation.tenants["first/1"], tenant.ways.held)
                for one in recorded
                for tenant in reader.inventory(one.iteration.inventory_id).domains[0].tenants
                if tenant.id == "first/1"
            ]

    def test_a_hold_is_kept_from_the_next_iteration_until_it_ends(self) -> None:
        """By the paper's machine; it is recorded with the tenants, so decisions are the same."""
        asked = []
        self.strategy = registry.make("iat", Parameters())
        self.counters.watch({4})
        hold = Hold("first", "db", 7, 1.8e9, 1.8e9 + 104.0, "import", "eve")
        self.run_for(
            7.0,
            lambda: None,
            lambda: None,
            lambda: asked.append(hold),
            holds=lambda wall_s: tuple(one for one in asked if wall_s < one.until_s),
        )
        self.assertEqual([(2, False)] * 3 + [(7, True)] * 1, self.held()[:4])
        self.assertEqual((2, False), self.held()[-1])
        self.assertEqual([2, 7, 2], [mask.count for mask in self.masks()[:-1]])
        with contextlib.closing(HistoryReader(self.path)) as reader:
            told = [event.message for event in reader.events(100)]
            replay = Replay(reader)
            for one in reader.between(0.0, 1e12, 0):
                self.assertEqual(one.iteration.decision, replay.decide(one))
        (held,) = (one for one in told if one.code == "hold-begun")
        self.assertEqual(("db", 7), (held.values["name"], held.values["ways"]))
        self.assertIn("hold-until", said.codes(held))
        self.assertIn(message("hold-ended", name="db"), told)

    def test_a_hold_outlasts_the_agent(self) -> None:
        """One that is there at the start is in the first layout."""
        self.strategy = registry.make("iat", Parameters())
        self.run_for(1.0, holds=lambda wall_s: (Hold("first", "db", 7, 1.8e9),))
        self.assertEqual({(7, True)}, set(self.held()))
        self.assertEqual(("db",), tuple(one.name for one in self.status().status.holds))

    def test_a_hold_that_does_not_fit_is_told_and_the_rest_goes_on(self) -> None:
        """So is one that the strategy does not keep; each is solved by its end."""
        for ways, code in ((12, "hold-refused"), (7, "hold-not-kept")):
            asked = [Hold("first", "db", ways, 1.8e9)]
            shown = []
            self.run_for(
                4.0,
                lambda: None,
                lambda shown=shown: shown.extend(self.agent.journal.latest.problems),
                asked.clear,
                holds=lambda wall_s, asked=asked: tuple(asked),
            )
            self.assertEqual(1, len(shown), shown)
            self.assertEqual(code, shown[0].message.code)
            self.assertEqual((), self.status().status.problems)
            self.clock.now_s += 100

    def test_a_hold_that_did_not_fit_is_no_problem_after_its_guest(self) -> None:
        """It waits for the guest, and may fit then."""
        guest = Guest("u", 1, "instance-1", "db", None, None, None, (6,), ())
        self.inventory.guests = (guest,)
        shown = []

        def leave() -> None:
            shown.extend(self.agent.journal.latest.problems)
            self.inventory.guests = ()
            self.inventory.changed.set()

        self.run_for(4.0, lambda: None, leave, holds=lambda wall_s: (Hold("u", "db", 12, 1.8e9),))
        self.assertEqual(["hold-refused"], [one.message.code for one in shown])
        self.assertEqual((), self.status().status.problems)

    def test_a_domain_may_have_parameters_of_its_own(self) -> None:
        """Its strategy is made for them, and its decisions are decided again by them."""
        own = Parameters(ddio_ways_max=3)
        self.policy = Policy(Parameters(domains={0: own, 1: Parameters()}))
        made = []

        def make(parameters):
            made.append(parameters)
            return registry.make("iat", parameters)

        self.make()
        self.agent.make_strategy = make
        self.agent.reload_policy()
        self.agent.run(self.clock.now_s + 3.0)
        self.assertEqual([self.policy.parameters, own, Parameters()], made)
        with contextlib.closing(HistoryReader(self.path)) as reader:
            found = reader.latest(0)
            self.assertEqual(own, reader.settings(found).parameters.of(0))
            self.assertEqual(found.iteration.decision, Replay(reader).decide(found))

    def test_a_hint_has_the_picture_read_again(self) -> None:
        """Events say "look again"; a new guest is in the next decision."""

        def arrive() -> None:
            self.inventory.guests = (dataclasses.replace(CACHETUNED, cachetune=False),)
            self.inventory.changed.set()

        self.run_for(2.0, lambda: None, arrive)
        self.assertEqual(2, self.inventory.asked)
        self.assertIn("u", {write.subject for write in self.allocator.writes})
        self.assertIn(6, self.counters.cpus)

    def why_observing(self) -> list[Message]:
        """Return why the agent only observes, as its status has it."""
        return [one.message for one in self.status().status.reasons]

    def test_observing_writes_nothing_and_records_everything(self) -> None:
        """mode = observe."""
        self.run_for(3.0, observe=True)
        self.assertEqual([], self.allocator.writes)
        self.assertEqual(4, len(self.decisions()))
        self.assertEqual("observe", self.status().status.mode)
        self.assertEqual([message("observe-configured")], self.why_observing())

    def test_an_offer_that_disagrees_is_shown_until_it_is_mended(self) -> None:
        """What Placement is offered is compared at each look; a silent source settles nothing."""
        answers = iter([verbatim("iat.yaml offers too much"), None])
        seen = []

        def next_look(warnings: tuple[Message, ...]) -> None:
            seen.append([one.code for one in self.agent.journal.latest.problems])
            self.inventory.warnings = warnings
            self.inventory.changed.set()

        self.run_for(
            5.0,
            lambda: None,
            lambda: next_look((verbatim("libvirt does not answer"),)),
            lambda: next_look(()),
            lambda: seen.append([one.code for one in self.agent.journal.latest.problems]),
            placement=lambda policy, facts: (None, next(answers)),
        )
        self.assertEqual([["placement-offer"], ["placement-offer"], []], seen)

    def test_a_refused_write_leads_to_observing(self) -> None:
        """The host is put back at once, the reason is in the status, the loop goes on."""

        def look() -> None:
            self.seen = (dict(self.allocator.effective(0)), self.ddio.read(0))

        planned = [lambda: None, lambda: setattr(self.allocator, "refuse", "first"), look]
        self.run_for(5.0, *planned)
        self.assertEqual(({}, SKYLAKE.ddio_found), self.seen)
        self.assertEqual(6, len(self.decisions()))
        self.assertEqual(2, len(self.masks()))  # one good one, and its end
        self.assertIn("refused for a test", words_of.observing(self.status().status))

    def test_a_refused_write_is_tried_again(self) -> None:
        """After a pause; then the masks are there again."""

        def refuse() -> None:
            self.allocator.refuse = "first"

        def allow() -> None:
            self.allocator.refuse = None
            self.seen = dict(self.allocator.effective(0))

        def look() -> None:
            self.later = dict(self.allocator.effective(0))
            self.reasons = dict(self.agent.interlock.reasons)
            self.problems = self.agent.journal.latest.problems

        nothing = lambda: None  # noqa: E731
        self.run_for(20.0, nothing, refuse, nothing, allow, *[nothing] * 10, look)
        self.assertEqual({}, self.seen)
        self.assertIn("first", self.later)
        self.assertEqual(({}, ()), (self.reasons, self.problems))

    def test_a_cachetune_guest_leads_to_observing_while_it_runs(self) -> None:
        """Our classes are given back at once and taken again when it has gone."""

        def come() -> None:
            self.inventory.guests = (CACHETUNED,)
            self.inventory.changed.set()

        def look() -> None:
            self.seen = dict(self.allocator.effective(0))
            self.inventory.guests = ()
            self.inventory.changed.set()

        def look_again() -> None:
            self.later = dict(self.allocator.effective(0))

        self.run_for(5.0, lambda: None, come, look, look_again)
        self.assertEqual({}, self.seen)
        self.assertIn("first", self.later)

    def test_a_source_that_never_answered_leads_to_observing_until_it_does(self) -> None:
        """Nothing is written while it is not known whose CPUs are whose; no answer is no guests."""
        self.inventory.waiting_for = (message("libvirt-unanswered", uri="qemu:///sytem"),)
        seen = []

        def answer() -> None:
            seen.append((self.allocator.writes[:], self.agent.journal.latest))
            self.inventory.waiting_for = ()
            self.inventory.changed.set()

        self.run_for(6.0, *[lambda: None] * 3, answer)
        ((writes, status),) = seen
        self.assertEqual([], writes)
        (reason,) = status.reasons
        self.assertEqual(Code.SOURCE_UNANSWERED, reason.code)
        self.assertEqual("sources-unanswered", reason.message.code)
        self.assertIn("qemu:///sytem", str(reason.message.values["sources"]))
        self.assertEqual("enforce", self.status().status.mode)
        self.assertTrue(self.masks())

    def test_an_error_of_the_classification_does_not_end_the_loop(self) -> None:
        """The tenants stay as they were, the reason is shown, and ends with the error."""
        seen = []

        def look(policy) -> None:
            seen.append([one.code for one in self.agent.journal.latest.problems])
            self.agent.policies.policy = policy
            self.inventory.changed.set()

        class Broken(Policy):
            def classify(self, facts, io_before):
                return {}[1]

        self.run_for(
            6.0,
            lambda: None,
            lambda: look(Broken()),
            lambda: None,
            lambda: look(Policy()),
            lambda: None,
            lambda: look(Policy()),
        )
        self.assertEqual([[], [Code.CLASSIFICATION_FAILED], []], seen)
        self.assertIn(4, self.counters.cpus)
        self.assertEqual(7, len(self.strategy.samples))

    def test_paused_holds_the_masks(self) -> None:
        """Nothing is decided and nothing written until resumed."""

        def hold() -> None:
            self.pause = Pause(0.0, reason="firmware")

        self.run_for(6.0, lambda: None, hold)
        self.assertEqual(1, len(self.decisions()))
        self.assertEqual("firmware", self.status().status.paused_reason)

    def test_tenants_that_cannot_be_laid_out_do_not_end_the_loop(self) -> None:
        """The last masks stay, the reason is told; the loop goes on when it fits again."""
        step = self.strategy.step

        def too_many(state, inventory, sample):
            raise LayoutError("12 tenants, 11 ways")

        def fail() -> None:
            self.strategy.step = too_many

        def mend() -> None:
            self.strategy.step = step

        self.run_for(6.0, lambda: None, fail, mend)
        self.assertIn("12 tenants", sentences.text(self.status().status.last_error))
        self.assertEqual(6, len(self.decisions()))

    def _fails_for_a_second(self, method, broken) -> None:
        """Exchange a method of the strategy for a broken one, and look at what is told."""
        sound = getattr(self.strategy, method)

        def fail() -> None:
            setattr(self.strategy, method, broken)

        def mend() -> None:
            self.told, self.masks_then = self.status().status, dict(self.allocator.effective(0))
            setattr(self.strategy, method, sound)

        def wait() -> None:
            self.agent.journal._history.flush()

        self.run_for(7.0, wait, fail, wait, mend)
        self.assertEqual(("strategy-failed",), tuple(r.code for r in self.told.problems))
        self.assertIn("first", self.masks_then)
        self.assertEqual((), self.status().status.problems)

    def test_a_strategy_that_raises_does_not_end_the_loop(self) -> None:
        """Whatever it is: previous masks stay, the traceback is in the log, it is asked again."""

        def broken(state, inventory, sample):
            return {}["no such"]

        logging.getLogger("iat_nova").setLevel(logging.ERROR)
        with self.assertLogs("iat_nova", "ERROR") as caught:
            self._fails_for_a_second("step", broken)
        self.assertIn("KeyError('no such')", sentences.text(self.told.problems[0].message))
        self.assertEqual(1, sum("Traceback" in text for text in caught.output))

    def test_exceptions_that_cannot_be_told_do_not_end_the_loop(self) -> None:
        """An exception whose own methods raise, and one that ends a process elsewhere."""

        class Evil(Exception):
            def __repr__(self):
                raise SystemExit(3)

            __str__ = __repr__

        for error, words in ((Evil(), "Evil (its text cannot be read)"), (SystemExit(3), "(3)")):
            with self.subTest(words):
                self.setUp()
                step = mock.Mock(side_effect=error)
                self._fails_for_a_second("step", step)
                self.assertIn(words, sentences.text(self.told.problems[0].message))

    def test_a_layout_that_cannot_be_is_not_written(self) -> None:
        """A tenant forgotten, a mask with a gap: named, and nothing of it reaches the hardware."""
        step = self.strategy.step

        def broken(state, inventory, sample):
            after, decision = step(state, inventory, sample)
            layout = Layout(WayMask(0x600), (Group(("first/1", "gone"), WayMask(0b101)),))
            return after, dataclasses.replace(decision, layout=layout)

        self._fails_for_a_second("step", broken)
        self.assertEqual("strategy-failed", self.told.problems[0].message.code)
        text = sentences.text(self.told.problems[0].message)
        self.assertIn("gone has 1 masks, expected 0", text)
        self.assertIn("mask 0x5 is not contiguous", text)

    def test_a_decision_that_nobody_could_record_is_none(self) -> None:
        """Of no tuple, of the wrong domain, with reasons that are no text: refused, and named."""
        for wrong, words in (
            ({"steps": None}, "expected a tuple of Step"),
            ({"domain": 7}, "decided for cache domain 7, expected 0"),
            ({"steps": (Step(Action.REFUSE, "layout", 3),)}, "has 3, expected a Message"),
            ({"phase": None}, "has None, expected text"),
            ({"why": [1]}, "expected a tuple of Message"),
            ({"iteration": "x"}, "has 'x', expected a whole number"),
            ({"iteration": True}, "has True, expected a whole number"),
            ({"iteration": 2**70}, "expected a number from 0 to"),
            ({"iteration": -1}, "expected a number from 0 to"),
            ({"rule": 2.5}, "has 2.5, expected a whole number"),
            ({"at_s": "now"}, "has 'now', expected a number"),
            ({"since_s": b""}, "has b'', expected a number"),
            ({"changes": (Change("ddio", Quantity.MISSES, None, 1.0),)}, "expected a number"),
            ({"steps": (Step("grow", "layout", message("x")),)}, "has 'grow', expected an Action"),
            ({"steps": (Step(Action.GROW, "layout", message("x"), 2**64),)}, "expected a number"),
            ({"why": (message("speeds", gain=10**400),)}, "'gain' of the message 'speeds' beyond"),
            ({"steps": (Step(Action.GROW, "layout", message("x", y=b"")),)}, "of type bytes"),
            ({"why": (message("x", y=_NoText("z")),)}, "of type _NoText, expected str"),
            ({"why": (message("x", y=("a", 1)),)}, "of type int, expected str"),
            ({"why": (Message("x", None),)}, "'x', whose values are no dict"),
            ({"why": (Message(_NoText("x")),)}, "whose code is of type _NoText"),
            ({"why": (_nested(17),)}, "nested more than 16 levels deep"),
        ):
            with self.subTest(words):
                self.setUp()
                step = functools.partial(_changed, self.strategy.step, wrong)
                self._fails_for_a_second("step", step)
                self.assertIn(words, sentences.text(self.told.problems[0].message))

    def test_a_step_that_returns_something_else(self) -> None:
        """Not even a decision."""
        self._fails_for_a_second("step", lambda state, inventory, sample: (state, None))
        self.assertIn(
            "returned NoneType, expected a Decision", sentences.text(self.told.problems[0].message)
        )

    def test_a_strategy_that_cannot_begin_is_asked_again(self) -> None:
        """An error in `initial` is like one in `step`."""
        initial, calls = self.strategy.initial, []

        def broken(*arguments):
            calls.append(arguments)
            if len(calls) == 1:
                raise ZeroDivisionError
            return initial(*arguments)

        self.strategy.initial = broken
        self.run_for(3.0)
        self.assertEqual(3, len(self.decisions()))

    def test_a_strategy_that_cannot_take_a_new_policy_keeps_the_old(self) -> None:
        """As with a policy that is invalid."""

        def reload() -> None:
            self.agent.make_strategy = unusable
            self.agent.reload_policy()

        def unusable(parameters):
            raise StrategyError("strategy 'x' does not load: TypeError()")

        self.run_for(4.0, lambda: None, reload)
        self.assertEqual(5, len(self.decisions()))
        (problem,) = self.status().status.problems
        self.assertEqual("policy-reload-failed", problem.message.code)

    def test_a_broken_policy_at_a_reload_leaves_the_old_one(self) -> None:
        """The error is shown in the status; a mended one takes its place."""

        def break_it() -> None:
            self.policy = PolicyError([Problem("classes", 3, verbatim("not a list"))], "p.yaml")
            self.agent.reload_policy()

        def look() -> None:
            self.meanwhile = self.agent.policy
            self.policy = Policy(Parameters(interval_s=2.0))
            self.agent.reload_policy()

        old = self.policy
        agent = self.run_for(6.0, lambda: None, break_it, look)
        self.assertIs(old, self.meanwhile)
        self.assertEqual(2.0, agent.policy.parameters.interval_s)
        self.assertIn("not a list", sentences.text(self.status().status.last_error))
        self.assertEqual((), self.status().status.problems)

    def test_a_policy_that_takes_long_does_not_hold_up_the_loop(self) -> None:
        """Iterations go on while it is read, SIGTERM is heard, and it counts when it is there."""
        read, new = threading.Event(), Policy(Parameters(interval_s=2.0))
        policies = [self.policy]
        taken = []

        def slow():
            if policies:
                return policies.pop()
            read.wait(10.0)
            return new

        self.read_policy = slow

        def finish() -> None:
            taken.append((len(self.strategy.samples), self.agent.policy))
            self.inventory.changed.clear()
            read.set()
            self.assertTrue(self.inventory.changed.wait(10.0))

        idle = [lambda: None] * 2
        self.run_for(20.0, lambda: self.agent.reload_policy(), *idle, finish)
        ((samples, policy),) = taken
        self.assertGreaterEqual(samples, 3)
        self.assertIsNot(new, policy)
        self.assertIs(new, self.agent.policy)

    def test_an_owner_who_comes_and_goes(self) -> None:
        """Our classes are given back, we only observe; then we enforce again."""
        theirs = message("group-of-other", group="theirs")
        owners: list[Message] = []

        def come() -> None:
            owners.append(theirs)
            self.inventory.changed.set()

        def look() -> None:
            self.seen = dict(self.allocator.effective(0))
            self.reasons = dict(self.agent.interlock.reasons)
            owners.clear()
            self.inventory.changed.set()

        def look_again() -> None:
            self.later = dict(self.allocator.effective(0))
            self.later_reasons = dict(self.agent.interlock.reasons)

        planned = [lambda: None, come, look, look_again]
        self.run_for(6.0, *planned, outside=Outside(lambda: tuple(owners)))
        others = message("other-owners", owners=(theirs,))
        self.assertEqual(({}, {"other-owner": others}), (self.seen, self.reasons))
        self.assertIn("first", self.later)
        self.assertEqual({}, self.later_reasons)

    def test_a_restore_that_fails_is_tried_again(self) -> None:
        """At every look while we only observe, until the host is as it was found."""
        owners: list[str] = []

        def come() -> None:
            owners.append("theirs")
            self.inventory.changed.set()
            self.allocator.apply = self._refuse

        def mend() -> None:
            self.masks_before = dict(self.allocator.effective(0))
            self.told = [one.message.code for one in self.agent.journal.latest.problems]
            del self.allocator.apply
            self.inventory.changed.set()

        def look() -> None:
            self.masks_after = dict(self.allocator.effective(0))
            self.told_after = [one.message.code for one in self.agent.journal.latest.problems]

        planned = [lambda: None, come, mend, look]
        self.run_for(6.0, *planned, outside=Outside(lambda: tuple(owners)))
        self.assertIn("first", self.masks_before)
        self.assertIn("not-restored", self.told)
        self.assertEqual({}, self.masks_after)
        self.assertNotIn("not-restored", self.told_after)

    def test_a_foreign_change_is_not_fought(self) -> None:
        """The host is put back once; then only observing, also when the change is gone."""
        changes: list[str] = []

        def meddle() -> None:
            changes.append("iat-nova.1: L3:0 is 0x3, the agent wrote 0xc")
            self.inventory.changed.set()

        def mend() -> None:
            self.seen = dict(self.allocator.effective(0))
            self.before = len(self.allocator.writes)
            changes.clear()
            self.inventory.changed.set()

        def look() -> None:
            self.after = len(self.allocator.writes)

        planned = [lambda: None, meddle, mend, lambda: None, look]
        self.run_for(8.0, *planned, outside=Outside(changes=lambda: tuple(changes)))
        self.assertEqual({}, self.seen)
        self.assertEqual(self.before, self.after)
        self.assertIn("the agent wrote 0xc", words_of.observing(self.status().status))

    def test_ddio_moved_by_another_hand(self) -> None:
        """Found by reading what we left there, put back once, and left alone from then on."""

        def meddle() -> None:
            self.ddio.write(0, WayMask(0x7C0))
            self.inventory.changed.set()

        def again() -> None:
            self.seen = self.ddio.read(0)
            meddle()

        self.run_for(6.0, lambda: None, meddle, again)
        self.assertEqual(SKYLAKE.ddio_found, self.seen)
        self.assertEqual(0x7C0, self.ddio.read(0))
        self.assertRegex(
            words_of.observing(self.status().status), "DDIO is at 0x7c0, the agent left 0x600"
        )

    def test_a_socket_off_line_is_left_alone(self) -> None:
        """It is not decided upon until it is back; that is told, and no reason to observe."""
        apply = self.allocator.apply

        def offline(domain, _classes):
            raise DomainOffline(domain)

        def unplug() -> None:  # between two reconciles: the next write finds it out
            self.allocator.apply = offline
            self.inventory.online = (18,)

        def count() -> None:
            self.count = len(self.strategy.samples)

        def plug() -> None:
            self.same = len(self.strategy.samples) == self.count
            self.latest = self.agent.journal.latest
            self.allocator.apply = apply
            self.inventory.online = tuple(range(18))
            self.inventory.changed.set()

        self.run_for(9.0, lambda: None, unplug, lambda: None, count, lambda: None, plug)
        self.assertTrue(self.same)
        (told,) = self.latest.notices
        self.assertEqual(message("domain-offline", domain=0), told.message)
        self.assertEqual(((), None), (self.latest.problems, self.latest.last_error))
        self.assertGreater(len(self.strategy.samples), self.count)
        self.assertEqual(
            (None, ()), (words_of.observing(self.status().status), self.status().status.problems)
        )

    def test_a_decision_that_failed_is_no_problem_of_a_socket_offline(self) -> None:
        """No decision is made on it until it is back."""
        self.strategy.step = lambda *_: {}["no such"]

        def unplug() -> None:
            self.failed = self.agent.journal.latest.problems
            self.inventory.online = (18,)
            self.inventory.changed.set()

        self.run_for(4.0, lambda: None, unplug)
        self.assertEqual(["strategy-failed"], [one.message.code for one in self.failed])
        self.assertEqual((), self.status().status.problems)

    def test_cpus_that_come_or_go_are_looked_at_within_an_interval(self) -> None:
        """Without a hint from any source."""
        cpus = Cpus()
        self.run_for(3.0, lambda: None, lambda: cpus.events.append("CPU 4 came online"),
                     outside=Outside(cpus=cpus))  # fmt: skip
        self.assertEqual(2, self.inventory.asked)

    def test_what_a_cpu_disturbs_is_tried_again(self) -> None:
        """A write, a reading of counters, counting itself: events, and nothing is wrong."""
        cpus = Cpus()
        apply, watch, read = self.allocator.apply, self.counters.watch, self.counters.read

        def go(*_arguments):
            cpus.events.append("CPU 4 went offline")
            self.allocator.apply = apply
            self.counters.watch, self.counters.read = watch, read
            raise HardwareError("Invalid argument")

        def disturb(where, name):
            setattr(where, name, go)
            self.inventory.changed.set()

        self.run_for(
            6.0,
            lambda: disturb(self.allocator, "apply"),
            lambda: disturb(self.counters, "watch"),
            lambda: disturb(self.counters, "read"),
            outside=Outside(cpus=cpus),
        )
        status = self.status().status
        self.assertEqual(
            (None, (), None), (words_of.observing(status), status.problems, status.last_error)
        )
        with contextlib.closing(HistoryReader(self.path)) as reader:
            told = {event.message.code for event in reader.events(100)}
        wanted = {"cpus-moved-writing", "cpus-moved-counting", "cpus-moved-reading"}
        self.assertLessEqual(wanted, told)
        self.assertNotIn(None, self.masks()[:-1])

    def test_the_service_manager_is_told(self) -> None:
        """Ready and alive with the first iteration, alive with each, stopping before the end."""
        systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(systemd.close)
        systemd.settimeout(5)
        systemd.bind(str(self.path.parent / "notify"))
        self.watchdog = Watchdog({"NOTIFY_SOCKET": str(self.path.parent / "notify")})
        self.run_for(2.0)
        told = [systemd.recv(500) for _ in range(5)]
        alive = b"WATCHDOG=1"
        self.assertEqual([b"READY=1\nSTATUS=enforcing", alive, alive, alive, b"STOPPING=1"], told)

    def test_ddio_ways_without_effect(self) -> None:
        """Shown in the status, told to the strategy, and the register is where it was found."""
        loads = ((8e6, 2e6), (7.2e6, 4.8e6), (5.6e6, 8.4e6))  # fewer lines hit, and more miss
        growing = (2, 2, 3, 4, 5, *[6] * 13)
        ways = iter((*(one for _ in loads for one in growing), *[6] * 100))
        step = self.strategy.step

        def grow(state, inventory, sample):
            self.resizable = inventory.domain.ddio_resizable
            state, decision = step(state, inventory, sample)
            count = next(ways)
            layout = dataclasses.replace(decision.layout, ddio=WayMask.span(11 - count, count))
            return state, dataclasses.replace(decision, layout=layout)

        self.strategy.step = grow

        def load(rates):
            def set_rates() -> None:
                self.counters.ddio_per_s = rates

            return [set_rates, *[lambda: None] * (len(growing) - 1)]

        def look() -> None:
            self.seen = (self.resizable, self.ddio.read(0))
            self.degraded = self.agent.journal.latest.problems
            self.agent.reload_policy()

        planned = [one for rates in loads for one in load(rates)]
        self.run_for(len(planned) + 3.0, *planned, look)
        self.assertEqual((False, 0x600), self.seen)
        (problem,) = self.degraded
        told = (problem.message.code, problem.message.values["domain"])
        self.assertEqual(("ddio-no-effect", 0), told)
        self.assertEqual(
            "ddio-ways-without-effect", problem.message.values["verdict"].code, problem.message
        )
        self.assertEqual((True, ()), (self.resizable, self.status().status.problems))

    def _refuse(self, domain, classes):
        raise HardwareError("jammed")
