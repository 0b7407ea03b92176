# SPDX-License-Identifier: Apache-2.0
"""Manual pages and the shell's completion, as man and bash read them."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from iat_nova import conf
from iat_nova.cmd.main import commands
from tools import completion, man_pages


class TestManualPages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        man_pages.main(cls.folder)
        cls.pages = sorted(cls.folder.glob("man*/*"))

    def test_every_command_has_its_page(self):
        """And so have the program, the agent and the configuration."""
        others = ["man1/iat-nova.1", "man5/iat-nova.conf.5", "man8/iat-nova-agent.8"]
        wanted = [f"man1/iat-nova-{name.replace(' ', '-')}.1" for name in commands()]
        found = [str(path.relative_to(self.folder)) for path in self.pages]
        self.assertEqual(sorted(wanted + others), found)

    def test_man_reads_every_page(self):
        """The formatter warns of nothing, and the index (whatis) finds name and summary."""
        for path in self.pages:
            with self.subTest(path.name):
                said = self.run_it("man", "--warnings", "-EUTF-8", "-Tutf8", "-Z", "-l", path)
                self.assertEqual("", said.stderr)
                self.assertIn(f"{path.stem} - ", self.run_it("lexgrog", path).stdout)

    def test_every_option_is_told(self):
        """Those of commands with what they do, those of the configuration with their defaults."""
        page = self.shown("iat-nova-explain.1")
        self.assertRegex(page, r"--exact\s+the iteration in force at TIME")
        self.assertNotIn("SUPPRESS", page)
        self.assertIn("--state-dir DIR", page)
        self.assertRegex(page, r"3\s+the agent is not running")
        page = self.shown("iat-nova.conf.5")
        for option in conf.IAT_OPTS:
            self.assertRegex(page, rf"(?m)^ +{option.name}\b")
        self.assertIn("One of observe, enforce; default: observe", page)

    def shown(self, name):
        """Return a page as a reader has it."""
        (path,) = self.folder.glob(f"man*/{name}")
        return self.run_it("man", "-l", path).stdout

    def run_it(self, *command):
        """Run a program that must succeed."""
        return subprocess.run(
            [str(word) for word in command],
            env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MANPAGER": "cat"},
            capture_output=True,
            text=True,
            check=True,
        )


class TestCompletion(unittest.TestCase):
    """bash, with a program that names four guests."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "iat-nova.bash").write_text(completion.main("bash"))
        program = cls.folder / "iat-nova"
        program.write_text('#!/bin/sh\n[ "$1" = tenants ] && cat names\n')
        (cls.folder / "names").write_text("web\nweb 2\ndb\nx$(touch made)`touch made`\n")
        program.chmod(0o755)
        (cls.folder / "policy.yaml").touch()

    def completed(self, *words):
        """Return what bash offers for the last word."""
        script = (
            f"source {self.folder}/iat-nova.bash; COMP_WORDS=(iat-nova \"$@\"); COMP_CWORD=$#\n"
            "$(complete -p iat-nova | sed -E 's/.*-F ([^ ]+).*/\\1/') 2>/dev/null\n"
            "printf '%s\\n' \"${COMPREPLY[@]}\""
        )  # fmt: skip
        done = subprocess.run(
            ["bash", "--norc", "-c", script, "bash", *words],
            cwd=self.folder,
            env={"PATH": f"{self.folder}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split("\n")[:-1]

    def test_commands(self):
        """Commands of one word and of two."""
        self.assertEqual(["report", "restore", "resume"], sorted(self.completed("re"))[2:])
        self.assertEqual(["show"], self.completed("policy", "sh"))
        self.assertEqual(["provider-config"], self.completed("help", "pro"))

    def test_options_and_their_values(self):
        """An option of the command, and one that has choices."""
        self.assertEqual(["--rendered"], self.completed("policy", "show", "--ren"))
        self.assertEqual(["grow"], self.completed("decisions", "--kind", "gr"))
        self.assertEqual(["json"], self.completed("tenants", "-f", "j"))

    def test_guests(self):
        """By the names that `iat-nova tenants` knows, a blank in them or not."""
        self.assertEqual(["web", r"web\ 2"], self.completed("hold", "w"))
        self.assertEqual(["db"], self.completed("decisions", "--guest", "d"))
        self.assertEqual(["db"], self.completed("decisions", "d"))
        self.assertEqual(["db"], self.completed("explain", "d"))

    def test_a_name_is_no_command(self):
        """Whoever chooses a guest's name has nothing run by who completes it."""
        self.assertEqual([r"x\$\(touch\ made\)\`touch\ made\`"], self.completed("hold", "x"))
        self.assertFalse((self.folder / "made").exists())

    def test_files(self):
        """Where a file is meant, one is offered."""
        self.assertEqual(["policy.yaml"], self.completed("policy", "check", "pol"))
