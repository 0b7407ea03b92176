# SPDX-License-Identifier: Apache-2.0
"""A shadow strategy or policy: decides on the same samples as the agent, without any write.

The samples are taken under the agent's masks. So the shadow's first decision is real, but the
results of its trials cannot be seen.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Any

from iat_nova.agent.journal import Journal
from iat_nova.agent.policy_keeper import PolicyKeeper, Render
from iat_nova.common.last_good import LastGood
from iat_nova.common.untrusted import worded
from iat_nova.model import Decision, DomainInventory, Facts, Hold, HostFacts, Parameters, Sample
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Code
from iat_nova.policy import Classified, Policy, holds
from iat_nova.store import records
from iat_nova.store.records import ShadowDomain
from iat_nova.strategies.api import Strategy, decide

Make = Callable[[Parameters], Strategy]


class ShadowPolicy(PolicyKeeper):
    """The shadow's own policy: the first `look` reads the file `path` with `read`.

    Errors of this policy do not stop the agent.

    `known`: a valid policy was read. Before that, `policy` is `stand_in`, which must not be used.
    """

    def __init__(
        self,
        path: str,
        stand_in: Policy,
        read: Callable[[], Policy],
        render: Render,
        journal: Journal,
        changed: threading.Event,
    ) -> None:
        super().__init__(stand_in, read, render, journal, changed)
        self.path = path
        self.known = False
        self.ask()

    def _stale(self, host: HostFacts) -> bool:
        return self.known and super()._stale(host)

    def _refuse(self, host: HostFacts, error: Exception) -> None:
        self._refused_for = host
        code = "shadow-policy-kept" if self.known else "shadow-policy-unusable"
        problem = message(code, error=as_message(error))
        self._journal.problem(Code.SHADOW_POLICY_INVALID, problem)

    def _take(self, host: HostFacts, policy: Policy) -> None:
        self.policy, self.known, self._refused_for = policy, True, None
        self._journal.solved(Code.SHADOW_POLICY_INVALID, message("shadow-policy-valid"))


class ShadowStrategy:
    """The shadow strategy and its decisions so far. `since_s`: start, by the wall clock.

    `policy`: the shadow's own policy; None: the policy in force, with its `parameters`.
    """

    def __init__(
        self,
        name: str,
        make: Make,
        parameters: Parameters,
        since_s: float,
        policy: ShadowPolicy | None = None,
    ) -> None:
        self._make = make
        self._take(parameters)
        self._states: dict[int, Any] = {}
        self._policy = policy
        self._classified = LastGood("the shadow's tenants", Classified({}, {}, (), {}))
        self._inventories: dict[int, DomainInventory] = {}  # by its own policy
        self.now = records.Shadow(name, since_s, policy=policy.path if policy else None)

    def use(self, parameters: Parameters) -> None:
        """Use new parameters from now on, unless the shadow has its own policy.

        Raises `StrategyError`.
        """
        if self._policy is None:
            self._take(parameters)

    def ask(self) -> None:
        """Request a new reading of the shadow's policy; callable from any thread."""
        if self._policy is not None:
            self._policy.ask()

    def see(self, facts: Facts, asked: Iterable[Hold], wall_s: float) -> Message | None:
        """Classify a new inventory by the shadow's own policy; return the problem, or None."""
        if self._policy is None:
            return None
        self._policy.look(facts.host, lambda policy: self._begin(policy, wall_s))
        if not self._policy.known:
            return None
        policy, io = self._policy.policy, self._classified.value.io
        classified = self._classified.update(lambda: policy.classify(facts, io))
        domains, _ = holds.apply(classified.domains, asked)
        for number, seen in domains.items():
            if self._inventories.get(number) != seen:
                self._inventories[number] = seen
        last = self._classified
        if last.error is None:
            return None
        return message("last-good-kept", what=last.what, error=last.error)

    def look(
        self, inventory: DomainInventory, sample: Sample, actual: Decision, now_s: float
    ) -> Message | None:
        """Decide on a sample after the agent's decision `actual`; return the problem, or None.

        No error of the shadow strategy passes this function, as in `Agent`.
        """
        number = inventory.domain.id
        if self._policy is not None:
            own = self._inventories.get(number)
            if own is None:  # the shadow's policy has not been read
                return None
            inventory = _as_resizable(own, inventory)
        try:
            before = self._states.get(number)
            strategy = self._own.get(number, self._strategy)
            _, after, decision = decide(strategy, before, inventory, sample, now_s)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see above
            return message("shadow-failed", domain=number, error=worded(error))
        self._states[number] = after
        known = self.now.domains.get(number)
        if known is None or decision.moved or actual.moved or known.layout != decision.layout:
            told = ShadowDomain(
                decision.layout,
                (known.moved if known else 0) + len(decision.moved),
                (known.moved_meanwhile if known else 0) + len(actual.moved),
            )
            domains = {**self.now.domains, number: told}
            self.now = dataclasses.replace(self.now, domains=domains)
        return None

    def _begin(self, policy: Policy, wall_s: float) -> None:
        """Begin with a new policy; earlier decisions of the shadow do not count any more."""
        assert self._policy is not None
        if self._policy.known and policy.same(self._policy.policy):
            return
        self._take(policy.parameters)
        self.now = dataclasses.replace(self.now, since_s=wall_s, domains={})

    def _take(self, parameters: Parameters) -> None:
        strategy = self._make(parameters)
        own = {number: self._make(one) for number, one in parameters.domains.items()}
        self._strategy, self._own = strategy, own


def _as_resizable(own: DomainInventory, actual: DomainInventory) -> DomainInventory:
    """Return the shadow's inventory with the agent's finding on whether DDIO can be resized."""
    if own.domain.ddio_resizable == actual.domain.ddio_resizable:
        return own
    domain = dataclasses.replace(own.domain, ddio_resizable=actual.domain.ddio_resizable)
    return dataclasses.replace(own, domain=domain)
