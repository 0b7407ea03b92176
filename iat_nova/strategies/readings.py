# SPDX-License-Identifier: Apache-2.0
"""Readings of a tenant from counters: awake or idle, speed, stalls, streaming, changes of load.

`follow` keeps the means of each tenant's readings; `shown` compares them with the tenant's fastest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from iat_nova.model import DomainInventory, Rates, Sample, Tenant

MISS_CYCLES = 100.0  # cycles that an LLC miss stalls: half of 90 ns at 2.3 GHz, as misses overlap
MISS_CYCLES_MOST = 200.0  # cycles that an LLC miss stalls if it overlaps with no other miss
ASLEEP_CYCLES_PER_S = 1e7  # cycles per second and CPU; a tenant with fewer is idle
MOST_STALLED = 0.95  # largest share of cycles that may count as stalled by misses
AT_LIMIT = 0.94  # share of stalled cycles, from which a tenant with I/O is at its limit
NEAR_LIMIT = 0.5  # share of stalled cycles, above which a loss of a tenant with I/O counts in full
# Chosen. A quarter less or more changes critical guests of 40 random hosts (seeds 9301 and 9801) by
# less than a thousandth in the mean.
STREAMS = 0.4  # misses per LLC reference; above, a tenant streams
OTHER_LOAD = 0.25  # relative change, as of references per instruction; above, another load
LEARNT = 8  # samples in the mean of a tenant's best readings; a single best sample is chance
SHOWN_DIGITS = 3  # digits of a recorded loss


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


Work = tuple[float, float, float]
"""LLC references and LLC misses per instruction, and instructions per cycle."""


@dataclasses.dataclass(slots=True)  # not frozen: created per tenant and second, in half the time
class Best:
    """Means of a tenant's `Work`: over the last samples, and the fastest under the same load.

    Immutable by convention. `best` is None before `LEARNT` samples of the present load.
    """

    work: Work
    samples: int = 1
    best: Work | None = None


Bests = Mapping[str, Best]
"""What tenants have shown so far, by tenant id."""


def follow(before: Bests, inventory: DomainInventory, sample: Sample) -> dict[str, Best]:
    """Return the means of all tenants after a further sample, without tenants that left."""
    after = {}
    for tenant in inventory.tenants:
        known, rates = before.get(tenant.id), awake(tenant, sample)
        if rates is not None and rates.instructions_per_s and not tenant.io:
            after[tenant.id] = _further(known, rates)
        elif known is not None:
            after[tenant.id] = known
    return after


def shown(bests: Bests) -> dict[str, float]:
    """Return by tenant the loss of IPC against the tenant's fastest mean (`Best`), if positive.

    The loss is limited to the share of cycles that the additional LLC misses stall.
    """
    losses = {}
    for tenant, one in bests.items():
        if one.best is not None:
            (_, misses, ipc), (_, best_misses, best_ipc) = one.work, one.best
            slower, missed = 1.0 - ipc / best_ipc, (misses - best_misses) * MISS_CYCLES_MOST * ipc
            losses[tenant] = round(min(slower, missed, MOST_STALLED), SHOWN_DIGITS)
    return {tenant: loss for tenant, loss in losses.items() if loss > 0}


def _further(known: Best | None, rates: Rates) -> Best:
    """Return a tenant's means with a further sample; after a change of load, new means."""
    instructions = rates.instructions_per_s
    references, misses = rates.references_per_s / instructions, rates.misses_per_s / instructions
    ipc = instructions / rates.cycles_per_s
    if known is None or another(known.work[0], references):
        return Best((references, misses, ipc))
    samples, best = min(known.samples + 1, LEARNT), known.best
    old_references, old_misses, old_ipc = known.work
    work = (
        old_references + (references - old_references) / samples,
        old_misses + (misses - old_misses) / samples,
        old_ipc + (ipc - old_ipc) / samples,
    )
    if best is not None and another(best[0], work[0]):
        best = None
    if samples == LEARNT and (best is None or work[2] > best[2]):
        best = work
    return Best(work, samples, best)
