# SPDX-License-Identifier: Apache-2.0
"""What an agent with these settings would find on this host, and whether it could enforce.

Joins what the hardware offers (`hardware.probe`) with the configuration, the policy, who runs here,
and what an earlier agent left. Looks only; nothing is changed.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from dataclasses import astuple

from iat_nova import policy
from iat_nova.agent import policy_file, restoring, rights, wiring
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.common.clock import SystemClock
from iat_nova.common.config_files import may_read
from iat_nova.common.cpulist import format_cpus
from iat_nova.conf import ConfigError, Settings
from iat_nova.hardware import probe
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.machine import Machine
from iat_nova.hardware.monitor import offered
from iat_nova.hardware.pqos import PqosAllocator
from iat_nova.hardware.probe import Finding, Host, Level
from iat_nova.inventory.host import read_host
from iat_nova.model import CacheDomain, Facts, Message, message
from iat_nova.model.message import as_message
from iat_nova.report import sentences
from iat_nova.strategies import registry as strategies

_LIBVIRT = ("libvirt", "systemctl start libvirtd (or virtqemud); [iat] libvirt_uri")
_SWITCH = (
    "Open vSwitch",
    "systemctl start openvswitch-switch; without one: [iat] ovsdb_connection = none",
)
_SOURCES = {  # the code of a source's warning -> the source's name, and what mends it
    **dict.fromkeys(("libvirt-problem", "libvirt-problem-since", "libvirt-unanswered"), _LIBVIRT),
    **dict.fromkeys(
        (
            "ovsdb-not-connected",
            "ovsdb-lost",
            "ovsdb-not-followed",
            "ovsdb-unavailable",
            "ovsdb-busy",
            "ovsdb-empty",
            "ovsdb-columns-absent",
            "ovsdb-unanswered",
            "vswitchd-unanswered",
            "switch-stale",
        ),
        _SWITCH,
    ),
}
_ANSWER_S = 30.0  # for which libvirt is waited: of many guests on a busy host it takes seconds


def as_service(settings: Settings, host: Host) -> list[Finding]:
    """Look at everything with the rights of the service, where this process may take them on.

    The first finding says with whose rights.
    """
    service = rights.service()
    who = service.existing()
    try:
        rows = rights.run_as(who, lambda: [list(astuple(one)) for one in examine(settings, host)])
    except rights.NotPossible as reason:
        state = f"of the current user ({reason}); the service has others: {service}"
        asked = Finding("rights", Level.NOTE, state, reason.remedy)
        return [asked, *examine(settings, host)]
    found = [Finding(row[0], Level(row[1]), *row[2:]) for row in rows]
    return [Finding("rights", Level.OK, f"of the service: {who}"), *found]


def examine(settings: Settings, host: Host) -> list[Finding]:
    """Look at everything, in the order in which a person would mend it; the last is the verdict."""
    machine, interfaces = _choose(settings, host)
    agent = restoring.writer(host)
    found = probe.findings(host, ours=_groups_of_libpqos(settings, host), agent=agent)
    found += _left_behind(settings, host, agent)
    found += _tenants(settings, host, machine)
    found += _configuration(settings)
    found += interfaces
    if machine is not None:
        found += [
            Finding(one.role, Level.CHOSEN, f"{one.chosen}: {one.why}") for one in machine.choices
        ]
    return [*found, _verdict(found, settings)]


def can_enforce(found: list[Finding]) -> bool:
    """Tell whether nothing keeps an agent from starting and writing here."""
    return not any(one.level in (Level.IMPOSSIBLE, Level.OBSERVE) for one in found)


def _choose(settings: Settings, host: Host) -> tuple[Machine | None, list[Finding]]:
    """Choose the interfaces as the agent would; without them tell why it could not start.

    Also root ports that it may switch, and what it monitors.
    """
    found = []
    try:
        machine = wiring.host_machine(settings, host)
        if machine.ports is not None:
            found.append(Finding("root ports", Level.OK, str(machine.ports)))
        if machine.monitor is not None:
            found.append(Finding("monitoring", Level.OK, str(offered(host.fs))))
    except HardwareError as error:
        return None, [probe.refusal("interfaces", error, Level.IMPOSSIBLE)]
    return machine, found


def _left_behind(settings: Settings, host: Host, agent: int | None) -> list[Finding]:
    """Tell whether an agent runs, and whether one ended without restoring the hardware."""
    left = restoring.hand_over_files(settings)
    if agent is not None:
        more = "; its next end hands over" if left.asked else ""
        if why := left.unreadable:
            more = f"; {why}"
        return [Finding("agent", Level.OK, f"runs as process {agent}{more}")]
    try:
        keeper = restoring.snapshot(settings, host)
        pending, away = keeper.pending, keeper.out_of_reach()
    except HardwareError as error:
        return [probe.refusal("snapshot", error, Level.IMPOSSIBLE)]
    if away:
        state = f"not restored yet, out of reach: {'; '.join(away)}"
        remedy = "chcpu -e CPU, or for a root port: echo 1 >/sys/bus/pci/rescan; iat-nova restore"
        return [Finding("snapshot", Level.NOTE, state, remedy)]
    if pending:
        return [_not_restored(left)]
    if groups := host.resctrl.own_groups():
        state = f"groups of an earlier agent, without its snapshot: {', '.join(groups)}"
        return [Finding("left behind", Level.NOTE, state, "iat-nova restore")]
    return []


def _not_restored(left: HandOverFiles) -> Finding:
    """Tell why the host may have been left as an agent had it."""
    if left.lately:
        state = f"the last agent handed over: within {left.within_s:g} s the next one may adopt it"
        remedy = "systemctl start iat-nova-agent; or iat-nova restore"
        return Finding("hand-over", Level.NOTE, state, remedy)
    state = "an agent ended without restoring the original hardware settings"
    return Finding("snapshot", Level.NOTE, state, "iat-nova restore")


def _groups_of_libpqos(settings: Settings, host: Host) -> tuple[str, ...]:
    """Return the groups libpqos made for our agent; `_left_behind` reports what is not known."""
    try:
        return restoring.groups_of_libpqos(restoring.snapshot(settings, host), host)
    except HardwareError:
        return ()


def _configuration(settings: Settings) -> list[Finding]:
    """Tell what was read, and what the configuration keeps from being driven."""
    read = ", ".join(settings.read_files) or "none was read: every option has its default"
    found = [Finding("configuration files", Level.OK, read)]
    if denied := [name for name in settings.read_files if not may_read(name)]:
        state = f"the service may not read {', '.join(denied)}"
        found = [Finding("configuration files", Level.IMPOSSIBLE, state, f"ls -l {denied[0]}")]
    if settings.hardware == "emulated":
        state = "hardware = emulated: an emulated server is driven, nothing of this host"
        found.append(Finding("configuration", Level.NOTE, state, "[iat] hardware = auto"))
    if settings.mode == "observe":
        state = "mode = observe: decides and records, writes nothing"
        found.append(Finding("configuration", Level.NOTE, state, "[iat] mode = enforce"))
    return found


# --------------------------------------------------------------------------- who runs here


def _tenants(settings: Settings, host: Host, machine: Machine | None) -> list[Finding]:
    """Look at guests, virtual switch and policy."""
    found: list[Finding] = []
    domains: tuple[CacheDomain, ...] = ()
    if machine is not None:
        allocator = machine.allocator
        # libpqos takes its lock to tell the domains, which would disturb an agent.
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
        state = sentences.text(as_message(error))
        return [*found, Finding("inventory", Level.IMPOSSIBLE, state)]
    found += _sources(settings, facts)
    found += [
        Finding(
            "cachetune",
            Level.OBSERVE,
            f"{guest.name}: libvirt allocates cache to it",
            f"virsh edit {guest.name}: remove <cachetune>; then virsh shutdown and start it",
        )
        for guest in facts.guests
        if guest.cachetune
    ]
    found += _bandwidth(settings, domains)
    return found + (_policy(settings, host, facts) if domains else [])


def _bandwidth(settings: Settings, domains: tuple[CacheDomain, ...]) -> list[Finding]:
    """Tell what 100 % of memory bandwidth is where the CPU limits it in GB/s."""
    subject, gbps = "bandwidth limits", settings.memory_bandwidth_gbps
    absolute = [one.bandwidth for one in domains if one.bandwidth and not one.bandwidth.percent]
    if absolute and gbps is None:
        state = "none is set: how many GB/s a cache domain can move (100 %) is not known"
        remedy = "set [iat] memory_bandwidth_gbps; iat-nova qualify --only bandwidth measures it"
        return [Finding(subject, Level.NOTE, state, remedy)]
    if absolute:
        state = f"100 % is {gbps:g} GB/s of a cache domain ([iat] memory_bandwidth_gbps)"
        return [Finding(subject, Level.OK, state)]
    if domains and gbps is not None:
        state = "[iat] memory_bandwidth_gbps is not used: this CPU does not limit in GB/s"
        return [Finding(subject, Level.NOTE, state, "remove the option")]
    return []


def _facts(settings: Settings, domains: tuple[CacheDomain, ...]) -> Facts:
    """Read the full picture once."""
    source = wiring.inventory(
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
    """Keep a logger from telling what will be a finding."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def _sources(settings: Settings, facts: Facts) -> list[Finding]:
    """Tell what libvirt and Open vSwitch show, or why they show nothing."""
    found = []
    silent = set()
    waiting = {_source(one)[0] for one in facts.waiting_for}
    for one in (*facts.warnings, *facts.waiting_for):
        name, remedy = _source(one)
        said = one
        if one in facts.waiting_for:
            if name in silent:
                continue  # what is wrong with it was said
            said = message("source-not-answered", source=one)
        elif one.code == "libvirt-problem":
            said = Message("libvirt-problem-alone", one.values)
        silent.add(name)
        level = Level.OBSERVE if name in waiting else Level.MISSING
        found.append(Finding(name, level, sentences.text(said), remedy))
    if "libvirt" not in silent:
        state = f"{len(facts.guests)} guests at {settings.libvirt_uri}"
        found.append(Finding("libvirt", Level.OK, state))
    if facts.switch is not None and "Open vSwitch" not in silent:
        cpus = format_cpus(facts.switch.pmd_cpus)
        state = f"{len(facts.switch.bridges)} bridges, " + (
            f"PMD threads on CPUs {cpus}" if cpus else "no PMD threads"
        )
        found.append(Finding("Open vSwitch", Level.OK, state))
    warnings = facts.switch.warnings if facts.switch is not None else ()
    told = [sentences.text(one) for one in warnings if one not in facts.warnings]
    return found + [Finding("virtual switch", Level.NOTE, text) for text in told]


def _source(warning: Message) -> tuple[str, str | None]:
    """Return which source a warning is of, and what mends it."""
    return _SOURCES.get(warning.code, ("inventory", None))


def _policy(settings: Settings, host: Host, facts: Facts) -> list[Finding]:
    """Check policy and strategy, and look for cores shared by tenants they make."""
    check = f"iat-nova policy check {settings.policy_file or ''}".strip()
    try:
        loaded = policy_file.load(settings.policy_file, facts.host)
        strategies.make(settings.strategy, loaded.parameters)
    except policy.PolicyError as error:
        state = sentences.text(message("several", causes=error.located))
        return [Finding("policy", Level.IMPOSSIBLE, state, check)]
    except strategies.StrategyError as error:
        return [Finding("strategy", Level.IMPOSSIBLE, str(error), "[iat] strategy")]
    found = [Finding("policy", Level.OK, loaded.source)]
    classified = loaded.classify(facts, {})
    owner = {
        cpu: tenant.name
        for inventory in classified.domains.values()
        for tenant in inventory.tenants
        for cpu in tenant.cpus
    }
    return found + probe.split_siblings(host.topology, owner)


def _verdict(found: list[Finding], settings: Settings) -> Finding:
    on_this = "with hardware = auto " if settings.hardware == "emulated" else ""
    for level, says in (
        (Level.IMPOSSIBLE, "the agent cannot start"),
        (Level.OBSERVE, "the agent would only observe"),
    ):
        if reasons := probe.reasons(found, level):
            return Finding("verdict", level, f"{on_this}{says}: {'; '.join(reasons)}")
    once = "" if settings.mode == "enforce" else ", once [iat] mode = enforce is set"
    return Finding("verdict", Level.OK, f"{on_this}the agent can enforce here{once}")
