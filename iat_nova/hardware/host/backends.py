# SPDX-License-Identifier: Apache-2.0
"""The choice of a host's interfaces: by availability or by configuration, with reasons."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
from collections.abc import Callable, Iterable

from iat_nova.common.clock import Clock
from iat_nova.hardware.api import HardwareError, joined
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.cat.pqos_lib import load
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, DEVICES, PORTS
from iat_nova.hardware.cat.resctrl_text import hexadecimal
from iat_nova.hardware.counters import events
from iat_nova.hardware.counters.monitor import BANDWIDTH, OCCUPANCY, Monitor, offered
from iat_nova.hardware.ddio.iordt_classes import DeviceClass, check_usable
from iat_nova.hardware.ddio.iordt_monitor import PortMonitor
from iat_nova.hardware.ddio.rootport import RootPorts
from iat_nova.hardware.ddio.ways import Domains, FixedDdio, IoAllocDdio, MsrDdio, with_ways
from iat_nova.hardware.host import counter_choice
from iat_nova.hardware.host.cures import cache_allocation
from iat_nova.hardware.host.machine import ASKED, ChosenInterface, Machine, TenantsAndPorts
from iat_nova.hardware.host.probe import Host, without_cat, writes_refused
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.cpu_watch import CpuWatch, settled
from iat_nova.hardware.kernel.msr import L3_MASK, MsrError
from iat_nova.hardware.kernel.rollback import Restorable
from iat_nova.model import EIGHTHS, BandwidthControl, CacheDomain, Message, WayMask, message

PQOS, PORT_DCA, DEVICE_CLASS, PORT_RMIDS = "pqos-msr", "port dca", "ddio iordt", "iordt rmids"
"""Names of parts: libpqos, root ports, devices' class and RMIDs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Preferences:
    """The operator's choice of interfaces; ``auto`` takes the first usable interface.

    `cat`: auto, resctrl, pqos-msr. `ddio`: auto, msr, io_alloc, iordt, none.
    `cha_slices`: LLC slices counted in every package, None for all; at least one slice per cluster
    of sub-NUMA clustering. `memory_bandwidth_gbps`: memory bandwidth of
    a cache domain, for limits that are not in percent. `port_dca`: switch the root ports in
    `dca_off_ports` and `dca_ports`. `monitor`: monitor the LLC by tenant.
    """

    cat: str = "auto"
    ddio: str = "auto"
    cha_slices: int | None = 1
    memory_bandwidth_gbps: float | None = None
    port_dca: bool = False
    dca_off_ports: tuple[str, ...] = ()
    dca_ports: tuple[str, ...] = ()
    monitor: bool = False


def choose(host: Host, clock: Clock, wanted: Preferences = Preferences()) -> Machine:
    """Choose and open the interfaces of a host, without any write.

    The agent keeps its interfaces until its end. So if a CPU goes online or offline during the
    choice, the choice is repeated. Raises `HardwareError` if a required role cannot be filled.
    """
    cpus = CpuWatch(host.topology)
    return settled(cpus, lambda: _choose(host, clock, wanted), lasting=True)


def _choose(host: Host, clock: Clock, wanted: Preferences) -> Machine:
    cat_choice = _cat(host, wanted.cat)

    def domains() -> tuple[CacheDomain, ...]:  # DDIO and the allocator need each other
        return allocator.domains()

    ddio, ddio_choice = _ddio(host, wanted.ddio, domains, cat_choice.chosen)
    reader, reader_choice = counter_choice.ddio_counters(host, wanted.cha_slices)
    tells_hits = host.model is not None and host.model.cha is not None
    found: dict[int, WayMask | None] = {}

    def complete(domain: CacheDomain) -> CacheDomain:
        if domain.id not in found:
            found[domain.id] = ddio.mask_of(domain)
        # Devices need a class of I/O RDT, or the highest class, which the kernel refuses to groups.
        spared = isinstance(ddio, DeviceClass) or (
            isinstance(ddio, IoAllocDdio) and ddio.state() == "disabled"
        )
        return dataclasses.replace(
            domain,
            classes=max(1, domain.classes - int(spared)),
            ddio_found=found[domain.id],
            ddio_resizable=not isinstance(ddio, FixedDdio),
            ddio_counters=tells_hits and reader is not None,
            bandwidth=_of_the_whole(domain.bandwidth, wanted.memory_bandwidth_gbps),
        )

    allocator = _allocator(host, cat_choice.chosen, complete)
    counters, counters_choice = counter_choice.counters(host, clock, reader)
    parts: dict[str, Restorable] = {DEVICE_CLASS: ddio} if isinstance(ddio, DeviceClass) else {}
    counted = _port_monitor(host) if wanted.monitor and parts else None
    if counted is not None:
        parts[PORT_RMIDS] = counted
    parts[cat_choice.chosen] = allocator  # after devices, which leave their class first
    if not isinstance(ddio, FixedDdio):
        parts[f"ddio {ddio_choice.chosen}"] = ddio
    ports = None
    if wanted.port_dca:
        ports = parts[PORT_DCA] = root_ports(host, wanted.dca_off_ports, wanted.dca_ports)

    def inspect() -> tuple[Message, ...]:
        devices = ddio.inspect() if isinstance(ddio, DeviceClass) else ()
        return (*allocator.inspect(), *devices, *(ports.inspect() if ports else ()))

    def locate(found: tuple[CacheDomain, ...]) -> tuple[CacheDomain, ...]:
        found = found if ports is None else ports.assign(found)
        return ddio.assign(host.roots.pci, found) if isinstance(ddio, DeviceClass) else found

    return Machine(
        counters,
        allocator,
        ddio,
        clock,
        dca=ports,
        host=host,
        choices=(cat_choice, ddio_choice, counters_choice, reader_choice),
        parts=parts,
        inspect=inspect,
        forget=found.clear,
        port_ways=ddio if isinstance(ddio, DeviceClass) else None,
        locate=locate,
        monitor=_monitor(host, cat_choice, counted) if wanted.monitor else None,
    )


def _monitor(
    host: Host, cat: ChosenInterface, ports: PortMonitor | None
) -> Monitor | TenantsAndPorts:
    """Return a monitor of tenants and ports. Raises `HardwareError` without monitoring."""
    offer = offered(host.fs) if cat.chosen == "resctrl" else None
    if offer is None or not offer.events:
        raise HardwareError(
            message("monitoring-absent"),
            message("set-option", option="monitor_tenants", value="false"),
        )
    tenants = Monitor(host.fs, host.topology)
    return tenants if ports is None else TenantsAndPorts(tenants, ports)


def _port_monitor(host: Host) -> PortMonitor | None:
    """Return a monitor of ports.

    None without RMIDs for ports, without monitoring by resctrl, or without its ``debug``.

    Raises `HardwareError` if the host has no I/O RDT.
    """
    cpu, offer = host.io_rdt().cpu, offered(host.fs)
    if offer is None or not cpu.occupancy or host.fs.hardware_class(DEFAULT_GROUP) is None:
        return None
    return PortMonitor(
        host.fs,
        host.msr,
        host.topology,
        host.tags,
        OCCUPANCY if OCCUPANCY in offer.events else None,
        BANDWIDTH if cpu.traffic and BANDWIDTH in offer.events else None,
    )


def _of_the_whole(control: BandwidthControl | None, gbps: float | None) -> BandwidthControl | None:
    """Return the bandwidth control, with the value of 100 % if its limits are not in percent."""
    if control is None or control.percent or gbps is None:
        return control
    return dataclasses.replace(control, whole=round(gbps * EIGHTHS))


def root_ports(host: Host, ports: Iterable[str], switchable: Iterable[str]) -> RootPorts:
    """Check the root ports that an operator names, and return them; no register is written.

    Raises `HardwareError`.
    """
    if not _has_port_dca(host):
        raise HardwareError(message("port-dca-absent", cpu=host.cpu_model.name))
    made = RootPorts(ports, host.roots.pci, switchable)
    made.check()
    return made


def _has_port_dca(host: Host) -> bool:
    return host.model is events.SKYLAKE


def restorers(host: Host) -> dict[str, Restorable]:
    """Return restorers for the parts of every possible choice, by name; nothing is opened yet.

    Settings that one agent saved must be restored even if the next agent would choose other
    interfaces, or none. For example, a counter that cannot be opened must not prevent restoring
    masks.
    """
    # First: devices leave their class before their class goes.
    parts: dict[str, Restorable] = {
        DEVICE_CLASS: _device_class(host, host.resctrl.domains, FixedDdio(dict, ASKED)),
        PORT_RMIDS: PortMonitor(host.fs, host.msr, host.topology, host.tags),
    }
    parts[PQOS] = PqosAllocator(host.topology, host.roots.resctrl)
    parts["resctrl"] = Resctrl(host.fs, host.topology)
    parts["ddio msr"] = _register(host, host.resctrl.domains)
    if _has_port_dca(host):  # otherwise no agent saved ports, and the register has another meaning
        parts[PORT_DCA] = RootPorts((), host.roots.pci)
    parts["ddio io_alloc"] = IoAllocDdio(host.fs, host.resctrl.domains)
    return parts


def remove_left_over(host: Host, *, lost: bool = False) -> tuple[Message, ...]:
    """Remove our groups without a snapshot; only for the host's writer. Return messages.

    Devices leave their classes first, and their RMIDs. If that fails, the other groups are removed
    all the same. `lost`: see `Resctrl.remove_left_over`. Raises `HardwareError`.
    """
    refused: list[HardwareError] = []
    done: tuple[Message, ...] = ()
    groups = functools.partial(host.resctrl.remove_left_over, lost=lost)
    for step in (functools.partial(_release_devices, host), groups):
        try:
            done += step()
        except HardwareError as error:
            refused.append(error)
    if refused:
        raise joined(refused)
    return done


def _release_devices(host: Host) -> tuple[Message, ...]:
    done: tuple[Message, ...] = ()
    if any(name.startswith(DEVICES) for name in host.resctrl.own_groups()):
        devices = _device_class(host, host.resctrl.domains, FixedDdio(dict, ASKED))
        # Without the firmware's table no device can have been tagged.
        done += devices.release() if files.exists(host.roots.irdt) else devices.remove_groups()
    if any(name.startswith(PORTS) for name in host.fs.monitors()):
        ports = PortMonitor(host.fs, host.msr, host.topology, host.tags)
        done += ports.release() if files.exists(host.roots.irdt) else ports.remove_groups()
    return done


def _cat(host: Host, wanted: str) -> ChosenInterface:
    """Choose the interface for CAT: resctrl wherever the kernel offers resctrl.

    Raises `HardwareError` for a CPU without cache allocation, on which libpqos loads all the same.
    """
    if (refused := without_cat(host, flag=wanted == PQOS)) is not None:
        raise refused
    if wanted == PQOS:
        load()  # the error names the package to install
        return ChosenInterface("cat", wanted, ASKED)
    if (error := cache_allocation(host)) is not None:
        if wanted != "auto" or host.kernel_has_resctrl:
            raise error
        try:
            load()
        except HardwareError as absent:
            raise joined((error, absent)) from absent
        return ChosenInterface("cat", PQOS, message("pqos-instead", error=error.state))
    return ChosenInterface("cat", "resctrl", message("resctrl-arbitrates"))


def _allocator(
    host: Host, name: str, complete: Callable[[CacheDomain], CacheDomain]
) -> Resctrl | PqosAllocator:
    coupled = host.resctrl.coupled
    if name == PQOS:
        return PqosAllocator(
            host.topology,
            host.roots.resctrl,
            coupled=coupled,
            complete=complete,
            devices=host.roots.msr,
        )
    return Resctrl(
        host.fs,
        host.topology,
        coupled=coupled,
        read_register=_register_reader(host),
        complete=complete,
    )


def _register_reader(host: Host) -> Callable[[int, int], WayMask] | None:
    """Return a function that reads class masks from registers; None without driver or right."""
    first = min(host.topology.online())
    try:
        host.msr.read(first, L3_MASK)
    except MsrError as error:
        if error.code not in (errno.ENOENT, errno.ENXIO, errno.EIO, errno.EACCES, errno.EPERM):
            raise
        return None
    return lambda cpu, number: WayMask(host.msr.read(cpu, L3_MASK + number))


def _ddio(
    host: Host, wanted: str, domains: Domains, cat: str
) -> tuple[MsrDdio | IoAllocDdio | FixedDdio | DeviceClass, ChosenInterface]:
    if wanted == "iordt":
        return _iordt(host, domains, cat)
    refusals: list[HardwareError] = []
    if wanted in ("auto", "msr"):
        refused = _no_ddio_register(host)
        if refused is None:
            knob = _register(host, domains)
            return knob, ChosenInterface("ddio", "msr", message("ddio-register-usable"))
        state = message("ddio-not-by-msr", reason=refused.state)
        refusals.append(HardwareError(state, refused.remedy))
    if wanted in ("auto", "io_alloc"):
        alloc = IoAllocDdio(host.fs, domains)
        try:
            shut = alloc.shut()
        except HardwareError as error:
            state = message("ddio-not-by-io-alloc", reason=error.state)
            refusals.append(HardwareError(state, error.remedy))
        else:
            if not shut and alloc.state() != "not supported":
                offered_as = message("io-alloc-offered", state=alloc.state())
                return alloc, ChosenInterface("ddio", "io_alloc", offered_as)
            reason = message("io-alloc-not-offered")
            if shut:
                reason = message("io-alloc-shut", domains=tuple(map(str, shut)))
            refusals.append(HardwareError(message("ddio-not-by-io-alloc", reason=reason)))
    refused = joined(refusals) if refusals else None
    if wanted not in ("auto", "none") and refused is not None:
        state = message("ddio-interface-refused", wanted=wanted, reason=refused.state)
        raise HardwareError(state, refused.remedy)
    if refused is None:
        refused = HardwareError(ASKED)
    denied = wanted == "auto" and _has_ddio_register(host)
    fixed = FixedDdio(lambda: _static_ddio(host), refused.message)
    return fixed, ChosenInterface("ddio", "none", refused.state, denied, refused.remedy)


def _iordt(host: Host, domains: Domains, cat: str) -> tuple[DeviceClass, ChosenInterface]:
    """Return DDIO's ways as all devices' class of service. Raises `HardwareError` if unusable."""
    try:
        if cat != "resctrl":
            raise HardwareError(message("iordt-without-resctrl"))
        check_usable(host.io_rdt(), host.fs)
    except HardwareError as error:
        state = message("ddio-interface-refused", wanted="iordt", reason=error.state)
        raise HardwareError(state, error.remedy) from error
    found: MsrDdio | FixedDdio = FixedDdio(lambda: _static_ddio(host), ASKED)
    if _no_ddio_register(host) is None:
        found = _register(host, domains)
    return _device_class(host, domains, found), ChosenInterface("ddio", "iordt", ASKED)


def _device_class(host: Host, domains: Domains, found: MsrDdio | FixedDdio) -> DeviceClass:
    return DeviceClass(host.fs, host.msr, host.topology, host.tags, domains, found)


def _register(host: Host, domains: Domains) -> MsrDdio:
    return MsrDdio(host.msr, domains, host.topology, lambda: _ways(host))


def _ways(host: Host) -> int | None:
    """Return the number of an L3 cache's ways, None if resctrl has no L3."""
    files_of_l3 = (f"info/{name}/cbm_mask" for name in ("L3", "L3CODE"))
    return max(host.fs.parsed(one, hexadecimal, "0") for one in files_of_l3).bit_length() or None


def _has_ddio_register(host: Host) -> bool:
    return host.model is not None and host.model.ddio_msr


def _static_ddio(host: Host) -> dict[int, WayMask]:
    """Return DDIO's mask by cache domain, from the register if readable.

    Otherwise the ways that CPUID reports as shared with I/O, as resctrl shows these: correct unless
    firmware moved DDIO. Empty if unknown.
    """
    with contextlib.suppress(HardwareError):  # no register, driver or right: use CPUID's ways
        return {domain: WayMask(value) for domain, value in host.ddio_register().items()}
    try:
        shareable = host.fs.info().shareable_bits
    except HardwareError:
        return {}
    return {cache.id: shareable for cache in host.topology.caches()} if shareable else {}


def _no_ddio_register(host: Host) -> HardwareError | None:
    """Return why IIO_LLC_WAYS cannot be used, None if usable.

    No write is tried; instead the settings that forbid writes are checked.
    """
    if _has_ddio_register(host) and (refused := writes_refused(host)):
        return refused
    try:
        registers = host.ddio_register()
        for cache in host.topology.caches():
            with_ways(cache, registers[cache.id], registers[cache.id], _ways(host))
    except HardwareError as error:
        return error
    return None
