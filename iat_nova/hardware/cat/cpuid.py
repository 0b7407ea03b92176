# SPDX-License-Identifier: Apache-2.0
"""The limits of cache allocation by CPUID, read through the kernel's cpuid driver.

Source: Intel SDM volume 3, 18.19.4.1, leaf 0x10, and leaf 0xF; AMD's leaf 0x80000020 as Linux reads
it (arch/x86/kernel/cpu/resctrl/core.c); arch/x86/kernel/cpuid.c: the file's offset is the subleaf
(upper 32 bits) and the leaf, a read gives EAX, EBX, ECX, EDX.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.model import BandwidthControl, message

_ALLOCATION, _L3, _MEMORY = 0x10, 1, 3  # the leaf; subleaves of CAT and MBA, bits in its EBX
_MONITORING = 0xF  # the leaf; subleaf 0 has the resources in EDX, subleaf 1 is the L3's
_IO_CLASSES = 1 << 1  # in ECX of CAT: classes of devices (I/O RDT)
_IO_OCCUPANCY, _IO_TRAFFIC = 1 << 9, 1 << 10  # in EAX of L3 monitoring: RMIDs of devices
_LINEAR = 1 << 2  # in ECX of MBA: the delay is a share of the time
_EXTENDED, _AMD = 0x80000000, 0x80000020  # the highest extended leaf; the leaf of AMD's QoS
_ENFORCES = 1 << 1  # in EBX of subleaf 0: memory bandwidth, described in subleaf 1
_REGISTERS = struct.Struct("<4I")


class L3Allocation(NamedTuple):
    """Limits of L3 allocation; `shared` is the mask of ways that devices may also use."""

    ways: int
    classes: int  # the smaller number of CAT and MBA: a class has both
    shared: int
    bandwidth: BandwidthControl | None = None


class IoRdtFeatures(NamedTuple):
    """Features of I/O RDT: classes of devices; RMIDs of devices, for occupancy and traffic."""

    classes: bool
    occupancy: bool
    traffic: bool


def io_rdt(cpu: int, devices: Path = Path("/dev/cpu")) -> IoRdtFeatures:
    """Return the features of I/O RDT of a CPU. Raises `HardwareError` without the driver."""
    with _opened(cpu, devices) as fd:
        highest = _leaf(fd, 0, 0)[0]
        allocated = _leaf(fd, _ALLOCATION, _L3)[2] if _offered(fd) >> _L3 & 1 else 0
        monitors = highest >= _MONITORING and _leaf(fd, _MONITORING, 0)[3] >> _L3 & 1
        monitored = _leaf(fd, _MONITORING, _L3)[0] if monitors else 0
    return IoRdtFeatures(
        bool(allocated & _IO_CLASSES),
        bool(monitored & _IO_OCCUPANCY),
        bool(monitored & _IO_TRAFFIC),
    )


def l3_allocation(cpu: int, devices: Path = Path("/dev/cpu")) -> L3Allocation:
    """Return a CPU's limits. Raises `HardwareError` without the driver or the feature."""
    with _opened(cpu, devices) as fd:
        offered = _offered(fd)
        eax, ebx, most = 0, 0, 0  # the highest class
        if offered >> _L3 & 1:
            eax, ebx, _, most = _leaf(fd, _ALLOCATION, _L3)
        bandwidth, most_of_mba = _mba(fd, offered)
    if not most:
        raise HardwareError(message("cpuid-without-l3"))
    return L3Allocation((eax & 0x1F) + 1, min(most, most_of_mba or most) + 1, ebx, bandwidth)


@contextlib.contextmanager
def _opened(cpu: int, devices: Path) -> Iterator[int]:
    """Yield a descriptor of a CPU's leaves. Raises `HardwareError` where they cannot be read."""
    path = devices / str(cpu) / "cpuid"
    try:
        with path.open("rb", buffering=0) as file:
            yield file.fileno()
    except OSError as error:
        remedy = message("load-module", module="cpuid")
        raise HardwareError(unusable(path, error), remedy) from error


def _offered(fd: int) -> int:
    """Return the resources that can be allocated, one bit per subleaf.

    For a leaf beyond the highest leaf, Intel's CPUs return the values of the highest leaf.
    """
    return _leaf(fd, _ALLOCATION, 0)[1] if _leaf(fd, 0, 0)[0] >= _ALLOCATION else 0


def _mba(fd: int, offered: int) -> tuple[BandwidthControl | None, int]:
    """Return the control of memory bandwidth or None, and the highest class, 0 without MBA."""
    if offered >> _MEMORY & 1:
        delay, _, kind, most = _leaf(fd, _ALLOCATION, _MEMORY)
        step = 100 - (delay & 0xFFF) - 1  # minimum and step, as in Linux and libpqos
        linear = kind & _LINEAR and step > 0
        return BandwidthControl(step, step, 100, percent=True) if linear else None, most
    if _leaf(fd, _EXTENDED, 0)[0] < _AMD or not _leaf(fd, _AMD, 0)[1] & _ENFORCES:
        return None, 0
    bits, _, _, most = _leaf(fd, _AMD, 1)
    return BandwidthControl(1, 1, 1 << bits, percent=False), most


def _leaf(fd: int, leaf: int, subleaf: int) -> tuple[int, int, int, int]:
    eax, ebx, ecx, edx = _REGISTERS.unpack(os.pread(fd, _REGISTERS.size, subleaf << 32 | leaf))
    return eax, ebx, ecx, edx
