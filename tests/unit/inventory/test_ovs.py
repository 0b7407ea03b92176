# SPDX-License-Identifier: Apache-2.0
"""What is made of the rows of Open vSwitch's database."""

import os
import pathlib
import tempfile
import types
import unittest

from iat_nova.inventory import ovs
from iat_nova.inventory.ovs_rpc import OvsUnavailableError
from iat_nova.model import message


def row(**columns):
    return types.SimpleNamespace(**columns)


def interface(name, type_="", external_ids=None, **options):
    ids = external_ids or {}
    return row(name=name, type=type_, external_ids=ids, options=options, mtu=[], ofport=[1])


def bridge(name, datapath_type, *interfaces):
    ports = [row(interfaces=list(interfaces))]
    return row(name=name, datapath_type=datapath_type, ports=ports)


def read(*bridges, other_config=None, dpdk_initialized=False):
    root = row(other_config=other_config or {}, dpdk_initialized=dpdk_initialized)
    return ovs.read_tables({"Open_vSwitch": [root], "Bridge": bridges})


class ControlSocketTest(unittest.TestCase):
    """Where ovs-vswitchd listens, in a folder that belongs to its user."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.pid_file = self.folder / "ovs-vswitchd.pid"

    def test_found(self):
        """By the process number; the socket's name may go on behind the program's."""
        self.pid_file.write_text("4711\n")
        control = self.folder / "ovs-vswitchd-dpdk.4711.ctl"
        control.touch()
        self.assertEqual(str(control), ovs.vswitchd_control(self.folder))

    def test_no_number_to_be_had(self):
        """A pipe is not waited for, no link is followed, and what is no number is named."""
        os.mkfifo(self.pid_file)
        with self.assertRaisesRegex(OvsUnavailableError, "is not a regular file"):
            ovs.vswitchd_control(self.folder)
        self.pid_file.unlink()
        self.pid_file.symlink_to("/etc/passwd")
        with self.assertRaisesRegex(OvsUnavailableError, "symbolic links"):
            ovs.vswitchd_control(self.folder)
        self.pid_file.unlink()
        self.pid_file.write_text("x")
        with self.assertRaisesRegex(OvsUnavailableError, "holds no number"):
            ovs.vswitchd_control(self.folder)


class ReadTablesTest(unittest.TestCase):
    def test_defaults(self):
        """Empty types, OVSDB's way to say default, are the kernel's datapath and devices."""
        tables = read(bridge("br0", "", interface("eth0")))
        self.assertEqual({"br0": "system"}, tables.bridges)
        self.assertEqual("system", tables.ports[0].type)

    def test_order(self):
        """Bridges and ports are sorted: equal databases give equal pictures."""
        tables = read(
            bridge("b", "", interface("y"), interface("x")), bridge("a", "", interface("z"))
        )
        self.assertEqual(["a", "b"], list(tables.bridges))
        self.assertEqual(["z", "x", "y"], [port.name for port in tables.ports])

    def test_malformed_descriptors(self):
        """A number of descriptors that is none is unknown, with a warning that names the port."""
        for text in ("many", "-1", "", "9" * 5000, "\u0663"):
            with self.subTest(text):
                tables = read(bridge("b", "netdev", interface("vhu1", n_rxq_desc=text)))
                self.assertIsNone(tables.ports[0].rx_descriptors)
                (warning,) = tables.warnings
                self.assertEqual("port-option-invalid", warning.code)
                self.assertEqual(
                    ("vhu1", "n_rxq_desc"), (warning.values["port"], warning.values["option"])
                )
                self.assertLess(len(str(warning)), 200)

    def test_no_root(self):
        """A database without its one row is told from one with an empty configuration."""
        self.assertIsNone(ovs.read_tables({"Open_vSwitch": [], "Bridge": []}).other_config)
        self.assertEqual({}, read().other_config)

    def test_dpdk_not_started(self):
        """DPDK wanted but not running is shown; wanted and running, or not wanted, is not."""
        wanted = {"dpdk-init": "true"}
        self.assertEqual((message("dpdk-not-started"),), read(other_config=wanted).warnings)
        self.assertEqual((), read(other_config=wanted, dpdk_initialized=True).warnings)
        self.assertEqual((), read(other_config={"dpdk-init": "false"}).warnings)


class ReadPacketsTest(unittest.TestCase):
    def test_sum(self):
        """Both directions are added; an interface without both counts is absent."""
        answer = [
            {
                "rows": [
                    {
                        "name": "a",
                        "statistics": [
                            "map",
                            [["rx_packets", 3], ["tx_packets", 4], ["x", 9], ["rx_dropped", 2]],
                        ],
                    },
                    {"name": "b", "statistics": ["map", [["rx_packets", 3]]]},
                    {"name": "c", "statistics": ["map", []]},
                    {"name": "d", "statistics": ["map", [["tx_dropped", 5], ["tx_errors", 1]]]},
                ]
            }
        ]
        self.assertEqual({"a": (7, 2), "d": (None, 5)}, ovs.read_statistics(answer))

    def test_malformed(self):
        """An error of the server, or anything else, is reported as it came."""
        for answer in (
            [{"error": "unknown column"}],
            [],
            None,
            [{"rows": [{"name": "a"}]}],
            [{"rows": [{"name": "a", "statistics": ["map", [1]]}]}],
            [
                {
                    "rows": [
                        {
                            "name": "a",
                            "statistics": ["map", [["rx_packets", 1], ["tx_packets", ""]]],
                        }
                    ]
                }
            ],
            [{"rows": [{"name": "a", "statistics": ["map", [["rx_dropped", float("inf")]]]}]}],
        ):
            with self.subTest(answer), self.assertRaises(OvsUnavailableError) as caught:
                ovs.read_statistics(answer)
            self.assertIn(repr(answer), str(caught.exception))
