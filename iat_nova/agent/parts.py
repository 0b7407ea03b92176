# SPDX-License-Identifier: Apache-2.0
"""The parts of an agent, in one value: what the loop reads, decides with, writes to and records."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Protocol

from iat_nova.agent.hand_over import Left, Succession
from iat_nova.agent.interlock import ALONE, Outside
from iat_nova.agent.journal import Journal
from iat_nova.agent.monitoring import TenantMonitor
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.agent.shadow import ShadowStrategy
from iat_nova.common.clock import Clock
from iat_nova.enforcement.enforcer import Enforcer
from iat_nova.hardware.api import Counters
from iat_nova.model import Facts, Hold, Message, Parameters, Pause
from iat_nova.model.reasons import Reason
from iat_nova.policy import Policy
from iat_nova.store.records import Placement
from iat_nova.strategies.api import Strategy


class FactsSource(Protocol):
    """An inventory as the loop needs it. `changed` is set when `facts` may have changed."""

    changed: threading.Event

    def facts(self) -> Facts:
        """Return a full picture of the host; never raises."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything an `Agent` works with.

    `policies` keeps the policy in force. `make_strategy` makes the strategy for its parameters.
    `paused` returns an operator's pause, if there is one. `holds` returns the guests that an
    operator holds, with their numbers of ways. `outside`: what other programs do. `observe` forbids
    every write from the start. `placement` returns what Placement offers beside what the host can
    keep, and how they differ. `drift` returns differences between the files and the running policy
    and configuration. `monitor` counts each tenant's part of the LLC; None: nothing does.
    `succession` hands over to the next agent; None: every end restores. `left`: the adopted state
    of the last agent.
    """

    inventory: FactsSource
    policies: PolicyKeeper
    make_strategy: Callable[[Parameters], Strategy]
    counters: Counters
    enforcer: Enforcer
    journal: Journal
    clock: Clock
    paused: Callable[[], Pause | None] = lambda: None
    holds: Callable[[], tuple[Hold, ...]] = tuple
    outside: Outside = ALONE
    observe: bool = False
    placement: Callable[[Policy, Facts], tuple[Placement | None, Message | None]] = (
        lambda policy, facts: (None, None)
    )
    drift: Callable[[Policy], tuple[Reason, ...]] = lambda running: ()
    shadow: ShadowStrategy | None = None
    monitor: TenantMonitor | None = None
    succession: Succession | None = None
    left: Left | None = None
