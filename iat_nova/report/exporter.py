# SPDX-License-Identifier: Apache-2.0
"""Serves the metrics over HTTP, in threads of its own.

The extra ``iat-nova[metrics]`` brings prometheus_client, which writes the text format. A scrape
reads one immutable value, so scrape and loop never wait for each other.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from iat_nova.common.extras import install
from iat_nova.model.message import MessageError, message
from iat_nova.report.metrics import METRICS
from iat_nova.store.observed import Closed, Observer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family


class MetricsError(MessageError):
    """The metrics cannot be served; `message` names the extra or the address."""


class CannotListen(MetricsError):
    """The address cannot be used now: a port is taken, or an address is not assigned yet."""


class Collector:
    """The collector that prometheus_client calls at each scrape."""

    def __init__(self, observer: Observer, closed: Mapping[Closed, int]) -> None:
        self._observer = observer
        self._closed = closed  # the server's own counter, which keeps counting

    def collect(self) -> Iterable[Family]:
        """Yield every metric with its present samples."""
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
    """Return a registry with iat-nova's metrics only, without metrics of process or interpreter.

    `closed`: the server's counter of closed connections, which keeps counting.
    """
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - an extra

    ours = CollectorRegistry(auto_describe=False)
    ours.register(Collector(observer, {} if closed is None else closed))
    return ours


@contextlib.contextmanager
def serving(address: str, port: int, observer: Observer) -> Iterator[int]:
    """Serve ``/metrics`` during the context; yield the port (0 requests any free port).

    Raises `CannotListen` where the address cannot be used, `MetricsError` without the extra.
    """
    try:
        from prometheus_client.exposition import choose_encoder  # noqa: PLC0415 - an extra

        from iat_nova.report import metrics_server  # noqa: PLC0415 - asyncio is slow to load
    except ImportError as error:
        raise MetricsError(
            message("metrics-extra-absent", command=install("metrics"), error=str(error))
        ) from error
    closed: collections.Counter[Closed] = collections.Counter()
    ours = registry(observer, closed)

    def scrape(accept: str) -> tuple[str, bytes]:
        encode, kind = choose_encoder(accept)
        return kind, encode(ours)

    try:
        listening = metrics_server.listen(address, port)
        server = metrics_server.Server(scrape, listening, closed)
    except (OSError, OverflowError) as error:
        said = message("metrics-not-served", address=address, port=port, error=str(error))
        raise CannotListen(said) from error
    thread = threading.Thread(target=server.run, name="metrics", daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.end(thread)
