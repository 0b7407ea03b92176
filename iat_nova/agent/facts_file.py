# SPDX-License-Identifier: Apache-2.0
"""What was found on a host as a file, for policies to be tried elsewhere: in CI, for others."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import yaml

from iat_nova.common import files
from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.model import Facts
from iat_nova.store import records
from iat_nova.store.records import RecordError

ABOUT = "# What iat-nova found on a host: for `iat-nova policy check --facts` and its like.\n"
_CPUS = frozenset(
    ("cpus", "online_cpus", "dedicated_cpus", "floating_cpus", "emulator_cpus", "pmd_cpus")
)


def dump(facts: Facts) -> str:
    """Return the facts as YAML, CPUs in ranges."""
    plain = json.loads(json.dumps(records.unstructure(facts)))  # words of enumerations as text
    written: str = yaml.safe_dump(_short(plain), sort_keys=False, allow_unicode=True)
    return ABOUT + written


def load(path: str | pathlib.Path) -> Facts:
    """Return the facts of a file. Raises `OSError`, `RecordError`."""
    try:
        plain = yaml.safe_load(files.read_bytes(path).decode("utf-8-sig", "replace"))
    except (yaml.YAMLError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(plain, dict) or "host" not in plain:
        raise RecordError(f"{path} holds no facts of a host: `iat-nova policy facts` writes some")
    try:
        return records.structure({"guests": [], "switch": None, **_long(plain)}, Facts)
    except (RecordError, ValueError) as error:
        raise RecordError(f"{path}: {error}") from error


def _short(part: Any) -> Any:
    """Write CPUs as ranges."""
    if isinstance(part, list):
        return [_short(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: format_cpus(value) if key in _CPUS else _short(value) for key, value in part.items()
    }


def _long(part: Any) -> Any:
    if isinstance(part, list):
        return [_long(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: sorted(parse_cpus(str(value)))
        if key in _CPUS and isinstance(value, str | int)
        else _long(value)
        for key, value in part.items()
    }
