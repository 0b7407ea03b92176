# SPDX-License-Identifier: Apache-2.0
"""Open a host's sources by the settings: machine, inventory, facts of the host."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from iat_nova.agent.hand_over import HandedOver
from iat_nova.common import plugins
from iat_nova.common.clock import Clock, SystemClock
from iat_nova.conf import ConfigError, Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.host import backends, probe
from iat_nova.hardware.host.machine import Machine
from iat_nova.hardware.kernel.cpu_watch import settled
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.host import read_host
from iat_nova.inventory.libvirt import ANSWER_S, LibvirtSource
from iat_nova.inventory.ovs import OvsSource
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.inventory.spool import Spool
from iat_nova.model import HostFacts
from iat_nova.model.message import Message, as_message, message


def machine(settings: Settings) -> Machine:
    """Open the machine the settings name. Raises `ConfigError`, `HardwareError`."""
    if settings.hardware != "auto":
        return _platform(settings)
    return host_machine(settings, probe.Host())


def host_machine(settings: Settings, host: probe.Host) -> Machine:
    """Choose the interfaces of a real host; nothing is written. Raises `HardwareError`."""
    wanted = backends.Preferences(
        cat={"pqos-os": "resctrl"}.get(settings.cat_interface, settings.cat_interface),
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
        settings.libvirt_uri,
        sets,
        Spool(settings.spool_dir),
        answer_s=answer_s,
        sysfs_root=settings.sysfs_root,
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


class HostUnreadable(OSError):
    """The host's own facts cannot be read now. `message` has the reason."""

    def __init__(self, why: Message) -> None:
        super().__init__(str(why))
        self.message = why


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
