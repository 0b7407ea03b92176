# SPDX-License-Identifier: Apache-2.0
import errno
import json
import os
import shutil
import struct
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.agent import sources, wiring
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters import events
from iat_nova.hardware.ddio.rootport import PERFCTRLSTS_0, RootPorts
from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile
from iat_nova.model import CacheDomain, DcaPort, DomainInventory, Layout, WayMask, message
from tests.proofs import proves
from tests.said import raises
from tests.unit.hardware import trees
from tests.unit.hardware.enforcement import test_restore

PORT, OTHER = "0000:3a:00.0", "0000:3a:02.0"
DISK, BRIDGE, BELOW = "0000:3b:00.0", "0000:3c:00.0", "0000:3d:00.0"
FOUND = 0x00C1_0280  # allocating flow on, and bits that are not ours


def config_space(kind=4, vendor=0x8086, length=4096):
    """Configuration space of a bridge with power management and PCI Express capabilities."""
    space = bytearray(4096)
    struct.pack_into("<H", space, 0, vendor)
    space[0x34] = 0x40
    space[0x40:0x42] = bytes((0x01, 0x90))
    space[0x90:0x94] = bytes((0x10, 0x00, kind << 4 | 2, 0))
    struct.pack_into("<I", space, PERFCTRLSTS_0, FOUND)
    return bytes(space[:length])


class Tree:
    """A folder like ``/sys/bus/pci/devices``."""

    def __init__(self, root):
        self.root = root

    def add(self, port, **options):
        (self.root / port).mkdir(parents=True, exist_ok=True)
        (self.root / port / "config").write_bytes(config_space(**options))

    def register(self, port):
        data = (self.root / port / "config").read_bytes()
        return struct.unpack_from("<I", data, PERFCTRLSTS_0)[0]


@proves("root ports", on=(events.SKYLAKE.name,))
class Ports(unittest.TestCase):
    """perfctrlsts_0 in a tree of configuration spaces."""

    def setUp(self):
        self.tree = Tree(trees.folder(self))
        self.tree.add(PORT)
        self.tree.add(OTHER)
        self.ports = RootPorts([PORT], self.tree.root)

    def test_off_and_back(self):
        """Two bits of the named port change, and come back; nothing else is touched."""
        before = {port: (self.tree.root / port / "config").read_bytes() for port in (PORT, OTHER)}
        self.ports.check()
        saved = json.loads(json.dumps(self.ports.save()))
        self.ports.off()
        self.assertEqual(FOUND & ~0x80 | 0x08, self.tree.register(PORT))
        other_process = RootPorts((), self.tree.root)
        self.assertEqual(1, len(other_process.restore(saved)))
        self.assertEqual((), other_process.restore(saved))
        after = {port: (self.tree.root / port / "config").read_bytes() for port in (PORT, OTHER)}
        self.assertEqual(before, after)

    def test_removed_and_rescanned(self):
        """The register stays, out of reach: the port is put back when it is there again."""
        ports = RootPorts([PORT, OTHER], self.tree.root)
        saved = ports.save()
        ports.off()
        away = self.tree.root / "removed"
        (self.tree.root / PORT).rename(away)
        reach = ports.reachable(saved)
        self.assertEqual(({OTHER: 0x80}, {PORT: 0x80}), (reach.now, reach.later))
        self.assertEqual((message("port-not-in-sysfs", port=PORT),), reach.places)
        self.assertEqual(1, len(ports.restore(reach.now)))
        with raises(self, HardwareError, f"{PORT}/config: No such file"):
            ports.restore(saved)  # it went this very moment
        away.rename(self.tree.root / PORT)
        self.assertIsNone(ports.reachable(reach.later).later)
        self.assertEqual(1, len(ports.restore(reach.later)))
        self.assertEqual(FOUND, self.tree.register(PORT))

    def test_a_device_that_is_no_root_port(self):
        """A snapshot that names it is refused: nothing is written there."""
        for options in ({"kind": 0}, {"vendor": 0x15B3}):
            self.tree.add(DISK, **options)
            with raises(self, HardwareError, "but this device is not a root port"):
                self.ports.restore({DISK: 0x08})
            self.assertEqual(FOUND, self.tree.register(DISK))

    def test_off_is_not_fought_over(self):
        """What another hand switched on again stays on until a restore."""
        self.ports.off()
        self.tree.add(PORT)
        self.ports.off()
        self.assertEqual(FOUND, self.tree.register(PORT))

    def test_a_port_that_refuses(self):
        """The others are put back all the same."""
        ports = RootPorts([PORT, OTHER], self.tree.root)
        saved = ports.save()
        ports.off()
        written = os.pwrite
        outcomes = [PermissionError(errno.EPERM, "Operation not permitted"), written]

        def refuse_once(*arguments):
            outcome = outcomes.pop(0)
            if isinstance(outcome, OSError):
                raise outcome
            return outcome(*arguments)

        with (
            mock.patch("os.pwrite", refuse_once),
            raises(self, HardwareError, f"{PORT}/config: write: Operation not permitted"),
        ):
            ports.restore(saved)
        self.assertEqual(FOUND, self.tree.register(OTHER))

    def test_another_hand(self):
        """What another hand switched on again is told, while it is off by us and plugged in."""
        self.assertEqual((), self.ports.inspect())
        saved = self.ports.save()
        self.ports.off()
        self.assertEqual((), self.ports.inspect())
        self.tree.add(PORT)
        (told,) = self.ports.inspect()
        self.assertEqual(message("port-bits-changed", port=PORT, left=0x8, bits=0x80), told)
        self.ports.restore(saved)
        self.assertEqual((), self.ports.inspect())
        self.ports.off()
        shutil.rmtree(self.tree.root / PORT)
        self.assertEqual((), self.ports.inspect())

    def test_without_the_right(self):
        """The kernel shows 64 bytes only: the capability is named."""
        self.tree.add(PORT, length=64)
        for call in (self.ports.check, self.ports.save, self.ports.off):
            with raises(self, HardwareError, "config: .*CAP_SYS_ADMIN"):
                call()

    def test_in_the_units_sandbox(self):
        """ProtectKernelTunables has /sys read-only: what lifts that is named."""
        opened = os.open

        def read_only(path, flags, *more):
            if flags & os.O_WRONLY:
                raise OSError(errno.EROFS, "Read-only file system")
            return opened(path, flags, *more)

        with (
            mock.patch("os.open", read_only),
            raises(self, HardwareError, "Read-only.*ProtectKernelTunables=no"),
        ):
            self.ports.off()

    def test_no_root_port(self):
        """An end point, another maker's port and an address that is not there are refused."""
        self.tree.add(PORT, kind=0)
        with raises(self, HardwareError, "not a PCIe root port"):
            self.ports.check()
        self.tree.add(PORT, vendor=0x1022)
        with raises(self, HardwareError, "not a PCIe root port"):
            self.ports.check()
        with raises(self, HardwareError, "0000:ff:00.0/config: No such file"):
            RootPorts(["0000:ff:00.0"], self.tree.root).check()

    def test_a_port_that_does_not_take_it(self):
        """Read back, and told."""
        with (
            mock.patch("os.pwrite"),
            raises(self, HardwareError, "does not keep the value.*dca_off_ports"),
        ):
            self.ports.off()


class Switched(unittest.TestCase):
    """Ports that a strategy may switch."""

    def setUp(self):
        self.tree = Tree(trees.folder(self))
        for port, cpus in ((PORT, "0-3"), (OTHER, "4-7")):
            self.tree.add(port)
            (self.tree.root / port / "local_cpulist").write_text(cpus + "\n")
        for path in (f"{PORT}/{DISK}", f"{PORT}/{DISK}/nvme", f"{PORT}/{BRIDGE}/{BELOW}"):
            (self.tree.root / path).mkdir(parents=True)
        self.ports = RootPorts((), self.tree.root, (PORT, OTHER, "0000:99:00.0"))

    def assigned(self):
        domains = tuple(CacheDomain(n, tuple(range(4 * n, 4 * n + 4)), 11, 16) for n in (0, 1))
        return [one.dca_ports for one in self.ports.assign(domains)]

    def test_each_belongs_to_the_domain_it_is_local_to(self):
        """With all that lies below it; what is not plugged in belongs to none."""
        first = DcaPort(PORT, tuple(sorted((DISK, BRIDGE, BELOW))))
        self.assertEqual([(first,), (DcaPort(OTHER, ()),)], self.assigned())

    def test_a_port_of_a_socket_that_is_offline(self):
        """The kernel names no local CPU then: the NUMA node decides, not the first domain."""
        for port, node in ((PORT, 0), (OTHER, 1)):
            (self.tree.root / port / "numa_node").write_text(f"{node}\n")
        (self.tree.root / OTHER / "local_cpulist").write_text("\n")
        domains = [
            CacheDomain(n, tuple(range(4 * n, 4 * n + 4)), 11, 16, numa_nodes=(n,)) for n in (0, 1)
        ]
        seen = [[port.address for port in d.dca_ports] for d in self.ports.assign(domains)]
        self.assertEqual([[PORT], [OTHER]], seen)
        (first,) = self.ports.assign(domains[:1])
        self.assertEqual([PORT], [port.address for port in first.dca_ports])

    def test_off_and_as_it_was_found(self):
        """Only ports of that domain are written, and only when something changes."""
        self.assigned()
        saved = self.ports.save()
        self.ports.switch(0, [PORT])
        self.assertEqual(FOUND & ~0x88 | 0x08, self.tree.register(PORT))
        self.assertEqual(FOUND, self.tree.register(OTHER))
        self.assertEqual((), self.ports.inspect())
        self.ports.switch(0, [])
        self.assertEqual(FOUND, self.tree.register(PORT))
        self.ports.switch(0, [PORT])
        self.tree.add(PORT)
        self.assertEqual(1, len(self.ports.inspect()))
        self.ports.restore(saved)
        self.assertEqual((FOUND, ()), (self.tree.register(PORT), self.ports.inspect()))

    def test_a_port_that_was_off_already(self):
        """It is not the agent's: DDIO that an operator switches on there is seen."""
        RootPorts([PORT], self.tree.root).off()
        off = self.tree.register(PORT)
        self.assigned()
        saved = self.ports.save()
        self.ports.switch(0, [PORT])
        self.assertIsNone(self.ports.written(saved))
        self.tree.add(PORT)
        saved = self.ports.save()
        self.ports.switch(0, [PORT])
        self.assertEqual(off, self.tree.register(PORT))
        self.assertEqual({PORT}, self.ports.written(saved).keys())
        self.ports.switch(0, [])
        self.assertEqual(FOUND, self.tree.register(PORT))

    def test_one_that_came_after_the_snapshot_is_left_alone(self):
        """Nobody could restore it."""
        self.assigned()
        self.ports.switch(0, [PORT])
        self.assertEqual(FOUND, self.tree.register(PORT))


class Wired(test_restore.MachineCase):
    """The option, the snapshot, and the CPUs that have the register."""

    def setUp(self):
        super().setUp()
        self.pci = Tree(self.roots.pci)
        self.pci.add(PORT)

    def test_off_with_the_first_layout_and_back_at_the_end(self):
        """Not before the snapshot; again after the agent had to yield in between."""
        owned = self.owned(port_dca=True, dca_off_ports=(PORT,))
        domain = owned.machine.allocator.domains()[0]
        enforcer = wiring.enforcer(owned)
        with owned.held():
            self.assertEqual(FOUND, self.pci.register(PORT))
            for _ in range(2):
                enforcer.apply(DomainInventory(domain, ()), Layout(WayMask(0x600), ()))
                self.assertNotEqual(FOUND, self.pci.register(PORT))
                self.assertEqual((), owned.machine.inspect())
                self.pci.add(PORT)
                self.assertEqual(1, len(owned.machine.inspect()))
                enforcer.restore()
                self.assertEqual(FOUND, self.pci.register(PORT))
            enforcer.apply(DomainInventory(domain, ()), Layout(WayMask(0x600), ()))
        self.assertEqual(FOUND, self.pci.register(PORT))

    def test_a_layout_switches(self):
        """What the strategy chose lies on the port, with the snapshot on disk, until the end."""
        (self.pci.root / PORT / "local_cpulist").write_text("0-3\n")
        owned = self.owned(port_dca=True, dca_ports=(PORT,))
        read = sources.host_reader(self.settings(), owned.machine, owned.finish)
        (domain, *_) = read().domains
        self.assertEqual((DcaPort(PORT, ()),), domain.dca_ports)
        enforcer = wiring.enforcer(owned)
        with owned.held():
            enforcer.apply(DomainInventory(domain, ()), Layout(WayMask(0x600), ()))
            self.assertEqual(FOUND, self.pci.register(PORT))
            off = Layout(WayMask(0x600), (), dca_off=(PORT,))
            enforcer.apply(DomainInventory(domain, ()), off)
            self.assertEqual(FOUND & ~0x88 | 0x08, self.pci.register(PORT))
        self.assertEqual(FOUND, self.pci.register(PORT))

    def test_a_port_that_the_agent_never_switched(self):
        """An operator's change stays; the other port is as found."""
        self.pci.add(OTHER)
        for port in (PORT, OTHER):
            (self.pci.root / port / "local_cpulist").write_text("0-3\n")
        owned = self.owned(port_dca=True, dca_ports=(PORT, OTHER))
        (domain, *_) = sources.host_reader(self.settings(), owned.machine, owned.finish)().domains
        enforcer = wiring.enforcer(owned)
        changed = FOUND & ~0x88 | 0x08
        with owned.held():
            off = Layout(WayMask(0x600), (), dca_off=(PORT,))
            enforcer.apply(DomainInventory(domain, ()), off)
            RootPorts([OTHER], self.roots.pci).off()
            enforcer.apply(DomainInventory(domain, ()), Layout(WayMask(0x600), ()))
            self.assertEqual((FOUND, changed), (self.pci.register(PORT), self.pci.register(OTHER)))
        self.assertEqual((FOUND, changed), (self.pci.register(PORT), self.pci.register(OTHER)))

    def test_restored_after_a_crash(self):
        """Also by a configuration that knows nothing of ports."""
        owned = self.owned(port_dca=True, dca_off_ports=(PORT,))
        owned.snapshot.protect()
        RootPorts([PORT], self.roots.pci).off()
        self.assertEqual(0, self.run_it("restore")[0])
        self.assertEqual(FOUND, self.pci.register(PORT))

    def test_a_forged_snapshot(self):
        """Other devices, bits, CPUs and paths are refused, and nothing is written."""
        device = "0000:3b:00.0"
        self.pci.add(device, kind=0)
        self.pci.add("0000:3c:00.0", vendor=0x15B3)
        for saved, why in (
            ({device: 8}, f"{device}: .*is not a root port; nothing was written"),
            ({"0000:3c:00.0": 8}, "is not a root port"),
            ({PORT: 0x7F}, "expected one of 0, 8, 128, 136, found 127"),
            ({PORT: True}, "expected one of"),
            ({f"../{PORT}": 8}, "expected a PCI address"),
            ({f"{PORT}/": 8}, "expected a PCI address"),
        ):
            self.forge({"port dca": saved})
            self.check_refused(why)
        self.forge({"port dca": {PORT: 8}})
        self.be("ice lake")
        self.check_refused("port dca: no such part here")

    def test_forged_registers(self):
        """A part of the snapshot has the registers of that part alone."""
        for saved in ([[0, 0x186, 1]], {"0": [0x186, 1]}, {"\u0663": "600"}, {"00": "600"}):
            self.forge({"ddio msr": saved})
            self.check_refused("expected|not of type")

    def forge(self, parts):
        """Write a snapshot of this boot, with the checksum of its content."""
        SnapshotFile(self.settings().snapshot_path, {}).write(parts)

    def check_refused(self, why):
        before = {one: one.read_bytes() for one in self.roots.pci.glob("*/config")}
        registers = dict(self.msr.values)
        status, _, said = self.run_it("restore")
        self.assertNotEqual(0, status)
        self.assertRegex(said, why)
        self.assertEqual(before, {one: one.read_bytes() for one in before})
        self.assertEqual(registers, self.msr.values)

    def test_processors_without_it(self):
        """Only Skylake and Cascade Lake have the register."""
        self.be("ice lake")
        with raises(self, HardwareError, "port_dca: .*Skylake"):
            self.owned(port_dca=True)

    def test_options(self):
        """Ports without the switch, and words that are no address, are mistakes."""
        for text, wrong in (
            (f"dca_off_ports = {PORT}", "needs .*port_dca"),
            ("port_dca = true\ndca_off_ports = eth0", "invalid PCI address 'eth0'"),
            (f"dca_ports = {PORT}", "dca_ports needs .*port_dca"),
            (
                f"port_dca = true\ndca_ports = {PORT}\ndca_off_ports = {PORT}",
                "is in dca_off_ports, too",
            ),
        ):
            self.config.write_text(f"[iat]\n{text}\n")
            with raises(self, conf.ConfigError, wrong):
                conf.load([self.config])
        self.config.write_text(f"[iat]\nport_dca = true\ndca_off_ports = {PORT}, {OTHER}\n")
        self.assertEqual((PORT, OTHER), conf.load([self.config]).dca_off_ports)
