# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file without external resources, network access or script."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from iat_nova.common import amounts
from iat_nova.common.cpulist import format_cpus
from iat_nova.model import DDIO, DomainInventory
from iat_nova.report import (
    charts,
    escape,
    gains,
    page,
    port_table,
    rate_rows,
    sentences,
    stretches,
    times,
    view,
    waymap,
    words,
)
from iat_nova.report.charts import Axis, Curve, Row, Span
from iat_nova.store.heartbeat import AgentNow
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Iteration

POINTS = 700  # of a curve, which is drawn some 900 pixels wide
DECISIONS = 500  # rows of the table
TURNS = 4000  # decisions in the rows of ways
EVENTS = 100
SETS_WIDTH = 110  # columns of the list of masks
GAP_INTERVALS = 10

_STATE_STYLES = 5  # colours; a strategy with more phases reuses colours


class NothingToReport(Exception):
    """The history has no iteration in the period."""


def write(
    reader: HistoryReader,
    begin_s: float = float("-inf"),
    end_s: float = float("inf"),
    agent: AgentNow = view.NOBODY,
) -> str:
    """Return the report of a period (wall clock).

    A period that ends before the last record has tenants and ways as of its end, and nothing of the
    present: no state of the agent, holds or shadow strategy. Raises `NothingToReport`, and
    the reader's errors.
    """
    recorded_s = reader.span()
    if recorded_s is None:
        raise NothingToReport("no iteration is recorded yet")
    axis = Axis(max(begin_s, recorded_s[0]), min(end_s, recorded_s[1]))
    past = axis.end_s < recorded_s[1]
    host = view.gather(reader, agent=agent)
    if past:
        host = view.then(reader, host, axis.end_s)
    sections = [*_sections(reader, axis, host)] if axis.begin_s <= axis.end_s else []
    if not sections:
        raise NothingToReport(
            "no iteration is recorded in this period; the history goes from "
            f"{times.moment(recorded_s[0])} to {times.moment(recorded_s[1])}"
        )
    return page.template("iat_nova.report", "report.html.j2").render(
        host=host,
        axis=axis,
        made_s=time.time(),
        status=None if past or host.now is None else host.now.status,
        agent=None if past or host.running else view.agent_words(host),
        domains=sections,
        events=reader.events(EVENTS, axis.begin_s, axis.end_s if past else float("inf")),
        whole_since_s=reader.whole_since(),
        damage=reader.damage,  # after all other reads
        time=times,
        sentence=lambda message: escape.plain(sentences.text(message)),
        rate=amounts.rate,
        words=words,
        view=view,
        charts=charts,
        gains=gains,
        shown_decisions=DECISIONS,
        cpu_ranges=format_cpus,
    )


def _sections(reader: HistoryReader, axis: Axis, host: view.HostView) -> Iterator[_Section]:
    """Yield the section of each cache domain with iterations and tenants in the period."""
    for domain in reader.domains():
        recorded = reader.between(axis.begin_s, axis.end_s, domain, at_most=POINTS)
        samples = [row.iteration for row in recorded]
        decisions = reader.decisions(TURNS, domain, axis.begin_s, axis.end_s)
        inventories = {
            iteration.inventory_id: inventory
            for iteration in (*(row.iteration for row in decisions), *samples[:1], *samples[-1:])
            if (inventory := reader.domain_inventory(iteration)) is not None
        }
        if samples and inventories:
            yield _Section(reader, axis, host, samples, decisions, inventories)


class _Section:
    """A cache domain's section of the page; the template reads its attributes."""

    def __init__(
        self,
        reader: HistoryReader,
        axis: Axis,
        host: view.HostView,
        samples: Sequence[Iteration],
        decisions: Sequence[Recorded],  # newest first
        inventories: Mapping[int, DomainInventory],
    ) -> None:
        self.id = samples[0].domain
        self.axis, self.samples, self.inventories = axis, samples, inventories
        self.turns = [row.iteration for row in decisions]
        self.now, self.low_per_s = host.domain(self.id), host.low_per_s(self.id)
        self.inventory = inventories[max(inventories)]
        self.names = self.inventory.names
        self.iterations, self.decisions = reader.count(self.id, axis.begin_s, axis.end_s)
        stride_s = (axis.end_s - axis.begin_s) / max(len(samples) - 1, 1)
        interval_s = host.now.status.interval_s if host.now else 1.0
        self.gap_s = max(GAP_INTERVALS * interval_s, 4 * stride_s)  # without an agent, or paused
        gaps = [
            (before.wall_s, after.wall_s)
            for before, after in itertools.pairwise(samples)
            if after.wall_s - before.wall_s > self.gap_s
        ]
        turns = [samples[0], *self.turns[::-1]]
        bounds_s = [*(turn.wall_s for turn in turns), axis.end_s]
        self.spans = [
            Span(begin_s, end_s, turn.decision.layout, words.phase(turn.decision.phase))
            for turn, bound_s in zip(turns, bounds_s[1:], strict=True)
            for begin_s, end_s in stretches.without(turn.wall_s, bound_s, gaps)
            if end_s > begin_s
        ]
        # Before the oldest of very many decisions there were others.
        known_s = bounds_s[1:] if len(decisions) == TURNS else bounds_s
        self.quiet = stretches.quiet(reader, self.id, known_s, gaps, inventories)
        self.speeds = gains.gains(samples, self.inventory)
        self.rows = self._rows()
        self.colours = {row.subject: row.style for row in self.rows}
        phases = map(words.phase, host.now.status.phases if host.now else ())
        names = dict.fromkeys((*phases, *(span.state for span in self.spans)))
        self.states = {name: f"state{at % _STATE_STYLES}" for at, name in enumerate(names)}

    def _rows(self) -> list[Row]:
        """Return DDIO, ports with ways of their own, and each tenant of the period."""
        ports = dict.fromkeys(port for span in self.spans for port in span.layout.port_masks)
        devices = [Row(DDIO, "ddio", "DDIO", "devices")]
        devices += [Row(port, "ddio", port, "port") for port in ports]
        tenants: dict[str, Row] = {}
        for _, inventory in sorted(self.inventories.items()):
            for tenant in inventory.tenants:
                hue = f"hue{len(tenants) % charts.HUES}"
                style = tenants[tenant.id].style if tenant.id in tenants else hue
                name = inventory.names[tenant.id]
                tenants[tenant.id] = Row(tenant.id, style, name, str(tenant.priority))
        return [*devices, *tenants.values()]

    def ddio_ways(self) -> list[tuple[int, int, float]]:
        """Return DDIO's fewest and most ways, and the time since which it had the most."""
        counts = [(-span.layout.ddio.count, span.begin_s) for span in self.spans]
        return [(-max(counts)[0], -min(counts)[0], min(counts)[1])] if counts else []

    def most_misses(self) -> list[tuple[float, float]]:
        """Return DDIO's highest rate of misses and its time; empty if not counted."""
        rates = [(one.sample.ddio_misses_per_s, one.wall_s) for one in self.samples]
        return sorted((rate, wall_s) for rate, wall_s in rates if rate is not None)[-1:]

    def quiet_share(self) -> float:
        """Return the share of the period in stretches without a decision."""
        quiet_s = sum(one.end_s - one.begin_s for one in self.quiet if one.decided)
        return quiet_s / max(self.axis.end_s - self.axis.begin_s, 1e-9)

    def sets(self) -> list[str]:
        """Return a line per mask at the end of the period, if masks overlap."""
        last = max((self.samples[-1], *self.turns[:1]), key=lambda one: one.wall_s)
        inventory = self.inventories.get(last.inventory_id, self.inventory)
        return waymap.sets(last.decision.layout, inventory, SETS_WIDTH)

    def curve(self, name: str, style: str, field: str, *, limited: bool = False) -> Markup:
        """Draw an attribute of the samples; `limited`: with the rate from which DDIO is busy."""
        points = [(one.wall_s, getattr(one.sample, field)) for one in self.samples]
        low_per_s = self.low_per_s if limited else None
        limit = (low_per_s, f"busy above {amounts.rate(low_per_s)}") if low_per_s else None
        line = Curve(name, style, points)
        return charts.curves(self.axis, [line], unit=amounts.rate, limit=limit, gap_s=self.gap_s)

    def rates(self) -> Iterator[tuple[str, list[rate_rows.Cell]]]:
        """Yield each tenant's id and curves."""
        counted = (rates for one in self.samples for rates in one.sample.tenants.values())
        columns = (*rate_rows.COUNTED, *rate_rows.monitored(counted))
        for tenant in self.inventory.tenants:
            rates = [(one.wall_s, one.sample.tenants.get(tenant.id)) for one in self.samples]
            yield tenant.id, rate_rows.cells(self.axis, columns, rates, self.gap_s)

    def ports(self) -> Iterator[tuple[Sequence[str], list[rate_rows.Cell]]]:
        """Yield each port's texts and curves."""
        counted = (rates for one in self.samples for rates in one.sample.ports.values())
        columns = rate_rows.monitored(counted)
        if self.now is None:
            return
        for port in self.now.ports():
            rates = [(one.wall_s, one.sample.ports.get(str(port["port"]))) for one in self.samples]
            cells = rate_rows.cells(self.axis, columns, rates, self.gap_s)
            yield port_table.cells(self.now, port)[:4], cells

    def table(self) -> list[dict[str, Any]]:
        """Return the rows of the decisions and of the stretches without one, newest first."""
        shown = self.turns[:DECISIONS]
        rows = [(one.wall_s, self._decision_row(one)) for one in shown]
        oldest_s = shown[-1].wall_s if len(self.turns) > DECISIONS else float("-inf")
        rows += [
            (one.begin_s + 1e-3, {"stretch": one}) for one in self.quiet if one.begin_s >= oldest_s
        ]
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

    def _decision_row(self, iteration: Iteration) -> dict[str, Any]:
        inventory = self.inventories.get(iteration.inventory_id, self.inventory)
        names = words.Names(inventory, {DDIO: "DDIO", **iteration.former})
        moved = [*map(names.of, iteration.decision.moved)]
        moved += words.limits(iteration, inventory, names.of)
        state = words.state_change(iteration.decision, "→")
        return {"stretch": None, "of": iteration, "names": names, "state": state, "moved": moved}
