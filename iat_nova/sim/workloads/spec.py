# SPDX-License-Identifier: Apache-2.0
"""Surrogates of SPEC CPU2006: programs known by how often and how far back they reach.

A surrogate has the cycles of a thousand instructions with L1 serving everything, the accesses
beyond L1 in as many instructions, the sizes over which these spread (from which follows its curve
of misses over cache size) and how many of them are served at a time. Its work is counted in
accesses beyond L1, its speed is told by its instructions.

The numbers are approximate and chosen: they follow the order of the programs, and where the knees
of their curves lie (which sizes matter to whom, who streams, who is served by L2), as known from
A. Jaleel, *Memory Characterization of Workloads Using Instrumentation-Driven Simulation* (2008),
and A. Navarro-Torres et al., *Memory hierarchy characterization of SPEC CPU2006 and SPEC CPU2017 on
the Intel Xeon Skylake-SP* (PLOS ONE 14(8), 2019); they are no readings of these works' tables.
Prefetchers are not modelled, so what they hide counts as served at a time (regular programs 6 to
10, pointers 2 to 4).
"""

from __future__ import annotations

import dataclasses

from iat_nova.sim.workloads.profile import Form, Profile

_KIB, _MIB = 1 << 10, 1 << 20
# Sizes of the pieces: inside L2; about L2; a few LLC ways; most of an LLC; beyond any LLC.
PIECES = (512 * _KIB, 1 * _MIB, 4 * _MIB, 16 * _MIB, 256 * _MIB)


@dataclasses.dataclass(frozen=True, slots=True)
class Surrogate:
    """One program, in a thousand instructions.

    `accesses` beyond L1 by the piece of `PIECES` they fall into; their sum is the misses of L1.
    """

    name: str
    own_cycles: float
    overlap: float
    writes_percent: int
    accesses: tuple[float, float, float, float, float]

    def profile(self) -> Profile:
        """Return the workload: its unit of work is one access beyond L1."""
        total = sum(self.accesses)
        pieces = zip(self.accesses, PIECES, strict=True)
        return Profile(
            name=self.name,
            form=Form.MEMORY,
            own_cycles=self.own_cycles / total,
            own_instructions=1000.0 / total,
            overlap=(self.overlap, 1.0, 1.0, 1.0),
            writes_percent=self.writes_percent,
            locality=tuple((count / total, size) for count, size in pieces if count),
        )


SURROGATES = tuple(
    surrogate.profile()
    for surrogate in (
        # name, cycles, at a time, writes, accesses beyond L1 by size
        Surrogate("bzip2", 650.0, 3.0, 30, (5.0, 2.0, 3.0, 1.5, 0.5)),
        Surrogate("gcc", 700.0, 3.0, 30, (9.0, 3.0, 3.0, 1.0, 1.0)),
        Surrogate("mcf", 600.0, 4.0, 20, (35.0, 7.0, 12.0, 18.0, 18.0)),
        Surrogate("milc", 550.0, 7.0, 30, (8.0, 0.0, 1.0, 1.0, 22.0)),
        Surrogate("zeusmp", 550.0, 6.0, 30, (10.0, 2.0, 1.5, 1.5, 4.0)),
        Surrogate("cactusADM", 650.0, 5.0, 30, (6.0, 1.0, 2.0, 1.5, 3.0)),
        Surrogate("leslie3d", 500.0, 8.0, 30, (18.0, 3.0, 4.0, 4.0, 11.0)),
        Surrogate("GemsFDTD", 550.0, 6.0, 30, (12.0, 3.0, 4.0, 4.0, 15.0)),
        Surrogate("lbm", 450.0, 10.0, 45, (20.0, 0.0, 0.5, 0.5, 32.0)),
        Surrogate("omnetpp", 650.0, 2.5, 35, (10.0, 3.0, 6.0, 8.0, 2.0)),
        Surrogate("astar", 650.0, 2.5, 25, (8.0, 2.0, 3.0, 3.0, 1.0)),
        Surrogate("sphinx3", 550.0, 5.0, 10, (8.0, 1.0, 3.0, 8.0, 1.0)),
        Surrogate("xalancbmk", 550.0, 2.5, 20, (18.0, 3.0, 4.0, 1.5, 0.5)),
    )
)
