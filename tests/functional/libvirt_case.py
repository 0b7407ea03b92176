# SPDX-License-Identifier: Apache-2.0
"""What the libvirt tests share: a private daemon, a source on it, and waiting for hints."""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable
from typing import ClassVar

import libvirt

from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.inventory.libvirt_link import LibvirtLink
from iat_nova.model import Guest
from tests.functional import daemons

DEADLINE_S = 20.0
ONLINE = frozenset(range(8))


class LibvirtCase(unittest.TestCase):
    """One private daemon a test, its guests gone at the end."""

    daemon_type: ClassVar[type[daemons.TestLibvirtd] | type[daemons.QemuLibvirtd]]
    cpusets = CpuSets.parse("4-7", "0-3")
    keepalive = (5, 3)

    @classmethod
    def setUpClass(cls) -> None:
        reason = cls.daemon_type.missing()
        if reason is not None:
            raise unittest.SkipTest(reason)

    def setUp(self) -> None:
        self.folder = self.enterContext(daemons.short_folder())
        self.daemon = self.make_daemon()
        self.daemon.start()
        self.addCleanup(self.daemon.kill)
        self.hinted = threading.Event()
        self.source = self.start_source()

    def make_daemon(self) -> daemons.TestLibvirtd | daemons.QemuLibvirtd:
        """Return the test's daemon, not yet started."""
        return self.daemon_type(self.folder)

    def start_source(self) -> LibvirtSource:
        link = LibvirtLink(self.daemon.uri, backoff_s=(0.05, 0.2), keepalive=self.keepalive)
        source = LibvirtSource(self.daemon.uri, self.cpusets, link=link)
        source.start(self.hinted.set)
        self.addCleanup(source.close)
        return source

    def connect(self) -> libvirt.virConnect:
        """Open a connection that may write: Nova's part in these tests."""
        connection = libvirt.open(self.daemon.uri)
        self.addCleanup(connection.close)
        return connection

    def guests(self) -> dict[str, Guest]:
        """Look now; the guests by name."""
        return {guest.name: guest for guest in self.source.guests(ONLINE)}

    def guest(self, name: str) -> Guest:
        return self.guests()[name]

    def after_hint(self, act: Callable[[], object], seen: Callable[[], bool]) -> None:
        """Do something and follow the hints, and nothing but the hints, until it is seen."""
        self.hinted.clear()
        act()
        self.until(seen)

    def until(self, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while True:
            if not self.hinted.wait(max(0.0, deadline - time.monotonic())):
                self.fail("no hint came")
            self.hinted.clear()
            if seen():
                return
