# SPDX-License-Identifier: Apache-2.0
"""Occupancy of ways that several users may fill.

Ways with the same users form a pool. Each user spreads fills evenly over the ways of its mask, and
a fill replaces any line of the chosen way. In equilibrium a user's share of a pool's lines equals
the user's share of the pool's fills. Fills are misses, and misses depend on occupancy: a fixed
point. Statistical models of random replacement share caches in the same way (Eklov, Black-Schaffer
and Hagersten, "Fast modeling of shared caches in multicore systems", HiPEAC 2011). LRU favours
lines in frequent use, so the model rather overstates the cost of sharing for their users.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

ROUNDS = 100
CLOSE = 1e-3  # ways


@dataclasses.dataclass(frozen=True, slots=True)
class User:
    """A user of the ways of `mask`; `fills_per_s` is a function of the occupied ways."""

    mask: int
    fills_per_s: Callable[[float], float]


def occupancy(users: Sequence[User]) -> list[float]:
    """Return the ways that each user occupies, as fractional numbers."""
    pools = _pools(users)
    held: list[float] = [0.0] * len(users)
    for ways, members in pools:
        for number in members:
            held[number] = held[number] + ways / len(members)
    shared = [pool for pool in pools if len(pool[1]) > 1]
    sharers = {number for _, members in shared for number in members}
    own = {n: float(sum(ways for ways, members in pools if members == (n,))) for n in sharers}
    for _ in range(ROUNDS if shared else 0):
        wanted = _round(users, shared, own, held)
        moved = 0.0
        for number, aim in wanted.items():
            moved = max(moved, abs(aim - held[number]))
            held[number] = (aim + held[number]) / 2
        if moved < CLOSE:
            break
    return held


def _pools(users: Sequence[User]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the number of ways and the users of each pool."""
    width = max(user.mask.bit_length() for user in users)
    found: dict[tuple[int, ...], int] = {}
    for way in range(width):
        members = tuple(n for n, user in enumerate(users) if user.mask >> way & 1)
        if members:
            found[members] = found.get(members, 0) + 1
    return [(ways, members) for members, ways in found.items()]


def _round(
    users: Sequence[User],
    shared: Sequence[tuple[int, tuple[int, ...]]],
    own: Mapping[int, float],
    held: Sequence[float],
) -> dict[int, float]:
    """Divide each pool by the fills into the pool at the present occupancy."""
    density = {
        number: max(users[number].fills_per_s(held[number]), 1.0) / users[number].mask.bit_count()
        for number in own
    }
    wanted = dict(own)
    for ways, members in shared:
        total = sum(density[number] for number in members)
        for number in members:
            wanted[number] += ways * density[number] / total
    return wanted
