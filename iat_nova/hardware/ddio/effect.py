# SPDX-License-Identifier: Apache-2.0
"""Check whether DDIO follows its register, by the effect on hits and misses.

The register of the DDIO ways accepts and returns any value, so reading back proves nothing. On some
CPUs (Ice Lake was reported) hits and misses do not follow the register. Ways reserved for DDIO are
then lost to all tenants.

A growth of the DDIO ways is a trial when the growth should matter: many misses, some hits, steady
traffic. (A load without hits streams; more ways may well not help.) The share of misses before the
growth is compared with the mean over a dwell time after the last growth. A register that worked
once is trusted from then on. An open question stays open. Pure: no clock, no I/O.

AMD does not count DDIO hits. LLC misses of the readers per inbound line then stand for the share:
an evicted line costs its reader a miss. If both are counted, there is no verdict when the readers
miss clearly less, even if the share stays. Reason: a card whose buffers are never in the LLC misses
with any number of ways, and still more lines survive until they are read. Fewer misses of readers
are no proof of an effect, since the ways of CPUs may have changed meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

from iat_nova.model import Sample, WayMask

DWELL_S = 10.0  # after the last growth, before a verdict
LEAST_SAMPLES = 5  # in the dwell time
LEAST_WAYS = 2  # more than before; noise may hide the effect of one way of eleven
LEAST_HIT_SHARE = 0.10  # below, the load streams: more ways need not help
STEADY = 0.25  # traffic may differ this much from the traffic before
MOVED = 0.03  # a share of misses that fell by this much has followed; also the readers' share
STILL = 0.02  # a smaller change is no effect; for a steady load the limit is lower
NOISE = 0.005  # standard error above which nothing is reported
DEVIATIONS = 6.0  # standard deviations of few samples: a larger change is not the load's noise


@dataclasses.dataclass(frozen=True, slots=True)
class Ineffective:
    """The verdict that a growth had no effect. Shares are misses per inbound line, 0 to 1.

    `of_readers`: the shares are LLC misses of the readers per inbound line.
    """

    ways_before: int
    ways_after: int
    share_before: float
    share_after: float
    of_readers: bool = False

    def __str__(self) -> str:
        """Return the sentence for the operator."""
        whose = "misses of who reads them" if self.of_readers else "misses"
        return (
            f"changing the DDIO ways had no effect: from {self.ways_before} to {self.ways_after} "
            f"ways, {whose} went from {self.share_before:.1%} to {self.share_after:.1%} of inbound "
            "writes; original mask restored until the next start or reload of the policy"
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
        """Return the DDIO figures of a sample, or None without the counts."""
        traffic, misses = sample.inbound_lines_per_s, sample.ddio_misses_per_s
        known = [sample.tenants[one].misses_per_s for one in readers if one in sample.tenants]
        read = math.fsum(known) if len(known) == len(readers) > 0 else None
        if misses is None:
            misses, read = read, None
        if traffic is None or misses is None:
            return None
        share = misses / traffic if traffic else 0.0
        return cls(
            sample.taken_at_s,
            traffic,
            misses,
            share,
            read / traffic if read is not None and traffic else None,
        )


@dataclasses.dataclass(slots=True)
class _Trial:
    ways: int  # before
    before: _Seen
    since_s: float  # of the last growth
    since: list[_Seen]  # since then


class DdioCheck:
    """Checks the DDIO register of one cache domain.

    A growth with fewer than `misses_matter_per_s` misses before proves nothing.
    """

    def __init__(self, misses_matter_per_s: float) -> None:
        self._matter_per_s = misses_matter_per_s
        self._ways: int | None = None
        self._trial: _Trial | None = None
        self._works = False

    def look(
        self, sample: Sample, after: WayMask | None, readers: Collection[str] = ()
    ) -> Ineffective | None:
        """Take a sample and DDIO's next mask (None: unknown); return a verdict of no effect.

        The mask of the previous call was in force while the sample was taken. An empty mask, with
        which devices fill any way, cannot be compared. `readers`: ids of the tenants with I/O.
        Returns None without such a verdict.
        """
        before, self._ways = self._ways, after.count if after else None
        now = _Seen.of(sample, readers)
        if self._works or before is None or self._ways is None or now is None:
            self._trial = None
            return None
        if self._trial is not None:
            verdict = self._judge(self._trial, before, now)
            if verdict is not None:
                self._trial = None
                of_readers = sample.ddio_misses_per_s is None
                return dataclasses.replace(verdict, of_readers=of_readers)
        if self._ways < before:
            self._trial = None
        elif self._ways > before:
            self._grown(before, now)
        return None

    def _grown(self, before: int, now: _Seen) -> None:
        if self._trial is not None:
            self._trial.since_s, self._trial.since = now.at_s, []
        elif now.misses_per_s >= self._matter_per_s and 1 - now.share >= LEAST_HIT_SHARE:
            self._trial = _Trial(before, now, now.at_s, [])

    def _judge(self, trial: _Trial, ways: int, now: _Seen) -> Ineffective | None:
        """Return the verdict of a trial, or None. A trial may also end without a verdict."""
        if abs(now.traffic_per_s / trial.before.traffic_per_s - 1) > STEADY:
            self._trial = None  # another load: nothing can be compared
            return None
        trial.since.append(now)
        if now.at_s - trial.since_s < DWELL_S or len(trial.since) < LEAST_SAMPLES:
            return None
        shares = [one.share for one in trial.since]
        share, after = trial.before.share, statistics.fmean(shares)
        if _standard_error(shares) > NOISE:
            return None
        if share - after >= MOVED:
            self._works = True
        elif (
            abs(share - after) < _still(shares)
            and ways - trial.ways >= LEAST_WAYS
            and not _read_better(trial)
        ):
            return Ineffective(trial.ways, ways, share, after)
        return None


def _read_better(trial: _Trial) -> bool:
    """Tell whether the readers miss clearly less than before the trial."""
    reads = [one.read for one in trial.since if one.read is not None]
    if trial.before.read is None or len(reads) < LEAST_SAMPLES:
        return False
    fall = trial.before.read - statistics.fmean(reads)
    return fall >= max(MOVED, DEVIATIONS * statistics.stdev(reads))


def _still(shares: Sequence[float]) -> float:
    """Return the change of the mean share below which a growth had no effect.

    A register with a small effect has an effect: a change under a quiet load is not an accident.
    """
    return min(STILL, max(NOISE, DEVIATIONS * statistics.stdev(shares)))


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))
