# SPDX-License-Identifier: Apache-2.0
"""What CAT accepts: checked before the first write, so that a refusal leaves nothing half-done.

Sources: Intel SDM volume 3, "Cache Allocation Technology"; Linux, resctrl.rst.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.model import UNLIMITED, CacheDomain, WayMask


def effective(domain: CacheDomain, mask: int) -> WayMask:
    """Return what the hardware makes of a mask: ways that come together join it."""
    return WayMask(mask | domain.coerced_ways if mask & domain.coerced_ways else mask)


def find(domains: Iterable[CacheDomain], number: int) -> CacheDomain:
    """Return the domain with this L3 id. Raises `HardwareError` when there is none."""
    known = tuple(domains)
    for domain in known:
        if domain.id == number:
            return domain
    have = ", ".join(str(domain.id) for domain in known) or "none"
    raise HardwareError(f"there is no cache domain {number} on this machine (there are: {have})")


def check_mask(domain: CacheDomain, mask: WayMask, what: str) -> None:
    """Raise `HardwareError` when the hardware would refuse `mask` for `what`."""
    where = f"cache domain {domain.id}, {what}: mask {mask}"
    if mask <= 0:
        raise HardwareError(f"{where} holds no way", f"give it at least {domain.min_ways}")
    if mask >> domain.ways:
        raise HardwareError(f"{where} goes beyond the {domain.ways} ways of this cache")
    if not mask.is_contiguous and not domain.sparse_masks:
        raise HardwareError(f"{where} has a gap; this CPU wants contiguous masks")
    if mask.count < domain.min_ways:
        raise HardwareError(f"{where} has fewer than the {domain.min_ways} ways required")
    if mask & domain.reserved_ways:
        raise HardwareError(
            f"{where} takes reserved ways {domain.reserved_ways}; another owner holds them"
        )


def bandwidth(domain: CacheDomain, percent: int, members: int) -> int | None:
    """Return what leaves each member of a class this percentage, as `CacheDomain.bandwidth` has it.

    None: no limit. The one place where percent become eighths of a GB/s, which the members of a
    class share. Raises `HardwareError` where nobody said of how many.
    """
    control = domain.bandwidth
    if percent == UNLIMITED:
        return None
    if control is None or control.percent:
        return percent  # what cannot be is refused with the class that asks for it
    try:
        return None if percent * members >= UNLIMITED else control.limit(percent * members)
    except ValueError as error:
        raise HardwareError(
            f"cache domain {domain.id}: {percent} % of memory bandwidth: how many GB/s are 100 % "
            "is not known",
            "set [iat] memory_bandwidth_gbps",
        ) from error


def check_bandwidth(domain: CacheDomain, item: ClassMask) -> None:
    """Raise `HardwareError` when a class cannot have the limit of memory bandwidth it asks for."""
    limit, control = item.bandwidth, domain.bandwidth
    if limit is None:
        return
    where = f"cache domain {domain.id}, class {item.name!r}: memory bandwidth"
    if control is None:
        raise HardwareError(f"{where} cannot be limited here", "iat-nova doctor says why")
    if item.name == DEFAULT_CLASS:
        raise HardwareError(f"{where} of the default class is never limited", "name another class")
    if not control.least <= limit <= control.most or (
        limit % control.step and limit < control.most
    ):
        raise HardwareError(
            f"{where} {limit} is not between {control.least} and {control.most} in steps of "
            f"{control.step}",
            "give another limit",
        )


def check_classes(domain: CacheDomain, classes: Sequence[ClassMask]) -> None:
    """Raise `HardwareError` when these classes cannot all be programmed in a domain.

    The default class is there already; its CPUs are nobody's business here.
    """
    where = f"cache domain {domain.id}"
    ours = sum(1 for item in classes if item.name != DEFAULT_CLASS)
    if ours > domain.classes - 1:
        raise HardwareError(
            f"{where}: {ours} classes wanted, {domain.classes - 1} can be had beside the "
            "default one",
            "group tenants",
        )
    names: set[str] = set()
    owner: dict[int, str] = {}
    for item in classes:
        if item.name in names:
            raise HardwareError(f"{where}: two classes are named {item.name!r}")
        names.add(item.name)
        check_mask(domain, item.mask, f"class {item.name!r}")
        check_bandwidth(domain, item)
        for cpu in item.cpus if item.name != DEFAULT_CLASS else ():
            if cpu not in domain.cpus:
                raise HardwareError(f"{where}, class {item.name!r}: CPU {cpu} is not in it")
            if cpu in owner:
                raise HardwareError(
                    f"{where}: CPU {cpu} is in class {owner[cpu]!r} and in {item.name!r}"
                )
            owner[cpu] = item.name


def numbered(
    names: Iterable[str], before: Mapping[str, int], taken: Iterable[int] = ()
) -> dict[str, int]:
    """Number classes: each has the number it had `before`, else the lowest that is free.

    The default class is number 0; `taken` are the numbers of others.
    """
    wanted = list(names)
    numbers = {name: before[name] for name in wanted if name in before}
    used = {0, *numbers.values(), *taken}
    free = (number for number in itertools.count(1) if number not in used)
    for name in wanted:
        if name not in numbers:
            numbers[name] = 0 if name == DEFAULT_CLASS else next(free)
    return numbers


def check_ddio(domain: CacheDomain, mask: WayMask) -> None:
    """Raise `HardwareError` when `mask` is not one we dare to give DDIO.

    The register has no documented rules (it takes anything); an unbroken run of existing ways is
    what firmware and others use.
    """
    where = f"cache domain {domain.id}: DDIO mask {mask}"
    if mask <= 0 or mask >> domain.ways:
        raise HardwareError(f"{where} is not within the {domain.ways} ways of this cache")
    if not mask.is_contiguous:
        raise HardwareError(f"{where} has a gap")
