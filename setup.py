# SPDX-License-Identifier: Apache-2.0
"""What pbr before 7 is called by (Debian 13 has 6.1), and the engine; pyproject.toml says all else.

A git tag says the version, in an sdist its metadata. Without both, as in a clone without tags or
an export, it is the release that setup.cfg names.
"""

import configparser
import os
import runpy
import shutil
import subprocess

import setuptools


def tagged() -> bool:
    """Tell whether an sdist's metadata or a git tag says the version."""
    if os.path.exists("PKG-INFO"):
        return True
    if shutil.which("git") is None:
        return False
    asked = ["git", "describe", "--tags", "--abbrev=0"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


if not tagged():
    config = configparser.ConfigParser()
    config.read("setup.cfg")
    os.environ.setdefault("PBR_VERSION", config["metadata"]["version"])
NATIVE = "iat_nova/experiments/engine"
recipe = runpy.run_path(f"{NATIVE}/recipe.py")
engine = setuptools.Extension(
    f"{NATIVE.replace('/', '.')}.engine",
    [f"{NATIVE}/{unit}" for unit in recipe["UNITS"]],
    extra_compile_args=list(recipe["FLAGS"]),
    define_macros=[("IAT_SOURCES", f'"{recipe["digest"]()}"')],
    optional=True,  # without a compiler; a compute host needs no engine
    py_limited_api=True,  # it uses nothing of Python: ctypes loads it
)
setuptools.setup(setup_requires=["pbr>=6.1.1"], pbr=True, ext_modules=[engine])
