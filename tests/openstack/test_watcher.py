# SPDX-License-Identifier: Apache-2.0
"""Watcher itself loads the plug-in, asks a real Prometheus of real agents, and makes a plan.

python-watcher and what its tests need take some 300 MB: their environment is made once.
``$IAT_NOVA_WATCHER_VENV`` names one, else ``quickstart-run/watcher-venv`` is made if ``$CI`` is
true.
"""

import json
import os
import pathlib
import socket
import subprocess
import time
import unittest

from tests.openstack import emulated_hosts, nova_venv, own_venv

PLUGIN = own_venv.ROOT / "iat_nova/watcher"
SCRIPT = pathlib.Path(__file__).parent / "in_watcher/audit.py"
VENV_VARIABLE = "IAT_NOVA_WATCHER_VENV"
PACKAGES = (
    "python-watcher>=17", "fixtures", "gabbi", "oslotest", "testtools", "werkzeug",
    "wsgi-intercept",
)  # fmt: skip
PERIOD_S = 10
OLD_S = 25  # an agent's data are too old after 20 s
SHORT = 0.1  # the default; both databases lose more
PAUSED, CROWDED, ROOM, BARE = "compute-0", "compute-1", "compute-2", "compute-3"
DATABASES = [{"uuid": f"0000000{number}-1a7a-4000-8000-00000000000{number}"} for number in (1, 2)]
PROJECT = "3f9a2c54-0000-4000-8000-00000000aaaa"


def watcher_venv() -> pathlib.Path:
    """Return the environment with Watcher. Raises `SkipTest`."""
    return own_venv.made("watcher", VENV_VARIABLE, PACKAGES, 300)


def instances(scenario, host):
    """Return the guests of a scenario as Nova has them on a host."""
    return [
        {
            "uuid": guest.uuid,
            "name": guest.name,
            "host": host,
            "vcpus": len(guest.cpus),
            "memory": 2048,
            "project_id": PROJECT,
            "extra_specs": guest.extra_specs,
        }
        for guest in emulated_hosts.guests(scenario)
    ]


def run(prometheus, audits, nodes, guests, pcpus=8, **more):
    """Run audits under Watcher's Python with the plug-in installed; return what it answers."""
    python = nova_venv.on_top(watcher_venv(), str(PLUGIN))
    asked = {
        "prometheus": prometheus,
        "nodes": [{"hostname": name} for name in nodes],
        "instances": guests,
        "pcpus": pcpus,
        "audits": audits,
        **more,
    }
    done = subprocess.run(
        [python, SCRIPT],
        input=json.dumps(asked),
        cwd="/",
        env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    if done.returncode:
        raise AssertionError(done.stderr[-4000:])
    return json.loads(done.stdout)


def given(**parameters):
    """Return an audit's parameters, with the default threshold."""
    return {"period": PERIOD_S, **parameters}


class WatcherTest(unittest.TestCase):
    """One cluster, several audits in one process of Watcher: it takes six seconds to start.

    `compute-1` is crowded, `compute-2` has room. The agent of `compute-0`, which has room too, is
    paused, so its data get old; `compute-3` has no agent.
    """

    AUDITS = {
        "nobody is short": {"parameters": given(threshold=0.5)},
        "not enough": {  # without the databases
            "parameters": given(),
            "scope": [{"compute": [{"exclude": [{"instances": DATABASES}]}]}],
        },
        "other aggregates": {
            "parameters": given(),
            "aggregates": [{"id": 1, "name": "pilot", "hosts": [CROWDED]}],
        },
        "outside the scope": {
            "parameters": given(),
            "scope": [{"compute": [{"exclude": [{"projects": [{"uuid": PROJECT}]}]}]}],
        },
        "silent": {
            "parameters": given(),
            "with": {"prometheus_client": {"port": 1}},
        },
        "hung": {"parameters": given()},  # the port is filled in
        "no label": {
            "parameters": given(),
            "with": {"prometheus_client": {"fqdn_label": "hypervisor"}},
        },
        "flavors not seen": {
            "parameters": given(),
            "with": {"compute_model": {"enable_extended_attributes": False}},
        },
        "wrong parameter": {"parameters": given(threshold=7)},
        "plan": {"parameters": given(), "start": True},
    }  # the last: it changes the cluster

    @classmethod
    def setUpClass(cls):
        watcher_venv()
        if (why := emulated_hosts.missing()) is not None:
            raise unittest.SkipTest(why)
        scenarios = {PAUSED: "quiet", CROWDED: "crowded", ROOM: "quiet"}
        hosts = cls.enterClassContext(emulated_hosts.Hosts(scenarios))
        losses = 'min_over_time(iat_nova_tenant_loss_ratio{bound="likely",name=~"db."}'
        served = f'iat_nova_newcomer_ways{{fqdn="{PAUSED}"}}'
        hosts.until(lambda: hosts.ask(served), f"metrics of {PAUSED}")
        hosts.pause(PAUSED)
        began_s = time.monotonic()
        ends = f'avg_over_time(iat_nova_exhausted{{fqdn=~"{CROWDED}|{ROOM}"}}[{PERIOD_S}s]) == 1'
        hosts.until(lambda: len(hosts.ask(ends)) == 2, "agents without a move left")
        hosts.until(
            lambda: (
                len(hosts.ask(f"{losses}[{PERIOD_S}s]) > {SHORT}")) == 2
                and time.monotonic() > began_s + 2 * PERIOD_S
            ),
            "two databases that are short for the whole period",
        )
        hung = cls.enterClassContext(socket.create_server(("127.0.0.1", 0)))  # accepts, and no more
        port = hung.getsockname()[1]
        cls.AUDITS["hung"]["with"] = {"prometheus_client": {"port": port}}
        guests = [*instances("crowded", CROWDED), *instances("quiet", ROOM)]
        nodes = [PAUSED, CROWDED, ROOM, BARE]
        answer = run(hosts.prometheus, list(cls.AUDITS.values()), nodes, guests)
        cls.listed = answer["listed"]
        cls.audits = dict(zip(cls.AUDITS, answer["audits"], strict=True))

    def migrations(self, audit):
        return [one for one in audit["actions"] if one["type"] == "migrate"]

    def none(self, name, state="SUCCEEDED"):
        """Return the log of an audit without a migration."""
        audit = self.audits[name]
        self.assertEqual(state, audit["state"], audit)
        self.assertEqual([], audit.get("actions", []))
        return "\n".join(audit.get("logged", ()))

    def test_goal_and_strategy_are_listed(self):
        self.assertEqual("Cache pressure", self.listed["goal"])
        self.assertEqual("Cache pressure (iat-nova)", self.listed["strategy"])

    def test_the_plan(self):
        """A database goes to the host with room, which lifts both, and the reason says so.

        That the best-effort guest goes would lift none of them.
        """
        audit = self.audits["plan"]
        self.assertEqual("SUCCEEDED", audit["state"])
        moves = {one["resource_name"]: one for one in self.migrations(audit)}
        self.assertEqual(1, len(moves), audit)
        self.assertLessEqual(set(moves), {"db1", "db2"})
        for one in moves.values():
            told = (one["migration_type"], one["source_node"], one["destination_node"])
            self.assertEqual(("live", CROWDED, ROOM), told)
        reasons = [one["message"] for one in audit["actions"] if one["type"] == "nop"]
        for name in moves:
            (reason,) = (one for one in reasons if one.startswith(name))
            self.assertRegex(reason, rf"from {CROWDED} to {ROOM}: .*db1 \d+% -> \d+%, db2 ")
            self.assertRegex(reason, r"; moving batch1 instead would leave [1-9]\d%$")
        expected = {"short_guests_before": 2, "short_guests_after": 0, "hosts_without_data": 2}
        self.assertEqual(expected, {name: int(n) for name, n in audit["efficacy"].items()})
        self.assertEqual({"lifted_guests_ratio": 100.0}, audit["global"])

    def test_the_applier_runs_it(self):
        """The plan's actions are those that Watcher's applier runs; the guests are elsewhere."""
        audit = self.audits["plan"]
        self.assertEqual("SUCCEEDED", audit["plan"])
        self.assertEqual({"SUCCEEDED"}, {one["state"] for one in audit["actions"]})
        for one in self.migrations(audit):
            self.assertEqual(ROOM, audit["hosts"][one["resource_id"]])

    def test_hosts_without_fresh_data_are_left_out(self):
        logged = "\n".join(self.audits["plan"]["logged"])
        self.assertIn(f"{PAUSED} is left out: the agent's last iteration is too old", logged)
        self.assertIn(f"{BARE} is left out: no metrics of iat-nova", logged)

    def test_nothing_to_do(self):
        audit = self.audits["nobody is short"]
        self.none("nobody is short")
        self.assertEqual(0, audit["efficacy"]["short_guests_before"])

    def test_what_would_not_help_is_not_done(self):
        logged = self.none("not enough")
        self.assertRegex(logged, f"{CROWDED}, cache domain 0: db1, db2 short, no migration: ")

    def test_no_guest_leaves_its_aggregates(self):
        self.assertIn("no host has the room", self.none("other aggregates"))

    def test_the_scope_of_the_audit_is_kept(self):
        self.assertIn("no guest there can be moved", self.none("outside the scope"))

    def test_refusals(self):
        """Where nothing can be known nothing is proposed, and the log says what to do."""
        self.assertIn("no datasource answers", self.none("silent", "FAILED"))
        self.assertIn("has not answered within 20 s", self.none("hung", "FAILED"))
        self.assertLess(self.audits["hung"]["took"]["s"], 60)  # and a busy machine
        self.assertIn("with the label hypervisor", self.none("no label", "FAILED"))
        self.none("flavors not seen", "FAILED")
        self.none("wrong parameter", "REFUSED")


if __name__ == "__main__":
    unittest.main()
