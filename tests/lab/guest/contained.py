# SPDX-License-Identifier: Apache-2.0
"""The agent's container at work, run by the commands of the page on installing.

/mnt/storage has the image, built on the other side; podman is this machine's. What containers write
stays in memory.
"""

import shlex
import subprocess
import time
import unittest
from pathlib import Path

from tests.lab.guest import machine, service

PROJECT = Path(__file__).resolve().parents[3]
PAGE = PROJECT / "doc/source/operator/install.rst"
PODMAN = [
    "podman", "--root", "/tmp/containers", "--runroot", "/run/containers", "--cgroup-manager",
    "cgroupfs", "--storage-driver", "overlay", "--storage-opt", "overlay.imagestore=/mnt/storage",
]  # fmt: skip
NAME, PROGRAM = "iat-nova-agent", "/usr/bin/iat-nova"
GROUP = machine.RESCTRL / "iat-nova.1"
DEADLINE_S = 240.0


def page():
    """Return the page's commands after the one that builds the image, as lists of words."""
    section = PAGE.read_text().partition("\nIn a container\n")[2].partition("\n\nThe capab")[0]
    block = section.partition(".. code-block:: console\n\n")[2].replace("\\\n", " ")
    commands = [line.strip().removeprefix("# ") for line in block.splitlines()]
    return [part for line in commands[1:] for part in line.split(" && ")]


class Contained(unittest.TestCase):
    def setUp(self):
        machine.unmount()
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)
        for name in ("libvirt", "openvswitch"):
            Path("/run", name).mkdir()
        for name, text in (
            ("nova/nova.conf", "[DEFAULT]\n"),
            ("iat-nova/iat-nova.conf", service.CONFIGURATION),
            ("iat-nova/node.xml", service.GUEST),
        ):
            path = Path("/etc", name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.run_command = []
        service.unload_msr()
        for command in page():
            if command.startswith("podman run"):
                self.run_command = shlex.split(command)[1:]
            elif not command.startswith("podman"):
                subprocess.run(["sh", "-c", command], cwd=PROJECT, check=True)
        self.addCleanup(self.podman, "rm", "--force", "--time", "60", NAME, status=None)

    def podman(self, *words, status=0):
        """Run podman; return what it wrote to standard output."""
        done = subprocess.run(
            [*PODMAN, *words], capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        said = f"{words}: {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        self.assertIn(done.returncode, {done.returncode if status is None else status}, said)
        return done.stdout

    def beside(self, *words):
        """Run iat-nova in a container of its own, with the same options; return what it wrote.

        `podman exec` finds no program here: the guest's root is an initial file system, from which
        nobody can pivot, so that a process that joins the container has another root.
        """
        options = ["--rm" if word == "--detach" else word for word in self.run_command[:-1]]
        for option in ("--name", "--restart"):
            at = options.index(option)
            del options[at : at + 2]
        return self.podman(*options, "--entrypoint", PROGRAM, self.run_command[-1], *words)

    def until_enforced(self):
        """Wait until the agent has written; fail with what it said."""
        end = time.monotonic() + DEADLINE_S
        while not GROUP.exists():
            if time.monotonic() > end:
                log = subprocess.run(
                    [*PODMAN, "logs", NAME], capture_output=True, text=True, check=False
                )
                self.fail(f"nothing written: {log.stdout[-3000:]}{log.stderr[-5000:]}")
            time.sleep(1)

    def test_enforces_and_restores(self):
        """It writes, answers, restores when it is stopped, and after a kill when it is asked to."""
        as_found = service.found()
        self.podman(*self.run_command)
        self.until_enforced()
        self.assertRegex(self.beside("status"), r"(?m)^agent +enforce,")
        self.assertIn("instance-00000001", self.beside("tenants"))
        self.podman("stop", "--time", "60", NAME)
        self.assertEqual(as_found, service.found())

        self.podman("rm", NAME)
        self.podman(*self.run_command)
        self.until_enforced()
        self.podman("kill", "--signal", "KILL", NAME)
        self.podman("rm", "--force", NAME)
        self.assertTrue(GROUP.exists())
        self.beside("restore")
        self.assertEqual(as_found, service.found())
