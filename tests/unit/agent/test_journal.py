# SPDX-License-Identifier: Apache-2.0
"""What the loop tells: once, in words, and where it can be found later."""

import dataclasses
import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.agent.journal import Journal
from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times.fake import SKYLAKE
from iat_nova.hardware.enforcement.enforcer import Effective
from iat_nova.model import (
    DomainInventory,
    Facts,
    HostFacts,
    Parameters,
    Pause,
    Priority,
    Rates,
    Sample,
    SwitchPort,
    VirtualSwitch,
    WayMask,
    message,
    verbatim,
)
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import decision_page
from iat_nova.report.log import LogLanguage
from iat_nova.store.observed import Observer
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Status
from iat_nova.store.writer import History
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.presets import PRESETS
from iat_nova.strategies.outlook import Outlook
from tests.unit import stories
from tests.unit.build import problems, tenant

GUEST = tenant("web", 4, id="u/1", priority=Priority.PC, io=True)
INVENTORY = DomainInventory(SKYLAKE, (GUEST,))
FACTS = Facts(HostFacts("h", (SKYLAKE,), (4,)), (), None)
WARNING = (Reason(Code.SOURCE, verbatim("libvirtd does not answer")),)
STATUS = Status("enforce", 1, "0", "iat", 1.0, 0.0, Parameters())


class JournalTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.path = pathlib.Path(folder) / "history.sqlite"
        # wall times of these tests are small numbers: nothing is too old
        self.history = History(self.path, max_age_s=1e12, max_bytes=1 << 24, clock=SystemClock())
        self.addCleanup(self.history.close)
        self.clock = stories.SetClock(1.0)
        self.journal = Journal(self.history, STATUS, self.clock, LogLanguage())

    def read(self, question):
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            return question(reader)

    def step(self, number: int, state=None, inventory=INVENTORY):
        """Record one iteration of the real controller and return the state after it."""
        controller = Controller(Parameters(), PRESETS["iat"])
        before = state or controller.initial(inventory, 0.0)
        rates = Rates(2e9, 2e9, 1e6, 1e5)
        seen = {tenant.id: rates for tenant in inventory.tenants}
        sample = Sample(0, float(number), 1.0, seen, 1e6, 1e5)
        after, decision = controller.step(before, inventory, sample)
        effective = Effective(dict.fromkeys(seen, WayMask(3)), WayMask(0x600))
        self.journal.iteration(before, sample, decision, effective, {"read": 9.0}, after)
        return after

    def test_what_a_guest_has_shown_is_recorded(self) -> None:
        """A guest that was faster under the same load has lost something; so the record says."""
        inventory = DomainInventory(SKYLAKE, (tenant("db", 4),))
        self.journal.inventory(FACTS, {0: inventory}, ())
        controller, state = Controller(Parameters(), PRESETS["iat"]), None
        fast, slow = Rates(2e9, 2e9, 20e6, 1e6), Rates(1e9, 2e9, 10e6, 6e6)
        for number, rates in enumerate([fast] * 20 + [slow] * 40):
            before = state or controller.initial(inventory, 0.0)
            sample = Sample(0, float(number), 1.0, {"db": rates})
            state, decision = controller.step(before, inventory, sample)
            outlook = Outlook.NO_PROMISE
            self.journal.iteration(before, sample, decision, None, {}, state, outlook)
        latest = self.read(lambda reader: reader.latest(0)).iteration
        self.assertAlmostEqual(0.5, latest.shown["db"], places=2)
        self.assertEqual(Outlook.NO_PROMISE, latest.outlook)

    def test_one_line_a_decision_and_one_for_each_reason_for_none(self) -> None:
        """The first layout is news, and so is why nothing follows; the same reason again is not."""
        self.journal.inventory(FACTS, {0: INVENTORY}, ())
        with self.assertLogs("iat_nova", "INFO") as log:
            state = self.step(1)
        self.assertEqual(1, len(log.output))
        self.assertIn("web", log.output[0])
        with self.assertLogs("iat_nova", "INFO") as log:
            for number in (2, 3, 4, 5):
                state = self.step(number, state)
        self.assertRegex(log.output[-1], "#3: Low Keep: no change counts: the largest is .* 3.0%")
        with self.assertNoLogs("iat_nova", "INFO"):
            state = self.step(6, state)
        with self.assertLogs("iat_nova", "DEBUG") as log:
            self.step(7, state)
        self.assertRegex("\n".join(log.output), r"^DEBUG:iat_nova:domain 0 #7: [^\n]*$")
        recorded = self.read(lambda r: r.latest(0)).iteration
        self.assertEqual({"u/1": 3, "ddio": 0x600}, recorded.effective)
        self.assertEqual({"read": 9.0}, recorded.timings_us)

    def test_who_left_is_named(self) -> None:
        """In the log, and in what `explain` reads later; also after several pictures."""
        self.journal.inventory(FACTS, {0: INVENTORY}, ())
        state = self.step(1)
        empty = DomainInventory(SKYLAKE, ())
        self.journal.inventory(FACTS, {0: empty}, ())
        other = dataclasses.replace(FACTS, problems=problems((verbatim("another picture"),)))
        self.journal.inventory(other, {0: empty}, ())
        with self.assertLogs("iat_nova", "INFO") as log:
            self.step(2, state, empty)
        self.assertIn("adopt web: left", log.output[0])
        self.assertNotIn(GUEST.id, log.output[0])
        left = self.read(lambda r: r.latest(0)).iteration
        self.assertEqual({GUEST.id: "web"}, left.former)
        self.assertIn("adopt web: left", decision_page.explain(left, empty, None))

    def test_the_same_picture_is_recorded_once(self) -> None:
        """Reconciling every minute does not fill the history with copies."""
        for _ in range(2):
            self.journal.inventory(FACTS, {0: INVENTORY}, ())
            self.step(1)
        first = self.read(lambda r: r.latest(0)).iteration.inventory_id
        other = DomainInventory(SKYLAKE, ())
        self.journal.inventory(FACTS, {0: other}, ())
        self.journal.inventory(FACTS, {0: INVENTORY}, ())
        self.step(2)
        self.assertGreater(self.read(lambda r: r.latest(0)).iteration.inventory_id, first)

    def test_traffic_makes_no_new_picture(self) -> None:
        """Counts of each look take the place of the last ones; whoever is in it, a new picture."""
        observer = Observer()
        journal = Journal(self.history, STATUS, self.clock, LogLanguage(), observer)
        pictures = []
        for packets in range(3):
            self.clock.wall_s = float(packets)
            port = SwitchPort("vhu1", "br-int", "dpdkvhostuserclient", packets=packets)
            switch = VirtualSwitch({}, (port,), (2,))
            facts = dataclasses.replace(FACTS, switch=switch)
            why = {"u/1": message("io-below", packets_per_s=packets, threshold_per_s=9)}
            journal.inventory(facts, {0: INVENTORY}, (), why)
            self.assertIs(facts.switch, observer.now.switch)
            pictures = self.read(lambda r: list(r.inventories()))
            (picture,) = pictures
            self.assertEqual(
                (facts, {0: INVENTORY}, why, float(packets)),
                (picture.facts, picture.domains, picture.reasons, picture.wall_s),
            )
        journal.inventory(facts, {0: DomainInventory(SKYLAKE, ())}, ())
        self.assertEqual(pictures, self.read(lambda r: list(r.inventories()))[1:])

    def test_a_problem_is_told_when_it_begins_and_when_it_ends(self) -> None:
        """Not at each iteration; while it lasts it is part of the status."""
        with self.assertLogs("iat_nova", "INFO") as log:
            for _ in range(3):
                self.journal.problem(Code.COUNTERS_UNREADABLE, verbatim("CPU 4: gone"))
                self.journal.status({}, None)
            (problem,) = self.read(lambda r: r.status()).status.problems
            self.assertEqual(verbatim("CPU 4: gone"), problem.message)
            self.journal.solved(Code.COUNTERS_UNREADABLE, verbatim("CPU 4 is back"))
            self.journal.solved(Code.COUNTERS_UNREADABLE, verbatim("CPU 4 is back"))
            self.journal.status({}, None)
        self.assertEqual(2, len(log.output))
        self.assertEqual((), self.read(lambda r: r.status()).status.problems)

    def test_a_warning_is_told_once_and_stays_in_the_status(self) -> None:
        """Until the next picture is without it."""
        with self.assertLogs("iat_nova", "WARNING") as log:
            self.journal.inventory(FACTS, {0: INVENTORY}, WARNING)
            self.journal.inventory(FACTS, {0: INVENTORY}, WARNING)
        self.assertEqual(1, len(log.output))
        self.journal.status({}, None)
        self.assertEqual(WARNING, self.read(lambda r: r.status()).status.problems)
        self.journal.inventory(FACTS, {0: INVENTORY}, ())
        self.journal.status({}, None)
        self.assertEqual((), self.read(lambda r: r.status()).status.problems)

    def test_a_tenants_warning_is_told_when_it_begins_and_when_it_ends(self) -> None:
        """Once for all cache domains, and not as a problem of the agent."""
        said = message("guaranteed-too-many", ways=12, usable=11)
        first, *others = INVENTORY.tenants
        told = (  # of the host, once for all guests
            message("cpus-offline", cpus="4"),
            message("guest-stale", seen_s=1.0),
            message("switch-stale", trouble=message("ovsdb-not-connected", address="a")),
        )
        warned = dataclasses.replace(first, warnings=(said, *told))
        warned = dataclasses.replace(INVENTORY, tenants=(warned, *others))
        with self.assertLogs("iat_nova", "INFO") as log:
            for _ in range(2):
                self.journal.inventory(FACTS, {0: warned, 1: warned}, ())
            for _ in range(2):
                self.journal.inventory(FACTS, {0: INVENTORY, 1: INVENTORY}, ())
        text = "web: is guaranteed 12 ways, the LLC has 11 for tenants"
        self.assertEqual(
            [f"WARNING:iat_nova:{text}", f"INFO:iat_nova:no longer: {text}"], log.output
        )
        self.journal.status({}, None)
        self.assertEqual((), self.read(lambda r: r.status()).status.problems)

    def test_a_picture_too_old_is_a_problem_until_the_next(self) -> None:
        """Told once, with a code, after twice the period; looking again ends it."""
        self.now_s = 100.0
        real = mock.patch("iat_nova.agent.journal.monotonic", lambda: self.now_s)
        self.enterContext(real)
        observer = Observer()
        journal = Journal(self.history, STATUS, self.clock, LogLanguage(), observer, reading_s=60.0)
        journal.inventory(FACTS, {0: INVENTORY}, ())
        self.now_s += 120.0
        journal.status({}, None)
        self.assertEqual((), journal.latest.problems)
        with self.assertLogs("iat_nova", "ERROR") as log:
            for _ in range(3):
                self.now_s += 60.0
                journal.status({}, None)
        self.assertEqual(1, len(log.output))
        (problem,) = journal.latest.problems
        self.assertEqual(Code.INVENTORY_OLD, problem.code)
        self.assertEqual(message("inventory-old", overdue_s=120.0), problem.message)
        self.assertEqual(1.0, observer.now.looked_s)
        self.clock.wall_s = 4.0
        journal.inventory(FACTS, {0: INVENTORY}, ())
        journal.status({}, None)
        self.assertEqual((), journal.latest.problems)
        self.assertEqual(4.0, observer.now.looked_s)

    def test_why_nothing_is_written_is_in_the_status(self) -> None:
        """Observing and pausing give their reasons."""
        self.journal.status(
            {Code.OBSERVE_CONFIGURED: verbatim("mode = observe")}, Pause(0.0, 99.0, "firmware")
        )
        status = self.read(lambda r: r.status()).status
        self.assertEqual("observe", status.mode)
        self.assertEqual(
            (Reason("observe-configured", verbatim("mode = observe")),), status.reasons
        )
        self.assertEqual((99.0, "firmware"), (status.paused_until_s, status.paused_reason))

    def test_goodbye(self) -> None:
        """The last word says that the agent stopped, and keeps the last error."""
        with self.assertLogs("iat_nova", "INFO"):
            self.journal.problem(Code.REFUSED, verbatim("refused"))
            self.journal.close()
        with HistoryReader(self.path) as reader:
            status = reader.status().status
        self.assertTrue(status.stopped)
        self.assertEqual(verbatim("refused"), status.last_error)
        self.assertIsNone(status.handed_over_s)

    def test_from_one_agent_to_the_next(self) -> None:
        """The status has when masks were adopted, and the last word when they were left."""
        self.journal.adopted()
        self.journal.status({}, None)
        self.assertEqual(1.0, self.read(lambda r: r.status()).status.adopted_s)
        self.clock.wall_s = 2.0
        self.journal.handed_over()
        self.journal.close()
        with HistoryReader(self.path) as reader:
            status = reader.status().status
        self.assertEqual((1.0, 2.0, True), (status.adopted_s, status.handed_over_s, status.stopped))
