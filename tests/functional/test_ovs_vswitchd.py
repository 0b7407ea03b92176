# SPDX-License-Identifier: Apache-2.0
"""A real ovs-vswitchd with a userspace datapath and PMD threads, without DPDK.

Its dummy devices are polled by PMD threads as real ones are, so no huge pages are needed.
"""

import os
from unittest import mock

from iat_nova.inventory import pmd
from iat_nova.model import Facts, HostFacts
from tests.functional import ovs_daemons
from tests.functional.ovs_case import OvsTestCase, affinity_of_pmd_threads

FRAME = "ffffffffffff0a00000000010800" + "00" * 46


class VswitchdTest(OvsTestCase):
    def setUp(self):
        if reason := ovs_daemons.why_no_vswitchd():
            self.skipTest(reason)
        super().setUp()
        self.daemons.start_ovsdb()
        self.daemons.vsctl("--no-wait", "init")
        self.daemons.start_vswitchd("--enable-dummy", "--disable-system")
        set_ = ("--", "set", "Bridge", "br-int", "datapath_type=netdev")
        port = ("--", "add-port", "br-int", "p0", "--", "set", "Interface", "p0", "type=dummy-pmd")
        self.daemons.vsctl("add-br", "br-int", *set_, *port)
        self.start_source()

    def real_cpus(self):
        return affinity_of_pmd_threads(self.daemons.pid("ovs-vswitchd"))

    def test_rxq_show(self):
        """Without a mask ovs-vswitchd, found by its pid file, tells where it put the threads."""
        switch = self.until(lambda switch: switch and len(switch.ports) == 2)
        self.assertEqual("pmd-rxq-show", switch.pmd_source)
        self.assertEqual(1, len(switch.pmd_cpus))
        self.assertEqual(self.real_cpus(), switch.pmd_cpus)

    def test_threads(self):
        """Where the control socket is closed, the threads' names tell the same."""
        self.source.close()
        self.see_vswitchd()
        self.start_source(vswitchd_control=f"{self.daemons.folder}/none")
        switch = self.until(lambda switch: switch and len(switch.ports) == 2)
        self.assertEqual(("threads", self.real_cpus()), (switch.pmd_source, switch.pmd_cpus))
        self.assertEqual((), switch.warnings)

    def test_malformed_mask(self):
        """With a malformed mask ovs-vswitchd ends its PMD threads: that is what is shown."""
        self.daemons.vsctl(
            "set", "Open_vSwitch", ".", "other_config:dpdk-init=true", "other_config:pmd-cpu-mask=z"
        )
        invalid = "pmd-mask-invalid"
        switch = self.until(lambda switch: invalid in [one.code for one in switch.warnings])
        self.assertEqual("pmd-rxq-show", switch.pmd_source)
        self.assertEqual(self.real_cpus(), switch.pmd_cpus)

    def test_packets(self):
        """Packets that the switch received are counted at the guest's port, nothing else is."""
        before = self.until(lambda switch: switch and len(switch.ports) == 2)
        self.daemons.appctl("netdev-dummy/receive", "p0", FRAME, FRAME)
        # Any change of the interval makes ovs-vswitchd write its statistics at once.
        self.daemons.vsctl("set", "Open_vSwitch", ".", "other_config:stats-update-interval=6000")
        self.daemons.vsctl("wait-until", "Interface", "p0", "statistics:rx_packets=2")
        after = self.until(lambda switch: switch.ports[1].packets == 2)
        self.assertEqual("p0", after.ports[1].name)
        host = HostFacts("compute-7", (), ())
        pictures = [Facts(host, (), switch) for switch in (before, after)]
        self.assertNotEqual(*pictures)
        self.assertEqual(*(picture.lasting for picture in pictures))

    def test_ended_with_a_mask(self):
        """A mask without ovs-vswitchd is told at once; a minute later its CPUs are given back."""
        self.until(lambda switch: switch and switch.pmd_cpus)
        pid = str(self.daemons.pid("ovsdb-server"))
        os.symlink(f"/proc/{pid}", self.proc_root / pid)
        self.daemons.kill("ovs-vswitchd")
        mask = ("other_config:dpdk-init=true", "other_config:pmd-cpu-mask=0x2")
        self.daemons.vsctl("--no-wait", "set", "Open_vSwitch", ".", *mask)
        switch = self.until(lambda switch: switch.pmd_source == "pmd-cpu-mask")
        self.assertEqual((1,), switch.pmd_cpus)
        self.assertEqual("pmd-cpus-kept", switch.warnings[-1].code)
        with mock.patch.object(pmd, "KEPT_S", 0.0):
            switch = self.source.switch()
        self.assertEqual(((), "ended"), (switch.pmd_cpus, switch.pmd_source))

    def test_killed(self):
        """Without ovs-vswitchd the database still tells the ports, and the cores are unknown."""
        self.until(lambda switch: switch and switch.pmd_cpus)
        self.daemons.kill("ovs-vswitchd")
        switch = self.source.switch()
        self.assertEqual(2, len(switch.ports))
        self.assertEqual(((), None), (switch.pmd_cpus, switch.pmd_source))
        self.assertIn("Connection refused", switch.warnings[0].values["error"])
