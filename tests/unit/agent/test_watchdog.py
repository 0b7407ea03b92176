# SPDX-License-Identifier: Apache-2.0
import os
import socket
import tempfile
import unittest

from iat_nova.agent.watchdog import Watchdog


class Notify(unittest.TestCase):
    """sd_notify(3)."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = f"{folder.name}/notify"
        self.systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.systemd.close)
        self.systemd.settimeout(5)

    def watchdog(self, address, **more):
        watchdog = Watchdog({"NOTIFY_SOCKET": address, **more})
        self.addCleanup(watchdog.close)
        return watchdog

    def test_messages(self):
        """Ready, alive, status and stopping arrive as systemd wants them."""
        self.systemd.bind(self.path)
        watchdog = self.watchdog(self.path)
        watchdog.ready("3 tenants")
        watchdog.alive()
        watchdog.status("two\nlines")
        watchdog.stopping()
        self.assertEqual(
            [b"READY=1\nSTATUS=3 tenants", b"WATCHDOG=1", b"STATUS=two lines", b"STOPPING=1"],
            [self.systemd.recv(200) for _ in range(4)],
        )

    def test_long_status(self):
        """systemd ignores a message above 4096 bytes as a whole, with READY=1 in it."""
        self.systemd.bind(self.path)
        watchdog = self.watchdog(self.path)
        for text in ("x" * 5000, "\U0001f5a5" * 5000, "\udcff" * 5000):
            watchdog.ready(text)
            watchdog.status(text)
            ready, status = self.systemd.recv(1 << 17), self.systemd.recv(1 << 17)
            self.assertTrue(ready.startswith(b"READY=1\nSTATUS="))
            self.assertTrue(status.startswith(b"STATUS=") and status.endswith(b"..."))
            self.assertLessEqual(max(len(ready), len(status)), 4096)

    def test_abstract_address(self):
        """An address with @ is one of Linux's abstract namespace."""
        name = f"iat-nova-test-{os.getpid()}"
        self.systemd.bind("\0" + name)
        self.watchdog("@" + name).alive()
        self.assertEqual(b"WATCHDOG=1", self.systemd.recv(200))

    def test_nobody_listens(self):
        """Without an address, or with nobody behind it, nothing happens."""
        self.watchdog("").alive()
        self.watchdog(self.path).alive()

    def test_interval(self):
        """The unit's time is taken when it is meant for this process."""
        self.assertEqual(30.0, self.watchdog("", WATCHDOG_USEC="30000000").interval_s)
        mine, other = str(os.getpid()), "1"
        self.assertEqual(
            2.5, self.watchdog("", WATCHDOG_USEC="2500000", WATCHDOG_PID=mine).interval_s
        )
        self.assertIsNone(self.watchdog("", WATCHDOG_USEC="1", WATCHDOG_PID=other).interval_s)
        self.assertIsNone(self.watchdog("").interval_s)

    def test_a_long_interval(self):
        """systemd is asked to wait for three intervals where the unit's time is shorter."""
        self.systemd.bind(self.path)
        watchdog = self.watchdog(self.path, WATCHDOG_USEC="60000000")
        watchdog.expect_every(1.0)
        watchdog.expect_every(40.0)
        self.assertEqual(b"WATCHDOG_USEC=120000000", self.systemd.recv(200))

    def test_a_long_interval_that_ends(self):
        """The unit's time counts again, else a loop that stands still is found late."""
        watchdog = self.watchdog(self.path, WATCHDOG_USEC="60000000")
        watchdog.expect_every(40.0)  # not heard
        self.systemd.bind(self.path)
        watchdog.expect_every(40.0)
        watchdog.expect_every(40.0)
        watchdog.expect_every(1.0)
        watchdog.alive()
        self.assertEqual(
            [b"WATCHDOG_USEC=120000000", b"WATCHDOG_USEC=60000000", b"WATCHDOG=1"],
            [self.systemd.recv(200) for _ in range(3)],
        )
