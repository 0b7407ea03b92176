# SPDX-License-Identifier: Apache-2.0
"""Serves the metrics over HTTP, in threads of its own.

prometheus_client is the extra ``iat-nova[metrics]``; it does the text format, its escaping and
the HTTP server. A scrape reads one immutable picture: it neither waits for the loop nor makes the
loop wait.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any
from wsgiref import simple_server

from iat_nova.conf import ConfigError
from iat_nova.report.metrics import METRICS
from iat_nova.report.observed import Observer

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric as Family

LOG = logging.getLogger("iat_nova")

CLIENTS = 16  # requests served at a time
CLIENT_S = 5.0  # how long a client may be silent


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


class _Handler(simple_server.WSGIRequestHandler):
    """One request; a client that is silent for `timeout` seconds is let go."""

    timeout = CLIENT_S

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: a scrape is not news."""


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """At most `CLIENTS` requests at a time, a thread each; who comes then is turned away."""

    daemon_threads = True
    block_on_close = False
    # Connections wait here until they are accepted; with the standard library's 5 a burst of them
    # makes the kernel drop the next, which then comes back after 1, 3, 7 .. seconds.
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve in a thread where there is a place."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back in the end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a client that went away in the middle, which is not an error of ours."""
        LOG.debug("metrics: %s", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


def _server(address: str, port: int) -> _Server:
    """Return a server that listens. Raises `OSError`, `OverflowError`."""
    family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    make = _Server6 if family == socket.AF_INET6 else _Server
    return make(place[:2], _Handler)


@contextlib.contextmanager
def serving(address: str, port: int, observer: Observer) -> Iterator[int]:
    """Serve ``/metrics`` while the context lasts; gives the port (0 asks for any free one).

    Raises `ConfigError` where the extra is missing or the address cannot be had.
    """
    try:
        from prometheus_client import make_wsgi_app  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "[iat] metrics_port is set, which needs the extra: pip install 'iat-nova[metrics]'"
        ) from error
    try:
        server = _server(address, port)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"[iat] metrics_address {address}, metrics_port {port}: cannot listen there: {error}"
        ) from error
    server.set_app(make_wsgi_app(registry(observer)))
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
