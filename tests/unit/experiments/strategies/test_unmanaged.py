# SPDX-License-Identifier: Apache-2.0
"""A host without the agent, as a strategy."""

import unittest

from iat_nova.experiments.rivals import unmanaged
from iat_nova.experiments.rivals.unmanaged import Unmanaged
from iat_nova.model import Decision, DomainInventory, Group, Priority, Sample, WayMask
from tests.unit import build, frozen


class UnmanagedTest(unittest.TestCase):
    def _decisions(self, **changes: object) -> list[Decision]:
        """Return the decisions of three seconds."""
        tenants = tuple(
            build.tenant(name, cpu, priority=priority)
            for cpu, (name, priority) in enumerate((("a", Priority.PC), ("b", Priority.BE)))
        )
        inventory = DomainInventory(build.domain(**changes), tenants)
        strategy = Unmanaged()
        state, found = strategy.initial(inventory, 0.0), []
        for second in (1.0, 2.0, 3.0):
            state, decision = strategy.step(state, inventory, Sample(0, second, 1.0, {}))
            found.append(decision)
        return found

    def test_decides_nothing(self) -> None:
        """The iterations are counted, no mask moves."""
        found = self._decisions()
        self.assertEqual([1, 2, 3], [one.iteration for one in found])
        self.assertEqual([1.0, 2.0, 3.0], [one.at_s for one in found])
        self.assertTrue(all(one.stable and not one.moved and not one.steps for one in found))

    def test_every_tenant_has_all_ways_and_ddio_is_as_found(self) -> None:
        """As after a start of the host; DDIO has two ways where its mask is unknown."""
        for ddio, expected in ((3, 0x700), (None, 0x600)):
            *_, last = self._decisions(ddio=ddio)
            self.assertEqual(WayMask(expected), last.layout.ddio)
            self.assertEqual((Group(("a", "b"), WayMask(0x7FF)),), last.layout.groups)
            counts = (last.allocation.ddio_ways, last.allocation.tenants)
            self.assertEqual((expected.bit_count(), {"a": 11, "b": 11}), counts)

    def test_reserved_ways_are_not_touched(self) -> None:
        """Where these break the line, the longest run of the others is left; sparse, all."""
        *_, last = self._decisions(reserved_ways=WayMask(0x010))
        self.assertEqual(WayMask(0x7E0), last.layout.mask_of("a"))
        *_, last = self._decisions(reserved_ways=WayMask(0x010), sparse_masks=True)
        self.assertEqual(WayMask(0x7EF), last.layout.mask_of("b"))


class ValuesTest(unittest.TestCase):
    def test_frozen(self) -> None:
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(unmanaged))
        self.assertTrue(frozen.values(unmanaged))
