# SPDX-License-Identifier: Apache-2.0
"""The ways in force at a moment, or that no agent ran: gaps of every kind."""

import dataclasses
import math
import pathlib
import shutil
import tempfile
import unittest

from iat_nova.model import Action, Pause, Step, message
from iat_nova.policy import holds
from iat_nova.report import moments
from iat_nova.report.moments import Loop, Moment
from iat_nova.store.heartbeat import AgentNow, AgentState
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import EventKind
from iat_nova.store.writer import History
from tests.unit import stories
from tests.unit.stories import NIGHT

ALIVE, GONE = AgentNow(AgentState.RUNNING, 1), AgentNow(AgentState.UNCLEAN)
QUIET = message("no-tenant-awake")
NO_MOVE = message("nothing-to-try", causes=(message("no-move"),))


class MomentCase(unittest.TestCase):
    """A history that a test writes second by second; a run of the agent begins with #1."""

    def setUp(self) -> None:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-nova-"))
        self.addCleanup(shutil.rmtree, folder)
        self.path = folder / "history.sqlite"
        self.clock = stories.SetClock()
        self.history = History(self.path, max_age_s=1e9, max_bytes=1 << 23, clock=self.clock)
        self.addCleanup(self.history.close)
        self.history.status(stories.status())
        self.row = self.history.inventory(NIGHT, stories.facts(), {0: stories.inventory()})

    def event(self, code: str, **values: object) -> None:
        """Record an event now."""
        said = message(code, **values)
        self.history.event(self.clock.wall_s, "info", said, EventKind(code))

    def iterate(self, first: int, last: int, searched: int = 0) -> None:
        """Record an iteration a second; each run's second iteration moves DDIO.

        `searched`: the iteration that ends a search for moves.
        """
        for number in range(first, last + 1):
            self.clock.wall_s += 1
            made = stories.quiet(number, self.clock.wall_s, inventory_id=self.row)
            if number == 2:
                made = stories.burst(number, self.clock.wall_s, inventory_id=self.row)
            else:
                why = (NO_MOVE,) if number == searched else (QUIET,)
                decision = dataclasses.replace(made.decision, why=why)
                made = dataclasses.replace(made, decision=decision)
            self.history.record(made)

    def at(
        self, second: float, agent: AgentNow = ALIVE, *, exact: bool = False, seen: float = math.inf
    ) -> Moment:
        """Return the moment so many seconds after the begin; `seen`: when the agent was seen."""
        self.assertTrue(self.history.flush(60.0), self.history.problem)
        with HistoryReader(self.path) as reader:
            found = moments.at(
                reader, NIGHT + second, None, agent, exact=exact, seen_s=NIGHT + seen
            )
        assert found is not None
        return found

    def said(self, second: float, agent: AgentNow = ALIVE, *, seen: float = math.inf) -> str:
        """Return the lines of a moment as one text."""
        found = self.at(second, agent, seen=seen)
        return " ".join(" ".join(moments.lines(found, width=80)).split())


class MomentTest(MomentCase):
    def test_a_decision_in_force(self) -> None:
        """Which one, how long before, and why nothing was done since."""
        self.iterate(1, 30)
        found = self.at(20.5)
        self.assertEqual(
            (Loop.RUNNING, 2), (found.loop, found.decision.iteration.decision.iteration)
        )
        said = self.said(20.5)
        self.assertIn("decision #2, 18 s before, was in force", said)
        self.assertIn("#20 did nothing: no tenant is awake", said)
        self.assertEqual(20, self.at(20.5, exact=True).decision.iteration.decision.iteration)
        self.assertEqual("no tenant is awake", moments.record(found)["why"])

    def test_a_strategy_that_gives_no_reason(self) -> None:
        """The page says so; the reason in the data is empty."""
        self.iterate(1, 30)
        found = self.at(20.5)
        iteration = found.last.iteration
        decision = dataclasses.replace(iteration.decision, why=())
        last = dataclasses.replace(
            found.last, iteration=dataclasses.replace(iteration, decision=decision)
        )
        found = dataclasses.replace(found, last=last)
        told = " ".join(" ".join(moments.lines(found, width=80)).split())
        self.assertIn("#20 did nothing: its strategy gave no reason", told)
        self.assertEqual("", moments.record(found)["why"])

    def test_an_agent_that_only_observes(self) -> None:
        """Its decisions are in force at no moment; those of before were written."""
        self.iterate(1, 10)
        self.clock.wall_s += 1
        made = stories.quiet(11, self.clock.wall_s, inventory_id=self.row)
        self.history.record(dataclasses.replace(made, effective=None))
        self.assertIn(
            "was written; #11 wrote nothing: the agent observed, or a write failed", self.said(11.5)
        )
        self.assertIs(False, moments.record(self.at(11.5))["written"])
        self.clock.wall_s += 1
        made = stories.burst(12, self.clock.wall_s, inventory_id=self.row)
        self.history.record(dataclasses.replace(made, effective=None))
        said = self.said(12.5)
        self.assertIn("decision #12, 0.5 s before, was not written: the agent observed, or", said)
        self.assertNotIn("in force", said)
        self.assertIn("its last iteration wrote nothing", self.said(60, GONE))

    def test_the_end_of_the_search(self) -> None:
        """What was against each move was told once: it is told of all iterations since."""
        self.iterate(1, 30, searched=4)
        for second in (5, 29.5):
            self.assertIn("awake; at #4: nothing more to try: no move is poss", self.said(second))
        for second in (3.5, 4.5):
            self.assertNotIn("at #4:", self.said(second))
        self.assertIn("at #4:", str(moments.record(self.at(20))["why"]))
        self.assertIn("at #4:", moments.why(self.at(20, exact=True)))

    def test_now_without_an_agent(self) -> None:
        """How the last agent ended and what became of the masks; nothing while an agent lives."""
        self.iterate(1, 10)
        self.event("restored", parts=("masks",))
        self.event("agent-stopped")
        self.assertTrue(self.history.flush(60.0), self.history.problem)
        with HistoryReader(self.path) as reader:
            ended = moments.ended(reader, AgentNow(AgentState.STOPPED))
            self.assertIsNone(moments.ended(reader, ALIVE))
        self.assertRegex(str(ended), "no agent runs: .* stopped at .*, original settings restored")

    def test_a_change_of_phase_after_the_decision(self) -> None:
        """It is told, instead of a reason for doing nothing."""
        self.iterate(1, 10)
        self.clock.wall_s += 1
        made = stories.quiet(11, self.clock.wall_s, inventory_id=self.row)
        step = Step(Action.WATCH, "layout", message("measuring-anew", cause=QUIET))
        decision = dataclasses.replace(
            made.decision, stable=False, phase="Measure", phase_before="Rest", steps=(step,)
        )
        self.history.record(dataclasses.replace(made, decision=decision))
        said = self.said(12)
        self.assertIn("decision #2, 10 s before, was in force", said)
        self.assertIn("#11 changed no ways: Rest -> Measure; watch: no tenant is awake", said)
        self.assertIn("decision #2, 0.5 s before, was in force", self.said(2.5))

    def test_a_step_that_does_not_act(self) -> None:
        """A load that changes while loads are measured: the reason is that of the step."""
        self.iterate(1, 10)
        self.clock.wall_s += 1
        made = stories.quiet(11, self.clock.wall_s, inventory_id=self.row)
        step = Step(Action.WATCH, "layout", message("measuring-anew", cause=QUIET))
        decision = dataclasses.replace(made.decision, stable=False, steps=(step,))
        self.history.record(dataclasses.replace(made, decision=decision))
        self.assertIn("#11 did nothing: no tenant is awake: measuring anew", self.said(12))

    def test_after_an_orderly_end(self) -> None:
        """No agent ran; the settings were restored; the last decision is told as such."""
        self.iterate(1, 30)
        self.event("restored", parts=("masks",))
        self.event("agent-stopped")
        found = self.at(600, AgentNow(AgentState.STOPPED))
        self.assertEqual((Loop.STOPPED, False, True), (found.loop, found.loop.ran, found.restored))
        said = self.said(600)
        self.assertIn("no agent ran: the agent stopped at", said)
        self.assertIn("original settings restored. The last decision, #2, was 9 min 58 s", said)

    def test_between_two_runs(self) -> None:
        """Also though another agent runs later, and at the very moments of begin and end."""
        self.iterate(1, 30)
        self.event("agent-stopped")
        self.clock.wall_s += 100
        self.event("agent-started", version="1", pid=2)
        self.iterate(1, 10)
        for second, loop in ((29.5, Loop.RUNNING), (60, Loop.STOPPED), (131, Loop.RUNNING)):
            self.assertIs(loop, self.at(second).loop, second)
        self.assertEqual(1, self.at(131.5, exact=True).decision.iteration.decision.iteration)

    def test_after_a_kill(self) -> None:
        """No end is recorded: another run follows, or the lock is free."""
        self.iterate(1, 30)
        self.assertIs(Loop.UNCLEAN, self.at(60, GONE).loop)
        self.assertIn("unclean shutdown after", self.said(60, GONE))
        self.assertIs(Loop.RUNNING, self.at(35, GONE).loop)  # iterations of seconds may be lost
        said = self.said(35, GONE)
        self.assertIn("was in force; unclean shutdown after", said)
        self.assertIn("at or before", said)
        with HistoryReader(self.path) as reader:  # now: the lock is free, so no agent runs
            now_s = NIGHT + 35
            now = moments.at(reader, now_s, None, GONE, exact=False, seen_s=now_s)
        assert now is not None
        self.assertIs(Loop.UNCLEAN, now.loop)
        self.assertNotIn("unclean", self.said(29, ALIVE))
        self.clock.wall_s += 100
        self.iterate(1, 10)
        self.assertIs(Loop.UNCLEAN, self.at(60).loop)
        self.assertIs(Loop.RUNNING, self.at(135).loop)

    def test_after_a_kill_and_a_start(self) -> None:
        """Only the start of the next agent is recorded: the agent before ended without a word."""
        self.iterate(1, 30)
        self.clock.wall_s += 100
        self.event("agent-started", version="1", pid=2)
        self.assertIs(Loop.UNCLEAN, self.at(60, ALIVE).loop)

    def test_an_agent_that_starts(self) -> None:
        """The former decision is not in force: libvirt may keep an agent waiting for minutes."""
        self.iterate(1, 30)
        self.event("restored", parts=("masks",))
        self.event("agent-stopped")
        self.clock.wall_s += 100
        self.event("agent-started", version="1", pid=2)
        found = self.at(200)
        self.assertEqual((Loop.STARTING, True), (found.loop, found.loop.ran))
        self.assertEqual("starting", moments.record(found)["agent"])
        said = self.said(200)
        self.assertIn("and had decided nothing yet; original settings had been restored", said)
        self.assertNotIn("in force", said)

    def test_an_orderly_end_after_the_moment(self) -> None:
        """It is no unclean shutdown, however long before it the last kept iteration was."""
        self.iterate(1, 30)
        self.clock.wall_s += 50
        self.event("agent-stopped")
        for later in (False, True):
            if later:
                self.clock.wall_s += 100
                self.event("agent-started", version="1", pid=2)
                self.iterate(1, 10)
            self.assertIs(Loop.RUNNING, self.at(60, GONE).loop)
            self.assertIs(Loop.STOPPED, self.at(90, GONE).loop)

    def test_an_agent_that_decides_nothing_for_long(self) -> None:
        """It runs: the lock is held, or the same run goes on after the gap."""
        self.iterate(1, 30)
        self.assertIs(Loop.RUNNING, self.at(300, ALIVE).loop)
        self.clock.wall_s += 300
        self.iterate(31, 40)
        self.assertIs(Loop.RUNNING, self.at(200).loop)

    def test_a_pause(self) -> None:
        """Nothing is decided then, by whom and why; after the pause an agent decides again."""
        self.iterate(1, 10)
        pause = Pause(NIGHT, reason="firmware", by="eve")
        self.history.event(self.clock.wall_s, "info", holds.paused(pause), EventKind.PAUSED)
        self.clock.wall_s += 60
        self.event("decisions-resumed")
        self.iterate(11, 20)
        self.assertTrue(self.at(40).loop.ran)
        said = self.said(40)
        self.assertIn(
            "paused until `iat-nova resume` by eve: firmware: keeping present masks", said
        )
        self.assertIs(Loop.RUNNING, self.at(75).loop)

    def test_a_pause_without_an_agent(self) -> None:
        """An agent that was killed while it was paused: no pause holds, and no agent runs."""
        self.iterate(1, 10)
        self.clock.wall_s += 1
        said = holds.paused(Pause(NIGHT))
        self.history.event(self.clock.wall_s, "info", said, EventKind.PAUSED)
        self.assertIs(Loop.PAUSED, self.at(200, ALIVE).loop)
        data = moments.record(self.at(200, GONE, seen=199))
        self.assertEqual(("unclean", None), (data["agent"], data["since_s"]))
        said = self.said(200, GONE, seen=199)
        self.assertIn("no agent ran: unclean shutdown after 2026-11-21 03:00:11", said)
        self.assertNotIn("pause", said)
        self.clock.wall_s = NIGHT + 250
        self.event("agent-started", version="1", pid=2)
        self.assertIs(Loop.PAUSED, self.at(200).loop)
        self.assertIs(Loop.STARTING, self.at(251).loop)

    def test_a_start_without_an_agent(self) -> None:
        """An agent that was killed before its first decision."""
        self.iterate(1, 10)
        self.event("restored", parts=("masks",))
        self.event("agent-stopped")
        self.clock.wall_s += 100
        self.event("agent-started", version="1", pid=2)
        self.assertIs(Loop.STARTING, self.at(200, ALIVE).loop)
        self.assertIs(Loop.UNCLEAN, self.at(200, GONE, seen=199).loop)
        said = self.said(200, GONE, seen=199)
        self.assertIn("unclean shutdown after 2026-11-21 03:01:50", said)
        self.assertIn("original settings had been restored", said)

    def test_a_hand_over(self) -> None:
        """Masks stay although no agent runs for a while; the numbers go on."""
        self.iterate(1, 10)
        self.event("handed-over")
        self.event("agent-stopped")
        self.clock.wall_s += 30
        self.event("agent-started", version="2", pid=2)
        self.iterate(11, 20)
        self.assertIs(Loop.HANDED_OVER, self.at(25).loop)
        self.assertIn("masks are kept for the next agent", self.said(25))
        self.assertIs(Loop.RUNNING, self.at(45).loop)
