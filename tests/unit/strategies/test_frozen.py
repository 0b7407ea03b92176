# SPDX-License-Identifier: Apache-2.0
"""Values of strategies cannot be changed: a state that was recorded is the state that decided."""

import unittest

from iat_nova.strategies.iat import ledger, realloc, roster
from iat_nova.strategies.iat import state as iat_state
from iat_nova.strategies.pollute_buffer import plan, state, trial
from tests.unit import frozen

MODULES = (iat_state, ledger, realloc, roster, plan, state, trial)


class TestFrozen(unittest.TestCase):
    def test_dataclasses(self):
        """Every dataclass refuses an assignment, and takes no other attribute."""
        for module in MODULES:
            with self.subTest(module.__name__):
                self.assertEqual([], frozen.changeable(module))
        self.assertGreater(sum(len(frozen.values(module)) for module in MODULES), 10)
