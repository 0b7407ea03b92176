# SPDX-License-Identifier: Apache-2.0
"""Find the tenant named by a text (a guest's UUID or names, switch, pool, host); when it left."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from iat_nova.model import DomainInventory, Guest, Tenant, TenantKind
from iat_nova.model.tenants import mark
from iat_nova.report import escape
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Inventory

_BEGIN_OF_UUID = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")


class Ambiguous(LookupError):
    """The text matches several tenants; the message lists them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """A tenant, or a guest that floats with the pool.

    `key` is a guest's UUID, else a tenant's id. `tenants`: the matching tenant of each cache
    domain, the pool for a floating guest; empty where none is known.
    """

    key: str
    name: str
    guest: Guest | None
    tenants: tuple[tuple[DomainInventory, Tenant], ...]

    @property
    def floats(self) -> bool:
        """Whether the guest has no ways of its own, but the pool's."""
        return self.guest is not None and all(
            tenant.kind is TenantKind.POOL for _, tenant in self.tenants
        )

    @property
    def title(self) -> str:
        """The name with its distinguishing ids."""
        if self.guest is None:
            return escape.plain(self.name)
        return escape.plain(f"{self.name} ({self.guest.name}, {self.key})")

    def is_it(self, subject: str) -> bool:
        """Tell whether a decision's subject is this tenant, in any run."""
        if self.floats:
            return any(subject == tenant.id for _, tenant in self.tenants)
        return subject.partition("/")[0] == self.key


def find(inventory: Inventory, text: str) -> Subject | None:
    """Return the subject that a text names in an inventory, or None. Raises `Ambiguous`."""
    found = {one.key: one for one in everybody(inventory) if _means(text, one)}
    exact = [one for one in found.values() if text.lower() == one.key]
    if len(found) > 1 and not exact:
        titles = "\n".join(f"  {one.title}" for one in found.values())
        raise Ambiguous(f"{escape.plain(text)!r} may be any of these; name its UUID\n{titles}")
    return next(iter(exact or found.values()), None)


def everybody(inventory: Inventory) -> Iterator[Subject]:
    """Yield all guests, then the tenants that are not guests."""
    here = [
        (seen, tenant) for _, seen in sorted(inventory.domains.items()) for tenant in seen.tenants
    ]
    for guest in inventory.facts.guests:
        its = tuple(pair for pair in here if pair[1].uuid == guest.uuid)
        if not its and guest.floating_cpus:
            floats = set(guest.floating_cpus)
            its = tuple(
                pair
                for pair in here
                if pair[1].kind is TenantKind.POOL and floats.intersection(pair[1].cpus)
            )
        yield Subject(guest.uuid, guest.display_name, guest, its)
    known = {guest.uuid for guest in inventory.facts.guests}
    others = {tenant.key: tenant for _, tenant in here if tenant.key not in known}
    for key, tenant in others.items():
        its = tuple(pair for pair in here if pair[1].key == key)
        yield Subject(key, tenant.name, None, its)


def _means(text: str, one: Subject) -> bool:
    shown_apart = one.name + mark(one.key)  # the display name among guests of the same name
    names = {one.key, one.name, shown_apart, one.guest.name if one.guest else one.name}
    if text in names or text.lower() == one.key:
        return True
    return bool(_BEGIN_OF_UUID.fullmatch(text.lower()) and one.key.startswith(text.lower()))


def last_seen(reader: HistoryReader, wall_s: float) -> float:
    """Return when the tenants of the inventory of `wall_s` were measured last.

    An inventory is stored when it changes: its own time is when the tenants were found.
    """
    newer = [*itertools.takewhile(lambda one: one.wall_s > wall_s, reader.inventories())]
    if not newer:
        return wall_s
    last = reader.at(newer[-1].wall_s)
    for _ in range(_BACK):
        if last is None or last.iteration.wall_s <= wall_s:
            break
        its = reader.inventory(last.iteration.inventory_id)
        if its is not None and its.wall_s <= wall_s:
            return last.iteration.wall_s
        last = reader.before(last)
    return wall_s


_BACK = 3  # iterations: the first ones of the next inventory may bear its time
