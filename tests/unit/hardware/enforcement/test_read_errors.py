# SPDX-License-Identifier: Apache-2.0
"""A reading that fails, at any moment of a saving or a restore, loses no setting."""

import contextlib
import errno
import itertools
import shutil
import sys

from iat_nova.agent import restoring
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.model import WayMask
from tests.unit.hardware.enforcement.test_restore import MachineCase
from tests.unit.hardware.test_ddio import AmdTree


class Intel(MachineCase):
    """Skylake: another program monitors CPUs beneath the default group."""

    ddio = WayMask(0x7C0)

    def setUp(self):
        super().setUp()
        self.tree.monitoring(64)
        self.tree.add_monitor("theirs", "0,1")
        self.found = self.tree.state()

    def as_found(self):
        return self.tree.state() == self.found and self.msr.get(0, 0xC8B) == 0x600

    @contextlib.contextmanager
    def failing(self, at, code):
        """Have two readings of the agent fail; yield the readings left until then."""
        left = [at]

        def failing(read):
            def reading(*arguments):
                if "/iat_nova/" in sys._getframe(1).f_code.co_filename:  # not of the tree itself
                    left[0] -= 1
                    if left[0] in (-1, -2):  # also the reading back
                        raise OSError(code, "it fails")
                return read(*arguments)

            return reading

        self.tree.read, self.msr.pread = failing(self.tree.read), failing(self.msr.pread)
        try:
            yield left
        finally:
            del self.tree.read, self.msr.pread

    def each(self, act):
        """Let an agent act with each of its readings failing in turn, and with each error."""
        for at in itertools.count():
            for code in (errno.EMFILE, errno.EIO):
                with self.subTest(code=code, at=at):
                    owned = self.owned()
                    with owned.snapshot.only_writer():
                        left = act(owned, at, code)
                    restoring.restore(self.settings())
                    self.assertTrue(self.as_found())
                    self.assertFalse(self.settings().snapshot_path.exists())
            if left[0] >= 0:
                return

    def change(self, owned):
        owned.machine.allocator.apply(0, (ClassMask("a", (1,), WayMask(0x3)),))
        owned.machine.ddio.write(0, self.ddio)

    def test_restore(self):
        """The part that could not be read fails, stays in the snapshot, and is restored later."""

        def restored(owned, at, code):
            owned.snapshot.protect()
            self.change(owned)
            self.assertFalse(self.as_found())
            with self.failing(at, code) as left:
                result = owned.snapshot.restore()
            self.assertEqual(bool(result.failed), self.settings().snapshot_path.exists())
            self.assertTrue(result.failed or self.as_found())
            return left

        self.each(restored)

    def test_saving(self):
        """Nothing is written unless all is saved."""

        def saved(owned, at, code):
            with self.failing(at, code) as left, contextlib.suppress(HardwareError):
                owned.snapshot.protect()
            if owned.snapshot.names:
                self.change(owned)
                self.assertEqual((), owned.snapshot.restore().not_done)
            return left

        self.each(saved)


class Amd(Intel):
    """EPYC: io_alloc."""

    ddio = WayMask(0xC000)

    def setUp(self):
        super().setUp()
        shutil.rmtree(self.roots.resctrl)
        self.tree = AmdTree(self.roots.resctrl, self.cpus)
        self.be("amd")
        self.put_fabric()
        self.found = self.tree.state()
