# SPDX-License-Identifier: Apache-2.0
"""PCI devices in sysfs: their cache domains, the devices below a port, and virtual functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from iat_nova.common.cpulist import parse_cpus
from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.kernel import files
from iat_nova.model import CacheDomain

ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def by_domain(
    devices: Path, domains: Iterable[CacheDomain], names: Iterable[str]
) -> dict[int, tuple[str, ...]]:
    """Divide devices by cache domain: a device belongs to its local CPUs' domain.

    The kernel lists local CPUs that are online; without any, the NUMA node decides. A device
    without a known location belongs to the first domain. A device whose domain has never been
    online belongs to no domain. Raises `HardwareError`.
    """
    left = {name: (_local_cpus(devices / name), _node(devices / name)) for name in names}
    found = {}
    for domain in domains:
        near = (None, *domain.numa_nodes)
        found[domain.id] = tuple(
            name
            for name, (cpus, node) in left.items()
            if cpus & set(domain.cpus) or (not cpus and node in near)
        )
        left = {name: place for name, place in left.items() if name not in found[domain.id]}
    return found


def below(folder: Path) -> Iterator[str]:
    """Yield the addresses of the devices below a port or bridge, at any depth."""
    for name in filter(ADDRESS.fullmatch, files.names(folder)):
        yield name
        yield from below(folder / name)


def virtual_functions(folder: Path) -> Iterator[str]:
    """Yield the addresses of a physical function's virtual functions."""
    links = (name for name in files.names(folder) if name.startswith("virtfn"))
    yield from filter(None, (files.target(folder / name) for name in links))


def _local_cpus(folder: Path) -> frozenset[int]:
    path = folder / "local_cpulist"
    try:
        return frozenset(parse_cpus(path.read_text()))
    except (OSError, ValueError) as error:
        raise HardwareError(unusable(path, error)) from error


def _node(folder: Path) -> int | None:
    node = files.number_of(folder / "numa_node")
    return node if node is not None and node >= 0 else None
