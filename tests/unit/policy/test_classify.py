# SPDX-License-Identifier: Apache-2.0
"""From facts to tenants: every attachment, every way of pinning, every collision."""

import dataclasses
import unittest
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova import policy
from iat_nova.model import (
    AttachmentKind,
    BandwidthControl,
    DeviceModel,
    DevicePort,
    Facts,
    Guest,
    HostFacts,
    Priority,
    Tenant,
    TenantKind,
    VirtualSwitch,
    WayMask,
    WayRequest,
    own_warnings,
    verbatim,
)
from iat_nova.nova.extra_specs import Io
from iat_nova.policy import classify
from tests.said import sentence, texts
from tests.unit.policy.hosts import (
    EXAMPLES,
    ONE,
    TWO,
    attachment,
    domain,
    dpdk_switch,
    facts,
    guest,
)

VF = attachment(AttachmentKind.VF, "0000:3b:02.1", numa_node=0)


class ClassifyCase(unittest.TestCase):
    """Helpers that name what a test looks at."""

    def classify(
        self, picture: Facts, text: str = "{}", io_before: Mapping[str, bool] | None = None
    ) -> policy.Classified:
        return policy.parse(text, picture.host).classify(picture, io_before or {})

    def tenants(self, picture: Facts, text: str = "{}", number: int = 0) -> dict[str, Tenant]:
        inventory = self.classify(picture, text).domains[number]
        return {tenant.name: tenant for tenant in inventory.tenants}

    def only(self, one: Guest, text: str = "{}", host: HostFacts = ONE) -> Tenant:
        return self.tenants(facts(one, host=host), text)[one.display_name]


class WhoTest(ClassifyCase):
    def test_an_empty_host(self) -> None:
        """Without guests all CPUs are the host's own, best effort."""
        self.assertEqual(["host"], list(self.tenants(facts())))
        host = self.tenants(facts())["host"]
        self.assertEqual((TenantKind.HOST, Priority.BE, False), (host.kind, host.priority, host.io))
        self.assertEqual(tuple(range(8)), host.cpus)
        self.assertEqual(WayRequest(1, 1, 11), host.ways)

    def test_a_dedicated_guest(self) -> None:
        """A guest with CPUs of its own is a tenant with all its facts."""
        tenant = self.only(guest(attachments=(VF,), dedicated_cpus=(3, 2)))
        self.assertEqual(
            Tenant(
                id=f"{guest().uuid}/1",
                name="web",
                kind=TenantKind.GUEST,
                priority=Priority.BE,
                io=True,
                cpus=(2, 3),
                ways=WayRequest(1, 2, 11),
                model=DeviceModel.SLICING,
                class_name="default",
                flavor="m1",
                project="p1",
                devices=("0000:3b:02.1",),
            ),
            tenant,
        )

    def test_floating_guests_are_one_pool(self) -> None:
        """Guests without CPUs of their own share the pool, which lists them."""
        one = guest("a", dedicated_cpus=(), floating_cpus=(4, 5))
        two = guest("b", dedicated_cpus=(), floating_cpus=(5, 6), attachments=(VF,))
        tenants = self.tenants(facts(one, two))
        self.assertEqual(["pool", "host"], list(tenants))
        pool = tenants["pool"]
        self.assertEqual(((4, 5, 6), ("a", "b")), (pool.cpus, pool.members))
        self.assertEqual((True, DeviceModel.SLICING), (pool.io, pool.model))
        self.assertEqual(("0000:3b:02.1",), pool.devices)
        self.assertEqual((0, 1, 2, 3, 7), tenants["host"].cpus)

    def test_a_device_in_two_guests(self) -> None:
        """Both are told of each other, a floating one by the pool; a tap is nobody's own."""
        tap = attachment(AttachmentKind.TAP, "tap1")
        one = guest("a", attachments=(VF, tap), dedicated_cpus=(2,))
        two = guest("b", attachments=(VF, tap), dedicated_cpus=(), floating_cpus=(5,))
        tenants = self.tenants(facts(one, two, guest("c", dedicated_cpus=(3,))))
        told = (
            "0000:3b:02.1 is attached to {0} (instance-{0}) as well; detach the device from one "
            "guest"
        )
        self.assertEqual((told.format("b"),), texts(tenants["a"].warnings))
        self.assertEqual((f"b: {told.format('a')}",), texts(tenants["pool"].all_warnings))
        self.assertEqual((), texts(tenants["c"].warnings))

    def test_an_ended_switch(self) -> None:
        """Its CPUs are the host's, and the switch's own warning is told."""
        gone = dataclasses.replace(dpdk_switch(), pmd_source="ended", warnings=(verbatim("gone"),))
        classified = self.classify(facts(switch=gone))
        self.assertEqual(["host"], [tenant.name for tenant in classified.domains[0].tenants])
        self.assertEqual(("gone",), texts(classified.warnings))
        self.assertIn("ovs-vswitchd does not run", sentence(classified.reasons["stack"]))

    def test_a_mixed_guest_is_in_both(self) -> None:
        """Dedicated CPUs make a tenant, floating ones join the pool."""
        mixed = guest(dedicated_cpus=(2,), floating_cpus=(6, 7), extra_specs={"iat:priority": "PC"})
        tenants = self.tenants(facts(mixed))
        self.assertEqual((2,), tenants["web"].cpus)
        self.assertEqual(Priority.PC, tenants["web"].priority)
        self.assertEqual(((6, 7), ("web",)), (tenants["pool"].cpus, tenants["pool"].members))
        self.assertEqual(Priority.BE, tenants["pool"].priority)
        self.assertEqual((), texts(tenants["pool"].all_warnings))

    def test_isolated_emulator_threads_are_the_guest_s(self) -> None:
        """Their CPU has the guest's class, and counts in no rates."""
        web = guest(dedicated_cpus=(2, 3), emulator_cpus=(1,))
        tenants = self.tenants(facts(web))
        self.assertEqual((1, 2, 3), tenants["web"].cpus)
        self.assertEqual((1,), tenants["web"].emulator_cpus)
        self.assertEqual((2, 3), tenants["web"].counted_cpus)
        self.assertEqual((0, 4, 5, 6, 7), tenants["host"].cpus)

    def test_emulator_threads_on_another_cache(self) -> None:
        """There the guest is a tenant too, without the ways that its vCPUs are guaranteed."""
        specs = {"iat:priority": "PC", "iat:llc_ways": "4"}
        web = guest(dedicated_cpus=(2, 3), emulator_cpus=(9,), extra_specs=specs)
        here, there = (self.tenants(facts(web, host=TWO), number=n)["web"] for n in (0, 1))
        self.assertEqual((4, 0), (here.ways.promised, there.ways.promised))
        self.assertEqual(((9,), (9,)), (there.cpus, there.counted_cpus))
        self.assertEqual(Priority.PC, there.priority)

    def test_open_vswitch_with_dpdk_is_the_stack(self) -> None:
        """PMD CPUs are a tenant of special priority."""
        stack = self.tenants(facts(switch=dpdk_switch(1, 2)))["vswitch"]
        self.assertEqual(
            (TenantKind.STACK, Priority.STACK, True, DeviceModel.AGGREGATION, (1, 2)),
            (stack.kind, stack.priority, stack.io, stack.model, stack.cpus),
        )
        self.assertEqual(("0000:3b:00.0",), stack.devices)

    def test_who_is_behind_a_port(self) -> None:
        """The switch by its DPDK ports, guests by VFs, macvtap and drives; a shared port is one."""
        nic = DevicePort("0000:3b:00.0", ("0000:3b:00.0", "0000:3b:00.1", "0000:3b:02.1"))
        disk = DevicePort("0000:3c:00.0", ("0000:3c:00.0",))
        far = DevicePort("0000:3d:00.0", ("0000:3d:00.0",))
        host = dataclasses.replace(ONE, domains=(domain(device_ports=(nic, disk, far)),))
        switch = dpdk_switch(0, 1)
        port = dataclasses.replace(switch.ports[0], dpdk_device="0000:3b:00.0,representor=[0]")
        switch = dataclasses.replace(switch, ports=(port, *switch.ports[1:]))
        macvtap = dataclasses.replace(attachment(AttachmentKind.MACVTAP, "eth1"), pf="0000:3b:00.1")
        drive = attachment(AttachmentKind.PCI, "0000:3c:00.0")
        picture = facts(
            guest("vf", dedicated_cpus=(4,), attachments=(VF,)),
            guest("both", dedicated_cpus=(5,), attachments=(macvtap, drive)),
            guest("none", dedicated_cpus=(6,)),
            guest("floats", dedicated_cpus=(), floating_cpus=(7,), attachments=(drive,)),
            switch=switch,
            host=host,
        )
        inventory = self.classify(picture).domains[0]
        behind = {
            one.id: sorted(tenant.name for tenant in inventory.behind(one.id))
            for one in inventory.domain.device_ports
        }
        self.assertEqual(
            {nic.id: ["both", "vf", "vswitch"], disk.id: ["both", "pool"], far.id: []}, behind
        )
        both = next(one for one in inventory.tenants if one.name == "both")
        self.assertEqual(("eth1", "0000:3b:00.1", "0000:3c:00.0"), both.devices)
        self.assertEqual("port 0000:3b:00.0", inventory.names[nic.id])

    def test_open_vswitch_in_the_kernel_is_reported_not_managed(self) -> None:
        """A kernel datapath is no tenant and no cause for a warning."""
        switch = VirtualSwitch({"br-int": "system"}, (), ())
        classified = self.classify(facts(switch=switch))
        self.assertEqual(["host"], [tenant.name for tenant in classified.domains[0].tenants])
        self.assertEqual((), texts(classified.warnings))
        self.assertIn("not managed", sentence(classified.reasons["stack"]))

    def test_pmd_threads_that_nobody_found(self) -> None:
        """A userspace datapath on unknown CPUs is told, with what the switch itself said."""
        switch = dataclasses.replace(
            dpdk_switch(), pmd_source=None, warnings=(verbatim("no pmd-cpu-mask"),)
        )
        warnings = texts(self.classify(facts(switch=switch)).warnings)
        self.assertIn("its PMD CPUs are not known", warnings[0])
        self.assertEqual("no pmd-cpu-mask", warnings[1])

    def test_no_pmd_threads(self) -> None:
        """A userspace datapath whose ovs-vswitchd says that no PMD thread runs is no unknown."""
        switch = dataclasses.replace(dpdk_switch(), pmd_source="pmd-rxq-show")
        classified = self.classify(facts(switch=switch))
        self.assertEqual((), texts(classified.warnings))
        self.assertIn("no PMD thread runs", sentence(classified.reasons["stack"]))

    def test_mask_of_cpus_that_are_not_there(self) -> None:
        """A mask says where PMD threads may run: CPUs of it that the host lacks are no matter."""
        classified = self.classify(facts(switch=dpdk_switch(1, 2, 4000)))
        stack = next(t for t in classified.domains[0].tenants if t.kind is TenantKind.STACK)
        self.assertEqual(((1, 2), ()), (stack.cpus, texts(stack.warnings)))

    def test_two_domains(self) -> None:
        """Every domain has its own tenants; who is on both is one tenant in each."""
        wide = guest("wide", dedicated_cpus=(7, 8))
        picture = facts(wide, guest("left"), host=TWO, switch=dpdk_switch(1, 9, 10))
        left, right = self.tenants(picture, number=0), self.tenants(picture, number=1)
        self.assertEqual(["vswitch", "left", "wide", "host"], list(left))
        self.assertEqual(["vswitch", "wide", "host"], list(right))
        self.assertEqual(((7,), (8,)), (left["wide"].cpus, right["wide"].cpus))
        self.assertEqual(((1,), (9, 10)), (left["vswitch"].cpus, right["vswitch"].cpus))
        self.assertEqual(left["wide"].id, right["wide"].id)


class CollisionTest(ClassifyCase):
    def test_two_guests_on_one_processor(self) -> None:
        """The performance-critical guest keeps it; both are warned."""
        be = guest("a", dedicated_cpus=(2, 3))
        pc = guest("b", dedicated_cpus=(3, 4), extra_specs={"iat:priority": "PC"})
        tenants = self.tenants(facts(be, pc))
        self.assertEqual(((2,), (3, 4)), (tenants["a"].cpus, tenants["b"].cpus))
        self.assertEqual(
            ("CPU 3 is dedicated to b as well, and b keeps the CPU",), texts(tenants["a"].warnings)
        )
        self.assertEqual(("CPU 3 is dedicated to a as well",), texts(tenants["b"].warnings))

    def test_the_stack_keeps_its_processors(self) -> None:
        """A guest pinned to a PMD CPU loses it."""
        tenants = self.tenants(facts(guest(), switch=dpdk_switch(2)))
        self.assertEqual(((2,), (3,)), (tenants["vswitch"].cpus, tenants["web"].cpus))
        self.assertIn("dedicated to the stack as well", texts(tenants["web"].warnings)[0])

    def test_floating_over_dedicated_processors(self) -> None:
        """The pool gets what nobody owns, and says where its guests may run besides."""
        floating = guest("f", dedicated_cpus=(), floating_cpus=tuple(range(8)))
        tenants = self.tenants(facts(guest(), floating))
        self.assertEqual((0, 1, 4, 5, 6, 7), tenants["pool"].cpus)
        self.assertEqual(
            ("f may also run on CPUs 2-3, which are dedicated to other tenants",),
            texts(tenants["pool"].all_warnings),
        )
        self.assertNotIn("host", tenants)

    def test_processors_off_line(self) -> None:
        """A CPU that went offline is dropped with a warning."""
        host = dataclasses.replace(ONE, online_cpus=(0, 1, 2, 4, 5, 6, 7))
        tenants = self.tenants(facts(guest(), host=host))
        self.assertEqual((2,), tenants["web"].cpus)
        self.assertEqual(("CPUs 3 are offline",), texts(tenants["web"].warnings))
        self.assertNotIn(3, tenants["host"].cpus)

    def test_processors_in_no_domain(self) -> None:
        """A CPU whose cache is not managed is dropped with a warning."""
        host = dataclasses.replace(ONE, online_cpus=tuple(range(10)))
        tenant = self.tenants(facts(guest(dedicated_cpus=(2, 8, 9)), host=host))["web"]
        self.assertEqual(((2,), ("CPUs 8-9 are in no cache domain",)),
                         (tenant.cpus, texts(tenant.warnings)))  # fmt: skip

    def test_guests_without_any_processor(self) -> None:
        """A guest that cannot be placed is named and does not stop the others."""
        for name, unplaced, reason in (
            ("offline", guest("x", dedicated_cpus=(40,)), "CPUs 40 are offline"),
            ("unknown", guest("x", dedicated_cpus=()), "no CPUs of the guest are known"),
            (
                "no shared left",
                guest("x", dedicated_cpus=(), floating_cpus=(2, 3)),
                "shared CPU (2-3) is offline, another tenant's or in no cache domain",
            ),
        ):
            with self.subTest(name):
                classified = self.classify(facts(guest(), unplaced))
                names = [tenant.name for tenant in classified.domains[0].tenants]
                self.assertEqual(["web", "host"], names)
                (warning,) = texts(classified.warnings)
                self.assertIn("is not managed", warning)
                self.assertIn(reason, warning)


class PriorityTest(ClassifyCase):
    def test_extra_spec_before_class_before_default(self) -> None:
        """The flavor's own word counts most."""
        text = """
default: {priority: PC}
classes:
- name: cheap
  match: {flavor: "c*"}
  priority: BE
"""
        for flavor, specs, priority, class_name in (
            ("c1", {"iat:priority": "PC"}, Priority.PC, "cheap"),
            ("c1", {}, Priority.BE, "cheap"),
            ("m1", {}, Priority.PC, "default"),
            ("m1", {"iat:priority": "BE"}, Priority.BE, "default"),
        ):
            with self.subTest(flavor=flavor, specs=specs):
                tenant = self.only(guest(flavor=flavor, extra_specs=specs), text)
                self.assertEqual((priority, class_name), (tenant.priority, tenant.class_name))

    def test_unknown_values_are_best_effort_with_a_warning(self) -> None:
        """A flavor that cannot be understood does no harm and is seen."""
        specs = {"iat:priority": "urgent", "iat:io": "?", "iat:llc_ways": "many", "iat:x": "1"}
        tenant = self.only(guest(extra_specs=specs))
        self.assertEqual((Priority.BE, False), (tenant.priority, tenant.io))
        self.assertEqual(WayRequest(1, 2, 11), tenant.ways)
        self.assertEqual(4, len(tenant.warnings))
        self.assertIn("iat:priority='urgent' is not used", texts(tenant.warnings)[0])

    def test_pool_priority(self) -> None:
        """The pool's priority is the policy's, or its most important member's if that says so."""
        pc = guest("a", dedicated_cpus=(), floating_cpus=(4,), extra_specs={"iat:priority": "PC"})
        be = guest("b", dedicated_cpus=(), floating_cpus=(4,))
        for rule, priority, warned in (
            ("BE", Priority.BE, "a: it is PC and floats, so it gets the pool's priority BE"),
            ("PC", Priority.PC, "b: it is BE and floats"),
            ("highest", Priority.PC, "b: it is BE and floats"),
        ):
            with self.subTest(rule):
                pool = self.tenants(facts(pc, be), f"pool: {{priority: {rule}}}")["pool"]
                self.assertEqual(priority, pool.priority)
                (warning,) = texts(pool.all_warnings)
                self.assertIn(warned, warning)

    def test_a_weight_is_not_the_pools(self) -> None:
        """A floating guest of a class with a weight: its owner is told."""
        one = guest("a", dedicated_cpus=(), floating_cpus=(4,))
        for weight, said in ((1, 0), (2, 1), (0.5, 1)):
            pool = self.tenants(facts(one), f"classes: [{{name: c, weight: {weight}}}]")["pool"]
            self.assertEqual(1.0, pool.weight)
            self.assertEqual(said, sum("not its class's" in t for t in texts(pool.all_warnings)))

    def test_flavors_speak_where_nova_does_not(self) -> None:
        """The policy's flavors count exactly where extra specs are unknown."""
        text = (EXAMPLES / "old-nova.yaml").read_text()
        unknown = self.only(guest(flavor="m1.critical", extra_specs=None), text)
        known = self.only(guest(flavor="m1.critical", extra_specs={}), text)
        self.assertEqual(
            (Priority.PC, WayRequest(3, 3, 11, promised=3), ()),
            (unknown.priority, unknown.ways, texts(unknown.warnings)),
        )
        self.assertEqual((Priority.BE, ()), (known.priority, texts(known.warnings)))
        strange = self.only(guest(flavor="m9", extra_specs=None), text)
        self.assertEqual(Priority.BE, strange.priority)
        self.assertIn("the extra specs of flavor m9 are not known", texts(strange.warnings)[0])

    def test_guest_s_own_warnings_are_kept(self) -> None:
        """What the inventory and libvirt's cachetune say of a guest stays with it."""
        tenant = self.only(guest(warnings=(verbatim("odd pins"),), cachetune=True))
        self.assertEqual("odd pins", texts(tenant.warnings)[0])
        self.assertIn("cachetune", texts(tenant.warnings)[1])
        floating = guest(dedicated_cpus=(), floating_cpus=(4,), warnings=(verbatim("odd pins"),))
        self.assertEqual(
            ("web: odd pins",), texts(self.tenants(facts(floating))["pool"].all_warnings)
        )
        twin = guest(uuid="1111111a-0000-0000-0000-000000000001")
        told = texts(self.tenants(facts(floating, twin))["pool"].all_warnings)
        self.assertEqual(("web (00000000): odd pins",), told)


class MatchTest(ClassifyCase):
    def test_conditions(self) -> None:
        """Each condition is met by what it names and by nothing else."""
        one = guest(
            flavor="vnf.large",
            project="p1",
            extra_specs={"hw:mem_page_size": "1GB"},
            attachments=(VF,),
            project_name="telco-a",
            image_properties={"hw_vif_multiqueue_enabled": "true"},
        )
        for condition, met in (
            ('extra_specs: {"hw:mem_page_size": 1GB}', True),
            ('extra_specs: {"hw:mem_page_size": [large, "1?B"]}', True),
            ('extra_specs: {"hw:mem_page_size": large}', False),
            ('extra_specs: {"hw:other": "*"}', False),
            ("flavor: vnf.*", True),
            ("flavor: [a, VNF.*]", False),
            ("project: [p0, p1]", True),
            ("project: p", False),
            ("attachment: vf", True),
            ("attachment: [tap, vdpa]", False),
            ("model: slicing", True),
            ("model: [aggregation, none]", False),
            ('image_properties: {hw_vif_multiqueue_enabled: "true"}', True),
            ("image_properties: {hw_vif_multiqueue_enabled: true}", True),
            ('image_properties: {os_type: "*"}', False),
            ("project_name: [core, telco-*]", True),
            ("project_name: telco", False),
            ("instance: web", True),
            ("instance: instance-w*", True),
            ("instance: db*", False),
            ("domain: 0", True),
            ("domain: [0, 1]", True),
            ("domain: 1", False),
            ("not: {instance: db*}", True),
            ("not: {instance: web}", False),
            ("not: {instance: db*, model: slicing}", False),
            ("not: {instance: db*, project: p0}", True),
            ("{flavor: vnf.*, not: {domain: 1}}", True),
            ("{flavor: a, not: {domain: 1}}", False),
            ("{flavor: vnf.*, model: slicing}", True),
            ("{flavor: vnf.*, model: none}", False),
        ):
            with self.subTest(condition):
                match = condition if condition.startswith("{") else f"{{{condition}}}"
                tenant = self.only(one, f"classes:\n- name: c\n  match: {match}")
                self.assertEqual("c" if met else "default", tenant.class_name)

    def test_unknown_facts_meet_no_condition(self) -> None:
        """What is not known of a guest is never taken to match, not even by a star."""
        one = guest(flavor=None, project=None, extra_specs=None)
        for condition in ('flavor: "*"', 'project: "*"', 'extra_specs: {"iat:io": "*"}'):
            with self.subTest(condition):
                text = f"classes:\n- name: c\n  match: {{{condition}}}"
                self.assertEqual("default", self.only(one, text).class_name)
        for condition in ('project_name: "*"', 'image_properties: {os_type: "*"}'):
            text = f"classes:\n- name: c\n  match: {{{condition}}}"
            self.assertEqual("default", self.only(guest(), text).class_name)

    def test_a_guest_on_two_sockets(self) -> None:
        """It is in the class of either, in both; of another only by its CPUs."""
        text = "classes:\n- {name: c, match: {domain: 1}}"
        for cpus, expected in (((2, 3), "default"), ((10, 11), "c"), ((3, 10), "c")):
            classified = self.classify(facts(guest(dedicated_cpus=cpus), host=TWO), text)
            found = {
                tenant.class_name
                for inventory in classified.domains.values()
                for tenant in inventory.tenants
                if tenant.kind is TenantKind.GUEST
            }
            self.assertEqual({expected}, found)

    def test_why_not(self) -> None:
        """The reason names what was met and what was asked not to be."""
        text = "classes:\n- {name: c, match: {domain: 0, not: {instance: db*, flavor: x}}}"
        reasons = self.classify(facts(guest()), text).reasons
        self.assertIn(
            "class c (domain=0, none of flavor, instance)", sentence(reasons[f"{guest().uuid}/1"])
        )

    def test_what_is_never_reached(self) -> None:
        """A class that bars somebody leaves him to the next; one that bars nobody does not."""
        for first, second, reached in (
            ("{flavor: x, not: {domain: 1}}", "{flavor: x}", True),
            ("{flavor: x}", "{flavor: x, not: {domain: 1}}", False),
            ("{not: {domain: 1}}", "{flavor: x, not: {domain: 1}}", False),
            ("{not: {domain: 1}}", "{flavor: x, not: {domain: 0}}", True),
        ):
            text = f"classes:\n- {{name: a, match: {first}}}\n- {{name: b, match: {second}}}"
            codes = [one.message.code for one in policy.parse(text, TWO).warnings]
            self.assertEqual([] if reached else ["class-never-reached"], codes, text)

    def test_no_such_domain(self) -> None:
        """A policy may be of a whole fleet: a host that lacks a domain has nothing wrong."""
        text = "classes:\n- {name: a, match: {domain: 7}}\ndomains: {7: {ddio_ways_max: 4}}"
        self.assertEqual((), policy.parse(text, ONE).warnings)
        self.assertEqual("default", self.only(guest(), text).class_name)

    def test_first_match_wins(self) -> None:
        """A guest falls into the first class it matches, and the reason tells why."""
        text = """
classes:
- {name: a, match: {flavor: x}}
- {name: b, match: {project: p1}}
- name: c
"""
        classified = self.classify(facts(guest(extra_specs={"iat:priority": "PC"})), text)
        self.assertEqual("b", classified.domains[0].tenants[0].class_name)
        self.assertEqual(
            "class b (project=p1); PC by extra spec; io false by auto "
            "(no VF, PF, macvtap, vDPA or vhost-user)",
            sentence(classified.reasons[f"{guest().uuid}/1"]),
        )


class IoTest(ClassifyCase):
    def test_each_attachment_without_counters(self) -> None:
        """The attachment decides where nobody counts."""
        for kind, io, model in (
            (AttachmentKind.VF, True, DeviceModel.SLICING),
            (AttachmentKind.PF, True, DeviceModel.SLICING),
            (AttachmentKind.MACVTAP, True, DeviceModel.SLICING),
            (AttachmentKind.VDPA, True, DeviceModel.SLICING),
            (AttachmentKind.VHOST_USER, True, DeviceModel.AGGREGATION),
            (AttachmentKind.TAP, False, DeviceModel.NONE),
            (AttachmentKind.PCI, False, DeviceModel.NONE),
        ):
            with self.subTest(kind):
                tenant = self.only(guest(attachments=(attachment(kind),)))
                self.assertEqual((io, model), (tenant.io, tenant.model))

    def test_slicing_wins_over_aggregation(self) -> None:
        """A guest with both kinds of devices counts as slicing."""
        both = (attachment(AttachmentKind.VHOST_USER), VF)
        self.assertEqual(DeviceModel.SLICING, self.only(guest(attachments=both)).model)

    def test_asked_for(self) -> None:
        """Flavor and class overrule what would be found out, the flavor first."""
        text = "classes:\n- {name: c, match: {flavor: c}, io: true}"
        for flavor, specs, devices, io in (
            ("m", {"iat:io": "true"}, (), True),
            ("m", {"iat:io": "false"}, (VF,), False),
            ("c", {}, (), True),
            ("c", {"iat:io": "false"}, (), False),
            ("c", {"iat:io": "auto"}, (), False),
        ):
            with self.subTest(flavor=flavor, specs=specs):
                one = guest(flavor=flavor, extra_specs=specs, attachments=devices)
                self.assertIs(io, self.only(one, text).io)

    def test_the_reason_has_the_rate(self) -> None:
        """At or above the threshold, or below; who asked for it, where somebody did."""
        text = "parameters: {io_on: 1k/s, io_off: 1k/s}"
        for rate, code in ((1000.0, "io-at-or-above"), (999.0, "io-below")):
            tap = attachment(AttachmentKind.VHOST_USER, "vhu1", packets_per_s=rate)
            rules = policy.parse(text, ONE).rules
            _, why = classify._io(rules, guest(attachments=(tap,)), Io.AUTO, None)
            self.assertEqual((code, rate, 1000.0), (why.code, *why.values.values()))
        for specs, default, by in (
            ({"iat:io": "true"}, "auto", "by-extra-spec"),
            ({"iat:io": "true"}, "false", "by-extra-spec"),
            ({}, "true", "by-class"),
        ):
            rules = policy.parse(f"default: {{io: {default}}}", ONE).rules
            found = classify._judge(rules, guest(extra_specs=specs), None, (0,), ())
            self.assertEqual(by, found.reason.values["io_by"].code)

    def test_hysteresis(self) -> None:
        """On at the upper rate, off below the lower one, between them as before."""
        key = f"{guest().uuid}/1"
        before: Mapping[str, bool] = {}
        for rate, io in (
            (4e3, False), (9_999.0, False), (10e3, True), (5e3, True), (4_999.0, False),
            (9e3, False), (10e3, True),
        ):  # fmt: skip
            port = attachment(AttachmentKind.VHOST_USER, packets=1, packets_per_s=rate)
            classified = self.classify(facts(guest(attachments=(port,))), io_before=before)
            before = classified.io
            self.assertEqual({key: io}, before, rate)
            self.assertIs(io, classified.domains[0].tenants[0].io)

    def test_rates_add_up_and_one_uncounted_device_decides(self) -> None:
        """Interfaces count together; one that nobody counts makes the guest I/O."""
        slow = attachment(AttachmentKind.VHOST_USER, packets=1, packets_per_s=6e3)
        tap = attachment(AttachmentKind.TAP, packets=1, packets_per_s=1e9)
        for devices, io in (((slow,), False), ((slow, slow), True), ((slow, tap), False),
                            ((slow, VF), True)):  # fmt: skip
            self.assertIs(io, self.only(guest(attachments=devices)).io, devices)


class SocketTest(ClassifyCase):
    FAR = attachment(AttachmentKind.VF, "0000:af:02.0", numa_node=1)

    def test_device_on_another_socket(self) -> None:
        """DDIO of this domain cannot serve it: not I/O here, and a warning."""
        tenant = self.only(guest(attachments=(self.FAR,)), host=TWO)
        self.assertFalse(tenant.io)
        self.assertEqual(DeviceModel.SLICING, tenant.model)
        self.assertEqual(
            ("0000:af:02.0 is on NUMA node 1, the guest's CPUs are not: DDIO fills the LLC of "
             "the device's socket",), texts(tenant.warnings))  # fmt: skip

    def test_asked_for_all_the_same(self) -> None:
        """What the flavor says stands, with the warning."""
        one = guest(attachments=(self.FAR,), extra_specs={"iat:io": "true"})
        tenant = self.only(one, host=TWO)
        self.assertTrue(tenant.io)
        self.assertEqual(1, len(tenant.warnings))

    def test_a_guest_on_both_sockets(self) -> None:
        """It is I/O where its device is."""
        picture = facts(guest(dedicated_cpus=(2, 9), attachments=(self.FAR,)), host=TWO)
        self.assertFalse(self.tenants(picture, number=0)["web"].io)
        self.assertTrue(self.tenants(picture, number=1)["web"].io)

    def test_one_device_on_each_socket(self) -> None:
        """One near device is enough; the far one is told."""
        tenant = self.only(guest(attachments=(VF, self.FAR)), host=TWO)
        self.assertTrue(tenant.io)
        self.assertEqual(1, len(tenant.warnings))

    def test_unknown_nodes_claim_nothing(self) -> None:
        """Where the node of the device or of the domain is unknown there is no warning."""
        nowhere = attachment(AttachmentKind.VF)
        blind = HostFacts("h", (domain(numa_nodes=()),), tuple(range(8)))
        for device, host in ((nowhere, ONE), (self.FAR, blind)):
            tenant = self.only(guest(attachments=(device,)), host=host)
            self.assertEqual((True, ()), (tenant.io, texts(tenant.warnings)))

    def test_guest_s_own_nodes_stand_in(self) -> None:
        """Without the domain's nodes the guest's are compared with the device's."""
        blind = HostFacts("h", (domain(numa_nodes=()),), tuple(range(8)))
        tenant = self.only(guest(attachments=(self.FAR,), numa_nodes=(0,)), host=blind)
        self.assertEqual((False, 1), (tenant.io, len(tenant.warnings)))


class WaysTest(ClassifyCase):
    def test_what_a_flavor_asks_for(self) -> None:
        """iat:llc_ways is guaranteed and initial, iat:llc_ways_max the most."""
        text = "default: {ways: {min: 2, initial: 3, max: 5}}"
        for specs, request in (
            ({}, WayRequest(2, 3, 5)),
            ({"iat:llc_ways": "4"}, WayRequest(4, 4, 5, promised=4)),
            ({"iat:llc_ways": "7"}, WayRequest(7, 7, 7, promised=7)),
            ({"iat:llc_ways_max": "8"}, WayRequest(2, 3, 8)),
            ({"iat:llc_ways_max": "1"}, WayRequest(1, 1, 1)),
            ({"iat:llc_ways": "2", "iat:llc_ways_max": "6"}, WayRequest(2, 2, 6, promised=2)),
        ):
            with self.subTest(specs):
                self.assertEqual(request, self.only(guest(extra_specs=specs), text).ways)

    def test_more_than_there_is(self) -> None:
        """A guarantee beyond the LLC is cut to it, with a warning on guest and host."""
        picture = facts(guest(extra_specs={"iat:llc_ways": "14", "iat:priority": "PC"}))
        classified = self.classify(picture, "reserved_ways: [10]")
        tenant = classified.domains[0].tenants[0]
        self.assertEqual(WayRequest(10, 10, 10, promised=10), tenant.ways)
        self.assertEqual(
            ("is guaranteed 14 ways, the LLC has 10 for tenants",), texts(tenant.warnings)
        )

    def test_as_many_as_there_are(self) -> None:
        """A guarantee of all ways but the reserved ones is no warning; nor all guests together."""
        for ways, warned in ((3, False), (8, False), (9, True)):
            asked = guest(extra_specs={"iat:llc_ways": str(ways), "iat:priority": "PC"})
            classified = self.classify(facts(asked), "reserved_ways: [8, 9, 10]")
            (tenant,) = (one for one in classified.domains[0].tenants if one.name == "web")
            self.assertEqual(warned, bool(tenant.warnings))
            self.assertEqual(min(ways, 8), tenant.ways.min)
            together = [one for one in texts(classified.warnings) if "will share" in one]
            self.assertEqual(1 if ways + 1 > 8 else 0, len(together), ways)

    def test_least_mask(self) -> None:
        """No request falls below the least mask of the hardware."""
        host = HostFacts("h", (domain(min_ways=2),), tuple(range(8)))
        self.assertEqual(WayRequest(2, 2, 11), self.tenants(facts(host=host))["host"].ways)

    def test_guarantees_that_do_not_fit_together(self) -> None:
        """The domain's shortage is told, PC tenants' before everybody's."""

        def demanding(number: int, priority: str) -> Guest:
            specs = {"iat:llc_ways": "4", "iat:priority": priority}
            return guest(f"g{number}", dedicated_cpus=(number,), extra_specs=specs)

        for priority, count, message in (
            ("PC", 2, None),
            ("PC", 3, "the minimums of PC tenants and the stack are 12 ways together, the LLC"),
            ("BE", 3, "the tenants' minimums are 13 ways together, the LLC"),
        ):
            with self.subTest(priority=priority, count=count):
                picture = facts(*(demanding(n, priority) for n in range(count)))
                warnings = [w for w in texts(self.classify(picture).warnings) if "will share" in w]
                if message is None:
                    self.assertEqual([], warnings)
                else:
                    self.assertEqual(
                        [f"cache domain 0: {message} has 11 for tenants: some will share"], warnings
                    )

    def test_bandwidth_of_which_nobody_knows_the_whole(self) -> None:
        """Said once, with the classes that ask for it, where the CPU limits it in GB/s."""
        text = "classes: [{name: batch, bandwidth_min: 40%}]\npool: {bandwidth_min: 60%}"
        absolute = BandwidthControl(1, 1, 2048, percent=False)
        both = guest(dedicated_cpus=(3,)), guest("g", dedicated_cpus=(), floating_cpus=(4, 12))
        for control, policy_text, said in (
            (absolute, text, 1),
            (absolute, "{}", 0),
            (dataclasses.replace(absolute, whole=400), text, 0),
            (BandwidthControl(10, 10, 100, percent=True), text, 0),
            (None, text, 0),
        ):
            domains = tuple(dataclasses.replace(one, bandwidth=control) for one in TWO.domains)
            picture = facts(*both, host=dataclasses.replace(TWO, domains=domains))
            warnings = [
                w for w in texts(self.classify(picture, policy_text).warnings) if "100 %" in w
            ]
            self.assertEqual(said, len(warnings))
            for warning in warnings:
                self.assertTrue(warning.startswith("bandwidth_min of batch, pool: "), warning)
                self.assertIn("nothing is limited; set [iat] memory_bandwidth_gbps", warning)

    def test_reasons(self) -> None:
        """Of the pool's priority, and of what is known of the switch's threads."""
        for text, priority in (("{}", "BE"), ("pool: {priority: PC}", "PC"),
                               ("pool: {priority: highest}", "highest")):  # fmt: skip
            rules = policy.parse(text, ONE).rules
            pool = classify._own_reasons(rules, None)["pool"]
            self.assertEqual(priority, pool.values["priority"])
        for cpus, source, code in (
            ((3,), "threads", "stack-reason-source"),
            ((3,), None, "stack-reason"),
            ((), "ended", "stack-ended"),
            ((), "threads", "stack-without-threads"),
            ((), "pmd-cpu-mask", "stack-without-threads"),
            ((), None, "stack-in-kernel"),
        ):
            known = source and "".join(source)  # as read, not as written here
            switch = dataclasses.replace(dpdk_switch(*cpus), pmd_source=known)
            self.assertEqual(code, classify._stack_reason(switch).code)

    def test_floating_guests_have_no_ways_of_their_own(self) -> None:
        """A floating guest's wish for ways is told to be the pool's business."""
        one = guest(dedicated_cpus=(), floating_cpus=(4,), extra_specs={"iat:llc_ways": "3"})
        other = dataclasses.replace(one, uuid="u2", display_name="db")
        classified = self.classify(facts(one, other))
        (pool,) = (one for one in classified.domains[0].tenants if one.id == "pool")
        self.assertEqual(WayRequest(1, 2, 11), pool.ways)
        self.assertIn("db: its flavor asks for LLC ways", texts(pool.all_warnings)[0])
        said = [(name, said.code) for name, said in own_warnings(classified.domains.values())]
        self.assertEqual([(name, "member-ways-unused") for name in ("db", "web")], said)

    def test_reserved_ways_join_the_hardware_s(self) -> None:
        """The policy's reserved ways are added to those already reserved."""
        host = HostFacts("h", (domain(reserved_ways=WayMask(1)),), tuple(range(8)))
        classified = self.classify(facts(host=host), "reserved_ways: [9, 10]")
        self.assertEqual(WayMask(0x601), classified.domains[0].domain.reserved_ways)
        self.assertEqual(8, classified.domains[0].tenants[0].ways.max)

    def test_ways_that_come_together_are_reserved_together(self) -> None:
        """Else a mask with the other would have the reserved one as well."""
        tied = domain(coerced_ways=WayMask(0x600))
        host = HostFacts("h", (tied,), tuple(range(8)))
        for rule, reserved in (("[10]", 0x600), ("[0]", 0x001)):
            classified = self.classify(facts(host=host), f"reserved_ways: {rule}")
            self.assertEqual(WayMask(reserved), classified.domains[0].domain.reserved_ways)

    def test_each_domain_its_own_maximum(self) -> None:
        """All ways means those of the domain, not the least of the host."""
        host = HostFacts("h", (domain(), domain(1, ways=12, cpus=range(8, 16))), tuple(range(16)))
        self.assertEqual(12, self.tenants(facts(host=host), number=1)["host"].ways.max)


CPUS = st.lists(st.integers(0, 20), max_size=4, unique=True).map(tuple)
WORDS = st.sampled_from(["PC", "BE", "true", "false", "auto", "3", "0", "99", "", "x"])
SPECS = st.dictionaries(
    st.sampled_from(["iat:priority", "iat:io", "iat:llc_ways", "iat:llc_ways_max", "hw:x"]), WORDS
)
DEVICES = st.builds(
    lambda kind, node, rate: attachment(kind, numa_node=node, packets_per_s=rate),
    st.sampled_from(AttachmentKind),
    st.sampled_from((None, 0, 1)),
    st.sampled_from((None, 0.0, 1e6)),
)
GUESTS = st.builds(
    lambda specs, dedicated, floating, devices: guest(
        extra_specs=specs,
        dedicated_cpus=dedicated,
        floating_cpus=floating,
        attachments=tuple(devices),
    ),
    st.none() | SPECS,
    CPUS,
    CPUS,
    st.lists(DEVICES, max_size=2),
)


class AnyFactsTest(ClassifyCase):
    @given(st.lists(GUESTS, max_size=5), st.none() | CPUS, st.sets(st.integers(0, 15)))
    @settings(derandomize=True, max_examples=150, deadline=None)
    def test_every_processor_has_one_owner(
        self, guests: list[Guest], pmd: tuple[int, ...] | None, offline: set[int]
    ) -> None:
        """On any host each online CPU of a domain is in exactly one of its tenants."""
        numbered = [dataclasses.replace(one, run=n) for n, one in enumerate(guests)]
        online = tuple(sorted(set(TWO.online_cpus) - offline))
        host = dataclasses.replace(TWO, online_cpus=online)
        switch = None if pmd is None else dpdk_switch(*pmd)
        classified = self.classify(facts(*numbered, host=host, switch=switch))
        for inventory in classified.domains.values():
            owned = sorted(cpu for tenant in inventory.tenants for cpu in tenant.cpus)
            self.assertEqual(sorted(set(inventory.domain.cpus) & set(online)), owned)
            names = [tenant.id for tenant in inventory.tenants]
            self.assertEqual(len(set(names)), len(names))
            for tenant in inventory.tenants:
                self.assertTrue(tenant.cpus)
                self.assertLessEqual(1, tenant.ways.min)
                self.assertLessEqual(tenant.ways.min, tenant.ways.initial)
                self.assertLessEqual(tenant.ways.initial, tenant.ways.max)
                self.assertLessEqual(tenant.ways.max, inventory.domain.ways)
                self.assertIn(tenant.id, classified.reasons)
        managed = {t.id for i in classified.domains.values() for t in i.tenants}
        members = [t for i in classified.domains.values() for t in i.tenants if t.id == "pool"]
        for one in numbered:
            key = f"{one.uuid}/{one.run}"
            told = any(one.uuid in warning for warning in texts(classified.warnings))
            pooled = any(one.display_name in pool.members for pool in members)
            self.assertTrue(key in managed or pooled or told)
