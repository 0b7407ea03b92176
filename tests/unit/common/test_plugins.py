# SPDX-License-Identifier: Apache-2.0
"""Parts that a host may lack, found by name."""

import importlib.metadata
import pathlib
import tomllib
import unittest
from importlib.metadata import EntryPoint
from unittest import mock

from iat_nova.common import plugins

PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"


class FoundTest(unittest.TestCase):
    def test_what_is_not_installed_is_not_there(self):
        """The metadata names what a packager took out; nobody may stumble over it."""
        there = EntryPoint("there", "iat_nova.model:Layout", plugins.COMMANDS)
        gone = EntryPoint("gone", "iat_nova.gone.cmd:Command", plugins.COMMANDS)
        with mock.patch.object(importlib.metadata, "entry_points", return_value=[there, gone]):
            self.assertEqual([there], list(plugins.found(plugins.COMMANDS)))
            self.assertEqual(there, plugins.find(plugins.COMMANDS, "there"))
            self.assertIsNone(plugins.find(plugins.COMMANDS, "gone"))
            self.assertEqual("iat_nova.gone.cmd", plugins.missing(plugins.COMMANDS, "gone"))
            self.assertIsNone(plugins.missing(plugins.COMMANDS, "there"))

    def test_the_installed_metadata_are_the_checkouts(self):
        """They are written when the project is installed, also where it is installed editable."""
        declared = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]
        for group in (plugins.COMMANDS, plugins.PLATFORMS):
            installed = {one.name: one.value for one in plugins.found(group)}
            self.assertEqual(declared[group], installed, "install it again: pip install -e .")
