# SPDX-License-Identifier: Apache-2.0
"""Operators' holds of single tenants (`iat-nova hold`): applied, reported, and verified."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iat_nova.agent.journal import Journal
from iat_nova.common.clock import Clock
from iat_nova.model import DomainInventory, Hold, Layout
from iat_nova.model.message import as_message, message
from iat_nova.model.reasons import Code
from iat_nova.policy import holds


class Holding:
    """The requested holds, which override the policy's bounds.

    `asked` returns the holds at a time of the wall clock, and may raise `OSError`. `known`: the
    holds of the last `apply`.
    """

    def __init__(
        self, asked: Callable[[float], tuple[Hold, ...]], journal: Journal, clock: Clock
    ) -> None:
        self._asked = asked
        self._journal = journal
        self._clock = clock
        self.known: tuple[Hold, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the requested holds differ from the last applied holds."""
        return self._now() != self.known

    def apply(self, domains: Mapping[int, DomainInventory]) -> dict[int, DomainInventory]:
        """Return the inventories in which each tenant with a hold is bound to the held ways.

        A hold that does not fit is left out, and the reason is reported.
        """
        former, self.known = self.known, self._now()
        held, refused = holds.apply(domains, self.known)
        here = {one.key for seen in held.values() for one in seen.tenants if one.ways.held}
        for hold in former:
            if all(hold.tenant != one.tenant for one in self.known):
                over = message("hold-asked-no-more", name=hold.name)
                self._journal.solved(Code.HOLD_NOT_KEPT, over, hold.tenant)
        present = {tenant.key for seen in domains.values() for tenant in seen.tenants}
        for hold in self.known:
            if hold.tenant not in present and hold not in refused:
                over = message("hold-waits", name=hold.name)
                self._journal.solved(Code.HOLD_NOT_KEPT, over, hold.tenant)
        for hold, why in refused.items():
            problem = message("hold-unreadable", error=why)
            if hold.ways:
                problem = message("hold-refused", name=hold.name, ways=hold.ways, cause=why)
            self._journal.problem(Code.HOLD_NOT_KEPT, problem, hold.tenant)
        self._journal.holds(tuple(one for one in self.known if one.tenant in here))
        return held

    def verify(self, inventory: DomainInventory, layout: Layout) -> None:
        """Report each held tenant whose layout differs from the hold."""
        if not self.known:
            return
        for tenant in inventory.tenants:
            if not tenant.ways.held:
                continue
            problem = holds.kept(tenant, layout)
            if problem is not None:
                problem = message("hold-not-kept", name=tenant.name, cause=problem)
            over = message("hold-kept", name=tenant.name)
            self._journal.note(Code.HOLD_NOT_KEPT, problem, over, tenant.key)

    def _now(self) -> tuple[Hold, ...]:
        """Return the requested holds; while unreadable, report that and return the last holds."""
        requested, problem = self.known, None
        try:
            requested = self._asked(self._clock.wall())
        except OSError as error:
            problem = message("hold-unreadable", error=as_message(error))
        self._journal.note(Code.HOLD_NOT_KEPT, problem, message("holds-readable"))
        return requested
