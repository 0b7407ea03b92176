# SPDX-License-Identifier: Apache-2.0
"""The resctrl file system: files, groups, limits, and the kernel's reasons for refusals.

Source: Linux, Documentation/filesystems/resctrl.rst. All paths are below one root folder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import errno
import fcntl
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from iat_nova.common.cpulist import parse_cpus
from iat_nova.common.kernel_files import absent
from iat_nova.hardware.api import DomainOffline, HardwareError, KernelError, unusable
from iat_nova.hardware.cat.resctrl_text import (
    Assignment,
    hexadecimal,
    parse_assignments,
    parse_limits,
    parse_masks,
    parse_numbers,
    parse_usage,
)
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.topology import Cache
from iat_nova.model import BandwidthControl, Message, WayMask, message
from iat_nova.model.message import as_message

DEFAULT_ROOT = Path("/sys/fs/resctrl")
DEFAULT_GROUP = ""
MOUNTS = Path("/proc/mounts")
PREFIX = "iat-nova."  # the prefix of our groups' names
DEVICES = f"{PREFIX}devices"  # begins the names of groups whose classes devices have (I/O RDT)
PORTS = f"{PREFIX}port."  # of monitoring groups of devices' ports
_MONITORS = "mon_groups"
_ASSIGNMENTS = "mbm_L3_assignments"
_L3 = frozenset({"L3", "L3CODE", "L3DATA"})
_BANDWIDTH = "MB"
_UNLIMITED_AMD = 2048  # eighths of a GB/s: 0xC0000200 after a reset, up to Zen 4 at least
SHAREABLE = "shareable"  # the mode of a new group
_NOT_GROUPS = frozenset({"info", "mon_groups", "mon_data"})
_LOCK_DEADLINE_S = 2.0
_T = TypeVar("_T")
_LOCK_PAUSE_S = 0.01


_REMEDIES = {
    "Out of CLOSIDs": message("remove-groups"),
    "Out of RMIDs": message("remove-monitoring-groups"),
}
"""Remedies by the kernel's text in ``last_cmd_status``."""


class ResctrlError(KernelError):
    """The kernel refused; the message has ``last_cmd_status``."""


class BandwidthLimits(enum.Enum):
    """Whether memory bandwidth can be limited by class, or the reason why not."""

    POSSIBLE = enum.auto()
    ABSENT = enum.auto()  # the CPU or the kernel has no memory bandwidth allocation
    STEERED = enum.auto()  # mounted with mba_MBps: the kernel steers bandwidth itself
    UNREADABLE = enum.auto()  # a file of the kernel is missing or invalid


class Bandwidth(NamedTuple):
    """The control of memory bandwidth; `control` is None if bandwidth cannot be limited.

    `how`: the message on the kind of limits, or on the reason why not.
    """

    control: BandwidthControl | None
    how: Message
    limits: BandwidthLimits


@dataclasses.dataclass(frozen=True, slots=True)
class Info:
    """The limits of L3 allocation in the folder ``info``.

    `resources` is ``L3`` alone, or ``L3CODE`` and ``L3DATA`` with code and data prioritisation:
    both then get the same mask. `closids` is the minimum over all resources, which limits the
    number of groups (MBA often has fewer than CAT).
    """

    resources: tuple[str, ...]
    cbm_mask: WayMask
    min_cbm_bits: int
    closids: int
    shareable_bits: WayMask
    sparse_masks: bool
    io_alloc: bool  # one class, the highest, belongs to devices


class ResctrlFs:
    """A mounted resctrl file system. Paths are relative to `root`; "" is the default group.

    `mounts`: the kernel's file with the mount options.
    """

    def __init__(self, root: Path = DEFAULT_ROOT, mounts: Path = MOUNTS) -> None:
        self.root = root
        self._mounts = mounts
        self._limits: dict[str, tuple[int, int]] = {}  # of masks, by resource

    # Tests replace the next four methods.

    def read(self, name: str) -> str:
        """Return a file's text. Raises `OSError`."""
        return (self.root / name).read_text(errors="replace")

    def write(self, name: str, text: str) -> None:
        """Write a file with one system call, as the kernel requires. Raises `OSError`."""
        fd = os.open(self.root / name, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def mkdir(self, name: str) -> None:
        """Make a group. Raises `OSError`."""
        (self.root / name).mkdir()

    def rmdir(self, name: str) -> None:
        """Remove a group; its CPUs go to the default group. Raises `OSError`."""
        (self.root / name).rmdir()

    def info(self) -> Info:
        """Read the limits. Raises `HardwareError` without L3 allocation."""
        resources = self.l3_resources()
        first = f"info/{resources[0]}"
        names = (f"info/{name}/num_closids" for name in self._folders("info"))
        # Resources that only monitor have no such file.
        others = [self.number(name) for name in names]
        numbers = (self.parsed(f"{first}/num_closids", int), *others)
        return Info(
            resources=resources,
            cbm_mask=WayMask(self.parsed(f"{first}/cbm_mask", hexadecimal)),
            min_cbm_bits=self.parsed(f"{first}/min_cbm_bits", int),
            closids=min(number for number in numbers if number is not None),
            shareable_bits=WayMask(self.parsed(f"{first}/shareable_bits", hexadecimal, "0")),
            sparse_masks=self._get(f"{first}/sparse_masks", "0") == "1",
            io_alloc=self._get(f"{first}/io_alloc", "not supported") == "enabled",
        )

    def l3_resources(self) -> tuple[str, ...]:
        """Return the names of L3's resources in ``schemata``; see `Info`.

        Raises `HardwareError` without L3 allocation.
        """
        if files.exists(self.root / "info/L3CODE"):
            return "L3CODE", "L3DATA"
        if files.exists(self.root / "info/L3"):
            return ("L3",)
        raise self._no_allocation()

    def _no_allocation(self) -> HardwareError:
        state = message("resctrl-absent", path=str(self.root))
        if files.exists(self.root / "info"):
            has = tuple(self._folders("info"))
            state = message("resctrl-without-l3", path=str(self.root), resources=has)
        return HardwareError(state, message("doctor-says-why"))

    def groups(self) -> tuple[str, ...]:
        """Return the names of all control groups except the default group."""
        return tuple(name for name in self._folders("") if name not in _NOT_GROUPS)

    def count(self, name: str | None) -> int | None:
        """Return a counter; None for no file, ``Unavailable``, ``Unassigned`` or ``Error``.

        Raises `ResctrlError`.
        """
        if name is None:
            return None
        try:
            return int(self._get(name, "", errno.ENODEV))
        except ValueError:
            return None

    def _folders(self, folder: str) -> list[str]:
        path = self.root / folder
        try:
            return sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        except OSError as error:
            raise HardwareError(unusable(path, error)) from error

    def masks(self, group: str, resource: str) -> Mapping[int, WayMask]:
        """Return a group's masks by domain, from ``schemata``, checked against their limits."""
        file = _in(group, "schemata")
        for line in self._get(file).splitlines():
            name, _, values = line.strip().partition(":")
            if name == resource:
                masks = self._parse(file, values, parse_masks)
                ways, least = self._mask_limits(resource)
                for mask in masks.values():
                    if mask & ~ways or mask.count < least:
                        limits = f"cbm_mask={ways:x}, min_cbm_bits={least}"
                        error = ValueError(f"{resource}={mask}, {limits}")
                        raise ResctrlError(unusable(self.root / file, error))
                return masks
        path = str(self.root / group)
        raise HardwareError(message("schemata-line-absent", path=path, resource=resource))

    def _mask_limits(self, resource: str) -> tuple[int, int]:
        """Return all ways, and the least number of ways of a mask."""
        if resource not in self._limits:
            least = self.parsed(f"info/{resource}/min_cbm_bits", int)
            self._limits[resource] = self.parsed(f"info/{resource}/cbm_mask", hexadecimal), least
        return self._limits[resource]

    def mask(self, group: str, resource: str, domain: int) -> WayMask:
        """Return a group's mask in a domain. Raises `DomainOffline`."""
        masks = self.masks(group, resource)
        if domain not in masks:  # the kernel leaves out offline domains
            raise DomainOffline(domain)
        return masks[domain]

    def other_lines(self, group: str) -> Mapping[str, str]:
        """Return a group's limits of resources other than L3 (MB, SMBA, L2), from ``schemata``."""
        lines = (line.partition(":") for line in self._get(_in(group, "schemata")).splitlines())
        return {
            name.strip(): values.replace(" ", "")
            for name, _, values in lines
            if name.strip() not in _L3
        }

    def bandwidth_control(self) -> Bandwidth:
        """Return the control of memory bandwidth, or the reason why not.

        With the mount option ``mba_MBps`` the kernel steers bandwidth in MB/s: then we set no
        limits. We also set no limits if a file of the kernel is missing or invalid; masks do not
        depend on these files.
        """
        if not files.exists(self.root / "info" / _BANDWIDTH):
            return Bandwidth(None, message("mba-absent"), BandwidthLimits.ABSENT)
        if "mba_MBps" in self._mount_options():
            return Bandwidth(None, message("mba-steered"), BandwidthLimits.STEERED)
        try:
            least, step, linear = (
                self.parsed(f"info/{_BANDWIDTH}/{name}", int)
                for name in ("min_bandwidth", "bandwidth_gran", "delay_linear")
            )
        except ResctrlError as error:
            how = message("mba-unreadable", error=as_message(error))
            return Bandwidth(None, how, BandwidthLimits.UNREADABLE)
        if step <= 0:
            path = f"info/{_BANDWIDTH}/bandwidth_gran"
            how = message("mba-step-invalid", path=path, step=step)
            return Bandwidth(None, how, BandwidthLimits.UNREADABLE)
        if linear:
            control = BandwidthControl(least, step, 100, percent=True)
            how = message("mba-percent", least_percent=least, step_percent=step)
            return Bandwidth(control, how, BandwidthLimits.POSSIBLE)
        most = max(_UNLIMITED_AMD, *self.bandwidth(DEFAULT_GROUP).values())
        control = BandwidthControl(max(least, step), step, most, percent=False)
        how = message("mba-absolute", most_eighths=most)
        return Bandwidth(control, how, BandwidthLimits.POSSIBLE)

    def bandwidth_numbers(self, resource: str, caches: Sequence[Cache]) -> dict[int, int]:
        """Return each cache's number in the line ``MB``; caches without such a number are absent.

        On x86 the numbers are the caches'. With Arm's MPAM they may be those of NUMA nodes: then a
        cache has its node's number, unless the cache has several nodes or the node several caches.
        """
        lines = (line.strip().partition(":") for line in self._get("schemata").splitlines())
        numbers = {name: self._parse("schemata", one, parse_numbers) for name, _, one in lines}
        of_caches, limited = numbers.get(resource), numbers.get(_BANDWIDTH, frozenset())
        times = Counter(node for cache in caches for node in cache.nodes)
        of_nodes = {
            cache.id: node
            for cache in caches
            for node in cache.nodes
            if len(cache.nodes) == times[node] == 1 and node in limited
        }
        if of_caches != limited:
            return of_nodes
        same = {cache.id: cache.id for cache in caches if cache.id in limited}
        # Only Intel's kernels have this file, and AMD's limits alone are absolute.
        x86 = files.exists(self.root / "info/MB/thread_throttle_mode") or (
            self._get("info/MB/delay_linear", "1") == "0"
        )
        return same if x86 or same.items() >= of_nodes.items() else {}

    def _mount_options(self) -> frozenset[str]:
        lines = [line.split() for line in files.text_of(self._mounts).splitlines()]
        found = (line[3].split(",") for line in lines if line[1:3] == [str(self.root), "resctrl"])
        return frozenset().union(*found)

    def bandwidth(self, group: str) -> Mapping[int, int]:
        """Return a group's memory bandwidth by domain, from ``schemata``."""
        return self.limits(self.other_lines(group), group)

    def limits(self, lines: Mapping[str, str], group: str) -> Mapping[int, int]:
        """Return the memory bandwidth by domain in a group's `other_lines`."""
        return self._parse(_in(group, "schemata"), lines.get(_BANDWIDTH, ""), parse_limits)

    def monitor(self, name: str, group: str = DEFAULT_GROUP) -> str:
        """Return the path of a monitoring group beneath a control group."""
        return _in(group, f"{_MONITORS}/{name}")

    def monitors(self, group: str = DEFAULT_GROUP) -> Mapping[str, frozenset[int]]:
        """Return the CPUs of the monitoring groups beneath a control group, by name."""
        removed = (errno.ENODEV,)  # between the two readings
        return {
            name: self.parsed(f"{self.monitor(name, group)}/cpus_list", parse_cpus, "", *removed)
            for name in files.names(self.root / _in(group, _MONITORS))
        }

    def assignments(self, group: str) -> frozenset[Assignment] | None:
        """Return the assignments of a group's bandwidth counters.

        None if the kernel assigns no counters to groups (before Linux 6.18, or in another mode).
        """
        # EINVAL: in another mode
        return self.parsed(_in(group, _ASSIGNMENTS), parse_assignments, "", errno.EINVAL)

    def in_use_exclusively(self, info: Info) -> Mapping[int, WayMask]:
        """Return the ways of exclusive and pseudo-locked groups, by domain."""
        return self.parsed(f"info/{info.resources[0]}/bit_usage", parse_usage, "")

    def cpus_of(self, group: str) -> frozenset[int]:
        """Return the CPUs of a control group, or of a monitoring group by its path."""
        return self.parsed(_in(group, "cpus_list"), parse_cpus)

    def mode(self, group: str) -> str:
        """Return a group's mode: ``shareable``, ``exclusive``, or of pseudo-locking."""
        return self._get(_in(group, "mode"), SHAREABLE)  # from Linux 4.19 on

    def set_mode(self, group: str, mode: str) -> None:
        """Write a group's mode."""
        self.put(_in(group, "mode"), mode)

    def hardware_class(self, group: str) -> int | None:
        """Return the hardware's class number of a group.

        None unless mounted with ``-o debug`` (Linux 6.7).
        """
        return self.number(_in(group, "ctrl_hw_id"))

    def hardware_monitor(self, group: str) -> int | None:
        """Return the hardware's RMID of a monitoring group, whose path is `group`.

        None unless mounted with ``-o debug`` (Linux 6.7).
        """
        return self.number(_in(group, "mon_hw_id"))

    def number(self, name: str) -> int | None:
        """Return the number in a file, None if missing. Raises `HardwareError`."""
        text = self._get(name, "")
        return self._parse(name, text, int) if text else None

    def parsed(
        self, name: str, parse: Callable[[str], _T], default: str | None = None, *others: int
    ) -> _T:
        """Return a file's text, parsed; `default` replaces the text of a missing file.

        `others`: further error numbers of a missing file. Raises `HardwareError`, also for a text
        that is not as resctrl.rst has it.
        """
        return self._parse(name, self._get(name, default, *others), parse)

    def _parse(self, name: str, text: str, parse: Callable[[str], _T]) -> _T:
        try:
            return parse(text)
        except ValueError as error:
            raise ResctrlError(unusable(self.root / name, error)) from error

    def _get(self, name: str, default: str | None = None, *others: int) -> str:
        try:
            return self.read(name).strip()
        except OSError as error:
            if default is not None and absent(error, *others):
                return default
            raise ResctrlError(unusable(self.root / name, error), error.errno) from error

    def set_masks(self, group: str, domain: int, masks: Mapping[str, WayMask]) -> None:
        """Write a group's masks in one domain, by resource."""
        lines = (f"{resource}:{domain}={mask:x}" for resource, mask in masks.items())
        self.put(_in(group, "schemata"), "\n".join(lines))

    def set_bandwidth(self, group: str, domain: int, limit: int) -> None:
        """Write a group's memory bandwidth in one domain."""
        self.put(_in(group, "schemata"), f"{_BANDWIDTH}:{domain}={limit}")

    def set_other_lines(self, group: str, lines: Mapping[str, str]) -> None:
        """Write a group's lines of the schemata that differ from `lines`."""
        now = self.other_lines(group)
        new = {name: values for name, values in lines.items() if now.get(name, values) != values}
        if new:
            text = "\n".join(f"{name}:{values}" for name, values in new.items())
            self.put(_in(group, "schemata"), text)

    def set_cpus(self, group: str, cpus: str) -> None:
        """Set a group's CPUs; CPUs removed from the group go to the default group."""
        self.put(_in(group, "cpus_list"), cpus)

    def assign(self, group: str, wanted: Iterable[Assignment]) -> None:
        """Set a group's assignments of bandwidth counters to exactly these.

        Does nothing if the kernel assigns no counters. Raises `ResctrlError`, with the code ENOSPC
        if a cache domain has too few free counters.
        """
        have, want = self.assignments(group), frozenset(wanted)
        if have is None or have == want:
            return
        lines = [f"{event}:{domain}=_" for event, domain in sorted(have - want)]
        lines += [f"{event}:{domain}=e" for event, domain in sorted(want - have)]
        self.put(_in(group, _ASSIGNMENTS), "\n".join(lines))

    def add(self, group: str) -> None:
        """Make a group."""
        self._do(group, "mkdir", self.mkdir)

    def remove(self, group: str) -> None:
        """Remove a group."""
        self._do(group, "rmdir", self.rmdir)

    def put(self, name: str, text: str) -> None:
        """Write lines to any file; an error includes the kernel's reason."""
        self._do(name, text, lambda name: self.write(name, f"{text}\n"))

    def _do(self, name: str, what: str, action: Callable[[str], None]) -> None:
        try:
            action(name)
        except OSError as error:
            says = self._get("info/last_cmd_status", "")
            remedy = next((mends for words, mends in _REMEDIES.items() if words in says), None)
            state = message(
                "resctrl-refused",
                path=str(self.root / name),
                change=what.strip().replace("\n", ", "),
                reason=error.strerror,
            )
            if says not in ("", "ok"):
                said = says.replace("\n", ", ")
                state = message("resctrl-refused-because", refusal=state, said=said)
            raise ResctrlError(state, error.errno, remedy) from error

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the common lock of resctrl.rst: flock on the root folder.

        Raises `HardwareError` if another program keeps the lock for more than two seconds.
        """
        try:
            fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            remedy = message("is-resctrl-mounted")
            raise HardwareError(unusable(self.root, error), remedy) from error
        try:
            self._take(fd)
            yield
        finally:
            os.close(fd)

    def _take(self, fd: int) -> None:
        deadline = time.monotonic() + _LOCK_DEADLINE_S
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise HardwareError(
                        message("resctrl-locked", path=str(self.root)),
                        message("end-or-await-program"),
                    ) from None
                time.sleep(_LOCK_PAUSE_S)


def _in(group: str, name: str) -> str:
    return f"{group}/{name}" if group else name
