# SPDX-License-Identifier: Apache-2.0
"""Bytes that devices write to each socket, by kind of device, as IIO's counters by port."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from iat_nova.experiments.engine import nic, nvme, rings
from iat_nova.experiments.scenarios.profiles import Form
from iat_nova.experiments.server.plant import Plant


class Inbound:
    """Running totals of the bytes of received packets and of disk reads.

    Packets that a ring dropped do not count. Call `update` before traffic changes, because a packet
    counts with the present size. The emulated disks count reads and writes together: the share of
    reads is computed from the workloads' settings.
    """

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._offered, self._dropped = self._packets()
        self._network = np.zeros(plant.scenario.machine.sockets)
        self._reads = _read_shares(plant)

    def update(self) -> None:
        """Count the packets that arrived since the last call."""
        if not len(self._offered):  # no traffic at all
            return
        streams, state = self._plant.state.nics.streams, self._plant.state.rings.state
        was_offered, was_dropped = self._offered, self._dropped
        self._offered, self._dropped = self._packets()
        packets = (self._offered - was_offered).astype(np.float64)
        ring = streams[:, nic.STREAM.ring]
        sent = np.bincount(ring, weights=packets, minlength=len(state))[ring]
        lost = (self._dropped - was_dropped)[ring]
        kept = 1.0 - np.divide(lost, sent, out=np.zeros_like(sent), where=sent > 0)
        arrived = packets * kept * streams[:, nic.STREAM.frame_bytes]
        np.add.at(self._network, state[ring, rings.RING.socket], arrived)

    def totals(self, up: float) -> Mapping[int, tuple[float, float]]:
        """Return bytes of storage (on socket 0) and of the network, times `up`, by cache domain."""
        moved = self._plant.state.disks.rates[: len(self._reads), nvme.RATES.moved_bytes]
        storage = float((moved * self._reads).sum())
        return {
            domain.id: (0.0 if socket else storage * up, float(self._network[socket]) * up)
            for socket, domain in enumerate(self._plant.scenario.machine.domains)
        }

    def _packets(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the packets that each stream has sent and that each ring has dropped so far."""
        state = self._plant.state
        return (
            state.nics.streams[:, nic.STREAM.offered].copy(),
            state.rings.state[:, rings.RING.dropped].copy(),
        )


def _read_shares(plant: Plant) -> npt.NDArray[np.float64]:
    """Return the share of reads among each disk's blocks: the mean of the disk's workloads."""
    shares: list[list[float]] = [[] for _ in plant.scenario.disks]
    numbers = {disk.name: number for number, disk in enumerate(plant.scenario.disks)}
    for workload in plant.scenario.workloads:
        if workload.profile.form is Form.STORAGE and workload.disk is not None:
            shares[numbers[workload.disk]].append(1.0 - workload.writes_percent / 100)
    return np.array([sum(found) / len(found) if found else 0.0 for found in shares])
