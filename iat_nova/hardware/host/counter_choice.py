# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's counters."""

from __future__ import annotations

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import Counters, HardwareError
from iat_nova.hardware.counters import perf_event
from iat_nova.hardware.counters.cha import ChaPerf, cha_pmus
from iat_nova.hardware.counters.events import Model
from iat_nova.hardware.counters.fabric import FabricPerf, fabric_pmu
from iat_nova.hardware.counters.perf import DomainReader, PerfCounters
from iat_nova.hardware.host.cures import Symptom, find
from iat_nova.hardware.host.machine import ChosenInterface
from iat_nova.hardware.host.probe import Host
from iat_nova.model import Message, message


def ddio_counters(host: Host, slices: int | None) -> tuple[DomainReader | None, ChosenInterface]:
    """Choose the reader of DDIO's hits and misses, None if the host has no such counters."""
    try:
        reader, chosen, why = _ddio_reader(host, slices)
    except HardwareError as error:
        refused = ChosenInterface("ddio counters", "none", error.state, remedy=error.remedy)
        return None, refused
    return reader, ChosenInterface("ddio counters", chosen, why)


def _ddio_reader(host: Host, slices: int | None) -> tuple[DomainReader, str, Message]:
    """Return the reader, the name of its interface, and the reason. Raises `HardwareError`."""
    model, pmus = host.model, host.roots.pmus
    if model is None:
        raise find(Symptom.EVENTS, host)
    if model.cha is None:
        return _fabric_reader(host, model)
    count = len(cha_pmus(pmus))
    if slices is not None:  # at least one per cluster
        slices = max(slices, *(len(cache.nodes) for cache in host.topology.caches()))
    if not count:
        raise find(Symptom.CHA, host)
    reader = ChaPerf(
        model.cha,
        lambda: {cpu: one.id for one in host.topology.caches() for cpu in one.cpus},
        slices=slices,
        find=lambda: cha_pmus(pmus),
    )
    return reader, "perf", message("cha-pmus-counted", pmus=count)


def _fabric_reader(host: Host, model: Model) -> tuple[DomainReader, str, Message]:
    """Return counters of lines that devices write, for CPUs that do not count hits and misses."""
    if not model.fabric:
        raise HardwareError(message("fabric-event-unknown"))
    if fabric_pmu(host.roots.pmus) is None:
        raise find(Symptom.FABRIC, host)
    reader = FabricPerf(
        model.fabric, host.topology.caches, find=lambda: fabric_pmu(host.roots.pmus)
    )
    return reader, "perf", message("fabric-chosen")


def counters(
    host: Host, clock: Clock, reader: DomainReader | None
) -> tuple[Counters, ChosenInterface]:
    """Choose the counters of CPUs. Raises `HardwareError` if none can be used."""
    if host.model is None:
        raise find(Symptom.EVENTS, host)
    refused = perf_event.available(host.model.core.events, min(host.topology.online()))
    if refused is not None:
        raise refused
    perf = PerfCounters(host.model.core, clock, domains=reader)
    return perf, ChosenInterface("counters", "perf", message("perf-group-each-cpu"))
