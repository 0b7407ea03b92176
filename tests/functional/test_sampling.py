# SPDX-License-Identifier: Apache-2.0
"""One line in 32 stands for all: scenarios that ship, against their full simulation.

A full simulation takes seconds: here are the scenarios that come closest to the bound. All of them,
a minute and a half, are simulated by ``tox -e soak``, and where IAT_NOVA_EXAMPLES is set.
"""

import dataclasses
import os
import threading
import unittest

from iat_nova.experiments.engine import cache
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.scenarios.shipped import shipped
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.model import WayMask

# So much of each scenario is simulated, evenly over its length, so that all its events happen.
SIMULATED_S = 0.06

# Of those that take less than four seconds, where hit rates differ most, by 0.7 points and more.
CLOSEST = (
    "agent-restarts", "be-streamer", "both-sockets", "figure7-b", "latent-contender", "leaky-dma",
    "quick-phases", "quickstart", "tenant-churn", "two-sockets-remote-vf",
)  # fmt: skip
SCENARIOS = shipped() if os.environ.get("IAT_NOVA_EXAMPLES") else CLOSEST


def at_the_limit():
    """Return figure 7 A with large packets at line rate: more than the switch's two cores can do.

    The costs of the switch's bursts differ most here. Charged to other bursts, they change which
    buffers the card writes, and up to 7 points of DDIO's hits.
    """
    scenario = load_scenario("figure7-a")
    (traffic,) = scenario.traffic
    load = dataclasses.replace(traffic, rate_bits_per_s=40e9, packet_bytes=1500, burst=1)
    masks = {"ovs": 0x003, "pc": 0x01C, "be1": 0x060, "be2": 0x780}
    return dataclasses.replace(
        scenario, traffic=(load,), masks={name: WayMask(mask) for name, mask in masks.items()}
    )


def hit_rates(scenario, sampling):
    """Return the share of LLC references that hit, and of devices' writes; None where none was."""
    changed = dataclasses.replace(
        scenario, sampling=sampling, compression=SIMULATED_S / scenario.length_s
    )
    machine = EmulatedServer(changed)
    machine.wait(threading.Event(), scenario.length_s)
    served = machine.plant.state.caches.served.sum(axis=0)
    totals = sum(caches.totals for caches, _ in machine.plant.sockets)
    ddio_hits, ddio_misses = (
        totals[cache.TOTAL_NAMES.index(name)] for name in ("ddio_hits", "ddio_misses")
    )
    return (
        _share(served[cache.LLC : cache.MEMORY].sum(), served[cache.LLC :].sum()),
        _share(ddio_hits, ddio_hits + ddio_misses),
    )


def _share(hits, total):
    return hits / total if total else None


class TestSampling(unittest.TestCase):
    def test_agrees_within_two_points(self):
        """At one line in 32 the LLC's and DDIO's hit rates are within 2 points of all lines."""
        scenarios = [*map(load_scenario, SCENARIOS), at_the_limit()]
        for scenario in scenarios:
            with self.subTest(scenario=scenario.name, traffic=scenario.traffic):
                sampled, full = (hit_rates(scenario, sampling) for sampling in (32, 1))
                for part, whole in zip(sampled, full, strict=True):
                    self.assertEqual(whole is None, part is None)
                    if whole is not None:
                        self.assertLess(abs(part - whole), 0.02, f"{sampled} for {full}")
