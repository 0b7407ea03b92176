# SPDX-License-Identifier: Apache-2.0
"""The highest rate without loss: the throughput of RFC 2544, section 26.1, by bisection.

A trial sends at one rate for a while; one lost packet fails the trial. The RFC leaves the search
open and asks for trials of 60 s. Trials here are shorter: `trial_s` should contain many of the rare
events that fill a ring (a thread loses its core every 4 ms, see `workloads.threads`).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

from iat_nova.experiments.scenarios.scenario import Scenario
from iat_nova.experiments.server.server import EmulatedServer

TRIAL_S = 0.2
WARM_S = 0.02
RESOLUTION = 0.01
# The interval at which a trial is checked; a trial ends at the first loss.
LOOK_S = 0.01


def highest(passes: Callable[[float], bool], resolution: float = RESOLUTION) -> float:
    """Return the highest share, 0..1, that `passes`, within a relative `resolution`."""
    if passes(1.0):
        return 1.0
    low, high = 0.0, 1.0
    while high - low > resolution * high:
        middle = (low + high) / 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low


def at_share(scenario: Scenario, share: float) -> Scenario:
    """Return the scenario with all its traffic at a share of its rate."""
    traffic = tuple(
        dataclasses.replace(one, rate_bits_per_s=one.rate_bits_per_s * share)
        for one in scenario.traffic
    )
    return dataclasses.replace(scenario, traffic=traffic)


def lossless(scenario: Scenario, seed: int, trial_s: float = TRIAL_S) -> bool:
    """Run one trial on a new machine; return whether no packet was lost after the warm-up."""
    server = EmulatedServer(scenario, seed)
    never = threading.Event()

    def dropped() -> float:
        return sum(done.dropped for done in server.metrics().values())

    server.wait(never, WARM_S)
    before = dropped()
    while server.now() < WARM_S + trial_s and dropped() == before:
        server.wait(never, LOOK_S)
    return dropped() == before


def throughput(scenario: Scenario, seed: int, trial_s: float = TRIAL_S) -> float:
    """Return the highest share, 0..1, of the scenario's rates without packet loss.

    All of each second is simulated, without the scenario's `compression`: a short overflow of a
    ring loses packets, and must not fall into time that is not simulated.
    """
    full = dataclasses.replace(scenario, compression=1.0)
    return highest(lambda share: lossless(at_share(full, share), seed, trial_s))
