# SPDX-License-Identifier: Apache-2.0
"""LLC occupancy and memory traffic of each tenant, by resctrl's monitoring groups.

Source: Linux, Documentation/filesystems/resctrl.rst (CMT, MBM). A tenant's CPUs are in a control
group, shared by all tenants of the class; a monitoring group beneath counts the tenant alone. When
the CPUs go to another class, a new group is made there. The new group's occupancy begins at zero,
because the kernel counts only lines brought into the cache under the new RMID.

RMIDs are few, and every control group needs one RMID: so one RMID per class is kept free. A
released RMID is free only after its data has left the cache, so recently released RMIDs count as
taken.

With assigned bandwidth counters (``mbm_event``: AMD's ABMC, Linux 6.18), counters are even fewer.
The kernel gives a new group one counter per event in every cache domain. A tenant keeps a single
counter: of all traffic, in the tenant's own domain.
"""

from __future__ import annotations

import dataclasses
import errno
import time
from collections.abc import Callable, Mapping

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import HardwareError, TenantCounts
from iat_nova.hardware.cat.resctrl_fs import (
    DEFAULT_GROUP,
    PORTS,
    PREFIX,
    ResctrlError,
    ResctrlFs,
)
from iat_nova.hardware.cat.resctrl_text import parse_limits
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import DomainInventory, Message, message

_INFO = "info/L3_MON"
LIMBO_S = 300.0  # until an RMID is assumed to be free again; only the kernel knows
OCCUPANCY, BANDWIDTH = "llc_occupancy", "mbm_total_bytes"

Key = tuple[int, str]
"""A tenant of a cache domain: the domain's number and the tenant's id."""


@dataclasses.dataclass(frozen=True, slots=True)
class Monitoring:
    """The offer of ``info/L3_MON``: events by their file names, and RMIDs.

    `counters`: number of bandwidth counters per cache domain that can be assigned to groups
    (mbm_event); None if every group is counted.
    """

    events: frozenset[str]
    rmids: int
    counters: int | None

    def described(self) -> Message:
        """Return the message on monitored events and RMIDs."""
        occupancy = (message("monitored-occupancy"),) if OCCUPANCY in self.events else ()
        traffic = (message("monitored-traffic"),) if BANDWIDTH in self.events else ()
        events = (*occupancy, *traffic)
        if not events:
            return message("tenants-unmonitored")
        if self.counters is None:
            return message("tenants-monitored", events=events, rmids=self.rmids)
        return message(
            "tenants-monitored-by-counters",
            events=events,
            rmids=self.rmids,
            counters=self.counters,
        )


def offered(fs: ResctrlFs) -> Monitoring | None:
    """Return the offer of monitoring, None without monitoring. Raises `HardwareError`."""
    if not files.exists(fs.root / _INFO):
        return None
    events = frozenset(fs.parsed(f"{_INFO}/mon_features", str.split))
    # A group needs an RMID of every monitored resource (telemetry: PERF_PKG_MON).
    resources = (name for name in files.names(fs.root / "info") if name.endswith("_MON"))
    numbers = (fs.number(f"info/{name}/num_rmids") for name in resources)
    rmids = min((number for number in numbers if number is not None), default=0)
    return Monitoring(events & {OCCUPANCY, BANDWIDTH}, rmids, _counters(fs))


def _counters(fs: ResctrlFs) -> int | None:
    """Return the number of bandwidth counters per cache domain, None without assignment."""
    mode = fs.parsed(f"{_INFO}/mbm_assign_mode", str, "")  # from Linux 6.18 on
    if "[mbm_event]" not in mode:
        return None
    return min(fs.parsed(f"{_INFO}/num_mbm_cntrs", parse_limits).values())


class Monitor:
    """A monitoring group for each tenant, beneath the control group of the tenant's CPUs.

    `full`: the reason why some or all tenants are not monitored; None if all are monitored. CPUs
    that another program monitors are not taken: their tenants are not monitored.
    """

    def __init__(
        self, fs: ResctrlFs, topology: Topology, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._fs = fs
        self._topology = topology
        self._now_s = now_s
        self._given_back_s: list[float] = []  # times of released RMIDs
        self._groups: dict[Key, str] = {}  # paths
        self._files: dict[Key, dict[str, str]] = {}
        self.full: Message | None = None

    def watch(self, inventories: Mapping[int, DomainInventory]) -> None:
        """Count exactly these tenants from now on, on their present CPUs.

        If there are not enough RMIDs for all tenants, no tenant is counted. If RMIDs were released
        recently, some tenants wait. In both cases `full` has the reason. Raises `HardwareError`;
        then no tenant is counted.
        """
        offer = offered(self._fs)
        if offer is None or not offer.events:
            return
        wanted = {
            (domain, tenant.id): frozenset(tenant.cpus)
            for domain, inventory in inventories.items()
            for tenant in inventory.tenants
            if tenant.cpus
        }
        self.full = None
        try:
            self._follow(wanted, offer)
        except HardwareError:
            self.close()
            raise

    def free(self) -> int:
        """Return the number of free RMIDs, less the RMIDs that new classes will need.

        Raises `HardwareError`.
        """
        offer = offered(self._fs)
        return offer.rmids - self._fs.info().closids - len(self._present()) if offer else 0

    def _follow(self, wanted: Mapping[Key, frozenset[int]], offer: Monitoring) -> None:
        present = self._present()
        names = {path: path.rpartition("/")[2] for path in present}
        ours = {path for path in present if names[path].startswith(PREFIX)}
        ours -= {path for path in present if names[path].startswith(PORTS)}
        others = [cpus for path, (_, cpus) in present.items() if path not in ours]
        parents = self._parents()
        places: dict[Key, tuple[str, frozenset[int]]] = {}
        online = self._topology.online()
        for key, cpus in wanted.items():
            here = cpus & online
            homes = {parents[cpu] for cpu in here if cpu in parents}
            if len(homes) == 1 and here.isdisjoint(frozenset().union(*others)):
                places[key] = homes.pop(), here
        self._take_over({path: present[path] for path in ours}, places)
        room = offer.rmids - self._fs.info().closids - len(others)
        if len(places) > room:
            self.close()
            self.full = message(
                "rmids-too-few", tenants=len(places), free=max(0, room), rmids=offer.rmids
            )
            return
        for key in list(self._groups):
            if key not in places or self._parent(key) != places[key][0]:
                self._drop(key)
        since_s = self._now_s() - LIMBO_S
        self._given_back_s = [at_s for at_s in self._given_back_s if at_s > since_s]
        room -= len(self._groups) + len(self._given_back_s)
        without = [key for key in places if key not in self._groups][max(0, room) :]
        if without:
            self.full = message(
                "rmids-in-limbo", waiting=len(without), tenants=len(places), limbo_s=LIMBO_S
            )
        uncounted = [
            key
            for key, (parent, here) in places.items()
            if key not in without and not self._place(key, parent, here, offer)
        ]
        if uncounted and not self.full:
            self.full = message(
                "traffic-counters-too-few",
                uncounted=len(uncounted),
                tenants=len(places),
                counters=offer.counters,
                domains=tuple(str(number) for number in sorted({key[0] for key in uncounted})),
            )

    def _parent(self, key: Key) -> str:
        return self._groups[key].rpartition("mon_groups/")[0].rstrip("/")

    def _present(self) -> dict[str, tuple[str, frozenset[int]]]:
        """Return all monitoring groups by path: control group above, and CPUs."""
        return {
            self._fs.monitor(name, group): (group, cpus)
            for group in (DEFAULT_GROUP, *self._fs.groups())
            for name, cpus in self._fs.monitors(group).items()
        }

    def _take_over(
        self,
        ours: Mapping[str, tuple[str, frozenset[int]]],
        places: Mapping[Key, tuple[str, frozenset[int]]],
    ) -> None:
        """Adopt groups that an earlier agent handed over; remove groups that fit no tenant."""
        for path in sorted(ours.keys() - self._groups.values()):
            fits = (key for key, place in places.items() if place == ours[path])
            key = next((key for key in fits if key not in self._groups), None)
            if key is not None:
                self._groups[key] = path
            else:
                self._fs.remove(path)
                self._given_back_s.append(self._now_s())

    def _parents(self) -> dict[int, str]:
        groups = (DEFAULT_GROUP, *self._fs.groups())
        return {cpu: group for group in groups for cpu in self._fs.cpus_of(group)}

    def _place(self, key: Key, parent: str, cpus: frozenset[int], offer: Monitoring) -> bool:
        """Ensure a tenant's monitoring group beneath a control group, with the tenant's CPUs.

        Return whether the tenant's traffic is counted, if traffic can be counted at all.
        """
        name = f"{PREFIX}{key[0]}.{_number(self._groups, key)}"
        path = self._groups.get(key) or self._fs.monitor(name, parent)
        if not files.exists(self._fs.root / path):
            self._fs.add(path)
        self._groups[key] = path
        if self._fs.cpus_of(path) != cpus:
            self._fs.set_cpus(path, format_cpus(cpus))
        data = f"{path}/mon_data/mon_L3_{key[0]:02d}"
        self._files[key] = {event: f"{data}/{event}" for event in offer.events}
        if offer.counters is None or BANDWIDTH not in offer.events:
            return True
        try:
            self._fs.assign(path, {(BANDWIDTH, key[0])})
        except ResctrlError as error:
            if error.code != errno.ENOSPC:
                raise
            return False
        return True

    def _drop(self, key: Key) -> None:
        path = self._groups.pop(key)
        self._given_back_s.append(self._now_s())
        self._files.pop(key, None)
        if files.exists(self._fs.root / path):  # else removed together with its control group
            self._fs.remove(path)

    def read(self) -> Mapping[Key, TenantCounts]:
        """Return the counts by tenant; values that the kernel cannot give now are None."""
        return {
            key: TenantCounts(*(self._fs.count(files.get(one)) for one in (OCCUPANCY, BANDWIDTH)))
            for key, files in self._files.items()
        }

    def close(self) -> None:
        """Release all RMIDs; may be repeated. Raises `HardwareError`."""
        for key in list(self._groups):
            self._drop(key)


def _number(groups: Mapping[Key, str], key: Key) -> int:
    """Return the lowest number without a group of another tenant."""
    taken = {path.rpartition(".")[2] for other, path in groups.items() if other != key}
    return next(number for number in range(len(groups) + 1) if str(number) not in taken)
