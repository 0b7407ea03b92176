# SPDX-License-Identifier: Apache-2.0
"""Every metric: its name, meaning, labels and reader, as listed in ``metrics.yaml``.

The server and the documentation use the same list of metrics.
"""

from __future__ import annotations

import dataclasses
import operator
import pathlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from iat_nova.common import own_yaml
from iat_nova.report import metric_values as values
from iat_nova.store.observed import Observed
from iat_nova.strategies.readings import MISS_CYCLES, MOST_STALLED


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `read` yields a sample for each combination of the labels' values."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Observed], Iterable[values.Sample]]

    @property
    def kind(self) -> str:
        """Return ``counter`` or ``gauge``."""
        return "counter" if self.name.endswith("_total") else "gauge"


_DOMAIN = ("domain",)
_TENANT = ("domain", "tenant", "name")
# By source: the usual labels, and what makes a reader of a function of the source.
_SOURCES: Mapping[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "seen": ((), values.everything),
    "status": ((), values.status),
    "placement": ((), values.placement),
    "switch": ((), values.switch),
    "pmd": (("cpu",), values.pmd),
    "inventory": (_DOMAIN, values.inventory),
    "latest": (_DOMAIN, values.latest),
    "totals": (_DOMAIN, values.totals),
    "shadow": (_DOMAIN, values.shadow),
    "domain": (_DOMAIN, values.domain),
    "port": (("domain", "port"), values.port),
    "tenant": (_TENANT, values.tenant),
    "rate": (_TENANT, values.rate),
    "loss": (_TENANT, values.loss),
    "fill": (_TENANT, values.fill),
    "each": ((), lambda function: function),
}


def _metric(name: str, help: str, labels: Iterable[str] = (), **source: str) -> Metric:
    ((of, what),) = source.items()
    usual, reading = _SOURCES[of]
    value = operator.attrgetter(what[1:]) if what.startswith(".") else getattr(values, what)
    text = help.format(
        reasons_max=values.REASONS_MAX,
        tenants_max=values.TENANTS_MAX,
        miss_cycles=MISS_CYCLES,
        most_stalled=MOST_STALLED,
    )
    return Metric(f"iat_nova_{name}", text, tuple(labels) or usual, reading(value))


GROUPS: Mapping[str, tuple[Metric, ...]] = {
    title: tuple(_metric(name, **given) for name, given in group.items())
    for title, group in own_yaml.load(
        pathlib.Path(__file__).with_name("metrics.yaml").read_text(encoding="utf-8")
    ).items()
}
"""The metrics by subject, as in the documentation."""

METRICS: tuple[Metric, ...] = tuple(metric for group in GROUPS.values() for metric in group)
"""All served metrics, in the order of the documentation."""
