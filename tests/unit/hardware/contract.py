# SPDX-License-Identifier: Apache-2.0
"""What every cache allocator and every DDIO back end must do; and a monitor of tenants.

Mix `AllocatorContract` or `DdioContract` into a test case and give it `make`. The same tests run
on the hardware in memory, on the emulated server, on a resctrl tree in a temporary folder, and in
the lab's guest; those of `AssignedContract` on such a tree and in the guest.
"""

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, HardwareError
from iat_nova.hardware.cat import limits
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_GROUP
from iat_nova.hardware.cat.resctrl_text import parse_limits
from iat_nova.hardware.counters.monitor import BANDWIDTH, Monitor, offered
from iat_nova.model import DomainInventory, Priority, WayMask, message
from tests.said import raises
from tests.unit.build import tenant


class AllocatorContract:
    """Tests of `hardware.api.CacheAllocator`."""

    def make(self):
        """Return a fresh allocator with no classes."""
        raise NotImplementedError

    def class_of(self, cpu):
        """Return something that tells apart the classes of CPUs; None: default class."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.allocator = self.make()
        self.domain = self.allocator.domains()[0]

    def spans(self, *counts):
        """Return masks of these many ways, from way 0 upwards."""
        masks, lowest = [], 0
        for count in counts:
            masks.append(WayMask.span(lowest, count))
            lowest += count
        return masks

    def classes(self, **masks):
        """Return a class for each name, with one CPU of the domain each."""
        return tuple(
            ClassMask(name, (cpu,), mask)
            for (name, mask), cpu in zip(masks.items(), self.domain.cpus, strict=False)
        )

    def apply(self, *classes):
        return self.allocator.apply(self.domain.id, tuple(classes))

    def check(self, expected):
        self.assertEqual(expected, dict(self.allocator.effective(self.domain.id)))

    def refused(self, *classes, text=None):
        """Applying these classes raises `HardwareError` and leaves everything as it was."""
        before = dict(self.allocator.effective(self.domain.id))
        with raises(self, HardwareError, text or "."):
            self.apply(*classes)
        self.check(before)

    def test_domains_tell_their_limits(self):
        """A domain has CPUs, ways and classes, and the numbers fit each other."""
        for domain in self.allocator.domains():
            self.assertTrue(domain.cpus)
            self.assertGreaterEqual(domain.ways, 2)
            self.assertGreaterEqual(domain.classes, 2)
            self.assertGreaterEqual(domain.ways, domain.min_ways)

    def test_nothing_is_ours_at_first(self):
        """Reading before the first write finds no class and makes none."""
        self.check({})

    def test_masks_are_read_back(self):
        """What apply returns is what effective reads."""
        a, b = self.spans(2, 3)
        self.assertEqual({"a": a, "b": b}, dict(self.apply(*self.classes(a=a, b=b))))
        self.check({"a": a, "b": b})

    def test_processors_follow(self):
        """Each CPU is in its class, and the others in the default one."""
        a, b = self.spans(2, 3)
        first, second = self.classes(a=a, b=b)
        self.apply(first, second)
        self.assertIsNotNone(self.class_of(first.cpus[0]))
        self.assertIsNotNone(self.class_of(second.cpus[0]))
        self.assertNotEqual(self.class_of(first.cpus[0]), self.class_of(second.cpus[0]))
        self.apply(second)
        self.assertIsNone(self.class_of(first.cpus[0]))
        self.assertIsNotNone(self.class_of(second.cpus[0]))

    def test_processors_change_classes(self):
        """Two classes can swap their CPUs."""
        a, b = self.spans(2, 3)
        first, second = self.classes(a=a, b=b)
        self.apply(first, second)
        of_a, of_b = self.class_of(first.cpus[0]), self.class_of(second.cpus[0])
        self.apply(ClassMask("a", second.cpus, a), ClassMask("b", first.cpus, b))
        self.assertEqual(of_a, self.class_of(second.cpus[0]))
        self.assertEqual(of_b, self.class_of(first.cpus[0]))
        self.check({"a": a, "b": b})

    def test_masks_move(self):
        """A mask can be changed, to one that another class had before."""
        a, b = self.spans(2, 2)
        self.apply(*self.classes(a=a, b=b))
        self.apply(*self.classes(a=b, b=a))
        self.check({"a": b, "b": a})

    def test_classes_are_given_up(self):
        """A class that is no longer named is gone; all of them can be."""
        a, b = self.spans(2, 2)
        self.apply(*self.classes(a=a, b=b))
        self.apply(*self.classes(b=b))
        self.check({"b": b})
        self.apply()
        self.check({})

    def test_all_classes(self):
        """As many classes as promised beside the default one can be had, and no more."""
        mask = self.spans(max(self.domain.min_ways, 1))[0]
        count = self.domain.classes - 1
        many = tuple(ClassMask(f"class {n}", (), mask) for n in range(count))
        self.assertEqual(count, len(self.apply(*many)))
        self.refused(*many, ClassMask("one more", (), mask), text="group tenants")
        self.apply()
        self.assertEqual(count, len(self.apply(*many)))  # none was leaked

    def test_the_default_class(self):
        """The default class takes a mask, costs no class of ours and owns no CPUs."""
        a, b = self.spans(2, 3)
        mine = self.classes(a=a)[0]
        default = ClassMask(DEFAULT_CLASS, self.domain.cpus, b)
        self.assertEqual({"a": a, DEFAULT_CLASS: b}, dict(self.apply(mine, default)))
        self.check({"a": a, DEFAULT_CLASS: b})
        self.assertIsNotNone(self.class_of(mine.cpus[0]))
        self.assertIsNone(self.class_of(self.domain.cpus[-1]))
        self.apply(mine)
        self.check({"a": a})
        many = (ClassMask(f"class {n}", (), a) for n in range(self.domain.classes - 1))
        self.apply(default, *many)

    def test_coming_and_going_leaks_nothing(self):
        """Forty generations of classes with names of their own fit into the same limits."""
        mask = self.spans(max(self.domain.min_ways, 1))[0]
        for n in range(40):
            self.apply(*self.classes(**{f"{n}-a": mask, f"{n}-b": mask}))
        self.check({"39-a": mask, "39-b": mask})

    def test_strange_names(self):
        """A class's name may hold what tenants' ids hold."""
        mask = self.spans(2)[0]
        names = ("6a5b9c4e-0000-4000-8000-00c0ffee0001/12", "stack", "..", "é ✓", "x" * 200)
        names = names[: self.domain.classes - 1]
        self.apply(*(ClassMask(name, (), mask) for name in names))
        self.check(dict.fromkeys(names, mask))

    def test_coerced_ways_are_shown(self):
        """Ways that the hardware couples come back together."""
        if not self.domain.coerced_ways:
            self.skipTest("this hardware couples no ways")
        one = WayMask(1 << self.domain.coerced_ways.highest)
        whole = limits.effective(self.domain, one)
        self.assertEqual({"a": whole}, dict(self.apply(*self.classes(a=one))))
        self.check({"a": whole})

    def test_bad_masks_are_refused(self):
        """Empty, too wide, broken and too small masks are refused with a reason, all or none."""
        good = self.spans(2)[0]
        self.apply(*self.classes(a=good))
        bad = [(WayMask(0), "holds no way"), (WayMask(1 << self.domain.ways), "beyond")]
        if not self.domain.sparse_masks:
            bad.append((WayMask(0b101), "gap"))
        if self.domain.min_ways > 1:
            bad.append((WayMask(1), "fewer"))
        for mask, text in bad:
            with self.subTest(mask=mask):
                self.refused(*self.classes(b=good, c=mask), text=text)

    def limited(self, **limits):
        """Apply a class of one CPU for each name with this limit of bandwidth; return them."""
        mask = self.spans(2)[0]
        classes = tuple(
            ClassMask(name, (cpu,), mask, limit)
            for (name, limit), cpu in zip(limits.items(), self.domain.cpus, strict=False)
        )
        self.apply(*classes)
        return classes

    def check_bandwidth(self, expected):
        self.assertEqual(expected, dict(self.allocator.bandwidth(self.domain.id)))

    def test_memory_bandwidth_is_read_back(self):
        """A class has the limit asked for, the others none; limits change, and end."""
        control = self.domain.bandwidth
        if control is None:
            self.skipTest("this hardware limits no bandwidth")
        most, low, mid = control.most, control.least, control.least + 3 * control.step
        self.check_bandwidth({})
        self.limited(a=None, b=low)
        self.check_bandwidth({"a": most, "b": low})
        self.limited(a=mid, b=low)
        self.check_bandwidth({"a": mid, "b": low})
        self.limited(a=mid, b=None)
        self.check_bandwidth({"a": mid, "b": most})
        self.limited(b=None)
        self.check_bandwidth({"b": most})
        self.limited(b=None, c=None)  # in the place of the one that was limited
        self.check_bandwidth({"b": most, "c": most})
        self.apply()
        self.check_bandwidth({})

    def test_bad_bandwidth_is_refused(self):
        """Out of range, between steps, for the default class: refused, all or nothing."""
        control = self.domain.bandwidth
        if control is None:
            self.skipTest("this hardware limits no bandwidth")
        mask = self.spans(2)[0]
        (kept,) = self.limited(a=control.least)
        bad = [control.least - 1, control.most + 1, 0]
        if control.step > 1:
            bad.append(control.least + 1)
        for limit in bad:
            with self.subTest(limit=limit):
                self.refused(kept, ClassMask("b", (), mask, limit), text="'b': memory bandwidth")
        self.refused(kept, ClassMask(DEFAULT_CLASS, (), mask, control.least), text="never limited")
        self.check_bandwidth({"a": control.least})

    def test_bandwidth_that_cannot_be_limited(self):
        """Is refused with a reason; nothing is limited, nothing is written."""
        if self.domain.bandwidth is not None:
            self.skipTest("this hardware limits bandwidth")
        mask = self.spans(2)[0]
        self.refused(ClassMask("a", (), mask, 50), text="'a': memory bandwidth cannot .*doctor")
        self.apply(ClassMask("a", (), mask))
        self.check_bandwidth({})

    def test_bad_processors_are_refused(self):
        """A CPU in two classes or of another domain is refused with a reason."""
        mask, cpu = self.spans(2)[0], self.domain.cpus[0]
        self.refused(ClassMask("a", (cpu,), mask), ClassMask("b", (cpu,), mask), text=f"CPU {cpu}")
        self.refused(ClassMask("a", (99999,), mask), text="CPU 99999")

    def test_names_are_unique(self):
        """Two classes of one name are refused."""
        mask = self.spans(2)[0]
        self.refused(ClassMask("a", (), mask), ClassMask("a", (), mask), text="'a'")

    def test_no_such_domain(self):
        """A domain that is not there is refused by its number."""
        with raises(self, HardwareError, "cache domain 77"):
            self.allocator.apply(77, ())

    def test_domains_are_independent(self):
        """Classes of one domain leave those of another alone, even under the same name."""
        domains = self.allocator.domains()
        if len(domains) < 2:
            self.skipTest("one cache domain only")
        low, high = self.spans(2, 2)
        first, second = domains[:2]
        self.allocator.apply(first.id, (ClassMask("a", first.cpus[:1], low),))
        self.allocator.apply(
            second.id,
            (ClassMask("b", (), low), ClassMask("a", second.cpus[:1], high)),
        )
        self.assertEqual({"a": low}, dict(self.allocator.effective(first.id)))
        self.assertEqual({"a": high, "b": low}, dict(self.allocator.effective(second.id)))
        self.allocator.apply(first.id, ())
        self.assertEqual({"a": high, "b": low}, dict(self.allocator.effective(second.id)))
        self.assertIsNone(self.class_of(first.cpus[0]))
        self.assertIsNotNone(self.class_of(second.cpus[0]))


class DdioContract:
    """Tests of `hardware.api.DdioWays`. `no_way`: the empty mask means something."""

    no_way = False

    def make(self):
        """Return (back end, the domain it is asked about)."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.ddio, self.domain = self.make()
        self.top = self.domain.ways

    def test_found_ways(self):
        """The mask found is an unbroken run within the cache."""
        mask = self.ddio.read(self.domain.id)
        self.assertTrue(mask.is_contiguous)
        self.assertLess(mask.highest, self.domain.ways)

    def test_grows_and_shrinks(self):
        """Every number of ways at the top can be written and is read back."""
        for count in (3, 6, 2):
            mask = WayMask.span(self.top - count, count)
            self.assertEqual(mask, self.ddio.write(self.domain.id, mask))
            self.assertEqual(mask, self.ddio.read(self.domain.id))

    def test_bad_masks_are_refused(self):
        """Empty, too wide and broken masks are refused and change nothing."""
        before = self.ddio.read(self.domain.id)
        empty = () if self.no_way else (WayMask(0),)
        for mask in (*empty, WayMask(1 << self.top), WayMask(0b101)):
            with self.subTest(mask=mask), self.assertRaises(HardwareError):
                self.ddio.write(self.domain.id, mask)
        self.assertEqual(before, self.ddio.read(self.domain.id))

    def test_no_such_domain(self):
        """A domain that is not there is refused by its number."""
        for call in (lambda: self.ddio.read(77), lambda: self.ddio.write(77, WayMask(3))):
            with raises(self, HardwareError, "cache domain 77"):
                call()


class AssignedContract:
    """Tests of `counters.monitor.Monitor` where counters of memory bandwidth are assigned.

    Give it `COUNTERS` of them in each of two cache domains of at least four CPUs, a `fs`, a
    `topology` and a `resctrl` on it before its setUp, and `move`.
    """

    COUNTERS = 6
    BYTES = 1 << 20

    def move(self, cpu, count):
        """Have a CPU of the first domain move so many bytes to and from memory."""
        raise NotImplementedError

    def setUp(self):
        super().setUp()
        self.monitor = Monitor(self.fs, self.topology)
        self.addCleanup(self.monitor.close)
        self.domain, self.beside = self.resctrl.domains()
        self.found = self.left()
        self.assertEqual([self.COUNTERS - 2] * 2, self.found)  # the default group has its two

    def left(self):
        """Return how many counters are left, by domain."""
        left = parse_limits(self.fs.read("info/L3_MON/available_mbm_cntrs").strip())
        return [left[self.domain.id], left[self.beside.id]]

    def theirs(self, name):
        """Have another program make a group, to which the kernel assigns all it can."""
        path = self.fs.monitor(name)
        self.fs.mkdir(path)
        self.addCleanup(self.fs.rmdir, path)
        return path

    def tenants(self, count):
        """Return so many tenants, of a CPU each, the first of them in a class of its own."""
        cpus = self.domain.cpus[:count]
        masks = (ClassMask("class", cpus[:1], WayMask(3)),)
        self.resctrl.apply(self.domain.id, masks)
        self.addCleanup(self.resctrl.apply, self.domain.id, ())
        return tuple(tenant(f"t{cpu}", cpu, priority=Priority.PC) for cpu in cpus)

    def watch(self, tenants):
        self.monitor.watch({self.domain.id: DomainInventory(self.domain, tenants)})

    def traffic(self):
        """Return what each tenant moved, in bytes."""
        counts = self.monitor.read()
        return {name: one.memory_bytes for (_, name), one in counts.items()}

    def test_it_says_so(self):
        """How many there are, as they are fewer than RMIDs."""
        offer = offered(self.fs)
        self.assertEqual(self.COUNTERS, offer.counters)
        self.assertEqual("tenants-monitored-by-counters", offer.described().code)

    def test_one_for_each_tenant(self):
        """In its own domain, for all its traffic; a class has none; nothing is done twice."""
        tenants = self.tenants(2)
        self.assertEqual(self.found, self.left())
        self.watch(tenants)
        self.assertEqual([self.found[0] - 2, self.found[1]], self.left())
        (group,) = self.resctrl.own_groups()
        self.assertEqual(frozenset(), self.fs.assignments(group))
        for parent in (DEFAULT_GROUP, group):
            (name,) = self.fs.monitors(parent)
            path = self.fs.monitor(name, parent)
            self.assertEqual({(BANDWIDTH, self.domain.id)}, self.fs.assignments(path))
        self.assertIsNone(self.monitor.full)
        self.watch(tenants)
        self.assertEqual([self.found[0] - 2, self.found[1]], self.left())

    def test_what_moves_is_read(self):
        """Each tenant's bytes, as they are counted from the assignment on."""
        tenants = self.tenants(2)
        self.watch(tenants)
        first, second = (one.cpus[0] for one in tenants)
        before = self.traffic()
        self.move(first, 5 * self.BYTES)
        self.move(second, 7 * self.BYTES)
        moved = {name: count - before[name] for name, count in self.traffic().items()}
        self.assertEqual({f"t{first}": 5 * self.BYTES, f"t{second}": 7 * self.BYTES}, moved)

    def test_not_assigned_to_new_groups(self):
        """Where an operator has the kernel assign none by itself each tenant gets its own yet."""
        self.fs.put("info/L3_MON/mbm_assign_on_mkdir", "0")
        self.addCleanup(self.fs.put, "info/L3_MON/mbm_assign_on_mkdir", "1")
        self.watch(self.tenants(3))
        self.assertEqual([self.found[0] - 3, self.found[1]], self.left())
        self.assertNotIn(None, self.traffic().values())

    def test_they_run_out(self):
        """Who has none is counted for occupancy alone, and it is said; until one is free again."""
        path = self.theirs("theirs")
        tenants = self.tenants(3)
        self.watch(tenants)
        self.assertEqual([0, self.COUNTERS - 4], self.left())
        self.assertEqual(
            message(
                "traffic-counters-too-few",
                uncounted=1,
                tenants=3,
                counters=self.COUNTERS,
                domains=(str(self.domain.id),),
            ),
            self.monitor.full,
        )
        last = tenants[-1].id
        self.assertEqual({last}, {name for name, one in self.traffic().items() if one is None})
        self.assertIsNotNone(self.monitor.read()[self.domain.id, last].occupancy_bytes)
        self.watch(tenants)
        self.assertEqual(1, self.monitor.full.values["uncounted"])
        self.fs.put(f"{path}/mbm_L3_assignments", f"mbm_local_bytes:{self.domain.id}=_")
        self.watch(tenants)
        self.assertIsNone(self.monitor.full)
        self.assertNotIn(None, self.traffic().values())

    def test_all_are_given_back(self):
        """At the end as many are left as were found, by a monitor and by a restore."""
        saved = self.resctrl.save()
        self.watch(self.tenants(3))
        self.monitor.close()
        self.assertEqual(self.found, self.left())
        self.watch(self.tenants(3))
        self.assertNotEqual(self.found, self.left())
        self.resctrl.restore(saved)
        self.assertEqual(self.found, self.left())

    def test_another_agent_goes_on(self):
        """It counts on with what was handed over to it, and gives back what fits nobody."""
        tenants = self.tenants(3)
        self.watch(tenants)
        first = tenants[0].cpus[0]
        self.move(first, 3 * self.BYTES)
        before = self.traffic()
        self.monitor = Monitor(self.fs, self.topology)
        self.addCleanup(self.monitor.close)
        self.watch(tenants[:2])
        self.assertEqual(self.found[0] - 2, self.left()[0])
        self.assertEqual({one.id: before[one.id] for one in tenants[:2]}, self.traffic())

    def test_others_keep_theirs(self):
        """Groups of others, the default one too, count what they did, before, during and after."""
        path = self.theirs("theirs")
        self.fs.put(f"{path}/mbm_L3_assignments", f"mbm_total_bytes:{self.domain.id}=_")
        groups = (DEFAULT_GROUP, path)
        found = [self.fs.assignments(group) for group in groups]
        self.assertEqual([4, 3], [len(one) for one in found])
        tenants = self.tenants(3)
        for _ in range(2):
            self.watch(tenants)
            self.assertEqual(found, [self.fs.assignments(group) for group in groups])
        self.monitor.close()
        self.resctrl.apply(self.domain.id, ())
        self.assertEqual(found, [self.fs.assignments(group) for group in groups])
