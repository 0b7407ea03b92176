# SPDX-License-Identifier: Apache-2.0
"""A host that never changes, for benches: clock, inventory, tenants and policy."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from iat_nova.agent.journal import Journal
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.model import (
    CacheDomain,
    DeviceModel,
    DomainInventory,
    Facts,
    HostFacts,
    Parameters,
    Priority,
    Tenant,
    TenantKind,
    WayRequest,
)
from iat_nova.policy import Classified
from iat_nova.store.records import Status


class VirtualClock:
    """Virtual time: a second per iteration."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        """Return the virtual time in seconds."""
        return self.now_s

    def wall(self) -> float:
        """Return the time of day."""
        return time.time()

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        """Advance the time at once; return whether `wake` is set."""
        self.now_s += seconds
        return wake.is_set()


class SteadyInventory:
    """A host whose tenants never change."""

    def __init__(self, *domains: CacheDomain) -> None:
        self.changed = threading.Event()
        cpus = tuple(cpu for domain in domains for cpu in domain.cpus)
        self._facts = Facts(HostFacts("bench", domains, cpus), (), None)

    def facts(self) -> Facts:
        """Return the host without guests."""
        return self._facts


class SteadyPolicy:
    """The bench's tenants, the same for all facts."""

    warnings = ()

    def __init__(self, parameters: Parameters, *inventories: DomainInventory) -> None:
        self._inventories = {one.domain.id: one for one in inventories}
        self.parameters = parameters

    def classify(self, facts: Facts, io_before: Mapping[str, bool]) -> Classified:
        """Return the tenants."""
        return Classified(self._inventories, {}, (), {})


def steady(policy: Any, journal: Journal, changed: threading.Event) -> PolicyKeeper:
    """Return a keeper that leaves the bench's policy in force."""
    return PolicyKeeper(policy, lambda: policy, None, journal, changed)


def emulated_tenant(number: int, cpus: tuple[int, ...]) -> Tenant:
    """Return the stack (number 0) or a guest (any other number)."""
    stack = number == 0
    io = stack or number % 4 in (1, 2)
    priority = Priority.PC if number % 4 in (1, 3) else Priority.BE
    return Tenant(
        id="stack" if stack else f"00000000-0000-4000-8000-{number:012d}/{number}",
        name="vswitch" if stack else f"guest{number}",
        kind=TenantKind.STACK if stack else TenantKind.GUEST,
        priority=Priority.STACK if stack else priority,
        io=io,
        cpus=cpus,
        ways=WayRequest(1, 2 if stack else 1, 11),
        model=DeviceModel.SLICING if io and not stack else DeviceModel.NONE,
    )


def emulated_status(strategy: str, parameters: Parameters) -> Status:
    """Return the status of a bench's agent."""
    return Status(
        mode="enforce",
        pid=os.getpid(),
        version="bench",
        strategy=strategy,
        interval_s=parameters.interval_s,
        started_s=0.0,
        parameters=parameters,
    )
