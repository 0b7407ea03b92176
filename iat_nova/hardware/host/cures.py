# SPDX-License-Identifier: Apache-2.0
"""Causes and remedies of what a host lacks: a table of symptom, excluding evidence, and cure.

The first cure of a symptom that no evidence on the host excludes is shown, by ``iat-nova doctor``
and in the error of an agent that cannot start.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters.events import ARM, HASWELL, SKYLAKE, X86, CpuModel
from iat_nova.hardware.kernel import files
from iat_nova.model import Message, message

if TYPE_CHECKING:
    from iat_nova.hardware.host.probe import Host


class Symptom(enum.Enum):
    """What a host lacks."""

    EVENTS = enum.auto()  # an event table of the CPU
    RESCTRL = enum.auto()  # resctrl, or its mount
    L3 = enum.auto()  # L3 in a mounted resctrl
    MSR = enum.auto()  # the msr driver's files
    MSR_WRITES = enum.auto()  # the msr driver's permission to write
    LOCKDOWN = enum.auto()  # the kernel's permission to write registers
    CHA = enum.auto()  # PMUs uncore_cha
    FABRIC = enum.auto()  # the PMU amd_df


class Evidence:
    """Facts of a host that tell causes of a symptom apart."""

    def __init__(self, host: Host) -> None:
        roots = host.roots
        self.cpu: CpuModel = host.cpu_model
        self.x86: bool = self.cpu.architecture == X86
        self.arm: bool = self.cpu.architecture == ARM
        words = files.text_of(roots.proc / "cpuinfo").split()
        self.flag: bool = "cat_l3" in words
        self.virtual: bool = "hypervisor" in words
        self.in_kernel: bool = host.kernel_has_resctrl
        self.root: str = str(host.fs.root)
        mounts = (line.split() for line in files.text_of(roots.proc / "mounts").splitlines())
        found = (mount[1] for mount in mounts if mount[2:3] == ["resctrl"])
        # Linux mounts resctrl at one place.
        self.elsewhere: str | None = next((path for path in found if path != self.root), None)
        self.command_line: list[str] = files.text_of(roots.proc / "cmdline").split()
        rdt = ",".join(word[4:] for word in self.command_line if word.startswith("rdt=")).split(",")
        # This wins over !l3cat, and over what Linux disables on Skylake.
        self.forced: bool = "l3cat" in rdt
        # Linux tests a register of Haswell, which has no flag, unless l3cat is off.
        can = self.flag or self.cpu.model == HASWELL
        self.off: bool = "!l3cat" in rdt and not self.forced and can
        self.lockdown: bool = any(word.startswith("lockdown=") for word in self.command_line)
        self.locked: str = host.lockdown
        self.allow_writes: str = str(roots.msr_parameters / "allow_writes")
        # Beside the firmware's other tables.
        self.mpam: bool = files.exists(roots.irdt.parent / "MPAM")
        modules = {
            line.partition(" ")[0] for line in files.text_of(roots.proc / "modules").splitlines()
        }
        self.msr: bool = "msr" in modules or files.exists(roots.msr_parameters)
        pmus = files.names(roots.pmus)
        self.unnamed_pmus: bool = any(one.startswith("uncore_type_") for one in pmus)
        self.uncore: bool = "intel_uncore" in modules or any(
            one.startswith("uncore_") for one in pmus
        )
        self.amd_uncore: bool = "amd_uncore" in modules or "amd_l3" in pmus
        self.linux: str = host.model.linux if host.model is not None else ""


Said: TypeAlias = "Message | Callable[[Evidence], Message]"


@dataclasses.dataclass(frozen=True, slots=True)
class Cure:
    """A cause of a symptom, and its remedy, None if there is none.

    `unless`: evidence with which this is not the cause, or the remedy cannot help.
    """

    state: Said
    remedy: Said | None
    unless: Callable[[Evidence], object] = lambda it: False


def find(symptom: Symptom, host: Host) -> HardwareError:
    """Return the first cause and remedy of a symptom that the host's evidence does not exclude."""
    evidence = Evidence(host)
    cure = next(cure for cure in CURES[symptom] if not cure.unless(evidence))
    state, remedy = (
        said(evidence) if callable(said) else said for said in (cure.state, cure.remedy)
    )
    assert state is not None
    return HardwareError(state, remedy)


def cache_allocation(host: Host) -> HardwareError | None:
    """Return why resctrl divides no LLC, with the remedy; None if it does."""
    root = host.fs.root
    if not files.exists(root / "schemata"):
        return find(Symptom.RESCTRL, host)
    divided = any(files.exists(root / "info" / name) for name in ("L3", "L3CODE"))
    return None if divided else find(Symptom.L3, host)


def _of_cpu(code: str) -> Callable[[Evidence], Message]:
    return lambda it: message(
        code, name=it.cpu.name or "unknown", architecture=it.cpu.architecture or "unknown"
    )


def _locked(it: Evidence) -> Message:
    return message("kernel-locked-down", setting=it.locked)


_COMPUTE_HOST = message("use-compute-host")
_ABSENT, _NEWER, _REFUSED = map(message, ("cha-absent", "use-newer-kernel", "msr-writes-refused"))
_WITHOUT_CAT = (
    Cure(_of_cpu("no-cat-architecture"), message("use-x86"), lambda it: it.x86 or it.arm),
    Cure(message("no-cat-virtual-machine"), _COMPUTE_HOST, lambda it: it.flag or not it.virtual),
    Cure(message("no-cat"), message("use-other-cpu"), lambda it: it.flag),
)
"""CPUs on which no kernel divides a cache."""
_SWITCHED_OFF = Cure(
    message("l3-switched-off"),
    message("boot-instead", parameter="rdt=l3cat", given="rdt=!l3cat"),
    lambda it: not it.off,
)

CURES: Mapping[Symptom, tuple[Cure, ...]] = {
    Symptom.EVENTS: (
        Cure(_of_cpu("cpu-of-architecture"), message("use-x86"), lambda it: it.x86),
        Cure(
            lambda it: message(
                "cpu-unknown",
                name=it.cpu.name or it.cpu.vendor or "unknown",
                vendor=it.cpu.vendor,
                family=it.cpu.family,
                model=it.cpu.model,
            ),
            message("report-cpu"),
        ),
    ),
    Symptom.RESCTRL: (
        Cure(
            lambda it: message("resctrl-elsewhere", path=it.elsewhere),
            lambda it: message("move-resctrl", path=it.root, elsewhere=it.elsewhere),
            lambda it: it.elsewhere is None,
        ),
        Cure(
            message("resctrl-not-mounted"),
            lambda it: message("mount-resctrl", path=it.root),
            lambda it: not it.in_kernel,
        ),
        Cure(_of_cpu("no-mpam"), message("enable-mpam"), lambda it: not it.arm or it.mpam),
        Cure(_of_cpu("no-mpam"), message("use-mpam-kernel"), lambda it: not it.arm),
        _SWITCHED_OFF,
        *_WITHOUT_CAT,
        Cure(message("resctrl-not-built"), message("use-resctrl-kernel"), lambda it: not it.forced),
        Cure(message("resctrl-not-in-kernel"), message("build-or-boot-with-resctrl")),
    ),
    Symptom.L3: (
        Cure(_of_cpu("mpam-without-l3"), None, lambda it: not it.arm),
        _SWITCHED_OFF,
        *_WITHOUT_CAT,
        Cure(
            message("l3-off"),
            message("boot-with", parameter="rdt=l3cat"),
            lambda it: it.forced or (it.command_line and it.cpu.known is not SKYLAKE),
        ),
        Cure(message("l3-refused"), message("see-resctrl-log")),
    ),
    Symptom.MSR: (
        Cure(message("msr-hidden"), _COMPUTE_HOST, lambda it: not it.msr),
        Cure(message("msr-not-loaded"), message("load-module", module="msr")),
    ),
    Symptom.MSR_WRITES: (
        Cure(_REFUSED, None, lambda it: not it.locked),
        Cure(_REFUSED, lambda it: message("allow-msr-writes", path=it.allow_writes)),
    ),
    Symptom.LOCKDOWN: (
        Cure(_locked, message("secure-boot-off"), lambda it: it.lockdown or not it.command_line),
        Cure(_locked, message("unlock-kernel")),
    ),
    Symptom.CHA: (
        Cure(_ABSENT, _COMPUTE_HOST, lambda it: not it.virtual),
        Cure(
            message("cha-unnamed"),
            lambda it: message("use-newer-linux", release=it.linux),
            lambda it: not (it.unnamed_pmus and it.linux),
        ),
        Cure(_ABSENT, _NEWER, lambda it: not it.uncore),
        Cure(_ABSENT, message("load-module", module="intel_uncore")),
    ),
    Symptom.FABRIC: (
        Cure(message("fabric-absent"), _COMPUTE_HOST, lambda it: not it.virtual),
        Cure(message("fabric-absent"), _NEWER, lambda it: not it.amd_uncore),
        Cure(message("fabric-absent"), message("load-module", module="amd_uncore")),
    ),
}
"""The causes of each symptom, those with the most evidence first."""
