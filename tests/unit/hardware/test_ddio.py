# SPDX-License-Identifier: Apache-2.0
import errno
import json
import unittest
from unittest import mock

from iat_nova.hardware.api import DomainOffline, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.counters import events
from iat_nova.hardware.ddio.ways import FixedDdio, IoAllocDdio, MsrDdio
from iat_nova.hardware.kernel.msr import IIO_LLC_WAYS
from iat_nova.model import WayMask, message
from tests.proofs import proves
from tests.said import raises
from tests.unit.hardware import contract, trees
from tests.unit.hardware.registers import FakeMsr


class Folder:
    def setUp(self):
        self.folder = trees.folder(self)
        super().setUp()


class Register(Folder, contract.DdioContract, unittest.TestCase):
    """IIO_LLC_WAYS of two packages."""

    def make(self):
        self.cpus = trees.Cpus(self.folder / "cpu", packages=((0, 1), (2, 3)))
        self.tree = trees.KernelTree(self.folder / "resctrl", self.cpus)
        self.msr = FakeMsr({0: 0, 1: 0, 2: 1, 3: 1})
        self.allocator = Resctrl(self.tree, self.cpus.topology)
        ddio = MsrDdio(self.msr, self.allocator.domains, self.cpus.topology)
        return ddio, self.allocator.domains()[0]

    def test_packages_are_apart(self):
        """Each package has its own register, reached through a CPU that is online."""
        self.cpus.unplug(2)
        self.msr.off.add(2)
        self.ddio.write(1, WayMask(0x7C0))
        self.assertEqual(0x600, self.ddio.read(0))
        self.assertEqual([(3, IIO_LLC_WAYS, 0x7C0)], self.msr.writes)

    def test_processors_come_and_go(self):
        """A socket is reached through CPUs that came later; without any it cannot be."""
        self.assertEqual(0x600, self.ddio.read(1))
        self.cpus.unplug(2)
        self.cpus.unplug(3)
        with raises(self, DomainOffline, "domain 1: none of its CPUs is online"):
            self.ddio.read(1)
        other = Resctrl(self.tree, self.cpus.topology)  # which has never seen that socket
        ddio = MsrDdio(self.msr, other.domains, self.cpus.topology)
        self.assertEqual(0x600, ddio.read(0))
        self.tree.plug(3)
        self.assertEqual((0x600, 0x600), (self.ddio.read(1), ddio.read(1)))
        self.tree.plug(2)
        self.tree.unplug(3)
        self.assertEqual(0x600, ddio.read(1))

    def test_one_look_an_access(self):
        """Which CPUs are online is read once for each read and each write."""
        self.ddio.read(0)
        topology = self.cpus.topology
        with mock.patch.object(topology, "online", wraps=topology.online) as looks:
            self.ddio.read(0)
            self.assertEqual(1, looks.call_count)
            self.ddio.write(0, WayMask(0x700))
            self.assertEqual(2, looks.call_count)

    def test_other_bits_stay(self):
        """What the register holds beyond the ways of the cache is written back as it was."""
        other = 0b101 << 20
        self.msr.set(0, IIO_LLC_WAYS, other | 0x600)
        self.assertEqual(0x700, self.ddio.write(0, WayMask(0x700)))
        self.assertEqual([(0, IIO_LLC_WAYS, other | 0x700)], self.msr.writes)

    def test_what_was_read_back(self):
        """A register that keeps its value shows in what write returns."""
        self.msr.stuck.add(IIO_LLC_WAYS)
        self.assertEqual(0x600, self.ddio.write(0, WayMask(0x700)))

    def test_refused(self):
        """A refusal is an error with advice and changes nothing."""
        self.msr.refuse = errno.EPERM
        with raises(self, HardwareError, "CAP_SYS_RAWIO"):
            self.ddio.write(0, WayMask(0x700))
        self.assertEqual(0x600, self.ddio.read(0))

    def test_restored(self):
        """What was found is put back, on every package, once."""
        self.msr.set(2, IIO_LLC_WAYS, 0x700)
        saved = json.loads(json.dumps(self.ddio.save()))
        self.ddio.write(0, WayMask(0x7F0))
        self.ddio.write(1, WayMask(0x7F0))
        self.assertEqual(2, len(self.ddio.restore(saved)))
        self.assertEqual((0x600, 0x700), (self.ddio.read(0), self.ddio.read(1)))
        self.assertEqual((), self.ddio.restore(saved))

    def test_forged_bits(self):
        """A restore sets ways; the other bits stay, whatever was saved."""
        self.msr.set(0, IIO_LLC_WAYS, 1 << 40 | 0x700)
        self.ddio.restore({"0": f"{1 << 50 | 0x600:x}"})
        self.assertEqual(1 << 40 | 0x600, self.msr.get(0, IIO_LLC_WAYS))

    def test_forged_masks(self):
        """A mask that no agent writes is refused, also without resctrl: empty, or with a gap."""
        for ways in (11, None):
            ddio = MsrDdio(self.msr, tuple, self.cpus.topology, lambda ways=ways: ways)
            for mask in (0, 0x501, 0x800, 0xFF800):
                with self.subTest(mask=mask), self.assertRaises(HardwareError):
                    ddio.restore({"0": f"{mask:x}"})
            self.assertEqual(0x600, self.msr.get(0, IIO_LLC_WAYS))
            ddio.restore({"0": "ffffffffffffffff"})
            self.assertEqual(0x7FF, self.msr.get(0, IIO_LLC_WAYS))
            ddio.restore({"0": "600"})

    def test_found_so(self):
        """What a restore would refuse is not saved, so nothing is written."""
        self.msr.set(0, IIO_LLC_WAYS, 0x500)
        with raises(self, HardwareError, "0x500 .*gap"):
            self.ddio.save()

    def test_a_package_that_refuses(self):
        """The other one is put back all the same, and the refusal is told."""
        saved = self.ddio.save()
        for domain in (0, 1):
            self.ddio.write(domain, WayMask(0x7F0))
        self.msr.refuse, self.msr.refusing = errno.EPERM, {0}
        with raises(self, HardwareError, "/0/msr: register 0xc8b: write 0x600"):
            self.ddio.restore(saved)
        self.assertEqual((0x7F0, 0x600), (self.ddio.read(0), self.ddio.read(1)))


class AmdTree(trees.KernelTree):
    """resctrl with io_alloc as Documentation/filesystems/resctrl.rst has it."""

    def __init__(self, root, cpus, **options):
        super().__init__(root, cpus, ways=16, mba_closids=16, shareable=0, sparse=True, **options)
        self._put("info/L3/io_alloc", "disabled")
        self._masks = dict.fromkeys(cpus.ids, self.full)
        self._show()

    def _show(self):
        text = ";".join(f"{domain}={mask:x}" for domain, mask in self._masks.items())
        self._put("info/L3/io_alloc_cbm", text)

    def write(self, name, text):
        if name == "info/L3/io_alloc":
            self._change(f"write {name} {text.strip()}")
            if text.strip() == "1" and self.closids - 1 in map(self._closid, self.groups()):
                raise self._refuse(errno.ENOSPC, "CLOSID already in use")
            enabled = text.strip() == "1"
            self._put(name, "enabled" if enabled else "disabled")
            self._masks = dict.fromkeys(self.cpus.ids, self.full)
            self._show()
        elif name == "info/L3/io_alloc_cbm":
            self._change(f"write {name} {text.strip()}")
            if self.read("info/L3/io_alloc").strip() != "enabled":
                raise self._refuse(errno.EINVAL, "io_alloc is not enabled")
            for part in text.strip().split(";"):
                domain, _, mask = part.partition("=")
                self._masks[int(domain)] = int(mask, 16)
            self._show()
        else:
            super().write(name, text)


@proves("ways of devices: io_alloc", on=(events.ZEN_5.name,))
class IoAlloc(Folder, contract.DdioContract, unittest.TestCase):
    """AMD's knob, enabled."""

    no_way = True

    def make(self):
        self.cpus = trees.Cpus(self.folder / "cpu", packages=((0, 1), (2, 3)))
        self.tree = AmdTree(self.folder / "resctrl", self.cpus)
        self.tree.write("info/L3/io_alloc", "1")
        self.tree.write("info/L3/io_alloc_cbm", "0=c000")
        self.tree.changes.clear()
        self.allocator = Resctrl(self.tree, self.cpus.topology)
        return IoAllocDdio(self.tree, self.allocator.domains), self.allocator.domains()[0]

    def test_disabled_and_enabled(self):
        """While disabled devices fill any way; the first write enables it, restore disables it."""
        self.tree.write("info/L3/io_alloc", "0")
        saved = json.loads(json.dumps(self.ddio.save()))
        self.assertEqual(0, self.ddio.read(0))
        self.assertEqual(0, self.ddio.write(0, WayMask(0)))
        self.assertEqual("disabled", self.ddio.state())
        self.assertEqual(0xC000, self.ddio.write(0, WayMask(0xC000)))
        self.assertEqual(0, self.ddio.read(1))
        self.assertEqual(0xFFFF, self.tree._masks[1])
        self.assertEqual(0, self.ddio.write(0, WayMask(0)))
        self.assertEqual(0xFFFF, self.tree._masks[0])
        self.ddio.restore(saved)
        self.assertEqual("disabled", self.ddio.state())
        self.assertEqual((), self.ddio.restore(saved))

    def test_closed_by_an_operator(self):
        """A cache that devices may not fill at all is told."""
        self.assertEqual((), self.ddio.shut())
        self.tree.write("info/L3/io_alloc_cbm", "1=0")
        self.assertEqual((1,), self.ddio.shut())

    def test_a_domain_off_line(self):
        """The kernel leaves it out: that is no mask that somebody moved."""
        del self.tree._masks[1]
        self.tree._show()
        with raises(self, DomainOffline, "domain 1: none of its CPUs"):
            self.ddio.read(1)

    def test_a_domain_online_after_the_saving(self):
        """Its mask could not be restored, except by disabling all."""
        mask = self.tree._masks.pop(1)
        self.tree._show()
        self.ddio.save()
        self.tree._masks[1] = mask
        self.tree._show()
        with self.assertRaises(DomainOffline):
            self.ddio.write(1, WayMask(0xF000))
        self.assertEqual(mask, self.tree._masks[1])
        self.tree.write("info/L3/io_alloc", "0")
        self.ddio.save()
        self.assertEqual(0xF000, self.ddio.write(1, WayMask(0xF000)))

    def test_masks_restored(self):
        """Where it was enabled before, its masks are put back."""
        self.ddio.write(1, WayMask(0xF000))
        saved = json.loads(json.dumps(self.ddio.save()))
        self.ddio.write(1, WayMask(0xC000))
        self.assertEqual(
            (message("io-alloc-restored", domain=1, mask=0xF000),), self.ddio.restore(saved)
        )
        self.assertEqual(0xF000, self.ddio.read(1))
        self.assertEqual((), self.ddio.restore(saved))

    def test_a_domain_that_refuses(self):
        """The other one is put back all the same."""
        saved = {"state": "enabled", "masks": {"0": "f000", "1": "f000"}}
        self.tree.fail_at = 1
        with raises(self, HardwareError, "Input/output error"):
            self.ddio.restore(saved)
        self.assertEqual((0xC000, 0xF000), (self.ddio.read(0), self.ddio.read(1)))

    def test_the_class_is_taken(self):
        """The kernel's refusal is passed on in its words."""
        self.tree.write("info/L3/io_alloc", "0")
        for n in range(15):
            self.tree.mkdir(f"theirs{n}")
        with raises(self, HardwareError, "the kernel says: CLOSID already in use"):
            self.ddio.write(0, WayMask(0xC000))

    def test_not_supported(self):
        """A kernel without the files has no such knob."""
        other = IoAllocDdio(
            trees.KernelTree(self.folder / "intel", self.cpus), self.allocator.domains
        )
        self.assertEqual("not supported", other.state())
        self.assertIsNone(other.read(0))
        self.assertEqual((), other.restore(other.save()))


class Fixed(unittest.TestCase):
    """No knob."""

    def test_known_and_unknown(self):
        """Where DDIO lies is told as far as it is known; writing refuses with the reason."""
        ddio = FixedDdio(lambda: {0: WayMask(0x600)}, "no msr driver")
        self.assertEqual(0x600, ddio.read(0))
        self.assertIsNone(ddio.read(1))
        with raises(self, HardwareError, "fixed here: no msr driver"):
            ddio.write(0, WayMask(0x600))
