# SPDX-License-Identifier: Apache-2.0
import unittest

from tests.unit.hardware import trees


class TopologyTest(unittest.TestCase):
    """What sysfs tells of caches; the layouts of real kernels are in `test_recorded`."""

    def cpus(self, **options):
        return trees.Cpus(trees.folder(self) / "cpu", **options)

    def test_nodes(self):
        """A cache has the nodes of its CPUs: several with sub-NUMA clusters, or none at all."""
        for nodes, expected in (
            (([0, 1, 2, 3], [4, 5, 6, 7]), [(0,), (1,)]),
            (([0, 1], [2, 3], [4, 5], [6, 7]), [(0, 1), (2, 3)]),
            (([0, 1], [], [2, 3, 4, 5, 6, 7]), [(0, 2), (2,)]),
            ((), [(), ()]),
        ):
            with self.subTest(nodes=nodes):
                cpus = self.cpus(packages=((0, 1, 2, 3), (4, 5, 6, 7)))
                cpus.put_nodes(*nodes)
                self.assertEqual(expected, [one.nodes for one in cpus.topology.caches()])

    def test_nodes_of_a_socket(self):
        """Several caches of a socket have the nodes of the socket, besides their own."""
        cpus = self.cpus(packages=((0, 1), (2, 3), (4, 5), (6, 7)))
        for cpu in range(8):  # two sockets of two caches, each of them a node
            path = cpus.root / f"cpu{cpu}/topology/physical_package_id"
            path.write_text(f"{cpu // 4}\n")
        cpus.put_nodes([0, 1], [2, 3], [4, 5], [6, 7])
        self.assertEqual(
            [((0,), (0, 1)), ((1,), (0, 1)), ((2,), (2, 3)), ((3,), (2, 3))],
            [(one.nodes, one.socket_nodes) for one in cpus.topology.caches()],
        )

    def test_cut_at_the_node(self):
        """Lists of CPUs that the kernel cut at a NUMA node are one cache by its id."""
        cpus = self.cpus(packages=((0, 1, 4, 5), (2, 3, 6, 7)))
        for cpu, shared in ((0, "0-1"), (1, "0-1"), (4, "4-5"), (5, "4-5")):
            (cpus.root / f"cpu{cpu}/cache/index3/shared_cpu_list").write_text(f"{shared}\n")
        cpus.put_nodes([0, 1], [2, 3, 6, 7], [4, 5])
        found = [(one.id, one.cpus, one.nodes) for one in cpus.topology.caches()]
        self.assertEqual([(0, (0, 1, 4, 5), (0, 2)), (1, (2, 3, 6, 7), (1,))], found)
