# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several commands share."""

from __future__ import annotations

import argparse
import re

AGO = re.compile(r"-(\d+(?:\.\d+)?)(s|m|min|h|d)?")
"""A time before now, as in -10m."""

SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
"""The units of times; without a unit, seconds."""


def take_times(parser: argparse.ArgumentParser) -> None:
    """Make a parser accept -10m as a time, as it accepts -10 as a number, and not as an option."""
    parser._negative_number_matcher = AGO


def whole(text: str) -> int:
    """Return a whole number, 0 or more. Raises `argparse.ArgumentTypeError`."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid number {text!r}: expected 0 or more")
    return int(text)


def natural(text: str) -> int:
    """Return a positive whole number. Raises `argparse.ArgumentTypeError`."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a positive whole number"
        )
    return int(text)
