# SPDX-License-Identifier: Apache-2.0
"""Whether packet buffers fit in DDIO's ways and leak, and changes that help."""

import dataclasses
import unittest

from iat_nova.cmd.advise import buffers_in_turn
from iat_nova.model import (
    Attachment,
    AttachmentKind,
    CacheDomain,
    Facts,
    Guest,
    HostFacts,
    Nic,
    Parameters,
    Sample,
    SwitchPort,
    VirtualSwitch,
)
from iat_nova.report import advice
from iat_nova.report.advice import Rings, Verdict
from iat_nova.store.reader import HistoryReader
from tests.unit import stories
from tests.unit.report.test_moments import MomentCase

MIB = 1 << 20
DOMAIN = CacheDomain(
    id=0, cpus=tuple(range(8)), ways=11, classes=16, way_bytes=2 * MIB, numa_nodes=(0,)
)
PORT = SwitchPort("dpdk0", "br", "dpdk", cards=("0000:3b:00.0",))
NICS = (Nic("0000:3b:00.0", None, 0, 25.0), Nic("0000:af:00.0", None, 1, 100.0))
VF = Attachment(AttachmentKind.VF, "0000:3b:02.1", pf="0000:3b:00.0", numa_node=0)
FULL_BYTES = 24 * 64 + 32  # lines of a packet of 1,518 bytes, and its descriptor


def port(**values):
    return dataclasses.replace(PORT, **values)


def facts(ports=(), devices=(), drops_per_s=None):
    switch = VirtualSwitch({"br": "netdev"}, ports, (0,), drops_per_s=drops_per_s)
    guest = Guest("u", 1, "instance-1", "web", None, {}, None, (4,), (), attachments=devices)
    return Facts(HostFacts("host", (DOMAIN,), DOMAIN.cpus, NICS), (guest,), switch)


def advise(*ports, devices=(), recent=(), ways_max=11, domain=DOMAIN, drops_per_s=None, **more):
    host = facts(ports, devices, drops_per_s)
    return advice.advise(host, domain, 2, Parameters(ddio_ways_max=ways_max), recent, **more)


def samples(*inbound, missed=0.5):
    return [
        Sample(0, float(number), 1.0, {}, ddio_hits_per_s=(1 - missed) * rate,
               ddio_misses_per_s=missed * rate)
        for number, rate in enumerate(inbound)
    ]  # fmt: skip


class SizesTest(unittest.TestCase):
    def test_defaults_of_open_vswitch(self):
        """Defaults are Open vSwitch's; a full-sized packet takes 24 lines and its descriptor."""
        found = advise(PORT)
        self.assertEqual((Rings("Open vSwitch", "dpdk0", 1, 2048, 1500, False),), found.rings)
        self.assertEqual((2 * 2048 * FULL_BYTES, False), (found.footprint_bytes, found.fits))
        self.assertEqual((256, 6), (found.ring_that_fits, found.ways_that_fit))

    def test_sets_fill_by_chance(self):
        """At half of two ways a line in four meets two others in its set; at a quarter, one in ten.

        1 - e^-1 (1 + 1) = 0.26, and 1 - e^-0.53 (1 + 0.53) = 0.10.
        """
        for share, fits in ((1.0, False), (0.53, True), (0.54, False)):
            self.assertIs(fits, advice._holds(int(share * 2 * MIB), 2, 2 * MIB))

    def test_options_of_a_port(self):
        """Queues, descriptors and MTU that the operator set are taken."""
        found = advise(port(rx_queues=4, rx_descriptors=128, mtu=600))
        self.assertEqual(2 * 4 * 128 * (10 * 64 + 32), found.footprint_bytes)
        self.assertTrue(found.fits)

    def test_devices_of_the_other_socket(self):
        """DDIO acts on the device's socket; a card on an unknown socket counts, too."""
        found = advise(
            PORT,
            port(name="far", cards=("0000:af:00.0",)),
            port(name="unknown", cards=None, rx_descriptors=4096),
            port(name="none", cards=()),
            port(name="tap", type="system"),
        )
        self.assertEqual(["unknown", "dpdk0"], [ring.device for ring in found.rings])

    def test_guests(self):
        """Rings of a guest's own devices are assumed; those behind a switch are none."""
        far = dataclasses.replace(VF, device="0000:af:02.1", numa_node=1)
        behind = Attachment(AttachmentKind.VHOST_USER, "vhu1")
        found = advise(devices=(VF, far, behind), guests=Rings(queues=2, descriptors=512))
        self.assertEqual((Rings("web", VF.device, 2, 512, 1500, assumed=True),), found.rings)

    def test_mempools(self):
        """All buffers of a ring mempool circulate, however small the rings; not without a port."""
        small = port(rx_descriptors=64)
        self.assertTrue(advise(small).fits)
        found = advise(small, pool_buffers=16384)
        self.assertEqual((False, 16384 * FULL_BYTES), (found.fits, found.pool_bytes))
        (choice,) = found.choices
        self.assertEqual(("a stack mempool", False), (choice.what, choice.partial))
        self.assertEqual(0, advise(devices=(VF,), pool_buffers=16384).pool_bytes)

    def test_unknown_size(self):
        """Without devices everything fits; without the size of a way there is no advice."""
        self.assertTrue(advise().fits)
        self.assertIsNone(advise(domain=dataclasses.replace(DOMAIN, way_bytes=None)))


class ChoicesTest(unittest.TestCase):
    def choices(self, *ports, **more):
        return [(one.what, one.partial) for one in advise(*ports, **more).choices]

    def test_ways_of_the_policy(self):
        """Ways are offered as far as the policy and the hardware allow."""
        rings = ("rings of 256", False)
        fixed = dataclasses.replace(DOMAIN, ddio_resizable=False)
        self.assertEqual([("6 DDIO ways", False), rings], self.choices(PORT, ways_max=6))
        self.assertEqual([("5 DDIO ways", True), rings], self.choices(PORT, ways_max=5))
        for limits in ({"ways_max": 2}, {"domain": fixed}):
            self.assertEqual([rings], self.choices(PORT, **limits))

    def test_nothing_is_sufficient(self):
        """The smallest rings are the last resort, and only that."""
        many = [dataclasses.replace(VF, device=f"0000:3b:{n:02x}.0") for n in range(32)]
        crowded = {"devices": many, "guests": Rings(queues=4)}
        self.assertEqual(
            [("6 DDIO ways", True), ("rings of 64", True)], self.choices(**crowded, ways_max=6)
        )
        self.assertEqual(
            [("6 DDIO ways", False)],
            self.choices(devices=many, guests=Rings(descriptors=64), ways_max=6),
        )

    def test_commands(self):
        """Commands name ports of the switch alone, quoted for a shell."""
        *_, choice = advise(port(name="a b"), devices=(VF,)).choices
        (command,) = choice.commands
        self.assertRegex(command, "^ovs-vsctl set Interface 'a b' options:n_rxq_desc=([0-9]+) ")
        self.assertIn("ethtool -G", choice.note)


class VerdictTest(unittest.TestCase):
    """Each verdict, and whether smaller rings are advised."""

    def verdict(self, *recent, ports=(PORT,), drops_per_s=None):
        found = advise(*ports, recent=recent, drops_per_s=drops_per_s)
        shrink = any("rings" in choice.what for choice in found.choices)
        self.assertIs(found.verdict in (Verdict.LEAK, Verdict.NOT_COUNTED), shrink)
        return found.verdict

    def test_buffers_that_fit(self):
        """Misses of other devices do not count against rings that fit: no sample is read."""
        self.assertIs(Verdict.FIT, self.verdict(None, ports=[port(rx_descriptors=64)]))

    def test_leak(self):
        """The share is of all lines; a long sample counts more than a short one."""
        long, short = samples(4e7, 1e7)
        found = advise(PORT, recent=[dataclasses.replace(long, interval_s=3.0), short])
        self.assertIs(Verdict.LEAK, found.verdict)
        self.assertEqual((4.0, 3.25e7), (found.over_s, found.inbound_lines_per_s))
        self.assertEqual(
            "50% of the lines that devices wrote in the last 4.0 s missed", found.counted
        )

    def test_few_misses(self):
        """Rings that could leak do not at a light load."""
        self.assertIs(Verdict.FEW_MISSES, self.verdict(*samples(5e7, missed=0.01)))

    def test_bursts(self):
        """A burst has one and a half times the mean, and less load before and after it."""
        for rates, verdict in (
            ([1e7, 1e7, 6e7, 1e7], Verdict.LEAK_IN_BURSTS),
            ([1e7, 1e7, 2e7, 1e7], Verdict.LEAK_IN_BURSTS),
            ([1e7, 1e7, 1.4e7, 1e7], Verdict.LEAK),
            ([1e3] * 40 + [3e7] + [1e3] * 19, Verdict.LEAK_IN_BURSTS),
            ([0.0] * 40 + [5e7] * 20, Verdict.LEAK),
            ([5e7] * 20 + [0.0] * 40, Verdict.LEAK),
        ):
            self.assertIs(verdict, self.verdict(*samples(*rates)), rates)

    def test_drops(self):
        """A ring that overflows already stays; drops of other ports, and few, do not count."""
        other = port(name="vhu1", type="dpdkvhostuser", drops=9)
        for mine, rate, verdict in (
            (None, 50.0, Verdict.LEAK),
            (7, 0.5, Verdict.LEAK),
            (7, 1.0, Verdict.LEAK_WITH_DROPS),
        ):
            found = self.verdict(*samples(5e7), ports=(port(drops=mine), other), drops_per_s=rate)
            self.assertIs(verdict, found)

    def test_not_counted(self):
        """AMD counts lines that devices wrote, without hits; before the first sample is nothing."""
        for recent in ([], [Sample(0, 1.0, 1.0, {}, ddio_writes_per_s=5e7)]):
            self.assertIs(Verdict.NOT_COUNTED, self.verdict(*recent))


class RecordsTest(MomentCase):
    def test_the_last_minute(self):
        """The samples of a minute before the last record are read, of long intervals ten."""
        self.assertTrue(self.history.flush(60.0))
        with HistoryReader(self.path) as reader:
            self.assertEqual([], [*advice.samples(reader, 0)])
        for interval_s, ages_s in ((1.0, (59, 0)), (6.0, (59, 0)), (10.0, (99, 61, 59, 0))):
            self.clock.wall_s += 1000
            for number, age_s in enumerate((101, 99, 61, 59, 0), 1):
                made = stories.quiet(number, self.clock.wall_s - age_s)
                sample = Sample(0, 0.0, interval_s, {}, ddio_misses_per_s=float(age_s))
                self.history.record(dataclasses.replace(made, sample=sample))
            self.assertTrue(self.history.flush(60.0))
            with HistoryReader(self.path) as reader:
                read = tuple(sample.ddio_misses_per_s for sample in advice.samples(reader, 0))
            self.assertEqual(ages_s, read)


class MempoolsTest(unittest.TestCase):
    """Pools in DPDK's text."""

    POOL = "mempool <{}>@0x1\n  flags=10\n{}{}  stats disabled\n"

    def test_dump(self):
        """Rings count; a stack, and a pool without size or handler, do not."""
        size, ring = "  size=16384\n  populated_size=9\n", "  ops_name: <ring_mp_mc>\n"
        for more, expected in (
            ((size, "  ops_name: <stack>\n"), 16384),
            (("  populated_size=9\n", ring), 16384),
            ((size, ""), 16384),
            ((f"  size={'9' * 5000}\n", ring), 16384),
            ((size.replace("16384", "100"), ring), 16484),
        ):
            pools = self.POOL.format("a", *more), self.POOL.format("b", size, ring)
            self.assertEqual(expected, buffers_in_turn("".join(pools)), more)
            self.assertEqual(expected, buffers_in_turn("".join(reversed(pools))), more)
        self.assertEqual(0, buffers_in_turn(""))
