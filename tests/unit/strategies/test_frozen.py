# SPDX-License-Identifier: Apache-2.0
"""Values of strategies cannot be changed: a state that was recorded is the state that decided."""

import dataclasses
import inspect
import unittest

from iat_nova.strategies.iat import ledger, realloc, roster
from iat_nova.strategies.iat import state as iat_state
from iat_nova.strategies.pollute_buffer import plan, state, trial

MODULES = (iat_state, ledger, realloc, roster, plan, state, trial)


class TestFrozen(unittest.TestCase):
    def test_dataclasses(self):
        """Every dataclass refuses an assignment, and takes no other attribute."""
        found = 0
        for module in MODULES:
            for name, kind in inspect.getmembers(module, dataclasses.is_dataclass):
                if kind.__module__ != module.__name__:
                    continue
                with self.subTest(f"{module.__name__}.{name}"):
                    found += 1
                    one = object.__new__(kind)
                    for field in dataclasses.fields(kind):
                        with self.assertRaises(dataclasses.FrozenInstanceError):
                            setattr(one, field.name, None)
                    self.assertFalse(hasattr(one, "__dict__"))
        self.assertGreater(found, 10)
