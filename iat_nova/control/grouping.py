# SPDX-License-Identifier: Apache-2.0
"""From tenants to partitions: who has ways of his own, who shares, how many there are.

As long as there are enough ways and classes of service every tenant is a partition of its own.
When there are not:

1. the stack keeps a partition of its own, with its full count;
2. all best-effort tenants (the host's class among them) share one, with the sum of their counts;
3. performance-critical tenants take the partitions that remain, one each by descending misses;
   those left over share the last one;
4. counts are granted in the order stack, PC by descending misses, left-over PC, BE, each cut to
   what leaves everybody after it the minimum.

With fewer partitions than {stack, PC, BE} the PC tenants join the BE tenants' partition; with one
partition all share it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from iat_nova.model import Priority, TenantKind


@dataclasses.dataclass(frozen=True, slots=True)
class Want:
    """What one tenant is to have, and what decides who shares ways with DDIO."""

    tenant: str
    ways: int
    priority: Priority
    kind: TenantKind
    references_per_s: float = 0.0
    misses_per_s: float = 0.0


class Standing(enum.IntEnum):
    """Who shares ways with DDIO first (lowest) and last; idle ways come before all of them."""

    BE = 0
    HOST = 1
    PC = 2
    STACK = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """Tenants with one mask between them, and the number of its ways.

    Standing is the highest of the members, references are their sum.
    """

    tenants: tuple[str, ...]
    ways: int
    standing: Standing
    references_per_s: float


def standing(want: Want) -> Standing:
    """Tell where a tenant stands in the order of sharing with DDIO.

    A host's class that the policy made performance-critical counts as PC.
    """
    if want.priority is Priority.STACK:
        return Standing.STACK
    if want.priority is Priority.PC:
        return Standing.PC
    return Standing.HOST if want.kind is TenantKind.HOST else Standing.BE


def partitions(
    wants: Sequence[Want], ways: int, limit: int, min_ways: int, *, share: bool = False
) -> list[Partition]:
    """Divide `ways` ways into at most `limit` partitions of at least `min_ways` each.

    `share`: let the best-effort tenants share even when there is enough for all. Returned in the
    order in which sharing with DDIO is avoided: the stack first, the BE tenant with the fewest
    references last. Empty when not even one partition is possible.
    """
    limit = min(limit, ways // min_ways)
    if limit < 1:
        return []
    counts = [want.ways if want.ways > min_ways else min_ways for want in wants]
    if not share and len(wants) <= limit and sum(counts) <= ways:
        found = [
            Partition((want.tenant,), count, standing(want), want.references_per_s)
            for want, count in zip(wants, counts, strict=True)
        ]
    else:
        found = _serve(_share(wants, ways, limit, min_ways), ways, min_ways)
    found.sort(key=_precedence)
    return found


def _precedence(partition: Partition) -> tuple[int, float, tuple[str, ...]]:
    return -partition.standing, -partition.references_per_s, partition.tenants


def _share(wants: Sequence[Want], ways: int, limit: int, min_ways: int) -> list[list[Want]]:
    """Return the members of each partition, in the order in which they are served."""
    stack = [want for want in wants if want.priority is Priority.STACK]
    best_effort = [want for want in wants if want.priority is Priority.BE]
    critical = sorted(
        (want for want in wants if want.priority is Priority.PC),
        key=lambda want: (-want.misses_per_s, want.tenant),
    )
    if limit == 1:
        return [[*stack, *critical, *best_effort]]
    if stack:  # its full count goes off first, but for the minimum of one partition after it
        taken = max(min_ways, min(_count(stack, min_ways), ways - min_ways))
        limit = min(limit - 1, (ways - taken) // min_ways)
    room = limit - bool(best_effort)
    if critical and room < 1:
        critical, best_effort = [], [*critical, *best_effort]
    alone = len(critical) if len(critical) <= room else room - 1
    own, rest = critical[:alone], critical[alone:]
    members = [stack, *([want] for want in own), rest, best_effort]
    return [each for each in members if each]


def _serve(members: Sequence[list[Want]], ways: int, min_ways: int) -> list[Partition]:
    """Grant each partition its count, or what leaves the minimum to all after it."""
    served = []
    for after, wants in zip(reversed(range(len(members))), members, strict=True):
        granted = min(_count(wants, min_ways), ways - after * min_ways)
        ways -= granted
        served.append(
            Partition(
                tuple(sorted(want.tenant for want in wants)),
                granted,
                max(map(standing, wants)),
                sum(want.references_per_s for want in wants),
            )
        )
    return served


def _count(wants: Iterable[Want], min_ways: int) -> int:
    return sum(max(want.ways, min_ways) for want in wants)
