# SPDX-License-Identifier: Apache-2.0
"""Longer scenarios show what their titles say; a hundredth of each second is simulated."""

import dataclasses
import unittest

from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.model import Priority


def short(name, strategy, seconds, marks, compression=0.01):
    """Run a scenario that ships, with little of each second simulated."""
    scenario = dataclasses.replace(load_scenario(name), compression=compression)
    return run(scenario, strategy, seconds=seconds, marks=marks)


class ScenariosTest(unittest.TestCase):
    def test_heavy_hitter(self):
        """The hitter's packets double DDIO's misses; with IAT they do not."""
        misses = {}
        for strategy in ("baseline", "iat"):
            windows = short("heavy-hitter", strategy, 25.0, (10.0, 15.0, 20.0)).windows
            self.assertGreater(windows[3].workloads["vf7"].gbps, 50.0)
            misses[strategy] = [window.ddio_misses_per_s for window in windows]
        self.assertGreater(misses["baseline"][3], 1.5 * misses["baseline"][1])
        self.assertLess(misses["iat"][3], 0.75 * misses["baseline"][3])

    def test_flow_explosion(self):
        """Past what its ways hold the stack misses; IAT goes to Core Demand and gives it ways."""
        baseline = short("flow-explosion", "baseline", 30.0, (10.0, 20.0, 25.0), 0.02)
        iat = short("flow-explosion", "iat", 30.0, (10.0, 20.0, 25.0), 0.02)
        before, after = (baseline.windows[n].workloads["ovs"].misses_per_s for n in (1, 3))
        self.assertGreater(after, 10 * before)
        self.assertIn(3, [number for _, number in iat.transitions])
        self.assertLess(iat.windows[3].workloads["ovs"].misses_per_s, after / 2)
        first, last = (
            next(
                result.last.layout.mask_of(tenant.id).count
                for tenant in result.inventory.tenants
                if tenant.priority is Priority.STACK
            )
            for result in (baseline, iat)
        )
        self.assertGreater(last, first)

    def test_be_streamer(self):
        """What streams is given no ways for it, and performance-critical guests keep their pace."""
        result = short("be-streamer", "iat", 25.0, (5.0, 10.0, 20.0))
        calm, streaming = result.windows[1], result.windows[3]
        for name in ("forwarder", "database"):
            self.assertGreater(
                streaming.workloads[name].work_per_s, 0.97 * calm.workloads[name].work_per_s
            )
        before, after = (one.workloads["streamer"].misses_per_s for one in (calm, streaming))
        self.assertGreater(after, 10 * before)
        self.assertGreater(after, 10e6)
        streamer = next(one for one in result.inventory.tenants if one.name == "streamer")
        self.assertLessEqual(result.last.layout.mask_of(streamer.id).count, streamer.ways.initial)

    def test_diurnal(self):
        """By day there is more traffic than by night, and DDIO has more ways."""
        # With so little of a second simulated, the forwarder's rings exceed any share of DDIO at
        # noon: more ways change no misses, and the register works.
        result = short("diurnal", "iat", 180.0, (50.0, 62.5, 170.0), 0.005)
        self.assertTrue(result.inventory.domain.ddio_resizable)
        night, noon = result.windows[1], result.windows[3]
        self.assertGreater(noon.workloads["forwarder"].gbps, 4 * night.workloads["forwarder"].gbps)
        self.assertLess(
            noon.workloads["batch"].work_per_s, 0.2 * night.workloads["batch"].work_per_s
        )
        self.assertGreater(result.last.layout.ddio.count, 2)
