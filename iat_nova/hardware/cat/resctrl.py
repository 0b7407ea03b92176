# SPDX-License-Identifier: Apache-2.0
"""CAT through resctrl: our own groups, named ``iat-nova.1`` and so on.

A group (the kernel's class of service) spans all cache domains, with one mask in each, but our
classes belong to one domain. So a group serves one class *of every* domain: the number of groups is
the largest number of classes in any domain, not the sum.

CPUs without one of our classes stay in the default group. The default group is written only if a
class named `api.DEFAULT_CLASS` is applied, and is restored when this class is released.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, DomainOffline, HardwareError
from iat_nova.hardware.cat import limits, resctrl_saved
from iat_nova.hardware.cat.resctrl_domains import ResctrlDomains
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, DEVICES, PORTS, PREFIX, SHAREABLE
from iat_nova.hardware.cat.resctrl_groups import Groups, ResctrlMemory, group_name
from iat_nova.hardware.kernel.cpu_watch import TRIES, CpuWatch
from iat_nova.hardware.kernel.rollback import AllReachable, SavedKeys, Step, undoing
from iat_nova.model import Message, WayMask, message


class Resctrl(ResctrlDomains, AllReachable):
    """`hardware.api.CacheAllocator` on a mounted resctrl file system.

    Settings of offline CPUs and domains are lost: the kernel resets these. `memory`: what another
    process needs to continue with our groups.
    """

    shape = resctrl_saved.SHAPE

    def __post_init__(self) -> None:
        super().__post_init__()
        self._saved = SavedKeys()
        self._wrote: set[int] = set()  # domains in which the default group's masks were written
        self._took: set[int] = set()  # CPUs of our groups
        self._use(ResctrlMemory())

    def _use(self, memory: ResctrlMemory) -> None:
        self.memory = memory
        self._groups = Groups(self.fs, self.topology, memory)

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of our classes; see `api.CacheAllocator`."""
        found = limits.find(self._limits(), domain)
        return {
            name: self._effective(found, group, self._masks(group, domain))
            for name in self.memory.classes.get(domain, {})
            for group in (group_name(self.memory.slots[domain][name]),)
        }

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Read back the memory bandwidth of our classes; see `api.CacheAllocator`."""
        if limits.find(self._limits(), domain).bandwidth is None:
            return {}
        shown = {
            name: self.fs.bandwidth(group_name(number)).get(self._bandwidth_number(domain))
            for name, number in self.memory.slots.get(domain, {}).items()
            if number
        }
        return {name: limit for name, limit in shown.items() if limit is not None}

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program exactly these classes; see `api.CacheAllocator`.

        Masks are written before CPUs move, and groups are removed last. If the kernel refuses a
        step, the earlier steps are undone. If a CPU went online or offline meanwhile, all steps are
        tried once more.
        """
        found = limits.find(self._limits(), domain)
        limits.check_classes(found, classes)
        self._saved.check(domain)
        limits.check_unchanged(lambda: self.inspect(domain))
        named = {item.name: item for item in classes}
        slots = limits.numbered(named, self.memory.slots.get(domain, {}))
        came = self.topology.stamps(found.cpus)  # before writing: later changes are detected
        watch = CpuWatch(self.topology)
        try:
            self._program(domain, named, slots)
        except DomainOffline:
            raise
        except HardwareError:
            if watch.moved() is None:
                raise
            self._program(domain, named, slots)
        self.memory.classes[domain], self.memory.slots[domain] = named, slots
        if DEFAULT_CLASS not in named:
            self.memory.default_found.pop(domain, None)
        if domain not in self.memory.online:  # otherwise `inspect` keeps the stamps
            self.memory.online[domain] = came
        self.memory.read_back[domain] = self.effective(domain)
        return self.memory.read_back[domain]

    def _program(
        self, domain: int, named: Mapping[str, ClassMask], slots: Mapping[str, int]
    ) -> None:
        with self.fs.locked(), undoing() as undo:
            self._take_steps(domain, named, slots, undo)

    def _take_steps(
        self,
        domain: int,
        named: Mapping[str, ClassMask],
        slots: Mapping[str, int],
        undo: list[Step],
    ) -> None:
        cpus = self._wanted_cpus(
            {**self.memory.classes, domain: dict(named)}, {**self.memory.slots, domain: slots}
        )
        self._check_owners(cpus)
        for number in sorted(cpus.keys() - self.memory.made):
            self._add(number, undo)
        for name, item in named.items():
            self._set_masks(domain, slots[name], self._alike(item.mask), undo)
        self._limit(domain, {slots[name]: item.bandwidth for name, item in named.items()}, undo)
        if DEFAULT_CLASS not in named and domain in self.memory.default_found:
            self._set_masks(domain, 0, self.memory.default_found[domain], undo)
        self._took |= frozenset().union(*cpus.values())
        before = dict(self.memory.cpus)
        undo.append(lambda: self._groups.write_cpus(before))
        self._groups.write_cpus(cpus)
        for number in sorted(self.memory.made - cpus.keys(), reverse=True):
            self._remove(number, undo)

    def _wanted_cpus(
        self,
        classes: Mapping[int, Mapping[str, ClassMask]],
        slots: Mapping[int, Mapping[str, int]],
    ) -> dict[int, frozenset[int]]:
        """Return the CPUs, online or offline, of every group with a class."""
        cpus: dict[int, frozenset[int]] = {}
        for domain, named in classes.items():
            for name, item in named.items():
                number = slots[domain][name]
                if number:
                    cpus[number] = cpus.get(number, frozenset()) | frozenset(item.cpus)
        return cpus

    def _check_owners(self, cpus: Mapping[int, frozenset[int]]) -> None:
        wanted = frozenset().union(*cpus.values())
        for group in self.foreign_groups():
            taken = wanted & self.fs.cpus_of(group)
            if taken:
                path = str(self.fs.root / group)
                raise HardwareError(
                    message("cpus-in-foreign-group", path=path, cpus=format_cpus(taken)),
                    message("remove-group-or-spare-cpus"),
                )

    def _add(self, number: int, undo: list[Step]) -> None:
        """Make a group with the default group's limits of MB, SMBA and L2.

        Bandwidth counters that the kernel assigns to the new group are released: counters are few,
        and the traffic of a class is never read.
        """
        self.fs.add(group_name(number))
        self.memory.made.add(number)
        undo.append(lambda: self._remove(number, []))
        self.fs.assign(group_name(number), ())
        self._groups.begin(number)

    def _limit(self, domain: int, wanted: Mapping[int, int | None], undo: list[Step]) -> None:
        """Limit the memory bandwidth of these groups in a domain; remove our other limits there."""
        where = self._bandwidth_number(domain)
        for number in {*self._groups.limited(where), *wanted} & self.memory.made:
            self._groups.limit(number, where, wanted.get(number), undo)

    def _bandwidth_number(self, domain: int) -> int:
        """Return a cache domain's number in the line of memory bandwidth; -1: no limits there."""
        return self._bandwidth_numbers.get(domain, -1)

    def _remove(self, number: int, undo: list[Step]) -> None:
        self.fs.remove(group_name(number))
        self.memory.made.discard(number)
        self.memory.cpus.pop(number, None)

        def put_back() -> None:
            self._add(number, [])
            for domain, slots in self.memory.slots.items():
                for name in (name for name, slot in slots.items() if slot == number):
                    masks = self._alike(self.memory.classes[domain][name].mask)
                    self._set_masks(domain, number, masks, [])
                    limit = self.memory.classes[domain][name].bandwidth
                    self._groups.limit(number, self._bandwidth_number(domain), limit, [])

        undo.append(put_back)

    def _alike(self, mask: WayMask) -> dict[str, WayMask]:
        """Return a class's masks by resource: with CDP, code and data have the same mask."""
        return dict.fromkeys(self._limits_info().resources, mask)

    def _set_masks(
        self, domain: int, number: int, masks: Mapping[str, WayMask], undo: list[Step]
    ) -> None:
        group = group_name(number)
        before = self._masks(group, domain)
        if number == 0:
            self.memory.default_found.setdefault(domain, before)
        if before != masks:
            if number == 0:
                self._wrote.add(domain)
            self.fs.set_masks(group, domain, masks)
            undo.append(lambda: self.fs.set_masks(group, domain, before))

    def inspect(self, only: int | None = None) -> tuple[Message, ...]:
        """Return messages on changes of our groups by other programs; these are not undone.

        CPUs that are online again are put into their group: the kernel forgets the group of an
        offline CPU. The masks in the files are compared with our last writes and, if readable, the
        masks in the registers. A difference counts only if no CPU went online or
        offline during the reading: the kernel resets CPUs and domains that were offline. `only`:
        the domain whose masks and limits are compared; None for all. Raises `HardwareError`.
        """
        for _ in range(TRIES):
            watch = CpuWatch(self.topology)
            foreign = self._inspect(only)
            if not foreign or watch.moved() is None:
                return foreign
        return ()  # the next inspection decides

    def _inspect(self, only: int | None) -> tuple[Message, ...]:
        domains = self.memory.classes if only is None else {only}
        self._renew_masks(domains)
        self._follow_default()
        foreign = self._foreign_masks(domains)
        wanted = self._wanted_cpus(self.memory.classes, self.memory.slots)
        numbers = (one for one in self.memory.cpus if one in self.memory.made and self._exists(one))
        moved = self._groups.inspect_cpus(numbers)
        if self._groups.latecomers(wanted):
            with self.fs.locked():
                self._groups.write_cpus(wanted)
        return (*foreign, *moved)

    def _renew_masks(self, domains: Collection[int]) -> None:
        """Write our masks again in domains that were entirely offline: the kernel forgot them."""
        for domain, before in self.memory.online.items():
            if domain not in domains:
                continue
            now = self.topology.stamps(self._domains[domain].cpus)
            if not now:
                continue
            if all(now.get(cpu) != when for cpu, when in before.items()):
                with self.fs.locked():
                    for name, item in self.memory.classes[domain].items():
                        number = self.memory.slots[domain][name]
                        if self._exists(number):
                            self._set_masks(domain, number, self._alike(item.mask), [])
                            self._groups.renew(self._bandwidth_number(domain), number)
            self.memory.online[domain] = now

    def _follow_default(self) -> None:
        """Copy changed limits of MB, SMBA and L2 from the default group to our groups."""
        if self.memory.made and self._groups.changed():
            with self.fs.locked():
                self._groups.follow(filter(self._exists, sorted(self.memory.made)))

    def _exists(self, number: int) -> bool:
        return number == 0 or group_name(number) in self.fs.groups()

    def _foreign_masks(self, domains: Collection[int]) -> list[Message]:
        """Return messages on removed groups of ours; on modes, masks and limits others changed."""
        present = (DEFAULT_GROUP, *self.fs.groups())
        foreign = [
            message("group-removed", group=group_name(number))
            for number in sorted(self.memory.made)
            if group_name(number) not in present
        ]
        modes = {name: self.fs.mode(name) for name in present if name.startswith(PREFIX)}
        foreign += [
            message("group-mode-changed", group=name, mode=mode)
            for name, mode in modes.items()
            if mode != SHAREABLE
        ]
        for domain, named in self.memory.classes.items():
            for name, item in named.items() if domain in domains else ():
                group = group_name(self.memory.slots[domain][name])
                if group not in present:
                    continue
                try:
                    masks = self._masks(group, domain)
                    effective = self._effective(self._domains[domain], group, masks)
                except DomainOffline:
                    continue
                for resource, now in masks.items():
                    if now != item.mask:
                        foreign.append(
                            message(
                                "group-mask-changed",
                                group=group,
                                resource=resource,
                                domain=domain,
                                mask=now,
                                wrote=item.mask,
                            )
                        )
                left = self.memory.read_back.get(domain, {}).get(name, effective)
                if masks == self._alike(item.mask) and effective != left:
                    foreign.append(
                        message(
                            "group-register-changed",
                            group=group,
                            domain=domain,
                            mask=effective,
                            left=left,
                        )
                    )
        ours = filter(self._exists, sorted(self.memory.made))
        return foreign + self._groups.foreign(
            ours, {self._bandwidth_number(one) for one in domains}
        )

    def adopt(self, memory: ResctrlMemory) -> None:
        """Adopt the groups that our previous process left.

        CPUs that were offline meanwhile return to their groups. Raises `HardwareError` if groups,
        masks or CPUs differ: then nothing is adopted.
        """
        made, have = {group_name(number) for number in memory.made}, set(self.own_groups())
        if made != have:
            left, there = tuple(sorted(made)), tuple(sorted(have))
            raise HardwareError(message("groups-not-as-left", left=left, there=there))
        known = {domain.id for domain in self.domains()}
        classes, slots = (
            {domain: set(named) for domain, named in part.items()}
            for part in (memory.classes, memory.slots)
        )
        used = {slot for named in memory.slots.values() for slot in named.values()}
        if not known >= classes.keys() or classes != slots or not used <= memory.made | {0}:
            raise HardwareError(message("groups-of-absent-domains"))
        self._use(memory)
        try:
            foreign = self.inspect()
            if foreign:
                raise HardwareError(message("groups-changed-meanwhile", changes=foreign))
        except HardwareError:
            self._use(ResctrlMemory())
            raise

    def save(self) -> dict[str, Any]:
        """Return, as plain JSON values, the settings for `restore`."""
        found = resctrl_saved.save(self.fs)
        self._saved.renew(frozenset().union(*found["default"].values()))
        return found

    def grown(self, extended: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
        """Add the CPUs that other programs have begun to monitor to the extended settings."""
        monitors = resctrl_saved.grown(extended["monitors"], now["monitors"])
        return {**extended, "monitors": monitors}

    def written(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the saved settings that this process has changed; see `rollback.Noting`."""
        return resctrl_saved.written(saved, self._wrote, self._took)

    def restore(self, saved: Mapping[str, Any]) -> tuple[Message, ...]:
        """Remove our groups, and restore the saved settings; return messages.

        Works on any instance, also in another process, and may be repeated. If resctrl is not
        mounted any more, there is nothing to restore: unmounting resets every class. Groups of
        devices, and of their ports, stay: `DeviceClass` and `PortMonitor` remove them when no tag
        has their numbers any more. Raises `HardwareError` at the end, with all failures.
        """
        try:
            if not self.mounted():
                return ()
            ours = (name for name in self.own_groups() if not name.startswith(DEVICES))
            monitors = (path for path in self.own_monitors() if f"/{PORTS}" not in path)
            return resctrl_saved.restore(self.fs, saved, ours, monitors, self.topology.caches)
        finally:
            self._use(ResctrlMemory())

    def remove_left_over(self, *, lost: bool = False) -> tuple[Message, ...]:
        """Remove our groups without a snapshot; only for the host's writer.

        The removal moves all CPUs to the default group, to which an agent has left few ways, and
        the original masks are lost. So the default group gets all ways, as the kernel's mount gives
        it; but not beside groups of other programs, which may rely on its masks. `lost`: an agent
        has left its settings, also if no group shows that.
        """
        opened = self.narrowed() if lost or self.own_groups() else {}
        return self.restore({"default": opened, "monitors": {}})

    def narrowed(self) -> dict[str, dict[str, str]]:
        """Return the masks of a mount if the default group has fewer ways.

        Empty beside groups of other programs, which may rely on its masks, and if unmounted.
        """
        if not self.mounted() or self.foreign_groups():
            return {}
        mounted = resctrl_saved.as_mounted(self.fs)
        return mounted if mounted != resctrl_saved.save(self.fs)["default"] else {}
