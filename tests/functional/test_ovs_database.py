# SPDX-License-Identifier: Apache-2.0
"""Reading Open vSwitch's database from a real ovsdb-server, well or ailing, without a switch."""

import json
import logging
import os
import signal
import socket
import threading
import time

from iat_nova.model import SwitchPort
from tests.functional import ovs_daemons
from tests.functional.ovs_case import DEADLINE_S, OvsTestCase

UUID = "6b3a4b5e-0000-4000-8000-000000000001"


class OvsDatabaseTest(OvsTestCase):
    def setUp(self):
        if reason := ovs_daemons.why_no_ovsdb():
            self.skipTest(reason)
        super().setUp()

    def start(self, **options):
        """Start a server with one userspace bridge and a guest's port, and follow it."""
        self.daemons.start_ovsdb()
        self.vsctl("init")
        self.vsctl("add-br", "br-int", "--", "set", "Bridge", "br-int", "datapath_type=netdev")
        self.add_guest("vhu1", UUID)
        self.start_source(**options)
        return self.until(lambda switch: switch is not None)

    def vsctl(self, *arguments):
        self.daemons.vsctl("--no-wait", *arguments)

    def set(self, *pairs):
        self.vsctl("set", "Open_vSwitch", ".", *(f"other_config:{pair}" for pair in pairs))

    def add_guest(self, name, uuid):
        set_ = ("--", "set", "Interface", name, "type=dpdkvhostuserclient")
        ids = (f"external_ids:vm-uuid={uuid}", "external_ids:iface-id=port-1")
        mac = 'external_ids:attached-mac="fa:16:3e:00:00:01"'
        path = f"options:vhost-server-path=/run/{name}"
        rings = ("options:n_rxq_desc=2048", "options:n_rxq=2", "mtu=9000")
        self.vsctl("add-port", "br-int", name, *set_, *ids, mac, path, *rings)

    def test_picture(self):
        """Bridges and ports are read with all that joins them to guests."""
        switch = self.start()
        self.assertEqual({"br-int": "netdev"}, switch.bridges)
        internal, guest = switch.ports
        self.assertEqual(("br-int", "internal"), (internal.name, internal.type))
        expected = SwitchPort(
            name="vhu1",
            bridge="br-int",
            type="dpdkvhostuserclient",
            vm_uuid=UUID,
            iface_id="port-1",
            mac="fa:16:3e:00:00:01",
            rx_descriptors=2048,
            rx_queues=2,
            mtu=9000,
            vhost_path="/run/vhu1",
        )
        self.assertEqual(expected, guest)
        self.assertEqual((), self.source.warnings)

    def test_changes(self):
        """Ports that come and go, and a changed mask, each wake the inventory."""
        self.start()
        self.add_guest("vhu2", UUID)
        self.until(lambda switch: len(switch.ports) == 3)
        self.vsctl("del-port", "vhu1")
        switch = self.until(lambda switch: len(switch.ports) == 2)
        self.assertEqual(["br-int", "vhu2"], [port.name for port in switch.ports])
        self.set("dpdk-init=true", "pmd-cpu-mask=0x6")
        self.assertEqual((1, 2), self.until(lambda switch: switch.pmd_cpus).pmd_cpus)
        self.set("pmd-cpu-mask=0x8")
        switch = self.until(lambda switch: switch.pmd_cpus != (1, 2))
        self.assertEqual(((3,), "pmd-cpu-mask"), (switch.pmd_cpus, switch.pmd_source))

    def test_statistics_wake_nobody(self):
        """New counts of packets are in the next picture but do not ask for one."""
        self.start()
        before = self.hints
        for count in (5, 6, 7):
            counts = (f"statistics:rx_packets={count}", "statistics:tx_packets=10")
            self.vsctl("set", "Interface", "vhu1", *counts)
        self.vsctl("set", "Interface", "vhu1", "external_ids:iface-id=port-2")  # one real change
        switch = self.until(lambda switch: switch.ports[1].iface_id == "port-2")
        self.assertEqual(17, switch.ports[1].packets)
        self.assertIsNone(switch.ports[0].packets)
        self.assertEqual(1, self.hints - before)

    def test_kernel_datapath(self):
        """A switch in the kernel has no CPUs of its own, whatever the configuration says."""
        self.start()
        self.set("dpdk-init=true", "pmd-cpu-mask=0x2")
        self.until(lambda switch: switch.pmd_cpus)
        self.vsctl("set", "Bridge", "br-int", "datapath_type=system")
        switch = self.until(lambda switch: switch.bridges == {"br-int": "system"})
        self.assertEqual(((), None), (switch.pmd_cpus, switch.pmd_source))
        self.assertEqual(2, len(switch.ports))

    def test_where_it_forwards_must_be_told_once(self):
        """Until then the CPUs of its PMD threads would be taken for the host's."""
        self.start()
        self.set("dpdk-init=true")
        self.until(lambda switch: switch and switch.ports)
        self.assertEqual("vswitchd-unanswered", self.source.waiting_for.code)
        self.set("pmd-cpu-mask=0x2")
        self.until(lambda switch: switch.pmd_cpus)
        self.assertIsNone(self.source.waiting_for)
        self.vsctl("remove", "Open_vSwitch", ".", "other_config", "pmd-cpu-mask")
        self.until(lambda switch: not switch.pmd_cpus)
        self.assertIsNone(self.source.waiting_for)

    def test_no_row(self):
        """A database nobody has initialised is no switch, and says what to do."""
        self.daemons.start_ovsdb()
        self.start_source()
        self.assertIsNone(self.source.switch())
        self.assertEqual("ovsdb-empty", self.source.warnings[0].code)
        self.vsctl("init")
        self.assertEqual({}, self.until(lambda switch: switch is not None).bridges)
        self.assertEqual((), self.source.warnings)

    def test_absent_at_start(self):
        """A server that is not there yet costs no time, is reported, and found when it comes."""
        self.start_source()
        self.assertIsNone(self.source.switch())
        self.assertIn("No such file or directory", self.why_unavailable())
        self.daemons.start_ovsdb()
        self.vsctl("init")
        self.until(lambda switch: switch is not None)
        self.assertEqual((), self.source.warnings)

    def test_restart(self):
        """While the server is away the last picture stays, marked; then the new one is followed."""
        known = self.start()
        self.daemons.kill("ovsdb-server")
        switch = self.until(lambda switch: self.source.warnings)
        self.assertEqual(known.ports, switch.ports)
        self.assertEqual("switch-stale", self.source.warnings[0].code)
        self.assertCountEqual((*known.warnings, *self.source.warnings), switch.warnings)
        self.daemons.create_database()
        self.daemons.start_ovsdb()
        self.vsctl("init")
        self.until(lambda switch: switch is None or not switch.ports)
        self.vsctl("add-br", "br-new")
        self.until(lambda switch: switch is not None and "br-new" in switch.bridges)
        self.assertEqual((), self.source.warnings)

    def test_one_line_an_outage(self):
        """The log tells once that the server has gone, however often it is looked for."""
        self.start(retry_s=0.01)
        with self.assertLogs("iat_nova.inventory", logging.INFO) as logs:
            self.daemons.kill("ovsdb-server")
            self.until(lambda switch: self.source.warnings)
            self.daemons.socket.unlink()
            with socket.socket(socket.AF_UNIX) as listener:
                listener.settimeout(DEADLINE_S)
                listener.bind(str(self.daemons.socket))
                listener.listen()
                for _ in range(5):  # attempts, each turned away
                    listener.accept()[0].close()
            self.daemons.start_ovsdb()
            self.until(lambda switch: not self.source.warnings)
        self.assertEqual(["WARNING", "INFO"], [record.levelname for record in logs.records])

    def test_hanging_server(self):
        """A server that hangs costs a picture its bound, and the packets; nothing else."""
        known = self.start(timeout_s=0.3)
        self.vsctl("set", "Interface", "vhu1", "statistics:rx_packets=1", "statistics:tx_packets=1")
        self.assertEqual(2, self.source.switch().ports[1].packets)
        pid = self.daemons.pid("ovsdb-server")
        self.addCleanup(os.kill, pid, signal.SIGCONT)  # or it could not be ended
        os.kill(pid, signal.SIGSTOP)
        start = time.monotonic()
        switch = self.source.switch()
        self.assertLess(time.monotonic() - start, 3)
        self.assertEqual(known.bridges, switch.bridges)
        self.assertEqual([None, None], [port.packets for port in switch.ports])
        self.assertEqual("ports-uncounted", switch.warnings[0].code)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(2, self.source.switch().ports[1].packets)

    def test_hanging_at_start(self):
        """A server that accepts and stays silent delays the start by the bound alone."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.daemons.socket))
            listener.listen()
            start = time.monotonic()
            self.start_source(timeout_s=0.2)
            self.assertIsNone(self.source.switch())
            self.assertLess(time.monotonic() - start, 3)
            self.until(lambda _: "no answer to get_schema" in self.why_unavailable())

    def test_older_schema(self):
        """A schema without a column that is followed is refused, until the server is upgraded."""
        schema = json.loads(ovs_daemons.SCHEMA.read_text())
        del schema["tables"]["Interface"]["columns"]["external_ids"]
        older = self.daemons.folder / "older.ovsschema"
        older.write_text(json.dumps(schema))
        self.daemons.create_database(older)
        self.daemons.start_ovsdb()
        self.start_source()
        self.until(lambda _: "Interface.external_ids; Open vSwitch 2.10" in self.why_unavailable())
        self.daemons.kill("ovsdb-server")
        self.daemons.create_database()
        self.daemons.start_ovsdb()
        self.vsctl("init")
        self.until(lambda switch: switch is not None and not self.source.warnings)

    def why_unavailable(self):
        """Why the source's only warning says that the database is unavailable; empty if not."""
        return " ".join(
            str(one.values["error"])
            for one in self.source.warnings
            if one.code == "ovsdb-unavailable"
        )

    def test_other_server(self):
        """A server that is not Open vSwitch's database is reported in its own words."""
        self.daemons.start_ovsdb()
        self.start_source(f"unix:{self.daemons.folder / 'ovsdb.ctl'}")
        self.assertIsNone(self.source.switch())
        self.assertIn("get_schema was refused", self.why_unavailable())

    def test_tcp(self):
        """os-vif's default form of address, TCP on loopback, works as well."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.daemons.start_ovsdb(f"ptcp:{port}:127.0.0.1")
        self.vsctl("init")
        self.start_source(f"tcp:127.0.0.1:{port}")
        self.assertEqual({}, self.until(lambda switch: switch is not None).bridges)

    def test_close(self):
        """Closing ends every thread, also while the server is away."""
        before = set(threading.enumerate())
        self.start()
        self.assertLess(before, set(threading.enumerate()))
        self.daemons.kill("ovsdb-server")
        self.source.close()
        self.assertEqual(before, set(threading.enumerate()))
