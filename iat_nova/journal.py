# SPDX-License-Identifier: Apache-2.0
"""What the loop tells: the log for who watches, the history for who asks later.

One log line a decision that did something, none while stable. A problem is told once, when it
begins, and once when it ends; while it lasts it is part of every status.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from iat_nova.control.state import DDIO
from iat_nova.enforce import Effective
from iat_nova.history import History
from iat_nova.model import Decision, DomainInventory, Facts, Parameters, Sample, WayMask
from iat_nova.pause import Pause
from iat_nova.records import Iteration, Status
from iat_nova.report import escape, words
from iat_nova.report.observed import Observer
from iat_nova.watchdog import Watchdog

LOG = logging.getLogger("iat_nova")

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Journal:
    """The loop's one voice; called from its thread only.

    `status` is what stays the same. `observer` keeps the latest of everything for the metrics,
    `watchdog` tells the service manager.
    """

    def __init__(
        self,
        history: History,
        status: Status,
        observer: Observer | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._watchdog = watchdog or Watchdog({})
        self._told_manager: str | None = None
        self._history = history
        self._observer = observer or Observer()
        self._status = status
        self._latest = status
        self._inventories: Mapping[int, DomainInventory] = {}
        self._inventory_id = 0
        self._last_picture: tuple[Facts, dict[int, DomainInventory]] | None = None
        self._problems: dict[str, str] = {}
        self._warnings: tuple[str, ...] = ()
        self._history.status(status)
        self._observer.status(status)

    def inventory(
        self,
        wall_s: float,
        facts: Facts,
        inventories: Mapping[int, DomainInventory],
        warnings: tuple[str, ...],
    ) -> None:
        """Record a new picture of the host; nothing when it is the last one again."""
        self._warn(wall_s, warnings)
        picture = (facts, dict(inventories))
        if picture == self._last_picture:
            return
        self._last_picture = picture
        self._inventories = picture[1]
        self._inventory_id = self._history.inventory(wall_s, facts, picture[1])
        self._observer.inventory(picture[1])

    def iteration(
        self,
        wall_s: float,
        state: Any,
        sample: Sample,
        decision: Decision,
        effective: Effective | None,
        timings_us: Mapping[str, float],
    ) -> None:
        """Record one domain's iteration and log it when it did something."""
        iteration = Iteration(
            sample.taken_at_s,
            wall_s,
            decision.domain,
            self._inventory_id,
            state,
            sample,
            decision,
            _masks(effective),
            timings_us,
        )
        self._history.record(iteration)
        self._observer.iteration(iteration)
        if iteration.eventful:
            LOG.info("%s", words.line(decision, self._inventories[decision.domain]))

    def problem(self, wall_s: float, what: str, text: str) -> None:
        """Tell that something is wrong: once, until it is `solved` or worded otherwise."""
        if self._problems.get(what) != text:
            self._problems[what] = text
            self._tell(wall_s, "error", text)

    def solved(self, wall_s: float, what: str, text: str) -> None:
        """Tell that a problem is over; nothing when there was none."""
        if self._problems.pop(what, None) is not None:
            self._tell(wall_s, "info", text)

    def tell(self, wall_s: float, text: str) -> None:
        """Tell something that is no problem: started, policy reloaded, paused."""
        self._tell(wall_s, "info", text)

    def settings(self, parameters: Parameters) -> None:
        """Note that decisions rest on these numbers from now on."""
        self._status = dataclasses.replace(
            self._status, parameters=parameters, interval_s=parameters.interval_s
        )
        self._watchdog.expect_every(parameters.interval_s)

    def status(self, observing: Mapping[str, str], pause: Pause | None) -> None:
        """Refresh what the agent says of itself: every iteration, so that its age is known."""
        degraded = (*self._problems.values(), *self._warnings)
        if self._history.problem:
            degraded = (*degraded, self._history.problem)
        self._latest = dataclasses.replace(
            self._status,
            mode="observe" if observing else "enforce",
            reason="; ".join(observing.values()) or None,
            paused_until_s=pause.until_s if pause else None,
            paused_reason=pause.reason if pause else None,
            degraded=degraded,
        )
        self._history.status(self._latest)
        self._observer.status(self._latest)
        self._tell_manager()

    def _tell_manager(self) -> None:
        """Tell the service manager: ready after the first iteration, then alive after each."""
        latest = self._latest
        text = "enforcing" if latest.mode == "enforce" else f"only observing: {latest.reason}"
        if latest.paused_reason is not None or latest.paused_until_s is not None:
            text += ", paused"
        if latest.degraded:
            text += f"; degraded: {latest.degraded[0]}"
        if self._told_manager is None:
            self._watchdog.expect_every(latest.interval_s)
            self._watchdog.ready(text)
        elif text != self._told_manager:
            self._watchdog.status(text)
        self._told_manager = text
        self._watchdog.alive()

    @property
    def latest(self) -> Status:
        """What the agent said of itself last."""
        return self._latest

    def ending(self) -> None:
        """Tell the service manager that the end has begun."""
        self._watchdog.stopping()

    def close(self, wall_s: float) -> None:
        """Say goodbye and write what is left."""
        self._tell(wall_s, "info", "agent stopped")
        last_error = self._status.last_error
        self._history.status(dataclasses.replace(self._latest, last_error=last_error, stopped=True))
        self._history.close()
        self._watchdog.close()

    def _warn(self, wall_s: float, warnings: tuple[str, ...]) -> None:
        """Tell the warnings that are new and keep all of them for the status."""
        for warning in warnings:
            if warning not in self._warnings:
                self._tell(wall_s, "warning", warning)
        self._warnings = warnings

    def _tell(self, wall_s: float, severity: str, text: str) -> None:
        LOG.log(_LEVELS[severity], "%s", escape.plain(text))  # guests choose their names
        self._history.event(wall_s, severity, text)
        self._observer.event(severity)
        if severity == "error":
            self._status = dataclasses.replace(self._status, last_error=text)


def _masks(effective: Effective | None) -> dict[str, WayMask] | None:
    """Return what the machine has by tenant, and DDIO's, as the history keeps it."""
    if effective is None:
        return None
    ddio = {} if effective.ddio is None else {DDIO: effective.ddio}
    return {**effective.tenants, **ddio}
