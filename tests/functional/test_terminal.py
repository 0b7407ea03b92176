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

GIVEN_BACK = "\x1b[?1049l"
"""How a program leaves the terminal's second screen."""


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

    def test_closed_and_full_output(self):
        """A closed standard output costs nothing but the text; a full disk is named."""
        self.tell()
        for arguments in (("status",), ("--help",)):
            command = subprocess.list2cmdline(self.command(*arguments))
            closed = ["sh", "-c", f"exec {command} >&-"]
            done = subprocess.run(closed, cwd=ROOT, stderr=subprocess.PIPE, check=False)
            self.assertEqual((0, b""), (done.returncode, done.stderr), arguments)
            for unbuffered in ("", "1"):  # Python writes at the end, or at once
                with open("/dev/full", "w") as full:
                    done = subprocess.run(
                        self.command(*arguments),
                        cwd=ROOT,
                        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
                        stdout=full,
                        stderr=subprocess.PIPE,
                        check=False,
                    )
                told = b"iat-nova: No space left on device\n"
                self.assertEqual((1, told), (done.returncode, done.stderr), arguments)

    def test_top_on_a_terminal(self):
        """The live screen fits a terminal of 80 by 24, follows keys, and gives it back."""
        self.tell(be_name=EVIL)
        self.start_top("--interval", "0.1", rows=24)
        self.read_until("q quit")
        for keys, shown in (
            (b" ", "FROZEN"),
            (b" h", "the next cache domain"),
            (b"q\x1bOB\r", "What would help"),
            (b"q", "q quit"),
            (b"\x1bOD", " ago"),
            (b"e", "What was done"),
            (b"qn/vsw\r", "enforce"),
            (b"py", "the masks are frozen"),
            (b"py", "resumed"),
        ):
            os.write(self.keyboard, keys)
            self.read_until(shown)
        os.write(self.keyboard, b"q")
        self.ends(0)

    def test_top_interrupted(self):
        """Ctrl-C and SIGTERM end the live screen and give the terminal back."""
        self.tell()
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start_top()
                self.read_until("q quit")
                process.send_signal(number)
                self.ends(128 + number)

    def test_top_stopped(self):
        """Ctrl-Z gives the terminal to the shell; the screen comes back when top goes on."""
        self.tell()
        # A group of a parent in the same session: else the kernel stops none.
        process = self.start_top("--interval", "0.1", group=0, LC_ALL="C")
        self.read_until("█")  # in every locale
        process.send_signal(signal.SIGTSTP)
        self.read_until(GIVEN_BACK)
        os.waitpid(process.pid, os.WUNTRACED)
        self.assertEqual(self.before, termios.tcgetattr(self.screen))
        process.send_signal(signal.SIGCONT)
        self.read_until("q quit")
        os.write(self.keyboard, b"q")
        self.ends(0)

    def test_top_on_a_dumb_terminal(self):
        """A terminal without a cursor to move, or an unknown one, gets one screen as lines."""
        self.tell()
        for kind in ("dumb", "nonsense"):
            with self.subTest(kind):
                process = self.start_top(TERM=kind, NO_COLOR="1")
                output = self.read_until("LAST DECISIONS")
                self.assertEqual(0, process.wait(30))
                self.assertNotIn("\x1b", output)

    def start_top(self, *arguments, rows=0, group=None, **environment):
        """Start top on a terminal of its own, whose size is unknown unless `rows` are given."""
        self.keyboard, self.screen = pty.openpty()
        self.addCleanup(os.close, self.keyboard)
        self.addCleanup(os.close, self.screen)
        if rows:
            fcntl.ioctl(self.screen, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        self.before = termios.tcgetattr(self.screen)
        self.process = subprocess.Popen(
            self.command("top", *arguments),
            cwd=ROOT,
            stdin=self.screen,
            stdout=self.screen,
            stderr=self.screen,
            env={**os.environ, "TERM": "xterm-256color", **environment},
            process_group=group,
        )
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        return self.process

    def ends(self, status):
        """See top give the terminal back as it was and end, without a traceback."""
        output = self.read_until(GIVEN_BACK)
        self.assertEqual(status, self.process.wait(30))
        self.assertEqual(self.before, termios.tcgetattr(self.screen))
        self.assertNotIn("Traceback", output)

    def read_until(self, wanted):
        """Read the terminal's output until something is in it, and return what was read."""
        text, deadline = "", time.monotonic() + 30
        while wanted not in re.sub(r"\x1b\[[0-9;]*m", "", text):
            left = deadline - time.monotonic()
            self.assertGreater(left, 0, f"{wanted!r} did not come: {text!r}")
            if select.select([self.keyboard], [], [], left)[0]:
                try:
                    text += os.read(self.keyboard, 65536).decode(errors="replace")
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    self.fail(f"{wanted!r} did not come: {text!r}")
        return text
