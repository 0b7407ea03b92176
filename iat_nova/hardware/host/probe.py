# SPDX-License-Identifier: Apache-2.0
"""The interfaces of this host, as findings with remedies for missing interfaces.

The examination changes nothing: no group is made and no register is written; perf events are opened
and closed.
"""

from __future__ import annotations

import dataclasses
import enum
import errno
import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from iat_nova.common.cpulist import format_cpus
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.pqos_lib import load
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import PREFIX, BandwidthLimits, ResctrlFs
from iat_nova.hardware.counters import events, perf_event
from iat_nova.hardware.counters.cha import cha_pmus
from iat_nova.hardware.counters.fabric import fabric_pmu
from iat_nova.hardware.ddio import iordt
from iat_nova.hardware.ddio.iordt_registers import TagRegisters
from iat_nova.hardware.ddio.ways import IoAllocDdio
from iat_nova.hardware.host.cures import Symptom, cache_allocation, find
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.locks import PQOS_LOCK, lock_holder
from iat_nova.hardware.kernel.msr import IIO_LLC_WAYS, Msr
from iat_nova.hardware.kernel.physical_memory import PhysicalMemory
from iat_nova.hardware.kernel.sockets import TABLE, Sockets
from iat_nova.hardware.kernel.topology import Topology
from iat_nova.model import CacheDomain, Message, message

_INTEL, _AMD = "GenuineIntel", "AuthenticAMD"
_BEFORE_IO_RDT = (events.BROADWELL, events.SKYLAKE, events.ICE_LAKE, events.SAPPHIRE_RAPIDS)


class Level(enum.StrEnum):
    """The effect of a finding on the agent."""

    OK = "ok"
    NOTE = "note"  # works in part, or needs care
    MISSING = "missing"  # this interface cannot be used
    OBSERVE = "observe"  # the agent must not write while this holds
    IMPOSSIBLE = "impossible"  # the agent cannot start
    CHOSEN = "chosen"  # the interface that the agent would choose for a role


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """A part of the host, its state, and the remedy; None if not needed or unknown.

    `subject` names the part, also in `iat-nova doctor -f json`.
    """

    subject: str
    level: Level
    state: Message
    remedy: Message | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Roots:
    """The paths of the machine's files; tests use other paths."""

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
    irdt: Path = iordt.TABLE
    memory: Path = Path("/dev/mem")


class Host:
    """A host's files and registers, with one reader of each kind for all interfaces."""

    def __init__(
        self, roots: Roots = Roots(), *, fs: ResctrlFs | None = None, msr: Msr | None = None
    ) -> None:
        self.roots = roots
        self.topology = Topology(roots.cpus)
        self.fs = fs or ResctrlFs(roots.resctrl, roots.proc / "mounts")
        self.msr = msr or Msr(roots.msr, roots.msr_parameters)
        self.memory = PhysicalMemory(roots.memory)
        self.cpu_model = events.cpu_model(roots.proc / "cpuinfo", roots.cpus)
        self.resctrl = Resctrl(
            self.fs, self.topology, coupled=self.cpu_model.known is events.SKYLAKE
        )

    @functools.cached_property
    def sockets(self) -> Sockets:
        """The host's sockets by the firmware's table (DMI), including offline sockets."""
        return Sockets(self.topology, self.roots.dmi)

    def tags(self) -> TagRegisters:
        """Return the registers of I/O RDT's channels. Raises `HardwareError` unless readable."""
        return iordt.tag_registers(self.memory, self.roots.irdt)

    def io_rdt(self) -> iordt.IoRdt:
        """Return the host's I/O RDT. Raises `HardwareError` with the reason if unusable."""
        return iordt.look(self.topology, self.msr, self.memory, self.roots.irdt, self.roots.msr)

    def ddio_register(self) -> Mapping[int, int]:
        """Return IIO_LLC_WAYS by cache domain. Raises `HardwareError` if absent or unreadable."""
        if self.model is None or not self.model.ddio_msr:
            raise HardwareError(message("ddio-register-unknown"))
        caches = self.topology.caches()
        return {cache.id: self.msr.read(cache.cpus[0], IIO_LLC_WAYS) for cache in caches}

    @property
    def lockdown(self) -> str:
        """The kernel's lockdown; empty if it permits writes to registers."""
        setting = files.text_of(self.roots.lockdown).partition("[")[2].partition("]")[0]
        return "" if setting == "none" else setting

    @property
    def kernel_has_resctrl(self) -> bool:
        """Whether the kernel has resctrl for this CPU, mounted or not."""
        return "resctrl" in files.text_of(self.roots.proc / "filesystems").split()

    @property
    def model(self) -> events.Model | None:
        """The CPU's event tables, None for an unknown CPU."""
        return self.cpu_model.known


def findings(host: Host, *, agent: int | None = None) -> list[Finding]:
    """Examine all interfaces; return findings in the order of repair.

    `agent`: PID of a running agent, whose resources do not count as another owner's. Parts that
    only another maker's or later CPUs have, and that are not there, have no finding.
    """

    def pqos(host: Host) -> list[Finding]:
        return _pqos(host, agent)

    found = []
    of_x86 = (_msr, _ddio_register, _io_alloc, _io_rdt, _perf, _cha, _pqos_library)
    x86 = host.cpu_model.architecture == events.X86
    for look in (_cpu, _clusters, _resctrl, *(of_x86 if x86 else ()), pqos):
        try:
            found += look(host)
        except HardwareError as error:
            found.append(refusal(look.__name__.strip("_"), error))
    return found


def owners(host: Host) -> tuple[Message, ...]:
    """Return a message for each other program that allocates cache now.

    The check is cheap enough for every reading of the inventory.
    """
    return reasons([*_resctrl(host), *_pqos(host)], Level.OBSERVE)


def reasons(found: Iterable[Finding], level: Level) -> tuple[Message, ...]:
    """Return one message for each finding of a level."""
    return tuple(
        message("of-subject", subject=one.subject, state=one.state)
        for one in found
        if one.level is level
    )


def refusal(subject: str, error: HardwareError, level: Level = Level.MISSING) -> Finding:
    """Return a finding from an error."""
    return Finding(subject, level, error.state, error.remedy)


def _cpu(host: Host) -> list[Finding]:
    if host.model is None:
        return [refusal("CPU", find(Symptom.EVENTS, host))]
    name = host.cpu_model.name or host.cpu_model.vendor
    return [Finding("CPU", Level.OK, message("cpu-known", name=name, tables=host.model.name))]


def _resctrl(host: Host) -> list[Finding]:
    if (error := cache_allocation(host)) is not None:
        return [refusal("resctrl", error)]
    root = host.fs.root
    again = message("remount-resctrl", path=str(root))
    domains = host.resctrl.domains()
    foreign = host.resctrl.foreign_groups()
    classes = domains[0].classes
    each = tuple(message("domain-ways", domain=one.id, ways=one.ways) for one in domains)
    offer = message("resctrl-offers", domains=each, classes=classes)
    found = [Finding("resctrl", Level.OK, offer)]
    found += _in_no_domain(host, domains)
    if classes < 2:
        remedy = message("remove-a-group", path=str(root))
        found.append(Finding("classes", Level.OBSERVE, message("no-class-left"), remedy))
    if len(host.fs.info().resources) > 1:
        found.append(Finding("cdp", Level.NOTE, message("cdp-mounted"), again))
    bandwidth = host.fs.bandwidth_control()
    unlimited = tuple(str(one.id) for one in domains if bandwidth.control and one.bandwidth is None)
    if unlimited:
        none = message("bandwidth-no-limits", cause=message("mba-of-nodes", domains=unlimited))
        found.append(Finding("memory bandwidth", Level.NOTE, none))
    elif bandwidth.limits is BandwidthLimits.POSSIBLE:
        limits = message("bandwidth-limits", limits=bandwidth.how)
        found.append(Finding("memory bandwidth", Level.OK, limits))
    else:
        level = Level.OK if bandwidth.limits is BandwidthLimits.ABSENT else Level.NOTE
        none = message("bandwidth-no-limits", cause=bandwidth.how)
        steered = bandwidth.limits is BandwidthLimits.STEERED
        found.append(Finding("memory bandwidth", level, none, again if steered else None))
    found += [_foreign(host, name) for name in foreign]
    held = tuple(
        message("domain-mask", domain=one.id, mask=str(one.reserved_ways))
        for one in domains
        if one.reserved_ways
    )
    if held:
        reserved = message("ways-reserved", domains=held)
        found.append(Finding("reserved ways", Level.NOTE, reserved))
    groups = tuple(
        message("group-cpus", group=name, cpus=format_cpus(cpus))
        for name, cpus in host.fs.monitors().items()
        if cpus and not name.startswith(PREFIX)
    )
    if groups:
        monitored = message("groups-monitor", groups=groups)
        found.append(Finding("monitoring groups", Level.NOTE, monitored))
    return found


def without_cat(host: Host, *, flag: bool = False) -> HardwareError | None:
    """Return an error if this host's CPU has no cache allocation, the cause of other errors.

    None if the CPU or the kernel may have cache allocation. A Haswell server has no flag for cache
    allocation: its kernel tries a register, and only a mounted resctrl shows L3. `flag`: only the
    CPU's flag counts.
    """
    of_kernel = files.exists(host.fs.root / "schemata") or host.kernel_has_resctrl
    if "cat_l3" in files.text_of(host.roots.proc / "cpuinfo").split() or (of_kernel and not flag):
        return None
    if of_kernel and host.cpu_model.architecture != events.X86:
        return find(Symptom.EVENTS, host)
    return find(Symptom.L3 if of_kernel else Symptom.RESCTRL, host)


def _in_no_domain(host: Host, domains: Iterable[CacheDomain]) -> list[Finding]:
    lost = host.topology.online().difference(*(one.cpus for one in domains))
    if not lost:
        return []
    state = message("cpus-in-no-domain", cpus=format_cpus(lost))
    path = f"{host.roots.cpus}/cpu{min(lost)}/cache/index*/id"
    remedy = message("compare-cache-ids", path=path)
    return [Finding("CPUs in no cache domain", Level.NOTE, state, remedy)]


def _foreign(host: Host, name: str) -> Finding:
    if name.startswith("qemu-"):
        guest = name.removeprefix("qemu-").partition("-vcpus")[0].partition("-")[2] or "GUEST"
        state = message("group-of-libvirt", group=name)
        remedy = message("remove-cachetune", guest=guest)
    else:
        state = message("group-of-other", group=name)
        remedy = message("remove-group", path=str(host.roots.resctrl / name))
    return Finding("foreign group", Level.OBSERVE, state, remedy)


def _msr(host: Host) -> list[Finding]:
    if host.model is None or host.cpu_model.vendor != _INTEL:
        return [Finding("msr driver", Level.NOTE, message("registers-unknown"))]
    if files.exists(host.roots.msr / f"{min(host.topology.online())}/msr"):
        found = [Finding("msr driver", Level.OK, message("msr-loaded"))]
    else:
        found = [refusal("msr driver", find(Symptom.MSR, host))]
    subjects = ("msr writes", _writes_off(host)), ("lockdown", _locked_down(host))
    return found + [refusal(subject, error) for subject, error in subjects if error]


def _ddio_register(host: Host) -> list[Finding]:
    subject = "DDIO register 0xc8b"
    if host.cpu_model.vendor == _AMD:  # DDIO is Intel's
        return []
    try:
        masks = tuple(
            message("domain-mask", domain=domain, mask=f"{value:#x}")
            for domain, value in host.ddio_register().items()
        )
    except HardwareError as error:
        return [refusal(subject, error)]
    state = message("ddio-masks", domains=masks) if masks else message("no-cache-domain")
    return [Finding(subject, Level.OK, state)]


def _io_alloc(host: Host) -> list[Finding]:
    setting = IoAllocDdio(host.fs, host.resctrl.domains).state()
    if setting == "not supported":
        if host.cpu_model.vendor == _INTEL:  # it is AMD's
            return []
        return [Finding("io_alloc", Level.MISSING, message("io-alloc-absent"))]
    state = message("io-alloc-off" if setting == "disabled" else "io-alloc-on", setting=setting)
    return [Finding("io_alloc", Level.OK, state)]


def _io_rdt(host: Host) -> list[Finding]:
    earlier = host.model in _BEFORE_IO_RDT and not files.exists(host.roots.irdt)
    if host.cpu_model.vendor != _INTEL or earlier:
        return []
    try:
        return [Finding("I/O RDT", Level.OK, host.io_rdt().described())]
    except HardwareError as error:
        return [refusal("I/O RDT", error)]


def _perf(host: Host) -> list[Finding]:
    if host.model is None:  # as the finding on the CPU says
        return []
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is None:
        opens = message("perf-opens", events=host.model.core.name)
        return [Finding("perf", Level.OK, opens)]
    return [refusal("perf", refused)]


def _clusters(host: Host) -> list[Finding]:
    """Return a finding on sub-NUMA clustering: several NUMA nodes in one LLC."""
    several = [cache for cache in host.topology.caches() if len(cache.nodes) > 1]
    if not several:
        return []
    each = tuple(
        message("domain-nodes", domain=one.id, nodes=format_cpus(one.nodes)) for one in several
    )
    most = max(len(one.nodes) for one in several)
    state = message("nodes-in-one-cache", domains=each, nodes=most)
    return [Finding("sub-NUMA clusters", Level.NOTE, state)]


def _cha(host: Host) -> list[Finding]:
    intel = host.cpu_model.vendor == _INTEL
    if intel and (host.model is None or host.model.cha is None):
        return [Finding("CHA PMUs", Level.MISSING, message("cha-events-unknown"))]
    pmus = cha_pmus(host.roots.pmus)
    if pmus:
        cpus = format_cpus(pmus[0].cpumask)
        state = message("cha-counted", slices=len(pmus), cpus=cpus)
        return [Finding("CHA PMUs", Level.OK, state)]
    return [refusal("CHA PMUs", find(Symptom.CHA, host))] if intel else _fabric(host)


def _fabric(host: Host) -> list[Finding]:
    """Return findings on counters of inbound I/O for CPUs that are not from Intel."""
    found = []
    if host.cpu_model.vendor != _AMD:
        found.append(Finding("CHA PMUs", Level.MISSING, message("cha-of-intel-only")))
    if host.model is None:
        return found
    subject = "amd_df PMU"
    if not host.model.fabric:
        return [*found, Finding(subject, Level.MISSING, message("fabric-events-unknown"))]
    pmu = fabric_pmu(host.roots.pmus)
    if pmu is None:
        return [*found, refusal(subject, find(Symptom.FABRIC, host))]
    state = message("fabric-counted", cpus=format_cpus(pmu.cpumask))
    return [*found, Finding(subject, Level.OK, state)]


def _pqos_library(host: Host) -> list[Finding]:
    try:
        name = load()._name
    except HardwareError as error:
        if files.exists(host.fs.root / "schemata"):
            return [Finding("libpqos", Level.NOTE, message("libpqos-not-needed"))]
        return [refusal("libpqos", error)]
    return [Finding("libpqos", Level.OK, message("libpqos-usable", library=name))]


def _pqos(host: Host, agent: int | None = None) -> list[Finding]:
    owner = lock_holder(host.roots.pqos_lock, host.roots.proc)
    if owner in (None, os.getpid(), agent):  # the agent itself may work through libpqos
        return []
    state = message("libpqos-in-use", pid=owner, path=str(host.roots.pqos_lock))
    remedy = message("end-process", pid=owner)
    return [Finding("libpqos's lock", Level.OBSERVE, state, remedy)]


def writes_refused(host: Host) -> HardwareError | None:
    """Return which setting of the kernel forbids writes to registers, None if none does."""
    return _locked_down(host) or _writes_off(host)  # no setting of the driver undoes a lockdown


def _writes_off(host: Host) -> HardwareError | None:
    setting = host.roots.msr_parameters / "allow_writes"
    off = files.text_of(setting, errno.EACCES, errno.EPERM) == "off"
    return find(Symptom.MSR_WRITES, host) if off else None


def _locked_down(host: Host) -> HardwareError | None:
    return find(Symptom.LOCKDOWN, host) if host.lockdown else None


def split_siblings(topology: Topology, owner: Mapping[int, str]) -> list[Finding]:
    """Return cores whose hyper-threads have different owners: classes cannot separate these.

    `owner`: owner's name by CPU. Hyper-threads share the core's own caches, through which one
    owner's lines fill the ways of the other owner's class. One finding per set of owners.
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
            message("cores-shared", owners=owners, cores=tuple(map(format_cpus, cores))),
            message("use-whole-cores"),
        )
        for owners, cores in split.items()
    ]
