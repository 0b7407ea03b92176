# SPDX-License-Identifier: Apache-2.0
"""The default strategy without families of its moves."""

import unittest

from iat_nova.experiments.rivals import ablation
from iat_nova.model import Parameters
from iat_nova.strategies import registry
from iat_nova.strategies.pollute_buffer import moves


class AblationTest(unittest.TestCase):
    def test_labels(self) -> None:
        """A family, several together, each in turn; a label gives back what makes the strategy."""
        one, both, *each = ablation.labels(["ddio-ways", "ddio-ways,buffer-size", "each"])
        self.assertEqual("pollute-buffer without ddio-ways", one)
        self.assertEqual(
            ("pollute-buffer", {"without": ["ddio-ways", "buffer-size"]}), ablation.resolve(both)
        )
        self.assertEqual(len(moves.FAMILIES), len(each))
        self.assertEqual(("iat", {}), ablation.resolve("iat"))
        for label in each:
            registry.make(*_with_parameters(*ablation.resolve(label)))

    def test_an_unknown_family(self) -> None:
        """The families that exist are listed."""
        with self.assertRaisesRegex(registry.StrategyError, "'ddio'.*ddio-ways"):
            list(ablation.labels(["buffer-size,ddio"]))

    def test_no_operator_names_a_label(self) -> None:
        """The agent takes strategies by the registry, which knows no labels."""
        (label,) = ablation.labels(["ddio-ways"])
        with self.assertRaises(registry.StrategyError):
            registry.find(label)


def _with_parameters(name: str, options: dict[str, object]) -> tuple[object, ...]:
    return name, Parameters(), options
