# SPDX-License-Identifier: Apache-2.0
"""A full-screen program on a terminal, by curses: lines out, keys and signals in.

The terminal is restored at every end, and while Ctrl-Z (SIGTSTP) stops the process.
"""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Sequence

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ESCAPE_MS = 25  # an Esc without a further byte for this time is the Esc key
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_KEYS = {
    curses.KEY_UP: "up", curses.KEY_DOWN: "down",
    curses.KEY_LEFT: "left", curses.KEY_RIGHT: "right",
    curses.KEY_PPAGE: "page-up", curses.KEY_NPAGE: "page-down",
    curses.KEY_HOME: "home", curses.KEY_END: "end",
    curses.KEY_ENTER: "enter", curses.KEY_BACKSPACE: "backspace",
    "\x1b": "esc", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace",
    "\x04": "ctrl-d",
}  # fmt: skip
# One key each. A terminal that ignores the application mode, such as a serial console or PuTTY,
# sends other sequences than its terminfo entry; curses returns them letter by letter.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])?|.", re.DOTALL)
_TYPED = {key: name for key, name in _KEYS.items() if isinstance(key, str)} | {
    f"\x1b{form}{letter}": name
    for form in "[O"
    for letter, name in zip("ABCDHF", ("up", "down", "right", "left", "home", "end"), strict=True)
}
_TYPED |= {"\x1b[1~": "home", "\x1b[4~": "end", "\x1b[5~": "page-up", "\x1b[6~": "page-down"}


def possible() -> bool:
    """Return whether input and output are a terminal with cursor movement."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        curses.setupterm(fd=sys.stdout.fileno())
    except curses.error:  # TERM is missing or unknown
        return False
    return curses.tigetstr("cup") is not None


def named(typed: str) -> list[str]:
    """Return the keys of a run of characters; an unknown sequence is one key without meaning."""
    return [_TYPED.get(one, one) for one in _SEQUENCE.findall(typed)]


class Ended(Exception):
    """A signal ends the program; the value is its number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class FullScreen:
    """A terminal that shows lines; `opened` yields an instance."""

    def __init__(self, window: curses.window, signals: int) -> None:
        self._window = window
        self._signals = signals
        self._pairs: dict[tuple[int, int], int] = {}

    def size(self) -> tuple[int, int]:
        """Return columns and lines. A serial console reports zero, which means 80 and 24."""
        size = os.get_terminal_size(sys.stdout.fileno())
        width, height = size.columns or 80, size.lines or 24
        if self._window.getmaxyx() != (height, width):
            curses.resizeterm(height, width)
        return width, height

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, with colours as SGR sequences of ECMA-48."""
        self._window.erase()
        for row, line in enumerate(lines):
            with contextlib.suppress(curses.error):  # after the last column of the last line
                self._window.move(row, 0)
                self._add(line)
        self._window.redrawwin()  # also covers output of another program
        self._window.refresh()

    def _add(self, line: str) -> None:
        text, *styled = _SGR.split(line)
        self._window.addstr(text)
        on: list[int] = []
        for codes, part in zip(styled[::2], styled[1::2], strict=True):
            numbers = [int(code or 0) for code in codes.split(";")]
            on = [] if numbers == [0] else [*on, *numbers]
            if part:
                self._window.addstr(part, self._attributes(on))

    def _attributes(self, codes: Sequence[int]) -> int:
        """Return the curses attributes for SGR codes: bold, dim, reverse, red, and 256 colours."""
        found, rest = curses.A_NORMAL, list(codes)
        front = back = -1
        while rest:
            code = rest.pop(0)
            if code in (38, 48) and len(rest) >= 2:
                colour = rest[1]
                front, back = (colour, back) if code == 38 else (front, colour)
                del rest[:2]
            elif code == 31:
                front = curses.COLOR_RED
            else:
                found |= {1: curses.A_BOLD, 2: curses.A_DIM, 7: curses.A_REVERSE}.get(code, 0)
        return found | self._pair(front, back)

    def _pair(self, front: int, back: int) -> int:
        if (front, back) == (-1, -1) or max(front, back) >= getattr(curses, "COLORS", 0):
            return 0
        if (front, back) not in self._pairs:
            if len(self._pairs) + 1 >= curses.COLOR_PAIRS:
                return 0
            number = len(self._pairs) + 1
            try:
                curses.init_pair(number, front, back)
            except curses.error:  # a terminal without default colours
                return 0
            self._pairs[front, back] = number
        return curses.color_pair(self._pairs[front, back])

    def keys(self, timeout_s: float) -> list[str]:
        """Wait for keys and return them: characters, and names such as ``up`` and ``enter``.

        The end of input is ``ctrl-d``. Returns an empty list after the timeout, and after a change
        of the size. Raises `Ended` for a signal.
        """
        ready, _, _ = select.select([sys.stdin, self._signals], [], [], timeout_s)
        if self._signals in ready:
            for number in os.read(self._signals, 64):
                if number in _ENDING:
                    raise Ended(number)
                if number == signal.SIGTSTP:
                    self._stop()
            return []
        pressed: list[str] = []
        typed = ""
        while ready:
            try:
                key = self._window.get_wch()
            except curses.error:
                break
            if isinstance(key, str):
                typed += key
            elif key != curses.KEY_RESIZE:
                pressed += [*named(typed), _KEYS.get(key, "")]
                typed = ""
        pressed += named(typed)
        if ready and not pressed and select.select([sys.stdin], [], [], 0.0)[0]:
            return ["ctrl-d"]  # still ready, but without data
        return pressed

    def _stop(self) -> None:
        """Return the terminal to the shell until SIGCONT. Must not run during `draw`."""
        curses.endwin()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)


@contextlib.contextmanager
def opened() -> Iterator[FullScreen]:
    """Open the full-screen terminal, and restore it at the end, also after an error."""
    if sys.stdout.encoding.lower() == "utf-8" and locale.getlocale()[1] is None:
        # Python writes UTF-8 also in the locale C, in which curses would omit other letters.
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    with _signals() as signals:
        window = curses.initscr()
        try:
            curses.set_escdelay(_ESCAPE_MS)
            curses.noecho()
            curses.cbreak()
            window.keypad(True)
            window.nodelay(True)
            with contextlib.suppress(curses.error):  # some terminals cannot hide the cursor
                curses.curs_set(0)
            with contextlib.suppress(curses.error):  # some have no colours
                curses.start_color()
                curses.use_default_colors()
            yield FullScreen(window, signals)
        finally:
            with contextlib.suppress(curses.error):
                curses.curs_set(1)
            curses.endwin()


@contextlib.contextmanager
def _signals() -> Iterator[int]:
    """Yield a descriptor from which the numbers of signals can be read.

    An exception raised by a signal handler can be lost, for instance in a destructor. The default
    action of SIGTERM would not restore the terminal.
    """
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    taken = (*_ENDING, signal.SIGWINCH, signal.SIGTSTP)
    before = {number: signal.signal(number, lambda *_: None) for number in taken}
    wakeup = signal.set_wakeup_fd(tell)
    try:
        yield told
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(told)
        os.close(tell)
