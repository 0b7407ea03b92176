# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several commands have."""

from __future__ import annotations

import argparse
import re

AGO = re.compile(r"-(\d+(?:\.\d+)?)(s|m|min|h|d)?")
"""A time so long ago, as people write it: -10m."""


def take_times(parser: argparse.ArgumentParser) -> None:
    """Have a parser take what looks like an option, -10m, for a time, as it takes -10."""
    parser._negative_number_matcher = AGO


def whole(text: str) -> int:
    """Return a whole number, 0 or more. Raises what argparse shows."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid number {text!r}: expected 0 or more")
    return int(text)


def natural(text: str) -> int:
    """Return a positive whole number. Raises what argparse shows."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(
            f"invalid number {text!r}: expected a positive whole number"
        )
    return int(text)
