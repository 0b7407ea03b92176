# SPDX-License-Identifier: Apache-2.0
"""Lists of processors as the kernel and people write them: ``0-3,8``."""

from __future__ import annotations

from collections.abc import Iterable

_HIGHEST_CPU = 16383  # no kernel knows more; a slip such as 0-99999999 must not eat the memory


def parse_cpus(text: str) -> frozenset[int]:
    """Return the numbers in a list such as ``0-3,8,^2``; the empty text gives the empty set.

    The grammar is the kernel's list format plus Nova's and libvirt's ``^`` for exclusion, which
    holds wherever it stands in the list. Raises `ValueError` that quotes the faulty part.
    """
    included: set[int] = set()
    excluded: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        target = excluded if part.startswith("^") else included
        target.update(_numbers(part.removeprefix("^"), part, text))
    return frozenset(included - excluded)


def _numbers(bare: str, part: str, text: str) -> range:
    first, dash, last = (word.strip() for word in bare.partition("-"))
    if not (first.isdecimal() and (last.isdecimal() if dash else True)):
        raise ValueError(f"'{part}' in the CPU list '{text}' is neither a number nor a range")
    numbers = range(int(first), int(last if dash else first) + 1)
    if not numbers or numbers[-1] > _HIGHEST_CPU:
        raise ValueError(f"'{part}' in the CPU list '{text}' is no range of processors")
    return numbers


def format_cpus(cpus: Iterable[int]) -> str:
    """Return processors in the kernel's list format."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
