# SPDX-License-Identifier: Apache-2.0
"""A pointer chase: seconds, and misses, of random accesses to an array of a given size.

No packaged program gives these figures by array size on a chosen CPU while another program reads
the counters. stress-ng and membw stream, and lmbench is not in Debian. The loop is a few bytes of
machine code, so no compiler is needed. Python around each access would cost more than the access.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import random
import time
from collections.abc import Callable, Iterator

from iat_nova.checks.qualify.api import Unavailable
from iat_nova.model import message

LINE = 64  # bytes
_WORDS = LINE // 8
_CHASE = bytes.fromhex(
    "4889f8"  # mov rax, rdi     the first line
    "488b00"  # mov rax, [rax]   the next line: known only now
    "48ffce"  # dec rsi          count down
    "75f8"  # jnz -8
    "c3"  # ret              rax: the last line
)


class Chase:
    """`api.Walker` on this machine. `seed` fixes the order of the lines."""

    def __init__(self, seed: int = 1) -> None:
        self._seed = seed

    def __call__(self, cpu: int, size: int, accesses: int) -> Callable[[], float]:
        """Create an array, and return a function that walks through the array; see `api.Walker`."""
        code = _code()
        with _on(cpu):
            array = _array(size, random.Random(self._seed))
        begin = ctypes.addressof(ctypes.c_char.from_buffer(array))
        run = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)(
            ctypes.addressof(ctypes.c_char.from_buffer(code))
        )

        def walk() -> float:
            with _on(cpu):
                at_s = time.perf_counter()
                run(begin, accesses)
                return time.perf_counter() - at_s

        walk.keep = (array, code)  # type: ignore[attr-defined]  # keeps the memory alive
        return walk


def _code() -> mmap.mmap:
    """Return executable memory with the loop. Raises `Unavailable`."""
    if platform.machine() != "x86_64":
        raise Unavailable(message("walk-not-written-for", machine=platform.machine()))
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError as error:
        raise Unavailable(
            message("no-memory-for-code", reason=error.strerror), message("allow-code-in-memory")
        ) from error
    page.write(_CHASE)
    return page


def _array(size: int, dice: random.Random) -> mmap.mmap:
    """Return an array in which each line holds the address of another line, in a single circle."""
    count = max(size // LINE, 2)
    try:
        array = mmap.mmap(-1, count * LINE)
    except OSError as error:
        full = message("no-memory-for-array", size_bytes=size, reason=error.strerror)
        raise Unavailable(full) from error
    with contextlib.suppress(OSError):  # without huge pages, page walks add accesses
        array.madvise(mmap.MADV_HUGEPAGE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(array))
    order = list(range(count))
    dice.shuffle(order)
    with memoryview(array) as view, view.cast("Q") as words:
        last = order[-1]
        for line in order:
            words[last * _WORDS] = begin + line * LINE
            last = line
    return array


@contextlib.contextmanager
def _on(cpu: int) -> Iterator[None]:
    """Run this thread on one CPU. Raises `Unavailable`."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        raise Unavailable(
            message("cpu-unusable", cpu=cpu, reason=error.strerror), message("name-online-cpus")
        ) from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
