# SPDX-License-Identifier: Apache-2.0
"""What is given up of the history, what stays, and what readers say of the time in between."""

import contextlib
import dataclasses
import itertools
import math
import sqlite3

from iat_nova.model import DomainInventory, Parameters, Rates, Sample, message, verbatim
from iat_nova.model.ways import WayMask
from iat_nova.store import retention
from iat_nova.store.database import SCHEMA, open_writable
from iat_nova.store.replay import Replay, ReplayError
from iat_nova.strategies import registry
from iat_nova.strategies.iat.controller import PRESETS, Controller
from tests.unit import stories
from tests.unit.store.test_history import HistoryCase, mock

STATUS = stories.status()


class Story(HistoryCase):
    """The paper's controller at a second an iteration: its own states, one after another."""

    def tell(self, history, seconds, bursts=(), number=0):
        """Record what it decides; misses of DDIO rise for three seconds at each of `bursts`."""
        inventory = stories.inventory()
        row = history.inventory(self.clock.wall(), stories.facts(), {0: inventory})
        history.status(STATUS)
        controller = Controller(Parameters(), PRESETS["iat"])
        state = controller.initial(inventory, 0.0)
        layout, follows = None, False
        for second in range(number + 1, number + seconds + 1):
            self.clock.wall_s += 1.0
            sample = stories.sample(float(second))
            if any(begin <= second < begin + 3 for begin in bursts):
                sample = dataclasses.replace(sample, ddio_misses_per_s=4.2e6 + second)
            after, decision = controller.step(state, inventory, sample)
            history.record(
                dataclasses.replace(
                    stories.quiet(second, self.clock.wall_s, inventory_id=row),
                    at_s=sample.taken_at_s,
                    state=state,
                    sample=sample,
                    decision=decision,
                    layout_before=layout,
                    follows=follows,
                )
            )
            state, layout, follows = after, decision.layout, True
            if second % 200 == 0:
                self.assertTrue(history.flush(60.0), history.problem)
        self.assertTrue(history.flush(60.0), history.problem)
        return controller

    def trimmed(self, seconds, bursts=(), whole_s=300.0, **changes):
        """Tell a story of which all but the last `whole_s` is thinned out; return a reader."""
        self.enterContext(mock.patch("iat_nova.store.writer.TRIM_EVERY", 200))
        self.enterContext(mock.patch.object(retention, "AGE_PACE", 10.0))
        history = self.open(whole_s=whole_s, max_age_s=1e6, **changes)
        self.tell(history, seconds, bursts)
        history.close()
        return self.read()

    def numbers(self, found):
        return [one.iteration.decision.iteration for one in found]


class TestThinnedOut(Story):
    def test_what_stays(self):
        """Of old time what did something, and one a minute; of the last minutes all; in order."""
        reader = self.trimmed(1200, bursts=(400,))
        found = list(reader.between(0.0, 1e12, 0))
        numbers = self.numbers(found)
        whole = reader.whole_since() - stories.NIGHT
        self.assertTrue(600 <= whole <= 960, whole)
        self.assertEqual(list(range(int(whole), 1201)), numbers[-(1201 - int(whole)) :])
        old = [one for one in found if one.iteration.decision.iteration < whole]
        eventful = [one for one in old if one.iteration.eventful]
        self.assertGreaterEqual(len(eventful), 2)
        self.assertEqual(self.numbers(eventful)[::-1], self.numbers(reader.decisions(99)))
        minutes = [one for one in old if not one.iteration.eventful]
        self.assertTrue(whole / 60 - 1 <= len(minutes) <= whole / 60 + 2, len(minutes))
        self.assertEqual(len(found), reader.count(0, 0.0, 1e12)[0])

    def test_a_moment_in_between(self):
        """The one kept before it stands for it; how many are missing is told, and only there."""
        reader = self.trimmed(1200)
        found = reader.at(stories.NIGHT + 150.5)
        number = found.iteration.decision.iteration
        self.assertTrue(90 <= number <= 150, number)
        following = reader.next(found).iteration.decision.iteration
        self.assertEqual(following - number - 1, reader.thinned_after(found))
        self.assertGreater(following, 150)
        self.assertEqual(0, reader.thinned_after(reader.at(stories.NIGHT + 1199.0)))
        self.assertIsNone(reader.numbered(150))
        self.assertEqual([number, following], self.numbers(reader.around(150)))
        self.assertIsNone(reader.around(1199))
        self.assertEqual([1190], self.numbers([reader.at(stories.NIGHT + 1190.5)]))

    def test_evenly_over_time(self):
        """A few of a long period are spread over its time, not over what is there."""
        reader = self.trimmed(1200)
        found = self.numbers(reader.between(0.0, 1e12, 0, at_most=10))
        self.assertEqual(10, len(found))
        for one, following in itertools.pairwise(found):
            self.assertTrue(60 <= following - one <= 180, found)

    def test_nothing_is_thinned_out_of_a_young_history(self):
        self.assertIsNone(self.trimmed(400, whole_s=86400.0).whole_since())

    def test_room_comes_before_age(self):
        """Where the file is too small whole time goes too, and the newest is there."""
        self.enterContext(mock.patch.object(retention, "LEAST_BYTES", 1))
        self.enterContext(mock.patch.object(retention, "LEAST_WHOLE_S", 60.0))
        reader = self.trimmed(2400, whole_s=86400.0, max_bytes=200 << 10)
        self.assertEqual(2400, reader.latest(0).iteration.decision.iteration)
        self.assertLess(reader.span()[0], stories.NIGHT + 700)
        self.assertGreater(reader.whole_since(), stories.NIGHT + 300)
        self.assertLess(self.path.stat().st_size, 400 << 10)

    def test_old_states_go_first(self):
        """For want of room; what was decided stays, and cannot be decided once more."""
        reader = self.trimmed(1200, bursts=(100,))
        decisions = reader.decisions(9)
        for one in decisions:
            self.assertEqual(one.iteration.decision, Replay(reader).decide(one))
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            kept = retention.Retention(connection, retention.Bounds(300.0, 1e6, 1), self.clock)
            kept._max_bytes, kept._thinned = 1, reader.latest(0).row
            while kept._forget_states():
                pass
            connection.commit()
        reader = self.read()
        self.assertEqual(self.numbers(decisions), self.numbers(reader.decisions(9)))
        with self.assertRaisesRegex(ReplayError, "its state is not there"):
            Replay(reader).decide(reader.decisions(1)[0])


class TestReplay(Story):
    def test_every_iteration_of_whole_time(self):
        """Few states are written; the others follow, in order or asked for alone."""
        reader = self.trimmed(400, bursts=(100, 200), whole_s=86400.0)
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            (states,) = connection.execute("SELECT count(*) FROM state").fetchone()
        self.assertLess(states, 60)
        replay, found = Replay(reader), list(reader.between(0.0, 1e12, 0))
        self.assertEqual(400, len(found))
        for one in found:
            self.assertEqual(one.iteration.decision, replay.decide(one))
        alone = reader.numbered(199)
        self.assertTrue(alone.iteration.follows)
        self.assertEqual(alone.iteration.decision, Replay(reader).decide(alone))

    def test_of_thinned_out_time(self):
        """What did something can be decided once more, others cannot, and that is said."""
        reader = self.trimmed(1200, bursts=(100,))
        for one in reader.decisions(9):
            self.assertEqual(one.iteration.decision, Replay(reader).decide(one))
        with self.assertRaisesRegex(ReplayError, "follows from iteration #[0-9]+, which was thin"):
            Replay(reader).decide(reader.at(stories.NIGHT + 150.0))

    def test_a_strategy_that_decides_otherwise_today(self):
        """A state is not built on a decision that comes out otherwise."""
        reader = self.trimmed(200, bursts=(100,), whole_s=86400.0)

        class Other(Controller):
            def step(self, state, inventory: DomainInventory, sample: Sample):
                after, decision = super().step(state, inventory, sample)
                return after, dataclasses.replace(decision, why=(verbatim("otherwise"),))

        def make(*_):
            return Other(Parameters(), PRESETS["iat"])

        self.enterContext(mock.patch.object(registry, "make", make))
        with self.assertRaisesRegex(ReplayError, "comes out otherwise today"):
            Replay(reader).decide(reader.numbered(199))

    def test_a_gap_breaks_the_chain(self):
        """After an iteration that was lost the next one is written with its state."""
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        for number in (1, 2, 4, 5):
            told = stories.quiet(number, self.clock.wall_s + number, inventory_id=row)
            history.record(dataclasses.replace(told, follows=True))
        self.assertTrue(history.flush(60.0), history.problem)
        found = self.read().newer(0, 0, 9)
        self.assertEqual([False, True, False, True], [one.iteration.follows for one in found])


class TestPace(HistoryCase):
    def rows(self):
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute("SELECT count(*) FROM iteration").fetchone()[0]

    def test_quiet_iterations_wait_for_one_another(self):
        """For some seconds of the loop's clock; what did something does not, and takes them."""
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        history.status(stories.status())
        self.assertTrue(history.flush(60.0))

        def told(number, make):
            self.clock.wall_s += 1.0
            history.record(make(number, self.clock.wall_s, 2, row))
            history.status(stories.status())
            self.assertTrue(history.flush(at_once=False), history.problem)
            return self.rows()

        self.assertEqual([0, 0, 0, 4], [told(number, stories.quiet) for number in range(1, 5)])
        self.assertEqual([4, 6], [told(5, stories.quiet), told(6, stories.burst)])

    def test_few_bytes_an_iteration(self):
        """What comes again and again costs little."""
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        for number in range(1, 301):
            told = stories.quiet(number, self.clock.wall_s + number, inventory_id=row)
            rates = {one: Rates(2e9 + number, 2e9 - number, 1e7, 1e6) for one in ("stack", "a")}
            sample = dataclasses.replace(told.sample, tenants=rates)
            history.record(dataclasses.replace(told, sample=sample, follows=True))
        self.assertTrue(history.flush(60.0), history.problem)
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            (mean,) = connection.execute("SELECT avg(length(body)) FROM iteration").fetchone()
        self.assertLess(mean, 160)
        self.assertEqual(WayMask(0x3), self.read().latest(0).iteration.effective["stack"])


class TestOlderSchema(HistoryCase):
    def test_it_is_set_aside(self):
        """A history of an earlier version lies beside a fresh one, which tells where."""
        self.open().close()
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA - 1}")
        with self.assertLogs("iat_nova", "WARNING") as logged:
            history = self.open()
            stories.tell(history, clock=self.clock)
            self.assertTrue(history.flush(60.0), history.problem)
        (aside,) = self.folder.glob(f"history.sqlite.schema-{SCHEMA - 1}-*[0-9]")
        said = message("history-older", path=str(aside))
        self.assertIn(said, [event.message for event in self.read().events(9)])
        self.assertEqual([str(said)], [record.getMessage() for record in logged.records])
        self.assertEqual(12, self.read().latest(0).iteration.decision.iteration)


class TestRows(HistoryCase):
    """What is deleted of a file by itself, without a history's writer."""

    def setUp(self):
        super().setUp()
        self.connection = open_writable(self.path)
        self.addCleanup(self.connection.close)
        bounds = retention.Bounds(1e6, 1e6, retention.LEAST_BYTES)
        self.retention = retention.Retention(self.connection, bounds, self.clock)

    def fill(self, bodies):
        """Insert rows of iterations that refer to the last of three dictionaries."""
        for _ in range(3):
            self.connection.execute("INSERT INTO base (seen, state) VALUES ('', '')")
        for number, body in enumerate(bodies):
            self.connection.execute(
                "INSERT INTO iteration (wall_s, domain, number, inventory_id, base_id, eventful,"
                " kept, body) VALUES (?, 0, ?, 1, 3, 0, 1, zeroblob(?))",
                (self.clock.wall(), number, body),
            )
            self.connection.execute("INSERT INTO state (body) VALUES ('')")

    def ids(self, table):
        return [row for (row,) in self.connection.execute(f"SELECT id FROM {table}")]

    def test_dictionaries_of_rows_to_come(self):
        """They stay although no row refers to them, also where room is made."""
        self.fill([retention.LEAST_BYTES // 4] * 8)
        self.retention.trim(2)
        self.assertIn(8, self.ids("iteration"))
        self.assertNotIn(1, self.ids("iteration"))
        self.assertEqual([2, 3], self.ids("base"))
        self.assertEqual(self.ids("iteration"), self.ids("state"))

    def test_states_of_no_iteration(self):
        """They go with the last iteration."""
        self.fill([1])
        self.connection.execute("DELETE FROM iteration")
        self.retention.trim()
        self.assertEqual([], self.ids("state"))

    def test_interrupted(self):
        """An error leaves the file as it was, and the next attempt does the whole work."""
        self.fill([retention.LEAST_BYTES // 4] * 8)
        before = self.ids("iteration")
        for after in range(20, 500, 40):
            self.connection.set_progress_handler(lambda: 1, after)
            with contextlib.suppress(sqlite3.OperationalError):
                self.retention.trim(2)
                break
            self.connection.set_progress_handler(None, 0)
            self.assertFalse(self.connection.in_transaction)
            self.assertEqual(before, self.ids("iteration"))
        self.assertGreater(after, 20)
        self.connection.set_progress_handler(None, 0)
        self.retention.trim(2)
        self.assertEqual([2, 3], self.ids("base"))
        self.assertLess(len(self.ids("iteration")), len(before))

    def test_thinned_out_after_an_error(self):
        """What an error brought back is thinned out the next time."""
        self.fill([1] * 8)
        self.connection.execute("UPDATE iteration SET kept = id % 2")
        self.clock.wall_s += 2e6
        self.fill([1])
        error = sqlite3.OperationalError("the disk is full")
        with mock.patch.object(retention, "AGE_PACE", math.inf):
            with (
                mock.patch.object(self.retention, "_forget_unreferenced", side_effect=error),
                self.assertRaises(sqlite3.OperationalError),
            ):
                self.clock.wall_s += 1.0
                self.retention.trim()
            self.assertEqual(9, len(self.ids("iteration")))
            self.clock.wall_s += 1.0
            self.retention.trim()
        self.assertEqual([9], self.ids("iteration"))


class TestInventories(HistoryCase):
    def test_of_an_iteration(self):
        """The tenants of an iteration are read once; there are none without the inventory."""
        history = self.open()
        stories.tell(history, clock=self.clock)
        self.assertTrue(history.flush(60.0), history.problem)
        reader = self.read()
        iteration = reader.latest(0).iteration
        found = reader.domain_inventory(iteration)
        self.assertEqual(stories.inventory(), found)
        self.assertIs(found, reader.domain_inventory(iteration))
        with mock.patch("iat_nova.store.reader._INVENTORIES", 1):
            reader.domain_inventory(dataclasses.replace(iteration, domain=1))
            self.assertEqual(1, len(reader._domains))
        absent = dataclasses.replace(iteration, inventory_id=iteration.inventory_id + 1)
        self.assertIsNone(reader.domain_inventory(absent))
        self.assertIsNone(reader.domain_inventory(dataclasses.replace(iteration, domain=1)))
