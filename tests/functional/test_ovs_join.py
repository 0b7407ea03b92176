# SPDX-License-Identifier: Apache-2.0
"""Guests of a real libvirt (its test driver) joined with the ports of a real ovsdb-server."""

import time

import libvirt

from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.libvirt import LibvirtSource
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.model import AttachmentKind, CacheDomain, HostFacts
from tests.functional import ovs_daemons
from tests.functional.ovs_case import DEADLINE_S, OvsTestCase

HOST = HostFacts("host", (CacheDomain(0, (0, 1, 2, 3), 11, 16),), (0, 1, 2, 3))
UUID = "6b3a4b5e-0000-4000-8000-{:012}"
MAC = "fa:16:3e:00:00:{:02x}"
VHOST_USER = """
    <interface type='vhostuser'>
      <mac address='{mac}'/>
      <source type='unix' path='/run/{name}' mode='server'/>
      <target dev='{name}'/>
      <model type='virtio'/>
    </interface>"""


def joined(found, number):
    """Tell whether a guest is there and one of its devices has a port of the switch."""
    return any(attachment.port for attachment in found.get(UUID.format(number), ()))


class JoinTest(OvsTestCase):
    def setUp(self):
        if reason := ovs_daemons.why_no_ovsdb():
            self.skipTest(reason)
        super().setUp()
        self.daemons.start_ovsdb()
        self.vsctl("init")
        self.vsctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
        self.start_inventory()
        # One process, one state of the test driver: what is defined here is seen there.
        self.libvirt = libvirt.open("test:///default")
        self.addCleanup(self.libvirt.close)

    def start_inventory(self):
        guests = LibvirtSource("test:///default", CpuSets.parse("0-3", None))
        self.inventory = Reconciler(
            guests,
            self.make_source(),
            Pci(self.daemons.folder),
            lambda: HOST,
            debounce_s=0.01,
        )
        self.addCleanup(self.inventory.close)
        self.inventory.start()

    def vsctl(self, *arguments):
        self.daemons.vsctl("--no-wait", *arguments)

    def boot(self, number, *interfaces):
        """Start a guest as Nova would; it ends with the test."""
        domain = self.libvirt.createXML(
            f"<domain type='test'><name>instance-{number}</name><uuid>{UUID.format(number)}</uuid>"
            "<memory>1024</memory><vcpu>1</vcpu><os><type>hvm</type></os>"
            f"<devices>{''.join(interfaces)}</devices></domain>"
        )
        self.addCleanup(domain.destroy)

    def add_port(self, name, number, mac, packets=None):
        """Plug a port as os-vif would; `packets` is what ovs-vswitchd would have counted."""
        settings = [
            f"external_ids:vm-uuid={UUID.format(number)}",
            f"external_ids:iface-id=port-{name}",
            f'external_ids:attached-mac="{mac}"',
        ]
        if packets is not None:
            settings += [f"statistics:rx_packets={packets}", "statistics:tx_packets=1"]
        self.vsctl("add-port", "br-int", name, "--", "set", "Interface", name, *settings)

    def facts_when(self, wanted):
        """Look again at each change until `wanted(attachments by guest)` holds; return them."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            facts = self.inventory.facts()
            found = {guest.uuid: guest.attachments for guest in facts.guests}
            if wanted(found):
                return found
            left = deadline - time.monotonic()
            if not self.inventory.changed.wait(max(left, 0)):
                self.fail(f"still {facts}")

    def test_vhost_user(self):
        """Each guest's vhost-user port is found by the guest's UUID and its own MAC."""
        self.boot(1, VHOST_USER.format(mac=MAC.format(1), name="vhu1"))
        self.boot(2, VHOST_USER.format(mac=MAC.format(2), name="vhu2"))
        self.add_port("vhu1", 1, MAC.format(1).upper(), packets=10)
        self.add_port("vhu2", 2, MAC.format(2), packets=20)
        found = self.facts_when(lambda found: joined(found, 1) and joined(found, 2))
        for number in (1, 2):
            (attachment,) = found[UUID.format(number)]
            self.assertEqual(AttachmentKind.VHOST_USER, attachment.kind)
            self.assertEqual(f"port-vhu{number}", attachment.port)
            self.assertEqual("br-int", attachment.bridge)
            self.assertEqual(10 * number + 1, attachment.packets)

    def test_unplugged(self):
        """A port that is removed wakes the inventory and leaves the guest without a bridge."""
        self.boot(1, VHOST_USER.format(mac=MAC.format(1), name="vhu1"))
        self.add_port("vhu1", 1, MAC.format(1))
        self.facts_when(lambda found: joined(found, 1))
        self.vsctl("del-port", "vhu1")
        self.facts_when(lambda found: found[UUID.format(1)][0].bridge is None)
