# SPDX-License-Identifier: Apache-2.0
"""Registers in physical memory through ``/dev/mem``.

The file needs CAP_SYS_RAWIO, and a kernel that is not locked down. With CONFIG_STRICT_DEVMEM (all
distributions) the kernel refuses RAM and, with CONFIG_IO_STRICT_DEVMEM, memory that a driver has
claimed.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from iat_nova.hardware.api import HardwareError, KernelError, unusable
from iat_nova.model import message

_RAM = 1 << 20  # RAM on every PC: the first byte above the legacy area

_FORMATS: Mapping[int, Literal["H", "I"]] = {2: "H", 4: "I"}  # of a memoryview, by width in bytes
_REMEDIES = {
    errno.ENOENT: message("kernel-without-memory"),
    errno.EPERM: message("give-memory-right"),
    errno.EACCES: message("give-memory-right"),
}


class PhysicalMemory:
    """Registers of 2 or 4 bytes by physical address."""

    def __init__(self, path: Path = Path("/dev/mem")) -> None:
        self._path = path

    def load(self, address: int, width_bytes: int, count: int = 1) -> tuple[int, ...]:
        """Return adjacent registers, with an access for each. Raises `HardwareError`."""
        with self._mapped(address, width_bytes, count, writable=False) as registers:
            return tuple(registers)

    def store(self, address: int, width_bytes: int, value: int) -> None:
        """Write a register with one access. Raises `HardwareError`."""
        with self._mapped(address, width_bytes, 1, writable=True) as registers:
            registers[0] = value

    def check(self) -> None:
        """Raise `HardwareError` if the kernel hands out RAM.

        Firmware with a wrong address in a table would have the agent write to RAM there.
        """
        try:
            with self._mapped(_RAM, 2, 1, writable=False):
                pass
        except KernelError as error:
            if error.code not in (errno.EPERM, None):  # None: a file in the place of the device
                raise
            return
        raise HardwareError(
            message("memory-unprotected", path=str(self._path)),
            message("use-kernel-with-strict-devmem"),
        )

    @contextlib.contextmanager
    def _mapped(
        self, address: int, width_bytes: int, count: int, *, writable: bool
    ) -> Iterator[memoryview]:
        page = address - address % mmap.ALLOCATIONGRANULARITY
        flags = os.O_RDWR if writable else os.O_RDONLY
        try:
            fd = os.open(self._path, flags | os.O_SYNC | os.O_CLOEXEC)
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0)
            raise KernelError(unusable(self._path, error), error.errno, remedy) from error
        access = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
        length = address + count * width_bytes - page
        try:
            mapped = mmap.mmap(fd, length, mmap.MAP_SHARED, access, offset=page)
        except (OSError, ValueError) as error:  # ValueError: a file in the place of the device
            code = error.errno if isinstance(error, OSError) else None
            reason = str(error) if code is None else os.strerror(code)
            state = message("memory-refused", path=str(self._path), address=address, reason=reason)
            raise KernelError(state, code, message("see-iomem")) from error
        finally:
            os.close(fd)
        with (
            mapped,
            memoryview(mapped) as whole,
            whole[address - page :] as part,
            part.cast(_FORMATS[width_bytes]) as registers,
        ):
            yield registers
