# SPDX-License-Identifier: Apache-2.0
"""A real Nova: its API checks, its Placement counts, its guests get their ways."""

import json
import statistics
import subprocess
import xml.etree.ElementTree as ElementTree

import libvirt
import yaml

from iat_nova.model import AttachmentKind, DeviceModel, Priority, TenantKind
from tests.nova import client, hosts, rally, tempest_plugin, withdraw
from tests.nova.api import PINNING, Refused
from tests.nova.case import WITHIN_S, distribution
from tests.nova.cloud import until

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"
PINNED = {"hw:cpu_policy": "dedicated"}
PC, BE = {"iat:priority": "PC"}, {"iat:priority": "BE"}
WAYS = "CUSTOM_IAT_LLC_WAY"


class NovaTest(
    client.ClientTests,
    hosts.HostTests,
    rally.RallyTests,
    tempest_plugin.TempestTests,
    withdraw.WithdrawTests,
):
    """All that needs the cloud, in one class: it takes longer to start than most tests."""

    # ------------------------------------------------------------------ nova-api

    def test_wrong_extra_specs_are_refused(self):
        """nova-api answers 400, in words that tell what there is."""
        flavor = self.flavor("wrong", {})
        cases = {
            ("iat:priority", "GOLD"): "'GOLD' is not one of: PC, BE.",
            ("iat:io", "maybe"): "'maybe' is not one of: true, false, auto.",
            ("iat:llc_ways", "two"): "'two' is not a valid integer value.",
            ("iat:llc_ways", "0"): "'0' is less than the min value of '1'.",
            ("iat:llc_ways_max", "65"): "'65' is greater than the max value of '64'.",
            ("iat:prioritty", "PC"): (
                "extra spec 'iat:prioritty' does not appear to be a valid extra spec."
            ),
        }
        for (name, value), message in cases.items():
            with self.subTest(value), self.assertRaises(Refused) as caught:
                self.set_extra_spec(flavor, name, value)
            error = caught.exception
            self.assertEqual((400, f"Validation failed; {message}"), (error.code, error.message))

    def test_right_extra_specs_are_taken(self):
        """What the documentation says is stored as it was given; old requests are not checked."""
        flavor = self.flavor("right", {})
        specs = PC | {"iat:io": "auto", "iat:llc_ways": "2", "iat:llc_ways_max": "4"}
        specs |= {"trait:CUSTOM_IAT": "required", f"resources:{WAYS}": "2"}
        self.cloud.api.nova("POST", f"/flavors/{flavor}/os-extra_specs", {"extra_specs": specs})
        stored = self.cloud.api.nova("GET", f"/flavors/{flavor}/os-extra_specs")["extra_specs"]
        self.assertEqual(specs, stored)
        self.set_extra_spec(flavor, "iat:priority", "GOLD", version="2.85")

    def set_extra_spec(self, flavor, name, value, version="2.90"):
        path = f"/flavors/{flavor}/os-extra_specs"
        self.cloud.api.nova("POST", path, {"extra_specs": {name: value}}, version)

    # ----------------------------------------------------------------- Placement

    @property
    def provider(self):
        (one,) = self.cloud.api.placement("/resource_providers")["resource_providers"]
        return f"/resource_providers/{one['uuid']}"

    def test_placement_knows_the_host(self):
        """nova-compute has read provider.yaml: traits and inventory are in Placement."""
        (written,) = yaml.safe_load(self.provider_config.read_text())["providers"]
        (offered,) = written["inventories"]["additional"]
        inventories = self.cloud.api.placement(f"{self.provider}/inventories")["inventories"]
        self.assertEqual(offered[WAYS], inventories[WAYS])
        # 11 ways less 6 of DDIO, 1 of the stack, 1 of the pool: the sum of the documentation.
        self.assertEqual((3, 3), (offered[WAYS]["total"], offered[WAYS]["max_unit"]))
        traits = self.cloud.api.placement(f"{self.provider}/traits")["traits"]
        self.assertLessEqual({"CUSTOM_IAT", "CUSTOM_IAT_DDIO"}, set(traits))

    def test_guaranteed_ways_are_used_up(self):
        """Who comes when none are left is refused; who asks for none, or comes later, is not."""
        three = PC | {"iat:llc_ways": "3", f"resources:{WAYS}": "3"}
        first = self.boot(PINNED | three | {"trait:CUSTOM_IAT": "required"})
        usages = self.cloud.api.placement(f"{self.provider}/usages")["usages"]
        self.assertEqual(3, usages[WAYS])
        self.assertLessEqual(3, self.seen().mask_of(first).count)
        one = {f"resources:{WAYS}": "1"}
        self.assertIn("No valid host was found", self.refused("one-more", one))
        # Neither CPUs nor memory were in the way, and what was given back is there again.
        self.delete(self.boot({}))
        self.delete(first)
        self.boot(one)

    def test_a_guarantee_that_placement_does_not_count(self):
        """The agent tells the operator which flavor lacks which extra spec."""
        self.boot(PINNED | PC | {"iat:llc_ways": "2"})
        degraded = json.loads(self.cloud.iat_nova("status", "-f", "json"))["degraded"]
        self.assertRegex(
            "\n".join(degraded),
            rf"flavor {self._testMethodName}-[0-9]+ guarantees 2 ways \(iat:llc_ways\) that "
            f"Placement does not count, .*: add resources:{WAYS}=2",
        )

    # -------------------------------------------------------------------- shapes

    def assert_own(self, uuid, priority, *, io=False, model=DeviceModel.NONE):
        """The guest has the dedicated CPU, is a tenant of its own and has ways."""
        picture = self.seen()
        tenant = picture.tenant(uuid)
        self.assertEqual(
            ((self.cloud.dedicated,), priority, io, model),
            (tenant.cpus, tenant.priority, tenant.io, tenant.model),
        )
        self.assertTrue(picture.masks[tenant.id])

    def assert_floats(self, uuid):
        """The guest is one of the pool, on the shared CPU."""
        picture = self.seen()
        self.assertIsNone(picture.tenant(uuid))
        pool = picture.own(TenantKind.POOL)
        self.assertEqual((self.cloud.shared,), pool.cpus)
        self.assertIn(self._testMethodName, pool.members)

    def test_pinned(self):
        """Performance-critical, with the ways that Placement has counted for it, or more."""
        uuid = self.boot(PINNED | PC | {f"resources:{WAYS}": "2"})
        self.assert_own(uuid, Priority.PC)
        self.assertLessEqual(2, self.seen().mask_of(uuid).count)

    def test_pinned_best_effort(self):
        """A flavor that says BE."""
        self.assert_own(self.boot(PINNED | BE), Priority.BE)

    def test_pinned_silent(self):
        """A flavor that says nothing is best effort."""
        self.assert_own(self.boot(PINNED), Priority.BE)

    def test_pinned_by_resources(self):
        """The other way to ask Placement for a CPU of one's own."""
        self.assert_own(self.boot(PC | {"resources:PCPU": "1"}), Priority.PC)

    def test_pinned_by_its_image(self):
        """The image pins it, the flavor says nothing of that."""
        self.assert_own(self.boot(PC, image=PINNING), Priority.PC)

    def test_emulator_threads_on_the_shared_set(self):
        """QEMU's own threads elsewhere: the guest keeps its CPU alone."""
        uuid = self.boot(PINNED | PC | {"hw:emulator_threads_policy": "share"})
        self.assert_own(uuid, Priority.PC)
        self.assertEqual((), self.seen().guest(uuid).emulator_cpus)

    def test_mixed(self):
        """One vCPU is pinned, the other is one of the pool."""
        specs = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}
        uuid = self.boot(PC | specs, vcpus=2)
        self.assert_own(uuid, Priority.PC)
        self.assertIn(self._testMethodName, self.seen().own(TenantKind.POOL).members)

    def test_floating(self):
        """It shares the pool's ways."""
        self.assert_floats(self.boot(BE))

    def test_floating_with_a_numa_topology(self):
        """Nova pins it to a set of one CPU, which does not make it pinned."""
        uuid = self.boot({"hw:numa_nodes": "1"})
        (pin,) = self.domain(uuid).findall("cputune/vcpupin")
        self.assertEqual(str(self.cloud.shared), pin.get("cpuset"))
        self.assert_floats(uuid)

    # --------------------------------------------------------------------- ports

    def port(self, number, vif_type, **details):
        """Make a port; the first digits are the interface's name."""
        uuid = f"{number:08x}-0000-4000-8000-0000000000{number:02x}"
        self.cloud.api.make_port(uuid, vif_type, details)
        return uuid

    def assert_attached(self, uuid, port, kind, model, bridge):
        (attachment,) = self.seen().guest(uuid).attachments
        self.assertEqual(
            (kind, model, bridge, port),
            (attachment.kind, attachment.model, attachment.bridge, attachment.port),
        )

    def test_taps(self):
        """Each way in which Nova plugs a tap into Open vSwitch is joined with its port."""
        for number, more in enumerate(({}, {"ovs_create_tap": True}, {"ovs_hybrid_plug": True}), 2):
            with self.subTest(more):
                details = {"datapath_type": "netdev", "bridge_name": "br-int", **more}
                port = self.port(number, "ovs", **details)
                uuid = self.boot(PINNED | PC, port=port)
                self.assert_own(uuid, Priority.PC)
                self.assert_attached(uuid, port, AttachmentKind.TAP, DeviceModel.NONE, "br-int")
                self.doCleanups()

    def test_macvtap(self):
        """A device of its own: the guest slices it."""
        ends = ("iat-lab0", "iat-lab1")
        add = ["ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1]]
        subprocess.run(add, check=True)
        self.addCleanup(subprocess.run, ["ip", "link", "del", ends[0]], check=True)
        for end in ends:
            subprocess.run(["ip", "link", "set", end, "up"], check=True)
        port = self.port(
            16, "macvtap", macvtap_source=ends[0], macvtap_mode="passthrough",
            physical_interface=ends[0],
        )  # fmt: skip
        uuid = self.boot(PINNED | PC | {"iat:io": "true"}, port=port)
        self.assert_attached(uuid, None, AttachmentKind.MACVTAP, DeviceModel.SLICING, None)
        self.assert_own(uuid, Priority.PC, io=True, model=DeviceModel.SLICING)

    def test_vhost_user(self):
        """A port of OVS-DPDK: the guest on its CPU, the PMD threads on theirs."""
        if self.cloud.no_dpdk:
            self.skipTest(self.cloud.no_dpdk)
        port = self.port(
            32, "vhostuser", datapath_type="netdev", bridge_name="br-int",
            vhostuser_mode="server", vhostuser_ovs_plug=True,
            vhostuser_socket=f"{self.cloud.folder}/ovs/vhu00000020-00",
        )  # fmt: skip
        with self.cloud.pmd():
            uuid = self.boot(PINNED | PC | {"hw:mem_page_size": "large"}, port=port)
            self.assert_attached(
                uuid, port, AttachmentKind.VHOST_USER, DeviceModel.AGGREGATION, "br-int"
            )
            stack = self.seen().own(TenantKind.STACK)
            self.assertEqual((self.cloud.shared,), stack.cpus)
            self.assertTrue(self.seen().masks[stack.id] and self.seen().mask_of(uuid))
            self.doCleanups()

    def test_plugged_while_it_runs(self):
        """An interface that is attached later is seen with its port."""
        uuid = self.boot(PINNED | PC)
        self.assertEqual((), self.seen().guest(uuid).attachments)
        port = self.port(48, "ovs", datapath_type="netdev", bridge_name="br-int")
        wanted = {"interfaceAttachment": {"port_id": port}}
        self.cloud.api.nova("POST", f"/servers/{uuid}/os-interface", wanted)
        until(lambda: self.seen().guest(uuid).attachments, "the interface")
        self.assert_attached(uuid, port, AttachmentKind.TAP, DeviceModel.NONE, "br-int")

    # ------------------------------------------------------------------- lifetime

    def test_stopped_and_started(self):
        """A guest that is stopped gives its ways back, and has them again when it is started."""
        uuid = self.boot(PINNED | PC)
        first = self.seen().guest(uuid).run
        self.cloud.api.action(uuid, "os-stop")
        self.watch_it_end(uuid)
        until(lambda: self.status(uuid) == "SHUTOFF", "the guest is stopped")
        self.cloud.api.action(uuid, "os-start")
        self.watch_it_start(uuid)
        self.assertNotEqual(first, self.seen().guest(uuid).run)
        self.assert_own(uuid, Priority.PC)

    def test_shelved(self):
        """A shelved guest has given its ways back; unshelved it has them again, offloaded or not.

        Placement counts them until the guest is offloaded.
        """
        uuid = self.boot(PINNED | PC | {f"resources:{WAYS}": "2"})
        spooled = self.cloud.state / f"spool/{uuid}.json"
        for offload in (False, True):
            self.cloud.api.action(uuid, "shelve")
            self.watch_it_end(uuid)
            until(lambda: self.status(uuid) == "SHELVED", "the guest is shelved")
            self.assertEqual((2, 3), (self.used_ways(), len(self.cloud.api.images())))
            if offload:
                self.cloud.api.action(uuid, "shelveOffload")
                until(lambda: self.status(uuid) == "SHELVED_OFFLOADED", "the guest is offloaded")
                until(lambda: self.used_ways() == 0, "its ways are free in Placement")
                until(lambda: not spooled.exists(), "nothing in the spool")
            self.cloud.api.action(uuid, "unshelve")
            self.watch_it_start(uuid)
            self.assert_own(uuid, Priority.PC)
            self.assertLessEqual(2, self.seen().mask_of(uuid).count)
            until(lambda: len(self.cloud.api.images()) == 2, "its image is deleted")
            until(spooled.exists, "nova-compute's notification in the spool")
            self.assertEqual(2, self.used_ways())

    def used_ways(self):
        return self.cloud.api.placement(f"{self.provider}/usages")["usages"].get(WAYS, 0)

    def test_an_older_novas_metadata(self):
        """Without extra specs in the metadata the agent has those the driver spooled."""
        specs = PINNED | PC | {"iat:io": "true"}
        uuid = self.boot(specs)
        spooled = self.cloud.state / f"spool/{uuid}.json"
        until(spooled.exists, "nova-compute's notification in the spool")
        self.assertEqual({"extra_specs": specs}, json.loads(spooled.read_text()))
        self.rewrite_metadata(uuid, "as Nova 31 would")
        until(
            lambda: self.seen().guest(uuid).display_name == "as Nova 31 would",
            "the agent has read the metadata anew",
        )
        guest = self.seen().guest(uuid)
        self.assertEqual((specs, ()), (dict(guest.extra_specs), guest.warnings))
        self.assert_own(uuid, Priority.PC, io=True)
        self.delete(uuid)
        until(lambda: not spooled.exists(), "the spooled file gone with the guest")

    def rewrite_metadata(self, uuid, name):
        """Take the extra specs out of a running domain's metadata, and rename its guest."""
        domain = self.hypervisor.lookupByUUIDString(uuid)
        instance = self.domain(uuid).find(f"metadata/{{{NOVA}}}instance")
        flavor = instance.find(f"{{{NOVA}}}flavor")
        flavor.remove(flavor.find(f"{{{NOVA}}}extraSpecs"))
        instance.find(f"{{{NOVA}}}name").text = name
        text = ElementTree.tostring(instance, encoding="unicode")
        kind, live = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_LIVE
        domain.setMetadata(kind, text, "nova", NOVA, live)

    def domain(self, uuid):
        """Return a domain as libvirt has it."""
        return ElementTree.fromstring(self.hypervisor.lookupByUUIDString(uuid).XMLDesc())

    def test_coming_and_going(self):
        """Within a second of ACTIVE the ways are there, within a second of the end they are not."""
        for _ in range(5):
            self.boot(PINNED | PC)
            self.doCleanups()
        for what, values in (("enforced", self.active_s), ("released", self.released_s)):
            with self.subTest(what):
                self.assertLessEqual(statistics.median(values), WITHIN_S, distribution(values))

    def test_when_resized(self):
        """A guest that floated has a CPU and ways of its own with its new flavor."""
        # Last by its name among those that boot: after a resize on the same host nova-compute
        # counts the CPU as used until its next look at its resources, a minute later.
        uuid = self.boot(BE)
        self.assert_floats(uuid)
        flavor = self.flavor("large", PINNED | PC)
        self.cloud.api.action(uuid, "resize", {"flavorRef": flavor})
        until(lambda: self.status(uuid) == "VERIFY_RESIZE", "the guest is resized")
        until(lambda: self.seen().tenant(uuid), "a tenant of its own")
        self.assert_own(uuid, Priority.PC)
        self.cloud.api.action(uuid, "confirmResize")
        until(lambda: self.status(uuid) == "ACTIVE", "the resize is confirmed")
