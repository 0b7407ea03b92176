# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's counters: perf events of the hardware, or of software for measurements."""

from __future__ import annotations

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import Counters, HardwareError
from iat_nova.hardware.counters import perf_event
from iat_nova.hardware.counters.cha import ChaPerf, cha_pmus
from iat_nova.hardware.counters.events import SOFTWARE, Model
from iat_nova.hardware.counters.fabric import FabricPerf, fabric_pmu
from iat_nova.hardware.counters.perf import DomainReader, PerfCounters
from iat_nova.hardware.host.machine import ASKED, ChosenInterface
from iat_nova.hardware.host.probe import Host
from iat_nova.model import message


def ddio_counters(
    host: Host, slices: int | None, *, software: bool
) -> tuple[DomainReader | None, ChosenInterface]:
    """Choose the reader of DDIO's hits and misses, None if the host has no such counters."""
    role = "ddio counters"
    model = host.model
    if software or model is None:
        return None, ChosenInterface(role, "none", message("cpu-without-events"))
    try:
        if model.cha is None:
            return _fabric_counters(host, model)
        pmus = cha_pmus(host.roots.pmus)
    except HardwareError as error:
        return None, ChosenInterface(role, "none", error.message)
    if not pmus:
        return None, ChosenInterface(role, "none", message("cha-pmus-absent"))
    reader = ChaPerf(
        model.cha,
        lambda: {cpu: one.id for one in host.topology.caches() for cpu in one.cpus},
        slices=_slices(host, slices),
        find=lambda: cha_pmus(host.roots.pmus),
    )
    return reader, ChosenInterface(role, "perf", message("cha-pmus-counted", pmus=len(pmus)))


def _slices(host: Host, wanted: int | None) -> int | None:
    """Return the number of slices to count per package, at least one per cluster; None: all."""
    if wanted is None:
        return None
    clusters = (len(cache.nodes) for cache in host.topology.caches())
    return max(wanted, *clusters)


def _fabric_counters(host: Host, model: Model) -> tuple[DomainReader | None, ChosenInterface]:
    """Return counters of lines that devices write, for CPUs that do not count hits and misses."""
    role = "ddio counters"
    if not model.fabric:
        return None, ChosenInterface(role, "none", message("fabric-event-unknown"))
    if fabric_pmu(host.roots.pmus) is None:
        return None, ChosenInterface(role, "none", message("fabric-pmu-absent"))
    reader = FabricPerf(
        model.fabric, host.topology.caches, find=lambda: fabric_pmu(host.roots.pmus)
    )
    return reader, ChosenInterface(role, "perf", message("fabric-chosen"))


def counters(
    host: Host, clock: Clock, reader: DomainReader | None, *, software: bool
) -> tuple[Counters, ChosenInterface]:
    """Choose the counters of CPUs. Raises `HardwareError` if none can be used."""
    if software:
        return PerfCounters(SOFTWARE, clock), ChosenInterface("counters", "software", ASKED)
    if host.model is None:
        raise HardwareError(
            message("counters-without-events", cpu=host.cpu_model.name),
            message("report-cpu"),
        )
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is not None:
        raise HardwareError(message("counters-refused", reason=refused.state), refused.remedy)
    perf = PerfCounters(host.model.core, clock, domains=reader)
    return perf, ChosenInterface("counters", "perf", message("perf-group-each-cpu"))
