# SPDX-License-Identifier: Apache-2.0
"""What the pages say about flavors; tests/nova has Nova itself take the same commands."""

import unittest

from iat_nova.nova import extra_specs
from tests import flavor_commands


class FlavorCommandsTest(unittest.TestCase):
    def test_they_are_found(self) -> None:
        """On each page that shows one, whole."""
        found = {(one.page, one.verb, one.flavor) for one in flavor_commands.shown()}
        operator = "doc/source/operator"
        self.assertLessEqual(
            {
                (f"{operator}/flavors.rst", "set", "nfv.large"),
                (f"{operator}/flavors.rst", "set", "batch.small"),
                (f"{operator}/openstack.rst", "set", "nfv.large"),
                (f"{operator}/first-day.rst", "create", "nfv.small"),
                ("iat_nova/policy/default.yaml", "set", "FLAVOR"),
            },
            found,
        )

    def test_nova_checks_them(self) -> None:
        """All ask with the version from which on it does."""
        mentioned = flavor_commands.mentioned()
        self.assertGreaterEqual(len(mentioned), len(flavor_commands.shown()))
        for page, text in mentioned:
            self.assertIn(flavor_commands.VERSION, text, page)

    def test_the_agent_understands_them(self) -> None:
        """Their extra specs have no problem, and none has none of ours."""
        for one in flavor_commands.shown():
            with self.subTest(one.text):
                specs = one.properties
                self.assertTrue([key for key in specs if key.startswith("iat:")])
                self.assertEqual((), extra_specs.parse(specs).problems)
