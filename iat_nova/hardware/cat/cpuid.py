# SPDX-License-Identifier: Apache-2.0
"""The features of I/O RDT by CPUID, read through the kernel's cpuid driver.

Source: Intel SDM volume 3, 18.19.4.1, leaf 0x10, and leaf 0xF; arch/x86/kernel/cpuid.c: the file's
offset is the subleaf (upper 32 bits) and the leaf, a read gives EAX, EBX, ECX, EDX.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.model import message

_ALLOCATION, _L3 = 0x10, 1  # the leaf; the subleaf of CAT, a bit in its EBX
_MONITORING = 0xF  # the leaf; subleaf 0 has the resources in EDX, subleaf 1 is the L3's
_IO_CLASSES = 1 << 1  # in ECX of CAT: classes of devices (I/O RDT)
_IO_OCCUPANCY, _IO_TRAFFIC = 1 << 9, 1 << 10  # in EAX of L3 monitoring: RMIDs of devices
_REGISTERS = struct.Struct("<4I")


class IoRdtFeatures(NamedTuple):
    """Features of I/O RDT: classes of devices; RMIDs of devices, for occupancy and traffic."""

    classes: bool
    occupancy: bool
    traffic: bool


def io_rdt(cpu: int, devices: Path = Path("/dev/cpu")) -> IoRdtFeatures:
    """Return the features of I/O RDT of a CPU. Raises `HardwareError` without the driver."""
    path = devices / str(cpu) / "cpuid"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            highest = _leaf(fd, 0, 0)[0]
            allocated = _leaf(fd, _ALLOCATION, _L3)[2] if _offered(fd) >> _L3 & 1 else 0
            monitors = highest >= _MONITORING and _leaf(fd, _MONITORING, 0)[3] >> _L3 & 1
            monitored = _leaf(fd, _MONITORING, _L3)[0] if monitors else 0
        finally:
            os.close(fd)
    except OSError as error:
        raise HardwareError(unusable(path, error), message("load-cpuid")) from error
    return IoRdtFeatures(
        bool(allocated & _IO_CLASSES),
        bool(monitored & _IO_OCCUPANCY),
        bool(monitored & _IO_TRAFFIC),
    )


def _offered(fd: int) -> int:
    """Return the resources that can be allocated, one bit per subleaf.

    For a leaf beyond the highest leaf, Intel's CPUs return the values of the highest leaf.
    """
    return _leaf(fd, _ALLOCATION, 0)[1] if _leaf(fd, 0, 0)[0] >= _ALLOCATION else 0


def _leaf(fd: int, leaf: int, subleaf: int) -> tuple[int, int, int, int]:
    eax, ebx, ecx, edx = _REGISTERS.unpack(os.pread(fd, _REGISTERS.size, subleaf << 32 | leaf))
    return eax, ebx, ecx, edx
