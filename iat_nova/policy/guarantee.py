# SPDX-License-Identifier: Apache-2.0
"""LLC ways that can be guaranteed to guests (``iat:llc_ways``), and over-commitment; pure.

A guarantee must hold in the worst case, so DDIO counts with its maximum, and the stack and the pool
with their minimum. Where DDIO cannot be resized, its present ways count. The host's own processes
do not count where they are best effort: the host may always share DDIO's ways. The default strategy
closes ways only while `LEAST_SHARED` ways besides the least of DDIO's stay open to all tenants.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from iat_nova.model import (
    CacheDomain,
    DomainInventory,
    Facts,
    HostFacts,
    Message,
    Parameters,
    Priority,
    WayMask,
    message,
)
from iat_nova.nova import extra_specs
from iat_nova.policy.owners import guest_id
from iat_nova.policy.rules import Rules, WayBounds

RESOURCE_CLASS = extra_specs.RESOURCE_CLASS
"""The resource class as which Placement counts guaranteed ways."""

LEAST_SHARED = 2
"""Ways besides DDIO's that the default strategy keeps open to all tenants (`BUFFER_WAYS`)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guarantee:
    """The ways of a cache domain, and the ways taken by each use other than guarantees.

    `shared`: ways that stay open to all tenants, beyond those of the other uses.
    """

    domain: int
    ways: int
    reserved: int
    ddio: int
    stack: int
    pool: int
    host: int
    shared: int = 0

    @property
    def left(self) -> int:
        """The number of ways that all guarantees together may take."""
        taken = self.reserved + self.ddio + self.stack + self.pool + self.host + self.shared
        return max(0, self.ways - taken)

    @property
    def message(self) -> Message:
        """How the count of ways that can be promised comes about."""
        parts = (
            ("less-reserved", self.reserved),
            ("less-ddio", self.ddio),
            ("less-stack", self.stack),
            ("less-pool", self.pool),
            ("less-host", self.host),
            ("less-shared", self.shared),
        )
        less = tuple(message(code, count=count) for code, count in parts if count)
        return message(
            "ways-promisable", domain=self.domain, ways=self.ways, less=less, left=self.left
        )


def of_domain(
    domain: CacheDomain, rules: Rules, parameters: Parameters, *, stack: bool
) -> Guarantee:
    """Count the ways that can be guaranteed in a cache domain; `stack`: PMD threads run there."""
    numbers, reserved = parameters.of(domain.id), domain.reserving(rules.reserved_ways)

    def own(bounds: WayBounds) -> int:
        return max(bounds.min, domain.min_ways)  # no mask has fewer

    usable = domain.ways - reserved.count
    found, together = domain.ddio_found, domain.coerced_ways
    least = min(numbers.ddio_ways_min, usable) if found is None else found.count
    counted = Guarantee(
        domain=domain.id,
        ways=domain.ways,
        reserved=reserved.count,
        ddio=min(numbers.ddio_ways_max, usable) if domain.ddio_resizable else least,
        stack=own(rules.stack_ways) if stack else 0,
        pool=own(rules.pool_ways),
        host=own(rules.host_ways) if rules.host_priority is not Priority.BE else 0,
    )
    # The ways below the topmost that DDIO has, or that the hardware ties together, can be closed.
    top = min(domain.ways - least, together.lowest if together else domain.ways)
    closable = WayMask(((1 << top) - 1) & ~reserved).count
    left = min(counted.left, max(0, closable - max(LEAST_SHARED, domain.min_ways)))
    if left < domain.min_ways:
        left = 0  # no mask has so few: a guest would take the rest from the shared ways
    return dataclasses.replace(counted, shared=counted.left - left)


def of_host(
    facts: Facts, rules: Rules, parameters: Parameters, *, assume_stack: bool = False
) -> tuple[Guarantee, ...]:
    """Count the ways that can be guaranteed in every cache domain, online or offline.

    A domain whose CPUs have all been offline so far is assumed to be like the first. The stack
    counts where PMD threads run. The stack counts everywhere if Open vSwitch forwards in userspace
    on unknown CPUs, or if Open vSwitch is unknown and `assume_stack` is set.
    """
    switch = facts.switch
    pmd_cpus = frozenset(switch.pmd_cpus) if switch is not None else frozenset()
    anywhere = assume_stack
    if switch is not None:
        anywhere = not pmd_cpus and "netdev" in switch.bridges.values()
    return tuple(
        of_domain(domain, rules, parameters, stack=anywhere or not pmd_cpus.isdisjoint(domain.cpus))
        for domain in (*facts.host.domains, *_unseen(facts.host))
    )


def _unseen(host: HostFacts) -> tuple[CacheDomain, ...]:
    """Return the domains whose CPUs have all been offline so far, under unused ids."""
    if not host.domains:
        return ()
    ids = {domain.id for domain in host.domains}
    free = (number for number in itertools.count() if number not in ids)
    like = host.domains[0]
    return tuple(
        dataclasses.replace(like, id=number, cpus=(), numa_nodes=(), reserved_ways=WayMask(0))
        for number in itertools.islice(free, host.unseen_domains)
    )


def warnings(
    facts: Facts,
    domains: Mapping[int, DomainInventory],
    rules: Rules,
    parameters: Parameters,
) -> tuple[Message, ...]:
    """Return warnings of over-committed guarantees and of contradictory flavors.

    `domains` are the tenants that were made from `facts`.
    """
    promises = _promises(facts, rules)
    guarantees = of_host(facts, rules, parameters)
    return (
        *_disagreements(promises.values()),
        *_overcommitted(promises, guarantees, domains),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Promise:
    """The guarantee in one guest's flavor, for the agent (`ways`) and Placement (`resources`).

    `complete`: all extra specs of the flavor are known, not only the policy's map of flavors.
    """

    name: str
    flavor: str | None
    ways: int | None
    resources: int | None
    complete: bool


def _promises(facts: Facts, rules: Rules) -> dict[str, _Promise]:
    """Return the guarantees by guest id, without guests whose flavors have no guarantee."""
    found = {}
    for guest in facts.guests:
        specs = guest.extra_specs
        if specs is None:
            specs = rules.flavors.get(guest.flavor or "", {})
        ways = extra_specs.parse(specs).llc_ways
        resources = extra_specs.placement_ways(specs)
        if ways is not None or resources is not None:
            found[guest_id(guest)] = _Promise(
                guest.display_name,
                guest.flavor,
                ways,
                resources,
                complete=guest.extra_specs is not None,
            )
    return found


def _disagreements(promises: Iterable[_Promise]) -> Iterable[Message]:
    """Yield one warning for each known flavor whose two numbers differ."""
    flavors = {promise.flavor: promise for promise in promises if promise.flavor is not None}
    for name, promise in sorted(flavors.items()):
        if promise.resources == promise.ways:
            continue
        if promise.resources is not None:
            code = "flavor-asks-placement-only" if promise.ways is None else "flavor-disagrees"
        elif promise.complete:
            code = "flavor-asks-agent-only"
        else:
            continue
        yield message(
            code,
            flavor=name,
            ways=promise.ways,
            resources=promise.resources,
            spec=extra_specs.LLC_WAYS,
            resource=extra_specs.RESOURCE,
        )


def _overcommitted(
    promises: Mapping[str, _Promise],
    guarantees: Sequence[Guarantee],
    domains: Mapping[int, DomainInventory],
) -> Iterable[Message]:
    promised = {
        number: [tenant.id for tenant in inventory.tenants if tenant.ways.promised]
        for number, inventory in domains.items()
    }

    def total(number: int) -> int:
        keys = promised.get(number, ())
        return sum(max(promises[key].ways or 0, domains[number].domain.min_ways) for key in keys)

    spare = sum(max(0, known.left - total(known.domain)) for known in guarantees)
    for known in guarantees:
        excess = total(known.domain) - known.left
        if excess <= 0:
            continue
        uncounted = sorted(
            promises[key].name for key in promised[known.domain] if promises[key].resources is None
        )
        facts = [message("promised", guarantee=known.message, ways=total(known.domain))]
        if len(guarantees) > 1:
            facts.append(message("spare-elsewhere" if spare else "no-spare-elsewhere", ways=spare))
        if uncounted:
            facts.append(message("placement-uncounted", guests=tuple(uncounted)))
        yield message("over-committed", facts=tuple(facts))
