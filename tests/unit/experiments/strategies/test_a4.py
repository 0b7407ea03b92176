# SPDX-License-Identifier: Apache-2.0
"""A4 by the rows of its policy: masks, detection, zones, what it does in a closed loop."""

import dataclasses
import itertools
import random
import unittest

from iat_nova.experiments.rivals.a4 import A4, detection, layout, state, strategy, zones
from iat_nova.experiments.rivals.a4.reading import read
from iat_nova.experiments.rivals.a4.state import (
    A4Memory,
    A4Phase,
    A4State,
    DeviceKind,
    Flags,
    Label,
    TickRates,
    TickReading,
    Zones,
)
from iat_nova.model import (
    CacheDomain,
    DcaPort,
    Decision,
    DeviceModel,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    Tenant,
    WayMask,
    message,
)
from iat_nova.store import records
from iat_nova.strategies import registry
from iat_nova.strategies.layout.check import check
from tests import said
from tests.unit import build, frozen
from tests.unit.strategies.formulas import draw

DOMAIN = build.domain()
HP_NET = Label("hp-net", True, DeviceKind.NETWORK)
HP = Label("hp", True, DeviceKind.CORES)
LP = Label("lp", False, DeviceKind.CORES)
SSD = Label("ssd", False, DeviceKind.STORAGE)
LABELS = (HP_NET, HP, LP, SSD)
CALM = TickRates(hit=80.0, l2_miss=20.0)
STREAM = TickRates(hit=9.0, l2_miss=81.0)
EVERYBODY = {label.id: CALM for label in LABELS}


def reading(**changes: object) -> TickReading:
    """Return a tick in which nothing is wrong; changes by tenant's name or by field."""
    fields = {field.name for field in dataclasses.fields(TickReading)}
    looks = {k.replace("_", "-"): v for k, v in changes.items() if k not in fields}
    rest = {k: v for k, v in changes.items() if k in fields}
    known = {
        "pool": CALM, "ddio_miss": 20.0, "memory": 1e10, "storage": 1e9, "network": 1e10, **rest
    }  # fmt: skip
    return TickReading(tenants={**EVERYBODY, **looks}, **known)  # type: ignore[arg-type]


def memory(phase: A4Phase, **changes: object) -> A4Memory:
    base = reading()
    return dataclasses.replace(
        A4Memory(phase, initial=base, stable=base, previous=base),
        **changes,  # type: ignore[arg-type]
    )


class LayoutTest(unittest.TestCase):
    """Where the zones lie."""

    def masks(
        self, domain: CacheDomain, labels: tuple[Label, ...], sizes: Zones, *trash: str
    ) -> dict[str, int]:
        inventory = DomainInventory(domain, tuple(_tenant(label) for label in labels))
        found = layout.layout(inventory, labels, sizes, trash)
        check(inventory, found)
        self.assertEqual(domain.ddio_found or 0x600, found.ddio)
        return {label.id: int(found.mask_of(label.id) or 0) for label in labels}

    def test_as_published_on_eleven_ways(self) -> None:
        """High priority with a device 0x7ff, without 0x1ff; low from bit 2; trash its lowest."""
        self.assertEqual(
            {"hp-net": 0x7FF, "hp": 0x1FF, "lp": 0x07C, "ssd": 0x01C},
            self.masks(DOMAIN, LABELS, Zones(5, 3), "ssd"),
        )
        self.assertEqual(0x1FC, self.masks(DOMAIN, LABELS, Zones(7, 0))["lp"])
        self.assertEqual(7, layout.low_max(DOMAIN))

    def test_without_a_high_priority_device_ddios_ways_are_for_all_of_high_priority(self) -> None:
        self.assertEqual(0x7FF, self.masks(DOMAIN, (HP, LP), Zones(2, 0))["hp"])

    def test_a_demoted_high_priority_tenant_has_the_trash_ways(self) -> None:
        self.assertEqual(0x00C, self.masks(DOMAIN, LABELS, Zones(4, 2), "hp")["hp"])

    def test_every_mask_is_legal_on_other_caches(self) -> None:
        """Any number of ways, DDIO anywhere at the top, ways that are coerced or reserved."""
        domains = [
            dataclasses.replace(DOMAIN, ways=ways, ddio_found=found, **others)
            for ways in (11, 12, 15, 20)
            for found in (
                None,
                WayMask.span(ways - 2, 2),
                WayMask.span(ways - 1, 1),
                WayMask.span(ways - 6, 6),
                WayMask.span(1, ways - 1),
                WayMask.span(0, ways),
            )
            for others in (
                {},
                {"min_ways": 2},
                {"coerced_ways": WayMask.span(ways - 2, 2)},
                {"coerced_ways": WayMask.span(1, 2)},
                {"reserved_ways": WayMask(3)},
                {"reserved_ways": WayMask.span(ways - 2, 2)},
            )
        ]
        for domain in domains:
            with self.subTest(domain=domain):
                most = layout.low_max(domain)
                for low, trash in itertools.product((2, most), (0, 2, most)):
                    inventory = DomainInventory(domain, tuple(map(_tenant, LABELS)))
                    check(inventory, layout.layout(inventory, LABELS, Zones(low, trash), ["hp"]))
        twelve = dataclasses.replace(DOMAIN, ways=12, ddio_found=WayMask(0xC00))
        self.assertEqual(0x3FC, self.masks(twelve, LABELS, Zones(8, 0))["lp"])

    def test_below_ddios_ways(self) -> None:
        """Below ways that come together with them, too; the topmost two if they are not known."""
        for facts, guarded, low in (
            ({}, 0x1FF, 0x1FC),
            ({"ddio_found": None}, 0x1FF, 0x1FC),
            ({"ddio_found": WayMask(0x400), "coerced_ways": WayMask(0x600)}, 0x1FF, 0x1FC),
            ({"ddio_found": WayMask(0x600), "coerced_ways": WayMask(0x300)}, 0x0FF, 0x0FC),
            ({"ddio_found": WayMask(0x600), "coerced_ways": WayMask(0x003)}, 0x1FF, 0x1FC),
            ({"ddio_found": WayMask(0)}, 0x7FF, 0x7FC),
            ({"ddio_found": WayMask(0x7F0)}, 0x00F, 0x00C),
            ({"ddio_found": WayMask(0x7F8)}, 0x007, 0x007),
            ({"ddio_found": WayMask(0x7FE)}, 0x001, 0x7FF),
            ({"ddio_found": WayMask(0x7FE), "min_ways": 2}, 0x7FF, 0x7FF),
            ({"ddio_found": WayMask(0x7FF)}, 0x7FF, 0x7FF),
        ):
            with self.subTest(facts):
                domain = dataclasses.replace(DOMAIN, **facts)
                inventory = DomainInventory(domain, tuple(map(_tenant, LABELS)))
                found = layout.layout(inventory, LABELS, Zones(2, 0), ())
                self.assertEqual(guarded, found.mask_of("hp"))
                self.assertEqual(low, layout.room(domain))
                self.assertEqual(0x600 if domain.ddio_found is None else domain.ddio_found,
                                 found.ddio)  # fmt: skip

    def test_grouped(self) -> None:
        """Whether tenants share a class of service."""
        for labels, grouped in ((LABELS, True), ((HP, LP), False), ((LP, SSD), True)):
            inventory = DomainInventory(DOMAIN, tuple(map(_tenant, labels)))
            self.assertIs(grouped, layout.layout(inventory, labels, Zones(2, 0), ()).grouped)


class RegroupTest(unittest.TestCase):
    def test_antagonists_that_stay(self) -> None:
        """Those that neither left nor changed; who changed is told."""
        before = state.A4State(
            labels=LABELS, domain=DOMAIN, memory=A4Memory(antagonists=("lp", "ssd", "hp"))
        )
        for labels, kept, told in (
            ((HP_NET, HP, LP, SSD), ("lp", "ssd", "hp"), [("layout", "domain-changed")]),
            ((HP_NET, LP, SSD), ("lp", "ssd"), [("hp", "left")]),
            ((HP_NET, HP, dataclasses.replace(LP, high=True), SSD), ("ssd", "hp"),
             [("lp", "changed")]),
            ((*LABELS, Label("new", False, DeviceKind.CORES)), ("lp", "ssd", "hp"),
             [("new", "came")]),
        ):  # fmt: skip
            with self.subTest(labels=labels):
                here = dataclasses.replace(before, labels=labels)
                after, _, _, steps = strategy._regroup(before, here)
                self.assertEqual(kept, after.antagonists)
                self.assertEqual(told, [(one.subject, one.reason.code) for one in steps])


class UnchangedTest(unittest.TestCase):
    """Why nothing is done: the largest change of a hit rate, and DDIO's misses."""

    def test_figures(self) -> None:
        base = reading(hp=TickRates(hit=80.0, l2_miss=20.0))
        other = Label("hp2", True, DeviceKind.CORES)
        labels = (HP_NET, HP, other, LP)
        for hits, tenant, figures in (
            ({"hp": 78.26, "hp2": 79.0}, "hp", (80.0, 78.3)),
            ({"hp": 79.0, "hp2": 82.04}, "hp2", (80.0, 82.0)),
            ({"hp": 79.0, "hp2": 77.06}, "hp2", (80.0, 77.1)),
            ({"hp": 79.0, "lp": 1.0, "hp2": None}, "hp", (80.0, 79.0)),
            ({"hp": 70.0, "hp2": 80.0}, "hp", (80.0, 70.0)),
        ):
            with self.subTest(hits):
                looks = {one: TickRates(hit=hit, l2_miss=20.0) for one, hit in hits.items()}
                now = reading(ddio_miss=12.34, **looks)
                before = dataclasses.replace(base, tenants={**base.tenants, "hp2": CALM})
                known = memory(A4Phase.STABLE, stable=before)
                same, ddio = detection.unchanged(known, labels, now)
                self.assertEqual(("a4-same-load", tenant), (same.code, same.values["tenant"]))
                found = same.values["before_percent"], same.values["after_percent"]
                self.assertEqual(figures, found)
                self.assertEqual(("a4-ddio", 12.3), (ddio.code, ddio.values["ddio_percent"]))

    def test_what_is_not_known(self) -> None:
        """Nobody of high priority without a device; DDIO without counters; no stable reading."""
        known = memory(A4Phase.STABLE)
        told = detection.unchanged(known, (HP_NET, LP), reading(ddio_miss=None))
        self.assertEqual(["a4-unguarded"], [one.code for one in told])
        for gone in ("before", "after"):
            tenants = {"lp": CALM}
            bare = dataclasses.replace(reading(), tenants=tenants)
            before, now = (bare, reading()) if gone == "before" else (reading(), bare)
            told = detection.unchanged(memory(A4Phase.STABLE, stable=before), (HP, LP), now)
            self.assertEqual("a4-unguarded", told[0].code)
        none = memory(A4Phase.INIT, stable=None)
        (same, _) = detection.unchanged(none, (HP,), reading(hp=TickRates(hit=33.0, l2_miss=1.0)))
        self.assertEqual(
            (33.0, 33.0), (same.values["before_percent"], same.values["after_percent"])
        )


class ReadingTest(unittest.TestCase):
    def test_two_samples_are_averaged_and_what_is_unknown_stays_unknown(self) -> None:
        first = Sample(0, 1.0, 1.0, {"a": Rates(1, 1, 100, 20, 30, 70)}, 60, 40, 1e9, 4e9, 1e10)
        second = Sample(0, 2.0, 1.0, {"a": Rates(1, 1, 300, 75, 70, 30)}, 40, 60, 3e9, None, 2e10)
        found = read(first, second)
        self.assertEqual(TickRates(hit=76.25, l2_miss=50.0), found.tenants["a"])
        self.assertEqual((50.0, 2e9, None, 1.5e10), (
            found.ddio_miss, found.memory, found.storage, found.network
        ))  # fmt: skip
        self.assertIsNone(found.storage_percent)

    def test_nothing_accessed_is_not_known_and_who_was_not_measured_is_absent(self) -> None:
        idle = Sample(0, 1.0, 1.0, {"a": Rates(0, 0, 0, 0)})
        self.assertEqual({"a": TickRates(None, None)}, dict(read(idle, idle).tenants))
        self.assertEqual({}, dict(read(idle, Sample(0, 2.0, 1.0, {})).tenants))

    def test_antagonists_are_pooled_by_their_accesses(self) -> None:
        both = {"a": Rates(0, 0, 100, 50, 0, 100), "b": Rates(0, 0, 300, 300, 100, 0)}
        one = Sample(0, 1.0, 1.0, both)
        self.assertEqual(TickRates(12.5, 50.0), read(one, one, ("a", "b", "gone")).pool)


class DetectionTest(unittest.TestCase):
    """Who is an antagonist: a case a row, at and over each threshold."""

    def found(self, phase: A4Phase, now: TickReading, **changes: object) -> A4Memory:
        after, steps = detection.antagonists(memory(phase, **changes), LABELS, now)
        self.assertEqual(list(after.antagonists), [step.subject for step in steps])
        return after

    def test_a_program_that_hits_neither_in_l2_nor_in_the_llc(self) -> None:
        """L2 misses over 80 %, LLC misses over 90 %, while stable."""
        after = self.found(A4Phase.STABLE, reading(lp=STREAM))
        self.assertEqual((A4Phase.INIT, ("lp",)), (after.phase, after.antagonists))
        self.assertEqual(Flags(grow=True, shrink=True, restart=True), after.flags)
        for look in (
            TickRates(9.0, 80.0),
            TickRates(10.0, 81.0),
            TickRates(None, 81.0),
            TickRates(9.0, None),
        ):
            calm = self.found(A4Phase.STABLE, reading(lp=look))
            self.assertEqual((A4Phase.STABLE, ()), (calm.phase, calm.antagonists))

    def test_elsewhere_only_who_is_of_high_priority_and_was_launched_now(self) -> None:
        now = reading(hp=STREAM, lp=STREAM)
        for phase in (A4Phase.INIT, A4Phase.ADJUST):
            self.assertEqual((), self.found(phase, now).antagonists)
            self.assertEqual(("hp",), self.found(phase, now, launched=("hp", "lp")).antagonists)

    def test_each_size_has_its_step(self) -> None:
        """A zone that grows, shrinks or is taken back: from so many ways to so many."""
        run = Run(HP_NET, HP, LP)
        steps = [
            (step.action.value, step.ways_before, step.ways_after, step.reason.code)
            for number in range(24)
            for step in run.second(hp=5 < number < 20).steps
            if step.subject == "layout"
        ]
        low, trash = "low-zone-size", "trash-ways-size"
        self.assertEqual(
            [("grow", 2, 3, low), ("grow", 3, 4, low), ("undo", 4, 3, "size-because")], steps[:3]
        )
        self.assertEqual([("shrink", 3, 2, low), ("grow", 0, 2, trash)], steps[3:5])
        self.assertEqual([("shrink", 7, 6, trash), ("shrink", 6, 5, trash)], steps[-2:])

    def test_storage_that_crowds_the_network_in_ddios_ways(self) -> None:
        """DDIO misses over 40 %, over 35 % of the network's bytes, its LLC misses over 40 %."""
        bad = {"ddio_miss": 41.0, "storage": 3.6e9, "network": 1e10, "ssd": TickRates(59.0, None)}
        after = self.found(A4Phase.STABLE, reading(**bad))
        self.assertEqual((A4Phase.INIT, ("ssd",)), (after.phase, after.antagonists))
        at = ({"ddio_miss": 40.0}, {"storage": 3.5e9}, {"ssd": TickRates(60.0, None)})
        unknown = ({"ddio_miss": None}, {"storage": None}, {"network": None}, {"network": 0.0})
        for change in (*at, *unknown):
            self.assertEqual(
                (), self.found(A4Phase.STABLE, reading(**{**bad, **change})).antagonists
            )
        self.assertEqual((), self.found(A4Phase.ADJUST, reading(**bad)).antagonists)

    def test_storage_is_not_judged_as_a_program(self) -> None:
        self.assertEqual((), self.found(A4Phase.STABLE, reading(ssd=STREAM)).antagonists)

    def test_after_storage_nobody_else_is_judged_in_this_tick(self) -> None:
        """INIT begins at once there, but for programs only after all were looked at."""
        bad = {"ddio_miss": 41.0, "storage": 3.6e9, "ssd": TickRates(59.0, None), "lp": STREAM}
        for labels, expected in (((SSD, LP), ("ssd",)), ((LP, SSD), ("lp", "ssd"))):
            after, _ = detection.antagonists(memory(A4Phase.STABLE), labels, reading(**bad))
            self.assertEqual(expected, after.antagonists)

    def test_who_is_an_antagonist_already_is_not_found_again(self) -> None:
        after = self.found(A4Phase.STABLE, reading())
        again, steps = detection.antagonists(
            dataclasses.replace(after, antagonists=("lp",)), LABELS, reading(lp=STREAM)
        )
        self.assertEqual((A4Phase.STABLE, ()), (again.phase, steps))


class AnotherLoadTest(unittest.TestCase):
    """What ends STABLE."""

    def after(
        self, now: TickReading, *antagonists: str, base: TickReading | None = None
    ) -> A4Memory:
        start = memory(A4Phase.STABLE, antagonists=antagonists)
        start = dataclasses.replace(start, stable=base or start.stable)
        return detection.another_load(start, LABELS, now)[0]

    def test_hits_of_a_high_priority_program(self) -> None:
        """By more than 10 points and more than a fifth, either way; not of who has a device."""
        after = self.after(reading(hp=TickRates(63.0, 20.0)))
        self.assertEqual((A4Phase.INIT, Flags(True, False, True)), (after.phase, after.flags))
        for look in (TickRates(64.0, 20.0), TickRates(91.0, 20.0), TickRates(None, None)):
            self.assertIs(A4Phase.STABLE, self.after(reading(hp=look)).phase)
        self.assertIs(
            A4Phase.STABLE, self.after(reading(hp_net=TickRates(1.0, 20.0), lp=STREAM)).phase
        )
        low = reading(hp=TickRates(20.0, 20.0))
        self.assertIs(A4Phase.STABLE, self.after(reading(hp=TickRates(30.0, 20.0)), base=low).phase)
        self.assertIs(A4Phase.INIT, self.after(reading(hp=TickRates(30.5, 20.0)), base=low).phase)

    def test_an_antagonist_of_cores_is_released_when_its_misses_differ(self) -> None:
        """L2's by more than a tenth, LLC's by more than a twentieth, either way."""
        base = reading(lp=TickRates(0.0, 80.0))
        for look in (TickRates(0.0, 88.1), TickRates(0.0, 71.9), TickRates(5.1, 80.0)):
            after = self.after(reading(lp=look), "lp", base=base)
            self.assertEqual((A4Phase.INIT, ()), (after.phase, after.antagonists))
            self.assertEqual(Flags(False, True, True), after.flags)
        for look in (
            TickRates(0.0, 88.0),
            TickRates(0.0, 72.0),
            TickRates(5.0, 80.0),
            TickRates(None, None),
        ):
            self.assertEqual(("lp",), self.after(reading(lp=look), "lp", base=base).antagonists)

    def test_storage_is_released_when_it_reads_less(self) -> None:
        """Below 0.7 of what it was; nothing shrinks unless there was another antagonist."""
        after = self.after(reading(storage=0.69e9), "ssd")
        self.assertEqual((A4Phase.INIT, ()), (after.phase, after.antagonists))
        self.assertEqual(Flags(False, False, True), after.flags)
        self.assertTrue(self.after(reading(storage=0.69e9), "ssd", "lp").flags.shrink)
        for now in (0.7e9, None):
            self.assertEqual(("ssd",), self.after(reading(storage=now), "ssd").antagonists)


class ZonesTest(unittest.TestCase):
    """INIT and ADJUST: a case a row."""

    def after(
        self, start: A4Memory, now: TickReading | None = None, most: int = 7
    ) -> tuple[A4Memory, int]:
        found = zones.size(start, LABELS, now or reading(), most)
        assert found is not None
        return found[0], found[1]

    def test_restart_settles_for_a_tick_at_the_least_sizes(self) -> None:
        for flags, expected in (
            (Flags(True, False, True), Zones(2, 4)),
            (Flags(False, True, True), Zones(2, 2)),
            (Flags(True, True, True), Zones(2, 2)),
            (Flags(False, False, True), Zones(5, 4)),
        ):
            after, rule = self.after(memory(A4Phase.INIT, flags=flags, zones=Zones(5, 4)))
            self.assertEqual(
                (zones.RESTART, A4Phase.INIT, expected), (rule, after.phase, after.zones)
            )
            self.assertEqual(dataclasses.replace(flags, restart=False), after.flags)

    def test_init_begins_to_grow_from_three_ways(self) -> None:
        now = reading(memory=2e10)
        for flags, expected in ((Flags(grow=True), Zones(3, 0)), (Flags(True, True), Zones(3, 3))):
            after, rule = self.after(memory(A4Phase.INIT, flags=flags), now)
            self.assertEqual(
                (zones.GROW, A4Phase.ADJUST, expected), (rule, after.phase, after.zones)
            )
            self.assertEqual(now, after.initial)

    def test_init_begins_to_shrink_against_the_tick_before(self) -> None:
        before = reading(memory=3e10)
        start = memory(A4Phase.INIT, flags=Flags(shrink=True), previous=before)
        after, rule = self.after(dataclasses.replace(start, zones=Zones(4, 4)))
        self.assertEqual(
            (zones.SHRINK, A4Phase.ADJUST, Zones(4, 3)), (rule, after.phase, after.zones)
        )
        self.assertEqual(before, after.initial)
        after, rule = self.after(dataclasses.replace(start, zones=Zones(3, 3)))
        self.assertEqual(
            (zones.SHRUNK, A4Phase.STABLE, Zones(3, 2)), (rule, after.phase, after.zones)
        )
        self.assertFalse(after.flags.shrink)

    def test_init_with_nothing_to_do(self) -> None:
        now = reading(memory=2e10)
        after, rule = self.after(memory(A4Phase.INIT, zones=Zones(4, 2)), now)
        self.assertEqual(
            (zones.NOTHING, A4Phase.STABLE, Zones(4, 0)), (rule, after.phase, after.zones)
        )
        self.assertEqual(now, after.stable)

    def test_growth_goes_on_while_nobody_is_harmed(self) -> None:
        for shrink, trash in ((False, 0), (True, 4)):
            flags = Flags(grow=True, shrink=shrink)
            after, rule = self.after(memory(A4Phase.ADJUST, flags=flags, zones=Zones(3, 0)))
            self.assertEqual((zones.LARGER, Zones(4, trash)), (rule, after.zones))

    def test_growth_ends_with_all_ways(self) -> None:
        now = reading(memory=2e10)
        start = memory(A4Phase.ADJUST, flags=Flags(grow=True), zones=Zones(7, 0))
        after, rule = self.after(start, now)
        self.assertEqual(
            (zones.GROWN, A4Phase.STABLE, Zones(7, 0)), (rule, after.phase, after.zones)
        )
        self.assertEqual(now, after.stable)

    def test_harm_takes_the_last_way_back_and_the_tick_before_counts(self) -> None:
        """Hits below 0.8 and by more than 5 points; DDIO's misses more than doubled."""
        before = reading(memory=3e10)
        start = memory(A4Phase.ADJUST, flags=Flags(grow=True), zones=Zones(5, 0), previous=before)
        for now in (reading(hp=TickRates(63.9, 20.0)), reading(ddio_miss=40.1)):
            after, rule = self.after(start, now)
            self.assertEqual((zones.GROWN, Zones(4, 0)), (rule, after.zones))
            self.assertEqual((before, Flags()), (after.stable, after.flags))
        for now in (
            reading(hp=TickRates(64.0, 20.0)),
            reading(ddio_miss=40.0),
            reading(ddio_miss=None, hp=TickRates(None, None)),
            reading(hp_net=TickRates(1.0, 20.0)),
        ):
            self.assertEqual(zones.LARGER, self.after(start, now)[1])
        small = dataclasses.replace(start, initial=reading(hp=TickRates(20.0, 20.0)))
        self.assertEqual(zones.LARGER, self.after(small, reading(hp=TickRates(15.0, 20.0)))[1])
        self.assertEqual(zones.GROWN, self.after(small, reading(hp=TickRates(14.9, 20.0)))[1])

    def test_after_growth_the_trash_ways_shrink(self) -> None:
        start = memory(A4Phase.ADJUST, flags=Flags(True, True), zones=Zones(7, 7))
        after, rule = self.after(start)
        self.assertEqual(
            (zones.TURN, A4Phase.ADJUST, Zones(7, 6)), (rule, after.phase, after.zones)
        )
        start = dataclasses.replace(start, zones=Zones(4, 4))
        after, rule = self.after(start, reading(ddio_miss=41.0))
        self.assertEqual(
            (zones.GROWN, A4Phase.STABLE, Zones(3, 2)), (rule, after.phase, after.zones)
        )

    def test_trash_ways_shrink_to_two(self) -> None:
        start = memory(A4Phase.ADJUST, flags=Flags(shrink=True), zones=Zones(7, 4))
        after, rule = self.after(start)
        self.assertEqual((zones.SMALLER, Zones(7, 3)), (rule, after.zones))
        after, rule = self.after(dataclasses.replace(start, zones=Zones(7, 2)))
        self.assertEqual(
            (zones.DONE, A4Phase.STABLE, Zones(7, 2)), (rule, after.phase, after.zones)
        )

    def test_a_cost_gives_the_last_trash_way_back(self) -> None:
        """More than: memory 1.1, antagonists' misses 1.05; less than: storage 0.7, network 0.99."""
        start = memory(A4Phase.ADJUST, flags=Flags(shrink=True), zones=Zones(7, 4))
        both = dataclasses.replace(start, antagonists=("lp", "ssd"))
        for now in (
            reading(memory=1.11e10),
            reading(pool=TickRates(80.0, 21.1)),
            reading(pool=TickRates(78.9, 20.0)),
            reading(storage=0.69e9),
            reading(network=0.98e10),
        ):
            after, rule = self.after(both, now)
            self.assertEqual((zones.DONE, Zones(7, 5)), (rule, after.zones))
        for now in (
            reading(memory=1.1e10),
            reading(pool=TickRates(79.0, 21.0)),
            reading(storage=0.7e9, network=0.99e10),
            reading(memory=None, pool=None, storage=None, network=None),
        ):
            self.assertEqual(zones.SMALLER, self.after(both, now)[1])
        for other, now in (
            ("lp", reading(storage=0.1e9, network=0.1e10)),
            ("ssd", reading(pool=TickRates(0.0, 100.0))),
        ):
            only = dataclasses.replace(start, antagonists=(other,))
            self.assertEqual(zones.SMALLER, self.after(only, now)[1])

    def test_stable_sizes_nothing(self) -> None:
        self.assertIsNone(zones.size(memory(A4Phase.STABLE), LABELS, reading(), 7))

    def test_every_rule_is_declared_once(self) -> None:
        numbers = [number for number, *_ in A4.rules]
        self.assertEqual(list(range(1, 16)), sorted(numbers))
        self.assertEqual(set(A4.phases), {p for _, a, b in A4.rules for p in (a, b)})


def _tenant(label: Label, cpu: int = 0) -> Tenant:
    model, devices = DeviceModel.NONE, ()
    if label.kind is DeviceKind.STORAGE:
        devices = ("0000:5e:00.0",)
    elif label.kind is DeviceKind.NETWORK:
        model, devices = DeviceModel.SLICING, ("0000:3b:02.0",)
    priority = Priority.PC if label.high else Priority.BE
    io = label.kind is DeviceKind.NETWORK
    return build.tenant(label.id, cpu, priority=priority, io=io, model=model, devices=devices)


class Run:
    """Steps of a second, with what tenants do given by hand."""

    def __init__(self, *labels: Label, state: A4State | None = None) -> None:
        self.strategy = A4(Parameters())
        self.inventory = DomainInventory(
            DOMAIN, tuple(_tenant(one, n) for n, one in enumerate(labels))
        )
        self.at_s = 0.0
        self.state = state or self.strategy.initial(self.inventory, 0.0)

    def second(self, reads: float = 0.0, ddio_misses: float = 2e6, **streams: bool) -> Decision:
        self.at_s += 1.0
        rates = {
            tenant.id: Rates(1e9, 2e9, 1e7, 9.5e6 if streams.get(tenant.id) else 2e6, 1e6,
                             9e6 if streams.get(tenant.id) else 2e5)
            for tenant in self.inventory.tenants
        }  # fmt: skip
        sample = Sample(0, self.at_s, 1.0, rates, 8e6, ddio_misses, 1e10, reads, 1e10)
        self.state, decision = self.strategy.step(self.state, self.inventory, sample)
        check(self.inventory, decision.layout)
        return decision


class StepTest(unittest.TestCase):
    """What a second does."""

    def test_a_tick_takes_two_samples(self) -> None:
        """They come, then a way a tick: 3 of 7 after two seconds, 4 after four."""
        run = Run(HP_NET, HP, LP)
        found = [run.second() for _ in range(13)]
        sizes = [one.allocation.tenants["lp"] for one in found]
        self.assertEqual([2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7], sizes)
        self.assertEqual("stable", found[-1].phase)
        self.assertEqual(list(range(1, 14)), [one.iteration for one in found])
        self.assertEqual(
            [13, None, 2, None, 6, None, 6, None, 6, None, 6, None, 8],
            [one.rule for one in found],
        )

    def test_a_stream_is_found_confined_and_released(self) -> None:
        run = Run(HP_NET, HP, LP, Label("other", False, DeviceKind.CORES))
        for _ in range(20):
            run.second()
        guilty = [run.second(lp=True) for _ in range(40)]
        first = next(one for one in guilty if one.steps)
        self.assertEqual((12, "stable", "init"), (first.rule, first.phase_before, first.phase))
        (reason,) = [step.reason for step in first.steps if step.subject == "lp"]
        self.assertEqual(("antagonist", "cores-miss"), said.codes(reason))
        missed = reason.values["cause"].values
        self.assertEqual((90, 95), (round(missed["l2_percent"]), round(missed["llc_percent"])))
        masks = guilty[-1].layout
        self.assertEqual((0x00C, 0x1FC), (masks.mask_of("lp"), masks.mask_of("other")))
        self.assertEqual("stable", guilty[-1].phase)
        freed = [run.second() for _ in range(20)]
        self.assertIn("lp", [s.subject for one in freed for s in one.steps])
        self.assertEqual(freed[-1].layout.mask_of("lp"), freed[-1].layout.mask_of("other"))

    def test_storage_that_crowds_loses_dca_until_it_is_released(self) -> None:
        run = Run(*LABELS)
        port = DcaPort("0000:5d:00.0", ("0000:5e:00.0", "0000:5e:00.1"))
        other = DcaPort("0000:3a:00.0", ("0000:3b:02.0",))
        domain = dataclasses.replace(DOMAIN, dca_ports=(port, other))
        run.inventory = dataclasses.replace(run.inventory, domain=domain)
        for _ in range(20):
            self.assertEqual((), run.second().layout.dca_off)
        crowds = [run.second(ssd=True, reads=6e9, ddio_misses=9e6) for _ in range(4)]
        off = next(one for one in crowds if one.layout.dca_off)
        self.assertEqual(("0000:5d:00.0",), off.layout.dca_off)
        self.assertIn("ddio", off.moved)
        self.assertIn(message("dca-off", port=port.address), [step.reason for step in off.steps])
        for _ in range(30):
            self.assertTrue(run.second(ssd=True, reads=6e9, ddio_misses=9e6).layout.dca_off)
        freed = [run.second(reads=1e9) for _ in range(4)]
        self.assertEqual((), freed[-1].layout.dca_off)
        reasons = [step.reason for one in freed for step in one.steps]
        self.assertIn(message("dca-on", port=port.address), reasons)

    def test_a_launch_begins_again_and_a_departure_does_not(self) -> None:
        run = Run(HP, LP)
        for _ in range(20):
            run.second()
        run.inventory = DomainInventory(DOMAIN, tuple(map(_tenant, (HP, LP, SSD))))
        came = run.second()
        self.assertEqual((15, "init", 2), (came.rule, came.phase, came.allocation.tenants["lp"]))
        self.assertEqual(["ssd"], [step.subject for step in came.steps])
        for _ in range(20):
            run.second()
        run.inventory = DomainInventory(DOMAIN, tuple(map(_tenant, (HP, LP))))
        left = run.second()
        self.assertEqual(("stable", 7), (left.phase, left.allocation.tenants["lp"]))

    def test_storage_is_who_has_a_device_that_is_no_network_card(self) -> None:
        run = Run(*LABELS)
        run.second()
        self.assertEqual(LABELS, run.state.labels)

    def test_a_state_that_was_read_back_decides_the_same(self) -> None:
        run = Run(*LABELS)
        for number in range(60):
            run.second(lp=number > 20, hp=number > 40)
            again = records.structure(records.unstructure(run.state), A4State)
            self.assertEqual(run.state, again)
            one, other = Run(*LABELS, state=run.state), Run(*LABELS, state=again)
            self.assertEqual(one.second(lp=True), other.second(lp=True))


class ClosedLoopTest(unittest.TestCase):
    """On hosts that consist of formulas: their counters are those every machine has."""

    def test_it_settles_on_drawn_hosts(self) -> None:
        """No masks move in the last half minute of a steady load."""
        dice = random.Random("a4")
        for number in range(12):
            here = draw.hosts(number)[1]
            strategy = registry.make("a4", Parameters())
            state, moves = strategy.initial(here.inventory, 0.0), []
            for second in range(90):
                sample = here.sample(state.layout, second + 1.0, dice, 0.01)
                state, decision = strategy.step(state, here.inventory, sample)
                check(here.inventory, decision.layout)
                moves.append(bool(decision.moved))
            self.assertEqual("stable", decision.phase)
            self.assertFalse(any(moves[-30:]), number)


class ValuesTest(unittest.TestCase):
    def test_frozen(self) -> None:
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(state))
        self.assertTrue(frozen.values(state))
