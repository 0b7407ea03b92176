# SPDX-License-Identifier: Apache-2.0
"""Nova's API and the extra specs ``iat:*``."""

from __future__ import annotations

from tempest import config, test
from tempest.common import waiters
from tempest.lib import decorators
from tempest.lib import exceptions as lib_exc
from tempest.lib.common import api_microversion_fixture
from tempest.lib.common.utils import data_utils, test_utils

CONF = config.CONF

CHECKED = "2.86"
"""From this microversion on Nova has extra specs checked; 2.47: a server shows its flavor's."""


class ExtraSpecsTest(test.BaseTestCase):
    """As administrator make flavors, as a user of a project boot a server."""

    credentials = ["primary", "admin"]

    @classmethod
    def skip_checks(cls):
        """Skip where the cloud has no iat-nova."""
        super().skip_checks()
        if not CONF.service_available.iat_nova:
            raise cls.skipException("[service_available] iat_nova = false")

    @classmethod
    def setup_credentials(cls):
        """Ask for no network: the server has none."""
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def setup_clients(cls):
        """Take the administrator's client of flavors and the user's of servers."""
        super().setup_clients()
        cls.flavors = cls.os_admin.flavors_client
        cls.servers = cls.os_primary.servers_client

    def setUp(self):
        """Ask at the microversion at which extra specs are checked."""
        super().setUp()
        self.useFixture(api_microversion_fixture.APIMicroversionFixture(CHECKED))

    def make_flavor(self):
        """Return the id of a new flavor, of the size of the one that Tempest is configured with."""
        size = self.flavors.show_flavor(CONF.compute.flavor_ref)["flavor"]
        name = data_utils.rand_name("iat-nova", prefix=CONF.resource_name_prefix)
        flavor = self.flavors.create_flavor(
            name=name, ram=size["ram"], vcpus=size["vcpus"], disk=size["disk"]
        )["flavor"]
        self.addCleanup(self.flavors.delete_flavor, flavor["id"])
        return flavor["id"]

    def stored(self, flavor):
        """Return a flavor's extra specs."""
        return self.flavors.list_flavor_extra_specs(flavor)["extra_specs"]

    @decorators.idempotent_id("5b0c8c3e-6f0a-4c55-9d53-0e6b7a1f2c84")
    def test_priority_is_taken_and_seen(self):
        """A flavor has a priority, its server runs, and who shows it sees the priority."""
        flavor = self.make_flavor()
        specs = {"iat:priority": "PC", "iat:io": "auto"}
        self.flavors.set_flavor_extra_spec(flavor, **specs)
        self.assertEqual(specs, self.stored(flavor))
        server = self.servers.create_server(
            name=data_utils.rand_name("iat-nova", prefix=CONF.resource_name_prefix),
            imageRef=CONF.compute.image_ref,
            flavorRef=flavor,
            networks="none",
        )["server"]["id"]
        self.addCleanup(waiters.wait_for_server_termination, self.servers, server)
        self.addCleanup(test_utils.call_and_ignore_notfound_exc, self.servers.delete_server, server)
        waiters.wait_for_server_status(self.servers, server, "ACTIVE")
        seen = self.servers.show_server(server)["server"]["flavor"]["extra_specs"]
        self.assertEqual(specs, seen)

    @decorators.attr(type=["negative"])
    @decorators.idempotent_id("c1f5d2b7-90f4-4a0e-8a6b-3d2e6c7f1b95")
    def test_mistakes_are_refused(self):
        """A value that does not exist and a misspelt name: 400, and nothing is stored."""
        flavor = self.make_flavor()
        for name, value in (("iat:priority", "GOLD"), ("iat:prioritty", "PC")):
            self.assertRaises(
                lib_exc.BadRequest,
                self.flavors.set_flavor_extra_spec,
                flavor,
                **{name: value},
            )
        self.assertEqual({}, self.stored(flavor))
