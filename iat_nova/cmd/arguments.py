# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several commands share; times such as 03:12 or -10m."""

from __future__ import annotations

import argparse
import datetime
import math
import re
import time

from iat_nova.cmd.base import EXIT_USAGE, Failure
from iat_nova.report import times

AGO = re.compile(r"-([0-9]+(?:\.[0-9]+)?)(s|m|min|h|d)?")
"""A time before now, as in -10m."""

SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""The units of times; without a unit, seconds."""


def take_times(parser: argparse.ArgumentParser) -> None:
    """Make a parser accept -10m as a time, as it accepts -10 as a number, and not as an option."""
    parser._negative_number_matcher = AGO


def whole(text: str) -> int:
    """Return a whole number, 0 or more. Raises `argparse.ArgumentTypeError`."""
    if not re.fullmatch("[0-9]+", text):
        raise argparse.ArgumentTypeError(f"invalid number {text!r}: expected 0 or more")
    return int(text)


def natural(text: str) -> int:
    """Return a positive whole number. Raises `argparse.ArgumentTypeError`."""
    if not re.fullmatch("[0-9]*[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a positive whole number"
        )
    return int(text)


_ISO_TIME = re.compile(r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?")
# 99:99, -5x, 2026-13-01: meant as times, and no name or UUID of a guest.
_MEANT = re.compile(r"[0-9]+(:[0-9]+)+|-[0-9]+\w*|[0-9]{4}-[0-9]{2}-[0-9]{2}(T.*)?")


def take_period(parser: argparse.ArgumentParser, begin: str) -> None:
    """Add ``--since`` and ``--until``. `begin`: the end of the help text of ``--since``."""
    take_times(parser)
    parser.add_argument("--since", metavar="TIME", help=f"not before this time{begin}")
    parser.add_argument("--until", metavar="TIME", help="not after this time")


def period(parsed_args: argparse.Namespace, now_s: float) -> tuple[float, float]:
    """Return begin and end of the named period, infinite if not named. Raises `Failure`."""
    since, until = parsed_args.since, parsed_args.until
    begin_s = moment(since, now_s, begin=True) if since else -math.inf
    end_s = moment(until, now_s) if until else math.inf
    if end_s < begin_s:
        raise Failure(
            f"--until {until} ({times.moment(end_s)}) is before --since {since} "
            f"({times.moment(begin_s)})",
            EXIT_USAGE,
        )
    return begin_s, end_s


def is_time(text: str) -> bool:
    """Return whether a text looks like a time; `moment` may still refuse the text."""
    if _MEANT.fullmatch(text):
        return True
    try:
        moment(text, time.time())
    except Failure:
        return False
    return True


def moment(text: str, now_s: float, *, begin: bool = False) -> float:
    """Return the wall-clock seconds of a time. Raises `Failure`.

    A time without an offset is UTC, as in all output. A time of whole minutes or seconds stands for
    the whole minute or second. The result is the end of the minute or second, so that a period up
    to a time from the log includes the log line. With `begin`, the result is the begin.
    """
    ago = AGO.fullmatch(text)
    if ago:
        return now_s - float(ago[1]) * SECONDS[ago[2]]
    text = text.removesuffix(" UTC")
    try:
        if re.fullmatch(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?", text):
            return _last_time_of_day(text, now_s, begin=begin)
        there = datetime.datetime.fromisoformat(text)
        there = there if there.tzinfo else there.replace(tzinfo=datetime.UTC)
        shown = _ISO_TIME.search(text)
        return there.timestamp() + (_rest_s(shown[0]) if shown and not begin else 0.0)
    except (ValueError, OverflowError, OSError):
        raise Failure(
            f"invalid time {text!r}: expected 03:12, 2026-11-21T03:12:05 or -10m",
            EXIT_USAGE,
        ) from None


def _rest_s(text: str) -> float:
    """Return the seconds from a time to the end of the minute or second that the time names."""
    if "." in text:
        return 0.0
    return 0.999 if text.count(":") > 1 else 59.999


def _last_time_of_day(text: str, now_s: float, *, begin: bool) -> float:
    """Return the last moment, today or yesterday, at which the clock showed this time."""
    shown = datetime.time.fromisoformat(text.zfill(5) if text.count(":") == 1 else text.zfill(8))
    today = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
    there = datetime.datetime.combine(today, shown, datetime.UTC)
    if there > today:
        there = datetime.datetime.combine(today - datetime.timedelta(days=1), shown, datetime.UTC)
    return min(there.timestamp() + (0.0 if begin else _rest_s(text)), now_s)
