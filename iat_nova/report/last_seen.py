# SPDX-License-Identifier: Apache-2.0
"""When a tenant or port that is not here now was seen last."""

from __future__ import annotations

import itertools

from iat_nova.store.reader import HistoryReader


def last_seen(reader: HistoryReader, wall_s: float) -> float:
    """Return when the tenants of the inventory of `wall_s` were measured last.

    An inventory is stored when it changes: its own time is when the tenants were found.
    """
    newer = [*itertools.takewhile(lambda one: one.wall_s > wall_s, reader.inventories())]
    if not newer:
        return wall_s
    last = reader.at(newer[-1].wall_s)
    for _ in range(_BACK):
        if last is None or last.iteration.wall_s <= wall_s:
            break
        its = reader.inventory(last.iteration.inventory_id)
        if its is not None and its.wall_s <= wall_s:
            return last.iteration.wall_s
        last = reader.before(last)
    return wall_s


_BACK = 3  # iterations: the first ones of the next inventory may bear its time
