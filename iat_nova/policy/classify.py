# SPDX-License-Identifier: Apache-2.0
"""From facts to tenants: the tenants of each cache domain, and their settings by the policy.

Pure, without errors. An invalid extra spec is ignored with a warning. A guest without usable CPUs
is reported in a warning and becomes no tenant.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping

from iat_nova.model import (
    UNLIMITED,
    Attachment,
    CacheDomain,
    DeviceModel,
    DomainInventory,
    Facts,
    Guest,
    HostFacts,
    Message,
    Priority,
    Tenant,
    TenantKind,
    VirtualSwitch,
    WayRequest,
    message,
    pci_address,
)
from iat_nova.model.message import Value
from iat_nova.model.reasons import Code, Reason
from iat_nova.model.tenants import mark
from iat_nova.nova import extra_specs
from iat_nova.nova.extra_specs import Io, Wishes
from iat_nova.policy.owners import POOL, STACK, Owners, guest_id, owners_of, shared_devices
from iat_nova.policy.problems import of_spec
from iat_nova.policy.rules import Asked, ClassRule, Rules, WayBounds, model_of

HOST = "host"

_PRIORITY_ORDER = (Priority.BE, Priority.PC, Priority.STACK)


@dataclasses.dataclass(frozen=True, slots=True)
class Classified:
    """Tenants by cache domain, with their reasons.

    `io`: whether a guest counts as I/O, by guest id, input of the next call. `warnings` concern the
    host as a whole and include warnings of the facts; a tenant's own warnings are in the tenant.
    `reasons`: explanations by tenant id, and by guest id for members of the pool.
    """

    domains: Mapping[int, DomainInventory]
    io: Mapping[str, bool]
    warnings: tuple[Reason, ...]
    reasons: Mapping[str, Message]


@dataclasses.dataclass(frozen=True, slots=True)
class _Verdict:
    """The policy's settings for one guest, in all cache domains."""

    guest: Guest
    rule: ClassRule
    wishes: Wishes
    priority: Priority
    io: bool
    io_asked: bool  # set by the flavor or the class, not detected
    reason: Message
    warnings: tuple[Message, ...]


def classify(rules: Rules, facts: Facts, io_before: Mapping[str, bool]) -> Classified:
    """Turn facts into tenants. `io_before` is `Classified.io` of the last call."""
    guests = sorted(facts.guests, key=lambda guest: (guest.display_name, guest_id(guest)))
    shared = shared_devices(guests)
    verdicts = {
        guest_id(guest): _judge(
            rules,
            guest,
            io_before.get(guest_id(guest)),
            _domains(guest, facts.host),
            shared.get(guest_id(guest), ()),
        )
        for guest in guests
    }
    important = {key for key, verdict in verdicts.items() if verdict.priority is Priority.PC}
    owners = owners_of(facts, guests, important)
    warnings = list(owners.warnings)
    reasons = {key: verdict.reason for key, verdict in verdicts.items()}
    reasons |= _own_reasons(rules, facts.switch)
    domains = {}
    devices = _everyones_devices(facts)
    for seen in facts.host.domains:
        domain = dataclasses.replace(seen, reserved_ways=seen.reserving(rules.reserved_ways))
        tenants = _tenants(rules, facts, domain, verdicts, owners)
        here = {device for tenant in tenants for device in tenant.devices}
        elsewhere = tuple(sorted(devices - here))
        domains[domain.id] = DomainInventory(domain, tenants, elsewhere)
        warnings += _shortages(domain, tenants)
    warnings += _not_limited(domains.values())
    everyone = (tenant for inventory in domains.values() for tenant in inventory.tenants)
    stacked = any(tenant.kind is TenantKind.STACK for tenant in everyone)
    of_switch = () if facts.switch is None or stacked else facts.switch.all_warnings
    found = [Reason(Code.SOURCE, message("ask-doctor", problem=one)) for one in facts.warnings]
    found += [Reason(Code.TENANTS, one) for one in warnings]
    found += [Reason(Code.SOURCE, one) for one in of_switch]
    io = {key: verdict.io for key, verdict in verdicts.items()}
    return Classified(domains, io, tuple(found), reasons)


# ---------------------------------------------------------------------- one guest


def _judge(
    rules: Rules,
    guest: Guest,
    io_before: bool | None,
    domains: tuple[int, ...],
    notes: Iterable[Message],
) -> _Verdict:
    known, source = _extra_specs(rules, guest)
    specs = known or {}
    rule, why = _class_of(rules, Asked(guest, specs, domains))
    wishes = extra_specs.parse(specs)
    warnings = [*guest.warnings, *notes, *map(of_spec, wishes.problems)]
    if known is None and rule is rules.default:
        warnings.append(message("extra-specs-unknown", flavor=guest.flavor or "(unknown)"))
    if guest.cachetune:
        warnings.append(message("guest-tuned"))
    priority = Priority(wishes.priority) if wishes.priority else rule.priority
    asked = wishes.io or rule.io
    io, io_why = _io(rules, guest, asked, io_before)
    by_class = message("by-class", **{"class": rule.name})
    values: dict[str, Value] = {
        "class": rule.name,
        "why": why,
        "priority": str(priority),
        "priority_by": source if wishes.priority else by_class,
        "io": str(io).lower(),
    }
    if io_why is None:
        io_by = source if wishes.io else by_class
        reason = message("class-and-io-asked", **values, io_by=io_by)
    else:
        reason = message("class-and-io-found", **values, io_why=io_why)
    return _Verdict(
        guest, rule, wishes, priority, io, asked is not Io.AUTO, reason, tuple(warnings)
    )


def _extra_specs(rules: Rules, guest: Guest) -> tuple[Mapping[str, str] | None, Message]:
    """Return a guest's extra specs, None when unknown, and their source."""
    if guest.extra_specs is not None:
        return guest.extra_specs, message("by-extra-spec")
    return rules.flavors.get(guest.flavor or ""), message("by-flavors")


def _domains(guest: Guest, host: HostFacts) -> tuple[int, ...]:
    """Return the ids of the cache domains with CPUs of a guest."""
    cpus = {*guest.dedicated_cpus, *guest.floating_cpus}
    return tuple(domain.id for domain in host.domains if not cpus.isdisjoint(domain.cpus))


def _class_of(rules: Rules, asked: Asked) -> tuple[ClassRule, Message]:
    for rule in rules.classes:
        reason = rule.match.reason(asked)
        if reason is not None:
            return rule, reason
    return rules.default, message("no-class-matches")


def _io(rules: Rules, guest: Guest, asked: Io, before: bool | None) -> tuple[bool, Message | None]:
    """Decide whether a guest counts as I/O; with the reason if detected."""
    if asked is not Io.AUTO:
        return asked is Io.TRUE, None
    fast = [a for a in guest.attachments if a.model is not DeviceModel.NONE]
    if not fast:
        return False, message("io-no-device")
    rates = [a.packets_per_s for a in fast if a.packets_per_s is not None]
    if len(rates) < len(fast):
        kinds = tuple(sorted({str(a.kind) for a in fast}))
        return True, message("io-not-counted", kinds=kinds)
    threshold = rules.io_off_packets_per_s if before else rules.io_on_packets_per_s
    rate = sum(rates)
    io = rate >= threshold
    code = "io-at-or-above" if io else "io-below"
    return io, message(code, packets_per_s=rate, threshold_per_s=threshold)


# --------------------------------------------------------------------- one domain


def _tenants(
    rules: Rules,
    facts: Facts,
    domain: CacheDomain,
    verdicts: Mapping[str, _Verdict],
    owners: Owners,
) -> tuple[Tenant, ...]:
    """Return the domain's tenants: the stack, the guests by name, the pool and the host."""
    here = frozenset(domain.cpus)
    tenants = []
    stack_cpus = _in(owners.stack, here)
    if stack_cpus and facts.switch is not None:
        tenants.append(_stack(rules, facts.switch, domain, stack_cpus, owners))
    for key, verdict in verdicts.items():
        dedicated = _in(owners.dedicated.get(key, ()), here)
        emulator = _in(owners.emulator.get(key, ()), here)
        if dedicated or emulator:
            notes = owners.notes.get(key, ())
            tenants.append(_guest(verdict, domain, dedicated, emulator, notes))
    pool_cpus = _in(owners.floating, here)
    members = [
        verdict for key, verdict in verdicts.items() if here & owners.floats.get(key, frozenset())
    ]
    if pool_cpus and members:
        names = {guest.uuid: guest.display_name for guest in facts.guests}
        times = Counter(names.values())
        tenants.append(_pool(rules, domain, pool_cpus, members, owners, times))
    if host_cpus := _in(owners.host, here):
        tenants.append(_host(rules, domain, host_cpus))
    return tuple(tenants)


def _stack(
    rules: Rules,
    switch: VirtualSwitch,
    domain: CacheDomain,
    cpus: tuple[int, ...],
    owners: Owners,
) -> Tenant:
    ways, problems = _request(rules.stack_ways, domain, Wishes())
    return Tenant(
        id=STACK,
        name="vswitch",
        kind=TenantKind.STACK,
        priority=Priority.STACK,
        io=True,
        cpus=cpus,
        ways=ways,
        model=DeviceModel.AGGREGATION,
        class_name=STACK,
        devices=switch.devices,
        warnings=(*switch.all_warnings, *owners.notes.get(STACK, ()), *problems),
        ports=domain.ports_of(switch.devices),
    )


def _everyones_devices(facts: Facts) -> frozenset[str]:
    """Return the PCI addresses of all owned devices, and the stack's ports with unknown cards."""
    guests = (device for one in facts.guests for device in _devices(one.attachments))
    switch = facts.switch.devices if facts.switch is not None else ()
    return frozenset((*filter(pci_address, guests), *switch))


def _guest(
    verdict: _Verdict,
    domain: CacheDomain,
    dedicated: tuple[int, ...],
    emulator: tuple[int, ...],
    notes: Iterable[Message],
) -> Tenant:
    guest = verdict.guest
    # Ways are guaranteed where vCPUs run; emulator threads alone need no ways of another cache.
    wishes = verdict.wishes if dedicated else Wishes()
    ways, problems = _request(verdict.rule.ways, domain, wishes)
    local, elsewhere = _ddio_reaches(guest, domain)
    return Tenant(
        id=guest_id(guest),
        name=guest.display_name,
        kind=TenantKind.GUEST,
        priority=verdict.priority,
        io=verdict.io and (local or verdict.io_asked),
        cpus=tuple(sorted((*dedicated, *emulator))),
        ways=ways,
        model=model_of(guest.attachments),
        class_name=verdict.rule.name,
        bandwidth_min=verdict.rule.bandwidth_min,
        weight=verdict.rule.weight,
        flavor=guest.flavor,
        project=guest.project,
        devices=_devices(guest.attachments),
        warnings=(*verdict.warnings, *notes, *elsewhere, *problems),
        emulator_cpus=emulator,
        ports=_ports(domain, guest.attachments),
    )


def _ddio_reaches(guest: Guest, domain: CacheDomain) -> tuple[bool, tuple[Message, ...]]:
    """Tell whether DDIO of this domain serves a guest, with warnings of devices on other sockets.

    DDIO fills the LLC of the device's socket, wherever the guest runs.
    """
    nodes = domain.numa_nodes or guest.numa_nodes
    fast = [a for a in guest.attachments if a.model is DeviceModel.SLICING]
    far = [a for a in fast if nodes and a.numa_node is not None and a.numa_node not in nodes]
    warnings = tuple(
        message("device-elsewhere", device=a.device, numa_node=a.numa_node) for a in far
    )
    others = len(far) < sum(a.model is not DeviceModel.NONE for a in guest.attachments)
    return others or not far, warnings


def _pool(
    rules: Rules,
    domain: CacheDomain,
    cpus: tuple[int, ...],
    members: list[_Verdict],
    owners: Owners,
    times: Mapping[str, int],
) -> Tenant:
    """Return the pool; `times`: how many guests of the host have a display name."""
    highest = max((member.priority for member in members), key=_PRIORITY_ORDER.index)
    priority = rules.pool_priority or highest
    ways, problems = _request(rules.pool_ways, domain, Wishes())
    attachments = [one for member in members for one in member.guest.attachments]
    of_members: list[tuple[str, Message]] = []
    for member in members:
        own = [*member.warnings]
        if member.wishes.llc_ways or member.wishes.llc_ways_max:
            own.append(message("member-ways-unused"))
        if member.rule.weight != 1.0:
            own.append(message("member-weight-unused"))
        if member.priority is not priority:
            asked, given = str(member.priority), str(priority)
            own.append(message("member-priority-unused", asked=asked, priority=given))
        name = member.guest.display_name
        name += mark(member.guest.uuid) if times[name] > 1 else ""
        if guest_id(member.guest) not in owners.dedicated:  # else the guest's own tenant warns
            of_members += [(name, one) for one in own]
    return Tenant(
        id=POOL,
        name=POOL,
        kind=TenantKind.POOL,
        priority=priority,
        io=any(
            member.io and (member.io_asked or _ddio_reaches(member.guest, domain)[0])
            for member in members
        ),
        cpus=cpus,
        ways=ways,
        model=model_of(attachments),
        class_name=POOL,
        bandwidth_min=rules.pool_bandwidth_min,
        devices=_devices(attachments),
        members=tuple(member.guest.display_name for member in members),
        warnings=(*owners.notes.get(POOL, ()), *problems),
        member_warnings=tuple(of_members),
        ports=_ports(domain, attachments),
    )


def _host(rules: Rules, domain: CacheDomain, cpus: tuple[int, ...]) -> Tenant:
    ways, problems = _request(rules.host_ways, domain, Wishes())
    return Tenant(
        id=HOST,
        name=HOST,
        kind=TenantKind.HOST,
        priority=rules.host_priority,
        io=False,
        cpus=cpus,
        ways=ways,
        class_name=HOST,
        warnings=problems,
    )


def _devices(attachments: Iterable[Attachment]) -> tuple[str, ...]:
    """Return a guest's devices; of an interface on a physical function, also the function."""
    own = ((one, one.pf if one.exclusive else None) for one in attachments)
    pairs = ((one.device, None if pci_address(one.device) else pf) for one, pf in own)
    return tuple(dict.fromkeys(name for pair in pairs for name in pair if name is not None))


def _ports(domain: CacheDomain, attachments: Iterable[Attachment]) -> tuple[str, ...]:
    """Return the ids of a domain's ports behind a guest's own devices.

    A virtual function, and an interface on a physical function, write through the port of the
    physical function. Interfaces of a virtual switch have no device: the switch's devices write.
    """
    return domain.ports_of(address for one in attachments for address in (one.device, one.pf))


def _in(cpus: Iterable[int], here: frozenset[int]) -> tuple[int, ...]:
    return tuple(sorted(here.intersection(cpus)))


# --------------------------------------------------------------------------- ways


def _request(
    bounds: WayBounds, domain: CacheDomain, wishes: Wishes
) -> tuple[WayRequest, tuple[Message, ...]]:
    """Fit way bounds and a flavor's request into a domain; warn if the domain has fewer ways."""
    least, initial, most = bounds.min, bounds.initial, bounds.max
    if wishes.llc_ways is not None:
        least = initial = wishes.llc_ways
        most = max(most, least) if most is not None else None
    if wishes.llc_ways_max is not None:
        most = wishes.llc_ways_max
        least, initial = min(least, most), min(initial, most)
    usable = domain.ways - domain.reserved_ways.count
    warnings: tuple[Message, ...] = ()
    if least > usable:
        warnings = (message("guaranteed-too-many", ways=least, usable=usable),)

    def fit(ways: int) -> int:
        return max(min(ways, usable), min(domain.min_ways, usable), 1)

    promised = 0 if wishes.llc_ways is None else fit(least)
    most = usable if most is None else most
    return WayRequest(fit(least), fit(initial), fit(most), promised), warnings


def _shortages(domain: CacheDomain, tenants: Iterable[Tenant]) -> list[Message]:
    """Warn if the tenants' minimum ways do not fit side by side, PC tenants first."""
    tenants = tuple(tenants)
    usable = domain.ways - domain.reserved_ways.count
    served_first = sum(t.ways.min for t in tenants if t.priority is not Priority.BE)
    everyone = sum(t.ways.min for t in tenants)
    together = (("guaranteed-together-critical", served_first), ("guaranteed-together", everyone))
    for code, total in together:
        if total > usable:
            return [message(code, domain=domain.id, ways=total, usable=usable)]
    return []


def _not_limited(domains: Iterable[DomainInventory]) -> list[Message]:
    """Warn, once, if the policy's minimum memory bandwidth cannot be turned into a limit."""
    unknown = (
        one
        for one in domains
        if one.domain.bandwidth is not None and one.domain.bandwidth.percents is None
    )
    asked = {t.class_name for one in unknown for t in one.tenants if t.bandwidth_min < UNLIMITED}
    if not asked:
        return []
    return [message("bandwidth-unlimited", classes=tuple(sorted(asked)))]


def _own_reasons(rules: Rules, switch: VirtualSwitch | None) -> dict[str, Message]:
    reasons = {
        POOL: message("pool-reason", priority=str(rules.pool_priority or "highest")),
        HOST: message("host-reason"),
    }
    if switch is not None:
        reasons[STACK] = _stack_reason(switch)
    return reasons


def _stack_reason(switch: VirtualSwitch) -> Message:
    if switch.pmd_cpus and switch.pmd_source:
        return message("stack-reason-source", source=switch.pmd_source)
    if switch.pmd_cpus:
        return message("stack-reason")
    if switch.pmd_source == "ended":
        return message("stack-ended")
    if switch.pmd_source:
        return message("stack-without-threads", source=switch.pmd_source)
    return message("stack-in-kernel")
