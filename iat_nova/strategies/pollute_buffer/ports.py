# SPDX-License-Identifier: Apache-2.0
"""Moves of ports whose devices write into ways of their own (Intel I/O RDT).

DDIO's ways hold the packets of critical tenants until these read them. A device whose owner gains
nothing from the cache, such as a drive with large blocks, evicts packets there. The port of such a
device is put aside: its lines go into one way below DDIO's ways (`room.aside`), where a pollute
buffer lies as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.model import Priority, Tenant, message
from iat_nova.strategies.pollute_buffer import room
from iat_nova.strategies.pollute_buffer.plan import Move, Plan
from iat_nova.strategies.pollute_buffer.trial import SUFFERS
from iat_nova.strategies.pollute_buffer.view import View, saved


def moves(view: View, plan: Plan) -> Iterator[tuple[float, Move]]:
    """Yield moves that put ports aside, all together and one by one, and that bring one back.

    Without a share of the inbound lines, the other lines have DDIO's ways for themselves, as if the
    ways had grown (`moves.FAMILIES`, ``ddio-ways``). Inbound lines are not counted by port, so each
    port in DDIO's ways counts as many. A trial shows the truth.
    """
    domain = view.inventory.domain
    if not domain.device_ports or not room.aside(domain, plan.own, plan.ddio):
        return
    owners = {port.id: view.inventory.behind(port.id) for port in domain.device_ports}
    inside = [port for port, its in owners.items() if port not in plan.aside and _may(view, its)]
    choices = [frozenset(inside)] if inside else []
    choices += [frozenset((port,)) for port in inside if len(inside) > 1]
    if view.inbound > view.parameters.threshold_miss_low_per_s:
        for chosen in choices:
            whose = frozenset(one.id for port in chosen for one in owners[port])
            what = message("ports-aside", ports=tuple(sorted(chosen)))
            changed = dataclasses.replace(plan, aside=plan.aside | chosen)
            left = 1.0 - len(chosen) / (len(owners) - len(plan.aside & owners.keys()))
            expected = view.stake(view.readers - whose) * view.packets_missed * saved(left, 1.0)
            yield expected, Move("ddio", changed, what)
    for port in sorted(plan.aside & owners.keys() if view.settled else ()):
        changed = dataclasses.replace(plan, aside=plan.aside - {port})
        what = message("port-back", port=port)
        yield view.stake(frozenset(one.id for one in owners[port])), Move(port, changed, what)


def _may(view: View, owners: tuple[Tenant, ...]) -> bool:
    """Return whether a port may be put aside: best-effort owners, or hits that save them little.

    A port without an owner is the host's own.
    """
    return bool(owners) and all(
        one.priority is Priority.BE or (not one.io and view.hits_save(one.id) < SUFFERS)
        for one in owners
    )
