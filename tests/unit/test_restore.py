# SPDX-License-Identifier: Apache-2.0
"""The agent's hands on a whole host in a folder: guarded and restored."""

import contextlib
import dataclasses
import errno
import io
from unittest import mock

from iat_nova import assembly, conf
from iat_nova.clock import SystemClock
from iat_nova.cmd import main as program
from iat_nova.enforce import ForeignHand
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.hardware.probe import Host
from iat_nova.model import (
    DomainInventory,
    Facts,
    Group,
    HostFacts,
    Layout,
    Priority,
    Tenant,
    TenantKind,
    WayMask,
    WayRequest,
)
from iat_nova.restraint import Restraint
from tests.unit.hardware import test_probe


class MachineCase(test_probe.HostCase):
    """All is well on the host; state and lock are in the folder."""

    def setUp(self):
        super().setUp()
        self.lock = self.folder / "run/writer.lock"
        self.config = self.folder / "iat.conf"
        self.config.write_text(f"[iat]\nstate_dir = {self.folder / 'state'}\n")
        self.found = self.tree.state()
        for target, value in (
            ("iat_nova.assembly.WRITER_LOCK", self.lock),
            ("iat_nova.hardware.probe.Host", self.host),
        ):
            patch = mock.patch(target, value)
            patch.start()
            self.addCleanup(patch.stop)

    def host(self):
        return Host(self.roots, fs=self.tree, msr=self.msr)

    def settings(self, **changes):
        return dataclasses.replace(conf.load([self.config]), **changes)

    def change_all(self, hands):
        hands.allocator.apply(0, (ClassMask("a", (1,), WayMask(0x3)),))
        hands.ddio.write(0, WayMask(0x7C0))

    def assert_as_found(self):
        self.assertEqual(self.found, self.tree.state())
        self.assertEqual(0x600, self.msr.get(0, 0xC8B))
        self.assertFalse(self.settings().snapshot_path.exists())

    def crash(self):
        """Leave the host as an agent that was killed leaves it."""
        hands = assembly.machine(self.settings())
        hands.guard.protect()
        self.change_all(hands)
        self.assertNotEqual(self.found, self.tree.state())

    def run_it(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with mock.patch("sys.stdout", out), mock.patch("sys.stderr", err):
            status = program.main([*arguments, "--config-file", str(self.config)])
        self.assertNotIn("Traceback", out.getvalue() + err.getvalue())
        return status, out.getvalue(), err.getvalue()


class Ours(MachineCase):
    """The only writer, from the first write to the last."""

    def test_saved_before_and_back_afterwards(self):
        """Whatever happens after the first write, the host is as found."""
        hands = assembly.machine(self.settings())
        with self.assertRaises(ZeroDivisionError), hands.ours():
            hands.guard.protect()
            self.change_all(hands)
            raise ZeroDivisionError
        self.assert_as_found()

    def test_who_only_observes_undoes_nothing(self):
        """What an operator changes while an agent watches stays when that agent ends."""
        hands = assembly.machine(self.settings())
        with hands.ours():
            assembly._SavedFirst(mock.Mock(), hands.guard).watch((0,))
            self.assertFalse(self.settings().snapshot_path.exists())
            self.change_all(hands)
        self.assertNotEqual(self.found, self.tree.state())
        self.assertEqual(0x7C0, self.msr.get(0, 0xC8B))

    def test_an_agent_that_never_began_leaves_no_snapshot(self):
        """Else the next start would undo what an operator did in between."""
        with assembly.machine(self.settings()).ours():
            pass
        self.assert_as_found()

    def test_what_a_crash_left_is_put_back_first(self):
        """The new snapshot is of the untouched host."""
        self.crash()
        with assembly.machine(self.settings()).ours():
            self.assertEqual(self.found, self.tree.state())
        self.assert_as_found()

    def test_a_second_writer_is_refused(self):
        """Named, with the way out."""
        first, second = (assembly.machine(self.settings()) for _ in range(2))
        with first.ours(), self.assertRaisesRegex(HardwareError, "end it first"), second.ours():
            self.fail("two writers")

    def test_owners(self):
        """A foreign group is seen by the running agent; its own groups are not foreign."""
        hands = assembly.machine(self.settings())
        with hands.ours():
            self.change_all(hands)
            self.assertEqual(((), ()), (hands.owners(), hands.inspect()))
            self.tree.mkdir("theirs")
            self.assertIn("theirs", hands.owners()[0])
            self.tree.rmdir("theirs")


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

    def test_although_the_counters_cannot_be_opened(self):
        """What keeps an agent from starting does not keep masks from being put back."""
        self.crash()
        self.perf = "Permission denied"
        self.be("strange")
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_a_knob_that_cannot_be_reached_any_more(self):
        """DDIO is not silently left where it is: the snapshot stays until it is put back."""
        self.crash()
        self.msr.refuse = 1
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "(?s)not restored: ddio msr.*allow_writes")
        self.assertTrue(self.settings().snapshot_path.exists())
        with (
            self.assertRaisesRegex(HardwareError, "could not be put back"),
            assembly.machine(self.settings()).ours(),
        ):
            self.fail("started")
        self.msr.refuse = None
        self.assertEqual(0, self.run_it("restore")[0])
        self.assert_as_found()

    def test_a_state_directory_of_others(self):
        """Who may not look is told to be root."""
        denied = PermissionError(errno.EACCES, "Permission denied")
        with mock.patch("pathlib.Path.exists", side_effect=denied):
            status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertRegex(err, "snapshot.json: Permission denied; be root")

    def test_while_an_agent_runs(self):
        """Refused: the agent's own end restores."""
        hands = assembly.machine(self.settings())
        with hands.ours():
            hands.guard.protect()
            self.change_all(hands)
            status, _, err = self.run_it("restore")
        self.assertEqual(1, status)
        self.assertIn("end it first", err)


class Journal:
    """What was told."""

    def __init__(self):
        self.told = []

    def problem(self, wall_s, what, text):
        self.told.append(text)

    def solved(self, wall_s, what, text):
        pass

    def tell(self, wall_s, text):
        self.told.append(text)


class Restrained(MachineCase):
    """The agent may no longer write: the whole host, not a fake, is as it was found."""

    def setUp(self):
        super().setUp()
        self.hands = self.enterContext(contextlib.ExitStack())
        self.machine = assembly.machine(self.settings())
        self.hands.enter_context(self.machine.ours())
        self.enforcer = assembly.enforcer(self.machine)
        self.journal = Journal()
        self.restraint = Restraint(
            self.enforcer, self.journal, SystemClock(), changes=self.machine.inspect
        )
        domain = self.machine.allocator.domains()[0]
        guest = Tenant("g/1", "g", TenantKind.GUEST, Priority.BE, False, (1,), WayRequest())
        self.inventory = DomainInventory(domain, (guest,))
        self.enforce(0x3, 0x7C0)
        self.assertNotEqual(self.found, self.tree.state())

    def enforce(self, mask, ddio):
        layout = Layout(WayMask(ddio), (Group(("g/1",), WayMask(mask)),))
        return self.enforcer.apply(self.inventory, layout)

    def watch(self):
        """Do what the loop does after each look: that must not save, nor restore, anything else."""
        assembly._SavedFirst(mock.Mock(), self.machine.guard).watch((0,))

    def look(self):
        self.restraint.look(Facts(HostFacts("h", (), ()), (), None))

    def test_a_failing_write(self):
        """What was half-done is undone, and then everything."""
        self.tree.fail_at = 1
        with self.assertRaises(HardwareError) as caught:
            self.enforce(0xC, 0x7C0)
        self.restraint.refused(caught.exception)
        self.assert_as_found()
        self.assertIn("write", self.restraint.reasons)
        self.assertRegex("\n".join(self.journal.told), "Input/output.*\n.*as it was found")

    def test_a_foreign_change_of_a_mask(self):
        """Found at the next look; our group goes with the change."""
        self.tree.write("iat-nova.1/schemata", "L3:0=7f\n")
        self.look()
        self.assertIn("L3:0 is 0x7f, we wrote 0x3", self.restraint.reasons["foreign"])
        self.assert_as_found()

    def test_a_foreign_change_of_ddio(self):
        """Put back once; what is written later, also after our end, is left alone."""
        self.msr.set(0, 0xC8B, 0x400)
        self.look()
        self.assert_as_found()
        self.watch()
        self.msr.set(0, 0xC8B, 0x700)
        self.look()
        self.watch()
        self.hands.close()
        self.assertEqual(0x700, self.msr.get(0, 0xC8B))
        self.assertEqual(0, self.run_it("restore")[0])
        self.assertEqual(0x700, self.msr.get(0, 0xC8B))

    def test_ddio_moved_before_a_write(self):
        """Seen by the write that would have gone over it, not by the next look only."""
        self.msr.set(0, 0xC8B, 0x400)
        with self.assertRaises(ForeignHand) as caught:
            self.enforce(0xC, 0x780)
        self.assertEqual(0x400, self.msr.get(0, 0xC8B))
        self.restraint.refused(caught.exception)
        self.assertIn("DDIO was left at 0x7c0 and is at 0x400", self.restraint.reasons["foreign"])
        self.assert_as_found()

    def test_a_reboot(self):
        """Nothing of before it is restored, by whatever way."""
        boot = self.folder / "boot_id"
        boot.write_text("another")
        with mock.patch.object(self.machine.guard, "_boot_id", boot):
            self.hands.close()
        self.assertFalse(self.settings().snapshot_path.exists())
        self.assertNotEqual(self.found, self.tree.state())
