# SPDX-License-Identifier: Apache-2.0
"""What can be promised to guests, and what the agent says when more was."""

import dataclasses
import unittest

from iat_nova import policy
from iat_nova.model import CacheDomain, Facts, HostFacts, VirtualSwitch, WayMask
from iat_nova.policy import guarantee
from iat_nova.strategies.pollute_buffer import masks, plan
from tests.said import texts
from tests.unit.policy.hosts import ONE, TWO, domain, dpdk_switch, facts, guest


def promised(name, ways, *, resources=None, cpus=(2, 3), **more):
    specs = {"iat:priority": "PC", "iat:llc_ways": str(ways)}
    if resources is not None:
        specs["resources:CUSTOM_IAT_LLC_WAY"] = str(resources)
    return guest(name, extra_specs=specs, dedicated_cpus=cpus, flavor=f"f.{name}", **more)


class CountTest(unittest.TestCase):
    def left(self, picture: Facts, text: str = "{}", **more) -> list[int]:
        rules = policy.parse(text, picture.host)
        return [
            known.left
            for known in guarantee.of_host(picture, rules.rules, rules.parameters, **more)
        ]

    def test_plain(self):
        """11 ways less 6 of DDIO at its maximum and 1 of the pool."""
        self.assertEqual([4], self.left(facts()))

    def test_the_stack_counts_where_it_runs(self):
        """PMD threads on one socket take nothing from the other."""
        self.assertEqual([3, 4], self.left(facts(host=TWO, switch=dpdk_switch(0, 1))))

    def test_an_unknown_stack(self):
        """It counts everywhere: with a userspace datapath, or where that is assumed."""
        netdev = VirtualSwitch({"br": "netdev"}, (), ())
        kernel = VirtualSwitch({"br": "system"}, (), ())
        self.assertEqual([3, 3], self.left(facts(host=TWO, switch=netdev)))
        self.assertEqual([4, 4], self.left(facts(host=TWO, switch=kernel), assume_stack=True))
        self.assertEqual([3, 3], self.left(facts(host=TWO), assume_stack=True))

    def test_the_policys_numbers(self):
        """Every number of the policy moves the sum; a best-effort host lies over DDIO's ways."""
        self.assertEqual([7], self.left(facts(), "parameters: {ddio_ways_max: 2}"))
        self.assertEqual([6], self.left(facts(), "parameters: {ddio_ways_max: 4}"))
        self.assertEqual([3], self.left(facts(), "pool: {ways: {min: 2, initial: 2}}"))
        self.assertEqual([3], self.left(facts(), "host: {priority: PC}"))
        self.assertEqual([3], self.left(facts(), "reserved_ways: [0]"))
        self.assertEqual([0], self.left(facts(), "parameters: {ddio_ways_max: 11}"))

    def test_the_least_of_a_mask(self):
        """Where no mask has a single way, stack, pool and host have two each."""
        host = HostFacts("n", (domain(min_ways=2),), tuple(range(8)))
        self.assertEqual([3], self.left(facts(host=host)))
        wider = "pool: {ways: {min: 3, initial: 3}}"
        self.assertEqual([2], self.left(facts(host=host), wider))

    def test_less_than_a_mask(self):
        """A single way that is left stays shared where no mask has a single way."""
        for ways, text, left in (
            (11, "host: {priority: PC}", 0),
            (12, "host: {priority: PC}", 2),
            (12, "host: {priority: PC}", 2),
            (11, "stack: {ways: {min: 1, initial: 1}}", 0),
            (11, "parameters: {ddio_ways_max: 5}", 2),
        ):
            host = HostFacts("n", (domain(ways=ways, min_ways=2),), tuple(range(8)))
            with self.subTest(ways=ways, text=text):
                here, stack = facts(host=host), not text.startswith("host")
                self.assertEqual([left], self.left(here, text, assume_stack=stack))
                rules = policy.parse(text, host)
                (known,) = guarantee.of_host(
                    here, rules.rules, rules.parameters, assume_stack=stack
                )
                taken = known.reserved + known.ddio + known.stack + known.pool + known.host
                self.assertEqual(known.ways, taken + known.shared + known.left)

    def test_fixed_ddio(self):
        """DDIO that cannot be sized has the ways found, or those it starts with."""
        for found, left in ((WayMask(0x600), 7), (WayMask(0x700), 6), (None, 7)):
            fixed = domain(ddio_resizable=False, ddio_found=found)
            self.assertEqual([left], self.left(facts(host=HostFacts("n", (fixed,), (0,)))))

    def test_the_default_strategy_keeps_what_is_offered(self):
        """Also where DDIO cannot grow and no PMD thread runs: two ways stay open to all tenants."""
        self.assertEqual(guarantee.LEAST_SHARED, plan.BUFFER_WAYS)
        reserved = "reserved_ways: [9, 10]"
        for found in (WayMask(0x600), WayMask(0x700), None):
            for text in ("{}", "parameters: {ddio_ways_max: 3}", reserved):
                for resizable in (True, False):
                    here = domain(ddio_resizable=resizable, ddio_found=found)
                    host = HostFacts("n", (here,), tuple(range(8)))
                    (left,) = self.left(facts(host=host), text)
                    picture = facts(promised("a", left), guest("b", dedicated_cpus=(4,)), host=host)
                    seen = policy.parse(text, host).classify(picture, {}).domains[here.id]
                    ddio = 2 if found is None else found.count
                    kept = masks.promised(seen, ddio, {})
                    with self.subTest(found=found, text=text, resizable=resizable):
                        self.assertEqual([left], [one.ways for one in kept])

    def test_ways_that_the_strategy_cannot_close(self):
        """Ways that the hardware ties together are shared; DDIO's are the topmost, as many."""
        for found, together, text, left in (
            (WayMask(0x400), WayMask(0x600), "{}", 7),
            (WayMask(0x600), WayMask(0x700), "{}", 6),
            (WayMask(0x3), WayMask(0), "reserved_ways: [0]", 6),
        ):
            here = domain(ddio_resizable=False, ddio_found=found, coerced_ways=together)
            host = HostFacts("n", (here,), tuple(range(8)))
            with self.subTest(found=found, together=together):
                self.assertEqual([left], self.left(facts(host=host), text))
                picture = facts(promised("a", left), guest("b", dedicated_cpus=(4,)), host=host)
                seen = policy.parse(text, host).classify(picture, {}).domains[here.id]
                kept = masks.promised(seen, found.count, {})
                self.assertEqual([left], [one.ways for one in kept])

    def test_a_socket_that_is_offline(self):
        """It counts as it does online: seen before or not; one not seen has no stack."""
        offline = dataclasses.replace(TWO, online_cpus=TWO.domains[0].cpus)
        self.assertEqual([4, 4], self.left(facts(host=offline)))
        unseen = dataclasses.replace(offline, domains=TWO.domains[:1], unseen_domains=1)
        self.assertEqual([4, 4], self.left(facts(host=unseen)))
        self.assertEqual([3, 4], self.left(facts(host=unseen, switch=dpdk_switch(0, 1))))

    def test_never_less_than_none(self):
        """A cache domain with fewer ways than are taken leaves nothing."""
        tiny = HostFacts("n", (CacheDomain(0, (0,), ways=4, classes=4),), (0,))
        loaded = policy.parse("{}", ONE)
        (known,) = guarantee.of_host(facts(host=tiny), loaded.rules, loaded.parameters)
        self.assertEqual(0, known.left)

    def test_no_cache_domain(self):
        """A host without CAT promises nothing."""
        self.assertEqual([], self.left(facts(host=HostFacts("n", (), (0,)))))


class WarningsTest(unittest.TestCase):
    def warnings(self, picture: Facts, text: str = "{}") -> list[str]:
        found = policy.parse(text, picture.host).classify(picture, {})
        return [
            text for text in texts(found.warnings) if "LLC_WAY" in text or "over-committed" in text
        ]

    def test_within(self):
        """As many as there are is no reason for a word."""
        self.assertEqual([], self.warnings(facts(promised("a", 4, resources=4))))

    def test_beyond(self):
        """Both sides of the sum are told, and who was not counted by Placement."""
        two = facts(promised("a", 3, resources=3), promised("b", 2, cpus=(4, 5)))
        _, text = self.warnings(two)
        self.assertEqual(
            "over-committed: cache domain 0: 11 ways - 6 that DDIO may take - 1 of the pool leave "
            "4 for guarantees, but its guests are guaranteed 5 ways; Placement did not count b",
            text,
        )

    def test_beyond_by_the_least_of_a_mask(self):
        """Where no mask has a single way, a guest with one guaranteed way has two."""
        host = HostFacts("n", (domain(min_ways=2),), tuple(range(8)))
        guests = [promised(name, 1, resources=1, cpus=(cpu,)) for cpu, name in enumerate("ab", 2)]
        (text,) = self.warnings(facts(*guests, host=host))
        self.assertIn("2 of the pool leave 3 for guarantees", text)
        self.assertIn("but its guests are guaranteed 4 ways", text)
        self.assertEqual([], self.warnings(facts(guests[0], host=host)))

    def test_one_socket(self):
        """Placement counts the host; one socket may be full while the other is not."""
        guests = [promised(name, 3, resources=3, cpus=cpus)
                  for name, cpus in (("a", (2,)), ("b", (3,)))]  # fmt: skip
        (text,) = self.warnings(facts(*guests, host=TWO))
        self.assertIn("cache domain 0", text)
        self.assertIn("4 ways are left in other cache domains", text)

    def test_both_sockets(self):
        """When all are full the warnings say so."""
        guests = [promised(name, 5, resources=5, cpus=cpus)
                  for name, cpus in (("a", (2,)), ("b", (9,)))]  # fmt: skip
        texts = self.warnings(facts(*guests, host=TWO))
        self.assertEqual(2, len(texts))
        self.assertIn("no ways are left in other", texts[1])

    def test_a_guest_on_two_sockets(self):
        """It has its ways in each; Placement has counted them once."""
        wide = promised("wide", 4, resources=4, cpus=(2, 9))
        beside = promised("beside", 1, resources=1, cpus=(10,))
        (text,) = self.warnings(facts(wide, beside, host=TWO))
        self.assertIn("cache domain 1", text)

    def test_disagreement(self):
        """One warning a flavor, with both numbers."""
        (text,) = self.warnings(facts(promised("a", 3, resources=2)))
        self.assertIn("flavor f.a asks Placement for 2 ways", text)
        self.assertIn("sets 3 as iat:llc_ways", text)
        too_many = {"resources:CUSTOM_IAT_LLC_WAY": "65"}
        (text,) = self.warnings(facts(guest("b", extra_specs=too_many)))
        self.assertIn("for 65 ways", text)
        self.assertIn("does not set iat:llc_ways", text)

    def test_said_to_placement_alone(self):
        """What Placement counts is promised, and nothing contradicts it."""
        specs = {"resources:CUSTOM_IAT_LLC_WAY": "3"}
        self.assertEqual([], self.warnings(facts(guest("a", extra_specs=specs))))
        (text,) = self.warnings(
            facts(guest("a", extra_specs={"resources:CUSTOM_IAT_LLC_WAY": "6"}))
        )
        self.assertIn("over-committed", text)

    def test_not_counted_by_placement(self):
        """A guarantee of which Placement knows nothing can be given too often: the cure is told."""
        (text,) = self.warnings(facts(promised("a", 3)))
        self.assertEqual(
            "flavor f.a guarantees 3 ways (iat:llc_ways) that Placement does not count, so Nova "
            "may promise more ways than a host has: add resources:CUSTOM_IAT_LLC_WAY=3 once hosts "
            "have their provider.yaml",
            text,
        )

    def test_one_warning_a_flavor(self):
        """Many guests of a flavor are no reason for many words."""
        specs = {"iat:llc_ways": "1"}
        twins = [guest(name, extra_specs=specs, dedicated_cpus=(cpu,), flavor="f")
                 for name, cpu in (("a", 2), ("b", 3))]  # fmt: skip
        self.assertEqual(1, len(self.warnings(facts(*twins))))

    def test_guests_without_a_flavor(self):
        """No flavor is named that an operator could not find."""
        specs = {"iat:priority": "PC", "iat:llc_ways": "3"}
        alone = guest("a", extra_specs=specs, dedicated_cpus=(2,), flavor=None)
        self.assertEqual([], self.warnings(facts(alone)))

    def test_flavors_of_the_policy(self):
        """Where extra specs are unknown, those of the policy's map count, which may be a part."""
        unknown = guest("a", extra_specs=None, flavor="f")
        (text,) = self.warnings(
            facts(unknown), 'flavors: {f: {"iat:priority": PC, "iat:llc_ways": 5}}'
        )
        self.assertIn("guaranteed 5 ways", text)

    def test_floating_guests_have_no_ways_of_their_own(self):
        """Their flavor's wish is the pool's matter and has its own warning."""
        floating = promised("a", 5, resources=5, cpus=())
        self.assertEqual([], self.warnings(facts(floating)))
