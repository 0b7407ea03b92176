# SPDX-License-Identifier: Apache-2.0
"""The events to count on each CPU model.

Sources: Intel SDM volume 3, "Architectural performance monitoring" (core events); Intel's
uncore reference manuals and perfmon tables of each generation (CHA events); for AMD
the folders amdzen2 to amdzen5 of Linux' tools/perf/pmu-events/arch/x86, which follow AMD's
"Processor Programming Reference".
An unknown model gets no events: a wrong event would silently count something else.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from iat_nova.common.kernel_files import text_of
from iat_nova.hardware.counters.perf_event import PERF_TYPE_RAW, PerfEvent


@dataclasses.dataclass(frozen=True, slots=True)
class CoreEvents:
    """Four events of a CPU, in the order of `api.CoreCounts`."""

    name: str
    events: tuple[PerfEvent, PerfEvent, PerfEvent, PerfEvent]


@dataclasses.dataclass(frozen=True, slots=True)
class ChaEvents:
    """PCIe writes that hit (write update) and missed (write allocate) in the LLC.

    `hits` and `misses` list events of a CHA PMU: event, umask and further terms, by the names in
    the sysfs ``format`` folder. The counts of all events in a list are added up.
    """

    hits: tuple[Mapping[str, int], ...]
    misses: tuple[Mapping[str, int], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Model:
    """A CPU generation: name and events.

    `fabric` lists AMD's events of the data fabric: lines that devices wrote, one event per IO root
    complex of a socket. No event of AMD distinguishes hits from misses. `linux`: releases with the
    generation's CHA PMUs; an older kernel may show them as ``uncore_type_*``, without names.
    """

    name: str
    core: CoreEvents
    cha: ChaEvents | None = None  # None: DDIO's hits and misses cannot be counted
    ddio_msr: bool = True  # IIO_LLC_WAYS 0xC8B exists
    fabric: tuple[Mapping[str, int], ...] = ()
    linux: str = ""


INTEL_ARCHITECTURAL = CoreEvents(
    "intel-architectural",
    (
        PerfEvent(PERF_TYPE_RAW, 0x00C0),  # INST_RETIRED.ANY_P; the kernel uses fixed counter 0
        PerfEvent(PERF_TYPE_RAW, 0x003C),  # CPU_CLK_UNHALTED.THREAD_P; fixed counter 1
        PerfEvent(PERF_TYPE_RAW, 0x4F2E),  # LONGEST_LAT_CACHE.REFERENCE
        PerfEvent(PERF_TYPE_RAW, 0x412E),  # LONGEST_LAT_CACHE.MISS
    ),
)

AMD_ZEN = CoreEvents(
    "amd-zen",
    (
        PerfEvent(PERF_TYPE_RAW, 0x00C0),  # ex_ret_instr
        PerfEvent(PERF_TYPE_RAW, 0x0076),  # ls_not_halted_cyc
        PerfEvent(PERF_TYPE_RAW, 0x0964),  # l2_cache_req_stat.ic_dc_miss_in_l2: goes to the L3
        # ls_any_fills_from_sys.dram_io_all, 0x44 umask 0x48: fills from memory or devices of any
        # node. Fills from another L3 of the socket (umask 0x14) are not misses of the machine.
        PerfEvent(PERF_TYPE_RAW, 0x4844),
    ),
)

AMD_ZEN_2 = CoreEvents(
    "amd-zen2",
    (
        *AMD_ZEN.events[:3],
        # ls_refills_from_sys.ls_mabresp_lcl_dram and _rmt_dram, 0x43 umask 0x48: fills on which a
        # load or store waits. Zen 2 has no event of all fills, so prefetched lines are left out.
        PerfEvent(PERF_TYPE_RAW, 0x4843),
    ),
)

_TOR_INSERTS = 0x35


def _skx(umask: int) -> Mapping[str, int]:
    # CHA filter 1 = 0x10049033: opcodes ItoM (0x248) and RFO (0x200) of local and remote
    # requests, near memory or not. The format names are from the kernel's skx CHA PMU.
    return {
        "event": _TOR_INSERTS,
        "umask": umask,
        "filter_rem": 1,
        "filter_loc": 1,
        "filter_nm": 1,
        "filter_not_nm": 1,
        "filter_opc0": 0x248,
        "filter_opc1": 0x200,
    }


def _icx(opcode: int) -> Mapping[str, int]:
    # The PMU's umask is the event's umask below the extended umask, as perfmon writes it.
    return {"event": _TOR_INSERTS, "umask": opcode << 8 | 0x04}


_SKX_CHA = ChaEvents(hits=(_skx(0x14),), misses=(_skx(0x24),))
_ICX_CHA = ChaEvents(
    hits=(_icx(0xCC43FD), _icx(0xCD43FD)),  # ItoM, ItoMCacheNear
    misses=(_icx(0xCC43FE), _icx(0xCD43FE)),
)
# The C-Boxes of these models have other events; events of devices' hits and misses are unknown.
# No source confirms register 0xC8B on these models.
BROADWELL = Model("Haswell-EP, Broadwell-EP, Broadwell-DE", INTEL_ARCHITECTURAL, ddio_msr=False)
SKYLAKE = Model("Skylake-SP, Cascade Lake", INTEL_ARCHITECTURAL, _SKX_CHA)
ICE_LAKE = Model("Ice Lake-SP", INTEL_ARCHITECTURAL, _ICX_CHA)
SAPPHIRE_RAPIDS = Model(
    "Sapphire Rapids, Emerald Rapids",
    INTEL_ARCHITECTURAL,
    _ICX_CHA,
    linux="5.15 (Emerald Rapids: 6.3)",
)
GRANITE_RAPIDS = Model("Granite Rapids", INTEL_ARCHITECTURAL, _ICX_CHA, linux="6.8")
# Linux drives their CHAs as Granite Rapids' (gnr_uncore_init in arch/x86/events/intel/uncore.c).
SIERRA_FOREST = dataclasses.replace(
    GRANITE_RAPIDS,
    name="Sierra Forest, Grand Ridge, Clearwater Forest",
    linux="6.8 (Clearwater Forest: 6.14)",
)


def _upstream_writes(roots: int) -> tuple[Mapping[str, int], ...]:
    # 64-byte beats from IO root complex n of the local socket: event 0x81f + n * 0x40 of amd_df.
    return tuple({"event": 0x81F + root * 0x40, "umask": 0x7FF} for root in range(roots))


# local_socket_upstream_write_beats_iom0 to 3 of amdzen4/data-fabric.json, and
# local_socket_upstream_write_data_beats_io_0 to 7 of amdzen5/data-fabric.json.
# The tables of Zen 2 and Zen 3 have no such events.
ZEN_2 = Model("EPYC, Zen 2", AMD_ZEN_2, ddio_msr=False)
ZEN_3 = Model("EPYC, Zen 3", AMD_ZEN, ddio_msr=False)
ZEN_4 = Model("EPYC, Zen 4", AMD_ZEN, ddio_msr=False, fabric=_upstream_writes(4))
ZEN_5 = Model("EPYC, Zen 5", AMD_ZEN, ddio_msr=False, fabric=_upstream_writes(8))

# Servers of families 0x17, 0x19 and 0x1a: the Zen generations in arch/x86/kernel/cpu/amd.c; Rome
# 0x30, Milan 0x00, Genoa 0x10, Siena and Bergamo 0xa0, Turin 0x00 and 0x10.
_AMD_MODELS: Mapping[tuple[int, int], Model] = {
    (0x17, 0x3): ZEN_2,
    (0x19, 0x0): ZEN_3,
    (0x19, 0x1): ZEN_4,
    (0x19, 0xA): ZEN_4,
    (0x1A, 0x0): ZEN_5,
    (0x1A, 0x1): ZEN_5,
}
"""By family, and model without its lowest four bits."""

HASWELL = 0x3F
# Family 6 models, arch/x86/include/asm/intel-family.h.
_INTEL_MODELS = {
    HASWELL: BROADWELL,  # Haswell-EP and -EX: Xeon E5 and E7 v3
    0x4F: BROADWELL,  # Xeon E5 and E7 v4
    0x56: BROADWELL,  # Broadwell-DE: Xeon D-1500
    0x55: SKYLAKE,
    0x6A: ICE_LAKE,
    0x6C: ICE_LAKE,  # Ice Lake-D
    0x8F: SAPPHIRE_RAPIDS,
    0xCF: SAPPHIRE_RAPIDS,  # Emerald Rapids
    0xAD: GRANITE_RAPIDS,
    0xAE: GRANITE_RAPIDS,  # Granite Rapids-D
    0xAF: SIERRA_FOREST,
    0xB6: SIERRA_FOREST,  # Grand Ridge
    0xDD: SIERRA_FOREST,  # Clearwater Forest
}

X86, ARM = "x86", "Arm"
_ARCHITECTURES = (
    ("cpu family", X86),
    ("CPU implementer", ARM),
    ("hart", "RISC-V"),
    ("bogomips per cpu", "s390"),
    ("timebase", "Power"),
    ("CPU Family", "LoongArch"),
    ("cpu model", "MIPS"),
)
"""By a field that only this architecture has in /proc/cpuinfo."""
_NAMES = ("model name", "uarch", "isa", "cpu", "Model Name", "cpu model")
"""Fields of /proc/cpuinfo with the CPU's name, the first that is there."""

_MAKERS = ("Arm", "Cavium", "Fujitsu", "HiSilicon", "NVIDIA", "APM", "Qualcomm", "Microsoft")
# Implementers of Arm's MIDR_EL1, mostly letters: arch/arm64/include/asm/cputype.h.
_IMPLEMENTERS = {**dict(zip(b"ACFHNPQm", _MAKERS, strict=True)), 0xC0: "Ampere"}


@dataclasses.dataclass(frozen=True, slots=True)
class CpuModel:
    """Vendor, family, model and name of the CPU, and its architecture; "" if unknown."""

    vendor: str
    family: int
    model: int
    name: str = ""
    architecture: str = X86

    @property
    def known(self) -> Model | None:
        """The generation's events; None for a CPU without a table here."""
        if self.vendor == "GenuineIntel" and self.family == 6:
            return _INTEL_MODELS.get(self.model)
        if self.vendor == "AuthenticAMD":
            return _AMD_MODELS.get((self.family, self.model >> 4))
        return None


def cpu_fields(cpuinfo: Path) -> dict[str, list[str]]:
    """Return the values of each field in ``/proc/cpuinfo``, by CPU."""
    fields: dict[str, list[str]] = {}
    for line in text_of(cpuinfo).splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), []).append(value.strip())
    return fields


def cpu_model(
    cpuinfo: Path = Path("/proc/cpuinfo"), cpus: Path = Path("/sys/devices/system/cpu")
) -> CpuModel:
    """Return the CPU model of this host; unknown fields are empty or zero."""
    every = cpu_fields(cpuinfo)
    fields = {name: values[0] for name, values in every.items()}
    architecture = next((one for field, one in _ARCHITECTURES if field in fields), "")
    s390 = filter(re.compile(r"processor\s[0-9]+").fullmatch, fields)  # of CPUs that are online
    midr = text_of(cpus / "cpu0/regs/identification/midr_el1")
    if architecture == ARM or (midr and not architecture):
        return CpuModel("", 0, 0, _arm_name(every, midr), ARM)
    return CpuModel(
        vendor=fields.get("vendor_id", ""),
        family=_number(fields, "cpu family"),
        model=_number(fields, "model"),
        name=next((fields[name] for name in (*_NAMES, *s390) if fields.get(name)), ""),
        architecture=architecture,
    )


def _arm_name(fields: Mapping[str, Sequence[str]], midr: str) -> str:
    """Return implementer and parts by ``/proc/cpuinfo``, else by MIDR_EL1 of the first CPU."""
    implementer, parts = (fields.get(f"CPU {name}", ()) for name in ("implementer", "part"))
    try:
        register = int(midr, 16) if midr else 0
        number = int(implementer[0], 16) if implementer else register >> 24 & 0xFF
    except ValueError:
        return f"implementer {implementer or midr}"
    known = _IMPLEMENTERS.get(number, "unknown")
    several = ", ".join(dict.fromkeys(parts)) or f"{register >> 4 & 0xFFF:#x}"
    return f"implementer {number:#x} ({known}), part {several}"


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "")  # on other architectures a name, or absent
    return int(text) if text.isascii() and text.isdecimal() else 0
