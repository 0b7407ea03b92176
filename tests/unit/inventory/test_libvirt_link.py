# SPDX-License-Identifier: Apache-2.0
"""However long libvirt was away, its return is noticed within 5 s."""

import pathlib
import tempfile
import unittest

from iat_nova.inventory.libvirt_events import EVENT_LOOP, EventLoop
from iat_nova.inventory.libvirt_link import LibvirtLink
from iat_nova.report.sentences import text

HOST = "<node><cpu><mhz>2000</mhz></cpu></node>"


class FakeTime(EventLoop):
    """libvirt's loop, but what is to be done later waits until the test lets time pass."""

    def __init__(self):
        super().__init__()
        self.now_s = 0.0
        self.due = []

    def acquire(self):
        EVENT_LOOP.acquire()

    def release(self):
        EVENT_LOOP.release()

    def call_later(self, delay_s, action):
        if delay_s:
            self.due.append((self.now_s + delay_s, action))
            self.due.sort(key=lambda one: one[0])
        else:
            action()

    def run(self, until_s):
        """Do what is due until then."""
        while self.due and self.due[0][0] <= until_s:
            self.now_s, action = self.due.pop(0)
            action()
        self.now_s = until_s


class ReturnTest(unittest.TestCase):
    def test_return_is_noticed(self):
        """Whether it was away for moments or an hour, and it is not asked all too often."""
        for away_s in (0.4, 3.0, 12.6, 61.7, 3600.3):
            with self.subTest(away_s=away_s):
                self.noticed(away_s)

    def noticed(self, away_s):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        time, attempts = FakeTime(), []
        # libvirt's own driver for tests, which cannot be opened while its file is of no host
        (folder / "host.xml").write_text("<away/>")
        link = LibvirtLink(f"test://{folder}/host.xml", loop=time)
        link.start(lambda: attempts.append(time.now_s))
        self.addCleanup(link.close)
        time.run(away_s)
        self.assertIsNone(link.connection)
        self.assertRegex(text(link.problem), "^XML error")
        self.assertLessEqual(len(attempts), 4 + away_s / 4)
        (folder / "host.xml").write_text(HOST)
        time.run(away_s + 5.0)
        self.assertIsNone(link.problem)
        self.assertIsNotNone(link.connection)
