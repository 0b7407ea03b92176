# SPDX-License-Identifier: Apache-2.0
"""Join the parts: from `Settings` to an `Agent` that can run."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import os
import pathlib
from collections.abc import Callable

from iat_nova import policy
from iat_nova.agent import policy_file
from iat_nova.agent.freshness import Freshness
from iat_nova.agent.hand_over import HandedOver
from iat_nova.agent.journal import Journal, Language
from iat_nova.agent.loop import Agent
from iat_nova.agent.ownership import Ownership
from iat_nova.agent.parts import FactsSource, Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.agent.provider import ProviderFiles
from iat_nova.agent.shadow import ShadowStrategy
from iat_nova.agent.shadow_policy import ShadowPolicy
from iat_nova.agent.watchdog import Watchdog
from iat_nova.common import plugins
from iat_nova.common.clock import Clock, SystemClock
from iat_nova.conf import ConfigError, Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement.enforcer import Enforcer, Keeper
from iat_nova.hardware.enforcement.saved_first import PortsOff
from iat_nova.hardware.host import backends, probe
from iat_nova.hardware.host.machine import Machine
from iat_nova.hardware.kernel.cpu_watch import settled
from iat_nova.inventory.cpusets import CpuSets
from iat_nova.inventory.host import read_host
from iat_nova.inventory.libvirt import ANSWER_S, LibvirtSource
from iat_nova.inventory.ovs import OvsSource
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.inventory.spool import Spool
from iat_nova.model import HostFacts, Parameters
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Reason
from iat_nova.store.heartbeat import Heartbeat
from iat_nova.store.observed import Observer
from iat_nova.store.records import Status
from iat_nova.store.requests import Holds, PauseFile
from iat_nova.store.writer import History
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.api import Strategy


def machine(settings: Settings) -> Machine:
    """Open the machine the settings name. Raises `ConfigError`, `HardwareError`.

    Where the CPU has no cache allocation, the error names this cause, not what failed in turn.
    """
    if settings.hardware != "auto":
        return _platform(settings)
    host = probe.Host()
    try:
        return host_machine(settings, host)
    except HardwareError as error:
        if (cause := probe.without_cat(host)) is not None:
            raise cause from error
        raise


def host_machine(settings: Settings, host: probe.Host) -> Machine:
    """Choose the interfaces of a real host; nothing is written. Raises `HardwareError`."""
    wanted = backends.Preferences(
        ddio=settings.ddio_interface,
        cha_slices=settings.cha_slices,
        memory_bandwidth_gbps=settings.memory_bandwidth_gbps,
        port_dca=settings.port_dca,
        dca_off_ports=settings.dca_off_ports,
        dca_ports=settings.dca_ports,
        monitor=settings.monitor_tenants,
    )
    return backends.choose(host, SystemClock(), wanted)


def _platform(settings: Settings) -> Machine:
    """Open an emulated machine, registered as a plug-in by name. Raises `ConfigError`."""
    name = settings.hardware
    registered = plugins.find(plugins.PLATFORMS, name)
    if registered is None:
        raise ConfigError(message("platform-absent", name=name))
    try:
        open_machine: Callable[[Settings], Machine] = registered.load()
    except ImportError as error:  # the error names the missing extra
        raise ConfigError(as_message(error)) from error
    return open_machine(settings)


def inventory(
    settings: Settings,
    host: Callable[[], HostFacts],
    clock: Clock,
    *,
    answer_s: float = ANSWER_S,
) -> Reconciler:
    """Make the inventory with the sources in the settings; `start` opens the connections.

    `answer_s`: timeout of libvirt in a reading. Raises `ConfigError`.
    """
    try:
        sets = CpuSets.parse(settings.cpu_dedicated_set, settings.cpu_shared_set)
    except ValueError as error:
        raise ConfigError(as_message(error)) from error
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
    return Reconciler(
        libvirt,
        ovs,
        Pci(settings.sysfs_root),
        host,
        clock,
        debounce_s=settings.debounce_s,
        slow_timer_s=settings.reconcile_s,
    )


def enforcer(owned: Ownership) -> Enforcer:
    """Make the only writer of masks and DDIO's ways of a machine."""
    machine = owned.machine
    keeper: Keeper | None = owned.snapshot
    if owned.snapshot is not None and machine.ports is not None:
        keeper = PortsOff(owned.snapshot, machine.ports)
    return Enforcer(machine.allocator, machine.ddio, keeper, machine.dca, machine.port_ways)


class HostUnreadable(OSError):
    """The host's own facts cannot be read now. `message` has the reason."""

    def __init__(self, why: Message) -> None:
        super().__init__(str(why))
        self.message = why


def agent(
    settings: Settings,
    owned: Ownership,
    source: FactsSource,
    host: Callable[[], HostFacts],
    language: Language,
    observer: Observer | None = None,
    heartbeat: Heartbeat | None = None,
    drift: Callable[[policy.Policy], tuple[Reason, ...]] = lambda running: (),
    left: HandedOver | None = None,
) -> Agent:
    """Join all parts; `observer` gets the values of metrics, `heartbeat` each iteration.

    `language` makes the text of log lines.
    `drift` returns differences between the files and the running agent, given the running policy.
    `left`: the adopted state of the last agent.

    Raises `PolicyError` and `StrategyError` for an invalid policy or strategy.
    """

    machine = owned.machine

    def read(path: pathlib.Path | None) -> policy.Policy:
        try:
            facts = host()
        except (OSError, ValueError) as error:
            said = message("host-facts-unreadable", error=as_message(error))
            problem = policy.Problem("", None, said)
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
        clock=machine.clock,
        sentence=language.sentence,
    )
    status = Status(
        mode=settings.mode,
        pid=os.getpid(),
        version=importlib.metadata.version("iat-nova"),
        strategy=settings.strategy,
        interval_s=parameters.interval_s,
        started_s=machine.clock.wall(),
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
        machine.clock,
        language,
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
        shadow = ShadowStrategy(name, make_shadow, parameters, machine.clock.wall(), shadow_policy)
    pause, holds = PauseFile(settings.state_dir), Holds(settings.state_dir)
    parts = Parts(
        inventory=source,
        policies=PolicyKeeper(first, read_policy, policy_file.again, journal, source.changed),
        make_strategy=make_strategy,
        counters=machine.counters,
        enforcer=enforcer(owned),
        journal=journal,
        clock=machine.clock,
        paused=lambda: pause.current(machine.clock.wall()),
        holds=lambda: holds.current(machine.clock.wall()),
        placement=ProviderFiles(settings).compare,
        drift=drift,
        observe=settings.mode == "observe",
        outside=owned.outside(),
        shadow=shadow,
        monitor=machine.monitor,
        succession=owned.succession,
        left=left,
    )
    return Agent(parts)


def host_reader(
    settings: Settings,
    machine: Machine,
    first: Callable[[], object] = tuple,
    left: HandedOver | None = None,
) -> Callable[[], HostFacts]:
    """Return a function that reads the host's own facts at each call, such as online CPUs.

    `first` is called before each reading: settings of an earlier agent must not be taken for
    original settings. `left`: the adopted state of the last agent, with the original DDIO ways.

    Raises `HardwareError` if the cache domains cannot be read now. The function raises `OSError`
    if they cannot be read later.
    """
    allocator, cpus = machine.allocator, machine.watch()
    domains = settled(cpus, allocator.domains) if left is None else left.domains
    found = {domain.id: domain.ddio_found for domain in domains}

    def read() -> HostFacts:
        try:
            first()
            domains = settled(cpus, allocator.domains)
            domains = machine.locate(domains)
        except HardwareError as error:
            raise HostUnreadable(error.message) from error
        as_found = (  # the emulated server gives DDIO's ways as they are now
            dataclasses.replace(one, ddio_found=found.setdefault(one.id, one.ddio_found))
            for one in domains
        )
        return read_host(
            tuple(as_found),
            settings.sysfs_root,
            wall_s=machine.clock.wall(),
            unseen_domains=machine.unseen(domains),
        )

    return read
