# SPDX-License-Identifier: Apache-2.0
"""Virtual environments of programs that drive the test's cloud; each is made once."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]


def made(
    name: str,
    variable: str,
    packages: tuple[str, ...],
    megabytes: int,
    suite: str = "openstack",
) -> pathlib.Path:
    """Return the environment with the packages, making it where ``$CI`` is true.

    The environment variable `variable` may name one instead of ``quickstart-run/NAME-venv``; a run
    of `suite` makes it. Raises `SkipTest`.
    """
    if named := os.environ.get(variable):
        return pathlib.Path(named)
    venv = ROOT / f"quickstart-run/{name}-venv"
    done = venv / ".installed"
    if done.exists():
        return venv
    if os.environ.get("CI", "").lower() not in ("1", "true"):
        raise unittest.SkipTest(
            f"there is no environment with {name} ({megabytes} MB): "
            f"run `./quickstart test {suite}`, or name one in {variable}"
        )
    venv.parent.mkdir(exist_ok=True)
    with (venv.parent / f"{name}-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
            quiet = ["-q", "--disable-pip-version-check"]
            subprocess.run(
                [venv / "bin/python", "-m", "pip", *quiet, "install", *packages], check=True
            )
            done.touch()
    return venv
