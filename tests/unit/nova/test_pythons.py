# SPDX-License-Identifier: Apache-2.0
"""What Nova and Watcher load, under each Python of their supported releases that is installed.

`uv python install 3.9 3.10 3.12 3.13` or pyenv brings what is missing.
"""

import ast
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[3]
PLUGINS = {
    "iat_nova_plugin": (ROOT / "iat_nova/nova", 9),
    "iat_nova_watcher": (ROOT / "iat_nova/watcher", 10),
}
# Nova, oslo.config and oslo.messaging are not installed for each Python: only their names are.
NOVA = """
import json, logging, sys, types
class Validator:
    def __init__(self, **given): self.given = given
class Driver:
    def __init__(self, *given): pass
def module(name, **members):
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(members)
base, cfg = types.SimpleNamespace(ExtraSpecValidator=Validator), types.SimpleNamespace
options = cfg(state_dir=None, spool_dir=sys.argv[2])
conf = cfg(register_opts=lambda *given, **more: None, iat=options)
module("nova.api.validation.extra_specs", base=base)
option = lambda name, default=None: cfg(default=default)
module("oslo_config", cfg=cfg(StrOpt=option, ConfigOpts=cfg))
module("oslo_messaging.notify", notifier=cfg(Driver=Driver))
sys.path.insert(0, sys.argv[1])
from iat_nova_plugin import extra_specs, notifier, validators
wishes = extra_specs.parse({"iat:priority": "pc", "iat:io": "auto", "iat:llc_ways": "2"})
one = "6f9619ff-8b86-4011-b42d-00cf4fc964ff"
flavor = {"nova_object.data": {"extra_specs": {"iat:priority": "PC"}}}
data = {"uuid": one, "host": "here", "flavor": flavor}
message = {"publisher_id": "nova-compute:here", "event_type": "instance.create.end",
           "payload": {"nova_object.data": data}}
driver = notifier.SpoolDriver(conf, [], None)
driver.notify(None, message, "info", None)
with open(f"{options.spool_dir}/{one}.json") as file:
    spooled = json.load(file)
options.spool_dir += f"/{one}.json"  # a file, which is logged
notifier.SpoolDriver(conf, [], None).notify(None, message, "info", None)
print(json.dumps([f"{wishes.io}", str(wishes.io), wishes.llc_ways,
                  [one.code for one in wishes.problems], spooled,
                  [one.given["value"] for one in validators.register()][1]["enum"]]))
"""
WATCHER = """
import sys
sys.path.insert(0, sys.argv[1])
from iat_nova_watcher import choice, hosts, readings, words
print(f'["{hosts.Fixed.MIXED}", "{str(hosts.Unusable.DOWN)}"]')
"""


def python(minor: int) -> str | None:
    """Return an interpreter of Python 3.`minor`; None: none is installed."""
    home = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    places = [sys.executable, shutil.which(f"python3.{minor}")]
    places += map(str, home.glob(f"versions/3.{minor}.*/bin/python"))
    for place in filter(None, places):
        asked = [place, "-c", "import sys; print(sys.version_info[1])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.stdout.strip() == str(minor):
            return place
    return None


class PythonsTest(unittest.TestCase):
    def answers(self, plugin: str, script: str, folder: str) -> list[list[object]]:
        """Return what a script prints under each Python; skip where one is not installed."""
        source, oldest = PLUGINS[plugin]
        (pathlib.Path(folder) / plugin).symlink_to(source)
        found = []
        for minor in range(oldest, 14):
            with self.subTest(python=f"3.{minor}"):
                place = python(minor)
                if place is None:
                    self.skipTest(f"Python 3.{minor} is not installed")
                command = [place, "-I", "-B", "-c", script, folder, f"{folder}/{minor}"]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                self.assertEqual(0, done.returncode, done.stderr)
                found.append([json.loads(done.stdout), done.stderr])
        return found

    def test_nova(self) -> None:
        """The modules are imported, refuse a value, write a file, and log that they cannot."""
        with tempfile.TemporaryDirectory() as folder:
            for answer, log in self.answers("iat_nova_plugin", NOVA, folder):
                specs = {"extra_specs": {"iat:priority": "PC"}}
                wished = ["auto", "auto", 2, ["extra-spec-misspelt"], specs]
                self.assertEqual([*wished, ["true", "false", "auto"]], answer)
                self.assertIn("[iat] spool_dir names the folder", log)

    def test_watcher(self) -> None:
        """The modules that know nothing of Watcher are imported."""
        with tempfile.TemporaryDirectory() as folder:
            for answer, _ in self.answers("iat_nova_watcher", WATCHER, folder):
                self.assertEqual(["mixed", "down"], answer)

    def test_language(self) -> None:
        """No syntax is newer, nor a union of types in isinstance() for Nova (vermin misses it)."""
        for source, oldest in PLUGINS.values():
            for file in source.glob("*.py"):
                tree = ast.parse(file.read_bytes(), str(file), feature_version=(3, oldest))
                calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
                named = [one for one in calls if ast.unparse(one.func) == "isinstance"]
                unions = [ast.unparse(one) for one in named if isinstance(one.args[1], ast.BinOp)]
                self.assertEqual([], unions if oldest < 10 else [], file)
