# SPDX-License-Identifier: Apache-2.0
"""From a layout to the hardware: only what changed, in a safe order, undone when refused."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Protocol

from iat_nova.enforcement.snapshot import Restored
from iat_nova.hardware import limits
from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    CacheAllocator,
    ClassMask,
    DdioWays,
    DomainOffline,
    HardwareError,
    PortDca,
)
from iat_nova.model import DomainInventory, Layout, TenantKind, WayMask


@dataclasses.dataclass(frozen=True, slots=True)
class Effective:
    """What the machine says it has after a write: masks by tenant, and DDIO's."""

    tenants: Mapping[str, WayMask]
    ddio: WayMask | None


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What was last put on one domain, and for whom."""

    inventory: DomainInventory
    layout: Layout
    effective: Effective


@dataclasses.dataclass(frozen=True, slots=True)
class EnforcerMemory:
    """What lies on the machine, and DDIO's ways as found before; both by cache domain."""

    written: Mapping[int, Written]
    found: Mapping[int, WayMask | None]


class ForeignHand(HardwareError):
    """Somebody else moved DDIO's ways since we did, or while we wrote."""


class Keeper(Protocol):
    """Makes sure that the host ends with its original settings (`snapshot.Snapshot`)."""

    def protect(self) -> object:
        """Have a snapshot on disk; called before the first write. Raises `HardwareError`."""

    def extend(self) -> None:
        """Have a further domain or CPU in the snapshot; called before the first write to it."""

    def keep_file(self) -> str:
        """Write the snapshot's file again if it is lost; return the reason, or "".

        Raises `HardwareError` where it cannot be written.
        """

    def restore(self) -> Restored:
        """Restore the original settings, and read them back."""


class Enforcer:
    """Owns what is on the hardware. One owner, the loop's thread.

    With a `snapshot` nothing is written before that is on disk, and `restore` is its own. Without
    (the emulated server) DDIO's mask is noted before the first write to a domain; `restore` puts
    that back, gives up every class and has DDIO on at every port. `ports`: who switches root ports,
    where a strategy may.
    """

    def __init__(
        self,
        allocator: CacheAllocator,
        ddio: DdioWays,
        snapshot: Keeper | None = None,
        ports: PortDca | None = None,
    ) -> None:
        self._allocator = allocator
        self._ddio = ddio
        self._ports = ports
        self._snapshot = snapshot
        self._written: dict[int, Written] = {}
        self._found: dict[int, WayMask | None] = {}
        self._writes = 0

    @property
    def memory(self) -> EnforcerMemory:
        """What another process needs to go on from what this one wrote."""
        return EnforcerMemory(dict(self._written), dict(self._found))

    def adopt(self, memory: EnforcerMemory) -> None:
        """Go on from what another process of ours wrote; its snapshot and classes are ours now."""
        self._written, self._found = dict(memory.written), dict(memory.found)
        self._writes = len(self._written)

    @property
    def writes(self) -> int:
        """How often masks were written; 0 while nothing of ours lies on the hardware."""
        return self._writes if self._written else 0

    def apply(self, inventory: DomainInventory, layout: Layout) -> Effective:
        """Put a layout on its domain and return what the machine made of it.

        Nothing is written when nothing changed. When a write is refused the last good layout is
        restored and `HardwareError` is raised. Raises `ForeignHand` rather than write over what
        another program put into DDIO's ways; the caller then restores. A change that the inventory
        announces (`ddio_found`: a scenario's event) is not one. Raises `DomainOffline` where
        nothing can be written; there is then nothing to restore either.
        """
        domain = inventory.domain.id
        last = self._written.get(domain)
        if last is not None and last.layout == layout and last.inventory is inventory:
            return last.effective
        announced = (
            last is not None
            and last.inventory.domain.ddio_found != inventory.domain.ddio_found
            and inventory.domain.ddio_found == self._ddio.read(domain)
        )
        if not announced and (moved := self._moved(domain)):
            raise ForeignHand(moved)
        if self._snapshot is not None:
            self._snapshot.protect()
        new = last is None or _cpus(last.inventory) != _cpus(inventory)
        if self._snapshot is not None and self._found and new:
            self._snapshot.extend()  # a further domain, or CPUs that somebody monitors by now
        if domain not in self._found:
            self._found[domain] = self._ddio.read(domain)
        try:
            effective = self._write(inventory, layout)
        except ForeignHand:
            raise
        except DomainOffline:
            self._written.pop(domain, None)
            raise
        except HardwareError as error:
            self._undo(domain, last, error)
            raise
        self._written[domain] = Written(inventory, layout, effective)
        self._writes += 1
        return effective

    def forget(self, domain: int) -> None:
        """Have the next layout of a domain written anew: the kernel may have reset its masks."""
        self._written.pop(domain, None)

    def keep_snapshot(self) -> str:
        """Write the snapshot's file again if it is lost; return the reason, or "".

        Raises `HardwareError` where it cannot be written.
        """
        return "" if self._snapshot is None else self._snapshot.keep_file()

    def restore(self) -> Restored:
        """Restore the original settings, and read them back. May be repeated.

        Settings out of reach are in `Restored.left`: they are restored when they are back. Raises
        `HardwareError` when a setting could not be restored.
        """
        if self._snapshot is not None:
            restored = self._snapshot.restore()
            self._written.clear()  # even where it failed: the last layout lies there no longer
            if restored.failed:
                raise HardwareError("; ".join(restored.not_done))
            self._found.clear()
            return restored
        agreed = []
        for domain in list(self._found):
            self._give_up(domain)
            self._written.pop(domain, None)
            del self._found[domain]
            agreed.append(f"cache domain {domain}")
        return Restored(agreed=tuple(agreed))

    @property
    def wrote(self) -> bool:
        """Whether something of ours may lie on the hardware: written, refused or half restored."""
        return bool(self._found)

    def _give_up(self, domain: int) -> None:
        """Leave a domain as it was before our first write to it."""
        found = self._found[domain]
        self._allocator.apply(domain, ())
        if self._ports is not None:
            self._ports.switch(domain, ())
        if found is not None:
            now = self._set_ddio(domain, self._ddio.read(domain), found)
            if now != found:
                raise HardwareError(
                    f"domain {domain}: DDIO was restored to {found} and is at {now}"
                )

    def _undo(self, domain: int, last: Written | None, error: HardwareError) -> None:
        """Restore what was there before a refused write; half a layout must not stay."""
        try:
            if last is not None:
                self._write(last.inventory, last.layout)
            else:
                self._give_up(domain)
                del self._found[domain]
        except HardwareError as second:
            raise HardwareError(
                f"{error}; and the previous settings could not be restored: {second}",
                "run `iat-nova restore` when the agent has ended",
            ) from error

    def foreign_ddio(self) -> tuple[str, ...]:
        """Tell where another program moved DDIO's ways since we wrote them."""
        told = []
        for domain in self._written:
            with contextlib.suppress(DomainOffline):
                told.append(self._moved(domain))
        return tuple(filter(None, told))

    def _moved(self, domain: int) -> str | None:
        """Tell how DDIO's ways differ from what we wrote, None when they do not."""
        last = self._written.get(domain)
        if last is None:
            return None
        return _difference(domain, last.effective.ddio, self._ddio.read(domain))

    def _write(self, inventory: DomainInventory, layout: Layout) -> Effective:
        """Program the classes and DDIO and read both back.

        DDIO goes first when it shrinks, else last: on the way from one layout to the next nobody
        then shares with DDIO who does in neither.
        """
        domain = inventory.domain
        names = _class_names(inventory, layout)
        classes = _classes(inventory, layout, names)
        now = self._ddio.read(domain.id)
        shrinks = now is not None and layout.ddio.count < now.count
        if shrinks and domain.ddio_resizable:
            now = self._set_ddio(domain.id, now, layout.ddio)
        masks = self._allocator.apply(domain.id, classes)
        left, now = now, self._ddio.read(domain.id)
        if moved := _difference(domain.id, left, now):
            raise ForeignHand(moved)
        if not shrinks and domain.ddio_resizable:
            now = self._set_ddio(domain.id, now, layout.ddio)
        found = self._found.get(domain.id)
        if not domain.ddio_resizable and found is not None:  # it was, until found without effect
            now = self._set_ddio(domain.id, now, found)
        if self._ports is not None and domain.dca_ports:
            self._ports.switch(domain.id, layout.dca_off)
        return Effective(
            {tenant: masks[name] for tenant, name in names.items() if name in masks}, now
        )

    def _set_ddio(self, domain: int, now: WayMask | None, mask: WayMask) -> WayMask | None:
        """Set DDIO's ways where they differ from what they are now; return them as read back.

        Where they are not known yet (io_alloc while disabled) the write makes them known.
        """
        return now if now == mask else self._ddio.write(domain, mask)


def _cpus(inventory: DomainInventory) -> frozenset[int]:
    return frozenset(cpu for tenant in inventory.tenants for cpu in tenant.cpus)


def _difference(domain: int, left: WayMask | None, now: WayMask | None) -> str | None:
    return None if now == left else f"domain {domain}: DDIO was left at {left} and is at {now}"


def _class_names(inventory: DomainInventory, layout: Layout) -> dict[str, str]:
    """Name each tenant's class after the first tenant of its group, so that it lives as long.

    The group with the host's own CPUs is the machine's default class. A guest gives its
    UUID: its class then is the same in every cache domain.
    """
    tenants = {tenant.id: tenant for tenant in inventory.tenants}
    names = {}
    for group in layout.groups:
        first = tenants[group.tenants[0]]
        name = first.uuid or first.id
        if any(tenants[tenant].kind is TenantKind.HOST for tenant in group.tenants):
            name = DEFAULT_CLASS
        names.update(dict.fromkeys(group.tenants, name))
    return names


def _classes(
    inventory: DomainInventory, layout: Layout, names: Mapping[str, str]
) -> tuple[ClassMask, ...]:
    """Collect the CPUs of each class."""
    cpus = {tenant.id: tenant.cpus for tenant in inventory.tenants}
    return tuple(
        ClassMask(
            names[group.tenants[0]],
            tuple(sorted(cpu for tenant in group.tenants for cpu in cpus[tenant])),
            group.mask,
            limits.bandwidth(inventory.domain, group.bandwidth, len(group.tenants)),
        )
        for group in layout.groups
    )
