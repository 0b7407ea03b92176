# SPDX-License-Identifier: Apache-2.0
"""The loop's reports: the log, the history, metrics and the service manager.

Each decision with an effect has one log line; other iterations have a line at level debug only. A
problem is reported once at the beginning and once at the end, and is part of every status in
between. Notices are reported in the same way: expected states such as CPUs offline.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from time import monotonic
from typing import Any, Protocol

from iat_nova.agent.watchdog import Watchdog
from iat_nova.common.clock import Clock
from iat_nova.hardware.enforcement.enforcer import Effective
from iat_nova.model import (
    DDIO,
    Decision,
    DomainInventory,
    Facts,
    Hold,
    Layout,
    Parameters,
    Pause,
    Sample,
    WayMask,
    own_warnings,
)
from iat_nova.model.message import Message, as_message, message
from iat_nova.model.reasons import Code, Reason
from iat_nova.policy.holds import begun, paused
from iat_nova.store.heartbeat import Heartbeat
from iat_nova.store.observed import Observer
from iat_nova.store.records import EventKind, Iteration, Placement, Shadow, Status
from iat_nova.store.writer import History
from iat_nova.strategies import readings
from iat_nova.strategies.outlook import Outlook

LOG = logging.getLogger("iat_nova")

_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

_NO_STATE = object()
_OVERDUE_PERIODS = 2  # one may be missed: a reading was under way, or the process was stopped


class Language(Protocol):
    """Make log text from the agent's messages and decisions, without control characters."""

    def sentence(self, said: Message) -> str:
        """Return the sentence of a message."""

    def line(self, iteration: Iteration, inventory: DomainInventory) -> str:
        """Return an iteration in one line."""


class Journal:
    """All reports of the loop; called from the loop's thread only.

    `status`: the constant part of the status. `language` makes sentences for the log. `observer`
    keeps the latest values for metrics. `watchdog` notifies the service manager. `heartbeat` shows
    other programs that the agent is alive. The inventory is due every `reading_s` seconds of real
    time, because the sources' events come in real time; if it is overdue, new guests get no ways,
    and no other check would report that.
    """

    def __init__(
        self,
        history: History,
        status: Status,
        clock: Clock,
        language: Language,
        observer: Observer | None = None,
        watchdog: Watchdog | None = None,
        heartbeat: Heartbeat | None = None,
        reading_s: float = math.inf,
    ) -> None:
        self._watchdog = watchdog or Watchdog({})
        self._heartbeat = heartbeat or Heartbeat()
        self._overdue_s = _OVERDUE_PERIODS * reading_s
        self._looked_s = monotonic()
        self._language = language
        self._told_manager: Message | None = None
        self._history = history
        self._clock = clock
        self._observer = observer or Observer()
        self._status = status
        self._latest = status
        self._inventories: Mapping[int, DomainInventory] = {}
        self._inventory_id = 0
        self._last_look: tuple[object, ...] = ()  # the whole last inventory
        self._last_picture: tuple[object, ...] = ()  # its lasting part: no packet counts, no time
        self._problems: dict[tuple[Code, str], Message] = {}
        self._notices: dict[tuple[Code, str], Message] = {}
        self._warnings: tuple[Reason, ...] = ()
        self._of_tenants: Mapping[tuple[str, Message], None] = {}  # their own warnings
        self._layouts: dict[int, Layout] = {}  # the last decided, by cache domain
        self._reasons_told: dict[int, set[tuple[str, ...]]] = {}  # since the last action, by domain
        self._pause: Pause | None = None
        self._states: dict[int, Any] = {}  # after the last decision, by cache domain
        self._bests: dict[int, readings.Bests] = {}  # what tenants have shown, by cache domain
        self._decided_for: dict[int, DomainInventory] = {}  # the last decision's, by cache domain
        self._history.status(status)
        self._observer.status(status)

    def inventory(
        self,
        facts: Facts,
        inventories: Mapping[int, DomainInventory],
        warnings: tuple[Reason, ...],
        reasons: Mapping[str, Message] | None = None,
    ) -> None:
        """Record a new inventory of the host; an unchanged inventory only updates the time.

        New packet counts and the time of day do not make a new inventory.
        """
        wall_s = self._clock.wall()
        self._looked_s = monotonic()
        self._observer.looked(wall_s)
        self._warn(warnings)
        domains, why = dict(inventories), dict(reasons or {})
        look = (facts, domains, why)
        if look == self._last_look:
            return
        self._warn_of_tenants(domains)
        self._last_look = look
        picture = (facts.lasting, domains)
        if picture == self._last_picture:
            self._history.recount(wall_s, facts, why)
        else:
            self._last_picture, self._inventories = picture, domains
            self._inventory_id = self._history.inventory(wall_s, facts, domains, why)
        self._observer.inventory(self._inventories, facts.switch)

    def iteration(
        self,
        state: Any,
        sample: Sample,
        decision: Decision,
        effective: Effective | None,
        timings_us: Mapping[str, float],
        after: Any,
        outlook: Outlook = Outlook.UNKNOWN,
    ) -> None:
        """Record one domain's iteration, and log iterations with an effect.

        `state`, `after`: the strategy's states before and after the iteration.
        """
        known = self._bests.get(decision.domain, {})
        bests = readings.follow(known, self._inventories[decision.domain], sample)
        self._bests[decision.domain] = bests
        iteration = Iteration(
            sample.taken_at_s,
            self._clock.wall(),
            decision.domain,
            self._inventory_id,
            state,
            sample,
            decision,
            _masks(effective),
            timings_us,
            self._layouts.get(decision.domain),
            former=self._gone(decision),
            follows=self._states.get(decision.domain, _NO_STATE) is state,
            shown=readings.shown(bests),
            outlook=outlook,
        )
        self._states[decision.domain] = after
        self._layouts[decision.domain] = decision.layout
        self._decided_for[decision.domain] = self._inventories[decision.domain]
        self._history.record(iteration)
        self._observer.iteration(iteration)
        level = logging.INFO if self._tells_something(iteration) else logging.DEBUG
        if LOG.isEnabledFor(level):
            LOG.log(level, "%s", self._language.line(iteration, self._inventories[decision.domain]))

    def _tells_something(self, iteration: Iteration) -> bool:
        """Tell whether an iteration had an effect, or is the first with its reasons for none.

        Reasons with the same codes are the same: numbers change in every iteration.
        """
        told = self._reasons_told.setdefault(iteration.domain, set())
        if iteration.eventful:
            told.clear()
            return True
        codes = tuple(one.code for one in iteration.decision.reasons)
        new = bool(codes) and codes not in told
        told.add(codes)
        return new

    def _gone(self, decision: Decision) -> dict[str, str]:
        """Return the names of tenants in the decision's steps that have left the domain, by id."""
        now = self._inventories[decision.domain]
        before = self._decided_for.get(decision.domain, now)
        if before is now:
            return {}
        here = {tenant.id for tenant in now.tenants}
        subjects = {step.subject for step in decision.steps} - here
        return {one: name for one, name in before.names.items() if one in subjects}

    def note(
        self, code: Code, problem: Message | None, over: Message, subject: object = ""
    ) -> None:
        """Report a problem, or, without a problem, the message `over` for its end."""
        if problem is not None:
            self.problem(code, problem, subject)
        else:
            self.solved(code, over, subject)

    def problem(self, code: Code, said: Message, subject: object = "") -> None:
        """Report a problem once, until the problem is `solved` or the message changes.

        `subject` distinguishes several problems of one code, such as problems of cache domains.
        """
        key = (code, str(subject))
        if self._problems.get(key) != said:
            self._problems[key] = said
            self._tell("error", said)

    def notice(self, code: Code, said: Message | None, over: Message, subject: object = "") -> None:
        """Report an expected state of the host at its start, and the message `over` at its end."""
        key = (code, str(subject))
        before = self._notices.pop(key, None)
        if said is not None:
            self._notices[key] = said
        if said != before:
            self._tell("info", over if said is None else said)

    def failed(self, code: Code, said: Message, subject: object = "") -> None:
        """Report the exception under handling as a problem, with one traceback in the log."""
        if self._problems.get((code, str(subject))) != said:
            LOG.error("%s", self._language.sentence(said), exc_info=True)
        self.problem(code, said, subject)

    def solved(self, code: Code, said: Message, subject: object = "") -> None:
        """Report the end of a problem; silent without a problem."""
        if self._problems.pop((code, str(subject)), None) is not None:
            self._tell("info", said)

    def tell(self, said: Message, kind: EventKind | None = None) -> None:
        """Report an event that is not a problem: restored, policy reloaded, handed over."""
        self._tell("info", said, kind)

    def starting(self) -> None:
        """Report the start of the loop."""
        said = message("agent-started", version=self._status.version, pid=self._status.pid)
        self._tell("info", said, EventKind.STARTED)

    def adopted(self) -> None:
        """Record in the status that the previous agent's masks and decisions were adopted."""
        self._status = dataclasses.replace(self._status, adopted_s=self._clock.wall())

    def handed_over(self) -> None:
        """Record in the status that masks and decisions are left to the next agent."""
        self._status = dataclasses.replace(self._status, handed_over_s=self._clock.wall())

    def policy_read(self) -> None:
        """Count a requested reading of the policy in the status, with any outcome."""
        reads = self._status.policy_reads + 1
        self._status = dataclasses.replace(self._status, policy_reads=reads)

    def settings(self, parameters: Parameters, policy: str) -> None:
        """Record the parameters and the policy of all later decisions in the status."""
        self._status = dataclasses.replace(
            self._status, parameters=parameters, policy=policy, interval_s=parameters.interval_s
        )
        self._watchdog.expect_every(parameters.interval_s)

    def holds(self, holds: tuple[Hold, ...]) -> None:
        """Record the operators' holds in the status; report holds that began or ended."""
        before = self._status.holds
        for hold in holds:
            if hold not in before:
                self._tell("info", begun(hold))
        for hold in before:
            if all(hold.tenant != one.tenant for one in holds):
                self._tell("info", message("hold-ended", name=hold.name))
        self._status = dataclasses.replace(self._status, holds=holds)

    def shadow(self, now: Shadow) -> None:
        """Record the shadow strategy's decisions so far in the status."""
        if self._status.shadow is not now:
            self._status = dataclasses.replace(self._status, shadow=now)

    def placement(self, now: Placement | None) -> None:
        """Record the offer to Placement, and the possible offer of this host, in the status."""
        self._status = dataclasses.replace(self._status, placement=now)

    def status(self, observing: Mapping[Code, Message], pause: Pause | None) -> None:
        """Write the status; called in every iteration, so that the status has a known age."""
        self._own_problems()
        if pause != self._pause:
            self._pause = pause
            if pause is None:
                self._tell("info", message("decisions-resumed"), EventKind.RESUMED)
            else:
                self._tell("info", paused(pause), EventKind.PAUSED)
        problems = [Reason(code, said) for (code, _), said in self._problems.items()]
        problems += self._warnings
        self._latest = dataclasses.replace(
            self._status,
            mode="observe" if observing else "enforce",
            reasons=tuple(Reason(code, said) for code, said in observing.items()),
            paused_until_s=pause.until_s if pause else None,
            paused_reason=pause.reason if pause else None,
            problems=tuple(problems),
            notices=tuple(
                Reason(code, self._notices[code, subject])
                for code, subject in sorted(self._notices)
            ),
        )
        self._observer.status(self._latest)
        self._heartbeat.iteration(self._latest.interval_s, self._history.problem)
        self._tell_manager()
        self._history.status(self._latest)

    def _own_problems(self) -> None:
        """Report an unwritable history or heartbeat and an overdue inventory; the loop goes on."""
        for code, error, over in (
            (Code.HISTORY_UNWRITABLE, self._history.problem, message("history-writable")),
            (Code.HEARTBEAT_UNWRITABLE, self._heartbeat.problem, message("heartbeat-writable")),
        ):
            self.note(code, as_message(error) if error else None, over)
        late = monotonic() - self._looked_s > self._overdue_s
        problem = message("inventory-old", overdue_s=self._overdue_s) if late else None
        self.note(Code.INVENTORY_OLD, problem, message("inventory-fresh"))

    def _tell_manager(self) -> None:
        """Notify the service manager: ready after the first iteration, then alive after each."""
        latest = self._latest
        state = message("enforcing") if latest.mode == "enforce" else self._observing()
        if latest.paused_reason is not None or latest.paused_until_s is not None:
            state = message("and-paused", state=state)
        if latest.problems:
            state = message("and-degraded", state=state, problem=latest.problems[0].message)
        if self._told_manager is None:
            self._watchdog.expect_every(latest.interval_s)
            self._watchdog.ready(self._language.sentence(state))
        elif state != self._told_manager:
            self._watchdog.status(self._language.sentence(state))
        self._told_manager = state
        self._watchdog.alive()

    def _observing(self) -> Message:
        causes = tuple(reason.message for reason in self._latest.reasons)
        return message("only-observing", reason=message("several", causes=causes))

    @property
    def latest(self) -> Status:
        """The last status."""
        return self._latest

    def ending(self) -> None:
        """Notify the service manager and the heartbeat that the shutdown has begun."""
        self._watchdog.stopping()
        self._heartbeat.stopping()

    def close(self) -> None:
        """Report that the agent stopped, write the last status and close history and watchdog."""
        self._tell("info", message("agent-stopped"), EventKind.STOPPED)
        said = self._status
        self._history.status(
            dataclasses.replace(
                self._latest,
                last_error=said.last_error,
                handed_over_s=said.handed_over_s,
                stopped=True,
            )
        )
        self._history.close()
        self._watchdog.close()

    def _warn(self, warnings: tuple[Reason, ...]) -> None:
        for warning in warnings:
            if warning not in self._warnings:
                self._tell("warning", warning.message)
        self._warnings = warnings

    def _warn_of_tenants(self, inventories: Mapping[int, DomainInventory]) -> None:
        before, now = self._of_tenants, own_warnings(inventories.values())
        self._of_tenants = now
        for name, said in now:
            if (name, said) not in before:
                self._tell("warning", message("tenant-warning", name=name, warning=said))
        for name, said in before:
            if (name, said) not in now:
                self._tell("info", message("tenant-warning-over", name=name, warning=said))

    def _tell(self, severity: str, said: Message, kind: EventKind | None = None) -> None:
        if LOG.isEnabledFor(_LEVELS[severity]):
            LOG.log(_LEVELS[severity], "%s", self._language.sentence(said))
        self._history.event(self._clock.wall(), severity, said, kind)
        self._observer.event(severity)
        if severity == "error":
            self._status = dataclasses.replace(self._status, last_error=said)


def _masks(effective: Effective | None) -> dict[str, WayMask] | None:
    """Return the effective masks by tenant and port, and DDIO's, as the history stores them."""
    if effective is None:
        return None
    ddio = {} if effective.ddio is None else {DDIO: effective.ddio}
    return {**effective.tenants, **effective.ports, **ddio}
