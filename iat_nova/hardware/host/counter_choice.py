# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's counters: perf events or registers."""

from __future__ import annotations

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import Counters, HardwareError
from iat_nova.hardware.counters import perf_event
from iat_nova.hardware.counters.cha import ChaPerf, cha_pmus
from iat_nova.hardware.counters.cha_msr import ChaMsr
from iat_nova.hardware.counters.events import Model
from iat_nova.hardware.counters.fabric import FabricPerf, fabric_pmu
from iat_nova.hardware.counters.msr_counters import MsrCounters
from iat_nova.hardware.counters.perf import DomainReader, PerfCounters
from iat_nova.hardware.host.machine import ASKED, ChosenInterface
from iat_nova.hardware.host.probe import Host
from iat_nova.model import Message, message


def ddio_counters(
    host: Host, wanted: str, slices: int | None
) -> tuple[DomainReader | None, ChosenInterface]:
    """Choose the reader of DDIO's hits and misses, None if the host has no such counters."""
    reader, chosen, why = _ddio_reader(host, wanted, slices)
    return reader, ChosenInterface("ddio counters", chosen, why)


def _ddio_reader(
    host: Host, wanted: str, slices: int | None
) -> tuple[DomainReader | None, str, Message]:
    """Return the reader, the name of its interface, and the reason."""
    model, pmus = host.model, host.roots.pmus
    if model is None:
        return None, "none", message("cpu-without-events")
    try:
        if model.cha is None:
            return _fabric_reader(host, model)
        count = len(cha_pmus(pmus))
    except HardwareError as error:
        return None, "none", error.message
    if slices is not None:  # at least one per cluster
        slices = max(slices, *(len(cache.nodes) for cache in host.topology.caches()))
    if wanted == "msr":
        return _register_reader(host, model, count, slices)
    if not count:
        return None, "none", message("cha-pmus-absent")
    reader = ChaPerf(
        model.cha,
        lambda: {cpu: one.id for one in host.topology.caches() for cpu in one.cpus},
        slices=slices,
        find=lambda: cha_pmus(pmus),
    )
    return reader, "perf", message("cha-pmus-counted", pmus=count)


def _register_reader(
    host: Host, model: Model, slices: int, counted: int | None
) -> tuple[DomainReader | None, str, Message]:
    if model.cha_registers is None:
        return None, "none", message("cha-registers-unknown", cpu=model.name)
    if not slices:
        return None, "none", message("slices-unknown")
    return cha_registers(host, model, slices, counted), "msr", ASKED


def _fabric_reader(host: Host, model: Model) -> tuple[DomainReader | None, str, Message]:
    """Return counters of lines that devices write, for CPUs that do not count hits and misses."""
    if not model.fabric:
        return None, "none", message("fabric-event-unknown")
    if fabric_pmu(host.roots.pmus) is None:
        return None, "none", message("fabric-pmu-absent")
    reader = FabricPerf(
        model.fabric, host.topology.caches, find=lambda: fabric_pmu(host.roots.pmus)
    )
    return reader, "perf", message("fabric-chosen")


def cha_registers(host: Host, model: Model, slices: int, counted: int | None) -> ChaMsr:
    """Return the reader of LLC slices through registers, of which `counted` per package count."""
    assert model.cha is not None
    assert model.cha_registers is not None
    return ChaMsr(
        host.msr,
        model.cha_registers,
        model.cha,
        lambda: {cache.id: cache.cpus[0] for cache in host.topology.caches()},
        slices=slices,
        counted=counted,
    )


def counters(
    host: Host, clock: Clock, wanted: str, reader: DomainReader | None
) -> tuple[Counters, ChosenInterface]:
    """Choose the counters of CPUs. Raises `HardwareError` if none can be used."""
    if host.model is None:
        raise HardwareError(
            message("counters-without-events", wanted=wanted, cpu=host.cpu_model.name),
            message("report-cpu"),
        )
    if wanted == "msr":
        if not host.model.core_registers:
            raise HardwareError(
                message("counters-by-kernel-only", cpu=host.model.name),
                message("set-option", option="counters_interface", value="perf"),
            )
        registers = MsrCounters(host.msr, host.model.core, host.topology, clock, reader)
        return registers, ChosenInterface("counters", "msr", ASKED)
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is not None:
        remedy = refused.remedy
        if host.model.core_registers:
            other = message("or-counters-by-msr")
            remedy = other if remedy is None else message("several", causes=(remedy, other))
        state = message("counters-refused", wanted=wanted, reason=refused.state)
        raise HardwareError(state, remedy)
    perf = PerfCounters(host.model.core, clock, domains=reader)
    return perf, ChosenInterface("counters", "perf", message("perf-group-each-cpu"))
