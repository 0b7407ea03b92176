# SPDX-License-Identifier: Apache-2.0
"""Whether an agent runs: the kernel's lock and a page that no full disk and no clock changes."""

import contextlib
import dataclasses
import errno
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from iat_nova.store import heartbeat
from iat_nova.store.heartbeat import AgentNow, AgentState, Heartbeat

HOLD = """
import sys
import pathlib
from iat_nova.store.heartbeat import only_agent
with only_agent(pathlib.Path(sys.argv[1])) as heartbeat:
    if sys.argv[2] == "run":
        heartbeat.iteration(1.0, None)
    print("held", flush=True)
    sys.stdin.read()
"""


class OnlyAgentTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.lock = folder / "state" / "agent.lock"

    def test_the_folder_is_made_and_the_owner_named(self) -> None:
        """A second process learns who holds it; afterwards the lock is free."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, self.lock, "start"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as owner:
            self.assertEqual("held\n", owner.stdout.readline())
            with self.assertRaisesRegex(heartbeat.AlreadyRunning, f"PID {owner.pid}"):
                self.enterContext(heartbeat.only_agent(self.lock))
            owner.stdin.close()
        with heartbeat.only_agent(self.lock):
            self.assertEqual(os.getpid(), heartbeat.look(self.lock).pid)

    def test_an_error_inside_is_not_taken_for_another_agent(self) -> None:
        """Only the lock itself tells of an owner."""
        with self.assertRaises(BlockingIOError), heartbeat.only_agent(self.lock):
            raise BlockingIOError

    def test_a_removed_file(self) -> None:
        """The agent makes and locks its file again at the next word; it is not locked twice."""
        with heartbeat.only_agent(self.lock) as mine:
            for remove in (self.lock.unlink, lambda: shutil.rmtree(self.lock.parent)):
                remove()
                mine.iteration(1.0, None)
                self.assertIsNone(mine.problem)
                self.assertEqual(AgentState.RUNNING, heartbeat.look(self.lock).state)
                with self.assertRaises(heartbeat.AlreadyRunning):
                    self.enterContext(heartbeat.only_agent(self.lock))

    def test_a_file_of_another_agent(self) -> None:
        """The first agent says who has the lock now, and writes nothing into that one's file."""
        with heartbeat.only_agent(self.lock) as mine:
            self.lock.unlink()
            with heartbeat.only_agent(self.lock) as other:
                other.starting("the other's word")
                mine.iteration(1.0, None)
                self.assertRegex(mine.problem, "agent.lock was removed, and another agent")
                self.assertEqual("the other's word", heartbeat.look(self.lock).text)
            mine.iteration(1.0, None)
            self.assertIsNone(mine.problem)

    def test_an_unusable_folder(self) -> None:
        """The option and the folder are named."""
        with self.assertRaisesRegex(heartbeat.StateError, "state_dir /proc/nowhere"):
            self.enterContext(heartbeat.only_agent(pathlib.Path("/proc/nowhere/agent.lock")))

    def test_a_full_disk(self) -> None:
        """The file that cannot be reserved is named, not only what the kernel says."""
        error = OSError(errno.ENOSPC, "No space left on device")
        full = mock.patch("os.posix_fallocate", side_effect=error)
        with full, self.assertRaisesRegex(heartbeat.StateError, "agent.lock: No space left"):
            self.enterContext(heartbeat.only_agent(self.lock))


class LivingTest(unittest.TestCase):
    """Which process is the agent: the kernel's word, not the file's."""

    def setUp(self) -> None:
        self.lock = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "agent.lock"

    def test_the_agent(self) -> None:
        """Found while it lives; its process number alone is not enough."""
        with subprocess.Popen(
            [sys.executable, "-c", HOLD, self.lock, "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as agent:
            self.assertEqual(b"held\n", agent.stdout.readline())
            with heartbeat.living(self.lock) as found:
                self.assertEqual(agent.pid, found.pid)
                agent.kill()
                agent.wait()
                with self.assertRaises(ProcessLookupError):
                    signal.pidfd_send_signal(found.pidfd, 0)
        with self.assertRaises(heartbeat.NoAgent), heartbeat.living(self.lock):
            self.fail("it is dead")

    def test_a_forged_process_number(self) -> None:
        """Another process that the locked file names is not the agent."""
        with heartbeat.only_agent(self.lock) as mine:
            for pid in (os.getppid(), 1, 0, -1, 2**22 + 1):
                mine._beat = dataclasses.replace(mine._beat, pid=pid)
                mine.iteration(1.0, None)
                with self.assertRaises(heartbeat.NoAgent), heartbeat.living(self.lock):
                    self.fail(pid)

    def test_no_file(self) -> None:
        """Neither file nor folder."""
        for lock in (self.lock, self.lock / "state" / "agent.lock"):
            with self.assertRaises(heartbeat.NoAgent), heartbeat.living(lock):
                self.fail("there is none")

    def test_a_process_that_ends_while_it_is_looked_at(self) -> None:
        """There is no agent, whichever file of the process is the first that is missing."""
        with heartbeat.only_agent(self.lock) as mine:
            mine.iteration(1.0, None)
            for error in (FileNotFoundError, ProcessLookupError):
                with (
                    self.subTest(error),
                    mock.patch("os.listdir", side_effect=error),
                    self.assertRaises(heartbeat.NoAgent),
                    heartbeat.living(self.lock),
                ):
                    self.fail("it has ended")

    @unittest.skipUnless(os.geteuid() == 0, "only root can make a process of another user")
    def test_who_may_not_ask_the_kernel(self) -> None:
        """A user of no rights takes the word of a locked file on its folder's owner's processes."""
        self.lock.parent.chmod(0o755)
        with heartbeat.only_agent(self.lock) as mine:
            mine.iteration(1.0, None)
            for owner, status in ((0, 0), (64124, 3)):
                os.chown(self.lock.parent, owner, owner)
                child = os.fork()
                if child == 0:
                    os.setresuid(64123, 64123, 64123)
                    try:
                        with heartbeat.living(self.lock) as found:
                            os._exit(0 if found.pid == os.getppid() else 1)
                    except heartbeat.NoAgent:
                        os._exit(3)
                    finally:
                        os._exit(2)
                with self.subTest(owner=owner):
                    ended = os.waitpid(child, 0)[1]
                    self.assertEqual(status, os.waitstatus_to_exitcode(ended))


class StateTest(unittest.TestCase):
    """What is known of an agent, moment by moment; the time is the test's."""

    def setUp(self) -> None:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.lock = folder / "agent.lock"
        self.now_s = 1000.0

    def holding(self) -> Heartbeat:
        """Hold the lock for the rest of the test; its time is ours."""
        return self.enterContext(heartbeat.only_agent(self.lock, lambda: self.now_s))

    def look(self, after_s: float = 0.0, **changes) -> AgentNow:
        return heartbeat.look(self.lock, self.now_s + after_s, **changes)

    def test_nobody_ever(self) -> None:
        """Without a file there was no agent."""
        self.assertEqual(AgentNow(AgentState.STOPPED), self.look())

    def test_starting_says_what_it_waits_for(self) -> None:
        """However long that takes, it is no stall."""
        self.holding().starting("compiling the kernels")
        self.assertEqual(
            AgentNow(AgentState.STARTING, os.getpid(), 300.0, "compiling the kernels"),
            self.look(300.0),
        )

    def test_running_until_iterations_are_overdue(self) -> None:
        """Five intervals, at least five seconds; then it is stalled, process and age are named."""
        mine = self.holding()
        for interval_s, limit_s in ((0.5, 5.0), (3.0, 15.0)):
            mine.iteration(interval_s, None)
            self.assertEqual(AgentNow(AgentState.RUNNING, os.getpid(), limit_s), self.look(limit_s))
            late = AgentNow(AgentState.STALLED, os.getpid(), limit_s + 1)
            self.assertEqual(late, self.look(limit_s + 1))

    def test_why_nothing_is_recorded_is_said(self) -> None:
        """The history cannot say so itself."""
        self.holding().iteration(1.0, "history h: the disk is full")
        self.assertEqual("history h: the disk is full", self.look().text)

    def test_long_texts_fit(self) -> None:
        """Whatever the characters, one page holds them."""
        self.holding().iteration(1.0, "\U0001f4be\udc80" * 4000)
        self.assertEqual(heartbeat.SIZE, self.lock.stat().st_size)
        self.assertEqual(AgentState.RUNNING, self.look().state)

    def test_an_orderly_end(self) -> None:
        """It says so while it ends and once it has."""
        with heartbeat.only_agent(self.lock) as mine:
            mine.iteration(1.0, None)
            mine.stopping()
            self.assertEqual(AgentState.STOPPING, heartbeat.look(self.lock).state)
        self.assertEqual(AgentNow(AgentState.STOPPED, os.getpid()), self.look())

    def test_an_error_is_no_orderly_end(self) -> None:
        """Nobody can tell from it that the host is as it was found: the error is told."""
        for error, words in (
            (OSError("not restored: domain 1"), "not restored: domain 1"),
            (ZeroDivisionError(), "ZeroDivisionError"),
        ):
            with self.assertRaises(type(error)), heartbeat.only_agent(self.lock) as mine:
                mine.iteration(1.0, None)
                raise error
            self.assertEqual(AgentNow(AgentState.FAILED, os.getpid(), text=words), self.look())
            self.assertFalse(self.look().alive)

    def test_killed(self) -> None:
        """The kernel takes the lock from the dead at once: no age is waited for."""
        for what in ("run", "start"):
            with subprocess.Popen(
                [sys.executable, "-c", HOLD, self.lock, what],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as agent:
                self.assertEqual(b"held\n", agent.stdout.readline())
                self.assertTrue(heartbeat.look(self.lock).alive)
                agent.kill()
            self.assertEqual(AgentNow(AgentState.UNCLEAN, agent.pid), heartbeat.look(self.lock))

    def test_a_file_system_with_numbers_of_its_own(self) -> None:
        """On overlayfs and btrfs the kernel's words on locks show another device and inode."""
        self.holding().iteration(1.0, None)
        process = self.lock.parent / "proc" / str(os.getpid())
        for name in ("fd", "fdinfo"):
            (process / name).mkdir(parents=True)
        (process / "fd" / "5").symlink_to(self.lock)
        for words, seen in (("OFDLCK", True), ("FLOCK", False)):
            line = f"lock:\t1: {words}  ADVISORY  WRITE -1 00:99:1 0 EOF\n"
            (process / "fdinfo" / "5").write_text(f"pos:\t0\n{line}")
            with self.subTest(words), contextlib.ExitStack() as stack:
                if not seen:
                    stack.enter_context(self.assertRaises(heartbeat.NoAgent))
                found = stack.enter_context(heartbeat.living(self.lock, process.parent))
                self.assertEqual(os.getpid(), found.pid)

    def test_the_wall_clock_does_not_matter(self) -> None:
        """No time of day is written: what a step of the clock would change is not there."""
        self.holding().iteration(1.0, None)
        written = self.lock.read_text()
        os.utime(self.lock, (0, 0))
        self.assertEqual(AgentState.RUNNING, self.look().state)
        self.assertIn('"at_s": 1000.0', written)
        self.assertNotIn("wall", written)

    def test_what_an_earlier_boot_left(self) -> None:
        """Its times say nothing; who holds the lock now has just begun."""
        mine = self.holding()
        mine.iteration(1.0, None)
        self.assertEqual(AgentNow(AgentState.STARTING), self.look(boot="another"))

    def test_damaged_or_empty(self) -> None:
        """The lock still tells; a page that was written and cannot be read has a reason."""
        self.holding()
        for text in ("", "\0" * 4096, "4711\n", "00000000 {}", f"{0:08x} []", "\udcff" * 9):
            self.lock.write_bytes(text.encode(errors="surrogateescape"))
            found = self.look()
            self.assertEqual(AgentNow(AgentState.STARTING, text=found.text), found, text)
            self.assertEqual(bool(text.strip("\0")), "agent.lock is unreadable: " in found.text)

    def test_a_refused_write_is_a_problem_that_ends(self) -> None:
        """It is kept for the journal, not raised: the loop goes on."""
        mine = self.holding()
        with mock.patch("os.pwrite", side_effect=OSError(errno.ENOSPC, "No space left")):
            mine.iteration(1.0, None)
        self.assertIn("No space left", mine.problem)
        mine.iteration(1.0, None)
        self.assertIsNone(mine.problem)
