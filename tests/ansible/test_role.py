# SPDX-License-Identifier: Apache-2.0
"""The Ansible role, run by ansible-core on three hosts below folders, each with a real agent.

ansible-core and ansible-lint take some 130 MB, so their environment is made once:
``$IAT_NOVA_ANSIBLE_VENV`` names one, or ``quickstart-run/ansible-venv`` is made where ``$CI`` is
true. The hosts share a private libvirtd and ovsdb-server; their machines are emulated, and a
stand-in answers for systemd.
"""

import contextlib
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import unittest
import zipfile

import yaml

from tests.functional import host_case
from tests.openstack import own_venv
from tools import demo_host

ROOT = pathlib.Path(__file__).parents[2]
PLAYBOOKS = ROOT / "tools/ansible"
STAND_IN = pathlib.Path(__file__).with_name("systemctl.py")
BIN = pathlib.Path(sys.executable).parent
VENV_VARIABLE = "IAT_NOVA_ANSIBLE_VENV"
PACKAGES = ("ansible-core>=2.15", "ansible-lint>=24")
POLICY = "parameters:\n  ddio_ways_max: {{ 3 if ways < 20 else 6 }}\n"


def ansible_venv() -> pathlib.Path:
    """Return the environment with Ansible, making it where that is wanted. Raises `SkipTest`."""
    return own_venv.made("ansible", VENV_VARIABLE, PACKAGES, 130, suite="ansible")


class AnsibleCase(unittest.TestCase):
    """Has Ansible."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.ansible = ansible_venv() / "bin"
        super().setUpClass()

    def run_tool(self, name: str, *arguments: object, **environment: str):
        """Run a program of Ansible's environment in the folder of the playbooks."""
        return subprocess.run(
            [self.ansible / name, *map(str, arguments)],
            cwd=PLAYBOOKS,
            env={
                **os.environ,
                "PATH": f"{self.ansible}:{os.environ['PATH']}",
                "NO_COLOR": "1",
                "ANSIBLE_NOCOLOR": "1",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )


class LintTest(AnsibleCase):
    def test_lint(self) -> None:
        """ansible-lint has nothing to say, by its strictest profile."""
        folder = self.enterContext(host_case.short_folder())
        home = {"HOME": str(folder), "ANSIBLE_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        done = self.run_tool(
            "ansible-lint", "--offline", "--profile", "production", PLAYBOOKS, **home
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)


@unittest.skipIf(
    os.geteuid() or shutil.which("systemd-sysusers") is None, "needs root and systemd-sysusers"
)
class RoleTest(host_case.HostCase, AnsibleCase):
    """Three hosts: `wheel` gets the agent by the role, on the others it is installed."""

    names = ("wheel", "second", "third")

    def setUp(self) -> None:
        super().setUp()
        self.root = {name: self.folder / name for name in self.names}
        self.policy = self.folder / "policy.yaml"
        self.policy.write_text(POLICY)
        hosts = {name: self.host(name) for name in self.names}
        hosts["wheel"] |= {"iat_nova_source": "wheel", "iat_nova_wheel": str(self.wheel)}
        del hosts["wheel"]["iat_nova_bin"]
        (self.folder / "hosts.yaml").write_text(
            yaml.safe_dump({"iat_nova": {"hosts": hosts}}, sort_keys=False)
        )
        self.addCleanup(self.end_agents)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = cls.enterClassContext(host_case.short_folder())
        # The build stays out of the source tree.
        extra = folder / "build.cfg"
        extra.write_text(f"[build]\nbuild_base = {folder}/build\n")
        subprocess.run(
            [BIN / "python", "-m", "pip", "-q", "wheel", "--no-deps", "-w", folder, ROOT],
            env={**os.environ, "DIST_EXTRA_CONFIG": str(extra)},
            check=True,
        )
        (cls.wheel,) = folder.glob("*.whl")
        # What the wheel depends on, without the iat-nova of this environment.
        cls.libraries = folder / "libraries"
        cls.libraries.mkdir()
        for one in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            if "iat_nova" not in one.name:
                (cls.libraries / one.name).symlink_to(one)

    def host(self, name: str) -> dict[str, object]:
        """Make a host's folder; return its variables."""
        root = self.root[name]
        (root / "stand-in").mkdir(parents=True)
        demo_host.write_sysfs(root / "sys")
        agent = root / "opt/iat-nova/bin" if name == "wheel" else BIN
        self.script(root / "stand-in/systemctl", f'exec {sys.executable} {STAND_IN} "$@"')
        self.script(
            root / "python",
            f"export HOST_ROOT={root} HOST_BIN={agent} PIP_NO_DEPS=1 PYTHONPATH={self.libraries}\n"
            f"export PATH={root}/stand-in:/usr/bin:/bin\n"
            f'exec {sys.executable} "$@"',
        )
        (root / "etc/nova/provider_config").mkdir(parents=True)
        # No ovs-vswitchd runs; an agent that could tell would give up the switch after a minute.
        (root / "proc").mkdir()
        config = root / "etc/iat-nova"
        return {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(root / "python"),
            "iat_nova_root": str(root),
            "iat_nova_source": "none",
            "iat_nova_bin": str(agent),
            "iat_nova_extras": [],
            "iat_nova_system_packages": [],
            "iat_nova_python": sys.executable,
            "iat_nova_policy": str(self.policy),
            "iat_nova_arguments": [
                f"--config-file={config}/iat-nova.conf",
                f"--config-dir={config}/iat-nova.conf.d",
            ],
            "iat_nova_doctor": False,  # an emulated machine has no hardware to look at
            "iat_nova_gate_minutes": f"{{{{ patience_{name} | default(3) }}}}",
            "iat_nova_gate_pause_s": 1,
            "iat_nova_placement": True,
            "iat_nova_results": str(self.folder / "results"),
            "iat_nova_config": {
                "compute": {
                    "cpu_dedicated_set": self.dedicated,
                    "cpu_shared_set": self.shared,
                    "provider_config_location": f"{root}/etc/nova/provider_config",
                },
                "iat": {
                    "hardware": "emulated",
                    "emulated_scenario": "quickstart",
                    "emulated_seconds": 3600,
                    "libvirt_uri": self.hypervisor.uri,
                    "ovsdb_connection": self.ovs.address,
                    "sysfs_root": f"{root}/sys",
                    "proc_root": f"{root}/proc",
                    "state_dir": f"{root}/var/lib/iat-nova",
                    "shadow": "iat",
                    "reconcile_s": 2,
                },
            },
        }  # fmt: skip

    @staticmethod
    def script(path: pathlib.Path, text: str) -> None:
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def end_agents(self) -> None:
        for root in self.root.values():
            with contextlib.suppress(OSError, ValueError):
                os.kill(int((root / "agent.pid").read_text()), signal.SIGKILL)

    def play(self, name: str, *arguments: str, fails: bool = False) -> dict[str, dict[str, int]]:
        """Run a playbook; return the counts of its last lines by host."""
        home = {
            "ANSIBLE_HOME": str(self.folder / "ansible"),
            "ANSIBLE_FORKS": "3",
            "ANSIBLE_PIPELINING": "true",
        }
        inventory = self.folder / "hosts.yaml"
        done = self.run_tool(
            "ansible-playbook", "-i", inventory, f"{name}.yaml", *arguments, **home
        )
        self.said = done.stdout + done.stderr
        self.assertEqual(fails, done.returncode != 0, self.said + self.logs())
        recap = done.stdout[done.stdout.index("PLAY RECAP") :]
        return {
            host: {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", counts)}
            for host, counts in re.findall(r"^(\S+)\s+: (ok=.*)$", recap, re.MULTILINE)
        }

    def logs(self) -> str:
        """Return what the agents said last."""
        files = [root / "agent.log" for root in self.root.values()]
        return "".join(f"\n{one}:\n{one.read_text()[-1500:]}" for one in files if one.exists())

    @contextlib.contextmanager
    def step(self, name: str):
        """Name a step; the next ones need it."""
        try:
            yield
        except Exception as error:
            error.add_note(f"step: {name}")
            raise

    def changed(self, counts) -> dict[str, int]:
        return {host: of["changed"] for host, of in counts.items()}

    def mode(self, name: str) -> str | None:
        """Return the mode a host's agent says it has, None where it does not run."""
        done = subprocess.run(
            [BIN / "iat-nova", "--state-dir", self.root[name] / "var/lib/iat-nova", "status",
             "-f", "json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = json.loads(done.stdout or "{}")
        return said["mode"] if said.get("running") else None

    def modes(self) -> list[str | None]:
        return [self.mode(name) for name in self.names]

    def offered(self, name: str) -> str:
        path = self.root[name] / "etc/nova/provider_config/iat-nova.yaml"
        return path.read_text() if path.exists() else ""

    def files(self, name: str) -> set[str]:
        """Return the files of a host that the role may have put there, without a venv's."""
        root = self.root[name]
        found = {
            str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()
        }  # fmt: skip
        ours = re.compile(r"(etc|var|usr|opt)/")
        return {
            one
            for one in found
            if ours.match(one) and not re.match("opt/iat-nova/(lib|bin|include|share)", one)
        }

    def test_from_nothing_to_enforcing_and_back(self) -> None:
        """Observe first, compare, enforce with a gate, back out, remove: each of them twice."""
        nothing = {host: self.files(host) for host in self.names}

        with self.step("a check changes nothing"):
            self.play("deploy", "--check")
            self.assertEqual(nothing, {host: self.files(host) for host in self.names})

        with self.step("deployed, all observe"):
            self.play("deploy")
            self.assertEqual(["observe"] * 3, self.modes())
            self.assertLessEqual(
                {
                    "etc/systemd/system/iat-nova-agent.service",
                    "etc/sysctl.d/60-iat-nova.conf",
                    "etc/sysusers.d/iat-nova.conf",
                    "etc/iat-nova/policy.yaml",
                    "etc/passwd",
                    "usr/local/bin/iat-nova",
                },
                self.files("wheel"),
            )
            self.assertEqual(POLICY, (self.root["wheel"] / "etc/iat-nova/policy.yaml").read_text())
            self.assertIn("iat-nova:", (self.root["wheel"] / "etc/passwd").read_text())

        with self.step("a check finds nothing to do"):
            found = self.changed(self.play("deploy", "--check"))
            self.assertEqual(dict.fromkeys(self.names, 0), found)

        with self.step("compare"):
            self.play("compare")
            results = self.folder / "results"
            with (results / "summary.csv").open() as file:
                rows = {row["host"]: row for row in csv.DictReader(file)}
            self.assertEqual(set(self.names), set(rows))
            self.assertEqual(
                ("running", "observe", "pollute-buffer", "iat", "3"),
                tuple(
                    rows["third"][key]
                    for key in ("state", "mode", "strategy", "shadow", "performance_critical")
                ),
            )
            misses = [int(row["ddio_misses_per_s"]) for row in rows.values()]
            self.assertEqual(sorted(misses, reverse=True), misses)
            for name in self.names:
                report = (results / name / "report.html").read_text()
                self.assertIn("<html", report)

        with self.step("enforce: the gate stops at the host that is not fine"):
            broken = self.root["second"] / "etc/iat-nova/iat-nova.conf.d/60-broken.conf"
            broken.write_text("[iat]\nlibvirt_uri = test:///there/is/none.xml\n")
            counts = self.play(
                "enforce", "-e", "iat_nova_serial=1", "-e", "patience_second=0.2", fails=True
            )
            failed = {host: of["failed"] for host, of in counts.items()}
            self.assertEqual({"wheel": 0, "second": 1}, failed, self.said)
            self.assertNotIn("third", counts)
            self.assertRegex(self.said, "second is not fine after 0.2 minutes: mode observe")
            self.assertEqual(["enforce", "observe", "observe"], self.modes())
            self.assertIn("reserved: 0", self.offered("wheel"))
            self.assertEqual("", self.offered("second"))

        with self.step("mended, it goes on"):
            broken.unlink()
            self.systemctl("second", "restart")
            self.play("enforce", "-e", '{"iat_nova_serial": [1, "100%"]}')
            self.assertEqual(["enforce"] * 3, self.modes())
            self.assertIn("reserved: 0", self.offered("third"))
            log = (self.root["third"] / "systemctl.log").read_text()
            self.assertIn("restart nova-compute", log)
            self.assertEqual(dict.fromkeys(self.names, 0), self.changed(self.play("enforce")))

        with self.step("an upgrade keeps the mode, also to a wheel of the same version"):
            self.assertEqual(dict.fromkeys(self.names, 0), self.changed(self.play("deploy")))
            with zipfile.ZipFile(self.wheel, "a") as wheel:
                wheel.writestr("iat_nova/later.py", "")
            self.play("deploy")
            self.assertEqual(1, len(list((self.root["wheel"] / "opt").rglob("iat_nova/later.py"))))
            self.assertEqual(["enforce"] * 3, self.modes())

        with self.step("back out to observe"):
            self.play("observe")
            self.assertEqual(["observe"] * 3, self.modes())
            self.assertNotIn("reserved: 0", self.offered("third"))

        with self.step("remove"):
            self.play("remove")
            self.assertEqual([None] * 3, self.modes())
            left = {"etc/nova/provider_config/iat-nova.yaml"}
            for name in self.names:
                user = {
                    one
                    for one in self.files(name)
                    if re.match(r"etc/(\.pwd\.lock|passwd|group|g?shadow)", one)
                }
                own = {one for one in self.files(name) if re.match(r"(etc|var/lib)/iat-nova/", one)}
                # An agent that the role did not install stays, and so does what is its own.
                self.assertEqual(name != "wheel", bool(own))
                self.assertEqual(nothing[name] | left | user | own, self.files(name))
            counts = self.play("remove", "-e", "iat_nova_ways_unused=true")
            self.assertEqual(dict.fromkeys(self.names, 2), self.changed(counts))  # file, Nova
            self.assertEqual("", self.offered("third"))

        with self.step("a snapshot is left, and no program to restore it"):
            snapshot = self.root["wheel"] / "var/lib/iat-nova/snapshot.json"
            snapshot.parent.mkdir(parents=True)
            snapshot.touch()
            self.play("remove", fails=True)
            self.assertIn(f"{snapshot} is left", self.said)
            self.assertTrue(snapshot.exists())

    def systemctl(self, name: str, verb: str) -> None:
        subprocess.run([self.root[name] / "python", STAND_IN, verb, "iat-nova-agent"], check=True)
