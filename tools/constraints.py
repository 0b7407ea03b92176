# SPDX-License-Identifier: Apache-2.0
"""Print the constraints of an installation by pip: what this environment has of all that is needed.

    .venv/bin/python -m tools.constraints >etc/iat-nova/constraints.txt

Run where the tests have passed, in a new environment without the system's packages.
"""

from __future__ import annotations

import itertools
import pathlib
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = pathlib.Path(__file__).parents[1]
EXTRAS = ("metrics", "sim", "dask")
"""The extras that the page on installing names."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BUILD = ("pbr", "setuptools")
DISTRIBUTION = ("libvirt-python",)
"""What a compute host has from its distribution, in the version of its libvirt."""


def requirements(name: str, extras: tuple[str, ...]) -> Iterator[Requirement]:
    """Yield what a distribution requires under any Python; nothing if it is not installed."""
    try:
        lines = metadata.requires(name) or ()
    except metadata.PackageNotFoundError:
        return
    for requirement in map(Requirement, lines):
        for python, extra in itertools.product(PYTHONS, extras):
            here = {"python_version": python, "python_full_version": f"{python}.0", "extra": extra}
            if requirement.marker is None or requirement.marker.evaluate(here):
                yield requirement
                break


def closure() -> list[str]:
    """Return the names of all distributions that an installation has, sorted."""
    names: set[str] = set(BUILD)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = [line.partition("#")[0] for line in (ROOT / "requirements.txt").read_text().splitlines()]
    for extra in EXTRAS:
        own += project["optional-dependencies"][extra]
    waiting = list(map(Requirement, own))
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in names and name not in DISTRIBUTION:
            names.add(name)
            waiting += requirements(name, ("", *requirement.extras))
    return sorted(names)


def main() -> int:
    """Print a line for each; a name that is not installed here is one of another Python."""
    print("# Versions with which the tests passed, for pip; made by tools/constraints.py.")
    for name in closure():
        try:
            print(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            print(f"constraints: not installed: {name}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
