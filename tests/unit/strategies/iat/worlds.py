# SPDX-License-Identifier: Apache-2.0
"""Small worlds for the controller's tests: tenants, samples, a story told second by second."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.model import (
    CacheDomain,
    Decision,
    DeviceModel,
    DomainInventory,
    Layout,
    Parameters,
    Priority,
    Rates,
    Sample,
    Tenant,
    TenantKind,
    WayRequest,
)
from iat_nova.strategies.iat.controller import Controller
from iat_nova.strategies.iat.presets import PRESETS, Features
from iat_nova.strategies.iat.state import IatState
from tests.unit.build import domain, tenant

M = 1e6


def stack(ways: int = 2, most: int = 11) -> Tenant:
    """The virtual switch."""
    return tenant(
        "vswitch", 0, 1, id="stack", kind=TenantKind.STACK, priority=Priority.STACK, io=True,
        ways=WayRequest(1, ways, most), model=DeviceModel.AGGREGATION,
    )  # fmt: skip


def guest(
    name: str,
    priority: Priority = Priority.BE,
    ways: int = 2,
    io: bool = False,
    model: DeviceModel | None = None,
    least: int = 1,
    most: int = 11,
) -> Tenant:
    """A guest; an I/O guest owns a VF unless told otherwise."""
    if model is None:
        model = DeviceModel.SLICING if io else DeviceModel.NONE
    asked = WayRequest(least, ways, most)
    return tenant(name, 2, 3, priority=priority, io=io, ways=asked, model=model)


def host(ways: int = 1) -> Tenant:
    """Every CPU that nobody is known to own."""
    return tenant("host", 8, 9, kind=TenantKind.HOST, ways=WayRequest(1, ways, 11))


def rates(references: float = 5 * M, misses: float = 1 * M, ipc: float = 1.0) -> Rates:
    """What a tenant's CPUs did, at 2.3 G cycles a second."""
    return Rates(ipc * 2.3e9, 2.3e9, references, misses)


QUIET = rates()


def exception_of(decision: Decision) -> int | None:
    """Return the number of the paper's exception that a decision names."""
    told = [one for one in decision.why if one.code.startswith("exception-")]
    return int(told[0].values["number"]) if told else None


class Story:
    """A controller stepped once a second; what a second does not mention stays as it was."""

    def __init__(
        self,
        tenants: tuple[Tenant, ...],
        *,
        ways: CacheDomain | None = None,
        features: Features = PRESETS["iat"],
        parameters: Parameters | None = None,
        layout: Layout | None = None,
        **first: Rates,
    ) -> None:
        self.controller = Controller(parameters or Parameters(), features)
        self.inventory = DomainInventory(ways or domain(), tenants)
        self.at_s = 0.0
        self.rates: dict[str, Rates] = {t.id: QUIET for t in tenants} | first
        self.hits: float | None = 20 * M
        self.misses: float | None = 0.5 * M
        self.state: IatState = self.controller.initial(self.inventory, self.at_s, layout)
        self.decision: Decision
        self.decisions: list[Decision] = []

    def sample(self) -> Sample:
        """What the counters say now."""
        return Sample(0, self.at_s, 1.0, dict(self.rates), self.hits, self.misses)

    def second(
        self,
        changed: Mapping[str, Rates] | None = None,
        *,
        hits: float | None = None,
        misses: float | None = None,
        seconds: float = 1.0,
    ) -> Decision:
        """Let a second pass with these new rates; return what was decided."""
        self.at_s += seconds
        self.rates.update(changed or {})
        self.hits = self.hits if hits is None else hits
        self.misses = self.misses if misses is None else misses
        self.state, self.decision = self.controller.step(self.state, self.inventory, self.sample())
        self.decisions.append(self.decision)
        assert self.decision.iteration == len(self.decisions)
        return self.decision

    def settled(self) -> Story:
        """Lay out and let the iteration after it pass."""
        self.second()
        self.second()
        assert self.second().stable, self.decision
        return self

    def tenants(self, *tenants: Tenant) -> None:
        """Hand in other tenants from now on; newcomers are quiet."""
        self.inventory = DomainInventory(self.inventory.domain, tenants)
        self.rates = {t.id: self.rates.get(t.id, QUIET) for t in tenants}

    def retell(self, **of_domain: object) -> None:
        """Change facts of the cache domain."""
        changed = dataclasses.replace(self.inventory.domain, **of_domain)  # type: ignore[arg-type]
        self.inventory = dataclasses.replace(self.inventory, domain=changed)

    def ways(self, tenant: str) -> int:
        """How many ways a tenant holds now."""
        return self.state.allocation.tenants[tenant]

    @property
    def ddio(self) -> int:
        """How many ways DDIO holds now."""
        return self.state.allocation.ddio_ways

    @property
    def sharing(self) -> tuple[str, ...]:
        """Who overlaps DDIO now."""
        return self.decision.layout.overlaps_ddio
