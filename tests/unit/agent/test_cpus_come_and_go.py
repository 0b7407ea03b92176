# SPDX-License-Identifier: Apache-2.0
"""CPUs that go and come while the agent looks, writes or restores: an event, and tried again."""

import contextlib
import dataclasses
import errno
import logging
import unittest
from unittest import mock

from iat_nova.agent import wiring
from iat_nova.agent.interlock import Interlock
from iat_nova.agent.journal import Journal
from iat_nova.agent.offline import OfflineCpus
from iat_nova.hardware.api import HardwareError
from iat_nova.model import (
    CacheDomain,
    DomainInventory,
    Facts,
    Group,
    Guest,
    HostFacts,
    Layout,
    WayMask,
)
from iat_nova.model.reasons import Code
from iat_nova.report import sentences
from tests.unit.build import tenant
from tests.unit.hardware import test_sockets
from tests.unit.hardware.enforcement import test_restore

EMPTY = Facts(HostFacts("h", (), ()), (), None)


class Logged(Journal):
    """A journal that keeps what was logged, by level, and what is wrong now."""

    def __init__(self):
        self._problems, self._notices = {}, {}
        self.logged = []

    def _tell(self, severity, said, kind=None):
        self.logged.append((severity, sentences.text(said)))

    @property
    def problems(self):
        return list(map(sentences.text, self._problems.values()))

    @property
    def notices(self):
        return list(map(sentences.text, self._notices.values()))


class Case(test_restore.MachineCase):
    """An agent's machine of two sockets, with a class of ours on each."""

    def setUp(self):
        super().setUp()
        logging.getLogger("iat_nova").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("iat_nova").setLevel, logging.NOTSET)
        self.ownership = self.owned()
        self.machine = self.ownership.machine
        self.stack = self.enterContext(contextlib.ExitStack())
        self.stack.enter_context(self.ownership.held())
        self.enforcer = wiring.enforcer(self.ownership)
        self.journal = Logged()
        self.outside = self.ownership.outside()
        self.cpus = self.outside.cpus
        self.domains = self.machine.allocator.domains()
        for domain in self.domains:
            cpu = domain.cpus[-1]
            guest = tenant("g", cpu, id="g/1")
            layout = Layout(WayMask(0x7C0), (Group(("g/1",), WayMask(0x3)),))
            self.enforcer.apply(DomainInventory(domain, (guest,)), layout)
        self.enforced = self.tree.state()
        self.cpus.begin()

    def interlock(self, **outside):
        clock = mock.Mock(**{"now.return_value": 0.0, "wall.return_value": 0.0})
        return Interlock(
            self.enforcer, self.journal, clock, dataclasses.replace(self.outside, **outside)
        )

    def toggle(self, *cpus):
        for change in (self.tree.unplug, self.tree.plug):
            for cpu in cpus:
                change(cpu)


class Looking(Case, unittest.TestCase):
    def test_a_look_that_fails(self):
        """A CPU that goes is named, and nothing is wrong; without one the look has failed."""

        def owners():
            self.tree.unplug(3)
            raise HardwareError("cpu3/cache/index1/level: No such file or directory")

        self.interlock(owners=owners).look(EMPTY)
        text = (
            "cannot check for other cache users: CPU 3 went offline during the operation; retrying"
        )
        self.assertEqual(([("info", text)], []), (self.journal.logged, self.journal.problems))
        self.assertTrue(self.cpus.begin())  # so that it is looked at again
        self.interlock(owners=mock.Mock(side_effect=HardwareError("no sysfs"))).look(EMPTY)
        self.assertEqual(["cannot check for other cache users: no sysfs"], self.journal.problems)

    def test_a_socket_that_goes_and_comes_during_a_look(self):
        """Its masks are as the kernel resets them: written anew, and nobody is blamed."""
        inspect = self.machine.inspect

        def changes():
            found = inspect()
            self.toggle(2, 3)
            return (*found, "iat-nova.1: L3:1 is 0x7ff, the agent wrote 0x3")

        interlock = self.interlock(changes=changes)
        interlock.look(EMPTY)
        self.assertEqual(({}, []), (interlock.reasons, self.journal.problems))
        self.assertTrue(self.cpus.begin())
        interlock = self.interlock()
        interlock.look(EMPTY)
        self.assertEqual(({}, self.enforced), (interlock.reasons, self.tree.state()))

    def test_a_change_counts_when_it_is_found_twice(self):
        """What one reading alone found is none; what both found is a conflict."""
        for readings, conflict in (
            ((("a", "b"), ("b",)), ("b",)),
            ((("a",), ()), None),
            ((("0x3",), ("0x7",)), ("0x7",)),  # by a program that goes on changing it
        ):
            interlock = self.interlock(changes=mock.Mock(side_effect=readings))
            interlock.look(EMPTY)
            found = interlock.reasons.get(Code.CONFLICTING_CHANGE)
            self.assertEqual(conflict, found and found.values["changes"])

    def test_a_restore_that_a_cpu_disturbs(self):
        """It is done again; nothing is told of a failure."""
        restore = self.enforcer.restore

        def disturbed():
            self.enforcer.restore = restore
            self.tree.unplug(3)
            raise HardwareError("schemata: Invalid argument")

        self.enforcer.restore = disturbed
        self.assertTrue(self.interlock().restore())
        self.assertEqual([], self.journal.problems)
        self.assertEqual((), self.tree.groups())


class Choosing(test_restore.MachineCase, unittest.TestCase):
    def test_a_cpu_that_goes_while_interfaces_are_chosen(self):
        """The choice holds for an agent's life: it is made again, not without DDIO's register."""
        read = self.msr.pread

        def disturbed(cpu, register):
            if register == 0xC8B:
                self.msr.pread = read
                self.tree.unplug(3)
                raise OSError(errno.ENXIO, "")
            return read(cpu, register)

        self.msr.pread = disturbed
        chosen = {one.role: one.chosen for one in self.owned().machine.choices}
        self.assertEqual("msr", chosen["ddio"])


class Following(Case, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.offline = OfflineCpus(self.cpus, self.enforcer, self.journal)

    def test_a_socket_that_was_offline_is_written_anew(self):
        """Also where it was back at once; the other socket's layout is known still."""
        self.assertFalse(self.offline.moved(self.domains))
        self.toggle(2, 3)
        self.assertTrue(self.offline.moved(self.domains))
        self.assertEqual({0}, set(self.enforcer.memory.written))
        self.toggle(1)
        self.assertTrue(self.offline.moved(self.domains))
        self.assertEqual({0}, set(self.enforcer.memory.written))

    def test_a_guest_whose_cpus_are_offline(self):
        """A notice that names both, until they are back or the guest has ended."""
        guest = Guest("u", 1, "i", "web", None, None, None, (), (), offline_cpus=(4, 5))
        other = Guest("v", 1, "j", "db", None, None, None, (), (), offline_cpus=(6,))
        for guests in ((guest, other), (guest, other), ()):
            self.offline.notice_guests(Facts(EMPTY.host, guests, None))
            if guests:
                texts = ["CPUs 4-5 of web are offline", "CPU 6 of db is offline"]
                self.assertEqual(texts, self.journal.notices)
        self.assertEqual([], self.journal.notices)
        self.assertEqual(4, len(self.journal.logged))
        self.assertEqual({"info"}, {level for level, _ in self.journal.logged})

    def test_an_idle_socket(self):
        """A notice, and skipped, until one of its CPUs is online."""
        domain = CacheDomain(1, (2, 3), 11, 8)
        for online, skipped in (((0, 1), True), ((0, 1, 3), False)):
            facts = Facts(HostFacts("h", (domain,), online), (), None)
            self.assertEqual(skipped, self.offline.skips(domain, facts))
            self.assertEqual(skipped, bool(self.journal.notices))
        self.assertEqual(["info", "info"], [level for level, _ in self.journal.logged])


class Offering(test_restore.MachineCase, unittest.TestCase):
    def test_the_offer_to_placement_with_a_socket_offline(self):
        """The same as with all CPUs online, also where that socket was never seen."""
        tables = (test_sockets.processor(test_sockets.ENABLED) * 2, test_sockets.END)
        self.put(self.roots.dmi, "")
        self.roots.dmi.write_bytes(b"".join(tables))
        status, offered, _ = self.run_it("provider-config")
        self.assertEqual(0, status)
        for cpu in (2, 3):
            self.tree.unplug(cpu)
            self.msr.off.add(cpu)
        self.assertEqual((0, offered), self.run_it("provider-config")[:2])
