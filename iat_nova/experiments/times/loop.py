# SPDX-License-Identifier: Apache-2.0
"""The cost of an iteration of the loop on this machine, with the real parts.

Counters are opened and read through perf, one group per CPU. If the machine has fewer CPUs than the
emulated tenants, several groups share a CPU. Prepared figures then replace the counts, to make
iterations stable or unstable on purpose. Sampling, decision, layout, enforcement and recording are
the agent's own. Masks are written to hardware in memory. The *floor* is the bare cost of the same
reads on the same descriptors in the same run. The *overhead* is the rest of an iteration, without
the floor and mask writes.

On this host's own hardware (`rows` with an `Ownership`) the counters are those of the agent. Masks
and DDIO's ways are really written, on a single cache domain, under the agent's snapshot.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import statistics
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

from iat_nova import conf
from iat_nova.agent import sources
from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent
from iat_nova.agent.ownership import Ownership, ownership
from iat_nova.agent.parts import Parts
from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times import fake
from iat_nova.experiments.times.software import SOFTWARE
from iat_nova.experiments.times.steady import (
    SteadyInventory,
    SteadyPolicy,
    VirtualClock,
    emulated_status,
    emulated_tenant,
    steady,
)
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts, HardwareError
from iat_nova.hardware.counters.perf import PerfCounters
from iat_nova.hardware.counters.perf_event import EventGroup
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.model import (
    CacheDomain,
    DomainInventory,
    Parameters,
    message,
)
from iat_nova.report.log import LogLanguage
from iat_nova.store.writer import History
from iat_nova.strategies import registry
from iat_nova.strategies.layout import plan as layout

_READ_BYTES = 64  # more than a group's counts
TENANTS = (1, 2, 4, 8, 16, 64, 256)
CORES = (1, 2)
PHASES = ("stable", "unstable")
ITERATIONS = 1000
WARM_UP = 30

# Without damping, every unstable iteration reaches the layout. A stable host has the default
# parameters, or a strategy with trials would never rest.
UNDAMPED = Parameters(mask_changes_per_minute=10**9, backoff_initial_s=0.0, backoff_max_s=0.0)


@dataclasses.dataclass(frozen=True, slots=True)
class TimesRow:
    """Medians over the iterations of a case, in microseconds, and a 99th percentile.

    `layouts`: share of iterations, 0..1, that called the layout solver.
    """

    strategy: str
    tenants: int
    cores_per_tenant: int
    phase: str
    read_us: float
    decide_us: float
    layout_us: float
    write_us: float
    record_us: float
    overhead_us: float
    overhead_p99_us: float
    floor_us: float
    layouts: float


def rows(
    tenants: Iterable[int] = TENANTS,
    cores: Iterable[int] = CORES,
    phases: Iterable[str] = PHASES,
    iterations: int = ITERATIONS,
    progress: Callable[[str], None] = lambda text: None,
    owned: Ownership | None = None,
    strategy: str = registry.DEFAULT,
) -> Iterator[TimesRow]:
    """Measure every combination.

    With `owned`, the caller holds the host's hardware; combinations with more CPUs than the first
    cache domain are left out. Raises `HardwareError` if perf cannot be opened at all, and
    `StrategyError` for an unknown strategy.
    """
    registry.find(strategy)  # a wrong name is reported before anything is measured
    for count in tenants:
        for width in cores:
            hardware = _Memory(count * width) if owned is None else _Real(owned)
            if count * width > len(hardware.domain.cpus):
                progress(
                    f"tenants: {count}, cores of each: {width}: more than the cache domain has"
                )
                continue
            for phase in phases:
                progress(f"tenants: {count}, cores of each: {width}, {phase}")
                with tempfile.TemporaryDirectory(prefix="iat-nova-bench-") as folder:
                    case = _Case(strategy, count, width, phase, folder, hardware)
                    yield case.measure(iterations)


def real_machine(settings: conf.Settings) -> Ownership:
    """Open this host's hardware as the agent would.

    Raises `HardwareError`, also if the agent would only observe because another program allocates
    cache.
    """
    settings = dataclasses.replace(settings, hardware="auto")
    owned = ownership(settings, sources.machine(settings))
    owners = owned.owners()
    if owners:
        raise HardwareError(message("other-owners", owners=owners))
    return owned


class _Stopwatch:
    """Total time spent in wrapped calls since the last `take`."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self.calls = 0

    def wrap(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a timed version of `call`."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return call(*args, **kwargs)
            finally:
                self.spent_s += time.perf_counter() - started
                self.calls += 1

        return timed

    def take(self) -> float:
        """Return the microseconds since the last call, and reset the total."""
        spent, self.spent_s = self.spent_s, 0.0
        return spent * 1e6


class _Memory:
    """A socket in memory of any size, with perf's software events on real CPUs."""

    snapshot = None

    def __init__(self, cpus: int) -> None:
        self.domain = dataclasses.replace(fake.SKYLAKE, cpus=tuple(range(cpus)))
        self.allocator = fake.FakeAllocator((self.domain,))
        self.ddio = fake.FakeDdio((self.domain,))
        real = sorted(os.sched_getaffinity(0))
        self.perf = PerfCounters(
            SOFTWARE,
            SystemClock(),
            open_group=lambda events, cpu: EventGroup(events, real[cpu % len(real)]),
        )


class _Real:
    """The first cache domain of this host, with allocator, DDIO ways and counters."""

    def __init__(self, owned: Ownership) -> None:
        machine = owned.machine
        assert isinstance(machine.counters, PerfCounters)
        self.domain = machine.allocator.domains()[0]
        self.allocator = machine.allocator
        self.ddio = machine.ddio
        self.snapshot = owned.snapshot
        self.perf = machine.counters


class _PreparedCounters:
    """Counters that read the real descriptors but return prepared counts."""

    def __init__(self, perf: PerfCounters) -> None:
        self.perf = perf
        self.prepared = Counts(0.0, {}, {})

    def watch(self, cpus: Iterable[int]) -> None:
        self.perf.watch(cpus)

    def read(self) -> Counts:
        self.perf.read()
        return self.prepared

    def close(self) -> None:
        self.perf.close()


class _Case:
    """A combination: agent, clock and stopwatches."""

    def __init__(
        self,
        strategy: str,
        tenants: int,
        cores: int,
        phase: str,
        folder: str,
        hardware: _Memory | _Real,
    ) -> None:
        self.strategy = strategy
        self.tenants, self.cores, self.phase = tenants, cores, phase
        self.hardware = hardware
        self.inventory = _inventory(hardware.domain, tenants, cores)
        self.clock = VirtualClock()
        self.counters = _PreparedCounters(hardware.perf)
        self.read, self.step, self.layout, self.write, self.record = (
            _Stopwatch() for _ in range(5)
        )
        self.history = History(
            f"{folder}/history.sqlite", max_age_s=3600.0, max_bytes=32 << 20, clock=self.clock
        )
        self.agent = self._agent()

    def _agent(self) -> Agent:
        parameters = UNDAMPED if self.phase == "unstable" else Parameters()
        policy = SteadyPolicy(parameters, self.inventory)
        strategy = registry.make(self.strategy, parameters)
        strategy.step = self.step.wrap(strategy.step)  # type: ignore[method-assign]
        status = emulated_status(self.strategy, parameters)
        journal = Journal(self.history, status, self.clock, LogLanguage())
        journal.iteration = self.record.wrap(journal.iteration)  # type: ignore[method-assign]
        journal.status = self.record.wrap(journal.status)  # type: ignore[method-assign]
        inventory = SteadyInventory(self.hardware.domain)
        parts = Parts(
            inventory=inventory,
            policies=steady(policy, journal, inventory.changed),
            make_strategy=lambda parameters: strategy,
            counters=self.counters,
            enforcer=self._enforcer(),
            journal=journal,
            clock=self.clock,
        )
        agent = Agent(parts)
        agent.poll = self.read.wrap(agent.poll)  # type: ignore[method-assign]
        return agent

    def _enforcer(self) -> Enforcer:
        """Return an enforcer with timed hardware calls."""
        allocator: Any = types.SimpleNamespace(apply=self.write.wrap(self.hardware.allocator.apply))
        ddio: Any = types.SimpleNamespace(
            read=self.write.wrap(self.hardware.ddio.read),
            write=self.write.wrap(self.hardware.ddio.write),
        )
        return Enforcer(allocator, ddio, self.hardware.snapshot)

    def measure(self, iterations: int) -> TimesRow:
        """Run the iterations and return the medians."""
        plan = self.layout.wrap(layout.plan)
        with (
            mock.patch.object(layout, "plan", plan),
            contextlib.closing(self.history),
            contextlib.closing(self.counters),
        ):
            self._watch()
            self.agent.get_tenant_info()
            self._prepare(0)
            self.agent.poll()
            for number in range(1, WARM_UP):
                self._iterate(number)
            self.layout.calls = 0
            gc.freeze()  # as the agent does before its loop
            try:
                taken = [self._iterate(WARM_UP + number) for number in range(iterations)]
            finally:
                gc.unfreeze()
            self.agent.enforcer.restore()
        return self._row(taken)

    def _watch(self) -> None:
        """Open the counters of the tenants' CPUs.

        Raises `HardwareError` if a CPU is refused, where the agent would go on. Counters of the
        cache domain may be missing, as on a host.
        """
        cpus = {cpu for tenant in self.inventory.tenants for cpu in tenant.cpus}
        try:
            self.counters.watch(cpus)
        except HardwareError:
            if self.counters.perf.read().cores.keys() != cpus:
                raise

    def _iterate(self, number: int) -> dict[str, float]:
        """Run an iteration and return the times in microseconds.

        Work of the history's thread ends before the next iteration.
        """
        self._prepare(number)
        started = time.perf_counter()
        for fd in self.counters.perf.cores.fds:
            os.read(fd, _READ_BYTES)
        floor = (time.perf_counter() - started) * 1e6
        started = time.perf_counter()
        self.agent.iterate()
        total = (time.perf_counter() - started) * 1e6
        layout, write = self.layout.take(), self.write.take()
        taken = {
            "read_us": self.read.take(),
            "decide_us": self.step.take() - layout,
            "layout_us": layout,
            "write_us": write,
            "record_us": self.record.take(),
            "floor_us": floor,
            "overhead_us": total - floor - write,
        }
        self.history.flush()
        self.clock.now_s += 1.0
        return taken

    def _prepare(self, number: int) -> None:
        """Prepare the next counts: the same rates each second, or rates that alternate."""
        swing = number % 2 if self.phase == "unstable" else 0
        before = self.counters.prepared
        cores = {}
        for place, tenant in enumerate(self.inventory.tenants):
            # The tenant with the fewest references changes each time, so the layout has work to do.
            rank = self.tenants - place if swing else place + 1
            for cpu in tenant.cpus:
                old = before.cores.get(cpu, CoreCounts(0, 0, 0, 0))
                cores[cpu] = CoreCounts(
                    old.instructions + 2_000_000_000,
                    old.cycles + 2_300_000_000,
                    old.references + 1_000_000 * rank,
                    old.misses + 400_000 * rank,
                )
        domain = self.inventory.domain.id
        ddio = before.domains.get(domain, DomainCounts(0, 0, 0))
        self.counters.prepared = Counts(
            self.clock.now_s,
            cores,
            {
                domain: DomainCounts(
                    (ddio.ddio_hits or 0) + 10_000_000,
                    (ddio.ddio_misses or 0) + (3_000_000 if swing else 500_000),
                    (ddio.memory_bytes or 0) + 10_000_000_000,
                )
            },
        )

    def _row(self, taken: list[dict[str, float]]) -> TimesRow:
        medians = {
            name: round(statistics.median(one[name] for one in taken), 1) for name in taken[0]
        }
        overheads = sorted(one["overhead_us"] for one in taken)
        p99 = overheads[min(len(overheads) - 1, int(len(overheads) * 0.99))]
        return TimesRow(
            self.strategy,
            self.tenants,
            self.cores,
            self.phase,
            overhead_p99_us=round(p99, 1),
            layouts=round(self.layout.calls / len(taken), 2),
            **medians,
        )


def _inventory(domain: CacheDomain, tenants: int, cores: int) -> DomainInventory:
    """Return a stack and guests, PC and BE alternating, some with I/O, in a single cache domain."""
    places = [domain.cpus[number * cores : (number + 1) * cores] for number in range(tenants)]
    return DomainInventory(domain, tuple(emulated_tenant(n, cpus) for n, cpus in enumerate(places)))
