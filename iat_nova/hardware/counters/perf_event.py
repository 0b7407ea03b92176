# SPDX-License-Identifier: Apache-2.0
"""``perf_event_open(2)``: groups of counters, each on one CPU behind one descriptor.

A group is scheduled as a whole, so its counts cover the same time, and one ``read`` of the leader
returns all of them (``PERF_FORMAT_GROUP``, tools/include/uapi/linux/perf_event.h):

    u64 nr, time_enabled, time_running, value[nr]

The times are in nanoseconds. The two times differ if the kernel shares the counters with other
users (such as a guest with a virtual PMU): then the values cover `time_running` only.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import operator
import os
import platform
import resource
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.capabilities import held
from iat_nova.model import Message, message

PERF_TYPE_RAW = 4

Key = TypeVar("Key")

_TOTAL_TIME_ENABLED, _TOTAL_TIME_RUNNING, _GROUP = 1, 2, 8
_ATTR_SIZE = 112  # PERF_ATTR_SIZE_VER5, Linux 4.1
_ATTR = struct.Struct("<IIQQQQQIIQQ")  # up to config2, the rest stays zero
_FLAG_DISABLED = 1
_FD_CLOEXEC = 8
_IOC_ENABLE, _IOC_FLAG_GROUP = 0x2400, 1
_SYSCALL = {"x86_64": 298, "aarch64": 241}


@dataclasses.dataclass(frozen=True, slots=True)
class PerfEvent:
    """An event in the terms of ``perf_event_attr``: a PMU's type and its configuration."""

    type: int
    config: int
    config1: int = 0
    config2: int = 0


class CpuOffline(HardwareError):
    """The CPU is absent: offline, or never present."""


class EventGroup:
    """Counters of one CPU that run together. `fd` is the leader's descriptor.

    Counting starts with the construction. Raises `CpuOffline` or `HardwareError` with all
    descriptors closed.
    """

    __slots__ = ("_fds", "fd")

    def __init__(self, events: Sequence[PerfEvent], cpu: int) -> None:
        self._fds: list[int] = []
        try:
            for event in events:
                leader = self._fds[0] if self._fds else -1
                self._fds.append(_open(event, cpu, leader))
            self.fd = self._fds[0]
            fcntl.ioctl(self.fd, _IOC_ENABLE, _IOC_FLAG_GROUP)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the descriptors; may be repeated."""
        while self._fds:
            os.close(self._fds.pop())


def _open(event: PerfEvent, cpu: int, leader: int) -> int:
    attr = ctypes.create_string_buffer(_ATTR_SIZE)
    read_format = _TOTAL_TIME_ENABLED | _TOTAL_TIME_RUNNING | _GROUP
    # Members follow their leader, which is started once all members are open. All exclude bits
    # stay zero: guests and the kernel also count.
    flags = _FLAG_DISABLED if leader == -1 else 0
    fields = (event.type, _ATTR_SIZE, event.config, 0, 0, read_format, flags, 0, 0)
    _ATTR.pack_into(attr, 0, *fields, event.config1, event.config2)
    fd: int = _libc().syscall(_number(), attr, -1, cpu, leader, _FD_CLOEXEC)
    if fd < 0:
        raise _refusal(ctypes.get_errno(), event, cpu)
    return fd


def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    libc.syscall.argtypes = [
        ctypes.c_long,  # number
        ctypes.c_void_p,  # attr
        ctypes.c_long,  # pid
        ctypes.c_long,  # cpu
        ctypes.c_long,  # group_fd
        ctypes.c_ulong,  # flags
    ]
    return libc


def _number() -> int:
    machine = platform.machine()
    try:
        return _SYSCALL[machine]
    except KeyError:
        raise HardwareError(message("perf-unknown-machine", machine=machine)) from None


PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_STRICTEST = 2  # the strictest value at which CAP_PERFMON is enough, everywhere
_ADVICE = {
    errno.EMFILE: message("raise-open-files"),
    errno.ENFILE: message("raise-file-max"),
    errno.ENOENT: message("event-absent"),
    errno.EOPNOTSUPP: message("event-absent"),
    errno.EINVAL: message("event-unknown"),
    errno.EBUSY: message("counters-held"),
    errno.ENOSYS: message("kernel-without-perf"),
}


def _refusal(code: int, event: PerfEvent, cpu: int) -> HardwareError:
    refused = message(
        "perf-refused",
        cpu=cpu,
        type=event.type,
        config=event.config,
        reason=os.strerror(code),
    )
    if code in (errno.ENODEV, errno.ENXIO):
        return CpuOffline(message("perf-cpu-offline", refusal=refused))
    if code in (errno.EACCES, errno.EPERM):
        why, remedy = no_right(files.number_of(PARANOID), held("CapEff"))
        return HardwareError(message("perf-no-right", refusal=refused, why=why), remedy)
    return HardwareError(refused, _ADVICE.get(code, message("see-perf-event-open")))


def no_right(paranoid: int | None, capabilities: frozenset[str]) -> tuple[Message, Message]:
    """Return why a process with these capabilities may not count, and the remedy.

    `paranoid` is kernel.perf_event_paranoid, None if unknown. All kernels require CAP_PERFMON from
    1 on. By the distributions' patch "security,perf: Allow further restriction of perf_event_open"
    Debian's kernels require CAP_SYS_ADMIN from 3 on, Ubuntu's from 3 or 4 on, and newer ones may
    accept CAP_PERFMON (Launchpad bug 2131046). The value does not show the distribution of the
    kernel, but up to `_STRICTEST` CAP_PERFMON is enough on each.
    """
    if paranoid is None:
        return message("paranoid-unknown"), message("give-perfmon")
    have = tuple(sorted(capabilities & {"CAP_PERFMON", "CAP_SYS_ADMIN"}))
    if paranoid > _STRICTEST and "CAP_SYS_ADMIN" not in capabilities:
        why = message("paranoid-too-strict", paranoid=paranoid)
        code = "lower-paranoid" if have else "lower-paranoid-give-perfmon"
        return why, message(code, paranoid=_STRICTEST)
    if not have:
        why = message("paranoid-without-perfmon", paranoid=paranoid)
        return why, message("give-perfmon-as-unit")
    why = message("paranoid-with-right", paranoid=paranoid, capabilities=have)
    return why, message("other-refuses-perf")


def available(events: Iterable[PerfEvent], cpu: int = 0) -> HardwareError | None:
    """Return None if a group of these events can be opened on a CPU, else the refusal."""
    try:
        EventGroup(tuple(events), cpu).close()
    except HardwareError as error:
        return error
    return None


def allow_descriptors(count: int) -> None:
    """Raise the soft limit of open files for `count` more files, up to the hard limit.

    The new limit leaves room for other files of the process.

    A limit that is too low is not reported here: the failing open reports the limit, with advice.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(os.listdir("/proc/self/fd")) + count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))


_TIMES = 3  # values of a reading before the counts: their number, time enabled, time running


OpenEvents = Callable[[Sequence[PerfEvent], int], EventGroup]
"""A function that opens events on a CPU and starts counting."""


class Groups(Generic[Key]):
    """Groups of counters by key, such as a CPU's number.

    Descriptors are opened and closed in `follow` and `close` only, so a group whose CPU went
    offline stays absent until the first `follow` after the CPU's return. A new group continues from
    the totals of the group before.
    """

    def __init__(self, open_group: OpenEvents = EventGroup) -> None:
        self._open_group = open_group
        self._groups: dict[Key, _Group] = {}
        self._totals: dict[Key, tuple[int, ...]] = {}  # of groups that are closed now

    def follow(self, wanted: Mapping[Key, tuple[Sequence[PerfEvent], int]]) -> None:
        """Count exactly these events on these CPUs from now on; groups that are open stay open.

        Raises `HardwareError` if the kernel refuses; then some groups are missing.
        """
        self._close([key for key, one in self._groups.items() if key not in wanted or one.lost])
        missing = {key: one for key, one in wanted.items() if key not in self._groups}
        allow_descriptors(sum(len(events) for events, _ in missing.values()))
        for key, (events, cpu) in missing.items():
            with contextlib.suppress(CpuOffline):
                group = self._open_group(events, cpu)
                totals = self._totals.pop(key, (0,) * len(events))
                self._groups[key] = _Group(group, totals)

    def read(self) -> dict[Key, tuple[int, ...]]:
        """Return the running totals of each group; a group without reliable counts is absent."""
        found = {}
        for key, group in self._groups.items():
            totals = group.read()
            if totals is not None:
                found[key] = totals
        return found

    @property
    def fds(self) -> list[int]:
        """The descriptors of which `read` reads each once."""
        return [one.leader.fd for one in self._groups.values()]

    def close(self) -> None:
        """Close all descriptors; the totals are kept for a later `follow`."""
        self._close(list(self._groups))

    def _close(self, keys: list[Key]) -> None:
        for key in keys:
            self._totals[key] = self._groups.pop(key).close()


class _Group:
    """An open group.

    The totals are the kernel's counts plus `_offset`: the counts of earlier groups, and additions
    by scaling. `lost`: counting has ended, because the CPU went offline.
    """

    __slots__ = ("_last", "_offset", "_struct", "leader", "lost")

    def __init__(self, group: EventGroup, offset: tuple[int, ...]) -> None:
        self.leader = group
        self.lost = False
        self._struct = struct.Struct(f"={_TIMES + len(offset)}Q")
        self._offset = offset
        self._last: tuple[int, ...] = (0,) * (_TIMES + len(offset))

    def read(self) -> tuple[int, ...] | None:
        """Return the totals, None if the counts of this interval are not reliable.

        An interval in which the group ran less than half of the time is rejected; the scaled counts
        still enter the totals, as the best estimate. When the CPU goes offline, the kernel removes
        the group and its time stops: then the group is lost. Another error of the kernel is raised
        once, as `OSError`, and the group is lost.
        """
        if self.lost:
            return None
        try:
            reading = self._struct.unpack(os.read(self.leader.fd, self._struct.size))
        except (OSError, struct.error) as error:  # an error, or fewer members than before
            self.lost = True
            if isinstance(error, OSError) and error.errno not in (errno.ENODEV, errno.ENXIO):
                raise
            return None
        last, self._last = self._last, reading
        interval, ran = reading[1] - last[1], reading[2] - last[2]
        if interval <= 0:
            self.lost = True
            return None
        if ran != interval:
            missed = interval - ran
            self._offset = tuple(
                old + ((after - before) * missed // ran if ran else 0)
                for old, before, after in zip(
                    self._offset, last[_TIMES:], reading[_TIMES:], strict=True
                )
            )
            if 2 * ran < interval:
                return None
        return self._total()

    def _total(self) -> tuple[int, ...]:
        return tuple(map(operator.add, self._offset, self._last[_TIMES:]))

    def close(self) -> tuple[int, ...]:
        """Close the group and return its totals."""
        self.leader.close()
        return self._total()
