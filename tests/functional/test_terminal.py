# SPDX-License-Identifier: Apache-2.0
"""The program as a process: pipes, signals, a terminal."""

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from tests.unit.cmd.test_cli import EVIL, ROOT, CliCase


class TestProcess(CliCase):
    """Each command in a process of its own."""

    def command(self, *arguments):
        return [sys.executable, "-m", "iat_nova.cmd.main", *arguments]

    def test_broken_pipe(self):
        """A reader that goes away is no failure worth a word."""
        self.tell()
        process = subprocess.Popen(
            self.command("report", "-o", "-"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        process.stdout.close()
        self.assertEqual(b"", process.stderr.read())
        process.stderr.close()
        self.assertEqual(141, process.wait(30))

    def test_top_on_a_terminal(self):
        """The live screen fits a terminal of 80 by 24, follows keys, and gives it back."""
        self.tell(be_name=EVIL)
        main_end, end = pty.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        before = termios.tcgetattr(end)
        process = subprocess.Popen(
            self.command("top", "--interval", "0.1"),
            cwd=ROOT,
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.read_until(main_end, "q quit")
        for keys, shown in (
            (b" ", "FROZEN"),
            (b" h", "the next cache domain"),
            (b"q\x1bOB\r", "What would help"),
            (b"q", "q quit"),
            (b"\x1bOD", " ago"),
            (b"e", "What was done"),
            (b"qn/vsw\r", "enforce"),
            (b"py", "the masks are held"),
            (b"py", "resumed"),
        ):
            os.write(main_end, keys)
            self.read_until(main_end, shown)
        os.write(main_end, b"q")
        output = self.read_until(main_end, "\x1b[?1049l")
        self.assertEqual(0, process.wait(30))
        self.assertEqual(before, termios.tcgetattr(end))
        self.assertNotIn("Traceback", output)
        os.close(end)
        os.close(main_end)

    def test_top_interrupted(self):
        """Ctrl-C and SIGTERM end the live screen and give the terminal back."""
        self.tell()
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                self.top_ends_by(number)

    def top_ends_by(self, number):
        main_end, end = pty.openpty()
        before = termios.tcgetattr(end)
        process = subprocess.Popen(
            self.command("top"),
            cwd=ROOT,
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.read_until(main_end, "q quit")
        process.send_signal(number)
        output = self.read_until(main_end, "\x1b[?1049l")
        self.assertEqual(128 + number, process.wait(30))
        self.assertEqual(before, termios.tcgetattr(end))
        self.assertNotIn("Traceback", output)
        os.close(end)
        os.close(main_end)

    def test_top_stopped(self):
        """Ctrl-Z gives the terminal to the shell; the screen comes back when top goes on."""
        self.tell()
        main_end, end = pty.openpty()
        before = termios.tcgetattr(end)
        process = subprocess.Popen(
            self.command("top", "--interval", "0.1"),
            cwd=ROOT,
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C"},
            process_group=0,  # of a parent in the same session: else the kernel stops none
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.read_until(main_end, "█")  # in every locale
        process.send_signal(signal.SIGTSTP)
        self.read_until(main_end, "\x1b[?1049l")
        os.waitpid(process.pid, os.WUNTRACED)
        self.assertEqual(before, termios.tcgetattr(end))
        process.send_signal(signal.SIGCONT)
        self.read_until(main_end, "q quit")
        os.write(main_end, b"q")
        self.read_until(main_end, "\x1b[?1049l")
        self.assertEqual(0, process.wait(30))
        self.assertEqual(before, termios.tcgetattr(end))
        os.close(end)
        os.close(main_end)

    def test_top_on_a_dumb_terminal(self):
        """A terminal without a cursor to move, or an unknown one, gets one screen as lines."""
        self.tell()
        for kind in ("dumb", "nonsense"):
            with self.subTest(kind):
                main_end, end = pty.openpty()
                environment = {**os.environ, "TERM": kind, "NO_COLOR": "1"}
                process = subprocess.Popen(
                    self.command("top"),
                    cwd=ROOT,
                    stdin=end,
                    stdout=end,
                    stderr=end,
                    env=environment,
                )
                self.addCleanup(process.kill)
                output = self.read_until(main_end, "LAST DECISIONS")
                self.assertEqual(0, process.wait(30))
                self.assertNotIn("\x1b", output)
                os.close(end)
                os.close(main_end)

    def read_until(self, descriptor, wanted):
        """Read a terminal's output until something is in it."""
        text, deadline = "", time.monotonic() + 30
        while wanted not in re.sub(r"\x1b\[[0-9;]*m", "", text):
            left = deadline - time.monotonic()
            self.assertGreater(left, 0, f"{wanted!r} did not come: {text!r}")
            if select.select([descriptor], [], [], left)[0]:
                try:
                    text += os.read(descriptor, 65536).decode(errors="replace")
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    self.fail(f"{wanted!r} did not come: {text!r}")
        return text
