# SPDX-License-Identifier: Apache-2.0
"""The CPUs of the PMD threads, on which Open vSwitch's userspace datapath forwards.

Three sources, best first (Open vSwitch, "PMD Threads" and ``vswitchd.conf.db(5)``):

* ``dpif-netdev/pmd-rxq-show``: the running threads. The mask may allow more threads, if no port
  needs them yet or a CPU is missing. Without a mask Open vSwitch chooses the CPUs;
* ``other_config:pmd-cpu-mask``: the allowed CPUs;
* the names of ovs-vswitchd's threads, ``pmd-cNN/id:``, if its control socket is not accessible.

``dpdk-lcore-mask`` is not a source: its threads do housekeeping and forward nothing.

An ovs-vswitchd that has ended leaves its mask in the database. A restart takes seconds, so the CPUs
of the mask are kept for `KEPT_S`. Then the CPUs return to the host (`Absence`).
"""

from __future__ import annotations

import dataclasses
import errno
import pathlib
import re
from collections.abc import Callable, Mapping

from iat_nova.common.cpulist import format_cpus
from iat_nova.common.kernel_files import names, text_of
from iat_nova.common.untrusted import shortened
from iat_nova.inventory.ovs_rpc import OvsUnavailableError
from iat_nova.model import Message, message

_MASK = re.compile(r"(?:0[xX])?(?=[0-9a-fA-F])0*([0-9a-fA-F]*)")
_RXQ_SHOW = re.compile(r"^pmd thread numa_id -?[0-9]+ core_id ([0-9]{1,6}):", re.MULTILINE)
_THREAD = re.compile("pmd-c([0-9]+)/id:")
_GONE = (errno.ESRCH, errno.EACCES, errno.EPERM)  # the process has ended, or is hidden
_MOST_BITS = 16384  # no kernel has more CPUs; a longer mask only takes time
_PROCESS = "ovs-vswitchd"  # Debian's ovs-vswitchd-dpdk begins with the same letters
_DATABASE = "ovsdb-server"
KEPT_S = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class PmdCpus:
    """The CPUs of the PMD threads. `source` None: no source answered.

    `ended`: the CPUs come from a mask, and ovs-vswitchd does not run.
    """

    cpus: tuple[int, ...]
    source: str | None  # pmd-cpu-mask, pmd-rxq-show, threads, ended
    warnings: tuple[Message, ...] = ()
    ended: bool = False


class Absence:
    """Keeps the CPUs of an ovs-vswitchd that has ended for a limited time."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def apply(self, found: PmdCpus, now_s: float) -> PmdCpus:
        """Return `found`; with a warning after the end, and without CPUs `KEPT_S` after the end."""
        if not found.ended:
            self._since_s = None
            return found
        since_s = self._since_s = now_s if self._since_s is None else self._since_s
        cpus = format_cpus(found.cpus)
        if now_s - since_s < KEPT_S:
            kept = message("pmd-cpus-kept", cpus=cpus, kept_s=KEPT_S)
            return dataclasses.replace(found, warnings=(*found.warnings, kept))
        given = message("pmd-cpus-given", cpus=cpus)
        return PmdCpus((), "ended", (*found.warnings, given), ended=True)


def find(
    other_config: Mapping[str, str], ask: Callable[[], str], proc_root: pathlib.Path
) -> PmdCpus:
    """Find the PMD CPUs of a host that has a userspace (netdev) bridge.

    `ask` returns the text of ``dpif-netdev/pmd-rxq-show`` or raises `OvsUnavailableError`. A
    malformed mask is reported; the reaction of ovs-vswitchd to the mask counts (3.1 ends all its
    PMD threads).
    """
    masked, warnings = _masked(other_config)
    try:
        return PmdCpus(parse_rxq_show(ask()), "pmd-rxq-show", warnings)
    except OvsUnavailableError as error:
        if masked:
            return PmdCpus(masked, "pmd-cpu-mask", warnings, has_ended(proc_root))
        threads = cpus_of_threads(proc_root)
        if threads is not None:
            return PmdCpus(threads, "threads", warnings)
        unknown = message("pmd-cpus-unknown", error=str(error), proc_root=str(proc_root))
        return PmdCpus((), None, (*warnings, unknown))


def _masked(other_config: Mapping[str, str]) -> tuple[tuple[int, ...], tuple[Message, ...]]:
    mask = other_config.get("pmd-cpu-mask")
    # dpdk-init=try starts DPDK as well, but continues after a failure.
    if mask is None or other_config.get("dpdk-init", "").lower() not in ("true", "try"):
        return (), ()
    try:
        return parse_mask(mask), ()
    except ValueError as error:
        return (), (message("pmd-mask-invalid", error=str(error)),)


def parse_mask(text: str) -> tuple[int, ...]:
    """Return the CPUs of a hexadecimal mask, with or without 0x, lowest first.

    Raises `ValueError` for other text, and for a mask of more CPUs than a kernel supports.
    """
    match = _MASK.fullmatch(text)
    if match is None:
        raise ValueError(f"{shortened(text)!r} is not a hexadecimal mask of CPUs")
    if len(match[1]) > _MOST_BITS // 4:
        raise ValueError(f"{shortened(text)!r} has more than {_MOST_BITS} bits")
    mask = int(match[1] or "0", 16)
    return tuple(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)


def parse_rxq_show(text: str) -> tuple[int, ...]:
    """Return the CPUs of all PMD threads in the output of ``dpif-netdev/pmd-rxq-show``.

    A thread without a queue is listed, and counts, because it polls nevertheless.
    """
    return tuple(sorted({int(core) for core in _RXQ_SHOW.findall(text)}))


def cpus_of_threads(proc_root: pathlib.Path) -> tuple[int, ...] | None:
    """Return the CPUs in the names of ovs-vswitchd's PMD threads.

    None: no ovs-vswitchd is running, or it is hidden from this process. Processes and threads that
    end during the search are skipped.
    """
    found = False
    cpus: set[int] = set()
    for process in _numbered(proc_root):
        if not text_of(process / "comm", *_GONE).startswith(_PROCESS):
            continue
        found = True
        for thread in _numbered(process / "task"):
            if match := _THREAD.match(text_of(thread / "comm", *_GONE)):
                cpus.add(int(match[1]))
    return tuple(sorted(cpus)) if found else None


def has_ended(proc_root: pathlib.Path) -> bool:
    """Tell whether ovs-vswitchd certainly does not run: ovsdb-server is seen, ovs-vswitchd is not.

    Neither is seen in a container, or where /proc hides processes of other users.
    """
    programs = {text_of(process / "comm", *_GONE) for process in _numbered(proc_root)}
    return _DATABASE in programs and not any(name.startswith(_PROCESS) for name in programs)


def _numbered(folder: pathlib.Path) -> list[pathlib.Path]:
    return [folder / name for name in names(folder, *_GONE) if re.fullmatch("[0-9]+", name)]
