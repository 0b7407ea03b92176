# SPDX-License-Identifier: Apache-2.0
"""Whose a CPU is that several guests are pinned to."""

import dataclasses
import unittest

from iat_nova.model import AttachmentKind
from iat_nova.policy import owners
from iat_nova.policy.owners import POOL, guest_id, owners_of
from tests.unit import stories
from tests.unit.policy.hosts import ONE, attachment, dpdk_switch, facts, guest


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

    def settled(self, *guests, host=ONE, important=(), **switch):
        """The owners; the switch is there if anything of it is given."""
        known = dpdk_switch(*switch.pop("pmd_cpus", ())) if switch else None
        known = dataclasses.replace(known, **switch) if known and switch else known
        return owners_of(facts(*guests, host=host, switch=known), guests, set(important))

    def notes(self, found, key):
        return [(one.code, *one.values.values()) for one in found.notes.get(key, ())]

    def test_threads_of_the_switch(self) -> None:
        """Of its mask only CPUs that are online; a source of its threads is exact."""
        host = dataclasses.replace(ONE, online_cpus=(0, 1, 2, 3))
        for source, stack, note in (
            ("pmd-cpu-mask", {2, 3}, []),
            ("threads", {2, 3}, [("cpus-offline", "5")]),
            ("pmd-rxq-show", {2, 3}, [("cpus-offline", "5")]),
            ("zzz", {2, 3}, [("cpus-offline", "5")]),
        ):
            with self.subTest(source):
                found = self.settled(host=host, pmd_cpus=(2, 3, 5), pmd_source="".join(source))
                self.assertEqual((stack, {0, 1}), (found.stack, found.host))
                self.assertEqual(note, self.notes(found, "stack"))
                self.assertEqual((), found.warnings)

    def test_a_switch_of_unknown_threads(self) -> None:
        """Is a warning where it has a userspace datapath."""
        for source, bridges, warned in (
            (None, {"br": "netdev"}, True),
            (None, {"br": "system"}, False),
            ("threads", {"br": "netdev"}, False),
        ):
            found = self.settled(pmd_source=source, bridges=bridges)
            self.assertEqual(
                ["stack-unknown"] if warned else [], [one.code for one in found.warnings]
            )

    def test_who_comes_first(self) -> None:
        """The switch before guests, critical guests before others, dedicated before emulators."""
        a = guest("a", dedicated_cpus=(2, 3), emulator_cpus=(6,))
        b = guest("b", uuid="b" * 36, dedicated_cpus=(3, 4), emulator_cpus=(2, 6, 7))
        first, second = guest_id(a), guest_id(b)
        found = self.settled(a, b, important=(second,), pmd_cpus=(4,), pmd_source="threads")
        self.assertEqual({4}, found.stack)
        self.assertEqual({second: {3}, first: {2}}, dict(found.dedicated))
        self.assertEqual({second: {6, 7}}, dict(found.emulator))
        self.assertEqual({0, 1, 5}, found.host)
        self.assertEqual(
            [("cpu-taken", 4, "the stack"), ("cpu-claimed", 3, "a"), ("cpu-taken", 2, "a"),
             ("cpu-claimed", 6, "a")],
            self.notes(found, second),
        )  # fmt: skip
        self.assertEqual(
            [("cpu-taken", 3, "b"), ("cpu-claimed", 2, "b"), ("cpu-taken", 6, "b")],
            self.notes(found, first),
        )
        self.assertEqual([("cpu-claimed", 4, "b")], self.notes(found, "stack"))

    def test_who_has_no_cpu(self) -> None:
        """Is a warning with the causes; not of a guest whose CPUs are offline for now."""
        host = dataclasses.replace(ONE, online_cpus=(0, 1, 2, 3, 9))
        for facts_, codes in (
            ({"dedicated_cpus": (5,)}, ["cpus-offline"]),
            ({"dedicated_cpus": (9,)}, ["cpus-outside"]),
            ({"dedicated_cpus": ()}, ["cpus-unknown"]),
            ({"dedicated_cpus": (), "floating_cpus": (5,)}, ["shared-cpus-gone"]),
            ({"dedicated_cpus": (5,), "offline_cpus": (5,)}, None),
            ({"dedicated_cpus": (2,)}, None),
            ({"dedicated_cpus": (), "floating_cpus": (1, 2)}, None),
            ({"dedicated_cpus": (2, 5)}, None),
        ):
            with self.subTest(facts_):
                found = self.settled(guest("a", **facts_), host=host)
                told = [one for one in found.warnings if one.code == "guest-unmanaged"]
                self.assertEqual(codes is not None, len(told) == 1)
                if codes:
                    self.assertEqual(codes, [one.code for one in told[0].values["causes"]])
                    self.assertEqual("a", told[0].values["name"])

    def test_a_device_of_several_guests(self) -> None:
        """Each is warned of all others; taps and shared macvtaps are the kernel's."""
        kinds = AttachmentKind
        for one, other, shared in (
            (attachment(kinds.VF), attachment(kinds.VF), True),
            (attachment(kinds.VF), attachment(kinds.VF, "dev1"), False),
            (attachment(kinds.TAP), attachment(kinds.TAP), False),
            (attachment(kinds.VF), attachment(kinds.TAP), False),
            (attachment(kinds.MACVTAP), attachment(kinds.MACVTAP), True),
            (attachment(kinds.MACVTAP, exclusive=False), attachment(kinds.MACVTAP), False),
        ):
            with self.subTest(one=one, other=other):
                a = guest("a", attachments=(one, one))
                b = guest("b", attachments=(other,))
                found = owners.shared_devices((a, b))
                expected = {}
                if shared:
                    expected = {
                        guest_id(a): [("device-shared", "dev0", ("b (instance-b)",))],
                        guest_id(b): [("device-shared", "dev0", ("a (instance-a)",))],
                    }
                told = {
                    key: [(note.code, *note.values.values()) for note in notes]
                    for key, notes in found.items()
                }
                self.assertEqual(expected, told)
        three = [guest(name, attachments=(attachment(kinds.VF),)) for name in "abc"]
        found = owners.shared_devices(three)
        self.assertEqual(
            ("a (instance-a)", "c (instance-c)"), found[guest_id(three[1])][0].values["guests"]
        )
