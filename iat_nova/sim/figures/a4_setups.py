# SPDX-License-Identifier: Apache-2.0
"""A4, figure 13b: what is drawn of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iat_nova.sim.figures.api import Row
from iat_nova.sim.figures.summary import number


def performance(rows: Sequence[Row]) -> Mapping[str, Mapping[str, Sequence[float]]]:
    """Return each tenant's performance in zones over that in a shared LLC: IPC, or less latency."""
    shared, zones = rows
    found = {}
    for column in shared:
        name = column.removesuffix("_ipc").removesuffix("_latency_us")
        if name != column:
            ratio = number(zones, column) / max(number(shared, column), 1e-9)
            found[name] = [1 / ratio if column.endswith("_latency_us") and ratio else ratio]
    return {"zones": found}
