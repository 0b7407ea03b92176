# SPDX-License-Identifier: Apache-2.0
"""Whose a CPU is that several guests are pinned to."""

import dataclasses
import unittest

from iat_nova.policy.owners import guest_id, owners_of
from tests.unit import stories


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
