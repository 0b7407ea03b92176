# SPDX-License-Identifier: Apache-2.0
"""Model-specific registers through the kernel's msr driver, ``/dev/cpu/N/msr``.

Only the registers in the two lists below can be accessed, so a mistake elsewhere cannot change any
other register. Numbers: Intel SDM volume 4; uncore reference manuals (CHA boxes, IIO_LLC_WAYS).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from iat_nova.common.cpulist import format_cpus
from iat_nova.common.kernel_files import text_of
from iat_nova.hardware.api import KernelError
from iat_nova.hardware.kernel.rollback import Reach, put_all_back
from iat_nova.hardware.kernel.shape import INDEX, VALUE, Shape, listing, row
from iat_nova.model import Message, message

L3_IO_QOS_CFG = 0xC83  # cache domain: bit 0 classes of devices are on, bit 1 RMIDs of devices
IIO_LLC_WAYS = 0xC8B  # package: one bit per way that inbound I/O may fill
PQR_ASSOC = 0xC8F  # thread: class of service in bits 63..32
L3_MASK = 0xC90  # package: + class of service
PMC = 0xC1  # thread: + n, general counter
PERFEVTSEL = 0x186  # thread: + n, event select of PMC n
PERF_GLOBAL_CTRL = 0x38F  # thread: bit n enables PMC n

_SKX_CHA = range(0xE00, 0xE00 + 28 * 0x10)
_SPR_CHA = range(0x2000, 0x2000 + 64 * 0x10)
_WRITABLE: tuple[range, ...] = (
    range(L3_IO_QOS_CFG, L3_IO_QOS_CFG + 1),
    range(IIO_LLC_WAYS, IIO_LLC_WAYS + 1),
    range(PERFEVTSEL, PERFEVTSEL + 4),
    range(PERF_GLOBAL_CTRL, PERF_GLOBAL_CTRL + 1),
    _SKX_CHA,
    _SPR_CHA,
)
_READABLE: tuple[range, ...] = (
    *_WRITABLE,
    range(PMC, PMC + 4),
    range(PQR_ASSOC, PQR_ASSOC + 1),
    range(L3_MASK, L3_MASK + 128),
)

_VALUE = struct.Struct("<Q")
_RANGE = 1 << 48  # of a counter


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
            if code in (errno.EPERM, errno.EACCES) and text_of(setting) == "off":
                why = message("register-writes-off", refusal=state)
                return MsrError(why, code, message("allow-msr-writes", path=str(setting)))
        return MsrError(state, code, _ADVICE.get(code, message("see-kernel-log")))


_ADVICE = {
    errno.ENOENT: message("load-msr"),
    errno.EPERM: message("give-msr-right"),
    errno.EACCES: message("give-msr-right"),
    errno.EIO: message("register-absent"),
    errno.ENXIO: message("cpu-online-or-load-msr"),
    errno.EMFILE: message("raise-unit-open-files"),
}


def _check(register: int, allowed: Iterable[range]) -> None:
    if not any(register in numbers for numbers in allowed):
        raise ValueError(f"register {register:#x} is none of those this program may touch")


def _registers(title: str, *allowed: range) -> Shape:
    """Return the shape of rows of `SavedRegisters.save`: key, register in these ranges, value."""
    bounds = [{"minimum": numbers[0], "maximum": numbers[-1]} for numbers in allowed]
    return listing(row(INDEX, {"title": title, "type": "integer", "anyOf": bounds}, VALUE))


CORE_REGISTERS = _registers(
    "a register of a CPU's counters",
    range(PERFEVTSEL, PERFEVTSEL + 4),
    range(PERF_GLOBAL_CTRL, PERF_GLOBAL_CTRL + 1),
)
CHA_REGISTERS = _registers("a register of the CHAs' counters", _SKX_CHA, _SPR_CHA)


class SavedRegisters:
    """The registers that a part changes: their original values, to restore each register once.

    A key stands for the CPU, or package, that owns a register. `cpu_of` returns an online CPU with
    access to the register, None if the owner is offline: then the register is out of reach.
    """

    def __init__(self, msr: Msr, cpu_of: Callable[[int], int | None]) -> None:
        self._msr = msr
        self._cpu_of = cpu_of
        self._found: dict[tuple[int, int], int] = {}
        self._wrote: set[tuple[int, int]] = set()

    def set(self, key: int, register: int, value: int) -> None:
        """Write a register, recording the original value first. Raises `MsrError`."""
        cpu = self._online(key, register)
        if (key, register) not in self._found:
            self._found[key, register] = self._msr.read(cpu, register)
        self._wrote.add((key, register))
        self._msr.write(cpu, register, value)

    def _online(self, key: int, register: int) -> int:
        """Return a CPU with access to a register. Raises `MsrError` if there is none."""
        cpu = self._cpu_of(key)
        if cpu is None:
            raise MsrError(message("register-owner-offline", register=register), errno.ENXIO)
        return cpu

    def put_back(self, keys: Collection[int] | None = None) -> None:
        """Restore the original values, the latest first, of all keys or of these keys.

        If a register refuses, the other registers are restored nevertheless. Raises `HardwareError`
        then.
        """
        wanted = [place for place in reversed(self._found) if keys is None or place[0] in keys]
        put_all_back(wanted, self._put_back)

    def _put_back(self, place: tuple[int, int]) -> None:
        key, register = place
        cpu = self._cpu_of(key)
        if cpu is not None:
            self._msr.write(cpu, register, self._found[place])
        del self._found[place]

    def save(self, places: Iterable[tuple[int, int, int]]) -> list[list[int]]:
        """Return [key, register, value] for every (key, CPU, register): plain JSON values.

        For registers that are changed already, the value is the original value.
        """
        return [
            [key, register, self._msr.read(cpu, register) if found is None else found]
            for key, cpu, register in places
            for found in (self._found.get((key, register)),)
        ]

    def written(self, saved: Sequence[Sequence[int]]) -> list[Sequence[int]] | None:
        """Return the saved registers that this process has written; see `rollback.Noting`."""
        return [one for one in saved if (one[0], one[1]) in self._wrote] or None

    def reachable(self, saved: Sequence[Sequence[int]], offline: Callable[[str], Message]) -> Reach:
        """Divide saved registers into those that an online CPU can write now and the rest.

        `offline` makes the message on keys whose CPUs are offline, given as a CPU list.
        """
        away = {key for key in {one[0] for one in saved} if self._cpu_of(key) is None}
        return Reach(
            [one for one in saved if one[0] not in away] or None,
            [one for one in saved if one[0] in away] or None,
            (offline(format_cpus(away)),) if away else (),
        )

    def restore(
        self, saved: Sequence[Sequence[int]], bits_of: Callable[[int], int]
    ) -> tuple[Message, ...]:
        """Write back registers that differ from the saved values; return a message for each.

        `bits_of` returns the bits of a register that the agent sets. The other bits are kept: the
        service's account could have forged the snapshot.
        """
        keys = {one[0] for one in saved}
        self._found = {place: one for place, one in self._found.items() if place[0] not in keys}

        def put_back(one: Sequence[int]) -> Message | None:
            key, register, value = one
            cpu = self._online(key, register)  # the CPU may just have gone offline
            now = self._msr.read(cpu, register)
            value = with_bits(now, value, bits_of(register))
            if now == value:
                return None
            self._msr.write(cpu, register, value)
            return message("register-restored", cpu=cpu, register=register, value=value)

        return put_all_back(saved, put_back)


def with_bits(now: int, value: int, bits: int) -> int:
    """Return a register's value with these bits taken from another value."""
    return now & ~bits | value & bits


class Wrapping:
    """Running totals of counters of 48 bits.

    An increment (modulo the counter's range) below half the range is valid, also after a wrap. A
    larger increment means that another program reset the counter: the reading is rejected, and
    counting continues from there.
    """

    __slots__ = ("_last", "_total")

    def __init__(self, first: tuple[int, ...]) -> None:
        self._last = first
        self._total = (0,) * len(first)

    def restart(self, first: tuple[int, ...]) -> None:
        """Continue from the totals so far, with the counters now at `first`."""
        self._last = first

    def grow(self, reading: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the totals with a new reading, None for an unreliable reading."""
        steps = tuple(
            (now - before) % _RANGE for now, before in zip(reading, self._last, strict=True)
        )
        self._last = reading
        if any(step >= _RANGE // 2 for step in steps):
            return None
        self._total = tuple(a + b for a, b in zip(self._total, steps, strict=True))
        return self._total
