# SPDX-License-Identifier: Apache-2.0
"""Serves the metrics over HTTP, in threads of its own.

The extra ``iat-nova[metrics]`` brings prometheus_client, which writes the text format, and
waitress, which serves. A scrape reads one immutable picture: it neither waits for the loop nor
makes the loop wait.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from iat_nova.conf import ConfigError
from iat_nova.report.metrics import METRICS
from iat_nova.report.observed import Closed, Observer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family


class Collector:
    """What prometheus_client asks at each scrape."""

    def __init__(self, observer: Observer, closed: Mapping[Closed, int]) -> None:
        self._observer = observer
        self._closed = closed  # the server's own, which counts on

    def collect(self) -> Iterable[Family]:
        """Yield every metric with its samples at this moment."""
        from prometheus_client.core import (  # noqa: PLC0415 - an extra
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        seen = dataclasses.replace(self._observer.now, closed=self._closed)
        for metric in METRICS:
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(metric.name, metric.help, labels=metric.labels)
            for labels, value in metric.read(seen):
                family.add_metric(labels, float(value))
            yield family


def registry(observer: Observer, closed: Mapping[Closed, int] | None = None) -> CollectorRegistry:
    """Return a registry with our metrics alone: none of the process's or the interpreter's.

    `closed`: connections that the server has closed; it may count on.
    """
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

    ours = CollectorRegistry(auto_describe=False)
    ours.register(Collector(observer, {} if closed is None else closed))
    return ours


@contextlib.contextmanager
def serving(address: str, port: int, observer: Observer) -> Iterator[int]:
    """Serve ``/metrics`` while the context lasts; gives the port (0 asks for any free one).

    Raises `ConfigError` where the extra is missing or the address cannot be had.
    """
    try:
        from prometheus_client import make_wsgi_app  # noqa: PLC0415 - an extra

        from iat_nova.report import metrics_server  # noqa: PLC0415 - imports waitress, an extra
    except ImportError as error:
        raise ConfigError(
            "[iat] metrics_port is set, which needs the extra: pip install 'iat-nova[metrics]' "
            f"({error})"
        ) from error
    try:
        listening = metrics_server.listen(address, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"[iat] metrics_address {address}, metrics_port {port}: cannot listen there: {error}"
        ) from error
    closed: collections.Counter[Closed] = collections.Counter()
    server = metrics_server.Server(make_wsgi_app(registry(observer, closed)), listening, closed)
    thread = threading.Thread(target=server.run, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.end(thread)
