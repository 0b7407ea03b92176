# SPDX-License-Identifier: Apache-2.0
"""Random hosts: tenants, miss curves with knees, traffic, and changes of load."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from random import Random

from iat_nova.model import (
    CacheDomain,
    DeviceModel,
    DomainInventory,
    Priority,
    Tenant,
    TenantKind,
    WayMask,
    WayRequest,
)
from tests.unit.strategies.formulas.curves import (
    FREQUENCY_HZ,
    InboundWrites,
    Load,
    MissCurve,
    Piece,
)
from tests.unit.strategies.formulas.host import FormulaHost

WAYS = (11, 12, 15)
TENANTS = (2, 3, 4, 5)
# Memory latency, idle to busy channel, as Intel's Memory Latency Checker reports. Misses that a
# core overlaps, from pointer chains to out-of-order reads.
MEMORY_NS, OVERLAP = (80.0, 130.0), (1.0, 4.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Drawn:
    """A host: tenants, load by tenant id, and inbound traffic."""

    inventory: DomainInventory
    loads: Mapping[str, Load]
    inbound: InboundWrites


def hosts(number: int) -> tuple[FormulaHost, FormulaHost, FormulaHost]:
    """Return a random host three times: at first, after one tenant and after half have changed."""
    dice = Random(f"iat-nova plant 1 {number}")
    first = host(dice)
    ids = [tenant.id for tenant in first.inventory.tenants]
    second = changed(first, dice, (dice.choice(ids),), traffic=False)
    half = tuple(dice.sample(ids, (len(ids) + 1) // 2))
    third = changed(second, dice, half, traffic=True)
    one, two, three = (
        FormulaHost(drawn.inventory, drawn.loads, drawn.inbound) for drawn in (first, second, third)
    )
    return one, two, three


def host(dice: Random) -> Drawn:
    """Return a host with 2 to 5 tenants, at least one performance-critical."""
    ways = dice.choice(WAYS)
    number = dice.choice(TENANTS)
    stack = dice.random() < 0.4
    priorities = [Priority.PC, *(dice.choice((Priority.PC, Priority.BE)) for _ in range(number))]
    tenants = []
    for cpu in range(number):
        if cpu == 0 and stack:
            kind, priority, io, model = TenantKind.STACK, Priority.STACK, True, DeviceModel.NONE
        else:
            kind, priority = TenantKind.GUEST, priorities[cpu - stack]
            io = dice.random() < 0.4
            own = DeviceModel.AGGREGATION if stack else DeviceModel.SLICING
            model = own if io else DeviceModel.NONE
        name = "stack" if kind is TenantKind.STACK else f"guest-{cpu}/1"
        request = WayRequest(1, 2, ways)
        tenants.append(Tenant(name, name, kind, priority, io, (cpu,), request, model))
    domain = CacheDomain(
        0, tuple(range(number)), ways, 16, ddio_found=WayMask.span(ways - 2, 2), way_bytes=9 << 18
    )
    inventory = DomainInventory(domain, tuple(tenants))
    cycles = miss_cycles(dice)
    loads = {tenant.id: load(dice, tenant.io, ways, cycles) for tenant in tenants}
    return Drawn(inventory, loads, inbound(dice, any(tenant.io for tenant in tenants)))


def miss_cycles(dice: Random) -> float:
    """Return the stall cycles per LLC miss on a host.

    Strategies do not know this figure: their results must not depend on an assumed constant.
    """
    return dice.uniform(*MEMORY_NS) * FREQUENCY_HZ / 1e9 / dice.uniform(*OVERLAP)


def load(dice: Random, io: bool, ways: int, miss_cycles: float) -> Load:
    """Return a tenant's load; a fifth of the tenants works within the private caches."""
    busy = dice.random() >= 0.2
    references = dice.uniform(0.005, 0.04) if busy else dice.uniform(0.0001, 0.001)
    return Load(
        cores=dice.choice((1, 2, 4)),
        cpi=dice.uniform(0.5, 1.0),
        references=references,
        curve=curve(dice, ways),
        packet_lines=dice.uniform(0.001, 0.006) if io else 0.0,
        miss_cycles=miss_cycles,
    )


def curve(dice: Random, ways: int) -> MissCurve:
    """Return a miss curve: a floor, and one or two pieces. The remaining accesses always hit."""
    floor = dice.uniform(0.0, 0.2)
    left = (1.0 - floor) * dice.uniform(0.3, 1.0)
    cut = dice.choice((1.0, dice.uniform(0.2, 0.8)))
    pieces = (
        Piece(share * left, dice.uniform(0.5, ways), dice.choice((1.0, 2.0, 8.0)))
        for share in (cut, 1.0 - cut)
        if share
    )
    return MissCurve(floor, tuple(pieces))


def inbound(dice: Random, used: bool) -> InboundWrites:
    """Return inbound traffic, with a low rate if no tenant does I/O (`used` is false)."""
    lines_per_s = dice.uniform(1e6, 6e7) if used else dice.uniform(1e3, 1e5)
    share = dice.uniform(0.2, 1.0)
    pieces = (Piece(share, dice.uniform(0.5, 6.0), dice.choice((1.0, 2.0))),)
    return InboundWrites(lines_per_s, MissCurve(0.0, pieces))


def changed(drawn: Drawn, dice: Random, tenants: tuple[str, ...], traffic: bool) -> Drawn:
    """Return the host with new loads for `tenants` and, with `traffic`, new inbound traffic."""
    inventory = drawn.inventory
    loads = dict(drawn.loads)
    for tenant in inventory.tenants:
        if tenant.id in tenants:
            old = loads[tenant.id]
            new = load(dice, tenant.io, inventory.domain.ways, old.miss_cycles)
            loads[tenant.id] = dataclasses.replace(new, cores=old.cores)
    used = any(tenant.io for tenant in inventory.tenants)
    return Drawn(inventory, loads, inbound(dice, used) if traffic else drawn.inbound)
