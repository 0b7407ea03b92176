# SPDX-License-Identifier: Apache-2.0
"""iat-nova qualify takes no values of an earlier agent for the original ones."""

import errno
import json
import shutil
from unittest import mock

from iat_nova.agent import restoring, state_pointer
from iat_nova.checks.qualify.run import none
from iat_nova.hardware.api import HardwareError
from iat_nova.model import WayMask
from tests.unit.hardware.enforcement.test_restore import MachineCase


class QualifyRestore(MachineCase):
    """An agent was killed, and another state directory is configured since."""

    def setUp(self):
        super().setUp()
        shutil.copy("/proc/stat", self.roots.proc)
        (self.folder / "out").mkdir()
        for target, value in (
            ("_LOOK_S", 0.0),
            ("choose_cpus", lambda _cpus, domains, *_busy: (domains[0], (0, 1))),
            ("run", self.measure),
        ):
            patch = mock.patch(f"iat_nova.cmd.qualify.{target}", value)
            patch.start()
            self.addCleanup(patch.stop)
        self.during = None
        self.crash()
        self.moved()

    def measure(self, tests, bench, _note):
        self.during = json.loads((self.folder / "new/snapshot.json").read_bytes())["parts"]
        self.assertEqual(self.found, self.tree.state())
        bench.ddio.write(0, WayMask(0x7C0))
        return none(tests, HardwareError("not measured"))

    def qualify(self):
        out = str(self.folder / "out")
        return self.run_it("qualify", "--yes", "--only", "mask", "--out", out)

    def test_an_earlier_directory(self):
        """It is restored from before anything is saved; the record has DDIO's original ways."""
        status, _, err = self.qualify()
        self.assertEqual(1, status)
        self.assertIn("an agent with another state directory: removed", err)
        self.assertEqual("600", self.during["ddio msr"]["0"])
        self.assert_as_found()
        self.assertFalse((self.folder / "state/snapshot.json").exists())
        record = json.loads((self.folder / "out/qualify.json").read_bytes())
        self.assertEqual("0x600", record["cache"]["ddio_found"])

    def test_an_earlier_directory_that_is_refused(self):
        """Nothing is measured, and the snapshot stays."""
        self.msr.refuse = errno.EIO
        status, _, err = self.qualify()
        self.assertEqual(1, status)
        self.assertIn(f"iat-nova restore --state-dir {self.folder / 'state'}", err)
        self.assertIsNone(self.during)
        self.assertTrue((self.folder / "state/snapshot.json").exists())
        self.assertFalse((self.folder / "new/snapshot.json").exists())

    def test_its_directory_is_noted(self):
        """After kill -9, a restore finds the snapshot without the configuration."""
        state_pointer.POINTER.unlink()
        noted = mock.Mock(side_effect=lambda settings: state_pointer.write(settings.state_dir))
        with mock.patch.object(restoring, "note_state_dir", noted):  # it writes for root alone
            self.qualify()
        self.assertEqual((self.folder / "new",), state_pointer.read())
