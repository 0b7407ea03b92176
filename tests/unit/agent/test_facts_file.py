# SPDX-License-Identifier: Apache-2.0
"""A host's facts in a file for policies to be tried elsewhere."""

import dataclasses
import pathlib
import tempfile
import unittest

from iat_nova.agent import facts_file
from iat_nova.model import VirtualSwitch, message
from tests.unit import stories


class FactsFileTest(unittest.TestCase):
    """What is written is read again."""

    def test_messages_that_speak_of_cpus(self):
        """Values of a message are no lists of CPUs, whatever they are called."""
        kept = message("pmd-cpus-kept", cpus="2-3", kept_s=60.0)
        switch = VirtualSwitch({}, (), (2, 3), "pmd-cpu-mask", warnings=(kept,))
        facts = dataclasses.replace(stories.facts(), switch=switch)
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "facts.yaml"
        path.write_text(facts_file.dump(facts))
        self.assertEqual(facts, facts_file.load(path))

    def test_masks(self):
        """They are hexadecimal, as in all other output, and are read again."""
        text = facts_file.dump(stories.facts())
        self.assertIn("    ddio_found: 0x600\n", text)
        self.assertIn("    reserved_ways: 0x0\n", text)
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())) / "facts.yaml"
        path.write_text(text)
        self.assertEqual(stories.facts(), facts_file.load(path))
