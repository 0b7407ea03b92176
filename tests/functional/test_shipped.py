# SPDX-License-Identifier: Apache-2.0
"""Scenarios that ship show what their titles say."""

import dataclasses
import unittest

from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario
from iat_nova.model import Priority


class TestMoreTenantsThanWays(unittest.TestCase):
    def test_be_guests_share_and_pc_guests_do_not(self):
        """All fourteen have ways; the two PC guests alone, the BE guests together."""
        scenario = load_scenario("more-tenants-than-ways")
        result = run(dataclasses.replace(scenario, compression=0.01), "iat", seconds=4.0)
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


class TestTenantChurn(unittest.TestCase):
    def test_guests_come_and_go(self):
        """Who is there has ways within the loop's beat; who has left runs and receives no more."""
        scenario = load_scenario("tenant-churn")
        scenario = dataclasses.replace(scenario, compression=0.01)
        present = {}
        for seconds in (5.0, 22.5):
            result = run(scenario, seconds=seconds)
            tenants = {one.name: one.id for one in result.inventory.tenants}
            present[seconds] = set(tenants) - {"host"}
            self.assertTrue(all(result.last.layout.mask_of(one) for one in tenants.values()))
        self.assertEqual({"stays", "batch1"}, present[5.0])
        self.assertEqual(
            {"stays", "batch1", "database", "batch2", "second-forwarder"}, present[22.5]
        )
        windows = run(scenario, seconds=39.0, marks=(10.0, 20.0, 25.0, 36.0)).windows
        work = {
            name: [window.workloads[name].work_per_s > 0 for window in windows]
            for name in ("database", "batch1", "second-forwarder")
        }
        self.assertEqual([False, True, True, True, True], work["database"])
        self.assertEqual([True, True, True, False, False], work["batch1"])
        self.assertEqual([False, False, True, True, False], work["second-forwarder"])
        self.assertEqual(0.0, windows[0].workloads["second-forwarder"].gbps)


class TestXmemGrows(unittest.TestCase):
    def test_only_the_operator_resizes_ddio(self):
        """DDIO has 2 ways until it gets 4 by hand; the strategy then moves the others' masks."""
        scenario = dataclasses.replace(load_scenario("xmem-grows"), compression=0.01)
        result = run(scenario, "iat", seconds=20.0)
        found = {(one.at_s >= 15.0, one.layout.ddio.count) for one in result.decisions}
        self.assertEqual({(False, 2), (True, 4)}, found)
        self.assertIn(15.0, result.moves)


class TestNoisyStorage(unittest.TestCase):
    def test_packets_recover_from_a_burst_alone_and_not_beside_storage(self):
        """After the first burst latency falls again; after the one beside storage it does not."""
        scenario = dataclasses.replace(load_scenario("noisy-storage"), compression=0.04)
        marks = (5.0, 7.0, 10.0, 12.0, 15.0, 17.0, 20.0)
        result = run(scenario, "baseline", seconds=20.0, marks=marks)
        windows = {window.from_s: window.workloads["inspector"] for window in result.windows}
        self.assertLess(windows[7.0].latency_us, 50)
        self.assertLess(windows[12.0].latency_us, 50)
        self.assertGreater(windows[17.0].latency_us, 500)
        self.assertEqual(0.0, windows[7.0].loss)
        self.assertGreater(windows[17.0].loss, 0.02)
        misses = {at: one.misses_per_s / one.work_per_s for at, one in windows.items()}
        self.assertGreater(misses[17.0], 5 + 2 * misses[7.0])
        storage = next(one for one in result.inventory.tenants if one.name == "storage")
        self.assertFalse(storage.io)
