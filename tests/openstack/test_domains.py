# SPDX-License-Identifier: Apache-2.0
"""Domains in Nova's own XML, defined in a real libvirt, read and classified by the agent."""

import threading
import unittest
import uuid

import libvirt

from iat_nova import policy
from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.inventory.libvirt_link import LibvirtLink
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.model import (
    AttachmentKind,
    CacheDomain,
    DeviceModel,
    Facts,
    HostFacts,
    Priority,
    Tenant,
    message,
)
from tests.functional import daemons
from tests.openstack.nova_venv import NovaCase

CPUS = tuple(range(16))
HOST = HostFacts("host", (CacheDomain(0, CPUS, ways=11, classes=16),), CPUS)
# As in nova.conf: [compute] cpu_dedicated_set = 4-15, cpu_shared_set = 0-3.
CPUSETS = CpuSets.parse("4-15", "0-3")
PC = {"iat:priority": "PC", "hw:cpu_policy": "dedicated"}

ATTACHMENTS = {
    "ethernet": (AttachmentKind.TAP, DeviceModel.NONE, False),
    "hybrid": (AttachmentKind.TAP, DeviceModel.NONE, False),
    "vhostuser": (AttachmentKind.VHOST_USER, DeviceModel.AGGREGATION, True),
    "vf": (AttachmentKind.VF, DeviceModel.SLICING, True),
    "macvtap": (AttachmentKind.MACVTAP, DeviceModel.SLICING, True),
    "vdpa": (AttachmentKind.VDPA, DeviceModel.SLICING, True),
}


def shape(name, vcpus=1, extra_specs=None, **more):
    return {
        "name": name,
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        "flavor": f"flavor.{name}",
        "vcpus": vcpus,
        "extra_specs": extra_specs,
        **more,
    }


def pinned(name, *cpus, extra_specs=PC, **more):
    return shape(
        name, len(cpus), extra_specs, pins={vcpu: [cpu] for vcpu, cpu in enumerate(cpus)},
        emulator=list(cpus), cell=0, **more,
    )  # fmt: skip


class DomainsTest(NovaCase):
    """Each test boots guests in a private libvirtd (test driver) and looks at their tenants."""

    @classmethod
    def setUpClass(cls):
        reason = daemons.TestLibvirtd.missing()
        if reason is not None:
            raise unittest.SkipTest(reason)
        super().setUpClass()

    def setUp(self):
        self.daemon = daemons.TestLibvirtd(self.enterContext(daemons.short_folder()))
        self.daemon.start()
        self.addCleanup(self.daemon.kill)
        self.nova = libvirt.open(self.daemon.uri)
        self.addCleanup(self.nova.close)
        self.nova.lookupByName("test").destroy()  # libvirt's own
        link = LibvirtLink(self.daemon.uri, backoff_s=(0.05, 0.2))
        self.source = LibvirtSource(self.daemon.uri, CPUSETS, link=link)
        self.source.start(threading.Event().set)
        self.addCleanup(self.source.close)

    def boot(self, *guests) -> dict[str, Tenant]:
        """Boot guests and return the tenants the default policy makes of them, by name."""
        for xml in self.run_in_nova("domains.py", guests=guests).values():
            self.nova.createXML(xml, 0)
        self.guests = {guest.name: guest for guest in self.source.guests(frozenset(CPUS))}
        self.assertEqual({guest["name"] for guest in guests}, set(self.guests))
        picture = Facts(HOST, tuple(self.guests.values()), None)
        classified = policy.default(HOST).classify(picture, {})
        self.warnings = classified.warnings
        return {tenant.name: tenant for tenant in classified.domains[0].tenants}

    def test_metadata(self):
        """Flavor, owner and extra specs are those of Nova; unknown and none are two things."""
        tenants = self.boot(
            pinned("new", 4, extra_specs={**PC, "iat:llc_ways": "3", "iat:io": "true"}),
            pinned("none", 5, extra_specs={}),
            pinned("old", 6, extra_specs=None),
        )
        new, none, old = (tenants[f"vm-{name}"] for name in ("new", "none", "old"))
        self.assertEqual((Priority.PC, True, 3), (new.priority, new.io, new.ways.min))
        self.assertEqual("flavor.new", new.flavor)
        self.assertEqual("6f70656e737461636b206e6f766100aa", new.project)
        self.assertEqual((Priority.BE, ()), (none.priority, none.warnings))
        self.assertEqual(Priority.BE, old.priority)
        self.assertEqual([message("extra-specs-unknown", flavor="flavor.old")], [*old.warnings])

    def test_dedicated(self):
        """All vCPUs of a dedicated guest are its own."""
        tenant = self.boot(pinned("one", 4, 7))["vm-one"]
        self.assertEqual((4, 7), tenant.cpus)
        self.assertEqual((), tenant.warnings)

    def test_dedicated_by_the_image(self):
        """The image alone may ask for dedicated CPUs."""
        guest = pinned("one", 4, extra_specs={}, image_properties={"hw_cpu_policy": "dedicated"})
        self.assertEqual((4,), self.boot(guest)["vm-one"].cpus)

    def test_mixed(self):
        """Of a mixed guest the masked vCPUs are its own; the others float with the pool."""
        tenants = self.boot(
            shape(
                "mixed", 3,
                {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0", "iat:priority": "PC"},
                pins={0: [0, 1, 2, 3], 1: [8], 2: [9]}, emulator=[0, 1, 2, 3], cell=0,
            )
        )  # fmt: skip
        self.assertEqual((8, 9), tenants["vm-mixed"].cpus)
        self.assertEqual((0, 1, 2, 3), tenants["pool"].cpus)
        self.assertEqual(("vm-mixed",), tenants["pool"].members)

    def test_isolated_emulator_threads(self):
        """The CPU that Nova reserves for emulator threads is the guest's; it counts in no rates."""
        specs = {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate", **PC}
        tenants = self.boot(shape("isolated", 1, specs, pins={0: [4]}, emulator=[7], cell=0))
        tenant = tenants["vm-isolated"]
        self.assertEqual(((4, 7), (4,)), (tenant.cpus, tenant.counted_cpus))
        self.assertNotIn(7, tenants["host"].cpus)

    def test_numa_without_pinning(self):
        """A guest with a NUMA topology floats over its cell, even where that is one CPU."""
        tenants = self.boot(
            shape("wide", 2, {"hw:numa_nodes": "1"},
                  pins={0: [0, 1], 1: [0, 1]}, emulator=[0, 1], cell=0),
            shape("narrow", 1, {"hw:numa_nodes": "1"},
                  pins={0: [2]}, emulator=[2], cell=0),
        )  # fmt: skip
        self.assertEqual({"pool", "host"}, set(tenants))
        self.assertEqual((0, 1, 2), tenants["pool"].cpus)
        self.assertEqual(("vm-narrow", "vm-wide"), tenants["pool"].members)

    def test_floating(self):
        """Without a topology there is only the set over which the vCPUs float."""
        tenants = self.boot(shape("be", 2, {"iat:priority": "BE"}, cpuset=[0, 1, 2, 3]))
        self.assertEqual((0, 1, 2, 3), tenants["pool"].cpus)

    def test_attachments(self):
        """Every kind of port makes the right device model, and by it the right default for I/O."""
        guests = [
            pinned(kind, 4 + number, devices=[kind]) for number, kind in enumerate(ATTACHMENTS)
        ]
        tenants = self.boot(*guests)
        for kind, (attachment, model, io) in ATTACHMENTS.items():
            with self.subTest(kind):
                (found,) = self.guests[kind].attachments
                self.assertEqual(attachment, found.kind)
                tenant = tenants[f"vm-{kind}"]
                self.assertEqual((model, io), (tenant.model, tenant.io))
                self.assertEqual((), tenant.warnings)

    def test_a_whole_function(self):
        """A physical function passed through is slicing once sysfs tells that it is a NIC."""
        device = self.daemon.folder / "sys/bus/pci/devices/0000:3b:00.0"
        device.mkdir(parents=True)
        (device / "class").write_text("0x020000\n")
        (device / "numa_node").write_text("0\n")
        self.boot(pinned("pf", 4, devices=["pf"]))
        inventory = Reconciler(self.source, None, Pci(self.daemon.folder / "sys"), lambda: HOST)
        (guest,) = inventory.facts().guests
        (found,) = guest.attachments
        self.assertEqual((AttachmentKind.PF, DeviceModel.SLICING), (found.kind, found.model))
        self.assertEqual(("0000:3b:00.0", 0), (found.device, found.numa_node))

    def test_overcommitted(self):
        """Guests that were promised more than this host has are named by the agent."""
        specs = {**PC, "iat:llc_ways": "3", "resources:CUSTOM_IAT_LLC_WAY": "3"}
        self.boot(pinned("a", 4, extra_specs=specs), pinned("b", 5, extra_specs=specs))
        told = (one.message for one in self.warnings)
        (warning,) = (one for one in told if one.code == "over-committed")
        (promised,) = warning.values["facts"]
        self.assertEqual(("promised", 6), (promised.code, promised.values["ways"]))
        self.assertEqual(4, promised.values["guarantee"].values["left"])
