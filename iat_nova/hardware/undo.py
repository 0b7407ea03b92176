# SPDX-License-Identifier: Apache-2.0
"""Taking back what was done: all of it, also where one step is refused."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from iat_nova.hardware.api import HardwareError

_Item = TypeVar("_Item")

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


def put_all_back(
    items: Iterable[_Item], put_back: Callable[[_Item], str | None]
) -> tuple[str, ...]:
    """Put every item back, also after one was refused; return what `put_back` tells it did.

    Raises one `HardwareError` with every refusal.
    """
    done, refused = [], []
    for item in items:
        try:
            said = put_back(item)
        except HardwareError as error:
            refused.append(str(error))
        else:
            done += [said] if said else []
    if refused:
        raise HardwareError("; ".join(refused))
    return tuple(done)
