# SPDX-License-Identifier: Apache-2.0
"""Does DDIO follow its register? Found out by what it does, never by reading it back.

The register of DDIO's ways takes any value and shows it; on some CPUs (Ice Lake was reported)
hits and misses do not follow. Then the ways set aside for DDIO are lost to everybody.

A growth is a trial when it should matter: many misses, some hits (who never hits streams, and more
ways may well not help), steady traffic. The share of misses before is compared with the mean over a
dwell time after the last growth. A register that was seen to work once is trusted from then on;
what is not known stays so. Pure: no clock, no I/O.

Where nobody counts which lines hit (AMD), the LLC misses of who reads them, a line, stand for the
share: a line that was put out before it was read costs its reader a miss. Where both are counted,
readers that miss clearly less speak for the register although the share stays: a card that finds no
line of its buffers in the LLC misses with any number of ways, and still more lines live until they
are read. They do not prove it, since cores' ways may have changed meanwhile.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Collection, Sequence

from iat_nova.model import Sample, WayMask

DWELL_S = 10.0  # after the last growth, before a verdict
LEAST_SAMPLES = 5  # in the dwell time
LEAST_WAYS = 2  # more than before; one way of eleven may be lost in noise
LEAST_HIT_SHARE = 0.10  # below, the load streams: more ways need not help
STEADY = 0.25  # traffic may differ this much from that before
MOVED = 0.03  # a share of misses that fell by this much has followed; the readers' a line, too
STILL = 0.02  # one that moved less has not, or less yet where the load is that steady
NOISE = 0.005  # standard error above which nothing is reported
DEVIATIONS = 6.0  # of a sample, judged by few: a larger move is not the load's own noise


@dataclasses.dataclass(frozen=True, slots=True)
class Ineffective:
    """The verdict: what was tried and what came of it. Shares are misses of all, 0 to 1.

    `of_readers`: misses of the readers, a line that devices wrote.
    """

    ways_before: int
    ways_after: int
    share_before: float
    share_after: float
    of_readers: bool = False

    def __str__(self) -> str:
        """Say it for the operator."""
        whose = "misses of who reads them" if self.of_readers else "misses"
        return (
            f"changing the DDIO ways had no effect: from {self.ways_before} to {self.ways_after} "
            f"ways, {whose} went from {self.share_before:.1%} to {self.share_after:.1%} of inbound "
            "writes; original mask restored until the next start or reload of the policy"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Seen:
    """What a sample says of DDIO."""

    at_s: float
    traffic_per_s: float  # lines that devices wrote
    misses_per_s: float  # by which DDIO is judged
    share: float  # misses a line
    read: float | None  # misses of the readers a line, where these are not the share itself

    @classmethod
    def of(cls, sample: Sample, readers: Collection[str]) -> _Seen | None:
        """Return what a sample says, None where there are no such counts."""
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
    """Watches one cache domain.

    Where fewer than `misses_matter_per_s` missed before a growth, it proves nothing.
    """

    def __init__(self, misses_matter_per_s: float) -> None:
        self._matter_per_s = misses_matter_per_s
        self._ways: int | None = None
        self._trial: _Trial | None = None
        self._works = False

    def look(
        self, sample: Sample, after: WayMask | None, readers: Collection[str] = ()
    ) -> Ineffective | None:
        """Take a sample and DDIO's mask from now on (None: unknown); tell when there is no effect.

        The mask of the call before was in force while the sample was taken; an empty one, with
        which devices fill any way, is nothing to compare with. `readers`: the tenants with I/O.
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
        """Return the verdict of a trial, None while there is none; it may end without one."""
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
    """Return below which move of its mean a share, of which one sample was before, has not moved.

    A register with a small effect has one: what a quiet load shows of it is not an accident.
    """
    return min(STILL, max(NOISE, DEVIATIONS * statistics.stdev(shares)))


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))
