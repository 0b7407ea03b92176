# SPDX-License-Identifier: Apache-2.0
"""What the machine may do: the paper's policies as switches of one controller."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Switches:
    """What the controller may do. The paper's policies are presets of it.

    `avoid_ddio`: DDIO's ways are never given to cores, whatever that costs them (I/O-iso).
    """

    resize_ddio: bool = True
    resize_cores: bool = True
    shuffle: bool = True
    avoid_ddio: bool = False


PRESETS: Mapping[str, Switches] = {
    "baseline": Switches(False, False, False, False),
    "core-only": Switches(False, True, False, False),
    "io-iso": Switches(False, True, False, True),
    "iat": Switches(True, True, True, False),
}
"""The paper's comparison policies (section VI-A) as switches of one controller."""
