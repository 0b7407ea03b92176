# SPDX-License-Identifier: Apache-2.0
import unittest

from iat_nova.inventory.cpu_policy import CpuSets


class CpuSetsTest(unittest.TestCase):
    def test_absent_is_not_empty(self):
        """An option that is not set stays None; an empty one is the empty set."""
        self.assertEqual(CpuSets(None, frozenset()), CpuSets.parse(None, ""))

    def test_fault_names_the_option(self):
        """An operator learns which option to mend."""
        with self.assertRaisesRegex(ValueError, "cpu_shared_set"):
            CpuSets.parse("1-3", "one")
