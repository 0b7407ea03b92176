# SPDX-License-Identifier: Apache-2.0
"""One sample: regroup, gather a tick, detect, size. Pure: all memory is in the `A4State`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from iat_nova.experiments.rivals.a4 import detection, thresholds, zones
from iat_nova.experiments.rivals.a4 import layout as layouts
from iat_nova.experiments.rivals.a4.reading import pooled, read
from iat_nova.experiments.rivals.a4.state import (
    A4Memory,
    A4Phase,
    A4State,
    DeviceKind,
    Label,
    Zones,
)
from iat_nova.experiments.rivals.a4.thresholds import LEAST_WAYS
from iat_nova.model import (
    DDIO,
    Action,
    Decision,
    DeviceModel,
    DomainInventory,
    Layout,
    Message,
    Parameters,
    Priority,
    Sample,
    Step,
    Tenant,
    message,
)

Outcome = tuple[A4Memory, int | None, tuple[Message, ...], tuple[Step, ...]]
"""Memory, the rule that applied, why, and steps."""


class A4:
    """The A4 strategy; see the package.

    Thresholds are fixed, so the policy's parameters are ignored.
    """

    state_type = A4State
    phases = tuple(phase.value for phase in A4Phase)
    rules = tuple((n, before.value, after.value) for n, before, after, _ in zones.TRANSITIONS)

    def __init__(self, parameters: Parameters | None = None) -> None:
        del parameters

    @staticmethod
    def thresholds(parameters: Parameters) -> tuple[Message, ...]:
        """Return the strategy's own thresholds."""
        del parameters
        return (
            message("threshold-t1", share=thresholds.HIT_CHANGE),
            message("threshold-t2", percent=thresholds.DDIO_MISS_PERCENT),
            message("threshold-t3", percent=thresholds.STORAGE_PERCENT),
            message("threshold-t4", percent=thresholds.STORAGE_LLC_MISS_PERCENT),
            message("threshold-t5", percent=thresholds.LLC_MISS_PERCENT),
        )

    def initial(
        self, inventory: DomainInventory, at_s: float, layout: Layout | None = None
    ) -> A4State:
        """Return the state before the first step.

        `layout`: the agent's layout on the hardware, or None.
        """
        del inventory, at_s
        return A4State(layout=layout)

    def step(
        self, state: A4State, inventory: DomainInventory, sample: Sample
    ) -> tuple[A4State, Decision]:
        """Decide one sample: every second sample completes a tick."""
        here = dataclasses.replace(
            state,
            iteration=state.iteration + 1,
            labels=tuple(_label(tenant) for tenant in inventory.tenants),
            domain=inventory.domain,
        )
        pending: Sample | None = None
        if here.labels != state.labels or here.domain != state.domain:
            outcome = _regroup(state, here)
        elif state.pending is None:
            outcome, pending = (state.memory, None, (message("a4-first-half"),), ()), sample
        else:
            outcome = _tick(here, state.pending, sample)
        layout = layouts.layout(inventory, here.labels, outcome[0].zones, outcome[0].antagonists)
        after = dataclasses.replace(here, memory=outcome[0], layout=layout, pending=pending)
        return after, _decision(state, after, inventory, sample, outcome)


def _label(tenant: Tenant) -> Label:
    """Return a tenant in A4's terms.

    A storage tenant has a whole PCI device other than a network card, according to libvirt and
    sysfs. All other devices named by a PCI address belong to the slicing model.
    """
    kind = DeviceKind.NETWORK if tenant.io else DeviceKind.CORES
    if tenant.model is DeviceModel.NONE and tenant.has_device:
        kind = DeviceKind.STORAGE
    return Label(tenant.id, tenant.priority is not Priority.BE, kind)


def _regroup(before: A4State, here: A4State) -> Outcome:
    """Update the memory after a change of tenants or domain.

    Unchanged antagonists stay antagonists. Arrived tenants restart the zones.
    """
    was, now = {one.id: one for one in before.labels}, {one.id: one for one in here.labels}
    launched = tuple(one for one in now if one not in was)
    memory, rule = before.memory, None
    kept = tuple(one for one in memory.antagonists if now.get(one) == was.get(one))
    memory = dataclasses.replace(memory, antagonists=kept)
    if launched:
        rule = zones.LAUNCHED[memory.phase]
        memory = dataclasses.replace(
            memory,
            phase=A4Phase.INIT,
            zones=Zones(LEAST_WAYS, memory.zones.trash),
            flags=dataclasses.replace(memory.flags, grow=True),
            launched=(*(one for one in memory.launched if one in now), *launched),
        )
    steps = [Step(Action.ADOPT, one, message("came")) for one in launched]
    steps += [Step(Action.ADOPT, one, message("left")) for one in was if one not in now]
    steps += [
        Step(Action.ADOPT, one, message("changed"))
        for one in now
        if one in was and now[one] != was[one]
    ]
    steps = steps or [Step(Action.ADOPT, "layout", message("domain-changed"))]
    return memory, rule, (zones.meaning(rule),) if rule else (), tuple(steps)


def _tick(here: A4State, first: Sample, second: Sample) -> Outcome:
    """Run the policy once, on two samples."""
    assert here.domain is not None
    labels, start = here.labels, here.memory
    now = read(first, second, pooled(labels, start.antagonists))
    memory, guilty = detection.antagonists(start, labels, now)
    memory, changed = detection.another_load(memory, labels, now)
    rule = zones.DETECTED if guilty else zones.CHANGED
    why: tuple[Message, ...] = ()
    sized = zones.size(memory, labels, now, layouts.low_max(here.domain))
    steps = (*guilty, *changed)
    if sized is not None:
        memory, number, why = sized
        steps = (*steps, *_resized(start.zones, memory.zones, why))
        if start.phase is not A4Phase.STABLE:
            rule = number
    memory = dataclasses.replace(memory, previous=now, launched=())
    if sized is None:
        return memory, None, () if steps else detection.unchanged(start, labels, now), steps
    return memory, rule, (zones.meaning(rule), *why), steps


def _resized(before: Zones, after: Zones, why: tuple[Message, ...]) -> list[Step]:
    """Return a step for each zone with a new size."""
    pairs = (
        ("low-zone-size", before.low, after.low),
        ("trash-ways-size", before.trash, after.trash),
    )
    steps = []
    for code, was, now in pairs:
        if was != now:
            action = Action.UNDO if why else Action.GROW if now > was else Action.SHRINK
            reason = message(code, ways=now)
            if why:
                reason = message("size-because", size=reason, causes=why)
            steps.append(Step(action, "layout", reason, was, now))
    return steps


def _switched(before: Layout | None, after: Layout) -> Iterator[Step]:
    """Yield a step for each root port whose DDIO is switched off or on."""
    was = set(before.dca_off) if before is not None else set()
    for port in sorted(was ^ set(after.dca_off)):
        gone = port in after.dca_off
        action = Action.SHRINK if gone else Action.GROW
        yield Step(action, DDIO, message("dca-off" if gone else "dca-on", port=port))


def _decision(
    before: A4State, after: A4State, inventory: DomainInventory, sample: Sample, outcome: Outcome
) -> Decision:
    """Return the decision with all steps."""
    assert after.layout is not None
    _, rule, why, steps = outcome
    steps = (*steps, *_switched(before.layout, after.layout))
    moved = after.layout.moved_since(before.layout)
    if before.layout is None and not after.layout.dca_off:
        moved = tuple(one for one in moved if one != DDIO)  # DDIO's ways are as found
    return Decision(
        domain=sample.domain,
        iteration=after.iteration,
        at_s=sample.taken_at_s,
        stable=not (steps or moved),
        phase_before=before.memory.phase.value,
        phase=after.memory.phase.value,
        rule=rule,
        changes=(),
        steps=steps,
        allocation=after.layout.allocation(one.id for one in inventory.tenants),
        layout=after.layout,
        moved=moved,
        why=why,
    )
