# SPDX-License-Identifier: Apache-2.0
"""CPUs that come and go are noticed, whenever that is."""

import unittest

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.kernel.cpu_watch import CpuWatch, settled
from tests.said import raises
from tests.unit.hardware import trees


class Watching(unittest.TestCase):
    def setUp(self):
        self.cpus = trees.Cpus(trees.folder(self) / "cpu", ((0, 1), (2, 3)))
        self.watch = CpuWatch(self.cpus.topology)

    def test_nothing_happened(self):
        """No CPU came or went."""
        self.assertEqual((False, None), (self.watch.begin(), self.watch.moved()))

    def test_each_event_in_words(self):
        """CPUs that went, came, or did both."""
        self.cpus.unplug(1)
        self.assertEqual("CPU 1 went offline", self.watch.moved())
        self.assertTrue(self.watch.begin())
        self.cpus.plug(1)
        self.cpus.unplug(2)
        self.cpus.unplug(3)
        self.assertEqual("CPUs 2-3 went offline, CPU 1 came online", self.watch.moved())
        self.watch.begin()
        self.cpus.unplug(0)
        self.cpus.plug(0)
        self.assertEqual("CPU 0 went offline and came online", self.watch.moved())

    def test_between_two_calls(self):
        """A CPU that is back again had gone; the list of CPUs online is the same."""
        self.cpus.unplug(1)
        self.cpus.plug(1)
        self.assertTrue(self.watch.begin())
        self.assertFalse(self.watch.begin())

    def test_on_its_way(self):
        """The kernel takes its time: a CPU between two states is no ground for a conclusion."""
        hotplug = self.on_its_way(3)
        (self.cpus.root / "cpu3/online").write_text("1\n")
        self.watch.begin()
        self.assertEqual("CPU 3 is going offline or coming online", self.watch.moved())
        (hotplug / "state").write_text("0\n")
        self.assertIsNone(self.watch.moved())
        self.assertTrue(self.watch.begin())  # what was seen meanwhile is looked at again

    def on_its_way(self, cpu):
        """Have a CPU that is online with the target offline; return its folder."""
        hotplug = self.cpus.root / f"cpu{cpu}/hotplug"
        hotplug.mkdir()
        for name, text in (("state", "180\n"), ("target", "0\n")):
            (hotplug / name).write_text(text)
        return hotplug

    def test_the_boot_cpu_of_older_kernels(self):
        """Before Linux 6.2 its target is offline for ever; it has no file `online`."""
        self.on_its_way(0)
        self.assertEqual((False, None), (self.watch.begin(), self.watch.moved()))

    def test_a_domain_that_was_offline(self):
        """All of its CPUs went, at once or one after the other; else it was never lost."""
        self.cpus.unplug(2)
        self.watch.begin()
        self.assertFalse(self.watch.lost((2, 3)))
        self.cpus.unplug(3)
        self.cpus.plug(2)
        self.watch.begin()
        self.assertEqual([True, False], [self.watch.lost(cpus) for cpus in ((2, 3), (0, 1))])
        self.cpus.plug(3)
        self.watch.begin()
        self.assertFalse(self.watch.lost((2, 3)))

    def test_settled(self):
        """An operation that a CPU disturbed is repeated; another failure is its own."""
        calls = []

        def operation(disturbed):
            calls.append(1)
            if len(calls) == 1:
                if disturbed:
                    self.cpus.unplug(1)
                raise HardwareError("cpu1/cache/index1/level: No such file or directory")
            return "read"

        self.assertEqual("read", settled(self.watch, lambda: operation(True)))
        calls.clear()
        with raises(self, HardwareError, "No such file"):
            settled(self.watch, lambda: operation(False))

    def test_a_lasting_result(self):
        """It must fit the CPUs at its end: a success that a CPU disturbed is repeated, too."""
        for cpu, lasting, times in ((1, True, 2), (2, False, 1)):
            calls = []

            def operation(cpu=cpu, calls=calls):
                calls.append(1)
                if len(calls) == 1:
                    self.cpus.unplug(cpu)
                return len(calls)

            self.assertEqual(times, settled(self.watch, operation, lasting=lasting))
