# SPDX-License-Identifier: Apache-2.0
"""Watcher's own services beside the cloud's: API, decision engine and applier, with the plug-in.

They read Nova, Placement and Keystone of the cloud, keep their data in the cloud's MariaDB, talk by
its RabbitMQ, and find Prometheus in Keystone's catalogue, as they find Aetos.
"""

from __future__ import annotations

import contextlib
import pathlib
import string
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tests.nova.api import Refused
from tests.nova.cloud import Cloud, CloudError, until
from tests.openstack import emulated_hosts, nova_venv
from tests.openstack.test_watcher import PLUGIN, watcher_venv

GOAL = "iat_cache_pressure"
CONF = pathlib.Path(__file__).parent / "conf/watcher.conf"
SERVICES = ("watcher-decision-engine", "watcher-applier")
API = ("watcher-api-wsgi", "--host", "127.0.0.1", "--port", "9322", "--")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def python() -> pathlib.Path:
    """Return the Python with Watcher and the plug-in. Raises `SkipTest`."""
    return nova_venv.on_top(watcher_venv(), str(PLUGIN), "pymysql")


class Watcher:
    """Watcher's services; a context manager."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud, self._api = cloud, cloud.api
        self._folder = cloud.folder / "watcher"
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Watcher:
        (self._folder / "log").mkdir(parents=True)
        config = self._folder / "watcher.conf"
        values = self._cloud.values | {"DIR": str(self._folder)}
        config.write_text(string.Template(CONF.read_text()).safe_substitute(values))
        socket = f"{self._cloud.folder}/run/mysql.sock"
        self._do("mariadb", "-S", socket, "-u", "root", "-e", "create database watcher")
        programs = watcher_venv() / "bin"
        self._do(python(), programs / "watcher-db-manage", "--config-file", config, "upgrade")
        with contextlib.ExitStack() as stack:
            for name, *more in (*((one,) for one in SERVICES), API):
                command = (python(), programs / name, *more, "--config-file", config)
                stack.enter_context(emulated_hosts.running(*command))
            try:
                until(self._listed, "Watcher lists the goal")
            except CloudError as error:
                raise CloudError(f"{error}\n{self.logs()}") from error
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @staticmethod
    def _do(*command: object) -> None:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise CloudError(f"{command}: {done.stdout}{done.stderr}")

    def _listed(self) -> bool:
        try:
            return bool(self._api.watcher("GET", f"/goals/{GOAL}"))
        except (OSError, Refused):
            return False

    def logs(self, most: int = 6000) -> str:
        """Return the ends of the services' logs."""
        found = sorted((self._folder / "log").glob("*.log"))
        return "\n".join(f"--- {one.name}\n{one.read_text()[-most:]}" for one in found)

    def said(self) -> str:
        """Return what the plug-in has logged."""
        log = (self._folder / "log/watcher-decision-engine.log").read_text()
        return "\n".join(line for line in log.splitlines() if "iat_nova_watcher" in line)

    def audit(self, **parameters: object) -> dict[str, Any]:
        """Run an audit to its end; return its state and plan, if any, with the actions."""
        asked = {"audit_type": "ONESHOT", "goal": GOAL, "strategy": GOAL, "parameters": parameters}
        uuid = self._api.watcher("POST", "/audits", asked)["uuid"]
        state = self._ended(f"/audits/{uuid}")
        plans = self._api.watcher("GET", f"/action_plans?audit_uuid={uuid}")["action_plans"]
        plan = plans[0]["uuid"] if plans else ""
        return {"state": state, "plan": plan, "actions": list(self._actions(plan)) if plan else []}

    def start(self, plan: str) -> str:
        """Have the applier run a plan; return the state that it ends in."""
        change = [{"op": "replace", "path": "/state", "value": "PENDING"}]
        self._api.watcher("PATCH", f"/action_plans/{plan}", change)
        return self._ended(f"/action_plans/{plan}")

    def _ended(self, path: str) -> str:
        def state() -> str:
            found = str(self._api.watcher("GET", path)["state"])
            return found if found in ENDED else ""

        return until(state, f"the end of {path}")

    def _actions(self, plan: str) -> Iterator[Mapping[str, Any]]:
        listed = self._api.watcher("GET", f"/actions?action_plan_uuid={plan}")["actions"]
        for one in listed:
            whole = self._api.watcher("GET", f"/actions/{one['uuid']}")
            yield {"type": one["action_type"], **whole["input_parameters"]}
