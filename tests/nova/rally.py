# SPDX-License-Identifier: Apache-2.0
"""Rally runs the task as it is shipped, in an environment of its own that knows the cloud."""

import json
import os
import subprocess
import unittest
from typing import Any, ClassVar

from tests.nova.api import AUTH_URL, PASSWORD, REGION
from tests.nova.case import GuestCase
from tests.nova.cloud import BIN, CloudError, why_not
from tests.openstack.test_rally import JOBS, rally_venv

DEADLINE_S = 540.0

# Rally looks less often than it could: the agent is what is waited for.
CONFIGURATION = """
[database]
connection = sqlite:///{folder}/rally.sqlite
[openstack]
nova_server_boot_prepoll_delay = 0.5
nova_server_boot_poll_interval = 0.5
nova_server_delete_prepoll_delay = 0.5
nova_server_delete_poll_interval = 0.5
"""

CLOUD = {
    "existing@openstack": {
        "auth_url": AUTH_URL,
        "region_name": REGION,
        "admin": {
            "username": "admin", "password": PASSWORD, "project_name": "admin",
            "user_domain_name": "Default", "project_domain_name": "Default",
        },
    }
}  # fmt: skip

SLA = "iat_nova_max_duration_per_atomic"


class RallyTests(GuestCase):
    """Mixed into the class that has the cloud."""

    no_rally: ClassVar[Exception | None] = None

    @classmethod
    def setUpClass(cls) -> None:
        """Install Rally first: from the cloud's network nothing is fetched."""
        if why_not() is None:
            try:
                cls.venv = rally_venv()
            except (subprocess.CalledProcessError, unittest.SkipTest) as reason:
                cls.no_rally = reason  # of that test alone
        super().setUpClass()

    def rally(self, *words: str, may_fail: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command of Rally's in its folder."""
        plugins = ("--plugin-paths", str(JOBS / "plugins"))
        done = subprocess.run(
            [self.venv / "bin/rally", "--config-file", "rally.conf", *plugins, *words],
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        if done.returncode and not may_fail:
            raise CloudError(f"rally {' '.join(words)}: {done.stdout[-4000:]}{done.stderr[-2000:]}")
        return done

    def workloads(self, **arguments: object) -> tuple[int, list[dict[str, Any]]]:
        """Run the task once; return Rally's exit status and what it measured, by workload."""
        arguments = {"image": "^empty$", "times": 1, "enforced_s": 30.0} | arguments
        done = self.rally("task", "start", str(JOBS / "task-iat-nova.yaml"),
                          "--task-args", json.dumps(arguments), may_fail=True)  # fmt: skip
        self.rally("task", "report", "--json", "--out", "report.json")
        (task,) = json.loads((self.folder / "report.json").read_text())["tasks"]
        return done.returncode, [one for sub in task["subtasks"] for one in sub["workloads"]]

    def test_rally_task(self) -> None:
        """Its SLA is kept with the agent at work, and broken where none ever answers."""
        if self.no_rally is not None:
            raise self.no_rally
        self.folder = self.cloud.folder / "rally"
        self.folder.mkdir()
        (self.folder / "rally.conf").write_text(CONFIGURATION.format(folder=self.folder))
        (self.folder / "cloud.json").write_text(json.dumps(CLOUD))
        self.rally("db", "create")
        self.rally("env", "create", "--name", "cloud", "--spec", "cloud.json")

        config = self.cloud.folder / "etc/nova.conf"
        ask = f"env HOST={{host}} {BIN}/iat-nova --config-file {config} tenants --long -f json"
        status, found = self.workloads(agent_command=ask)
        self.assertEqual(0, status, [one["sla_results"] for one in found])
        self.assertEqual(3, len(found))
        for one in found:
            self.assertEqual([], [each["error"] for each in one["data"] if each["error"]])
            self.assertEqual({True}, {each["success"] for each in one["sla_results"]["sla"]})
            self.assertIn(SLA, {each["criterion"] for each in one["sla_results"]["sla"]})

        status, found = self.workloads(agent_command="false", timeout_s=1.0)
        self.assertEqual(2, status)
        for one in found:
            (ours,) = (each for each in one["sla_results"]["sla"] if each["criterion"] == SLA)
            self.assertFalse(ours["success"])
            self.assertIn("iat_nova.active_to_enforced: never finished", ours["detail"])
        servers = self.cloud.api.nova("GET", "/servers?all_tenants=1")["servers"]
        self.assertEqual([], servers)
