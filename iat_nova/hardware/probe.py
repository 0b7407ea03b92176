# SPDX-License-Identifier: Apache-2.0
"""What this host offers, as data: findings with the command that mends what is missing.

Looking changes nothing: no group is made, no register written; perf events are opened and closed.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from iat_nova.cpulist import format_cpus
from iat_nova.hardware import events, perf_event
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.hardware.cha import cha_pmus
from iat_nova.hardware.ddio import IoAllocDdio
from iat_nova.hardware.msr import IIO_LLC_WAYS, Msr
from iat_nova.hardware.resctrl import Resctrl
from iat_nova.hardware.resctrl_fs import ResctrlFs
from iat_nova.hardware.topology import Topology


class Level(enum.StrEnum):
    """How a finding bears on the agent's work."""

    OK = "ok"
    NOTE = "note"  # works, in part or with care
    MISSING = "missing"  # this interface cannot be used
    OBSERVE = "observe"  # the agent must not write while this holds


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: what it is, how it stands, and what to type to mend it."""

    subject: str
    level: Level
    state: str
    remedy: str | None = None


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
    pqos_lock: Path = Path("/var/lock/libpqos")
    pci: Path = Path("/sys/bus/pci/devices")


class Host:
    """The machine behind the roots: one object of each kind, shared by probe and back ends."""

    def __init__(
        self, roots: Roots = Roots(), *, fs: ResctrlFs | None = None, msr: Msr | None = None
    ) -> None:
        self.roots = roots
        self.topology = Topology(roots.cpus)
        self.fs = fs or ResctrlFs(roots.resctrl)
        self.msr = msr or Msr(roots.msr, roots.msr_parameters)
        self.processor = events.processor(roots.proc / "cpuinfo")
        self.resctrl = Resctrl(
            self.fs, self.topology, coupled=self.processor.known is events.SKYLAKE
        )

    @property
    def model(self) -> events.Model | None:
        """The processor's event tables, None for one we do not know."""
        return self.processor.known


def findings(host: Host) -> tuple[Finding, ...]:
    """Look at everything, in the order in which a person would mend it."""
    return (
        _processor(host),
        *_resctrl(host),
        *_msr(host),
        _ddio_register(host),
        _io_alloc(host),
        _perf(host),
        _cha(host),
        *_pqos(host),
    )


def owners(host: Host, *, cat: str = "resctrl") -> tuple[str, ...]:
    """Return who else allocates cache now, one sentence each; cheap enough for every reconcile.

    `cat` is the interface we allocate through: with libpqos the groups it makes are ours.
    """
    found = [*_resctrl(host), *_pqos(host)]
    if cat == "pqos-os":
        found = [
            one for one in found if one.subject != "classes" and not one.state.startswith("COS")
        ]
    return observe_reasons(found)


def observe_reasons(found: Iterable[Finding]) -> tuple[str, ...]:
    """Return why the agent must not write now; empty when it may."""
    return tuple(f"{one.subject}: {one.state}" for one in found if one.level is Level.OBSERVE)


def _processor(host: Host) -> Finding:
    name = host.processor.name or host.processor.vendor or "unknown"
    if host.model is not None:
        return Finding("processor", Level.OK, f"{name} ({host.model.name})")
    which = f"{host.processor.vendor} family {host.processor.family} model {host.processor.model}"
    return Finding(
        "processor",
        Level.NOTE,
        f"{name}: no event table for {which:s}; no counters, hence observing only",
        "report the processor to the project with its perfmon tables",
    )


def _resctrl(host: Host) -> list[Finding]:
    root = host.roots.resctrl
    if not (root / "schemata").exists():
        if "resctrl" in _text(host.roots.proc / "filesystems").split():
            remedy = f"mount -t resctrl resctrl {root}"
            return [Finding("resctrl", Level.MISSING, "not mounted", remedy)]
        state = "this kernel or processor has none"
        return [Finding("resctrl", Level.MISSING, state, "boot with rdt=l3cat where CAT is off")]
    try:
        domains = host.resctrl.domains()
        foreign = host.resctrl.foreign_groups()
    except HardwareError as error:
        return [Finding("resctrl", Level.MISSING, str(error))]
    each = ", ".join(f"domain {d.id}: {d.ways} ways" for d in domains)
    found = [Finding("resctrl", Level.OK, f"{each}; {domains[0].classes} classes for us")]
    if domains[0].classes < 2:
        state = "no class of service is left for us"
        found.append(Finding("classes", Level.OBSERVE, state, f"rmdir {root}/GROUP, one of theirs"))
    found += [_foreign(host, name) for name in foreign]
    held = {d.id: d.reserved_ways for d in domains if d.reserved_ways}
    if held:
        each = ", ".join(f"domain {number}: {mask}" for number, mask in held.items())
        state = f"exclusive or pseudo-locked, never touched: {each}"
        found.append(Finding("reserved ways", Level.NOTE, state))
    return found


def _foreign(host: Host, name: str) -> Finding:
    path = host.roots.resctrl / name
    if name.startswith("qemu-"):
        remedy = "remove <cachetune> from the guest (virsh edit) and restart it"
        return Finding("foreign group", Level.OBSERVE, f"{name}: libvirt allocates cache", remedy)
    state = f"{name}: somebody else allocates cache"
    return Finding("foreign group", Level.OBSERVE, state, f"rmdir {path}, if nobody needs it")


def _msr(host: Host) -> list[Finding]:
    if not (host.roots.msr / "0/msr").exists():
        return [Finding("msr driver", Level.MISSING, "not loaded", "modprobe msr")]
    found = [Finding("msr driver", Level.OK, "loaded")]
    writes = host.roots.msr_parameters / "allow_writes"
    if _text(writes) == "off":
        remedy = f"echo on > {writes}, or boot with msr.allow_writes=on"
        found.append(Finding("msr writes", Level.MISSING, "switched off", remedy))
    locked = _text(host.roots.lockdown)
    if locked and "[none]" not in locked:
        remedy = "boot without lockdown= (and without secure boot where it implies it)"
        found.append(Finding("lockdown", Level.MISSING, f"{locked}: no register writes", remedy))
    return found


def _ddio_register(host: Host) -> Finding:
    subject = "DDIO register 0xc8b"
    if host.model is None or not host.model.ddio_msr:
        return Finding(subject, Level.MISSING, "not known on this processor")
    try:
        caches = host.topology.caches()
        masks = {cache.id: host.msr.read(cache.cpus[0], IIO_LLC_WAYS) for cache in caches}
    except HardwareError as error:
        return Finding(subject, Level.MISSING, str(error))
    each = ", ".join(f"domain {number}: {mask:#x}" for number, mask in masks.items())
    return Finding(subject, Level.OK, each or "no cache domain")


def _io_alloc(host: Host) -> Finding:
    state = IoAllocDdio(host.fs, host.resctrl.domains).state()
    level = Level.MISSING if state == "not supported" else Level.OK
    return Finding("io_alloc", level, state)


def _perf(host: Host) -> Finding:
    if host.model is None:
        return Finding("perf", Level.MISSING, "no event table for this processor")
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is None:
        return Finding("perf", Level.OK, f"{host.model.core.name} events open")
    paranoid = _text(host.roots.proc / "sys/kernel/perf_event_paranoid")
    state = f"{refused} (kernel.perf_event_paranoid = {paranoid or 'unknown'})"
    remedy = "sysctl kernel.perf_event_paranoid=0, or give the agent CAP_PERFMON"
    return Finding("perf", Level.MISSING, state, remedy)


def _cha(host: Host) -> Finding:
    try:
        pmus = cha_pmus(host.roots.pmus)
    except HardwareError as error:
        return Finding("CHA PMUs", Level.MISSING, str(error))
    if pmus:
        cpus = format_cpus(pmus[0].cpumask)
        return Finding("CHA PMUs", Level.OK, f"{len(pmus)} slices, counted on processors {cpus}")
    state = "none: DDIO's hits and misses cannot be counted through the kernel"
    return Finding("CHA PMUs", Level.MISSING, state, "modprobe intel_uncore")


def _pqos(host: Host) -> list[Finding]:
    owner = lock_holder(host.roots.pqos_lock, host.roots.proc)
    if owner in (None, os.getpid()):  # the agent itself may work through libpqos
        return []
    state = f"process {owner} holds {host.roots.pqos_lock}: it allocates cache, or is about to"
    return [Finding("libpqos", Level.OBSERVE, state, f"end process {owner} (ps -p {owner})")]


def lock_holder(path: Path, proc: Path = Path("/proc")) -> int | None:
    """Return the process that holds a lock on a file, None when nobody does.

    Read in ``/proc/locks`` by inode: asking for the lock could make its owner's next try fail.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in _text(proc / "locks").splitlines():
        fields = line.split()
        if device in fields and "->" not in fields:
            return int(fields[fields.index(device) - 1])
    return None


def split_siblings(topology: Topology, classes: Sequence[ClassMask]) -> tuple[Finding, ...]:
    """Tell which hyper-threads of one core lie in different classes: they share more than LLC."""
    owner = {cpu: item.name for item in classes for cpu in item.cpus}
    cores = {frozenset(topology.siblings(cpu)) for cpu in owner}
    return tuple(
        Finding(
            "hyper-threads",
            Level.NOTE,
            f"processors {format_cpus(core)} of one core are in classes "
            + ", ".join(sorted({owner.get(cpu, "default") for cpu in core})),
            "pin guests to whole cores (hw:cpu_thread_policy=require or isolate)",
        )
        for core in sorted(cores, key=min)
        if len({owner.get(cpu) for cpu in core}) > 1
    )


def as_rows(found: Iterable[Finding]) -> list[Mapping[str, str | None]]:
    """Return findings as plain rows for a table or JSON."""
    return [
        {
            "subject": one.subject,
            "level": one.level.value,
            "state": one.state,
            "remedy": one.remedy,
        }
        for one in found
    ]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
