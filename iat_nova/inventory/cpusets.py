# SPDX-License-Identifier: Apache-2.0
"""Lists of processors as people write them, and the two sets nova.conf divides a host into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

_HIGHEST_CPU = 16383  # no kernel knows more; a slip such as 0-99999999 must not eat the memory


def parse_cpu_list(text: str) -> frozenset[int]:
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


def format_cpu_list(cpus: Iterable[int]) -> str:
    """Return processors in the kernel's list format, ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """nova.conf's ``[compute] cpu_dedicated_set`` and ``cpu_shared_set``; None: not set."""

    dedicated: frozenset[int] | None = None
    shared: frozenset[int] | None = None

    @classmethod
    def parse(cls, dedicated: str | None, shared: str | None) -> CpuSets:
        """Read both options as nova.conf writes them. Raises `ValueError` naming the option."""
        return cls(
            _option("cpu_dedicated_set", dedicated),
            _option("cpu_shared_set", shared),
        )


def _option(name: str, text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return parse_cpu_list(text)
    except ValueError as error:
        raise ValueError(f"[compute] {name}: {error}") from error
