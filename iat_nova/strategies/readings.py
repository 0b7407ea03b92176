# SPDX-License-Identifier: Apache-2.0
"""Readings of a tenant from counters: awake or idle, speed, stalls, streaming, changes of load."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from iat_nova.model import Rates, Sample, Tenant

MISS_CYCLES = 100.0  # cycles that an LLC miss stalls: some 90 ns at 2.3 GHz, two misses at a time
ASLEEP_CYCLES_PER_S = 1e7  # cycles per second and CPU; a tenant with fewer is asleep, not judged
MOST_STALLED = 0.95  # largest share of cycles that may count as stalled by misses
AT_LIMIT = 0.94  # stalled share, near the largest, from which a poller takes all that it can
NEAR_LIMIT = 0.5  # stalled share above which a poller may be so near its limit that rings fill
# Chosen. A quarter less or more changes critical guests of 40 drawn hosts by less than a thousandth
# in the mean (seeds 9301 and 9801).
STREAMS = 0.4  # misses per LLC reference; above, a tenant streams
OTHER_LOAD = 0.25  # relative change, as of references per instruction; above, another load


@dataclasses.dataclass(slots=True)  # not frozen: created per tenant and second, in half the time
class Look:
    """Reading of a tenant in a sample, or the mean of several. Immutable by convention.

    `speed`: instructions per cycle. A tenant with I/O polls, and polls faster with less work. The
    `speed` of such a tenant is the share of cycles not stalled by LLC misses.
    """

    speed: float
    stalled: float  # share of the cycles, 0..1, estimated from misses
    misses_per_s: float
    references_per_s: float
    ipc: float = 0.0
    cycles_per_s: float = 0.0

    @property
    def overlaps(self) -> bool:
        """Whether misses must overlap: at `MISS_CYCLES` each they take nearly all cycles."""
        return self.stalled >= AT_LIMIT

    @property
    def streams(self) -> bool:
        """Whether the tenant hardly uses a cache line again."""
        return self.misses_per_s > STREAMS * self.references_per_s


Looks = Mapping[str, Look]
"""Readings by tenant id."""


def look(tenants: Iterable[Tenant], sample: Sample) -> dict[str, Look]:
    """Return a reading of each tenant that was measured and awake."""
    found = {}
    for tenant in tenants:
        rates = awake(tenant, sample)
        if rates is not None:
            stall = stalled(rates)
            speed = 1.0 - stall if tenant.io else rates.ipc
            found[tenant.id] = Look(
                speed,
                stall,
                rates.misses_per_s,
                rates.references_per_s,
                rates.ipc,
                rates.cycles_per_s,
            )
    return found


def awake(tenant: Tenant, sample: Sample) -> Rates | None:
    """Return a tenant's rates; None if not measured, or asleep by ASLEEP_CYCLES_PER_S."""
    rates = sample.tenants.get(tenant.id)
    least = ASLEEP_CYCLES_PER_S * len(tenant.counted_cpus)
    return rates if rates is not None and rates.cycles_per_s > least else None


def stalled(rates: Rates, miss_cycles: float = MISS_CYCLES) -> float:
    """Return the share of cycles that LLC misses stall, 0..1, at `miss_cycles` each."""
    return min(MOST_STALLED, rates.misses_per_s * miss_cycles / rates.cycles_per_s)


def inbound(sample: Sample) -> float:
    """Return the lines per second that devices write into the LLC anew.

    If hits are not counted, all that devices write.
    """
    missed = sample.ddio_misses_per_s
    return (sample.inbound_lines_per_s if missed is None else missed) or 0.0


def change(was: float, now: float) -> float:
    """Return the change of an amount that is never negative, as a share of the larger, 0..1."""
    return abs(now - was) / max(was, now) if was != now else 0.0


def another(was: float, now: float) -> bool:
    """Return whether two amounts, such as references per instruction, are of different loads."""
    return change(was, now) > OTHER_LOAD


def mean(before: Looks, new: Looks, count: int) -> dict[str, Look]:
    """Return the mean of `count` readings, the last of which is `new`."""
    return {
        tenant: further(before[tenant], one, count) if tenant in before else one
        for tenant, one in new.items()
    }


def further(before: Look, new: Look, count: int) -> Look:
    """Return the mean of `count` readings of a tenant: `new`, and others with mean `before`."""
    return Look(
        before.speed + (new.speed - before.speed) / count,
        before.stalled + (new.stalled - before.stalled) / count,
        before.misses_per_s + (new.misses_per_s - before.misses_per_s) / count,
        before.references_per_s + (new.references_per_s - before.references_per_s) / count,
        before.ipc + (new.ipc - before.ipc) / count if before.ipc else new.ipc,  # 0: unknown
        before.cycles_per_s + (new.cycles_per_s - before.cycles_per_s) / count,
    )


def scaled(look: Look, share: float) -> Look:
    """Return the reading of a tenant at `share` of its speed."""
    return dataclasses.replace(look, speed=share * look.speed, ipc=share * look.ipc)


def speedup(was: Look, now: Look) -> float:
    """Return the ratio of a tenant's speeds, `now` to `was`.

    A poller that stays at its limit does not wait for packets: its instructions show its progress,
    while the estimate of its stalls hardly changes. Below the limit the estimate exaggerates where
    misses overlap. A poller that waits for memory polls empty rings less often, and executes fewer
    instructions: the loss is at most theirs. The estimate counts where a poller reaches or leaves
    its limit, and near it: rings fill there, and a little lost speed costs many packets.
    """
    ratio = now.speed / was.speed if was.speed else 1.0
    if not (was.ipc and now.ipc) or was.overlaps != now.overlaps:
        return ratio
    instructions = now.ipc / was.ipc
    if was.overlaps:
        return instructions
    if ratio >= 1.0 or now.stalled > NEAR_LIMIT:
        return ratio
    return min(1.0, max(ratio, instructions))
