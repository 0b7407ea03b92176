# SPDX-License-Identifier: Apache-2.0
"""Check whether DDIO follows its register, by the effect on hits and misses.

The register of the DDIO ways accepts and returns any value, so reading back proves nothing. On some
CPUs (Ice Lake was reported) hits and misses do not follow the register. Ways reserved for DDIO are
then lost to all tenants.

A change of the DDIO ways is a trial when it should matter: many misses, some hits. The share of
misses before the change is compared with the mean over a dwell time after the last step, if the
traffic stayed the same within its own noise. A register that worked once is trusted from then on.

One load proves no lack of effect, however often it is tried. A disk whose buffers exceed any share
of the LLC always misses, a card whose buffers stay in L2 always hits, and together they have the
same share of misses with any ways of a register that works. What shows that ways matter is a load
that competes for them: under a heavier load fewer lines hit and more miss. An additional stream
adds misses or hits and takes none away. So the verdict needs trials without effect under `LOADS`
loads with different shares of misses, where each larger share has fewer hits and more misses than
the smaller share before. The lines in use then outgrew the ways little by little, and at one of
these loads more ways would have held more of them. Everything else leaves the question open, which
changes nothing; ``iat-nova qualify`` answers it with buffers of a known size. Pure: no clock, no
I/O.

AMD does not count DDIO hits. LLC misses of the readers per inbound line then stand for the share:
an evicted line costs its reader a miss. If both are counted, a trial does not count when the
readers' misses clearly follow, even if the share stays. Reason: a card whose buffers are never in
the LLC misses with any number of ways, and still more lines survive until they are read. Fewer
misses of readers are no proof of an effect, since the ways of CPUs may have changed meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

from iat_nova.model import Message, Sample, WayMask, message

DWELL_S = 10.0  # after the last step, before a judgement
LEAST_SAMPLES = 5  # in the dwell time
LEAST_WAYS = 2  # more or fewer than before; noise may hide the effect of one way of eleven
LEAST_HIT_SHARE = 0.10  # below, the load streams: more ways need not help
LEAST_MISS_SHARE = 0.10  # below, most misses may have other causes than few ways
STEADY = 0.25  # traffic may never differ more from the traffic before
SAME = 0.02  # the mean traffic may always differ as much
SPREAD = 4.0  # standard deviations of the traffic that its mean may differ
MOVED = 0.03  # a share of misses that moved by this much has followed; also the readers' share
STILL = 0.02  # a smaller change is no effect; for a steady load the limit is lower
NOISE = 0.005  # standard error above which nothing is concluded
DEVIATIONS = 6.0  # standard deviations of few samples: a larger change is not the load's noise
LOADS = 3  # without effect, for the verdict
APART = 0.10  # least distance of their shares of misses
COMPETING = 0.05  # least relative fall of hits, and rise of misses, from one to the next


@dataclasses.dataclass(frozen=True, slots=True)
class Ineffective:
    """The verdict that changes had no effect.

    `ways_before`, `ways_after`: of the last change. `shares`: misses per inbound line, 0 to 1,
    of the loads at which ways were changed. `of_readers`: the shares are LLC misses of the readers
    per inbound line.
    """

    ways_before: int
    ways_after: int
    shares: tuple[float, ...]
    of_readers: bool = False

    @property
    def message(self) -> Message:
        """The verdict with its numbers."""
        return message(
            "ddio-ways-without-effect",
            whose=message("misses-of-readers" if self.of_readers else "misses-of-ddio"),
            shares=tuple(message("one-share", share=share) for share in self.shares),
            loads=len(self.shares),
            before=self.ways_before,
            after=self.ways_after,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """DDIO figures of one sample."""

    at_s: float
    traffic_per_s: float  # lines that devices wrote
    misses_per_s: float  # by which DDIO is judged
    share: float  # misses per line
    read: float | None  # misses of the readers per line, unless these are the share itself

    @classmethod
    def of(cls, sample: Sample, readers: Collection[str]) -> _Seen | None:
        """Return the DDIO figures of a sample; None without the counts, or without any traffic."""
        traffic, misses = sample.inbound_lines_per_s, sample.ddio_misses_per_s
        known = [sample.tenants[one].misses_per_s for one in readers if one in sample.tenants]
        read = math.fsum(known) if len(known) == len(readers) > 0 else None
        if misses is None:
            misses, read = read, None
        if not traffic or misses is None:
            return None
        shares = misses / traffic, None if read is None else read / traffic
        return cls(sample.taken_at_s, traffic, misses, *shares)


@dataclasses.dataclass(frozen=True, slots=True)
class _Load:
    """A load under which a change had no effect: means over the trial's dwell time."""

    share: float
    hits_per_s: float
    misses_per_s: float

    @classmethod
    def of(cls, trial: _Trial) -> _Load:
        """Return the load of a trial."""
        traffic = statistics.fmean(one.traffic_per_s for one in trial.since)
        misses = statistics.fmean(one.misses_per_s for one in trial.since)
        return cls(misses / traffic, traffic - misses, misses)


@dataclasses.dataclass(slots=True)
class _Trial:
    ways: int  # before
    grows: bool
    before: _Seen
    since_s: float  # of the last step
    since: list[_Seen]  # since then

    def fall(self, before: float, after: float) -> float:
        """Return the expected change of the share of misses; negative if against expectation.

        More ways must lower the share of misses, fewer ways must raise it.
        """
        return before - after if self.grows else after - before


class DdioCheck:
    """Checks the DDIO register of one cache domain.

    A change with fewer than `misses_matter_per_s` misses before proves nothing. Without a `trial`,
    a sample under the same `mask` as before needs no `look`.
    """

    def __init__(self, misses_matter_per_s: float) -> None:
        self._matter_per_s = misses_matter_per_s
        self.mask: WayMask | None = None  # in force
        self.trial: _Trial | None = None
        self._without: list[_Load] = []
        self._works = False

    def look(
        self, sample: Sample, after: WayMask | None, readers: Collection[str] = ()
    ) -> Ineffective | None:
        """Take a sample and DDIO's next mask (None: unknown); return a verdict of no effect.

        The mask of the previous call was in force while the sample was taken. An empty mask, with
        which devices fill any way, cannot be compared. `readers`: ids of the tenants with I/O.
        Returns None without such a verdict.
        """
        before, ways = (one.count if one else None for one in (self.mask, after))
        self.mask = after
        now = _Seen.of(sample, readers)
        if self._works or before is None or ways is None or now is None:
            self.trial = None
            return None
        verdict = None if self.trial is None else self._judge(self.trial, before, now)
        if ways != before:
            self._change(before, now, ways > before)
        if verdict is None:
            return None
        return dataclasses.replace(verdict, of_readers=sample.ddio_misses_per_s is None)

    def _change(self, before: int, now: _Seen, grows: bool) -> None:
        """Begin a trial, or extend the present trial if the ways change in the same direction."""
        if self.trial is not None and self.trial.grows == grows:
            self.trial.since_s, self.trial.since = now.at_s, []
        elif now.misses_per_s >= self._matter_per_s and 1 - now.share >= LEAST_HIT_SHARE:
            self.trial = _Trial(before, grows, now, now.at_s, [])
        else:
            self.trial = None

    def _judge(self, trial: _Trial, ways: int, now: _Seen) -> Ineffective | None:
        """Judge a trial at the end of its dwell time; end it without a verdict at another load."""
        if abs(now.traffic_per_s / trial.before.traffic_per_s - 1) > STEADY:
            self.trial = None
            return None
        trial.since.append(now)
        if now.at_s - trial.since_s < DWELL_S or len(trial.since) < LEAST_SAMPLES:
            return None
        self.trial = None
        shares = [one.share for one in trial.since]
        if not _same_load(trial) or _standard_error(shares) > NOISE:
            return None
        fall = trial.fall(trial.before.share, statistics.fmean(shares))
        if abs(fall) >= _still(shares) or _readers_follow(trial):
            self._without.clear()
            self._works = fall >= max(MOVED, DEVIATIONS * statistics.stdev(shares))
        elif trial.before.share >= LEAST_MISS_SHARE and abs(ways - trial.ways) >= LEAST_WAYS:
            return self._had_no_effect(trial, ways)
        return None

    def _had_no_effect(self, trial: _Trial, ways: int) -> Ineffective | None:
        """Keep the load of a trial without effect; return a verdict if the loads compete."""
        load = _Load.of(trial)
        if all(abs(one.share - load.share) >= APART for one in self._without):
            self._without.append(load)
        if not _compete(self._without):
            return None
        return Ineffective(trial.ways, ways, tuple(one.share for one in self._without))


def _same_load(trial: _Trial) -> bool:
    """Tell whether the traffic is as before the trial, within its noise."""
    traffic = [one.traffic_per_s for one in trial.since]
    mean = statistics.fmean(traffic)
    noise = max(SAME * mean, SPREAD * statistics.stdev(traffic))
    return abs(trial.before.traffic_per_s - mean) <= noise


def _compete(loads: Sequence[_Load]) -> bool:
    """Tell whether `LOADS` of the loads lose hits and gain misses, one after the other."""
    ordered = sorted(loads, key=lambda one: one.share)
    chain: list[int] = []  # the longest chain that ends with each load
    for number, one in enumerate(ordered):
        earlier = [chain[at] for at in range(number) if _competes(ordered[at], one)]
        chain.append(1 + max(earlier, default=0))
    return max(chain, default=0) >= LOADS


def _competes(less: _Load, more: _Load) -> bool:
    """Return whether the second load has fewer hits and more misses: it competes for the ways."""
    return (
        more.hits_per_s <= (1 - COMPETING) * less.hits_per_s
        and more.misses_per_s >= (1 + COMPETING) * less.misses_per_s
    )


def _readers_follow(trial: _Trial) -> bool:
    """Tell whether the readers' misses clearly follow the ways."""
    reads = [one.read for one in trial.since if one.read is not None]
    if trial.before.read is None or len(reads) < LEAST_SAMPLES:
        return False
    fall = trial.fall(trial.before.read, statistics.fmean(reads))
    return fall >= max(MOVED, DEVIATIONS * statistics.stdev(reads))


def _still(shares: Sequence[float]) -> float:
    """Return the change of the mean share below which a change had no effect.

    A register with a small effect has an effect: a change under a quiet load is not an accident.
    """
    return min(STILL, max(NOISE, DEVIATIONS * statistics.stdev(shares)))


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))
