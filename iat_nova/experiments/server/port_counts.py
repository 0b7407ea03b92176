# SPDX-License-Identifier: Apache-2.0
"""LLC occupancy and memory traffic of each port's device (RMIDs of I/O RDT)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from iat_nova.experiments.engine.cache import SHARED, UNREAD, Caches
from iat_nova.experiments.machines.machine import LINE_BYTES, WriteTarget
from iat_nova.experiments.scenarios.scenario import DiskSpec, NicSpec
from iat_nova.experiments.server import ports
from iat_nova.experiments.server.noise import Noisy
from iat_nova.experiments.server.plant import Plant
from iat_nova.hardware.api import TenantCounts


class PortCounts:
    """The occupancy and the memory traffic of each port, as an RMID of each port would count them.

    A line counts for the port whose device wrote it last, until a core takes the line alone. Memory
    traffic: these lines when they are evicted to memory, and the lines that the device reads from
    memory. `scale`: real lines for each simulated line. `noise` is on the traffic. Empty without
    I/O RDT. If a port's device always writes to memory, the port's traffic is unknown.
    """

    def __init__(self, plant: Plant, scale: float, noise: Noisy) -> None:
        self._plant = plant
        self._scale = scale
        self._noise = noise
        self._ports = list(ports.rows(plant.scenario))

    def read(self) -> Mapping[tuple[int, str], TenantCounts]:
        """Return the counts by cache domain and port."""
        found: dict[tuple[int, str], TenantCounts] = {}
        for (caches, _), domain in zip(
            self._plant.sockets, self._plant.scenario.domains, strict=True
        ):
            if not domain.device_ports:
                continue
            held = self._held(caches)
            for port in (one.id for one in domain.device_ports):
                number = self._ports.index(port)
                counts = TenantCounts(held[number], self._moved(caches, number))
                found[domain.id, port] = counts
        return found

    def _held(self, caches: Caches) -> list[int]:
        """Return the bytes of each port's lines in an LLC."""
        entries, owned = caches.llc[:, 0], caches.owned
        lines = entries[(entries >= 0) & (entries & (UNREAD | SHARED) > 0)] >> 3
        place = np.searchsorted(owned[:, 0], lines, side="right") - 1
        place = place[(place >= 0) & (lines < owned[np.maximum(place, 0), 1])]
        counts = np.bincount(owned[place, 2], minlength=len(self._ports))
        return [int(count) * self._plant.scenario.sampling * LINE_BYTES for count in counts]

    def _moved(self, caches: Caches, number: int) -> int | None:
        """Return the bytes that a port has moved to and from memory; None: unknown."""
        scenario, port = self._plant.scenario, self._ports[number]
        devices: tuple[NicSpec | DiskSpec, ...] = (*scenario.nics, *scenario.disks)
        into_llc = all(one.dca for one in devices if one.address == port)
        if not into_llc or scenario.machine.io is not WriteTarget.DCA:
            return None
        moved = float(caches.moved[number]) * self._scale * LINE_BYTES
        return self._noise.read("port_memory_bytes", number, moved)
