# SPDX-License-Identifier: Apache-2.0
"""The lines of our resctrl groups other than L3: the default group's lines, and our limits.

MB, SMBA and L2 of our groups are copies from the default group, so that an operator's limits apply
to every CPU. If we limit a group's memory bandwidth, the lower limit is written. The default
group's own lines are never written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, ResctrlFs
from iat_nova.hardware.cat.resctrl_memory import ResctrlMemory
from iat_nova.hardware.kernel.rollback import Step
from iat_nova.model import Message, message


@dataclasses.dataclass
class GroupLines:
    """The other lines of our groups. Groups have numbers; `name` returns a group's name."""

    fs: ResctrlFs
    memory: ResctrlMemory
    name: Callable[[int], str]

    def begin(self, number: int) -> None:
        """Give a new group the default group's lines."""
        if self.memory.inherited is None:
            self.memory.inherited = self.fs.other_lines(DEFAULT_GROUP)
        self.memory.limits.pop(number, None)
        self.fs.set_other_lines(self.name(number), self.memory.inherited)

    def limit(self, number: int, domain: int, limit: int | None, undo: list[Step]) -> None:
        """Limit a group's memory bandwidth in a domain; None: by the default group's limit alone.

        An unchanged limit is not written.
        """
        before = self.memory.limits.get(number, {}).get(domain)
        if before != limit:
            self._put(number, domain, limit)
            undo.append(lambda: self._put(number, domain, before))

    def limited(self, domain: int) -> tuple[int, ...]:
        """Return the groups with a limit of ours in a domain."""
        return tuple(number for number, limits in self.memory.limits.items() if domain in limits)

    def _put(self, number: int, domain: int, limit: int | None) -> None:
        limits = {**self.memory.limits.get(number, {}), domain: limit}
        left = {where: one for where, one in limits.items() if one is not None}
        value = self._merged(left).get(domain)
        if value is not None and self.fs.bandwidth(self.name(number)).get(domain) != value:
            self.fs.set_bandwidth(self.name(number), domain, value)
        self.memory.limits[number] = left

    def _merged(self, limits: Mapping[int, int]) -> dict[int, int]:
        """Return a group's effective limits by domain: never above the default group's limit."""
        shown = self.fs.limits(self.memory.inherited or {}, DEFAULT_GROUP)
        return {domain: min(most, limits.get(domain, most)) for domain, most in shown.items()}

    def renew(self, domain: int, number: int) -> None:
        """Write a limit again that the kernel forgot while the domain was offline."""
        limit = self.memory.limits.get(number, {}).get(domain)
        if limit is not None:
            self._put(number, domain, limit)

    def changed(self) -> bool:
        """Return whether the default group's lines differ from the lines of our groups."""
        return self.fs.other_lines(DEFAULT_GROUP) != self.memory.inherited

    def follow(self, numbers: Iterable[int]) -> None:
        """Copy the default group's present lines, with our limits, to the groups `numbers`."""
        self.memory.inherited = self.fs.other_lines(DEFAULT_GROUP)
        for number in numbers:
            lines = dict(self.memory.inherited)
            merged = self._merged(self.memory.limits.get(number, {}))
            if merged:
                lines["MB"] = ";".join(f"{domain}={limit}" for domain, limit in merged.items())
            self.fs.set_other_lines(self.name(number), lines)

    def foreign(self, numbers: Iterable[int], domains: Collection[int]) -> list[Message]:
        """Return messages on our limits in these domains that another program changed."""
        told: list[Message] = []
        for number in numbers:
            limits = self.memory.limits.get(number, {})
            now = self.fs.bandwidth(self.name(number)) if limits else {}
            wrote = self._merged(limits)
            told += [
                message(
                    "group-limit-changed",
                    group=self.name(number),
                    domain=domain,
                    limit=now[domain],
                    wrote=wrote.get(domain),
                )
                for domain in limits
                if domain in domains and domain in now and now[domain] != wrote.get(domain)
            ]
        return told
