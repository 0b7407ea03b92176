# SPDX-License-Identifier: Apache-2.0
"""Undo of changes: every step is undone, even if another step is refused."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from iat_nova.hardware.api import DomainOffline, HardwareError, joined
from iat_nova.hardware.kernel.shape import Shape
from iat_nova.model import Message, message

_Item = TypeVar("_Item")

Step = Callable[[], None]
"""A function that undoes one change. Raises `HardwareError`."""


PARTIAL = "partial"
"""The key by which a part marks settings that were out of reach, and so are not all of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class Reach:
    """Saved settings, divided into settings to restore `now` and `later`; None: no settings.

    `places`: messages on the later settings, with the reasons why these are out of reach.
    """

    now: Any
    later: Any = None
    places: tuple[Message, ...] = ()


class Restorable(Protocol):
    """A part of the hardware that the snapshot saves and restores."""

    @property
    def shape(self) -> Shape:
        """The schema that a saved value must satisfy before use."""

    def save(self) -> Any:
        """Return, as plain JSON values, the settings for `restore`."""

    def reachable(self, saved: Any) -> Reach:
        """Divide saved settings by whether these can be restored now."""

    def restore(self, saved: Any) -> tuple[Message, ...]:
        """Restore all settings; return a message for each changed setting.

        Every setting is read first, and written only if different. So a second call verifies the
        first call, and returns messages on settings that did not keep the restored value.
        """


@runtime_checkable
class Growing(Protocol):
    """A part with settings of other programs, which may change after the agent's first save."""

    def grown(self, extended: Any, now: Any) -> Any:
        """Return the `extended` saved settings together with new settings of other programs."""


@runtime_checkable
class Noting(Protocol):
    """A part that records which settings this process wrote, so that only these are restored."""

    def written(self, saved: Any) -> Any:
        """Return the saved settings that this process has written; None for no setting.

        An operator may have changed other settings since. A restore would undo these changes.
        """


class AllReachable:
    """A part whose settings are always in reach, or lost while CPUs are offline."""

    def reachable(self, saved: Any) -> Reach:
        """Return all saved settings as settings to restore now; see `Restorable`."""
        return Reach(saved)


class SavedKeys:
    """The CPUs or cache domains with saved settings. The agent writes to no others.

    A CPU that comes online after the last save could not be restored, so it has to wait for the
    next save. Without any save (a tool, a machine in memory) all may be written.
    """

    def __init__(self) -> None:
        self._keys: frozenset[int] | None = None

    def renew(self, keys: Collection[int | str] | None) -> None:
        """Take exactly these keys as saved; None: every key."""
        self._keys = None if keys is None else frozenset(map(int, keys))

    def has(self, key: int) -> bool:
        """Return whether a key may be written."""
        return self._keys is None or key in self._keys

    def check(self, domain: int) -> None:
        """Raise `DomainOffline` for a domain that was offline at the last saving."""
        if not self.has(domain):
            raise DomainOffline(domain)


@contextlib.contextmanager
def undoing() -> Iterator[list[Step]]:
    """Collect undo steps of the changes in this context; after an error, run the latest first.

    The error is raised again, with the failures of undo steps.
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
    """Restore every item, also after a refusal; return the messages of `put_back`.

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
