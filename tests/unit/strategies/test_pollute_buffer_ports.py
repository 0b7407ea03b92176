# SPDX-License-Identifier: Apache-2.0
"""Ports whose owners gain nothing from the cache write aside, where a trial shows a gain."""

import dataclasses
import random
import unittest
from collections.abc import Callable

from iat_nova.model import (
    CacheDomain,
    Decision,
    DevicePort,
    Layout,
    Parameters,
    PortRates,
    Priority,
    Sample,
    Tenant,
    WayMask,
)
from iat_nova.store import records
from iat_nova.strategies.layout.check import check
from iat_nova.strategies.pollute_buffer import judge, masks, moves, plan
from iat_nova.strategies.pollute_buffer.plan import Own, Plan
from iat_nova.strategies.pollute_buffer.state import State, members_of
from iat_nova.strategies.pollute_buffer.view import View
from tests.unit.strategies.formulas.curves import MissCurve
from tests.unit.strategies.formulas.host import FormulaHost
from tests.unit.strategies.test_pollute_buffer import BE, PC, STREAM, Run, host

NIC, DISK, OTHER = "0000:3b:00.0", "0000:5e:00.0", "0000:5f:00.0"
PORTS = tuple(DevicePort(one, (one,)) for one in (NIC, DISK, OTHER))
LINES_PER_S = 5e7


def server(
    disk: MissCurve = STREAM, disk_priority: Priority = BE, ports: tuple[DevicePort, ...] = PORTS
) -> FormulaHost:
    """Return a host of a critical tenant with a card and two with a disk each."""
    here = host((PC, STREAM), (disk_priority, disk), (BE, STREAM), device_ports=ports)
    card, *disks = here.inventory.tenants
    tenants = (
        dataclasses.replace(card, io=True, ports=(NIC,)),
        *(
            dataclasses.replace(one, ports=(port,))
            for one, port in zip(disks, (DISK, OTHER), strict=True)
        ),
    )
    loads = {tenant.id: load for tenant, load in zip(tenants, here.loads, strict=True)}
    inventory = dataclasses.replace(here.inventory, tenants=tenants)
    return FormulaHost(inventory, loads, here.inbound)


class Aside(Run):
    """A host where the card's owner misses less for each port aside; disks' owners may lose."""

    def __init__(self, gain: float, loss: float = 0.0) -> None:
        super().__init__(0.0)
        self.gain, self.loss = gain, loss

    def on(
        self, here: FormulaHost, seconds: int, look: Callable[[Decision], None] = lambda d: None
    ) -> None:
        def checked(decision: Decision) -> None:
            check(here.inventory, decision.layout)
            look(decision)

        for _ in range(seconds):
            super().on(_Seen(here, self.gain, self.loss), 1, checked)  # type: ignore[arg-type]

    @property
    def aside(self) -> dict[str, WayMask]:
        """Return the masks of the ports aside now."""
        return self.decisions[-1].layout.port_masks


class _Seen:
    def __init__(self, here: FormulaHost, gain: float, loss: float) -> None:
        self.inventory = here.inventory
        self._here, self._gain, self._loss = here, gain, loss

    def sample(
        self, layout: Layout | None, at_s: float, dice: random.Random, noise: float
    ) -> Sample:
        seen = self._here.sample(layout, at_s, dice, noise)
        aside = {} if layout is None else layout.port_masks
        rates = dict(seen.tenants)
        cycles = rates["t0"].cycles_per_s
        stalled = 0.3 - self._gain * sum(port in aside for port in (DISK, OTHER))
        rates["t0"] = dataclasses.replace(
            rates["t0"], misses_per_s=stalled * cycles / 100, references_per_s=cycles / 100
        )
        for tenant, port in (("t1", DISK), ("t2", OTHER)):
            if port in aside and tenant in rates:
                left = (1.0 - self._loss) * rates[tenant].instructions_per_s
                rates[tenant] = dataclasses.replace(rates[tenant], instructions_per_s=left)
        return dataclasses.replace(
            seen,
            tenants=rates,
            ddio_hits_per_s=0.0,
            ddio_misses_per_s=LINES_PER_S,
        )


class AsideTest(unittest.TestCase):
    def test_best_effort_ports_go_aside_together_where_that_pays(self) -> None:
        """Into the way below DDIO's; the move is told with its subject, and ports as moved."""
        run = Aside(0.1)
        run.on(server(), 40)
        self.assertEqual({DISK: 0x100, OTHER: 0x100}, run.aside)
        (kept,) = run.steps("kept", "ports-aside")
        self.assertEqual("ddio", kept.subject)
        (moved, *_) = [one.moved for one in run.decisions if DISK in one.moved]
        self.assertIn(OTHER, moved)

    def test_before_more_ways_of_ddio(self) -> None:
        """Two of three ports aside promise more than two ways of DDIO's more, and take no ways."""
        run = Aside(0.1)
        run.on(server(), 40)
        tried = [one.code for one in run.tried()]
        self.assertLess(tried.index("ports-aside"), tried.index("ddio-ways"))

    def test_promise_by_the_ports_that_are_left(self) -> None:
        """As if DDIO's ways had grown for the ports left there; nothing for a port alone there."""
        here = server()
        sample = _Seen(here, 0.1, 0.0).sample(None, 9.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        view = View(here.inventory, Parameters(), sample, now.looks)
        found = plan.found(here.inventory.domain, 2)
        promised = {
            frozenset(move.plan.aside): promise for promise, move in moves._aside(view, found)
        }
        stake = view.stake(view.readers) * view.packets_missed
        both, one = frozenset((DISK, OTHER)), frozenset((DISK,))
        self.assertAlmostEqual(stake * (1 - (1 / 3) ** 0.5), promised[both])
        self.assertAlmostEqual(stake * (1 - (2 / 3) ** 0.5), promised[one])
        one_aside = dataclasses.replace(found, aside=frozenset((OTHER,)))
        (second, *_) = (p for p, move in moves._aside(view, one_aside) if DISK in move.plan.aside)
        self.assertAlmostEqual(stake * (1 - (1 / 2) ** 0.5), second)

    def test_promise_by_memory_traffic_of_ports(self) -> None:
        """Where it is counted for each port in DDIO's ways; others do not count."""
        here = server()
        sample = _Seen(here, 0.1, 0.0).sample(None, 9.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        both, one = frozenset((DISK, OTHER)), frozenset((DISK,))
        for brought, other_aside, left in (
            ({NIC: 1, DISK: 14.0, OTHER: 1}, False, {both: 1 / 16, one: 2 / 16}),
            ({NIC: 12, DISK: 1, OTHER: 3}, False, {both: 12 / 16, one: 15 / 16}),
            ({NIC: 3, DISK: 1, OTHER: 9}, True, {both: 3 / 4}),
            ({NIC: 0, DISK: 0, OTHER: 0}, False, {both: 1 / 3, one: 2 / 3}),
            ({NIC: 1, DISK: None, OTHER: 9}, False, {both: 1 / 3, one: 2 / 3}),
            ({NIC: 1, DISK: 9}, False, {both: 1 / 3, one: 2 / 3}),
        ):
            with self.subTest(brought=brought):
                counted = {port: PortRates(None, rate) for port, rate in brought.items()}
                seen = dataclasses.replace(sample, ports=counted)
                view = View(here.inventory, Parameters(), seen, now.looks)
                found = plan.found(here.inventory.domain, 2)
                if other_aside:
                    found = dataclasses.replace(found, aside=frozenset((OTHER,)))
                promised = {move.plan.aside: gain for gain, move in moves._aside(view, found)}
                stake = view.stake(view.readers) * view.packets_missed
                for aside, share in left.items():
                    self.assertAlmostEqual(stake * (1 - share**0.5), promised[aside])

    def test_back_one_by_one(self) -> None:
        """A port comes back where its owners are stalled, once the moves before have settled."""
        here = server()
        sample = _Seen(here, 0.1, 0.0).sample(None, 9.0, random.Random(1), 0.0)
        now = judge.Now.seen(here.inventory, sample)
        found = plan.found(here.inventory.domain, 2)
        aside = dataclasses.replace(found, aside=frozenset((DISK, OTHER)))
        for settled in (True, False):
            view = View(here.inventory, Parameters(), sample, now.looks, settled=settled)
            back = {move.subject: (promise, move) for promise, move in moves._aside(view, aside)}
            self.assertEqual({DISK, OTHER} if settled else set(), set(back))
            for port, owner, left in ((DISK, "t1", OTHER), (OTHER, "t2", DISK)):
                if settled:
                    promise, move = back[port]
                    self.assertEqual(view.stake(frozenset((owner,))), promise)
                    self.assertEqual(frozenset((left,)), move.plan.aside)
                    self.assertEqual({"port": port}, dict(move.what.values))

    def test_undone_where_nobody_gains(self) -> None:
        """The trial is told, and undone."""
        run = Aside(0.0)
        run.on(server(), 40)
        self.assertTrue(run.steps("tried", "ports-aside"))
        self.assertEqual({}, run.aside)

    def test_undone_where_owners_lose_more_than_others_gain(self) -> None:
        """Less than the least speed of best-effort tenants weighs like a critical tenant's."""
        run = Aside(0.01, loss=0.6)
        run.on(server(), 40)
        self.assertTrue(run.steps("tried", "ports-aside"))
        self.assertEqual({}, run.aside)

    def test_never_the_ports_of_those_that_read_packets_or_find_blocks(self) -> None:
        """A critical tenant's disk goes aside only if cache hits save its owner little."""
        for curve, aside in ((STREAM, {DISK, OTHER}), (MissCurve(0.5, ()), {OTHER})):
            run = Aside(0.1)
            run.on(server(curve, PC), 40)
            self.assertEqual(aside, set(run.aside))

    def test_hosts_without_ports_try_nothing(self) -> None:
        """Neither without I/O RDT, nor for a port of nobody."""
        for ports in ((), PORTS[:1]):
            run = Aside(0.1)
            run.on(server(ports=ports), 40)
            self.assertEqual([], run.steps("ports-aside"))

    def test_back_when_the_owner_leaves(self) -> None:
        """A port of nobody is the host's own, which has DDIO's ways."""
        run = Aside(0.1)
        here = server()
        run.on(here, 40)
        tenants = here.inventory.tenants[:2]
        loads = {one.id: load for one, load in zip(tenants, here.loads, strict=False)}
        inventory = dataclasses.replace(here.inventory, tenants=tenants)
        run.on(FormulaHost(inventory, loads, here.inbound), 2)
        self.assertEqual({DISK}, set(run.aside))

    def test_back_when_packets_of_a_critical_tenant_come_through_it(self) -> None:
        """A guest starts on the port, or gets a virtual function of it while it runs."""
        here = server()
        tenants = here.inventory.tenants
        guest = dataclasses.replace(tenants[0], id="new", cpus=(7,), ports=())
        plugged = self.of(here, *tenants, dataclasses.replace(guest, ports=(DISK,)))
        for before in (here, self.of(here, *tenants, guest)):
            run = Aside(0.1)
            run.on(before, 40)
            with self.subTest(running=before is not here):
                self.assertEqual({DISK, OTHER}, set(run.aside))
                run.on(plugged, 1)
                self.assertEqual({OTHER}, set(run.aside))
                run.on(plugged, 40)
                later = [one.layout.port_masks for one in run.decisions[40:]]
                self.assertNotIn(DISK, set().union(*later))

    def test_stays_aside_when_best_effort_comes_to_it(self) -> None:
        """Only packets of critical tenants need DDIO's ways."""
        here, run = server(), Aside(0.1)
        card, disk, other = here.inventory.tenants
        run.on(here, 40)
        second = dataclasses.replace(disk, id="new", cpus=(7,), io=True)
        run.on(self.of(here, card, disk, other, second), 1)
        self.assertEqual({DISK, OTHER}, set(run.aside))

    def of(self, here: FormulaHost, *tenants: Tenant) -> FormulaHost:
        """Return the host with these tenants; a newcomer works as the first does."""
        known = {t.id: load for t, load in zip(here.inventory.tenants, here.loads, strict=True)}
        loads = {one.id: known.get(one.id, here.loads[0]) for one in tenants}
        cpus = tuple(sorted({cpu for one in tenants for cpu in one.cpus}))
        domain = dataclasses.replace(here.inventory.domain, cpus=cpus)
        inventory = dataclasses.replace(here.inventory, domain=domain, tenants=tenants)
        return FormulaHost(inventory, loads, here.inbound)

    def test_a_state_of_an_earlier_version(self) -> None:
        """Its members have no ports: it is read, and tenants without ports are the same."""
        here, run = server(), Aside(0.1)
        run.on(here, 3)
        plain = records.parse(records.text(records.unstructure(run.state)))
        for member in plain["members"]:
            del member["ports"]
        read = records.structure(plain, State)
        self.assertEqual({()}, {one.ports for one in read.members})
        without = tuple(dataclasses.replace(t, ports=()) for t in here.inventory.tenants)
        inventory = dataclasses.replace(here.inventory, tenants=without)
        self.assertEqual(read.members, members_of(inventory))


class PlaceTest(unittest.TestCase):
    """Where the ways of ports aside are."""

    def test_below_ddio_and_what_is_guaranteed(self) -> None:
        """The topmost shared ways outside DDIO's, never a tenant's own, none without room."""
        cache = CacheDomain(0, (0,), 11, 16)
        own = (Own("a", 2), Own("b", 3))
        for domain, owned, ddio, mask in (
            (cache, (), 2, 0x100),
            (dataclasses.replace(cache, min_ways=2), (), 2, 0x180),
            (dataclasses.replace(cache, coerced_ways=WayMask(0x600)), (), 1, 0x100),
            (cache, own[:1], 2, 0x100),
            (cache, own, 2, 0x020),
            (cache, (Own("a", 2), Own("b", 6)), 2, 0),
            (cache, (), 0, 0),
            (cache, (), 11, 0),
        ):
            with self.subTest(mask=mask):
                self.assertEqual(mask, masks.aside(domain, Plan(frozenset(), 2, ddio, own=owned)))

    def test_classes(self) -> None:
        """The ports' class is one of the machine's."""
        here = server()
        for classes, fits in ((3, True), (2, False)):
            domain = dataclasses.replace(here.inventory.domain, classes=classes)
            inventory = dataclasses.replace(here.inventory, domain=domain)
            aside = dataclasses.replace(plan.found(domain, 2), aside=frozenset((DISK,)))
            self.assertEqual(fits, masks.has_classes(inventory, aside))

    def test_a_class_for_ports_of_other_domains_stays_free(self) -> None:
        """The same plan without ports aside needs one class more where domains share classes."""
        here = server(ports=())
        for classes, shared, fits in ((3, 1, True), (2, 0, True), (2, 1, False)):
            domain = dataclasses.replace(
                here.inventory.domain, classes=classes, shared_port_classes=shared
            )
            inventory = dataclasses.replace(here.inventory, domain=domain)
            with self.subTest(classes=classes, shared=shared):
                self.assertEqual(fits, masks.has_classes(inventory, plan.found(domain, 2)))

    def test_critical_tenants_keep_clear(self) -> None:
        """Out of the ways of ports aside as well as DDIO's."""
        here = server()
        card, *others = here.inventory.tenants
        inventory = dataclasses.replace(
            here.inventory, tenants=(dataclasses.replace(card, io=False), *others)
        )
        found = plan.found(inventory.domain, Parameters().ddio_ways_min)
        clear = dataclasses.replace(found, clear=True, aside=frozenset((DISK,)))
        self.assertEqual(0x0FF, masks.layout(inventory, clear).mask_of(card.id))
