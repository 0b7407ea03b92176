# SPDX-License-Identifier: Apache-2.0
"""The policy in force: read again on request, rendered again when the host's facts change.

Both run in a separate thread; a late result is used when available. Rendering uses the text that
was read last: a file under edit is not used before an operator requests a reading.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from iat_nova.agent.journal import Journal
from iat_nova.common.deadline import Deadline
from iat_nova.common.untrusted import worded
from iat_nova.model import HostFacts, verbatim
from iat_nova.model.message import as_message, message
from iat_nova.model.reasons import Code
from iat_nova.policy import Policy, PolicyError
from iat_nova.strategies.registry import StrategyError

LOG = logging.getLogger(__name__)

POLICY_S = 0.2  # the loop's maximum wait for a new policy; later results are used as well

Render = Callable[[Policy, HostFacts], Policy]


class PolicyKeeper:
    """The policy in force.

    `read` reads the file, on request. `render` renders the last text again when the host's facts
    change; None: the text is never rendered again.
    Both may raise `PolicyError`. `changed` is set when a result or a request waits. `refused`: the
    policy that was read last is invalid and not in force.
    """

    def __init__(
        self,
        policy: Policy,
        read: Callable[[], Policy],
        render: Render | None,
        journal: Journal,
        changed: threading.Event,
    ) -> None:
        self.policy = policy
        self.refused = False
        self._read = read
        self._render = render
        self._journal = journal
        self._changed = changed
        self._asked = threading.Event()
        self._question: Deadline[Policy] = Deadline(POLICY_S, changed.set)
        self._reading = False  # otherwise rendering
        self._refused_for: HostFacts | None = None  # facts for which rendering failed

    def ask(self) -> None:
        """Request a new reading of the policy at the next `look`; callable from any thread."""
        self._asked.set()
        self._changed.set()

    def look(self, host: HostFacts, use: Callable[[Policy], None]) -> None:
        """Put a new policy into force if available; keep the previous policy if invalid.

        `use` puts the policy into force and may raise `StrategyError`.
        """
        if not self._question.asked:
            if not (self._asked.is_set() or self._stale(host)):
                return
            self._reading = self._asked.is_set()
            self._asked.clear()
        try:
            policy = self._question.ask(self._call(host))
            if self._reading or not policy.same(self.policy):
                use(policy)
        except TimeoutError:
            return
        except (PolicyError, StrategyError) as error:
            self._refuse(host, error)
        except Exception as error:
            # The boundary for unknown errors of a policy, as in `last_good`: the loop goes on.
            LOG.exception("the policy cannot be read")
            self._refuse(host, PolicyError.of(verbatim(worded(error)), source=self.policy.source))
        else:
            self._take(host, policy)
        if self._asked.is_set():  # while this answer was waited for
            self._changed.set()

    def _stale(self, host: HostFacts) -> bool:
        """Tell whether the policy was rendered for facts that differ from the present facts."""
        if self._render is None or host == self._refused_for:
            return False
        return bool(self.policy.changed_facts(host))

    def _call(self, host: HostFacts) -> Callable[[], Policy]:
        if self._reading or self._render is None:
            return self._read
        policy, render = self.policy, self._render
        return lambda: render(policy, host)

    def _count(self) -> None:
        """Count a reading, unless a later request waits: the file may have changed in between."""
        if not self._asked.is_set():
            self._journal.policy_read()

    def _refuse(self, host: HostFacts, error: Exception) -> None:
        if self._reading:
            self.refused = True
            self._count()
            problem = message("policy-reload-failed", error=as_message(error))
        else:
            self._refused_for = host
            facts = self.policy.changed_facts(host)
            problem = message("policy-facts-refused", facts=facts, error=as_message(error))
        self._journal.problem(Code.POLICY_INVALID, problem)

    def _take(self, host: HostFacts, policy: Policy) -> None:
        before = self.policy
        self.policy, self.refused, self._refused_for = policy, False, None
        self._journal.solved(Code.POLICY_INVALID, message("policy-valid"))
        if self._reading:
            self._count()
            self._journal.tell(message("policy-reloaded"))
        elif not policy.same(before):
            facts = before.changed_facts(host)
            self._journal.tell(message("policy-rendered-again", facts=facts))
