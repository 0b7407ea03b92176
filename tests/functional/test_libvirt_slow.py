# SPDX-License-Identifier: Apache-2.0
"""A libvirtd that answers slowly, of a host with many guests, is read nevertheless."""

import libvirt

from iat_nova.inventory.cpu_policy import CpuSets
from iat_nova.inventory.domains import REREAD_LEAST, REREAD_PARTS, LibvirtDomains
from iat_nova.inventory.libvirt import LibvirtSource
from tests import nova_shapes as shapes
from tests.functional import daemons
from tests.functional.libvirt_case import LibvirtCase
from tests.functional.slow_socket import SlowSocket
from tests.said import codes

GUESTS = 100
DELAY_S = 0.01  # a message; a whole reading takes at least a second
ANSWER_S = 0.2
NAMES = {"test", *(f"guest-{number}" for number in range(GUESTS))}


def rename(domain):
    name = "<nova:name>other</nova:name>"
    instance = f"<nova:instance xmlns:nova='{shapes.NOVA}'>{name}</nova:instance>"
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    domain.setMetadata(kind, instance, "instance", shapes.NOVA, 0)


class SlowTest(LibvirtCase):
    daemon_type = daemons.TestLibvirtd

    def setUp(self):
        super().setUp()
        self.nova = self.connect()
        for number in range(GUESTS):
            self.nova.createXML(
                shapes.domain(f"guest-{number}", vcpus=1, tune=shapes.cputune({0: "4-5"})), 0
            )

    def start_source(self):
        path = self.folder / "slow"
        self.slow = SlowSocket(path, self.daemon.socket, DELAY_S)
        self.addCleanup(self.slow.close)
        uri = f"test+unix:///default?socket={path}"
        source = LibvirtSource(uri, CpuSets(), answer_s=ANSWER_S)
        source.start(self.hinted.set)
        self.addCleanup(source.close)
        return source

    def test_a_late_answer_is_the_picture(self):
        """An answer nobody could wait for is taken when it comes, and nothing is said to hang."""
        self.assertEqual({}, self.guests())
        self.assertEqual("libvirt-unanswered", self.source.waiting_for.code)
        self.assertEqual((), self.source.warnings)
        self.until(lambda: set(self.guests()) == NAMES)
        self.assertIsNone(self.source.waiting_for)
        self.assertEqual((), self.source.warnings)

    def test_only_what_changed_is_read_again(self):
        """Another reading asks for few guests; the one with an event is among them."""
        self.until_read()
        before = self.slow.messages
        self.guests()
        self.until_read()
        self.assertLess(self.slow.messages - before, GUESTS / 2)
        changed = self.nova.lookupByName(f"guest-{GUESTS - 1}")
        self.after_hint(lambda: rename(changed), self.sees_the_name)
        self.assertLess(self.slow.messages - before, GUESTS)

    def test_it_stops_answering(self):
        """Only where nothing comes at all libvirtd hangs."""
        self.until_read()
        self.daemon.pause()
        self.addCleanup(self.daemon.resume)
        stale = self.guests()
        self.assertEqual(NAMES, set(stale))
        self.assertIn("libvirt-silent", codes(self.source.warnings[0]))
        self.assertEqual("guest-stale", stale["test"].warnings[-1].code)

    def test_changes_without_an_event(self):
        """What libvirt tells nobody of is found by the slow round through all guests."""
        reader = LibvirtDomains(self.nova)
        pins = {domain.name: domain.pins for domain in reader.read().domains}
        for number in range(GUESTS):  # of which the test driver sends no event
            domain = self.nova.lookupByName(f"guest-{number}")
            domain.pinVcpu(0, tuple(cpu == 6 for cpu in range(8)))
        changed = []
        for _ in range(REREAD_PARTS):
            found = {domain.name: domain.pins for domain in reader.read().domains}
            changed.append(sum(found[name] != pins[name] for name in found))
        # libvirt's order is chance: the driver's own guest, which stays, may be among the first
        self.assertIn(changed[0], (REREAD_LEAST - 1, REREAD_LEAST))
        self.assertEqual(GUESTS, changed[-1])

    def sees_the_name(self):
        return self.guest(f"guest-{GUESTS - 1}").display_name == "other"

    def until_read(self):
        """Follow the hints until a reading is complete that began now."""
        self.until(lambda: set(self.guests()) == NAMES and not self.source._session._deadline.asked)
