# SPDX-License-Identifier: Apache-2.0
import dataclasses
import errno
import fcntl
import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.pqos_lib import PqosError
from iat_nova.hardware.host import backends, probe
from iat_nova.hardware.host.backends import Preferences
from iat_nova.hardware.host.probe import Level, Roots
from iat_nova.hardware.kernel.locks import lock_holder
from iat_nova.model import Message, WayMask, message
from iat_nova.report.sentences import text
from tests.proofs import ANY, proves
from tests.said import codes, raises
from tests.unit.hardware import trees
from tests.unit.hardware.registers import FakeMsr
from tests.unit.hardware.test_cha import SKX_FORMATS
from tests.unit.hardware.test_ddio import AmdTree

CPUINFO = {
    "skylake": ("GenuineIntel", 6, 85, "Xeon Gold 6140"),
    "ice lake": ("GenuineIntel", 6, 106, "Xeon Gold 6330"),
    "granite rapids": ("GenuineIntel", 6, 173, "Xeon 6972P"),
    "strange": ("GenuineIntel", 6, 45, "Xeon E5-2650"),
    "amd": ("AuthenticAMD", 26, 2, "EPYC 9755"),
    "milan": ("AuthenticAMD", 25, 1, "EPYC 7713"),
    "other": ("HygonGenuine", 24, 0, "Hygon C86 7185"),
    "broadwell": ("GenuineIntel", 6, 79, "Xeon E5-2699 v4"),
    "haswell": ("GenuineIntel", 6, 63, "Xeon E5-2658 v3"),
}


class HostCase(unittest.TestCase):
    """A whole host of two sockets in a temporary folder; all is well unless a test breaks it."""

    def setUp(self):
        self.folder = trees.folder(self)
        self.roots = Roots(
            **{field.name: self.folder / field.name for field in dataclasses.fields(Roots)}
        )
        self.cpus = trees.Cpus(self.roots.cpus, packages=((0, 1), (2, 3)))
        self.tree = trees.KernelTree(self.roots.resctrl, self.cpus)
        self.msr = FakeMsr(
            {0: 0, 1: 0, 2: 1, 3: 1}, root=self.roots.msr, parameters=self.roots.msr_parameters
        )
        self.put(self.roots.msr / "0/msr", "")
        self.put(self.roots.msr_parameters / "allow_writes", "default\n")
        self.put(self.roots.lockdown, "[none] integrity confidentiality\n")
        self.put(self.roots.proc / "filesystems", "nodev\tproc\nnodev\tresctrl\n")
        self.put(self.roots.proc / "locks", "")
        self.put(self.roots.proc / "sys/kernel/perf_event_paranoid", "2\n")
        self.be("skylake")
        for number in range(18):
            pmu = self.roots.pmus / f"uncore_cha_{number}"
            self.put(pmu / "type", "12\n")
            self.put(pmu / "cpumask", "0,2\n")
            for name, place in SKX_FORMATS.items():
                self.put(pmu / "format" / name, f"{place}\n")
        self.perf = None  # why perf refuses
        self.pqos = mock.Mock(_name="libpqos.so.4")
        for target, value in (
            ("iat_nova.hardware.counters.perf_event.available", lambda *_arguments: self.perf),
            ("iat_nova.hardware.host.probe.load", self.load_pqos),
        ):
            patch = mock.patch(target, value)
            patch.start()
            self.addCleanup(patch.stop)

    def load_pqos(self):
        if self.pqos is None:
            raise PqosError("no libpqos on this host", "apt-get install intel-cmt-cat")
        return self.pqos

    @staticmethod
    def put(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def be(self, who, flags="cat_l3 cdp_l3 mba"):
        vendor, family, model, name = CPUINFO[who]
        self.put(
            self.roots.proc / "cpuinfo",
            f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
            f"model name\t: {name}\nflags\t\t: {flags}\n\nprocessor\t: 1\n",
        )

    def put_fabric(self):
        pmu = self.roots.pmus / "amd_df"
        self.put(pmu / "type", "14\n")
        self.put(pmu / "cpumask", "0,2\n")
        self.put(pmu / "format/event", "config:0-7,32-37\n")
        self.put(pmu / "format/umask", "config:8-15,24-27\n")

    def host(self):
        return probe.Host(self.roots, fs=self.tree, msr=self.msr)

    def findings(self):
        return {one.subject: one for one in probe.findings(self.host())}


class Findings(HostCase):
    """What doctor shows: each fault by its state and the command that mends it."""

    def check(self, subject, level, state, remedy=None):
        """Check a finding: a message, or a code alone, and so the remedy."""
        one = self.findings()[subject]
        self.assertEqual(level, one.level, one)
        self.assertEqual(state, one.state if isinstance(state, Message) else one.state.code)
        found = one.remedy and one.remedy.code
        self.assertEqual(remedy, one.remedy if isinstance(remedy, Message) else found)
        return one.state.values

    def check_refused(self, subject, state, remedy):
        """Check a finding that an error of the hardware became."""
        one = self.findings()[subject]
        self.assertEqual(Level.MISSING, one.level, one)
        self.assertRegex(text(one.state), state)
        self.assertRegex(text(one.remedy), remedy)

    def test_all_is_well(self):
        """On a host that has everything nothing is missing, nor what other CPUs have."""
        before = self.tree.state()
        found = probe.findings(self.host())
        bad = [one.subject for one in found if one.level is not Level.OK]
        self.assertEqual([], bad)
        self.assertEqual((), probe.reasons(found, Level.OBSERVE))
        self.assertEqual((before, []), (self.tree.state(), self.msr.writes))

    def test_strange_processor(self):
        """A CPU without event tables is named with family and model."""
        self.be("strange")
        self.check("CPU", Level.MISSING, message("cpu-unknown", name="Xeon E5-2650",
                   vendor="GenuineIntel", family=6, model=45), "report-cpu")  # fmt: skip
        self.assertNotIn("perf", self.findings())
        self.check("CHA PMUs", Level.MISSING, "cha-events-unknown")

    def test_foreign_groups(self):
        """Somebody's group, and libvirt's, force observing; a monitoring group does not."""
        (self.tree.root / "mon_groups/watcher").mkdir()
        self.assertNotIn("foreign group", self.findings())
        self.tree.mkdir("theirs")
        state = message("group-of-other", group="theirs")
        remedy = message("remove-group", path=str(self.roots.resctrl / "theirs"))
        self.check("foreign group", Level.OBSERVE, state, remedy)
        self.tree.rmdir("theirs")
        self.tree.mkdir("qemu-3-instance-0000001a-vcpus_0-1")
        remedy = message("remove-cachetune", guest="instance-0000001a")
        self.check("foreign group", Level.OBSERVE, "group-of-libvirt", remedy)

    def test_monitoring_groups(self):
        """Who counts CPUs by groups is told that some will be missing there."""
        self.tree.add_monitor("watcher", "2-3")
        group = message("group-cpus", group="watcher", cpus="2-3")
        self.check("monitoring groups", Level.NOTE, message("groups-monitor", groups=(group,)))

    def test_no_class_left(self):
        """When others hold all classes that is told."""
        for n in range(7):
            self.tree.mkdir(f"theirs{n}")
        self.check("classes", Level.OBSERVE, "no-class-left", "remove-a-group")

    def test_reserved_ways(self):
        """Ways held exclusively are told by domain."""
        self.tree.mkdir("theirs")
        self.tree.write("theirs/schemata", "L3:0=3\n")
        self.tree.write("theirs/mode", "pseudo-locked")
        held = message("domain-mask", domain=0, mask="0x3")
        values = self.check("reserved ways", Level.NOTE, "ways-reserved")
        self.assertEqual(held, values["domains"][0])

    def test_msr_driver(self):
        """A missing driver, writes switched off and lockdown have a finding each."""
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        path = str(self.roots.msr_parameters / "allow_writes")
        remedy = message("allow-msr-writes", path=path)
        self.check("msr writes", Level.MISSING, "msr-writes-refused", remedy)
        self.put(self.roots.lockdown, "none [integrity] confidentiality\n")
        (self.roots.msr / "0/msr").unlink()
        self.check("msr driver", Level.MISSING, "msr-hidden", "use-compute-host")
        locked = message("kernel-locked-down", setting="integrity")
        self.check("lockdown", Level.MISSING, locked, "unlock-kernel")

    def test_no_registers(self):
        """Where no registers are known no driver is advised, nor rights to use it."""
        (self.roots.msr / "0/msr").unlink()
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        for who in ("strange", "amd"):
            self.be(who)
            self.check("msr driver", Level.NOTE, "registers-unknown")
            self.assertNotIn("msr writes", self.findings())

    def test_a_register_that_refuses(self):
        """State and remedy are those of the error."""
        self.msr.off = {2}
        state = "0xc8b: read: No such device or address$"
        self.check_refused("DDIO register 0xc8b", state, "offline, or .*modprobe msr")

    def test_no_sysfs(self):
        """What cannot be looked at is a finding of its own, and the rest is looked at."""
        (self.roots.cpus / "online").unlink()
        found = self.findings()
        self.assertEqual(message("is-sysfs-mounted"), found["msr"].remedy)
        self.assertIn("libpqos", found)

    def test_perf_refused(self):
        """The kernel's refusal is shown with the setting and what to change."""
        state = "CPU 0, perf event: denied (kernel.perf_event_paranoid = 3)"
        self.perf = HardwareError(state, "sysctl it")
        self.check_refused("perf", r"denied \(kernel.perf_event_paranoid = 3\)$", "^sysctl it$")

    def test_no_cha(self):
        """Without CHA PMUs the module is named."""
        for pmu in self.roots.pmus.iterdir():
            pmu.rename(self.folder / pmu.name)
        remedy = message("load-module", module="intel_uncore")
        self.check("CHA PMUs", Level.MISSING, "cha-absent", remedy)
        self.be("amd")
        remedy = message("load-module", module="amd_uncore")
        self.check("amd_df PMU", Level.MISSING, "fabric-absent", remedy)
        self.put_fabric()
        self.check("amd_df PMU", Level.OK, message("fabric-counted", cpus="0,2"))

    def test_cpus_alone_are_counted(self):
        """What is not counted on older CPUs is told, without a remedy: there is none."""
        self.be("broadwell")
        self.check("CHA PMUs", Level.MISSING, "cha-events-unknown")
        self.check("DDIO register 0xc8b", Level.MISSING, "ddio-register-unknown")
        self.be("milan")
        for pmu in self.roots.pmus.iterdir():
            pmu.rename(self.folder / pmu.name)
        self.check("amd_df PMU", Level.MISSING, "fabric-events-unknown")
        self.assertEqual(Level.OK, self.findings()["perf"].level)

    def test_what_another_maker_has_is_not_missing(self):
        """Nobody can mend that; of a third maker's CPU both are told."""
        for pmu in self.roots.pmus.iterdir():
            pmu.rename(self.folder / pmu.name)
        of_intel = {"DDIO register 0xc8b", "CHA PMUs", "I/O RDT"}
        of_amd = {"io_alloc", "amd_df PMU"}
        for who, own, others in (
            ("granite rapids", of_intel, of_amd),
            ("skylake", of_intel - {"I/O RDT"}, {*of_amd, "I/O RDT"}),
            ("strange", of_intel, of_amd),
            ("amd", of_amd, of_intel),
        ):
            self.be(who)
            found = self.findings().keys()
            self.assertEqual((own, set()), (own & found, others & found), who)
        self.be("skylake")
        self.put(self.roots.irdt, "")  # the firmware's table: then something is there
        self.assertIn("I/O RDT", self.findings())
        self.be("other")
        self.assertLessEqual(
            {"DDIO register 0xc8b", "CHA PMUs", "io_alloc"}, self.findings().keys()
        )
        self.check("CHA PMUs", Level.MISSING, "cha-of-intel-only")

    @proves("sub-NUMA clusters", on=(ANY,))
    def test_clusters(self):
        """Sub-NUMA clustering is told: two nodes in one cache; a node a socket is none."""
        self.cpus.put_nodes([0, 1], [2], [], [3])
        each = (message("domain-nodes", domain=1, nodes="1,3"),)
        state = message("nodes-in-one-cache", domains=each, nodes=2)
        self.check("sub-NUMA clusters", Level.NOTE, state)
        (self.roots.cpus / "cpu3/node3").rename(self.roots.cpus / "cpu3/node1")
        self.assertNotIn("sub-NUMA clusters", self.findings())

    def test_no_domain(self):
        """CPUs that are in no cache domain are told: nothing can be managed on them."""
        self.assertNotIn("CPUs in no cache domain", self.findings())
        (self.roots.cpus / "cpu1/cache/index3/shared_cpu_list").write_text("1\n")
        (self.roots.cpus / "cpu0/cache/index3/shared_cpu_list").write_text("0\n")
        (self.roots.cpus / "cpu1/cache/index3/id").unlink()
        path = f"{self.roots.cpus}/cpu1/cache/index*/id"
        self.check("CPUs in no cache domain", Level.NOTE, message("cpus-in-no-domain", cpus="1"),
                   message("compare-cache-ids", path=path))  # fmt: skip

    def test_cdp(self):
        """What code and data prioritisation costs is told, with how to do without."""
        self.assertNotIn("cdp", self.findings())
        self.tree = trees.KernelTree(self.folder / "cdp", self.cpus, cdp=True)
        self.check("cdp", Level.NOTE, "cdp-mounted", "remount-resctrl")

    def test_memory_bandwidth(self):
        """How it can be limited, or why not: the kernel steers it itself, there is none, AMD."""
        subject = "memory bandwidth"
        limits = message("mba-percent", least_percent=10, step_percent=10)
        self.check(subject, Level.OK, message("bandwidth-limits", limits=limits))
        self.tree.mounted_with("relatime,mba_MBps")
        none = message("bandwidth-no-limits", cause=message("mba-steered"))
        self.check(subject, Level.NOTE, none, "remount-resctrl")
        self.tree.mounted_with("relatime")
        self.tree.be_amd()
        limits = message("mba-absolute", most_eighths=2048)
        self.check(subject, Level.OK, message("bandwidth-limits", limits=limits))
        self.tree = trees.KernelTree(self.folder / "none/resctrl", self.cpus, mba_closids=None)
        none = message("bandwidth-no-limits", cause=message("mba-absent"))
        self.check(subject, Level.OK, none)
        self.tree = trees.KernelTree(self.folder / "mpam/resctrl", self.cpus, mb_ids=(7, 8))
        none = message("bandwidth-no-limits", cause=message("mba-of-nodes", domains=("0", "1")))
        self.check(subject, Level.NOTE, none)

    def test_no_limits_of_memory_bandwidth(self):
        """A kernel that tells too little of them has no remedy; masks are as they were."""
        (self.roots.resctrl / "info/MB/delay_linear").unlink()
        none = self.check("memory bandwidth", Level.NOTE, "bandwidth-no-limits")
        self.assertEqual("mba-unreadable", none["cause"].code)
        self.assertRegex(text(none["cause"].values["error"]), "linear")
        self.assertEqual(Level.OK, self.findings()["resctrl"].level)

    def test_a_remedy_depends_on_no_words(self):
        """The name of the mount option in an unreadable file is no such mount."""
        (self.roots.resctrl / "info/MB/min_bandwidth").write_text("mba_MBps\n")
        found = self.findings()["memory bandwidth"]
        self.assertIn("'mba_MBps'", text(found.state))
        self.assertEqual((Level.NOTE, None), (found.level, found.remedy))

    def test_lock_of_libpqos(self):
        """A process that holds libpqos's lock is found without disturbing it."""
        self.put(self.roots.pqos_lock, "")
        self.assertNotIn("libpqos's lock", self.findings())
        self.check_lock()

    def check_lock(self):
        code = (
            "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX)\n"
            "print('held', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, self.roots.pqos_lock],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as owner:  # fmt: skip
            self.assertEqual("held\n", owner.stdout.readline())
            self.assertEqual(owner.pid, lock_holder(self.roots.pqos_lock))
            self.put(self.roots.proc / "locks", Path("/proc/locks").read_text())
            subject = "libpqos's lock"
            state = message("libpqos-in-use", pid=owner.pid, path=str(self.roots.pqos_lock))
            self.check(subject, Level.OBSERVE, state, message("end-process", pid=owner.pid))
            found = probe.findings(self.host(), agent=owner.pid)
            self.assertNotIn(subject, [one.subject for one in found])  # our agent holds it
            owner.stdin.close()

    def test_no_libpqos(self):
        """The package that brings it is named; nothing else depends on it."""
        self.pqos = None
        self.check("libpqos", Level.NOTE, "libpqos-not-needed")
        (self.roots.resctrl / "schemata").unlink()
        self.check_refused("libpqos", "no libpqos", "^apt-get install intel-cmt-cat$")

    def test_own_lock_of_libpqos(self):
        """The agent that works through libpqos is not another owner."""
        self.put(self.roots.pqos_lock, "")
        with self.roots.pqos_lock.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            self.put(self.roots.proc / "locks", Path("/proc/locks").read_text())
            self.assertEqual(os.getpid(), lock_holder(self.roots.pqos_lock))
            self.assertEqual((), probe.owners(self.host()))

    def test_owners(self):
        """Foreign groups own cache, ours do not."""
        self.tree.mkdir("iat-nova.1")
        self.assertEqual((), probe.owners(self.host()))
        self.tree.mkdir("COS2")
        group = message("group-of-other", group="COS2")
        owner = message("of-subject", subject="foreign group", state=group)
        self.assertEqual((owner,), probe.owners(self.host()))

    def test_split_siblings(self):
        """Hyper-threads of one core in different classes are told, whole cores are not."""
        for cpu, siblings in ((0, "0-1"), (1, "0-1"), (2, "2-3"), (3, "2-3")):
            self.put(self.roots.cpus / f"cpu{cpu}/topology/thread_siblings_list", siblings)
        owner = {0: "a", 1: "b", 2: "b", 3: "b"}
        (one,) = probe.split_siblings(self.cpus.topology, owner)
        self.assertEqual(message("cores-shared", owners=("a", "b"), cores=("0-1",)), one.state)
        self.assertEqual("use-whole-cores", one.remedy.code)


class Choosing(HostCase):
    """Which back end fills which role, and why."""

    def choose(self, **wanted):
        return backends.choose(self.host(), SystemClock(), Preferences(**wanted))

    def chosen(self, made):
        return {choice.role: choice.chosen for choice in made.choices}

    def test_skylake(self):
        """resctrl, the register, perf and the kernel's CHA PMUs; DDIO and coupling are known."""
        made = self.choose()
        self.assertEqual(
            {"cat": "resctrl", "ddio": "msr", "counters": "perf", "ddio counters": "perf"},
            self.chosen(made),
        )
        domain = made.allocator.domains()[1]
        self.assertEqual(
            (0x600, 0x600, True, True),
            (domain.ddio_found, domain.coerced_ways, domain.ddio_resizable, domain.ddio_counters),
        )
        self.assertEqual([], self.msr.writes)

    def test_without_cache_allocation(self):
        """Refused, although libpqos loads and perf counts; no register or library is touched."""
        (self.roots.resctrl / "schemata").unlink()
        self.put(self.roots.proc / "filesystems", "nodev\tproc\n")
        for flags, code in (("rdtscp", "no-cat"), ("hypervisor", "no-cat-virtual-machine")):
            self.be("milan", flags)
            for cat in ("auto", "resctrl", "pqos-msr"):
                with self.assertRaises(HardwareError) as caught:
                    self.choose(cat=cat)
                self.assertEqual(code, caught.exception.state.code)
        self.assertEqual([], self.msr.writes)

    def test_cache_allocation_without_a_flag(self):
        """A Haswell server's kernel has resctrl all the same: what is missing is its mount."""
        (self.roots.resctrl / "schemata").unlink()
        (self.roots.resctrl / "info").rename(self.roots.resctrl / "elsewhere")
        self.be("haswell", "cqm")
        self.assertIsNone(probe.without_cat(self.host()))
        for cat, code in (("auto", "mount"), ("resctrl", "mount"), ("pqos-msr", "no-cat")):
            with self.assertRaisesRegex(HardwareError, code):
                self.choose(cat=cat)

    def test_found_stays_found(self):
        """The mask found on DDIO is the one before our writes, however often domains are read."""
        made = self.choose()
        made.allocator.domains()
        made.ddio.write(0, WayMask(0x7C0))
        self.assertEqual(0x600, made.allocator.domains()[0].ddio_found)

    def test_ice_lake_couples_nothing(self):
        """Only Skylake is known to couple the ways shared with I/O."""
        self.be("ice lake")
        self.assertEqual(0, self.choose().allocator.domains()[0].coerced_ways)

    def test_no_register(self):
        """Without a writable register DDIO is fixed where CPUID says, with all the reasons."""
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        made = self.choose()
        self.assertEqual("none", self.chosen(made)["ddio"])
        self.assertIn("refuses writes", text(made.choices[1].why))
        self.assertEqual([False, True, False, False], [one.denied for one in made.choices])
        self.assertFalse(self.choose(ddio="none").choices[1].denied)  # as it was asked for
        domain = made.allocator.domains()[0]
        self.assertEqual((0x600, False), (domain.ddio_found, domain.ddio_resizable))
        self.msr.set(0, 0xC8B, 0x700)  # it can still be read
        self.assertEqual(0x700, self.choose().allocator.domains()[0].ddio_found)
        self.msr.off = set(self.msr.cpus)  # nor that: what CPUID says
        self.assertEqual(0x600, self.choose().allocator.domains()[0].ddio_found)
        with raises(self, HardwareError, "msr is unavailable: DDIO's register: .*refuses"):
            self.choose(ddio="msr")

    def test_a_mask_of_ddio_with_a_gap(self):
        """No restore would write it again: DDIO's ways stay."""
        self.msr.set(0, 0xC8B, 0x500)
        with raises(self, HardwareError, "0x500 .*gap"):
            self.choose(ddio="msr")
        self.assertEqual("none", self.chosen(self.choose())["ddio"])

    def test_a_kernel_that_is_locked_down(self):
        """It refuses writes to registers whatever the driver's own setting: none is tried."""
        self.put(self.roots.lockdown, "none [integrity] confidentiality\n")
        self.put(self.roots.msr_parameters / "allow_writes", "off\n")
        with self.assertRaises(HardwareError) as caught:
            self.choose(ddio="msr")
        self.assertIn("kernel-locked-down", codes(caught.exception.state))
        self.assertEqual(message("unlock-kernel"), caught.exception.remedy)
        self.assertEqual([], self.msr.writes)

    def test_classes_of_devices_without_resctrl(self):
        """They are its groups: libpqos has none."""
        for cpu in (0, 2):
            trees.put_cpuid(self.roots.msr, cpu)
        with (
            mock.patch("iat_nova.hardware.host.backends.load"),
            self.assertRaises(HardwareError) as caught,
        ):
            self.choose(cat="pqos-msr", ddio="iordt")
        reason = message("iordt-without-resctrl")
        self.assertEqual(
            message("ddio-interface-refused", wanted="iordt", reason=reason),
            caught.exception.state,
        )

    def test_where_ddio_lies_after_a_crash(self):
        """It is read when an agent has put back what one before it left, and then kept."""
        made = self.choose(ddio="none")
        self.msr.set(0, 0xC8B, 0x700)
        self.assertEqual(0x700, made.allocator.domains()[0].ddio_found)
        self.msr.set(0, 0xC8B, 0x780)
        self.assertEqual(0x700, made.ddio.read(0))

    def test_where_ddio_lies_without_resctrl(self):
        """The register tells it to pqos-msr too, for which resctrl must not be mounted."""
        self.tree = probe.ResctrlFs(self.folder / "nowhere")
        for cpu in (0, 2):
            trees.put_cpuid(self.roots.msr, cpu)
        with mock.patch("iat_nova.hardware.host.backends.load"):
            made = self.choose(cat="pqos-msr", ddio="none")
        self.assertEqual([(0x600, False)] * 2, [
            (domain.ddio_found, domain.ddio_resizable) for domain in made.allocator.look()
        ])  # fmt: skip

    def test_settings_that_only_root_reads(self):
        """allow_writes is root's; who cannot read it finds out when writing."""
        path, read = self.roots.msr_parameters / "allow_writes", Path.read_text

        def denied(file, **options):
            if file == path:
                raise PermissionError(errno.EACCES, "Permission denied")
            return read(file, **options)

        with mock.patch.object(Path, "read_text", denied):
            self.assertEqual("msr", self.chosen(self.choose())["ddio"])
            self.assertNotIn("msr writes", self.findings())

    def test_io_alloc(self):
        """AMD's knob is taken where it is offered; while off devices fill any way.

        The class that devices take once it is on is not given to tenants before either.
        """
        self.tree = AmdTree(self.folder / "amd", self.cpus)
        self.be("amd")
        self.put_fabric()
        made = self.choose()
        self.assertEqual(
            {"cat": "resctrl", "ddio": "io_alloc", "counters": "perf", "ddio counters": "perf"},
            self.chosen(made),
        )
        self.assertIn("does not count hits and misses", text(made.choices[3].why))
        for _ in "off", "on":
            domain = made.allocator.domains()[1]
            self.assertEqual((0, 15), (domain.ddio_found, domain.classes))
            self.assertEqual((True, False), (domain.ddio_resizable, domain.ddio_counters))
            made.ddio.write(0, WayMask(0xC000))

    def test_what_all_memory_bandwidth_is(self):
        """The operator's word where limits are in GB/s, and of no account elsewhere."""
        self.tree.be_amd()
        for gbps, whole in ((47.6, 381), (None, None)):
            made = self.choose(memory_bandwidth_gbps=gbps)
            control = made.allocator.domains()[1].bandwidth
            self.assertEqual((False, whole), (control.percent, control.whole))
        self.tree = trees.KernelTree(self.folder / "intel", self.cpus)
        made = self.choose(memory_bandwidth_gbps=47.6)
        self.assertEqual({None}, {one.bandwidth.whole for one in made.allocator.domains()})

    def test_io_alloc_in_part(self):
        """What is optional and cannot be read is done without: masks are still written."""
        self.tree = AmdTree(self.folder / "amd", self.cpus)
        self.be("amd")
        (self.tree.root / "info/L3/io_alloc").write_text("enabled\n")
        (self.tree.root / "info/L3/io_alloc_cbm").unlink()
        made = self.choose()
        self.assertEqual("none", self.chosen(made)["ddio"])
        self.assertRegex(text(made.choices[1].why), "io_alloc_cbm: No such file")

    def test_half_a_pmu(self):
        """A PMU of devices' writes that cannot be read leaves the CPUs' own counters."""
        (self.roots.pmus / "uncore_cha_0/cpumask").unlink()
        made = self.choose()
        self.assertEqual(
            ("perf", "none"), (self.chosen(made)["counters"], self.chosen(made)["ddio counters"])
        )
        self.assertRegex(text(made.choices[3].why), "uncore_cha_0: No such file")

    def test_io_alloc_closed(self):
        """Where an operator keeps devices out of a cache altogether, that is left so."""
        self.tree = AmdTree(self.folder / "amd", self.cpus)
        self.tree.write("info/L3/io_alloc", "1")
        self.tree.write("info/L3/io_alloc_cbm", "1=0")
        self.be("amd")
        made = self.choose()
        self.assertEqual(("none", "none"), tuple(self.chosen(made).values())[1::2])
        self.assertIn("kept out of cache domain 1 (io_alloc_cbm)", text(made.choices[1].why))

    def test_perf_refused(self):
        """When perf cannot be used that stops the start, with the way out."""
        self.perf = HardwareError("Permission denied", "give the agent CAP_PERFMON")
        with raises(self, HardwareError, "Permission denied.*CAP_PERFMON$"):
            self.choose()

    def test_not_mounted(self):
        """Where the kernel has resctrl the text says what to mount."""
        self.tree = probe.ResctrlFs(self.folder / "nowhere")
        with raises(self, HardwareError, "mount -t resctrl"):
            self.choose()

    def test_libpqos(self):
        """libpqos is used when asked for, or where the kernel has no resctrl at all."""
        with mock.patch("iat_nova.hardware.host.backends.load"):
            self.assertEqual("pqos-msr", self.chosen(self.choose(cat="pqos-msr"))["cat"])
            self.tree = probe.ResctrlFs(self.folder / "nowhere")
            self.put(self.roots.proc / "filesystems", "nodev\tproc\n")
            made = self.choose()
        self.assertEqual("pqos-msr", self.chosen(made)["cat"])
        self.assertEqual(["pqos-msr", "ddio msr"], list(made.parts))
        absent = HardwareError("no libpqos", "install it")
        with (
            mock.patch("iat_nova.hardware.host.backends.load", side_effect=absent),
            raises(self, HardwareError, "CONFIG_X86_CPU_RESCTRL.*no libpqos; grep .*; install it"),
        ):
            self.choose()

    def test_no_cha(self):
        """Without CHA PMUs DDIO's rates are unknown, and the domain says so."""
        for pmu in self.roots.pmus.iterdir():
            pmu.rename(self.folder / pmu.name)
        made = self.choose()
        self.assertEqual("none", self.chosen(made)["ddio counters"])
        self.assertRegex(text(made.choices[3].reason), "no uncore_cha PMU.*modprobe intel_uncore")
        self.assertFalse(made.allocator.domains()[0].ddio_counters)

    @proves("sub-NUMA clusters", on=(ANY,))
    def test_a_slice_of_each_cluster(self):
        """With sub-NUMA clustering one slice does not stand for all."""
        for nodes, asked, counted in (
            ([[0, 1]], 1, 1), ([[0], [1]], 1, 2), ([[0], [1]], 3, 3), ([[0], [1]], None, None),
        ):  # fmt: skip
            with self.subTest(nodes=nodes, asked=asked):
                for path in self.roots.cpus.glob("cpu*/node*"):
                    path.rmdir()
                self.cpus.put_nodes(*nodes)
                with mock.patch("iat_nova.hardware.host.counter_choice.ChaPerf") as made:
                    self.choose(cha_slices=asked)
                self.assertEqual(counted, made.call_args.kwargs["slices"])

    def test_cpus_alone_are_counted(self):
        """Older CPUs: their own events are counted, and nothing of what devices write."""
        for name in ("broadwell", "milan"):
            with self.subTest(name=name):
                self.be(name)
                made = self.choose()
                self.assertEqual(
                    {"cat": "resctrl", "ddio": "none", "counters": "perf", "ddio counters": "none"},
                    self.chosen(made),
                )
                self.assertFalse(made.allocator.domains()[0].ddio_counters)
