# SPDX-License-Identifier: Apache-2.0
"""SPEC surrogates, key-value stores and the FastClick chain: constants and what they do."""

import unittest

from iat_nova.experiments.papers import definition
from iat_nova.experiments.scenarios import profiles
from iat_nova.experiments.scenarios.profiles import PROFILES
from iat_nova.hardware.api import ClassMask
from iat_nova.model import WayMask
from tests.unit.experiments.sim import scenes

ALONE = "length: 10s\nworkloads:\n  app: {profile: %s, cpus: [0]}\n"


class TestConstants(unittest.TestCase):
    """What holds for the tables whatever their numbers."""

    def test_the_papers_programs_are_there(self):
        """All applications of figures 12 to 14 have a profile."""
        for one in definition.read("consolidation"):
            self.assertLessEqual(set(one.grid["app"]), PROFILES.keys(), one.name)

    def test_a_surrogates_unit_is_an_access(self):
        """A thousand instructions have the accesses and the cycles of the table."""
        given = {"cycles": 600, "overlap": 3, "writes_percent": 30, "accesses": [6, 0, 3, 1]}
        profile = profiles.surrogate("made-up", given, (1e5, 1e6, 4e6, 16e6))
        self.assertAlmostEqual(100.0, profile.own_instructions)
        self.assertAlmostEqual(60.0, profile.own_cycles)
        self.assertEqual(
            [(0.6, 1e5), (0.3, 4e6), (0.1, 16e6)],
            [(round(share, 9), size) for share, size in profile.locality],
        )

    def test_mixes_are_whole(self):
        """The shares of each mix's operations add up to one."""
        for name, mix in profiles.MIXES.items():
            self.assertAlmostEqual(1.0, sum(mix.values()), msg=name)


class TestBehaviour(unittest.TestCase):
    """What they do on the emulated caches."""

    def alone(self, name, ways=2):
        machine = scenes.server(ALONE % name)
        machine.apply(0, (ClassMask("app", (0,), WayMask.span(2, ways)),))
        _, done = scenes.measured(machine, 0.02, 0.01)
        return done["app"]

    def misses(self, name, ways):
        """Return misses in a thousand instructions."""
        done = self.alone(name, ways)
        return 1000 * done["misses"] / done["instructions"]

    def test_ways_help_whom_they_should(self):
        """Who reuses some megabytes misses less with more ways; who streams does not."""
        self.assertLess(self.misses("xalancbmk", 6), 0.7 * self.misses("xalancbmk", 1))
        self.assertGreater(self.misses("milc", 6), 0.8 * self.misses("milc", 1))

    def test_misses_are_the_curves(self):
        """With most of the LLC, only what no LLC holds is missed much."""
        beyond = 22.0
        self.assertLess(abs(self.misses("milc", 9) / beyond - 1), 0.1)

    def test_scans_cost_more_than_reads(self):
        """RocksDB scans fewer times than it reads, by more than ten."""
        self.assertGreater(self.alone("rocksdb-c")["work"], 10 * self.alone("rocksdb-e")["work"])

    def test_fastclick_carries_20_gbps_a_core(self):
        """A chain forwards 1.5 KB at 20 Gb/s on one core without loss."""
        text = scenes.HEAD + (
            "workloads: {nf: {profile: fastclick, cpus: [0], nic: nic0}}\n"
            "traffic: {nf: {to: nf, rate: 20Gb/s, packet: 1500B, flows: 10000}}\n"
        )
        _, done = scenes.measured(scenes.server(text), 0.01, 0.01)
        self.assertEqual(0, done["nf"]["dropped"])
        self.assertGreater(done["nf"]["packets"], 0.99 * done["nf"]["offered"])
