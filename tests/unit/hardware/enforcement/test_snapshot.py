# SPDX-License-Identifier: Apache-2.0
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement import snapshot as snapshot
from iat_nova.hardware.enforcement.snapshot import HostTaken, Restored, Snapshot, SnapshotError
from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile, _checksum
from iat_nova.hardware.kernel.rollback import Reach
from iat_nova.hardware.kernel.shape import INDEX, mapping, record, text
from iat_nova.model import message, verbatim
from iat_nova.report.sentences import text as sentence
from tests.said import raises


def of_part(name, what):
    """Return what is said of a part."""
    return message("of-part", part=name, what=what)


SOCKET_1 = of_part("ddio", "socket 1")


class Part:
    """A piece of hardware: one number."""

    shape = record({"value": INDEX})

    def __init__(self, value=1, log=None, name=""):
        self.value = value
        self.log = log if log is not None else []
        self.name = name
        self.broken = False

    def save(self):
        return {"value": self.value}

    def reachable(self, saved):
        return Reach(saved)

    def restore(self, saved):
        if self.broken:
            raise HardwareError("the register is gone")
        if self.value == saved["value"]:
            return ()
        self.value = saved["value"]
        self.log.append(self.name)
        return (f"{self.name} = {self.value}",)


class Sockets:
    """A register in each of some sockets; those that are offline keep it, out of reach."""

    shape = mapping(text(r"\d", "a socket"), INDEX)

    def __init__(self, **values):
        self.values = values
        self.offline = set()

    def save(self):
        return {
            socket[1:]: one for socket, one in self.values.items() if socket not in self.offline
        }

    def reachable(self, saved):
        later = {number: one for number, one in saved.items() if f"s{number}" in self.offline}
        now = {number: one for number, one in saved.items() if number not in later}
        return Reach(now or None, later or None, tuple(f"socket {number}" for number in later))

    def restore(self, saved):
        changed = [number for number, one in saved.items() if self.values[f"s{number}"] != one]
        assert not {f"s{number}" for number in saved} & self.offline
        self.values |= {f"s{number}": one for number, one in saved.items()}
        return tuple(f"socket {number} = {saved[number]}" for number in changed)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.snapshot = self.folder / "state/snapshot.json"
        self.lock = self.folder / "run/writer.lock"
        self.boot_id = self.folder / "boot_id"
        self.boot_id.write_text("boot-1\n")
        self.bootloader = self.folder / "bootloader_type"
        self.bootloader.write_text("114\n")  # GRUB
        self.log = []
        self.masks = Part(1, self.log, "masks")
        self.ddio = Part(2, self.log, "ddio")

    def make(self):
        return Snapshot(
            {"masks": self.masks, "ddio": self.ddio}, snapshot=self.snapshot, lock=self.lock,
            boot_id=self.boot_id, bootloader=self.bootloader,
        )  # fmt: skip

    def resealed(self, parts):
        """Write a snapshot of this content, with the checksum that belongs to it."""
        SnapshotFile(self.snapshot, {}, boot_id=self.boot_id).write(parts)


class Snapshots(Folder):
    """What is saved, when, and what becomes of it."""

    def test_round_trip(self):
        """Protect saves; restore puts back in order and removes the snapshot; again: nothing."""
        writer = self.make()
        self.assertEqual((), writer.protect().done)
        self.assertTrue(writer.pending)
        self.masks.value, self.ddio.value = 10, 20
        self.assertEqual(("masks = 1", "ddio = 2"), writer.restore().done)
        self.assertFalse(self.snapshot.exists())
        self.assertEqual(snapshot.Restored(), writer.restore())

    def test_saved_once(self):
        """A second protect keeps the first snapshot: what was found, not what we made of it."""
        writer = self.make()
        writer.protect()
        self.masks.value = 10
        writer.protect()
        writer.restore()
        self.assertEqual(1, self.masks.value)

    def test_on_disk_before_anything_is_written(self):
        """File and folder are synced, in this order, before protect returns.

        So are the parents of a folder that is made for it.
        """
        order = []
        real_fsync, real_replace = os.fsync, os.replace

        def fsync(fd):
            order.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
            real_fsync(fd)

        def replace(source, target, **folders):
            order.append("replace")
            real_replace(source, target, **folders)

        with mock.patch("os.fsync", fsync), mock.patch("os.replace", replace):
            self.make().protect()
        self.assertEqual(self.folder.name, order.pop(0))
        self.assertRegex(order.pop(0), r"^\.snapshot\.json\.new-")
        self.assertEqual(["replace", "state"], order)

    def test_after_a_crash(self):
        """The next writer restores first, then saves what it finds."""
        self.make().protect()
        self.masks.value = 10  # and then killed
        after = self.make()
        self.assertEqual(("masks = 1",), after.protect().done)
        saved = json.loads(self.snapshot.read_text())
        self.assertEqual({"value": 1}, saved["parts"]["masks"])

    def test_after_a_reboot(self):
        """A snapshot of another boot is never restored and is removed."""
        self.make().protect()
        self.masks.value = 10  # what the new boot has
        self.boot_id.write_text("boot-2\n")
        after = self.make()
        self.assertFalse(after.pending)
        self.assertEqual(snapshot.Restored(), after.restore())
        self.assertEqual(10, self.masks.value)
        self.assertFalse(self.snapshot.exists())

    def test_after_kexec(self):
        """Its boot id is new, but no register was reset: the snapshot holds."""
        self.make().protect()
        self.masks.value = 10
        self.boot_id.write_text("boot-2\n")
        self.bootloader.write_text(f"{0xD0}\n")
        after = self.make()
        self.assertTrue(after.pending)
        self.assertEqual(("masks = 1",), after.restore().done)
        self.assertFalse(self.snapshot.exists())

    def test_what_came_later(self):
        """CPUs and sockets that come are added to the snapshot; what was saved stays."""
        self.masks.shape = self.ddio.shape = {}
        writer = self.make()
        self.masks.save = lambda: {"masks": {"0": 1}, "groups": ["theirs"]}
        self.ddio.save = lambda: [[0, 0x186, 5]]
        writer.protect()
        self.masks.save = lambda: {"masks": {"0": 10, "1": 7}, "groups": ["theirs", "ours"]}
        self.ddio.save = lambda: [[0, 0x186, 6], [1, 0x186, 7]]
        writer.extend()
        ddio = [[0, 0x186, 5], [1, 0x186, 7]]
        masks = {"masks": {"0": 1, "1": 7}, "groups": ["theirs"]}
        self.assertEqual({"masks": masks, "ddio": ddio}, self.make()._known())

    def test_a_part_that_fails(self):
        """The other parts are restored, the snapshot stays, and a later restore finishes."""
        self.make().protect()
        self.masks.value, self.ddio.value = 10, 20
        self.masks.broken = True
        restored = self.make().restore()
        self.assertEqual((("ddio = 2",), (of_part("masks", verbatim("the register is gone")),)),
                         (restored.done, restored.failed))  # fmt: skip
        with raises(self, SnapshotError, "could not restore.*the register is gone"):
            self.make().protect()
        self.masks.broken = False
        self.assertEqual(("masks = 1",), self.make().restore().done)
        self.assertFalse(self.snapshot.exists())

    def test_a_part_of_another_configuration(self):
        """What this configuration cannot restore is told; the snapshot stays for one that can."""
        self.make().protect()
        other = Snapshot({"ddio": self.ddio}, snapshot=self.snapshot, lock=self.lock,
                      boot_id=self.boot_id)  # fmt: skip
        self.assertEqual((message("part-absent", part="masks"),), other.restore().failed)
        self.assertTrue(self.snapshot.exists())

    def test_a_killed_write(self):
        """A half-written file beside the snapshot is no snapshot."""
        self.snapshot.parent.mkdir()
        self.snapshot.with_suffix(".new").write_text('{"format": 1, "bo')
        writer = self.make()
        self.assertFalse(writer.pending)
        writer.protect()
        self.assertTrue(writer.pending)

    def refused(self, content, why="not a snapshot, or a damaged one"):
        """Every use of the file is refused, nothing is applied, and the file is left alone."""
        self.snapshot.write_bytes(content)
        for use in (self.writer.restore, lambda: self.writer.pending):
            with raises(self, SnapshotError, f"snapshot.json: {why}"):
                use()
        self.assertEqual(content, self.snapshot.read_bytes())
        self.assertEqual((10, 20), (self.masks.value, self.ddio.value))

    def changed(self):
        """Protect, then write; return the snapshot's bytes."""
        self.make().protect()
        self.writer = self.make()
        self.masks.value, self.ddio.value = 10, 20
        return self.snapshot.read_bytes()

    def test_something_else_in_its_place(self):
        """A file that is no snapshot stops the writer and is left for a person to look at."""
        self.changed()
        for content in (b"", b"[]", b"{}", b"null", b"not json", b"\xff\xfe", b"[" * 200_000):
            self.refused(content)
        self.snapshot.unlink()
        os.mkfifo(self.snapshot)
        with raises(self, SnapshotError, "snapshot.json: .*regular"):
            self.make().restore()

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_planted(self):
        """Where anybody may write into the folder, nobody else has the host's registers written."""
        self.changed()
        os.chown(self.snapshot, 65534, 65534)
        self.snapshot.parent.chmod(0o1777)
        with raises(self, SnapshotError, "belongs to another account than its folder"):
            self.make().restore()
        self.assertEqual((10, 20), (self.masks.value, self.ddio.value))

    def test_cut_anywhere(self):
        """Half a snapshot is none."""
        whole = self.changed()
        for length in range(len(whole.rstrip())):
            self.refused(whole[:length])

    def test_any_digit_or_letter_flipped(self):
        """A changed boot id must not make it look old, nor a changed digit be taken for found."""
        whole = self.changed()
        for place in range(len(whole)):
            if chr(whole[place]).isalnum():
                flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
                self.refused(flipped, "(not a snapshot|format 3, this version)")

    def test_content_that_nobody_saves(self):
        """A checksum alone is not enough: all is looked at first."""
        self.changed()
        good = {"masks": {"value": 1}, "ddio": {"value": 2}}
        for bad in (None, [], {}, {"value": None}, {"value": "1"}, {"value": True}, {"value": -1},
                    {"value": 1, "more": 2}, {"VALUE": 1}):  # fmt: skip
            parts = good | {"ddio": bad}
            self.resealed(parts)
            self.refused(self.snapshot.read_bytes(), ".*ddio: ")
        for wrong in ({"boot": None}, {"boot": 1}, {"parts": None}, {"parts": []}, {"more": 1}):
            content = {"format": 2, "boot": "boot-1", "parts": good} | wrong
            content["sha256"] = _checksum(content)
            self.refused(json.dumps(content).encode())

    def test_another_format(self):
        """A snapshot of another version's format is not guessed at."""
        self.snapshot.parent.mkdir()
        self.snapshot.write_text(json.dumps({"format": 7, "boot": "boot-1", "parts": {}}))
        with raises(self, SnapshotError, "format 7"):
            self.make().restore()
        self.boot_id.write_text("boot-2\n")
        self.bootloader.write_text(f"{0xD0}\n")
        with raises(self, SnapshotError, "format 7"):
            self.make().restore()
        self.bootloader.unlink()
        self.assertEqual(snapshot.Restored(), self.make().restore())

    def test_settings_that_no_restore_would_accept(self):
        """Such a snapshot is not written, so neither is the host."""
        writer, self.ddio.value = self.make(), 10**6
        with raises(self, SnapshotError, "ddio: value: expected .*; without a snapshot nothing"):
            writer.protect()
        self.assertEqual((False, False), (writer.pending, writer.on_disk))

    def test_more_settings_than_are_read(self):
        """The same for a file beyond the reader's limit."""
        writer = SnapshotFile(self.snapshot, {}, boot_id=self.boot_id)
        with raises(self, SnapshotError, "would be larger than 4194304 bytes; without"):
            writer.write({"masks": {str(number): "7ff" for number in range(300_000)}})
        self.assertFalse(self.snapshot.exists())

    def test_a_folder_that_cannot_be_written(self):
        """Without a snapshot protect refuses, so nothing is written."""
        self.snapshot.parent.write_text("a file in the way")
        with raises(self, SnapshotError, "state: is not a folder; without"):
            self.make().protect()

    def test_a_full_disk(self):
        """The same; and nothing is taken for saved."""
        writer = self.make()
        full = OSError(errno.ENOSPC, "No space left on device")
        with (
            mock.patch("os.fsync", side_effect=full),
            raises(self, SnapshotError, "No space.*without a snapshot nothing is written"),
        ):
            writer.protect()
        self.assertFalse(writer.pending)
        writer.protect()
        self.assertTrue(writer.pending)


class OutOfReach(Folder):
    """What is offline at the end is not forgotten."""

    def setUp(self):
        super().setUp()
        self.sockets = Sockets(s0=6, s1=6)
        self.writer = self.make()
        self.writer.protect()
        self.masks.value = 10
        self.sockets.values = {"s0": 7, "s1": 8}
        self.sockets.offline = {"s1"}

    def make(self):
        return Snapshot(
            {"masks": self.masks, "ddio": self.sockets}, snapshot=self.snapshot, lock=self.lock,
            boot_id=self.boot_id, bootloader=self.bootloader,
        )  # fmt: skip

    def on_disk(self):
        return json.loads(self.snapshot.read_text())["parts"]

    def test_it_stays_in_the_snapshot(self):
        """The rest is put back, once; what stays is told, and is no failure."""
        restored = self.writer.restore()
        self.assertEqual(("masks = 1", "socket 0 = 6"), restored.done)
        self.assertEqual(((), (SOCKET_1,)), (restored.failed, restored.left))
        self.assertEqual({"ddio": {"1": 6}}, self.on_disk())
        self.assertEqual((SOCKET_1,), self.make().out_of_reach())
        self.masks.value = 30  # an operator's, by now
        self.assertEqual(snapshot.Restored(left=(SOCKET_1,)), self.make().restore())
        self.assertEqual(30, self.masks.value)

    def test_online_again(self):
        """The next restore finishes, and nothing is left."""
        self.writer.restore()
        self.sockets.offline = set()
        self.assertIsNone(self.make().out_of_reach())
        self.assertEqual(("socket 1 = 6",), self.make().restore().done)
        self.assertFalse(self.snapshot.exists())

    def test_the_next_agent(self):
        """It starts, writes what it can reach, and leaves the old value in its own snapshot."""
        self.writer.restore()
        after = self.make()
        self.assertEqual((SOCKET_1,), after.protect().left)
        self.assertEqual({"masks": {"value": 1}, "ddio": {"0": 6, "1": 6}}, self.on_disk())
        self.sockets.values["s0"] = 9
        self.assertEqual((SOCKET_1,), after.finish().left)
        self.assertEqual(9, self.sockets.values["s0"])
        self.sockets.offline = set()
        self.assertEqual(snapshot.Restored(("socket 1 = 6",), agreed=("ddio",)), after.finish())
        self.assertEqual(snapshot.Restored(), after.finish())
        after.extend()
        self.assertEqual({"0": 6, "1": 6}, self.on_disk()["ddio"])
        self.assertEqual(("socket 0 = 6",), after.restore().done)
        self.assertFalse(self.snapshot.exists())

    def test_online_again_before_it_is_restored_and_added(self):
        """What an agent wrote there is not saved as original when settings are added."""
        self.writer.restore()
        after = self.make()
        after.protect()
        self.sockets.offline = set()
        after.extend()
        self.assertEqual(("socket 1 = 6",), after.finish().done)
        self.sockets.values["s1"] = 9
        self.assertEqual(("socket 1 = 6",), after.restore().done)

    def test_the_file_is_lost_meanwhile(self):
        """What is out of reach is in memory as well, and is written again."""
        self.writer.restore()
        self.snapshot.unlink()
        self.assertEqual("snapshot-file-gone", self.writer.keep_file().code)
        self.assertEqual({"ddio": {"1": 6}}, self.on_disk())
        self.snapshot.unlink()
        self.sockets.offline = set()
        self.assertEqual(("socket 1 = 6",), self.writer.finish().done)
        self.assertEqual({"s0": 6, "s1": 6}, self.sockets.values)
        self.assertFalse(self.snapshot.exists())

    def test_a_socket_that_fails_when_it_is_back(self):
        """It is tried again by whoever comes next."""
        self.writer.restore()
        self.sockets.offline = set()
        after = self.make()
        with mock.patch.object(self.sockets, "restore", side_effect=HardwareError("jammed")):
            self.assertEqual((of_part("ddio", verbatim("jammed")),), after.restore().failed)
            self.assertEqual({"ddio": {"1": 6}}, self.on_disk())
            self.assertEqual((of_part("ddio", verbatim("jammed")),), after.finish().failed)
        self.assertEqual(("socket 1 = 6",), after.finish().done)
        self.assertFalse(self.snapshot.exists())


class LostFile(Folder):
    """The copy in memory and the file back each other up."""

    def setUp(self):
        super().setUp()
        self.writer = self.make()
        self.writer.protect()
        self.whole = self.snapshot.read_bytes()
        self.masks.value, self.ddio.value = 10, 20

    def gone(self):
        self.snapshot.unlink()

    def folder_gone(self):
        shutil.rmtree(self.snapshot.parent)

    def cut(self):
        self.snapshot.write_bytes(self.whole[:40])

    def damaged_in_place(self):
        with open(self.snapshot, "r+b") as file:
            file.write(b"X")

    def forged(self):
        self.resealed({"masks": {"value": 7}})

    def a_folder(self):
        self.gone()
        self.snapshot.mkdir()

    def a_link(self):
        other = self.folder / "other.json"
        other.write_bytes(self.whole)
        self.gone()
        self.snapshot.symlink_to(other)

    LOSSES = ("gone", "folder_gone", "cut", "damaged_in_place", "forged", "a_link")

    def each(self, *losses):
        for loss in losses or self.LOSSES:
            with self.subTest(loss=loss):
                self.setUp()
                getattr(self, loss)()
                yield loss

    def test_the_end_restores_from_memory(self):
        """Whatever became of the file; the loss is told, and the file is gone in the end."""
        for loss in self.each():
            restored = self.writer.restore()
            self.assertEqual((1, 2), (self.masks.value, self.ddio.value))
            self.assertEqual(("masks = 1", "ddio = 2"), restored.done[1:])
            self.assertRegex(sentence(restored.done[0]), "snapshot.json.*: restored from memory$")
            self.assertEqual(((), ("masks", "ddio")), (restored.failed, restored.agreed))
            self.assertFalse(os.path.lexists(self.snapshot), loss)

    def test_a_file_that_cannot_be_removed(self):
        """The settings are restored; that the file stays is a failure."""
        for _ in self.each("a_folder"):
            restored = self.writer.restore()
            self.assertEqual((("masks", "ddio"), ()), (restored.agreed, restored.failed))
            self.assertRegex(sentence(restored.stale), "could not be updated: .*Is a directory")

    def test_it_is_written_again(self):
        """Once; a crash afterwards is restored from it."""
        self.assertIsNone(self.writer.keep_file())
        for _ in self.each():
            self.assertIn("snapshot.json", sentence(self.writer.keep_file()))
            self.assertIsNone(self.writer.keep_file())
            self.assertEqual(self.whole, self.snapshot.read_bytes())
            self.assertEqual(("masks = 1", "ddio = 2"), self.make().restore().done)

    def test_it_cannot_be_written_again(self):
        """That is an error, each time."""
        for _ in self.each("a_folder"):
            for _ in range(2):
                with raises(self, SnapshotError, "without a snapshot nothing is written"):
                    self.writer.keep_file()

    def test_nothing_is_read_while_nobody_touches_it(self):
        """Every iteration asks."""
        self.writer.keep_file()
        with mock.patch.object(SnapshotFile, "read", side_effect=AssertionError):
            self.assertIsNone(self.writer.keep_file())

    def test_who_has_nothing_to_restore_writes_none(self):
        """Neither before the first write nor after a restore."""
        self.assertIsNone(self.make().keep_file())
        self.writer.restore()
        self.assertIsNone(self.writer.keep_file())
        self.assertFalse(self.snapshot.exists())

    def test_a_file_put_there_after_a_restore(self):
        """It is not of this process: nothing is written, and nothing is taken for found."""
        self.writer.restore()
        self.forged()
        self.assertEqual((), self.writer.restore().done)
        self.assertEqual(1, self.masks.value)

    def test_what_others_are_told(self):
        """What is pending is known from memory, too."""
        for _ in self.each():
            self.assertTrue(self.writer.pending)
            self.assertIsNone(self.writer.out_of_reach())

    def test_a_register_that_does_not_stay(self):
        """What reads back otherwise is a failure, stays in the snapshot, and is not called back."""
        stuck = mock.patch.object(self.ddio, "restore", return_value=("ddio = 2",))
        with stuck:
            restored = self.writer.restore()
        self.assertEqual(("masks",), restored.agreed)
        kept = message("settings-not-kept", settings=("ddio = 2",))
        self.assertEqual((of_part("ddio", kept),), restored.failed)
        self.assertEqual({"ddio": {"value": 2}}, json.loads(self.snapshot.read_text())["parts"])
        self.assertEqual(("ddio = 2",), self.writer.restore().done)

    def test_an_adopted_snapshot(self):
        """It is in memory from then on."""
        after = self.make()
        after.adopt()
        self.gone()
        self.assertEqual(("masks = 1", "ddio = 2"), after.restore().done[1:])

    def test_a_snapshot_of_other_parts_is_not_adopted(self):
        """The agent would not restore all of it; nor is a missing one adopted."""
        other = Snapshot({"ddio": self.ddio}, snapshot=self.snapshot, lock=self.lock,
                         boot_id=self.boot_id)  # fmt: skip
        for saved in (("ddio", "masks"), ()):
            if not saved:
                self.gone()
            with self.assertRaises(SnapshotError) as caught:
                other.adopt()
            self.assertEqual(
                message("snapshot-of-other-parts", saved=saved, used=("ddio",)),
                caught.exception.message,
            )
            self.assertEqual(frozenset(), other.names)


class OneWriter(Folder):
    """The lock of the host."""

    def test_a_second_writer(self):
        """While one writes another is refused with the first one's process number."""
        taken = raises(self, HostTaken, f"process {os.getpid()} writes")
        with self.make().only_writer(), taken, self.make().only_writer():
            self.fail("two writers")
        with self.make().only_writer():
            pass

    def test_no_room_for_the_process_number(self):
        """A full /run keeps nobody from restoring a host, and no second writer in."""
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        keeper = self.make()
        with mock.patch("os.pwrite", side_effect=full), keeper.only_writer():
            keeper.restore()
            with raises(self, HostTaken, "process unknown writes"), self.make().only_writer():
                self.fail("two writers")

    def test_a_killed_writer(self):
        """The lock goes with its process, even by kill -9."""
        code = (
            "import sys; from pathlib import Path\n"
            "from iat_nova.hardware.enforcement.snapshot import Snapshot\n"
            "with Snapshot({}, snapshot=Path('x'), lock=Path(sys.argv[1])).only_writer():\n"
            "    print('held', flush=True); sys.stdin.read()\n"
        )
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(self.lock)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.addCleanup(child.stdin.close)
        self.addCleanup(child.stdout.close)
        self.assertEqual("held\n", child.stdout.readline())
        with raises(self, HostTaken, str(child.pid)), self.make().only_writer():
            self.fail("two writers")
        child.send_signal(signal.SIGKILL)
        child.wait()
        with self.make().only_writer():
            pass

    def test_a_removed_file(self):
        """The writer makes and locks the file again; a second writer is still refused."""
        keeper = self.make()
        with keeper.only_writer():
            self.lock.unlink()
            keeper.keep_lock()
            with self.assertRaises(HostTaken), self.make().only_writer():
                self.fail("two writers")
        with self.make().only_writer():
            pass

    def test_a_file_of_another_writer(self):
        """Who lost the lock writes and restores nothing any more, also when it is free again."""
        keeper = self.make()
        with keeper.only_writer():
            keeper.protect()
            self.lock.unlink()
            with self.make().only_writer(), self.assertRaises(HostTaken):
                keeper.keep_lock()
            before = self.snapshot.read_bytes()
            for call in (keeper.keep_lock, keeper.protect, keeper.extend, keeper.restore):
                with self.subTest(call.__name__), self.assertRaises(HostTaken):
                    call()
            # The loop asks for it at each look, and goes on observing.
            self.assertEqual(Restored(), keeper.finish())
            self.assertEqual(before, self.snapshot.read_bytes())

    def test_a_file_that_is_removed_twice(self):
        """The first writer makes the second one's file again; the second leaves the host to it."""
        first, second = self.make(), self.make()
        with first.only_writer():
            first.protect()
            self.masks.value = 10
            self.lock.unlink()
            with second.only_writer():
                second.protect()
                self.assertEqual(1, self.masks.value)
                self.lock.unlink()
                first.keep_lock()
                self.masks.value = 20
                for call in (second.protect, second.extend, second.restore):
                    with self.subTest(call.__name__), self.assertRaises(HostTaken):
                        call()
                self.assertTrue(second.taken)
            self.assertEqual(20, self.masks.value)
            self.assertEqual((), first.restore().not_done)
            self.assertEqual(1, self.masks.value)

    def test_a_file_that_cannot_be_made_again(self):
        """An error each time, until it can."""
        keeper = self.make()
        with keeper.only_writer():
            shutil.rmtree(self.lock.parent)
            self.lock.parent.write_text("a file in the way")
            for _ in range(2):
                with raises(self, SnapshotError, "writer.lock"):
                    keeper.keep_lock()
            self.lock.parent.unlink()
            keeper.keep_lock()
            self.assertTrue(self.lock.exists())

    def test_something_else_in_its_place(self):
        """The folder is the service's: root follows no link there, and waits for no pipe."""
        other = self.folder / "other"
        other.write_text("theirs")
        self.lock.parent.mkdir()
        self.lock.symlink_to(other)
        with raises(self, SnapshotError, "writer.lock: .*symbolic links"):
            self.enterContext(self.make().only_writer())
        self.assertEqual("theirs", other.read_text())
        self.lock.unlink()
        os.mkfifo(self.lock)
        with raises(self, SnapshotError, "writer.lock: is not a regular file"):
            self.enterContext(self.make().only_writer())

    def test_no_place_for_the_lock(self):
        """A lock that cannot be made is an error with its path."""
        self.lock.parent.write_text("a file in the way")
        with raises(self, SnapshotError, "writer.lock"), self.make().only_writer():
            self.fail("no lock")
