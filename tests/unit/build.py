# SPDX-License-Identifier: Apache-2.0
"""What tests build again and again: tenants, cache domains, and clocks that a test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from iat_nova.model import (
    CacheDomain,
    Message,
    Priority,
    Source,
    SourceProblem,
    Tenant,
    TenantKind,
    Trouble,
    WayMask,
    WayRequest,
)

ANY = WayRequest()


def tenant(
    name: str,
    *cpus: int,
    id: str = "",
    kind: TenantKind = TenantKind.GUEST,
    priority: Priority = Priority.BE,
    io: bool = False,
    ways: WayRequest = ANY,
    **more: object,
) -> Tenant:
    """Return a best-effort guest on these CPUs unless told otherwise; its id is its name."""
    return Tenant(id or name, name, kind, priority, io, cpus, ways, **more)  # type: ignore[arg-type]


def domain(ways: int = 11, ddio: int | None = 2, classes: int = 16, **more: object) -> CacheDomain:
    """Return a cache domain with DDIO's ways found at the top."""
    found = None if ddio is None else WayMask.span(ways - ddio, ddio)
    return CacheDomain(0, tuple(range(64)), ways, classes, ddio_found=found, **more)  # type: ignore[arg-type]


def problems(
    warnings: Iterable[Message] = (), waiting_for: Iterable[Message] = ()
) -> tuple[SourceProblem, ...]:
    """Return problems of libvirt with these messages."""
    told = ((Trouble.WARNING, warnings), (Trouble.WAITING, waiting_for))
    return tuple(SourceProblem(Source.LIBVIRT, kind, one) for kind, all in told for one in all)


class Clock:
    """Virtual time. Each wait lets its time pass and runs what the test has planned for it."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s
        self.asked_s = 0.0
        self.planned: list[Callable[[], object]] = []

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return 1.8e9 + self.now_s

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        self.now_s += seconds
        self.asked_s = seconds
        if self.planned:
            self.planned.pop(0)()
        return wake.is_set()


class StillClock(Clock):
    """Time that the test sets; nobody waits by this clock."""

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        raise AssertionError("no thread waits by this clock")
