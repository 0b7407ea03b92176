# SPDX-License-Identifier: Apache-2.0
"""A host without the agent, as a strategy: no masks, DDIO as found.

Every tenant may fill every way, as the default class allows after a start of the host. The strategy
decides nothing. The benefit of other strategies is measured against this strategy.
"""

from __future__ import annotations

import dataclasses

from iat_nova.model import (
    CacheDomain,
    Decision,
    DomainInventory,
    Group,
    Layout,
    Message,
    Parameters,
    Sample,
    WayMask,
    message,
)

NAME = "unmanaged"
DDIO_DEFAULT = 2  # ways; the hardware's default, if DDIO's mask cannot be read


@dataclasses.dataclass(frozen=True, slots=True)
class IterationCount:
    """Memory between iterations: only the number of iterations."""

    iteration: int = 0


class Unmanaged:
    """The strategy that leaves all ways to all tenants."""

    state_type = IterationCount
    phases = (NAME,)

    def __init__(self, parameters: Parameters | None = None) -> None:
        del parameters  # there is nothing to decide

    @staticmethod
    def thresholds(parameters: Parameters) -> tuple[Message, ...]:
        """Return the strategy's thresholds: none."""
        del parameters
        return ()

    def initial(
        self, inventory: DomainInventory, at_s: float, layout: Layout | None = None
    ) -> IterationCount:
        """Return the state before the first step."""
        del inventory, at_s, layout
        return IterationCount()

    def step(
        self, state: IterationCount, inventory: DomainInventory, sample: Sample
    ) -> tuple[IterationCount, Decision]:
        """Leave everything unchanged. `moved` stays empty: an arriving tenant has all ways."""
        after = IterationCount(state.iteration + 1)
        layout = layout_of(inventory)
        decision = Decision(
            domain=sample.domain,
            iteration=after.iteration,
            at_s=sample.taken_at_s,
            stable=True,
            phase_before=NAME,
            phase=NAME,
            rule=None,
            changes=(),
            steps=(),
            allocation=layout.allocation(one.id for one in inventory.tenants),
            layout=layout,
            moved=(),
            why=(message("ways-left-to-all"),),
        )
        return after, decision


def layout_of(inventory: DomainInventory) -> Layout:
    """Return the layout of a host without masks: one group with all ways, DDIO as found."""
    domain = inventory.domain
    tenants = tuple(tenant.id for tenant in inventory.tenants)
    groups = (Group(tenants, _everything(domain)),) if tenants else ()
    return Layout(_ddio(domain), groups, grouped=len(tenants) > 1)


def _everything(domain: CacheDomain) -> WayMask:
    if domain.sparse_masks:
        return WayMask(((1 << domain.ways) - 1) & ~domain.reserved_ways)
    return domain.open_ways


def _ddio(domain: CacheDomain) -> WayMask:
    if domain.ddio_found is not None:
        return domain.ddio_found
    return WayMask.span(domain.ways - DDIO_DEFAULT, DDIO_DEFAULT)
