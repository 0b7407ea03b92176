# SPDX-License-Identifier: Apache-2.0
"""iat-nova explain."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import shutil
import time
from typing import Any

from iat_nova.cmd import guests
from iat_nova.cmd.arguments import is_time, moment, take_times, whole
from iat_nova.cmd.base import (
    EXIT_FAILURE,
    EXIT_NOT_RUNNING,
    EXIT_STARTING,
    EXIT_USAGE,
    Failure,
    Page,
)
from iat_nova.common.plugins import PluginError
from iat_nova.conf import LOCK
from iat_nova.model import DomainInventory, pci_address
from iat_nova.report import account, decision_page, moments, port_account, times, words
from iat_nova.report.account import Account
from iat_nova.report.moments import Loop, Moment
from iat_nova.report.port_account import PortAccount
from iat_nova.report.view import LEGEND
from iat_nova.store.heartbeat import look
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Event, EventKind, Iteration, RecordError, SettingsInForce

_NUMBER = re.compile(r"#([0-9]+)")


class Explain(Page):
    """Explain a decision, or why a guest or a port of devices has its present ways.

    Without argument: the last decision that gave, took or moved ways. With TIME: the last such
    decision at or before this moment. The page begins with the state of the agent at the moment
    and the reason why nothing was done since the decision. If no agent ran, the page says so, and
    the command ends with status 3. Then follow the transition, the moves and their reasons, the
    ways and the measurements; with -v the thresholds, too.

    With GUEST: the class and the rule that chose the class, bounds and present ways, and recent
    changes of ways with the other tenants involved. The page also shows why the guest has no more
    ways, and possible improvements.

    With PORT (I/O RDT): the tenants behind the port, its class of service and present ways, since
    when and by which decision it has these, and why.
    """

    _as_owner = True
    _tells_state = True
    _epilog = """
GUEST is a UUID or its first 8 digits, a name, or the name in libvirt (instance-0000002a);
also vswitch, pool, host. A guest with a name like a time is found by its UUID.

PORT is the PCI address of a port, or of any device behind it: 0000:3b:00.0, 3b:00.0.

TIME is one of:
  03:12  03:12:05                  the latest such time of day (UTC)
  2026-11-21  2026-11-21T03:12:05  a date, a moment (UTC without an offset)
  -10m  -30s  -2h  -1d             before now; the last argument
  '#1234'                          an iteration by the number in the log

examples:
  iat-nova explain
  iat-nova explain 03:12
  iat-nova explain web
  iat-nova explain 0000:5e:00.0
  iat-nova explain --verify '#1234'
  iat-nova explain -v              also the thresholds of the strategy
  iat-nova explain -f json -10m
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        take_times(parser)
        parser.add_argument(
            "time",
            nargs="?",
            metavar="TIME|GUEST|PORT",
            help="a moment, guest or port: see below; default: the last decision",
        )
        parser.add_argument("--domain", type=whole, metavar="N", help="only this cache domain")
        parser.add_argument(
            "--exact",
            action="store_true",
            help="the iteration in force at TIME, even if it did nothing",
        )
        parser.add_argument(
            "--verify",
            action="store_true",
            help="repeat the decision from the record and compare",
        )

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the explanation as text."""
        width = min(shutil.get_terminal_size().columns, 120) if self.colour else 80
        if (told := self._account(parsed_args)) is not None:
            one, ended = told
            if isinstance(one, PortAccount):
                text = port_account.page(one, width=width, colour=self.colour)
            else:
                text = account.page(one, time.time(), width=width, colour=self.colour)
            if ended is not None:
                before = f"{ended}; below is its last state"
                text = "\n".join((*words.titled("Now", [before], width, 4), "", text))
            return text
        found = self._find(parsed_args)
        text = decision_page.explain(
            found.iteration,
            found.inventory,
            found.settings,
            width=width,
            colour=self.colour,
            thresholds=self.app.options.verbose_level > 0,
            search=found.search,
        )
        if found.moment is not None:
            text = "\n".join((*moments.lines(found.moment, width=width), "", text))
        text += f"\n\n{LEGEND}"
        if found.thinned is not None:
            text += f"\n\nThinned    {found.thinned}"
        if parsed_args.verify:
            text += f"\n\nReplay     {found.difference or 'decided once more: the same'}"
        return text

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the explanation as data."""
        if (told := self._account(parsed_args)) is not None:
            one, ended = told
            data = port_account.record(one) if isinstance(one, PortAccount) else account.record(one)
            return {**data, "ended": ended}
        found = self._find(parsed_args)
        data = decision_page.as_data(found.iteration, found.inventory, found.settings)
        data["thinned"] = found.thinned
        data["moment"] = moments.record(found.moment) if found.moment is not None else None
        if parsed_args.verify:
            data["verified"] = found.difference is None
        return data

    def _account(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Account | PortAccount, str | None] | None:
        """Return the explanation of a guest or a port, if one is named, and how the agent ended."""
        what = parsed_args.time
        if what is None or _NUMBER.fullmatch(what) or is_time(what):
            return None
        if parsed_args.verify or parsed_args.exact:
            named = "a port" if pci_address(what) else "a guest"
            raise Failure(f"{what!r} names {named}; --verify and --exact want a time", EXIT_USAGE)
        seen = self.view(parsed_args)
        self.warn_if_stale(seen)
        with self.history(parsed_args) as reader:
            guests.check_domain(reader, parsed_args.domain)
            if pci_address(what):
                found, seen_s = guests.port(reader, what)
                told: Account | PortAccount = port_account.give(reader, seen, found, seen_s)
            else:
                subject, picture = guests.anywhere(reader, what)
                told = account.give(reader, seen, subject, picture)
            return told, moments.ended(reader, seen.agent)

    def _find(self, parsed_args: argparse.Namespace) -> _Found:
        when, domain = parsed_args.time, parsed_args.domain
        numbered = _NUMBER.fullmatch(when) if when else None
        asked_s = _asked(when) if when and not numbered else math.inf
        agent, seen_s = look(self.state_dir(parsed_args) / LOCK), time.time()
        with self.history(parsed_args) as reader:
            guests.check_domain(reader, domain)
            then = None
            if numbered:
                recorded = reader.numbered(int(numbered[1]), domain)
            else:
                _, newest_s = reader.span() or (0.0, 0.0)
                moment_s = min(asked_s, max(time.time(), newest_s))  # the clock may have gone back
                then = moments.at(
                    reader, moment_s, domain, agent, exact=parsed_args.exact, seen_s=seen_s
                )
                recorded = then.decision if then is not None else None
            if then is not None and then.loop is Loop.STARTING:
                self._status = EXIT_STARTING
            elif then is not None and not then.loop.ran:
                self._status = EXIT_NOT_RUNNING
            if recorded is None:
                status = EXIT_FAILURE
                if timed := when and not numbered:
                    status = EXIT_STARTING if _started(reader, asked_s) else EXIT_NOT_RUNNING
                raise Failure(_nothing(reader, when, domain, asked_s if timed else None), status)
            iteration = recorded.iteration
            inventory = reader.domain_inventory(iteration)
            if inventory is None:
                raise Failure(
                    f"iteration #{iteration.decision.iteration} is there, but not the tenants it "
                    "was decided for"
                )
            shown_for = not numbered and (parsed_args.exact or not iteration.eventful)
            thinned = _thinned(reader, recorded) if shown_for else None
            difference = self._verify(reader, recorded) if parsed_args.verify else None
            settings = reader.settings(recorded)
            search = moments.since_search(moments.searched(reader, recorded), inventory)
            return _Found(iteration, inventory, settings, then, thinned, difference, search)

    def _verify(self, reader: HistoryReader, recorded: Recorded) -> str | None:
        """Replay the decision; return the differences, or None."""
        from iat_nova.store.replay import Replay, ReplayError  # noqa: PLC0415 - only here

        was = recorded.iteration.decision
        try:
            now = Replay(reader).decide(recorded)
        except (ReplayError, PluginError, RecordError) as error:
            raise Failure(f"it cannot be verified: {error}") from error
        if now == was:
            return None
        self._status = EXIT_FAILURE
        parts = [
            f"{name}: recorded {getattr(was, name)!r}, now {getattr(now, name)!r}"
            for name in was.__dataclass_fields__
            if getattr(was, name) != getattr(now, name)
        ]
        return "DIFFERENT\n" + "\n".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """The requested iteration, with notes on thinned-out iterations and on the replay.

    `moment`: the requested moment; None for an iteration named by its number. `search`: why the
    last search for moves ended, if the iteration did nothing since.
    """

    iteration: Iteration
    inventory: DomainInventory
    settings: SettingsInForce | None
    moment: Moment | None
    thinned: str | None
    difference: str | None
    search: str


def _asked(text: str) -> float:
    """Return the moment that a text names. Raises `Failure` if its begin is in the future."""
    now_s = time.time()
    if moment(text, now_s, begin=True) > now_s:
        raise Failure(f"{text} is in the future", EXIT_USAGE)
    return moment(text, now_s)


def _thinned(reader: HistoryReader, recorded: Recorded) -> str | None:
    """Describe later iterations that are no longer stored; None where none is missing."""
    count = reader.thinned_after(recorded)
    following = reader.next(recorded) if count else None
    if following is None:
        return None
    last = following.iteration
    return (
        f"{count} iterations after this one did nothing and are not kept any more; the next that "
        f"is kept is #{last.decision.iteration}, {times.moment(last.wall_s)}"
    )


def _nothing(
    reader: HistoryReader, when: str | None, domain: int | None, asked_s: float | None
) -> str:
    """Return the message that no such iteration is recorded, with the recorded period.

    `asked_s`: the moment asked for; None for an iteration asked for by its number.
    """
    span = reader.span()
    if span is None:
        return "no iteration has been recorded yet"
    numbered = _NUMBER.fullmatch(when) if when else None
    between = reader.around(int(numbered[1]), domain) if numbered else None
    if between is not None:
        first, second = (
            f"#{one.iteration.decision.iteration}, {times.moment(one.iteration.wall_s)}"
            for one in between
        )
        return (
            f"iteration {when} did nothing and is not kept any more; kept are the one before "
            f"({first}) and the one after it ({second})"
        )
    where = f" of domain {domain}" if domain is not None else ""
    reach = f"the history reaches from {times.moment(span[0])} to {times.moment(span[1])}"
    if asked_s is not None:
        cause = _cause(reader, asked_s)
        return f"nothing is recorded of {times.moment(asked_s)}{where}: {cause}; {reach}"
    what = f"no iteration {when}" if when else "no iteration"
    return f"{what}{where} is recorded; {reach}"


def _cause(reader: HistoryReader, asked_s: float) -> str:
    """Return why no iteration is recorded up to a moment."""
    if (start := _started(reader, asked_s)) is not None:
        return f"the agent had started at {times.moment(start.wall_s)} and decided nothing yet"
    if reader.complete:  # nothing was removed: no older record
        return "no agent ran at that time with this state directory"
    return "no agent ran at that time, or the history no longer has its records"


def _started(reader: HistoryReader, asked_s: float) -> Event | None:
    """Return the start of the first agent, if that was before a moment without an iteration."""
    events = reader.events(moments.EVENTS, end_s=asked_s) if reader.complete else ()
    turn = next((one for one in events if moments.is_turn(one)), None)
    return turn if turn is not None and turn.kind is EventKind.STARTED else None
