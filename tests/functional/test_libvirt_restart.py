# SPDX-License-Identifier: Apache-2.0
"""libvirtd dies, comes back, hangs or was never there: the guests stay and it is visible."""

import os
import threading
import time

from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from tests import nova_shapes as shapes
from tests.functional import daemons
from tests.functional.libvirt_case import DEADLINE_S, ONLINE, LibvirtCase
from tests.said import codes


class RestartTest(LibvirtCase):
    daemon_type = daemons.TestLibvirtd
    keepalive = (1, 1)

    def lost(self):
        """Look, and tell whether libvirt is away."""
        self.guests()
        return bool(self.source.warnings)

    def found(self):
        self.guests()
        return not self.source.warnings

    def test_killed_and_restarted(self):
        """The last good picture stays, marked, until a new libvirtd gives a new one."""
        self.connect().createXML(shapes.domain("a"), 0)
        self.assertEqual({"a", "test"}, set(self.guests()))
        self.after_hint(self.daemon.kill, self.lost)
        stale = self.guests()
        self.assertEqual({"a", "test"}, set(stale))
        self.assertEqual("guest-stale", stale["a"].warnings[-1].code)
        self.assertEqual("libvirt-problem-since", self.source.warnings[0].code)
        self.after_hint(self.daemon.start, self.found)
        # The test driver forgot `a`; what is left carries no mark.
        (guest,) = self.guests().values()
        self.assertNotIn("guest-stale", [one.code for one in guest.warnings])

    def test_events_after_a_restart(self):
        """The new connection brings hints as the first one did."""
        self.after_hint(self.daemon.kill, self.lost)
        self.after_hint(self.daemon.start, self.found)
        nova = self.connect()
        self.after_hint(lambda: nova.createXML(shapes.domain("b"), 0), lambda: "b" in self.guests())

    def test_stopped_in_order(self):
        """An orderly end of libvirtd is survived like a crash."""
        self.after_hint(self.daemon.stop, self.lost)
        self.after_hint(self.daemon.start, self.found)

    def test_hangs(self):
        """A libvirtd that hangs holds a look up no longer than the keep-alives, then is away."""
        self.assertIn("test", self.guests())
        self.daemon.pause()
        self.addCleanup(self.daemon.kill)
        begun_s = time.monotonic()
        guests = self.guests()
        self.assertLess(time.monotonic() - begun_s, DEADLINE_S)
        self.assertEqual("guest-stale", guests["test"].warnings[-1].code)
        self.hinted.set()
        self.until(self.lost)
        self.daemon.resume()
        self.hinted.set()
        self.until(self.found)

    def test_a_hang_does_not_hold_up_the_loop(self):
        """With libvirt's own keep-alives, 20 s, each look takes a second at most."""
        source = LibvirtSource(self.daemon.uri, CpuSets())
        source.start(self.hinted.set)
        self.addCleanup(source.close)
        self.until(lambda: source.guests(frozenset(range(16))))
        self.daemon.pause()
        self.addCleanup(self.daemon.resume)
        for _ in range(3):
            begun_s = time.monotonic()
            guests = source.guests(frozenset(range(16)))
            self.assertLess(time.monotonic() - begun_s, 3.0)
            self.assertEqual("guest-stale", guests[0].warnings[-1].code)
        self.assertIn("libvirt-silent", codes(source.warnings[0]))
        self.daemon.resume()
        self.until(lambda: source.guests(frozenset(range(16))) and not source.warnings)

    def test_restarts_leak_nothing(self):
        """Connections lost and found again leave no open file and no thread behind."""
        counts = []
        for _ in range(4):
            self.after_hint(self.daemon.kill, self.lost)
            self.after_hint(self.daemon.start, self.found)
            counts.append((len(os.listdir("/proc/self/fd")), threading.active_count()))
        self.assertEqual([counts[1]] * 3, counts[1:])


class AbsentTest(LibvirtCase):
    """A libvirtd that is not there when the source starts."""

    daemon_type = daemons.TestLibvirtd

    def setUp(self):
        self.folder = self.enterContext(daemons.short_folder())
        self.daemon = self.daemon_type(self.folder)
        self.addCleanup(self.daemon.kill)
        self.hinted = threading.Event()

    def test_comes_later(self):
        """The start does not fail; guests appear when libvirtd does."""
        self.source = self.start_source()
        self.assertEqual({}, self.guests())
        warning, waits = self.source.warnings[0], self.source.waiting_for
        self.assertEqual(("libvirt-problem", "libvirt-unanswered"), (warning.code, waits.code))
        self.assertEqual([self.daemon.uri] * 2, [one.values["uri"] for one in (warning, waits)])
        self.after_hint(self.daemon.start, lambda: "test" in self.guests())
        self.assertEqual((), self.source.warnings)
        self.assertIsNone(self.source.waiting_for)

    def test_close_ends_the_thread(self):
        """Close gives the connection and the event thread back, also while reconnecting."""
        for start in (False, True):
            with self.subTest(libvirtd=start):
                if start:
                    self.daemon.start()
                source = LibvirtSource(self.daemon.uri, CpuSets())
                source.start(self.hinted.set)
                source.guests(ONLINE)
                source.close()
                names = [thread.name for thread in threading.enumerate()]
                self.assertNotIn("libvirt-events", names)

    def test_two_sources(self):
        """Two sources share the process's event loop; one may leave before the other."""
        self.daemon.start()
        self.source = self.start_source()
        other = LibvirtSource(self.daemon.uri, CpuSets())
        other.start(lambda: None)
        other.close()
        nova = self.connect()
        self.after_hint(lambda: nova.createXML(shapes.domain("a"), 0), lambda: "a" in self.guests())


class VanishingTest(LibvirtCase):
    daemon_type = daemons.TestLibvirtd

    def test_under_churn(self):
        """Guests that vanish between list and look are left out; nothing is ever raised."""
        nova = self.connect()
        stop = threading.Event()
        rounds = []
        devices = [shapes.ethernet("fa:16:3e:00:00:01")]  # its packets are asked for as well

        def churn():
            while not stop.is_set():
                for name in ("a", "b", "c", "d"):
                    nova.createXML(shapes.domain(name, devices=devices), 0)
                for name in ("a", "b", "c", "d"):
                    nova.lookupByName(name).destroy()
                rounds.append(1)

        thread = threading.Thread(target=churn)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)
        seen = set()
        while len(rounds) < 100:
            guests = self.guests()
            seen.update(guests)
            self.assertIn("test", guests)
            self.assertEqual((), self.source.warnings)
            for guest in guests.values():
                self.assertNotIn("domain-undescribed", [one.code for one in guest.warnings])
        self.assertLessEqual({"a", "d"}, seen)
