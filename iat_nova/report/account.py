# SPDX-License-Identifier: Apache-2.0
"""Explain one guest: reasons for its class and ways, recent changes, possible improvements."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Iterator
from typing import Any

from iat_nova.common import amounts as figures
from iat_nova.common.cpulist import format_cpus
from iat_nova.model import UNLIMITED, Action, Hold, Priority, Tenant, TenantKind, WayMask
from iat_nova.policy import holds
from iat_nova.policy.owners import guest_id
from iat_nova.report import (
    escape,
    moments,
    port_table,
    sentences,
    times,
    turns,
    view,
    waymap,
    words,
)
from iat_nova.report.subjects import Subject, last_seen
from iat_nova.report.turns import Turn, concerns
from iat_nova.report.view import DomainView, HostView
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Inventory

SCANNED = 1000  # decisions of a domain that are searched for the guest's own
LATELY = 300  # iterations that are searched for a rejected change
SHOWN = 10  # of the guest's recent decisions


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A guest's share of one cache domain.

    `turns`: the guest's decisions, newest first, each with other tenants' changes of the same
    decision. `refused`: the latest decision that rejected or undid a change for this guest, or
    None. `quiet`: iterations after which no way moved, with their reasons, newest first.
    """

    seen: DomainView
    tenant: Tenant
    turns: tuple[tuple[Turn, tuple[Turn, ...]], ...]
    refused: Turn | None
    quiet: tuple[Recorded, ...] = ()

    @property
    def mask(self) -> WayMask | None:
        """The effective mask, read back from the hardware if available."""
        return self.seen.mask_of(self.tenant.id)


@dataclasses.dataclass(frozen=True, slots=True)
class Account:
    """The complete explanation.

    `here`: the guest runs in the latest inventory. `reason`: why the guest is in its class.
    """

    subject: Subject
    view: HostView
    here: bool
    seen_s: float
    reason: str | None
    parts: tuple[Part, ...]

    @property
    def hold(self) -> Hold | None:
        """The operator's hold for this guest, or None. The hold may not be in effect yet."""
        keys = {self.subject.key, *(part.tenant.key for part in self.parts)}
        return next((one for one in self.view.holds if one.tenant in keys), None)


def give(reader: HistoryReader, seen: HostView, subject: Subject, picture: Inventory) -> Account:
    """Return the explanation of a guest in `picture`, from the history."""
    guest = subject.guest
    keys = [guest_id(guest)] if guest is not None else []
    keys += [tenant.id for _, tenant in subject.tenants]
    why = next((picture.reasons[key] for key in keys if key in picture.reasons), None)
    reason = None if why is None else sentences.text(why)
    parts = []
    for inventory, tenant in subject.tenants:
        number = inventory.domain.id
        domain = seen.domain(number)
        if domain is None or tenant.id not in domain.inventory.names:
            domain = DomainView(inventory)
        parts.append(
            Part(
                domain,
                tenant,
                tuple(itertools.islice(_turns(reader, subject, number), SHOWN)),
                _refused(reader, subject, domain),
                tuple(_quiet(reader, domain)),
            )
        )
    here = any(part.seen.latest is not None for part in parts)
    seen_s = picture.wall_s if here else last_seen(reader, picture.wall_s)
    return Account(subject, seen, here, seen_s, reason, tuple(parts))


def _turns(
    reader: HistoryReader, subject: Subject, domain: int
) -> Iterator[tuple[Turn, tuple[Turn, ...]]]:
    """Yield the guest's newest decisions, each with other way changes of the same decision.

    A kept trial is among them if it had moved the guest's ways.
    """
    kept: list[Turn] = []  # of the trial that the next older decision with a trial began
    for recorded in reader.decisions(SCANNED, domain):
        done = [one for one in turns.of(reader, recorded) if one.acts]
        its = [one for one in done if concerns(subject, one)]
        others = tuple(one for one in done if one not in its and _changed(one))
        found = [(one, others) for one in its]
        if any(one.kind == Action.TRY for one in done):
            found = [*((one, ()) for one in kept), *found] if its else found
            kept = []
        kept += [one for one in done if one.kind == Action.KEEP and one not in its]
        yield from found


def _changed(turn: Turn) -> bool:
    return turn.ways_before is not None and turn.ways_before != turn.ways_after


def _refused(reader: HistoryReader, subject: Subject, domain: DomainView) -> Turn | None:
    """Return the guest's latest rejected or undone change in the last `LATELY` iterations."""
    if domain.latest is None:
        return None
    number = domain.inventory.domain.id
    for recorded in reversed(reader.newer(number, domain.latest.row - LATELY, LATELY)):
        for turn in turns.of(reader, recorded):
            if turn.kind in (Action.REFUSE, Action.UNDO) and subject.is_it(turn.subject):
                return turn
    return None


def _quiet(reader: HistoryReader, domain: DomainView) -> Iterator[Recorded]:
    """Yield the last iteration if without effect, and the decision that ended the last search."""
    if domain.latest is None:
        return
    if domain.decision is None or domain.decision.row != domain.latest.row:
        yield domain.latest
    search = moments.searched(reader, domain.latest) or domain.decision
    if search is not None and search.iteration.decision.why:
        yield search


# ------------------------------------------------------------------- why not more


def why_not_more(account: Account) -> list[str]:
    """Return the reasons for not having more ways now, the plainest first."""
    said = [(part.seen.inventory.domain.id, [*_why(account, part)]) for part in account.parts]
    return words.once(said)


def _why(account: Account, part: Part) -> Iterator[str]:
    tenant, mask = part.tenant, part.mask
    if not account.here or mask is None:
        yield "it does not run on this host" if not account.here else "it has no ways yet"
        return
    if account.subject.floats:
        yield f"it shares CPUs {format_cpus(tenant.cpus)}, and their ways, with the pool"
    if mask.count == part.seen.inventory.domain.ways:
        yield f"it has all {figures.ways(mask.count)}"
        yield from _shares(part)
        return
    if tenant.ways.held:
        yield f"an operator holds it at {figures.ways(tenant.ways.min)}"
    elif mask.count >= tenant.ways.max:
        yield f"its maximum is {figures.ways(tenant.ways.max)}"
    yield from view.at_rest(account.view)
    if part.refused is not None:
        turn = part.refused
        yield f"{times.moment(turn.wall_s)}: {turn.kind}: {turn.reason}"
    for recorded in part.quiet:
        if said_why := moments.reasons(recorded, part.seen.inventory):
            when = times.moment(recorded.iteration.wall_s)
            yield f"{when}: #{recorded.iteration.decision.iteration}: {said_why}"
    yield from _shares(part)
    yield from _demand(account, part)
    if tenant.priority is Priority.BE and tenant.kind is not TenantKind.STACK:
        does = "is confined to few ways if other guests gain"
        if not _overlap(part):
            does = "gives ways to performance-critical guests"
        yield f"it is best effort: it {does}"
    yield from _room(part)


def _demand(account: Account, part: Part) -> Iterator[str]:
    """Yield the guest's LLC misses, marked if too few for a decision."""
    assert part.seen.latest is not None
    rates = part.seen.latest.iteration.sample.tenants.get(part.tenant.id)
    if rates is None:
        yield "its counters could not be read: its demand is unknown"
        return
    text = (
        f"{figures.rate(rates.misses_per_s)} LLC misses, {rates.miss_ratio:.1%} of its references"
    )
    said = account.view.now
    number = part.seen.inventory.domain.id
    floor = said.status.parameters.of(number).floor_references_per_s if said is not None else 0.0
    if rates.misses_per_s < floor and not _overlap(part):
        text += f": too few to count (floor_references {figures.rate(floor)})"
    yield text


def _room(part: Part) -> Iterator[str]:
    """Yield the idle ways, or the best-effort tenants above their minimum."""
    inventory, layout = part.seen.inventory, part.seen.layout
    assert layout is not None
    taken = 0
    for group in layout.counted.groups:
        taken |= group.mask
    domain = inventory.domain
    idle = ((1 << domain.ways) - 1) & ~(taken | domain.reserved_ways)
    if idle:
        yield f"cache domain {domain.id} has {figures.ways(idle.bit_count())} idle"
    if idle or _overlap(part):  # shared ways belong to no single tenant
        return
    names = inventory.names
    mates = {names[part.tenant.id], *part.seen.sharers(part.tenant.id)}
    spare = [
        f"{names[one.id]} {mask.count} (least {one.ways.min})"
        for one in inventory.tenants
        if names[one.id] not in mates
        and one.priority is Priority.BE
        and (mask := layout.mask_of(one.id)) is not None
        and mask.count > one.ways.min
    ]
    could = f"could give: {figures.names(spare)}" if spare else "no best-effort tenant can give one"
    yield f"no way of cache domain {domain.id} is idle; {could}"


def _shares(part: Part) -> Iterator[str]:
    """Yield a sentence with the tenants that share ways with the tenant, if any."""
    if sharers := part.seen.sharers(part.tenant.id):
        yield f"it shares ways with {figures.names(sharers)}"


def _overlap(part: Part) -> bool:
    """Return whether tenants share ways, so that no tenant gives ways to another tenant.

    Tenants with a common class of service share ways if the strategy counts all ways of the class
    for each tenant. Under `iat`, tenants with a common class have way counts of their own.
    """
    layout = part.seen.layout
    if layout is None or part.seen.latest is None:
        return False
    counts = part.seen.latest.iteration.decision.allocation.tenants
    return waymap.overlap(layout) or any(
        len(group.tenants) > 1 and {counts.get(one) for one in group.tenants} == {group.mask.count}
        for group in layout.groups
    )


# ---------------------------------------------------------------- what would help


def what_would_help(account: Account) -> list[str]:
    """Return the operator's options for more ways, each with its command or key."""
    if not account.here:
        return []
    said = [(part.seen.inventory.domain.id, [*_help(account, part)]) for part in account.parts]
    return words.once(said)


def _help(account: Account, part: Part) -> Iterator[str]:
    subject, tenant, mask = account.subject, part.tenant, part.mask
    flavor = f"flavor {tenant.flavor}" if tenant.flavor else "its flavor"
    if subject.floats:
        assert subject.guest is not None
        name = subject.guest.flavor or "its flavor"
        yield f"dedicated CPUs, to have own ways: hw:cpu_policy=dedicated in flavor {name}"
        return
    alone = part.seen.inventory.names.get(tenant.id) == subject.name
    whom = shlex.quote(subject.name) if alone else subject.key
    if tenant.ways.held:
        yield f"iat-nova release {whom}"
        return
    if mask is None:
        return
    guest, domain = tenant.kind is TenantKind.GUEST, part.seen.inventory.domain
    overlap = _overlap(part)
    wanted = mask.count + 1
    if guest and overlap and mask.count > tenant.ways.promised:
        has = tenant.ways.promised
        key = f"more than iat:llc_ways={has}" if has else "iat:llc_ways=N"
        yield (
            f"{key} in {flavor}: own ways, open to others only while it loses no speed; "
            "iat-nova hold shows how many help"
        )
    if domain.ways <= mask.count:
        return
    if mask.count >= tenant.ways.max:
        where = f"iat:llc_ways_max of {flavor}, or " if guest else ""
        yield f"a higher {where}ways.max of class {tenant.class_name or 'default'} in the policy"
    if guest and tenant.priority is Priority.BE:
        then = (
            "it is confined only if it streams through memory"
            if overlap
            else "best-effort guests give ways to it"
        )
        yield f"iat:priority=PC in {flavor}: then {then}"
    if guest and wanted > tenant.ways.promised and not overlap:
        yield f"iat:llc_ways={wanted} in {flavor}: then it never has fewer"
    why = holds.why_not(Hold(subject.key, subject.name, wanted, 0.0), subject.tenants)
    command = f"iat-nova hold {whom} --ways {wanted} --for 1h"
    if why is None:
        yield f"{command}: to measure the effect"
    elif not overlap:
        yield f"no hold at {wanted}: {sentences.text(why)}"
    if len(part.seen.inventory.tenants) > min(domain.ways, domain.classes - 1):
        yield "fewer guests on this host: it has more tenants than ways or classes of service"


# ------------------------------------------------------------------ words and data


def page(account: Account, wall_s: float, *, width: int = 80, colour: bool = False) -> str:
    """Return the explanation in lines for a terminal."""
    subject = account.subject
    kind = "Guest" if subject.guest else "Tenant"
    lines = escape.hanging(subject.title, width, 4, f"{kind:<11}")
    if subject.guest is not None:
        owner = f", project {subject.guest.project}" if subject.guest.project else ""
        owner = escape.plain(f"flavor {subject.guest.flavor or 'unknown'}{owner}")
        lines += escape.hanging(owner, width, 4, " " * 11)
    if not account.here:
        lines.append(f"           not here now; last seen {times.moment(account.seen_s)}")
    priorities = dict.fromkeys(part.tenant.priority for part in account.parts)
    spelled = "; ".join(f"{one}: {view.PRIORITIES[one]}" for one in priorities)
    lines += [f"Priority   {spelled}"] if spelled else []
    reason = escape.plain(account.reason or "the reason is not recorded")
    lines += escape.hanging(reason, width, 4, "Class      ")
    if (hold := account.hold) is not None:
        lines += escape.hanging(escape.plain(words.held(hold, wall_s)), width, 4, "Held       ")
    for part in account.parts:
        lines += ["", *_part(part, width, colour)]
        if part.tenant.kind is TenantKind.STACK:
            threads = words.pmd_threads(account.view.switch, part.tenant.cpus)
            lines += [f"           PMD thread on {text}" for text in threads]
    for title, texts in (
        ("Why not more", why_not_more(account)),
        ("What would help", what_would_help(account)),
    ):
        if texts:
            lines += ["", title]
            for text in texts:
                lines += escape.hanging(escape.plain(text), width, 8, "  - ")
    return "\n".join(lines)


def _part(part: Part, width: int, colour: bool) -> Iterator[str]:
    tenant, mask, layout = part.tenant, part.mask, part.seen.layout
    bounds = tenant.ways
    kept = f", {bounds.promised} guaranteed" if bounds.promised else ""
    least = "" if bounds.min == bounds.max else f"{bounds.min} to "
    begins = "" if _overlap(part) else f", starts with {bounds.initial}"
    emulator = ""
    if tenant.emulator_cpus:
        emulator = f" ({format_cpus(tenant.emulator_cpus)}: emulator and I/O threads)"
    yield (
        f"Domain {part.seen.inventory.domain.id}   CPUs {format_cpus(tenant.cpus)}{emulator}; "
        f"may have {least}{figures.ways(bounds.max)}{begins}{kept}"
    )
    if mask is not None and layout is not None:
        lent = part.seen.lent_to(tenant.id)
        more = f", {lent} of them lent" if lent else ""
        inbound = part.seen.inbound
        shared = ", shared with DDIO" if inbound and mask.overlaps(inbound) else ""
        has, not_yet = ("has", "") if part.seen.written else ("would have", "; not written")
        yield f"           {has} {figures.ways(mask.count)} {mask}{more}{shared}{not_yet}"
        limit = layout.bandwidth_of(tenant.id)
        if limit != UNLIMITED:
            least = f"the policy leaves it {tenant.bandwidth_min} % at least"
            share = words.left(limit, part.seen.inventory)
            yield f"           memory bandwidth limited to {share}; {least}"
        if tenant.weight != 1.0:
            yield f"           weight {tenant.weight:g} (its class's, for the default strategy)"
        for port in part.seen.ports():
            if port["port"] in tenant.ports:
                told = port_table.sentence(part.seen, port)
                yield from (f"           {line}" for line in escape.wrap(told, width - 11, 2))
        for line in waymap.drawn(layout, part.seen.inventory, width - 11, colour=colour):
            yield f"           {line}"
    if not part.turns:
        yield "Changes of its ways: none recorded"
        return
    yield "Changes of its ways"
    for turn, others in part.turns:
        name = turn.name if turn.subject in tenant.ports else ""
        also = "; ".join(one.what for one in others if one.what not in turn.reason)
        yield from turns.lines(turn, width, name, f" (with: {also})" if also else "")


def record(account: Account) -> dict[str, Any]:
    """Return the explanation as plain values."""
    subject, guest = account.subject, account.subject.guest
    return {
        "key": subject.key,
        "name": subject.name,
        "instance_name": guest.name if guest else None,
        "flavor": guest.flavor if guest else None,
        "project": guest.project if guest else None,
        "here": account.here,
        "seen_s": account.seen_s,
        "reason": account.reason,
        "hold": dataclasses.asdict(account.hold) if account.hold else None,
        "domains": [_part_record(part) for part in account.parts],
        "why_not_more": why_not_more(account),
        "what_would_help": what_would_help(account),
    }


def _part_record(part: Part) -> dict[str, Any]:
    return {
        **view.tenant_row(part.seen, part.tenant),
        "least": part.tenant.ways.min,
        "initial": part.tenant.ways.initial,
        "most": part.tenant.ways.max,
        "promised": part.tenant.ways.promised,
        "port_rows": [
            port for port in port_table.rows((part.seen,)) if port["port"] in part.tenant.ports
        ],
        "turns": [
            {**turns.record(turn), "with": [turns.record(one) for one in others]}
            for turn, others in part.turns
        ],
    }
