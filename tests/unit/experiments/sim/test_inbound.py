# SPDX-License-Identifier: Apache-2.0
"""What the emulated server counts beside the LLC: L2, and bytes inbound by kind of device."""

import unittest

from iat_nova.hardware.api import Counts
from tests.unit.experiments.sim import scenes

BOTH = """\
length: 10s
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
disks:
  ssd: {address: "0000:5e:00.0", speed: 2GB/s}
workloads:
  fwd: {profile: testpmd, cpus: [0, 1], nic: nic0}
  fio: {profile: fio, cpus: [2, 3], disk: ssd, block: 128KiB, depth: 32%s}
traffic:
  fwd: {to: fwd, rate: 8Gb/s, packet: 1024B}
"""
SECONDS = 0.02


class InboundTest(unittest.TestCase):
    def counts(self, text: str, **options: object) -> Counts:
        machine = scenes.server(text, **options)
        machine.watch(range(4))
        scenes.run(machine, SECONDS)
        return machine.read_counts()

    def test_bytes_by_kind_of_device(self) -> None:
        """Packets as sent, less the overhead on the wire; of storage the reads."""
        for writes, share in (("", 1.0), (", writes: 50%", 0.5)):
            found = self.counts(BOTH % writes).inbound[0]
            self.assertAlmostEqual(1e9 * 1024 / 1044, found.network / SECONDS, delta=5e6)
            self.assertAlmostEqual(share * 2e9, found.storage / SECONDS, delta=0.15 * share * 2e9)

    def test_what_a_full_ring_drops_has_not_arrived(self) -> None:
        """A receiver that cannot keep up: what its ring took, not what was sent."""
        text = scenes.HEAD + scenes.FORWARDER.format(ring=64, rate="40Gb/s", packet=64)
        machine = scenes.server(text)
        scenes.run(machine, 0.005)
        done = machine.metrics()["fwd"]
        self.assertGreater(done.dropped, 0)
        arrived = 64 * (done.offered - done.dropped)
        self.assertAlmostEqual(
            arrived, machine.read_counts().inbound[0].network, delta=arrived / 1e3
        )

    def test_l2_misses_are_what_reached_the_llc(self) -> None:
        """Of an X-Mem in L2 nearly nothing, of one beyond it nearly all."""
        for size, least, most in (("512KiB", 0.0, 0.2), ("12MiB", 0.85, 1.0)):
            text = "length: 10s\nworkloads:\n  x: {profile: xmem, cpus: [0], working_set: %s}\n"
            counts = self.counts(text % size)
            hits, misses = counts.l2[0]
            self.assertTrue(least <= misses / (hits + misses) <= most, (size, hits, misses))
            self.assertAlmostEqual(counts.cores[0].references, misses, delta=1)

    def test_noise_leaves_the_other_counters_what_they_were(self) -> None:
        """The same readings of cores whether or not anybody looks at these."""
        noisy = self.counts(BOTH % "", noise=0.01)
        exact = self.counts(BOTH % "")
        self.assertNotEqual(noisy.inbound, exact.inbound)
        self.assertAlmostEqual(1.0, noisy.inbound[0].network / exact.inbound[0].network, delta=0.05)
