# SPDX-License-Identifier: Apache-2.0
"""Whether the agent may write, and if not, why: other owners of the cache, foreign hands, refusals.

Whatever the reason, the host is put back as it was found: masks that no longer follow the guests
fit them by chance only. While somebody else allocates cache nothing is written; that ends when
they have gone. After a foreign hand on what is ours, or a refused write, the agent only observes
until its next start: it puts back once and fights nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iat_nova.clock import Clock
from iat_nova.enforce import Enforcer, ForeignHand
from iat_nova.hardware.api import HardwareError
from iat_nova.journal import Journal
from iat_nova.model import Facts

Tell = Callable[[], tuple[str, ...]]
"""Looks, and tells what it found, one sentence each. May raise `HardwareError`."""


class Restraint:
    """Holds the reasons for which the loop only observes; called from its thread.

    `observe` forbids every write from the start; `owners` names who else allocates cache,
    `changes` what another hand did to what is ours.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        journal: Journal,
        clock: Clock,
        *,
        observe: bool = False,
        owners: Tell = tuple,
        changes: Tell = tuple,
    ) -> None:
        self._enforcer = enforcer
        self._journal = journal
        self._clock = clock
        self._owners = owners
        self._changes = changes
        self._reasons = {"mode": "mode = observe"} if observe else {}

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why nothing may be written, by cause; empty when it may."""
        return self._reasons

    def look(self, facts: Facts) -> None:
        """Look for other owners and foreign hands; put the host back where there are."""
        try:
            self._look(facts)
        except HardwareError as error:
            text = f"cannot see who else allocates cache here: {error}"
            self._journal.problem(self._clock.wall(), "look", text)
        else:
            self._journal.solved(self._clock.wall(), "look", "other owners can be seen again")

    def _look(self, facts: Facts) -> None:
        guests = ", ".join(sorted(guest.name for guest in facts.guests if guest.cachetune))
        reasons = {
            "cachetune": f"libvirt allocates cache to {guests} (cachetune)" if guests else "",
            "owners": "; ".join(self._owners()),
        }
        for cause, reason in reasons.items():
            if reason:
                self._only_observe(cause, reason)
            elif self._reasons.pop(cause, None):
                text = "the other owner of cache has gone"
                self._journal.solved(self._clock.wall(), cause, text)
        if not self._reasons:
            changes = (*self._changes(), *self._enforcer.foreign_ddio())
            if changes:
                self._yield_to_hand("; ".join(changes))
        if self._reasons and self._enforcer.wrote:
            self.restore()  # tried again at each look while it fails

    def refused(self, error: HardwareError) -> None:
        """Put the host back and only observe from now on: a write was refused, or came between."""
        if isinstance(error, ForeignHand):
            self._yield_to_hand(str(error))
        else:
            self._only_observe("write", f"a write was refused (until the next start): {error}")
        self.restore()

    def _yield_to_hand(self, what: str) -> None:
        self._only_observe("foreign", f"another hand is at work (until the next start): {what}")

    def restore(self) -> None:
        """Put the hardware back; say what to do when that fails."""
        wrote = self._enforcer.wrote
        try:
            self._enforcer.restore()
        except HardwareError as error:
            text = f"the hardware could not be restored: {error}; run `iat-nova restore`"
            self._journal.problem(self._clock.wall(), "restore", text)
        else:
            self._journal.solved(self._clock.wall(), "restore", "the hardware could be restored")
            if wrote:
                self._journal.tell(self._clock.wall(), "the host is as it was found")

    def _only_observe(self, cause: str, reason: str) -> None:
        self._reasons[cause] = reason
        self._journal.problem(self._clock.wall(), cause, f"only observing: {reason}")
