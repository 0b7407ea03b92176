# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor on a whole host in a folder, with a libvirt inside this process."""

import json
import subprocess
import sys
import time
from unittest import mock

from iat_nova.agent import doctor, restoring, rights, wiring
from iat_nova.agent.hand_over import Left
from iat_nova.model import Facts, HostFacts, VirtualSwitch, message
from tests.unit.enforcement import test_restore
from tests.unit.hardware import trees
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
        # no fork from a process with libvirt's threads; tests.unit.agent.test_rights does fork
        patch = mock.patch("iat_nova.agent.rights.run_as", side_effect=lambda _, what: what())
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

    def rows(self):
        status, out, err = self.run_it("doctor", "-f", "json")
        self.assertNotIn("trying again", err)
        return status, {row["subject"]: row for row in json.loads(out)}

    def check(self, subject, level, state, remedy="", status=0):
        """Check one finding and the exit status; return the verdict."""
        found, rows = self.rows()
        row = rows[subject]
        self.assertEqual((level, status), (row["level"], found), row)
        self.assertRegex(row["state"], state)
        self.assertRegex(row["remedy"] or "", remedy or "^$")
        return rows["verdict"]


class Host(DoctorCase):
    """What the hardware offers, and the verdict."""

    def test_all_is_well(self):
        """Status 0; findings and choices as data; nothing is changed."""
        status, rows = self.rows()
        self.assertEqual((0, "ok"), (status, rows["verdict"]["level"]))
        self.assertEqual("ok", rows["resctrl"]["level"])
        self.assertEqual("chosen", rows["cat"]["level"])
        self.assertRegex(rows["ddio"]["state"], "^msr: ")
        self.assertEqual((self.found, []), (self.tree.state(), self.msr.writes))
        self.assertFalse((self.folder / "state").exists())

    def test_somebody_else_allocates(self):
        """Status 1 with the command that mends it, and a verdict."""
        self.tree.mkdir("theirs")
        verdict = self.check("foreign group", "observe", "theirs", "rmdir .*theirs", status=1)
        self.assertRegex(verdict["state"], "would only observe: foreign group: theirs")

    def test_no_agent_could_start(self):
        """Status 1 with the reason."""
        self.be("strange")
        verdict = self.check("interfaces", "impossible", "no event table", "report", status=1)
        self.assertIn("cannot start", verdict["state"])

    def test_groups_that_libpqos_makes(self):
        """COS groups are ours when an agent's snapshot tells that they came after it."""
        self.configure(cat_interface="pqos-os")
        for number in range(1, 8):
            self.tree.mkdir(f"COS{number}")
        self.assertEqual(1, self.rows()[0])
        part = mock.Mock()
        for before, status in ((["COS1"], 1), ([], 0)):
            part.save.return_value = {"groups": before, "resctrl": {"default": {}}}
            restoring.snapshot(self.settings(), self.host(), {"pqos-os": part}).protect()
            found, rows = self.rows()
            self.assertEqual((status, bool(before)), (found, "foreign group" in rows))
            self.settings().snapshot_path.unlink()

    def test_what_was_read(self):
        """The configuration files, in their order; and one that the service may not read."""
        self.check("configuration files", "ok", f"^{self.config}$")
        denied = mock.patch("iat_nova.agent.doctor.may_read", return_value=False)
        with denied:
            state = f"^the service may not read {self.config}$"
            self.check("configuration files", "impossible", state, "ls -l", status=1)

    def test_whose_rights(self):
        """Those of the service, which the first finding names; else it says that they are not."""
        self.check("rights", "ok", "^of the service: user .* with .*CAP_PERFMON")
        remedy = "sudo iat-nova doctor"
        self.run_as.side_effect = rights.NotPossible("not root", remedy)
        state = r"^of the current user \(not root\); the service has others: user .* with "
        self.check("rights", "note", state, f"^{remedy}$")
        self.run_as.side_effect = rights.NotPossible("no CAP_PERFMON")
        self.check("rights", "note", "no CAP_PERFMON")

    def test_root_ports(self):
        """Ports that the agent could not switch are found before it starts."""
        self.configure(port_dca="true", dca_off_ports="0000:3a:00.0")
        self.check("interfaces", "impossible", "0000:3a:00.0", status=1)

    def test_monitoring(self):
        """What would be monitored, or that nothing can be."""
        self.configure(monitor_tenants="true")
        self.check("interfaces", "impossible", "monitors no cache", "= false$", status=1)
        self.tree.monitoring(144, "llc_occupancy")
        self.check("monitoring", "ok", "^occupancy of each tenant, 144 RMIDs$")

    def test_what_all_memory_bandwidth_is(self):
        """Where the CPU limits it in GB/s it must be said; elsewhere that is of no use."""
        subject, option = "bandwidth limits", "memory_bandwidth_gbps"
        self.assertNotIn(subject, self.rows()[1])
        self.configure(**{option: 47.5})
        self.check(subject, "note", f"{option} is not used: this CPU does not", "^remove the opt")
        self.tree.be_amd()
        self.check(subject, "ok", f"^100 % is 47.5 GB/s of a cache domain .*{option}")
        self.configure()
        self.check(subject, "note", "^none is set: ", f"{option}; iat-nova qualify --only bandw")
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
        state = "while the agent enforces: 0000:3a:00.0; a strategy may switch it off: 0000:3a:02.0"
        self.check("root ports", "ok", state)

    def test_people_read_text(self):
        """A paragraph a finding, the remedy in one piece behind an arrow, the verdict last."""
        self.tree.mkdir("theirs")
        status, out, _ = self.run_it("doctor", "--max-width", "70")
        self.assertEqual(1, status)
        lines = out.splitlines()
        self.assertTrue(any(line.startswith("observe     foreign group ") for line in lines), out)
        self.assertIn(f"--> rmdir {self.roots.resctrl}/theirs, if nobody needs it", out)
        self.assertLessEqual(max(len(line) for line in lines if "/" not in line), 70)
        self.assertIn("verdict", out[out.index("theirs") :])
        status, out, _ = self.run_it("doctor", "-f", "value", "-c", "level")
        self.assertEqual({"ok", "missing", "observe", "chosen"}, set(out.split()))


class Around(DoctorCase):
    """Configuration, policy, guests, and what an agent left."""

    def test_cachetune(self):
        """A guest to which libvirt allocates cache is named with what to edit."""
        self.guests([1], more=TUNED)
        verdict = self.check(
            "cachetune", "observe", "^instance-00000001: ", "^virsh edit instance-00000001: ", 1
        )
        self.assertIn("cachetune", verdict["state"])

    def test_hyper_threads(self):
        """Guests on one core are told, and that alone keeps nobody from enforcing."""
        for cpu, siblings in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
            self.put(self.roots.cpus / f"cpu{cpu}/topology/thread_siblings_list", siblings)
        self.guests([0, 1], [2], [3])
        pair = "instance-00000002 and instance-00000003 share cores: CPUs 2-3$"
        self.check("hyper-threads", "note", pair, "cpu_thread_policy")

    def test_no_libvirt(self):
        """Without libvirt nothing is known of the guests: the agent would only observe."""
        self.configure(libvirt_uri=f"qemu+unix:///system?socket={self.folder}/none")
        self.check("libvirt", "observe", "No such file", "^systemctl start libvirtd", 1)

    def test_no_open_vswitch(self):
        """So is an absent Open vSwitch."""
        self.configure(ovsdb_connection=f"unix:{self.folder}/none")
        self.check("Open vSwitch", "observe", "OVSDB at unix:", "ovsdb_connection = none", 1)

    def test_what_open_vswitch_does_not_tell(self):
        """Its warnings are told, beside what it shows; that of a source only once."""
        warnings = (message("dpdk-not-started"), message("ovsdb-lost", address="unix:x"))
        switch = VirtualSwitch({"br0": "netdev"}, (), (3,), warnings=warnings)
        facts = Facts(HostFacts("h", (), ()), (), switch, warnings=warnings[1:])
        found = [(one.subject, one.level.value) for one in doctor._sources(self.settings(), facts)]
        self.assertEqual(
            [("Open vSwitch", "missing"), ("libvirt", "ok"), ("virtual switch", "note")], found
        )

    def test_policy(self):
        """A policy or a strategy with which the agent would not start."""
        self.put(self.folder / "policy.yaml", "parameters: 3\n")
        self.configure(policy_file=self.folder / "policy.yaml")
        remedy = f"^iat-nova policy check {self.folder}/policy.yaml$"
        self.check("policy", "impossible", "policy.yaml", remedy, 1)
        self.configure(strategy="magic")
        self.check("strategy", "impossible", "magic", "strategy", 1)

    def test_modes(self):
        """What the configuration keeps from being driven is noted; the host itself is well."""
        self.configure(mode="observe")
        verdict = self.check("configuration", "note", "mode = observe", "mode = enforce")
        says = "the agent can enforce here, once [iat] mode = enforce is set"
        self.assertEqual(says, verdict["state"])
        self.configure(hardware="emulated", emulated_scenario="x")
        self.check("configuration", "note", "hardware = emulated", "hardware = auto")

    def test_after_a_crash(self):
        """A snapshot that nobody restored is found, and left there."""
        self.crash()
        self.check(
            "snapshot",
            "note",
            "without restoring the original hardware settings",
            "^iat-nova restore$",
        )
        self.assertTrue(self.settings().snapshot_path.exists())
        self.settings().snapshot_path.write_text("{}")
        self.check("snapshot", "impossible", "not a snapshot", "remove it", 1)
        self.settings().snapshot_path.unlink()
        self.check("left behind", "note", r"iat-nova\.1", "^iat-nova restore$")
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
        files.write(Left(time.monotonic(), "1", "iat", (), {}, (), *memory))
        self.check("hand-over", "note", "within 60 s the next one may adopt it", "iat-nova restore")
        with mock.patch.object(restoring, "writer", return_value=7):
            self.check("agent", "ok", "^runs as process 7; its next end hands over$")
        files.remove()
        self.assertNotIn("hand-over", self.rows()[1])
        self.check("snapshot", "note", "without restoring", "iat-nova restore")

    def test_libpqos_is_let_alone(self):
        """It takes a lock to tell the domains: they are read from CPUID, agent or not."""
        (self.roots.resctrl / "schemata").unlink()
        self.configure(cat_interface="pqos-msr")
        with (
            mock.patch("iat_nova.hardware.backends.load"),
            mock.patch("iat_nova.hardware.pqos.Pqos", side_effect=AssertionError),
        ):
            self.check("cache domains", "missing", "cpuid: No such file", "^modprobe cpuid$")
            for cpu in range(4):
                trees.put_cpuid(self.roots.msr, cpu)
            self.check("policy", "ok", "policy")
            for cpu in range(4):
                trees.put_cpuid(self.roots.msr, cpu, amd=True)
            self.check("bandwidth limits", "note", "^none is set: ", "memory_bandwidth_gbps")

    def test_an_agent_runs(self):
        """It is named, and what it holds is nobody else's."""
        code = (
            "import sys; from pathlib import Path\n"
            "from iat_nova.enforcement.snapshot import Snapshot\n"
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
            self.check("agent", "ok", f"^runs as process {agent.pid}$")
            self.assertNotIn("snapshot", self.rows()[1])
            agent.stdin.close()
