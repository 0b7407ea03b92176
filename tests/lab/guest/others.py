# SPDX-License-Identifier: Apache-2.0
"""Others on the host: who allocates cache as well, and who forbids the agent to write."""

import os
import time
import unittest
from pathlib import Path

from iat_nova.hardware.cat.resctrl_fs import DEFAULT_ROOT, PREFIX, ResctrlFs
from iat_nova.hardware.kernel.msr import IIO_LLC_WAYS, Msr
from iat_nova.model import message
from tests.lab.guest.agents import BE, PC_CPU, AgentCase
from tests.lab.guest.host import REGISTERS, found
from tests.lab.guest.machine import TOPOLOGY, mount, plug, unmount
from tools import demo_host

ALLOW_WRITES = Path("/sys/module/msr/parameters/allow_writes")
CACHETUNE = (
    "<cachetune vcpus='0'><cache id='0' level='3' type='both' size='5632' unit='KiB'/></cachetune>"
)


class Others(AgentCase, unittest.TestCase):
    """The agent yields, says why, goes round, and comes back when it may."""

    def group(self, name):
        """Make a resctrl group that is not the agent's; return its folder."""
        folder = DEFAULT_ROOT / name
        folder.mkdir()
        self.addCleanup(lambda: folder.exists() and folder.rmdir())
        return folder

    def messages(self):
        """Return why the agent only observes."""
        return [one.message for one in self.status("reasons") or ()]

    def finds_owner(self, state):
        """Wait until the agent only observes because of another owner of cache."""

        def found():
            return any(
                owner.values["state"] == state
                for said in self.messages()
                if said.code == "other-owners"
                for owner in said.values["owners"]
            )

        self.until(found, f"{state} in the status", 0.2)

    def let_alone(self):
        """Nobody writes a mask while the loop goes round and round."""
        sockets = {cache.package for cache in TOPOLOGY.caches()}
        before = [REGISTERS.mask_writes(socket) for socket in sockets]
        self.iterations(4)
        self.assertEqual(before, [REGISTERS.mask_writes(socket) for socket in sockets])

    def test_a_foreign_group(self):
        """While somebody has a group the agent gives its own back; then it takes up again."""
        pid = self.working()
        foreign = self.group("foreign")
        self.in_class(PC_CPU, yes=False)
        self.finds_owner(message("group-of-other", group="foreign"))
        self.assertEqual({**self.found, "groups": ("foreign",)}, found())
        self.let_alone()
        foreign.rmdir()
        self.in_class(PC_CPU)
        self.end_as_found(pid)

    def test_a_group_of_the_agent_made_exclusive(self):
        """The agent restores the host and only observes; both ways to end find it as it was."""
        if len(TOPOLOGY.caches()) > 1:
            self.skipTest("one socket will do")
        for killed in (False, True):
            pid = self.working()
            fs = ResctrlFs()
            group = next(name for name in fs.groups() if PC_CPU in fs.cpus_of(name))
            fs.set_mode(group, "exclusive")
            if killed:
                self.kill(pid)
                self.assertEqual(0, self.restore())
                self.assertEqual(self.found, found())
            else:
                self.in_class(PC_CPU, yes=False)
                self.end_as_found(pid)

    def test_libvirts_cachetune(self):
        """A guest for which libvirt allocates cache gets it, in libvirt's order of doing things."""
        pid = self.working()
        xml = demo_host.domain_xml(demo_host.Guest(9, "tuned", "m1", BE, (7,), ""))
        domain = self.connection.defineXML(xml.replace("</cputune>", f"{CACHETUNE}</cputune>"))
        self.addCleanup(lambda: [domain.isActive() and domain.destroy(), domain.undefine()])
        theirs = self.group("qemu-9-instance-00000009-vcpus_0")
        ways = ";".join(f"{cache.id}=f" for cache in TOPOLOGY.caches())
        ResctrlFs().write(f"{theirs.name}/schemata", f"L3:{ways}\n")
        ResctrlFs().write(f"{theirs.name}/tasks", f"{os.getpid()}\n")
        domain.create()
        self.in_class(PC_CPU, yes=False)
        tuned = message("guests-tuned", guests=("instance-00000009",))
        self.until(lambda: tuned in self.messages(), f"{tuned} in the status", 0.2)
        self.finds_owner(message("group-of-libvirt", group=theirs.name))
        self.let_alone()
        self.assertIn(f"L3:{ways.replace('f', '00f')}", ResctrlFs().read(f"{theirs.name}/schemata"))
        self.assertIn(str(os.getpid()), (theirs / "tasks").read_text().split())
        domain.destroy()
        theirs.rmdir()
        self.in_class(PC_CPU)
        self.end_as_found(pid)

    def test_unmounted(self):
        """Said at once; when resctrl is mounted again all is as before."""
        if len(TOPOLOGY.caches()) > 1:
            self.skipTest("one socket will do")
        pid = self.working()
        unmount()
        self.observes("resctrl is not mounted; mount -t resctrl resctrl")
        self.let_alone()
        mount()
        self.in_class(PC_CPU)
        self.until(lambda: not self.reasons(), "no reason", 0.2)
        self.end_as_found(pid)

    def test_a_socket_offline_at_the_end(self):
        """Its register is out of reach: that is said, and mended when it is online again."""
        socket = max(cache.package for cache in TOPOLOGY.caches())
        if not socket:
            self.skipTest("one socket")
        pid = self.working()
        self.feeding(lambda: REGISTERS.ddio_ways(socket) not in (0, 0x600), "DDIO's growth", socket)
        (cpus,) = (cache.cpus for cache in TOPOLOGY.caches() if cache.package == socket)
        self.addCleanup(lambda: [plug(cpu, True) for cpu in cpus if cpu not in TOPOLOGY.online()])
        for cpu in cpus:
            plug(cpu, False)
        self.end(pid)
        self.assertIn("IIO_LLC_WAYS of cache domain 1: its CPUs are offline", self.log.read_text())
        self.assertNotIn("original settings restored", self.log.read_text())
        self.assertEqual(1, self.restore())
        for cpu in cpus:
            plug(cpu, True)
        self.assertNotEqual(0x600, REGISTERS.ddio_ways(socket))
        self.assertEqual(0, self.restore(), self.log.read_text())
        self.assertEqual(self.found, found())
        self.assertFalse((self.state / "snapshot.json").exists())

    def test_another_hand_on_a_group(self):
        """Our groups go when somebody changes one of them."""
        self.disturbed(
            lambda: ResctrlFs().write(f"{PREFIX}1/schemata", "L3:0=1f\n"),
            "conflicting change by another program (enforcement off until restart): "
            f"{PREFIX}1: L3:0 is 0x1f",
        )

    def test_another_hand_on_the_register(self):
        """The agent removes its classes. It never wrote DDIO's ways: they keep the hand's value."""
        msr = Msr()
        self.addCleanup(msr.close)
        self.addCleanup(msr.write, 0, IIO_LLC_WAYS, msr.read(0, IIO_LLC_WAYS))

        def hand():
            msr.write(0, IIO_LLC_WAYS, 0x7E0)

        why = "domain 0: DDIO is at 0x7e0, the agent left 0x600"
        self.disturbed(
            hand,
            f"conflicting change by another program (enforcement off until restart): {why}",
            ddio=[0x7E0, *self.found["ddio"][1:]],
        )

    def disturbed(self, hand, why, **theirs):
        """An agent finds that a hand was at work, says so, and puts back what it wrote, once."""
        pid = self.working()
        self.iterations(1)  # classes come first, DDIO's ways later: now all is written
        hand()
        self.observes(why)
        disturbed = {**self.found, **theirs}
        self.assertEqual(disturbed, found())
        self.let_alone()
        self.end(pid)
        self.assertEqual(disturbed, found())

    def test_register_writes_refused(self):
        """Switched off under way: the loop goes on and says so; allowed again, restore mends."""
        pid = self.working()
        socket = max(cache.package for cache in TOPOLOGY.caches())
        self.feeding(lambda: REGISTERS.ddio_ways(socket) not in (0, 0x600), "DDIO's growth", socket)
        self.addCleanup(ALLOW_WRITES.write_text, ALLOW_WRITES.read_text())
        ALLOW_WRITES.write_text("off")
        refused = "the msr driver refuses writes; echo on >"
        self.feeding(lambda: refused in self.reasons(), "the reason", socket)
        stays = found()
        self.let_alone()
        self.assertEqual(stays, found())
        self.end(pid, status=os.EX_OSERR)
        self.assertEqual(1, self.restore())
        self.assertEqual((), ResctrlFs().groups())  # what could be put back was
        ALLOW_WRITES.write_text("on")
        self.assertEqual(0, self.restore(), self.log.read_text())
        self.assertEqual(self.found, found())
        self.assertIn(refused, self.log.read_text())

    def feeding(self, condition, what, socket):
        """Wait for a condition while inbound writes press a socket, then stop as suddenly."""
        last = time.monotonic()

        def fed():
            nonlocal last
            now, before = time.monotonic(), last
            last = now
            writes = int((now - before) * 9e6)
            REGISTERS.add_pcie(write_hits=writes // 3, write_misses=writes, socket=socket)
            return condition()

        self.until(fed, what)
