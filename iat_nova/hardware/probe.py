# SPDX-License-Identifier: Apache-2.0
"""What this host offers, as data: findings with the command that mends what is missing.

Looking changes nothing: no group is made, no register written; perf events are opened and closed.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware import events, perf_event
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cha import cha_pmus
from iat_nova.hardware.ddio import IoAllocDdio
from iat_nova.hardware.fabric import fabric_pmu
from iat_nova.hardware.locks import PQOS_LOCK, lock_holder
from iat_nova.hardware.msr import IIO_LLC_WAYS, Msr
from iat_nova.hardware.pqos_lib import load
from iat_nova.hardware.resctrl import Resctrl
from iat_nova.hardware.resctrl_fs import PREFIX, Limits, ResctrlFs
from iat_nova.hardware.sockets import TABLE, Sockets
from iat_nova.hardware.topology import Topology
from iat_nova.model import CacheDomain


class Level(enum.StrEnum):
    """How a finding bears on the agent's work."""

    OK = "ok"
    NOTE = "note"  # works, in part or with care
    MISSING = "missing"  # this interface cannot be used
    OBSERVE = "observe"  # the agent must not write while this holds
    IMPOSSIBLE = "impossible"  # the agent cannot start
    CHOSEN = "chosen"  # what the agent would take for a role


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what it is, how it stands, and what to type to mend it.

    `group`: the resctrl group that another owner made, None where the finding is of none.
    """

    subject: str
    level: Level
    state: str
    remedy: str | None = None
    group: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Roots:
    """Where the machine's files are; all of them elsewhere in tests."""

    cpus: Path = Path("/sys/devices/system/cpu")
    resctrl: Path = Path("/sys/fs/resctrl")
    pmus: Path = Path("/sys/bus/event_source/devices")
    msr: Path = Path("/dev/cpu")
    msr_parameters: Path = Path("/sys/module/msr/parameters")
    lockdown: Path = Path("/sys/kernel/security/lockdown")
    proc: Path = Path("/proc")
    pqos_lock: Path = PQOS_LOCK
    pci: Path = Path("/sys/bus/pci/devices")
    dmi: Path = TABLE


class Host:
    """A host's files and registers: one reader of each kind, shared by all interfaces."""

    def __init__(
        self, roots: Roots = Roots(), *, fs: ResctrlFs | None = None, msr: Msr | None = None
    ) -> None:
        self.roots = roots
        self.topology = Topology(roots.cpus)
        self.fs = fs or ResctrlFs(roots.resctrl, roots.proc / "mounts")
        self.msr = msr or Msr(roots.msr, roots.msr_parameters)
        self.cpu_model = events.cpu_model(roots.proc / "cpuinfo")
        self.resctrl = Resctrl(
            self.fs, self.topology, coupled=self.cpu_model.known is events.SKYLAKE
        )

    @functools.cached_property
    def sockets(self) -> Sockets:
        """The host's sockets by the firmware's table (DMI), including offline sockets."""
        return Sockets(self.topology, self.roots.dmi)

    @property
    def model(self) -> events.Model | None:
        """The CPU's event tables, None for one we do not know."""
        return self.cpu_model.known


def findings(host: Host, *, ours: Iterable[str] = (), agent: int | None = None) -> list[Finding]:
    """Look at everything, in the order in which a person would mend it.

    `ours` are the groups libpqos made for us, `agent` is the process of an agent that runs: what
    these hold is not another owner's.
    """
    found = []
    for look in (_cpu, _clusters, _resctrl, _msr, _ddio_register, _io_alloc, _perf, _cha):
        try:
            found += look(host)
        except HardwareError as error:
            found.append(refusal(look.__name__.strip("_"), error))
    return _not_ours([*found, *_pqos_library(), *_pqos(host, agent)], ours)


def owners(host: Host, *, ours: Iterable[str] = ()) -> tuple[str, ...]:
    """Return who else allocates cache now, one sentence each; cheap enough for every reconcile.

    `ours` are the groups libpqos made for us.
    """
    return reasons(_not_ours([*_resctrl(host), *_pqos(host)], ours), Level.OBSERVE)


def _not_ours(found: list[Finding], ours: Iterable[str]) -> list[Finding]:
    """Leave out what libpqos's OS interface made for us: groups that take every class."""
    made = frozenset(ours)
    if not made:
        return found
    return [one for one in found if one.subject != "classes" and one.group not in made]


def reasons(found: Iterable[Finding], level: Level) -> tuple[str, ...]:
    """Return the findings of a level, one sentence each."""
    return tuple(f"{one.subject}: {one.state}" for one in found if one.level is level)


def refusal(subject: str, error: HardwareError, level: Level = Level.MISSING) -> Finding:
    """Return a finding from an error."""
    return Finding(subject, level, error.state, error.remedy)


def _cpu(host: Host) -> list[Finding]:
    name = host.cpu_model.name or host.cpu_model.vendor or "unknown"
    if host.model is not None:
        return [Finding("CPU", Level.OK, f"{name} ({host.model.name})")]
    which = f"{host.cpu_model.vendor} family {host.cpu_model.family} model {host.cpu_model.model}"
    state = (
        f"{name}: no event table for {which}: masks could be written, but the agent could not see "
        "what they do, and does not start"
    )
    return [Finding("CPU", Level.MISSING, state, "report the CPU to the project")]


def _resctrl(host: Host) -> list[Finding]:
    root = host.roots.resctrl
    if not (root / "schemata").exists():
        if "resctrl" in text_of(host.roots.proc / "filesystems").split():
            remedy = f"mount -t resctrl resctrl {root}"
            return [Finding("resctrl", Level.MISSING, "not mounted", remedy)]
        if "cat_l3" in text_of(host.roots.proc / "cpuinfo").split():
            state = "this kernel has none, though the CPU can allocate cache"
            return [Finding("resctrl", Level.MISSING, state, "boot with rdt=l3cat")]
        state = "the kernel sees no cache allocation here (no cat_l3 in /proc/cpuinfo)"
        remedy = "another CPU; virtual machines have none; Haswell: boot with rdt=l3cat"
        return [Finding("resctrl", Level.MISSING, state, remedy)]
    domains = host.resctrl.domains()
    foreign = host.resctrl.foreign_groups()
    each = ", ".join(f"domain {d.id}: {d.ways} ways" for d in domains)
    found = [Finding("resctrl", Level.OK, f"{each}; {domains[0].classes} classes for us")]
    found += _in_no_domain(host, domains)
    if domains[0].classes < 2:
        state = "no class of service is left for us"
        found.append(Finding("classes", Level.OBSERVE, state, f"rmdir {root}/GROUP, one of theirs"))
    if len(host.fs.info().resources) > 1:
        state = "mounted with cdp: code and data get the same mask, of half as many classes"
        remedy = f"umount {root}; mount -t resctrl resctrl {root}"
        found.append(Finding("cdp", Level.NOTE, state, remedy))
    _, words, limits = host.fs.bandwidth_control()
    if limits is Limits.POSSIBLE:
        found.append(Finding("memory bandwidth", Level.OK, f"can be limited by class: {words}"))
    else:
        level = Level.OK if limits is Limits.ABSENT else Level.NOTE
        steered = limits is Limits.STEERED
        again = f"umount {root}; mount -t resctrl resctrl {root}" if steered else None
        found.append(Finding("memory bandwidth", level, f"not limited: {words}", again))
    found += [_foreign(host, name) for name in foreign]
    held = {d.id: d.reserved_ways for d in domains if d.reserved_ways}
    if held:
        each = ", ".join(f"domain {number}: {mask}" for number, mask in held.items())
        state = f"exclusive or pseudo-locked, never touched: {each}"
        found.append(Finding("reserved ways", Level.NOTE, state))
    monitored = {
        name: cpus
        for name, cpus in host.fs.monitors().items()
        if cpus and not name.startswith(PREFIX)
    }
    if monitored:
        each = ", ".join(f"{name}: CPUs {format_cpus(cpus)}" for name, cpus in monitored.items())
        state = f"{each}; a CPU that the agent gives a class is not counted there until its end"
        found.append(Finding("monitoring groups", Level.NOTE, state))
    return found


def _in_no_domain(host: Host, domains: Iterable[CacheDomain]) -> list[Finding]:
    """Tell which CPUs that are online are in no cache domain."""
    lost = host.topology.online().difference(*(one.cpus for one in domains))
    if not lost:
        return []
    state = (
        f"{format_cpus(lost)}: sysfs shows no L3 cache of theirs that resctrl has; the agent "
        "manages nothing on them"
    )
    remedy = f"compare {host.roots.cpus}/cpu{min(lost)}/cache/index*/id with schemata"
    return [Finding("CPUs in no cache domain", Level.NOTE, state, remedy)]


def _foreign(host: Host, name: str) -> Finding:
    path = host.roots.resctrl / name
    if name.startswith("qemu-"):
        guest = name.removeprefix("qemu-").partition("-vcpus")[0].partition("-")[2] or "GUEST"
        remedy = f"virsh edit {guest}: remove <cachetune>; then virsh shutdown and start it"
        return Finding(
            "foreign group", Level.OBSERVE, f"{name}: libvirt allocates cache", remedy, name
        )
    state = f"{name}: somebody else allocates cache"
    remedy = f"rmdir {path}, if nobody needs it"
    return Finding("foreign group", Level.OBSERVE, state, remedy, name)


def _msr(host: Host) -> list[Finding]:
    if host.model is None or not host.model.core_registers:
        state = "of no use: no registers are known on this CPU"
        return [Finding("msr driver", Level.MISSING, state)]
    if (host.roots.msr / f"{min(host.topology.online())}/msr").exists():
        found = [Finding("msr driver", Level.OK, "loaded")]
    else:
        found = [Finding("msr driver", Level.MISSING, "not loaded", "modprobe msr")]
    writes = host.roots.msr_parameters / "allow_writes"
    if text_of(writes) == "off":
        remedy = f"echo on > {writes}, or boot with msr.allow_writes=on"
        found.append(Finding("msr writes", Level.MISSING, "switched off", remedy))
    locked = text_of(host.roots.lockdown)
    if locked and "[none]" not in locked:
        remedy = "boot without lockdown= (and without secure boot where it implies it)"
        found.append(Finding("lockdown", Level.MISSING, f"{locked}: no register writes", remedy))
    return found


def _ddio_register(host: Host) -> list[Finding]:
    subject = "DDIO register 0xc8b"
    if host.model is None or not host.model.ddio_msr:
        return [Finding(subject, Level.MISSING, "not known on this CPU")]
    try:
        caches = host.topology.caches()
        masks = {cache.id: host.msr.read(cache.cpus[0], IIO_LLC_WAYS) for cache in caches}
    except HardwareError as error:
        return [refusal(subject, error)]
    each = ", ".join(f"domain {number}: {mask:#x}" for number, mask in masks.items())
    return [Finding(subject, Level.OK, each or "no cache domain")]


def _io_alloc(host: Host) -> list[Finding]:
    state = IoAllocDdio(host.fs, host.resctrl.domains).state()
    if state == "not supported":
        return [Finding("io_alloc", Level.MISSING, "not offered (AMD's way, Linux 6.19)")]
    state += "; devices take the highest class of service" + (
        " once a strategy confines them" if state == "disabled" else ""
    )
    return [Finding("io_alloc", Level.OK, f"{state}; only those that use PCIe TPH are steered")]


def _perf(host: Host) -> list[Finding]:
    if host.model is None:
        return [Finding("perf", Level.MISSING, "no event table for this CPU")]
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is None:
        return [Finding("perf", Level.OK, f"{host.model.core.name} events open")]
    return [refusal("perf", refused)]


def _clusters(host: Host) -> list[Finding]:
    """Tell of sub-NUMA clustering: several NUMA nodes in one LLC."""
    nodes = {cache.id: cache.nodes for cache in host.topology.caches()}
    several = {domain: found for domain, found in nodes.items() if len(found) > 1}
    if not several:
        return []
    each = ", ".join(
        f"domain {number}: nodes {format_cpus(found)}" for number, found in several.items()
    )
    most = max(map(len, several.values()))
    state = (
        f"{each}; a node's memory is cached in its own slices alone: for a guest in one node a way "
        f"holds 1/{most} of its size; masks and DDIO's ways hold for all of them"
    )
    return [Finding("sub-NUMA clusters", Level.NOTE, state)]


def _cha(host: Host) -> list[Finding]:
    intel = host.cpu_model.vendor == "GenuineIntel"
    if intel and host.model is not None and host.model.cha is None:
        state = "none: this CPU's events for DDIO's hits and misses are not known"
        return [Finding("CHA PMUs", Level.MISSING, state)]
    pmus = cha_pmus(host.roots.pmus)
    if pmus:
        cpus = format_cpus(pmus[0].cpumask)
        return [Finding("CHA PMUs", Level.OK, f"{len(pmus)} slices, counted on CPUs {cpus}")]
    if not intel:
        return _fabric(host)
    state = "none: DDIO's hits and misses cannot be counted through the kernel"
    return [Finding("CHA PMUs", Level.MISSING, state, "modprobe intel_uncore")]


def _fabric(host: Host) -> list[Finding]:
    """Tell what is known of inbound I/O on a CPU of another maker than Intel."""
    state = "none: only Intel's CPUs count DDIO's hits and misses"
    found = [Finding("CHA PMUs", Level.MISSING, state)]
    if host.model is None:
        return found
    if not host.model.fabric:
        state = "no event of what devices write is known on this CPU"
        return [*found, Finding("amd_df PMU", Level.MISSING, state)]
    pmu = fabric_pmu(host.roots.pmus)
    if pmu is None:
        state = "none: what devices write cannot be counted"
        return [*found, Finding("amd_df PMU", Level.MISSING, state, "modprobe amd_uncore")]
    state = f"lines that devices write, by socket, counted on CPUs {format_cpus(pmu.cpumask)}"
    return [*found, Finding("amd_df PMU", Level.OK, state)]


def _pqos_library() -> list[Finding]:
    try:
        name = load()._name
    except HardwareError as error:
        return [refusal("libpqos", error)]
    return [Finding("libpqos", Level.OK, f"{name}, for cat_interface = pqos-msr and pqos-os")]


def _pqos(host: Host, agent: int | None = None) -> list[Finding]:
    owner = lock_holder(host.roots.pqos_lock, host.roots.proc)
    if owner in (None, os.getpid(), agent):  # the agent itself may work through libpqos
        return []
    state = f"process {owner} holds {host.roots.pqos_lock}: it allocates cache, or is about to"
    return [Finding("libpqos's lock", Level.OBSERVE, state, f"ps -p {owner}; kill {owner}")]


def split_siblings(topology: Topology, owner: Mapping[int, str]) -> list[Finding]:
    """Tell which cores have hyper-threads of different owners: their classes cannot part them.

    `owner` names who has a CPU. Threads share the core's own caches, and the ways of one
    class are filled through them by the other. One finding for each set of owners.
    """
    cores = {topology.siblings(cpu) for cpu in owner}
    split: dict[tuple[str, ...], list[frozenset[int]]] = {}
    for core in sorted(cores, key=min):
        owners = tuple(sorted({owner[cpu] for cpu in core if cpu in owner}))
        if len(owners) > 1:
            split.setdefault(owners, []).append(core)
    return [
        Finding(
            "hyper-threads",
            Level.NOTE,
            f"{' and '.join(owners)} share cores: CPUs "
            + ", ".join(format_cpus(core) for core in cores),
            "openstack --os-compute-api-version 2.86 flavor set "
            "--property hw:cpu_thread_policy=require (or isolate) FLAVOR; "
            "choose whole cores in cpu_dedicated_set and pmd-cpu-mask",
        )
        for owners, cores in split.items()
    ]


def text_of(path: Path) -> str:
    """Return a setting of the kernel; empty where there is none, or not for us to read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
