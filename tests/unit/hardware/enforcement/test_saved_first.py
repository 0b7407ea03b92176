# SPDX-License-Identifier: Apache-2.0
"""Nothing is written that is not saved."""

import pathlib
import tempfile
import unittest
from unittest import mock

from iat_nova.hardware.enforcement.enforcer import SavedFirst
from iat_nova.hardware.enforcement.snapshot import HostTaken, Snapshot
from iat_nova.hardware.kernel.rollback import AllReachable
from iat_nova.hardware.kernel.shape import INDEX, listing, row


class Registers(AllReachable):
    """A register of each CPU that is online."""

    shape = listing(row(INDEX, INDEX))

    def __init__(self) -> None:
        self.online = {0, 1}
        self.values = {0: 0, 1: 0, 2: 0}

    def save(self) -> list[list[int]]:
        return [[cpu, self.values[cpu]] for cpu in sorted(self.online)]

    def restore(self, saved: list[list[int]]) -> tuple[str, ...]:
        changed = [cpu for cpu, value in saved if self.values[cpu] != value]
        self.values |= dict(saved)
        return tuple(f"CPU {cpu}" for cpu in changed)

    def watch(self, cpus: tuple[int, ...]) -> None:
        self.values |= dict.fromkeys(self.online.intersection(cpus), 1)

    def read(self) -> None:
        raise AssertionError

    def close(self) -> None:
        self.values = dict.fromkeys(self.values, 0)


class Both:
    """Counters of CPUs, and of the slices of the sockets that are online."""

    def __init__(self, cpus: Registers, slices: Registers) -> None:
        self.parts = cpus, slices
        self.read, self.close = cpus.read, cpus.close

    def watch(self, cpus: tuple[int, ...]) -> None:
        for part in self.parts:
            part.watch(cpus)


class SavedFirstTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "boot_id").write_text("this boot")
        self.registers = Registers()
        self.keeper = self.process()
        self.counters = SavedFirst(self.registers, self.keeper)

    def process(self, slices: Registers | None = None) -> Snapshot:
        """Return the snapshot as another process opens it."""
        return Snapshot(
            {"counters": self.registers} | ({} if slices is None else {"cha": slices}),
            snapshot=self.folder / "s.json",
            lock=self.folder / "lock",
            boot_id=self.folder / "boot_id",
        )

    def assert_restored_after_a_crash(self) -> None:
        self.process().restore()
        self.assertEqual({0: 0, 1: 0, 2: 0}, self.registers.values)

    def test_a_snapshot_before_counters_are_set_up(self) -> None:
        """The registers of further CPUs are saved before these count."""
        self.counters.watch((0,))
        self.registers.online.add(2)
        self.counters.watch((0, 2))
        self.assertEqual({0: 1, 1: 0, 2: 1}, self.registers.values)
        self.assert_restored_after_a_crash()

    def test_after_a_restore(self) -> None:
        """A restore removes the snapshot: a CPU that is back is saved again before it counts."""
        self.counters.watch((0, 1))
        self.keeper.restore()
        self.registers.online.discard(1)
        self.counters.watch((0,))
        self.registers.online.add(1)
        self.counters.watch((0, 1))
        self.assertEqual({0: 1, 1: 1, 2: 0}, self.registers.values)
        self.assert_restored_after_a_crash()

    def test_a_cpu_that_went_offline_before_the_snapshot(self) -> None:
        """Its tenant still has it; it is saved when it is back."""
        self.registers.online.discard(1)
        self.counters.watch((0, 1))
        self.registers.online.add(1)
        self.counters.watch((0, 1))
        self.assert_restored_after_a_crash()

    def test_a_socket_whose_cpus_are_saved_already(self) -> None:
        """Registers of its slices, which are not saved yet, are saved before they count."""
        slices = Registers()
        slices.online = {0}
        self.keeper = self.process(slices)
        self.counters = SavedFirst(Both(self.registers, slices), self.keeper)
        self.counters.watch((0, 1))
        slices.online = {0, 1}
        self.counters.watch((0, 1))
        self.process(slices).restore()
        self.assertEqual({0: 0, 1: 0, 2: 0}, slices.values)

    def test_another_writer(self) -> None:
        """What counts for another agent by then is not stopped at the end."""
        other = self.process()
        with self.keeper.only_writer():
            self.counters.watch((0,))
            (self.folder / "lock").unlink()
            with other.only_writer():
                SavedFirst(self.registers, other).watch((0, 1))
                with self.assertRaises(HostTaken):
                    self.keeper.keep_lock()
                self.counters.close()
                self.assertEqual({0: 1, 1: 1, 2: 0}, self.registers.values)
        SavedFirst(self.registers, self.process()).close()
        self.assertEqual({0: 0, 1: 0, 2: 0}, self.registers.values)

    def test_counters_without_registers_beside_another_writer(self) -> None:
        """They write nothing: also new guests are counted by an agent that only observes."""
        lock, counters = self.folder / "lock", mock.Mock()
        keeper = Snapshot({}, snapshot=self.folder / "s.json", lock=lock)
        with keeper.only_writer():
            lock.unlink()
            with self.process().only_writer():
                for _ in range(2):
                    with self.assertRaises(HostTaken):
                        keeper.keep_lock()
                    SavedFirst(counters, keeper).watch((0,))
        self.assertEqual(2, counters.watch.call_count)

    def test_nothing_is_written_again(self) -> None:
        """As long as the CPUs are the same."""
        self.counters.watch((0, 1))
        before = (self.folder / "s.json").stat().st_ino
        self.counters.watch((0, 1))
        self.counters.watch((1,))
        self.assertEqual(before, (self.folder / "s.json").stat().st_ino)
