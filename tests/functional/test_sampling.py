# SPDX-License-Identifier: Apache-2.0
"""One line in 32 stands for all: scenarios that ship, against their full simulation.

A full simulation takes seconds: here are the scenarios that come closest to the bound. All of them,
a minute and a half, are simulated by ``tox -e soak``, and where IAT_NOVA_EXAMPLES is set.
"""

import dataclasses
import os
import threading
import unittest

from iat_nova.experiments.sim import cache
from iat_nova.experiments.sim.reader import load_scenario
from iat_nova.experiments.sim.scenario import shipped
from iat_nova.experiments.sim.server import EmulatedServer

# So much of each scenario is simulated, evenly over its length, so that all its events happen.
SIMULATED_S = 0.06

# Of those that take less than four seconds, where hit rates differ most, by 0.7 points and more.
CLOSEST = (
    "agent-restarts", "be-streamer", "both-sockets", "figure7-b", "latent-contender", "leaky-dma",
    "quick-phases", "quickstart", "tenant-churn", "two-sockets-remote-vf",
)  # fmt: skip
SCENARIOS = shipped() if os.environ.get("IAT_NOVA_EXAMPLES") else CLOSEST


def hit_rates(scenario, sampling):
    """Return the share of LLC references that hit, and of devices' writes; None where none was."""
    changed = dataclasses.replace(
        scenario, sampling=sampling, compression=SIMULATED_S / scenario.length_s
    )
    machine = EmulatedServer(changed)
    machine.wait(threading.Event(), scenario.length_s)
    served = machine.plant.state.caches.served.sum(axis=0)
    totals = sum(caches.totals for caches, _ in machine.plant.sockets)
    return (
        _share(served[cache.LLC : cache.MEMORY].sum(), served[cache.LLC :].sum()),
        _share(totals[cache.DDIO_HITS], totals[cache.DDIO_HITS] + totals[cache.DDIO_MISSES]),
    )


def _share(hits, total):
    return hits / total if total else None


class TestSampling(unittest.TestCase):
    def test_agrees_within_two_points(self):
        """At one line in 32 the LLC's and DDIO's hit rates are within 2 points of all lines."""
        for name in SCENARIOS:
            with self.subTest(scenario=name):
                scenario = load_scenario(name)
                sampled, full = (hit_rates(scenario, sampling) for sampling in (32, 1))
                for part, whole in zip(sampled, full, strict=True):
                    self.assertEqual(whole is None, part is None)
                    if whole is not None:
                        self.assertLess(abs(part - whole), 0.02, f"{sampled} for {full}")
