# SPDX-License-Identifier: Apache-2.0
"""Small files of sysfs and procfs, where absence is an answer."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Return a file's text; empty if missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def number_of(path: Path) -> int | None:
    """Return the number in a file; None if missing or unreadable, or without a number."""
    try:
        return int(text_of(path))
    except ValueError:
        return None
