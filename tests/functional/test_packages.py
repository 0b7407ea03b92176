# SPDX-License-Identifier: Apache-2.0
"""What a release would hold: the sdist is whole, and the wheel made from it works by itself."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import unittest
import venv
import zipfile

ROOT = pathlib.Path(__file__).parents[2]

# What only a checkout has a use for.
_OF_THE_CHECKOUT = re.compile(r"\.git")

# Modules for which a compute host needs more than iat-nova: Nova, and the extra [metrics].
NEED_MORE = ("iat_nova.nova.", "iat_nova.report.metrics_server")

# No folder of the checkout, and no setting of its environment, may help the installed program.
_CLEAN = {
    name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")
}


def run(*command, status=0, environment=(), **options):
    """Run a command, which must end with `status`, and return all that it wrote."""
    done = subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_CLEAN | dict(environment),
        check=False,
        **options,
    )
    if done.returncode != status:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def install(python, *arguments):
    """Install with pip in the environment of `python`, which may have no pip of its own."""
    pip = ("-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python)
    run(sys.executable, *pip, "install", "--no-compile", *arguments)


def copy_of_the_checkout(folder, *of):
    """Clone the checkout (`of`: how), with its uncommitted changes; return the clone's folder.

    A build writes iat_nova.egg-info beside the package. In the checkout itself all programs that
    run there meanwhile would read half an entry_points.txt, and lack commands.
    """
    run("git", "clone", "--quiet", *(of or ("--shared", ROOT)), folder)
    changed = run("git", "-C", ROOT, "diff", "HEAD", "--binary")
    if changed:
        subprocess.run(["git", "-C", folder, "apply"], input=changed, text=True, check=True)
    return folder


class PackagesTest(unittest.TestCase):
    """`python -m build` makes the sdist from a copy of the checkout, and from it the wheel."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        checkout = copy_of_the_checkout(folder / "checkout")
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", checkout)
        (cls.sdist,) = (folder / "dist").glob("*.tar.gz")
        (wheel,) = (folder / "dist").glob("*.whl")
        venv.create(folder / "venv", with_pip=False)
        cls.bin = folder / "venv" / "bin"
        install(cls.bin / "python", wheel)
        cls.elsewhere = folder
        cls.host = folder / "host"
        zipfile.ZipFile(wheel).extractall(cls.host)
        shutil.rmtree(cls.host / "iat_nova" / "experiments")

    def installed(self, *command, status=0):
        """Run an installed program outside of the checkout."""
        return run(self.bin / command[0], *command[1:], status=status, cwd=self.elsewhere)

    def test_the_sdist_has_what_the_checkout_has(self):
        """Tests, pages, tools and requirements are in it: packagers build from nothing else."""
        tracked = run("git", "-C", ROOT, "ls-files").splitlines()
        with tarfile.open(self.sdist) as archive:
            packed = {name.partition("/")[2] for name in archive.getnames()}
        wanted = {name for name in tracked if not _OF_THE_CHECKOUT.match(name)}
        self.assertEqual(set(), {name for name in wanted if (ROOT / name).exists()} - packed)

    def test_the_programs_start(self):
        """What they import is installed with the wheel."""
        self.assertRegex(self.installed("iat-nova", "--version"), r"^iat-nova 1\.0\.0")
        self.assertIn("first steps:", self.installed("iat-nova", "--help"))
        self.assertIn("--config-file", self.installed("iat-nova-agent", "--help"))
        self.installed("iat-nova", "help", "bench", "llc")

    def test_what_is_no_module_is_in_the_wheel(self):
        """Schemas, templates, scenarios and the files below etc are."""
        etc = self.bin.parent / "etc" / "iat-nova"
        self.assertTrue((etc / "iat-nova-agent.service").is_file())
        self.installed("iat-nova", "policy", "check", etc / "policy.yaml")
        options = self.installed("oslo-config-generator", "--namespace", "iat_nova")
        self.assertIn("[iat]", options)

    def test_what_needs_an_extra_names_it(self):
        """Without the extra a command fails with the line that installs it, and nothing else."""
        said = self.installed("iat-nova", "simulate", "run", "quickstart", status=1)
        self.assertIn("pip install 'iat-nova[sim]'", said)
        self.assertNotIn("Traceback", said)

    def on_a_host(self, program, *arguments, status=0):
        """Run a program of a compute host that got neither emulated server nor measurements."""
        return run(
            *(self.bin / "python", "-P", "-m", f"iat_nova.cmd.{program}", *arguments),
            status=status,
            environment={"PYTHONPATH": str(self.host)},
            cwd=self.elsewhere,
        )

    def test_a_host_can_do_without_the_emulated_server(self):
        """Every module of the agent is imported, and what is not there is not offered."""
        every = "import iat_nova, pkgutil, importlib\nfor one in pkgutil.walk_packages(" + (
            "iat_nova.__path__, 'iat_nova.'):\n"
            f"    if not one.name.startswith({NEED_MORE!r}): importlib.import_module(one.name)\n"
            "print(iat_nova.__file__)"
        )
        where = {"environment": {"PYTHONPATH": str(self.host)}, "cwd": self.elsewhere}
        self.assertIn(str(self.host), run(self.bin / "python", "-P", "-c", every, **where))
        self.assertFalse((self.host / "iat_nova/watcher").exists())  # a distribution of its own
        offered = self.on_a_host("main", "--help")
        self.assertIn("doctor", offered)
        self.assertNotIn("Could not load", offered)
        self.assertNotRegex(offered, r"\b(simulate|bench)\b")
        self.assertIn("--config-file", self.on_a_host("agent", "--help"))
        state = ("--state-dir", self.elsewhere / "nothing")
        self.assertIn(
            "there is no state directory", self.on_a_host("main", *state, "status", status=3)
        )
        self.assertIn("verdict", self.on_a_host("main", "doctor", status=1))

    def test_a_platform_that_is_not_installed_is_named(self):
        """The agent says which option asks for it."""
        settings = self.elsewhere / "emulated.conf"
        settings.write_text(
            "[iat]\nhardware = emulated\nemulated_scenario = quickstart\n"
            f"state_dir = {self.elsewhere}/state\n"
        )
        said = self.on_a_host("agent", "--config-file", settings, status=78)
        self.assertIn("[iat] hardware = emulated: no platform of this name is installed here", said)


class VersionTest(unittest.TestCase):
    """Without tags a build says the release that the sources name."""

    ASKED = (
        "import importlib, sys, tempfile\n"
        "backend = importlib.import_module(sys.argv[1])\n"
        "print(backend.prepare_metadata_for_build_wheel(tempfile.mkdtemp(dir=sys.argv[2])))"
    )

    FOLDERS = (".", "iat_nova/nova", "iat_nova/watcher", "tests/tempest-plugin")

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        venv.create(folder, with_pip=False)
        cls.python = folder / "bin/python"
        install(
            cls.python, *{need for one in cls.FOLDERS for need in cls.build(ROOT / one)["requires"]}
        )

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    @staticmethod
    def build(folder):
        """Return how a distribution is built."""
        return tomllib.loads((folder / "pyproject.toml").read_text())["build-system"]

    def assert_released(self, checkout):
        """Each distribution of the checkout has version 1.0.0."""
        for folder in self.FOLDERS:
            backend = self.build(checkout / folder)["build-backend"]
            said = run(
                *(self.python, "-c", self.ASKED, backend, self.folder), cwd=checkout / folder
            )
            self.assertRegex(said.splitlines()[-1], r"^iat_nova\w*-1\.0\.0\.dist-info$")

    def test_an_export(self):
        """Files without a repository, as a tarball of a forge has them."""
        exported = copy_of_the_checkout(self.folder / "exported")
        shutil.rmtree(exported / ".git")
        self.assert_released(exported)

    def test_a_shallow_clone(self):
        """The last commit alone, without tags."""
        shallow = ("--depth=1", "--no-tags", f"file://{ROOT}")
        self.assert_released(copy_of_the_checkout(self.folder / "shallow", *shallow))


class OwnDistribution(unittest.TestCase):
    """A distribution of its own, in an environment that has nothing else."""

    FOLDER = ""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        checkout = copy_of_the_checkout(folder / "checkout")
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", checkout / cls.FOLDER)
        (cls.wheel,) = (folder / "dist").glob("*.whl")
        venv.create(folder / "venv", with_pip=False)
        cls.python = folder / "venv/bin/python"
        install(cls.python, "--no-deps", cls.wheel)

    def asked(self, code):
        """Run Python where the plugin alone is installed; return what it prints."""
        return run(self.python, "-P", "-c", code, cwd=self.wheel.parent)


class WatcherPluginTest(OwnDistribution):
    """What Watcher loads."""

    FOLDER = "iat_nova/watcher"

    def test_it_lacks_nothing_but_watcher(self):
        """No file of it is one of the agent's distribution, and the choice needs nothing else."""
        names = {name for name in zipfile.ZipFile(self.wheel).namelist() if "dist-info" not in name}
        modules = {path.name for path in (ROOT / self.FOLDER).glob("*.py")}
        self.assertEqual({f"iat_nova_watcher/{name}" for name in modules}, names)
        code = (
            "import importlib.metadata as m\n"
            "for one in m.distribution('iat-nova-watcher').entry_points:\n"
            "    try: one.load()\n"
            "    except ModuleNotFoundError as error: print(one.group, one.name, error.name)\n"
            "import iat_nova_watcher.choice, iat_nova_watcher.readings, iat_nova_watcher.words"
        )
        self.assertEqual(
            "watcher_goals iat_cache_pressure watcher\n"
            "watcher_strategies iat_cache_pressure requests\n",
            self.asked(code),
        )


class PluginTest(OwnDistribution):
    """What Nova loads."""

    FOLDER = "iat_nova/nova"

    def test_it_has_what_nova_loads_and_nothing_of_the_agent(self):
        """No file of it is one of the agent's distribution, and it asks for oslo alone."""
        names = {name for name in zipfile.ZipFile(self.wheel).namelist() if "dist-info" not in name}
        modules = ("__init__", "extra_specs", "notifier", "spool", "validators")
        self.assertEqual({f"iat_nova_plugin/{name}.py" for name in modules}, names)
        code = (
            "import importlib.metadata as m, re\n"
            "print(*(re.match('[a-z.]+', one)[0] for one in m.requires('iat-nova-plugin')))\n"
            "print(*(one.name for one in m.distributions()))"
        )
        required, installed = self.asked(code).splitlines()
        self.assertEqual({"oslo.config", "oslo.messaging"}, set(required.split()))
        self.assertEqual("iat-nova-plugin", installed)

    def test_its_entry_points_lack_nothing_but_nova(self):
        """In an empty environment each stops at Nova's own package or oslo's, at nothing else."""
        code = (
            "import importlib.metadata as m\n"
            "for one in m.distribution('iat-nova-plugin').entry_points:\n"
            "    try: one.load()\n"
            "    except ModuleNotFoundError as error: print(one.group, one.name, error.name)\n"
            "import iat_nova_plugin.extra_specs, iat_nova_plugin.spool"
        )
        self.assertEqual(
            "nova.api.extra_spec_validators iat nova\n"
            "oslo.messaging.notify.drivers iat_spool oslo_config\n",
            self.asked(code),
        )
