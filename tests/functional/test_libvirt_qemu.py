# SPDX-License-Identifier: Apache-2.0
"""A real libvirtd with real QEMU guests, by software emulation and without an image."""

import dataclasses
import os
import pathlib
import socket
import subprocess
import time
import unittest

import libvirt

from iat_nova.inventory import libvirt_host
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.inventory.libvirt_link import LibvirtLink
from tests import nova_shapes as shapes
from tests.functional import daemons
from tests.functional.libvirt_case import DEADLINE_S, LibvirtCase
from tests.said import texts

MAC = "fa:16:3e:00:00:0%d"
TAP = f"iat{os.getpid() % 10_000_000}"  # net devices are the machine's: a name of our own
_CPUS = sorted(os.sched_getaffinity(0))
_CONTROLLERS = (
    "<emulator>/usr/bin/qemu-system-x86_64</emulator>",
    "<controller type='usb' model='qemu-xhci'/>",
    "<controller type='pci' index='0' model='pcie-root'/>",
    *["<controller type='pci' model='pcie-root-port'/>"] * 3,
    "<memballoon model='none'/>",
)


def ip(*words: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *words], check=True, capture_output=True)


def frames_of(name: str) -> int:
    """Count what the kernel saw pass a net device, both ways."""
    folder = pathlib.Path("/sys/class/net") / name / "statistics"
    return sum(int((folder / f"{way}_packets").read_text()) for way in ("rx", "tx"))


@unittest.skipIf(len(_CPUS) < 2, "pins move between two CPUs; this machine has one")
class QemuTest(LibvirtCase):
    """A daemon for each test, and one cache of what QEMU told the first of them."""

    daemon_type = daemons.QemuLibvirtd
    cpusets = CpuSets(frozenset(_CPUS[:2]), frozenset(_CPUS[2:]))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cache = cls.enterClassContext(daemons.short_folder())

    def make_daemon(self):
        return self.daemon_type(self.folder, self.cache)

    def setUp(self):
        super().setUp()
        if not pathlib.Path("/dev/net/tun").exists():
            self.skipTest("/dev/net/tun is absent: QEMU guests get no tap device")
        self.nova = self.connect()
        self.addCleanup(self.end_guests)

    def end_guests(self):
        connection = libvirt.open(self.daemon.uri)  # a test may have lost its own
        for domain in connection.listAllDomains():
            try:
                domain.destroy()
            except libvirt.libvirtError as error:
                # It ended between the list and now, which is what is wanted.
                if error.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise
        connection.close()

    def create(self, name, *devices, tune="", vcpus=1, plugged=None, specs=None):
        """Start a guest that has nothing to run, and leave it paused."""
        xml = shapes.domain(
            name,
            kind="qemu",
            vcpus=vcpus,
            plugged=plugged,
            meta=shapes.metadata(name, extra_specs=specs or {}),
            tune=tune,
            devices=[*_CONTROLLERS, *devices],
            machine="q35",
        )
        return self.nova.createXML(xml, libvirt.VIR_DOMAIN_START_PAUSED)

    def test_a_guest_through_its_life(self):
        """Start, pins, devices, metadata and end of a guest each hint and are seen."""
        first, second = _CPUS[:2]
        tap, hot_tap = f"{TAP}a", f"{TAP}b"
        self.after_hint(
            lambda: self.create(
                "a",
                shapes.ethernet(MAC % 1, tap),
                tune=shapes.cputune({0: str(first)}, str(second)),
                specs={"hw:emulator_threads_policy": "isolate"},
            ),
            lambda: "a" in self.guests(),
        )
        guest = self.guest("a")
        self.assertEqual(((first,), ()), (guest.dedicated_cpus, guest.floating_cpus))
        self.assertEqual((second,), guest.emulator_cpus)
        self.assertEqual((), guest.warnings)

        domain = self.nova.lookupByName("a")
        pin = tuple(cpu == second for cpu in range(second + 1))
        self.after_hint(
            lambda: domain.pinVcpu(0, pin), lambda: self.guest("a").dedicated_cpus == (second,)
        )
        self.after_hint(
            lambda: domain.pinEmulator(tuple(cpu == first for cpu in range(second + 1))),
            lambda: self.guest("a").emulator_cpus == (first,),
        )

        # usb-net leaves at once; a PCI device waits for a guest system to let it go.
        hot = shapes.ethernet(MAC % 2, hot_tap, model="usb-net")
        self.after_hint(lambda: domain.attachDevice(hot), lambda: self.devices() == [tap, hot_tap])
        self.after_hint(lambda: domain.detachDevice(hot), lambda: self.devices() == [tap])

        self.after_hint(
            lambda: domain.setMetadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT,
                "<instance><name>renamed</name></instance>",
                "instance",
                shapes.NOVA,
                libvirt.VIR_DOMAIN_AFFECT_LIVE,
            ),
            lambda: self.guest("a").display_name == "renamed",
        )
        self.hinted.clear()
        domain.reset()
        self.assertTrue(self.hinted.wait(20), "a reset gave no hint")
        self.after_hint(domain.destroy, lambda: "a" not in self.guests())

    def test_hot_plug_of_vcpus(self):
        """A vCPU that is not plugged is nowhere; once plugged the next reading has it."""
        first, second = _CPUS[:2]
        self.create(
            "a",
            vcpus=2,
            plugged=1,
            tune=shapes.cputune({0: str(first), 1: str(second)}),
            specs={"hw:cpu_policy": "dedicated"},
        )
        self.until(lambda: "a" in self.guests())
        guest = self.guest("a")
        self.assertEqual(((first,), ()), (guest.dedicated_cpus, guest.floating_cpus))
        self.assertEqual((), guest.warnings)
        self.nova.lookupByName("a").setVcpusFlags(2, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        self.assertEqual((first, second), self.guest("a").dedicated_cpus)

    def test_libvirt_of_another_host(self):
        """It is refused by its CPUs, with the reason and the remedy; this host's own is not."""
        self.assertEqual((), self.source.warnings)
        here = libvirt_host.this_host()
        other = dataclasses.replace(here, cpus=here.cpus + 1)
        link = LibvirtLink(self.daemon.uri, backoff_s=(60, 60), here=lambda: other)
        source = LibvirtSource(self.daemon.uri, self.cpusets, link=link)
        self.addCleanup(source.close)
        source.start(self.hinted.set)
        self.assertEqual((), source.guests(frozenset(_CPUS)))
        self.assertIn(f"{here.cpus} CPUs there, {other.cpus} here; set", texts(source.warnings)[0])
        self.assertIsNotNone(source.waiting_for)

    def devices(self):
        return [attachment.device for attachment in self.guest("a").attachments]

    def test_packets(self):
        """A macvtap is known by the device below it and counted by its own, and so is a tap."""
        near, far, tap = f"{TAP}n", f"{TAP}f", f"{TAP}c"
        ip("link", "add", near, "type", "veth", "peer", "name", far)
        self.addCleanup(ip, "link", "del", near)
        ip("link", "set", near, "up")
        domain = self.create("a", shapes.macvtap(MAC % 3, far), shapes.ethernet(MAC % 4, tap))
        domain.resume()  # libvirt holds a paused guest's macvtap down
        before = self.packets()
        self.assertEqual({far, tap}, set(before))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
            raw.bind((near, 0))
            for _ in range(50):
                raw.send(b"\xff" * 12 + b"\x88\xb5" + bytes(50))
        deadline = time.monotonic() + DEADLINE_S
        while self.packets()[far] < before[far] + 50:
            self.assertLess(time.monotonic(), deadline, "the packets were not counted")
        self.assertLessEqual(self.packets()[tap], frames_of(tap))

    def packets(self):
        return {item.device: item.packets for item in self.guest("a").attachments}

    def test_libvirtd_restarts_under_running_guests(self):
        """Guests outlive libvirtd; so do their identities."""
        self.create("a", tune=shapes.cputune({0: str(_CPUS[0])}))
        before = self.guest("a")
        self.after_hint(self.daemon.kill, lambda: bool(self.guests() and self.source.warnings))
        self.assertEqual(before.dedicated_cpus, self.guest("a").dedicated_cpus)
        self.after_hint(self.daemon.start, lambda: bool(self.guests()) and not self.source.warnings)
        self.assertEqual(before, self.guest("a"))


class VirtqemudTest(QemuTest):
    """The same guests under the modular daemon."""

    daemon_type = daemons.Virtqemud
