# SPDX-License-Identifier: Apache-2.0
"""Which ways masks may use."""

import unittest

from iat_nova.model import WayMask
from tests.unit.build import domain


class OpenWaysTest(unittest.TestCase):
    def test_the_longest_run_without_reserved_ways(self) -> None:
        """All ways, those beside reserved ways, or the longer part; none where all are reserved."""
        for reserved, wanted in ((0, 0x7FF), (0x3, 0x7FC), (0x10, 0x7E0), (0x40, 0x3F), (0x7FF, 0)):
            found = domain(11, reserved_ways=WayMask(reserved)).open_ways
            self.assertEqual(wanted, found, hex(reserved))
