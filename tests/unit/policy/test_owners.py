# SPDX-License-Identifier: Apache-2.0
"""Whose a CPU is that several guests are pinned to."""

import dataclasses
import unittest

from iat_nova.policy import owners
from iat_nova.policy.owners import POOL, guest_id, owners_of
from tests.unit import frozen, stories
from tests.unit.policy.hosts import facts, guest


class OwnersTest(unittest.TestCase):
    def test_of_equals_the_guest_that_was_started_first_keeps_it(self) -> None:
        """Guests come in the order of their start; their UUIDs decide nothing."""
        (known,) = stories.facts().guests
        older = dataclasses.replace(known, uuid="ffffffff-0000-4000-8000-000000000000", run=1)
        newer = dataclasses.replace(known, uuid="00000000-0000-4000-8000-000000000000", run=2)
        facts = dataclasses.replace(stories.facts(), guests=(older, newer))
        owners = owners_of(facts, facts.guests, set())
        self.assertEqual({guest_id(older): frozenset({4, 5})}, dict(owners.dedicated))
        self.assertEqual("cpu-taken", owners.notes[guest_id(newer)][0].code)

    def test_a_guest_that_floats_over_dedicated_cpus(self) -> None:
        """It floats over the others alone, and the pool has a note of it; not without any left."""
        pinned = guest("db", dedicated_cpus=(2, 3))
        for floats, left, code in (
            ((3, 4, 5), {4, 5}, "floats-over-dedicated"),
            ((4, 5), {4, 5}, None),
            ((2, 3), None, None),
        ):
            with self.subTest(floats):
                other = guest("dev", uuid="f" * 36, dedicated_cpus=(), floating_cpus=floats)
                host = facts(pinned, other)
                owners = owners_of(host, host.guests, set())
                expected = {} if left is None else {guest_id(other): frozenset(left)}
                self.assertEqual(expected, dict(owners.floats))
                notes = [one.code for one in owners.notes.get(POOL, ())]
                self.assertEqual([code] if code else [], notes)
                others = set(host.host.online_cpus) - {2, 3} - (left or set())
                self.assertEqual(others, owners.host)


class ValuesTest(unittest.TestCase):
    def test_frozen(self) -> None:
        """No value can be changed, nor get another attribute."""
        self.assertEqual([], frozen.changeable(owners))
        self.assertTrue(frozen.values(owners))
