# SPDX-License-Identifier: Apache-2.0
import tracemalloc
import unittest

from iat_nova.inventory import domain_xml
from iat_nova.inventory.attachments import XmlDevice
from iat_nova.model import Attachment, AttachmentKind, DeviceModel, message
from tests import nova_shapes as shapes

MAC = "fa:16:3e:00:00:01"


def read(xml):
    return domain_xml.parse(xml, uuid="u", name="n", run=1)


def read_device(element):
    (device,) = read(shapes.domain("a", run=1, devices=[element])).devices
    return device


class PlacementTest(unittest.TestCase):
    def test_pins_and_sets(self):
        """Pins, emulator, I/O threads and NUMA nodes are read as sets."""
        found = read(
            shapes.domain(
                "a",
                run=7,
                vcpus=4,
                cpuset="0-3",
                tune=shapes.cputune(
                    {0: "5", 1: "6-7"}, "0-1", "<iothreadpin iothread='1' cpuset='1-2'/>"
                ),
                numatune="<numatune><memory mode='strict' nodeset='0-1'/>"
                "<memnode cellid='0' mode='strict' nodeset='1'/></numatune>",
            )
        )
        self.assertEqual((7, 4), (found.run, found.vcpus))
        self.assertEqual({0: {5}, 1: {6, 7}}, found.pins)
        self.assertEqual({0, 1, 2, 3}, found.cpuset)
        self.assertEqual({0, 1, 2}, found.emulator_cpus)
        self.assertEqual({1}, found.numa_nodes)

    def test_memory_of_pins(self):
        """Pins of absent vCPUs are skipped, the others share one set."""
        for vcpus in (1, 16384):
            pins = {vcpu: f"{vcpu % 7}-{4095 - vcpu}" for vcpu in range(40)}
            xml = shapes.domain("a", run=1, vcpus=vcpus, tune=shapes.cputune(pins))
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            found = read(xml)
            self.assertLess(tracemalloc.get_traced_memory()[1], 4 << 20)
            self.assertEqual(min(vcpus, len(pins)), len(found.pins))
            self.assertEqual(1, len(set(map(id, found.pins.values()))))

    def test_who_places_the_vcpus(self):
        """numad, where the vCPUs or, unless these say otherwise, the memory is placed so."""
        memory = "<numatune><memory mode='strict' placement='auto'/></numatune>"
        for xml, by_numad, cpuset in (
            (f"<vcpu placement='auto'>2</vcpu>{memory}", True, None),
            ("<vcpu placement='auto' cpuset='0-1'>2</vcpu>", True, None),
            (f"<vcpu>2</vcpu>{memory}", True, None),
            (f"<vcpu placement='static' cpuset='0-1'>2</vcpu>{memory}", False, {0, 1}),
            ("<vcpu placement='static'>2</vcpu>", False, None),
        ):
            found = read(f"<domain id='1'>{xml}</domain>")
            self.assertEqual((by_numad, cpuset), (found.by_numad, found.cpuset), xml)

    def test_vcpus_not_plugged(self):
        """Each form of libvirt's says which vCPUs are there, and a slip says that all are."""
        listed = (
            "<vcpus><vcpu id='0' enabled='yes' hotpluggable='no' order='1'/>"
            "<vcpu id='1' enabled='no' hotpluggable='yes'/>"
            "<vcpu id='2' enabled='yes' hotpluggable='yes' order='2'/></vcpus>"
        )
        cases = {
            "<vcpu>3</vcpu>": {0, 1, 2},
            "<vcpu current='3'>3</vcpu>": {0, 1, 2},
            "<vcpu placement='static' current='1'>3</vcpu>": {0},
            f"<vcpu current='2'>3</vcpu>{listed}": {0, 2},
            f"<vcpu>3</vcpu>{listed.replace('no', 'yes')}": {0, 1, 2},
            # A slip names a vCPU that the guest has not; a vCPU without a state is plugged.
            "<vcpu>1</vcpu><vcpus><vcpu id='1' enabled='no'/><vcpu id='2' enabled='no'/>"
            "<vcpu id='x' enabled='no'/></vcpus>": {0},
            "<vcpu>2</vcpu><vcpus><vcpu id='0'/><vcpu id='1' enabled='maybe'/></vcpus>": {0, 1},
            "": set(),
        }
        for xml, expected in cases.items():
            with self.subTest(xml):
                found = read(f"<domain id='1'>{xml}</domain>")
                self.assertEqual(expected, found.plugged)
        for current in ("4", "x"):
            found = read(f"<domain id='1'><vcpu current='{current}'>3</vcpu></domain>")
            self.assertEqual({0, 1, 2}, found.plugged)
            told = {one.values.get("part") for one in found.warnings}
            self.assertIn("vcpu current", told)

    def test_memory_nodeset_without_cells(self):
        """A guest without cells has the nodes of its memory."""
        numatune = "<numatune><memory mode='strict' nodeset='1'/></numatune>"
        self.assertEqual({1}, read(shapes.domain("a", run=1, numatune=numatune)).numa_nodes)

    def test_stopped(self):
        """A domain without an id does not run, whatever was said beside the XML."""
        self.assertIsNone(read(shapes.domain("a")).run)

    def test_run(self):
        """An id is a C integer of libvirt's; any other number is none, and named."""
        most = 2147483647
        self.assertEqual(most, read(shapes.domain("a", run=most)).run)
        found = read(shapes.domain("a", run=most + 1))
        self.assertIsNone(found.run)
        self.assertIn("domain id", [one.values.get("part") for one in found.warnings])

    def test_cachetune(self):
        """Cache or bandwidth allocated by libvirt counts, monitoring alone does not."""
        cases = {
            "<cachetune vcpus='0'><cache id='0' level='3' type='both' size='1' unit='MiB'/>"
            "</cachetune>": True,
            "<memorytune vcpus='0'><node id='0' bandwidth='50'/></memorytune>": True,
            "<cachetune vcpus='0'><monitor level='3' vcpus='0'/></cachetune>": False,
            "": False,
        }
        for tune, expected in cases.items():
            with self.subTest(tune):
                xml = shapes.domain("a", run=1, tune=shapes.cputune({}, more=tune))
                self.assertIs(expected, read(xml).cachetune)

    def test_unreadable_xml(self):
        """XML that cannot be read leaves a domain that says so, with the id known beside it."""
        found = read("<domain id='1'><na")
        self.assertEqual(1, found.run)
        self.assertEqual("domain-xml-unreadable", found.warnings[0].code)
        self.assertEqual((0, frozenset(), False), (found.vcpus, found.plugged, found.cachetune))

    def test_unreadable_values(self):
        """Each value that is not understood is left out, and named."""
        found = read(
            shapes.domain("a", run="two", cpuset="zero", tune=shapes.cputune({0: "1", 1: "all"}))
        )
        self.assertEqual({0: {1}, 1: set()}, found.pins)
        self.assertEqual((None, set()), (found.run, found.cpuset))
        told = str([one.values for one in found.warnings])
        for part in ("zero", "all", "two"):
            self.assertIn(part, told)

    def test_numbers_beyond_all_measure(self):
        """A count of vCPUs that no guest can have does not eat the memory; texts stay short."""
        found = read(shapes.domain("a", run=1, vcpus="4294967295"))
        self.assertEqual(0, found.vcpus)
        told = message(
            "domain-number-invalid", part="number of vCPUs", found="4294967295", most=16384
        )
        self.assertEqual(told, found.warnings[1])
        found = read(shapes.domain("a", run=1, cpuset="9" * 5000, vcpus="9" * 5000))
        self.assertEqual((0, set()), (found.vcpus, found.cpuset))
        self.assertLess(max(len(str(one.values)) for one in found.warnings), 300)


class MetadataTest(unittest.TestCase):
    def test_nova(self):
        """Nova's metadata and its warnings come with the guest's."""
        meta = shapes.metadata("web", "")
        found = read(shapes.domain("a", run=1, meta=meta))
        self.assertEqual("web", found.nova.name)
        self.assertIn(message("nova-metadata-without", part="flavor"), found.warnings)

    def test_none(self):
        """A guest that Nova did not start has no metadata and says so."""
        found = read(shapes.domain("a", run=1))
        self.assertIsNone(found.nova)
        self.assertEqual(message("nova-metadata-absent"), found.warnings[0])


class AttachmentTest(unittest.TestCase):
    def test_forms(self):
        """Each form gives its kind, its name and the host's device that counts packets."""
        kind = AttachmentKind
        cases = [
            (shapes.vf(MAC), XmlDevice(Attachment(kind.VF, "0000:3b:02.1", MAC))),
            (shapes.pci_device(), XmlDevice(Attachment(kind.PCI, "0000:5e:00.0"))),
            (shapes.macvtap(MAC), XmlDevice(Attachment(kind.MACVTAP, "eth9", MAC))),
            (shapes.vdpa(MAC), XmlDevice(Attachment(kind.VDPA, "/dev/vhost-vdpa-0", MAC))),
            (
                shapes.vhost_user(MAC, "vhu1"),
                XmlDevice(Attachment(kind.VHOST_USER, "vhu1", MAC, vhost_path="/run/vhu/vhu1")),
            ),
            (
                "<interface type='vhostuser'><source path='/run/a.sock'/></interface>",
                XmlDevice(Attachment(kind.VHOST_USER, "a.sock", vhost_path="/run/a.sock")),
            ),
            (
                shapes.ethernet(MAC, "tap1"),
                XmlDevice(Attachment(kind.TAP, "tap1", MAC), target="tap1"),
            ),
            (
                shapes.bridge(MAC, "qbr1", "tap1"),
                XmlDevice(Attachment(kind.TAP, "tap1", MAC, bridge="qbr1"), target="tap1"),
            ),
            (
                shapes.bridge(MAC, "br-int", "tap1", "port-1"),
                XmlDevice(
                    Attachment(kind.TAP, "tap1", MAC, port="port-1", bridge="br-int"),
                    target="tap1",
                ),
            ),
            (
                f"<interface type='network'><mac address='{MAC.upper()}'/>"
                "<source network='default' bridge='virbr0'/><target dev='vnet0'/></interface>",
                XmlDevice(Attachment(kind.TAP, "vnet0", MAC, bridge="virbr0"), target="vnet0"),
            ),
        ]
        for element, expected in cases:
            with self.subTest(element):
                self.assertEqual(expected, read_device(element))

    def test_macvtap_counts_on_its_target(self):
        """A macvtap is named by the device below it and counted by its own."""
        element = shapes.macvtap(MAC).replace(
            "</interface>", "<target dev='macvtap0'/></interface>"
        )
        device = read_device(element)
        self.assertEqual(("eth9", "macvtap0"), (device.attachment.device, device.target))

    def test_macvtap_that_shares_its_device(self):
        """Only passthrough gives a guest the device; in the other modes the kernel switches."""
        for mode in (" mode='bridge'", " mode='vepa'", " mode='private'", ""):
            element = shapes.macvtap(MAC).replace(" mode='passthrough'", mode)
            attachment = read_device(element).attachment
            self.assertEqual(AttachmentKind.MACVTAP, attachment.kind)
            self.assertIs(DeviceModel.NONE, attachment.model)
        self.assertIs(DeviceModel.SLICING, read_device(shapes.macvtap(MAC)).attachment.model)

    def test_storage_of_other_threads(self):
        """It is named, and a warning says that these threads are not managed."""
        nvme = (
            shapes.pci_device("0000:01:00.0").replace("hostdev", "disk").replace("'pci'", "'nvme'")
        )
        argument = "<q:commandline xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><q:arg"
        for element, kind, device in (
            ("<disk type='vhostuser'><source path='/s'/></disk>", AttachmentKind.TARGET, "/s"),
            ("<hostdev type='scsi_host'><source protocol='vhost' wwpn='naa.5'/></hostdev>",
             AttachmentKind.TARGET, "naa.5"),
            ("<filesystem type='mount'><source socket='/f'/></filesystem>",
             AttachmentKind.TARGET, "/f"),
            (nvme, AttachmentKind.PCI, "0000:01:00.0"),
            (f"</devices>{argument} value='vhost-user-blk-pci,id=a'/></q:commandline><devices>",
             AttachmentKind.TARGET, "vhost-user-blk"),
        ):  # fmt: skip
            with self.subTest(element):
                found = read(shapes.domain("a", run=1, devices=[element]))
                self.assertEqual([Attachment(kind, device)], [d.attachment for d in found.devices])
                self.assertIs(DeviceModel.NONE, found.devices[0].attachment.model)
                expected = message("storage-threads-unmanaged", device=device)
                self.assertEqual(expected, found.warnings[-1])
        vdpa = "<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-0'/></disk>"
        self.assertIs(AttachmentKind.VDPA, read_device(vdpa).attachment.kind)
        for element in (
            "<disk type='file'><source file='/x'/></disk>",
            "<filesystem type='mount'><source dir='/x'/></filesystem>",
            "<hostdev type='scsi_host'><source protocol='iscsi'/></hostdev>",
        ):
            self.assertEqual((), read(shapes.domain("a", run=1, devices=[element])).devices)

    def test_not_pci(self):
        """Devices that reach no LLC by DDIO are no attachments, and nothing to warn of."""
        for kind in ("usb", "mdev"):
            element = shapes.pci_device().replace("type='pci'", f"type='{kind}'")
            found = read(shapes.domain("a", run=1, devices=[element]))
            self.assertEqual((), found.devices)
            self.assertNotIn("device-unwatched", [one.code for one in found.warnings])

    def test_malformed(self):
        """A device that cannot be named is left out with a warning; the others stay."""
        broken = [
            "<interface type='hostdev'/>",
            "<interface type='hostdev'><source><address bus='q' slot='1'/></source></interface>",
            "<interface type='direct'/>",
            "<interface type='vdpa'><source/></interface>",
            "<interface type='vhostuser'/>",
            "<interface type='bridge'/>",
            "<interface type='teleport'/>",
            "<interface/>",
            "<disk type='nvme'/>",
            "<disk type='vhostuser'/>",
        ]
        for element in broken:
            with self.subTest(element):
                xml = shapes.domain("a", run=1, devices=[element, shapes.vf(MAC)])
                found = read(xml)
                self.assertEqual(1, len(found.devices))
                self.assertEqual("device-unwatched", found.warnings[-1].code)
