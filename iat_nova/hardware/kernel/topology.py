# SPDX-License-Identifier: Apache-2.0
"""The CPUs of each last-level cache, read from sysfs, also during CPU hot-plug.

Source: Linux, Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from iat_nova.common.cpulist import parse_cpus
from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.kernel import files
from iat_nova.model import message

_CPU = re.compile("cpu[0-9]+")
_INDEX = re.compile("index[0-9]+")
_NODE = re.compile("node([0-9]+)")  # the link to a CPU's NUMA node
_T = TypeVar("_T")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclasses.dataclass(frozen=True, slots=True)
class Cache:
    """One last-level cache, with the online CPUs that share the cache.

    `size_bytes`, `ways` None: unknown to the kernel. `nodes`: NUMA nodes of these CPUs, several
    with sub-NUMA clustering. `socket_nodes`: NUMA nodes of all online CPUs of the package. `nodes`
    and `socket_nodes` are empty if the kernel knows no NUMA nodes.
    """

    id: int  # the kernel's cache id, resctrl's domain number
    cpus: tuple[int, ...]
    size_bytes: int | None
    package: int
    ways: int | None = None
    nodes: tuple[int, ...] = ()
    socket_nodes: tuple[int, ...] = ()


class Topology:
    """The CPUs and L3 caches of a machine, read again at each call."""

    def __init__(self, root: Path = Path("/sys/devices/system/cpu")) -> None:
        self._root = root

    def online(self) -> frozenset[int]:
        """Return the CPUs that are online now."""
        return self._parsed(self._root / "online", parse_cpus)

    def caches(self) -> tuple[Cache, ...]:
        """Return the L3 caches in order of their ids; empty without L3 caches in sysfs.

        CPUs with the same id share a cache, as in resctrl. The kernel may cut `shared_cpu_list` at
        a NUMA node: several lists with the same id are one cache. The files of a CPU vanish when
        the CPU goes offline: such a CPU is left out.
        """
        found: dict[int, Cache] = {}
        known: set[int] = set()
        for cpu in sorted(self.online()):
            if cpu in known:  # the files of all CPUs of a list have equal contents
                continue
            stamp = self.plugged(cpu)
            try:
                cache = self._cache(cpu)
            except HardwareError:
                if stamp is not None and self.plugged(cpu) == stamp:
                    raise
                continue
            if cache is None or self.plugged(cpu) != stamp:
                continue
            known.update(cache.cpus)
            before = found.setdefault(cache.id, cache)
            cpus = tuple(sorted({*before.cpus, *cache.cpus}))
            found[cache.id] = dataclasses.replace(before, cpus=cpus)
        nodes = {one.id: self._nodes(one.cpus) for one in found.values()}
        of_socket: dict[int, set[int]] = {}
        for one in found.values():
            of_socket.setdefault(one.package, set()).update(nodes[one.id])
        return tuple(
            dataclasses.replace(
                found[number],
                nodes=tuple(sorted(nodes[number])),
                socket_nodes=tuple(sorted(of_socket[found[number].package])),
            )
            for number in sorted(found)
        )

    def _cache(self, cpu: int) -> Cache | None:
        folder = self._l3(cpu)
        if folder is None:
            return None
        return Cache(
            id=self._parsed(folder / "id", int),
            cpus=tuple(sorted(self._parsed(folder / "shared_cpu_list", parse_cpus) | {cpu})),
            size_bytes=_size(folder / "size"),
            package=self.package(cpu),
            ways=files.number_of(folder / "ways_of_associativity"),
        )

    def package(self, cpu: int) -> int:
        """Return the physical package (socket) of an online CPU."""
        return self._parsed(self._root / f"cpu{cpu}/topology/physical_package_id", int)

    def _nodes(self, cpus: tuple[int, ...]) -> set[int]:
        names = (name for cpu in cpus for name in files.names(self._root / f"cpu{cpu}"))
        found = (_NODE.fullmatch(name) for name in names)
        return {int(node[1]) for node in found if node}

    def siblings(self, cpu: int) -> frozenset[int]:
        """Return the hyper-threads of a CPU's core, including this CPU."""
        try:
            path = self._root / f"cpu{cpu}/topology/thread_siblings_list"
            return self._parsed(path, parse_cpus)
        except HardwareError:
            return frozenset({cpu})

    def plugged(self, cpu: int) -> int | None:
        """Return a number that changes when a CPU goes offline and online again.

        None while the CPU is offline. The kernel removes the folder of an offline CPU's caches, and
        makes a new folder with another inode when the CPU is online again. Raises `HardwareError`.
        """
        status = files.status(self._root / f"cpu{cpu}/cache/index0")
        return None if status is None else status.st_ino

    def stamps(self, cpus: Iterable[int] | None = None) -> dict[int, int | None]:
        """Return `plugged` of the online ones of these CPUs; None: of all CPUs.

        Equal while no CPU goes online or offline.
        """
        online = self.online()
        wanted = online if cpus is None else online.intersection(cpus)
        return {cpu: self.plugged(cpu) for cpu in sorted(wanted)}

    def in_transition(self) -> frozenset[int]:
        """Return the CPUs that the kernel is taking offline or bringing online.

        Source: Linux, kernel/cpu.c: then ``hotplug/state`` differs from ``hotplug/target``. Before
        Linux 6.2 the two always differ for the boot CPU, whose target is 0. A CPU that can go
        offline has a file ``online``; the boot CPU has none.
        """
        cpus = filter(_CPU.fullmatch, files.names(self._root))
        return frozenset(
            int(name.removeprefix("cpu"))
            for name in cpus
            if files.exists(self._root / name / "online")
            and files.text_of(self._root / name / "hotplug/state")
            != files.text_of(self._root / name / "hotplug/target")
        )

    def _l3(self, cpu: int) -> Path | None:
        caches = self._root / f"cpu{cpu}/cache"
        for name in filter(_INDEX.fullmatch, files.names(caches)):
            if self._text(caches / name / "level") == "3" and files.exists(caches / name / "id"):
                return caches / name
        return None

    def _parsed(self, path: Path, parse: Callable[[str], _T]) -> _T:
        text = self._text(path)
        try:
            return parse(text)
        except ValueError as error:  # a text of another form
            raise HardwareError(unusable(path, error), message("is-sysfs-mounted")) from error

    @staticmethod
    def _text(path: Path) -> str:
        try:
            return path.read_text().strip()
        except OSError as error:
            raise HardwareError(unusable(path, error), message("is-sysfs-mounted")) from error


def _size(path: Path) -> int | None:
    text = files.text_of(path)
    try:
        return int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1) or None
    except ValueError:  # only the advice on buffers needs the size
        return None
