# SPDX-License-Identifier: Apache-2.0
"""Bytes that the history writes and holds, with the agent's own loop in virtual time.

Counters are noisy. Every few minutes the load of a tenant changes for a minute, so that the
strategy has decisions to make. Guests have traffic: packet counters advance with each reading of
the inventory. The history is thinned out during the measurement, as after its first day. Written
bytes are those that this process passes to the kernel, into the write-ahead log and then into the
database.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator

from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent
from iat_nova.agent.parts import Parts
from iat_nova.experiments.times import fake
from iat_nova.experiments.times.steady import (
    SteadyPolicy,
    VirtualClock,
    emulated_status,
    emulated_tenant,
    steady,
)
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    DomainInventory,
    Facts,
    Guest,
    HostFacts,
    Parameters,
    PmdThread,
    SwitchPort,
    Tenant,
    VirtualSwitch,
)
from iat_nova.report.log import LogLanguage
from iat_nova.store.writer import History
from iat_nova.strategies import registry

SOCKETS, TENANTS, ITERATIONS = 2, 15, 3600
NOISE = 0.01  # relative standard deviation of a second's counts
JITTER_S = 2e-4  # of the interval
CHANGE_S, CHANGED_S = 300, 60.0  # period and duration of a tenant's other load
LOOK_S = 60.0  # between two readings of the inventory
DAY_S, WHOLE_S, LEAST_WHOLE_S, MAX_DAYS, MAX_BYTES = 86400.0, 86400.0, 3600.0, 30.0, 256 << 20
ROW_BYTES = 36  # of a row's columns and headers, without text
WHOLE_PART = 4  # a quarter of the run is not thinned out


@dataclasses.dataclass(frozen=True, slots=True)
class BytesRow:
    """Bytes that a case writes and holds under the default options.

    `row_bytes`: bytes of an iteration of one socket in the file. `kept_bytes`: bytes of an
    iteration kept in thinned-out time, without state. `whole_hours`: hours with every iteration
    kept. `days`: how far thinned-out time reaches back. `replay_days`: the same if old states are
    kept.
    """

    strategy: str
    sockets: int
    tenants: int
    iterations: int
    decisions: int
    written_bytes_per_day: int
    row_bytes: int
    kept_bytes: int
    whole_hours: float
    days: float
    replay_days: float


def rows(
    strategies: Iterable[str],
    sockets: int = SOCKETS,
    tenants: int = TENANTS,
    iterations: int = ITERATIONS,
    change_s: int = CHANGE_S,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[BytesRow]:
    """Measure each strategy; every `change_s` seconds the load of a tenant changes for a minute.

    Raises `StrategyError` for an unknown strategy.
    """
    for strategy in strategies:
        registry.find(strategy)  # a wrong name is reported before anything is measured
    for strategy in strategies:
        progress(f"{strategy}: {sockets} sockets, {tenants} tenants each, {iterations} iterations")
        with tempfile.TemporaryDirectory(prefix="iat-nova-bench-", dir="/var/tmp") as folder:
            yield _measure(strategy, sockets, tenants, iterations, change_s, pathlib.Path(folder))


class _Clock(VirtualClock):
    """Virtual time, for the time of day, too."""

    def wall(self) -> float:
        """Return a virtual time of day."""
        return 1.8e9 + self.now_s


class _Counters:
    """Counts of a plausible host, with noise."""

    def __init__(
        self, inventories: tuple[DomainInventory, ...], clock: VirtualClock, change_s: float
    ) -> None:
        self._inventories, self._clock, self._change_s = inventories, clock, change_s
        self._chance = random.Random(1)
        self._counts = Counts(0.0, {}, {})

    def watch(self, cpus: Iterable[int]) -> None:
        """Do nothing: no counters to open."""

    def close(self) -> None:
        """Do nothing: no counters to close."""

    def read(self) -> Counts:
        """Advance the counts to the present time."""
        now_s, before = self._clock.now(), self._counts
        seconds = now_s - before.taken_at_s
        turn, into_s = divmod(now_s, self._change_s)
        cores, domains = {}, {}
        for inventory in self._inventories:
            other = turn % len(inventory.tenants) if into_s < CHANGED_S else None
            for place, tenant in enumerate(inventory.tenants):
                times = 3.0 if place == other else 1.0
                rates = (2e9 / times, 2.3e9, 1e6 * (place + 1) * times, 4e5 * (place + 1) * times)
                for cpu in tenant.cpus:
                    old = before.cores.get(cpu, CoreCounts(0, 0, 0, 0))
                    cores[cpu] = CoreCounts(
                        *(
                            was + self._noisy(rate * seconds)
                            for was, rate in zip(old, rates, strict=True)
                        )
                    )
            number = inventory.domain.id
            was = before.domains.get(number, DomainCounts(0, 0, 0))
            domains[number] = DomainCounts(
                *(
                    (one or 0) + self._noisy(rate * seconds)
                    for one, rate in zip(was[:3], (1e7, 5e5, 1e10), strict=True)
                )
            )
        self._counts = Counts(now_s, cores, domains)
        return self._counts

    def _noisy(self, count: float) -> int:
        return int(count * max(0.0, self._chance.gauss(1.0, NOISE)))


class _BusyInventory:
    """A host with constant guests. The virtual switch counts packets of the guests."""

    def __init__(self, inventories: tuple[DomainInventory, ...], clock: VirtualClock) -> None:
        self.changed = threading.Event()
        self._inventories, self._clock = inventories, clock
        domains = tuple(one.domain for one in inventories)
        self._host = HostFacts(
            "bench", domains, tuple(cpu for domain in domains for cpu in domain.cpus)
        )

    def facts(self) -> Facts:
        """Return the host with the packet counts at the present time."""
        guests, ports, threads = [], [], []
        for inventory in self._inventories:
            stack, *others = inventory.tenants
            threads += [PmdThread(cpu, *self._done(cpu)) for cpu in stack.cpus]
            for tenant in others:
                packets = int(self._clock.now() * 1e5 * len(tenant.name))
                guests.append(_guest(tenant, inventory.domain.numa_nodes, packets))
                ports.append(_port(tenant, packets))
        cpus = tuple(thread.cpu for thread in threads)
        switch = VirtualSwitch(
            {"br-int": "netdev"}, tuple(ports), cpus, "pmd-rxq-show", (), tuple(threads), 1.5
        )
        return Facts(self._host, tuple(guests), switch)

    def _done(self, cpu: int) -> tuple[float, float, float, float]:
        """Return the load figures of a PMD thread, different at each reading."""
        busy = 0.5 + (self._clock.now() + cpu) % 97 / 200
        return busy, busy * 3.1e6, 230 / busy, 0.0


def _guest(tenant: Tenant, numa_nodes: tuple[int, ...], packets: int) -> Guest:
    specs = {"hw:cpu_policy": "dedicated", "iat:priority": str(tenant.priority)}
    attachment = Attachment(
        AttachmentKind.VHOST_USER,
        f"vhu-{tenant.name}",
        "fa:16:3e:00:00:01",
        port=tenant.uuid,
        bridge="br-int",
        packets=packets,
        packets_per_s=packets / 7,
    )
    return Guest(
        tenant.uuid or tenant.id,
        1,
        f"instance-{tenant.name}",
        tenant.name,
        "m1.large",
        specs,
        "5f1d0000-0000-4000-8000-000000000000",
        tenant.cpus,
        (),
        tenant.cpus[:1],
        numa_nodes,
        (attachment,),
    )


def _port(tenant: Tenant, packets: int) -> SwitchPort:
    return SwitchPort(
        f"vhu-{tenant.name}",
        "br-int",
        "dpdkvhostuserclient",
        tenant.uuid,
        tenant.uuid,
        "fa:16:3e:00:00:01",
        packets=packets,
        drops=packets // 1000,
    )


def _domain(number: int, tenants: int) -> CacheDomain:
    cpus = tuple(range(number * tenants, (number + 1) * tenants))
    return dataclasses.replace(fake.SKYLAKE, id=number, cpus=cpus)


def _inventory(domain: CacheDomain) -> DomainInventory:
    """Return a tenant per CPU, with ids unique to the socket."""
    tenants = (emulated_tenant(place, (cpu,)) for place, cpu in enumerate(domain.cpus))
    return DomainInventory(
        domain,
        tuple(
            dataclasses.replace(one, id=one.id.replace("-0000-", f"-{domain.id:04d}-", 1))
            for one in tenants
        ),
    )


def _measure(
    strategy: str,
    sockets: int,
    tenants: int,
    iterations: int,
    change_s: float,
    folder: pathlib.Path,
) -> BytesRow:
    clock, parameters, chance = _Clock(), Parameters(), random.Random(2)
    domains = tuple(_domain(number, tenants) for number in range(sockets))
    inventories = tuple(map(_inventory, domains))
    registry.make(strategy, parameters)  # fail on an unknown name before any file exists
    path = folder / "history.sqlite"
    history = History(
        path,
        max_age_s=MAX_DAYS * DAY_S,
        max_bytes=MAX_BYTES,
        whole_s=iterations / WHOLE_PART,
        clock=clock,
    )
    with contextlib.closing(history):
        policy = SteadyPolicy(parameters, *inventories)
        inventory = _BusyInventory(inventories, clock)
        journal = Journal(history, emulated_status(strategy, parameters), clock, LogLanguage())
        parts = Parts(
            inventory=inventory,
            policies=steady(policy, journal, inventory.changed),
            make_strategy=lambda parameters: registry.make(strategy, parameters),
            counters=_Counters(inventories, clock, change_s),
            enforcer=Enforcer(fake.FakeAllocator(domains), fake.FakeDdio(domains), None),
            journal=journal,
            clock=clock,
        )
        agent = Agent(parts)
        agent.get_tenant_info()
        agent.poll()
        history.flush()
        before, looked_s = _written_bytes(), clock.now_s
        for _ in range(iterations):
            clock.now_s += 1.0 + chance.gauss(0.0, JITTER_S)
            if clock.now_s - looked_s >= LOOK_S:
                agent.get_tenant_info()
                looked_s = clock.now_s
            agent.iterate()
            history.flush(at_once=False)  # due writes, before the next second
    written = _written_bytes() - before
    return _row(strategy, sockets, tenants, iterations, written, path)


def _written_bytes() -> int:
    """Return the bytes that this process has passed to write calls (proc(5))."""
    lines = pathlib.Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def _row(
    strategy: str, sockets: int, tenants: int, iterations: int, written: int, path: pathlib.Path
) -> BytesRow:
    """Read from the file the room that whole and thinned-out time take."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (cut,) = connection.execute("SELECT min(id) FROM iteration WHERE NOT kept").fetchone()
        (decisions,) = connection.execute("SELECT sum(eventful) FROM iteration").fetchone()
        thin_s, thin, states, thin_rows = _share(connection, "id < ?", cut)
        whole_s, whole, _, whole_rows = _share(connection, "id >= ?", cut)
        pages = sum(
            sign * connection.execute(f"PRAGMA {name}").fetchone()[0]
            for sign, name in ((1, "page_count"), (-1, "freelist_count"))
        )
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        filled = pages * size / (thin + whole)  # file size relative to the contents
    whole_per_s, thin_per_s = whole * filled / whole_s, thin * filled / thin_s
    bare_per_s = (thin - states) * filled / thin_s
    # As in `Retention`: whole time gets half of the room at most, but at least an hour.
    kept_s = min(WHOLE_S, max(LEAST_WHOLE_S, MAX_BYTES / 2 / whole_per_s))
    room = max(0.0, MAX_BYTES - kept_s * whole_per_s)
    days, replay_days = (
        min(MAX_DAYS, (kept_s + room / per_s) / DAY_S) for per_s in (bare_per_s, thin_per_s)
    )
    return BytesRow(
        strategy,
        sockets,
        tenants,
        iterations,
        int(decisions),
        round(written / iterations * DAY_S),
        round(whole * filled / whole_rows),
        round((thin - states) * filled / thin_rows),
        round(kept_s / 3600, 1),
        round(days, 1),
        round(replay_days, 1),
    )


def _share(connection: sqlite3.Connection, where: str, cut: int) -> tuple[float, int, int, int]:
    """Return seconds, bytes, bytes of states, and rows of the iterations that match `where`."""
    seconds, count, texts = connection.execute(
        "SELECT max(wall_s) - min(wall_s), count(*), sum(length(body)) FROM iteration"
        f" WHERE {where}",
        (cut,),
    ).fetchone()
    (states,) = connection.execute(
        f"SELECT coalesce(sum(length(body)), 0) FROM state WHERE {where}", (cut,)
    ).fetchone()
    shared = 0
    for table, body in (("base", "length(seen) + length(state)"), ("inventory", "length(body)")):
        (one,) = connection.execute(
            f"SELECT coalesce(sum({body}), 0) FROM {table} WHERE id IN"
            f" (SELECT {table}_id FROM iteration WHERE {where})",
            (cut,),
        ).fetchone()
        shared += one
    return seconds, texts + states + shared + count * ROW_BYTES, states, count
