# SPDX-License-Identifier: Apache-2.0
"""The cache domains and the groups that resctrl shows, and the masks of groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from iat_nova.hardware.api import DomainOffline, HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, PREFIX, Info, ResctrlFs
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain, WayMask, message

ReadClassRegister = Callable[[int, int], WayMask]
"""(CPU, number from 0) -> the mask in this mask register of the CPU's package."""


@dataclasses.dataclass(eq=False)
class ResctrlDomains:
    """The cache domains of a mounted resctrl file system; reads alone.

    `coupled`: the hardware sets the ways shared with I/O together (Skylake); resctrl shows the
    requested mask, but the register has more ways. `read_register` reads the effective mask if the
    MSR driver is loaded and resctrl is mounted with ``-o debug``. `complete` adds properties that
    resctrl does not know (DDIO) to a domain.
    """

    fs: ResctrlFs
    topology: Topology
    _: dataclasses.KW_ONLY
    coupled: bool = False
    read_register: ReadClassRegister | None = None
    complete: Callable[[CacheDomain], CacheDomain] = lambda domain: domain

    def __post_init__(self) -> None:
        self._info: Info | None = None
        self._domains: dict[int, CacheDomain] = {}
        self._bandwidth_numbers: dict[int, int] = {}  # by cache domain: its number in the line MB

    def mounted(self) -> bool:
        """Return whether resctrl is mounted now."""
        return files.exists(self.fs.root / "schemata")

    def domains(self) -> tuple[CacheDomain, ...]:
        """Read the cache domains and their capabilities.

        A domain's `classes` leave out the classes of other programs' groups and of devices
        (io_alloc). Its `reserved_ways` are the ways of exclusive and pseudo-locked groups. A CPU
        that was online once stays in its domain while offline, with its socket's NUMA nodes.
        """
        info = self._info = self.fs.info()
        exclusive = self.fs.in_use_exclusively(info)
        bandwidth = self.fs.bandwidth_control().control
        classes = info.closids - len(self.foreign_groups()) - int(info.io_alloc)
        present = self.fs.masks(DEFAULT_GROUP, info.resources[0])
        caches = self.topology.caches()
        self._bandwidth_numbers |= self.fs.bandwidth_numbers(info.resources[0], caches)
        for cache in caches:
            if cache.id not in present:
                continue
            ways = info.cbm_mask.bit_length()
            domain = CacheDomain(
                id=cache.id,
                cpus=cache.cpus,
                ways=ways,
                classes=max(classes, 1),
                min_ways=max(info.min_cbm_bits, 1),  # AMD accepts empty masks; we never write them
                sparse_masks=info.sparse_masks,
                coerced_ways=info.shareable_bits if self.coupled else WayMask(0),
                reserved_ways=exclusive.get(cache.id, WayMask(0)),
                way_bytes=cache.size_bytes and cache.size_bytes // ways,
                numa_nodes=cache.socket_nodes,
                bandwidth=bandwidth if cache.id in self._bandwidth_numbers else None,
            )
            domain = limits.with_seen(domain, self._domains.get(cache.id))
            self._domains[cache.id] = self.complete(domain)
        if not self._domains:
            raise HardwareError(message("resctrl-without-domains", path=str(self.fs.root)))
        return tuple(self._domains[number] for number in sorted(self._domains))

    def remember(self, domains: Iterable[CacheDomain]) -> None:
        """Take exactly these domains as seen earlier, also with offline CPUs."""
        self._domains = {domain.id: domain for domain in domains}

    def foreign_groups(self) -> tuple[str, ...]:
        """Return the control groups of other programs, without monitoring groups."""
        return tuple(name for name in self.fs.groups() if not name.startswith(PREFIX))

    def own_groups(self) -> tuple[str, ...]:
        """Return the control groups with our name, from any program; empty if unmounted."""
        if not self.mounted():
            return ()
        return tuple(name for name in self.fs.groups() if name.startswith(PREFIX))

    def own_monitors(self) -> tuple[str, ...]:
        """Return the paths of monitoring groups with our name that are in no control group of ours.

        The others go with their control group. Empty if unmounted.
        """
        if not self.mounted():
            return ()
        return tuple(
            self.fs.monitor(name, group)
            for group in (DEFAULT_GROUP, *self.foreign_groups())
            for name in self.fs.monitors(group)
            if name.startswith(PREFIX)
        )

    def left_over(self) -> tuple[str, ...]:
        """Return all groups with our name: without an agent, a snapshot or hand-over has them."""
        return (*self.own_groups(), *self.own_monitors())

    def _effective(self, domain: CacheDomain, group: str, masks: Mapping[str, WayMask]) -> WayMask:
        """Return the effective mask of a group, given the masks in its files by resource."""
        shown = next(iter(masks.values()))
        number = self.fs.hardware_class(group) if self.read_register else None
        if self.read_register is None or number is None:
            return limits.effective(domain, shown)
        online = self.topology.online() & frozenset(domain.cpus)
        if not online:
            raise DomainOffline(domain.id)
        # With code and data prioritisation a class has two registers, the first for data.
        return self.read_register(min(online), number * len(masks))

    def _masks(self, group: str, domain: int) -> dict[str, WayMask]:
        """Return a group's masks in a domain by resource. Raises `DomainOffline`."""
        resources = self._limits_info().resources
        return {one: self.fs.mask(group, one, domain) for one in resources}

    def _limits(self) -> tuple[CacheDomain, ...]:
        return tuple(self._domains.values()) or self.domains()

    def _limits_info(self) -> Info:
        if self._info is None:
            self.domains()
        assert self._info is not None
        return self._info
