# SPDX-License-Identifier: Apache-2.0
"""The installed programs where a package is missing: one line with the command, no traceback."""

import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
from unittest import mock

from iat_nova.cmd import entry

ROOT = pathlib.Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPT = """
import importlib, sys

class Hidden:
    def find_spec(self, name, *_):
        if name.split(".")[0] == {hidden!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
sys.argv = ["program", *{words!r}]
module, name = {entry!r}.split(":")
sys.exit(getattr(importlib.import_module(module), name)())
"""


class ProgramCase(unittest.TestCase):
    """Runs programs of pyproject.toml in processes of their own, without a module."""

    def without(self, program, package, *words):
        """Run a program without a package: the program says so, once, with the command."""
        (module,) = (one for one, (_, pypi) in entry.PACKAGES.items() if pypi == package)
        code = SCRIPT.format(hidden=module, words=words, entry=PROJECT["scripts"][program])
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        said = done.stderr.splitlines()
        self.assertEqual((1, ""), (done.returncode, done.stdout), said)
        self.assertEqual([], [one for one in said if not one.startswith(f"{program}: ")])
        self.assertEqual(1, sum("missing" in one for one in said), said)
        debian = entry.PACKAGES[module][0]
        self.assertRegex(
            said[-1],
            f"^{program}: the Python module {module} is missing: "
            f"(apt-get install {debian}|{sys.executable} -m pip install {re.escape(package)})$",
        )


class Programs(ProgramCase):
    def test_while_it_runs(self):
        """A package that is loaded only when it is needed."""
        self.without(
            "iat-nova", "jsonschema", "policy", "check", str(ROOT / "etc/iat-nova/policy.yaml")
        )
        late = mock.Mock(main=mock.Mock(side_effect=ModuleNotFoundError("no", name="jsonschema")))
        with mock.patch.dict(sys.modules, {"iat_nova.cmd.agent": late}):
            with mock.patch("builtins.print") as said:
                self.assertEqual(1, entry.agent())
            self.assertRegex(said.call_args[0][0], "^iat-nova-agent: .* jsonschema is missing: ")

    def test_all_packages_are_known(self):
        """All that the project requires, with its extras."""
        known = {pypi for _, pypi in entry.PACKAGES.values()}
        lines = (ROOT / "requirements.txt").read_text().splitlines()
        for needed in (lines, *PROJECT["optional-dependencies"].values()):
            names = {re.match(r"[\w.-]+", one)[0] for one in needed}
            self.assertEqual(set(), names - known - {"pbr"})  # pbr is for builds

    def test_interrupted(self):
        """Ctrl-C, also while a program loads: the shell's status, and nothing is written."""
        code = (
            "import os, signal, sys, {0} as late; from iat_nova.cmd import entry;"
            # Where a shell started the tests in the background, SIGINT is ignored.
            " signal.signal(signal.SIGINT, signal.default_int_handler);"
            " late.{1} = lambda *_: os.kill(os.getpid(), signal.SIGINT);"
            " sys.argv[1:] = ['--version']; sys.exit(entry.program())"
        )
        for late in (("importlib", "import_module"), ("iat_nova.report.log", "speak")):
            command = [sys.executable, "-c", code.format(*late)]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((130, "", ""), (done.returncode, done.stdout, done.stderr))


class Words(unittest.TestCase):
    def test_no_name_is_guessed(self):
        """A module that the project does not require is named, with no command to install it."""
        error = ModuleNotFoundError("No module named 'a.b'", name="a.b")
        self.assertEqual(
            "the Python module a.b is missing: install the package that has it",
            entry.unloadable(error),
        )

    def test_a_whole_message_stays_as_it_is(self):
        """An error without a module's name says itself what is missing."""
        said = "the emulated server needs a C compiler"
        self.assertEqual(said, entry.unloadable(ImportError(said)))

    def test_python_of_the_distribution(self):
        """There apt-get installs, where the distribution has it; pip refuses to."""
        error = ModuleNotFoundError("No module named 'libvirt'", name="libvirt")
        self.enterContext(mock.patch.object(sys, "prefix", "/usr"))
        for found, remedy in (
            ("/usr/bin/apt-get", "apt-get install python3-libvirt"),
            (None, "install the package that has it"),
        ):
            with mock.patch("shutil.which", return_value=found):
                self.assertEqual(
                    f"the Python module libvirt is missing: {remedy}", entry.unloadable(error)
                )

    def test_a_module_that_does_not_load(self):
        """The library that its extension needs is named: to install the module would not help."""
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "libvirt.py").write_text(
                "raise ImportError('libvirt.so.0: no such file', name='libvirtmod')\n"
            )
            done = subprocess.run(
                [sys.executable, "-c", "from iat_nova.cmd.entry import agent; agent()"],
                env={"PYTHONPATH": f"{folder}:{ROOT}"},
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(
            "iat-nova-agent: the Python module libvirtmod cannot be loaded: "
            "libvirt.so.0: no such file\n",
            done.stderr,
        )


class Loaded(unittest.TestCase):
    def test_only_what_is_needed(self):
        """A list or a help loads neither the emulated server's packages nor other commands.

        doctor loads what opens a host, but no agent's loop and no templates of policies.
        """
        slow = {
            "cattrs",
            "oslo_config",
            "jsonschema",
            "libvirt",
            "matplotlib",
            "numpy",
            "ovsdbapp",
        }
        slow |= {"jinja2", "iat_nova.agent.loop"}
        slow |= {"iat_nova.policy.schema", "iat_nova.experiments.scenarios.scenario"}
        for words, needed in (
            (("--help",), set()),
            (("simulate", "list"), set()),
            (("simulate", "figures", "--list"), set()),
            (("policy", "--help"), set()),
            (("hold", "--help"), {"cattrs"}),
            (("explain", "--help"), {"cattrs"}),
            (("status", "--help"), {"cattrs"}),
            (("qualify", "--help"), {"cattrs"}),
            (("doctor",), {"cattrs", "oslo_config", "libvirt", "ovsdbapp"}),
        ):
            code = (
                "import sys\nfrom iat_nova.cmd.main import main\n"
                f"try: main({list(words)!r})\nexcept SystemExit: pass\n"
                "print(*sys.modules, file=sys.stderr)"
            )
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            with self.subTest(words=words):
                self.assertEqual(set(), slow & set(done.stderr.split()) - needed)
                self.assertNotIn("iat_nova.report.html", done.stderr.split())
