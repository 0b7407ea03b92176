# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.lab.guest.fed_clock ARGUMENTS``: iat-nova-agent, its time handed over.

The agent is the real one; only its clock is another: to wait is to tell the feeder on the other
side of the lab (see `tests.lab.feeder`) up to when, and to look until it has got there. The time
begins when every source has answered: it passes faster than they do on a busy machine.
"""

import os
import struct
import sys
import threading
import time
from unittest import mock

from iat_nova.agent import sources
from iat_nova.cmd import agent
from iat_nova.inventory.reconcile import Reconciler

CLOCK = "/mnt/clock"
DEADLINE_S = 120.0
LOOK_S = 0.005


class FedClock:
    """`iat_nova.common.clock.Clock` whose seconds the feeder grants."""

    def __init__(self):
        self._fd = os.open(CLOCK, os.O_RDWR | os.O_CLOEXEC)
        self._now_ns = self._word(1)

    def _word(self, number):
        return struct.unpack("<Q", os.pread(self._fd, 8, number * 8))[0]

    def now(self):
        return self._now_ns / 1e9

    def wall(self):
        return self.now()

    def wait(self, wake, seconds):
        """Have time move on. A hint is seen at the end: the feeder may be on its way already."""
        wish_ns = self._now_ns + round(seconds * 1e9)
        os.pwrite(self._fd, struct.pack("<Q", wish_ns), 0)
        deadline = time.monotonic() + DEADLINE_S
        while self._word(1) < wish_ns:
            if time.monotonic() > deadline:
                raise AssertionError(f"the feeder did not reach {wish_ns} ns in {DEADLINE_S} s")
            threading.Event().wait(LOOK_S)
        self._now_ns = wish_ns
        return wake.is_set()


class AnsweredInventory(Reconciler):
    """Starts when each source has answered once."""

    def start(self):
        super().start()
        deadline = time.monotonic() + DEADLINE_S
        while waiting := self.facts().waiting_for:
            if time.monotonic() > deadline:
                raise AssertionError(f"no answer in {DEADLINE_S} s of {waiting}")
            self.changed.wait(1.0)


_ONE = []


def the_clock():
    """Return the one clock of this process: the counters and the loop must agree."""
    if not _ONE:
        _ONE.append(FedClock())
    return _ONE[0]


if __name__ == "__main__":
    with (
        mock.patch.object(sources, "SystemClock", the_clock),
        mock.patch.object(sources, "Reconciler", AnsweredInventory),
    ):
        sys.exit(agent.main(sys.argv[1:]))
