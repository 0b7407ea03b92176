# SPDX-License-Identifier: Apache-2.0
"""Nova itself validates the extra specs, on a controller that has nothing of the agent's."""

import importlib.metadata
import re
import textwrap

from iat_nova.nova import extra_specs
from tests.openstack.nova_venv import NovaCase

KEYS = ["iat:io", "iat:llc_ways", "iat:llc_ways_max", "iat:priority"]

ACCEPTED = [
    ("iat:priority", "PC"),
    ("iat:priority", "BE"),
    ("iat:io", "true"),
    ("iat:io", "false"),
    ("iat:io", "auto"),
    ("iat:llc_ways", "1"),
    ("iat:llc_ways", "64"),
    ("iat:llc_ways", " +3"),
    ("iat:llc_ways", "0000000000011"),
    ("iat:llc_ways", "1_1"),
    ("iat:llc_ways_max", "11"),
]

REFUSED = [
    ("iat:priority", "GOLD"),
    ("iat:priority", "stack"),  # the vswitch's alone
    ("iat:priority", ""),
    ("iat:io", "maybe"),
    ("iat:llc_ways", "0"),
    ("iat:llc_ways", "65"),
    ("iat:llc_ways", "-1"),
    ("iat:llc_ways", "two"),
    ("iat:llc_ways", "2.5"),
    ("iat:llc_ways_max", ""),
    ("iat:prioritty", "PC"),
    ("iat:", "PC"),
]


class ValidatorsTest(NovaCase):
    """nova.api.validation.extra_specs with our entry point."""

    def test_nova_discovers_them(self) -> None:
        """The entry point is found, and the namespace is Nova's to snapshot from then on."""
        answer = self.run_in_nova("validate.py", specs=[])
        self.assertEqual(KEYS, answer["discovered"])
        self.assertIn("iat", answer["namespaces"])

    def test_what_is_right_is_accepted_and_understood(self) -> None:
        """Nova accepts it, and the agent reads the same without a complaint."""
        answer = self.run_in_nova("validate.py", specs=ACCEPTED)
        for spec, refusal in zip(ACCEPTED, answer["refusals"], strict=True):
            self.assertIsNone(refusal, spec)
            self.assertEqual((), extra_specs.parse(dict([spec])).problems, spec)

    def test_what_is_wrong_is_refused_with_400(self) -> None:
        """Wrong values and misspelt names are refused, as the agent would not use them either."""
        answer = self.run_in_nova("validate.py", specs=REFUSED)
        for spec, refusal in zip(REFUSED, answer["refusals"], strict=True):
            self.assertIsNotNone(refusal, spec)
            self.assertEqual(400, refusal["code"], spec)
            self.assertNotEqual((), extra_specs.parse(dict([spec])).problems, spec)

    def test_refusals_name_what_is_allowed(self) -> None:
        """Who mistypes a value learns which values there are."""
        specs = [("iat:priority", "pc!"), ("iat:llc_ways", "65")]
        messages = [
            refusal["message"]
            for refusal in self.run_in_nova("validate.py", specs=specs)["refusals"]
        ]
        self.assertIn("PC, BE", messages[0])
        self.assertIn("64", messages[1])

    def test_other_extra_specs_stay_novas(self) -> None:
        """The flavors of the documentation pass as a whole; Nova's own keys stay guarded."""
        specs = [
            ("trait:CUSTOM_IAT", "required"),
            ("resources:CUSTOM_IAT_LLC_WAY", "2"),
            ("hw:cpu_policy", "dedicated"),
            ("other:key", "any"),
            ("hw:cpu_policy", "bogus"),
        ]
        refusals = self.run_in_nova("validate.py", specs=specs)["refusals"]
        self.assertEqual([None] * 4, refusals[:4])
        self.assertEqual(400, refusals[4]["code"])


class ControllerTest(NovaCase):
    """A controller has Nova and, of iat-nova, the plugin alone."""

    def test_nothing_of_the_agents_is_imported(self) -> None:
        """Every requirement of the agent is out of reach, and nothing else of ours is loaded."""
        forbidden = {re.split("[^A-Za-z0-9_.-]", line)[0] for line in _requirements()}
        forbidden |= {
            "libvirt",
            "numpy",
            "matplotlib",
            "ovs",
            "ovsdbapp",
            "yaml",
            "jinja2",
        }
        forbidden -= {"stevedore", "oslo.config"}  # Nova itself finds the validators with these
        answer = self.run_in_nova("imports.py", forbidden=sorted(forbidden))
        ours = [
            "iat_nova_plugin",
            "iat_nova_plugin.extra_specs",
            "iat_nova_plugin.validators",
        ]
        self.assertEqual(ours, answer["added"])
        self.assertEqual(KEYS, sorted(answer["keys"]))

    def test_the_agents_own_requirements_are_absent(self) -> None:
        """The environment in which it was installed and imported really lacks them."""
        code = textwrap.dedent("""
            import importlib.util
            for name in ("iat_nova", "libvirt", "cattrs"):
                assert importlib.util.find_spec(name) is None, name
            import iat_nova_plugin.notifier, iat_nova_plugin.validators
            print(iat_nova_plugin.__file__)
            """)
        done = self.python_runs("-c", code)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertTrue(done.stdout.startswith(str(self.python.parents[1])), done.stdout)


def _requirements() -> list[str]:
    return importlib.metadata.requires("iat-nova") or []
