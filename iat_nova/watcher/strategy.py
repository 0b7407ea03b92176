# SPDX-License-Identifier: Apache-2.0
"""Watcher's strategy: facts of Nova and of the agents go to `choice`; moves become actions.

The agents' metrics come by PromQL through the client of Watcher's own datasource, Aetos or
Prometheus: Watcher's list of metrics is closed.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from typing import Any

import requests
from keystoneauth1 import exceptions as keystone_exceptions
from observabilityclient import prometheus_client
from oslo_log import log
from watcher._i18n import _
from watcher.common import exception, nova_helper, placement_helper
from watcher.decision_engine.model import element
from watcher.decision_engine.strategy.strategies import base

from . import choice, goal, readings, words
from .hosts import Fixed, Free, Guest, Host, Unusable

LOG = log.getLogger(__name__)

PCPU = "PCPU"
UNCOUNTED = ("pci_passthrough:", "accel:", "resources:VGPU", "resources:CUSTOM_")
SILENT = (
    requests.RequestException,
    keystone_exceptions.ClientException,
    prometheus_client.PrometheusAPIClientError,
)


class CachePressure(goal.Named, base.BaseStrategy):  # type: ignore[misc]
    """Move the fewest guests so that performance-critical guests lose less to their neighbours.

    *Description*

    On hosts whose iat-nova agent has no layout of the cache left to try, best-effort guests that
    fill much of the cache are moved to hosts with room, until the critical guests lose less than
    the threshold. See iat-nova's page on Watcher.

    *Requirements*

    The agents' metrics in Prometheus, and ``[compute_model] enable_extended_attributes``.
    """

    # Watcher chooses a datasource by these; those that have them speak PromQL, or are refused.
    DATASOURCE_METRICS = ["host_cpu_usage"]

    shown = _("Cache pressure (iat-nova)")

    @classmethod
    def get_goal_name(cls) -> str:
        """Return the name of the goal."""
        return cls.get_name()

    @classmethod
    def get_config_opts(cls) -> list[Any]:
        """Return the options: the datasources of this strategy, and Watcher's."""
        optimize = base.cfg.BoolOpt(
            "check_optimize_metadata",
            help="Leave out instances whose metadata have optimize=false.",
            default=False,
        )
        return [*super().get_config_opts(), optimize]

    @classmethod
    def get_schema(cls) -> dict[str, Any]:
        """Return the schema of an audit's parameters, with defaults."""
        return {
            "properties": {
                "threshold": {
                    "description": "share of its cycles that a critical guest may lose to others",
                    "type": "number",
                    "minimum": 0.01,
                    "maximum": 0.9,
                    "default": 0.1,
                },
                "period": {
                    "description": "seconds for which a guest must have lost more",
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 86400,
                    "default": 600,
                },
                "max_migrations": {
                    "description": "migrations of one plan",
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 100,
                    "default": 2,
                },
                "stay": {
                    "description": "seconds that a guest is expected to stay on its new host",
                    "type": "number",
                    "minimum": 1,
                    "default": 3600,
                },
                "migration_speed": {
                    "description": "MB a second at which a live migration copies memory",
                    "type": "number",
                    "minimum": 1,
                    "default": 500,
                },
            }
        }

    def pre_execute(self) -> None:
        """Check the strategy's requirements. Raises Watcher's exceptions."""
        self._pre_execute()
        if not self.compute_model.extended_attributes_enabled:
            raise exception.InvalidParameter(
                message=_(
                    "iat_cache_pressure does not see flavors: set [compute_model] "
                    "enable_extended_attributes = true in watcher.conf and restart the decision "
                    "engine"
                )
            )

    def do_execute(self, audit: Any = None) -> None:
        """Choose the moves; add an action for each move, and an action with the reason in words."""
        given = self.input_parameters
        limits = choice.Limits(
            given.threshold, given.max_migrations, given.stay, given.migration_speed
        )
        patience_s = readings.oldest_s(given.period)  # older data do not count
        seen = _within(patience_s, lambda: self._seen(given.period))
        hosts = self._hosts(seen, given.period)
        chosen = choice.choose(hosts, limits)
        if chosen.short_before:  # otherwise Placement is not asked: it has one answer a host
            hosts = [self._with_dedicated(host) for host in hosts]
            chosen = choice.choose(hosts, limits)
        for host in hosts:
            if host.unusable is not None:
                LOG.warning("%s is left out: %s", host.name, words.LEFT[host.unusable.value])
        for left in chosen.left:
            LOG.info("%s", words.left(left))
        for move in chosen.moves:
            self._add(move)
        self.solution.set_efficacy_indicators(
            short_guests_before=chosen.short_before,
            short_guests_after=chosen.short_after,
            hosts_without_data=sum(host.unusable is not None for host in hosts),
        )

    def post_execute(self) -> None:
        """Hand the model to the solution."""
        self.solution.model = self.compute_model

    def _add(self, move: choice.Move) -> None:
        """Add a migration, and an action with the reason: migrations have no such parameter."""
        LOG.info("%s", words.moved(move))
        self.solution.add_action(action_type="nop", input_parameters={"message": words.moved(move)})
        model = self.compute_model
        instance = model.get_instance_by_uuid(move.guest.uuid)
        source = model.get_node_by_name(move.source)
        destination = model.get_node_by_name(move.destination)
        self.add_action_migrate(instance, "live", source, destination)
        model.migrate_instance(instance, source, destination)

    def _seen(self, period_s: int) -> dict[str, readings.Seen]:
        """Return the agents' metrics. Raises Watcher's exceptions without any metric."""
        try:
            backend = self.datasource_backend
        except exception.MetricNotAvailable:  # Watcher keeps the datasources' errors to itself
            LOG.error(
                "no datasource answers: check that it runs, and in watcher.conf "
                "[watcher_datasources] datasources (aetos, or prometheus) and [prometheus_client]"
            )
            raise
        if not hasattr(backend, "prometheus"):
            LOG.error(
                "datasource %s cannot be asked for the agents' metrics: set [watcher_datasources] "
                "datasources = aetos, or prometheus, in watcher.conf",
                backend.NAME,
            )
            raise exception.UnsupportedDataSource(datasource=backend.NAME, strategy=self.name)

        def query(promql: str) -> Iterator[tuple[Mapping[str, str], float]]:
            try:
                found = backend.prometheus.query(promql)
            except SILENT as error:
                LOG.error("datasource %s does not answer: %s", backend.NAME, error)
                raise exception.DataSourceNotAvailable(datasource=backend.NAME) from error
            for one in found:
                if math.isfinite(value := float(one.value)):
                    yield one.labels, value

        seen = readings.read(query, backend.prometheus_fqdn_label, period_s)
        if not seen:
            LOG.error(
                "datasource %s has no metrics of iat-nova with the label %s: scrape the agents, "
                "and give each target this label with Nova's name of the host",
                backend.NAME,
                backend.prometheus_fqdn_label,
            )
            raise exception.MetricNotAvailable(metric="iat_nova_last_iteration_time_seconds")
        return seen

    def _hosts(self, seen: Mapping[str, readings.Seen], period_s: int) -> list[Host]:
        """Return the hosts of the audit's scope, by name."""
        model, groups = self.compute_model, self._groups()
        nodes = sorted(model.get_all_compute_nodes().values(), key=lambda node: node.hostname)
        names = {node.hostname for node in nodes}
        if absent := [one for one in seen if not {one, one.partition(".")[0]} & names]:
            LOG.warning(
                "Watcher's model lacks hosts that have an agent: %s; outside the audit's scope, or "
                "without shared CPUs (Watcher takes in hosts with a VCPU inventory only)",
                ", ".join(sorted(absent)),
            )
        found = []
        for node in nodes:
            agent = _of_node(seen, node.hostname)
            instances = model.get_node_instances(node)
            optimized = {one.uuid for one in self.filter_instances_by_audit_tag(instances)}
            free = model.get_node_free_resources(node)
            # Watcher's model takes dedicated CPUs for shared ones.
            dedicated = sum(one.vcpus for one in instances if _pinned(one.flavor_extra_specs))
            found.append(
                Host(
                    node.hostname,
                    tuple(_guest(one, agent, one.uuid in optimized) for one in instances),
                    Free(free["vcpu"] + dedicated, 0, free["memory"], free["disk"]),
                    groups.get(node.hostname, frozenset()),
                    {} if agent is None else agent.domains,
                    _unusable(node, agent, period_s),
                )
            )
        return found

    def _groups(self) -> dict[str, frozenset[str]]:
        """Return each host's aggregates; guests move only between hosts of the same aggregates."""
        groups: dict[str, set[str]] = {}
        for aggregate in nova_helper.NovaHelper().get_aggregate_list():
            for host in aggregate.hosts:
                groups.setdefault(host, set()).add(str(aggregate.id))
        return {host: frozenset(ids) for host, ids in groups.items()}

    def _with_dedicated(self, host: Host) -> Host:
        """Return the host with its free dedicated CPUs, by Placement's inventory."""
        if host.unusable is not None:
            return host
        node = self.compute_model.get_node_by_name(host.name)
        inventories = placement_helper.PlacementHelper().get_inventories(node.uuid) or {}
        total = inventories.get(PCPU)
        if total is None:
            return host
        capacity = (total.total - total.reserved) * total.allocation_ratio
        used = sum(guest.vcpus for guest in host.guests if guest.pinned)
        return dataclasses.replace(host, free=dataclasses.replace(host.free, pcpus=capacity - used))


def _within(
    patience_s: float, ask: Callable[[], dict[str, readings.Seen]]
) -> dict[str, readings.Seen]:
    """Return the answer of `ask`, or raise its error; a late answer is an error.

    Watcher's client of Prometheus has no timeout. An unanswered query keeps its thread until the
    connection breaks, while the audit ends.
    """
    answer: futures.Future[dict[str, readings.Seen]] = futures.Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:  # noqa: BLE001 - raised again below
            answer.set_exception(error)

    threading.Thread(target=run, name="iat-nova-metrics", daemon=True).start()
    if not futures.wait((answer,), patience_s).done:
        LOG.error(
            "the datasource has not answered within %.0f s: check Prometheus or Aetos, and the "
            "network between; nothing is proposed",
            patience_s,
        )
        raise exception.DataSourceNotAvailable(datasource="prometheus, aetos")
    return answer.result()


def _of_node(seen: Mapping[str, readings.Seen], hostname: str) -> readings.Seen | None:
    """Return a host's agent: the agent's label is the host's name, or begins with the name."""
    if hostname in seen:
        return seen[hostname]
    short = [name for name in seen if name.partition(".")[0] == hostname]
    return seen[short[0]] if len(short) == 1 else None


def _unusable(node: Any, agent: readings.Seen | None, period_s: int) -> Unusable | None:
    states = element.ServiceState
    if node.state != states.ONLINE.value or node.status != states.ENABLED.value:
        return Unusable.DOWN
    if agent is None:
        return Unusable.NO_AGENT
    if agent.age_s > readings.oldest_s(period_s):
        return Unusable.STALE
    return None if agent.enforcing else Unusable.OBSERVING


def _guest(instance: Any, agent: readings.Seen | None, optimized: bool) -> Guest:
    specs = instance.flavor_extra_specs or {}
    known = agent is not None and instance.uuid in agent.guests
    return Guest(
        instance.uuid,
        instance.name,
        instance.vcpus,
        instance.memory,
        instance.disk,
        critical=bool(agent and instance.uuid in agent.critical),
        pinned=_pinned(specs),
        fixed=_fixed(instance, specs, optimized, bool(agent and instance.uuid in agent.io)),
        readings=agent.guests[instance.uuid] if agent and known else {},
    )


def _pinned(specs: Mapping[str, str] | None) -> bool:
    specs = specs or {}
    return specs.get("hw:cpu_policy") == "dedicated" or f"resources:{PCPU}" in specs


def _fixed(instance: Any, specs: Mapping[str, str], optimized: bool, io: bool) -> Fixed | None:
    if instance.watcher_exclude or not optimized:
        return Fixed.EXCLUDED
    if instance.locked or instance.state != element.InstanceState.ACTIVE.value:
        return Fixed.INACTIVE
    if io or any(name.startswith(UNCOUNTED) for name in specs):
        return Fixed.RESOURCES
    return Fixed.MIXED if specs.get("hw:cpu_policy") == "mixed" else None
