# SPDX-License-Identifier: Apache-2.0
"""An error in what libvirt calls is not lost in libvirt; its own driver for tests calls it."""

import threading
import unittest

import libvirt

from iat_nova.inventory.libvirt_events import EVENT_LOOP
from iat_nova.inventory.libvirt_link import LibvirtLink

DEADLINE_S = 20.0


class CallbackTest(unittest.TestCase):
    """Errors come to where those of threads come, which ends the agent in order."""

    def setUp(self) -> None:
        self.died = []
        self.heard = threading.Event()
        self.addCleanup(setattr, threading, "excepthook", threading.excepthook)
        threading.excepthook = self.note

    def note(self, died: threading.ExceptHookArgs) -> None:
        self.died.append((died.thread.name, died.exc_type))
        self.heard.set()

    def check(self) -> None:
        """The error was heard, and the loop goes on: what is called later still is."""
        self.assertTrue(self.heard.wait(DEADLINE_S), "the error was lost")
        self.assertEqual({("libvirt-events", ZeroDivisionError)}, set(self.died))
        later = threading.Event()
        EVENT_LOOP.call_later(0.0, later.set)
        self.assertTrue(later.wait(DEADLINE_S))

    def test_a_timer(self) -> None:
        """What is to be called later."""
        EVENT_LOOP.acquire()
        self.addCleanup(EVENT_LOOP.release)
        EVENT_LOOP.call_later(0.0, lambda: 1 / 0)
        self.check()

    def test_an_event_of_a_domain(self) -> None:
        """Those that libvirt calls with what has happened."""
        self.uuids = []
        link = LibvirtLink("test:///default")
        link.start(lambda: None, self.misunderstand)
        self.addCleanup(link.close)
        host = libvirt.open("test:///default")  # the same host: it lives in this process
        self.addCleanup(host.close)
        domain = host.lookupByName("test")
        domain.suspend()
        self.addCleanup(domain.resume)
        self.check()
        self.assertEqual([domain.UUIDString()], self.uuids)

    def misunderstand(self, uuid: str) -> None:
        if not self.uuids:
            self.uuids.append(uuid)
            raise ZeroDivisionError
