# SPDX-License-Identifier: Apache-2.0
import os
import struct
import threading
import unittest
from unittest import mock

from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times.software import SOFTWARE
from iat_nova.hardware.api import CoreCounts, DomainCounts, HardwareError
from iat_nova.hardware.counters import events, perf_event
from iat_nova.hardware.counters.perf import PerfCounters
from tests.proofs import proves
from tests.said import raises

REFUSED = perf_event.available(SOFTWARE.events)


class PipeGroup:
    """A group whose readings the test writes: what a kernel would say on bad days."""

    def __init__(self):
        self.fd, self._write = os.pipe()
        self.closed = False

    def say(self, enabled, running, *values):
        os.write(
            self._write, struct.pack(f"={3 + len(values)}Q", len(values), enabled, running, *values)
        )

    def break_(self):
        os.close(self._write)
        self._write = None

    def close(self):
        self.closed = True
        os.close(self.fd)
        if self._write is not None:
            os.close(self._write)


class Kernel:
    """Hands out `PipeGroup`s and knows which CPUs are online."""

    def __init__(self, online=(0, 1)):
        self.online = set(online)
        self.groups = {}
        self.opened = []

    def open(self, _events, cpu):
        if cpu not in self.online:
            raise perf_event.CpuOffline(f"CPU {cpu} is offline")
        self.opened.append(cpu)
        self.groups[cpu] = PipeGroup()
        return self.groups[cpu]


class Descriptors(unittest.TestCase):
    """How many files may be open."""

    def raised_to(self, limits, count):
        with (
            mock.patch("os.listdir", return_value=["a file"] * 900),
            mock.patch("resource.getrlimit", return_value=limits),
            mock.patch("resource.setrlimit") as limit,
        ):
            perf_event.allow_descriptors(count)
        return [call.args[1][0] for call in limit.mock_calls]

    def test_so_many_more_than_are_open(self):
        """What is open already counts, up to the hard limit."""
        self.assertEqual([900 + 100 + 256], self.raised_to((1024, 524288), 100))
        self.assertEqual([1200], self.raised_to((1024, 1200), 100))
        self.assertEqual([], self.raised_to((4096, 4096), 100))


class Domains:
    watched = closed = 0

    def watch(self):
        self.watched += 1

    def read(self):
        return {0: DomainCounts(1, 2, None)}

    def close(self):
        self.closed += 1


class ScriptedReadings(unittest.TestCase):
    """The arithmetic between the kernel's readings and the totals."""

    def setUp(self):
        self.kernel = Kernel()
        self.counters = PerfCounters(SOFTWARE, SystemClock(), open_group=self.kernel.open)
        self.addCleanup(self.counters.close)
        self.counters.watch([0])

    def say(self, *reading):
        self.kernel.groups[0].say(*reading)
        return self.counters.read().cores.get(0)

    def test_a_full_interval_is_taken_as_it_is(self):
        """Counts of a group that ran all the time are the kernel's."""
        self.assertEqual(CoreCounts(10, 20, 3, 1), self.say(1000, 1000, 10, 20, 3, 1))
        self.assertEqual(CoreCounts(15, 27, 4, 1), self.say(2000, 2000, 15, 27, 4, 1))

    def test_a_shared_interval_is_scaled(self):
        """A group that ran 3/4 of the interval counts 4/3 of what it saw in it."""
        self.say(1000, 1000, 100, 100, 100, 100)
        self.assertEqual(CoreCounts(500, 900, 100, 104), self.say(2000, 1750, 400, 700, 100, 103))

    def test_scaling_touches_the_interval_alone(self):
        """Totals neither fall nor jump when the group runs all the time again."""
        self.say(1000, 500, 100, 100, 100, 100)
        scaled = self.say(2000, 1250, 130, 130, 130, 130)
        self.assertEqual(CoreCounts(240, 240, 240, 240), scaled)
        self.assertEqual(CoreCounts(250, 250, 250, 250), self.say(3000, 2250, 140, 140, 140, 140))

    def test_below_half_is_rejected(self):
        """A group that ran less than half of the interval is absent, and present again later."""
        self.say(1000, 1000, 10, 10, 10, 10)
        self.assertIsNone(self.say(2000, 1499, 20, 20, 20, 20))
        self.assertIsNotNone(self.say(3000, 2499, 30, 30, 30, 30))

    def test_exactly_half_is_accepted(self):
        """Half of the interval is the least that is trusted."""
        self.assertEqual(CoreCounts(20, 20, 20, 20), self.say(1000, 500, 10, 10, 10, 10))

    def test_a_group_that_never_ran_is_rejected(self):
        """No running time is no count, not a count of zero."""
        self.assertIsNone(self.say(1000, 0, 0, 0, 0, 0))

    def test_totals_never_fall(self):
        """Whatever share of time a group gets, the totals only grow."""
        enabled = running = value = 0
        before = CoreCounts(0, 0, 0, 0)
        for share in (1000, 500, 999, 0, 10, 750, 1000, 501):
            enabled, running, value = enabled + 1000, running + share, value + share // 3
            now = self.say(enabled, running, value, value, value, value)
            if now is not None:
                self.assertTrue(all(a >= b for a, b in zip(now, before, strict=True)), now)
                before = now


class OfflineProcessors(unittest.TestCase):
    """A CPU goes and comes back."""

    def setUp(self):
        self.kernel = Kernel()
        self.counters = PerfCounters(SOFTWARE, SystemClock(), open_group=self.kernel.open)
        self.addCleanup(self.counters.close)
        self.counters.watch([0, 1])
        for group in self.kernel.groups.values():
            group.say(1000, 1000, 10, 20, 3, 1)
        self.counters.read()
        self.kernel.groups[1].say(2000, 2000, 11, 21, 4, 2)

    def check_absent_until_watched(self):
        self.assertEqual({1}, self.counters.read().cores.keys())
        for _ in range(2):  # it stays lost, whatever its descriptor says
            self.kernel.groups[1].say(3000 + len(self.kernel.opened), 3000, 11, 21, 4, 2)
        self.assertNotIn(0, self.counters.read().cores)
        self.counters.watch([0, 1])
        self.assertEqual([0, 1, 0], self.kernel.opened)
        self.kernel.groups[0].say(500, 500, 5, 5, 5, 5)
        self.assertEqual(CoreCounts(15, 25, 8, 6), self.counters.read().cores[0])

    def test_the_kernel_took_the_group_apart(self):
        """A reading without the members means lost; a later watch counts on from the totals."""
        self.kernel.groups[0].say(1000, 1000, 10)
        self.check_absent_until_watched()

    def test_the_time_stands_still(self):
        """A reading whose time did not move means lost."""
        self.kernel.groups[0].say(1000, 1000, 10, 20, 3, 1)
        self.check_absent_until_watched()

    def test_the_descriptor_fails(self):
        """The end of the file means lost."""
        self.kernel.groups[0].break_()
        self.check_absent_until_watched()

    def test_the_descriptor_is_invalid(self):
        """An error of read(2) is raised once, means lost, and does not stop the others."""
        self.counters.close()
        self.counters.watch([0, 1])
        os.close(self.kernel.groups[0].fd)
        self.kernel.groups[1].say(1, 1, 1, 1, 1, 1)
        self.assertRaises(OSError, self.counters.read)
        self.assertEqual({1}, self.counters.read().cores.keys())
        self.kernel.groups[0].fd = os.open("/dev/null", os.O_RDONLY)  # for close() to close

    def test_offline_at_the_start(self):
        """A CPU that is not there is absent and is tried again at the next watch."""
        self.kernel.online.discard(2)
        self.counters.watch([1, 2])
        self.assertEqual({1}, self.counters.read().cores.keys())
        self.kernel.online.add(2)
        self.counters.watch([1, 2])
        self.assertEqual([0, 1, 2], self.kernel.opened)


class Watching(unittest.TestCase):
    """Which descriptors are open when."""

    def setUp(self):
        self.kernel = Kernel(online=range(8))
        self.domains = Domains()
        self.counters = PerfCounters(
            SOFTWARE, SystemClock(), domains=self.domains, open_group=self.kernel.open
        )
        self.addCleanup(self.counters.close)

    def test_what_is_counted_is_kept(self):
        """Watching a changed set opens and closes the difference alone."""
        self.counters.watch([0, 1, 2])
        first = dict(self.kernel.groups)
        self.counters.watch([1, 2, 3])
        self.assertEqual([0, 1, 2, 3], self.kernel.opened)
        self.assertEqual([True, False, False], [first[cpu].closed for cpu in range(3)])

    def test_totals_outlive_the_descriptors(self):
        """A CPU watched anew counts on from where it stopped."""
        self.counters.watch([0])
        self.kernel.groups[0].say(10, 10, 1, 2, 3, 4)
        self.counters.read()
        self.counters.watch([])
        self.assertEqual({}, self.counters.read().cores)
        self.counters.watch([0])
        self.kernel.groups[0].say(10, 10, 1, 1, 1, 1)
        self.assertEqual(CoreCounts(2, 3, 4, 5), self.counters.read().cores[0])

    def test_a_refusal_leaks_nothing(self):
        """When the kernel refuses, what is open stays open and is closed with the rest."""

        def refuse(_events, cpu):
            if cpu == 2:
                raise HardwareError("no")
            return self.kernel.open(_events, cpu)

        counters = PerfCounters(SOFTWARE, SystemClock(), open_group=refuse)
        with self.assertRaises(HardwareError):
            counters.watch([0, 1, 2, 3])
        self.assertEqual([0, 1], self.kernel.opened)
        counters.close()
        self.assertTrue(all(group.closed for group in self.kernel.groups.values()))

    def test_domains_go_along(self):
        """The domains' counters are watched, read and closed with the CPUs'."""
        self.counters.watch([0])
        self.kernel.groups[0].say(10, 10, 1, 2, 3, 4)
        self.assertEqual({0: DomainCounts(1, 2, None)}, self.counters.read().domains)
        self.counters.close()
        self.assertEqual((1, 1), (self.domains.watched, self.domains.closed))


@unittest.skipIf(REFUSED, f"no perf events for us here: {REFUSED}")
class RealKernel(unittest.TestCase):
    """The system calls themselves, with software events that every machine has."""

    def descriptors(self):
        return sorted(
            fd
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")
            and "perf_event" in os.readlink(f"/proc/self/fd/{fd}")
        )

    def test_counts_grow(self):
        """The first event, the task clock, grows with the CPU's own time."""
        cpu = min(os.sched_getaffinity(0))
        counters = PerfCounters(SOFTWARE, SystemClock())
        self.addCleanup(counters.close)
        counters.watch([cpu])
        readings = [counters.read() for _ in range(5)]
        clocks = [reading.cores[cpu].instructions for reading in readings]
        self.assertEqual(sorted(set(clocks)), clocks)
        self.assertLess(readings[0].taken_at_s, readings[4].taken_at_s)

    def test_many_emulated_processors(self):
        """512 emulated CPUs count on one real one and give every descriptor back."""
        cpu = min(os.sched_getaffinity(0))
        before = self.descriptors()
        counters = PerfCounters(
            SOFTWARE, SystemClock(), open_group=lambda group, _: perf_event.EventGroup(group, cpu)
        )
        counters.watch(range(512))
        opened = self.descriptors()
        self.assertEqual(2048, len(opened) - len(before))
        self.assertEqual(set(range(512)), counters.read().cores.keys())
        self.assertEqual(opened, self.descriptors())
        counters.close()
        self.assertEqual(before, self.descriptors())

    def test_a_processor_that_cannot_be(self):
        """A number beyond the kernel's CPUs is an error that names it."""
        counters = PerfCounters(SOFTWARE, SystemClock())
        self.addCleanup(counters.close)
        with raises(self, HardwareError, "CPU 65535"):
            counters.watch([65535])

    def test_an_unknown_event(self):
        """An event nobody knows is refused with the event and advice in the text."""
        bad = events.CoreEvents("bad", (perf_event.PerfEvent(1, 0x7777),) * 4)
        counters = PerfCounters(bad, SystemClock())
        with raises(self, HardwareError, r"config 0x7777: .*; this "):
            counters.watch([min(os.sched_getaffinity(0))])
        counters.close()

    def test_another_thread_may_read(self):
        """A group may be read by another thread than the one that opened it."""
        cpu = min(os.sched_getaffinity(0))
        counters = PerfCounters(SOFTWARE, SystemClock())
        self.addCleanup(counters.close)
        counters.watch([cpu])
        seen = []
        thread = threading.Thread(target=lambda: seen.append(counters.read()))
        thread.start()
        thread.join()
        self.assertIn(cpu, seen[0].cores)


OLDER = (events.BROADWELL, events.ZEN_2, events.ZEN_3)


@proves("counters: perf", on=[model.name for model in OLDER])
class Older(unittest.TestCase):
    """CPUs whose own events are known, and none of what devices write."""

    def test_events(self):
        """As `perf list` has them: LONGEST_LAT_CACHE; fills from memory or I/O of any node."""
        found = {model.name: [event.config for event in model.core.events] for model in OLDER}
        self.assertEqual(
            {
                events.BROADWELL.name: [0xC0, 0x3C, 0x4F2E, 0x412E],
                events.ZEN_2.name: [0xC0, 0x76, 0x0964, 0x4843],
                events.ZEN_3.name: [0xC0, 0x76, 0x0964, 0x4844],
            },
            found,
        )
        self.assertEqual({(None, ())}, {(model.cha, model.fabric) for model in OLDER})
        self.assertEqual({False}, {model.ddio_msr for model in OLDER})


class Tables(unittest.TestCase):
    """Which events belong to which CPU."""

    def test_models(self):
        """Each generation is found by its model; a stranger gets nothing."""
        for model, name in (
            (0x3F, "Haswell-EP"),
            (0x4F, "Broadwell-EP"),
            (0x56, "Broadwell-DE"),
            (0x55, "Skylake"),
            (0x6A, "Ice Lake"),
            (0x8F, "Sapphire"),
            (0xCF, "Emerald"),
            (0xAD, "Granite"),
        ):
            known = events.CpuModel("GenuineIntel", 6, model).known
            self.assertIn(name, known.name)
        self.assertIsNone(events.CpuModel("GenuineIntel", 6, 0x2D).known)
        self.assertIsNone(events.CpuModel("AuthenticAMD", 25, 0x55).known)

    def test_skylake_filter(self):
        """The filter terms of Skylake's CHAs are the register value others use, 0x10049033."""
        terms = dict(events.SKYLAKE.cha.hits[0])
        at = {
            "filter_rem": 0,
            "filter_loc": 1,
            "filter_nm": 4,
            "filter_not_nm": 5,
            "filter_opc0": 9,
            "filter_opc1": 19,
        }
        value = sum(terms[name] << bit for name, bit in at.items())
        self.assertEqual(0x10049033, value)

    def test_this_machine(self):
        """The CPU of the machine that runs the tests can be told."""
        self.assertTrue(events.cpu_model().vendor)
