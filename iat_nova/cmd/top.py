# SPDX-License-Identifier: Apache-2.0
"""iat-nova top."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import pathlib
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator

from iat_nova.cmd.base import EXIT_OK, EXITS, Command
from iat_nova.conf import LOCK
from iat_nova.report import escape, top
from iat_nova.report.view import NOBODY, View, gather
from iat_nova.store.database import NoHistory
from iat_nova.store.heartbeat import look
from iat_nova.store.holds import Holds
from iat_nova.store.pause import PauseFile
from iat_nova.store.reader import HistoryReader

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Top(Command):
    """Show the way map, the rates and the last decisions, live.

    Keys: q ends it, d shows the next cache domain, s sorts by another column, space freezes.
    """

    _epilog = """
examples:
  iat-nova top
  iat-nova top --interval 0.2
  iat-nova top --once          one screen, for a script or a report
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument("--once", action="store_true", help="print one screen and end")
        parser.add_argument(
            "--interval", type=_interval, default=1.0, metavar="S", help="default: 1 second"
        )
        parser.add_argument("--domain", type=int, metavar="N", help="begin with this cache domain")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Draw until q."""
        folder = self.state_dir(parsed_args)
        scene = Scene(folder, parsed_args.domain)
        if parsed_args.once or not (self.app.stdout.isatty() and sys.stdin.isatty()):
            columns, rows = shutil.get_terminal_size((100, 40))
            scene.look()
            lines = scene.draw(top.Screen(columns, rows, self.colour))
            text = "\n".join(lines[:-1]).rstrip()
            self.app.stdout.write(f"{text}\n")
            return EXITS[scene.agent.state]
        with _full_screen(), _told() as told:
            scene.wait_for_history = True
            return self._live(scene, parsed_args.interval, told)

    def _live(self, scene: Scene, interval_s: float, told: int) -> int:
        """Look, draw, and listen for keys and signals in between; return the exit status."""
        screen = top.Screen(80, 24, self.colour)
        due_s = 0.0
        while True:
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + interval_s
                if not screen.frozen:
                    scene.look()
            size = os.get_terminal_size(sys.stdout.fileno())
            # A serial console does not know its size and says zero.
            width, height = size.columns or 80, size.lines or 24
            screen = dataclasses.replace(screen, width=width, height=height)
            # Clearing comes first: after a full line it would take the last character away.
            lines = "\r\n\x1b[2K".join(scene.draw(screen))
            sys.stdout.write(f"\x1b[H\x1b[2K{lines}")
            sys.stdout.flush()
            timeout_s = max(0.0, due_s - time.monotonic())
            ready, _, _ = select.select([sys.stdin, told], [], [], timeout_s)
            if told in ready:
                return 128 + os.read(told, 1)[0]
            key = _key() if ready else ""
            if key in ("q", "Q", "\x04"):
                return EXIT_OK
            if key == "d":
                scene.next_domain()
            elif key == "s":
                after = top.SORTS.index(screen.sort) + 1
                screen = dataclasses.replace(screen, sort=top.SORTS[after % len(top.SORTS)])
            elif key == " ":
                screen = dataclasses.replace(screen, frozen=not screen.frozen)


class Scene:
    """What is looked at: the newest of the history and the traces of its domains."""

    def __init__(self, folder: pathlib.Path, domain: int | None = None) -> None:
        self.wait_for_history = False
        self.agent = NOBODY
        self._folder = folder
        self._pause, self._holds = PauseFile(folder), Holds(folder)
        self._wanted = domain
        self._number = 0
        self._view: View | None = None
        self._traces: dict[int, top.Trace] = {}
        self._missing = ""

    def look(self) -> None:
        """Read what is new. Opens the history anew: it may have been replaced."""
        self.agent = look(self._folder / LOCK)
        try:
            with HistoryReader(self._folder / "history.sqlite") as reader:
                pause = self._pause.current(time.time())
                held = self._holds.current(time.time())
                self._view = gather(reader, pause, agent=self.agent, holds=held)
                for domain in self._view.domains:
                    number = domain.inventory.domain.id
                    self._traces.setdefault(number, top.Trace(number)).look(reader, domain)
        except NoHistory as error:
            if not self.wait_for_history:
                raise
            self._view, self._missing = None, str(error)

    def draw(self, screen: top.Screen) -> list[str]:
        """Return the lines of a screen."""
        if self._view is None:
            text = f" {self._missing}; waiting for the agent. q quits."
            return [escape.cut(text, screen.width), *[""] * (screen.height - 1)]
        domains = self._view.domains
        if self._wanted is not None:
            for number, domain in enumerate(domains):
                if domain.inventory.domain.id == self._wanted:
                    self._number, self._wanted = number, None
        shown = domains[self._number % len(domains)] if domains else None
        trace = self._traces[shown.inventory.domain.id] if shown else None
        return top.frame(self._view, shown, trace, screen)

    def next_domain(self) -> None:
        """Show the next cache domain."""
        self._number += 1


@contextlib.contextmanager
def _full_screen() -> Iterator[None]:
    """Take the terminal over and give it back as it was, also after an error."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_ENTER)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()


@contextlib.contextmanager
def _told() -> Iterator[int]:
    """Yield a descriptor from which the number of a signal that ends us can be read.

    An exception raised by a signal can be lost, in a destructor for instance, and SIGTERM's own way
    would leave the terminal as it is.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: None) for number in ending}
    wakeup = signal.set_wakeup_fd(tell)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(tell)


def _key() -> str:
    """Return the key that was pressed; end of input quits."""
    pressed = os.read(sys.stdin.fileno(), 64).decode(errors="replace")
    return pressed[:1] if pressed else "q"


def _interval(text: str) -> float:
    """Return the seconds between two looks. Raises what argparse shows."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(
            f"invalid interval {text!r}: expected 0.05 to 3600 seconds"
        )
    return value
