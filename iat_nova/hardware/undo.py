# SPDX-License-Identifier: Apache-2.0
"""Whole or not at all: what was done before a step was refused is taken back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from iat_nova.hardware.api import HardwareError

Step = Callable[[], None]
"""Takes one change back. Raises `HardwareError`."""


@contextlib.contextmanager
def undoing() -> Iterator[list[Step]]:
    """Collect the steps that undo what is done inside; take them, the latest first, if it fails.

    The error goes on, and names what could not be undone.
    """
    steps: list[Step] = []
    try:
        yield steps
    except HardwareError as error:
        failed = []
        for step in reversed(steps):
            try:
                step()
            except HardwareError as second:
                failed.append(str(second))
        if not failed:
            raise
        raise HardwareError(
            f"{error}; and undoing it failed too: {'; '.join(failed)}; run iat-nova restore"
        ) from error
