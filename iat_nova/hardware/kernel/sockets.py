# SPDX-License-Identifier: Apache-2.0
"""The number of a host's sockets, with CPUs online or offline, from the firmware's table.

The kernel removes a CPU's topology and caches from sysfs while the CPU is offline. SMBIOS names
every socket. Source: DMTF DSP0134 (SMBIOS), "Processor Information (Type 4)".
"""

from __future__ import annotations

import collections
import errno
from collections.abc import Iterable, Iterator
from pathlib import Path

from iat_nova.common.kernel_files import absent
from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain

TABLE = Path("/sys/firmware/dmi/tables/DMI")
MOST_BYTES = 1 << 20  # maximum size of the table; servers have some ten KiB

_PROCESSOR, _END = 4, 127  # types of structures
_KIND, _STATUS = 0x05, 0x18  # offsets in a processor's structure
_CENTRAL = 3
_POPULATED = 1 << 6
_DISABLED = (2, 3)  # bits 2..0 of the status: by the user, by the firmware


class Sockets:
    """Count the cache domains whose CPUs have all been offline so far.

    Each socket is assumed to have as many cache domains as the largest socket seen so far.
    """

    def __init__(self, topology: Topology, table: Path = TABLE) -> None:
        self._topology = topology
        self._populated = populated(table)
        self._packages: dict[int, int] = {}  # by cache domain seen

    def unseen(self, domains: Iterable[CacheDomain]) -> int:
        """Return the number of the host's cache domains beyond these; 0 without SMBIOS."""
        self._packages |= {cache.id: cache.package for cache in self._topology.caches()}
        seen = collections.Counter(
            self._packages[domain.id] for domain in domains if domain.id in self._packages
        )
        if not seen:
            return 0
        return max(0, max(seen.values()) * self._populated - seen.total())


def populated(table: Path) -> int:
    """Return the number of populated sockets; 0 without SMBIOS, or without the right to read it."""
    try:
        with table.open("rb") as file:
            data = file.read(MOST_BYTES)
    except OSError as error:
        if not absent(error, errno.EACCES, errno.EPERM):
            raise HardwareError(unusable(table, error)) from error
        return 0
    return sum(map(_is_processor, _structures(data)))


def _is_processor(structure: bytes) -> bool:
    if structure[0] != _PROCESSOR or len(structure) <= _STATUS:
        return False
    status = structure[_STATUS]
    return (
        structure[_KIND] == _CENTRAL
        and bool(status & _POPULATED)
        and status & 0b111 not in _DISABLED
    )


def _structures(data: bytes) -> Iterator[bytes]:
    """Yield the formatted area of each structure; strings follow, up to two zero bytes."""
    at = 0
    while at + 4 <= len(data):
        length = data[at + 1]
        if length < 4 or data[at] == _END:
            return
        yield data[at : at + length]
        end = data.find(b"\0\0", at + length)
        if end < 0:
            return
        at = end + 2
