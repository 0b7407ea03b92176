# SPDX-License-Identifier: Apache-2.0
"""A decision as plain data, for programs: what `iat-nova explain -f json` prints."""

from __future__ import annotations

from typing import Any

from iat_nova.model import DomainInventory, Layout
from iat_nova.report import waymap, words
from iat_nova.store import records
from iat_nova.store.records import Iteration, SettingsInForce


def as_data(
    iteration: Iteration, inventory: DomainInventory, settings: SettingsInForce | None
) -> dict[str, Any]:
    """Return the content of the page as plain data, for programs."""
    decision = iteration.decision
    names = words.Names(inventory, iteration.former)
    plain = records.unstructure(decision)
    plain["why"] = [names.sentence(one) for one in decision.why]
    for step, row in zip(decision.steps, plain["steps"], strict=True):
        row["text"] = names.sentence(step.reason)
    plain["layout"] = _plain_layout(decision.layout)
    return {
        "iteration": decision.iteration,
        "domain": decision.domain,
        "wall_s": iteration.wall_s,
        "written": iteration.effective is not None,
        "way_map": waymap.text(decision.layout, inventory),
        "layout_before": iteration.layout_before and _plain_layout(iteration.layout_before),
        "decision": plain,
        "effective": iteration.effective
        and {subject: str(mask) for subject, mask in iteration.effective.items()},
        "sample": records.unstructure(iteration.sample),
        "timings_us": dict(iteration.timings_us),
        "tenants": {**iteration.former, **{one.id: one.name for one in inventory.tenants}},
        "settings": records.unstructure(settings),
    }


def _plain_layout(layout: Layout) -> dict[str, Any]:
    """Return a layout as plain data, with masks as in all other output: ``0x7ff``."""
    plain: dict[str, Any] = records.unstructure(layout)
    plain["ddio"] = str(layout.ddio)
    for group, row in zip(layout.groups, plain["groups"], strict=True):
        row["mask"] = str(group.mask)
    for one, row in zip(layout.ports, plain["ports"], strict=True):
        row["mask"] = str(one.mask)
    if layout.lent is not None:
        plain["lent"]["mask"] = str(layout.lent.mask)
    return plain
