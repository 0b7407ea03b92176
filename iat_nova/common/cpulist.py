# SPDX-License-Identifier: Apache-2.0
"""Lists of CPUs in the format of the kernel and of operators: ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.common.untrusted import bounded_int, shortened

_HIGHEST_CPU = 16383  # no kernel has more; a slip such as 0-99999999 must not use up memory


def parse_cpus(text: str) -> frozenset[int]:
    """Return the numbers in a list such as ``0-3,8,^2``; the empty text gives the empty set.

    The grammar is the kernel's list format, plus ``^`` for exclusion as in Nova and libvirt. An
    exclusion counts anywhere in the list. Raises `ValueError` that quotes the faulty part.
    """
    included: set[int] = set()
    excluded: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        target = excluded if part.startswith("^") else included
        target.update(_numbers(part.removeprefix("^"), part, text))
    return frozenset(included - excluded)


def _numbers(bare: str, part: str, text: str) -> range:
    first, dash, last = (word.strip() for word in bare.partition("-"))
    where = f"'{shortened(part)}' in the CPU list '{shortened(text)}'"
    if not all(word.isascii() and word.isdigit() for word in (first, last if dash else first)):
        raise ValueError(f"{where}: expected a number or a range")
    lowest = bounded_int(first, _HIGHEST_CPU)
    highest = bounded_int(last if dash else first, _HIGHEST_CPU)
    if lowest is None or highest is None or lowest > highest:
        raise ValueError(f"{where}: expected a range of CPUs from 0 to {_HIGHEST_CPU}")
    return range(lowest, highest + 1)


def format_cpus(cpus: Iterable[int]) -> str:
    """Return CPUs in the kernel's list format."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
