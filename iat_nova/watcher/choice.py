# SPDX-License-Identifier: Apache-2.0
"""The choice of migrations: the fewest moves after which critical guests lose little. Pure.

The effect of a move is estimated by the agents' rule for losses: misses fall exponentially with the
cache's size. A departing guest frees its share of the LLC, and the remaining guests divide this
share in proportion. At the destination the guest takes the share that a newcomer finds there. If
the agent there confines newcomers, its critical guests lose less than estimated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from .hosts import Domain, Free, Guest, Host, Reading

LEAST_LEFT = 0.05  # share of stalls left with the whole LLC: no estimate is better
LEAST_WAYS = 1.0  # ways that a destination must offer a newcomer
SLOWED = 0.5  # share of its speed that a guest loses while its memory is copied


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """An audit's parameters.

    `threshold`: the maximum loss of a critical guest, a share of cycles. `most_moves`: of one plan.
    `stay_s`: expected time of a guest on its host. `copied_mb_per_s`: speed of a
    live migration.
    """

    threshold: float = 0.1
    most_moves: int = 2
    stay_s: float = 3600.0
    copied_mb_per_s: float = 500.0


@dataclasses.dataclass(frozen=True, slots=True)
class Relief:
    """A critical guest's estimated loss before and after a plan."""

    guest: str
    before: float
    after: float


@dataclasses.dataclass(frozen=True, slots=True)
class Move:
    """A live migration with its reason: gain and cost in CPU seconds, and the relieved guests.

    `passed`: if a critical guest moves, the name of the best-effort guest whose move would help
    most, and the largest loss after such a move.
    """

    guest: Guest
    source: str
    destination: str
    relieved: tuple[Relief, ...]
    gain_cpu_s: float
    cost_cpu_s: float
    passed: tuple[str, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """A cache domain with short guests and without a proposed migration; reason in `words.LEFT`."""

    host: str
    domain: int
    code: str
    short: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """The moves, the domains without a move, and the number of short guests before and after."""

    moves: tuple[Move, ...]
    left: tuple[Left, ...]
    short_before: int
    short_after: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Taken:
    """Resources of a destination in use by earlier moves of the plan."""

    free: Free
    kept: float = 1.0  # share of its part of the LLC that a resident keeps


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """A movable guest, its destination, and the best-effort guest `passed` over."""

    guest: Guest
    destination: Host
    passed: tuple[str, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Worth:
    """Losses of short guests after moves: number still short, sum above the threshold, largest."""

    short: int
    excess: float
    largest: float

    def rank(self, guest: Guest) -> tuple[object, ...]:
        """Return the order of moves: guests still short, excess in percent, best effort, ..."""
        return (
            -self.short,
            -round(self.excess, 2),
            not guest.critical,
            -self.excess,
            -guest.memory_mb,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Site:
    """A cache domain to relieve, with the critical guests of known loss."""

    host: Host
    number: int
    critical: Mapping[str, tuple[Guest, Reading]]

    @property
    def domain(self) -> Domain:
        return self.host.domains[self.number]

    def short(self, limits: Limits) -> list[str]:
        """Return the critical guests whose loss exceeds the threshold."""
        return [one for one, (_, seen) in self.critical.items() if _over(seen.loss, limits)]

    def excess(self, limits: Limits) -> float:
        """Return by how much the losses of guests above the threshold exceed it, added up."""
        losses = (self.critical[one][1].loss or 0.0 for one in self.short(limits))
        return sum(loss - limits.threshold for loss in losses)


def choose(hosts: Sequence[Host], limits: Limits) -> Choice:
    """Return the moves of one plan, the hosts with the largest losses first."""
    sites = [site for host in hosts for site in _sites(host) if site.short(limits)]
    sites.sort(key=lambda site: (-site.excess(limits), site.host.name, site.number))
    moves: list[Move] = []
    left: list[Left] = []
    taken = {host.name: _Taken(host.free) for host in hosts}
    gone: set[str] = set()
    before, lifted = sum(len(site.short(limits)) for site in sites), 0
    for site in sites:
        short = tuple(sorted(site.critical[one][0].name for one in site.short(limits)))
        code = _refused(site)
        found: tuple[Move, ...] = ()
        if not code and len(moves) >= limits.most_moves:
            code = "most-moves"
        if not code:
            search = _Search(hosts, limits, taken, gone)
            found, code = search.relieve(site, limits.most_moves - len(moves))
        if not found:
            left.append(Left(site.host.name, site.number, code, short))
            continue
        moves += found
        lifted += sum(one.after <= limits.threshold for one in found[-1].relieved)
    return Choice(tuple(moves), tuple(left), before, before - lifted)


def _sites(host: Host) -> Iterator[_Site]:
    for number in host.domains:
        critical = {
            guest.uuid: (guest, guest.readings[number])
            for guest in host.guests
            if guest.critical and number in guest.readings
        }
        yield _Site(host, number, critical)


def _refused(site: _Site) -> str:
    """Return the reason for not relieving a domain with short guests, or None."""
    if site.host.unusable is not None:
        return site.host.unusable.value
    if site.domain.exhausted is None:
        return "not-said"
    return "" if site.domain.exhausted else "not-exhausted"


class _Search:
    """Finds moves for one site; `taken`, `gone`: used resources, and guests already moved."""

    def __init__(
        self,
        hosts: Sequence[Host],
        limits: Limits,
        taken: dict[str, _Taken],
        gone: set[str],
    ) -> None:
        self._hosts, self._limits = hosts, limits
        self._taken, self._gone = taken, gone

    def relieve(self, site: _Site, most: int) -> tuple[tuple[Move, ...], str]:
        """Return the moves after which fewer guests are short, or no moves and the reason.

        Each move is the best of the remaining moves.
        """
        short = site.short(self._limits)
        chosen: list[_Step] = []
        taken, code = dict(self._taken), ""
        while len(chosen) < most and self._still_short(site, short, chosen):
            step, code = self._next(site, short, chosen, taken)
            if step is None:
                break
            chosen.append(step)
            taken[step.destination.name] = self._after(step.destination, step.guest, taken)
        tried, chosen = bool(chosen), self._needed(site, short, chosen)
        if not chosen:
            return (), code if code and not (tried and code == "no-candidate") else "not-enough"
        moves = tuple(self._moves(site, short, chosen))
        if sum(one.gain_cpu_s - one.cost_cpu_s for one in moves) <= 0:
            return (), "cost"
        for one in chosen:
            there = one.destination
            self._taken[there.name] = self._after(there, one.guest, self._taken)
            self._gone.add(one.guest.uuid)
        return moves, ""

    def _next(
        self,
        site: _Site,
        short: Sequence[str],
        chosen: Sequence[_Step],
        taken: Mapping[str, _Taken],
    ) -> tuple[_Step | None, str]:
        """Return the best move after the chosen moves, or None and the reason."""
        gone = self._gone | {one.guest.uuid for one in chosen}
        candidates = _candidates(site, gone)
        possible = [
            _Step(guest, destination)
            for guest in candidates
            if (destination := self._destination(site, guest, taken)) is not None
        ]
        if not possible:
            return None, "no-destination" if candidates else "no-candidate"
        worth = {one.guest.uuid: self._worth(site, short, [*chosen, one]) for one in possible}
        before = self._worth(site, short, chosen)
        best = max(possible, key=lambda one: worth[one.guest.uuid].rank(one.guest))
        if worth[best.guest.uuid].excess >= before.excess:
            return None, "not-enough"
        others = [one.guest for one in possible if not one.guest.critical]
        if not best.guest.critical or not others:
            return best, ""
        other = max(others, key=lambda one: worth[one.uuid].rank(one))
        return dataclasses.replace(best, passed=(other.name, worth[other.uuid].largest)), ""

    def _worth(self, site: _Site, short: Iterable[str], chosen: Sequence[_Step]) -> _Worth:
        losses = [self._loss_after(site, one, chosen) for one in short]
        over = [loss - self._limits.threshold for loss in losses if _over(loss, self._limits)]
        return _Worth(len(over), sum(over), max(losses, default=0.0))

    def _needed(self, site: _Site, short: Sequence[str], chosen: list[_Step]) -> list[_Step]:
        """Return the moves without which more guests would stay short."""
        best = self._still_short(site, short, chosen)
        if len(best) == len(short):
            return []
        for step in reversed(chosen):
            fewer = [one for one in chosen if one is not step]
            if len(self._still_short(site, short, fewer)) == len(best):
                chosen = fewer
        return chosen

    def _still_short(self, site: _Site, short: Iterable[str], chosen: Sequence[_Step]) -> list[str]:
        return [
            one for one in short if self._loss_after(site, one, chosen) > self._limits.threshold
        ]

    def _loss_after(self, site: _Site, guest: str, chosen: Sequence[_Step]) -> float:
        """Return a critical guest's estimated loss after the moves, on its host of then."""
        _, seen = site.critical[guest]
        for one in chosen:
            if one.guest.uuid == guest:
                return _arrived(seen, _finds(one.destination, critical=True))
        freed = sum(one.guest.readings[site.number].fills for one in chosen)
        kept = seen.fills / (1.0 - freed) if freed < 1.0 else 1.0
        return max(0.0, _known(seen) - seen.stalled + _stalled(seen, kept))

    def _destination(self, site: _Site, guest: Guest, taken: Mapping[str, _Taken]) -> Host | None:
        """Return the host with the most room for a guest, or None."""
        fit = [host for host in self._hosts if self._fits(site, guest, host, taken)]
        room = {
            host.name: _finds(host, critical=guest.critical) * taken[host.name].kept for host in fit
        }
        return min(fit, key=lambda host: (-room[host.name], host.name), default=None)

    def _fits(self, site: _Site, guest: Guest, host: Host, taken: Mapping[str, _Taken]) -> bool:
        if host is site.host or host.unusable is not None or host.groups != site.host.groups:
            return False
        finds, used = _finds(host, critical=guest.critical), taken[host.name]
        ways = min((one.ways for one in host.domains.values()), default=0)
        if finds * ways * used.kept < LEAST_WAYS or not used.free.fits(guest):
            return False
        if guest.critical:
            seen = guest.readings[site.number]
            if _arrived(seen, finds * used.kept) > self._limits.threshold:
                return False
        kept = used.kept * (1.0 - finds)
        return all(_crowded(seen, kept) <= self._limits.threshold for _, seen in _residents(host))

    def _after(self, host: Host, guest: Guest, taken: Mapping[str, _Taken]) -> _Taken:
        before = taken[host.name]
        finds = _finds(host, critical=guest.critical)
        return _Taken(before.free.without(guest), before.kept * (1.0 - finds))

    def _moves(self, site: _Site, short: Sequence[str], chosen: Sequence[_Step]) -> Iterator[Move]:
        """Yield the moves in order, each with its addition to the relief by earlier moves."""
        for number, step in enumerate(chosen, 1):
            guest, destination, gain = step.guest, step.destination, 0.0
            relieved = []
            for uuid, (victim, seen) in site.critical.items():
                if seen.loss is not None:
                    before = self._loss_after(site, uuid, chosen[: number - 1])
                    after = self._loss_after(site, uuid, chosen[:number])
                    gain += (before - after) * victim.vcpus * self._limits.stay_s
                    if uuid in short:
                        relieved.append(Relief(victim.name, seen.loss, after))
            finds = _finds(destination, critical=guest.critical)
            for resident, seen in _residents(destination):
                harm = _crowded(seen, 1.0 - finds) - _known(seen)
                gain -= harm * resident.vcpus * self._limits.stay_s
            copied_s = guest.memory_mb / self._limits.copied_mb_per_s
            cost = copied_s * SLOWED * guest.vcpus
            there = destination.name
            yield Move(guest, site.host.name, there, tuple(relieved), gain, cost, step.passed)


def _candidates(site: _Site, gone: Set[str]) -> list[Guest]:
    """Return the guests that may leave; critical guests only if their loss is known."""
    return [
        guest
        for guest in site.host.guests
        if guest.fixed is None
        and guest.uuid not in gone
        and site.number in guest.readings
        and (not guest.critical or guest.readings[site.number].loss is not None)
    ]


def _residents(host: Host) -> Iterator[tuple[Guest, Reading]]:
    for guest in host.guests:
        if guest.critical:
            for seen in guest.readings.values():
                yield guest, seen


def _finds(host: Host, *, critical: bool) -> float:
    """Return a newcomer's share of the LLC in the host's worst cache domain."""
    return min((one.finds.get(critical, 0.0) for one in host.domains.values()), default=0.0)


def _known(seen: Reading) -> float:
    """Return a resident's loss; all stalls of the resident if the loss is not known."""
    return seen.stalled if seen.loss is None else seen.loss


def _crowded(seen: Reading, kept: float) -> float:
    """Return a resident's loss with only a part of the resident's share of the LLC."""
    return _known(seen) - seen.stalled + _stalled(seen, seen.fills * kept)


def _arrived(seen: Reading, finds: float) -> float:
    """Return a critical guest's loss on a host with this free share of the LLC."""
    alone = _stalled(seen, 1.0)
    return max(0.0, _stalled(seen, finds) - alone)


def _stalled(seen: Reading, share: float) -> float:
    """Return the share of cycles stalled by LLC misses with another share of the LLC.

    Stalls fall exponentially with the share, through two known points: the stalls now, and the
    stalls with the whole LLC. Without a known loss, stalls fall with the square root of the share.
    """
    if seen.stalled <= 0 or seen.fills <= 0 or seen.fills >= 1:
        return min(1.0, seen.stalled)
    if share <= 0:
        return 1.0
    if seen.loss is None:
        return min(1.0, seen.stalled * math.sqrt(seen.fills / share))
    left = max(LEAST_LEFT, 1.0 - seen.loss / seen.stalled)
    exponent = math.log(left) * (share - seen.fills) / (1.0 - seen.fills)
    return seen.stalled * math.exp(min(exponent, -math.log(min(1.0, seen.stalled))))


def _over(loss: float | None, limits: Limits) -> bool:
    return loss is not None and loss > limits.threshold
