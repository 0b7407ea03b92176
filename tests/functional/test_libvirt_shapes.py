# SPDX-License-Identifier: Apache-2.0
"""Nova's domains on libvirt's own test driver, behind a private libvirtd."""

import json
import pathlib
import tempfile

import libvirt

from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.inventory.spool import Spool
from iat_nova.model import AttachmentKind, HostFacts
from tests import nova_shapes as shapes
from tests.functional import daemons
from tests.functional.libvirt_case import ONLINE, LibvirtCase

MAC = "fa:16:3e:00:00:0%d"
HOST = HostFacts("h", (), tuple(sorted(ONLINE)))


class ShapesTest(LibvirtCase):
    daemon_type = daemons.TestLibvirtd

    def setUp(self):
        super().setUp()
        self.nova = self.connect()

    def create(self, name, **shape):
        return self.nova.createXML(shapes.domain(name, **shape), 0)

    def test_pinned_guest(self):
        """A pinned guest of Nova 32 shows all that Nova and libvirt know of it."""
        self.create(
            "instance-1",
            meta=shapes.metadata("web", "iat.pc", {"iat:priority": "PC"}),
            tune=shapes.cputune({0: "4", 1: "5"}, "4-5"),
            numatune="<numatune><memory mode='strict' nodeset='0'/></numatune>",
        )
        guest = self.guest("instance-1")
        self.assertEqual(shapes.uuid_of("instance-1"), guest.uuid)
        self.assertEqual(("web", "iat.pc"), (guest.display_name, guest.flavor))
        self.assertEqual({"iat:priority": "PC"}, guest.extra_specs)
        self.assertEqual(shapes.PROJECT, guest.project)
        self.assertEqual(((4, 5), ()), (guest.dedicated_cpus, guest.floating_cpus))
        self.assertEqual(((), (0,)), (guest.emulator_cpus, guest.numa_nodes))
        self.assertEqual((False, ()), (guest.cachetune, guest.warnings))

    def test_every_attachment(self):
        """Each form that Nova writes is found after libvirt has read and written it again."""
        self.create(
            "a",
            devices=[
                shapes.vf(MAC % 1),
                shapes.pci_device("0000:5e:00.0"),
                shapes.macvtap(MAC % 2, "eth9"),
                shapes.vdpa(MAC % 3),
                shapes.vhost_user(MAC % 4, "vhu1"),
                shapes.ethernet(MAC % 5, "tap1"),
                shapes.bridge(MAC % 6, "qbr1", "tap2"),
                shapes.bridge(MAC % 7, "br-int", "tap3", "9" * 8 + "-0000-4000-8000-000000000001"),
            ],
        )
        found = {(item.kind, item.device, item.mac) for item in self.guest("a").attachments}
        kind = AttachmentKind
        expected = {
            (kind.VF, "0000:3b:02.1", MAC % 1),
            (kind.PCI, "0000:5e:00.0", None),
            (kind.MACVTAP, "eth9", MAC % 2),
            (kind.VDPA, "/dev/vhost-vdpa-0", MAC % 3),
            (kind.VHOST_USER, "vhu1", MAC % 4),
            (kind.TAP, "tap1", MAC % 5),
            (kind.TAP, "tap2", MAC % 6),
            (kind.TAP, "tap3", MAC % 7),
        }
        self.assertEqual(expected, found)

    def test_only_what_runs(self):
        """A paused guest is there; a stopped one is not, although it keeps its pins."""
        running = self.nova.defineXML(shapes.domain("a", tune=shapes.cputune({0: "4"})))
        self.assertNotIn("a", self.guests())
        running.create()
        first_run = self.guest("a").run
        running.suspend()
        self.assertEqual(first_run, self.guest("a").run)
        running.destroy()
        self.assertNotIn("a", self.guests())
        running.create()
        self.assertGreater(self.guest("a").run, first_run)

    def test_spool(self):
        """Specs that the metadata do not hold come from the spool; the metadata go before it."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("old", "new"):
            spooled = json.dumps({"extra_specs": {"from": "spool"}})
            (folder / f"{shapes.uuid_of(name)}.json").write_text(spooled)
        (folder / f"{shapes.uuid_of('torn')}.json").write_text("{")
        self.create("old", meta=shapes.metadata("old"))
        self.create("new", meta=shapes.metadata("new", extra_specs={"from": "metadata"}))
        self.create("torn", meta=shapes.metadata("torn"))
        self.create("none", meta=shapes.metadata("none"))
        source = LibvirtSource(self.daemon.uri, CpuSets(), Spool(folder))
        source.start(lambda: None)
        self.addCleanup(source.close)
        guests = {guest.name: guest for guest in source.guests(ONLINE)}
        self.assertEqual({"from": "spool"}, guests["old"].extra_specs)
        self.assertEqual({"from": "metadata"}, guests["new"].extra_specs)
        self.assertIsNone(guests["none"].extra_specs)
        self.assertIsNone(guests["torn"].extra_specs)
        self.assertIn(".json", guests["torn"].warnings[0].values["path"])

    def test_hostile_names(self):
        """Whatever an owner calls an instance arrives as he wrote it."""
        name = "<script>&amp;\"'\u202e\U0001f4a5"
        self.create("a", meta=shapes.metadata(name))
        self.assertEqual(name, self.guest("a").display_name)

    def test_read_only(self):
        """The agent's own connection may not change a guest."""
        domain = self.source._link.connection.lookupByName("test")
        with self.assertRaises(libvirt.libvirtError) as caught:
            domain.destroy()
        self.assertEqual(libvirt.VIR_ERR_OPERATION_DENIED, caught.exception.get_error_code())


class EventsTest(LibvirtCase):
    daemon_type = daemons.TestLibvirtd

    def setUp(self):
        super().setUp()
        self.nova = self.connect()

    def test_guests_come_and_go(self):
        """A start and an end each hint, and are seen by looking again."""
        self.after_hint(
            lambda: self.nova.createXML(shapes.domain("a"), 0), lambda: "a" in self.guests()
        )
        domain = self.nova.lookupByName("a")
        self.after_hint(domain.destroy, lambda: "a" not in self.guests())

    def test_metadata_change(self):
        """Metadata that Nova sets on a running guest, under its other prefix, hint and are read."""
        self.nova.createXML(shapes.domain("a"), 0)
        element = (
            f"<nova:instance xmlns:nova='{shapes.NOVA}'><nova:name>web</nova:name></nova:instance>"
        )
        self.after_hint(
            lambda: self.nova.lookupByName("a").setMetadata(
                libvirt.VIR_DOMAIN_METADATA_ELEMENT, element, "instance", shapes.NOVA, 0
            ),
            lambda: self.guest("a").display_name == "web",
        )

    def test_pinning_change(self):
        """A new pin, of which the test driver gives no hint, is in the next picture."""
        domain = self.nova.createXML(shapes.domain("a", tune=shapes.cputune({0: "4", 1: "5"})), 0)
        self.assertEqual((4, 5), self.guest("a").dedicated_cpus)
        domain.pinVcpu(1, tuple(cpu == 6 for cpu in range(8)))
        self.assertEqual((4, 6), self.guest("a").dedicated_cpus)

    def test_inventory(self):
        """The debounced event of the whole inventory follows a real guest."""
        inventory = Reconciler(
            LibvirtSource(self.daemon.uri, self.cpusets),
            None,
            Pci(),
            lambda: HOST,
            debounce_s=0.01,
            slow_timer_s=3600.0,
        )
        inventory.start()
        self.addCleanup(inventory.close)
        self.assertTrue(inventory.changed.wait(10))
        inventory.facts()
        self.nova.createXML(shapes.domain("a"), 0)
        self.assertTrue(inventory.changed.wait(10))
        self.assertIn("a", [guest.name for guest in inventory.facts().guests])
