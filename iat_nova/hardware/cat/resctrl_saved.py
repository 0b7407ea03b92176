# SPDX-License-Identifier: Apache-2.0
"""The settings of resctrl that are saved before the first write, and their restore.

The saved settings are the default group's L3 masks, and the CPUs of monitoring groups beneath the
default group. The kernel removes a CPU from its monitoring group when the CPU goes to another
control group, and does not return the CPU. Other lines of ``schemata`` (MB, SMBA, L2) are never
written in foreign groups, and our groups' lines vanish with the groups.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import Any

from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, DEVICES, PREFIX, SHAREABLE, ResctrlFs
from iat_nova.hardware.cat.resctrl_text import hexadecimal
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.rollback import put_all_back
from iat_nova.hardware.kernel.shape import HEX, NUMBER, mapping, record, text
from iat_nova.hardware.kernel.topology import Cache
from iat_nova.model import Message, WayMask, message

_CPUS = text(r"[0-9]{1,6}(-[0-9]{1,6})?(,[0-9]{1,6}(-[0-9]{1,6})?)*", "a list of CPUs")
SHAPE = record(
    {
        "default": mapping(text("L3(CODE|DATA)?", "L3"), mapping(NUMBER, HEX)),
        "monitors": mapping(text(r"(?!\.\.?$)[^/]{1,255}", "a group's name"), _CPUS),
    }
)


def save(fs: ResctrlFs) -> dict[str, Any]:
    """Return, as plain JSON values, the settings for `restore`."""
    masks = {name: fs.masks(DEFAULT_GROUP, name) for name in fs.l3_resources()}
    return {
        "default": {
            name: {str(domain): f"{mask:x}" for domain, mask in by_domain.items()}
            for name, by_domain in masks.items()
        },
        "monitors": {
            name: format_cpus(cpus)
            for name, cpus in fs.monitors().items()
            if cpus and not name.startswith(PREFIX)
        },
    }


def grown(had: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Return the CPUs by monitoring group: the saved CPUs, and CPUs that joined a group later.

    A CPU is in one group at most. A CPU that changed its group is in the present group.
    """
    taken = {name: parse_cpus(cpus) for name, cpus in now.items()}
    found: dict[str, str] = {}
    for name in had.keys() | taken.keys():
        others = frozenset().union(*(cpus for one, cpus in taken.items() if one != name))
        cpus = parse_cpus(had.get(name, "")) - others | taken.get(name, frozenset())
        found |= {name: format_cpus(cpus)} if cpus else {}
    return found


def written(
    saved: Mapping[str, Any], domains: Container[int], cpus: Collection[int]
) -> dict[str, Any]:
    """Return the default group's masks in `domains`, and monitoring groups that had `cpus`."""
    return {
        "default": {
            name: {number: mask for number, mask in masks.items() if int(number) in domains}
            for name, masks in saved["default"].items()
        },
        "monitors": {
            name: had
            for name, had in saved["monitors"].items()
            if not parse_cpus(had).isdisjoint(cpus)
        },
    }


def as_mounted(fs: ResctrlFs) -> dict[str, dict[str, str]]:
    """Return the default group's masks after a mount, as `save` returns masks: all ways."""
    ways = {name: fs.parsed(f"info/{name}/cbm_mask", hexadecimal) for name in fs.l3_resources()}
    return {
        name: {str(domain): f"{mask:x}" for domain in fs.masks(DEFAULT_GROUP, name)}
        for name, mask in ways.items()
    }


def restore(
    fs: ResctrlFs,
    saved: Mapping[str, Any],
    ours: Iterable[str],
    monitors: Iterable[str],
    caches: Callable[[], Iterable[Cache]],
) -> tuple[Message, ...]:
    """Remove our groups and restore the saved settings; return a message for each change.

    `ours`: control groups; `monitors`: paths of monitoring groups that are not in these. The
    default group's masks come first: the CPUs of our groups fall back to them. Before, our groups
    are made shareable or, where that is refused, removed. Where a mask overlaps another program's
    exclusive group, or is refused otherwise, the CPUs of this cache, by `caches`, stay in our
    groups: the default group may have few ways. May be repeated. Raises `HardwareError` at the end,
    with all failures.
    """
    resources = fs.l3_resources()
    refused: set[int] = set()

    def widen(resource: str, domain: int, mask: WayMask) -> Message | None:
        try:
            return _put_back_mask(fs, resource, domain, mask)
        except HardwareError as error:
            refused.add(domain)
            if not (groups := _excluding(fs, domain, mask)):
                raise
            state = message("mask-of-others", refusal=error.state, groups=groups)
            paths = tuple(str(fs.root / name) for name in groups)
            raise HardwareError(state, message("share-groups", paths=paths)) from error

    def remove_class(name: str) -> Message | None:
        stay = {cpu for cache in caches() if cache.id in refused for cpu in cache.cpus}
        return _remove(fs, name, stay)

    steps: list[Callable[[], Message | None]] = [
        functools.partial(_share, fs, name) for name in fs.groups() if name.startswith(PREFIX)
    ]
    steps += [
        functools.partial(widen, resource, int(domain), WayMask(int(mask, 16)))
        for resource, masks in saved["default"].items()
        for domain, mask in masks.items()
        if resource in resources
    ]
    steps += [functools.partial(remove_class, name) for name in ours]
    steps += [functools.partial(_remove, fs, name, ()) for name in monitors]
    steps += [
        functools.partial(_put_back_monitor, fs, name, parse_cpus(cpus))
        for name, cpus in saved["monitors"].items()
    ]
    with fs.locked():
        return put_all_back(steps, lambda step: step())


def _share(fs: ResctrlFs, name: str) -> Message | None:
    """Make a group of ours shareable, or remove it if refused, as for a pseudo-locked group.

    The groups of devices are only made shareable: a tag may still have their classes.
    """
    if fs.mode(name) == SHAREABLE:
        return None
    try:
        fs.set_mode(name, SHAREABLE)
    except HardwareError:
        if name.startswith(DEVICES):
            raise
        return _remove(fs, name, ())
    return None


def _excluding(fs: ResctrlFs, domain: int, mask: WayMask) -> tuple[str, ...]:
    """Return the groups of other programs that refuse the default group a mask."""
    modes = {name: fs.mode(name) for name in fs.groups() if not name.startswith(PREFIX)}
    resources = fs.l3_resources()
    return tuple(
        name
        for name, mode in modes.items()
        if mode == "pseudo-locked"
        or (mode == "exclusive" and any(mask & fs.mask(name, one, domain) for one in resources))
    )


def _remove(fs: ResctrlFs, name: str, stay: Collection[int]) -> Message | None:
    """Remove a group, or all its CPUs but these; nothing if it is removed."""
    if not files.exists(fs.root / name):
        return None
    if left := fs.cpus_of(name).intersection(stay) if stay else frozenset():
        fs.set_cpus(name, format_cpus(left))
        return None
    fs.remove(name)
    return message("removed", path=str(fs.root / name))


def _put_back_mask(fs: ResctrlFs, resource: str, domain: int, mask: WayMask) -> Message | None:
    now = fs.masks(DEFAULT_GROUP, resource)
    if now.get(domain, mask) == mask:  # or the domain is offline: the kernel resets the domain
        return None
    try:
        fs.set_masks(DEFAULT_GROUP, domain, {resource: mask})
    except HardwareError:
        if fs.mode(DEFAULT_GROUP) == SHAREABLE:
            raise
        # Another program made the default group exclusive, since an agent took ways from it.
        fs.set_mode(DEFAULT_GROUP, SHAREABLE)
        fs.set_masks(DEFAULT_GROUP, domain, {resource: mask})
    return message("default-mask-restored", resource=resource, domain=domain, mask=mask)


def _put_back_monitor(fs: ResctrlFs, name: str, found: frozenset[int]) -> Message | None:
    """Return lost CPUs to a monitoring group.

    CPUs that another group monitors now are not returned. If the group's owner has added other
    CPUs, the group is not changed.
    """
    monitors = fs.monitors()
    now = monitors.get(name)
    if now is None or now - found:
        return None
    elsewhere = frozenset().union(*monitors.values()) - now
    lost = (found & fs.cpus_of(DEFAULT_GROUP)) - now - elsewhere
    if not lost:
        return None
    fs.set_cpus(fs.monitor(name), format_cpus(now | lost))
    return message("monitored-cpus-restored", group=name, cpus=format_cpus(lost))
