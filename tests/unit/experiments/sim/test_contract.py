# SPDX-License-Identifier: Apache-2.0
"""The emulated server keeps the rules that the hardware's back ends keep."""

import dataclasses
import unittest

from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.experiments.server.server import EmulatedServer
from tests.unit.hardware.contract import AllocatorContract, DdioContract


class EmulatedAllocator(AllocatorContract, unittest.TestCase):
    def make(self):
        self.server = EmulatedServer(load_scenario("quickstart"))
        return self.server

    def class_of(self, cpu):
        return self.server.class_of(cpu)


class EmulatedBandwidth(AllocatorContract, unittest.TestCase):
    """A machine whose memory bandwidth can be limited."""

    def make(self):
        scenario = load_scenario("quickstart")
        machine = dataclasses.replace(scenario.machine, mba=True)
        self.server = EmulatedServer(dataclasses.replace(scenario, machine=machine))
        return self.server

    def class_of(self, cpu):
        return self.server.class_of(cpu)

    def test_delays_follow(self):
        """CPUs of a limited class are delayed, and no others; none when it is given up."""
        delays = self.server.plant.state.delays
        self.limited(a=None, b=10)
        late = [cpu for cpu, delay in enumerate(delays) if delay]
        self.assertEqual([self.domain.cpus[1]], late)
        self.apply()
        self.assertEqual([], [delay for delay in delays if delay])


class EmulatedDdio(DdioContract, unittest.TestCase):
    def make(self):
        server = EmulatedServer(load_scenario("quickstart"))
        return server, server.domains()[0]
