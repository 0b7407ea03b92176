# SPDX-License-Identifier: Apache-2.0
import dataclasses
import tempfile
import unittest
from unittest import mock

from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    DeviceModel,
    Guest,
    HostFacts,
    Source,
    SwitchPort,
    Trouble,
    VirtualSwitch,
    verbatim,
)
from tests.unit.build import StillClock

HOST = HostFacts("h", (), (0, 1, 2, 3))
MAC = "fa:16:3e:00:00:01"


class Guests:
    """A source that holds what the test puts there."""

    def __init__(self, *guests):
        self.held = guests
        self.warnings = ()
        self.waiting_for = None
        self.online = None
        self.on_hint = None

    def start(self, on_hint):
        self.on_hint = on_hint

    def close(self):
        self.on_hint = None

    def guests(self, online):
        self.online = online
        return self.held


class Switch(Guests):
    """The same for a switch."""

    def __init__(self, *ports):
        super().__init__()
        self.held = VirtualSwitch({"br-int": "netdev"}, ports, ())

    def switch(self):
        return self.held


def guest(*attachments, uuid="u", run=1):
    return Guest(uuid, run, "n", "d", None, None, None, (1,), (), attachments=attachments)


def port(name, mac=MAC, vm_uuid="u", packets=None, iface_id="p"):
    return SwitchPort(
        name, "br-int", "system", vm_uuid, iface_id=iface_id, mac=mac, packets=packets
    )


class ReconcileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.pci = Pci(folder.name)  # an empty sysfs
        self.clock = StillClock(0.0)

    def join(self, attachment, *ports):
        inventory = Reconciler(Guests(guest(attachment)), Switch(*ports), self.pci, lambda: HOST)
        return inventory.facts().guests[0].attachments[0]

    def test_representor(self):
        """A VF with a representor in the switch stays slicing and is not counted there."""
        found = self.join(
            Attachment(AttachmentKind.VF, "0000:3b:02.1", MAC), port("enp59s0f0_1", packets=7)
        )
        self.assertIs(DeviceModel.SLICING, found.model)
        self.assertEqual(("p", "br-int", None), (found.port, found.bridge, found.packets))

    def test_hybrid_plug(self):
        """The switch's end of a hybrid plug has another name and is found by its MAC."""
        found = self.join(
            Attachment(AttachmentKind.TAP, "tap1", MAC, bridge="qbr1", packets=3),
            port("qvo1", mac=MAC.upper(), packets=7),
        )
        self.assertEqual(("p", "br-int", 3), (found.port, found.bridge, found.packets))

    def test_by_name(self):
        """A port without attached-mac is found by its name."""
        found = self.join(
            Attachment(AttachmentKind.VHOST_USER, "vhu1", MAC),
            port("vhu2", mac=None, iface_id="q"),
            port("vhu1", mac=None),
        )
        self.assertEqual("p", found.port)

    def test_of_another_guest(self):
        """A port of another guest is not joined, whatever its MAC and name."""
        found = self.join(
            Attachment(AttachmentKind.VHOST_USER, "vhu1", MAC), port("vhu1", vm_uuid="other")
        )
        self.assertIsNone(found.port)

    def test_by_socket(self):
        """A vhost-user interface has the port of its socket, also one that names no guest."""
        for path in ("/run/vhu/a.sock", "/var/run/vhu//a.sock"):
            given = Attachment(AttachmentKind.VHOST_USER, "a.sock", vhost_path=path)
            for uuid, expected in (("u", "br-int"), (None, "br-int"), ("other", None)):
                vhost = dataclasses.replace(
                    port("vhost1", vm_uuid=uuid), vhost_path="/run/vhu/a.sock"
                )
                found = self.join(given, port("x", mac=None), vhost)
                self.assertEqual(expected, found.bridge)
                self.assertEqual("vhost1" if expected else "a.sock", found.device)

    def test_own_word_stays(self):
        """Where the switch has no port UUID, the XML's own one stays."""
        found = self.join(
            Attachment(AttachmentKind.TAP, "tap1", MAC, port="x"), port("tap1", iface_id=None)
        )
        self.assertEqual("x", found.port)

    def test_rates(self):
        """Packets become a rate between two inventories; a guest's next run starts anew."""
        source = Guests(guest(Attachment(AttachmentKind.TAP, "tap1", packets=100)))
        inventory = Reconciler(source, None, self.pci, lambda: HOST, self.clock)

        def rate(now_s, run, packets):
            self.clock.now_s = now_s
            source.held = (guest(Attachment(AttachmentKind.TAP, "t", packets=packets), run=run),)
            return inventory.facts().guests[0].attachments[0].packets_per_s

        self.assertIsNone(rate(0.0, 1, 100))
        self.assertEqual(50.0, rate(2.0, 1, 200))
        self.assertIsNone(rate(4.0, 2, 300))

    def test_warnings_of_all_sources(self):
        """What is wrong with a source is seen in the facts; its guests stay."""
        guests, switch = Guests(guest()), Switch()
        guests.warnings, switch.warnings = (
            (verbatim("libvirt unavailable"),),
            (verbatim("OVS unavailable"),),
        )
        facts = Reconciler(guests, switch, self.pci, lambda: HOST).facts()
        self.assertEqual((*guests.warnings, *switch.warnings), facts.warnings)
        self.assertEqual(1, len(facts.guests))

    def test_who_has_never_answered(self):
        """A source that has never answered is named: nothing of it is known."""
        guests, switch = Guests(), Switch()
        guests.waiting_for = verbatim("libvirt")
        facts = Reconciler(guests, switch, self.pci, lambda: HOST).facts()
        self.assertEqual((guests.waiting_for,), facts.waiting_for)
        guests.waiting_for, switch.waiting_for = None, verbatim("OVSDB")
        facts = Reconciler(guests, switch, self.pci, lambda: HOST).facts()
        self.assertEqual((switch.waiting_for,), facts.waiting_for)

    def test_errors_of_a_source(self):
        """An error nobody thought of leaves that part as it was, is shown, and the rest goes on."""
        guests, switch = Guests(guest()), Switch(port("vhu1"))
        inventory = Reconciler(guests, switch, self.pci, lambda: HOST)
        before = inventory.facts()
        log = self.enterContext(self.assertLogs("iat_nova.common.last_good", "ERROR"))
        with mock.patch.object(Guests, "guests", side_effect=KeyError("x" * 999)):
            facts = [inventory.facts() for _ in range(2)][-1]
        self.assertEqual((before.guests, before.switch), (facts.guests, facts.switch))
        (warning,) = facts.warnings
        self.assertEqual("last-good-kept", warning.code)
        self.assertEqual("KeyError: 'xxx", warning.values["error"][:14])
        self.assertLess(len(warning.values["error"]), 300)
        self.assertEqual(1, len(log.records))  # with its traceback, once
        self.assertIsNotNone(log.records[0].exc_info)
        with mock.patch.object(Switch, "switch", side_effect=RecursionError):
            facts = inventory.facts()
        self.assertEqual((before.guests, before.switch), (facts.guests, facts.switch))
        (warning,) = facts.warnings
        told = (warning.code, warning.values["what"])
        self.assertEqual(("last-good-kept", "Open vSwitch"), told)
        self.assertEqual((), inventory.facts().warnings)

    def test_a_source_that_was_never_read(self):
        """What could not be read even once is unknown, not empty: the agent waits for it."""
        inventory = Reconciler(Guests(guest()), Switch(), self.pci, lambda: HOST)
        failing = mock.patch.object(Guests, "guests", side_effect=KeyError)
        with self.assertLogs("iat_nova.common.last_good", "ERROR"), failing:
            facts = inventory.facts()
        kinds = [(one.source, one.kind) for one in facts.problems]
        self.assertEqual(
            [(Source.LIBVIRT, Trouble.UNREADABLE), (Source.LIBVIRT, Trouble.WAITING)], kinds
        )
        self.assertEqual((), inventory.facts().problems)

    def test_no_switch(self):
        """Without Open vSwitch there is none, and no warning."""
        facts = Reconciler(Guests(), None, self.pci, lambda: HOST).facts()
        self.assertEqual((None, ()), (facts.switch, facts.warnings))

    def test_processors_come_and_go(self):
        """The host is asked each time; when it cannot tell, the last answer stays, visibly."""
        answers = [HOST, dataclasses.replace(HOST, online_cpus=(0, 1)), OSError("no sysfs")]

        def host():
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return answer

        source = Guests()
        inventory = Reconciler(source, None, self.pci, host)
        inventory.facts()
        self.assertEqual({0, 1, 2, 3}, source.online)
        inventory.facts()
        self.assertEqual({0, 1}, source.online)
        facts = inventory.facts()
        self.assertEqual(((0, 1), 1), (facts.host.online_cpus, len(facts.warnings)))

    def test_no_host_at_all(self):
        """A host that could never be read is an error."""

        def host():
            raise OSError("no sysfs")

        with self.assertRaises(OSError):
            Reconciler(Guests(), None, self.pci, host).facts()

    def test_hints(self):
        """A hint of either source sets `changed`, facts clear it, and close lets go of both."""
        guests, switch = Guests(), Switch()
        inventory = Reconciler(guests, switch, self.pci, lambda: HOST, self.clock, debounce_s=0.01)
        inventory.start()
        for source in (guests, switch):
            source.on_hint()
            self.assertTrue(inventory.changed.wait(5))
            inventory.facts()
            self.assertFalse(inventory.changed.is_set())
        inventory.close()
        self.assertIsNone(guests.on_hint)
        self.assertIsNone(switch.on_hint)
