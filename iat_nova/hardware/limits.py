# SPDX-License-Identifier: Apache-2.0
"""What CAT accepts: checked before the first write, so that a refusal leaves nothing half-done.

Sources: Intel SDM volume 3, "Cache Allocation Technology"; Linux, resctrl.rst.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.model import UNLIMITED, CacheDomain, WayMask, message


def effective(domain: CacheDomain, mask: int) -> WayMask:
    """Return what the hardware makes of a mask: ways that come together join it."""
    return WayMask(mask | domain.coerced_ways if mask & domain.coerced_ways else mask)


def find(domains: Iterable[CacheDomain], number: int) -> CacheDomain:
    """Return the domain with this L3 id. Raises `HardwareError` when there is none."""
    known = tuple(domains)
    for domain in known:
        if domain.id == number:
            return domain
    there = tuple(str(domain.id) for domain in known)
    raise HardwareError(message("domain-absent", domain=number, there=there))


def check_mask(domain: CacheDomain, mask: WayMask, name: str) -> None:
    """Raise `HardwareError` when the hardware would refuse `mask` for the class of this name."""
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
            message("bandwidth-whole-unknown", domain=domain.id, percent=percent),
            message("set-bandwidth-gbps"),
        ) from error


def check_bandwidth(domain: CacheDomain, item: ClassMask) -> None:
    """Raise `HardwareError` when a class cannot have the limit of memory bandwidth it asks for."""
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
    """Raise `HardwareError` when these classes cannot all be programmed in a domain.

    The default class is there already; its CPUs are nobody's business here.
    """
    ours = sum(1 for item in classes if item.name != DEFAULT_CLASS)
    if ours > domain.classes - 1:
        raise HardwareError(
            message("classes-too-many", domain=domain.id, wanted=ours, free=domain.classes - 1),
            message("group-tenants"),
        )
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
    if mask <= 0 or mask >> domain.ways:
        raise HardwareError(
            message("ddio-mask-outside", domain=domain.id, mask=mask, ways=domain.ways)
        )
    if not mask.is_contiguous:
        raise HardwareError(message("ddio-mask-with-gap", domain=domain.id, mask=mask))
