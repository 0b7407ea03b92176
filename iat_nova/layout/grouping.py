# SPDX-License-Identifier: Apache-2.0
"""From tenants to partitions: who has ways of his own, who shares, how many there are.

As long as there are enough ways and classes of service every tenant is a partition of its own.
When there are not, who is held at so many ways keeps a partition of its own with them, where that
leaves one to the others, and:

1. the stack keeps a partition of its own, with its full count;
2. all best-effort tenants (the host's class among them) share one, with the sum of their counts;
3. performance-critical tenants are dealt over the partitions that remain, by descending misses and
   back: none has two more of them than another, and who misses most is the last to share;
4. where the sums are more than there are ways, the largest partition gives one, again and again:
   BE's first, then PC's, the stack's last, each down to the minimum.

With fewer partitions than {stack, PC, BE} the PC tenants join the BE tenants' partition; with one
partition all share it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Sequence

from iat_nova.layout import fair
from iat_nova.model import Priority, TenantKind


@dataclasses.dataclass(frozen=True, slots=True)
class Want:
    """What one tenant is to have, and what decides who shares ways with DDIO.

    `held`: exactly so many, and for itself.
    """

    tenant: str
    ways: int
    priority: Priority
    kind: TenantKind
    references_per_s: float = 0.0
    misses_per_s: float = 0.0
    held: bool = False


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
        found = [_alone(want, min_ways) for want in wants]
    else:
        held, others = _apart(wants, ways, limit, min_ways)
        ways -= _count(held, min_ways)
        limit = min(limit - len(held), ways // min_ways)
        members = _share(others, ways, limit, min_ways)
        found = [_alone(want, min_ways) for want in held] + _serve(members, ways, min_ways)
    found.sort(key=_precedence)
    return found


def _alone(want: Want, min_ways: int) -> Partition:
    ways = max(want.ways, min_ways)
    return Partition((want.tenant,), ways, standing(want), want.references_per_s)


def _apart(
    wants: Sequence[Want], ways: int, limit: int, min_ways: int
) -> tuple[list[Want], list[Want]]:
    """Return who is held and need not share, and the others, to whom a partition is left."""
    held = [want for want in wants if want.held]
    others = [want for want in wants if not want.held]
    if len(held) + 1 > limit or _count(held, min_ways) + min_ways > ways:
        return [], list(wants)
    return held, others


def _precedence(partition: Partition) -> tuple[int, float, tuple[str, ...]]:
    return -partition.standing, -partition.references_per_s, partition.tenants


def _share(wants: Sequence[Want], ways: int, limit: int, min_ways: int) -> list[list[Want]]:
    """Return the members of each partition."""
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
    members = [stack, *_deal(critical, room), best_effort]
    return [each for each in members if each]


def _deal(wants: Sequence[Want], hands: int) -> list[list[Want]]:
    """Deal out to and fro: 0 1 2, 2 1 0, 0 1 2, ..."""
    dealt: list[list[Want]] = [[] for _ in range(hands)]
    for number, want in enumerate(wants):
        turn, place = divmod(number, hands)
        dealt[hands - 1 - place if turn % 2 else place].append(want)
    return dealt


def _serve(members: Sequence[list[Want]], ways: int, min_ways: int) -> list[Partition]:
    """Give each partition the sum of its counts, cut fairly to the ways there are."""
    ranks = [max(map(standing, wants)) for wants in members]
    sizes = {number: _count(wants, min_ways) for number, wants in enumerate(members)}
    excess = sum(sizes.values()) - ways
    for rank in ((Standing.BE, Standing.HOST), (Standing.PC,), (Standing.STACK,)):
        least = {number: min_ways for number in sizes if ranks[number] in rank}
        excess = fair.cut(sizes, least, excess, lambda number: -number)
    return [
        Partition(
            tuple(sorted(want.tenant for want in wants)),
            sizes[number],
            ranks[number],
            sum(want.references_per_s for want in wants),
        )
        for number, wants in enumerate(members)
    ]


def _count(wants: Iterable[Want], min_ways: int) -> int:
    return sum(max(want.ways, min_ways) for want in wants)
