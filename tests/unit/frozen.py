# SPDX-License-Identifier: Apache-2.0
"""Which values can be changed."""

import dataclasses
import importlib
import inspect
import pkgutil
import types


def values(module: types.ModuleType) -> dict[str, type]:
    """Return the dataclasses that a module defines."""
    classes = inspect.getmembers(module, inspect.isclass)
    return {
        name: kind
        for name, kind in classes
        if dataclasses.is_dataclass(kind) and kind.__module__ == module.__name__
    }


def changeable(module: types.ModuleType) -> list[str]:
    """Return the fields that take an assignment, and the dataclasses that take other attributes."""
    found = []
    for name, kind in values(module).items():
        one = object.__new__(kind)
        found += [name] if hasattr(one, "__dict__") else []
        for field in dataclasses.fields(kind):
            try:
                setattr(one, field.name, None)
            except dataclasses.FrozenInstanceError:
                continue
            found.append(f"{name}.{field.name}")
    return found


def changeable_in(package: types.ModuleType) -> dict[str, list[str]]:
    """Return what `changeable` finds in the modules of a package, by the module's name."""
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    found = {
        name: changeable(importlib.import_module(f"{package.__name__}.{name}")) for name in names
    }
    return {name: values for name, values in found.items() if values}
