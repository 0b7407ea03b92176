# SPDX-License-Identifier: Apache-2.0
"""Puts the parts together: from `Settings` to an `Agent` that can run."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import logging
import math
import os
import pathlib
from collections.abc import Callable, Iterator

from iat_nova import policy
from iat_nova.agent import policy_file, restoring
from iat_nova.agent.freshness import Freshness
from iat_nova.agent.hand_over import HandOverFiles, Left, Succession, recover
from iat_nova.agent.interlock import Outside
from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent, FactsSource
from iat_nova.agent.monitoring import TenantMonitor
from iat_nova.agent.provider import ProviderFiles
from iat_nova.agent.shadow import Shadow
from iat_nova.agent.shadow_policy import ShadowPolicy
from iat_nova.agent.watchdog import Watchdog
from iat_nova.common import plugins
from iat_nova.common.clock import Clock, SystemClock
from iat_nova.conf import ConfigError, Settings
from iat_nova.enforcement.enforcer import Enforcer, Keeper
from iat_nova.enforcement.saved_first import PortsOff, SavedFirst
from iat_nova.enforcement.snapshot import Snapshot
from iat_nova.hardware import backends, probe
from iat_nova.hardware.api import CacheAllocator, Counters, DdioWays, HardwareError, PortDca
from iat_nova.hardware.cpu_watch import FIXED, Cpus, CpuWatch, settled
from iat_nova.hardware.monitor import Monitor, offered
from iat_nova.hardware.resctrl import Resctrl
from iat_nova.hardware.rootport import RootPorts
from iat_nova.hardware.sockets import Sockets
from iat_nova.inventory.cpusets import CpuSets
from iat_nova.inventory.host import read_host
from iat_nova.inventory.libvirt import ANSWER_S, LibvirtSource
from iat_nova.inventory.ovs import OvsSource
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Inventory
from iat_nova.inventory.spool import Spool
from iat_nova.model import CacheDomain, HostFacts, Parameters
from iat_nova.model.reasons import Reason
from iat_nova.report.observed import Observer
from iat_nova.store.heartbeat import Heartbeat
from iat_nova.store.records import Status
from iat_nova.store.requests import Holds, PauseFile
from iat_nova.store.writer import History
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.api import Strategy

LOG = logging.getLogger("iat_nova")


@dataclasses.dataclass(frozen=True)
class Machine:
    """The hands on one machine, and its clock.

    `ends_s`: when, on that clock, its time is over. `snapshot` keeps the promise that the host ends
    as it was found; the emulated server needs none. `owners` names who else allocates cache now,
    `inspect` what another program did to our classes and to `ports`, `about` which interfaces were
    chosen and why. DDIO goes off on `ports` with the first layout. `remove_left_over` removes what
    carries our name although no snapshot names it, `missing` names what is not there to be written
    to, `monitor` counts what tenants have in the LLC, where that is asked for. `succession` hands
    the machine to the next agent, where that can be. `watch` makes what notices CPUs that come and
    go. `left_files`: where an earlier agent may have left something for the next; removed where
    this agent cannot adopt. `unseen` counts the cache domains beyond those given, whose CPUs are
    offline.
    """

    counters: Counters
    allocator: CacheAllocator
    ddio: DdioWays
    clock: Clock
    ends_s: float = math.inf
    snapshot: Snapshot | None = None
    owners: Callable[[], tuple[str, ...]] = tuple
    inspect: Callable[[], tuple[str, ...]] = tuple
    about: tuple[backends.Choice, ...] = ()
    ports: RootPorts | None = None  # off for as long as the agent enforces
    dca: PortDca | None = None  # what strategies may switch
    remove_left_over: Callable[[], tuple[str, ...]] = tuple
    missing: Callable[[], tuple[str, ...]] = tuple
    monitor: TenantMonitor | None = None
    succession: Succession | None = None
    watch: Callable[[], Cpus] = lambda: FIXED
    left_files: HandOverFiles | None = None
    unseen: Callable[[tuple[CacheDomain, ...]], int] = lambda domains: 0

    def finish(self) -> None:
        """Restore settings that an earlier restore could not reach and that are in reach now."""
        if self.snapshot is not None:
            watch = self.watch()
            watch.begin()
            restored = self.snapshot.finish()
            for line in restored.done:
                LOG.info("in reach again and restored: %s", line)
            level = logging.WARNING if watch.moved() is None else logging.INFO
            for line in restored.not_done:
                LOG.log(level, "not restored: %s", line)

    def guard(self) -> None:
        """Keep the lock of the host's one writer. Raises `HardwareError`."""
        if self.snapshot is not None:
            self.snapshot.keep_lock()

    def unrestored(self) -> tuple[str, ...]:
        """Tell what nobody could restore yet, because it is offline."""
        return () if self.snapshot is None else restoring.out_of_reach(self.snapshot.unreached)

    @contextlib.contextmanager
    def ours(self, *, adopt: bool = False) -> Iterator[Left | None]:
        """Be the machine's only writer, after restoring what a crash may have left.

        `adopt`: go on instead with what the last agent left, which is given then. Nothing is saved
        before something is to be written: who only observes has nothing to undo.
        Raises `HardwareError` when somebody else writes, or the host cannot be restored. Settings
        of CPUs that are offline at the end stay in the snapshot.
        """
        if self.snapshot is None:
            yield None
            return
        with self.snapshot.only_writer():
            adopted = self._adopted() if self._recovered() and adopt else None
            if adopted is None:
                for line in settled(self.watch(), self.snapshot.put_back).done:
                    LOG.warning("an earlier agent had not restored the host; now: %s", line)
                if groups := self.remove_left_over():
                    LOG.warning("%s; %s", "; ".join(groups), restoring.NO_SNAPSHOT)
                self._remove_hand_over()
            try:
                yield adopted
            finally:
                if not self.snapshot.handed_over:  # the agent did so when it ended, if it could
                    keeper = self.snapshot
                    restored = settled(self.watch(), lambda: restoring.all_back(keeper))
                    for line in restored.done:
                        LOG.info("restored: %s", line)
                    for line in restoring.out_of_reach(restored.left):
                        LOG.info("not restored yet: %s", line)

    def _recovered(self) -> bool:
        """Write a lost snapshot again from what was handed over; return whether nothing failed."""
        if self.snapshot is not None and self.left_files is not None:
            try:
                recover(self.snapshot, self.left_files)
            except HardwareError as error:
                LOG.warning("what the last agent handed over is not adopted: %s", error)
                return False
        return True

    def _remove_hand_over(self) -> None:
        """Remove a file that this agent cannot adopt: the host was restored from the snapshot."""
        if self.left_files is None or not self.left_files.there:
            return
        self.left_files.remove()
        LOG.warning("%s: this agent cannot take over; removed", self.left_files.path)

    def _adopted(self) -> Left | None:
        """Take over what the last agent left, None where there is nothing or that cannot be."""
        if self.succession is None:
            return None
        try:
            return self.succession.take()
        except HardwareError as error:
            LOG.warning("what the last agent handed over is not adopted: %s", error)
            return None


def machine(settings: Settings) -> Machine:
    """Open the machine the settings name. Raises `ConfigError`, `HardwareError`."""
    if settings.hardware != "auto":
        return _platform(settings)
    host = probe.Host()
    hands = hardware(settings, host)
    parts = dict(hands.parts)
    ports = None
    inspect_ports: Callable[[], tuple[str, ...]] = tuple
    if settings.port_dca:
        ports = parts[backends.PORT_DCA] = backends.root_ports(
            host, settings.dca_off_ports, settings.dca_ports
        )
        inspect_ports = ports.inspect
    keeper = restoring.snapshot(settings, host, parts)
    succession = None
    left_files = restoring.hand_over_files(settings)
    if isinstance(hands.allocator, Resctrl):
        succession = Succession(
            left_files,
            keeper,
            hands.allocator,
            hands.ddio,
            settings.strategy,
            importlib.metadata.version("iat-nova"),
            hands.forget,
        )
    return Machine(
        hands.counters,
        hands.allocator,
        hands.ddio,
        SystemClock(),
        snapshot=keeper,
        ports=ports,
        dca=ports,
        owners=lambda: probe.owners(host, ours=restoring.groups_of_libpqos(keeper, host)),
        inspect=lambda: (*hands.inspect().foreign, *inspect_ports()),
        about=hands.choices,
        remove_left_over=host.resctrl.remove_left_over,
        missing=hands.missing,
        monitor=tenant_monitor(settings, host, hands),
        succession=succession,
        watch=lambda: CpuWatch(host.topology),
        left_files=left_files,
        unseen=Sockets(host.topology, host.roots.dmi).unseen,
    )


def tenant_monitor(
    settings: Settings, host: probe.Host, hands: backends.Backends
) -> Monitor | None:
    """Return what monitors tenants, None where nobody asks. Raises `HardwareError` without it."""
    if not settings.monitor_tenants:
        return None
    offer = offered(host.fs) if "resctrl" in hands.parts else None
    if offer is None or not offer.events:
        raise HardwareError(
            "monitor_tenants: this CPU or kernel monitors no cache, or resctrl is not used; "
            "[iat] monitor_tenants = false"
        )
    return Monitor(host.fs, host.topology)


def hardware(settings: Settings, host: probe.Host) -> backends.Backends:
    """Choose the interfaces of a real host; nothing is written. Raises `HardwareError`."""
    wanted = backends.Preferences(
        settings.cat_interface,
        settings.ddio_interface,
        settings.counters_interface,
        settings.cha_slices,
        settings.memory_bandwidth_gbps,
    )
    return backends.choose(host, SystemClock(), wanted)


def _platform(settings: Settings) -> Machine:
    """Open a machine that is not the host's own; what emulates it registers by name."""
    name = settings.hardware
    registered = plugins.find(plugins.PLATFORMS, name)
    if registered is None:
        raise ConfigError(f"[iat] hardware = {name}: no such platform is installed here")
    try:
        open_machine: Callable[[Settings], Machine] = registered.load()
    except ImportError as error:  # it names the extra that brings what is missing
        raise ConfigError(str(error)) from error
    return open_machine(settings)


def inventory(
    settings: Settings,
    host: Callable[[], HostFacts],
    clock: Clock,
    *,
    answer_s: float = ANSWER_S,
) -> Inventory:
    """Make the sources the settings name; nothing is opened before `start`.

    `answer_s` is how long a look waits for libvirt. Raises `ConfigError`.
    """
    try:
        sets = CpuSets.parse(settings.cpu_dedicated_set, settings.cpu_shared_set)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    libvirt = LibvirtSource(
        settings.libvirt_uri, sets, Spool(settings.spool_dir), answer_s=answer_s
    )
    ovs = None
    if settings.ovsdb_connection is not None:
        ovs = OvsSource(
            settings.ovsdb_connection,
            vswitchd_control=settings.vswitchd_control,
            rundir=settings.ovs_rundir,
            proc_root=settings.proc_root,
        )
    return Inventory(
        libvirt,
        ovs,
        Pci(settings.sysfs_root),
        host,
        clock,
        debounce_s=settings.debounce_s,
        slow_timer_s=settings.reconcile_s,
    )


def enforcer(hands: Machine) -> Enforcer:
    """Make the one owner of what is on the machine."""
    keeper: Keeper | None = hands.snapshot
    if hands.snapshot is not None and hands.ports is not None:
        keeper = PortsOff(hands.snapshot, hands.ports)
    return Enforcer(hands.allocator, hands.ddio, keeper, hands.dca)


def agent(
    settings: Settings,
    hands: Machine,
    source: FactsSource,
    host: Callable[[], HostFacts],
    observer: Observer | None = None,
    heartbeat: Heartbeat | None = None,
    drift: Callable[[policy.Policy], tuple[Reason, ...]] = lambda running: (),
    left: Left | None = None,
) -> Agent:
    """Join everything; `observer` is given what the metrics show, `heartbeat` each iteration.

    `drift` returns in what files differ from what runs, which the policy is a part of. `left`:
    what was adopted of the last agent.

    Raises `PolicyError` and `StrategyError`: what is invalid does not start.
    """

    def read(path: pathlib.Path | None) -> policy.Policy:
        try:
            facts = host()
        except (OSError, ValueError) as error:
            problem = policy.Problem("", None, f"this host's facts cannot be read: {error}")
            raise policy.PolicyError([problem], "the policy's host") from error
        return policy_file.load(path, facts)

    def make_strategy(parameters: Parameters) -> Strategy:
        return strategies.make(settings.strategy, parameters)

    read_policy = functools.partial(read, settings.policy_file)
    make_shadow = functools.partial(strategies.make, settings.shadow or settings.strategy)
    first = read_policy()
    parameters = first.parameters
    for make in (make_strategy, make_shadow):
        make(parameters)  # before the history: a name that does not exist leaves no trace
    history = History(
        settings.history_path,
        whole_s=settings.history_whole_hours * 3600,
        max_age_s=settings.history_days * 86400,
        max_bytes=settings.history_mib << 20,
        clock=hands.clock,
    )
    status = Status(
        mode=settings.mode,
        pid=os.getpid(),
        version=importlib.metadata.version("iat-nova"),
        strategy=settings.strategy,
        interval_s=parameters.interval_s,
        started_s=hands.clock.wall(),
        parameters=parameters,
        policy=first.effective,
        policy_source=first.source
        if settings.policy_file is None
        else os.path.abspath(first.source),
        phases=strategies.phases(settings.strategy),
        rules=strategies.rules(settings.strategy),
    )
    journal = Journal(
        history,
        status,
        hands.clock,
        observer,
        Watchdog(),
        heartbeat,
        Freshness(settings.reconcile_s),
    )
    shadow_policy = shadow = None
    if settings.shadow_policy is not None:
        shadow_policy = ShadowPolicy(
            str(settings.shadow_policy),
            first,
            functools.partial(read, settings.shadow_policy),
            policy_file.again,
            journal,
            source.changed,
        )
    if settings.shadow is not None or shadow_policy is not None:
        name = settings.shadow or settings.strategy
        shadow = Shadow(name, make_shadow, parameters, hands.clock.wall(), shadow_policy)
    pause, holds = PauseFile(settings.state_dir), Holds(settings.state_dir)
    return Agent(
        inventory=source,
        read_policy=read_policy,
        policy=first,
        render_policy=policy_file.again,
        make_strategy=make_strategy,
        counters=SavedFirst(hands.counters, hands.snapshot) if hands.snapshot else hands.counters,
        enforcer=enforcer(hands),
        journal=journal,
        clock=hands.clock,
        paused=lambda: pause.current(hands.clock.wall()),
        holds=lambda: holds.current(hands.clock.wall()),
        placement=ProviderFiles(settings).compare,
        drift=drift,
        observe=settings.mode == "observe",
        outside=Outside(
            hands.owners,
            hands.inspect,
            hands.unrestored,
            hands.missing,
            hands.watch(),
            guard=hands.guard,
        ),
        shadow=shadow,
        monitor=hands.monitor,
        succession=hands.succession,
        left=left,
    )


def host_reader(
    settings: Settings,
    allocator: CacheAllocator,
    first: Callable[[], object] = tuple,
    ports: RootPorts | None = None,
    clock: Clock | None = None,
    left: Left | None = None,
    cpus: Cpus = FIXED,
    unseen: Callable[[tuple[CacheDomain, ...]], int] = lambda domains: 0,
) -> Callable[[], HostFacts]:
    """Return what reads the host's own facts, whenever it is called: CPUs come and go.

    `first` is called before each reading: what was left of an earlier agent must not be taken for
    what this one found. `clock` gives the time of day, `ports` are the root
    ports that strategies may switch. `left`: what was adopted, with DDIO's ways as they were found
    before it. `cpus`, for this reader alone: which CPUs came or went during a reading.
    `unseen` counts the cache domains beyond those given, whose CPUs are offline.

    Raises `HardwareError` where the cache domains cannot be read now; what it returns raises
    `OSError` where they cannot be read later.
    """
    domains = settled(cpus, allocator.domains) if left is None else left.domains
    found = {domain.id: domain.ddio_found for domain in domains}

    def read() -> HostFacts:
        try:
            first()
            domains = settled(cpus, allocator.domains)
            domains = domains if ports is None else ports.assign(domains)
        except HardwareError as error:
            raise OSError(str(error)) from error
        as_found = (  # the emulated server gives DDIO's ways as they are now
            dataclasses.replace(one, ddio_found=found.setdefault(one.id, one.ddio_found))
            for one in domains
        )
        return read_host(
            tuple(as_found),
            settings.sysfs_root,
            wall_s=(clock or SystemClock()).wall(),
            unseen_domains=unseen(domains),
        )

    return read
