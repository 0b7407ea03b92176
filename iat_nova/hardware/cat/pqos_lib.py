# SPDX-License-Identifier: Apache-2.0
"""libpqos by ctypes: the few functions that versions 4 to 7 have in common, checked when loaded.

Source: pqos.h of intel-cmt-cat 4.5, 6.0 and 7.1. Differences between the versions:

* ``struct pqos_l3ca`` begins with a ``domain_id`` from version 6 on;
* ``struct pqos_coreinfo`` grew at the end, so entries are read one by one, never as a table;
* ``struct pqos_cap_l3ca``, ``pqos_cap_mba`` and ``pqos_mba`` grew at their ends.

Sizes are compared for structures with a size (`mem_size`). The layouts of ``pqos_l3ca`` and
``pqos_mba`` are recognised by the values that the library writes. Other layouts are refused;
nothing is guessed.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.cpuid import L3Allocation
from iat_nova.model import BandwidthControl, Message, message

SONAMES = ("libpqos.so.7", "libpqos.so.6", "libpqos.so.5", "libpqos.so.4")
_MAJORS = range(4, 8)
_CLASSES_MAX = 128
_CAP_L3CA, _CAP_MBA = 1, 3
_INTERFACE_MSR = 0  # enum pqos_interface
_RETURN = {
    1: message("pqos-error"),
    2: message("pqos-bad-parameter"),
    3: message("pqos-not-offered"),
    4: message("pqos-not-initialised"),
    5: message("pqos-register-refused"),
    6: message("pqos-performance-counters"),
    7: message("pqos-busy"),
    8: message("pqos-interface-unsupported"),
    9: message("pqos-overflow"),
    10: message("pqos-unavailable"),
}


class PqosError(HardwareError):
    """libpqos refused, or has an unknown version or layout."""


@dataclasses.dataclass(frozen=True, slots=True)
class Core:
    """A CPU as libpqos sees it."""

    cpu: int
    l3cat_id: int
    mba_id: int


class _Config(ctypes.Structure):
    _fields_ = (
        ("fd_log", ctypes.c_int),
        ("callback_log", ctypes.c_void_p),
        ("context_log", ctypes.c_void_p),
        ("verbose", ctypes.c_int),
        ("interface", ctypes.c_int),
    )


class _CapL3ca(ctypes.Structure):  # the common part of all versions
    _fields_ = (
        ("mem_size", ctypes.c_uint),
        ("num_classes", ctypes.c_uint),
        ("num_ways", ctypes.c_uint),
        ("way_size", ctypes.c_uint),
        ("way_contention", ctypes.c_uint64),
        ("cdp", ctypes.c_int),
        ("cdp_on", ctypes.c_int),
    )


class _Capability(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("pointer", ctypes.c_void_p))


class _Cap(ctypes.Structure):  # followed by num_cap times _Capability, at offset 16
    _fields_ = (
        ("mem_size", ctypes.c_uint),
        ("version", ctypes.c_uint),
        ("num_cap", ctypes.c_uint),
        ("_pad", ctypes.c_uint),
    )


class _L3ca4(ctypes.Structure):
    _fields_ = (
        ("class_id", ctypes.c_uint),
        ("cdp", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("code_mask", ctypes.c_uint64),
    )


class _L3ca6(ctypes.Structure):
    _fields_ = (
        ("domain_id", ctypes.c_uint16),
        ("class_id", ctypes.c_uint),
        ("cdp", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("code_mask", ctypes.c_uint64),
    )


class _CapMba(ctypes.Structure):  # the common part of all versions
    _fields_ = (
        ("mem_size", ctypes.c_uint),
        ("num_classes", ctypes.c_uint),
        ("throttle_max", ctypes.c_uint),
        ("throttle_step", ctypes.c_uint),
        ("is_linear", ctypes.c_int),
        ("ctrl", ctypes.c_int),
        ("ctrl_on", ctypes.c_int),
    )


class _Mba(ctypes.Structure):  # the common part of all versions: 12 bytes of 12, 16 or 88
    _fields_ = (("class_id", ctypes.c_uint), ("mb_max", ctypes.c_uint), ("ctrl", ctypes.c_int))


_MBA_ROOM = 256  # maximum bytes of one `pqos_mba`
_UNLIMITED_AMD = 2048  # eighths of a GB/s

_Layout = type[_L3ca4] | type[_L3ca6]


def load(sonames: tuple[str, ...] = SONAMES) -> ctypes.CDLL:
    """Return the newest libpqos of this host. Raises `PqosError` if libpqos is not installed."""
    for name in sonames:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise PqosError(message("pqos-absent", names=sonames), message("install-pqos"))


class Pqos:
    """An initialised libpqos, one per process; `close` releases the lock of libpqos.

    `cpus`: the online CPUs. Raises `PqosError`.
    """

    def __init__(self, cpus: Iterable[int], library: ctypes.CDLL | None = None) -> None:
        self._library: Any = library or load()
        self._log = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            config = _Config(fd_log=self._log, verbose=-1, interface=_INTERFACE_MSR)
            self._call("pqos_init", ctypes.byref(config))
        except BaseException:
            os.close(self._log)
            raise
        try:
            self.capability, self.cores = self._describe(sorted(cpus))
            self._layout = self._recognise()
            self._mba_size = self._recognise_mba() if self.capability.bandwidth else 0
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Shut the library down; masks and associations are kept."""
        if self._log >= 0:
            self._library.pqos_fini()
            os.close(self._log)
            self._log = -1

    def masks(self, l3cat_id: int) -> dict[int, int]:
        """Return the masks of all classes of a domain, by class number."""
        table = (self._layout * _CLASSES_MAX)()
        return {item.class_id: item.mask for item in self._get(l3cat_id, table)}

    def set_masks(self, l3cat_id: int, masks: Mapping[int, int]) -> None:
        """Set masks of a domain, by class number."""
        table = (self._layout * len(masks))()
        for item, (number, mask) in zip(table, masks.items(), strict=True):
            item.class_id, item.mask = number, mask
        each = tuple(message("pqos-class-mask", number=n, mask=mask) for n, mask in masks.items())
        what = message("pqos-masks", domain=l3cat_id, masks=each)
        self._call("pqos_l3ca_set", l3cat_id, len(masks), table, what=what)

    def bandwidth(self, mba_id: int) -> dict[int, int]:
        """Return the memory bandwidth of all classes, by class number, in `capability`'s unit."""
        room, count = self._get_mba(mba_id)
        items = (_Mba.from_buffer(room, n * self._mba_size) for n in range(count))
        return {item.class_id: item.mb_max for item in items}

    def set_bandwidth(self, mba_id: int, limits: Mapping[int, int]) -> None:
        """Set the memory bandwidth of classes, by class number, in `capability`'s unit."""
        for number, limit in limits.items():  # one at a time, independent of the structure's size
            wanted, made = (ctypes.create_string_buffer(_MBA_ROOM) for _ in range(2))
            item = _Mba.from_buffer(wanted)
            item.class_id, item.mb_max = number, limit
            what = message("pqos-limit", domain=mba_id, number=number, limit=limit)
            self._call("pqos_mba_set", mba_id, 1, wanted, made, what=what)

    def class_of(self, cpu: int) -> int:
        """Return the class of a CPU."""
        number = ctypes.c_uint()
        what = message("pqos-cpu", cpu=cpu)
        self._call("pqos_alloc_assoc_get", cpu, ctypes.byref(number), what=what)
        return number.value

    def set_class(self, cpu: int, number: int) -> None:
        """Put a CPU into a class."""
        what = message("pqos-cpu-into-class", cpu=cpu, number=number)
        self._call("pqos_alloc_assoc_set", cpu, number, what=what)

    def min_ways(self) -> int:
        """Return the minimum number of ways of a mask."""
        bits = ctypes.c_uint()
        self._call("pqos_l3ca_get_min_cbm_bits", ctypes.byref(bits))
        return max(bits.value, 1)

    def _describe(self, cpus: Iterable[int]) -> tuple[L3Allocation, tuple[Core, ...]]:
        cap, table = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("pqos_cap_get", ctypes.byref(cap), ctypes.byref(table))
        if not cap.value or not table.value:
            raise PqosError(message("pqos-without-capabilities"))
        return _capability(cap.value), tuple(self._core(table, cpu) for cpu in cpus)

    def _core(self, table: ctypes.c_void_p, cpu: int) -> Core:
        find = self._library.pqos_cpu_get_core_info
        find.restype = ctypes.POINTER(ctypes.c_uint)
        core = find(table, cpu)
        if not core or core[0] != cpu:
            raise PqosError(message("pqos-coreinfo-unknown", cpu=cpu))
        return Core(cpu=cpu, l3cat_id=core[4], mba_id=core[5])

    def _recognise(self) -> _Layout:
        """Recognise the layout of pqos_l3ca by the library's values for the first domain."""
        first = min(core.l3cat_id for core in self.cores)
        fitting = [layout for layout in (_L3ca4, _L3ca6) if self._fits(first, layout)]
        if len(fitting) != 1:
            state = message("pqos-l3ca-unknown")
            raise PqosError(state, message("use-resctrl"))
        return fitting[0]

    def _fits(self, l3cat_id: int, layout: _Layout) -> bool:
        # Filled with ones, so that unwritten entries are not plausible. Sized for the larger
        # layout, so that no layout writes beyond the room.
        room = (_L3ca6 * _CLASSES_MAX)()
        ctypes.memset(room, 0xFF, ctypes.sizeof(room))
        table = (layout * _CLASSES_MAX).from_buffer(room)
        full = (1 << self.capability.ways) - 1
        items = self._get(l3cat_id, table)
        return [item.class_id for item in items] == list(range(len(items))) and all(
            item.cdp in (0, 1) and 0 < item.mask <= full for item in items
        )

    def _get(self, l3cat_id: int, table: Any) -> list[Any]:
        count = ctypes.c_uint()
        self._call("pqos_l3ca_get", l3cat_id, _CLASSES_MAX, ctypes.byref(count), table)
        return list(table[: count.value])

    def _recognise_mba(self) -> int:
        """Recognise the size of pqos_mba by the library's values for the first domain."""
        room, count = self._get_mba(min(core.mba_id for core in self.cores))
        for size in range(ctypes.sizeof(_Mba), _MBA_ROOM + 1, 4):
            items = [_Mba.from_buffer(room, n * size) for n in range(count)]
            if count > 1 and all(
                item.class_id == n and item.mb_max <= _UNLIMITED_AMD
                for n, item in enumerate(items)  # `ctrl` is -1 if unknown
            ):
                return size
        state = message("pqos-mba-unknown")
        raise PqosError(state, message("use-resctrl"))

    def _get_mba(self, mba_id: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
        # Filled with ones, so that unwritten entries are not plausible.
        room = ctypes.create_string_buffer(_MBA_ROOM * _CLASSES_MAX)
        ctypes.memset(room, 0xFF, ctypes.sizeof(room))
        count = ctypes.c_uint()
        self._call("pqos_mba_get", mba_id, _CLASSES_MAX, ctypes.byref(count), room)
        return room, count.value

    def _call(self, name: str, *arguments: Any, what: Message | None = None) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            reason = _RETURN.get(code, message("pqos-code", number=code))
            state = message("pqos-call-failed", call=name, reason=reason)
            if what is not None:
                state = message("pqos-change-failed", call=name, what=what, reason=reason)
            raise PqosError(state, message("ask-doctor-and-pqos"))


def _capability(address: int) -> L3Allocation:
    cap = _Cap.from_address(address)
    major = cap.version // 10000
    if major not in _MAJORS:
        minor, patch = divmod(cap.version % 10000, 100)
        state = message("pqos-version-unknown", version=f"{major}.{minor}.{patch}")
        raise PqosError(state, message("use-resctrl"))
    size = ctypes.sizeof(_Cap) + cap.num_cap * ctypes.sizeof(_Capability)
    if not 0 < cap.num_cap <= 16 or cap.mem_size != size:
        raise PqosError(message("pqos-cap-size", size_bytes=cap.mem_size, known_bytes=size))
    entries = (_Capability * cap.num_cap).from_address(address + ctypes.sizeof(_Cap))
    by_type = {entry.type: entry.pointer for entry in entries}
    if not by_type.get(_CAP_L3CA):
        raise PqosError(message("pqos-without-l3"))
    l3ca = _CapL3ca.from_address(by_type[_CAP_L3CA])
    known = (32,) if major == 4 else (32, 40, 48)
    if l3ca.mem_size not in known or not 0 < l3ca.num_ways <= 64:
        sizes = tuple(map(str, known))
        raise PqosError(message("pqos-l3ca-size", size_bytes=l3ca.mem_size, known_bytes=sizes))
    if l3ca.cdp_on:
        raise PqosError(message("pqos-cdp-on"), message("use-resctrl-or-cdp-off"))
    classes, bandwidth = l3ca.num_classes, None
    if by_type.get(_CAP_MBA):
        mba = _CapMba.from_address(by_type[_CAP_MBA])
        classes = min(classes, mba.num_classes)
        bandwidth = _bandwidth(mba)
    return L3Allocation(l3ca.num_ways, classes, l3ca.way_contention, bandwidth)


def _bandwidth(mba: _CapMba) -> BandwidthControl | None:
    """Return the control of memory bandwidth, or None.

    Bandwidth cannot be limited if MBA's controller is on (``mba_MBps``): then the kernel steers
    bandwidth in MB/s. Bandwidth can also not be limited if delays are not linear, and so not a
    percentage.
    """
    if mba.ctrl_on > 0:
        return None
    if not mba.throttle_max:  # AMD has neither delays nor percent
        return BandwidthControl(1, 1, _UNLIMITED_AMD, percent=False)
    if not mba.is_linear or not 0 < mba.throttle_max < 100 or not mba.throttle_step:
        return None
    return BandwidthControl(100 - mba.throttle_max, mba.throttle_step, 100, percent=True)
