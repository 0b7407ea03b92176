# SPDX-License-Identifier: Apache-2.0
"""A real OVS-DPDK: PMD threads on real CPUs and a vhost-user port."""

import dataclasses
import os
import shlex
from unittest import mock

from iat_nova.cmd.advise import METHOD, buffers_in_turn
from iat_nova.inventory import pmd, pmd_stats
from iat_nova.inventory.traffic import Traffic
from iat_nova.model import CacheDomain, Facts, HostFacts, Parameters, Sample
from iat_nova.report.advice import Verdict, advise
from tests.functional import huge_pages, ovs_daemons
from tests.functional.ovs_case import OvsTestCase, affinity_of_pmd_threads

HUGE_PAGES_MB = 192  # DPDK's 128 and a margin
UUID = "6b3a4b5e-0000-4000-8000-000000000001"


class DpdkTest(OvsTestCase):
    def setUp(self):
        if reason := ovs_daemons.why_no_dpdk():
            self.skipTest(reason)
        try:
            self.enterContext(huge_pages.reserve(HUGE_PAGES_MB))
        except huge_pages.HugePagesError as error:
            self.skipTest(str(error))
        super().setUp()
        cpus = sorted(os.sched_getaffinity(0))
        self.first, self.last = cpus[0], cpus[-1]
        self.daemons.start_ovsdb()
        self.daemons.vsctl("--no-wait", "init")
        self.daemons.start_dpdk(hex(1 << self.last))
        self.see_vswitchd()
        path = f"{self.daemons.folder}/vhu1"
        self.daemons.vsctl(
            *("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev"),
            *("--", "add-port", "br-int", "vhu1", "--", "set", "Interface", "vhu1"),
            *("type=dpdkvhostuserclient", f"options:vhost-server-path={path}"),
            *(f"external_ids:vm-uuid={UUID}", "external_ids:iface-id=port-1"),
        )
        self.start_source()

    def all_agree(self, cpus):
        """The threads' names, their affinity and ovs-vswitchd's own word are one."""
        self.assertEqual(cpus, pmd.cpus_of_threads(self.proc_root))
        self.assertEqual(cpus, affinity_of_pmd_threads(self.daemons.pid("ovs-vswitchd")))
        text = self.daemons.appctl("dpif-netdev/pmd-rxq-show")
        self.assertEqual(cpus, pmd.parse_rxq_show(text))

    def test_lifetime(self):
        """The stack's CPUs follow the mask, then what ovs-vswitchd chooses without one."""
        switch = self.until(lambda switch: switch and len(switch.ports) == 2)
        self.assertEqual({"br-int": "netdev"}, switch.bridges)
        self.assertEqual(("pmd-rxq-show", (self.last,)), (switch.pmd_source, switch.pmd_cpus))
        self.assertEqual((), switch.warnings)
        self.all_agree((self.last,))
        port = switch.ports[1]
        self.assertEqual(("vhu1", "dpdkvhostuserclient"), (port.name, port.type))
        self.assertEqual((UUID, "port-1"), (port.vm_uuid, port.iface_id))

        mask = f"other_config:pmd-cpu-mask={hex(1 << self.first)}"
        self.daemons.vsctl("set", "Open_vSwitch", ".", mask)
        switch = self.until(lambda switch: switch.pmd_cpus == (self.first,))
        self.all_agree((self.first,))

        self.daemons.vsctl("remove", "Open_vSwitch", ".", "other_config", "pmd-cpu-mask")
        switch = self.until(
            lambda switch: switch.pmd_cpus == pmd.cpus_of_threads(self.proc_root) != ()
        )
        self.all_agree(switch.pmd_cpus)

    def test_what_threads_do(self):
        """A thread whose port nobody uses is idle, loses nothing, and no port drops anything."""
        for part in (
            mock.patch.object(pmd_stats, "WINDOW_S", 0.0),
            mock.patch.object(self.source, "_drops", Traffic(0.0)),
        ):
            self.enterContext(part)
        self.until(lambda switch: switch and len(switch.ports) == 2)
        self.daemons.vsctl("set", "Interface", "vhu1", "external_ids:again=1")  # a second look
        switch = self.until(lambda switch: switch.pmd_threads and switch.drops_per_s is not None)
        (thread,) = switch.pmd_threads
        self.assertEqual((self.last, 0.0, 0.0), (thread.cpu, thread.busy, thread.packets_per_s))
        self.assertEqual((None, 0.0), (thread.cycles_per_packet, thread.lost_upcalls_per_s))
        self.assertEqual(0.0, switch.drops_per_s)

    def test_no_port_no_threads(self):
        """Without a PMD port no thread runs, whatever the mask: the stack has no CPUs."""
        self.until(lambda switch: switch and switch.pmd_cpus == (self.last,))
        self.daemons.vsctl("del-port", "vhu1")
        switch = self.until(lambda switch: switch.pmd_cpus == ())
        self.assertEqual("pmd-rxq-show", switch.pmd_source)
        self.assertEqual((), switch.warnings)

    def test_mempool(self):
        """A port of DPDK's has a mempool, and rings as they were asked for."""
        self.until(lambda switch: switch and len(switch.ports) == 2)
        self.daemons.vsctl(
            *("add-port", "br-int", "null0", "--", "set", "Interface", "null0", "type=dpdk"),
            *("options:dpdk-devargs=net_null0", "options:n_rxq_desc=512", "options:n_rxq=1"),
        )
        switch = self.until(lambda switch: len(switch.ports) == 3)
        port = next(port for port in switch.ports if port.name == "null0")
        self.assertEqual((512, 1), (port.rx_descriptors, port.rx_queues))
        self.assertGreater(buffers_in_turn(self.daemons.appctl(METHOD)), 512)

    def test_a_leaking_ring_is_made_smaller_as_advised(self):
        """The printed command, as it stands, makes the port's ring one that fits."""
        self.until(lambda switch: switch and len(switch.ports) == 2)
        self.daemons.vsctl(
            *("add-port", "br-int", "null0", "--", "set", "Interface", "null0", "type=dpdk"),
            *("options:dpdk-devargs=net_null0", "options:n_rxq_desc=4096"),
        )
        switch = self.until(lambda switch: len(switch.ports) == 3)
        domain = CacheDomain(id=0, cpus=(0,), ways=11, classes=16, way_bytes=2 << 20)

        def facts_of(switch):
            card = ("0000:3b:00.0",)  # for which DPDK's null driver stands
            ports = tuple(dataclasses.replace(one, cards=card) for one in switch.ports)
            switch = dataclasses.replace(switch, ports=ports)
            return Facts(HostFacts("host", (domain,), (0,), ()), (), switch)

        leak = Sample(0, 1.0, 1.0, {}, ddio_hits_per_s=3e7, ddio_misses_per_s=2e7)
        two_ways = Parameters(ddio_ways_max=2)
        found = advise(facts_of(switch), domain, 2, two_ways, [leak])
        self.assertIs(Verdict.LEAK, found.verdict)
        self.assertEqual("null0", found.rings[0].device)
        (choice,) = found.choices
        command = shlex.split(choice.commands[0])
        self.assertEqual("ovs-vsctl", command[0])
        self.daemons.vsctl(*command[1:])
        switch = self.until(
            lambda switch: {one.name: one.rx_descriptors for one in switch.ports}["null0"] != 4096
        )
        self.assertTrue(advise(facts_of(switch), domain, 2, two_ways).fits)
        log = (self.daemons.folder / "ovs-vswitchd.log").read_text()
        self.assertNotIn("null0: could not set configuration", log)
