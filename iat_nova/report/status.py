# SPDX-License-Identifier: Apache-2.0
"""The status of the agent: a page for people, a record for programs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from iat_nova.model import UNLIMITED, Hold, verbatim
from iat_nova.model.reasons import Code, Reason, about
from iat_nova.report import escape, pressures, sentences, times, waymap, words
from iat_nova.report.view import (
    DomainView,
    HostView,
    agent_words,
    in_force,
    mode,
    pause,
    shadow_rates,
)
from iat_nova.store import records
from iat_nova.store.heartbeat import AgentState
from iat_nova.strategies.outlook import Outlook

_INDENT = 12
_LINES = 12  # for one statement
_OF_STATUS = ("version", "strategy", "interval_s", "started_s", "adopted_s", "handed_over_s")


def page(
    view: HostView, wall_s: float, *, width: int = 80, colour: bool = False, wrap: bool = False
) -> str:
    """Return the status in lines for a terminal; `wall_s` is the present.

    With `wrap`, no line is longer than `width`; without, a statement is one line for `grep`.
    """
    lines = [
        _field("agent", _agent(view, wall_s)),
        _field("data", f"{times.duration(view.now.age_s)} old" if view.now else "none"),
        _field("paused", escape.plain(pause_words(view, wall_s))),
        *_plain_fields("held", (hold_words(view, hold, wall_s) for hold in view.holds)),
        *_plain_fields("degraded", _degraded(view) or ("nothing",)),
    ]
    if view.now is not None:
        said = view.now.status
        lines += _plain_fields("notice", words.texts(said.notices))
        if said.last_error is not None:
            lines += _plain_fields("last error", [sentences.text(said.last_error)])
    for domain in view.domains:
        lines += ["", *_domain(domain, wall_s, width, colour)]
        lines += _shadow(view, domain, wall_s, width, colour)
    if not view.domains:
        lines += ["", "No tenants were recorded yet."]
    if wrap:
        shown = (part for line in lines for part in line.splitlines() or [""])
        lines = [part for line in shown for part in _wrapped(line, width)]
    return "\n".join(lines)


def _wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit; a coloured way map fits already."""
    if "\x1b" in line or escape.width(line) <= width:
        return [line]
    return escape.hanging(line[_INDENT:], width, _LINES, line[:_INDENT])


def record(view: HostView) -> dict[str, Any]:
    """Return the status as plain values."""
    said = view.now.status if view.now else None
    paused = pause(view)
    until_s = paused.until_s if paused else None
    return {
        "host": view.hostname or None,
        "mode": mode(view),
        "reason": words.observing(said) if said else None,
        "reasons": _plain(said.reasons) if said else [],
        "running": view.running,
        "state": view.agent.state.value,
        "state_age_s": round(view.agent.age_s, 3) if view.agent.age_s is not None else None,
        "waits_for": view.agent.text or None if view.agent.state is AgentState.STARTING else None,
        "data_age_s": round(view.now.age_s, 3) if view.now else None,
        "paused": paused is not None,
        "paused_until_s": until_s if until_s is not None and math.isfinite(until_s) else None,
        "paused_reason": (paused.reason or None) if paused else None,
        "holds": [_hold_record(view, hold) for hold in view.holds],
        "degraded": list(_degraded(view)),
        "drift": [one.code for one in _problems(view) if about(one.code) == "drift"],
        "placement": dataclasses.asdict(said.placement) if said and said.placement else None,
        "unreadable": view.damage,
        "problems": _plain(_problems(view)),
        "notices": _plain(said.notices) if said else [],
        "last_error": sentences.text(said.last_error) if said and said.last_error else None,
        "pid": view.agent.pid or (said.pid if said else None),
        **{name: getattr(said, name, None) for name in _OF_STATUS},
        "pmd_threads": [dataclasses.asdict(one) for one in view.switch.pmd_threads]
        if view.switch is not None
        else [],
        "switch_drops_per_s": view.switch.drops_per_s if view.switch is not None else None,
        "domains": [
            {**_domain_record(domain), "shadow": _shadow_record(view, domain)}
            for domain in view.domains
        ],
    }


def _problems(view: HostView) -> tuple[Reason, ...]:
    """Return present problems. If the history cannot be written, only the heartbeat says so."""
    said = view.now.status.problems if view.now else ()
    if not view.running or not view.agent.text:
        return said
    others = (one for one in said if one.code != Code.HISTORY_UNWRITABLE)
    return (Reason(Code.HISTORY_UNWRITABLE, verbatim(view.agent.text)), *others)


def _degraded(view: HostView) -> tuple[str, ...]:
    return words.texts(_problems(view))


def _plain(reasons: tuple[Reason, ...]) -> list[dict[str, Any]]:
    return [
        {
            "code": reason.code,
            "values": records.unstructure(reason.message)["values"],
            "text": sentences.text(reason.message),
        }
        for reason in reasons
    ]


def pause_words(view: HostView, wall_s: float) -> str:
    """Return end and reason of a pause, or ``no``."""
    paused = pause(view)
    if paused is not None and view.pause is None:
        return "until the next iteration: the pause has ended"
    return "no" if paused is None else words.until(paused, "resume", wall_s)


def hold_words(view: HostView, hold: Hold, wall_s: float) -> str:
    """Return the sentence of an operator's hold, marked if the hold is not in force."""
    told = words.held(hold, wall_s)
    return told if in_force(view, hold) else f"not in force: {told}"


def _hold_record(view: HostView, hold: Hold) -> dict[str, Any]:
    until_s = hold.until_s if math.isfinite(hold.until_s) else None
    return {**dataclasses.asdict(hold), "until_s": until_s, "in_force": in_force(view, hold)}


def _agent(view: HostView, wall_s: float) -> str:
    if view.now is None or not view.recorded:
        told = escape.plain(agent_words(view))
        return f"{told}; below is the last it recorded" if view.now else told
    said = view.now.status
    parts = [said.mode, f"strategy {escape.plain(said.strategy)}", f"every {said.interval_s:g} s"]
    since = " since a hand-over" if said.adopted_s is not None else ""
    parts += [f"pid {said.pid}", f"up {times.duration(wall_s - said.started_s)}{since}"]
    text = ", ".join(parts)
    reason = words.observing(said)
    return f"{text}\n{said.mode}s only: {escape.plain(reason)}" if reason else text


def _domain(domain: DomainView, wall_s: float, width: int, colour: bool) -> list[str]:
    cache = domain.inventory.domain
    title = f"domain {cache.id}"
    if domain.latest is None or domain.layout is None:
        return [_field(title, f"{cache.ways} ways, no iteration yet")]
    iteration, inventory = domain.latest.iteration, domain.inventory
    ddio = domain.ddio or domain.layout.ddio
    state = words.phase(iteration.decision.phase)
    texts = [
        f"{state}, DDIO {words.ddio_place(ddio)}, {words.inbound(iteration.sample)}",
        *waymap.drawn(domain.layout, inventory, width - _INDENT, colour=colour),
        *waymap.counted_ports(iteration.sample, inventory),
        *words.coerced(iteration, inventory),
        *_room(domain),
        *words.limited(domain.layout, inventory, words.Names(inventory)),
    ]
    if domain.decision is not None:
        last = domain.decision.iteration
        ago = times.duration(wall_s - last.wall_s)
        texts.append(f"last decision {times.moment(last.wall_s)}, {ago} ago:")
        texts.append(
            f"domain {last.domain} #{last.decision.iteration}: {words.deeds(last, inventory)}"
        )
    return _fields(title, texts)


_NO_LAYOUT = {
    Outlook.NO_PROMISE: "no move promises a gain",
    Outlook.ALL_FAILED: "all moves that promised a gain were undone",
}


def _room(domain: DomainView) -> list[str]:
    """Return lines: whether a layout is left to try, what enforcing could gain, leaks, and room."""
    assert domain.latest is not None
    iteration = domain.latest.iteration
    lines = []
    if pressures.exhausted(iteration):
        lines.append(f"no layout left to try: {_NO_LAYOUT[Outlook(iteration.outlook)]}")
    worth = pressures.worth(domain.inventory, iteration)
    if worth is not None:
        told = pressures.worth_words(worth)
        lines.append(f"gain of critical guests if the agent enforced: {told}")
    if domain.rings is not None and domain.rings.verdict.startswith("leak"):
        lines.append(f"{domain.rings.counted}: see iat-nova advise")
    found = pressures.newcomers(domain.inventory, iteration)
    if found:
        ways = ", ".join(
            f"{ways:.1f} ways if {pressures.PLACES[priority]}" for priority, ways in found.items()
        )
        lines.append(f"a new guest would find: {ways} (a shared way counts in part)")
    return lines


def _shadow(
    view: HostView, domain: DomainView, wall_s: float, width: int, colour: bool
) -> list[str]:
    shadow, seen = view.shadow, domain.shadow
    if shadow is None or seen is None:
        return []
    since = times.duration(wall_s - shadow.since_s)
    by = shadow.strategy if shadow.policy is None else f"{shadow.strategy} by {shadow.policy}"
    text = f"{by}, nothing written; masks moved in {since}: {seen.moved}"
    text += f", by strategy {view.now.status.strategy} {seen.moved_meanwhile}" if view.now else ""
    rates = shadow_rates(shadow, seen, wall_s)
    text += f" ({rates[0]:.0f} and {rates[1]:.0f} a day)" if rates is not None else ""
    room = width - _INDENT
    return [
        _field("shadow", escape.plain(text)),
        _field("", waymap.text(seen.layout, domain.inventory, width=room, colour=colour)),
    ]


def _shadow_record(view: HostView, domain: DomainView) -> dict[str, Any] | None:
    shadow, seen = view.shadow, domain.shadow
    if shadow is None or seen is None:
        return None
    return {
        "strategy": shadow.strategy,
        "policy": shadow.policy,
        "since_s": shadow.since_s,
        "masks_moved": seen.moved,
        "masks_moved_meanwhile": seen.moved_meanwhile,
        "ddio_mask": str(seen.layout.ddio),
        "way_map": waymap.text(seen.layout, domain.inventory),
    }


def _domain_record(domain: DomainView) -> dict[str, Any]:
    cache = domain.inventory.domain
    if domain.latest is None or domain.layout is None:
        return {"domain": cache.id, "cache_ways": cache.ways, "state": None}
    latest = domain.latest.iteration
    last = domain.decision.iteration if domain.decision else None
    worth = pressures.worth(domain.inventory, latest)
    limits = {
        tenant: group.bandwidth
        for group in domain.layout.groups
        for tenant in group.tenants
        if group.bandwidth != UNLIMITED
    }
    return {
        "domain": cache.id,
        "cache_ways": cache.ways,
        "state": latest.decision.phase,
        "iteration": latest.decision.iteration,
        "recorded_s": latest.wall_s,
        "written": latest.effective is not None,
        "ddio_mask": str(domain.ddio) if domain.ddio is not None else None,
        "ddio_mask_requested": str(domain.layout.ddio),
        "ddio_ways": domain.ddio.count if domain.ddio is not None else None,
        "ports": list(domain.ports()),
        "coerced": [
            {"subject": subject, "requested": str(decided), "effective": str(mask)}
            for subject, (decided, mask) in latest.coerced.items()
        ],
        "ddio_hits_per_s": latest.sample.ddio_hits_per_s,
        "ddio_misses_per_s": latest.sample.ddio_misses_per_s,
        "ddio_writes_per_s": latest.sample.ddio_writes_per_s,
        "way_map": waymap.text(domain.layout, domain.inventory),
        "bandwidth_percent": limits,
        "bandwidth_gbps": {
            tenant: gbps
            for tenant, percent in limits.items()
            if cache.bandwidth is not None and (gbps := cache.bandwidth.gbps(percent)) is not None
        },
        "exact": domain.layout.exact,
        "grouped": domain.layout.grouped,
        "last_decision": words.line(last, domain.inventory) if last else None,
        "last_decision_s": last.wall_s if last else None,
        "outlook": latest.outlook,
        "exhausted": pressures.exhausted(latest),
        "enforcing_gain": None if worth is None else dataclasses.asdict(worth),
        "rings": domain.rings.verdict if domain.rings is not None else None,
        "newcomer_ways": {
            priority.value: round(ways, 2)
            for priority, ways in pressures.newcomers(domain.inventory, latest).items()
        },
    }


def _plain_fields(name: str, texts: Iterable[str]) -> list[str]:
    return _fields(name, map(escape.plain, texts))


def _fields(name: str, texts: Iterable[str]) -> list[str]:
    """Return texts in lines, the first behind a name."""
    return [_field("" if number else name, text) for number, text in enumerate(texts)]


def _field(name: str, text: str) -> str:
    """Return a named value; further lines are indented to the first line's value."""
    return f"{name:<{_INDENT}}" + text.replace("\n", "\n" + " " * _INDENT)
