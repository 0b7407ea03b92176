# SPDX-License-Identifier: Apache-2.0
"""The limits of CAT, checked before the first write so that no change is left incomplete.

Sources: Intel SDM volume 3, "Cache Allocation Technology"; Linux, resctrl.rst.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, ForeignHand, HardwareError
from iat_nova.model import UNLIMITED, CacheDomain, Message, PortGroup, WayMask, message


def effective(domain: CacheDomain, mask: int) -> WayMask:
    """Return the effective mask: a mask with a coerced way gets all coerced ways."""
    return WayMask(mask | domain.coerced_ways if mask & domain.coerced_ways else mask)


def with_seen(domain: CacheDomain, known: CacheDomain | None) -> CacheDomain:
    """Return a domain with the CPUs and NUMA nodes that were seen earlier, offline by now."""
    if known is None:
        return domain
    cpus, nodes = {*domain.cpus, *known.cpus}, {*domain.numa_nodes, *known.numa_nodes}
    return dataclasses.replace(domain, cpus=tuple(sorted(cpus)), numa_nodes=tuple(sorted(nodes)))


def find(domains: Iterable[CacheDomain], number: int) -> CacheDomain:
    """Return the domain with this L3 id. Raises `HardwareError` if absent."""
    known = tuple(domains)
    for domain in known:
        if domain.id == number:
            return domain
    there = tuple(str(domain.id) for domain in known)
    raise HardwareError(message("domain-absent", domain=number, there=there))


def check_mask(domain: CacheDomain, mask: WayMask, name: str) -> None:
    """Raise `HardwareError` if the hardware would refuse `mask` for the class `name`."""
    what = message("class-mask", domain=domain.id, name=name, mask=mask)
    if mask <= 0:
        remedy = message("give-ways", ways=domain.min_ways)
        raise HardwareError(message("mask-empty", what=what), remedy)
    if mask >> domain.ways:
        raise HardwareError(message("mask-too-high", what=what, ways=domain.ways))
    if not mask.is_contiguous and not domain.sparse_masks:
        raise HardwareError(message("mask-with-gap", what=what))
    if mask.count < domain.min_ways:
        raise HardwareError(message("mask-too-small", what=what, ways=domain.min_ways))
    if mask & domain.reserved_ways:
        raise HardwareError(message("mask-reserved", what=what, reserved=domain.reserved_ways))


def bandwidth(domain: CacheDomain, percent: int, members: int) -> int | None:
    """Return the bandwidth limit of a class, so that each tenant in the class keeps `percent`.

    None: no limit. With Intel MBA the limit is `percent` itself. On AMD the limit is in eighths of
    a GB/s, and the tenants of the class share it: it is `members` times as high. Raises
    `HardwareError` if the bandwidth of 100 % is unknown.
    """
    control = domain.bandwidth
    if percent == UNLIMITED:
        return None
    if control is None or control.percent:
        return percent  # `check_bandwidth` refuses impossible limits
    try:
        return None if percent * members >= UNLIMITED else control.limit(percent * members)
    except ValueError as error:
        raise HardwareError(
            message("bandwidth-whole-unknown", domain=domain.id, percent=percent),
            message("set-bandwidth-gbps"),
        ) from error


def check_bandwidth(domain: CacheDomain, item: ClassMask) -> None:
    """Raise `HardwareError` if a class cannot have its limit of memory bandwidth."""
    limit, control = item.bandwidth, domain.bandwidth
    if limit is None:
        return
    what = message("class-bandwidth", domain=domain.id, name=item.name)
    if control is None:
        raise HardwareError(message("bandwidth-unlimitable", what=what), message("doctor-says-why"))
    if item.name == DEFAULT_CLASS:
        remedy = message("name-another-class")
        raise HardwareError(message("bandwidth-of-default", what=what), remedy)
    if not control.least <= limit <= control.most or (
        limit % control.step and limit < control.most
    ):
        raise HardwareError(
            message(
                "bandwidth-out-of-range",
                what=what,
                limit=limit,
                least=control.least,
                most=control.most,
                step=control.step,
            ),
            message("give-another-limit"),
        )


def check_classes(domain: CacheDomain, classes: Sequence[ClassMask]) -> None:
    """Raise `HardwareError` if these classes cannot all be programmed in a domain.

    The default class always exists; its CPUs are not checked.
    """
    _check_count(domain, sum(1 for item in classes if item.name != DEFAULT_CLASS))
    names: set[str] = set()
    owner: dict[int, str] = {}
    for item in classes:
        if item.name in names:
            raise HardwareError(message("class-twice", domain=domain.id, name=item.name))
        names.add(item.name)
        check_mask(domain, item.mask, item.name)
        check_bandwidth(domain, item)
        for cpu in item.cpus if item.name != DEFAULT_CLASS else ():
            if cpu not in domain.cpus:
                raise HardwareError(
                    message("cpu-outside-domain", domain=domain.id, name=item.name, cpu=cpu)
                )
            if cpu in owner:
                raise HardwareError(
                    message(
                        "cpu-in-two-classes",
                        domain=domain.id,
                        cpu=cpu,
                        first=owner[cpu],
                        second=item.name,
                    )
                )
            owner[cpu] = item.name


def check_unchanged(inspect: Callable[[], tuple[Message, ...]]) -> None:
    """Raise `ForeignHand` if two inspections in a row find changes by other programs.

    Called before each write of classes. Otherwise the write would overwrite such a change, and no
    later inspection would find it.
    """
    if inspect() and (foreign := inspect()):
        raise ForeignHand(message("several", causes=foreign))


def _check_count(domain: CacheDomain, wanted: int) -> None:
    """Raise `HardwareError` if a domain has fewer classes beside the default class."""
    free = domain.classes - 1
    if wanted > free:
        raise HardwareError(
            message("classes-too-many", domain=domain.id, wanted=wanted, free=free),
            message("group-tenants"),
        )


def check_ports(domain: CacheDomain, groups: Sequence[PortGroup], classes: int) -> None:
    """Raise `HardwareError` if ports cannot have these ways beside `classes` classes of tenants.

    The default class is not among `classes`.
    """
    _check_count(domain, classes + len(groups))
    for group in groups:
        check_mask(domain, group.mask, ", ".join(group.ports))


def numbered(
    names: Iterable[str], before: Mapping[str, int], taken: Iterable[int] = ()
) -> dict[str, int]:
    """Return class numbers by name: the number `before` if any, else the lowest free number.

    The default class has number 0; `taken` are numbers of other programs.
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
    """Raise `HardwareError` unless `mask` is a contiguous mask of existing ways.

    The DDIO register has no documented rules and accepts any value. Firmware and other programs
    write only contiguous masks of existing ways, so other masks are taken as unsafe.
    """
    if mask <= 0 or mask >> domain.ways:
        raise HardwareError(
            message("ddio-mask-outside", domain=domain.id, mask=mask, ways=domain.ways)
        )
    if not mask.is_contiguous:
        raise HardwareError(message("ddio-mask-with-gap", domain=domain.id, mask=mask))
