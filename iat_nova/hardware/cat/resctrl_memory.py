# SPDX-License-Identifier: Apache-2.0
"""What an agent knows of its resctrl groups, in one value that another process can take over."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from iat_nova.hardware.api import ClassMask
from iat_nova.model import WayMask


@dataclasses.dataclass(slots=True)
class ResctrlMemory:
    """The knowledge of an instance about its groups, with which another process can continue.

    By cache domain: `classes` as requested, `slots` (class -> number of its group), `online` CPUs
    with their stamps (`Topology.plugged`), `read_back` (effective masks after our last write), and
    `default_found`, the default group's original masks by resource. By group: online `cpus` as last
    written, and `limits` of memory bandwidth by domain. `plugged`: stamps of these CPUs at the time
    of the write. `made`: numbers of our groups that exist. `inherited`: lines of ``schemata`` that
    our groups have from the default group; None before the first group.
    """

    classes: dict[int, dict[str, ClassMask]] = dataclasses.field(default_factory=dict)
    slots: dict[int, dict[str, int]] = dataclasses.field(default_factory=dict)
    made: set[int] = dataclasses.field(default_factory=set)
    cpus: dict[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    plugged: dict[int, int | None] = dataclasses.field(default_factory=dict)
    online: dict[int, dict[int, int | None]] = dataclasses.field(default_factory=dict)
    read_back: dict[int, Mapping[str, WayMask]] = dataclasses.field(default_factory=dict)
    default_found: dict[int, dict[str, WayMask]] = dataclasses.field(default_factory=dict)
    inherited: Mapping[str, str] | None = None
    limits: dict[int, dict[int, int]] = dataclasses.field(default_factory=dict)
