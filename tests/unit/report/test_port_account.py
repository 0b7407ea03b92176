# SPDX-License-Identifier: Apache-2.0
"""A port of devices explained: its present devices, its decisions, and why it has no own ways."""

import dataclasses

from iat_nova.model import (
    Action,
    DevicePort,
    Group,
    Layout,
    Message,
    Pause,
    PortGroup,
    Priority,
    Rates,
    Step,
    WayMask,
    WayRequest,
    message,
)
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import port_account
from iat_nova.report.port_account import PortAccount
from iat_nova.report.view import gather
from iat_nova.store.reader import HistoryReader
from iat_nova.strategies.registry import DEFAULT
from tests.unit import stories
from tests.unit.report.test_moments import MomentCase

PORT, FUNCTION = "0000:5e:00.0", "0000:5e:02.1"
DDIO = stories.layout(2)
OWN = dataclasses.replace(DDIO, ports=(PortGroup((PORT,), WayMask(0x100)),))
ASIDE = message("ports-aside", ports=(PORT,))
KEPT = message("kept", move=ASIDE, cause=message("speeds", gain=0.2))


class PortAccountTest(MomentCase):
    def seen(
        self, *ports: DevicePort, priority: Priority = Priority.BE, guaranteed: int = 0
    ) -> int:
        """Record ports, and a guest with a device behind each; ways guaranteed to each tenant."""
        first = stories.inventory()
        ways = WayRequest(max(1, guaranteed), 3, 8, guaranteed)
        *others, last = (dataclasses.replace(one, ways=ways) for one in first.tenants)
        owner = dataclasses.replace(last, priority=priority, ports=tuple(one.id for one in ports))
        inventory = dataclasses.replace(
            first,
            domain=dataclasses.replace(first.domain, device_ports=ports),
            tenants=(*others, owner),
        )
        return self.history.inventory(self.clock.wall_s, stories.facts(), {0: inventory})

    def decide(
        self,
        number: int,
        row: int,
        layout: Layout,
        *steps: Step,
        before: Layout | None = None,
        why: tuple[Message, ...] = (),
        saves: float = 0.0,
        misses_per_s: float = 4.2e6,
    ) -> None:
        """Record an iteration; LLC hits save the guest this share of its cycles."""
        made = stories.burst(number, stories.NIGHT + number, inventory_id=row)
        rates = Rates(1.2e9, 4.6e9, saves * 4.6e7 + 1e5, 1e5)
        sample = stories.sample(float(number), misses_per_s)
        sample = dataclasses.replace(sample, tenants={**sample.tenants, stories.BE: rates})
        decision = dataclasses.replace(
            made.decision,
            layout=layout,
            steps=steps,
            moved=(PORT,) if before is not None else (),
            why=why,
            rule=None,
            phase="rest",
            phase_before="measure" if why else "rest",
        )
        made = dataclasses.replace(made, sample=sample, decision=decision, effective=None)
        self.history.record(dataclasses.replace(made, layout_before=before or layout))

    def told(self, address: str = PORT, pause: Pause | None = None) -> PortAccount:
        """Return the explanation of the newest recorded port with a device of this address."""
        self.assertTrue(self.history.flush(60.0), self.history.problem)
        with HistoryReader(self.path) as reader:
            pictures = ((one, port_account.find(one, address)) for one in reader.inventories())
            picture, found = next(one for one in pictures if one[1] is not None)
            assert found is not None
            return port_account.give(reader, gather(reader, pause), found, picture.wall_s)

    def page(self, address: str = PORT, pause: Pause | None = None) -> str:
        """Return the page as one line."""
        return " ".join(port_account.page(self.told(address, pause)).split())

    def test_a_device_behind_it_went(self) -> None:
        """The port is still here, with its own ways."""
        row = self.seen(DevicePort(PORT, (PORT, FUNCTION)))
        self.decide(1, row, OWN, Step(Action.TRY, "ddio", ASIDE, ports=(PORT,)), before=DDIO)
        self.clock.wall_s += 2
        self.decide(3, self.seen(DevicePort(PORT, (PORT,))), OWN)
        page = self.page("5e:02.1")
        self.assertIn("Class one of its own Domain 0 port 0000:5e:00.0 has 1 way 0x100", page)
        self.assertNotIn("not here", page)
        self.assertNotIn(FUNCTION, page)

    def test_it_went(self) -> None:
        """What went has no class and no ways."""
        self.decide(1, self.seen(DevicePort(PORT, (PORT,))), DDIO)
        self.clock.wall_s += 2
        self.decide(3, self.seen(), DDIO)
        page = self.page()
        self.assertIn("it is not on this host now", page)
        self.assertNotIn("Class", page)
        self.assertNotIn("DDIO's 2 ways", page)

    def test_nothing_is_written(self) -> None:
        """An agent that observes or is paused has written none of the ways told."""
        status = stories.status(reasons=(Reason(next(iter(Code)), message("mode-observe")),))
        self.history.status(status)
        row = self.seen(DevicePort(PORT, (PORT,)))
        self.decide(1, row, OWN, Step(Action.TRY, "ddio", ASIDE, ports=(PORT,)), before=DDIO)
        page = self.page(pause=Pause(stories.NIGHT, None, ""))
        self.assertIn("Why - the agent only observes: mode = observe", page)
        self.assertIn("- the masks are frozen (iat-nova pause)", page)

    def test_kept_despite_much_else(self) -> None:
        """Neither ends of searches nor many later decisions hide what kept its ways."""
        row = self.seen(DevicePort(PORT, (PORT,)))
        self.decide(1, row, OWN, Step(Action.TRY, "ddio", ASIDE, ports=(PORT,)), before=DDIO)
        self.decide(2, row, OWN, Step(Action.KEEP, "ddio", KEPT, ports=(PORT,)))
        causes = (message("too-little", move=ASIDE, promise=0.001, least=0.006),)
        for number in range(3, 14):
            self.decide(number, row, OWN, why=(message("nothing-to-try", causes=causes),))
        self.assertEqual([2, 1, 1], [one.iteration for one in self.told().turns])
        for number in range(14, 26):
            self.decide(number, row, OWN, Step(Action.TRY, "ddio", ASIDE, ports=(PORT,)))
        self.assertIn("decision #2: kept: one way of their own", self.page())

    def test_kept_before_it_moved(self) -> None:
        """What kept ways that the port has lost since is not told."""
        row = self.seen(DevicePort(PORT, (PORT,)))
        self.decide(1, row, OWN, Step(Action.TRY, "ddio", ASIDE, ports=(PORT,)), before=DDIO)
        self.decide(2, row, OWN, Step(Action.KEEP, "ddio", KEPT, ports=(PORT,)))
        self.decide(3, row, DDIO, Step(Action.ADOPT, stories.BE, ASIDE), before=OWN)
        told = self.told()
        self.assertIsNone(told.kept)
        self.assertNotIn("decision #2: kept", " ".join(port_account.why(told)))

    def test_a_longer_address(self) -> None:
        """A port whose address ends like this one's is another."""
        row = self.seen(DevicePort(PORT, (PORT,)), DevicePort(f"1{PORT}", (f"1{PORT}",)))
        other = message("ports-aside", ports=(f"1{PORT}",))
        self.decide(1, row, DDIO, Step(Action.TRY, "ddio", other, ports=(f"1{PORT}",)))
        self.assertEqual((), self.told().turns)
        self.assertEqual(1, len(self.told(f"1{PORT}").turns))

    def test_no_way_is_free(self) -> None:
        """Guaranteed ways of all tenants may leave no way between them and DDIO's."""
        self.history.status(stories.status(strategy=DEFAULT))
        lack = "DDIO's ways and the own ways of tenants leave no way for it"
        for number, (guaranteed, ddio_ways) in enumerate(((0, 2), (2, 2), (3, 2), (0, 10)), 1):
            row = self.seen(DevicePort(PORT, (PORT,)), guaranteed=guaranteed)
            self.decide(number, row, stories.layout(ddio_ways))
            reasons = port_account.why(self.told())
            self.assertEqual(number > 2, lack in reasons, (number, reasons))
        row = self.seen(DevicePort(PORT, (PORT,)), guaranteed=3)
        all_ways = Group(("stack", stories.PC, stories.BE), WayMask.span(0, 11))
        self.decide(5, row, dataclasses.replace(DDIO, groups=(all_ways,)))
        self.assertNotIn(lack, port_account.why(self.told()))  # all lend their ways

    def test_why_no_way_of_its_own(self) -> None:
        """A trial is promised only where the strategy may try."""
        self.history.status(stories.status(strategy=DEFAULT))
        promise = "if a trial shows"
        few = "400 k/s DDIO misses: too few for a trial"
        saves = "LLC hits save be1 {} of its cycles: such a port stays in DDIO's ways"
        for number, (priority, share, misses_per_s, said) in enumerate(
            (
                (Priority.BE, 0.2, 4.2e6, (promise,)),
                (Priority.PC, 0.04, 4.2e6, (promise,)),
                (Priority.PC, 0.06, 4.2e6, (saves.format("6.0%"),)),
                (Priority.BE, 0.2, 0.4e6, (few,)),
                (Priority.PC, 0.2, 0.4e6, (saves.format("20.0%"), few)),
            ),
            1,
        ):
            row = self.seen(DevicePort(PORT, (PORT,)), priority=priority)
            self.decide(number, row, DDIO, saves=share, misses_per_s=misses_per_s)
            reasons = " ".join(port_account.why(self.told()))
            for text in (promise, few, "LLC hits save"):
                expected = any(text in one for one in said)
                self.assertEqual(expected, text in reasons, (number, reasons))
            for text in said:
                self.assertIn(text, reasons)
