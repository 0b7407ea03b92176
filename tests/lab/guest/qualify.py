# SPDX-License-Identifier: Apache-2.0
"""iat-nova qualify on a real kernel: hardware that obeys its registers, and such that does not.

Masks, classes, DDIO's ways and limits are written through the kernel; their effects are fed into
the counters, by what the registers hold at that moment. Time passes at once.
"""

import contextlib
import io
import json
import os
import signal
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from iat_nova.agent import sources
from iat_nova.agent.loop import LEAST_SAMPLE_S
from iat_nova.checks.qualify import mask, resources, walker
from iat_nova.cmd import main as program
from iat_nova.cmd import qualify
from iat_nova.conf import WRITER_LOCK
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_ROOT
from iat_nova.hardware.kernel import locks
from iat_nova.model import message
from iat_nova.report.sentences import text
from tests.lab.guest.guarded import state
from tests.lab.guest.machine import Registers, mount
from tests.proofs import proves

REGISTERS = Registers()
CPUS = "2-3"
LINES_PER_S = 10_000_000
BUFFERS = 4  # ways that devices write to, by turns
WAY_BYTES = 1408 << 10


def fits(ways, size):
    """The share that misses of a random walk over `size` ways in a class of `ways`."""
    return max(0.0, 1 - ways / size)


class Effects:
    """What walks, streams and devices count on this machine; without `obeys` registers do nothing.

    `before_walk` is called before each walk, `before_writes` before devices write.
    """

    def __init__(self, obeys, before_walk=lambda: None, before_writes=lambda: None):
        self._obeys = obeys
        self._before_walk = before_walk
        self._before_writes = before_writes

    def walker(self):
        real = walker.Chase()

        def lay_out(cpu, size, accesses):
            walk = real(cpu, 64 << 10, 1000)  # the loop itself is run, and is slow in here

            def counted():
                self._before_walk()
                seconds = walk()
                number = REGISTERS.pqr_assoc(cpu)[0]
                ways = REGISTERS.cbm(number).bit_count() if self._obeys else 11
                misses = round(accesses * fits(ways, size / WAY_BYTES))
                REGISTERS.add_core(cpu, 3 * accesses, 9 * accesses, accesses, misses)
                threading.Event().wait(LEAST_SAMPLE_S)  # the kernel's clock moves in ticks
                return seconds

            return counted

        return lay_out

    def devices_write(self, seconds):
        self._before_writes()
        ways = REGISTERS.ddio_ways().bit_count() if self._obeys else 2
        total = round(LINES_PER_S * seconds)
        misses = round(total * fits(ways, BUFFERS))
        REGISTERS.add_pcie(write_hits=total - misses, write_misses=misses)

    def stream(self, cpus):
        (cpu,) = cpus
        slowed = REGISTERS.mba(REGISTERS.pqr_assoc(cpu)[0]) if self._obeys else 0
        return 12e9 * (100 - slowed) / 100

    def clock(self):
        """Return a clock whose waits are over at once, while devices write.

        What this slow machine takes by itself counts a hundredth: devices write nothing meanwhile.
        """
        effects = self

        class Clock:
            ahead_s = 0.0

            def now(self):
                return time.monotonic() / 100 + Clock.ahead_s

            def wall(self):
                return time.time()

            def wait(self, wake, seconds):
                threading.Event().wait(LEAST_SAMPLE_S)
                effects.devices_write(seconds)
                Clock.ahead_s += seconds
                return wake.is_set()

        return Clock()

    @contextlib.contextmanager
    def here(self):
        """Have the command meet this hardware."""
        clock = self.clock()
        with (
            mock.patch.object(qualify, "Chase", self.walker),
            mock.patch.object(qualify, "stream", self.stream),
            mock.patch.object(sources, "SystemClock", lambda: clock),
            mock.patch.object(mask, "SIZES", (0.5, 2, 4, 6)),  # all of them take 20 s in here
        ):
            yield


def ended_by(number, qualify, *, at_ddio=False):
    """Call `qualify` in a process of its own and send it a signal in the middle of a walk.

    With `at_ddio`, once DDIO has other ways than were found. Returns its process id and what
    `os.waitpid` says of its end.
    """
    begun, begins = os.pipe()
    ddio = REGISTERS.ddio_ways()
    pid = os.fork()
    if pid == 0:

        def stay():
            os.write(begins, b"!")
            while True:  # a signal that comes right before a wait is seen after it
                threading.Event().wait(0.1)

        def stay_once_moved():
            if REGISTERS.ddio_ways() != ddio:
                stay()

        moment = {"before_writes": stay_once_moved} if at_ddio else {"before_walk": stay}
        try:
            with Effects(obeys=True, **moment).here():
                qualify()
        except SystemExit as end:
            os._exit(end.code)
        finally:
            os._exit(99)
    os.close(begins)
    walks = os.read(begun, 1)
    os.close(begun)
    if walks != b"!":
        raise AssertionError(f"it ended before that: {os.waitpid(pid, 0)}")
    os.kill(pid, number)
    return os.waitpid(pid, 0)


@proves("qualify")
class Qualify(unittest.TestCase):
    """One command, on one machine; all is as found whatever happens."""

    def setUp(self):
        mount()
        # This slow machine's own work keeps its CPUs busy; which are idle, the unit tests ask.
        self.enterContext(mock.patch.object(resources, "IDLE", 2.0))
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(dir="/run")))
        self.config = self.folder / "iat-nova.conf"
        self.config.write_text(f"[iat]\nmode = enforce\nstate_dir = {self.folder}\n")
        self.found = state()

    def run_it(self, *words):
        """Run iat-nova; return its exit status, and what it said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            status = program.main([*words, "--config-file", str(self.config)])
        return status, said.getvalue()

    def qualify(self, *words):
        return self.run_it(
            "qualify", "--yes", "--cpus", CPUS, "--out", str(self.folder), *words
        )  # fmt: skip

    def verdicts(self):
        record = json.loads((self.folder / "qualify.json").read_text())
        return {one["name"]: one["verdict"] for one in record["tests"]}, record

    def check_as_found(self):
        self.assertEqual(self.found, state())
        self.assertFalse((self.folder / "snapshot.json").exists())

    def test_good_hardware(self):
        """Registers have their effects: everything passes that time does not judge."""
        with Effects(obeys=True).here():
            _, said = self.qualify()
        self.check_as_found()
        verdicts, record = self.verdicts()
        self.assertNotEqual("unavailable", verdicts.pop("write-time"), said)  # slow in here
        names = ("mask", "ddio", "slices", "bandwidth")
        self.assertEqual(dict.fromkeys(names, "pass"), verdicts, said)
        asked = {row["ways"] for one in record["tests"][:1] for row in one["rows"]}
        self.assertEqual({2, 4, 8, 11}, asked)
        self.assertIn("<svg", (self.folder / "qualify.html").read_text())

    def test_bad_hardware(self):
        """Registers read back and do nothing: masks and limits fail.

        Of DDIO nothing is concluded: no disk is named, so devices write to buffers of unknown size.
        """
        with Effects(obeys=False).here():
            status, said = self.qualify("--only", "mask,ddio,bandwidth")
        self.check_as_found()
        self.assertEqual(1, status, said)
        verdicts = {"mask": "fail", "ddio": "inconclusive", "bandwidth": "fail"}
        self.assertEqual(verdicts, self.verdicts()[0], said)

    def test_refused(self):
        """While another process writes, or somebody else has a group, nothing is begun."""
        lock = locks.FileLock(WRITER_LOCK)
        try:
            status, said = self.qualify()
        finally:
            lock.close()
        self.assertEqual(1, status)
        self.assertIn(f"process {os.getpid()} writes this host's cache masks, paused or not", said)
        theirs = DEFAULT_ROOT / "theirs"
        theirs.mkdir()
        self.addCleanup(theirs.rmdir)
        status, said = self.qualify()
        self.assertEqual(1, status)
        self.assertIn(text(message("group-of-other", group="theirs")), said)
        self.assertFalse((self.folder / "qualify.json").exists())

    def test_interrupted(self):
        """SIGTERM in the middle of a walk puts all back; after SIGKILL restore does."""
        pid, status = self.ended_by(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, os.waitstatus_to_exitcode(status), pid)
        self.check_as_found()
        _, status = self.ended_by(signal.SIGKILL)
        self.assertEqual(-signal.SIGKILL, os.waitstatus_to_exitcode(status))
        self.assertNotEqual(self.found, state())
        self.assertEqual(0, self.run_it("restore")[0])
        self.check_as_found()

    def ended_by(self, number):
        """Start a walk in a process of its own and send it a signal in the middle."""
        return ended_by(number, lambda: self.qualify("--only", mask.TEST.name))
