# SPDX-License-Identifier: Apache-2.0
import dataclasses
import unittest

from iat_nova.inventory import pinning
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.domain_xml import LibvirtDomain
from iat_nova.inventory.nova_metadata import NovaMetadata
from iat_nova.model import message

ONLINE = frozenset(range(8))
SETS = CpuSets.parse("4-7", "0-3")


def guest(name, run=1, vcpus=2, cpuset=None, **pins):
    """Make a domain with pins such as v0={4}."""
    return LibvirtDomain(
        uuid=name,
        run=run,
        name=name,
        vcpus=vcpus,
        plugged=frozenset(range(vcpus)),
        pins={int(vcpu[1:]): frozenset(cpus) for vcpu, cpus in pins.items()},
        cpuset=cpuset,
    )


def place(*guests, cpusets=SETS, online=ONLINE):
    """Place (domain, specs) pairs or bare domains."""
    pairs = [pair if isinstance(pair, tuple) else (pair, None) for pair in guests]
    return pinning.place(pairs, cpusets, online)


class OneGuestTest(unittest.TestCase):
    def check(self, placement, dedicated, floating):
        self.assertEqual((set(dedicated), set(floating)), (placement.dedicated, placement.floating))

    def test_dedicated(self):
        """A singleton in cpu_dedicated_set is dedicated."""
        (found,) = place(guest("a", v0={4}, v1={5}))
        self.check(found, {4, 5}, ())
        self.assertEqual((), found.warnings)

    def test_singleton_in_the_shared_set(self):
        """A floating vCPU pinned to a cell's only shared CPU is not dedicated."""
        (found,) = place(guest("a", v0={4}, v1={3}))
        self.check(found, {4}, {3})

    def test_no_pins(self):
        """Without pins a guest floats over its cpuset, or over all that is online."""
        floats, anywhere = place(guest("a", cpuset=frozenset({1, 2})), guest("b"))
        self.check(floats, (), {1, 2})
        self.check(anywhere, (), ONLINE)

    def test_a_single_cpuset_is_no_pin(self):
        """`<vcpu cpuset>` of one CPU pins nothing: it is the shared set."""
        (found,) = place(guest("a", cpuset=frozenset({4})))
        self.check(found, (), {4})

    def test_whole_cell(self):
        """Pins to a set float over it."""
        (found,) = place(guest("a", v0={0, 1}, v1={0, 1}))
        self.check(found, (), {0, 1})

    def test_policy_settles(self):
        """What flavor says goes before what the sets say, both ways."""
        dedicated = {"hw:cpu_policy": "dedicated"}
        shared = {"hw:cpu_policy": "shared"}
        (found,) = place((guest("a", v0={2}, v1={3}), dedicated))
        self.check(found, {2, 3}, ())
        (found,) = place((guest("a", v0={4}, v1={5}), shared))
        self.check(found, (), {4, 5})

    def test_mixed_mask(self):
        """The mask tells which singletons of a mixed guest are dedicated, without any set."""
        mixed = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}
        (found,) = place((guest("a", v0={4}, v1={5}), mixed), cpusets=CpuSets())
        self.check(found, {5}, {4})

    def test_promise_not_kept(self):
        """A dedicated vCPU that libvirt pins to many CPUs floats, visibly."""
        (found,) = place((guest("a", v0={4}, v1={5, 6}), {"hw:cpu_policy": "dedicated"}))
        self.check(found, {4}, {5, 6})
        self.assertEqual(message("vcpus-not-pinned", vcpus="1"), found.warnings[0])

    def test_nonsense_policy(self):
        """A policy nobody knows is a warning; the sets decide."""
        (found,) = place((guest("a", v0={4}, v1={3}), {"hw:cpu_policy": "bogus"}))
        self.check(found, {4}, {3})
        self.assertEqual("cpu-policy-unknown", found.warnings[0].code)

    def test_off_line(self):
        """A dedicated CPU that is offline is left out and named, which is no warning."""
        (found,) = place(guest("a", v0={4}, v1={5}), online=ONLINE - {5})
        self.check(found, {4}, ())
        self.assertEqual(({5}, ()), (found.offline, found.warnings))

    def test_all_off_line(self):
        """A floating guest with nothing left to run on says so."""
        (found,) = place(guest("a", v0={0, 1}, v1={0, 1}), online=frozenset({4}))
        self.check(found, (), ())
        self.assertEqual({0, 1}, found.offline)

    def test_unreadable_pin(self):
        """A vCPU with an unreadable pin floats over the guest's set, or over Nova's shared one."""
        wide, bare = place(guest("a", vcpus=1, cpuset=frozenset({1}), v0=()), guest("b", v0=()))
        self.check(wide, (), {1})
        self.check(bare, (), ONLINE)  # vCPU 1 has no pin at all: it may run anywhere
        (alone,) = place(guest("c", vcpus=1, v0=()))
        self.check(alone, (), {0, 1, 2, 3})
        (unreadable,) = place(guest("d", vcpus=1, cpuset=frozenset()))
        self.check(unreadable, (), {0, 1, 2, 3})
        (no_sets,) = place(guest("e", vcpus=1, v0=()), cpusets=CpuSets())
        self.check(no_sets, (), ONLINE)

    def test_control_group(self):
        """vCPUs float within what the kernel allows, as long as that leaves a CPU."""
        for allowed, expected in (({1, 5}, {1}), ({7}, {0, 1}), (set(), {0, 1}), (None, {0, 1})):
            domain = guest("a", cpuset=frozenset({0, 1}))
            (found,) = place(dataclasses.replace(domain, allowed=allowed))
            self.check(found, (), expected)

    def test_numad(self):
        """Where libvirt does not say what numad has chosen, a warning does."""
        unknown = dataclasses.replace(guest("a", vcpus=2, v0={4}), by_numad=True)
        known = unknown.placed(((True,) * 8, (False, True)))
        for domain, floating, codes in (
            (unknown, ONLINE - {4}, ["cpus-of-numad-unknown"]),
            (known, {1}, []),
        ):
            (found,) = place(domain)
            self.check(found, {4}, floating)
            self.assertEqual(codes, [one.code for one in found.warnings])


class UnpluggedTest(unittest.TestCase):
    """A vCPU that is not plugged runs nowhere."""

    def unplugged(self, *vcpus, **more):
        plugged = frozenset(range(4)).difference(vcpus)
        return dataclasses.replace(guest("a", vcpus=4, **more), plugged=plugged)

    def test_nothing_floats(self):
        """Where all plugged vCPUs have CPUs of their own, nothing floats."""
        (found,) = place(self.unplugged(2, 3, v0={4}, v1={5}))
        self.assertEqual(({4, 5}, set()), (found.dedicated, found.floating))

    def test_pin_of_an_unplugged_vcpu(self):
        """Its CPU is free for others, and the policy's promise of a CPU waits for it."""
        specs = {"hw:cpu_policy": "dedicated"}
        one = self.unplugged(1, 2, 3, v0={4})
        first, second = place((one, specs), guest("b", run=2, v0={5}, v1={6}))
        self.assertEqual(({4}, set(), ()), (first.dedicated, first.floating, first.warnings))
        self.assertEqual(({5, 6}, ()), (second.dedicated, second.warnings))

    def test_without_pins(self):
        """The plugged ones float over the guest's set."""
        (found,) = place(self.unplugged(3, cpuset=frozenset({1})))
        self.assertEqual(({1}, set()), (found.floating, found.dedicated))


class EmulatorTest(unittest.TestCase):
    """CPUs of emulator and I/O threads."""

    def place(self, policy, cpus=(6,), *others, cpusets=SETS, **pins):
        specs = {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": policy}
        one = dataclasses.replace(
            guest("a", **(pins or {"v0": {4}, "v1": {5}})), emulator_cpus=frozenset(cpus)
        )
        pair = (one, specs if policy else None)
        return place(pair, *others, cpusets=cpusets)

    def test_policies(self):
        """Isolated threads have a CPU of the guest's own; shared ones have none."""
        cases = {
            ("isolate", (6,), CpuSets()): {6},
            ("isolate", (5, 6), SETS): {6},
            ("share", (0, 1), SETS): set(),
            ("share", (6,), SETS): set(),
            (None, (0, 6), SETS): {6},  # specs unknown: the set of dedicated CPUs tells
            (None, (4, 5), SETS): set(),
            (None, (6,), CpuSets()): set(),
        }
        for (policy, cpus, sets), expected in cases.items():
            with self.subTest(policy=policy, cpus=cpus):
                (found,) = self.place(policy, cpus, cpusets=sets)
                self.assertEqual(({4, 5}, expected), (found.dedicated, found.emulator))
                self.assertEqual((), found.warnings)

    def test_guest_that_floats(self):
        """Without dedicated vCPUs nothing is reserved."""
        (found,) = self.place(None, (6,), v0={0, 1}, v1={0, 1})
        self.assertEqual((set(), set()), (found.dedicated, found.emulator))

    def test_unpinned_vcpus_float_beside_it(self):
        """Floating vCPUs of a guest are not counted on the CPU of its emulator threads."""
        (found,) = self.place("isolate", (6,), v0={4}, v1={5, 6})
        self.assertEqual(({4}, {5}, {6}), (found.dedicated, found.floating, found.emulator))

    def test_a_vcpu_of_another_guest_comes_first(self):
        """Both guests are told."""
        first, second = self.place("isolate", (6,), guest("b", run=2, v0={6}, v1={7}))
        self.assertEqual((set(), {6, 7}), (first.emulator, second.dedicated))
        self.assertEqual(message("emulator-on-a-cpu-of", cpu=6, owner="b"), first.warnings[0])
        self.assertEqual(message("emulator-of-another", cpu=6, guest="a"), second.warnings[0])

    def test_offline(self):
        """A reserved CPU that is offline is told of as a vCPU's is."""
        (found,) = self.place("isolate", (9,))
        self.assertEqual((set(), {9}), (found.emulator, found.offline))


class WithoutDedicatedSetTest(unittest.TestCase):
    def test_sole_user(self):
        """Outside the shared set a singleton of one guest only is dedicated."""
        found = place(
            guest("a", v0={4}, v1={3}), guest("b", vcpus=1), cpusets=CpuSets.parse(None, "0-3")
        )
        self.assertEqual(({4}, {3}), (found[0].dedicated, found[0].floating))

    def test_silent_policy(self):
        """Known specs and image properties without a CPU policy: Nova lets such a guest float."""
        numa_guest = dataclasses.replace(
            guest("a", v0={4}, v1={5}), nova=NovaMetadata(image_properties={})
        )
        (found,) = place((numa_guest, {"hw:numa_nodes": "1"}), cpusets=CpuSets())
        self.assertEqual((set(), {4, 5}), (found.dedicated, found.floating))
        (unknown,) = place((numa_guest, None), cpusets=CpuSets())
        self.assertEqual({4, 5}, unknown.dedicated)
        (of_the_set,) = place((numa_guest, {"hw:numa_nodes": "1"}))
        self.assertEqual({4, 5}, of_the_set.dedicated)

    def test_two_users(self):
        """Two guests with a singleton on one CPU, and nobody to tell: both float, warned."""
        found = place(guest("a", vcpus=1, v0={4}), guest("b", vcpus=1, v0={4}), cpusets=CpuSets())
        for placement, other in zip(found, ("b", "a"), strict=True):
            self.assertEqual((set(), {4}), (placement.dedicated, placement.floating))
            told = message("pin-unassigned", cpu=4, guests=(other,))
            self.assertEqual(told, placement.warnings[0])

    def test_wider_pin_counts_as_use(self):
        """A CPU in another guest's wider pin is not its sole user's."""
        found = place(
            guest("a", vcpus=1, v0={4}), guest("b", vcpus=1, v0={4, 5}), cpusets=CpuSets()
        )
        self.assertEqual(set(), found[0].dedicated)


class ConflictTest(unittest.TestCase):
    def test_first_started_keeps_it(self):
        """Two claims on one CPU: the first guest keeps it, the later floats, both warned."""
        later, first = place(
            # Its UUID and its run sort the other way when compared as text.
            guest("a-later", run=10, v0={4}, v1={6}),
            guest("first", run=2, v0={4}, v1={5}),
        )
        self.assertEqual(({4, 5}, set()), (first.dedicated, first.floating))
        self.assertEqual(({6}, {4}), (later.dedicated, later.floating))
        told = message("cpu-pinned-by-a-later", cpu=4, guest="a-later")
        self.assertEqual(told, first.warnings[0])
        told = message("cpu-of-an-earlier", cpu=4, owner="first", vcpu=0)
        self.assertEqual(told, later.warnings[0])

    def test_three(self):
        """Of three claims the first still wins and hears of both others."""
        found = place(*(guest(name, run, vcpus=1, v0={4}) for run, name in enumerate("abc", 1)))
        self.assertEqual([{4}, set(), set()], [placement.dedicated for placement in found])
        self.assertEqual(2, len(found[0].warnings))

    def test_two_vcpus_of_one_guest(self):
        """Two vCPUs of one guest on one CPU are no conflict."""
        (found,) = place(guest("a", v0={4}, v1={4}))
        self.assertEqual(({4}, set(), ()), (found.dedicated, found.floating, found.warnings))
