# SPDX-License-Identifier: Apache-2.0
"""The history keeps everything bit by bit and survives whatever befalls its file."""

import contextlib
import dataclasses
import functools
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import tempfile
import time
import unittest
from unittest import mock

from iat_nova.model import (
    WayMask,
    message,
    verbatim,
)
from iat_nova.report import view
from iat_nova.report.log import LogLanguage
from iat_nova.store import database as history_db
from iat_nova.store import records, retention
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Event, EventKind
from iat_nova.store.writer import History, _Writer
from iat_nova.strategies.iat.state import IatState
from tests.unit import stories
from tests.unit.build import problems

DEADLINE_S = 10.0


class HistoryCase(unittest.TestCase):
    """A folder, a clock and a way to open histories that are closed in the end."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-history-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = self.folder / "history.sqlite"
        self.clock = stories.SetClock()

    def open(self, **changes):
        values = {"max_age_s": 86400.0, "max_bytes": 8 << 20, "clock": self.clock, **changes}
        history = History(self.path, **values)
        self.addCleanup(history.close)
        return history

    def read(self):
        reader = HistoryReader(self.path)
        self.addCleanup(reader.close)
        return reader

    def wait_for(self, condition):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")
            time.sleep(0.005)


class TestWhatIsKept(HistoryCase):
    def setUp(self):
        super().setUp()
        self.history = self.open()
        stories.tell(self.history, clock=self.clock)
        self.assertTrue(self.history.flush(60.0), self.history.problem)

    def test_iterations_come_back_equal(self):
        """State, sample, decision, masks and timings are read back as they were, floats too."""
        recorded, told = self.read().latest(0), stories.quiet(12, self.clock.wall_s, 5)
        state = records.structure(recorded.iteration.state, IatState)
        self.assertEqual(told, dataclasses.replace(recorded.iteration, state=state))
        self.assertIsInstance(recorded.iteration.effective["stack"], WayMask)

    def test_at(self):
        """The iteration in force at a moment is the last one that is not after it."""
        reader = self.read()
        found = reader.at(stories.NIGHT + 5.5)
        self.assertEqual(5, found.iteration.decision.iteration)
        self.assertIsNone(reader.at(stories.NIGHT - 1))
        self.assertIsNone(reader.at(stories.NIGHT + 5.5, domain=7))

    def test_numbered(self):
        """Iterations are found by the number that the log shows."""
        self.assertEqual(4, self.read().numbered(4).iteration.decision.iteration)
        self.assertIsNone(self.read().numbered(400))

    def test_decisions_are_those_that_did_something(self):
        """Quiet iterations are no decisions; the newest comes first."""
        numbers = [one.iteration.decision.iteration for one in self.read().decisions(10)]
        self.assertEqual([6, 5, 4], numbers)

    def test_between_thins_out(self):
        """With a limit every n-th iteration of the period comes, oldest first."""
        reader = self.read()
        window = (stories.NIGHT + 1, stories.NIGHT + 10)
        found = [one.iteration.decision.iteration for one in reader.between(*window, 0)]
        self.assertEqual(list(range(1, 11)), found)
        thin = [one.iteration.decision.iteration for one in reader.between(*window, 0, at_most=5)]
        self.assertEqual([1, 3, 5, 7, 9], thin)

    def test_before(self):
        """The iteration before another one is found, and there is none before the first."""
        reader = self.read()
        second = reader.numbered(2)
        first = reader.before(second)
        self.assertEqual(1, first.iteration.decision.iteration)
        self.assertIsNone(reader.before(first))

    def test_inventory_and_facts(self):
        """An iteration leads to the tenants and facts it was decided for."""
        reader = self.read()
        inventory = reader.inventory(reader.latest(0).iteration.inventory_id)
        self.assertEqual(stories.picture(), inventory)
        self.assertEqual(inventory, reader.latest_inventory())

    def test_status_tells_its_age(self):
        """The status is the agent's last word; its age is in real seconds."""
        now = self.read().status()
        self.assertEqual(stories.status(), now.status)
        self.assertLess(now.age_s, DEADLINE_S)

    def test_status_without_change_still_beats(self):
        """The same status again keeps the data young."""
        with sqlite3.connect(self.path) as connection:
            connection.execute("UPDATE beat SET written_s = 0")
        self.assertGreater(self.read().status().age_s, DEADLINE_S)
        self.history.status(stories.status())
        self.assertTrue(self.history.flush(60.0))
        self.assertLess(self.read().status().age_s, DEADLINE_S)

    def test_settings_belong_to_iterations(self):
        """After a reload older iterations still know the numbers they were decided with."""
        old, new = stories.status(), stories.status(strategy="io-iso")
        self.history.status(new)
        row = self.history.inventory(self.clock.wall(), stories.facts(), {})
        self.history.record(stories.quiet(13, self.clock.wall_s + 1, inventory_id=row))
        self.assertTrue(self.history.flush(60.0))
        reader = self.read()
        self.assertEqual(old.settings, reader.settings(reader.numbered(12)))
        self.assertEqual(new.settings, reader.settings(reader.numbered(13)))

    def test_events(self):
        """Events are kept with their severity, newest first."""
        self.history.event(stories.NIGHT + 99, "warning", verbatim("ovsdb-server does not answer"))
        self.assertTrue(self.history.flush(60.0))
        newest, *_, oldest = self.read().events(10)
        self.assertEqual(
            Event(stories.NIGHT + 99, "warning", verbatim("ovsdb-server does not answer")), newest
        )
        self.assertEqual(verbatim("agent started"), oldest.message)
        row = stories.NIGHT + 200, "info", b'{"code": "agent-stopped", "values": {}}'
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            insert = "INSERT INTO event (wall_s, severity, text) VALUES (?, ?, ?)"
            connection.execute(insert, row)  # of an earlier version
        self.history.event(stories.NIGHT + 201, "info", verbatim("x"), EventKind.STARTED)
        self.assertTrue(self.history.flush(60.0))
        kinds = [event.kind for event in self.read().events(3)]
        self.assertEqual([EventKind.STARTED, EventKind.STOPPED, None], kinds)

    def test_damaged_events(self):
        """They are left out of the answer."""
        self.assertTrue(self.history.flush(60.0))
        with contextlib.closing(sqlite3.connect(self.path)) as connection, connection:
            connection.executemany(
                "INSERT INTO event (wall_s, severity, text) VALUES (?, 'info', ?)",
                [(stories.NIGHT + 1, "policy reloaded"), (stories.NIGHT + 2, b"{damaged")],
            )
        self.assertEqual([], self.read().events(2))

    def test_a_lone_surrogate_is_told_as_an_escape(self):
        """Half a character in a guest's name does not end the thread that writes."""
        self.history.event(stories.NIGHT, "warning", verbatim("guest \udc80"))
        self.assertTrue(self.history.flush(60.0))
        self.assertEqual("guest \\udc80", LogLanguage().sentence(self.read().events(1)[0].message))

    def test_counts_of_no_picture_are_refused(self):
        with self.assertRaisesRegex(ValueError, "no inventory"):
            self.open().recount(0.0, stories.facts(), {})

    def test_unknown_inventory_is_refused(self):
        """An iteration cannot refer to an inventory that was never given."""
        with self.assertRaisesRegex(ValueError, "inventory 77"):
            self.history.record(stories.quiet(1, self.clock.wall_s, inventory_id=77))

    def test_state_that_cannot_be_stored(self):
        """A plug-in's state that is no data, or raises, costs the state only, which is told."""

        class Raising:
            def __getattribute__(self, name):
                raise KeyError(name)

        row = self.history.inventory(self.clock.wall(), stories.facts(), {})
        good = stories.quiet(13, self.clock.wall_s + 1, inventory_id=row)
        with self.assertLogs("iat_nova", "ERROR"):
            for state in (object(), object(), Raising()):
                self.history.record(dataclasses.replace(good, state=state))
            self.assertTrue(self.history.flush(60.0))
        self.assertEqual("state-not-recorded", self.read().events(1)[0].message.code)
        found = self.read().newer(0, 0, 3)
        self.assertEqual([good.decision] * 3, [one.iteration.decision for one in found])
        self.assertEqual([None] * 3, [one.iteration.state for one in found])
        self.assertIn("KeyError", found[2].iteration.state_lost)

    def test_decision_that_cannot_be_stored(self):
        """It is left out and told of; the thread goes on with the next."""
        row = self.history.inventory(self.clock.wall(), stories.facts(), {})
        good = stories.quiet(13, self.clock.wall_s + 1, inventory_id=row)
        odd = dataclasses.replace(good.decision, changes=(object(),))
        with self.assertLogs("iat_nova", "ERROR"):
            self.history.record(dataclasses.replace(good, decision=odd))
            self.history.record(good)
            self.assertTrue(self.history.flush(60.0))
        self.assertEqual("decision-not-recorded", self.read().events(1)[0].message.code)
        self.assertEqual(good.decision, self.read().latest(0).iteration.decision)


class PacedClock(stories.SetClock):
    """Time of day and the loop's time apart, as after a step of the clock."""

    now_s = 0.0

    def now(self):
        return self.now_s


class TestBounds(HistoryCase):
    def fill(self, history, count, step_s=1.0):
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        for number in range(count):
            self.clock.wall_s += step_s
            history.record(stories.quiet(number, self.clock.wall_s, inventory_id=row))
            if number % 200 == 199:
                self.assertTrue(history.flush(60.0), history.problem)
        self.assertTrue(history.flush(60.0), history.problem)

    def test_age(self):
        """Iterations older than the bound go, with the inventories only they referred to."""
        history = self.open(max_age_s=100.0)
        self.fill(history, 256)
        self.clock.wall_s += 1000
        self.fill(history, 512)
        reader = self.read()
        first_s, last_s = reader.span()
        self.assertEqual(self.clock.wall_s, last_s)
        self.assertGreaterEqual(first_s, last_s - 100 - 256)
        with sqlite3.connect(self.path) as connection:
            self.assertEqual(1, connection.execute("SELECT count(*) FROM inventory").fetchone()[0])

    def at_pace(self, history, count, wall_s):
        """A second an iteration on the loop's clock, from another time of day."""
        row = history.inventory(wall_s, stories.facts(), {0: stories.inventory()})
        for number in range(count):
            self.clock.now_s += 1.0
            self.clock.wall_s = wall_s + number
            history.record(stories.quiet(number, self.clock.wall_s, inventory_id=row))
            if number % 64 == 63:
                self.assertTrue(history.flush(60.0), history.problem)
        self.assertTrue(history.flush(60.0), history.problem)

    def test_a_step_of_the_clock_erases_nothing(self):
        """Minutes with a time of day far ahead, or far back, cost minutes of the oldest rows."""
        for step_s in (30 * 86400.0, -30 * 86400.0, 30 * 86400.0):
            self.path.unlink(missing_ok=True)
            self.clock = PacedClock()
            history = self.open(max_age_s=7 * 86400.0)
            begin_s = self.clock.wall_s
            history.event(begin_s, "info", verbatim("began"))
            for wall_s, count in ((begin_s, 1024), (begin_s + step_s, 128), (begin_s + 1152, 128)):
                self.at_pace(history, count, wall_s)
            total, _ = self.read().count(0, begin_s, begin_s + 2000)
            self.assertGreaterEqual(total, 1024 + 128 - 2 * 256, step_s)
            history.close()

    def test_after_long_silence_the_old_goes_too(self):
        """What an agent that was away for weeks finds is given up while it runs."""
        self.clock = PacedClock()
        history = self.open(max_age_s=1000.0)
        begin_s = self.clock.wall_s
        self.at_pace(history, 256, begin_s)
        self.at_pace(history, 512, begin_s + 30 * 86400)
        self.assertEqual((0, 0), self.read().count(0, begin_s, begin_s + 256))

    def test_size(self):
        """The file stays below its bound; the newest iterations are those that remain."""
        self.enterContext(mock.patch.object(retention, "LEAST_BYTES", 256 << 10))
        history = self.open(max_bytes=256 << 10)
        self.fill(history, 2000)
        history.close()
        self.assertLessEqual(self.path.stat().st_size, 512 << 10)
        reader = self.read()
        self.assertEqual(1999, reader.latest(0).iteration.decision.iteration)
        total, _ = reader.count(0, 0, self.clock.wall_s)
        self.assertTrue(300 < total < 2000, total)
        self.assertEqual(stories.picture().domains, reader.latest_inventory().domains)

    def pictures(self, history, count):
        """Tell new pictures of a host, each of some 8 KB that do not compress; no iteration."""
        for number in range(count):
            told = problems((verbatim(os.urandom(4096).hex()), verbatim(str(number))))
            facts = dataclasses.replace(stories.facts(), problems=told)
            self.row = history.inventory(self.clock.wall(), facts, {0: stories.inventory()})
            self.assertTrue(history.flush(60.0), history.problem)

    def test_size_while_nothing_is_decided(self):
        """Pictures alone (paused, counters unread) are bounded too; the latest remains."""
        history = self.open(max_bytes=1 << 20)
        self.pictures(history, 400)
        history.close()
        self.assertLessEqual(self.path.stat().st_size, (1 << 20) + (768 << 10))
        self.assertIn(verbatim("399"), self.read().latest_inventory().facts.warnings)

    def test_iterations_outlive_a_flood_of_pictures(self):
        """What pictures filled is given up before what was decided."""
        history = self.open(max_bytes=1 << 20)
        self.pictures(history, 300)
        for number in range(128):
            self.clock.wall_s += 1.0
            history.record(stories.quiet(number, self.clock.wall_s, inventory_id=self.row))
        self.assertTrue(history.flush(60.0), history.problem)
        total, _ = self.read().count(0, 0, self.clock.wall_s)
        self.assertEqual(128, total)

    def test_counts_of_a_picture_take_no_room(self):
        """Counted anew it is the same picture, also for who referred to it before."""
        history = self.open()
        self.pictures(history, 2)
        for number in range(40):
            history.record(stories.quiet(number, self.clock.wall_s, inventory_id=self.row))
            history.recount(
                float(number), stories.facts(), {"one": verbatim(f"{number} packets/s")}
            )
            self.assertTrue(history.flush(60.0), history.problem)
        reader = self.read()
        first = reader.numbered(0).iteration
        self.assertEqual(self.row, first.inventory_id)
        newest, older = reader.inventories()
        self.assertEqual(newest, reader.inventory(first.inventory_id))
        self.assertEqual((39.0, {"one": verbatim("39 packets/s")}), (newest.wall_s, newest.reasons))
        self.assertEqual(stories.facts(), newest.facts)
        self.assertEqual({0: stories.inventory()}, newest.domains)
        self.assertIn(verbatim("0"), older.facts.warnings)

    def test_inventories_during_a_write(self):
        """Each is stored once and in order, whatever the loop does after the queue was taken."""
        take = _Writer._take
        for before in (3, 255, 256, 300):  # a transaction takes at most 256 iterations
            history, path = self.open(), self.path

            def seen(history=history):
                self.clock.wall_s += 1.0
                wall_s, domains = self.clock.wall_s, {0: stories.inventory()}
                self.row = history.inventory(wall_s, stories.facts(), domains)

            def decided(history=history):
                history.record(stories.quiet(0, self.clock.wall_s, inventory_id=self.row))

            later = [seen, decided, decided, seen, decided, seen]

            def taking(writer, later=later):
                take(writer)
                while later:
                    later.pop()()

            with mock.patch.object(_Writer, "_take", taking):
                seen()
                for _ in range(before):
                    decided()
                self.assertTrue(history.flush(60.0), history.problem)
            found = [one.wall_s for one in self.read().inventories()]
            self.assertEqual([self.clock.wall_s - ago for ago in range(4)], found)
            history.close()
            path.unlink()

    def test_full_queue_drops_the_oldest(self):
        """While nothing can be written the newest iterations are kept and the loss is told."""
        self.path.mkdir()  # what SQLite cannot open
        history = self.open(queue_iterations=10)
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        history.status(stories.status())
        self.wait_for(lambda: history.problem)
        for number in range(50):
            history.record(stories.quiet(number, self.clock.wall_s + number, inventory_id=row))
        self.assertEqual(40, history.dropped)
        self.path.rmdir()
        self.assertTrue(history.flush(60.0), history.problem)
        self.assertIsNone(history.problem)
        reader = self.read()
        kept = [one.iteration.decision.iteration for one in reader.between(0, stories.NIGHT * 2, 0)]
        self.assertEqual(list(range(40, 50)), kept)
        self.assertEqual(message("iterations-lost", count=40), reader.events(1)[0].message)


class TestPace(HistoryCase):
    def test_one_transaction_a_round(self):
        """The status, which ends a round of the loop, has all of the round written at once."""
        drains = []
        original = _Writer.drain

        def counted(writer, **how):
            drains.append(len(writer._history._iterations))
            return original(writer, **how)

        self.enterContext(mock.patch.object(_Writer, "drain", counted))
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        for number in range(3):
            history.event(self.clock.wall_s, "info", verbatim(f"before {number}"))
            history.record(stories.quiet(number, self.clock.wall_s, inventory_id=row))
        history.status(stories.status())
        self.wait_for(lambda: drains)
        self.assertEqual([3], drains)


class TestMisfortune(HistoryCase):
    def recorded(self, history):
        """Record one iteration and tell whether it was written."""
        self.queue_one(history)
        return history.flush()

    def queue_one(self, history):
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        history.record(stories.quiet(1, self.clock.wall_s, inventory_id=row))

    def assert_refused(self, history):
        """Record one iteration and wait until the history says that it cannot."""
        self.queue_one(history)
        history.status(stories.status())
        self.wait_for(lambda: history.problem)

    def test_garbage_is_set_aside(self):
        """A file that is no database is renamed, and recording begins anew, and says so."""
        self.path.write_bytes(b"garbage " * 1000)
        history = self.open()
        self.assertTrue(self.recorded(history), history.problem)
        (aside,) = self.folder.glob("history.sqlite.corrupt-*")
        self.assertEqual(b"garbage " * 1000, aside.read_bytes())
        told = self.read().events(1)[0].message
        self.assertEqual(("history-damaged", str(aside)), (told.code, told.values["path"]))

    def test_damage_while_running(self):
        """Damage found in the middle of the work costs the file, never the loop."""
        history = self.open()
        stories.tell(history, clock=self.clock, seconds=200)
        self.assertTrue(history.flush(60.0))
        history.close()
        size = self.path.stat().st_size
        with open(self.path, "r+b") as file:
            for offset in range(4096, size, 4096):
                file.seek(offset)
                file.write(b"\xff" * 4000)
        history = self.open()
        self.assertTrue(self.recorded(history), history.problem)
        self.assertEqual(1, len(list(self.folder.glob("*.corrupt-*[0-9]"))))
        self.assertEqual(1, self.read().latest(0).iteration.decision.iteration)

    def test_foreign_database_is_left_alone(self):
        """A database of another program is neither written nor renamed."""
        with sqlite3.connect(self.path) as connection:
            connection.execute("CREATE TABLE theirs (x)")
        before = self.path.read_bytes()
        history = self.open()
        self.assert_refused(history)
        self.assertIn("another program", history.problem)
        self.assertEqual(before, self.path.read_bytes())
        with self.assertRaisesRegex(history_db.HistoryError, "another program"):
            HistoryReader(self.path)

    def test_newer_schema_is_left_alone(self):
        """A history of a newer version is refused by name, for writing and reading."""
        self.open().close()
        with sqlite3.connect(self.path) as connection:
            connection.execute("PRAGMA user_version = 99")
        history = self.open()
        self.assert_refused(history)
        self.assertIn("schema 99", history.problem)
        with self.assertRaisesRegex(history_db.HistoryError, "schema 99"):
            HistoryReader(self.path)

    def test_a_reader_that_never_ends(self):
        """The write-ahead log stays bounded, it is told why, and goes on when the reader ends."""
        waits = functools.partial(history_db.open_writable, busy_timeout_s=0.01)
        self.enterContext(mock.patch.object(history_db, "open_writable", waits))
        self.enterContext(mock.patch.object(history_db, "MOST_LOG_BYTES", 256 << 10))
        history = self.open()
        self.assertTrue(self.recorded(history))
        reader = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(reader.close)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM iteration").fetchall()
        log = self.path.with_name(self.path.name + "-wal")
        for _ in range(300):
            self.queue_one(history)
            if not history.flush(1.0):
                break
        self.assertIn("a program has kept a transaction open; end it", history.problem)
        self.assertLess(log.stat().st_size, 512 << 10)
        reader.execute("COMMIT")
        self.assertTrue(history.flush(60.0), history.problem)
        self.assertIsNone(history.problem)

    def test_locked(self):
        """A lock held by another process is told; what was queued is written afterwards."""
        waits = functools.partial(history_db.open_writable, busy_timeout_s=0.01)
        self.enterContext(mock.patch.object(history_db, "open_writable", waits))
        history = self.open()
        self.assertTrue(self.recorded(history))
        other = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        row = history.inventory(self.clock.wall(), stories.facts(), {0: stories.inventory()})
        history.record(stories.quiet(2, self.clock.wall_s, inventory_id=row))
        history.recount(1.0, stories.facts(), {})
        history.status(stories.status())
        self.wait_for(lambda: history.problem)
        self.assertIn("lock", history.problem)
        other.execute("ROLLBACK")
        self.assertTrue(history.flush(60.0), history.problem)
        self.assertEqual(2, self.read().latest(0).iteration.decision.iteration)
        self.assertEqual(1.0, self.read().latest_inventory().wall_s)

    def test_removed_while_running(self):
        """A file removed by another hand is made anew, with what later rows refer to."""
        history = self.open()
        stories.tell(history, clock=self.clock)
        self.assertTrue(history.flush(60.0))
        for file in self.folder.iterdir():
            file.unlink()
        history.record(stories.quiet(13, self.clock.wall_s + 1))
        self.assertTrue(history.flush(60.0), history.problem)
        reader = self.read()
        recorded = reader.latest(0)
        self.assertEqual(13, recorded.iteration.decision.iteration)
        self.assertEqual(
            stories.picture().domains, reader.inventory(recorded.iteration.inventory_id).domains
        )
        self.assertEqual(stories.status(), reader.status().status)

    def test_no_folder(self):
        """A missing folder is told, with the path; the loop's calls return."""
        self.path = self.folder / "absent" / "history.sqlite"
        history = self.open()
        self.assert_refused(history)
        self.assertIn(f"no state directory {self.path.parent}", history.problem)

    def test_reader_of_nothing(self):
        """No file, an empty file, a folder and garbage are different, worded errors."""
        with self.assertRaisesRegex(history_db.NoHistory, "no history at"):
            HistoryReader(self.path)
        self.path.touch()
        with self.assertRaisesRegex(history_db.NoHistory, "empty"):
            HistoryReader(self.path)
        self.path.write_bytes(b"garbage " * 1000)
        with self.assertRaisesRegex(history_db.HistoryError, "not a database"):
            HistoryReader(self.path)
        with self.assertRaises(history_db.HistoryError):
            HistoryReader(self.folder)


class TestDamage(HistoryCase):
    """Reading a file of which a part is not what was written: the rest is there all the same."""

    def setUp(self):
        super().setUp()
        history = self.open()
        stories.tell(history, clock=self.clock, seconds=200)
        self.assertTrue(history.flush(60.0), history.problem)
        history.close()

    def change(self, statement, *values):
        """Change the closed file by SQL."""
        connection = sqlite3.connect(self.path)
        connection.execute(statement, values)
        connection.commit()
        connection.close()

    def numbers(self, found):
        return [one.iteration.decision.iteration for one in found]

    def test_nothing_is_said_of_a_sound_file(self):
        reader = self.read()
        reader.latest(0)
        self.assertIsNone(reader.damage)

    def test_an_iteration(self):
        """The one before stands for it; lists lack it, not one more; it is told once."""
        self.change("UPDATE iteration SET body = x'00' WHERE id = (SELECT max(id) FROM iteration)")
        self.change("UPDATE iteration SET body = ? WHERE number = 5", records.pack({"a": 1}))
        reader = self.read()
        self.assertEqual([199], self.numbers([reader.latest(0)]))
        self.assertEqual([4], self.numbers([reader.at(stories.NIGHT + 5.5)]))
        self.assertEqual([4], self.numbers([reader.before(reader.numbered(6))]))
        self.assertIsNone(reader.numbered(5))
        self.assertEqual([6, 4], self.numbers(reader.decisions(2)))
        self.assertEqual([198, 199], self.numbers(reader.newer(0, 0, 2)))
        found = self.numbers(reader.between(0, stories.NIGHT * 2, 0))
        self.assertEqual([1, 2, 3, 4, *range(6, 200)], found)
        self.assertIn("iteration 200 cannot be read, as 1 more: left out", reader.damage)

    def test_what_is_no_iteration(self):
        """Without its tenants, settings or the agent's last word; the iterations are there."""
        for table in ("inventory", "settings", "status"):
            self.change(f"UPDATE {table} SET body = x'00'")
        self.change("UPDATE event SET text = CAST(x'61ff' AS TEXT)")
        reader = self.read()
        latest = reader.latest(0)
        self.assertEqual(200, latest.iteration.decision.iteration)
        self.assertIsNone(reader.latest_inventory())
        self.assertIsNone(reader.settings(latest))
        self.assertIsNone(reader.status())
        self.assertEqual([], reader.events(1))
        self.assertIn("2 more", reader.damage)

    def test_any_page(self):
        """Whichever page of the iterations' rows is gone, the others are found."""
        connection = sqlite3.connect(self.path)
        try:
            pages = [
                page
                for (page,) in connection.execute(
                    "SELECT pageno FROM dbstat WHERE name = 'iteration' AND pagetype = 'leaf'"
                )
            ]
        except sqlite3.OperationalError as error:
            self.skipTest(f"this SQLite does not tell what lies where: {error}")
        finally:
            connection.close()
        sound = self.path.read_bytes()
        for page in pages[:: len(pages) // 3]:
            broken = bytearray(sound)
            size = history_db.PAGE_BYTES
            broken[(page - 1) * size : page * size] = b"\xff" * size
            self.path.write_bytes(broken)
            reader = self.read()
            found = self.numbers(reader.between(0, stories.NIGHT * 2, 0))
            self.assertGreater(len(found), 150)
            self.assertEqual(sorted(found), found)
            self.assertGreater(reader.latest(0).iteration.decision.iteration, 150)
            self.assertEqual(len(found), reader.count(0, 0, stories.NIGHT * 2)[0])
            self.assertIn("damaged", reader.damage)

    def test_any_bit(self):
        """Wherever a bit flips, the answer is an answer or a sentence."""
        sound = self.path.read_bytes()
        chance = random.Random(12)
        for _ in range(60):
            broken = bytearray(sound)
            broken[chance.randrange(100, len(sound))] ^= 1 << chance.randrange(8)
            self.path.write_bytes(broken)
            with contextlib.suppress(history_db.HistoryError), HistoryReader(self.path) as reader:
                view.gather(reader)
                list(reader.between(0, stories.NIGHT * 2, 0, at_most=20))


class TestOtherProcesses(HistoryCase):
    def test_writer_killed(self):
        """After kill -9 everything committed is there, for readers and for the next agent."""
        done = stories.python(stories.WRITER, self.path, "die")
        self.assertEqual(-signal.SIGKILL, done.returncode, done.stderr)
        self.assertEqual(12, self.read().latest(0).iteration.decision.iteration)
        history = self.open()
        row = history.inventory(self.clock.wall(), stories.facts(), {})
        history.record(stories.quiet(13, self.clock.wall_s, inventory_id=row))
        self.assertTrue(history.flush(60.0), history.problem)
        self.assertEqual(13, self.read().latest(0).iteration.decision.iteration)
