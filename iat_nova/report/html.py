# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file without external resources, network access or script."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from iat_nova.common import amounts as figures
from iat_nova.common.cpulist import format_cpus
from iat_nova.model import DDIO, DomainInventory
from iat_nova.report import (
    charts,
    escape,
    page,
    rate_rows,
    rings,
    sentences,
    stretches,
    times,
    view,
    waymap,
    words,
)
from iat_nova.report.charts import Axis, Curve, Span
from iat_nova.report.gains import Gain, gains, worth_tiles
from iat_nova.report.stretches import Stretch
from iat_nova.report.view import NOBODY
from iat_nova.store.heartbeat import AgentNow
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Iteration

POINTS = 700  # of a curve, which is drawn some 900 pixels wide
DECISIONS = 500  # rows of the table
TURNS = 4000  # decisions in the way map
EVENTS = 100
SETS_WIDTH = 110  # columns of the list of masks
GAP_INTERVALS = 10

_STATE_STYLES = 5  # colours; a strategy with more phases reuses colours


class NothingToReport(Exception):
    """The history has no iteration in the period."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Story:
    """The data of one domain's section."""

    domain: int
    inventory: DomainInventory
    inventories: tuple[DomainInventory, ...]
    samples: tuple[Iteration, ...]
    decisions: tuple[Recorded, ...]  # newest first
    spans: tuple[Span, ...]
    counts: tuple[int, int]  # iterations, decisions
    gap_s: float  # a longer time without an iteration is a gap
    quiet: tuple[Stretch, ...]  # oldest first


def write(
    reader: HistoryReader,
    begin_s: float = float("-inf"),
    end_s: float = float("inf"),
    agent: AgentNow = NOBODY,
) -> str:
    """Return the report of a period (wall clock).

    A period that ends before the last record has tenants and ways as of its end, and nothing of the
    present: no state of the agent, holds, rings or shadow strategy. Raises `NothingToReport`, and
    the reader's errors.
    """
    span = reader.span()
    if span is None or span[1] < begin_s or span[0] > end_s:
        raise _nothing(span)
    axis = Axis(max(begin_s, span[0]), min(end_s, span[1]))
    past = axis.end_s < span[1]
    seen = view.gather(reader, agent=agent, leaks=not past)
    status = seen.now.status if seen.now else None
    interval_s = status.interval_s if status else 1.0
    stories = [
        story
        for domain in reader.domains()
        if (story := _story(reader, domain, axis, interval_s)) is not None
    ]
    if not stories:
        raise _nothing(span)
    if past:
        seen = view.then(reader, seen, axis.end_s)
    return (
        page.environment("iat_nova.report", "report.html.j2")
        .get_template("report.html.j2")
        .render(
            host=seen.hostname,
            period=(times.moment(axis.begin_s), times.moment(axis.end_s)),
            length=times.duration(axis.end_s - axis.begin_s),
            made=times.moment(time.time()),
            status=None if past else status,
            agent=None if past or seen.running else view.agent_words(seen),
            domains=[
                _section(story, axis, seen, status.phases if status else ()) for story in stories
            ],
            tenants=[
                view.tenant_row(domain, tenant)
                for domain in seen.domains
                for tenant in domain.inventory.tenants
            ],
            shadows=[
                (
                    domain,
                    _shadow_ways(domain),
                    view.shadow_rates(seen.shadow, domain.shadow, axis.end_s),
                )
                for domain in seen.domains
                if domain.shadow and seen.shadow
            ],
            events=reader.events(EVENTS, axis.begin_s, axis.end_s if past else float("inf")),
            whole_since=_whole_since(reader, axis),
            damage=reader.damage,  # after all other reads
            moment=axis.moment,
            sentence=lambda said: escape.plain(sentences.text(said)),
            texts=words.texts,
            attached=words.ATTACHED,
            held=words.held,
            cpu_ranges=format_cpus,
            share=lambda value: "-" if value is None else rate_rows.percent(value),
            duration=times.duration,
        )
    )


def _nothing(span: tuple[float, float] | None) -> NothingToReport:
    """Return the error of a period without iterations; `span`: what the history covers."""
    if span is None:
        return NothingToReport("no iteration is recorded yet")
    return NothingToReport(
        "no iteration is recorded in this period; the history goes from "
        f"{times.moment(span[0])} to {times.moment(span[1])}"
    )


def _whole_since(reader: HistoryReader, axis: Axis) -> str | None:
    """Return the time since which every iteration is stored; None if since the period's begin."""
    since_s = reader.whole_since()
    return None if since_s is None or since_s <= axis.begin_s else times.moment(since_s)


def _story(reader: HistoryReader, domain: int, axis: Axis, interval_s: float) -> _Story | None:
    begin_s, end_s = axis.begin_s, axis.end_s
    samples = tuple(one.iteration for one in reader.between(begin_s, end_s, domain, at_most=POINTS))
    if not samples:
        return None
    decisions = reader.decisions(TURNS, domain, begin_s, end_s)
    known: dict[int, DomainInventory] = {}
    for one in [*(recorded.iteration for recorded in decisions), samples[0], samples[-1]]:
        if (inventory := reader.domain_inventory(one)) is not None:
            known[one.inventory_id] = inventory
    if not known:
        return None
    stride_s = (end_s - begin_s) / max(len(samples) - 1, 1)
    gap_s = max(GAP_INTERVALS * interval_s, 4 * stride_s)
    turns = [samples[0], *(recorded.iteration for recorded in reversed(decisions))]
    latest, gaps = known[max(known)], _gaps(samples, gap_s)
    # Before the oldest of very many decisions there were others.
    known_s = decisions[-1].iteration.wall_s if len(decisions) == TURNS else samples[0].wall_s
    quiet = stretches.quiet(reader, domain, decisions[::-1], gaps, known, (known_s, end_s))
    return _Story(
        domain,
        latest,
        tuple(known[number] for number in sorted(known)),
        samples,
        tuple(decisions),
        _spans(turns, known, gaps, end_s),
        reader.count(domain, begin_s, end_s),
        gap_s,
        tuple(quiet),
    )


def _gaps(samples: Sequence[Iteration], gap_s: float) -> list[tuple[float, float]]:
    """Return the periods without records: no agent, or a paused agent."""
    return [
        (one.wall_s, following.wall_s)
        for one, following in itertools.pairwise(samples)
        if following.wall_s - one.wall_s > gap_s
    ]


def _spans(
    turns: Sequence[Iteration],
    known: Mapping[int, DomainInventory],
    gaps: Sequence[tuple[float, float]],
    end_s: float,
) -> tuple[Span, ...]:
    """Return the period of each decision's layout, without the gaps."""
    spans: list[Span] = []
    ends = [*(one.wall_s for one in turns[1:]), end_s]
    for one, until_s in zip(turns, ends, strict=True):
        if one.inventory_id not in known:
            continue
        decision, begin_s = one.decision, one.wall_s
        state, inventory = words.phase(decision.phase), known[one.inventory_id]
        for gap_begin_s, gap_end_s in gaps:
            if begin_s <= gap_begin_s and gap_end_s <= until_s:
                spans.append(Span(begin_s, gap_begin_s, decision.layout, state, inventory))
                begin_s = gap_end_s
        if until_s > begin_s:
            spans.append(Span(begin_s, until_s, decision.layout, state, inventory))
    return tuple(spans)


def _state_styles(declared: Sequence[str], spans: Sequence[Span]) -> dict[str, str]:
    """Return a colour for each phase: in the strategy's own order, then in order of appearance."""
    shown = dict.fromkeys((*map(words.phase, declared), *(span.state for span in spans)))
    return {state: f"state{number % _STATE_STYLES}" for number, state in enumerate(shown)}


def _section(
    story: _Story, axis: Axis, seen: view.HostView, phases: Sequence[str]
) -> dict[str, Any]:
    """Return one domain's values for the template; `phases` are declared by the strategy."""
    colours = charts.hues(story.inventories)
    rates = (rates for one in story.samples for rates in one.sample.tenants.values())
    columns = (*rate_rows.COUNTED, *rate_rows.known(rates))
    low_per_s = seen.low_per_s(story.domain)
    now = seen.domain(story.domain)
    limit = (low_per_s, f"busy above {figures.rate(low_per_s)}") if low_per_s else None
    iterations, did = story.counts

    def drawn(name: str, style: str, field: str, **limit: Any) -> Markup:
        points = [(one.wall_s, getattr(one.sample, field)) for one in story.samples]
        line = Curve(name, style, points)
        return charts.curves(axis, [line], unit=figures.rate, gap_s=story.gap_s, **limit)

    speeds = gains(story.samples, story.inventory)
    tiles = [
        *_speed_tiles(speeds, story, axis),
        *worth_tiles(story.samples, story.inventory),
        *_ddio_tiles(story, axis),
        *(rings.tiles(now.rings) if now is not None else []),
        stretches.tile(story.quiet, axis.begin_s, axis.end_s),
    ]
    return {
        "id": story.domain,
        "iterations": iterations,
        "decisions": did,
        "tiles": tiles,
        "names": story.inventory.names,
        "colours": colours,
        "speeds": speeds,
        "quiet": charts.quiet_strip(axis, story.quiet),
        "sets": _sets(story),
        "bands": charts.way_bands(axis, story.spans, story.inventory.domain.ways, colours),
        "lanes": charts.tenant_lanes(
            axis, story.spans, story.inventory.domain.ways, _tenants(story, colours)
        ),
        "states": charts.state_strip(axis, story.spans, _state_styles(phases, story.spans)),
        "misses": drawn("DDIO misses", "bad", "ddio_misses_per_s", limit=limit),
        "hits": drawn("DDIO hits", "good", "ddio_hits_per_s"),
        "tenants": _tenants(story, colours),
        "rates": {
            tenant.id: rate_rows.cells(
                axis,
                columns,
                [(one.wall_s, one.sample.tenants.get(tenant.id)) for one in story.samples],
                colours[tenant.id],
                story.gap_s,
            )
            for tenant in story.inventory.tenants
        },
        "rate_columns": [column.title for column in columns],
        "ports": rate_rows.ports(axis, story.samples, now, story.gap_s) if now else None,
        "table": _table(story),
        "not_shown": max(0, did - DECISIONS),
    }


def _sets(story: _Story) -> list[str]:
    """Return a line per mask at the end of the period, if masks overlap."""
    newest = (one.iteration for one in story.decisions[:1])
    last = max((story.samples[-1], *newest), key=lambda one: one.wall_s)
    return waymap.sets(last.decision.layout, _inventory_at(story, last), SETS_WIDTH)


def _speed_tiles(speeds: Sequence[Gain], story: _Story, axis: Axis) -> list[tuple[str, str]]:
    """Return value and caption of the largest gain, the largest loss and the worst moment."""
    if not speeds:
        return []
    names = story.inventory.names
    most, least = max(speeds, key=lambda one: one.change), min(speeds, key=lambda one: one.change)
    worst = min(speeds, key=lambda one: one.worst)
    caption = f"of its own best speed: {names[worst.tenant]}, the slowest"
    found = [(f"{worst.worst:.0%}", f"{caption}, at {axis.moment(worst.worst_s)}")]
    if least.change < 0:
        found.insert(
            0, (f"{least.change:+.1%}", f"lost most, from beginning to end: {names[least.tenant]}")
        )
    if most.change > 0:
        found.insert(
            0, (f"{most.change:+.1%}", f"gained most, from beginning to end: {names[most.tenant]}")
        )
    return found


def _ddio_tiles(story: _Story, axis: Axis) -> list[tuple[str, str]]:
    """Return value and caption of DDIO's ways, and of its highest misses, with their moments."""
    found = []
    if story.spans:
        counts = [span.layout.ddio.count for span in story.spans]
        peak = next(one for one in story.spans if one.layout.ddio.count == max(counts))
        caption = f"DDIO's ways of {story.inventory.domain.ways}"
        if min(counts) != max(counts):
            caption += f", most at {axis.moment(peak.begin_s)}"
        ways = f"{min(counts)} to {max(counts)}" if min(counts) != max(counts) else str(counts[0])
        found.append((ways, caption))
    misses = [
        (rate, one.wall_s)
        for one in story.samples
        if (rate := one.sample.ddio_misses_per_s) is not None
    ]
    if misses:
        rate, wall_s = max(misses)
        found.append((figures.rate(rate), f"most DDIO misses, at {axis.moment(wall_s)}"))
    return found


def _table(story: _Story) -> list[dict[str, Any]]:
    """Return the rows of the decisions and of the stretches without one, newest first."""
    rows = [
        (one.iteration.wall_s, _decision(one.iteration, _inventory_at(story, one.iteration)))
        for one in story.decisions[:DECISIONS]
    ]
    oldest_s = rows[-1][0] if len(story.decisions) > DECISIONS else float("-inf")
    rows += [
        (one.begin_s + 1e-3, {"stretch": one}) for one in story.quiet if one.begin_s >= oldest_s
    ]
    return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]


def _tenants(story: _Story, colours: dict[str, str]) -> list[tuple[str, str, str, str]]:
    """Return id, colour class, name and priority of every tenant of the period, each once."""
    found = {
        tenant.id: (tenant.id, colours[tenant.id], names[tenant.id], str(tenant.priority))
        for inventory in story.inventories
        for names in (inventory.names,)
        for tenant in inventory.tenants
    }
    return list(found.values())


def _decision(iteration: Iteration, inventory: DomainInventory) -> dict[str, Any]:
    names = {DDIO: "DDIO", **iteration.former, **inventory.names}
    moved = [names.get(one, one) for one in iteration.decision.moved]
    moved += words.limits(iteration, inventory, lambda tenant: names.get(tenant, tenant))
    return {
        "stretch": None,
        "wall_s": iteration.wall_s,
        "decision": iteration.decision,
        "steps": iteration.steps,
        "state": words.state_change(iteration.decision, "→"),
        "within": words.Names(inventory, iteration.former).within,
        "names": names,
        "moved": ", ".join(moved),
        "written": iteration.effective is not None,
    }


def _inventory_at(story: _Story, iteration: Iteration) -> DomainInventory:
    """Return the tenants for which an iteration was decided, else the latest tenants."""
    found = (span.inventory for span in story.spans if span.begin_s == iteration.wall_s)
    return next(found, story.inventory)


def _shadow_ways(domain: view.DomainView) -> str:
    """Return the number of ways that the shadow strategy gives DDIO and each tenant."""
    assert domain.shadow is not None
    names, layout = domain.inventory.names, domain.shadow.layout
    ways = [f"DDIO {layout.ddio.count}"]
    ways += [
        f"{names[one.id]} {mask.count}"
        for one in domain.inventory.tenants
        if (mask := layout.mask_of(one.id)) is not None
    ]
    return ", ".join(ways)
