# SPDX-License-Identifier: Apache-2.0
import unittest

import libvirt

from iat_nova.inventory.vcpus import VcpuWatch


class Connection:
    """Answers with the number of vCPUs by UUID; other guests are gone."""

    def __init__(self, **counts):
        self.counts = counts

    def lookupByUUIDString(self, uuid):
        if uuid not in self.counts:
            raise libvirt.libvirtError("no domain with matching uuid")
        return _Domain(self.counts[uuid])


class _Domain:
    def __init__(self, count):
        self._count = count

    def info(self):
        return [1, 32768, 32768, self._count, 0]


class VcpuWatchTest(unittest.TestCase):
    def setUp(self):
        self.changed = []
        self.watch = VcpuWatch(self.changed.append, interval_s=1e6)
        self.addCleanup(self.watch.close)

    def test_reports_each_change_once(self):
        """A guest with more or fewer vCPUs is reported, and again at its next change."""
        connection = Connection(a=2, b=2)
        self.watch.follow(connection, {"a": 2, "b": 2, "gone": 1})
        self.watch.look()
        self.assertEqual([], self.changed)
        connection.counts["a"] = 3
        self.watch.look()
        self.watch.look()
        self.assertEqual(["a"], self.changed)
        connection.counts["a"] = 2
        self.watch.look()
        self.assertEqual(["a", "a"], self.changed)

    def test_nothing_to_follow(self):
        """Without guests that can be resized no thread runs and nothing is asked."""
        self.watch.follow(None, {})
        self.watch.look()
        self.assertIsNone(self.watch._thread)
