# SPDX-License-Identifier: Apache-2.0
"""Rally itself loads and validates the plug-ins and the task; its scenarios meet an agent.

Rally and rally-openstack take some 430 MB, so their environment is made once:
``$IAT_NOVA_RALLY_VENV`` names one, or ``quickstart-run/rally-venv`` is made where ``$CI`` is true.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest

from iat_nova.store.writer import History
from tests.openstack import own_venv
from tests.unit import stories

JOBS = own_venv.ROOT / "rally-jobs"
VENV_VARIABLE = "IAT_NOVA_RALLY_VENV"
PACKAGES = ("rally>=5.0", "rally-openstack>=4.1")

# Answers with the next line of a file each time, the last one for ever.
AGENT = """
import pathlib, sys
answers = pathlib.Path(sys.argv[1])
with answers.with_suffix(".asked").open("a") as asked:
    print(*sys.argv[2:], file=asked)
first, *rest = answers.read_text().splitlines()
if rest:
    answers.write_text("\\n".join(rest))
if first.startswith("fail"):
    sys.exit(first)
print(first)
"""


def rally_venv() -> pathlib.Path:
    """Return the environment with Rally. Raises `SkipTest`."""
    return own_venv.made("rally", VENV_VARIABLE, PACKAGES, 430)


class RallyCase(unittest.TestCase):
    """Asks check.py under Rally's Python."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.venv = rally_venv()

    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def rally(self, *questions):
        """Return the answers; one process answers all: loading Rally takes longer than asking."""
        script = pathlib.Path(__file__).parent / "in_rally/check.py"
        done = subprocess.run(
            [self.venv / "bin/python", script, JOBS, json.dumps(questions)],
            cwd=self.folder,
            env={**os.environ, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        self.assertEqual(0, done.returncode, done.stderr[-3000:])
        return json.loads(done.stdout)


class TaskTest(RallyCase):
    """rally-jobs/task-iat-nova.yaml in the hands of Rally's engine."""

    def test_valid_with_and_without_arguments(self) -> None:
        """Scenarios, contexts, runners and SLAs exist and take what the task gives them."""
        arguments = {
            "agent_command": 'ssh {host} "sudo iat-nova" tenants --long -f json',
            "image": "cirros",
            "times": 2,
            "concurrency": 2,
            "cpu_policy": "dedicated",
            "enforced_s": 0.5,
        }
        plain, answer = self.rally(["validate", {}], ["validate", arguments])
        self.assertIsNone(plain["error"])
        self.assertIsNone(answer["error"])
        for text in ('\\"sudo iat-nova\\"', "dedicated", "active_to_enforced: 0.5", "times: 2"):
            self.assertIn(text, answer["text"])

    def test_mistakes_are_found(self) -> None:
        """The validation that passed looks at every part of the task."""
        mistakes = (
            ("constant:", "constnt:"),
            ("priority: PC", "priority: GOLD"),
            ("pc: 1", "pc: -1"),
            ("pc: 1", "pcs: 1"),
            ("iat_nova_max_duration_per_atomic", "iat_nova_max"),
            ("active_to_enforced: 2.0", "active_to_enforced: soon"),
            ("users_per_tenant: 1", "users_per: 1"),
            ("IatNova.churn", "IatNova.chrn"),
        )
        answers = self.rally(*(["validate", {}, [mistake]] for mistake in mistakes))
        for mistake, answer in zip(mistakes, answers, strict=True):
            self.assertIsNotNone(answer["error"], mistake)

    def test_arguments_are_documented(self) -> None:
        """README.rst has a row for each argument of the template."""
        template = (JOBS / "task-iat-nova.yaml").read_text()
        readme = (JOBS / "README.rst").read_text()
        named = [line.split()[2] for line in template.splitlines() if line.startswith("{% set ")]
        self.assertEqual(7, len(named))
        for name in named:
            self.assertIn(f"   * - ``{name}``\n", readme)


class ScenarioTest(RallyCase):
    """The scenarios, with an agent whose answers the test writes."""

    def agent(self, *answers: object) -> str:
        script, lines = self.folder / "agent.py", self.folder / "answers"
        script.write_text(AGENT)
        lines.write_text(
            "\n".join(one if isinstance(one, str) else json.dumps(one) for one in answers)
        )
        return shlex.join([sys.executable, str(script), str(lines), "{host}"])

    def row(self, number: int = 1, ways: int | None = 2, priority: str = "PC", **more: object):
        return {"uuid": f"uuid-{number}", "ways": ways, "priority": priority, "members": []} | more

    def run_one(self, command: str, priority: str = "PC", timeout_s: float = 20.0, ids=()):
        arguments = {"image": "i", "flavor": "f", "priority": priority, "agent_command": command}
        arguments |= {"poll_s": 0.01, "timeout_s": timeout_s}
        (done,) = self.rally(["run", "IatNova.boot_enforce_delete", arguments, ids])
        return done

    def actions(self, done) -> list[str]:
        self.assertIsNone(done["error"])
        return [action["name"].removeprefix("iat_nova.") for action in done["actions"]]

    def test_from_active_to_released(self) -> None:
        """It waits through silence, strangers and a guest without ways, and measures each wait."""
        here = [self.row()]
        waiting = ["fail: no agent yet", [], [self.row(2)], [self.row(ways=None)]]
        command = self.agent(*waiting, here, here, "fail: it is busy", [])
        done = self.run_one(command)
        self.assertEqual(["active_to_enforced", "deleted_to_released"], self.actions(done))
        (inner,) = done["actions"][0]["children"]
        self.assertEqual("iat_nova.active_to_classified", inner["name"])
        self.assertLess(inner["finished_at"], done["actions"][0]["finished_at"])
        self.assertEqual(["f", "deleted uuid-1"], done["booted"])
        self.assertEqual([["ways", 2]], done["output"]["additive"][0]["data"])
        asked = (self.folder / "answers.asked").read_text().splitlines()
        self.assertEqual(["compute-7"] * 8, asked)

    def test_a_silent_agent_has_released_nothing(self) -> None:
        """An agent that no longer answers is not taken for one that has forgotten the guest."""
        done = self.run_one(self.agent([self.row()], [self.row()], "fail: gone"), timeout_s=0.2)
        self.assertRegex(
            done["error"], r"uuid-1 .* was not released within .* did not answer.*gone"
        )

    def test_another_priority_is_an_error(self) -> None:
        """A flavor that the agent reads otherwise fails the iteration."""
        done = self.run_one(self.agent([self.row(priority="BE")]))
        self.assertIn("another priority", done["error"])

    def test_never_classified_is_an_error(self) -> None:
        """The error names the server, the command and what the agent said last."""
        done = self.run_one(self.agent([]), timeout_s=0.1)
        self.assertRegex(done["error"], "server-1.* was not classified within 0 s; the agent says")

    def test_a_floating_guest_has_the_pools_ways(self) -> None:
        """Found among the pool's members; the pool is best effort whatever the flavor says."""
        pool = {"uuid": None, "ways": 3, "priority": "BE", "members": ["server-1"]}
        done = self.run_one(self.agent([pool], [pool], []))
        self.assertEqual(["active_to_enforced", "deleted_to_released"], self.actions(done))

    def test_ways_on_every_cache_domain(self) -> None:
        """A guest on two sockets is enforced when it has ways on both."""
        half = [self.row(), self.row(ways=None)]
        done = self.run_one(self.agent(half, half, [self.row(), self.row(ways=1)], []))
        self.actions(done)
        self.assertEqual([["ways", 1]], done["output"]["additive"][0]["data"])

    def test_churn(self) -> None:
        """Best-effort servers first, then performance-critical ones amid them, then none."""
        one, two = self.row(1, priority="BE"), self.row(2, priority="BE")
        three = self.row(3)
        after = [[one], [one], [one, two], [one, two], [one, two, three], [one, two, three]]
        command = self.agent(*after, [two, three], [three], [])
        arguments = {"image": "i", "pc_flavor": "pc", "be_flavor": "be", "agent_command": command}
        arguments |= {"poll_s": 0.01, "timeout_s": 20}
        (done,) = self.rally(["run", "IatNova.churn", arguments])
        self.assertEqual(
            ["active_to_enforced"] * 3 + ["deleted_to_released"] * 3, self.actions(done)
        )
        deleted = [f"deleted uuid-{number}" for number in (1, 2, 3)]
        self.assertEqual(["be", "be", "pc", *deleted], done["booted"])

    def test_the_real_command_is_understood(self) -> None:
        """`iat-nova tenants --long -f json` has the fields that are looked for."""
        clock = stories.SetClock()
        path = self.folder / "history.sqlite"
        history = History(path, max_age_s=1e12, max_bytes=1 << 24, clock=clock)
        stories.tell(history, clock=clock)
        history.close()
        iat_nova = pathlib.Path(sys.executable).parent / "iat-nova"
        # the history ends in the past, which the status tells: here the rows are what counts
        command = shlex.join(
            ["sh", "-c", f"{iat_nova} --state-dir {self.folder} tenants --long -f json || true"]
        )
        done = self.run_one(command, timeout_s=0.2, ids=[stories.PC.partition("/")[0]])
        self.assertRegex(done["error"], r"not released .* Row\(priority='PC', ways=3, pooled=False")


class SlaTest(RallyCase):
    """The SLA on the slowest."""

    def action(self, name: str, seconds: float, **more: object) -> dict[str, object]:
        return {"name": name, "started_at": 100.0, "finished_at": 100.0 + seconds} | more

    def test_the_slowest_counts(self) -> None:
        """One late guest fails it, in whatever runner's share and however deep it was measured."""
        quick, late = self.action("wait", 0.5), self.action("wait", 2.5)
        nested = self.action("boot", 9.0, children=[late])
        cases = (
            ([[quick], [quick]], True),
            ([[quick], [late]], False),
            ([[late], [quick]], False),
            ([[quick], [nested]], False),
            ([[quick], [{**late, "failed": True}]], True),  # failure_rate judges failures
        )
        answers = self.rally(*(["judge", {"wait": 2.0}, *iterations] for iterations, _ in cases))
        self.assertEqual([success for _, success in cases], [one["success"] for one in answers])

    def test_it_tells_what_it_saw(self) -> None:
        """The detail names limit and slowest, and an action that never finished."""
        limits = {"wait": 2.0, "gone": 1.0}
        (said,) = self.rally(["judge", limits, [self.action("wait", 2.5)]])
        self.assertIn("wait: 2.50 s <= 2.00 s", said["detail"])
        self.assertIn("gone: never finished", said["detail"])

    def test_what_never_finished_has_kept_no_limit(self) -> None:
        """Neither no iteration at all, nor iterations of another action, nor failed ones."""
        wait = self.action("wait", 0.5)
        cases = ([], [[]], [[self.action("boot", 1.0)]], [[{**wait, "failed": True}]])
        answers = self.rally(*(["judge", {"wait": 2.0}, *iterations] for iterations in cases))
        self.assertEqual([False] * 4, [one["success"] for one in answers])
        self.assertEqual(["FAILED" in one["detail"].upper() for one in answers], [True] * 4)
