# SPDX-License-Identifier: Apache-2.0
"""A virtual environment with the real nova package, and iat-nova-plugin installed beside it.

Nova and what it brings take some 470 MB and 40 s, so the environment is made once:
``$IAT_NOVA_NOVA_VENV`` names one, or ``quickstart-run/nova-venv`` is made where ``$CI`` is true or
the tests are asked for by ``tox -e openstack`` or ``tox -e nova``. No test changes either: the
plugin goes into an environment on top of it, as a controller would install it.
"""

from __future__ import annotations

import atexit
import fcntl
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from typing import Any, ClassVar

ROOT = pathlib.Path(__file__).parents[2]
PLUGIN = ROOT / "iat_nova/nova"
SCRIPTS = pathlib.Path(__file__).parent / "in_nova"
VENV_VARIABLE = "IAT_NOVA_NOVA_VENV"

# All but Nova itself are for tests/nova.
PACKAGES = (
    "nova>=32", "openstack-placement", "keystone", "pymysql", "python-openstackclient",
    "osc-placement",
)  # fmt: skip


class NovaCase(unittest.TestCase):
    """Tests that run scripts under Nova's Python, with iat-nova-plugin installed once a process."""

    python: ClassVar[pathlib.Path]

    @classmethod
    def setUpClass(cls) -> None:
        cls.python = with_plugin(nova_venv())

    def run_in_nova(self, script: str, **arguments: Any) -> Any:
        """Run a script of `in_nova` with JSON in and JSON out."""
        done = self.python_runs(str(SCRIPTS / script), json.dumps(arguments))
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def python_runs(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Nova's Python, away from this source tree."""
        return subprocess.run(
            [str(self.python), *arguments],
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def nova_venv() -> pathlib.Path:
    """Return the environment with Nova, making it where that is wanted. Raises `SkipTest`."""
    named = os.environ.get(VENV_VARIABLE)
    if named:
        return pathlib.Path(named)
    venv = ROOT / "quickstart-run/nova-venv"
    made = venv / ".installed"
    if _holds(made):
        return venv
    if os.environ.get("CI", "").lower() not in ("1", "true"):
        raise unittest.SkipTest(
            "there is no environment with nova (470 MB): run `./quickstart test openstack`, or "
            f"name one in {VENV_VARIABLE}"
        )
    venv.parent.mkdir(exist_ok=True)
    with (venv.parent / "nova-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _holds(made):
            _run(sys.executable, "-m", "venv", str(venv))
            _run(
                str(venv / "bin/python"),
                "-m",
                "pip",
                *_QUIET,
                "install",
                "--prefer-binary",
                *PACKAGES,
            )
            made.write_text("\n".join(PACKAGES))
    return venv


def _holds(made: pathlib.Path) -> bool:
    """Tell whether the environment has all of `PACKAGES`."""
    return made.exists() and made.read_text() == "\n".join(PACKAGES)


def with_plugin(nova: pathlib.Path, *more: str) -> pathlib.Path:
    """Install iat-nova-plugin alone into an environment on top of Nova's; return its Python.

    `more`: further packages beside it.
    """
    return on_top(nova, str(PLUGIN), *more)


@functools.cache
def on_top(base: pathlib.Path, *packages: str) -> pathlib.Path:
    """Install packages alone into an environment on top of another; return its Python."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-nova-openstack-"))
    atexit.register(shutil.rmtree, folder)
    overlay = folder / "venv"
    python = overlay / "bin/python"
    _run(str(base / "bin/python"), "-m", "venv", "--without-pip", str(overlay))
    _site(overlay).joinpath("base.pth").write_text(f"{_site(base)}\n")
    # The build stays out of the source tree: what an older build left there would go in.
    extra = folder / "build.cfg"
    extra.write_text(f"[build]\nbuild_base = {folder}/build\n")
    pip = [str(base / "bin/python"), "-m", "pip", "--python", str(python), *_QUIET]
    _run(*pip, "install", "--no-deps", *packages, DIST_EXTRA_CONFIG=str(extra))
    return python


_QUIET = ("-q", "--disable-pip-version-check")


def _site(venv: pathlib.Path) -> pathlib.Path:
    (found,) = venv.glob("lib/python3*/site-packages")
    return found


def _run(*command: str, **environment: str) -> None:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
