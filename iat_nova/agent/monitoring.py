# SPDX-License-Identifier: Apache-2.0
"""What tenants have in the LLC, beside what their CPUs count: a group for each, kept where it is.

Groups are made only while masks of ours lie on the hardware: an agent that observes changes
nothing. They are looked at again whenever masks or tenants changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Protocol

from iat_nova.agent.journal import Journal
from iat_nova.common.clock import Clock
from iat_nova.common.retry import Retry
from iat_nova.hardware.api import Counters, Counts, HardwareError, TenantCounts
from iat_nova.hardware.cpu_watch import FIXED, Cpus
from iat_nova.model import DomainInventory
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Code


class TenantMonitor(Protocol):
    """What counts tenants, such as `hardware.monitor.Monitor`."""

    full: Message | None

    def watch(self, inventories: Mapping[int, DomainInventory]) -> None:
        """Count exactly these tenants. Raises `HardwareError`; nobody is counted then."""

    def read(self) -> Mapping[tuple[int, str], TenantCounts]:
        """Return what was counted."""

    def close(self) -> None:
        """Count nobody. Raises `HardwareError`."""


class Monitored:
    """`hardware.api.Counters` of which each reading has the tenants' counts as well."""

    def __init__(self, counters: Counters, monitor: TenantMonitor) -> None:
        self._counters = counters
        self._monitor = monitor
        self.close = counters.close  # the groups go with a restore

    def watch(self, cpus: Iterable[int]) -> None:
        """See `Counters`."""
        self._counters.watch(cpus)

    def read(self) -> Counts:
        """See `Counters`."""
        return dataclasses.replace(self._counters.read(), monitored=self._monitor.read())


class Following:
    """Keeps a monitor's groups where tenants' CPUs are; `cpus`: which of them came or went."""

    def __init__(
        self,
        monitor: TenantMonitor,
        journal: Journal,
        clock: Clock,
        cpus: Cpus = FIXED,
    ) -> None:
        self._cpus = cpus
        self._monitor = monitor
        self._journal = journal
        self._clock = clock
        self._retry = Retry()
        self._seen: tuple[int | DomainInventory, ...] = ()

    def follow(self, inventories: Mapping[int, DomainInventory], writes: int) -> None:
        """Look at the groups if masks were written since, or tenants changed.

        `writes` grows with each write of masks; 0 while none of ours lie on the hardware.
        """
        now: tuple[int | DomainInventory, ...] = (writes, *inventories.values())
        if now == self._seen or not self._retry.is_due(self._clock.now()):
            return
        try:
            if writes:
                self._monitor.watch(inventories)
            else:
                self._monitor.close()
        except HardwareError as error:
            if event := self._cpus.moved():
                self._journal.tell(message("cpus-moved-monitoring", event=as_message(event)))
                return
            self._retry.failed(self._clock.now())
            self._tell(error)
        else:
            self._seen = now
            if self._monitor.full is not None:
                self._seen = ()
                self._retry.failed(self._clock.now())
            self._tell(self._monitor.full)

    def _tell(self, error: Message | HardwareError | None) -> None:
        problem = None if error is None else message("not-monitored", error=as_message(error))
        self._journal.note(Code.NOT_MONITORED, problem, message("monitored"))
