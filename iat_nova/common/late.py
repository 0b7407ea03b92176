# SPDX-License-Identifier: Apache-2.0
"""Modules of others that are loaded when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types


def load(name: str) -> None:
    """Put a module in place that loads the named one when an attribute is first asked for.

    A module that is loaded already, or is not installed, stays as it is. The standard library's
    `LazyLoader` does not do here: an import of a module that is in place asks for ``__spec__``,
    which makes it load the module.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None:
        return
    module = types.ModuleType(name)
    module.__spec__ = spec

    def ask(attribute: str) -> object:
        if sys.modules.get(name) is module:
            del sys.modules[name]
        return getattr(importlib.import_module(name), attribute)

    module.__dict__["__getattr__"] = ask
    sys.modules[name] = module
