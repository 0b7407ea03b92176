# SPDX-License-Identifier: Apache-2.0
"""Iterations as text and back: bit by bit, and without what cannot be recorded."""

import dataclasses
import json
import unittest

from iat_nova.model import PortRates, Rates, message
from iat_nova.store import packing, records
from iat_nova.strategies.iat.state import IatState
from iat_nova.strategies.outlook import Outlook
from tests.unit import frozen, stories

PORT = "0000:5e:00.0"


def back(packed, state=None):
    """The iteration of a packed one."""
    return packing.unpack_iteration(
        packed.seen, state, wall_s=stories.NIGHT, domain=0, inventory_id=1
    )


class TestIteration(unittest.TestCase):
    def test_whole(self):
        """Everything comes back; the state as plain types, of which the strategy's are made."""
        for iteration in (stories.quiet(1, stories.NIGHT), stories.burst(2, stories.NIGHT)):
            with self.subTest(iteration.decision.iteration):
                packed = packing.pack_iteration(iteration, whole=True)
                self.assertEqual({}, packed.lost)
                found = back(packed, packed.state)
                state = records.structure(found.state, IatState)
                self.assertEqual(iteration, dataclasses.replace(found, state=state))
                self.assertIs(False, found.follows)

    def test_what_is_not_always_known(self):
        """Former names, shown losses, an outlook and the layout before: there or not."""
        plain = stories.quiet(1, stories.NIGHT)
        for changes in (
            {"former": {"u1": "old"}},
            {"shown": {"u1": 0.25}},
            {"outlook": Outlook.ALL_FAILED},
            {"layout_before": None},
            {"effective": None},
            {"effective": {}},
            {"timings_us": {}},
        ):
            with self.subTest(changes):
                iteration = dataclasses.replace(plain, state=None, follows=True, **changes)
                packed = packing.pack_iteration(iteration, whole=False)
                self.assertEqual(iteration, back(packed))

    def test_absent_parts_take_no_room(self):
        """A record names nothing that is empty, and timings to a tenth of a microsecond."""
        iteration = dataclasses.replace(stories.quiet(1, 0.0), timings_us={"read": 40.5678})
        seen = json.loads(packing.pack_iteration(iteration, whole=False).seen)
        parts = {"at_s", "sample", "decision", "effective", "timings_us", "layout_before"}
        self.assertEqual(parts, set(seen))
        self.assertEqual({"read": 40.6}, seen["timings_us"])

    def test_without_its_state(self):
        """A state that is not stored follows from the iteration before."""
        packed = packing.pack_iteration(stories.quiet(1, 0.0), whole=False)
        self.assertEqual((None, {}), (packed.state, packed.lost))
        found = back(packed)
        self.assertEqual((True, None, None), (found.follows, found.state, found.state_lost))

    def test_lost_state(self):
        """A state that is no data is left out and told; the iteration follows from nothing."""
        iteration = dataclasses.replace(stories.quiet(1, 0.0), state=object())
        packed = packing.pack_iteration(iteration, whole=True)
        self.assertIsNone(packed.state)
        self.assertEqual(["state-not-recorded"], [one.code for one in packed.lost])
        found = back(packed)
        self.assertEqual((False, None), (found.follows, found.state))
        self.assertTrue(found.state_lost)
        again = packing.pack_iteration(
            dataclasses.replace(iteration, state_lost="lost before"), whole=True
        )
        self.assertEqual((None, {}), (again.state, again.lost))
        self.assertEqual("lost before", back(again).state_lost)
        unasked = packing.pack_iteration(iteration, whole=False)
        self.assertEqual({}, unasked.lost)

    def test_lost_decision(self):
        """A decision that is no data leaves nothing to record but the error."""
        iteration = stories.quiet(1, 0.0)
        odd = dataclasses.replace(iteration.decision, changes=(object(),))
        packed = packing.pack_iteration(dataclasses.replace(iteration, decision=odd), whole=True)
        self.assertEqual((None, None), (packed.seen, packed.state))
        self.assertEqual(["decision-not-recorded"], [one.code for one in packed.lost])

    def test_another_form(self):
        """An iteration without one of its parts is an error that says so."""
        seen = json.loads(packing.pack_iteration(stories.quiet(1, 0.0), whole=False).seen)
        for part in ("at_s", "sample", "decision", "effective", "timings_us", "layout_before"):
            without = {name: value for name, value in seen.items() if name != part}
            packed = packing.Packed(records.text(without), None, {})
            with self.subTest(part), self.assertRaisesRegex(records.RecordError, "lacks a part"):
                back(packed)

    def test_foreign_state(self):
        """A plug-in's state of another form does not keep the iteration from being read."""
        packed = packing.pack_iteration(stories.quiet(1, 0.0), whole=True)
        state = records.text({"q_table": [1, 2]})
        self.assertEqual({"q_table": [1, 2]}, back(packed, state).state)

    def test_frozen(self):
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(packing))
        self.assertTrue(frozen.values(packing))


class TestSample(unittest.TestCase):
    def test_rates_come_back_bit_by_bit(self):
        """Those that are counts over the interval, and those that are not; what is absent is."""
        told, per_s = stories.quiet(1, 0.0), 1.0 / 1.0000372
        counted = Rates(2007847041 * per_s, 3 * per_s, 1e6 / 3, 0.0, None, 7 * per_s, 4096, None)
        for tenants in ({"a": counted}, {"a": Rates(1.0, 2.0, 3.5, 4e300)}, {}):
            sample = dataclasses.replace(
                told.sample,
                interval_s=1.0000372,
                tenants=tenants,
                ddio_hits_per_s=31 * per_s,
                ddio_misses_per_s=None,
                memory_bytes_per_s=0.1,
                ports={PORT: PortRates(4096, 7 * per_s)} if tenants else {},
            )
            packed = packing.pack_iteration(dataclasses.replace(told, sample=sample), whole=False)
            self.assertEqual(sample, back(packed).sample)
            if tenants.get("a") is counted:
                plain = json.loads(packed.seen)["sample"]
                listed = [2007847041, 3, 1e6 / 3, 0, None, 7, 4096]
                self.assertEqual(listed, plain["tenants"]["a"])
                self.assertEqual([4096, 7], plain["ports"][PORT])
                self.assertEqual(31, plain["ddio_hits_per_s"])
                self.assertNotIn("ddio_misses_per_s", plain)

    def test_odd_intervals(self):
        """Without an interval, and with rates that are not finite, rates stay as they are."""
        told = stories.quiet(1, 0.0)
        for interval_s, misses_per_s in ((0.0, 12.0), (0.0, 0.0), (2.0, float("inf")), (2.0, 0.25)):
            with self.subTest(interval_s=interval_s, misses_per_s=misses_per_s):
                sample = dataclasses.replace(
                    told.sample,
                    interval_s=interval_s,
                    tenants={"a": Rates(1.5, 2.5, misses_per_s, 3.0)},
                    ddio_misses_per_s=misses_per_s,
                    ports={PORT: PortRates(0, misses_per_s)},
                )
                packed = packing.pack_iteration(
                    dataclasses.replace(told, sample=sample), whole=False
                )
                self.assertEqual(sample, back(packed).sample)

    def test_nothing_of_ports(self):
        """A host without counters of ports stores nothing of ports."""
        packed = packing.pack_iteration(stories.quiet(1, 0.0), whole=False)
        self.assertNotIn("ports", json.loads(packed.seen)["sample"])

    def test_message_of_the_loss(self):
        """The error is among the values of its message."""
        iteration = dataclasses.replace(stories.quiet(1, 0.0), state=object())
        (lost,) = packing.pack_iteration(iteration, whole=True).lost
        self.assertEqual(message("state-not-recorded", error=lost.values["error"]), lost)
