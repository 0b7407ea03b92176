# SPDX-License-Identifier: Apache-2.0
"""Ports of the emulated server: each card and disk may have ways of its own (Intel I/O RDT)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from iat_nova.experiments.engine import cache
from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.hardware.api import DEFAULT_CLASS
from iat_nova.hardware.cat import limits
from iat_nova.model import PortGroup, WayMask


def rows(scenario: Scenario) -> Mapping[str, int]:
    """Return the row of `Caches.forbidden` of each port, by id; empty without I/O RDT."""
    ids = (port.id for domain in scenario.domains for port in domain.device_ports)
    return dict(zip(ids, range(cache.MASKS + scenario.machine.cpu_count, 1 << 16), strict=False))


def target(scenario: Scenario, address: str | None) -> int:
    """Return where a device writes if DCA is on, as `cache.dma_write` takes the destination."""
    return 1 + rows(scenario).get(address or "", cache.DDIO)


class PlacedPorts:
    """`hardware.api.PortWays` of an emulated server.

    `caches` returns the caches of a domain. `classes`: masks of the tenants' classes, by domain and
    name; these leave fewer classes of service to ports.
    """

    def __init__(
        self,
        scenario: Scenario,
        caches: Callable[[int], cache.Caches],
        classes: Mapping[int, Mapping[str, WayMask]],
    ) -> None:
        self._scenario = scenario
        self._caches = caches
        self._classes = classes
        self._masks: dict[int, dict[str, WayMask]] = {}  # by domain and port

    def place(self, domain: int, groups: tuple[PortGroup, ...]) -> Mapping[str, WayMask]:
        """Give ports ways of their own; the other ports of the domain have DDIO's."""
        found = limits.find(self._scenario.domains, domain)
        named = sum(name != DEFAULT_CLASS for name in self._classes[domain])
        limits.check_ports(found, groups, named)
        self._masks[domain] = {
            port: limits.effective(found, group.mask) for group in groups for port in group.ports
        }
        self.follow_ddio(domain)
        return self.placed(domain)

    def placed(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of ports with ways of their own."""
        return dict(self._masks.get(domain, {}))

    def follow_ddio(self, domain: int) -> None:
        """Give the ports without ways of their own DDIO's present ways."""
        caches = self._caches(domain)
        masks, ddio = self.placed(domain), cache.mask_of(caches, cache.DDIO)
        for port, row in rows(self._scenario).items():
            cache.set_mask(caches, row, masks.get(port, ddio))
