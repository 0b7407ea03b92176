# SPDX-License-Identifier: Apache-2.0
"""The ways in force at a moment: by which decision, or that no agent ran."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterable
from typing import Any

from iat_nova.model import DomainInventory, Message
from iat_nova.report import escape, sentences, times, words
from iat_nova.store.heartbeat import AgentNow
from iat_nova.store.reader import HistoryReader, Recorded
from iat_nova.store.records import Event, EventKind

EVENTS = 1000  # after an iteration, that are searched for the agent's end
LATEST = 50  # decisions that are searched for the last change of ways
UNWRITTEN_S = 10.0  # iterations of so long a time may be missing after a kill (see `store.writer`)
SEARCHED_S = 60.0  # after a decision, in which the end of the search is looked for
THINNED_S = 60.0  # and of so long a time before the next kept one, where they are thinned out
SEARCH_ENDED = "nothing-to-try"  # the code of the reason that a search for moves found none


class Loop(enum.StrEnum):
    """The state of the agent's loop at a moment."""

    RUNNING = "running"
    STARTING = "starting"  # and has decided nothing yet
    PAUSED = "paused"  # by an operator: the masks stay, nothing is decided
    STOPPED = "stopped"  # in order
    HANDED_OVER = "handed over"  # the masks are kept for the next agent
    UNCLEAN = "unclean"  # killed, or lost with the host: the end is not recorded

    @property
    def ran(self) -> bool:
        """Whether an agent was running at that time."""
        return self in (Loop.RUNNING, Loop.STARTING, Loop.PAUSED)


_TURNS = {
    EventKind.STARTED: Loop.STARTING,
    EventKind.PAUSED: Loop.PAUSED,
    EventKind.RESUMED: Loop.RUNNING,
    EventKind.STOPPED: Loop.STOPPED,
    EventKind.HANDED_OVER: Loop.HANDED_OVER,
}
"""The state of the loop after an event and before the next iteration, by kind of the event."""


def is_turn(event: Event) -> bool:
    """Return whether the state of the loop changed with an event."""
    return event.kind in _TURNS


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """A cache domain at a moment (wall clock).

    `last`: the last iteration up to the moment. `decision`: the last decision that changed ways,
    else the last with an effect, else `last`. `since`: the event that began the state of the loop,
    or None; of an unclean end the last event before. `restored`: the original settings were
    restored after `last`. `inventory`: the tenants of `last`. `unclean_by_s`: the agent ended after
    `last` and before this time without a record of its end; None if it did not. `searched`: the
    iteration that ended the last search (`searched`).
    """

    wall_s: float
    last: Recorded
    decision: Recorded
    loop: Loop
    since: Event | None
    restored: bool
    inventory: DomainInventory | None
    unclean_by_s: float | None = None
    searched: Recorded | None = None


def at(
    reader: HistoryReader,
    wall_s: float,
    domain: int | None,
    agent: AgentNow,
    *,
    exact: bool,
    seen_s: float = math.inf,
) -> Moment | None:
    """Return what the history says of a moment; None before its first iteration.

    `exact`: the last iteration counts as the decision, even if it did nothing. `agent`: the agent's
    state at the time `seen_s`.
    """
    decision = None if exact else in_force(reader, wall_s, domain)
    last = reader.at(wall_s, domain if decision is None else decision.iteration.domain)
    if last is None:
        return None
    begin_s = last.iteration.wall_s
    events = reader.events(EVENTS, begin_s, wall_s)
    loop, since = _loop(reversed(events))
    unclean_by_s = _unclean_by(reader, last, since, wall_s, agent) if loop.ran else None
    if unclean_by_s is not None:
        unclean_by_s = min(unclean_by_s, seen_s)
        loop = Loop.UNCLEAN if wall_s >= unclean_by_s else loop
    return Moment(
        wall_s,
        last,
        decision or last,
        loop,
        since,
        any(event.kind is EventKind.RESTORED for event in events),
        reader.domain_inventory(last.iteration),
        unclean_by_s,
        searched(reader, last),
    )


def searched(reader: HistoryReader, recorded: Recorded) -> Recorded | None:
    """Return the earlier iteration in which the search for moves ended without a trial.

    The strategy records the rejected moves with reasons only in that iteration. None if the given
    iteration acts or has such reasons, or if the strategy does not search.
    """
    iteration = recorded.iteration
    if iteration.eventful or _ends_search(recorded):
        return None
    domain = iteration.domain
    decided = next(iter(reader.decisions(1, domain, end_s=iteration.wall_s)), None)
    if decided is None:
        return None
    begin_s = decided.iteration.wall_s
    end_s = min(iteration.wall_s, begin_s + SEARCHED_S)
    found = search_end(reader, domain, begin_s, end_s)
    return found if found is not None and found.row <= recorded.row else None


def search_end(reader: HistoryReader, domain: int, begin_s: float, end_s: float) -> Recorded | None:
    """Return the last iteration of a period (wall clock) that ends a search for moves, or None."""
    rows = reader.between(begin_s, end_s, domain)
    return max(filter(_ends_search, rows), key=lambda one: one.row, default=None)


def _ends_search(recorded: Recorded) -> bool:
    return any(one.code == SEARCH_ENDED for one in recorded.iteration.decision.why)


def ended(reader: HistoryReader, agent: AgentNow) -> str | None:
    """Return how the last agent ended, and what became of the masks; None if an agent is alive."""
    if agent.alive:
        return None
    moment = at(reader, math.inf, None, agent, exact=True)
    if moment is None:
        return "no agent runs"
    return escape.plain(f"no agent runs: {_end(moment)}")


def in_force(reader: HistoryReader, wall_s: float, domain: int | None) -> Recorded | None:
    """Return the last decision up to a moment that changed ways, else the last with an effect.

    None without a decision until then.
    """
    decisions = reader.decisions(LATEST, domain, end_s=wall_s)
    about_ways = (one for one in decisions if one.iteration.about_ways)
    return next(about_ways, decisions[0] if decisions else None)


def _loop(events: Iterable[Event]) -> tuple[Loop, Event | None]:
    """Return the loop's state after events (oldest first), and the event that began the state."""
    loop, since = Loop.RUNNING, None
    for event in events:
        after = _TURNS.get(event.kind) if event.kind is not None else None
        # An agent that hands over stops as well.
        if after is not None and not (after is Loop.STOPPED and loop is Loop.HANDED_OVER):
            loop, since = after, event
    return loop, since


def _unclean_by(
    reader: HistoryReader, last: Recorded, since: Event | None, wall_s: float, agent: AgentNow
) -> float | None:
    """Return the time by which the agent had ended without an event after `last`, or None.

    The last iterations of a killed agent may be missing, and so may thinned-out iterations. An
    agent that starts or is paused (`since`) has none: it ended before the next agent started.
    """
    following = reader.next(last)
    until_s = math.inf if following is None else following.iteration.wall_s
    events = reversed(reader.events(EVENTS, wall_s, until_s))
    turn = next((one for one in events if is_turn(one) and one != since), None)
    if turn is not None:
        until_s = turn.wall_s
        ended = turn.kind is EventKind.STARTED  # the end of the agent before is not recorded
    elif following is None:
        ended = not agent.alive
    else:
        ended = since is None and (
            following.iteration.decision.iteration <= last.iteration.decision.iteration
        )
    if not ended:
        return None
    if since is not None:
        return until_s
    whole_s = reader.whole_since()
    thinned = whole_s is not None and last.iteration.wall_s < whole_s
    return last.iteration.wall_s + UNWRITTEN_S + (THINNED_S if thinned else 0.0)


# ------------------------------------------------------------------ words and data


def lines(moment: Moment, *, width: int) -> list[str]:
    """Return the loop's state at the moment, and why nothing was done since the last decision."""
    decided, last = moment.decision.iteration, moment.last.iteration
    kind = "decision" if decided.eventful else "iteration"
    ago = times.duration(max(0.0, moment.wall_s - decided.wall_s))
    when = times.moment(moment.wall_s)
    number = f"#{decided.decision.iteration}"
    if not moment.loop.ran:
        text = f"no agent ran: {_end(moment)}. The last {kind}, {number}, was {ago} before"
    elif moment.loop is Loop.PAUSED:
        text = f"{_sentence(moment.since)}. The last {kind}, {number}, was {ago} before"
    elif moment.loop is Loop.STARTING:
        before = f"The last {kind}, {number} of the agent before, was {ago} before"
        text = f"{_start(moment)}. {before}"
    else:
        text = f"{kind} {number}, {ago} before, {_force(moment)}"
        if moment.unclean_by_s is not None:
            text += f"; {_unclean(moment)} at or before {times.moment(moment.unclean_by_s)}"
    found = [f"{when}: {escape.plain(text)}"]
    if moment.loop is Loop.RUNNING and moment.last.row != moment.decision.row:
        found.append(f"#{last.decision.iteration} {_since(moment)}")
    return words.titled("Moment", found, width)


def _force(moment: Moment) -> str:
    """Return whether the ways of the last decision were on the hardware."""
    last = moment.last.iteration
    if last.effective is not None:
        return "was in force"
    if moment.decision.iteration.effective is None:
        return "was not written: the agent observed, or a write failed"
    later = f"#{last.decision.iteration} wrote nothing"
    return f"was written; {later}: the agent observed, or a write failed"


def _since(moment: Moment) -> str:
    """Return what the last iteration did since the decision, or why it did nothing."""
    last = moment.last.iteration
    if last.eventful and moment.inventory is not None:
        return f"changed no ways: {words.deeds(last, moment.inventory, why=True)}"
    return f"did nothing: {why(moment) or 'its strategy gave no reason'}"


def cause(moment: Moment) -> str | None:
    """Return why nothing was decided at the moment: no agent, or a pause; else None."""
    if not moment.loop.ran:
        return escape.plain(f"no agent ran: {_end(moment)}")
    return escape.plain(_sentence(moment.since)) if moment.loop is Loop.PAUSED else None


def why(moment: Moment) -> str:
    """Return why the last iteration did nothing, in sentences; empty without a reason."""
    found = reasons(moment.last, moment.inventory), since_search(moment.searched, moment.inventory)
    return "; ".join(filter(None, found))


def since_search(found: Recorded | None, inventory: DomainInventory | None) -> str:
    """Return why the last search ended, ``at #57: nothing more to try: ...``, or nothing."""
    if found is None:
        return ""
    decision = found.iteration.decision
    said = tuple(one for one in decision.why if one.code == SEARCH_ENDED)
    return f"at #{decision.iteration}: {_sentences(said, found, inventory)}"


def reasons(recorded: Recorded, inventory: DomainInventory | None) -> str:
    """Return the reasons of an iteration's decision and of the decision's steps, as sentences."""
    return _sentences(recorded.iteration.decision.reasons, recorded, inventory)


def _sentences(
    said: tuple[Message, ...], recorded: Recorded, inventory: DomainInventory | None
) -> str:
    if inventory is None:
        return "; ".join(escape.plain(sentences.text(one)) for one in said)
    names = words.Names(inventory, recorded.iteration.former)
    return "; ".join(map(names.within, said))


def _start(moment: Moment) -> str:
    """Return when the agent started, and what had become of the masks of the agent before."""
    when = times.moment(moment.since.wall_s) if moment.since is not None else "a time not recorded"
    restored = "; original settings had been restored" if moment.restored else ""
    return f"the agent had started at {when} and had decided nothing yet{restored}"


def _unclean(moment: Moment) -> str:
    """Return a sentence on an unclean shutdown of the last agent."""
    known = moment.since or moment.last.iteration
    when = times.moment(known.wall_s)
    return f"unclean shutdown after {when} (the agent was killed, or the host failed)"


def _end(moment: Moment) -> str:
    """Return how and when the last agent ended, and whether the masks were restored."""
    if moment.since is None or moment.loop is Loop.UNCLEAN:
        if moment.restored:
            return f"{_unclean(moment)}; original settings had been restored"
        if moment.last.iteration.effective is None:
            return f"{_unclean(moment)}; its last iteration wrote nothing"
        return f"{_unclean(moment)}; masks are kept as written until they are restored"
    when = times.moment(moment.since.wall_s)
    if moment.loop is Loop.HANDED_OVER:
        return f"the agent handed over at {when}; masks are kept for the next agent"
    restored = ", original settings restored" if moment.restored else ""
    return f"the agent stopped at {when}{restored}"


def _sentence(event: Event | None) -> str:
    return sentences.text(event.message) if event is not None else "paused"


def record(moment: Moment) -> dict[str, Any]:
    """Return the moment as plain values."""
    last, since = moment.last.iteration, moment.since
    return {
        "wall_s": moment.wall_s,
        "agent": moment.loop.value,
        "since_s": since.wall_s if since is not None and moment.loop is not Loop.UNCLEAN else None,
        "restored": moment.restored,
        "written": last.effective is not None,
        "unclean_by_s": moment.unclean_by_s,
        "decided_s_ago": max(0.0, moment.wall_s - moment.decision.iteration.wall_s),
        "last_iteration": last.decision.iteration,
        "last_wall_s": last.wall_s,
        "why": why(moment),
    }
