# SPDX-License-Identifier: Apache-2.0
"""The two sets of CPUs into which nova.conf divides a host."""

from __future__ import annotations

import dataclasses

from iat_nova.common.cpulist import parse_cpus


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """nova.conf's ``[compute] cpu_dedicated_set`` and ``cpu_shared_set``; None: not set."""

    dedicated: frozenset[int] | None = None
    shared: frozenset[int] | None = None

    @classmethod
    def parse(cls, dedicated: str | None, shared: str | None) -> CpuSets:
        """Parse both options in nova.conf's format. Raises `ValueError` naming the option."""
        return cls(
            _option("cpu_dedicated_set", dedicated),
            _option("cpu_shared_set", shared),
        )


def _option(name: str, text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise ValueError(f"[compute] {name}: {error}") from error
