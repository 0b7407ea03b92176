# SPDX-License-Identifier: Apache-2.0
"""All ways for everybody; while DDIO misses are high, best effort keeps to the lowest two."""

import dataclasses

from iat_nova.model import Allocation, Decision, Group, Layout, Priority, WayMask, verbatim


@dataclasses.dataclass(frozen=True)
class State:
    """All that is remembered: plain data, so that decisions can be recorded and replayed."""

    iteration: int = 0
    phase: str = "open"
    layout: Layout | None = None


class Confine:
    """Two phases and the two rules between them."""

    state_type = State
    phases = ("open", "confined")
    rules = ((1, "open", "confined"), (2, "confined", "open"))

    def __init__(self, parameters):
        self.low_per_s = parameters.threshold_miss_low_per_s

    def initial(self, inventory, at_s, layout=None):
        return State(layout=layout)

    def step(self, state, inventory, sample):
        misses_per_s = sample.ddio_misses_per_s or 0.0
        phase = "confined" if misses_per_s > self.low_per_s else "open"
        rule = {"open": 2, "confined": 1}[phase] if phase != state.phase else None
        layout = self._layout(inventory, phase)
        after = State(state.iteration + 1, phase, layout)
        moved = layout.moved_since(state.layout)
        counts = {t.id: layout.mask_of(t.id).count for t in inventory.tenants}
        return after, Decision(
            domain=sample.domain, iteration=after.iteration, at_s=sample.taken_at_s,
            stable=not moved, phase_before=state.phase, phase=phase, rule=rule,
            why=(verbatim(f"DDIO misses {misses_per_s:.0f}/s"),) if rule else (),
            changes=(), steps=(),
            allocation=Allocation(layout.ddio.count, counts), layout=layout, moved=moved,
        )  # fmt: skip

    def _layout(self, inventory, phase):
        """PC masks are wide; those of best effort lie inside them."""
        everything = WayMask.span(0, inventory.domain.ways)
        small = WayMask.span(0, 2) if phase == "confined" else everything
        ddio = inventory.domain.ddio_found or WayMask.span(inventory.domain.ways - 2, 2)
        masks = {True: small, False: everything}
        members = {best_effort: [] for best_effort in masks}
        for tenant in inventory.tenants:
            members[tenant.priority is Priority.BE].append(tenant.id)
        return Layout(
            ddio, tuple(Group(tuple(ids), masks[be]) for be, ids in members.items() if ids)
        )
