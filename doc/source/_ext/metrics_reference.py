# SPDX-License-Identifier: Apache-2.0
"""The documentation's tables of metrics, written from `metrics.METRICS`: they leave nothing out."""

from __future__ import annotations

import math

import tables

from iat_nova.model import Action, Priority
from iat_nova.model.reasons import Code
from iat_nova.report.metric_values import REASONS_MAX
from iat_nova.report.metrics import GROUPS, METRICS, Metric
from iat_nova.report.pressures import PLACES
from iat_nova.store.observed import Closed
from iat_nova.strategies.iat.fsm import NUMBERED
from iat_nova.strategies.iat.state import FsmState
from iat_nova.strategies.outlook import Outlook

_VALUES = {
    "code": len(Code),
    "severity": 3,
    "phase": 3,
    "state": len(FsmState),
    "transition": len(NUMBERED),
    "action": len(Action),
    "priority": len(Priority),
    "outlook": len(Outlook),
    "bound": 3,
    "reason": len(Closed),
}
"""How many values a label takes; those not named take one for each `domain` or tenant."""

_OF_METRIC = {
    "iat_nova_tenants_with_warnings": {"code": 45},  # no reasons: messages on guests and switch
    "iat_nova_enforcing_gain_ratio": {"bound": 2},  # there is no least gain
    "iat_nova_newcomer_ways": {"priority": len(PLACES)},  # no newcomer is the stack
}
"""Values of labels of single metrics."""


def scope(metric: Metric) -> str:
    """Return what a metric has series for: host, PMD thread, port, cache domain or tenant."""
    if "tenant" in metric.labels:
        return "tenant"
    if "port" in metric.labels:
        return "port"
    if "cpu" in metric.labels:
        return "PMD thread"
    return "cache domain" if "domain" in metric.labels else "host"


def series(metric: Metric) -> int:
    """Return how many series a metric has at most for one of its `scope`."""
    # A tenant's labels describe the tenant. Only the bounds of a loss are series of their own.
    own = tuple(label for label in metric.labels if scope(metric) != "tenant" or label == "bound")
    if {"code", "reason"} <= {*own}:  # the text alone tells its series apart
        return REASONS_MAX
    values = _VALUES | _OF_METRIC.get(metric.name, {})
    return math.prod(values.get(label, 1) for label in own)


def unit(metric: Metric) -> str:
    """Return a metric's unit, which its name tells."""
    for ending, meaning in _UNITS.items():
        if metric.name.removesuffix("_total").endswith(ending):
            return meaning
    return ""


_UNITS = {
    "_bytes_per_second": "bytes/s",
    "_per_second": "1/s",
    "_seconds": "s",
    "_bytes": "bytes",
    "_ratio": "share",
    "_ways": "ways",
    "_mask": "bits",
    "_percent": "%",
}


_COLUMNS = (
    ("Metric", lambda metric: f"| ``{metric.name}``\n| {metric.help}"),
    ("Kind", lambda metric: metric.kind),
    ("Unit", unit),
    ("Labels", lambda metric: ", ".join(f"``{label}``" for label in metric.labels)),
    ("Series", lambda metric: f"{series(metric)} a {scope(metric)}"),
)


def reference() -> str:
    """Return the documentation's tables of metrics, as reStructuredText."""
    lines: list[str] = []
    for title, group in GROUPS.items():
        lines += [f"**{title}**", ""]
        lines += tables.lines(_COLUMNS, group, ":widths: 52 10 8 18 12", ":class: metrics")
    total = dict.fromkeys(("host", "PMD thread", "port", "cache domain", "tenant"), 0)
    for metric in METRICS:
        total[scope(metric)] += series(metric)
    each = ", ".join(f"{count} a {what}" for what, count in total.items())
    lines.append(f"At most, together: {each} (a tenant in two cache domains counts twice).")
    return "\n".join(lines) + "\n"
