# SPDX-License-Identifier: Apache-2.0
"""Model-specific registers through the kernel's msr driver, ``/dev/cpu/N/msr``.

Only the registers in the two lists below can be accessed, so a mistake elsewhere cannot change any
other register. Numbers: Intel SDM volume 4; uncore reference manuals (IIO_LLC_WAYS).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection
from pathlib import Path

from iat_nova.hardware.api import KernelError
from iat_nova.hardware.kernel import files
from iat_nova.model import message

L3_IO_QOS_CFG = 0xC83  # cache domain: bit 0 classes of devices are on, bit 1 RMIDs of devices
IIO_LLC_WAYS = 0xC8B  # package: one bit per way that inbound I/O may fill
PQR_ASSOC = 0xC8F  # thread: class of service in bits 63..32
L3_MASK = 0xC90  # package: + class of service

_WRITABLE = (L3_IO_QOS_CFG, IIO_LLC_WAYS)
_READABLE = (*_WRITABLE, PQR_ASSOC, *range(L3_MASK, L3_MASK + 128))

_VALUE = struct.Struct("<Q")


class MsrError(KernelError):
    """A register cannot be accessed."""


class Msr:
    """Registers by CPU. Descriptors are opened at first use and kept until `close`."""

    def __init__(
        self,
        root: Path = Path("/dev/cpu"),
        parameters: Path = Path("/sys/module/msr/parameters"),
    ) -> None:
        self._root = root
        self._parameters = parameters
        self._fds: dict[tuple[int, int], int] = {}

    # Tests replace the next two methods.

    def pread(self, cpu: int, register: int) -> bytes:
        """Return the eight bytes of a register. Raises `OSError`."""
        return os.pread(self._fd(cpu, os.O_RDONLY), 8, register)

    def pwrite(self, cpu: int, register: int, data: bytes) -> None:
        """Write the eight bytes of a register. Raises `OSError`."""
        os.pwrite(self._fd(cpu, os.O_WRONLY), data, register)

    def read(self, cpu: int, register: int) -> int:
        """Return a register of a CPU. Raises `MsrError`, `ValueError` for other registers."""
        _check(register, _READABLE)
        try:
            data = self.pread(cpu, register)
        except OSError as error:
            raise self._refusal(error, cpu, register) from error
        value: int = _VALUE.unpack(data)[0]
        return value

    def write(self, cpu: int, register: int, value: int) -> None:
        """Set a register of a CPU. Raises `MsrError`."""
        _check(register, _WRITABLE)
        try:
            self.pwrite(cpu, register, _VALUE.pack(value))
        except OSError as error:
            raise self._refusal(error, cpu, register, value) from error

    def close(self) -> None:
        """Close all descriptors; later accesses open new descriptors."""
        while self._fds:
            os.close(self._fds.popitem()[1])

    def _fd(self, cpu: int, flags: int) -> int:
        fd = self._fds.get((cpu, flags))
        if fd is None:
            fd = os.open(self._root / str(cpu) / "msr", flags | os.O_CLOEXEC)
            self._fds[cpu, flags] = fd
        return fd

    def _refusal(
        self, error: OSError, cpu: int, register: int, written: int | None = None
    ) -> MsrError:
        code = error.errno or 0
        path, reason = f"{self._root}/{cpu}", os.strerror(code)
        state = message("register-unread", path=path, register=register, reason=reason)
        if written is not None:
            state = message(
                "register-unwritten", path=path, register=register, value=written, reason=reason
            )
            setting = self._parameters / "allow_writes"
            denied = errno.EPERM, errno.EACCES
            if code in denied and files.text_of(setting, *denied) == "off":
                why = message("register-writes-off", refusal=state)
                return MsrError(why, code, message("allow-msr-writes", path=str(setting)))
        return MsrError(state, code, _ADVICE.get(code, message("see-kernel-log")))


_ADVICE = {
    errno.ENOENT: message("load-module", module="msr"),
    errno.EPERM: message("give-msr-right"),
    errno.EACCES: message("give-msr-right"),
    errno.EIO: message("register-absent"),
    errno.ENXIO: message("cpu-online-or-load-msr"),
    errno.EMFILE: message("raise-unit-open-files"),
}


def _check(register: int, allowed: Collection[int]) -> None:
    if register not in allowed:
        raise ValueError(f"register {register:#x} is none of those this program may touch")


def with_bits(now: int, value: int, bits: int) -> int:
    """Return a register's value with these bits taken from another value."""
    return now & ~bits | value & bits
