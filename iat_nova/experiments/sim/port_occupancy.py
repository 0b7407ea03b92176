# SPDX-License-Identifier: Apache-2.0
"""How much of the LLC the lines of each port's device fill (RMIDs of I/O RDT)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from iat_nova.experiments.sim import nvme, ports, rings
from iat_nova.experiments.sim.cachestate import SHARED, UNREAD
from iat_nova.experiments.sim.machine import LINE_BYTES
from iat_nova.experiments.sim.plant import Plant
from iat_nova.hardware.api import TenantCounts


class PortOccupancy:
    """The LLC occupancy of each port, as an RMID of each port would count it.

    A line counts for the port whose device wrote it last, until a core takes the line alone. Empty
    without I/O RDT. Memory traffic by port is not emulated.
    """

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        found = sorted(_stretches(plant)) if ports.rows(plant.scenario) else []
        self._starts = np.array([start for start, _, _ in found], np.int64)
        self._ends = np.array([end for _, end, _ in found], np.int64)
        self._ports = [port for _, _, port in found]

    def read(self) -> Mapping[tuple[int, str], TenantCounts]:
        """Return the present occupancy by cache domain and port."""
        sampling = self._plant.scenario.sampling
        found: dict[tuple[int, str], TenantCounts] = {}
        for socket, domain in enumerate(self._plant.scenario.domains):
            known = [port.id for port in domain.device_ports]
            if not known:
                continue
            entries = self._plant.sockets[socket][0].llc[:, 0]
            lines = entries[(entries >= 0) & (entries & (UNREAD | SHARED) > 0)] >> 3
            place = np.searchsorted(self._starts, lines, side="right") - 1
            place = place[(place >= 0) & (lines < self._ends[np.maximum(place, 0)])]
            counts = np.bincount(place, minlength=len(self._ports))
            held = dict.fromkeys(known, 0)
            for port, count in zip(self._ports, counts, strict=True):
                if port in held:
                    held[port] += int(count) * sampling * LINE_BYTES
            found |= {(domain.id, port): TenantCounts(held[port], None) for port in known}
        return found


def _stretches(plant: Plant) -> Iterator[tuple[int, int, str]]:
    """Yield the sampled lines that devices write: first, end, and the port's id."""
    scenario, state = plant.scenario, plant.state
    addresses = {card.name: card.address for card in scenario.nics}
    for workload in scenario.workloads:
        address, queues = addresses.get(workload.nic or ""), plant.queues.get(workload.name)
        if address is not None and queues:
            pool = state.rings.pools[state.rings.state[queues[0].receive, rings.POOL]]
            base, count = int(pool[rings.BASE]), int(pool[rings.COUNT])
            first, end = state.rings.first[base], state.rings.first[base + count]
            lines = state.rings.lines[first:end, 0]
            yield int(lines.min()), int(lines.max()) + 1, address
    for number, job in enumerate(state.disks.jobs):
        if not job[nvme.BLOCK_PAGES]:
            continue  # no job at all
        length = int(job[nvme.BLOCK_PAGES]) * nvme.PAGE_LINES // scenario.sampling
        blocks = state.disks.commands[state.disks.commands[:, nvme.JOB] == number, nvme.LINE]
        start, disk = int(blocks.min()), scenario.disks[int(job[nvme.DISK])]
        yield start, start + len(blocks) * length, disk.address
