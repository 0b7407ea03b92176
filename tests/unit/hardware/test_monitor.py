# SPDX-License-Identifier: Apache-2.0
"""Monitoring groups of tenants follow them from class to class, and take no RMID that is needed."""

import unittest

from iat_nova.hardware.api import ClassMask, HardwareError, TenantCounts
from iat_nova.hardware.cat import resctrl_saved
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP
from iat_nova.hardware.counters.monitor import LIMBO_S, Monitor, offered
from iat_nova.model import (
    CacheDomain,
    DomainInventory,
    WayMask,
    message,
)
from tests.said import raises
from tests.unit.build import tenant
from tests.unit.hardware import contract, trees


class MonitorTest(unittest.TestCase):
    """Two domains of four CPUs."""

    def setUp(self):
        folder = trees.folder(self)
        self.cpus = trees.Cpus(folder / "cpu", packages=((0, 1, 2, 3), (4, 5, 6, 7)))
        self.tree = trees.KernelTree(folder / "resctrl", self.cpus)
        self.tree.monitoring(144)
        self.resctrl = Resctrl(self.tree, self.cpus.topology)
        self.resctrl.domains()
        self.now_s = 0.0
        self.monitor = Monitor(self.tree, self.cpus.topology, lambda: self.now_s)

    def watch(self, *tenants, domain=0):
        caches = CacheDomain(domain, (0, 1, 2, 3), 11, 8)
        self.monitor.watch({domain: DomainInventory(caches, tenants)})

    def groups(self):
        """Return the CPUs of monitoring groups by path."""
        return {
            str(path.relative_to(self.tree.root).parent): path.read_text().strip()
            for path in self.tree.root.glob("**/mon_groups/*/cpus_list")
        }

    def apply(self, *classes):
        masks = (ClassMask(name, cpus, WayMask(3)) for name, cpus in classes)
        self.resctrl.apply(0, tuple(masks))

    def count(self, group, occupancy, total, domain=0):
        data = f"{group}/mon_data/mon_L3_{domain:02d}"
        self.tree._put(f"{data}/llc_occupancy", occupancy)
        self.tree._put(f"{data}/mbm_total_bytes", total)

    def test_beneath_the_class(self):
        """Two tenants of one class are counted apart, one in the default class as well."""
        self.apply(("ab", (0, 1)))
        self.watch(tenant("a", 0), tenant("b", 1), tenant("c", 2, 3))
        self.assertEqual({
            "iat-nova.1/mon_groups/iat-nova.0.0": "0",
            "iat-nova.1/mon_groups/iat-nova.0.1": "1",
            "mon_groups/iat-nova.0.2": "2-3",
        }, self.groups())  # fmt: skip
        self.count("mon_groups/iat-nova.0.2", 1 << 20, 77)
        self.count("iat-nova.1/mon_groups/iat-nova.0.0", "Unavailable", "Unassigned")
        counts = self.monitor.read()
        self.assertEqual(TenantCounts(1 << 20, 77), counts[0, "c"])
        self.assertEqual(TenantCounts(None, None), counts[0, "a"])

    def test_follows_to_another_class(self):
        """The group in the former class is given up, and one is made in the new one."""
        self.apply(("a", (0,)))
        self.watch(tenant("a", 0), tenant("b", 1))
        self.apply(("b", (0, 1)), ("c", (2,)))
        self.watch(tenant("a", 0), tenant("b", 1))
        self.assertEqual(2, len(self.groups()), self.groups())
        self.assertEqual({"0", "1"}, set(self.groups().values()))
        self.assertEqual({(0, "a"), (0, "b")}, self.monitor.read().keys())
        self.apply()
        self.watch(tenant("a", 0))
        self.assertEqual(["0"], list(self.groups().values()))
        self.monitor.close()
        self.assertEqual({}, self.groups())

    def test_nothing_is_done_twice(self):
        """Looking again changes nothing."""
        self.watch(tenant("a", 0), tenant("b", 1))
        self.tree.changes.clear()
        self.watch(tenant("a", 0), tenant("b", 1))
        self.assertEqual([], self.tree.changes)

    def test_offline_cpus(self):
        """They are left out, and taken in when they are back."""
        self.tree.unplug(1)
        self.watch(tenant("a", 0, 1))
        self.assertEqual({"mon_groups/iat-nova.0.0": "0"}, self.groups())
        self.tree.plug(1)
        self.watch(tenant("a", 0, 1))
        self.assertEqual({"mon_groups/iat-nova.0.0": "0-1"}, self.groups())

    def test_cpus_that_others_monitor(self):
        """Stay where they are; the others are counted."""
        self.tree.add_monitor("theirs", "0-1")
        self.watch(tenant("a", 1, 2), tenant("b", 3))
        self.assertEqual({0, 1}, self.tree.monitored("theirs"))
        self.assertEqual({(0, "b")}, self.monitor.read().keys())

    def test_rmids_run_out(self):
        """As many as there are classes stay free; where the rest is too few nobody is counted."""
        for rmids, counted in ((8 + 2, 2), (8 + 1, 0)):
            with self.subTest(rmids=rmids):
                self.tree._put("info/L3_MON/num_rmids", rmids)
                self.watch(tenant("a", 0), tenant("b", 1))
                self.assertEqual(counted, len(self.groups()))
        self.assertEqual(message("rmids-too-few", tenants=2, free=1, rmids=9), self.monitor.full)
        self.assertEqual({}, self.monitor.read())
        self.now_s += 301.0
        self.watch(tenant("a", 0))
        self.assertIsNone(self.monitor.full)
        self.assertEqual(1, len(self.groups()))

    def test_rmids_given_back(self):
        """Are not free at once: control groups must find one, however often masks move."""
        self.tree._put("info/L3_MON/num_rmids", 8 + 3)
        tenants = tenant("a", 0), tenant("b", 1)
        self.watch(*tenants)
        self.apply(("a", (0,)))
        self.watch(*tenants)
        self.assertEqual((2, None), (len(self.groups()), self.monitor.full))
        self.apply(("b", (0, 1)))
        self.watch(*tenants)
        self.assertEqual({"iat-nova.1/mon_groups/iat-nova.0.0": "0"}, self.groups())
        limbo = message("rmids-in-limbo", waiting=1, tenants=2, limbo_s=LIMBO_S)
        self.assertEqual(limbo, self.monitor.full)
        self.now_s += 301.0
        self.watch(*tenants)
        self.assertEqual((2, None), (len(self.groups()), self.monitor.full))

    def test_the_kernel_has_none_left(self):
        """RMIDs whose data is in the cache yet are not free: nobody is counted, and it is said."""
        self.tree.rmids = 2
        with raises(self, HardwareError, "Out of RMIDs; remove monitoring groups"):
            self.watch(tenant("a", 0), tenant("b", 1))
        self.assertEqual(({}, {}), (self.groups(), self.monitor.read()))

    def test_not_offered(self):
        """A CPU that does not monitor is left alone."""
        (self.tree.root / "info/L3_MON").rename(self.tree.root / "info/elsewhere")
        self.assertIsNone(offered(self.tree))
        self.watch(tenant("a", 0))
        self.assertEqual({}, self.groups())

    def test_handed_over(self):
        """Another agent's groups are gone on with where they fit, and removed where they do not."""
        self.apply(("a", (0,)))
        self.watch(tenant("a", 0), tenant("b", 1), tenant("c", 2))
        self.tree.changes.clear()
        self.monitor = Monitor(self.tree, self.cpus.topology, lambda: self.now_s)
        self.watch(tenant("c", 2), tenant("a", 0), tenant("d", 3))
        self.assertEqual({
            "iat-nova.1/mon_groups/iat-nova.0.0": "0",
            "mon_groups/iat-nova.0.2": "2",
            "mon_groups/iat-nova.0.1": "3",
        }, self.groups())  # fmt: skip
        self.assertEqual(3, len(self.tree.changes), self.tree.changes)  # one goes, one comes
        self.monitor.close()
        self.assertEqual({}, self.groups())

    def test_the_least_of_all_rmids(self):
        """A group needs an RMID of each resource that is monitored, telemetry too."""
        (self.tree.root / "info/PERF_PKG_MON").mkdir()
        self.tree._put("info/PERF_PKG_MON/num_rmids", 64)
        self.assertEqual(64, offered(self.tree).rmids)

    def test_beneath_another_programs_group(self):
        """What others monitor there takes RMIDs, and CPUs, as it does beneath the default one."""
        self.tree.mkdir("theirs")
        self.tree.write("theirs/cpus_list", "0-1")
        self.tree.mkdir("theirs/mon_groups/inner")
        self.tree.write("theirs/mon_groups/inner/cpus_list", "0")
        self.watch(tenant("a", 0), tenant("b", 2))
        self.assertEqual({(0, "b")}, self.monitor.read().keys())
        self.tree._put("info/L3_MON/num_rmids", 8 + 2)
        self.watch(tenant("b", 2), tenant("c", 3))
        self.assertEqual(message("rmids-too-few", tenants=2, free=1, rmids=10), self.monitor.full)

    def test_restored(self):
        """What a dead agent left is removed, and never saved as another program's."""
        self.tree.add_monitor("theirs", "3")
        saved = resctrl_saved.save(self.tree)
        self.apply(("a", (0,)))
        self.watch(tenant("a", 0), tenant("b", 1))
        self.assertEqual(saved, resctrl_saved.save(self.tree) | {"default": saved["default"]})
        done = Resctrl(self.tree, self.cpus.topology).restore(saved)
        self.assertEqual({"mon_groups/theirs": "3"}, self.groups())
        path = f"{self.tree.root}/mon_groups/iat-nova.0.1"
        self.assertIn(message("removed", path=path), done)


class Assigned(contract.AssignedContract, unittest.TestCase):
    """Counters of bandwidth that are assigned to groups."""

    def setUp(self):
        folder = trees.folder(self)
        cpus = trees.Cpus(folder / "cpu", packages=((0, 1, 2, 3), (4, 5, 6, 7)))
        self.fs = trees.KernelTree(folder / "resctrl", cpus)
        self.fs.monitoring(144)
        self.fs.assigned(self.COUNTERS)
        self.topology = cpus.topology
        self.resctrl = Resctrl(self.fs, self.topology)
        super().setUp()

    def move(self, cpu, count):
        for path in self.fs.root.glob("**/mon_groups/*/cpus_list"):
            if path.read_text().strip() == str(cpu):
                traffic = path.parent / "mon_data/mon_L3_00/mbm_total_bytes"
                traffic.write_text(f"{int(traffic.read_text()) + count}\n")

    def test_the_other_mode(self):
        """Where the kernel counts every group, as before, there is nothing to be assigned."""
        self.fs._put("info/L3_MON/mbm_assign_mode", "mbm_event\n[default]")
        self.assertIsNone(offered(self.fs).counters)
        for path in self.fs.root.glob("**/mbm_L3_assignments"):
            path.unlink()  # reading it is refused
        self.assertIsNone(self.fs.assignments(DEFAULT_GROUP))
