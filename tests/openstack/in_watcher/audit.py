# SPDX-License-Identifier: Apache-2.0
"""Runs audits in Watcher's own test environment, under Watcher's Python; JSON in and out.

Standard input: JSON with `prometheus` (host and port), `nodes`, `instances`, `pcpus` of each node,
`direct`: the model is made of these without asking Nova's emulator, which takes minutes with 1,000
hosts, and `audits`: each with `parameters`, `scope` and `aggregates`; `with`: options of Watcher
that differ in this audit alone; `start`: the applier runs the plan.

Real: API, decision engine, applier, SQLite database, planner, datasource. Nova and Placement are
Watcher's emulators. The output has for each audit its state, efficacy, actions, and log.
"""

import json
import logging
import sys
import time

import fixtures
from oslo_config import cfg
from watcher.tests.functional import base, topology
from watcher.tests.functional.api.client import WatcherTestClient
from watcher.tests.local_fixtures.api import APIFixture

GOAL = "iat_cache_pressure"
DEADLINE_S = 3000


class Logged(logging.Handler):
    """Keeps what the plug-in says."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        if record.name.startswith("iat_nova_watcher"):
            self.lines.append(record.getMessage())


def until(ask, states):
    """Return the answer once its state is one of `states`."""
    end_s = time.monotonic() + DEADLINE_S
    while (answer := ask().json())["state"] not in states:
        if time.monotonic() > end_s:
            sys.exit(f"still {answer['state']} after {DEADLINE_S} s: {answer}")
        time.sleep(0.05)
    return answer


def topology_of(asked):
    """Return the emulated cluster; with `direct` only its hosts."""
    instances = () if asked.get("direct") else asked["instances"]
    return topology.ComputeTopology(
        [topology.ComputeNode(**one) for one in asked["nodes"]],
        [
            topology.Instance(**{k: v for k, v in one.items() if k != "extra_specs"})
            for one in instances
        ],
    )


def model_of(asked, hypervisors):
    """Return Watcher's model of the cluster, as its builder makes it of Nova's answers."""
    # Not above: Watcher's tests choose the kind of threads when they are imported.
    from watcher.decision_engine.model import element, model_root

    model = model_root.ModelRoot()
    model.extended_attributes_enabled = True
    nodes = {}
    for one in hypervisors:
        name = one["hypervisor_hostname"]
        nodes[name] = element.ComputeNode(
            uuid=one["id"], hostname=name, memory=32768, memory_mb_reserved=0, memory_ratio=1.0,
            vcpus=16, vcpu_reserved=0, vcpu_ratio=1.0, disk=500, disk_gb_reserved=0,
            disk_ratio=1.0, state="up", status="enabled", disabled_reason=None,
        )  # fmt: skip
        model.add_node(nodes[name])
    for one in asked["instances"]:
        extra_specs = one["extra_specs"]
        values = {name: one[name] for name in one if name != "extra_specs"}
        instance = element.Instance(
            **values, flavor_extra_specs=extra_specs, metadata={}, hypervisor_hostname=one["host"],
            state="active", locked=False, pinned_az="", watcher_exclude=False,
        )  # fmt: skip
        model.add_instance(instance)
        model.map_instance(instance, nodes[one["host"]])
    return model


class Audits:
    """The environment, and what a client of it sees."""

    def __init__(self, asked):
        self.asked, self.logged = asked, Logged()
        self.env = base.WatcherEnvironment(
            log_name=None, compute_topology=topology_of(asked), start_applier=True
        )

    def __enter__(self):
        self.env.setUp()
        host, port = self.asked["prometheus"]
        self.env.flags(group="watcher_datasources", datasources=["prometheus"])
        self.env.flags(group="prometheus_client", host=host, port=port)
        self.env.flags(group="compute_model", enable_extended_attributes=True)
        nova = self.env.nova_fixture
        if self.asked.get("direct"):
            model = model_of(self.asked, nova.nova_emulator.hypervisors.values())
            builder = "watcher.decision_engine.model.collector.nova.NovaModelBuilder.execute"
            self.env.useFixture(fixtures.MockPatch(builder, return_value=model))
        for one in self.asked["instances"] if not self.asked.get("direct") else ():
            # the emulator's topology has no extra specs
            extra_specs = one.get("extra_specs", {})
            nova.nova_emulator.servers[one["uuid"]]["flavor"]["extra_specs"] = extra_specs
        for inventory in nova.placement_emulator.inventories.values():  # nor dedicated CPUs
            inventory["PCPU"] = {**inventory["VCPU"], "total": self.asked["pcpus"]}
        logging.getLogger().addHandler(self.logged)
        api = APIFixture()
        self.env.useFixture(api)
        self.client = WatcherTestClient(api.base_url, roles=["admin"])
        return self

    def __exit__(self, *error):
        logging.getLogger().removeHandler(self.logged)
        self.env.cleanUp()

    def run(self, audit):
        """Run one audit to its end; return what it left."""
        self.logged.lines.clear()
        nova = self.env.nova_fixture
        nova.nova_emulator.aggregates.clear()
        for one in audit.get("aggregates", ()):
            nova.nova_emulator.aggregates[one["id"]] = {"metadata": {}, **one}
        nova._invalidate_collector_model()
        changed = [
            (group, name) for group, options in audit.get("with", {}).items() for name in options
        ]
        before = {key: cfg.CONF[key[0]][key[1]] for key in changed}
        for group, options in audit.get("with", {}).items():
            for name, value in options.items():
                cfg.CONF.set_override(name, value, group)
        began_s, cpu_s = time.monotonic(), time.process_time()
        what = {"goal": GOAL, "strategy": GOAL}
        if "scope" in audit:  # only templates have one
            template = {"name": f"template {began_s}", "scope": audit["scope"], **what}
            template = self.client.post("/audit_templates", template).json()
            what = {"audit_template_uuid": template["uuid"]}
        body = {"audit_type": "ONESHOT", "parameters": audit["parameters"], **what}
        made = self.client.post("/audits", body)
        if made.status_code != 201:
            return {"state": "REFUSED", "text": made.text}
        uuid = made.json()["uuid"]
        ended = until(
            lambda: self.client.get(f"/audits/{uuid}"), ("SUCCEEDED", "FAILED", "CANCELLED")
        )
        took = {"s": time.monotonic() - began_s, "cpu_s": time.process_time() - cpu_s}
        for (group, name), value in before.items():
            cfg.CONF.set_override(name, value, group)
        found = {"state": ended["state"], "took": took, "logged": list(self.logged.lines)}
        plans = self.client.get(f"/action_plans?audit_uuid={uuid}").json()["action_plans"]
        for one in plans:
            found |= self.plan(one["uuid"], start=audit.get("start", False))
        return found

    def plan(self, uuid, *, start):
        """Return an action plan's content; with `start`, have the applier run it."""
        if start:
            change = [{"op": "replace", "path": "/state", "value": "PENDING"}]
            self.client.patch(f"/action_plans/{uuid}", change)
            until(lambda: self.client.get(f"/action_plans/{uuid}"), ("SUCCEEDED", "FAILED"))
        whole = self.client.get(f"/action_plans/{uuid}").json()
        listed = self.client.get(f"/actions?action_plan_uuid={uuid}").json()["actions"]
        actions = [self.client.get(f"/actions/{one['uuid']}").json() for one in listed]
        return {
            "plan": whole["state"],
            "efficacy": {one["name"]: one["value"] for one in whole["efficacy_indicators"]},
            "global": {one["name"]: one["value"] for one in whole["global_efficacy"]},
            "actions": [
                {"type": one["action_type"], "state": one["state"], **one["input_parameters"]}
                for one in actions
            ],
            "hosts": {
                server["id"]: server["OS-EXT-SRV-ATTR:host"]
                for server in self.env.nova_fixture.nova_emulator.servers.values()
            },
        }


def main():
    """Answer on standard output; Watcher's logs go elsewhere."""
    asked, answer = json.load(sys.stdin), sys.stdout
    sys.stdout = sys.stderr
    with Audits(asked) as audits:
        goals = audits.client.get("/goals/" + GOAL).json()
        strategy = audits.client.get("/strategies/" + GOAL).json()
        results = [audits.run(one) for one in asked["audits"]]
    listed = {"goal": goals["display_name"], "strategy": strategy["display_name"]}
    json.dump({"listed": listed, "audits": results}, answer)
    answer.flush()


if __name__ == "__main__":
    main()
