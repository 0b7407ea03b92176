# SPDX-License-Identifier: Apache-2.0
"""Which CPUs share which last-level cache: read from sysfs, hot-plug included.

Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from iat_nova.common.cpulist import parse_cpus
from iat_nova.hardware.api import HardwareError

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """One last-level cache with the CPUs online under it."""

    id: int  # the kernel's cache id, resctrl's domain number
    cpus: tuple[int, ...]
    size_bytes: int
    package: int


class Topology:
    """The CPUs and L3 caches of a machine, read anew at each call."""

    def __init__(self, root: Path = Path("/sys/devices/system/cpu")) -> None:
        self._root = root

    def online(self) -> frozenset[int]:
        """Return the CPUs that are online now."""
        return parse_cpus(self._text(self._root / "online"))

    def caches(self) -> tuple[Cache, ...]:
        """Return the L3 caches in order of their ids; none where sysfs shows none."""
        found: dict[int, Cache] = {}
        known: set[int] = set()
        for cpu in sorted(self.online()):
            if cpu in known:  # the files of all that share a cache tell the same
                continue
            folder = self._l3(cpu)
            if folder is None:
                continue
            number = int(self._text(folder / "id"))
            if number not in found:
                found[number] = Cache(
                    id=number,
                    cpus=tuple(sorted(parse_cpus(self._text(folder / "shared_cpu_list")))),
                    size_bytes=_size(self._text(folder / "size")),
                    package=self.package(cpu),
                )
                known.update(found[number].cpus)
        return tuple(found[number] for number in sorted(found))

    def package(self, cpu: int) -> int:
        """Return the physical package (socket) of a CPU that is online."""
        return int(self._text(self._root / f"cpu{cpu}/topology/physical_package_id"))

    def nodes(self, cache: Cache) -> tuple[int, ...]:
        """Return the NUMA nodes that share a cache: several with sub-NUMA clustering; else one.

        None where the kernel knows of no nodes.
        """
        links = (path for cpu in cache.cpus for path in self._root.glob(f"cpu{cpu}/node[0-9]*"))
        return tuple(sorted({int(path.name.removeprefix("node")) for path in links}))

    def siblings(self, cpu: int) -> frozenset[int]:
        """Return the hyper-threads of a CPU's core, itself included."""
        try:
            return parse_cpus(self._text(self._root / f"cpu{cpu}/topology/thread_siblings_list"))
        except HardwareError:
            return frozenset({cpu})

    def plugged(self, cpu: int) -> int | None:
        """Return a number that changes when a CPU goes offline and comes back.

        None while it is offline. The kernel takes the folder of a CPU's caches away with
        it and makes a new one at its return, which then has another inode.
        """
        try:
            return (self._root / f"cpu{cpu}/cache/index0").stat().st_ino
        except OSError:
            return None

    def _l3(self, cpu: int) -> Path | None:
        for folder in sorted((self._root / f"cpu{cpu}/cache").glob("index[0-9]*")):
            if self._text(folder / "level") == "3" and (folder / "id").exists():
                return folder
        return None

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text().strip()
        except OSError as error:
            raise HardwareError(f"{path}: {error.strerror}; is sysfs mounted?") from error


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * unit
