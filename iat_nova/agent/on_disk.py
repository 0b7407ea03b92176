# SPDX-License-Identifier: Apache-2.0
"""Comparison of the files of policy and configuration with the running agent.

Both may be edited or rolled out without being read. The agent takes a new policy on request, and a
new configuration at a restart. Until then the files differ from the agent's behaviour.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

from iat_nova.agent import policy_file
from iat_nova.common.kernel_files import status
from iat_nova.conf import ConfigError, Settings, load
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Code, Reason
from iat_nova.policy import Policy, PolicyError

Stamp = tuple[tuple[str, tuple[int, int, int] | None], ...]
"""Name, inode, size and time of change of each file; None: no file."""


class OnDisk:
    """Compare the files of configuration and policy with the running `settings` and policy.

    `named` returns the configuration files that a start would read now, and may raise `OSError`.
    """

    def __init__(self, settings: Settings, named: Callable[[], Sequence[str]]) -> None:
        self._settings = settings
        self._named = named
        self._stamp: Stamp | None = None
        self._config_unread: Reason | None = None

    def drift(self, running: Policy) -> tuple[Reason, ...]:
        """Return the differences between the files and the running agent; never raises."""
        return tuple(filter(None, (self._policy(running), self._config())))

    def _policy(self, running: Policy) -> Reason | None:
        path = self._settings.policy_file
        if path is None:
            return None
        try:
            if policy_file.read(path) == running.text:
                return None
        except PolicyError as error:
            unreadable = message("policy-unreadable", error=as_message(error))
            return Reason(Code.POLICY_UNREAD, unreadable)
        return Reason(Code.POLICY_UNREAD, message("policy-unread", path=str(path)))

    def _config(self) -> Reason | None:
        """Read the configuration again if one of its files changed, appeared or vanished."""
        try:
            names = self._named()
            stamp = tuple((name, _touched(name)) for name in names)
            if stamp != self._stamp:
                self._stamp, self._config_unread = stamp, self._compare(load(names))
        except (ConfigError, OSError) as error:
            return Reason(Code.CONFIG_UNREAD, message("config-invalid", error=as_message(error)))
        return self._config_unread

    def _compare(self, now: Settings) -> Reason | None:
        options = tuple(_others(self._settings, now))
        if not options:
            return None
        return Reason(Code.CONFIG_UNREAD, message("config-unread", options=options))


def _others(running: Settings, now: Settings) -> Iterator[Message]:
    for field in dataclasses.fields(running):
        was, is_now = getattr(running, field.name), getattr(now, field.name)
        if field.compare and was != is_now:
            yield message("option-differs", option=field.name, now=str(is_now), running=str(was))


def _touched(name: str) -> tuple[int, int, int] | None:
    found = status(name)
    return None if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)
