# SPDX-License-Identifier: Apache-2.0
"""Intel I/O RDT on a real kernel: doctor, and DDIO's ways by the class of all devices."""

import functools
import json
import unittest
from unittest import mock

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.ddio.iordt_classes import GROUP
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.backends import Preferences, choose
from iat_nova.hardware.host.probe import Host, Level
from iat_nova.model import DomainInventory, PortGroup, WayMask, message
from tests.lab.guest import guarded
from tests.lab.guest.machine import TOPOLOGY, Registers, mount
from tests.lab.registers import RMID_UNIT
from tests.unit.hardware import contract

REGISTERS = Registers()
SOCKETS = range(len(TOPOLOGY.caches()))
ENABLE = 1 << 15, 1 << 31
# Of the lab's table (tools/rdt-lab/irdt.py): offset, bytes and enable bit of each class register.
TAGS = (
    (0x20, 4, 0), (0x24, 4, 0), (0x1110, 2, ENABLE[0]), (0x1112, 2, ENABLE[0]),
    (0x2080, 4, ENABLE[1]), (0x3010, 2, 0),
)  # fmt: skip
# The same of the RMID registers: the last channel has none.
RMIDS = (
    (0x0, 4, 0), (0x4, 4, 0), (0x1100, 2, ENABLE[0]), (0x1102, 2, ENABLE[0]),
    (0x2040, 4, ENABLE[1]),
)  # fmt: skip
STATE = guarded.state


def tags():
    """Return the class registers, from outside the kernel."""
    return [REGISTERS.channel(offset, size) for offset, size, _ in TAGS]


def rmids():
    """Return the RMID registers, from outside the kernel."""
    return [REGISTERS.channel(offset, size) for offset, size, _ in RMIDS]


def state():
    """Return everything that must be as it was found."""
    switches = [REGISTERS.io_rdt(socket) for socket in SOCKETS]
    return STATE() | {"tags": tags(), "rmids": rmids(), "switches": switches}


class Doctor(unittest.TestCase):
    """What is found, and that nothing is changed by finding it."""

    def test_present(self):
        """The devices of the table, in four ports: two devices share a channel."""
        mount()
        found = state()
        (one,) = (one for one in probe.findings(Host()) if one.subject == "I/O RDT")
        expected = message(
            "iordt-present", devices=5, ports=4, channels=6, classes=6, rmids=5, on=()
        )
        self.assertEqual((Level.OK, expected), (one.level, one.state))
        self.assertEqual(found, state())


class Contract(contract.DdioContract, unittest.TestCase):
    """The contract of every back end of DDIO's ways, without resctrl's option debug."""

    options = ()

    def make(self):
        mount(*self.options)
        machine = choose(Host(), SystemClock(), Preferences(ddio="iordt"))
        saved = json.loads(json.dumps({name: one.save() for name, one in machine.parts.items()}))
        self.found = state()
        self.addCleanup(lambda: self.assertEqual(self.found, state()))
        for name in reversed(machine.parts):
            self.addCleanup(machine.parts[name].restore, saved[name])
        self.machine = machine
        return machine.ddio, machine.allocator.domains()[-1]

    def test_registers(self):
        """All channels have the class whose register has the mask; one domain is switched on."""
        self.assertEqual(7, self.domain.classes)
        self.ddio.write(self.domain.id, WayMask(0x7C0))
        (number,) = {value & 0x7FFF for value in tags()}
        self.assertEqual([number | enable for _, _, enable in TAGS], tags())
        last = SOCKETS[-1]
        self.assertEqual(0x7C0, REGISTERS.cbm(number, last))
        on = [(socket == last, False) for socket in SOCKETS]
        self.assertEqual(on, [REGISTERS.io_rdt(socket) for socket in SOCKETS])
        self.assertEqual([0x600] * len(SOCKETS), [REGISTERS.ddio_ways(s) for s in SOCKETS])
        self.assertEqual((GROUP,), ResctrlFs().groups())

    def test_ports(self):
        """Ports have classes beside that of all devices, and leave them before their groups go."""
        nic, disk, bridge = "0000:41:00.0", "0000:42:00.0", "0000:81:00.0"
        last = SOCKETS[-1]
        groups = (
            PortGroup((nic,), WayMask(0x0F0)), PortGroup((disk, bridge), WayMask(0x00F)),
        )  # fmt: skip
        placed = self.machine.port_ways.place(self.domain.id, groups)
        self.assertEqual({nic: 0x0F0, disk: 0x00F, bridge: 0x00F}, placed)
        numbers = [value & 0x7FFF for value in tags()]
        self.assertEqual([n | on for n, (_, _, on) in zip(numbers, TAGS, strict=True)], tags())
        masks = [0x0F0, 0x600, 0x00F, 0x00F, 0x00F, 0x00F]
        self.assertEqual(masks, [REGISTERS.cbm(number, last) for number in numbers])
        self.assertEqual(3, len(set(numbers)))
        self.assertEqual(0x600, self.ddio.read(self.domain.id))
        self.assertEqual((), self.machine.inspect())
        self.assertEqual({}, self.machine.port_ways.place(self.domain.id, ()))
        self.assertEqual({numbers[1]}, {value & 0x7FFF for value in tags()})
        self.assertEqual((GROUP,), ResctrlFs().groups())

    def test_another_hand(self):
        """A tag that is changed from outside is told, as is a switch."""
        self.ddio.write(self.domain.id, WayMask(0x7C0))
        self.assertEqual((), self.machine.inspect())
        REGISTERS.set_channel(0x24, 4, 3)
        told = (message("iordt-tags-changed", channels=("0.0.1",)),)
        self.assertEqual(told, self.machine.inspect())


class Debug(Contract):
    """The same where the kernel shows the group's class."""

    options = ("debug",)


class Counted(unittest.TestCase):
    """Ports by RMIDs of monitoring groups without tasks: the kernel reads their counters."""

    def test_ports(self):
        """Each port has an RMID of its own, beside DDIO's class; all is as found at the end."""
        mount("debug")
        machine = choose(Host(), SystemClock(), Preferences(ddio="iordt", monitor=True))
        saved = json.loads(json.dumps({name: one.save() for name, one in machine.parts.items()}))
        found = state()
        self.addCleanup(lambda: self.assertEqual(found, state()))
        for name in reversed(machine.parts):
            self.addCleanup(machine.parts[name].restore, saved[name])
        domains = machine.locate(machine.allocator.domains())
        ports = {(one.id, port.id) for one in domains for port in one.device_ports}
        self.assertEqual(4, len(ports))
        machine.ddio.write(domains[0].id, WayMask(0x7C0))
        machine.monitor.watch({one.id: DomainInventory(one, ()) for one in domains})
        self.assertIsNone(machine.monitor.full)
        counted = machine.monitor.read().keys()
        self.assertTrue(counted)
        self.assertLessEqual(counted, ports)
        fs = ResctrlFs()
        numbers = {fs.hardware_monitor(fs.monitor(name)) for name in fs.monitors()}
        self.assertEqual(len(counted), len(numbers))
        values = [value & ~on for value, (_, _, on) in zip(rmids(), RMIDS, strict=True)]
        self.assertEqual(numbers, {*values} - {0})
        on = [socket in {domain for domain, _ in counted} for socket in SOCKETS]
        self.assertEqual(on, [REGISTERS.io_rdt(socket)[1] for socket in SOCKETS])
        for number in numbers:
            for socket in SOCKETS:
                REGISTERS.set_rmid(number, 48, 1000, socket=socket)
        after = machine.monitor.read().values()
        self.assertEqual({48 * RMID_UNIT}, {one.occupancy_bytes for one in after})
        self.assertTrue(all(one.memory_bytes is not None for one in after))
        machine.monitor.close()
        self.assertEqual([0] * len(RMIDS), rmids())


class Killed(guarded.Killed):
    """kill -9 while devices have a class, and the host is as it was found."""

    proves = None  # not on the CPU that the lab has otherwise

    def setUp(self):
        for name, value in (
            ("make", functools.partial(guarded.make, ddio="iordt")), ("state", state),
        ):  # fmt: skip
            patch = mock.patch.object(guarded, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        mount("debug")
        self.found = state()
