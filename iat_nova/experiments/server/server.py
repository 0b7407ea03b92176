# SPDX-License-Identifier: Apache-2.0
"""The emulated server: counters, cache ways, DDIO's ways and a clock, in virtual time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import overload

import numpy as np

from iat_nova.experiments.engine import cache, nic, rings
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.engine.memory import memory_lines
from iat_nova.experiments.engine.state import advance
from iat_nova.experiments.machines.machine import LINE_BYTES
from iat_nova.experiments.scenarios import changes
from iat_nova.experiments.scenarios.scenario import Scenario, ScenarioEvent, WireTraffic
from iat_nova.experiments.server import inbound, port_counts, ports
from iat_nova.experiments.server.noise import Noisy
from iat_nova.experiments.server.plant import Plant
from iat_nova.experiments.server.workload_metrics import WorkloadMetrics, measured
from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    ClassMask,
    CoreCounts,
    Counts,
    DomainCounts,
    InboundCounts,
    L2Counts,
)
from iat_nova.hardware.cat import limits as rules
from iat_nova.model import UNLIMITED, CacheDomain, WayMask

# The wall clock of an emulated server starts here (2026-01-01), so that runs are repeatable.
EPOCH_S = 1_767_225_600.0
_NS = 1_000_000_000


class EmulatedServer:
    """A server with `Counters`, `CacheAllocator`, `DdioWays`, `PortDca` and `Clock`.

    The server has one or two sockets. `pace`: maximum emulated seconds per real second; None: no
    limit. `noise`: relative standard deviation of each reading's increment. `one_slice`: DDIO's
    counters are read at one CHA and multiplied by the number of CHAs, as in the paper. The
    scenario's settings of noise and slice have precedence. `epoch_s`: emulated wall-clock time at
    the start. `port_ways`: a `PortWays`. Strategies see counters only; `metrics`: for reports.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int | None = None,
        pace: float | None = None,
        noise: float = 0.0,
        one_slice: bool = False,
        quantum_s: float = 0.05,
        epoch_s: float = EPOCH_S,
    ) -> None:
        self.scenario = scenario
        self.seed = scenario.seed if seed is None else seed
        self.pace = pace
        self.plant = Plant(scenario, self.seed)
        self._epoch_s = epoch_s
        self._one_slice = one_slice if scenario.one_slice is None else scenario.one_slice
        self._quantum_ns = round(quantum_s * _NS)
        self._now_ns = 0
        self._engine_ns = 0
        self._started = time.monotonic()
        self._events: list[ScenarioEvent] = sorted(
            [*scenario.events, *changes.comings_and_goings(scenario)], key=lambda event: event.at_s
        )
        self._traffic: dict[str, WireTraffic] = {t.name: t for t in scenario.traffic}
        self._duty = {workload.name: workload.duty for workload in scenario.workloads}
        self._absent: set[str] = set()  # workloads of absent guests
        self._silent: frozenset[str] = frozenset()
        self.guests_changed = threading.Event()
        self.ddio_found = scenario.machine.ddio_ways  # as found, or as last set by hand
        noise = noise if scenario.counter_noise is None else scenario.counter_noise
        self._random = np.random.default_rng([self.seed, 1])
        self._noisy = Noisy(noise, self._random)
        # Counters that were added later have random numbers of their own, so that the noise of the
        # other counters stays the same.
        self._later = Noisy(noise, np.random.default_rng([self.seed, 2]))
        self._inbound = inbound.Inbound(self.plant)
        of_ports = Noisy(noise, np.random.default_rng([self.seed, 3]))
        self._port_counts = port_counts.PortCounts(self.plant, self._scale, of_ports)
        self._watched: tuple[int, ...] = ()
        # By domain and class; at the start each workload with a mask is a class.
        self._masks: dict[int, dict[str, WayMask]] = {}
        self._limits: dict[int, dict[str, int]] = {}  # of memory bandwidth, in percent
        self._class_of: dict[int, str] = {}
        self.port_ways = ports.PlacedPorts(scenario, self._caches, self._masks)
        self._start_masks()
        self._run_events()

    # --------------------------------------------------------------------- Clock

    def now(self) -> float:
        """Return the emulated seconds that have passed."""
        return self._now_ns / _NS

    def wall(self) -> float:
        """Return the emulated time of day."""
        return self._epoch_s + self.now()

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        """Let emulated time pass, or return early once `wake` is set; return whether it is set."""
        end_ns = self._now_ns + max(0, round(seconds * _NS))
        while self._now_ns < end_ns:
            if wake.is_set():
                return True
            self._advance(min(end_ns, self._now_ns + self._quantum_ns))
            if self.pace is not None:
                due = self._started + self.now() / self.pace
                wake.wait(max(0.0, due - time.monotonic()))
        return wake.is_set()

    def _advance(self, end_ns: int) -> None:
        """Run to `end_ns`, stopping at each event on the way."""
        while self._now_ns < end_ns:
            stop = end_ns
            if self._events:
                stop = min(stop, max(self._now_ns + 1, round(self._events[0].at_s * _NS)))
            self._run_engine(stop)
            self._now_ns = stop
            self._run_events()

    def _run_engine(self, end_ns: int) -> None:
        engine_end = round(end_ns * self.scenario.compression)
        if engine_end > self._engine_ns:
            advance(
                self.plant.state,
                self._engine_ns,
                engine_end,
                self._step_ns(),
                self.scenario.machine.frequency_hz,
                self.scenario.sampling,
            )
            self._engine_ns = engine_end
            self._inbound.update()

    def _step_ns(self) -> int:
        """Return a time step in which no ring receives more than a quarter of its size."""
        step_s = self.scenario.step_s
        nics = self.plant.state.nics
        arriving: dict[int, float] = {}
        for row in range(nics.streams.shape[0]):
            ring = int(nics.streams[row, nic.STREAM.ring])
            rate = float(nics.flow[row, nic.FLOW.packets_per_s])
            arriving[ring] = arriving.get(ring, 0.0) + rate
        for ring, rate in arriving.items():
            if rate > 0:
                size = int(self.plant.state.rings.state[ring, rings.RING.size])
                step_s = min(step_s, size / 4 / rate)
        return max(100, round(step_s * _NS))

    # -------------------------------------------------------------------- events

    def _run_events(self) -> None:
        while self._events and round(self._events[0].at_s * _NS) <= self._now_ns:
            self._apply_event(self._events.pop(0))

    def _apply_event(self, event: ScenarioEvent) -> None:
        if event.subject == "ddio":
            ways = int(event.value)
            top = self.scenario.machine.llc_ways - ways
            # The agent notices the change in the same way as a guest's arrival.
            for domain in self.scenario.machine.domains:
                self.ddio_found = self.write(domain.id, WayMask.span(top, ways))
            self.guests_changed.set()
        elif event.subject.startswith("traffic."):
            name = event.subject.removeprefix("traffic.")
            self._traffic[name] = changes.changed(self._traffic[name], event)
            self._send(self._traffic[name])
        elif event.key == "present":
            self._come_or_go(event.subject, bool(event.value))
        elif event.key == "working_set":
            self.plant.set_working_set(event.subject, event.value)
        else:
            self._duty[event.subject] = event.value
            if event.subject not in self._absent:
                self.plant.set_duty(event.subject, event.value)

    def silence(self, names: Iterable[str]) -> None:
        """Stop workloads and their traffic from now on, with or without their guest on the host.

        The other workloads keep the random numbers, memory and rings of a run with all workloads.
        """
        self._silent = self._silent.union(names)
        self._set_present(self._silent, False)

    def _come_or_go(self, uuid: str, present: bool) -> None:
        """Let a guest's workloads and their traffic begin or end."""
        guest = next(guest for guest in self.scenario.guests if guest.uuid == uuid)
        self._set_present(frozenset(self.scenario.workloads_of(guest)) - self._silent, present)
        self.guests_changed.set()

    def _set_present(self, names: frozenset[str], present: bool) -> None:
        self._absent = self._absent - names if present else self._absent | names
        for name in names:
            self.plant.set_duty(name, self._duty[name] if present else 0.0)
        for traffic in self._traffic.values():
            if traffic.to in names:
                self._send(traffic)

    def _send(self, traffic: WireTraffic) -> None:
        """Set a traffic's streams to its values; the rate is 0 while the guest is absent."""
        if traffic.to in self._absent:
            traffic = dataclasses.replace(traffic, rate_bits_per_s=0.0)
        self.plant.set_traffic(traffic)

    def _start_masks(self) -> None:
        """Apply the scenario's initial masks, as classes named after workloads."""
        masks = dict(self.scenario.masks)
        if self.scenario.random_masks:
            ways = self.scenario.machine.llc_ways
            for workload in self.scenario.workloads:
                lowest = int(self._random.integers(0, ways - 1))
                masks[workload.name] = WayMask.span(lowest, 2)
        for domain in self.scenario.machine.domains:
            named = [
                ClassMask(workload.name, cpus, masks[workload.name])
                for workload in self.scenario.workloads
                if workload.name in masks
                and (cpus := tuple(cpu for cpu in workload.cpus if cpu in domain.cpus))
            ]
            self._masks[domain.id] = {item.name: item.mask for item in named}
            self._program(domain, named)

    # ------------------------------------------------------------ CacheAllocator

    def domains(self) -> tuple[CacheDomain, ...]:
        """Return the cache domain of each socket, with the present DDIO ways."""
        return tuple(
            dataclasses.replace(domain, ddio_found=self.read_ddio(domain.id))
            for domain in self.scenario.domains
        )

    def apply(self, domain: int, classes: tuple[ClassMask, ...]) -> Mapping[str, WayMask]:
        """Program the classes; coerced ways are set together, as on the real machine."""
        limits = self._domain(domain)
        rules.check_classes(limits, classes)
        named = [item for item in classes if item.name != DEFAULT_CLASS]
        self._masks[domain] = {item.name: item.mask for item in classes}
        self._program(limits, named)
        return self.effective(domain)

    def effective(self, domain: int) -> Mapping[str, WayMask]:
        """Read back the masks of the programmed classes."""
        limits = self._domain(domain)
        return {name: rules.effective(limits, mask) for name, mask in self._masks[domain].items()}

    def bandwidth(self, domain: int) -> Mapping[str, int]:
        """Read back the memory bandwidth of the programmed classes, in percent."""
        if self._domain(domain).bandwidth is None:
            return {}
        return dict(self._limits.get(domain, {}))

    def class_of(self, cpu: int) -> str | None:
        """Return the class of a CPU, None for the default class."""
        return self._class_of.get(cpu)

    def _domain(self, number: int) -> CacheDomain:
        return rules.find(self.scenario.machine.domains, number)

    def _program(self, limits: CacheDomain, classes: Sequence[ClassMask]) -> None:
        """Write a domain's effective masks; CPUs without a class get the default class's mask."""
        everything = WayMask.span(0, limits.ways)
        self._limits[limits.id] = {item.name: item.bandwidth or UNLIMITED for item in classes}
        caches = self._caches(limits.id)
        default = self._masks[limits.id].get(DEFAULT_CLASS, everything)
        for cpu in limits.cpus:
            cache.set_mask(caches, cache.MASKS + cpu, rules.effective(limits, default))
            self._class_of.pop(cpu, None)
            self.plant.limit_bandwidth(cpu, UNLIMITED)
        for item in classes:
            for cpu in item.cpus:
                self._class_of[cpu] = item.name
                self.plant.limit_bandwidth(cpu, self._limits[limits.id][item.name])
                mask = rules.effective(limits, item.mask)
                cache.set_mask(caches, cache.MASKS + cpu, mask)

    def _caches(self, domain: int) -> cache.Caches:
        return self.plant.sockets[domain][0]

    # ------------------------------------------------------------------ Counters

    def watch(self, cpus: Iterable[int]) -> None:
        """Choose the CPUs that `read` reports."""
        self._watched = tuple(sorted(set(cpus) & set(range(self.scenario.machine.cpu_count))))

    def close(self) -> None:
        """Stop watching."""
        self._watched = ()

    @overload
    def read(self) -> Counts: ...

    @overload
    def read(self, domain: int) -> WayMask | None: ...

    def read(self, domain: int | None = None) -> Counts | WayMask | None:
        """Read the counters (`Counters.read`), or DDIO's ways of a domain (`DdioWays.read`)."""
        if domain is None:
            return self.read_counts()
        self._domain(domain)
        return self.read_ddio(domain)

    def read_counts(self) -> Counts:
        """Return running totals of watched CPUs, cache domains and ports."""
        scale = self._scale
        # LONGEST_LAT_CACHE also counts requests of the prefetchers of L1 and L2 (Intel's events of
        # Skylake-SP).
        served = self.plant.state.caches.served + self.plant.state.caches.prefetched
        instructions, cycles = self._core_totals()
        cores = {}
        for cpu in self._watched:
            misses = float(served[cpu, cache.MEMORY :].sum()) * scale
            references = float(served[cpu, cache.LLC :].sum()) * scale
            totals = (instructions[cpu], cycles[cpu], references, misses)
            cores[cpu] = CoreCounts(*self._noisy.read_all(_CORE, cpu, totals))
        domains = {
            domain.id: self._of_domain(domain.id) for domain in self.scenario.machine.domains
        }
        return Counts(
            self.now(),
            cores,
            domains,
            self._l2_counts(),
            self._inbound_counts(),
            self._port_counts.read(),
        )

    def _l2_counts(self) -> Mapping[int, L2Counts]:
        """Return L2 hits and misses of the watched CPUs."""
        found = {}
        for cpu in self._watched:
            served = self.plant.state.caches.served[cpu] * self._scale
            totals = (float(served[cache.L2]), float(served[cache.LLC :].sum()))
            found[cpu] = L2Counts(*self._later.read_all(_L2, cpu, totals))
        return found

    def _inbound_counts(self) -> Mapping[int, InboundCounts]:
        """Return the bytes that the devices of each socket wrote."""
        totals = self._inbound.totals(1.0 / self.scenario.compression)
        return {
            domain: InboundCounts(*self._later.read_all(_INBOUND, domain, pair))
            for domain, pair in totals.items()
        }

    def _of_domain(self, domain: int) -> DomainCounts:
        hits, misses = self._ddio_totals(domain)
        memory = float(memory_lines(self._caches(domain))) * self._scale * LINE_BYTES
        return DomainCounts(
            self._noisy.read("ddio_hits", domain, hits),
            self._noisy.read("ddio_misses", domain, misses),
            self._noisy.read("memory_bytes", domain, memory),
        )

    @property
    def _scale(self) -> float:
        """The number of real lines for each simulated line."""
        return self.scenario.sampling / self.scenario.compression

    def _core_totals(self) -> tuple[list[float], list[float]]:
        """Return instructions and cycles of each CPU, scaled up."""
        cores = self.scenario.machine.cpu_count
        t = self.plant.state.threads
        result = []
        for column in (th.FLOATS.instructions, th.FLOATS.cycles):
            sums = np.bincount(
                t.ints[:, th.INTS.core], weights=t.floats[:, column], minlength=cores
            )
            result.append([float(n) / self.scenario.compression for n in sums])
        return result[0], result[1]

    def _ddio_totals(self, domain: int) -> tuple[float, float]:
        counts = self._caches(domain).ddio
        if self._one_slice:
            hits, misses = (float(n) * counts.shape[0] for n in counts[0])
        else:
            hits, misses = (float(n) for n in counts.sum(axis=0))
        return hits * self._scale, misses * self._scale

    # ------------------------------------------------------------------ DdioWays

    def read_ddio(self, domain: int = 0) -> WayMask:
        """Return DDIO's mask on a socket."""
        return WayMask(cache.mask_of(self._caches(domain), cache.DDIO))

    def write(self, domain: int, mask: WayMask) -> WayMask:
        """Set DDIO's mask, as MSR 0xC8B does: nothing is coerced."""
        limits = self._domain(domain)
        rules.check_ddio(limits, mask)
        cache.set_mask(self._caches(domain), cache.DDIO, mask)
        self.port_ways.follow_ddio(domain)
        return self.read_ddio(domain)

    def off(self) -> None:
        """Do nothing: an operator keeps no port off. See `PortDca`."""

    def switch(self, domain: int, off: Iterable[str]) -> None:
        """Switch DDIO of the disks' ports; disks without DDIO write to memory. See `PortDca`."""
        switchable = {port.address for one in self.scenario.domains for port in one.dca_ports}
        if domain == self.scenario.domains[0].id:
            wanted = frozenset(off)
            for number, disk in enumerate(self.scenario.disks):
                if disk.address in switchable:
                    self.plant.set_disk_dca(number, disk.address not in wanted)

    # ------------------------------------------------------------------- metrics

    def metrics(self) -> Mapping[str, WorkloadMetrics]:
        """Return each workload's totals since the start, by name."""
        return {
            workload.name: measured(self.plant, workload.name, self._scale)
            for workload in self.scenario.workloads
        }


_CORE = ("instructions", "cycles", "references", "misses")
_L2 = ("l2_hits", "l2_misses")
_INBOUND = ("storage_in", "network_in")
