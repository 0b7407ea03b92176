# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor on a whole host in a folder, with a libvirt inside this process."""

import json
import shutil
import socket
import subprocess
import sys
import time
from unittest import mock

from iat_nova.agent import restoring, wiring
from iat_nova.agent.hand_over import HandedOver
from iat_nova.checks import doctor, rights
from iat_nova.model import Facts, HostFacts, Source, SourceProblem, Trouble, VirtualSwitch, message
from iat_nova.report.sentences import text
from tests.unit.hardware import trees
from tests.unit.hardware.enforcement import test_restore
from tests.unit.hardware.test_rootport import config_space

NODE = """<node>{}</node>"""
DOMAIN = """<domain type='test'><name>{name}</name><uuid>{number:032x}</uuid>
<memory unit='MiB'>64</memory><vcpu>{vcpus}</vcpu><cputune>{pins}{more}</cputune>
<os><type>hvm</type></os></domain>"""
TUNED = "<cachetune vcpus='0'><cache id='0' level='3' type='both' size='2' unit='MiB'/></cachetune>"


class DoctorCase(test_restore.MachineCase):
    """All is well: no guests, no Open vSwitch, no agent."""

    def setUp(self):
        super().setUp()
        self.put(self.folder / "sys/bus/pci/devices/none", "")
        (self.folder / "sys/devices/system").mkdir(parents=True)
        (self.folder / "sys/devices/system/cpu").symlink_to(self.roots.cpus)
        self.guests()
        self.configure()
        # no fork from a process with libvirt's threads; tests.unit.checks.test_rights does fork
        patch = mock.patch("iat_nova.checks.rights.run_as", side_effect=lambda _, what: what())
        self.run_as = self.enterContext(patch)

    def configure(self, **options):
        options = {
            "mode": "enforce",
            "state_dir": self.folder / "state",
            "sysfs_root": self.folder / "sys",
            "libvirt_uri": f"test://{self.folder}/node.xml",
            "ovsdb_connection": "none",
            **options,
        }
        lines = [f"{name} = {value}" for name, value in options.items()]
        self.config.write_text("\n".join(["[iat]", *lines, "[compute]", "cpu_dedicated_set = 0-3"]))

    def guests(self, *cpus, more=""):
        """Define guests with a vCPU on each of the CPUs."""
        domains = [
            DOMAIN.format(
                name=f"instance-{number:08x}",
                number=number,
                vcpus=len(own),
                pins="".join(f"<vcpupin vcpu='{n}' cpuset='{cpu}'/>" for n, cpu in enumerate(own)),
                more=more,
            )
            for number, own in enumerate(cpus, 1)
        ]
        (self.folder / "node.xml").write_text(NODE.format("".join(domains)))

    def everything(self):
        """Return the exit status and all findings, as `-f json` has them."""
        status, out, err = self.run_it("doctor", "-f", "json")
        self.assertNotIn("trying again", err)
        return status, json.loads(out)

    def rows(self):
        status, rows = self.everything()
        for row in rows:  # not shown as code and values for want of a sentence
            self.assertNotIn(f"{row['code']}(", row["state"])
            self.assertNotIn(f"{row['remedy_code']}(", row["remedy"] or "")
        return status, {row["subject"]: row for row in rows}

    def check(self, subject, level, code, remedy=None, status=0, **values):
        """Check one finding by codes and values, and the exit status; return all findings."""
        found, rows = self.rows()
        row = rows[subject]
        self.assertEqual((level, status), (row["level"], found), row)
        self.assertEqual((code, remedy), (row["code"], row["remedy_code"]), row)
        self.assertEqual(values, {name: row["values"].get(name) for name in values})
        return rows

    def check_refused(self, subject, level, state, remedy, status=1):
        """Check a finding that an error became, by its text."""
        found, rows = self.rows()
        row = rows[subject]
        self.assertEqual((level, status), (row["level"], found), row)
        self.assertRegex(row["state"], state)
        self.assertRegex(row["remedy"] or "", remedy or "^$")
        return rows


class Host(DoctorCase):
    """What the hardware offers, and the verdict."""

    def test_all_is_well(self):
        """Status 0; findings and choices as data; nothing is changed."""
        status, rows = self.rows()
        self.assertEqual((0, "ok"), (status, rows["verdict"]["level"]))
        self.assertEqual("ok", rows["resctrl"]["level"])
        self.assertEqual("chosen", rows["cat"]["level"])
        self.assertEqual("msr", rows["ddio"]["values"]["chosen"])
        self.assertEqual((self.found, []), (self.tree.state(), self.msr.writes))
        self.assertFalse((self.folder / "state").exists())

    def test_somebody_else_allocates(self):
        """Status 1 with the command that mends it, and a verdict."""
        self.tree.mkdir("theirs")
        rows = self.check(
            "foreign group", "observe", "group-of-other", "remove-group", status=1, group="theirs"
        )
        row, verdict = rows["foreign group"], rows["verdict"]
        self.assertEqual({"path": f"{self.roots.resctrl}/theirs"}, row["remedy_values"])
        self.assertEqual("would-observe", verdict["code"])
        self.assertEqual(["foreign group"], list(verdict["values"]["subjects"]))

    def test_no_agent_could_start(self):
        """Status 1 with the reason."""
        self.be("strange")
        rows = self.check_refused("interfaces", "impossible", "no event table", "report")
        self.assertEqual("would-not-start", rows["verdict"]["code"])

    def test_no_cache_allocation(self):
        """A CPU without it is the cause of the rest: named first, once, and no other remedy."""
        (self.roots.resctrl / "schemata").unlink()
        self.put(self.roots.proc / "filesystems", "nodev\tproc\n")
        for flags, code, remedy in (
            ("rdtscp", "no-cat", "use-other-cpu"),
            ("rdtscp hypervisor", "no-cat-virtual-machine", "use-compute-host"),
        ):
            self.be("strange", flags)
            status, rows = self.everything()
            self.assertEqual(1, status)
            first, *others = (row for row in rows if row["subject"] != "rights")
            self.assertEqual(("impossible", code, remedy), tuple(
                first[name] for name in ("level", "code", "remedy_code")))  # fmt: skip
            self.assertEqual({None}, {row["remedy_code"] for row in others})
            self.assertNotIn(code, [row["code"] for row in others])
            self.assertEqual(["cache allocation"], list(others[-1]["values"]["subjects"]))

    def test_resctrl_without_l3(self):
        """Linux' default on Skylake: the cause and its remedy are a finding."""
        shutil.rmtree(self.roots.resctrl / "info/L3")
        self.put(self.roots.resctrl / "schemata", "MB:0=100;1=100\n")
        self.check("interfaces", "impossible", "l3-off", "boot-with", 1)

    def test_configuration_beside_a_missing_cache_allocation(self):
        """A wrong strategy and policy are told at once, with their remedies."""
        (self.roots.resctrl / "schemata").unlink()
        self.put(self.roots.proc / "filesystems", "nodev\tproc\n")
        self.be("skylake", "rdtscp")
        self.configure(strategy="magic", policy_file=self.folder / "none.yaml")
        self.check("strategy", "impossible", "verbatim", "see-option", 1)
        rows = self.check("policy", "impossible", "several", "check-policy", 1)
        self.assertEqual(
            ["cache allocation", "strategy", "policy"], rows["verdict"]["values"]["subjects"]
        )

    def test_what_was_read(self):
        """The configuration files, in their order; and one that the service may not read."""
        subject = "configuration files"
        self.check(subject, "ok", "files-read", files=[str(self.config)])
        denied = mock.patch("iat_nova.checks.doctor.may_read", return_value=False)
        with denied:
            self.check(subject, "impossible", "files-denied", "list-file", 1,
                       files=[str(self.config)])  # fmt: skip

    def test_whose_rights(self):
        """Those of the service, which the first finding names; else it says that they are not."""
        row = self.check("rights", "ok", "rights-of-service")["rights"]
        self.assertRegex(row["state"], "user .* with .*CAP_PERFMON")
        remedy = message("ask-as-root")
        self.run_as.side_effect = rights.NotPossible(message("not-root"), remedy)
        cause = {"code": "not-root", "values": {}}
        self.check("rights", "note", "rights-of-user", "ask-as-root", cause=cause)
        lacking = message("capabilities-lacking", capabilities=("CAP_PERFMON",))
        self.run_as.side_effect = rights.NotPossible(lacking)
        self.check("rights", "note", "rights-of-user")

    def test_root_ports(self):
        """Ports that the agent could not switch are found before it starts."""
        self.configure(port_dca="true", dca_off_ports="0000:3a:00.0")
        self.check_refused("interfaces", "impossible", "0000:3a:00.0", None)

    def test_monitoring(self):
        """What would be monitored, or that nothing can be."""
        self.configure(monitor_tenants="true")
        self.check_refused("interfaces", "impossible", "monitors no cache", "= false$")
        self.tree.monitoring(144, "llc_occupancy")
        events = [{"code": "monitored-occupancy", "values": {}}]
        self.check("monitoring", "ok", "tenants-monitored", events=events, rmids=144)

    def test_what_all_memory_bandwidth_is(self):
        """Where the CPU limits it in GB/s it must be said; elsewhere that is of no use."""
        subject, option = "bandwidth limits", "memory_bandwidth_gbps"
        self.assertNotIn(subject, self.rows()[1])
        self.configure(**{option: 47.5})
        self.check(subject, "note", "bandwidth-unused", "remove-option")
        self.tree.be_amd()
        self.check(subject, "ok", "bandwidth-measured", gbps=47.5)
        self.configure()
        self.check(subject, "note", "bandwidth-unmeasured", "measure-bandwidth")
        for bad in ("0", "257", "much"):
            self.configure(**{option: bad})
            status, _, err = self.run_it("doctor")
            self.assertRegex(err, f"{option}.*{self.config}")
            self.assertNotEqual(0, status)

    def test_root_ports_that_are_there(self):
        """What becomes of which."""
        for port in ("0000:3a:00.0", "0000:3a:02.0"):
            self.put(self.roots.pci / port / "config", "")
            (self.roots.pci / port / "config").write_bytes(config_space())
        self.configure(port_dca="true", dca_off_ports="0000:3a:00.0", dca_ports="0000:3a:02.0")
        causes = [
            {"code": "ports-off", "values": {"ports": ["0000:3a:00.0"]}},
            {"code": "ports-switchable", "values": {"ports": ["0000:3a:02.0"]}},
        ]
        self.check("root ports", "ok", "several", causes=causes)

    def test_people_read_text(self):
        """A paragraph a finding, the remedy in one piece behind an arrow; verdict and levels."""
        self.tree.mkdir("theirs")
        status, out, _ = self.run_it("doctor", "--max-width", "70")
        self.assertEqual(1, status)
        lines = out.splitlines()
        self.assertTrue(any(line.startswith("observe     foreign group ") for line in lines), out)
        remedy = text(message("remove-group", path=f"{self.roots.resctrl}/theirs"))
        self.assertIn(f"--> {remedy}\n", out)
        self.assertLessEqual(max(len(line) for line in lines if "/" not in line), 70)
        self.assertIn("verdict", out[out.index("theirs") :])
        told = out[out.index("\n\nlevels:\n") :].splitlines()[3:]
        self.assertEqual(["observe", "chosen"], [line.split()[0] for line in told])
        status, out, _ = self.run_it("doctor", "-f", "value", "-c", "level")
        self.assertEqual({"ok", "observe", "chosen"}, set(out.split()))


class Around(DoctorCase):
    """Configuration, policy, guests, and what an agent left."""

    def test_cachetune(self):
        """A guest to which libvirt allocates cache is named with what to edit."""
        self.guests([1], more=TUNED)
        guest = "instance-00000001"
        rows = self.check("cachetune", "observe", "cache-tuned", "remove-cachetune", 1, guest=guest)
        self.assertEqual({"guest": guest}, rows["cachetune"]["remedy_values"])
        self.assertEqual(["cachetune"], list(rows["verdict"]["values"]["subjects"]))

    def test_hyper_threads(self):
        """Guests on one core are told, and that alone keeps nobody from enforcing."""
        for cpu, siblings in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
            self.put(self.roots.cpus / f"cpu{cpu}/topology/thread_siblings_list", siblings)
        self.guests([0, 1], [2], [3])
        pair = ["instance-00000002", "instance-00000003"]
        self.check("hyper-threads", "note", "cores-shared", "use-whole-cores", owners=pair,
                   cores=["2-3"])  # fmt: skip

    def test_no_libvirt(self):
        """Without libvirt nothing is known of the guests: the agent would only observe."""
        uri = f"qemu+unix:///system?socket={self.folder}/none"
        self.configure(libvirt_uri=uri)
        self.check("libvirt", "observe", "libvirt-problem", "start-libvirt", 1, uri=uri)

    def test_guests_that_cannot_be_read(self):
        """A source whose reading raises is not well, whatever the error, and is not empty."""
        raises = mock.patch("iat_nova.inventory.libvirt.LibvirtSource.guests", side_effect=KeyError)
        with raises, self.assertLogs("iat_nova.common.last_good"):
            self.check("libvirt", "observe", "last-good-kept", "report-traceback", 1)

    def test_no_open_vswitch(self):
        """So is an absent Open vSwitch."""
        self.configure(ovsdb_connection=f"unix:{self.folder}/none")
        self.check("Open vSwitch", "observe", "ovsdb-unavailable", "start-switch", 1)

    def test_cures_of_sources(self):
        """Each remedy where the ones before it cannot help; every row is shown."""
        there, absent = self.config, self.folder / "none"
        listener = self.enterContext(socket.socket(socket.AF_UNIX))
        path = self.folder / "sock"
        listener.bind(str(path))
        at = f"qemu+unix:///system?socket={absent}"
        here = {"ovsdb_connection": f"unix:{path}"}
        rows = (
            (Source.LIBVIRT, {"libvirt_uri": at}, absent, absent, "install-libvirt"),
            (Source.LIBVIRT, {"libvirt_uri": at}, absent, there, "start-libvirt"),
            (Source.LIBVIRT, {"libvirt_uri": at}, path, there, "set-option"),
            (Source.SWITCH, {"ovsdb_connection": "db.sock"}, path, there, "set-option"),
            (Source.SWITCH, {"ovsdb_connection": "tcp:127.0.0.1:1"}, absent, absent, "set-option"),
            (Source.SWITCH, {"ovsdb_connection": "tcp:127.0.0.1:1"}, absent, there, "start-switch"),
            (Source.SWITCH, {"ovsdb_connection": "tcp:[::1]:1"}, path, there, "use-ovsdb-socket"),
            (Source.SWITCH, here, path, there, "start-switch"),
            (None, None, None, None, None),
            (Source.LIBVIRT, {"libvirt_uri": at.replace("none", "sock")}, absent, there, "see-log"),
            (Source.SWITCH, here, path, there, "restart-switch"),
        )  # fmt: skip
        for source, options, listens, program, remedy in rows:
            if source is None:
                listener.listen()
                continue
            self.configure(**options)
            with (
                self.subTest(source, remedy=remedy),
                mock.patch.multiple(
                    doctor, OVSDB_SOCKET=listens, OVSDB_SERVER=program,
                    LIBVIRT_SOCKETS=(listens,), LIBVIRT_UNITS=(("libvirtd", program),),
                ),
            ):  # fmt: skip
                problem = SourceProblem(source, Trouble.WARNING, message("libvirt-silent"))
                self.assertEqual(remedy, doctor._remedy(problem, self.settings()).code)

    def test_open_vswitch_on_its_socket(self):
        """Where ovsdb-server listens on its socket alone, the remedy names that."""
        path = self.folder / "db.sock"
        listener = self.enterContext(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        self.configure(ovsdb_connection="tcp:127.0.0.1:1")
        with mock.patch.object(doctor, "OVSDB_SOCKET", path):
            rows = self.check("Open vSwitch", "observe", "ovsdb-unavailable", "use-ovsdb-socket", 1)
        self.assertEqual({"address": f"unix:{path}"}, rows["Open vSwitch"]["remedy_values"])

    def test_what_open_vswitch_does_not_tell(self):
        """Its warnings are told, beside what it shows; that of a source only once."""
        warnings = (message("dpdk-not-started"), message("ovsdb-lost", address="unix:x"))
        switch = VirtualSwitch({"br0": "netdev"}, (), (3,), warnings=warnings)
        lost = SourceProblem(Source.SWITCH, Trouble.WARNING, warnings[1])
        facts = Facts(HostFacts("h", (), ()), (), switch, (lost,))
        found = [(one.subject, one.level.value) for one in doctor._sources(self.settings(), facts)]
        self.assertEqual({str}, {type(subject) for subject, _ in found})  # as YAML wants
        self.assertEqual(
            [("Open vSwitch", "missing"), ("libvirt", "ok"), ("virtual switch", "note")], found
        )

    def test_policy(self):
        """A policy or a strategy with which the agent would not start."""
        self.put(self.folder / "policy.yaml", "parameters: 3\n")
        self.configure(policy_file=self.folder / "policy.yaml")
        remedy = f"^iat-nova policy check {self.folder}/policy.yaml$"
        self.check_refused("policy", "impossible", "policy.yaml", remedy)
        self.configure(strategy="magic")
        self.check_refused("strategy", "impossible", "magic", "strategy")
        self.configure(shadow="magic")
        self.check_refused("strategy", "impossible", "magic", "shadow")

    def test_modes(self):
        """What the configuration keeps from being driven is noted; the host itself is well."""
        self.configure(mode="observe")
        rows = self.check("configuration", "note", "mode-observe", "enforce-later")
        self.assertEqual("would-enforce-once-set", rows["verdict"]["code"])
        self.configure(hardware="emulated", emulated_scenario="x")
        rows = self.check("configuration", "note", "hardware-emulated", "set-option")
        option = {"option": "hardware", "value": "auto"}
        self.assertEqual(option, rows["configuration"]["remedy_values"])
        self.assertEqual("with-real-hardware", rows["verdict"]["code"])

    def test_after_a_crash(self):
        """A snapshot that nobody restored is found, and left there."""
        self.crash()
        self.check("snapshot", "note", "ended-unrestored", "restore-host")
        self.assertTrue(self.settings().snapshot_path.exists())
        self.settings().snapshot_path.write_text("{}")
        self.check_refused("snapshot", "impossible", "not a snapshot", "remove it")
        self.settings().snapshot_path.unlink()
        self.check("left behind", "note", "groups-left-behind", "restore-host",
                   groups=["iat-nova.1"])  # fmt: skip
        self.assertEqual(1, self.run_it("restore")[0])
        self.assertNotIn("left behind", self.rows()[1])

    def test_between_two_agents(self):
        """What is left to the next agent is no crash, for as long as that may come."""
        self.crash()
        files = restoring.hand_over_files(self.settings())
        files.request.parent.mkdir(exist_ok=True)
        files.ask()
        owned = self.owned()
        memory = (wiring.enforcer(owned).memory, owned.machine.allocator.memory)
        files.write(HandedOver(time.monotonic(), "1", "iat", (), {}, (), *memory))
        self.check("hand-over", "note", "handed-over-lately", "adopt-or-restore", within_s=60)
        with mock.patch.object(restoring, "writer", return_value=7):
            self.check("agent", "ok", "agent-hands-over", pid=7)
        files.remove()
        self.assertNotIn("hand-over", self.rows()[1])
        self.check("snapshot", "note", "ended-unrestored", "restore-host")

    def test_libpqos_is_let_alone(self):
        """It takes a lock to tell the domains: they are read from CPUID, agent or not."""
        (self.roots.resctrl / "schemata").unlink()
        self.configure(cat_interface="pqos-msr")
        with (
            mock.patch("iat_nova.hardware.host.backends.load"),
            mock.patch("iat_nova.hardware.cat.pqos.Pqos", side_effect=AssertionError),
        ):
            self.check_refused("cache domains", "missing", "cpuid: No such file",
                               "^modprobe cpuid$", status=0)  # fmt: skip
            for cpu in range(4):
                trees.put_cpuid(self.roots.msr, cpu)
            self.check("policy", "ok", "policy-usable")
            for cpu in range(4):
                trees.put_cpuid(self.roots.msr, cpu, amd=True)
            self.check("bandwidth limits", "note", "bandwidth-unmeasured", "measure-bandwidth")

    def test_an_agent_runs(self):
        """It is named, and what it holds is nobody else's."""
        code = (
            "import sys; from pathlib import Path\n"
            "from iat_nova.hardware.enforcement.snapshot import Snapshot\n"
            "with Snapshot({}, snapshot=Path('x'), lock=Path(sys.argv[1])).only_writer():\n"
            "    print('held', flush=True); sys.stdin.read()\n"
        )
        self.crash()
        with subprocess.Popen(
            [sys.executable, "-c", code, self.lock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as agent:  # fmt: skip
            self.assertEqual("held\n", agent.stdout.readline())
            with open("/proc/locks", encoding="ascii") as locks:
                self.put(self.roots.proc / "locks", locks.read())
            self.assertEqual(agent.pid, restoring.writer(self.host()))
            self.check("agent", "ok", "agent-runs", pid=agent.pid)
            self.assertNotIn("snapshot", self.rows()[1])
            agent.stdin.close()
