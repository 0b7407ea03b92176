# SPDX-License-Identifier: Apache-2.0
"""What CPUID says of cache allocation, read through the kernel's cpuid driver.

Source: Intel SDM volume 3, 18.19.4.1, leaf 0x10; Linux, arch/x86/kernel/cpuid.c: the file's offset
is the subleaf (upper 32 bits) and the leaf, a read gives EAX, EBX, ECX, EDX.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from iat_nova.hardware.api import HardwareError
from iat_nova.model import BandwidthControl

_ALLOCATION, _L3, _MEMORY = 0x10, 1, 3  # the leaf; subleaves of CAT and MBA
_LINEAR = 1 << 2  # in ECX of MBA: the delay is a share of the time
_REGISTERS = struct.Struct("<4I")


class L3Allocation(NamedTuple):
    """Limits of L3 allocation; `shared` is the mask of ways that devices may use as well."""

    ways: int
    classes: int  # the least of CAT's and MBA's: a class has both masks
    shared: int
    bandwidth: BandwidthControl | None = None


def l3_allocation(cpu: int, devices: Path = Path("/dev/cpu")) -> L3Allocation:
    """Return a CPU's limits. Raises `HardwareError` without the driver or the feature."""
    path = devices / str(cpu) / "cpuid"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            cat, mba = (os.pread(fd, 16, part << 32 | _ALLOCATION) for part in (_L3, _MEMORY))
        finally:
            os.close(fd)
    except OSError as error:
        raise HardwareError(f"{path}: {error.strerror}; modprobe cpuid") from error
    eax, ebx, _, most = _REGISTERS.unpack(cat)  # the highest class, 0 without the feature
    if not most:
        raise HardwareError("CPUID: this CPU has no L3 cache allocation")
    delay, _, kind, most_of_mba = _REGISTERS.unpack(mba)
    step = 100 - (delay & 0xFFF) - 1  # Linux and libpqos take it for the least and the step
    bandwidth = None
    if most_of_mba and kind & _LINEAR and step > 0:
        bandwidth = BandwidthControl(step, step, 100, percent=True)
    return L3Allocation((eax & 0x1F) + 1, min(most, most_of_mba or most) + 1, ebx, bandwidth)
