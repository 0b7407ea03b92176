# SPDX-License-Identifier: Apache-2.0
"""Presets by name, and an error that says what there is."""

import importlib.metadata
import sys
import unittest
from importlib.metadata import EntryPoint
from unittest import mock

from iat_nova.model import Parameters
from iat_nova.strategies import registry as strategies
from iat_nova.strategies.iat.presets import PRESETS

LABORATORY = "iat_nova.experiments"


def invalid(parameters: Parameters) -> None:
    """A strategy of another package that refuses its parameters."""
    raise ValueError("too few ways")


def leaves(parameters: Parameters) -> None:
    """One that ends the process."""
    raise SystemExit("goodbye")


class MissingTest(unittest.TestCase):
    def test_an_entry_point_without_its_module(self) -> None:
        """A package that names a module that is not there is told apart from no package."""
        point = EntryPoint("mine", "iat_nova_mine:Mine", strategies.NAMESPACE)
        expected = "entry point names iat_nova_mine, which is not installed"
        with (
            mock.patch.object(importlib.metadata, "entry_points", return_value=[point]),
            self.assertRaisesRegex(strategies.StrategyError, expected),
        ):
            strategies.find("mine")


class MakeTest(unittest.TestCase):
    def test_every_preset_is_the_controller_with_its_switches(self) -> None:
        """The paper's comparison policies differ in features only."""
        for name, features in PRESETS.items():
            strategy = strategies.make(name, Parameters())
            self.assertEqual(features, strategy.features)

    def test_an_unknown_name(self) -> None:
        """What there is is listed."""
        with self.assertRaisesRegex(strategies.StrategyError, "magic.*unmanaged.*baseline.*iat"):
            strategies.make("magic", Parameters())

    def test_thresholds(self) -> None:
        """Those that a strategy declares; None of a strategy that declares none."""
        self.assertTrue(strategies.thresholds("iat", Parameters()))
        self.assertEqual((), strategies.thresholds("unmanaged", Parameters()))
        point = EntryPoint("mine", f"{__name__}:invalid", strategies.NAMESPACE)
        with mock.patch.object(importlib.metadata, "entry_points", return_value=[point]):
            self.assertIsNone(strategies.thresholds("mine", Parameters()))

    def test_without_the_emulated_server(self) -> None:
        """A strategy for comparisons is not on a compute host: the text names the package."""
        absent = dict.fromkeys(name for name in sys.modules if name.startswith(LABORATORY))
        with mock.patch.dict(sys.modules, {**absent, LABORATORY: None}):
            with self.assertRaisesRegex(strategies.StrategyError, "'a4' comes with .*simulator"):
                strategies.find("a4")
            self.assertTrue(strategies.find("iat"))


class OtherPackagesTest(unittest.TestCase):
    """Entry points of packages that are not ours."""

    def test_another_package_that_is_broken_is_not_asked(self) -> None:
        """Of several strategies, the one that was named is loaded, and its error is told."""
        fine = EntryPoint(
            "fine", "iat_nova.experiments.rivals.unmanaged:Unmanaged", strategies.NAMESPACE
        )
        gone = EntryPoint("gone", "not_installed.strategies:Gone", strategies.NAMESPACE)
        broken = EntryPoint(
            "broken", "iat_nova.experiments.rivals.unmanaged:No", strategies.NAMESPACE
        )
        points = [broken, gone, fine]
        with mock.patch.object(importlib.metadata, "entry_points", return_value=points):
            self.assertEqual("Unmanaged", strategies.find("fine").__name__)
            with self.assertRaisesRegex(strategies.StrategyError, "names not_installed.strategies"):
                strategies.find("gone")
            with self.assertRaisesRegex(strategies.StrategyError, "'broken' does not load"):
                strategies.find("broken")

    def test_a_strategy_that_does_not_start(self) -> None:
        """Whatever another package raises, the text names the strategy and what it raised."""
        for function, text in ((invalid, "too few ways"), (leaves, "goodbye")):
            point = EntryPoint("mine", f"{__name__}:{function.__name__}", strategies.NAMESPACE)
            with (
                self.subTest(text),
                mock.patch.object(importlib.metadata, "entry_points", return_value=[point]),
                self.assertRaisesRegex(
                    strategies.StrategyError, f"'mine' does not start: .*{text}"
                ),
            ):
                strategies.make("mine", Parameters())

    def test_what_it_needs_is_missing(self) -> None:
        """A module that another package's strategy lacks is not the emulated server."""
        for error in (ModuleNotFoundError("no scipy", name="scipy"), ModuleNotFoundError("none")):
            with (
                self.subTest(error),
                mock.patch.object(EntryPoint, "load", side_effect=error),
                self.assertRaisesRegex(strategies.StrategyError, "'iat' does not load"),
            ):
                strategies.find("iat")
