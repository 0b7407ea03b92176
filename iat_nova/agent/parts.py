# SPDX-License-Identifier: Apache-2.0
"""The parts of an agent in one value: sources, policies, strategy, hardware and journal."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Protocol

from iat_nova.agent.hand_over import HandedOver, Succession
from iat_nova.agent.interlock import ALONE, Outside
from iat_nova.agent.journal import Journal
from iat_nova.agent.monitoring import TenantMonitor
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.agent.shadow import ShadowStrategy
from iat_nova.common.clock import Clock
from iat_nova.hardware.api import Counters
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.model import Facts, Hold, Message, Parameters, Pause
from iat_nova.model.reasons import Reason
from iat_nova.policy import Policy
from iat_nova.store.records import Placement
from iat_nova.strategies.api import Strategy


class FactsSource(Protocol):
    """The interface of an inventory. `changed` is set when `facts` may have changed."""

    changed: threading.Event

    def facts(self) -> Facts:
        """Return all facts of the host; never raises."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """The parts of an `Agent`.

    `policies` keeps the policy in force. `make_strategy` makes the strategy from the policy's
    parameters. `paused` returns an operator's pause at a time of the wall clock, or None. `holds`
    returns the operators' holds at such a time. `outside`: actions of other programs. `observe`
    forbids every write from the start. `placement` returns the offer to Placement with the possible
    offer of the host, and a message on any difference. `drift` returns differences between the
    files and the running policy and configuration. `monitor` counts each tenant's part of the LLC;
    None: no monitoring. `succession` hands over to the next agent; None: every end restores.
    `left`: the adopted state of the previous agent.
    """

    inventory: FactsSource
    policies: PolicyKeeper
    make_strategy: Callable[[Parameters], Strategy]
    counters: Counters
    enforcer: Enforcer
    journal: Journal
    clock: Clock
    paused: Callable[[float], Pause | None] = lambda wall_s: None
    holds: Callable[[float], tuple[Hold, ...]] = lambda wall_s: ()
    outside: Outside = ALONE
    observe: bool = False
    placement: Callable[[Policy, Facts], tuple[Placement | None, Message | None]] = (
        lambda policy, facts: (None, None)
    )
    drift: Callable[[Policy], tuple[Reason, ...]] = lambda running: ()
    shadow: ShadowStrategy | None = None
    monitor: TenantMonitor | None = None
    succession: Succession | None = None
    left: HandedOver | None = None
