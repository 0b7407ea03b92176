# SPDX-License-Identifier: Apache-2.0
"""Cache pressure of one iteration, for metrics, status and report: see `strategies.pressure`."""

from __future__ import annotations

from collections.abc import Mapping

from iat_nova.model import DDIO, DomainInventory, Priority, WayMask
from iat_nova.store.records import Iteration
from iat_nova.strategies import pressure, prospect
from iat_nova.strategies.outlook import EXHAUSTED, UNDECIDED
from iat_nova.strategies.pressure import CycleLoss, Fill
from iat_nova.strategies.prospect import Prospect

PLACES = {Priority.PC: "critical", Priority.BE: "best effort"}
"""How a table names a new guest of each priority."""


def losses(inventory: DomainInventory, iteration: Iteration) -> dict[str, CycleLoss]:
    """Return by tenant id the share of cycles that a tenant loses to other tenants.

    Tenants that are idle or not measured are left out.
    """
    masks = _masks(inventory, iteration)
    return pressure.losses(inventory, iteration.sample, masks, iteration.shown)


def fills(inventory: DomainInventory, iteration: Iteration) -> dict[str, Fill]:
    """Return the share of the LLC that each tenant fills, by tenant id."""
    return pressure.fills(inventory, iteration.sample, _masks(inventory, iteration))


def worth(inventory: DomainInventory, iteration: Iteration) -> Prospect | None:
    """Return the estimated gain of a cache domain's critical guests if the agent enforced.

    None while the agent writes, and without awake critical guests.
    """
    if iteration.effective is not None:
        return None
    return prospect.together(prospect.prospects(inventory, iteration.sample).values())


def worth_words(found: Prospect) -> str:
    """Return an estimated gain as text, with the upper bound and the certainty."""
    sure = f"cost of a miss known for {found.known} of {found.guests} critical guests"
    return f"likely {found.likely:.1%} (at most {found.most:.0%}; {sure})"


def newcomers(inventory: DomainInventory, iteration: Iteration) -> dict[Priority, float]:
    """Return the ways that a newcomer of each priority would find; empty if not known."""
    return pressure.newcomers(inventory, iteration.sample, _masks(inventory, iteration))


def exhausted(iteration: Iteration) -> bool | None:
    """Return whether the strategy has no move left; None if not known."""
    known = iteration.outlook not in UNDECIDED
    return iteration.outlook in EXHAUSTED if known else None


def _masks(inventory: DomainInventory, iteration: Iteration) -> Mapping[str, WayMask]:
    """Return the masks on the hardware. Without a write, every tenant may fill all ways."""
    if iteration.effective is not None:
        return iteration.effective
    everything = inventory.domain.open_ways
    masks = {tenant.id: everything for tenant in inventory.tenants}
    found = inventory.domain.ddio_found
    return masks if found is None else {**masks, DDIO: found}
