# SPDX-License-Identifier: Apache-2.0
"""Scenarios: how long after ACTIVE a guest has its cache ways, alone and amid churn."""

import iat_nova_agent
from rally.task import atomic, types, validation
from rally_openstack.common import consts
from rally_openstack.task import scenario
from rally_openstack.task.scenarios.nova import utils


class _IatScenario(utils.NovaScenario):
    """What both scenarios do with a guest."""

    def _host(self, agents, server):
        """Return the compute host of a server where the agents' command needs it."""
        if not agents.names_host:
            return ""
        found = self.admin_clients("nova").servers.get(server.id)
        return getattr(found, "OS-EXT-SRV-ATTR:hypervisor_hostname")

    def _wait_enforced(self, agents, server, priority, host):
        """Measure from now until the guest is classified, and until it has its ways."""
        with atomic.ActionTimer(self, "iat_nova.active_to_enforced"):
            with atomic.ActionTimer(self, "iat_nova.active_to_classified"):
                row = agents.wait("classified", server, lambda row: row is not None, host)
            if not row.pooled:  # the pool is best effort, whatever its members' flavors ask for
                self.assertEqual(priority, row.priority, "the agent read another priority")
            row = agents.wait("given ways", server, lambda row: row is not None and row.ways, host)
        return row

    def _wait_released(self, agents, server, host):
        """Measure from now until the agent has forgotten a guest that Nova has deleted."""
        with atomic.ActionTimer(self, "iat_nova.deleted_to_released"):
            agents.wait("released", server, lambda row: row is None, host)


@types.convert(image={"type": "glance_image"}, flavor={"type": "nova_flavor"})
@validation.add("image_valid_on_flavor", flavor_param="flavor", image_param="image")
@validation.add("enum", param_name="priority", values=["PC", "BE"])
@validation.add("required_services", services=[consts.Service.NOVA])
@validation.add("required_platform", platform="openstack", users=True)
@scenario.configure(
    context={"cleanup@openstack": ["nova"]},
    name="IatNova.boot_enforce_delete",
    platform="openstack",
)
class BootEnforceDelete(_IatScenario):
    """One guest from boot to deletion, as the agent sees it."""

    def run(
        self,
        image,
        flavor,
        priority,
        agent_command=iat_nova_agent.COMMAND,
        poll_s=0.2,
        timeout_s=60.0,
        **kwargs,
    ):
        """Boot a server, wait until it has its ways, delete it, wait until they are free.

        :param image: image of the server
        :param flavor: flavor of the server, with iat:* extra specs
        :param priority: the priority that the agent must find, PC or BE
        :param agent_command: prints the tenants of an agent; {host} is the compute host
        :param poll_s: seconds between two looks, the resolution of what is measured
        :param timeout_s: seconds within which the agent must have seen each change
        :param kwargs: other arguments of the server's creation
        """
        agents = iat_nova_agent.Agents(agent_command, poll_s, timeout_s)
        server = self._boot_server(image, flavor, **kwargs)
        host = self._host(agents, server)
        row = self._wait_enforced(agents, server, priority, host)
        self.add_output(
            additive={
                "title": "Ways at first",
                "description": "LLC ways the guest was given at first",
                "chart_plugin": "Lines",
                "data": [["ways", row.ways]],
            }
        )
        self._delete_server(server)
        self._wait_released(agents, server, host)


@types.convert(
    image={"type": "glance_image"},
    pc_flavor={"type": "nova_flavor"},
    be_flavor={"type": "nova_flavor"},
)
@validation.add("image_valid_on_flavor", flavor_param="pc_flavor", image_param="image")
@validation.add("image_valid_on_flavor", flavor_param="be_flavor", image_param="image")
@validation.add("number", param_name="pc", minval=0, integer_only=True)
@validation.add("number", param_name="be", minval=0, integer_only=True)
@validation.add("required_services", services=[consts.Service.NOVA])
@validation.add("required_platform", platform="openstack", users=True)
@scenario.configure(
    context={"cleanup@openstack": ["nova"]},
    name="IatNova.churn",
    platform="openstack",
)
class Churn(_IatScenario):
    """Guests of both priorities that come and go, and one that has to be served amid them."""

    def run(
        self,
        image,
        pc_flavor,
        be_flavor,
        pc=1,
        be=2,
        agent_command=iat_nova_agent.COMMAND,
        poll_s=0.2,
        timeout_s=60.0,
        **kwargs,
    ):
        """Boot BE servers, then PC servers, each until it has ways; then delete them all.

        :param image: image of the servers
        :param pc_flavor: flavor with iat:priority=PC
        :param be_flavor: flavor with iat:priority=BE
        :param pc: the number of PC servers
        :param be: the number of BE servers
        :param agent_command: prints the tenants of an agent; {host} is the compute host
        :param poll_s: seconds between two looks, the resolution of what is measured
        :param timeout_s: seconds within which the agent must have seen each change
        :param kwargs: other arguments of the servers' creation
        """
        agents = iat_nova_agent.Agents(agent_command, poll_s, timeout_s)
        servers = []
        for flavor, priority in [(be_flavor, "BE")] * be + [(pc_flavor, "PC")] * pc:
            server = self._boot_server(image, flavor, **kwargs)
            host = self._host(agents, server)
            self._wait_enforced(agents, server, priority, host)
            servers.append((server, host))
        for server, host in servers:
            self._delete_server(server)
            self._wait_released(agents, server, host)
