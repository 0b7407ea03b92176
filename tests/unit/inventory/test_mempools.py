# SPDX-License-Identifier: Apache-2.0
"""Pools of packet buffers in a dump of DPDK."""

import unittest

from iat_nova.inventory.mempools import read_mempools
from iat_nova.model import Mempool

DUMP = """mempool <{name}>@0x17f0a3c0
  flags=10
  size={size}
  populated_size={size}
  ops_index=1
  ops_name: <{handler}>
  stats disabled
"""


class MempoolsTest(unittest.TestCase):
    def test_pools(self):
        """Each pool has its name, its handler and its number of buffers."""
        dump = "".join(
            DUMP.format(name=name, size=size, handler=handler)
            for name, size, handler in (("ovs1", 16384, "ring_mp_mc"), ("ovs2", 4096, "stack"))
        )
        expected = (Mempool("ovs1", "ring_mp_mc", 16384), Mempool("ovs2", "stack", 4096))
        self.assertEqual(expected, read_mempools(dump))

    def test_incomplete(self):
        """A pool without size or handler is left out, and takes none of the next pool."""
        whole = DUMP.format(name="ovs2", size=4096, handler="stack")
        for part in ("  size=1\n", "  populated_size=1\n", "  ops_name: <ring>\n", ""):
            with self.subTest(part):
                found = read_mempools(f"mempool <ovs1>@0x1\n{part}{whole}")
                self.assertEqual((Mempool("ovs2", "stack", 4096),), found)

    def test_nothing(self):
        """Without a pool there is none."""
        self.assertEqual((), read_mempools(""))
