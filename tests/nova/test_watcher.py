# SPDX-License-Identifier: Apache-2.0
"""Watcher's plug-in on a real cloud: two hosts, and a guest that Nova migrates while it runs."""

from __future__ import annotations

import pathlib
import unittest
from typing import Any, ClassVar

from tests.nova import watcher
from tests.nova.case import FIRST_ITERATION_S, recorded
from tests.nova.cloud import METRICS, Cloud, agent, until, why_not
from tests.nova.second import NAME, SecondHost
from tests.openstack import emulated_hosts

HERE, THERE = "compute1", NAME
PERIOD_S = 10
SHORT = 0.02  # the agent confines the batch job: the database loses a few percent, not a tenth
CRITICAL = {"hw:cpu_policy": "dedicated", "iat:priority": "PC", "iat:io": "false"}
DEDICATED = {"hw:cpu_policy": "dedicated"}


class WatcherTest(unittest.TestCase):
    """A database on the first host's dedicated CPU, beside a batch job on the shared one.

    Real: Nova, Placement, Keystone, Watcher's services, Prometheus, agents, libvirt, QEMU. The
    agents' hardware is emulated, and does not follow the guest that moves. Prometheus stands where
    Aetos would, which asks the same questions and checks tokens.
    """

    cloud: ClassVar[Cloud]

    @classmethod
    def setUpClass(cls) -> None:
        if (why := why_not() or emulated_hosts.missing()) is not None:
            raise unittest.SkipTest(why)
        watcher.python()  # installs, and the cloud's network leads nowhere
        cls.cloud = Cloud("crowded.yaml")
        cls.addClassCleanup(cls.cloud.close)
        cls.cloud.start()
        cls.cloud.start_compute()
        cls.second = SecondHost(cls.cloud, "empty.yaml", share_disks=False)
        cls.second.start()
        cls.addClassCleanup(cls.second.cut)
        cls.database = cls.boot("database", CRITICAL, HERE)
        cls.boot("batch", {}, HERE)
        cls.filler = cls.boot("filler", DEDICATED, THERE)
        cls.enterClassContext(agent(cls.cloud.folder))
        until(lambda: recorded(cls.cloud.state), "an iteration", FIRST_ITERATION_S)
        ports = {HERE: METRICS, THERE: METRICS + 1}
        cls.prometheus = cls.enterClassContext(emulated_hosts.prometheus(ports, "hypervisor"))
        cls.cloud.api.offer("metric-storage", "http://{}:{}".format(*cls.prometheus))
        cls.watcher = cls.enterClassContext(watcher.Watcher(cls.cloud))

    @classmethod
    def boot(cls, name: str, extra_specs: dict[str, str], host: str) -> str:
        """Boot a guest on a host, wait until it is ACTIVE; return its UUID."""
        api = cls.cloud.api
        uuid = api.boot(name, api.make_flavor(name, 1, extra_specs), host=host)
        until(lambda: cls.server(uuid)["status"] != "BUILD", f"guest {name} built")
        if cls.server(uuid)["status"] != "ACTIVE":
            raise AssertionError(cls.server(uuid).get("fault"))
        return uuid

    @classmethod
    def server(cls, uuid: str) -> dict[str, Any]:
        """Return Nova's record of a guest."""
        return dict(cls.cloud.api.server(uuid) or {})

    def ask(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """Ask Prometheus."""
        return emulated_hosts.ask(self.prometheus, promql)

    def audit(self) -> dict[str, Any]:
        """Run an audit."""
        return self.watcher.audit(threshold=SHORT, period=PERIOD_S)

    def test_a_guest_moves_once_there_is_room(self) -> None:
        """Nobody moves without a free dedicated CPU; with one Nova migrates the short guest."""
        loss = f'iat_nova_tenant_loss_ratio{{bound="likely",tenant="{self.database}"}}'
        until(
            lambda: (
                len(self.ask(f"avg_over_time(iat_nova_exhausted[{PERIOD_S}s]) == 1")) == 2
                and self.ask(f"min_over_time({loss}[{PERIOD_S}s]) > {SHORT} and {loss} offset 15s")
            ),
            "agents without a move left, and a database that is short",
        )
        none = self.audit()
        self.assertEqual(("SUCCEEDED", []), (none["state"], none["actions"]), self.watcher.said())
        self.assertIn(
            f"{HERE}, cache domain 0: database short, no migration: no host has the room",
            self.watcher.said(),
        )

        self.cloud.api.nova("DELETE", f"/servers/{self.filler}")
        until(lambda: not self.server(self.filler), "the second host has a CPU to give")
        plan = self.plan()
        moves = [one for one in plan["actions"] if one["type"] == "migrate"]
        told = [(one["resource_id"], one["source_node"], one["destination_node"]) for one in moves]
        self.assertEqual([(self.database, HERE, THERE)], told, self.watcher.said())

        ended = self.watcher.start(plan["plan"])
        logs = f"{self.watcher.logs()}\n{self.cloud.log('nova-compute.log')}"
        self.assertEqual("SUCCEEDED", ended, logs)
        server = self.server(self.database)
        placed = server["OS-EXT-SRV-ATTR:host"], server["status"]
        self.assertEqual((THERE, "ACTIVE"), placed, logs)
        self.assertTrue(self.second.runs(self.database))
        until(lambda: self.known(self.second.state), "the second host's agent knows the guest")
        until(lambda: not self.known(self.cloud.state), "the first host's agent forgets the guest")

    def plan(self) -> dict[str, Any]:
        """Run audits until Watcher's model has learned of the free CPU; return the last."""
        found: dict[str, Any] = {}

        def proposed() -> bool:
            found.update(self.audit())
            return bool(found["actions"])

        until(proposed, "a plan")
        return found

    def known(self, state: pathlib.Path) -> bool:
        """Return whether the agent of a state directory knows the database."""
        picture = recorded(state)
        return picture is not None and picture.guest(self.database) is not None


if __name__ == "__main__":
    unittest.main()
