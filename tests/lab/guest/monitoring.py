# SPDX-License-Identifier: Apache-2.0
"""Occupancy and memory traffic of tenants through monitoring groups, with fed counters."""

import unittest

from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.counters.monitor import OCCUPANCY, Monitor, offered
from iat_nova.model import DomainInventory, WayMask, message
from tests.lab.guest.machine import TOPOLOGY, Registers, mount
from tests.lab.registers import RMID_UNIT
from tests.proofs import proves
from tests.unit.build import tenant

REGISTERS = Registers()

# The kernel corrects the traffic of the highest RMIDs of Skylake's and Broadwell's servers, by
# their number (mbm_cf_table in arch/x86/kernel/cpu/resctrl/monitor.c): threshold and factor. Which
# RMIDs a test is given depends on how many were used before it.
CORRECTIONS = {144: (127, 1.185255)}


def corrected(rmids, rmid, count):
    """Return what the kernel makes of a count of traffic of one of so many RMIDs."""
    threshold, factor = CORRECTIONS.get(rmids, (rmids, 1))
    return count * round(factor * (1 << 20)) >> 20 if rmid > threshold else count


class TwoTenants(unittest.TestCase):
    """Two tenants of a class."""

    def setUp(self):
        mount()
        self.fs = ResctrlFs()
        self.resctrl = Resctrl(self.fs, TOPOLOGY)
        self.domain = self.resctrl.domains()[0]
        self.monitor = Monitor(self.fs, TOPOLOGY)
        self.addCleanup(self.resctrl.restore, self.resctrl.save())
        self.addCleanup(self.monitor.close)
        first, second = self.domain.cpus[:2]
        self.tenants = (tenant("a", first), tenant("b", second))
        self.resctrl.apply(self.domain.id, (ClassMask("ab", (first, second), WayMask(3)),))

    def watch(self, *tenants):
        self.monitor.watch({self.domain.id: DomainInventory(self.domain, tenants)})

    def rmid(self, cpu):
        return REGISTERS.pqr_assoc(cpu)[1]


@proves("occupancy and traffic")
class Monitored(TwoTenants):
    """What is counted, and that it ends."""

    def test_what_is_fed(self):
        """Each tenant has an RMID of its own, in the same class; its counts are read."""
        offer = offered(self.fs)
        self.assertIn(OCCUPANCY, offer.events)
        self.watch(*self.tenants)
        a, b = (one.cpus[0] for one in self.tenants)
        self.assertEqual(REGISTERS.pqr_assoc(a)[0], REGISTERS.pqr_assoc(b)[0])
        self.assertEqual(3, len({0, self.rmid(a), self.rmid(b)}))
        moved = corrected(offer.rmids, self.rmid(a), 1000)
        before = self.monitor.read()[0, "a"]
        REGISTERS.set_rmid(self.rmid(a), 48, 1000, 900)
        REGISTERS.set_rmid(self.rmid(b), 16, 10, 10)
        after = self.monitor.read()
        unit = after[0, "b"].occupancy_bytes // 16  # what the kernel takes a count for
        self.assertEqual(48 * unit, after[0, "a"].occupancy_bytes)
        self.assertEqual(RMID_UNIT, unit)
        self.assertEqual(moved * unit, after[0, "a"].memory_bytes - before.memory_bytes)

    def test_to_another_class(self):
        """A tenant that changes classes is counted on in the new one."""
        self.watch(*self.tenants)
        a, b = (one.cpus[0] for one in self.tenants)
        classes = (ClassMask("ab", (b,), WayMask(3)), ClassMask("a", (a,), WayMask(0xC)))
        self.resctrl.apply(self.domain.id, classes)
        self.watch(*self.tenants)
        REGISTERS.set_rmid(self.rmid(a), 7, 0, 0)
        self.assertEqual(7 * RMID_UNIT, self.monitor.read()[0, "a"].occupancy_bytes)
        self.assertNotEqual(self.rmid(a), self.rmid(b))

    def test_all_is_as_found(self):
        """After a restore by another process no group and no RMID of ours is left."""
        saved = self.resctrl.save()
        a, _ = (one.cpus[0] for one in self.tenants)
        self.resctrl.apply(self.domain.id, (ClassMask("a", (a,), WayMask(3)),))
        self.watch(*self.tenants)
        self.assertTrue(any((self.fs.root / "mon_groups").iterdir()))
        Resctrl(self.fs, TOPOLOGY).restore(saved)
        self.assertEqual([], [*(self.fs.root / "mon_groups").iterdir()])
        self.assertEqual({(0, 0)}, {REGISTERS.pqr_assoc(cpu) for cpu in TOPOLOGY.online()})


class RunOut(TwoTenants):
    """The last, as RMIDs are in limbo for a while when they were all in use."""

    def test_rmids_run_out(self):
        """Where others took all of them nobody is counted, and the reason is the kernel's."""
        self.made = []
        while not self.run_out():
            # The kernel gave RMIDs back from limbo after `fill`: the test takes these, too.
            self.monitor.close()
            self.monitor = Monitor(self.fs, TOPOLOGY)
            self.addCleanup(self.monitor.close)
        self.assertEqual({}, self.monitor.read())

    def run_out(self):
        """Take all RMIDs, and return whether none was left to the tenants."""
        self.fill()
        rmids = offered(self.fs).rmids
        # The kernel refuses the last groups earlier by as many RMIDs as are in limbo.
        left = rmids - self.fs.info().closids - len(self.made)
        try:
            self.watch(*self.tenants)
        except HardwareError as error:  # some are in limbo, of which only the kernel knows
            self.assertEqual(message("remove-monitoring-groups"), error.remedy)
            return True
        if self.monitor.full is None:
            self.assertGreaterEqual(left, len(self.tenants))
            return False
        self.assertEqual(
            message("rmids-too-few", tenants=2, free=max(0, left), rmids=rmids), self.monitor.full
        )
        return True

    def fill(self):
        """Make groups of another owner until the kernel refuses."""
        try:
            while True:
                name = f"mon_groups/theirs{len(self.made)}"
                self.fs.add(name)
                self.made.append(name)
                self.addCleanup(self.fs.remove, name)
        except HardwareError as error:
            self.assertEqual(message("remove-monitoring-groups"), error.remedy)
