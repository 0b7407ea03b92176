# SPDX-License-Identifier: Apache-2.0
"""Taking back what was done: all of it, also where one step is refused."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from iat_nova.hardware.api import HardwareError, joined
from iat_nova.hardware.shape import Shape
from iat_nova.model import Message, message

_Item = TypeVar("_Item")

Step = Callable[[], None]
"""Takes one change back. Raises `HardwareError`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """Saved settings, parted into those that can be restored `now` and `later`; None: nothing.

    `places` names the later ones, each with the reason why it is out of reach.
    """

    now: Any
    later: Any = None
    places: tuple[Message, ...] = ()


class Restorable(Protocol):
    """A part of the hardware that the snapshot saves and puts back."""

    @property
    def shape(self) -> Shape:
        """What must hold of what `save` returned before it is used."""

    def save(self) -> Any:
        """Return, as plain JSON values, what `restore` needs."""

    def reachable(self, saved: Any) -> Reach:
        """Part what was saved by whether it can be restored now."""

    def restore(self, saved: Any) -> tuple[Message, ...]:
        """Put everything back and tell what was done; nothing when it is back already.

        Every setting is read first, and written only if it differs. So a second call reads back
        what the first one wrote, and returns the settings that did not stay.
        """


class AllReachable:
    """A part whose settings are always in reach, or gone for good, also while CPUs are offline."""

    def reachable(self, saved: Any) -> Reach:
        """See `Restorable`."""
        return Reach(saved)


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
                failed.append(second.message)
        if not failed:
            raise
        raise HardwareError(
            message("undo-failed", error=error.message, failures=tuple(failed)),
            message("run-restore"),
        ) from error


def put_all_back(
    items: Iterable[_Item], put_back: Callable[[_Item], Message | None]
) -> tuple[Message, ...]:
    """Put every item back, also after one was refused; return what `put_back` says it did.

    Raises one `HardwareError` with every refusal.
    """
    done: list[Message] = []
    refused: list[HardwareError] = []
    for item in items:
        try:
            said = put_back(item)
        except HardwareError as error:
            refused.append(error)
        else:
            done += [said] if said else []
    if refused:
        raise joined(refused)
    return tuple(done)
