# SPDX-License-Identifier: Apache-2.0
"""DDIO off at root ports, through the kernel's configuration space (rdt-lab --root-ports 2)."""

import json
import os
import struct
import unittest
from pathlib import Path

from iat_nova.checks import rights
from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.ddio.rootport import DEVICES, PERFCTRLSTS_0, RootPorts
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.host import backends
from iat_nova.hardware.host.probe import Host
from iat_nova.model import message
from tests.lab.guest.machine import mount
from tests.proofs import proves
from tests.said import sentence

ALLOCATING, NO_SNOOP = 0x80, 0x08  # as the lab's ports begin, and DDIO off
RESCAN = Path("/sys/bus/pci/rescan")
SNAPSHOT, LOCK = Path("/run/iat-nova/snapshot.json"), Path("/run/iat-nova/writer.lock")


def ports():
    """Return the addresses of the lab's root ports."""
    found = []
    for device in sorted(DEVICES.iterdir()):
        names = [(device / name).read_text().strip() for name in ("vendor", "device")]
        if names == ["0x8086", "0x3420"]:
            found.append(device.name)
    return found


def register(port):
    """Return perfctrlsts_0 as the kernel shows it."""
    with open(DEVICES / port / "config", "rb", buffering=0) as config:
        return struct.unpack("<I", os.pread(config.fileno(), 4, PERFCTRLSTS_0))[0]


def put(port, value):
    """Write perfctrlsts_0 as somebody else would."""
    with open(DEVICES / port / "config", "r+b", buffering=0) as config:
        os.pwrite(config.fileno(), struct.pack("<I", value), PERFCTRLSTS_0)


@proves("root ports")
class Ports(unittest.TestCase):
    """Two ports: one switched off by the operator, one that a strategy may switch."""

    def setUp(self):
        mount()
        self.fixed, self.switchable = ports()
        self.host = Host()
        self.hands = backends.choose(self.host, SystemClock())
        self.ports = backends.root_ports(self.host, [self.fixed], [self.switchable])
        self.addCleanup(put, self.fixed, ALLOCATING)
        self.addCleanup(put, self.switchable, ALLOCATING)

    def seen(self):
        return register(self.fixed), register(self.switchable)

    def guard(self, part):
        return Snapshot({backends.PORT_DCA: part}, snapshot=SNAPSHOT, lock=LOCK)

    def test_off_and_back(self):
        """Two bits of the port named, and back; the other stays."""
        saved = json.loads(json.dumps(self.ports.save()))
        self.assertEqual((ALLOCATING, ALLOCATING), self.seen())
        self.ports.off()
        self.assertEqual((NO_SNOOP, ALLOCATING), self.seen())
        self.assertEqual((), self.ports.inspect())
        self.assertEqual(1, len(self.ports.restore(saved)))
        self.assertEqual((ALLOCATING, ALLOCATING), self.seen())
        self.assertEqual((), self.ports.restore(saved))

    def test_a_strategy_switches(self):
        """The port belongs to a cache domain; off and on again there."""
        first = self.ports.assign(self.hands.allocator.domains())[0]
        self.assertEqual([self.switchable], [port.address for port in first.dca_ports])
        self.ports.save()
        self.ports.switch(first.id, [self.switchable])
        self.assertEqual((ALLOCATING, NO_SNOOP), self.seen())
        self.ports.switch(first.id, [])
        self.assertEqual((ALLOCATING, ALLOCATING), self.seen())

    def test_another_hand(self):
        """What it moved is told, and other bits are never changed."""
        put(self.fixed, 0x1000_0280)
        saved = self.ports.save()
        self.ports.off()
        self.assertEqual(0x1000_0208, register(self.fixed))
        put(self.fixed, 0x1000_0288)
        changed = message("port-bits-changed", port=self.fixed, left=0x8, bits=0x88)
        self.assertEqual((changed,), self.ports.inspect())
        self.ports.restore(saved)
        self.assertEqual(0x1000_0280, register(self.fixed))

    def test_killed(self):
        """Another process restores from the snapshot what a dead one left."""
        child = os.fork()
        if child == 0:
            with self.guard(self.ports).only_writer():
                self.guard(self.ports).protect()
                self.ports.off()
                os._exit(9)
        os.waitpid(child, 0)
        self.assertEqual((NO_SNOOP, ALLOCATING), self.seen())
        keeper = self.guard(RootPorts((), self.host.roots.pci))
        with keeper.only_writer():
            self.assertEqual((), keeper.restore().failed)
        self.assertEqual((ALLOCATING, ALLOCATING), self.seen())

    def test_removed_and_rescanned(self):
        """The kernel lets a port go; its register stays, and is restored after a rescan."""
        keeper = self.guard(self.ports)
        with keeper.only_writer():
            keeper.protect()
            self.ports.off()
            (DEVICES / self.fixed / "remove").write_text("1")
            self.addCleanup(RESCAN.write_text, "1")
            restored = keeper.restore()
            self.assertEqual((), restored.failed)
            away = message("port-not-in-sysfs", port=self.fixed)
            self.assertEqual(away, restored.left[0].values["what"])
            RESCAN.write_text("1")
            self.assertEqual(NO_SNOOP, register(self.fixed))
            self.assertEqual(1, len(keeper.finish().done))
        self.assertEqual((ALLOCATING, ALLOCATING), self.seen())
        self.assertFalse(SNAPSHOT.exists())

    def test_without_the_right(self):
        """The service as shipped is refused before it writes, with what it needs."""

        def check():
            try:
                backends.root_ports(self.host, [self.fixed], [])
            except HardwareError as error:
                return sentence(error)
            return ""

        who = rights.SHIPPED.existing()
        self.assertIn("ends before 0x180; give the agent CAP_SYS_ADMIN", rights.run_as(who, check))
        able = rights.Service(who.user, who.capabilities | {"CAP_SYS_ADMIN"})
        self.assertEqual("", rights.run_as(able, check))
