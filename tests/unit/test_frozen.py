# SPDX-License-Identifier: Apache-2.0
"""Values that are passed around cannot be changed."""

import unittest

from iat_nova import hardware, inventory, model, policy, report
from iat_nova.strategies import iat, layout, pollute_buffer
from tests.unit import frozen


class FrozenTest(unittest.TestCase):
    def test_packages(self) -> None:
        """No field takes another value, and no value another attribute."""
        for package in (hardware, inventory, model, policy, iat, layout, pollute_buffer):
            self.assertEqual({}, frozen.changeable_in(package), package)
        # A view computes its parts when they are first read.
        self.assertEqual({"view": ["DomainView"]}, frozen.changeable_in(report))
