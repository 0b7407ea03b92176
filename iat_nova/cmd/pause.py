# SPDX-License-Identifier: Apache-2.0
"""iat-nova pause and iat-nova resume."""

from __future__ import annotations

import argparse
import getpass
import math
import os
import pathlib
import re
import stat
import time

from iat_nova.cmd.arguments import SECONDS, take_times
from iat_nova.cmd.base import EXIT_NOT_RUNNING, Command, Failure, folded
from iat_nova.common.kernel_files import status
from iat_nova.common.untrusted import MOST_TEXT
from iat_nova.conf import LOCK
from iat_nova.model import Pause
from iat_nova.report import escape, times
from iat_nova.store.database import HistoryError
from iat_nova.store.heartbeat import look
from iat_nova.store.requests import PauseFile

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|m|min|h|d)")


class PauseCommand(Command):
    """Keep the present masks, for maintenance: no decisions, no writes.

    status and top show the pause until its end. Without --for only `iat-nova resume` ends it. A
    pause also applies to an agent that starts later, even after a reboot.
    """

    _as_owner = True
    _writes = True
    _tells_state = True
    _epilog = """
examples:
  iat-nova pause --for 30m --reason "firmware update"
  iat-nova pause                     until iat-nova resume
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        take_while(parser, "resume")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Write the pause's file."""
        now_s = time.time()
        until_s = end_s(parsed_args, now_s)
        folder = existing(self.state_dir(parsed_args))
        PauseFile(folder).write(Pause(now_s, until_s, parsed_args.reason, who()))
        end = "until `iat-nova resume`" if math.isinf(until_s) else f"until {times.moment(until_s)}"
        if agent_runs(self, folder):
            frozen = "decisions" if self._observes(parsed_args) else "masks"
            self.app.stdout.write(f"The {frozen} are frozen {end}.\n")
            if frozen == "decisions":
                self.app.stdout.write("The agent only observes: it writes no masks.\n")
        else:
            told = f"No agent is seen running with {folder}; one that starts there is paused {end}."
            self.app.stdout.write(f"{folded(told, self.app.stdout)}\n")

    def _observes(self, parsed_args: argparse.Namespace) -> bool:
        """Return whether the agent's last status says that the agent only observes."""
        try:
            with self.history(parsed_args) as reader:
                seen = reader.status()
        except (HistoryError, OSError):
            return False
        return seen is not None and bool(seen.status.reasons)


class Resume(Command):
    """End a pause."""

    _as_owner = True
    _writes = True
    _epilog = """
example:
  iat-nova resume
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Remove the pause's file."""
        file = PauseFile(existing(self.state_dir(parsed_args)))
        pause = file.current(time.time())
        file.clear()
        if pause is None:
            self.app.stdout.write("It was not paused.\n")
        else:
            since = times.duration(time.time() - pause.since_s)
            by = f" by {escape.plain(pause.by)}" if pause.by else ""
            self.app.stdout.write(f"Resumed. It was paused{by} for {since}.\n")
        return 0


def agent_runs(command: Command, folder: pathlib.Path) -> bool:
    """Tell whether an agent runs with this state directory."""
    try:
        return look(folder / LOCK).alive
    except OSError as error:
        command.note(f"{folder / LOCK}: {error.strerror}")
        return False


def existing(folder: pathlib.Path) -> pathlib.Path:
    """Return the state directory. Raises `Failure` if missing."""
    found = status(folder)
    if found is None or not stat.S_ISDIR(found.st_mode):
        text = f"there is no state directory {folder}; name it with --state-dir"
        raise Failure(text, EXIT_NOT_RUNNING)
    return folder


_LONGEST_S = 366 * 86400.0


def take_while(parser: argparse.ArgumentParser, end: str) -> None:
    """Add ``--for`` and ``--reason``. `end`: the help text's verb, "resume" or "release it"."""
    take_times(parser)  # so that -1h is an invalid duration, and no option
    parser.add_argument(
        "--for",
        dest="seconds",
        metavar="TIME",
        type=duration,
        help=f"{end} after this time: 90s, 30m, 2h, 1d",
    )
    parser.add_argument("--reason", default="", type=_reason, help="why, for the others")


def end_s(parsed_args: argparse.Namespace, now_s: float) -> float:
    """Return the wall-clock time of the end; infinity without ``--for``."""
    return now_s + parsed_args.seconds if parsed_args.seconds else math.inf


def duration(text: str) -> float:
    """Return the seconds of ``30m``. Raises `argparse.ArgumentTypeError`."""
    found = _DURATION.fullmatch(text)
    if not found or not float(found[1]):
        raise argparse.ArgumentTypeError(f"invalid duration {text!r}: expected 90s, 30m, 2h or 1d")
    seconds = float(found[1]) * SECONDS[found[2]]
    if seconds > _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is too long; without --for it has no end")
    return seconds


def _reason(text: str) -> str:
    if len(text) > MOST_TEXT:
        raise argparse.ArgumentTypeError(f"expected a text of up to {MOST_TEXT} characters")
    return text


def who() -> str:
    """Return the operator's user name, also with sudo."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return str(os.getuid())
