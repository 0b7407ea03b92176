# SPDX-License-Identifier: Apache-2.0
import dataclasses
import unittest

from iat_nova.experiments.times.fake import SKYLAKE, FakeAllocator, FakeDdio, Write
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.model import WayMask
from tests.said import raises
from tests.unit.hardware import contract


class SkylakeInMemory(contract.AllocatorContract, unittest.TestCase):
    def make(self):
        second = dataclasses.replace(SKYLAKE, id=1, cpus=tuple(range(18, 36)))
        return FakeAllocator((SKYLAKE, second))

    def class_of(self, cpu):
        return self.allocator.class_of(cpu)


class HaswellInMemory(contract.AllocatorContract, unittest.TestCase):
    """Two bits at least, four classes, no coupled ways."""

    def make(self):
        return FakeAllocator(
            (dataclasses.replace(SKYLAKE, ways=20, classes=6, min_ways=2, coerced_ways=WayMask(0)),)
        )

    def class_of(self, cpu):
        return self.allocator.class_of(cpu)


class SparseInMemory(contract.AllocatorContract, unittest.TestCase):
    """A CPU that takes masks with gaps."""

    def make(self):
        return FakeAllocator((dataclasses.replace(SKYLAKE, sparse_masks=True),))

    def class_of(self, cpu):
        return self.allocator.class_of(cpu)


class DdioInMemory(contract.DdioContract, unittest.TestCase):
    def make(self):
        return FakeDdio(), SKYLAKE


class Records(unittest.TestCase):
    """What tests of others build on."""

    def test_only_changes_are_recorded(self):
        """A mask that stays is not written again; requested and effective are both there."""
        allocator = FakeAllocator()
        classes = (ClassMask("a", (1,), WayMask(0x3)), ClassMask("b", (2,), WayMask(0x400)))
        allocator.apply(0, classes)
        allocator.apply(0, classes)
        allocator.apply(0, classes[:1])
        self.assertEqual(
            [
                Write(0, "a", WayMask(0x3), WayMask(0x3)),
                Write(0, "b", WayMask(0x400), WayMask(0x600)),
                Write(0, "b", None, None),
            ],
            allocator.writes,
        )

    def test_a_refusal_on_demand(self):
        """The class told to fail fails once and leaves everything as it was."""
        allocator = FakeAllocator()
        allocator.apply(0, (ClassMask("a", (1,), WayMask(0x3)),))
        allocator.refuse = "b"
        classes = (ClassMask("a", (1,), WayMask(0x7)), ClassMask("b", (), WayMask(0x18)))
        with raises(self, HardwareError, "'b'"):
            allocator.apply(0, classes)
        self.assertEqual({"a": WayMask(0x3)}, allocator.effective(0))
        allocator.apply(0, classes)

    def test_reserved_ways_are_refused(self):
        """Ways of another owner are never given out."""
        domain = dataclasses.replace(SKYLAKE, reserved_ways=WayMask(0x3))
        with raises(self, HardwareError, "reserved ways 0x3"):
            FakeAllocator((domain,)).apply(0, (ClassMask("a", (), WayMask(0x6)),))

    def test_ddio_that_is_stuck(self):
        """A stuck register returns what it kept."""
        ddio = FakeDdio()
        ddio.stuck = True
        self.assertEqual(WayMask(0x600), ddio.write(0, WayMask(0x700)))

    def test_ddio_that_refuses(self):
        """A register that cannot be written, or read, refuses."""
        for domain in (SKYLAKE, dataclasses.replace(SKYLAKE, ddio_found=None)):
            ddio = FakeDdio((domain,))
            ddio.refuse = domain is SKYLAKE
            with self.assertRaises(HardwareError):
                ddio.write(0, WayMask(0x700))
