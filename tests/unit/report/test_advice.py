# SPDX-License-Identifier: Apache-2.0
"""What packet buffers need of DDIO's ways."""

import dataclasses
import re
import unittest

from iat_nova.inventory.mempools import read_mempools
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    Facts,
    Guest,
    HostFacts,
    Mempool,
    Nic,
    SwitchPort,
    VirtualSwitch,
)
from iat_nova.report import advice

MIB = 1 << 20
DOMAIN = CacheDomain(
    id=0, cpus=tuple(range(8)), ways=11, classes=16, way_bytes=2 * MIB, numa_nodes=(0,)
)
PORT = SwitchPort("dpdk0", "br", "dpdk", dpdk_device="0000:3b:00.0,dv_flow_en=1")
NICS = (Nic("0000:3b:00.0", None, 0, 25.0), Nic("0000:af:00.0", None, 1, 100.0))
DUMP = """\
mempool <ovs1>@0x1
  flags=10
  size=262143
  populated_size=262143
  ops_name: <ring_mp_mc>
mempool <broken>@0x2
  size=7
mempool <ovs2>@0x3
  size=16384
  ops_name: <stack>
"""


def guest(*attachments):
    return Guest("u", 1, "instance-1", "web", None, {}, None, (4,), (), attachments=attachments)


def facts(ports=(), guests=()):
    switch = VirtualSwitch({"br": "netdev"}, tuple(ports), (0,)) if ports else None
    return Facts(HostFacts("host", (DOMAIN,), DOMAIN.cpus, NICS), tuple(guests), switch)


def advise(known, ddio_ways=2, pools=(), ways_max=11, **assumed):
    return advice.advise(known, DOMAIN, ddio_ways, ways_max, advice.Assumed(**assumed), pools)


class AdviceTest(unittest.TestCase):
    def test_a_ports_footprint(self):
        """Defaults are Open vSwitch's; a full-sized packet takes 24 lines and its descriptor."""
        found = advise(facts([PORT]))
        (rings,) = found.rings
        self.assertEqual((1, 2048, 1500, 25.0), (rings.queues, rings.descriptors, rings.mtu,
                                                  rings.speed_gbps))  # fmt: skip
        self.assertEqual(2 * 2048 * (24 * 64 + 32), found.footprint_bytes)
        self.assertFalse(found.fits)
        self.assertEqual(256, found.ring_that_fits)
        self.assertEqual(6, found.ways_that_fit)

    def test_sets_fill_by_chance(self):
        """At half of two ways a line in four meets two others in its set; at a quarter, one in ten.

        1 - e^-1 (1 + 1) = 0.26, and 1 - e^-0.53 (1 + 0.53) = 0.10.
        """
        one = advise(facts([PORT]))
        self.assertFalse(one.holds(2 * MIB))
        self.assertTrue(one.holds(int(0.53 * 2 * MIB)))
        self.assertFalse(one.holds(int(0.54 * 2 * MIB)))

    def test_what_was_set_counts(self):
        """Queues, descriptors and MTU that the operator set are taken."""
        port = dataclasses.replace(PORT, rx_queues=4, rx_descriptors=128, mtu=600)
        found = advise(facts([port]))
        self.assertEqual(2 * 4 * 128 * (10 * 64 + 32), found.footprint_bytes)
        self.assertTrue(found.fits)

    def test_devices_of_the_other_socket(self):
        """DDIO acts on the device's socket; a device whose socket nobody knows counts here, too."""
        far = dataclasses.replace(PORT, name="dpdk1", dpdk_device="0000:af:00.0")
        lost = dataclasses.replace(PORT, name="dpdk2", dpdk_device=None)
        tap = dataclasses.replace(PORT, name="tap1", type="system")
        found = advise(facts([PORT, far, lost, tap]))
        self.assertEqual(["dpdk0", "dpdk2"], [rings.device for rings in found.rings])

    def test_guests(self):
        """A guest's own devices have the rings that are assumed; those behind a switch none."""
        vf = Attachment(AttachmentKind.VF, "0000:3b:02.1", pf="0000:3b:00.0", numa_node=0)
        far = dataclasses.replace(vf, device="0000:af:02.1", numa_node=1)
        behind = Attachment(AttachmentKind.VHOST_USER, "vhu1")
        found = advise(facts(guests=[guest(vf, far, behind)]), queues=2, descriptors=512)
        (rings,) = found.rings
        self.assertEqual(("web", "0000:3b:02.1", 2, 512, True, 25.0),
                         (rings.owner, rings.device, rings.queues, rings.descriptors,
                          rings.assumed, rings.speed_gbps))  # fmt: skip

    def test_a_pool_used_in_turn(self):
        """All buffers of a ring mempool circulate, however small the rings; a stack's do not."""
        port = dataclasses.replace(PORT, rx_descriptors=64)
        ring, stack = Mempool("a", "ring_mp_mc", 16384), Mempool("b", "stack", 16384)
        self.assertTrue(advise(facts([port]), pools=[stack]).fits)
        found = advise(facts([port]), pools=[ring, stack])
        self.assertFalse(found.fits)
        self.assertEqual(16384 * (24 * 64 + 32), found.pool_bytes)

    def test_nothing_fits(self):
        """Where not even the smallest ring or all ways do, that is told as None."""
        vfs = [
            Attachment(AttachmentKind.VF, f"0000:3b:{n:02x}.0", pf="0000:3b:00.0", numa_node=0)
            for n in range(32)
        ]
        found = advise(facts(guests=[guest(*vfs)]), queues=4)
        self.assertEqual((None, None), (found.ring_that_fits, found.ways_that_fit))

    def test_ways_the_policy_does_not_allow(self):
        """Ways beyond the policy's most are not counted on."""
        self.assertEqual(6, advise(facts([PORT]), ways_max=6).ways_that_fit)
        self.assertIsNone(advise(facts([PORT]), ways_max=5).ways_that_fit)

    def test_nothing_to_say(self):
        """Without devices everything fits; without the size of a way there is no advice."""
        self.assertTrue(advise(facts()).fits)
        unknown = dataclasses.replace(DOMAIN, way_bytes=None)
        self.assertIsNone(advice.advise(facts(), unknown, 2, 6, advice.Assumed()))


class MempoolsTest(unittest.TestCase):
    def test_a_dump(self):
        """Pools are read from DPDK's text; one that does not tell all is left out."""
        self.assertEqual(
            (Mempool("ovs1", "ring_mp_mc", 262143), Mempool("ovs2", "stack", 16384)),
            read_mempools(DUMP),
        )
        self.assertEqual((), read_mempools(""))

    def test_long_number(self):
        """A pool with a size of thousands of digits is left out."""
        self.assertEqual((), read_mempools(re.sub("size=[0-9]+", "size=" + "9" * 5000, DUMP)))
