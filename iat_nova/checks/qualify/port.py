# SPDX-License-Identifier: Apache-2.0
"""Do a single port's ways change hits and misses? A disk writes while its port has few and many.

DDIO keeps few ways, and so do all other ports: what changes is the class of service of the disk's
port alone (I/O RDT).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from iat_nova.checks.qualify import ddio
from iat_nova.checks.qualify.api import Bench, Chart, Judgement, Test, Unavailable, Verdict
from iat_nova.checks.qualify.ddio import FEW, MANY, StretchRow
from iat_nova.hardware.api import PortWays
from iat_nova.model import CacheDomain, Message, PortGroup, WayMask, message

NAME = "port"

_MEANS: Mapping[Verdict, Message] = {
    Verdict.PASS: message("port-follows"),
    Verdict.FAIL: message("port-without-effect"),
    Verdict.INCONCLUSIVE: message("port-undecided"),
}


def measure(bench: Bench, tell: Callable[[str], None]) -> Sequence[StretchRow]:
    """Count while the ways of the disk's port alternate."""
    if bench.port_ways is None:
        raise Unavailable(message("ports-not-placed"), message("set-ddio-interface-iordt"))
    domain, port = _place(bench)
    way_bytes = (domain.way_bytes or 0) // bench.clusters
    bench.counters.watch(bench.cpus)
    found = bench.ddio.read(domain.id)
    if not found:
        raise Unavailable(message("ddio-has-no-ways"))
    with bench.inbound.flowing(bench.cpus[-1], ddio.FITS * way_bytes):
        try:
            bench.ddio.write(domain.id, WayMask.span(domain.ways - FEW, FEW))
            ways = (FEW, min(MANY, domain.ways - FEW))
            steps = [count for _ in range(ddio.ROUNDS) for count in ways]
            return [_row(bench, bench.port_ways, domain, port, count, tell) for count in steps]
        finally:
            try:
                bench.port_ways.place(domain.id, ())
            finally:
                bench.ddio.write(domain.id, found)


def _place(bench: Bench) -> tuple[CacheDomain, str]:
    """Return the cache domain and the port of the disk that the test reads."""
    behind = set(bench.inbound.devices)
    for domain in bench.domains:
        for port in domain.device_ports:
            if not behind.isdisjoint(port.devices):
                if not domain.ddio_counters:
                    raise Unavailable(message("ddio-not-counted", cause=bench.ddio_counted))
                return domain, port.id
    raise Unavailable(message("port-of-disk-unknown"), message("name-nvme-behind-port"))


def _row(
    bench: Bench,
    port_ways: PortWays,
    domain: CacheDomain,
    port: str,
    ways: int,
    tell: Callable[[str], None],
) -> StretchRow:
    """Count hits and misses with the port on ways below DDIO's."""
    tell(f"port {port} has {ways} ways")
    mask = WayMask.span(domain.ways - FEW - ways, ways)
    now = port_ways.place(domain.id, (PortGroup((port,), mask),)).get(port, WayMask(0))
    return ddio.stretch(bench, domain, now, ways)


def judge(rows: Sequence[StretchRow]) -> Judgement:
    """Compare stretches of few ways of the port with stretches of many, as of DDIO's ways."""
    found = ddio.judge(rows)
    remedy = message("leave-ports-alone") if found.verdict is Verdict.FAIL else found.remedy
    return dataclasses.replace(found, means=_MEANS[found.verdict], remedy=remedy)


def chart(rows: Sequence[StretchRow]) -> Chart:
    """Chart the share of misses by stretch."""
    return dataclasses.replace(ddio.chart(rows), x="ways of the port, one stretch after the other")


TEST = Test(NAME, "Do a port's ways change its hits and misses?", 30, measure, judge, chart)
