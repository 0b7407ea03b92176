# SPDX-License-Identifier: Apache-2.0
"""Saved settings that are joined: of an earlier and a later saving, and of two agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iat_nova.hardware.kernel.rollback import PARTIAL


def merged(left: Mapping[str, Any], memory: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by part; for a setting in both, the value in `left` is older and counts."""
    return {
        name: joined(left[name], memory[name])
        if name in left and name in memory
        else left.get(name, memory.get(name))
        for name in sorted(left.keys() | memory.keys())
    }


def joined(had: Any, now: Any) -> Any:
    """Return a part's saved settings, with the settings that only `now` has.

    A mark that a whole part was out of reach is dropped.
    """
    found = _extended(had, now)
    if isinstance(found, dict) and PARTIAL in found and PARTIAL not in now:
        del found[PARTIAL]
    return found


def _extended(had: Any, now: Any) -> Any:
    """Return the saved settings, plus keys or registers that only `now` has.

    Registers are lists of lists; each inner list ends with the value.
    """
    if isinstance(had, dict) and isinstance(now, dict):
        return {**now, **{key: _extended(value, now.get(key)) for key, value in had.items()}}
    if isinstance(had, list) and all(isinstance(one, list) for one in had):
        known = [one[:-1] for one in had]
        return had + [one for one in now if one[:-1] not in known]
    return had
