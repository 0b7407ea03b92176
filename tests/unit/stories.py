# SPDX-License-Identifier: Apache-2.0
"""A small host and what happened on it, for tests of the history and of what is told from it."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import subprocess
import sys
import textwrap
import threading

from iat_nova.model import (
    Action,
    Allocation,
    Attachment,
    AttachmentKind,
    CacheDomain,
    Change,
    Decision,
    DeviceModel,
    DomainInventory,
    Facts,
    Group,
    Guest,
    HostFacts,
    Layout,
    Parameters,
    Priority,
    Quantity,
    Rates,
    Sample,
    Step,
    Tenant,
    TenantKind,
    WayMask,
    WayRequest,
    message,
    verbatim,
)
from iat_nova.model.reasons import Code, Reason
from iat_nova.store.records import Inventory, Iteration, Status
from iat_nova.store.writer import History
from iat_nova.strategies import registry
from iat_nova.strategies.iat.fsm import NUMBERED
from iat_nova.strategies.iat.state import Cause, FsmState, Grant, IatState
from iat_nova.strategies.outlook import Outlook

NIGHT = 1_795_230_000.0  # a moment on the wall clock
REASON = Reason(Code.OTHER_OWNER, verbatim("because"))

PC = "6f9619ff-8b86-d011-b42d-00cf4fc964ff/3"
BE = "0b6b2c1a-4b0e-4c8e-9a51-2c8d8e8f0a11/4"


class SetClock:
    """A clock that stands where a test puts it."""

    def __init__(self, wall_s: float = NIGHT) -> None:
        self.wall_s = wall_s

    def now(self) -> float:
        return self.wall_s - NIGHT

    def wall(self) -> float:
        return self.wall_s

    def wait(self, wake: threading.Event, seconds: float) -> bool:
        self.wall_s += seconds
        return wake.is_set()


DOMAIN = CacheDomain(
    id=0, cpus=tuple(range(18)), ways=11, classes=16, ddio_found=WayMask(0x600), way_bytes=2359296
)


def inventory(be_name: str = "be1") -> DomainInventory:
    """The switch, a PC guest on a VF and a BE guest."""
    return DomainInventory(
        DOMAIN,
        (
            Tenant(
                "stack",
                "vswitch",
                TenantKind.STACK,
                Priority.STACK,
                True,
                (2, 3),
                WayRequest(1, 2, 8),
                DeviceModel.AGGREGATION,
                devices=("0000:18:00.0",),
            ),
            Tenant(
                PC,
                "pc1",
                TenantKind.GUEST,
                Priority.PC,
                True,
                (4, 5),
                WayRequest(2, 3, 8),
                DeviceModel.SLICING,
                "gold",
                "nfv.large",
                devices=("0000:3b:02.1",),
            ),
            Tenant(
                BE,
                be_name,
                TenantKind.GUEST,
                Priority.BE,
                False,
                (6, 7),
                WayRequest(1, 3, 8),
                flavor="m1.small",
                warnings=(verbatim("no extra specs: Nova is older than 32"),),
            ),
        ),
    )


def facts() -> Facts:
    """What the hypervisor showed of it."""
    return Facts(
        HostFacts("compute-7", (DOMAIN,), tuple(range(18))),
        (
            Guest(
                PC.partition("/")[0],
                3,
                "instance-00000003",
                "pc1",
                "nfv.large",
                {"iat:priority": "PC"},
                None,
                (4, 5),
                (),
                attachments=(Attachment(AttachmentKind.VF, "0000:3b:02.1"),),
            ),
        ),
        None,
    )


def layout(ddio_ways: int) -> Layout:
    """Stack 2, PC 3 and BE 3 ways from below; DDIO from the top."""
    return Layout(
        WayMask.span(11 - ddio_ways, ddio_ways),
        (
            Group(("stack",), WayMask.span(0, 2)),
            Group((PC,), WayMask.span(2, 3)),
            Group((BE,), WayMask.span(5, 3)),
        ),
    )


def state(number: int, ddio_ways: int, fsm: FsmState = FsmState.LOW_KEEP) -> IatState:
    """The controller's memory, with floats that must keep every bit."""
    return IatState(
        DOMAIN,
        number,
        fsm,
        Allocation(ddio_ways, {"stack": 2, PC: 3, BE: 3}),
        layout(ddio_ways),
        reference=sample(number - 1.1),
        grants=(Grant("stack", Cause.CORE_DEMAND, 1e6 / 3, 0.1),),
    )


def sample(at_s: float, misses_per_s: float = 0.4e6) -> Sample:
    """Rates a second of the three."""
    return Sample(
        0,
        at_s,
        1.0,
        {
            "stack": Rates(4.1e9, 4.6e9, 21e6, 1.2e6),
            PC: Rates(2.9e9, 4.6e9, 12e6, 0.9e6),
            BE: Rates(1.2e9, 4.6e9, 3e6, 2.2e6 / 3),
        },
        ddio_hits_per_s=31e6,
        ddio_misses_per_s=misses_per_s,
    )


def quiet(number: int, wall_s: float, ddio_ways: int = 2, inventory_id: int = 1) -> Iteration:
    """An iteration in which nothing moved."""
    return Iteration(
        at_s=float(number),
        wall_s=wall_s,
        domain=0,
        inventory_id=inventory_id,
        state=state(number, ddio_ways),
        sample=sample(float(number)),
        decision=Decision(
            0,
            number,
            float(number),
            True,
            FsmState.LOW_KEEP.value,
            FsmState.LOW_KEEP.value,
            None,
            (),
            (),
            Allocation(ddio_ways, {"stack": 2, PC: 3, BE: 3}),
            layout(ddio_ways),
            (),
        ),
        effective={"stack": WayMask(0x3), PC: WayMask(0x1C), BE: WayMask(0xE0)},
        timings_us={"read": 40.5, "decide": 12.2},
        layout_before=layout(ddio_ways),
    )


def burst(number: int, wall_s: float, ddio_ways: int = 2, inventory_id: int = 1) -> Iteration:
    """DDIO's misses passed the threshold: transition 1, and DDIO grows by a way."""
    before = quiet(number, wall_s, ddio_ways, inventory_id)
    decision = dataclasses.replace(
        before.decision,
        stable=False,
        phase=FsmState.IO_DEMAND.value,
        rule=1,
        why=(message(NUMBERED[1].meaning),),
        changes=(Change("ddio", Quantity.DDIO_MISSES, 0.4e6, 4.2e6),),
        steps=(
            Step(
                Action.GROW,
                "ddio",
                verbatim("misses 4.2 M/s above 1 M/s"),
                ddio_ways,
                ddio_ways + 1,
            ),
            Step(Action.REFUSE, PC, verbatim("no idle way")),
        ),
        allocation=Allocation(ddio_ways + 1, {"stack": 2, PC: 3, BE: 3}),
        layout=layout(ddio_ways + 1),
        moved=("ddio",),
    )
    return dataclasses.replace(
        before,
        sample=sample(float(number), misses_per_s=4.2e6),
        decision=decision,
        shown={BE: 0.012},
        outlook=Outlook.ALL_FAILED,
    )


def status(**changes: object) -> Status:
    """What a healthy agent says of itself."""
    return dataclasses.replace(
        Status(
            "enforce",
            4711,
            "1.0",
            "iat",
            1.0,
            NIGHT - 60,
            Parameters(),
            phases=registry.phases("iat"),
            rules=registry.rules("iat"),
        ),
        **changes,
    )


def tell(
    history: History,
    *,
    clock: SetClock,
    be_name: str = "be1",
    seconds: int = 12,
    agent: Status | None = None,
) -> None:
    """Write a small story: quiet, a burst that lets DDIO grow three times, quiet again."""
    history.status(agent or status())
    row = history.inventory(clock.wall(), facts(), {0: inventory(be_name)})
    history.event(clock.wall(), "info", verbatim("agent started"))
    ways = itertools.chain([2, 2, 2, 2, 3, 4], itertools.repeat(5))
    for number, ddio_ways in zip(range(1, seconds + 1), ways, strict=False):
        clock.wall_s += 1
        make = burst if 4 <= number <= 6 else quiet
        history.record(make(number, clock.wall_s, ddio_ways, row))


def picture(be_name: str = "be1") -> Inventory:
    """The inventory as a value."""
    return Inventory(NIGHT, facts(), {0: inventory(be_name)})


WRITER = """
    import os, signal, sys
    from iat_nova.store.writer import History
    from tests.unit import stories
    clock = stories.SetClock()
    history = History(sys.argv[1], max_age_s=1e6, max_bytes=1 << 23, clock=clock)
    stories.tell(history, clock=clock)
    assert history.flush(60.0), history.problem
    if sys.argv[2] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    history.close()
"""
"""A program that writes the story to its first argument, then dies or says goodbye."""


def python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=pathlib.Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
