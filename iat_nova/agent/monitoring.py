# SPDX-License-Identifier: Apache-2.0
"""LLC occupancy and memory traffic of tenants: a monitoring group per tenant, kept up to date.

Groups exist only while the agent's masks are on the hardware: an observing agent changes nothing.
Groups are checked again after each change of masks or tenants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from iat_nova.agent.journal import Journal
from iat_nova.common.clock import Clock
from iat_nova.common.retry import Retry
from iat_nova.hardware.api import FAILURES, Counts
from iat_nova.hardware.counters.monitor import Monitor
from iat_nova.hardware.host.machine import TenantsAndPorts
from iat_nova.model import DomainInventory
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Code

TenantMonitor = Monitor | TenantsAndPorts


class Following:
    """Keep a monitor's groups on the tenants' CPUs; `excuses` is `Interlock.excuses`.

    A restore removes the groups.
    """

    def __init__(
        self,
        monitor: TenantMonitor,
        journal: Journal,
        clock: Clock,
        excuses: Callable[[str], bool] = lambda event: False,
    ) -> None:
        self._excuses = excuses
        self._monitor = monitor
        self._journal = journal
        self._clock = clock
        self._retry = Retry()
        self._seen: tuple[int | DomainInventory, ...] = ()

    def added_to(self, counts: Counts) -> Counts:
        """Return a reading of the counters, with the tenants' counts if these can be read."""
        try:
            return dataclasses.replace(counts, monitored=self._monitor.read())
        except FAILURES as error:
            self._failed(error)
            return counts

    def follow(self, inventories: Mapping[int, DomainInventory], writes: int) -> None:
        """Check the groups if masks were written since the last call, or tenants changed.

        `writes` grows with each write of masks; 0 while no mask of the agent is on the hardware.
        """
        now: tuple[int | DomainInventory, ...] = (writes, *inventories.values())
        if now == self._seen or not self._retry.is_due(self._clock.now()):
            return
        try:
            if writes:
                self._monitor.watch(inventories)
            else:
                self._monitor.close()
        except FAILURES as error:
            if self._excuses("cpus-moved-monitoring"):
                return
            self._failed(error)
            return
        self._seen = now
        if self._monitor.full is not None:
            self._failed(self._monitor.full)
        else:
            self._tell(None)

    def _failed(self, error: Message | Exception) -> None:
        """Report that tenants are not monitored, and check the groups again after a pause."""
        self._seen = ()
        self._retry.failed(self._clock.now())
        self._tell(message("not-monitored", error=as_message(error)))

    def _tell(self, problem: Message | None) -> None:
        self._journal.note(Code.NOT_MONITORED, problem, message("monitored"))
