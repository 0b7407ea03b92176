# SPDX-License-Identifier: Apache-2.0
"""What tenants lose to others, by counters alone: bounds, and what is not known."""

import dataclasses
import unittest

from iat_nova.model import (
    DDIO,
    DevicePort,
    DomainInventory,
    Parameters,
    Priority,
    Rates,
    Sample,
    WayMask,
    WayRequest,
)
from iat_nova.strategies import api, pressure, registry
from iat_nova.strategies.outlook import EXHAUSTED, MEANINGS, UNDECIDED, Outlook
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.state import Failure, Phase
from tests.unit import frozen
from tests.unit.build import domain, tenant

CYCLES = 2e9
DB = tenant("db", 2, priority=Priority.PC)
BATCH = tenant("batch", 3)


def rates(misses: float, references: float = 20e6, ipc: float = 1.0, **more) -> Rates:
    return Rates(ipc * CYCLES, CYCLES, references, misses, **more)


def sample(tenants, **more) -> Sample:
    return Sample(0, 0.0, 1.0, tenants, **more)


def host(*tenants, **more) -> DomainInventory:
    return DomainInventory(domain(way_bytes=1 << 20, **more), tenants)


def everywhere(inventory: DomainInventory) -> dict[str, WayMask]:
    return {one.id: inventory.domain.open_ways for one in inventory.tenants}


class LossTest(unittest.TestCase):
    def loss(self, measured, inventory=None, masks=None, shown=None, of="db", **more):
        inventory = inventory or host(DB, BATCH)
        masks = masks or everywhere(inventory)
        return pressure.losses(inventory, sample(measured, **more), masks, shown or {}).get(of)

    def test_alone_nothing_is_lost_to_others(self) -> None:
        """A tenant that fills the whole LLC misses for its own sake; all of it is the bound."""
        loss = self.loss({"db": rates(4e6)}, host(DB))
        self.assertEqual((0.0, 0.0), (loss.least, loss.likely))
        self.assertAlmostEqual(0.2, loss.stalled)
        self.assertAlmostEqual(0.4, loss.most)

    def test_the_smaller_its_share_the_more_it_loses(self) -> None:
        """Misses fall exponentially with the size: a half with a half, a quarter with all."""
        loss = self.loss({"db": rates(8e6, references=16e6 / 0.8), "batch": rates(8e6)})
        self.assertAlmostEqual(0.4 * (1 - 0.4), loss.likely)  # 0.4 with a half, 0.16 with all
        loss = self.loss({"db": rates(4e6), "batch": rates(12e6)})
        self.assertAlmostEqual(0.2 * (1 - 0.2**3), loss.likely)  # 0.2 with a quarter
        crowded = self.loss({"db": rates(4e6), "batch": rates(60e6)})
        self.assertGreater(crowded.likely, loss.likely)

    def test_a_small_part_of_misses_is_regained_with_most_of_the_cache(self) -> None:
        """What misses with three quarters of the LLC misses nearly as much with all of it."""
        loss = self.loss({"db": rates(6e6), "batch": rates(2e6)})
        self.assertAlmostEqual(0.3 * (1 - 0.3 ** (1 / 3)), loss.likely)

    def test_occupancy_goes_before_the_estimate(self) -> None:
        """Where the LLC is monitored, the share that is measured counts."""
        full = 11 << 20
        loss = self.loss({"db": rates(4e6, occupancy_bytes=full), "batch": rates(12e6)})
        self.assertEqual(0.0, loss.likely)

    def test_a_stream_may_lose_nothing(self) -> None:
        """A tenant that hardly reuses lines is not claimed to suffer: unknown, not zero."""
        stream = {"db": rates(9e6, references=20e6), "batch": rates(12e6)}
        loss = self.loss(stream)
        self.assertIsNone(loss.likely)
        self.assertEqual(0.0, loss.least)
        loss = self.loss(stream, shown={"db": 0.1})
        self.assertEqual((0.1, None), (loss.least, loss.likely))

    def test_misses_that_would_take_all_cycles_overlap(self) -> None:
        """What a miss costs is not known then, nor what fewer misses would save."""
        loss = self.loss({"db": rates(25e6, references=100e6), "batch": rates(12e6)})
        self.assertEqual((0.95, None), (loss.stalled, loss.likely))

    def test_inbound_data_miss_also_alone(self) -> None:
        """Of a tenant with I/O nothing is claimed: no counter tells its packets from its memory."""
        inventory = host(dataclasses.replace(DB, io=True), BATCH)
        loss = self.loss({"db": rates(4e6), "batch": rates(12e6)}, inventory)
        self.assertIsNone(loss.likely)
        self.assertEqual(0.0, loss.least)
        self.assertAlmostEqual(0.4, loss.most)

    def test_bounds_are_in_order(self) -> None:
        """No bound exceeds the next, nor a whole; a loss shown beyond the stalls is cut."""
        for misses in (0.0, 1e5, 4e6, 50e6):
            for shown in (0.0, 0.3, 0.9):
                measured = {"db": rates(misses, references=1e9), "batch": rates(5e6)}
                with self.subTest(misses=misses, shown=shown):
                    loss = self.loss(measured, shown={"db": shown})
                    self.assertLessEqual(0.0, loss.least)
                    self.assertLessEqual(loss.least, loss.most)
                    if loss.likely is not None:
                        self.assertLessEqual(loss.least, loss.likely)
                        self.assertLessEqual(loss.likely, loss.most)
                    self.assertLess(loss.most, 1.0)

    def test_who_sleeps_or_is_not_measured_has_no_loss(self) -> None:
        asleep = dataclasses.replace(rates(1e3), cycles_per_s=1e6)
        self.assertIsNone(self.loss({"db": asleep, "batch": rates(1e6)}))
        self.assertIsNone(self.loss({"batch": rates(1e6)}))

    def test_ways_of_its_own_are_its_own(self) -> None:
        """A neighbour fills only the ways of its mask; devices fill DDIO's."""
        inventory = host(DB, BATCH)
        masks = {"db": WayMask(0x00F), "batch": WayMask(0x7F0), DDIO: WayMask(0x600)}
        measured = sample({"db": rates(1e6), "batch": rates(9e6)}, ddio_misses_per_s=2e6)
        fills = pressure.fills(inventory, measured, masks)
        self.assertAlmostEqual(4 / 11, fills["db"].share)
        # Five ways alone, and of two more 9/7 M lines beside 1 M of devices.
        self.assertAlmostEqual((5 + 2 * 9 / 16) / 11, fills["batch"].share)
        self.assertFalse(fills["db"].monitored)

    def test_devices_fill_the_ways_of_ports_aside_as_well(self) -> None:
        """No counter tells the lines of ports apart: the same in each way that any writes into."""
        inventory = host(DB, BATCH, device_ports=(DevicePort("disk", ("disk",)),))
        masks = {"db": WayMask(0x0FF), "batch": WayMask(0x100), DDIO: WayMask(0x600)}
        measured = sample({"db": rates(1e6), "batch": rates(1e6)}, ddio_misses_per_s=6e6)
        apart = pressure.fills(inventory, measured, masks)
        self.assertAlmostEqual(1 / 11, apart["batch"].share)
        aside = pressure.fills(inventory, measured, {**masks, "disk": WayMask(0x100)})
        self.assertAlmostEqual(1 / 11 / 3, aside["batch"].share)
        reaching = {**masks, "db": WayMask(0x6FF), "disk": WayMask(0x100)}
        beside = pressure.fills(inventory, measured, {**masks, "db": WayMask(0x6FF)})["db"].share
        self.assertAlmostEqual((8 + 2 * 0.1 / 3.1) / 11, beside)
        fewer = pressure.fills(inventory, measured, reaching)["db"].share  # into DDIO's ways
        self.assertAlmostEqual((8 + 2 * 0.1 / 2.1) / 11, fewer)

    def test_fills_as_far_as_known(self) -> None:
        """Measured, at most the whole; else of who is awake and has ways; by misses alone."""
        full = 11 << 20
        inventory = host(DB, BATCH)
        masks = {"db": WayMask(0x00F), "batch": WayMask(0x00F)}
        for measured, expected in (
            ({"db": rates(1e6), "batch": rates(3e6)}, {"db": 1 / 11, "batch": 3 / 11}),
            ({"db": rates(0.0), "batch": rates(0.0)}, {"db": 0.0, "batch": 0.0}),
            ({"db": rates(1e6)}, {"db": 4 / 11}),
            ({"db": rates(1e6, occupancy_bytes=full // 2)}, {"db": 0.5}),
            ({"db": rates(1e6, occupancy_bytes=2 * full)}, {"db": 1.0}),
            ({"db": rates(1e6, occupancy_bytes=0)}, {"db": 0.0}),
        ):
            with self.subTest(measured):
                found = pressure.fills(inventory, sample(measured), masks)
                self.assertEqual(set(expected), set(found))
                for name, share in expected.items():
                    self.assertAlmostEqual(share, found[name].share)
                    monitored = measured[name].occupancy_bytes is not None
                    self.assertIs(monitored, found[name].monitored)
        without = pressure.fills(inventory, sample({"db": rates(1e6)}), {})
        self.assertEqual({}, without)


class LikelyTest(unittest.TestCase):
    def test_share_of_the_cache(self) -> None:
        """With half the cache a tenth of the misses would be left, where a tenth misses now."""
        inventory, full = host(DB), 11 << 20
        for misses, references, bytes_, expected in (
            (4e6, 40e6, full, 0.0),
            (4e6, 40e6, full // 2, 0.2 * 0.9),
            (4e6, 40e6, full // 4, 0.2 * 0.999),
            (4e6, 40e6, 0, 0.2),
            (0.0, 40e6, full, 0.0),
            (18.9e6, 189e6, full // 2, 0.945 * 0.9),
            (19e6, 190e6, full // 2, None),  # the cost of a miss is not known
            (4e6, 4e6, full // 2, None),  # a stream
        ):
            with self.subTest(misses=misses, bytes=bytes_):
                measured = sample({"db": rates(misses, references, occupancy_bytes=bytes_)})
                (loss,) = pressure.losses(inventory, measured, everywhere(inventory), {}).values()
                if expected is None:
                    self.assertIsNone(loss.likely)
                else:
                    self.assertAlmostEqual(expected, loss.likely)


class NewcomerTest(unittest.TestCase):
    def ways(self, *tenants, masks=None, asleep=(), **more):
        inventory = host(*tenants)
        measured = {one.id: rates(1e6) for one in tenants if one.id not in asleep}
        masks = masks or everywhere(inventory)
        found = pressure.newcomers(inventory, sample(measured, **more), masks)
        return {priority.value: round(ways, 2) for priority, ways in found.items()}

    def test_a_shared_way_counts_in_part(self) -> None:
        self.assertEqual({"PC": 5.5, "BE": 5.5}, self.ways(DB))
        self.assertEqual({"PC": 3.67, "BE": 3.67}, self.ways(DB, BATCH))
        self.assertEqual({"PC": 5.5, "BE": 5.5}, self.ways(DB, BATCH, asleep=("batch",)))

    def test_who_lives_in_l2_does_not_compete(self) -> None:
        """A tenant with hardly a reference to the LLC leaves its ways; who hits there does not."""
        measured = {"db": rates(0.0, references=1e5), "batch": rates(0.0, references=1e6)}
        inventory, found = host(DB), host(DB, BATCH)
        alone = pressure.newcomers(inventory, sample(measured), everywhere(inventory))
        beside = pressure.newcomers(found, sample(measured), everywhere(found))
        self.assertEqual((11.0, 5.5), (alone[Priority.PC], beside[Priority.PC]))

    def test_devices_without_known_ways_fill_none(self) -> None:
        """Where DDIO's mask is not known, lines of devices count nowhere."""
        inventory = host(DB)
        seen = sample({"db": rates(1e6)}, ddio_hits_per_s=1e6, ddio_misses_per_s=1e6)
        found = pressure.newcomers(inventory, seen, everywhere(inventory))
        self.assertEqual({Priority.PC: 5.5, Priority.BE: 5.5}, found)

    def test_a_newcomer_gets_what_its_like_has(self) -> None:
        """A best-effort newcomer goes where best effort is confined; devices fill DDIO's ways."""
        masks = {"db": WayMask(0x1FF), "batch": WayMask(0x600), DDIO: WayMask(0x600)}
        self.assertEqual({"PC": 4.5, "BE": 1.0}, self.ways(DB, BATCH, masks=masks))
        inbound = {"ddio_hits_per_s": 1e6, "ddio_misses_per_s": 1e6}
        found = self.ways(DB, BATCH, masks=masks, **inbound)
        self.assertEqual({"PC": 4.5, "BE": 0.67}, found)

    def test_devices_of_ports_aside_fill_their_way(self) -> None:
        """A newcomer shares it with them, once each way."""
        inventory = host(DB, BATCH, device_ports=(DevicePort("disk", ("disk",)),))
        masks = {"db": WayMask(0x0FF), "batch": WayMask(0x700), DDIO: WayMask(0x600)}
        measured = {one.id: rates(1e6) for one in inventory.tenants}
        for ports, ways in (
            ({}, 1 / 2 + 2 / 3),
            ({"disk": WayMask(0x100)}, 3 / 3),
            ({"disk": WayMask(0x300)}, 3 / 3),
        ):
            for inbound, expected in ((1e6, ways), (0.0, 3 / 2)):
                seen = sample(measured, ddio_hits_per_s=inbound, ddio_misses_per_s=0.0)
                found = pressure.newcomers(inventory, seen, {**masks, **ports})
                self.assertAlmostEqual(expected, found[Priority.BE])

    def test_guaranteed_ways_are_nobody_elses(self) -> None:
        owner = dataclasses.replace(DB, ways=WayRequest(4, 4, 4, promised=4))
        masks = {"db": WayMask(0x00F)}
        self.assertEqual({"PC": 7.0, "BE": 7.0}, self.ways(owner, masks=masks))

    def test_without_rates_nothing_is_known(self) -> None:
        self.assertEqual({}, self.ways(DB, asleep=("db",)))


class OutlookTest(unittest.TestCase):
    """What the default strategy says of its moves, from the memory it has anyway."""

    def setUp(self) -> None:
        self.strategy = registry.make("pollute-buffer", Parameters())
        state = self.strategy.initial(host(DB, BATCH), 0.0)
        self.state = dataclasses.replace(state, load_since_s=100.0)

    def says(self, at_s: float = 200.0, **changes) -> Outlook:
        return api.outlook(self.strategy, dataclasses.replace(self.state, **changes), at_s)

    def failure(self, until_s: float, what=True) -> Failure:
        return Failure(Plan(frozenset(), 2, 2), object() if what else None, 10.0, until_s)

    def test_codes(self) -> None:
        rest = {"phase": Phase.REST}
        self.assertEqual(Outlook.SEARCHING, self.says())
        self.assertEqual(Outlook.SEARCHING, self.says(phase=Phase.TRIAL))
        self.assertEqual(Outlook.NO_PROMISE, self.says(**rest))
        failed = (self.failure(150.0),)
        self.assertEqual(Outlook.ALL_FAILED, self.says(**rest, failures=failed))
        earlier = (self.failure(50.0),)  # under another load
        self.assertEqual(Outlook.NO_PROMISE, self.says(**rest, failures=earlier))
        replaced = (self.failure(150.0, what=False),)  # by a move that was kept
        self.assertEqual(Outlook.NO_PROMISE, self.says(**rest, failures=replaced))
        calm = {"load_since_s": 190.0, "calm_s": 20.0}
        self.assertEqual(Outlook.UNSETTLED, self.says(**calm))

    def test_a_strategy_that_does_not_say(self) -> None:
        for name in ("iat", "a4"):
            strategy = registry.make(name, Parameters())
            self.assertEqual(Outlook.UNKNOWN, api.outlook(strategy, None, 0.0))

    def test_each_code_has_a_meaning(self) -> None:
        self.assertEqual(set(Outlook), set(MEANINGS))
        self.assertEqual(set(), EXHAUSTED & UNDECIDED)


class FrozenTest(unittest.TestCase):
    def test_what_is_told_stays(self) -> None:
        """Losses and fills are values: nobody changes them after they were told."""
        self.assertEqual([], sorted(frozen.changeable(pressure)))
