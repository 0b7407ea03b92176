# SPDX-License-Identifier: Apache-2.0
"""The real ``openstack`` client does what the pages say, and nova-api answers."""

import re

from iat_nova.nova import extra_specs
from tests import flavor_commands
from tests.nova.case import GuestCase

PLUGIN = flavor_commands.ROOT / "devstack/plugin.sh"

# The plug-in's own function, without DevStack and what else it would do.
DEVSTACK = f"""
set -e
is_service_enabled() {{ return 1; }}
define_plugin() {{ :; }}
source {PLUGIN}
create_iat_nova_flavors
"""

WRONG = {
    "iat:priority": ("GOLD", "'GOLD' is not one of: PC, BE."),
    "iat:io": ("maybe", "'maybe' is not one of: true, false, auto."),
    "iat:llc_ways": ("two", "'two' is not a valid integer value."),
    "iat:llc_ways_max": ("65", "'65' is greater than the max value of '64'."),
    "iat:prioritty": ("PC", "'iat:prioritty' does not appear to be a valid extra spec."),
    "hw:cpu_policy": ("pinned", "'pinned' is not one of: dedicated, shared, mixed."),
    "trait:CUSTOM_IAT": ("maybe", "'maybe' is not one of: required, forbidden."),
    f"resources:{extra_specs.RESOURCE_CLASS}": ("two", "'two' is not a valid integer value."),
}


class ClientTests(GuestCase):
    """Mixed into the class that has the cloud."""

    def stored(self) -> dict[str, dict[str, str]]:
        """Return the extra specs of all flavors by name."""
        found = self.cloud.api.nova("GET", "/flavors/detail")["flavors"]
        return {one["name"]: one["extra_specs"] for one in found}

    def remove_flavors(self, names: set[str]) -> None:
        for one in self.cloud.api.nova("GET", "/flavors")["flavors"]:
            if one["name"] in names:
                self.cloud.api.nova("DELETE", f"/flavors/{one['id']}")

    def test_documented_flavor_commands(self) -> None:
        """Each is taken as it stands on its page, and what it says is stored."""
        commands = flavor_commands.shown()
        before = set(self.stored())
        for name in {one.flavor for one in commands if one.verb == "set"}:
            self.cloud.api.make_flavor(name, 1, {})
        self.addCleanup(lambda: self.remove_flavors(set(self.stored()) - before))
        for one in commands:
            with self.subTest(one.page):
                self.assertEqual("", self.cloud.openstack(one.text).stderr)
                self.assertLessEqual(one.properties.items(), self.stored()[one.flavor].items())

    def test_devstack_flavors(self) -> None:
        """The plug-in's own are taken too."""
        self.addCleanup(self.remove_flavors, {"iat.pc", "iat.be"})
        self.assertEqual("", self.cloud.openstack(DEVSTACK).stderr)
        stored = self.stored()
        self.assertEqual("dedicated", stored["iat.pc"]["hw:cpu_policy"])
        self.assertEqual("BE", stored["iat.be"]["iat:priority"])

    def test_wrong_flavor_commands(self) -> None:
        """Of each extra spec that the pages name a wrong value is refused, in Nova's words."""
        named = {key for one in flavor_commands.shown() for key in one.properties}
        self.assertLessEqual(named | {key.name for key in extra_specs.KEYS}, set(WRONG))
        flavor = f"{self._testMethodName}"
        made = self.cloud.api.make_flavor(flavor, 1, {})
        self.addCleanup(self.cloud.api.nova, "DELETE", f"/flavors/{made}")
        # One client for all: most of its time is its start. It is told the version the other way.
        commands = [f"flavor set {flavor} --property {key}={WRONG[key][0]}" for key in WRONG]
        done = self.cloud.openstack(
            "OS_COMPUTE_API_VERSION=2.86 openstack", "\n".join(commands), may_fail=True
        )
        refusals = re.findall(r"400: .*Validation failed; (.*)", done.stderr)
        self.assertEqual(len(WRONG), len(refusals), done.stderr)
        for (_, words), said in zip(WRONG.values(), refusals, strict=True):
            self.assertIn(words, said)
        self.assertEqual({}, self.stored()[flavor])

    def test_without_the_version_nothing_is_checked(self) -> None:
        """Which is why all commands on the pages have it."""
        flavor = f"{self._testMethodName}"
        made = self.cloud.api.make_flavor(flavor, 1, {})
        self.addCleanup(self.cloud.api.nova, "DELETE", f"/flavors/{made}")
        self.cloud.openstack(f"openstack flavor set {flavor} --property iat:priority=GOLD")
        self.assertEqual({"iat:priority": "GOLD"}, self.stored()[flavor])
