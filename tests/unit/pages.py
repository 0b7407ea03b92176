# SPDX-License-Identifier: Apache-2.0
"""The documentation's own modules, which are in no package."""

import functools
import importlib.util
import pathlib
import sys

SOURCE = pathlib.Path(__file__).parents[2] / "doc" / "source"
sys.path.append(str(SOURCE / "_ext"))  # extensions import each other, as in Sphinx


@functools.cache
def extension(name):
    """Return a module of the pages' extensions."""
    spec = importlib.util.spec_from_file_location(name, SOURCE / "_ext" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
