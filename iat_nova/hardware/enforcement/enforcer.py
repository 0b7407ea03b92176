# SPDX-License-Identifier: Apache-2.0
"""Write layouts to the hardware: only changes, in a safe order, undone when refused."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping

from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    CacheAllocator,
    ClassMask,
    DdioWays,
    DomainOffline,
    ForeignHand,
    HardwareError,
    PortDca,
    PortWays,
)
from iat_nova.hardware.cat import limits
from iat_nova.hardware.enforcement.snapshot import Restored, Snapshot
from iat_nova.model import DomainInventory, Layout, Message, TenantKind, WayMask, message


@dataclasses.dataclass(frozen=True, slots=True)
class Effective:
    """Masks read back after a write: by tenant, DDIO's, and by port with ways of its own."""

    tenants: Mapping[str, WayMask]
    ddio: WayMask | None
    ports: Mapping[str, WayMask] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """The last layout written to one cache domain, with its inventory."""

    inventory: DomainInventory
    layout: Layout
    effective: Effective


@dataclasses.dataclass(frozen=True, slots=True)
class EnforcerMemory:
    """Layouts on the machine, and the original DDIO ways; both by cache domain."""

    written: Mapping[int, Written]
    found: Mapping[int, WayMask | None]


class Enforcer:
    """Writes all layouts to the hardware. Only the loop's thread uses an enforcer.

    With a `snapshot` nothing is written before the snapshot is on disk, and the snapshot restores.
    Without a snapshot (the emulated server) DDIO's mask is noted before the first write to a
    domain. `restore` then writes the noted mask, gives up every class and switches DDIO on at every
    port. `ports` switches root ports, if configured. `port_ways` gives ports ways of their own;
    None where the hardware has none.
    """

    def __init__(
        self,
        allocator: CacheAllocator,
        ddio: DdioWays,
        snapshot: Snapshot | None = None,
        ports: PortDca | None = None,
        port_ways: PortWays | None = None,
    ) -> None:
        self._allocator = allocator
        self._ddio = ddio
        self._ports = ports
        self._port_ways = port_ways
        self._snapshot = snapshot
        self._written: dict[int, Written] = {}
        self._found: dict[int, WayMask | None] = {}
        self._writes = 0

    @property
    def memory(self) -> EnforcerMemory:
        """The values from which another process can continue this process's work."""
        return EnforcerMemory(dict(self._written), dict(self._found))

    def adopt(self, memory: EnforcerMemory) -> None:
        """Continue from the layouts of another agent process, and its original DDIO ways."""
        self._written, self._found = dict(memory.written), dict(memory.found)
        self._writes = len(self._written)

    @property
    def writes(self) -> int:
        """The number of writes of masks; 0 while no layout of the agent is on the hardware."""
        return self._writes if self._written else 0

    def apply(self, inventory: DomainInventory, layout: Layout) -> Effective:
        """Write a layout to its cache domain and return the masks that were read back.

        Nothing is written without a change. After a refused write the last good layout is restored
        and `HardwareError` is raised. Raises `ForeignHand` instead of overwriting another program's
        change; the caller then restores. A DDIO mask announced by the inventory (`ddio_found`: a
        scenario's event) is not a conflicting change. Raises `DomainOffline` where nothing can be
        written; then there is nothing to restore either.
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
        if self._ports is not None:
            self._ports.off()
        if self._snapshot is not None and (last is None or _needs_saving(last, inventory, layout)):
            self._snapshot.extend()  # a domain or CPUs that came after the last saving
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
        """Force a write of the next layout of a domain: the kernel may have reset its masks."""
        self._written.pop(domain, None)

    def keep_snapshot(self) -> Message | None:
        """Write the snapshot's file again if lost; return the reason, or None.

        Raises `HardwareError` where the file cannot be written.
        """
        return None if self._snapshot is None else self._snapshot.keep_file()

    def restore(self) -> Restored:
        """Restore the original settings, and read them back. May be repeated.

        Settings out of reach are in `Restored.left`: they are restored when they are back in reach.
        Raises `HardwareError` when a setting could not be restored.
        """
        if self._snapshot is not None:
            restored = self._snapshot.restore()
            self._written.clear()  # even after a failure: the last layout is gone
            if restored.failed:
                raise HardwareError(message("several", causes=restored.not_done))
            self._found.clear()
            return restored
        agreed = []
        for domain in list(self._found):
            self._give_up(domain)
            self._written.pop(domain, None)
            del self._found[domain]
            agreed.append(message("cache-domain", domain=domain))
        return Restored(agreed=tuple(agreed))

    @property
    def wrote(self) -> bool:
        """Whether an agent's layout may be on the hardware: written, refused or half restored."""
        return bool(self._found)

    def _give_up(self, domain: int) -> None:
        """Restore a domain to its state before the agent's first write."""
        found = self._found[domain]
        self._allocator.apply(domain, ())
        if self._ports is not None:
            self._ports.switch(domain, ())
        if self._port_ways is not None:
            self._port_ways.place(domain, ())
        if found is not None:
            now = self._set_ddio(domain, self._ddio.read(domain), found)
            if now != found:
                raise HardwareError(
                    message("ddio-not-restored", domain=domain, found=found, now=now)
                )

    def _undo(self, domain: int, last: Written | None, error: HardwareError) -> None:
        """Restore the state before a refused write; half a layout must not stay."""
        try:
            if last is not None:
                self._write(last.inventory, last.layout)
            else:
                self._give_up(domain)
                del self._found[domain]
        except HardwareError as second:
            raise HardwareError(
                message("layout-not-undone", error=error.message, second=second.message),
                message("restore-after-agent"),
            ) from error

    def foreign_ddio(self) -> tuple[Message, ...]:
        """List the domains in which another program changed the DDIO ways after our write."""
        told = []
        for domain in self._written:
            with contextlib.suppress(DomainOffline):
                told.append(self._moved(domain))
        return tuple(one for one in told if one is not None)

    def _moved(self, domain: int) -> Message | None:
        """Describe how the DDIO ways differ from the agent's last write, or return None."""
        last = self._written.get(domain)
        if last is None:
            return None
        if moved := _difference(domain, last.effective.ddio, self._ddio.read(domain)):
            return moved
        if self._port_ways is None or not last.effective.ports:
            return None
        left, now = last.effective.ports, self._port_ways.placed(domain)
        changed = tuple(port for port, mask in left.items() if now.get(port) != mask)
        return message("port-ways-changed", domain=domain, ports=changed) if changed else None

    def _write(self, inventory: DomainInventory, layout: Layout) -> Effective:
        """Program the classes and DDIO, and read both back.

        DDIO is written first when its ways shrink, else last. During the change no tenant then
        shares ways with DDIO unless the tenant does so before or after. Ports leave their own ways
        before the classes move, and get others last.
        """
        domain = inventory.domain
        names = _class_names(inventory, layout)
        classes = _classes(inventory, layout, names)
        now = self._ddio.read(domain.id)
        shrinks = now is not None and layout.ddio.count < now.count
        if shrinks and domain.ddio_resizable:
            now = self._set_ddio(domain.id, now, layout.ddio)
        if self._port_ways is not None:
            self._leave_ports(self._port_ways, domain.id, layout)
        masks = self._allocator.apply(domain.id, classes)
        left, now = now, self._ddio.read(domain.id)
        if moved := _difference(domain.id, left, now):
            raise ForeignHand(moved)
        if not shrinks and domain.ddio_resizable:
            now = self._set_ddio(domain.id, now, layout.ddio)
        found = self._found.get(domain.id)
        if not domain.ddio_resizable and found is not None:  # found without effect since
            now = self._set_ddio(domain.id, now, found)
        if self._ports is not None and domain.dca_ports:
            self._ports.switch(domain.id, layout.dca_off)
        ports = self._port_ways.place(domain.id, layout.ports) if self._port_ways else {}
        return Effective(
            {tenant: masks[name] for tenant, name in names.items() if name in masks}, now, ports
        )

    def _leave_ports(self, port_ways: PortWays, domain: int, layout: Layout) -> None:
        """Move ports out of ways that the layout does not give to these ports.

        A port whose ways change shares the DDIO ways meanwhile. Its former class is then free, too.
        """
        have = port_ways.placed(domain)
        stay = tuple(
            group
            for group in layout.ports
            if all(group.mask & ~have.get(port, WayMask(0)) == 0 for port in group.ports)
        )
        if have and {port: group.mask for group in stay for port in group.ports} != have:
            port_ways.place(domain, stay)

    def _set_ddio(self, domain: int, now: WayMask | None, mask: WayMask) -> WayMask | None:
        """Set the DDIO ways where they differ from the present ways; return the ways read back.

        Ways that are not known yet (io_alloc while disabled) become known by the write.
        """
        return now if now == mask else self._ddio.write(domain, mask)


def _needs_saving(last: Written, inventory: DomainInventory, layout: Layout) -> bool:
    """Return whether a layout puts CPUs into own classes that need a new save before.

    Such a CPU is new, or was in the default class, where another program may have begun to monitor
    the CPU since the last save.
    """
    confined, before = _confined(inventory, layout), _confined(last.inventory, last.layout)
    return _cpus(last.inventory) != _cpus(inventory) or not confined <= before


def _confined(inventory: DomainInventory, layout: Layout) -> frozenset[int]:
    """Return the CPUs that get a class beside the default class."""
    names = _class_names(inventory, layout)
    return frozenset(
        cpu
        for tenant in inventory.tenants
        if names.get(tenant.id, DEFAULT_CLASS) != DEFAULT_CLASS
        for cpu in tenant.cpus
    )


def _cpus(inventory: DomainInventory) -> frozenset[int]:
    return frozenset(cpu for tenant in inventory.tenants for cpu in tenant.cpus)


def _difference(domain: int, left: WayMask | None, now: WayMask | None) -> Message | None:
    return None if now == left else message("ddio-changed", domain=domain, left=left, now=now)


def _class_names(inventory: DomainInventory, layout: Layout) -> dict[str, str]:
    """Name each tenant's class after the first tenant of its group, so that both end together.

    The group with the host's own CPUs is the machine's default class. A guest gives its UUID: its
    class then has the same name in every cache domain.
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
