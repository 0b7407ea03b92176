# SPDX-License-Identifier: Apache-2.0
"""Memory traffic of tenants where counters are assigned: AMD's ABMC, ``mbm_event``."""

import unittest

from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP, ResctrlFs
from iat_nova.hardware.counters.monitor import offered
from tests.lab.guest.machine import TOPOLOGY, Registers, mount, plug, unmount
from tests.lab.registers import RMID_UNIT
from tests.proofs import proves
from tests.unit.hardware import contract

REGISTERS = Registers()
ALL_TYPES, LOCAL_TYPES = 0x7F, 0x15  # what the kernel has total and local traffic count
MODE = "info/L3_MON/mbm_assign_mode"


@proves("traffic by assigned counters")
class Assigned(contract.AssignedContract, unittest.TestCase):
    """On the kernel's own, six in each of two caches."""

    def setUp(self):
        mount()
        self.fs, self.topology = ResctrlFs(), TOPOLOGY
        self.resctrl = Resctrl(self.fs, TOPOLOGY)
        super().setUp()

    def move(self, cpu, count):
        """A quarter of it to and from local memory."""
        units = count // RMID_UNIT
        REGISTERS.add_rmid(REGISTERS.pqr_assoc(cpu)[1], units, units // 4)

    def mount_again(self):
        """At the end the default group has the counters again that it lost."""
        self.addCleanup(mount)
        self.addCleanup(unmount)

    def assigned(self, cache):
        """Return what the registers of a cache say is counted."""
        found = (REGISTERS.assigned(number, cache) for number in range(self.COUNTERS))
        return {one for one in found if one}

    def test_the_registers(self):
        """Those of the tenants' cache count each one's RMID; those of the other one do not."""
        default = {(0, ALL_TYPES), (0, LOCAL_TYPES)}
        self.assertEqual([default] * 2, [self.assigned(cache) for cache in range(2)])
        tenants = self.tenants(3)
        self.watch(tenants)
        theirs = {(REGISTERS.pqr_assoc(one.cpus[0])[1], ALL_TYPES) for one in tenants}
        self.assertEqual(3, len(theirs - default))
        self.assertEqual([default | theirs, default], [self.assigned(cache) for cache in range(2)])
        self.monitor.close()
        self.assertEqual([default] * 2, [self.assigned(cache) for cache in range(2)])

    def test_a_cache_goes_and_comes(self):
        """The kernel forgets what was assigned there; it is assigned again."""
        self.mount_again()
        self.domain, self.beside = self.beside, self.domain  # CPU 0 cannot go
        tenants = self.tenants(2)
        self.watch(tenants)
        for cpu in self.domain.cpus:
            plug(cpu, False)
        for cpu in self.domain.cpus:
            plug(cpu, True)
        self.assertEqual(self.COUNTERS, self.left()[0])
        self.resctrl.inspect()
        self.watch(tenants)
        self.assertEqual([self.COUNTERS - 2, self.found[1]], self.left())
        self.assertNotIn(None, self.traffic().values())

    def test_the_other_mode(self):
        """Where an operator chose it the kernel counts every group; and the agent leaves it so."""
        self.mount_again()
        self.fs.put(MODE, "default")
        self.addCleanup(self.fs.put, MODE, "mbm_event")
        self.assertIsNone(offered(self.fs).counters)
        self.assertIsNone(self.fs.assignments(DEFAULT_GROUP))
        (tenant,) = self.tenants(1)
        self.watch((tenant,))
        before = self.traffic()[tenant.id]
        self.move(tenant.cpus[0], self.BYTES)
        self.assertEqual(self.BYTES, self.traffic()[tenant.id] - before)
        self.assertIn("[default]", self.fs.read(MODE))
