# SPDX-License-Identifier: Apache-2.0
"""Closed-loop clients: requests under way, round trips and replies."""

import unittest

from iat_nova.experiments.engine import nic
from iat_nova.experiments.scenarios.scenario import ScenarioError
from tests.said import raises
from tests.unit.experiments.sim import scenes

SERVER = (
    scenes.HEAD
    + """\
workloads:
  ovs: {profile: ovs, cpus: [0, 1], nic: nic0}
  redis: {profile: %s, cpus: [2], switch: ovs}
traffic:
  redis: {to: redis, clients: %d, round_trip: %s}
"""
)


class TestClosedLoop(unittest.TestCase):
    """A client waits for its reply before it sends again."""

    def throughput(self, clients, round_trip="100us"):
        machine = scenes.server(SERVER % ("redis-c", clients, round_trip))
        _, done = scenes.measured(machine, 0.005, 0.02)
        return done["redis"]["packets"] / 0.02

    def test_requests_under_way_are_the_clients(self):
        """What was sent and not yet answered never exceeds the clients, and none is lost."""
        machine = scenes.server(SERVER % ("redis-a", 5, "20us"))
        for _ in range(20):
            scenes.run(machine, 0.0005)
            done = machine.metrics()["redis"]
            waiting = machine.plant.state.clients.due.sum()
            self.assertEqual(0, done.dropped)
            under_way = done.offered - done.packets
            self.assertLessEqual(under_way, 5)
            credit = machine.plant.state.nics.flow[:, nic.FLOW.credit].sum()
            replied = done.packets - machine.plant.state.clients.loops[0, 1]
            self.assertEqual(5, under_way + waiting + credit + replied)

    def test_one_client_is_bound_by_the_round_trip(self):
        """A client alone sends once in a round trip and a service; a longer trip slows it."""
        near, far = self.throughput(1, "50us"), self.throughput(1, "500us")
        self.assertLess(near, 1 / 50e-6)
        self.assertLess(abs(far * 500e-6 - 1), 0.15)
        self.assertLess(far, near)

    def test_many_clients_are_bound_by_the_server(self):
        """Twice as many clients of a busy server get no more, and each waits longer."""
        self.assertGreater(self.throughput(2), 1.5 * self.throughput(1))
        self.assertLess(self.throughput(32), 1.05 * self.throughput(16))

    def test_replies_have_the_stores_size(self):
        """The bytes that leave are those of replies, not of requests."""
        machine = scenes.server(SERVER % ("redis-c", 4, "50us"))
        scenes.run(machine, 0.005)
        done = machine.metrics()["redis"]
        self.assertEqual(1300, done.bytes / done.packets)

    def test_wrong_uses_are_refused(self):
        """Clients take no rate, and need a request's size where the server tells none."""
        for wrong in (
            "clients: 4, rate: 1Gb/s",
            "clients: 0",
            "clients: 4, round_trip: 1s",
        ):
            text = scenes.HEAD + (
                "workloads: {fwd: {profile: testpmd, cpus: [0], nic: nic0}}\n"
                f"traffic: {{fwd: {{to: fwd, packet: 64B, {wrong}}}}}\n"
            )
            with raises(self, ScenarioError, r"test\.yaml:.*traffic\.fwd"):
                scenes.server(text)
        with raises(self, ScenarioError, r"events\[0\].set: .* have no rate"):
            scenes.server(
                SERVER % ("redis-a", 4, "50us")
                + "events: [{at: 1s, set: traffic.redis.rate, to: 1Gb/s}]\n"
            )
        with raises(self, ScenarioError, "more requests than the ring"):
            scenes.server(SERVER % ("redis-a", 300, "50us"))
        with raises(self, ScenarioError, "packet is missing"):
            scenes.server(
                scenes.HEAD + "workloads: {fwd: {profile: testpmd, cpus: [0], nic: nic0}}\n"
                "traffic: {fwd: {to: fwd, clients: 4}}\n"
            )
