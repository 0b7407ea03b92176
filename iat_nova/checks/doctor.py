# SPDX-License-Identifier: Apache-2.0
"""Findings of an agent with these settings on this host, and whether the agent could enforce.

The findings are on the hardware (`hardware.host.probe`), the configuration, the policy, the
tenants, and settings that an earlier agent left. Reads only, without any change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import parse_qs

from iat_nova import policy
from iat_nova.agent import policy_file, restoring, sources
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.checks import rights
from iat_nova.common.clock import SystemClock
from iat_nova.common.config_files import may_read
from iat_nova.common.cpulist import format_cpus
from iat_nova.common.kernel_files import absent, exists
from iat_nova.conf import ConfigError, Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.counters.monitor import offered
from iat_nova.hardware.ddio.rootport import RootPorts
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.cures import cache_allocation
from iat_nova.hardware.host.machine import ChosenInterface, Machine
from iat_nova.hardware.host.probe import Finding, Host, Level
from iat_nova.inventory.host import read_host
from iat_nova.model import CacheDomain, Facts, Message, Source, SourceProblem, Trouble, message
from iat_nova.model.message import as_message
from iat_nova.store import records
from iat_nova.strategies import registry as strategies

OVSDB_SOCKET = Path("/run/openvswitch/db.sock")
"""The socket on which ovsdb-server of the distributions' packages listens."""
OVSDB_SERVER = Path("/usr/sbin/ovsdb-server")
"""The program of Open vSwitch's database."""
LIBVIRT_SOCKETS = (Path("/run/libvirt/virtqemud-sock"), Path("/run/libvirt/libvirt-sock"))
"""The sockets of libvirt's daemon for QEMU: of its own, and of the daemon for all drivers."""
LIBVIRT_UNITS = (
    ("virtqemud", Path("/usr/sbin/virtqemud")),
    ("libvirtd", Path("/usr/sbin/libvirtd")),
)
"""The units of libvirt with their programs; the first installed one is started."""

QEMU_URI = "qemu:///system"
"""The address of the host's guests, as nova-compute uses it."""
_GIVE_RIGHT = message("give-dac-override")
_ANSWER_S = 30.0  # timeout of libvirt: many guests on a busy host take seconds


def as_service(settings: Settings, host: Host) -> list[Finding]:
    """Examine the host with the rights of the service, if this process can assume these rights.

    The first finding names the rights.
    """
    service = rights.service()
    who = service.existing()
    try:
        rows = rights.run_as(who, lambda: records.unstructure(examine(settings, host)))
    except rights.NotPossible as reason:
        state = message("rights-of-user", cause=reason.message, account=service.described())
        asked = Finding("rights", Level.NOTE, state, reason.remedy)
        return [asked, *map(_without_right, examine(settings, host))]
    state = message("rights-of-service", account=who.described())
    found = records.structure(rows, list[Finding])
    return [Finding("rights", Level.OK, state), *found]


def _without_right(finding: Finding) -> Finding:
    """Return a finding without the advice to give the service a right.

    The service may have the right: the finding was made with the rights of the user.
    """
    if finding.remedy != _GIVE_RIGHT:
        return finding
    return dataclasses.replace(finding, remedy=None)


def examine(settings: Settings, host: Host) -> list[Finding]:
    """Examine the host; return findings with the verdict last.

    Where the CPU has no cache allocation and no agent can start, this finding comes first, and the
    other findings have no remedy: none would help. Otherwise see `_in_order`.
    """
    configured = _configuration(settings)
    machine, interfaces = _choose(settings, host)
    agent = restoring.writer(host)
    found = probe.findings(host, agent=agent)
    found += _left_behind(settings, host, agent)
    found += _tenants(settings, host, machine)
    found += configured
    found += interfaces
    if machine is not None:
        found += map(_chosen, machine.choices)
    if machine is None and (refused := probe.without_cat(host)) is not None:
        cause = probe.refusal("cache allocation", refused, Level.IMPOSSIBLE)
        causes = [cause, *(one for one in configured if one.level is Level.IMPOSSIBLE)]
        rest = [one for one in found if one.state != cause.state and one not in causes]
        effects = [dataclasses.replace(one, remedy=None) for one in rest]
        return [*causes, *effects, _verdict(causes, settings)]
    found = list(dict.fromkeys(found))  # what the configuration and its use both show
    return [*_in_order(found), _verdict(found, settings)]


_STOPS = (Level.IMPOSSIBLE, Level.OBSERVE)
"""Levels of findings that keep an agent from its start, or from enforcing."""


def _in_order(found: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their effect, each cause and each remedy once.

    Findings that keep the agent from its start come first, then findings that keep it from
    enforcing, then all others with a remedy. Findings of a place keep the order of repair.
    """
    ordered: list[Finding] = []
    for one in sorted(found, key=_rank):
        worse = [other.state for other in ordered if other.level in _STOPS]
        if one.level is Level.MISSING and one.state in worse:
            continue
        if one.remedy in [other.remedy for other in ordered]:
            one = dataclasses.replace(one, remedy=None)  # noqa: PLW2901 - shown already
        ordered.append(one)
    return ordered


def _rank(finding: Finding) -> int:
    """Return the place of a finding: by its level, then by whether it has a remedy."""
    repairable = finding.remedy is not None and finding.level is not Level.CHOSEN
    return {Level.IMPOSSIBLE: 0, Level.OBSERVE: 1}.get(finding.level, 2 if repairable else 3)


def _chosen(choice: ChosenInterface) -> Finding:
    """Return the finding on a chosen interface."""
    state = message("interface-chosen", chosen=choice.chosen, cause=choice.why)
    return Finding(choice.role, Level.CHOSEN, state, choice.remedy)


def can_enforce(found: list[Finding]) -> bool:
    """Tell whether an agent could start and write on this host."""
    return not any(one.level in _STOPS for one in found)


def _choose(settings: Settings, host: Host) -> tuple[Machine | None, list[Finding]]:
    """Choose the interfaces as the agent would; without a choice, return the reason as a finding.

    Further findings: root ports that the agent may switch, the monitoring of tenants, and a kernel
    that refuses the register writes of libpqos.
    """
    found = []
    try:
        machine = sources.host_machine(settings, host)
        if isinstance(machine.dca, RootPorts):
            found.append(Finding("root ports", Level.OK, machine.dca.described()))
        if machine.monitor is not None and (offer := offered(host.fs)) is not None:
            found.append(Finding("monitoring", Level.OK, offer.described()))
        if "pqos-msr" in machine.parts and (refused := probe.writes_refused(host)) is not None:
            found.append(probe.refusal("masks", refused, Level.OBSERVE))
    except HardwareError as error:
        return None, [probe.refusal("interfaces", error, Level.IMPOSSIBLE)]
    return machine, found


def _left_behind(settings: Settings, host: Host, agent: int | None) -> list[Finding]:
    """Return whether an agent runs, or whether an agent ended without a restore."""
    left = restoring.hand_over_files(settings)
    if agent is not None:
        if cause := left.unreadable:
            state = message("agent-asked-unreadably", pid=agent, cause=as_message(cause))
        else:
            state = message("agent-hands-over" if left.asked else "agent-runs", pid=agent)
        return [Finding("agent", Level.OK, state)]
    try:
        keeper = restoring.snapshot(settings, host)
        pending, away = keeper.pending, keeper.out_of_reach()
        groups, narrowed = host.resctrl.left_over(), _narrowed(left, host)
    except HardwareError as error:
        return [probe.refusal("snapshot", error, Level.IMPOSSIBLE)]
    if away:
        state = message("settings-out-of-reach", settings=away)
        return [Finding("snapshot", Level.NOTE, state, message("bring-back"))]
    if pending:
        return [_not_restored(left)]
    if groups:
        state = message("groups-left-behind", groups=tuple(groups))
        return [Finding("left behind", Level.NOTE, state, message("restore-host"))]
    return narrowed


def _narrowed(left: HandOverFiles, host: Host) -> list[Finding]:
    """Return whether the default group has few ways, which an agent may have left to it."""
    subject = "default group"
    if cache_allocation(host) or not (masks := host.resctrl.narrowed()):
        return []
    try:
        left.snapshot()
    except HardwareError as error:
        return [Finding(subject, Level.NOTE, error.state, message("restore-host"))]
    lines = r"\n".join(
        f"{resource}:{';'.join(f'{domain}={mask}' for domain, mask in by_domain.items())}"
        for resource, by_domain in masks.items()
    )
    widen = message("widen-default", lines=lines, path=str(host.fs.root))
    return [Finding(subject, Level.NOTE, message("default-narrowed"), widen)]


def _not_restored(left: HandOverFiles) -> Finding:
    if left.lately:
        state = message("handed-over-lately", within_s=left.within_s)
        return Finding("hand-over", Level.NOTE, state, message("adopt-or-restore"))
    return Finding("snapshot", Level.NOTE, message("ended-unrestored"), message("restore-host"))


def _configuration(settings: Settings) -> list[Finding]:
    files = tuple(settings.read_files)
    read = message("files-read", files=files) if files else message("no-file-read")
    found = [Finding("configuration files", Level.OK, read)]
    if denied := tuple(name for name in files if not may_read(name)):
        state = message("files-denied", files=denied)
        remedy = message("list-file", path=denied[0])
        found = [Finding("configuration files", Level.IMPOSSIBLE, state, remedy)]
    if settings.hardware == "emulated":
        remedy = message("set-option", option="hardware", value="auto")
        state = message("hardware-emulated")
        found.append(Finding("configuration", Level.NOTE, state, remedy))
    if settings.mode == "observe":
        remedy = message("enforce-later")
        found.append(Finding("configuration", Level.NOTE, message("mode-observe"), remedy))
    found += _strategies(settings, strategies.find)
    try:
        if settings.policy_file is not None:
            policy_file.read(settings.policy_file)
    except policy.PolicyError as error:
        found.append(_refused_policy(settings, error))
    return found


def _strategies(settings: Settings, make: Callable[[str], object]) -> list[Finding]:
    """Return the configured strategies that cannot be used."""
    found = []
    for option, name in (("strategy", settings.strategy), ("shadow", settings.shadow)):
        try:
            if name:
                make(name)
        except strategies.StrategyError as error:
            remedy = message("see-option", option=option)
            found.append(Finding("strategy", Level.IMPOSSIBLE, as_message(error), remedy))
    return found


def _refused_policy(settings: Settings, error: policy.PolicyError) -> Finding:
    file = settings.policy_file
    check = message("check-policy", path=str(file)) if file else message("check-default-policy")
    return Finding("policy", Level.IMPOSSIBLE, message("several", causes=error.located), check)


def _tenants(settings: Settings, host: Host, machine: Machine | None) -> list[Finding]:
    found: list[Finding] = []
    domains: tuple[CacheDomain, ...] = ()
    if machine is not None:
        allocator = machine.allocator
        # libpqos takes its lock to list the domains, which would disturb an agent.
        try:
            if isinstance(allocator, PqosAllocator):
                domains = allocator.look()
            else:
                domains = allocator.domains()
        except HardwareError as error:
            found.append(probe.refusal("cache domains", error))
    try:
        facts = _facts(settings, domains)
    except (OSError, ValueError, ConfigError) as error:
        return [*found, Finding("inventory", Level.IMPOSSIBLE, as_message(error))]
    found += _sources(settings, facts)
    found += [
        Finding(
            "cachetune",
            Level.OBSERVE,
            message("cache-tuned", guest=guest.name),
            message("remove-cachetune", guest=guest.name),
        )
        for guest in facts.guests
        if guest.cachetune
    ]
    found += _bandwidth(settings, domains)
    return found + (_policy(settings, host, facts) if domains else [])


def _bandwidth(settings: Settings, domains: tuple[CacheDomain, ...]) -> list[Finding]:
    """Return the GB/s of 100 % memory bandwidth, if the CPU's limits are in GB/s."""
    subject, gbps = "bandwidth limits", settings.memory_bandwidth_gbps
    absolute = [one.bandwidth for one in domains if one.bandwidth and not one.bandwidth.percent]
    if absolute and gbps is None:
        state, remedy = message("bandwidth-unmeasured"), message("measure-bandwidth")
        return [Finding(subject, Level.NOTE, state, remedy)]
    if absolute:
        return [Finding(subject, Level.OK, message("bandwidth-measured", gbps=gbps))]
    if domains and gbps is not None:
        state, remedy = message("bandwidth-unused"), message("remove-option")
        return [Finding(subject, Level.NOTE, state, remedy)]
    return []


def _facts(settings: Settings, domains: tuple[CacheDomain, ...]) -> Facts:
    source = sources.inventory(
        settings,
        lambda: read_host(domains, settings.sysfs_root, wall_s=time.time()),
        SystemClock(),
        answer_s=_ANSWER_S,
    )
    with _quiet("iat_nova.inventory"), contextlib.closing(source):
        source.start()
        return source.facts()


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a logger whose messages become findings."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _sources(settings: Settings, facts: Facts) -> list[Finding]:
    """Return the guests and bridges that libvirt and Open vSwitch show, or their problems."""
    found = []
    failing = {one.source for one in facts.problems if one.kind is not Trouble.WAITING}
    waiting = {one.source for one in facts.problems if one.kind is Trouble.WAITING}
    for one in facts.problems:
        state = one.message
        if one.kind is Trouble.WAITING:
            if one.source in failing:
                continue  # a warning has the source's problem already
            state = message("source-not-answered", source=state)
        level = Level.OBSERVE if one.source in waiting else Level.MISSING
        found.append(Finding(one.source.value, level, state, _remedy(one, settings)))
    silent = failing | waiting
    if Source.LIBVIRT not in silent:
        state = message("guests-seen", count=len(facts.guests), uri=settings.libvirt_uri)
        found.append(Finding(Source.LIBVIRT.value, Level.OK, state))
    if facts.switch is not None and Source.SWITCH not in silent:
        cpus, bridges = format_cpus(facts.switch.pmd_cpus), len(facts.switch.bridges)
        state = (
            message("switch-with-pmd", bridges=bridges, cpus=cpus)
            if cpus
            else message("switch-without-pmd", bridges=bridges)
        )
        found.append(Finding(Source.SWITCH.value, Level.OK, state))
    warnings = facts.switch.all_warnings if facts.switch is not None else ()
    told = [one for one in warnings if one not in facts.warnings]
    return found + [Finding("virtual switch", Level.NOTE, one) for one in told]


def _remedy(problem: SourceProblem, settings: Settings) -> Message | None:
    """Return the first remedy for a source's problem that no evidence excludes."""
    if problem.kind is Trouble.UNREADABLE:
        return message("report-traceback")
    cures = CURES.get(problem.source, ())
    return next((remedy(settings) for remedy, unless in cures if not unless(settings)), None)


def _libvirt_sockets(settings: Settings) -> Iterable[Path]:
    """Return the Unix sockets at which libvirt may listen by the option."""
    chosen = parse_qs(settings.libvirt_uri.partition("?")[2]).get("socket")
    return LIBVIRT_SOCKETS if chosen is None else map(Path, chosen)


def _libvirt_unit() -> str | None:
    """Return the installed unit of libvirt, None if libvirt is not installed."""
    return next((unit for unit, program in LIBVIRT_UNITS if exists(program)), None)


def _ovsdb_socket(settings: Settings) -> Path | None:
    kind, _, place = str(settings.ovsdb_connection).partition(":")
    return Path(place) if kind == "unix" else None


def _ovsdb_answers(settings: Settings) -> bool:
    """Return whether a program listens at the configured address of OVSDB."""
    if (path := _ovsdb_socket(settings)) is not None:
        return _listens(path)
    host, _, port = str(settings.ovsdb_connection).removeprefix("tcp:").rpartition(":")
    with contextlib.suppress(OSError, ValueError):
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
        return True
    return False


def _listens(path: Path) -> bool:
    """Return whether a program accepts connections at a Unix socket."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        client.connect(str(path))
        return True
    return False


def _is_socket(path: Path) -> bool:
    """Return whether a path is a socket, as far as this process may see."""
    try:
        return path.is_socket()
    except PermissionError:
        return False


def _denied(path: Path | None) -> bool:
    """Return whether a socket is there and this process may not connect to it: unix(7)."""
    if path is None:
        return False
    try:
        path.stat()
    except OSError as error:  # EACCES: of a folder above
        return not absent(error)
    return not os.access(path, os.W_OK, effective_ids=True)


Cure: TypeAlias = tuple[Callable[[Settings], Message], Callable[[Settings], object]]

CURES: Mapping[Source, tuple[Cure, ...]] = {
    Source.LIBVIRT: (
        (lambda it: _GIVE_RIGHT, lambda it: not any(map(_denied, _libvirt_sockets(it)))),
        (
            lambda it: message("set-option", option="libvirt_uri", value=QEMU_URI),
            lambda it: it.libvirt_uri == QEMU_URI or not any(map(_is_socket, LIBVIRT_SOCKETS)),
        ),
        (
            lambda it: message("see-log", unit=_libvirt_unit() or "libvirtd"),
            lambda it: not any(map(_listens, _libvirt_sockets(it))),
        ),
        (lambda it: message("install-libvirt"), lambda it: _libvirt_unit()),
        (lambda it: message("start-libvirt", unit=_libvirt_unit()), lambda it: False),
    ),
    Source.SWITCH: (
        (lambda it: _GIVE_RIGHT, lambda it: not _denied(_ovsdb_socket(it))),
        (
            lambda it: message("set-option", option="ovsdb_connection", value=_ovsdb_address()),
            lambda it: str(it.ovsdb_connection).startswith(("unix:", "tcp:")),
        ),
        (lambda it: message("restart-switch"), lambda it: not _ovsdb_answers(it)),
        (
            lambda it: message("use-ovsdb-socket", address=_ovsdb_address()),
            lambda it: it.ovsdb_connection == _ovsdb_address() or not _is_socket(OVSDB_SOCKET),
        ),
        (
            lambda it: message("set-option", option="ovsdb_connection", value="none"),
            lambda it: exists(OVSDB_SERVER),
        ),
        (lambda it: message("start-switch"), lambda it: False),
    ),
}
"""Remedies of a source that does not answer, each with the evidence that it cannot help."""


def _ovsdb_address() -> str:
    return f"unix:{OVSDB_SOCKET}"


def _policy(settings: Settings, host: Host, facts: Facts) -> list[Finding]:
    """Check the policy, and the resulting tenants for hyper-threads of shared cores."""
    try:
        loaded = policy_file.load(settings.policy_file, facts.host)
    except policy.PolicyError as error:
        return [_refused_policy(settings, error)]
    if unusable := _strategies(settings, lambda name: strategies.make(name, loaded.parameters)):
        return unusable
    found = [Finding("policy", Level.OK, message("policy-usable", source=loaded.source))]
    classified = loaded.classify(facts, {})
    owner = {
        cpu: tenant.name
        for inventory in classified.domains.values()
        for tenant in inventory.tenants
        for cpu in tenant.cpus
    }
    return found + probe.split_siblings(host.topology, owner)


def _verdict(found: list[Finding], settings: Settings) -> Finding:
    level, verdict = _of_levels(found, settings)
    if settings.hardware == "emulated":
        verdict = message("with-real-hardware", verdict=verdict)
    return Finding("verdict", level, verdict)


def _of_levels(found: list[Finding], settings: Settings) -> tuple[Level, Message]:
    """Return the worst level that prevents enforcement, and the agent's resulting behaviour."""
    for level, code in ((Level.IMPOSSIBLE, "would-not-start"), (Level.OBSERVE, "would-observe")):
        if subjects := tuple(dict.fromkeys(one.subject for one in found if one.level is level)):
            return level, message(code, subjects=subjects)
    enforces = settings.mode == "enforce"
    return Level.OK, message("would-enforce" if enforces else "would-enforce-once-set")
