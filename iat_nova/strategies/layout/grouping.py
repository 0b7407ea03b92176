# SPDX-License-Identifier: Apache-2.0
"""From tenants to partitions: which tenants have ways of their own, which share, and how many ways.

With enough ways and classes of service, every tenant is a partition of its own. Otherwise held
tenants keep separate partitions with their counts, provided that a partition remains for the other
tenants. The others are divided as follows:

1. The stack keeps a partition of its own, with its full count.
2. All best-effort tenants, including the host's class, share a partition with the sum of their
   counts.
3. Performance-critical tenants are dealt over the remaining partitions, by descending misses, back
   and forth. Member counts differ by one at most, and the tenant with the most misses shares last.
4. If the sums exceed the number of ways, the largest partition gives a way, repeatedly. BE
   partitions give first, then PC partitions, the stack last, each down to the minimum.

With fewer partitions than {stack, PC, BE}, the PC tenants join the BE partition. With a single
partition, all tenants share it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from iat_nova.model import Priority, TenantKind


@dataclasses.dataclass(frozen=True, slots=True)
class Want:
    """Desired ways of a tenant, with the figures that decide which tenants share ways with DDIO.

    `ways`: number of ways. `held`: the tenant gets exactly `ways` ways and shares them with no
    tenant. Rates are counts per second.
    """

    tenant: str
    ways: int
    priority: Priority
    kind: TenantKind
    references_per_s: float = 0.0
    misses_per_s: float = 0.0
    held: bool = False


class Standing(enum.IntEnum):
    """Order of sharing ways with DDIO: the lowest shares first, after idle ways."""

    BE = 0
    HOST = 1
    PC = 2
    STACK = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """Tenants with a common mask, and the mask's number of ways.

    `standing`: the highest standing of these tenants. `references_per_s`: the sum of the tenants'
    LLC references.
    """

    tenants: tuple[str, ...]
    ways: int
    standing: Standing
    references_per_s: float


def standing(want: Want) -> Standing:
    """Return a tenant's place in the order of sharing with DDIO.

    A host's class with PC priority in the policy counts as PC.
    """
    if want.priority is Priority.STACK:
        return Standing.STACK
    if want.priority is Priority.PC:
        return Standing.PC
    return Standing.HOST if want.kind is TenantKind.HOST else Standing.BE


def partitions(
    wants: Sequence[Want], ways: int, limit: int, min_ways: int, *, share: bool = False
) -> list[Partition]:
    """Divide `ways` ways into at most `limit` partitions of at least `min_ways` ways each.

    `share`: best-effort tenants share a partition even if there are enough ways for all tenants.
    The result is in the order in which sharing with DDIO is avoided: the stack first, the BE tenant
    with the fewest references last. The result is empty if not even a single partition fits.
    """
    limit = min(limit, ways // min_ways)
    if limit < 1:
        return []
    if not share and len(wants) <= limit and _count(wants, min_ways) <= ways:
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
    """Return the held tenants with separate partitions, and all other tenants.

    If no partition would remain for the others, held tenants are divided like all other tenants.
    """
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
    if stack:  # the stack's full count comes first; the others share what is left
        limit = min(limit - 1, (ways - _count(stack, min_ways)) // min_ways)
    room = limit - bool(best_effort)
    if critical and room < 1:
        critical, best_effort = [], [*critical, *best_effort]
    members = [stack, *_deal(critical, room), best_effort]
    return [each for each in members if each]


def _deal(wants: Sequence[Want], hands: int) -> list[list[Want]]:
    """Deal tenants over `hands` partitions, back and forth: 0 1 2, 2 1 0, 0 1 2, ..."""
    dealt: list[list[Want]] = [[] for _ in range(hands)]
    for number, want in enumerate(wants):
        turn, place = divmod(number, hands)
        dealt[hands - 1 - place if turn % 2 else place].append(want)
    return dealt


def _serve(members: Sequence[list[Want]], ways: int, min_ways: int) -> list[Partition]:
    """Give each partition the sum of its members' counts, cut fairly to the available ways."""
    ranks = [max(map(standing, wants)) for wants in members]
    sizes = {number: _count(wants, min_ways) for number, wants in enumerate(members)}
    excess = sum(sizes.values()) - ways
    for rank in ((Standing.BE, Standing.HOST), (Standing.PC,), (Standing.STACK,)):
        least = {number: min_ways for number in sizes if ranks[number] in rank}
        excess = cut(sizes, least, excess, lambda number: -number)
    return [
        Partition(
            tuple(sorted(want.tenant for want in wants)),
            sizes[number],
            ranks[number],
            sum(want.references_per_s for want in wants),
        )
        for number, wants in enumerate(members)
    ]


K = TypeVar("K")


def cut(
    counts: dict[K, int], least: Mapping[K, int], excess: int, order: Callable[[K], Any]
) -> int:
    """Take up to `excess` ways from the keys of `least`; return the number of ways still in excess.

    `least`: the minimum of each key, in ways; no count falls below its minimum. Each way comes from
    the largest count; among equal counts from the first key by `order`. `counts` changes in place.
    """
    while excess > 0:
        able = [key for key, floor in least.items() if counts[key] > floor]
        if not able:
            return excess
        counts[min(able, key=lambda key: (-counts[key], order(key)))] -= 1
        excess -= 1
    return excess


def _count(wants: Iterable[Want], min_ways: int) -> int:
    return sum(max(want.ways, min_ways) for want in wants)
