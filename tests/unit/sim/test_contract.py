# SPDX-License-Identifier: Apache-2.0
"""The emulated server keeps the rules that the hardware's back ends keep."""

import unittest

from iat_nova.sim.reader import load_scenario
from iat_nova.sim.server import EmulatedServer
from tests.unit.hardware.contract import AllocatorContract, DdioContract


class EmulatedAllocator(AllocatorContract, unittest.TestCase):
    def make(self):
        self.server = EmulatedServer(load_scenario("quickstart"))
        return self.server

    def class_of(self, cpu):
        return self.server.class_of(cpu)


class EmulatedDdio(DdioContract, unittest.TestCase):
    def make(self):
        server = EmulatedServer(load_scenario("quickstart"))
        return server, server.domains()[0]
