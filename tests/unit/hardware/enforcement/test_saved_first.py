# SPDX-License-Identifier: Apache-2.0
"""Nothing is written that is not saved."""

import pathlib
import tempfile
import unittest

from iat_nova.hardware.enforcement.saved_first import SavedFirst
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.kernel.rollback import AllReachable
from iat_nova.hardware.kernel.shape import INDEX


class SavedFirstTest(unittest.TestCase):
    def test_a_snapshot_before_counters_are_set_up(self) -> None:
        """Also for CPUs that come, and after a restore, which takes the snapshot away."""
        done: list[str] = []

        class Part(AllReachable):
            shape = INDEX

            def save(self) -> int:
                done.append("saved")
                return 0

            def restore(self, saved: int) -> tuple[str, ...]:
                return ()

        class Counters:
            read = close = staticmethod(tuple)

            def watch(self, cpus: object) -> None:
                done.append("watched")

        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        boot = folder / "boot_id"
        boot.write_text("this boot")
        keeper = Snapshot(
            {"counters": Part()}, snapshot=folder / "s.json", lock=folder / "lock", boot_id=boot
        )
        counters = SavedFirst(Counters(), keeper)
        counters.watch((0,))
        counters.watch((0,))
        counters.watch((0, 1))
        keeper.restore()
        counters.watch((0,))
        first, more = ["saved", "watched", "watched"], ["saved", "watched"]
        self.assertEqual([*first, *more, *more], done)
        self.assertTrue(keeper.pending)
