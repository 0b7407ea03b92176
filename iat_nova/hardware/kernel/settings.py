# SPDX-License-Identifier: Apache-2.0
"""Settings of the kernel: small files of sysfs and procfs, where absence is an answer."""

from __future__ import annotations

from pathlib import Path


def text_of(path: Path) -> str:
    """Return a setting of the kernel; empty if missing or unreadable."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
