# SPDX-License-Identifier: Apache-2.0
"""Scenarios that ship show what their titles say."""

import dataclasses
import unittest

from iat_nova.model import Priority
from iat_nova.sim.run import run
from iat_nova.sim.scenario import Scenario


class TestMoreTenantsThanWays(unittest.TestCase):
    def test_be_guests_share_and_pc_guests_do_not(self):
        """All fourteen have ways; the two PC guests alone, the BE guests together."""
        scenario = Scenario.load("more-tenants-than-ways")
        result = run(dataclasses.replace(scenario, compression=0.01), seconds=4.0)
        tenants, layout = result.inventory.tenants, result.last.layout
        self.assertGreater(len(tenants), scenario.machine.llc_ways)
        self.assertTrue(layout.grouped)
        masks = {tenant.id: layout.mask_of(tenant.id) for tenant in tenants}
        self.assertNotIn(None, masks.values())
        first = [tenant.id for tenant in tenants if tenant.priority is Priority.PC]
        self.assertEqual(2, len(first))
        for name in first:
            others = [mask for other, mask in masks.items() if other != name]
            self.assertFalse(any(masks[name] & mask for mask in others), name)
            self.assertFalse(masks[name] & layout.ddio, name)
        self.assertLess(len(set(masks.values())), len(tenants))
