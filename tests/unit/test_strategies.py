# SPDX-License-Identifier: Apache-2.0
"""Presets by name, and an error that says what there is."""

import unittest

from iat_nova import strategies
from iat_nova.model import PRESETS, Parameters


class MakeTest(unittest.TestCase):
    def test_every_preset_is_the_controller_with_its_switches(self) -> None:
        """The paper's comparison policies differ in switches only."""
        for name, switches in PRESETS.items():
            strategy = strategies.make(name, Parameters())
            self.assertEqual(switches, strategy.switches)

    def test_an_unknown_name(self) -> None:
        """The presets are listed."""
        with self.assertRaisesRegex(strategies.StrategyError, "magic.*baseline.*iat"):
            strategies.make("magic", Parameters())
