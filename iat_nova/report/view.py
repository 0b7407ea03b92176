# SPDX-License-Identifier: Apache-2.0
"""The present state of a host for `tenants`, `status` and `top`, gathered from the history."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping

from iat_nova.model import (
    DDIO,
    CacheDomain,
    DomainInventory,
    Hold,
    Layout,
    Parameters,
    Pause,
    PortRates,
    Priority,
    Tenant,
    TenantKind,
    VirtualSwitch,
    WayMask,
    WayRequest,
)
from iat_nova.report import advice, pressures, sentences, times, words
from iat_nova.store.heartbeat import AgentNow, AgentState
from iat_nova.store.reader import HistoryReader, Recorded, StatusNow
from iat_nova.store.records import Shadow, ShadowDomain
from iat_nova.strategies.pressure import CycleLoss, Fill

NOBODY = AgentNow(AgentState.STOPPED)
"""No agent: a history without its agent."""


@dataclasses.dataclass(frozen=True)  # without slots: keeps what is computed once
class DomainView:
    """A cache domain: tenants, newest iteration, and last decision with an action.

    `rings`: whether packets leak from DDIO's ways, if asked for and known.
    """

    inventory: DomainInventory
    latest: Recorded | None = None
    decision: Recorded | None = None
    shadow: ShadowDomain | None = None  # the shadow strategy's layout
    rings: advice.Advice | None = None

    @property
    def layout(self) -> Layout | None:
        """The decided layout; None before the first iteration."""
        return self.latest.iteration.decision.layout if self.latest else None

    @property
    def written(self) -> bool:
        """Whether the last iteration wrote its layout; if not, masks are only decided."""
        return self.latest is not None and self.latest.iteration.effective is not None

    def mask_of(self, tenant: str) -> WayMask | None:
        """Return a tenant's mask as read back from the machine, else as decided; None without."""
        if self.latest is None:
            return None
        effective = (self.latest.iteration.effective or {}).get(tenant)
        return effective or self.latest.iteration.decision.layout.mask_of(tenant)

    def decided_mask(self, tenant: str) -> WayMask | None:
        """Return the mask decided for a tenant, or None, regardless of the mask read back."""
        return self.layout.mask_of(tenant) if self.layout else None

    def sharers(self, tenant: str) -> list[str]:
        """Return the names of the other tenants that may fill some of a tenant's decided ways."""
        mine, names = self.decided_mask(tenant), self.inventory.names
        return [
            names.get(one, one)
            for group in (self.layout.groups if self.layout else ())
            if mine is not None and group.mask.overlaps(mine)
            for one in group.tenants
            if one != tenant
        ]

    def lent_to(self, tenant: str) -> int:
        """Return how many of a tenant's decided ways are guaranteed to no tenant."""
        if self.layout is None or self.layout.lent is None:
            return 0
        if tenant not in self.layout.lent.tenants:
            return 0
        mask = self.layout.mask_of(tenant)
        return mask.count - self.layout.lent.mask.count if mask else 0

    @functools.cached_property
    def losses(self) -> Mapping[str, CycleLoss]:
        """Each tenant's loss to other tenants, by tenant id; empty before the first iteration."""
        latest = self.latest
        return {} if latest is None else pressures.losses(self.inventory, latest.iteration)

    @functools.cached_property
    def fills(self) -> Mapping[str, Fill]:
        """The share of the LLC that each tenant fills, by tenant id."""
        latest = self.latest
        return {} if latest is None else pressures.fills(self.inventory, latest.iteration)

    @property
    def monitored(self) -> bool:
        """Whether the occupancy of some tenant is known."""
        tenants = self.latest.iteration.sample.tenants.values() if self.latest else ()
        return any(rates.occupancy_bytes is not None for rates in tenants)

    @property
    def ddio(self) -> WayMask | None:
        """DDIO's mask as read back, else as decided; as found before the first; None if unknown."""
        if self.latest is None:
            return self.inventory.domain.ddio_found
        effective = (self.latest.iteration.effective or {}).get(DDIO)
        return effective or self.latest.iteration.decision.layout.ddio

    @property
    def inbound(self) -> WayMask | None:
        """The ways of all devices: DDIO's and the ports' own; None if unknown, as `ddio`."""
        return self.ddio if self.latest is None else self.latest.iteration.inbound

    def ports(self) -> Iterator[dict[str, object]]:
        """Yield each port of devices as plain values; ways None: the port has DDIO's."""
        counted = self.latest.iteration.sample.ports if self.latest is not None else {}
        for port in self.inventory.domain.device_ports:
            rates = counted.get(port.id, PortRates())
            mask, decided = self.mask_of(port.id), self.decided_mask(port.id)
            yield {
                "port": port.id,
                "devices": list(port.devices),
                "tenants": [one.name for one in self.inventory.behind(port.id)],
                "ways": mask.count if mask is not None else None,
                "mask": str(mask) if mask is not None else None,
                "mask_requested": str(decided) if decided is not None else None,
                **dataclasses.asdict(rates),
            }


PRIORITIES = {
    Priority.PC: "performance-critical guest",
    Priority.BE: "best effort",
    Priority.STACK: "the virtual switch",
}
"""The priorities in words."""

LEGEND = "; ".join(f"{short}: {words}" for short, words in PRIORITIES.items())
"""A line below tables with priorities."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostView:
    """All present facts. `pause`, `holds`: content of the files, which the agent may not have read.

    `damage`: message about unreadable records in the history. `switch`: the virtual switch at the
    last reading.
    """

    hostname: str
    now: StatusNow | None
    domains: tuple[DomainView, ...]
    pause: Pause | None = None
    agent: AgentNow = NOBODY
    damage: str | None = None
    holds: tuple[Hold, ...] = ()
    switch: VirtualSwitch | None = None

    @property
    def running(self) -> bool:
        """Whether an agent iterates now."""
        return self.agent.state is AgentState.RUNNING

    def domain(self, number: int) -> DomainView | None:
        """Return a cache domain; None if no tenant of it is recorded."""
        return next((one for one in self.domains if one.inventory.domain.id == number), None)

    def low_per_s(self, domain: int) -> float | None:
        """Return the rate up to which DDIO misses count as low; None without a status."""
        return self.now.status.parameters.of(domain).threshold_miss_low_per_s if self.now else None

    @property
    def shadow(self) -> Shadow | None:
        """The decisions of the shadow strategy, if there is one."""
        return self.now.status.shadow if self.now else None

    @property
    def recorded(self) -> bool:
        """Whether the running agent wrote the stored status; on a full disk it cannot."""
        return self.running and self.now is not None and self.now.status.pid == self.agent.pid


def gather(
    reader: HistoryReader,
    pause: Pause | None = None,
    agent: AgentNow = NOBODY,
    holds: tuple[Hold, ...] = (),
    *,
    leaks: bool = False,
    guests: advice.Rings = advice.GUESTS,
    pools: int = 0,
) -> HostView:
    """Read the newest records, with `leaks` those of a minute; `guests`, `pools`: for `advise`.

    Raises the reader's errors.
    """
    inventory = reader.latest_inventory()
    known: Mapping[int, DomainInventory] = inventory.domains if inventory else {}
    domains = []
    said = reader.status()
    shadows = said.status.shadow.domains if said and said.status.shadow else {}
    for number, tenants in sorted(known.items()):
        newest = next(iter(reader.decisions(1, number)), None)
        one = DomainView(tenants, reader.latest(number), newest, shadows.get(number))
        if leaks and inventory is not None and one.ddio:
            numbers = (said.status.parameters if said else Parameters()).of(number)
            facts, ddio, recent = inventory.facts, one.ddio.count, advice.samples(reader, number)
            size = advice.advise(facts, tenants.domain, ddio, numbers, recent, guests, pools)
            one = dataclasses.replace(one, rings=size)
        domains.append(one)
    hostname = inventory.facts.host.hostname if inventory else ""
    return HostView(
        hostname,
        said,
        tuple(domains),
        pause,
        agent,
        reader.damage,
        holds,
        inventory.facts.switch if inventory else None,
    )


def without_history(
    agent: AgentNow, pause: Pause | None, holds: tuple[Hold, ...]
) -> HostView | None:
    """Return the view of a host without a history; None if no agent runs or has failed."""
    if not agent.alive and agent.state is not AgentState.FAILED:
        return None
    return HostView("", None, (), pause, agent, holds=holds)


def then(reader: HistoryReader, seen: HostView, wall_s: float) -> HostView:
    """Return the view as of `wall_s`: the present domains with the iteration and decision of then.

    A domain without a recorded inventory keeps its present one.
    """
    domains = []
    for domain in seen.domains:
        number = domain.inventory.domain.id
        latest = reader.at(wall_s, number)
        inventory = reader.domain_inventory(latest.iteration) if latest else None
        decision = next(iter(reader.decisions(1, number, end_s=wall_s)), None)
        domains.append(DomainView(inventory or domain.inventory, latest, decision))
    return dataclasses.replace(seen, domains=tuple(domains))


def shadow_rates(shadow: Shadow, domain: ShadowDomain, wall_s: float) -> tuple[float, float] | None:
    """Return the masks per day moved by the shadow strategy and by the strategy in force.

    None in the first minute: moves at the start of both do not repeat.
    """
    passed_s = wall_s - shadow.since_s
    if passed_s < 60:
        return None
    days = passed_s / 86400
    return domain.moved / days, domain.moved_meanwhile / days


def agent_words(view: HostView) -> str:
    """Describe an agent whose present state is not in the history."""
    agent, age = view.agent, ""
    if agent.age_s is not None:
        age = times.duration(agent.age_s)
    waits = f": {agent.text}" if agent.text else ""
    if agent.state is AgentState.STARTING:
        since = f" (process {agent.pid}, for {age})" if age else ""
        return f"starting, no iteration yet{since}{waits}"
    if agent.state is AgentState.RUNNING:
        return f"running: process {agent.pid}, last iteration {age} ago, nothing recorded{waits}"
    if agent.state is AgentState.STALLED:
        return f"stalled: process {agent.pid}, last iteration {age} ago"
    if agent.state is AgentState.STOPPING:
        return f"stopping: process {agent.pid} restores the original hardware settings"
    if view.now is None and agent.state is not AgentState.FAILED:
        return f"not running (no previous run recorded){waits}"
    unread = waits if agent.state is AgentState.STOPPED else ""
    return f"not running ({_ended(view)}){unread}"


def _ended(view: HostView) -> str:
    agent = view.agent
    if agent.state is AgentState.FAILED:
        return f"it ended with an error: {agent.text}"
    said = agent.pid is not None or (view.now is not None and view.now.status.stopped)
    if agent.state is not AgentState.STOPPED or not said:
        return "unclean shutdown"
    left_s = view.now.status.handed_over_s if view.now is not None else None
    if left_s is not None:
        return f"it handed over to the next agent at {times.moment(left_s)}"
    return "it ended properly"


def pause(view: HostView) -> Pause | None:
    """Return the pause of the file, or else of the agent's last status, or None."""
    if view.pause is not None or view.now is None or not view.running:
        return view.pause
    said = view.now.status
    if said.paused_until_s is None:
        return None
    return Pause(said.started_s, said.paused_until_s, said.paused_reason or "")


def at_rest(view: HostView) -> Iterator[str]:
    """Yield why no mask changes at present: the agent only observes, or is paused."""
    if view.now is not None and view.now.status.reasons:
        yield f"the agent only observes: {words.observing(view.now.status)}"
    if pause(view) is not None:
        yield "the masks are frozen (iat-nova pause)"


def in_force(view: HostView, hold: Hold) -> bool:
    """Tell whether the hold's number of ways was decided in each cache domain of its tenant."""
    held = [
        domain.decided_mask(one.id)
        for domain in view.domains
        for one in domain.inventory.tenants
        if one.key == hold.tenant and one.ways.held
    ]
    return bool(held) and all(mask is not None and mask.count == hold.ways for mask in held)


def mode(view: HostView) -> str:
    """Return ``enforce``, ``observe``, ``paused``, or the state of an agent without iterations."""
    if view.now is None or not view.running:
        return view.agent.state.value if view.agent.alive else "not running"
    return "paused" if pause(view) is not None else view.now.status.mode


def tenant_row(domain: DomainView, tenant: Tenant) -> dict[str, object]:
    """Return a tenant as plain values; the keys are `TENANT_COLUMNS` and `LONG_COLUMNS`."""
    mask, ddio = domain.mask_of(tenant.id), domain.inbound
    decided = domain.decided_mask(tenant.id)
    shadow = domain.shadow.layout.mask_of(tenant.id) if domain.shadow else None
    rates = domain.latest.iteration.sample.tenants.get(tenant.id) if domain.latest else None
    loss, fill = domain.losses.get(tenant.id), domain.fills.get(tenant.id)
    return {
        "name": tenant.name,
        "uuid": tenant.uuid,
        "priority": str(tenant.priority),
        "io": tenant.io,
        "cpus": list(tenant.cpus),
        "model": str(tenant.model),
        "devices": list(tenant.devices),
        "domain": domain.inventory.domain.id,
        "ways": mask.count if mask is not None else None,
        "mask": str(mask) if mask is not None else None,
        "held": tenant.ways.min if tenant.ways.held else None,
        "bandwidth": domain.layout.bandwidth_of(tenant.id) if domain.layout else None,
        "overlaps_ddio": mask.overlaps(ddio) if mask is not None and ddio is not None else None,
        "warnings": [*map(sentences.text, tenant.all_warnings), *_coerced(mask, decided)],
        "kind": str(tenant.kind),
        "ports": list(tenant.ports),
        "class": tenant.class_name or None,
        "flavor": tenant.flavor,
        "project": tenant.project,
        "members": list(tenant.members),
        "requested": f"{tenant.ways.min}/{tenant.ways.initial}/{tenant.ways.max}",
        "bandwidth_min": tenant.bandwidth_min,
        "weight": tenant.weight,
        "lent": domain.lent_to(tenant.id),
        "shadow_ways": shadow.count if shadow is not None else None,
        "shadow_mask": str(shadow) if shadow is not None else None,
        "mask_requested": str(decided) if decided is not None else None,
        "ipc": round(rates.ipc, 3) if rates else None,
        "references_per_s": _whole(rates.references_per_s) if rates else None,
        "misses_per_s": _whole(rates.misses_per_s) if rates else None,
        "stalled": _share(loss.stalled if loss else None),
        "loss_least": _share(loss.least if loss else None),
        "loss_likely": _share(loss.likely if loss else None),
        "loss_most": _share(loss.most if loss else None),
        "llc_share": _share(fill.share if fill else None),
        "occupancy_bytes": rates.occupancy_bytes if rates else None,
        "memory_bytes_per_s": _whole(rates.memory_bytes_per_s) if rates else None,
    }


def _coerced(mask: WayMask | None, decided: WayMask | None) -> list[str]:
    if mask is None or decided in (None, mask):
        return []
    return [f"mask {decided} was asked for, the machine has {mask}"]


def _share(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _whole(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(value)


_NOBODY = Tenant("", "", TenantKind.HOST, Priority.BE, False, (), WayRequest())
_COLUMNS = tuple(tenant_row(DomainView(DomainInventory(CacheDomain(0, (), 1, 1), ())), _NOBODY))
_SHORT = _COLUMNS.index("kind")
TENANT_COLUMNS, LONG_COLUMNS = _COLUMNS[:_SHORT], _COLUMNS[_SHORT:]
"""The columns of `tenant_row`, and those that are shown on request."""

MONITORED = ("occupancy_bytes", "memory_bytes_per_s")
