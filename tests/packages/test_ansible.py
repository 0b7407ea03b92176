# SPDX-License-Identifier: Apache-2.0
"""The Ansible role in a clean Debian, which has this checkout's packages in a repository of apt."""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import yaml

from tests.ansible.test_role import PLAYBOOKS, ansible_venv
from tests.packages.debian_root import CLEAN, Root, missing, packages, repack, said
from tools import demo_host

STAND_IN = pathlib.Path(__file__).parents[1] / "ansible/systemctl.py"
PACKAGES = ("iat-nova-agent", "python3-iat-nova-simulator")
SETTING = "# The next version has this line.\n"
# Ansible runs its modules by this program: in the root, as it was entered once.
PYTHON = """#!/bin/sh
exec nsenter --target {pid} --mount --pid --root --wd=/ env -i HOME=/root LC_ALL=C.UTF-8 \\
    PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \\
    /usr/bin/python3 "$@"
"""
SYSTEMCTL = """#!/bin/sh
HOST_ROOT=/ HOST_BIN=/usr/bin HOST_USER=iat-nova exec /usr/bin/python3 /mnt/systemctl.py "$@"
"""
CONFIG = {
    "compute": {"cpu_dedicated_set": demo_host.DEDICATED, "cpu_shared_set": demo_host.SHARED},
    "iat": {
        "hardware": "emulated",
        "emulated_scenario": "quickstart",
        "emulated_seconds": 3600,
        "libvirt_uri": "test:///default",
        "ovsdb_connection": "none",
        "sysfs_root": "/mnt/sys",
    },
}


class RoleTest(unittest.TestCase):
    """One host, with apt and dpkg of its own and a real agent; systemd is a stand-in."""

    @classmethod
    def setUpClass(cls):
        if why := missing():
            raise unittest.SkipTest(why)
        cls.ansible = ansible_venv() / "bin"

    def setUp(self):
        self.folder = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="iat-nova-role-"))
        )
        self.root = Root(self.folder / "root", *CLEAN)
        self.share = self.root.folder / "share"
        self.publish(packages())
        shutil.copy(STAND_IN, self.share)
        demo_host.write_sysfs(self.share / "sys")
        self.root.run("sh", "-ec", f"mkdir -p {self.root.folder}; ln -s /mnt {self.share}")
        self.root.run("sh", "-ec", "apt-get update -qq; apt-get install -qq -y python3")
        source = "deb [trusted=yes] file:/mnt/repository ./\n"
        self.write("/etc/apt/sources.list.d/own.list", source)
        # Recommended ones are what the role gets on a host: 400 packages more.
        self.write("/etc/apt/apt.conf.d/90own", 'APT::Install-Recommends "false";\n')
        self.write("/usr/local/bin/systemctl", SYSTEMCTL, "0755")
        self.enter()
        host = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(self.folder / "python"),
            "ansible_remote_tmp": str(self.share / "ansible"),
            "iat_nova_source": "package",
            "iat_nova_packages": list(PACKAGES),
            "iat_nova_doctor": False,  # an emulated machine has no hardware to look at
            "iat_nova_gate_pause_s": 1,
            "iat_nova_gate_ignores_too": ["source"],
            "iat_nova_config": CONFIG,
        }
        (self.folder / "hosts.yaml").write_text(
            yaml.safe_dump({"iat_nova": {"hosts": {"compute": host}}})
        )

    def write(self, path, text, mode="0644"):
        """Write a file of the root."""
        (self.share / "written").write_text(text)
        self.root.run("install", "-D", "-m", mode, "/mnt/written", path)

    def enter(self):
        """Keep the root mounted, as one that runs, until the test ends."""
        script = 'set -e; source "$0/roots"; in_root "$1" sleep 3600'
        holder = subprocess.Popen(
            ["bash", "-c", script, STAND_IN.parents[2] / "tools/packaging", self.root.folder],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.addCleanup(holder.wait)
        python = self.folder / "python"
        for _ in range(600):
            # bash, unshare, and what has the root: the first process of its namespace.
            pids = self.descendants(holder.pid)
            if len(pids) == 2 and os.readlink(f"/proc/{pids[-1]}/root") != "/":
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                holder.wait(0.05)
        else:
            self.fail("the root was not entered")
        # The first process of a PID namespace takes all others with it.
        self.addCleanup(os.kill, pids[-1], signal.SIGKILL)
        python.write_text(PYTHON.format(pid=pids[-1]))
        python.chmod(0o755)
        self.python = python

    @staticmethod
    def descendants(pid):
        """Return the only child of a process, its only child, and so on."""
        found = []
        while children := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(children[0])
            found.append(pid)
        return found

    def inside(self, *command):
        """Run a command in the root; return its exit status and all that it wrote."""
        call = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
        done = subprocess.run(
            [self.python, "-c", call, *command], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def publish(self, folder, suffix=""):
        """Make packages the repository's; `suffix` makes a later version of them."""
        repository = self.share / "repository"
        shutil.rmtree(repository, ignore_errors=True)
        repository.mkdir()
        index = []
        for name in PACKAGES:
            (built,) = folder.glob(f"{name}_*.deb")
            deb = repository / built.name
            shutil.copy(built, deb)
            if suffix:
                repack(deb, suffix, SETTING)
            fields = said("dpkg-deb", "--field", deb)
            digest = hashlib.sha256(deb.read_bytes()).hexdigest()
            index.append(
                f"{fields}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
            )
        (repository / "Packages").write_text("\n".join(index))

    def play(self, name, *arguments, fails=False):
        """Run a playbook; return how much it changed."""
        inventory = self.folder / "hosts.yaml"
        done = subprocess.run(
            [self.ansible / "ansible-playbook", "-i", inventory, f"{name}.yaml", *arguments],
            cwd=PLAYBOOKS,
            env={
                **os.environ,
                "PATH": f"{self.ansible}:{os.environ['PATH']}",
                "ANSIBLE_HOME": str(self.folder / "ansible"),
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PIPELINING": "true",
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.told = done.stdout + done.stderr
        _, log = self.inside("tail", "-n", "20", "/agent.log")
        self.assertEqual(fails, done.returncode != 0, self.told + log)
        return int(re.search(r"changed=(\d+)", self.told)[1])

    def status(self):
        """Return what the agent says of itself, empty where it does not run."""
        _, text = self.inside("iat-nova", "status", "-f", "json")
        return json.loads(text) if text.startswith("{") else {}

    def version(self):
        """Return the version that dpkg knows, None where nothing is, not even configuration."""
        status, text = self.inside("dpkg-query", "-W", "-f=${Version}", "iat-nova-agent")
        return text if status == 0 else None

    def exists(self, path):
        return self.inside("test", "-e", path)[0] == 0

    def test_installed_upgraded_and_removed(self):
        """It observes, is upgraded in its mode, and goes with its state; never the state alone."""
        self.play("deploy")
        first = self.version()
        self.assertEqual((True, "observe"), (self.status()["running"], self.status()["mode"]))
        self.assertEqual(0, self.play("deploy"))

        self.play("enforce", "-e", "iat_nova_serial=1")
        self.assertEqual("enforce", self.status()["mode"])
        self.publish(packages(), "+1")
        self.play("deploy")
        self.assertEqual(f"{first}+1", self.version())
        self.assertEqual((True, "enforce"), (self.status()["running"], self.status()["mode"]))
        _, configuration = self.inside("cat", "/etc/iat-nova/iat-nova.conf")
        self.assertIn("emulated_scenario = quickstart", configuration)
        self.assertNotIn(SETTING, configuration)

        # The default source is a wheel: the agent of the package is not the role's to remove.
        self.play("remove", "-e", "iat_nova_source=wheel", fails=True)
        self.assertIn("/usr/bin/iat-nova-agent is left", self.told)
        self.assertTrue(self.exists("/var/lib/iat-nova/history.sqlite"))
        self.assertTrue(self.exists("/etc/iat-nova/iat-nova.conf"))

        self.play("remove")
        self.assertEqual((1, None), (self.inside("test", "-e", "/agent.pid")[0], self.version()))
        left = self.inside(
            "find", "/etc", "/usr", "/var/lib", "/opt", "-xdev", "-name", "*iat[-_]nova*"
        )  # fmt: skip
        self.assertEqual("", left[1])
        self.assertEqual(0, self.play("remove"))


if __name__ == "__main__":
    sys.exit(unittest.main())
