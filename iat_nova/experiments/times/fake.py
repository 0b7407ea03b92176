# SPDX-License-Identifier: Apache-2.0
"""Hardware in memory that follows the hardware's rules and records all writes.

For tests, and for measurements of the loop without the cost of writes. The fake refuses and coerces
masks like a CPU, and fails on request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.model import BandwidthControl, CacheDomain, WayMask, message

SKYLAKE = CacheDomain(
    id=0,
    cpus=tuple(range(18)),
    ways=11,
    classes=16,
    coerced_ways=WayMask(0x600),
    ddio_found=WayMask(0x600),
    way_bytes=2304 * 1024,
    bandwidth=BandwidthControl(least=10, step=10, most=100, percent=True),
)
"""One socket of the paper's machine: Xeon Gold 6140, 11 ways, 16 classes, MBA by tenths."""


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """A write: cache domain, subject, requested mask, effective mask.

    `subject`: the name of a class, or ``ddio``. `requested`: None if the class was removed.
    """

    domain: int
    subject: str
    requested: WayMask | None
    effective: WayMask | None


class FakeAllocator:
    """`hardware.api.CacheAllocator` in memory.

    `writes`: every mask that changed, and every removed class. `refuse`: name of a class whose
    next write fails, as if another owner interfered.
    """

    def __init__(self, domains: Sequence[CacheDomain] = (SKYLAKE,)) -> None:
        self.writes: list[Write] = []
        self.refuse: str | None = None
        self._domains = tuple(domains)
        self._classes: dict[int, dict[str, ClassMask]] = {domain.id: {} for domain in domains}

    def domains(self) -> tuple[CacheDomain, ...]:
        """Return the cache domains given to the constructor."""
        return self._domains

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program the classes; see `api.CacheAllocator`."""
        found = limits.find(self._domains, domain)
        limits.check_classes(found, classes)
        if any(item.name == self.refuse for item in classes):
            name, self.refuse = self.refuse, None
            raise HardwareError(message("refused-for-test", domain=domain, name=name))
        old = self._classes[domain]
        new = {
            item.name: dataclasses.replace(item, mask=limits.effective(found, item.mask))
            for item in classes
        }
        for item in classes:
            if item.name not in old or old[item.name].mask != new[item.name].mask:
                self.writes.append(Write(domain, item.name, item.mask, new[item.name].mask))
        self.writes += [Write(domain, name, None, None) for name in old if name not in new]
        self._classes[domain] = new
        return self.effective(domain)

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Return the masks in force by class name."""
        limits.find(self._domains, domain)
        return {name: item.mask for name, item in self._classes[domain].items()}

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Return the memory bandwidth of the agent's classes by name."""
        control = limits.find(self._domains, domain).bandwidth
        if control is None:
            return {}
        return {
            name: control.most if item.bandwidth is None else item.bandwidth
            for name, item in self._classes[domain].items()
            if name != DEFAULT_CLASS
        }

    def class_of(self, cpu: int) -> str | None:
        """Return the class of a CPU, None for the default class."""
        for classes in self._classes.values():
            for item in classes.values():
                if cpu in item.cpus and item.name != DEFAULT_CLASS:
                    return item.name
        return None


class FakeDdio:
    """`hardware.api.DdioWays` in memory, with the masks found (`ddio_found`) at first.

    `stuck`: imitate a register that accepts a write but keeps its value. `refuse`: every write
    fails.
    """

    def __init__(self, domains: Sequence[CacheDomain] = (SKYLAKE,)) -> None:
        self.writes: list[Write] = []
        self.refuse = False
        self.stuck = False
        self._domains = tuple(domains)
        self._masks = {domain.id: domain.ddio_found for domain in domains}

    def read(self, domain: int) -> WayMask | None:
        """Return DDIO's mask."""
        limits.find(self._domains, domain)
        return self._masks[domain]

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set DDIO's mask and return the mask in force."""
        found = limits.find(self._domains, domain)
        limits.check_ddio(found, mask)
        before = self._masks[domain]
        if self.refuse or before is None:
            raise HardwareError(message("ddio-unwritable", domain=domain))
        now = before if self.stuck else mask
        self._masks[domain] = now
        self.writes.append(Write(domain, "ddio", mask, now))
        return now
