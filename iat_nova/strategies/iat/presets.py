# SPDX-License-Identifier: Apache-2.0
"""The paper's policies as features of one controller."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Features:
    """Permitted actions of the controller; the paper's policies are presets.

    `avoid_ddio`: cores never get DDIO's ways, at any cost (I/O-iso).
    """

    resize_ddio: bool = True
    resize_cores: bool = True
    shuffle: bool = True
    avoid_ddio: bool = False


PRESETS: Mapping[str, Features] = {
    "baseline": Features(False, False, False, False),
    "core-only": Features(False, True, False, False),
    "io-iso": Features(False, True, False, True),
    "iat": Features(True, True, True, False),
}
"""The paper's comparison policies (section VI-A) as features of one controller."""
