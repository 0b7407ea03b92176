# SPDX-License-Identifier: Apache-2.0
"""Serves the metrics over HTTP, in threads of its own.

prometheus_client is the extra ``iat-nova[metrics]``; it does the text format, its escaping and
the HTTP server. A scrape reads one immutable picture: it neither waits for the loop nor makes the
loop wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from iat_nova.conf import ConfigError
from iat_nova.report.metrics import METRICS
from iat_nova.report.observed import Observer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family


class Collector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def collect(self) -> Iterable[Family]:
        """Yield every metric with its samples at this moment."""
        from prometheus_client.core import (  # noqa: PLC0415 - an extra
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        seen = self._observer.now
        for metric in METRICS:
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=metric.labels)
            for labels, value in metric.read(seen):
                family.add_metric(labels, float(value))
            yield family


def registry(observer: Observer) -> CollectorRegistry:
    """Return a registry with our metrics alone: none of the process's or the interpreter's."""
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

    ours = CollectorRegistry(auto_describe=False)
    ours.register(Collector(observer))
    return ours


@contextlib.contextmanager
def serving(address: str, port: int, observer: Observer) -> Iterator[int]:
    """Serve ``/metrics`` while the context lasts; gives the port (0 asks for any free one).

    Raises `ConfigError` where the extra is missing or the address cannot be had.
    """
    try:
        from prometheus_client import start_http_server  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "[iat] metrics_port is set, which needs the extra: pip install 'iat-nova[metrics]'"
        ) from error
    try:
        server, thread = start_http_server(port, address, registry(observer))
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"[iat] metrics_address {address}, metrics_port {port}: cannot listen there: {error}"
        ) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
