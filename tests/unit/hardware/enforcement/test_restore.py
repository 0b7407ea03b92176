# SPDX-License-Identifier: Apache-2.0
"""The agent's ownership of a whole host in a folder: guarded and restored."""

import contextlib
import dataclasses
import errno
import io
import itertools
import os
import shutil
from unittest import mock

from iat_nova import conf
from iat_nova.agent import restoring, sources, state_pointer, wiring
from iat_nova.agent.interlock import Interlock
from iat_nova.agent.journal import Journal
from iat_nova.agent.ownership import ownership
from iat_nova.checks import doctor
from iat_nova.cmd import agent
from iat_nova.cmd import main as program
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.hardware.api import (
    DEFAULT_CLASS,
    ClassMask,
    DomainOffline,
    ForeignHand,
    HardwareError,
    LastingRefusal,
)
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.enforcement.snapshot import HostTaken, Restored, RestoreError
from iat_nova.hardware.host.probe import Host
from iat_nova.model import (
    DomainInventory,
    Facts,
    Group,
    HostFacts,
    Layout,
    TenantKind,
    WayMask,
    message,
)
from iat_nova.report import times
from iat_nova.report.sentences import text
from tests.said import codes, raises
from tests.unit.build import Clock, problems, tenant
from tests.unit.hardware import test_probe, trees


class MachineCase(test_probe.HostCase):
    """All is well on the host; state and lock are in the folder."""

    def setUp(self):
        super().setUp()
        self.lock = self.folder / "run/writer.lock"
        self.config = self.folder / "iat.conf"
        self.config.write_text(f"[iat]\nstate_dir = {self.folder / 'state'}\n")
        self.found = self.tree.state()
        for target, value in (
            ("iat_nova.agent.restoring.WRITER_LOCK", self.lock),
            ("iat_nova.agent.state_pointer.POINTER", self.folder / "state-dir"),
            ("iat_nova.agent.state_pointer.OWNER", os.getuid()),
            ("iat_nova.hardware.host.probe.Host", self.host),
        ):
            patch = mock.patch(target, value)
            patch.start()
            self.addCleanup(patch.stop)

    def host(self):
        return Host(self.roots, fs=self.tree, msr=self.msr)

    def settings(self, **changes):
        return dataclasses.replace(conf.load([self.config]), **changes)

    def owned(self, **changes):
        """Return what an agent with these settings would own."""
        settings = self.settings(**changes)
        return ownership(settings, sources.machine(settings))

    def change_all(self, owned):
        owned.machine.allocator.apply(0, (ClassMask("a", (1,), WayMask(0x3)),))
        owned.machine.ddio.write(0, WayMask(0x7C0))

    def assert_as_found(self):
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual(0x600, self.msr.get(0, 0xC8B))
        self.assertFalse(self.settings().snapshot_path.exists())

    def crash(self):
        """Leave the host as an agent that was killed leaves it."""
        owned = self.owned()
        owned.snapshot.protect()
        self.change_all(owned)
        self.assertNotEqual(self.found, self.tree.state())

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch("sys.stdout", out), mock.patch("sys.stderr", err):
            status = program.main([*arguments, "--config-file", str(self.config)])
        self.assertNotIn("Traceback", out.getvalue() + err.getvalue())
        return status, out.getvalue(), err.getvalue()

    def moved(self):
        """Have the configuration name another directory, and have it noted, as a start does."""
        state_pointer.write(self.folder / "state")
        self.config.write_text(f"[iat]\nstate_dir = {self.folder / 'new'}\n")
        self.assertEqual(0, self.run_it("restore", "--note-state-dir")[0])

    def start(self):
        """Start an agent up to where it opens the hardware."""
        err = io.StringIO()
        opened = mock.patch.object(sources, "machine", side_effect=HardwareError("opened"))
        with opened, mock.patch("sys.stderr", err), mock.patch.object(agent.logs, "setup"):
            status = agent.main(["--config-file", str(self.config)])
        return status, err.getvalue()


class Ours(MachineCase):
    """The only writer, from the first write to the last."""

    def test_saved_before_and_back_afterwards(self):
        """Whatever happens after the first write, the host is as found."""
        owned = self.owned()
        with self.assertRaises(ZeroDivisionError), owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            raise ZeroDivisionError
        self.assert_as_found()

    def test_a_register_that_does_not_stay(self):
        """It takes the write and reads otherwise: that is no restore, for nobody."""
        owned = self.owned()
        reason = "not restored: ddio msr: did not keep its .*domain 0: IIO_LLC_WAYS = 0x600"
        with raises(self, RestoreError, reason) as caught, owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            self.msr.stuck.add(0xC8B)
        self.assertEqual(os.EX_OSERR, agent._status(caught.exception))
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, reason)
        self.msr.stuck.clear()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_the_other_interface_of_libpqos(self):
        """A configuration that names it works on: resctrl, which it drives, does the same."""
        owned = self.owned(cat_interface="pqos-os")
        self.assertIn("resctrl", owned.machine.parts)
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
        self.assert_as_found()

    def test_a_snapshot_of_a_part_that_is_no_more(self):
        """What an earlier release saved of a part of its own is kept; the remedy is said."""
        part = mock.Mock(shape={})
        part.save.return_value = {"groups": [], "resctrl": {"default": {}, "monitors": {}}}
        restoring.snapshot(self.settings(), self.host(), {"pqos-os": part}).protect()
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertIn("pqos-os: no such part here; restore with the version that wrote", err)
        self.assertTrue(self.settings().snapshot_path.exists())

    def test_who_only_observes_undoes_nothing(self):
        """What an operator changes while an agent watches stays when that agent ends."""
        owned = self.owned()
        with owned.held():
            self.assertFalse(self.settings().snapshot_path.exists())
            self.change_all(owned)
        self.assertNotEqual(self.found, self.tree.state())
        self.assertEqual(0x7C0, self.msr.get(0, 0xC8B))

    def test_an_agent_that_never_began_leaves_no_snapshot(self):
        """Else the next start would undo what an operator did in between."""
        with self.owned().held():
            pass
        self.assert_as_found()

    def test_what_a_crash_left_is_put_back_first(self):
        """The new snapshot is of the untouched host."""
        self.crash()
        with self.owned().held():
            self.assertEqual(self.found, self.tree.state())
        self.assert_as_found()

    def test_a_group_left_over_without_a_snapshot(self):
        """It is removed by the start, and by restore: it would be in the way of our own.

        What else the agent changed nobody knows: that is no success.
        """
        for number in (1, 2):
            self.tree.mkdir(f"iat-nova.{number}")
            self.tree.write(f"iat-nova.{number}/cpus_list", "1")
        with self.assertLogs("iat_nova", "WARNING") as logs, self.owned().held():
            self.assertEqual(self.found, self.tree.state())
        self.assertIn("DDIO's ways, and beside groups", logs.output[0])
        self.tree.mkdir("iat-nova.1")
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, r"removed .*iat-nova\.1; but no snapshot has the other original")
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual((0, "nothing to restore\n", ""), self.run_it("restore"))

    def test_monitoring_groups_left_over_without_a_snapshot(self):
        """They take RMIDs and CPUs from others; one may be in a group of another program."""
        self.tree.add_monitor("theirs", "3")
        self.tree.mkdir("theirs")
        self.tree.write("theirs/cpus_list", "2")
        found = self.tree.state()

        def leave():
            for group, cpu in (("", "1"), ("theirs/", "2")):
                path = self.tree.root / f"{group}mon_groups/iat-nova.0.0"
                path.mkdir()
                (path / "cpus_list").write_text(f"{cpu}\n")

        leave()
        (left,) = (
            one
            for one in doctor.examine(self.settings(), self.host())
            if one.subject == "left behind"
        )
        self.assertEqual("groups-left-behind", left.state.code)
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertIn("no snapshot has the other original", err)
        self.assertEqual(found, self.tree.state())
        leave()
        with self.assertLogs("iat_nova", "WARNING"), self.owned().held():
            self.assertEqual(found, self.tree.state())
        self.assertEqual((0, "nothing to restore\n", ""), self.run_it("restore"))

    def squeezed(self):
        """Leave the host as a killed agent does whose snapshot was lost."""
        self.squeezed_by(self.owned())
        self.settings().snapshot_path.unlink()

    def squeezed_by(self, owned, ways=0x3):
        """Leave these ways to the default group, and the others to a guest."""
        guest = ClassMask("a", (1,), WayMask(0x7FF - ways))
        classes = ClassMask(DEFAULT_CLASS, (), WayMask(ways)), guest
        owned.snapshot.protect()
        owned.machine.allocator.apply(0, classes)

    def test_few_ways_left_over_without_a_snapshot(self):
        """The guests whose groups go do not end in the ways that were left to the default group."""
        self.squeezed()
        with self.assertLogs("iat_nova", "WARNING") as logs, self.owned().held():
            self.assertEqual(self.found, self.tree.state())
        self.assertIn("default group L3:0 = 0x7ff", logs.output[0])
        self.squeezed()
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "default group L3:0 = 0x7ff; removed .*; but no snapshot has the")
        self.assertEqual(self.found, self.tree.state())

    def test_few_ways_left_over_beside_another_program(self):
        """Its groups may rely on the default group's masks, which stay then."""
        self.squeezed()
        self.tree.mkdir("theirs")
        self.assertEqual(1, self.run_it("restore")[0])
        self.assertEqual((("theirs",), 0x3), (self.tree.groups(), self.tree.masks("", "L3")[0]))

    def test_a_mode_that_another_hand_wrote(self):
        """Our group refuses the default group its masks no more, and another program's is named."""
        for name, mode in (
            ("iat-nova.1", "exclusive"),
            ("iat-nova.1", "pseudo-locked"),
            ("", "exclusive"),
        ):
            for end in (lambda owned: owned.snapshot.restore(), lambda _: self.run_it("restore")):
                with self.subTest(name, mode=mode):
                    owned = self.owned()
                    self.squeezed_by(owned)
                    self.tree.write(f"{name}/mode".lstrip("/"), mode)
                    end(owned)
                    self.assert_as_found()
        self.squeezed_by(self.owned())
        self.tree.write("iat-nova.1/schemata", "L3:0=f0\n")
        self.tree.mkdir("theirs")
        self.tree.write("theirs/schemata", "L3:0=700\n")
        self.tree.write("theirs/mode", "exclusive")
        status, _, err = self.run_it("restore")
        self.assertRegex(
            err, "Overlaps with exclusive group .theirs.; write 'shareable' to .*theirs"
        )
        self.assertEqual((1, "iat-nova.1"), (status, self.tree.group_of(1)))
        self.tree.write("theirs/mode", "shareable")
        self.assertEqual(0, self.run_it("restore")[0])

    def test_a_damaged_hand_over_without_a_snapshot(self):
        """A default group with few ways, and no other trace of an agent, is widened."""
        for end in (self.narrowed_restore, self.narrowed_start):
            self.tree.write("schemata", "L3:0=3\n")
            self.assertIn("default-narrowed", self.doctor_codes())
            self.settings().hand_over_path.parent.mkdir(exist_ok=True)
            self.settings().hand_over_path.write_text("{")
            self.assertIn("snapshot-damaged", self.doctor_codes())
            end()
            self.assert_as_found()
            self.assertFalse(self.settings().hand_over_path.exists())

    def doctor_codes(self):
        found = doctor.examine(self.settings(), self.host())
        return [one.state.code for one in found if one.subject == "default group"]

    def narrowed_restore(self):
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "default group L3:0 = 0x7ff; but no snapshot has the other original")

    def narrowed_start(self):
        with self.assertLogs("iat_nova", "WARNING") as logs, self.owned().held():
            pass
        self.assertIn("default group L3:0 = 0x7ff", "".join(logs.output))

    def test_a_second_agent_that_cannot_see_the_lock(self):
        """As in a container with a /run of its own: it does not take the first's masks as found."""
        first = self.owned()
        with first.held():
            self.squeezed_by(first)
            other = mock.patch("iat_nova.agent.restoring.WRITER_LOCK", self.folder / "run2/lock")
            with other, self.assertLogs("iat_nova", "WARNING"):
                second = self.owned(state_dir=self.folder / "second")
                with second.held():
                    self.squeezed_by(second, 0x7)
                    self.assertTrue(first.machine.inspect())
                    first.snapshot.restore()
                    self.assertTrue(second.machine.inspect())
        self.assertEqual(self.found, self.tree.state())

    def test_a_group_left_over_of_an_agent_that_runs(self):
        """Its groups are no left-overs: restore is refused, and they stay."""
        first = self.owned()
        with first.held():
            first.snapshot.protect()
            self.change_all(first)
            self.settings().snapshot_path.unlink()
            self.assertEqual(1, self.run_it("restore")[0])
            self.assertEqual(("iat-nova.1",), self.tree.groups())

    def test_a_second_writer_is_refused(self):
        """Named, with the way out."""
        first, second = (self.owned() for _ in range(2))
        with first.held(), raises(self, HardwareError, "end this process first"), second.held():
            self.fail("two writers")

    def test_owners(self):
        """A foreign group is seen by the running agent; its own groups are not foreign."""
        owned = self.owned()
        with owned.held():
            self.change_all(owned)
            self.assertEqual(((), ()), (owned.owners(), owned.machine.inspect()))
            self.tree.mkdir("theirs")
            (owner,) = owned.owners()
            self.assertEqual(message("group-of-other", group="theirs"), owner.values["state"])
            self.tree.rmdir("theirs")

    def test_the_kernel_owns_what_libpqos_writes(self):
        """Where resctrl is mounted while the agent works through libpqos: it only observes then."""
        owned = self.owned()
        allocator = PqosAllocator(owned.machine.host.topology, self.tree.root)
        machine = dataclasses.replace(owned.machine, allocator=allocator)
        (owner,) = dataclasses.replace(owned, machine=machine).owners()
        self.assertEqual("pqos-beside-resctrl", owner.code)


class Restore(MachineCase):
    """iat-nova restore."""

    def test_after_a_crash(self):
        """Tells what it did; the second time there is nothing to do."""
        self.crash()
        status, out, _ = self.run_it("restore")
        self.assertEqual(0, status)
        self.assertRegex(out, r"removed .*iat-nova\.1\n.*IIO_LLC_WAYS = 0x600")
        self.assert_as_found()
        status, out, _ = self.run_it("restore")
        self.assertEqual((0, "nothing to restore\n"), (status, out))
        missing = "/nonexistent"
        status, out, err = self.run_it("restore", "--state-dir", missing)
        told = f"iat-nova: there is no state directory {missing}\n"
        self.assertEqual((0, "nothing to restore\n", told), (status, out, err))

    def test_although_the_counters_cannot_be_opened(self):
        """What keeps an agent from starting does not keep masks from being put back."""
        self.crash()
        self.perf = "Permission denied"
        self.be("strange")
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_resctrl_without_l3(self):
        """DDIO's register is restored all the same."""
        self.crash()
        shutil.rmtree(self.roots.resctrl / "info/L3")
        self.assertNotIn("ddio", self.run_it("restore")[2])
        self.assertEqual(0x600, self.msr.get(0, 0xC8B))

    def test_a_knob_that_cannot_be_reached_any_more(self):
        """DDIO is not silently left where it is: the snapshot stays until it is put back."""
        self.crash()
        self.msr.refuse = 1
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "(?s)not restored: ddio msr.*allow_writes")
        self.assertTrue(self.settings().snapshot_path.exists())
        with raises(self, HardwareError, "could not restore the original"), self.owned().held():
            self.fail("started")
        self.msr.refuse = None
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_a_state_directory_of_others(self):
        """Who may not look is told to be root."""
        denied = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch.object(OwnedFolder, "status", side_effect=denied):
            status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "snapshot.json: Permission denied; run as root")

    def test_while_an_agent_runs(self):
        """Refused: the agent's own end restores."""
        owned = self.owned()
        with owned.held():
            owned.snapshot.protect()
            self.change_all(owned)
            status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertIn("end this process first", err)


class WithoutConfiguration(MachineCase):
    """The configuration cannot be read: a typo, of another service even."""

    def setUp(self):
        super().setUp()
        self.crash()
        self.broken = self.folder / "nova.conf"
        self.broken.write_text("[compute]\ncpu_dedicated_set = 0-3\n[iat\nmode = enforce\n")

    def restore(self, *arguments, files=True, environment=None):
        """Run the command; return status, output and error."""
        out, err = io.StringIO(), io.StringIO()
        named = ["--config-file", str(self.broken)] if files else []
        patches = (
            mock.patch("sys.stdout", out),
            mock.patch("sys.stderr", err),
            mock.patch.dict(os.environ, environment or {}),
        )
        with contextlib.ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            return program.main(["restore", *arguments, *named]), out.getvalue(), err.getvalue()

    def test_where_root_noted_it(self):
        """The host is restored; then the configuration is complained about."""
        state_pointer.write(self.folder / "state")
        status, out, err = self.restore("--unless-handed-over")
        self.assertEqual(0, status)
        self.assertIn("IIO_LLC_WAYS = 0x600", out)
        self.assertRegex(err, "without the configuration, which cannot be used: .*nova.conf")
        self.assert_as_found()
        self.crash()
        self.broken.unlink()
        self.broken.symlink_to(self.broken)
        with mock.patch("iat_nova.common.config_files.PATTERNS", (str(self.broken),)):
            status, _, err = self.restore("--unless-handed-over", files=False)
        self.assertEqual(0, status)
        self.assertRegex(err, "without the configuration, .*symbolic links.*nova.conf")
        self.assert_as_found()

    def test_named(self):
        """By option or environment; the note counts for nothing then."""
        elsewhere = self.folder / "elsewhere"
        shutil.copytree(self.folder / "state", elsewhere)
        state_pointer.write(elsewhere)
        state = str(self.folder / "state")
        for arguments, environment in (
            (["--state-dir", state], {}),
            ([], {conf.STATE_DIR_VARIABLE: state}),
            (["--state-dir", state], {conf.STATE_DIR_VARIABLE: str(elsewhere)}),
        ):
            with self.subTest(arguments=arguments, environment=environment):
                if not self.settings().snapshot_path.exists():
                    self.crash()
                status, _, err = self.restore(*arguments, environment=environment)
                self.assertEqual(0, status, err)
                self.assert_as_found()
                self.assertTrue((elsewhere / "snapshot.json").exists())

    def test_a_setting_that_stays_changed(self):
        """Exit status and reason are told, beside the complaint."""
        state_pointer.write(self.folder / "state")
        self.msr.refuse = errno.EIO
        status, _, err = self.restore()
        self.assertEqual(1, status)
        self.assertRegex(err, "(?s)which cannot be used.*not restored: ddio msr")

    def test_a_configuration_that_names_another_directory_by_now(self):
        """The last agent kept its snapshot where the configuration was when it began."""
        state_pointer.write(self.folder / "state")
        self.config.write_text(f"[iat]\nstate_dir = {self.folder / 'new'}\n")
        status, out, err = self.run_it("restore")
        self.assertEqual((0, ""), (status, err))
        self.assertIn("IIO_LLC_WAYS = 0x600", out)
        self.assertFalse((self.folder / "state/snapshot.json").exists())

    def test_an_environment_that_the_configuration_overrules(self):
        """A directory that is not used hides no other."""
        state_pointer.write(self.folder / "state")
        self.config.write_text(f"[iat]\nstate_dir = {self.folder / 'new'}\n")
        with mock.patch.dict(os.environ, {conf.STATE_DIR_VARIABLE: str(self.folder / "unused")}):
            status, out, err = self.run_it("restore")
        self.assertEqual((0, ""), (status, err))
        self.assertIn("IIO_LLC_WAYS = 0x600", out)

    def test_an_environment_without_the_configuration(self):
        """An unusable one may name another directory: all that are noted are restored."""
        state_pointer.write(self.folder / "state")
        self.config.write_text("nonsense")
        with mock.patch.dict(os.environ, {conf.STATE_DIR_VARIABLE: str(self.folder / "unused")}):
            status, out, err = self.run_it("restore")
        self.assertIn("done without the configuration", err)
        self.assertIn("IIO_LLC_WAYS = 0x600", out)
        self.assertEqual(0, status)

    def test_an_earlier_directory_stays_noted(self):
        """While it holds a snapshot; a restore finds the snapshot there."""
        self.moved()
        noted = (self.folder / "new", self.folder / "state")
        self.assertEqual(noted, state_pointer.read())
        status, out, err = self.run_it("restore")
        self.assertEqual((0, ""), (status, err))
        self.assertIn("IIO_LLC_WAYS = 0x600", out)
        self.assertFalse((self.folder / "state/snapshot.json").exists())
        state_pointer.write(self.folder / "new")
        self.assertEqual(noted[:1], state_pointer.read())

    def test_a_start_with_another_directory(self):
        """The agent restores from the earlier directory first."""
        self.moved()
        self.assertEqual((1, "iat-nova-agent: opened\n"), self.start())
        self.assertFalse((self.folder / "state/snapshot.json").exists())
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual(0x600, self.msr.get(0, 0xC8B))

    def test_a_start_with_another_directory_that_is_refused(self):
        """The agent does not start, and names the command; the snapshot stays."""
        self.moved()
        self.msr.refuse = errno.EIO
        status, err = self.start()
        self.assertEqual(os.EX_OSERR, status)
        self.assertIn(f"iat-nova restore --state-dir {self.folder / 'state'}", err)
        self.assertTrue((self.folder / "state/snapshot.json").exists())

    def test_a_note_that_is_not_roots(self):
        """It counts for nothing: the configured directory does."""
        elsewhere = self.folder / "elsewhere"
        shutil.copytree(self.folder / "state", elsewhere)
        note = state_pointer.POINTER

        def others():
            note.chmod(0o666)

        def a_link():
            (self.folder / "target").write_bytes(note.read_bytes())
            note.unlink()
            note.symlink_to(self.folder / "target")

        for spoil in (
            others,
            a_link,
            lambda: note.write_text("elsewhere\n"),
            lambda: note.write_text(f"{elsewhere}\nelsewhere\n"),
            lambda: note.write_text(f"{elsewhere}\n" * 9),
            lambda: note.write_bytes(b"/" * 9000),
            lambda: note.write_bytes(b"\0"),
        ):
            note.unlink(missing_ok=True)
            state_pointer.write(elsewhere)
            self.assertEqual((elsewhere,), state_pointer.read())
            spoil()
            self.assertEqual((), state_pointer.read())
        state_pointer.write(elsewhere)
        with mock.patch.object(state_pointer, "OWNER", os.getuid() + 1):
            self.assertEqual((), state_pointer.read())

    def test_noting(self):
        """The unit's step writes the configured directory; without a configuration it fails."""
        self.assertEqual(0, self.run_it("restore", "--note-state-dir")[0])
        self.assertEqual((self.folder / "state",), state_pointer.read())
        state_pointer.POINTER.unlink()
        self.assertEqual(1, self.restore("--note-state-dir")[0])
        self.assertEqual((), state_pointer.read())
        self.assertTrue(self.settings().snapshot_path.exists())


class SocketOffline(MachineCase):
    """A socket is offline at the end: its registers keep what was written, out of reach."""

    def setUp(self):
        super().setUp()
        self.ownership = self.owned()

    def unplug(self):
        for cpu in (2, 3):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)

    def plug(self):
        self.msr.off.clear()
        for cpu in (2, 3):
            self.tree.plug(cpu)

    def end_with_a_socket_offline(self):
        """Write to all, lose a socket, and end in order; return what was told at the end."""
        with self.assertLogs("iat_nova", "INFO") as told, self.ownership.held():
            self.ownership.snapshot.protect()
            for domain in (0, 1):
                self.ownership.machine.ddio.write(domain, WayMask(0x700))
            self.unplug()
        self.assertEqual([0x600, 0x700], [self.msr.get(cpu, 0xC8B) for cpu in (0, 2)])
        return told.records

    def test_it_is_said(self):
        """By the end, as a fact; by doctor, and by restore, as long as it lasts."""
        records = self.end_with_a_socket_offline()
        self.assertEqual({"INFO"}, {record.levelname for record in records})
        said = "\n".join(record.getMessage() for record in records)
        what = "IIO_LLC_WAYS of cache domain 1: its CPUs are offline; the setting stays in"
        self.assertIn(what, said)
        status, out, err = self.run_it("restore")
        self.assertEqual((1, ""), (status, out))
        self.assertIn("IIO_LLC_WAYS of cache domain 1: its CPUs are offline", err)
        for option in ("--unless-handed-over", "--unless-taken"):  # the unit has not failed
            status, out, _ = self.run_it("restore", option)
            self.assertEqual(0, status)
            self.assertRegex(out, "not restored yet: .*IIO_LLC_WAYS of cache domain 1")
        self.assertTrue(self.settings().snapshot_path.exists())
        found = doctor.examine(self.settings(), self.host())
        (one,) = (one for one in found if one.subject == "snapshot")
        self.assertEqual("settings-out-of-reach", one.state.code)
        self.assertIn("ddio-register-offline", codes(one.state))

    def test_restored_when_it_is_back(self):
        """By the command."""
        self.end_with_a_socket_offline()
        self.plug()
        status, out, _ = self.run_it("restore")
        self.assertEqual(0, status)
        self.assertIn("domain 1: IIO_LLC_WAYS = 0x600", out)
        self.assert_as_found()

    def test_the_next_agent_restores_when_it_is_back(self):
        """It starts without the socket; what the old agent left is not what the new one found."""
        self.end_with_a_socket_offline()
        after = self.owned()
        with after.held():
            told = map(text, after.outside().unrestored())
            (register,) = (one for one in told if "IIO_LLC_WAYS" in one)
            self.assertIn("cache domain 1: its CPUs are offline", register)
            read = sources.host_reader(self.settings(), after.machine, after.finish)
            self.assertEqual([0x600], [one.ddio_found for one in read().domains])
            after.snapshot.protect()
            after.machine.ddio.write(0, WayMask(0x7C0))
            self.plug()
            self.assertEqual([0x600, 0x600], [one.ddio_found for one in read().domains])
            self.assertEqual(0x7C0, self.msr.get(0, 0xC8B))
            self.assertEqual((), after.outside().unrestored())
            after.snapshot.extend()
            after.machine.ddio.write(1, WayMask(0x7C0))
        self.assert_as_found()

    def test_a_start_with_another_directory(self):
        """Refused until the socket is back: what is out of reach would count as original there."""
        self.end_with_a_socket_offline()
        self.moved()
        status, err = self.start()
        self.assertEqual(os.EX_OSERR, status)
        for what in (
            f"state directory {self.folder / 'state'}: .*IIO_LLC_WAYS of cache domain 1: its CPUs",
            r"; bring the CPU online \(chcpu -e CPU\)",
        ):
            self.assertRegex(err, what)
        self.assertTrue((self.folder / "state/snapshot.json").exists())
        self.plug()
        self.assertEqual((1, "iat-nova-agent: opened\n"), self.start())
        self.assert_as_found()
        self.assertFalse((self.folder / "state/snapshot.json").exists())

    def test_another_writer_restores_what_is_left(self):
        """An agent whose lock another one has taken leaves settings that are back to that one."""
        self.end_with_a_socket_offline()
        after = self.owned()
        with self.assertRaises(HostTaken), after.held():
            self.lock.unlink()
            with self.owned().held():
                self.plug()
                after.finish()
                self.assertEqual(0x700, self.msr.get(2, 0xC8B))

    def test_nothing_is_left_to_restore(self):
        """Each look at the host calls `finish`: it reads no CPU's state for nothing."""
        owned = self.owned()
        with owned.held(), mock.patch("iat_nova.hardware.host.machine.CpuWatch") as watch:
            owned.finish()
            watch.assert_not_called()
            owned.snapshot.protect()
            self.change_all(owned)
            owned.finish()
            watch.assert_not_called()
            self.assertEqual(0x7C0, self.msr.get(0, 0xC8B))

    def test_a_socket_that_was_offline_at_a_first_write_that_failed(self):
        """It is saved before its first write, although nothing was written anywhere yet."""
        owned = self.ownership
        guests = {number: tenant("g", cpu, id="g/1") for number, cpu in ((0, 1), (1, 3))}
        inventories = {
            one.id: DomainInventory(one, (guests[one.id],))
            for one in owned.machine.allocator.domains()
        }
        layout = Layout(WayMask(0x7C0), (Group(("g/1",), WayMask(0x3)),))
        with owned.held():
            enforcer = wiring.enforcer(owned)
            self.unplug()
            gone = mock.patch.object(owned.machine.ddio, "read", side_effect=DomainOffline(0))
            with gone, self.assertRaises(DomainOffline):
                enforcer.apply(inventories[0], layout)
            self.plug()
            enforcer.apply(inventories[1], layout)
            self.assertEqual(0x7C0, self.msr.get(2, 0xC8B))
            restoring.snapshot(self.settings(), self.host()).restore()
            self.assertEqual(0x600, self.msr.get(2, 0xC8B))

    def test_a_socket_that_comes_between_the_saving_and_the_write(self):
        """It is written at the next layout, with its settings saved, and restored after a crash."""
        owned = self.ownership
        domain = owned.machine.allocator.domains()[1]
        inventory = DomainInventory(domain, (tenant("g", 3, id="g/1"),))
        layout = Layout(WayMask(0x7C0), (Group(("g/1",), WayMask(0x3)),))
        with owned.held():
            enforcer, extend = wiring.enforcer(owned), owned.snapshot.extend

            def come() -> None:
                extend()
                self.plug()

            self.unplug()
            came = mock.patch.object(owned.snapshot, "extend", come)
            with came, self.assertRaises(DomainOffline):
                enforcer.apply(inventory, layout)
            self.assertEqual(0x600, self.msr.get(2, 0xC8B))
            enforcer.apply(inventory, layout)
            self.assertEqual(0x7C0, self.msr.get(2, 0xC8B))
            restoring.snapshot(self.settings(), self.host()).restore()
            self.assertEqual(0x600, self.msr.get(2, 0xC8B))


class Told(Journal):
    """What was told."""

    def __init__(self):
        self.told = []
        self.problems = {}
        self.notices = {}

    def problem(self, code, text, subject=""):
        self.problems[f"{code} {subject}".strip()] = text
        self.told.append(text)

    def solved(self, code, text, subject=""):
        if self.problems.pop(f"{code} {subject}".strip(), None):
            self.told.append(text)

    def notice(self, code, text, over, subject=""):
        key = f"{code} {subject}".strip()
        before = self.notices.pop(key, None)
        if text:
            self.notices[key] = text
        if text != before:
            self.told.append(text or over)

    def tell(self, text, kind=None):
        self.told.append(text)


class Restrained(MachineCase):
    """The agent may no longer write: the whole host, not a fake, is as it was found."""

    def setUp(self):
        super().setUp()
        self.stack = self.enterContext(contextlib.ExitStack())
        self.ownership = self.owned()
        self.stack.enter_context(self.ownership.held())
        self.enforcer = wiring.enforcer(self.ownership)
        self.journal, self.clock = Told(), Clock(1000.0)
        self.interlock = Interlock(
            self.enforcer,
            self.journal,
            self.clock,
            self.ownership.outside(),
        )
        domain = self.ownership.machine.allocator.domains()[0]
        guest = tenant("g", 1, id="g/1")
        self.inventory = DomainInventory(domain, (guest,))
        self.enforce(0x3, 0x7C0)
        self.assertNotEqual(self.found, self.tree.state())

    def enforce(self, mask, ddio):
        layout = Layout(WayMask(ddio), (Group(("g/1",), WayMask(mask)),))
        return self.enforcer.apply(self.inventory, layout)

    def look(self, warnings=()):
        self.interlock.look(Facts(HostFacts("h", (), ()), (), None, problems(warnings)))

    def test_a_source_that_warns(self):
        """What a source warns of is no reason to observe: the masks in force stay."""
        enforced = self.tree.state()
        self.look(("libvirt is unavailable",))
        self.assertEqual({}, self.interlock.reasons)
        self.assertEqual(enforced, self.tree.state())

    def test_a_group_that_began_to_monitor_meanwhile(self):
        """It gets back what a later layout took from it, also after a crash."""
        self.tree.add_monitor("theirs", "0,3")
        more = tenant("h", 0, id="h/1")
        tenants = (*self.inventory.tenants, more)
        self.inventory = dataclasses.replace(self.inventory, tenants=tenants)
        layout = Layout(WayMask(0x7C0), (Group(("g/1", "h/1"), WayMask(0x3)),))
        self.enforcer.apply(self.inventory, layout)
        self.assertEqual({3}, self.tree.monitored("theirs"))
        restoring.snapshot(self.settings(), self.host()).restore()
        self.assertEqual({0, 3}, self.tree.monitored("theirs"))

    def test_a_group_that_began_to_monitor_a_cpu_of_the_default_class(self):
        """The same where a layout takes a CPU that the one before had left to the host."""
        host = dataclasses.replace(tenant("host", 0, id="host"), kind=TenantKind.HOST)
        tenants = (*self.inventory.tenants, host, tenant("h", 0, id="h/1"))
        self.inventory = dataclasses.replace(self.inventory, tenants=tenants)
        guest, rest = Group(("g/1",), WayMask(0x3)), Group(("host",), WayMask(0x3C))
        self.enforcer.apply(self.inventory, Layout(WayMask(0x7C0), (guest, rest)))
        self.tree.add_monitor("theirs", "0,3")
        more = Group(("g/1", "h/1"), WayMask(0x3))
        self.enforcer.apply(self.inventory, Layout(WayMask(0x7C0), (more,)))
        self.assertEqual({3}, self.tree.monitored("theirs"))
        restoring.snapshot(self.settings(), self.host()).restore()
        self.assertEqual({0, 3}, self.tree.monitored("theirs"))

    def test_a_group_that_monitors_more_meanwhile(self):
        """It gets back what it has got since the first saving, and no CPU that changed groups."""
        self.interlock.restore()
        self.tree.add_monitor("theirs", "0")
        self.tree.add_monitor("others", "3")
        self.enforce(0x3, 0x7C0)
        self.tree.write("mon_groups/theirs/cpus_list", "0,3")
        self.tree.write("mon_groups/others/cpus_list", "2")
        tenants = (*self.inventory.tenants, tenant("h", 0, id="h/1"))
        self.inventory = dataclasses.replace(self.inventory, tenants=tenants)
        layout = Layout(WayMask(0x7C0), (Group(("g/1", "h/1"), WayMask(0x3)),))
        self.enforcer.apply(self.inventory, layout)
        self.assertEqual({3}, self.tree.monitored("theirs"))
        restoring.snapshot(self.settings(), self.host()).restore()
        self.assertEqual({0, 3}, self.tree.monitored("theirs"))
        self.assertEqual({2}, self.tree.monitored("others"))

    def test_another_hand_on_ddio_that_the_agent_never_wrote(self):
        """That is a conflict: all of the agent's goes, and the other program's ways stay."""
        self.interlock.restore()
        later = self.owned()
        self.enforcer = wiring.enforcer(later)
        self.enforce(0x3, 0x600)
        self.msr.set(0, 0xC8B, 0x7E0)
        (told,) = self.enforcer.foreign_ddio()
        self.assertEqual("ddio-changed", told.code)
        with self.assertRaises(ForeignHand):
            self.enforce(0x7, 0x600)
        self.enforcer.restore()
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual(0x7E0, self.msr.get(0, 0xC8B))

    def test_a_failing_write(self):
        """What was half-done is undone, and then everything."""
        self.tree.fail_at = 1
        with self.assertRaises(HardwareError) as caught:
            self.enforce(0xC, 0x7C0)
        self.interlock.refused(caught.exception)
        self.assert_as_found()
        self.assertIn("refused", self.interlock.reasons)
        self.assertRegex(
            "\n".join(map(text, self.journal.told)),
            "Input/output.*\noriginal settings restored and read back: resctrl, ddio msr$",
        )

    def refused(self):
        """Have a write refused; the host is as it was found."""
        with self.assertRaises(HardwareError) as caught:
            self.enforce(0xC, 0x780)
        self.interlock.refused(caught.exception)
        self.assert_as_found()

    def test_a_refusal_is_tried_again(self):
        """After pauses that grow; the reason tells when. Then all is written, and nobody minds."""
        for pause_s in (10.0, 20.0):
            self.tree.fail_at = 1
            self.refused()
            again = times.moment(self.clock.wall() + pause_s)
            self.assertRegex(
                text(self.interlock.reasons["refused"]),
                rf"^a write was refused \(tried again at {again}\): .*Input/output error",
            )
            self.clock.now_s += pause_s - 0.1
            self.interlock.check()
            self.assertIn("refused", self.interlock.reasons)
            self.clock.now_s += 0.1
            self.interlock.check()
            self.assertEqual({}, self.interlock.reasons)
        self.assertEqual(0xC, self.enforce(0xC, 0x780).tenants["g/1"])
        self.interlock.accepted()
        self.assertEqual({}, self.journal.problems)

    @contextlib.contextmanager
    def failing(self, step, code):
        """Have the change of that number fail, once, wherever it is made."""
        made = itertools.count(1)

        def once(change):
            def changed(*arguments):
                if next(made) == step:
                    raise OSError(code, os.strerror(code))
                return change(*arguments)

            return changed

        with contextlib.ExitStack() as patches:
            changes = [(self.tree, name) for name in ("write", "mkdir", "rmdir")]
            for owner, name in (*changes, (self.msr, "pwrite")):
                patches.enter_context(mock.patch.object(owner, name, once(getattr(owner, name))))
            yield

    def test_any_single_refusal(self):
        """Wherever it comes, the host is as found at once, and all is written the next time."""
        codes = (errno.ENOSPC, errno.EIO, errno.EBUSY, errno.EINVAL)
        for step, code in zip(range(1, 30), itertools.cycle(codes)):
            self.interlock.restore()
            try:
                with self.failing(step, code):
                    self.enforce(0x3, 0x7C0)
                    self.enforce(0xC, 0x780)
            except HardwareError as error:
                self.interlock.refused(error)
                self.assert_as_found()
                self.clock.now_s += 600.0
                self.interlock.check()
                self.assertEqual({}, self.interlock.reasons, step)
            else:
                break
            self.assertEqual(0x780, self.enforce(0xC, 0x780).ddio)
            self.interlock.accepted()
        self.assertEqual(7, step)  # six changes

    def test_a_restore_that_is_refused_for_a_while(self):
        """Nothing is written anew over what could not be put back."""
        self.msr.refuse = errno.EIO
        with self.assertRaises(HardwareError) as caught:
            self.enforce(0xC, 0x780)
        self.interlock.refused(caught.exception)
        self.clock.now_s += 10.0
        self.interlock.check()
        again = times.moment(self.clock.wall() + 20.0)
        self.assertIn(f"tried again at {again}): ", text(self.interlock.reasons["refused"]))
        self.assertIn("not-restored", self.journal.problems)
        self.msr.refuse = None
        self.clock.now_s += 20.0
        self.interlock.check()
        self.assertEqual({}, self.interlock.reasons)
        self.assert_as_found()

    def test_a_refusal_that_would_last(self):
        """What no time mends is not tried again."""
        self.interlock.refused(LastingRefusal("this port does not keep the value"))
        self.clock.now_s += 1e6
        self.interlock.check()
        self.assertRegex(
            text(self.interlock.reasons["refused"]), r"\(until the next start\): this port"
        )

    def unmount(self):
        self.fresh = trees.KernelTree(self.folder / "fresh", self.cpus)
        shutil.rmtree(self.tree.root)
        self.tree.root.mkdir()

    def mount(self):
        self.tree.root.rmdir()
        self.fresh.root.rename(self.tree.root)

    def test_unmounted(self):
        """Said at the next iteration; DDIO is put back too; mounted again, all is written again."""
        self.unmount()
        self.assertFalse(self.interlock.check())
        reason = rf"^resctrl is not mounted; mount -t resctrl resctrl {self.tree.root}$"
        self.assertRegex(text(self.interlock.reasons["resctrl-unmounted"]), reason)
        self.assertEqual(0x600, self.msr.get(0, 0xC8B))
        self.assertFalse(self.settings().snapshot_path.exists())
        self.look()
        self.assertEqual(["resctrl-unmounted"], [*self.interlock.reasons])
        self.assertEqual(["resctrl-unmounted"], [*self.journal.problems])
        self.mount()
        self.assertTrue(self.interlock.check())
        self.look()
        self.assertEqual(({}, {}), (self.interlock.reasons, self.journal.problems))
        self.ownership.machine.allocator.domains()  # as each look at the host does
        self.assertEqual(0xC, self.enforce(0xC, 0x7C0).tenants["g/1"])
        self.interlock.restore()
        self.assert_as_found()

    def test_the_lock_is_removed(self):
        """It is made and locked again, and nothing else happens."""
        enforced = self.tree.state()
        self.lock.unlink()
        self.interlock.check()
        self.assertEqual(({}, enforced), (self.interlock.reasons, self.tree.state()))
        with self.assertRaises(HardwareError):
            self.stack.enter_context(self.owned().held())

    def test_another_writer(self):
        """What another writer does is not undone: the agent only observes until its restart."""
        self.lock.unlink()
        with self.owned().held():
            self.interlock.check()
            self.assertRegex(text(self.interlock.reasons["writer-lock"]), "until restart.*process")
            self.tree.write("schemata", "L3:0=f")
            theirs = self.tree.state()
            self.look()
            self.interlock.restore()
            with self.assertRaises(HardwareError):
                self.stack.close()
            self.assertEqual(theirs, self.tree.state())
            self.tree.write("schemata", "L3:0=7ff")
        self.interlock.check()
        self.assertIn("writer-lock", self.interlock.reasons)
        self.assert_as_found()

    def test_another_writer_since_the_last_look(self):
        """The end finds it by itself: nothing is restored over what that writer does."""
        self.lock.unlink()
        with self.owned().held():
            self.tree.write("schemata", "L3:0=f")
            theirs = self.tree.state()
            with self.assertRaises(HostTaken):
                self.stack.close()
            self.assertEqual((theirs, 0x600), (self.tree.state(), self.msr.get(0, 0xC8B)))
            self.assertTrue(self.ownership.snapshot.taken)

    def test_a_lock_that_cannot_be_made_again_at_the_end(self):
        """The host is restored all the same."""
        shutil.rmtree(self.lock.parent)
        self.lock.parent.write_text("")
        self.stack.close()
        self.assert_as_found()

    def test_a_lock_that_cannot_be_made_again(self):
        """The host is restored, and written again once the lock is held."""
        shutil.rmtree(self.lock.parent)
        self.lock.parent.write_text("")
        self.interlock.check()
        self.assertRegex(text(self.interlock.reasons["writer-lock"]), "is lost: .*writer.lock")
        self.assert_as_found()
        self.lock.parent.unlink()
        self.interlock.check()
        self.assertEqual({}, self.interlock.reasons)

    def test_unmounted_is_no_conflicting_change(self):
        """Ways of devices that stand in resctrl are gone with it: no restart is needed for that."""
        self.unmount()
        self.interlock.refused(ForeignHand("DDIO is at ?, the agent left 0x600"))
        self.assertEqual(["resctrl-unmounted"], [*self.interlock.reasons])
        self.mount()
        self.interlock.check()
        self.look()
        self.assertEqual({}, self.interlock.reasons)

    def test_unmounted_before_a_write(self):
        """The write fails; the reason is the mount, and no pause has begun."""
        self.unmount()
        with self.assertRaises(HardwareError) as caught:
            self.enforce(0xC, 0x7C0)
        self.interlock.refused(caught.exception)
        self.assertEqual(["resctrl-unmounted"], [*self.interlock.reasons])

    def test_a_socket_that_went(self):
        """Nothing is called restored while a register is out of reach."""
        for cpu in (0, 1):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)
        self.interlock.restore()
        self.assertIn("ddio msr: IIO_LLC_WAYS", text(self.journal.notices["restore-waits"]))
        self.assertEqual({}, self.journal.problems)
        self.assertNotIn("original settings restored", "\n".join(map(text, self.journal.told)))
        self.msr.off.clear()
        for cpu in (0, 1):
            self.tree.plug(cpu)
        self.ownership.finish()
        self.look()
        self.assertEqual(({}, {}), (self.journal.notices, self.journal.problems))
        self.assert_as_found()

    def test_a_foreign_change_of_a_mask(self):
        """Found at the next look; our group goes with the change."""
        self.tree.write("iat-nova.1/schemata", "L3:0=7f\n")
        self.look()
        self.assertIn(
            "L3:0 is 0x7f, the agent wrote 0x3", text(self.interlock.reasons["conflicting-change"])
        )
        self.assert_as_found()

    def test_a_foreign_change_of_a_mode(self):
        """The kernel would refuse others, and our own restore, the ways of an exclusive group."""
        self.tree.write("iat-nova.1/mode", "exclusive")
        self.look()
        self.assertIn("its mode is exclusive", text(self.interlock.reasons["conflicting-change"]))
        self.assert_as_found()

    def test_a_foreign_change_of_ddio(self):
        """Put back once; what is written later, also after our end, is left alone."""
        self.msr.set(0, 0xC8B, 0x400)
        self.look()
        self.assert_as_found()
        self.msr.set(0, 0xC8B, 0x700)
        self.look()
        self.stack.close()
        self.assertEqual(0x700, self.msr.get(0, 0xC8B))
        self.assertEqual(0, self.run_it("restore")[0])
        self.assertEqual(0x700, self.msr.get(0, 0xC8B))

    def test_ddio_moved_before_a_write(self):
        """Seen by the write that would have gone over it, not by the next look only."""
        self.msr.set(0, 0xC8B, 0x400)
        with self.assertRaises(ForeignHand) as caught:
            self.enforce(0xC, 0x780)
        self.assertEqual(0x400, self.msr.get(0, 0xC8B))
        self.interlock.refused(caught.exception)
        self.assertIn(
            "DDIO is at 0x400, the agent left 0x7c0",
            text(self.interlock.reasons["conflicting-change"]),
        )
        self.assert_as_found()

    def test_a_mask_moved_before_a_write(self):
        """The same; no later look would have found what that write had gone over."""
        self.tree.write("iat-nova.1/schemata", "L3:0=7f\n")
        with self.assertRaises(ForeignHand) as caught:
            self.enforce(0xC, 0x7C0)
        self.assertEqual(0x7F, self.tree.masks("iat-nova.1", "L3")[0])
        self.interlock.refused(caught.exception)
        self.assertIn(
            "L3:0 is 0x7f, the agent wrote 0x3", text(self.interlock.reasons["conflicting-change"])
        )
        self.assert_as_found()

    def test_a_reboot(self):
        """No process of another boot restores; no process lives on across one."""
        boot = self.folder / "boot_id"
        boot.write_text("another")
        after = restoring.snapshot(self.settings(), self.host())
        with mock.patch.object(after._file, "_boot_id", boot):
            self.assertEqual(Restored(), after.restore())
        self.assertFalse(self.settings().snapshot_path.exists())
        self.assertNotEqual(self.found, self.tree.state())
