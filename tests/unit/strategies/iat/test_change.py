# SPDX-License-Identifier: Apache-2.0
"""Stable or not, the three exceptions, and what becomes of the reference."""

from __future__ import annotations

import dataclasses
import math
import unittest

from iat_nova.model import Change, DomainInventory, Parameters, Quantity, Rates, Sample
from iat_nova.strategies.iat import change
from iat_nova.strategies.iat.change import Direction, Moves
from iat_nova.strategies.iat.fsm import Signal
from iat_nova.strategies.iat.roster import Roster
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, guest, rates, stack

P = Parameters()


def sample(hits: float | None = 20 * M, misses: float | None = 0.5 * M, **tenants: Rates) -> Sample:
    return Sample(0, 0.0, 1.0, tenants, hits, misses)


def quantities(before: Sample, after: Sample) -> set[tuple[str, Quantity]]:
    ids = sorted({*before.tenants, *after.tenants})
    found = change.compare(before, after, ids, P).changes
    return {(moved.subject, moved.quantity) for moved in found}


class TestDirection(unittest.TestCase):
    """What counts as up and down."""

    def test_threshold_and_floor_must_both_be_passed(self) -> None:
        """A move counts beyond 3 % and beyond the floor, in either direction."""
        for before, after, expected in (
            (10 * M, 10.29 * M, Direction.STEADY),
            (10 * M, 10.31 * M, Direction.UP),
            (10 * M, 9.69 * M, Direction.DOWN),
            (1 * M, 1.09 * M, Direction.STEADY),  # 9 %, but below 0.1 M
            (0.0, 0.2 * M, Direction.UP),
            (0.2 * M, 0.0, Direction.DOWN),
            (0.0, 0.0, Direction.STEADY),
        ):
            with self.subTest(before=before, after=after):
                self.assertIs(expected, change.direction(before, after, 0.03, 0.1 * M))


class TestCompare(unittest.TestCase):
    """Which quantities moved."""

    def test_each_quantity_is_seen(self) -> None:
        """IPC, references, misses of a tenant and hits, misses of DDIO are told apart."""
        before = sample(a=rates(5 * M, 1 * M, 1.0))
        for after, expected in (
            (sample(a=rates(5 * M, 1 * M, 0.9)), ("a", Quantity.IPC)),
            (sample(a=rates(6 * M, 1 * M, 1.0)), ("a", Quantity.REFERENCES)),
            (sample(a=rates(5 * M, 2 * M, 1.0)), ("a", Quantity.MISSES)),
            (sample(hits=22 * M, a=rates(5 * M, 1 * M)), ("ddio", Quantity.DDIO_HITS)),
            (sample(misses=1 * M, a=rates(5 * M, 1 * M)), ("ddio", Quantity.DDIO_MISSES)),
        ):
            with self.subTest(expected=expected):
                self.assertEqual({expected}, quantities(before, after))

    def test_an_idle_guest_moves_nothing(self) -> None:
        """Below the floors neither misses nor IPC of a guest count."""
        idle = sample(a=rates(2e4, 1e4, 0.3), b=Rates(0, 0, 0, 0))
        other = sample(a=rates(6e4, 5e4, 1.4), b=Rates(1e6, 2e6, 1e3, 10))
        self.assertEqual(set(), quantities(idle, other))

    def test_moves_within_the_threshold_or_the_floor_are_none(self) -> None:
        """3 % of what was, and 0.1 million a second; of IPC 3 %."""
        for was, now in (
            (rates(10 * M, 10 * M), rates(10.2 * M, 10.2 * M)),
            (rates(10 * M, 10 * M), rates(9.8 * M, 9.8 * M)),
            (rates(100 * M, 100 * M), rates(103 * M, 97 * M)),
            (rates(1 * M, 0.5 * M), rates(1.1 * M, 0.6 * M)),
            (rates(1 * M, 0.5 * M), rates(0.9 * M, 0.4 * M)),
            (rates(ipc=1.9), rates(ipc=1.86)),
            (rates(ipc=1.9), rates(ipc=1.94)),
        ):
            with self.subTest(was=was, now=now):
                self.assertEqual(set(), quantities(sample(a=was), sample(a=now)))
        quarter = dataclasses.replace(P, threshold_stable=0.25)
        for ipc, moved in ((1.25, 0), (1.26, 1), (0.75, 0), (0.74, 1)):
            found = change.compare(sample(a=rates()), sample(a=rates(ipc=ipc)), ("a",), quarter)
            self.assertEqual(moved, len(found.changes), ipc)

    def test_figures_of_a_move(self) -> None:
        """What was, and what is."""
        before, after = rates(5 * M, 1 * M, 1.5), rates(7 * M, 2 * M, 1.25)
        found = change.compare(
            sample(10 * M, 2 * M, a=before), sample(12 * M, 1 * M, a=after), ("a",), P
        )
        expected = (
            Change("a", Quantity.IPC, 1.5, 1.25),
            Change("a", Quantity.REFERENCES, 5 * M, 7 * M),
            Change("a", Quantity.MISSES, 1 * M, 2 * M),
            Change("ddio", Quantity.DDIO_HITS, 10 * M, 12 * M),
            Change("ddio", Quantity.DDIO_MISSES, 2 * M, 1 * M),
        )
        self.assertEqual((expected, False), found)

    def test_ipc_of_a_guest_with_references(self) -> None:
        """Above the floor before or after; a guest without cycles has no IPC."""
        floor = P.floor_references_per_s
        for was, now, counts in (
            (floor, floor, False),
            (5 * M, 0.0, True),
            (0.0, 5 * M, True),
            (2 * floor, 2 * floor, True),
        ):
            with self.subTest(was=was, now=now):
                before, after = rates(was, 0, 1.0), rates(now, 0, 1.5)
                moved = quantities(sample(a=before), sample(a=after))
                self.assertEqual(counts, ("a", Quantity.IPC) in moved)
                asleep = dataclasses.replace(after, cycles_per_s=0.0)
                for pair in ((before, asleep), (asleep, before)):
                    moved = quantities(*(sample(a=one) for one in pair))
                    self.assertNotIn(("a", Quantity.IPC), moved)

    def test_counts_of_ddio_that_are_missing(self) -> None:
        """Misses are compared without hits, and hits without misses."""
        before, after = sample(10 * M, 2 * M), sample(20 * M, 4 * M)
        for hits, misses, subject in ((None, 4 * M, "misses"), (20 * M, None, "hits")):
            bare = dataclasses.replace(after, ddio_hits_per_s=hits, ddio_misses_per_s=misses)
            found = change.compare(before, bare, (), P)
            self.assertEqual([subject], [one.quantity.split("_")[1] for one in found.changes])
            self.assertFalse(found.unseen)
            first = dataclasses.replace(before, ddio_hits_per_s=hits, ddio_misses_per_s=misses)
            self.assertTrue(change.compare(first, after, (), P).unseen)

    def test_what_is_missing_is_not_compared(self) -> None:
        """A tenant or DDIO count absent on one side is no change, but is told as unseen."""
        full, bare = sample(a=rates(), b=rates()), sample(None, None, a=rates())
        self.assertEqual(((), False), change.compare(full, bare, ("a", "b"), P))
        self.assertEqual(((), True), change.compare(bare, full, ("a", "b"), P))

    def test_behind_one_that_is_missing_the_others_are_compared(self) -> None:
        """Whether it was not measured now, or not before."""
        before, after = sample(b=rates(5 * M, 1 * M)), sample(b=rates(6 * M, 1 * M))
        known = dataclasses.replace(after, tenants={**after.tenants, "a": rates()})
        for seen, unseen in ((after, False), (known, True)):
            found = change.compare(before, seen, ("a", "b"), P)
            self.assertEqual(["b"], [one.subject for one in found.changes])
            self.assertEqual(unseen, found.unseen)


class TestException(unittest.TestCase):
    """The paper's three exceptions."""

    @staticmethod
    def _moves(*moved: tuple[str, Quantity]) -> Moves:
        return Moves(Change(subject, quantity, 1.0, 2.0) for subject, quantity in moved)

    def test_each_number(self) -> None:
        """IPC alone: 1; a core off DDIO's ways without DDIO: 2; on them with DDIO: 3."""
        ipc, llc = ("a", Quantity.IPC), ("a", Quantity.MISSES)
        hits = ("ddio", Quantity.DDIO_HITS)
        for moved, overlapping, expected in (
            ((), (), None),
            ((ipc,), (), 1),
            ((ipc, llc), (), 2),
            ((ipc, ("a", Quantity.REFERENCES)), ("b",), 2),
            ((ipc, llc, hits), ("a",), 3),
            ((ipc, llc), ("a",), None),  # overlaps, but DDIO did not move
            ((ipc, llc, hits), (), None),  # DDIO moved, but does not overlap
            ((llc,), (), None),  # IPC did not move
            ((ipc, hits), (), None),
        ):
            with self.subTest(moved=moved, overlapping=overlapping):
                found = change.exception(self._moves(*moved), ("a", "b"), overlapping)
                self.assertEqual(expected, found)


class TestMoves(unittest.TestCase):
    """Changes by subject."""

    MOVES = Moves(
        (
            Change("a", Quantity.IPC, 1.0, 2.0),
            Change("a", Quantity.MISSES, 2.0, 1.0),
            Change("b", Quantity.IPC, 1.0, 0.5),
            Change("ddio", Quantity.DDIO_HITS, 1.0, 1.0),
        )
    )

    def test_without_one_subject(self) -> None:
        """The changes of all others, in order."""
        for subject, expected in (
            ("a", ["b", "ddio"]),
            ("b", ["a", "a", "ddio"]),
            ("ddio", ["a", "a", "b"]),
            ("c", ["a", "a", "b", "ddio"]),
        ):
            found = self.MOVES.without("".join(subject))
            self.assertEqual(expected, [one.subject for one in found])

    def test_rose(self) -> None:
        """Upwards only, and only what moved."""
        for subject, quantity, expected in (
            ("a", Quantity.IPC, True),
            ("a", Quantity.MISSES, False),
            ("b", Quantity.IPC, False),
            ("b", Quantity.MISSES, False),
            ("ddio", Quantity.DDIO_HITS, False),
            ("c", Quantity.IPC, False),
        ):
            self.assertIs(expected, self.MOVES.rose(subject, quantity))


class TestReference(unittest.TestCase):
    """What a sample is compared with next time."""

    def test_only_what_was_judged_takes_its_new_value(self) -> None:
        """A judged move is the new normal, a slow drift beside it keeps its reference."""
        before = sample(a=rates(5 * M, 1 * M), b=rates(5 * M, 1 * M))
        after = sample(hits=20.2 * M, a=rates(8 * M, 1.02 * M), b=rates(5.1 * M, 1 * M))
        moved = change.compare(before, after, ("a", "b"), P).changes
        rebased = change.rebase(before, after, moved, ())
        self.assertEqual(8 * M, rebased.tenants["a"].references_per_s)
        self.assertEqual(1 * M, rebased.tenants["a"].misses_per_s)
        self.assertEqual(before.tenants["b"], rebased.tenants["b"])
        self.assertEqual(20 * M, rebased.ddio_hits_per_s)

    def test_who_waits_keeps_the_reference(self) -> None:
        """A tenant whose turn has not come is compared with the old figures again."""
        before, after = sample(a=rates(5 * M)), sample(hits=30 * M, a=rates(9 * M))
        moved = change.compare(before, after, ("a",), P).changes
        self.assertEqual(before.tenants, change.rebase(before, after, moved, ("a",)).tenants)
        restarted = change.restart(before, after, ("a",))
        self.assertEqual(before.tenants, restarted.tenants)
        self.assertEqual(30 * M, restarted.ddio_hits_per_s)

    def test_quantities_of_their_own(self) -> None:
        """Each quantity takes its new value alone: of a tenant, and of DDIO."""
        before = sample(10 * M, 2 * M, guest=rates())
        after = sample(20 * M, 4 * M, guest=rates(9 * M, 3 * M, 2.0))
        was, now = before.tenants["guest"], after.tenants["guest"]
        for subject, quantity, expected in (
            ("ddio", Quantity.DDIO_HITS, {"ddio_hits_per_s": 20 * M}),
            ("ddio", Quantity.DDIO_MISSES, {"ddio_misses_per_s": 4 * M}),
            ("guest", Quantity.REFERENCES, {"references_per_s": now.references_per_s}),
            ("guest", Quantity.MISSES, {"misses_per_s": now.misses_per_s}),
            (
                "guest",
                Quantity.IPC,
                {"instructions_per_s": now.instructions_per_s, "cycles_per_s": now.cycles_per_s},
            ),
        ):
            with self.subTest(quantity):
                moved = Change(subject, quantity, *(2 * [max(expected.values())]))
                found = change.rebase(before, after, (moved,), ())
                if subject == "ddio":
                    new = dataclasses.replace(before, **expected)
                else:
                    tenants = {"guest": dataclasses.replace(was, **expected)}
                    new = dataclasses.replace(before, tenants=tenants)
                self.assertEqual(new, found)

    def test_first_sights_enter_it(self) -> None:
        """Tenants and DDIO counts seen for the first time become part of the reference."""
        bare = sample(None, None, a=rates())
        full = sample(a=rates(7 * M), b=rates())
        seen = change.rebase(bare, full, (), ())
        self.assertEqual({"a": rates(), "b": rates()}, dict(seen.tenants))
        self.assertEqual((20 * M, 0.5 * M), (seen.ddio_hits_per_s, seen.ddio_misses_per_s))


class TestIoMoves(unittest.TestCase):
    """What the machine is shown."""

    ROSTER = Roster.of(DomainInventory(domain(), (stack(), guest("io", io=True), guest("be"))))

    def test_references_are_those_of_stack_and_io_tenants(self) -> None:
        """A best-effort tenant without I/O does not raise r."""
        before = sample(stack=rates(5 * M), io=rates(5 * M), be=rates(5 * M))
        hungry = sample(stack=rates(5 * M), io=rates(5 * M), be=rates(50 * M))
        moves = change.io_moves(before, hungry, self.ROSTER, P)
        assert moves is not None
        self.assertIs(Direction.STEADY, moves.references)
        busy = sample(stack=rates(6 * M), io=rates(5 * M), be=rates(5 * M))
        moves = change.io_moves(before, busy, self.ROSTER, P)
        assert moves is not None
        self.assertIs(Direction.UP, moves.references)

    def test_a_fall_with_traffic_is_an_ebb_and_without_is_a_success(self) -> None:
        """High misses ebb only when hits + misses went down with them."""
        before = sample(hits=20 * M, misses=5 * M)
        success = change.io_moves(before, sample(hits=22 * M, misses=3 * M), self.ROSTER, P)
        left = change.io_moves(before, sample(hits=12 * M, misses=3 * M), self.ROSTER, P)
        low = change.io_moves(before, sample(hits=24 * M, misses=1 * M), self.ROSTER, P)
        assert success and left and low
        ebbs = [bool(m.signals(1e6) & change.Signal.EBBS) for m in (success, left, low)]
        self.assertEqual([False, True, True], ebbs)

    def test_without_ddio_counts_there_is_nothing_to_show(self) -> None:
        """A missing count is None, not zero."""
        before = sample(a=rates())
        gone = dataclasses.replace(before, ddio_misses_per_s=None)
        self.assertIsNone(change.io_moves(before, gone, self.ROSTER, P))
        moves = change.io_moves(gone, before, self.ROSTER, P)
        assert moves is not None
        self.assertIs(Direction.STEADY, moves.misses)

    def test_each_direction(self) -> None:
        """Hits, misses, both together, and references; the fractions and the signals of them."""
        up, down, steady = Direction.UP, Direction.DOWN, Direction.STEADY
        none = Signal.NONE
        for hits, misses, references, directions, signals in (
            (10 * M, 5 * M, 10 * M, (steady, steady, steady, steady), none),
            (12 * M, 5 * M, 10 * M, (up, steady, up, steady), none),
            (8 * M, 5 * M, 10 * M, (down, steady, down, steady), Signal.HITS_DOWN),
            (8 * M, 7 * M, 10 * M, (down, up, steady, steady),
             Signal.HITS_DOWN | Signal.MISSES_UP),
            (12 * M, 3 * M, 10 * M, (up, down, steady, steady), Signal.MISSES_DOWN),
            (10 * M, 3 * M, 10 * M, (steady, down, down, steady),
             Signal.MISSES_DOWN | Signal.EBBS),
            (10 * M, 5 * M, 12 * M, (steady, steady, steady, up), Signal.REFERENCES_UP),
            (10 * M, 5 * M, 8 * M, (steady, steady, steady, down), none),
        ):  # fmt: skip
            with self.subTest(hits=hits, misses=misses, references=references):
                before = sample(10 * M, 5 * M, stack=rates(6 * M), io=rates(4 * M))
                after = sample(hits, misses, stack=rates(references - 4 * M), io=rates(4 * M))
                found = change.io_moves(before, after, self.ROSTER, P)
                assert found is not None
                self.assertEqual(
                    directions, (found.hits, found.misses, found.traffic, found.references)
                )
                self.assertEqual(misses, found.misses_per_s)
                self.assertAlmostEqual(hits / 10e6 - 1, found.hits_fraction)
                self.assertAlmostEqual(misses / 5e6 - 1, found.misses_fraction)
                self.assertAlmostEqual(references / 10e6 - 1, found.references_fraction)
                self.assertEqual(signals | Signal.MISSES_HIGH, found.signals(1e6))
                self.assertEqual(signals | Signal.EBBS, found.signals(8e6))

    def test_who_was_not_measured(self) -> None:
        """References are compared of those that were measured both times."""
        for before, after in (
            (sample(stack=rates(5 * M), io=rates(5 * M)), sample(stack=rates(6 * M))),
            (sample(stack=rates(5 * M)), sample(stack=rates(6 * M), io=rates(5 * M))),
        ):
            found = change.io_moves(before, after, self.ROSTER, P)
            assert found is not None
            self.assertAlmostEqual(0.2, found.references_fraction)

    def test_fractions(self) -> None:
        """Of what was; infinite from nothing, and 0 from nothing to nothing."""
        for before, after, expected in (
            (4.0, 5.0, 0.25),
            (4.0, 3.0, -0.25),
            (0.0, 3.0, math.inf),
            (0.0, 0.0, 0.0),
        ):
            self.assertEqual(expected, change.fraction(before, after))

    def test_the_figures_of_a_reason(self) -> None:
        """Rates of misses against the threshold; relative changes since the reference."""
        before = sample(hits=20 * M, misses=0.5 * M, stack=rates(10 * M))
        after = sample(hits=17.6 * M, misses=2.4 * M, stack=rates(13.1 * M))
        moves = change.io_moves(before, after, self.ROSTER, P)
        assert moves is not None
        figures = moves.describe(1e6)
        self.assertEqual("io-misses-above", figures.code)
        self.assertEqual("io-misses-within", moves.describe(2.4e6).code)
        for name, value in (
            ("misses_per_s", 2.4e6),
            ("low_per_s", 1e6),
            ("misses_change", 3.8),
            ("hits_change", -0.12),
            ("references_change", 0.31),
        ):
            self.assertAlmostEqual(value, figures.values[name], msg=name)


class TestExactlyAtTheThreshold(unittest.TestCase):
    """A move counts, and misses are high, only beyond it."""

    def test_a_move_of_the_threshold_is_none(self) -> None:
        """3 % of 100 M/s, up or down."""
        for after in (97e6, 103e6):
            found = change.direction(100e6, after, 0.03, 0.0)
            self.assertIs(change.Direction.STEADY, found)
        for after in (0.9e6, 1.1e6):
            self.assertIs(Direction.STEADY, change.direction(1e6, after, 0.03, 0.1e6))

    def test_misses_at_the_limit_are_low(self) -> None:
        """THRESHOLD_MISS_LOW itself is not above it."""
        sample = Sample(0, 0.0, 1.0, {}, 20e6, 1e6)
        roster = Roster.of(DomainInventory(domain(), ()))
        io = change.io_moves(sample, sample, roster, Parameters())
        assert io is not None
        self.assertNotIn(Signal.MISSES_HIGH, io.signals(1e6))
        self.assertIn(Signal.MISSES_HIGH, io.signals(1e6 - 1))
