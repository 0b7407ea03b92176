# SPDX-License-Identifier: Apache-2.0
"""The data for metrics: the latest values, and a few totals.

The loop's thread replaces one immutable value by the next. A reader gets a complete value without a
lock. Work that depends on the number of tenants is left to the reader.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import TypeVar

from iat_nova.model import DomainInventory, VirtualSwitch
from iat_nova.store.records import Iteration, Status

K = TypeVar("K")


class Closed(enum.StrEnum):
    """Why a connection to the metrics' address was closed without the metrics."""

    DEADLINE = "deadline"
    LIMIT = "limit"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """Iterations, transitions, steps and moved masks of a cache domain since the agent started."""

    iterations: int = 0
    loop_s: float = 0.0
    transitions: Mapping[tuple[int, str, str], int] = dataclasses.field(default_factory=dict)
    steps: Mapping[str, int] = dataclasses.field(default_factory=dict)  # by their action
    moved_masks: int = 0

    def after(self, iteration: Iteration) -> Totals:
        """Return the totals with one more iteration."""
        decision, transitions = iteration.decision, self.transitions
        if decision.rule is not None:
            taken = (decision.rule, decision.phase_before, decision.phase)
            transitions = _counted(transitions, taken)
        return Totals(
            self.iterations + 1,
            self.loop_s + sum(iteration.timings_us.values()) / 1e6,
            transitions,
            _counted(self.steps, *(step.action for step in decision.steps)),
            self.moved_masks + len(decision.moved),
        )


def _counted(counts: Mapping[K, int], *keys: K) -> Mapping[K, int]:
    """Return the counts with one more of each key."""
    counted = dict(counts)
    for key in keys:
        counted[key] = counted.get(key, 0) + 1
    return counted


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """One complete state of the agent. Mappings go by cache domain, `events` by severity.

    `looked_s`: the time of the last reading of the host, in seconds since 1970. `closed`:
    connections to the metrics' address that were closed without the metrics.
    """

    status: Status | None = None
    inventories: Mapping[int, DomainInventory] = dataclasses.field(default_factory=dict)
    latest: Mapping[int, Iteration] = dataclasses.field(default_factory=dict)
    totals: Mapping[int, Totals] = dataclasses.field(default_factory=dict)
    events: Mapping[str, int] = dataclasses.field(default_factory=dict)
    looked_s: float | None = None
    switch: VirtualSwitch | None = None
    closed: Mapping[Closed, int] = dataclasses.field(default_factory=dict)


class Observer:
    """Keeps the latest state in `now`. Only the loop's thread updates; any thread may read."""

    def __init__(self) -> None:
        self.now = Observed()

    def status(self, status: Status) -> None:
        """Store the agent's status."""
        self.now = dataclasses.replace(self.now, status=status)

    def looked(self, wall_s: float) -> None:
        """Store the time of a reading of the host, also without a change."""
        self.now = dataclasses.replace(self.now, looked_s=wall_s)

    def inventory(
        self, inventories: Mapping[int, DomainInventory], switch: VirtualSwitch | None = None
    ) -> None:
        """Store the tenants of each cache domain, and the virtual switch.

        A domain that is missing is offline: its latest iteration is forgotten.
        """
        latest = {number: one for number, one in self.now.latest.items() if number in inventories}
        self.now = dataclasses.replace(
            self.now, inventories=inventories, latest=latest, switch=switch
        )

    def iteration(self, iteration: Iteration) -> None:
        """Store one domain's iteration."""
        now, domain = self.now, iteration.domain
        self.now = dataclasses.replace(
            now,
            latest={**now.latest, domain: iteration},
            totals={**now.totals, domain: now.totals.get(domain, Totals()).after(iteration)},
        )

    def event(self, severity: str) -> None:
        """Count an event."""
        self.now = dataclasses.replace(self.now, events=_counted(self.now.events, severity))
