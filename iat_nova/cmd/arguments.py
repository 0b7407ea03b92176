# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several commands have."""

from __future__ import annotations

import argparse


def natural(text: str) -> int:
    """Return a positive whole number. Raises what argparse shows."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no positive whole number")
    return int(text)
