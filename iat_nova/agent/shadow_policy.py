# SPDX-License-Identifier: Apache-2.0
"""The shadow's own policy: kept like the policy in force; its errors do not stop the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable

from iat_nova.agent.journal import Journal
from iat_nova.agent.policy_keeper import PolicyKeeper, Render
from iat_nova.model import HostFacts
from iat_nova.model.message import as_message, message
from iat_nova.model.reasons import Code
from iat_nova.policy import Policy


class ShadowPolicy(PolicyKeeper):
    """The shadow strategy's policy: the first `look` reads the file `path` with `read`.

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
