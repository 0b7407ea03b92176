# SPDX-License-Identifier: Apache-2.0
"""Processors, and the table of symptoms, excluding evidence and cures."""

import pathlib
import re
import unittest

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.counters.events import CpuModel, cpu_model
from iat_nova.hardware.host import backends, cures, probe
from iat_nova.hardware.host.cures import CURES, Symptom
from iat_nova.report.sentences import SENTENCES, text
from tests.unit.hardware import trees
from tests.unit.hardware.test_probe import HostCase

PROJECT = pathlib.Path(__file__).parents[3]
INTEL = {
    "Haswell": 0x3F,
    "Broadwell": 0x4F,
    "Skylake": 0x55,
    "Cascade Lake": 0x55,
    "Ice Lake": 0x6A,
    "Sapphire Rapids": 0x8F,
    "Emerald Rapids": 0xCF,
    "Granite Rapids": 0xAD,
    "Sierra Forest": 0xAF,
    "Grand Ridge": 0xB6,
    "Clearwater Forest": 0xDD,
}
AMD = {
    "Zen 2": (0x17, 0x31),
    "Rome": (0x17, 0x31),
    "Zen 3": (0x19, 0x01),
    "Milan": (0x19, 0x01),
    "Zen 4": (0x19, 0x11),
    "Genoa": (0x19, 0x11),
    "Bergamo": (0x19, 0xA0),
    "Siena": (0x19, 0xA0),
    "Zen 5": (0x1A, 0x02),
    "Turin": (0x1A, 0x11),
}
REFUSED = {"Loongson": "emulated only; the agent counts on x86 CPUs alone"}
_NAME = re.compile(
    r"\b(?:[A-Z]\w+\s(?:Rapids|Forest|Ridge|Lake|Bridge|Landing|Mill)|[A-Z][a-z]+well|Skylake"
    r"|Zen \d|Naples|Rome|Milan|Genoa|Bergamo|Siena|Turin|Venice|Loongson|Kunpeng|Neoverse)\b"
)


class Processors(unittest.TestCase):
    """Every CPU that a page or message names has events, or is refused."""

    def test_named_processors(self):
        """Names in pages and messages are those of CPUs with events, or of refused CPUs."""
        models = [CpuModel("GenuineIntel", 6, model) for model in INTEL.values()]
        models += [CpuModel("AuthenticAMD", *model) for model in AMD.values()]
        self.assertNotIn(None, [one.known for one in models])
        texts = [path.read_text() for path in (PROJECT / "doc/source").rglob("*.rst")]
        texts += [(PROJECT / "README.rst").read_text(), *SENTENCES.values()]
        texts += [path.read_text() for path in (PROJECT / "iat_nova").rglob("*.py")]
        named = {" ".join(name.split()) for one in texts for name in _NAME.findall(one)}
        self.assertEqual(set(), named - INTEL.keys() - AMD.keys() - REFUSED.keys())

    def test_small_cores(self):
        """Intel's CPUs with E-cores have Granite Rapids' events, by Intel's tables."""
        for name in ("Sierra Forest", "Grand Ridge", "Clearwater Forest"):
            known = CpuModel("GenuineIntel", 6, INTEL[name]).known
            self.assertIn(name, known.name)
            core = [event.config for event in known.core.events]
            self.assertEqual([0xC0, 0x3C, 0x4F2E, 0x412E], core)
            masks = [event["umask"] for event in (*known.cha.hits, *known.cha.misses)]
            self.assertEqual([0xCC43FD04, 0xCD43FD04, 0xCC43FE04, 0xCD43FE04], masks)

    def test_architectures(self):
        """The architecture is named first; Arm's CPUs by implementer and parts."""
        folder = trees.folder(self)
        for cpuinfo, midr, architecture, name in (
            ("CPU implementer\t: 0x41\nCPU part\t: 0xd0c", "", "Arm", "0x41 (Arm), part 0xd0c"),
            ("CPU implementer: 0x41\nCPU part: 0xd87\n\nCPU part: 0xd85", "", "Arm",
             "part 0xd87, 0xd85"),
            ("Processor\t: AArch64\nprocessor\t: 0\n\nCPU implementer\t: 0x48\nCPU part: 0xd01",
             "", "Arm", "0x48 (HiSilicon), part 0xd01"),
            ("", "0x00000000c00fac30", "Arm", "0xc0 (Ampere), part 0xac3"),
            ("CPU implementer\t: new", "", "Arm", "new"),
            ("processor: 0\nhart: 1\nisa: rv64imafdc\nuarch: sifive,u74", "", "RISC-V", "sifive"),
            ("bogomips per cpu: 4\nprocessor 1: machine = 3931", "", "s390", "3931"),
            ("processor: 0\ncpu: POWER9\n\ntimebase: 512000000", "", "Power", "POWER9"),
            ("CPU Family: Loongson-64bit\nModel Name: Loongson-3A5000", "", "LoongArch", "3A5000"),
            ("", "", "", ""),
        ):  # fmt: skip
            with self.subTest(cpuinfo=cpuinfo):
                (folder / "cpuinfo").write_text(cpuinfo)
                file = folder / "cpu0/regs/identification/midr_el1"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(midr)
                found = cpu_model(folder / "cpuinfo", folder)
                self.assertEqual((architecture, None), (found.architecture, found.known))
                self.assertIn(name, found.name)


ARM = "processor\t: 0\nFeatures\t: fp\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n"


class Cures(HostCase):
    """Each row on a host on which the cures before it cannot help."""

    def unmount(self):
        (self.roots.resctrl / "schemata").unlink(missing_ok=True)

    def without_l3(self):
        (self.roots.resctrl / "info/L3").rename(self.folder / "L3")

    def built_without(self):
        self.unmount()
        self.put(self.roots.proc / "filesystems", "nodev\tproc\n")

    def boot(self, line):
        self.put(self.roots.proc / "cmdline", f"ro {line}\n")

    def cpuinfo(self, content):
        self.put(self.roots.proc / "cpuinfo", content)

    def without_pmus(self):
        for pmu in self.roots.pmus.iterdir():
            pmu.rename(self.folder / pmu.name)

    def loaded(self, module):
        self.put(self.roots.proc / "modules", f"{module} 16384 0 - Live 0x0\n")

    def rows(self):
        """Yield the symptom, what is true of the host, and the codes of state and remedy."""
        yield Symptom.EVENTS, lambda: self.be("strange"), "cpu-unknown", "report-cpu"
        yield Symptom.EVENTS, lambda: self.cpuinfo(ARM), "cpu-of-architecture", "use-x86"
        self.be("skylake")
        yield Symptom.RESCTRL, self.unmount, "resctrl-not-mounted", "mount-resctrl"
        mounts = "resctrl /mnt resctrl rw 0 0\n"
        yield (Symptom.RESCTRL, lambda: self.put(self.roots.proc / "mounts", mounts),
               "resctrl-elsewhere", "move-resctrl")  # fmt: skip
        (self.roots.proc / "mounts").unlink()
        yield (Symptom.RESCTRL, self.built_without, "resctrl-not-in-kernel",
               "build-or-boot-with-resctrl")  # fmt: skip
        yield (Symptom.RESCTRL, lambda: self.boot("rdt=cmt,l3cat"), "resctrl-not-built",
               "use-resctrl-kernel")  # fmt: skip
        yield Symptom.RESCTRL, lambda: self.boot("rdt=!l3cat"), "l3-switched-off", "boot-instead"
        yield Symptom.RESCTRL, lambda: self.be("haswell", "cqm"), "l3-switched-off", "boot-instead"
        yield Symptom.RESCTRL, lambda: self.boot(""), "no-cat", "use-other-cpu"
        yield (Symptom.RESCTRL, lambda: self.be("skylake", "hypervisor"),
               "no-cat-virtual-machine", "use-compute-host")  # fmt: skip
        yield Symptom.RESCTRL, lambda: self.cpuinfo("hart: 0\n"), "no-cat-architecture", "use-x86"
        yield Symptom.RESCTRL, lambda: self.cpuinfo(ARM), "no-mpam", "enable-mpam"
        yield (Symptom.RESCTRL, lambda: self.put(self.roots.irdt.parent / "MPAM", ""),
               "no-mpam", "use-mpam-kernel")  # fmt: skip
        yield Symptom.L3, lambda: None, "mpam-without-l3", None
        yield Symptom.L3, lambda: self.cpuinfo("hart: 0\n"), "no-cat-architecture", "use-x86"
        yield Symptom.L3, lambda: self.be("skylake"), "l3-off", "boot-with"
        yield Symptom.L3, lambda: self.boot("rdt=!l3cat"), "l3-switched-off", "boot-instead"
        yield Symptom.L3, lambda: self.boot("rdt=l3cat"), "l3-refused", "see-resctrl-log"
        yield Symptom.L3, lambda: self.boot("quiet"), "l3-off", "boot-with"
        yield Symptom.L3, lambda: self.be("ice lake"), "l3-refused", "see-resctrl-log"
        yield Symptom.L3, lambda: self.be("skylake", "mba"), "no-cat", "use-other-cpu"
        yield (Symptom.L3, lambda: self.be("skylake", "mba hypervisor"),
               "no-cat-virtual-machine", "use-compute-host")  # fmt: skip
        yield Symptom.MSR, lambda: None, "msr-hidden", "use-compute-host"
        (self.roots.msr_parameters / "allow_writes").unlink()
        self.roots.msr_parameters.rmdir()
        yield Symptom.MSR, lambda: None, "msr-not-loaded", "load-module"
        yield Symptom.MSR, lambda: self.loaded("msr"), "msr-hidden", "use-compute-host"
        yield Symptom.MSR_WRITES, lambda: None, "msr-writes-refused", "allow-msr-writes"
        lockdown = "none [integrity] confidentiality\n"
        yield (Symptom.MSR_WRITES, lambda: self.put(self.roots.lockdown, lockdown),
               "msr-writes-refused", None)  # fmt: skip
        yield Symptom.LOCKDOWN, lambda: self.boot(""), "kernel-locked-down", "secure-boot-off"
        yield (Symptom.LOCKDOWN, lambda: self.boot("lockdown=integrity"),
               "kernel-locked-down", "unlock-kernel")  # fmt: skip
        yield Symptom.CHA, self.without_pmus, "cha-absent", "use-compute-host"
        yield Symptom.CHA, lambda: self.be("granite rapids"), "cha-absent", "load-module"
        yield (Symptom.CHA, lambda: self.loaded("intel_uncore"), "cha-absent",
               "use-newer-kernel")  # fmt: skip
        self.loaded("ext4")
        (self.roots.pmus / "uncore_type_0_1").mkdir(parents=True)
        yield Symptom.CHA, lambda: None, "cha-unnamed", "use-newer-linux"
        yield Symptom.CHA, lambda: self.be("skylake"), "cha-absent", "use-newer-kernel"
        yield Symptom.FABRIC, lambda: self.be("amd"), "fabric-absent", "load-module"
        yield (Symptom.FABRIC, lambda: self.loaded("amd_uncore"), "fabric-absent",
               "use-newer-kernel")  # fmt: skip
        yield (Symptom.FABRIC, lambda: self.be("amd", "cat_l3 hypervisor"), "fabric-absent",
               "use-compute-host")  # fmt: skip

    def test_every_row(self):
        """Cause and cure fit the host's evidence, on one host after the other."""
        shown = set()
        for symptom, prepare, state, remedy in self.rows():
            prepare()
            with self.subTest(symptom, state=state, remedy=remedy):
                found = cures.find(symptom, self.host())
                self.assertEqual((state, remedy), (
                    found.state.code, found.remedy and found.remedy.code))  # fmt: skip
                self.assertNotIn(f"{state}(", text(found.message))
            evidence = cures.Evidence(self.host())
            shown.add(next(one for one in CURES[symptom] if not one.unless(evidence)))
        self.assertEqual(set(), {one for rows in CURES.values() for one in rows} - shown)

    def test_other_architectures(self):
        """Doctor and the agent's start speak of the architecture, never of x86's parts."""
        self.built_without()
        for cpuinfo, name in ((ARM, "implementer 0x41"), ("hart: 0\nuarch: u74\n", "RISC-V")):
            self.cpuinfo(cpuinfo)
            found = probe.findings(self.host())
            self.assertEqual(["CPU", "resctrl"], [one.subject for one in found])
            for cat in ("auto", "pqos-msr"):
                with self.assertRaises(HardwareError) as caught:
                    backends.choose(self.host(), SystemClock(), backends.Preferences(cat=cat))
                found.append(probe.refusal("interfaces", caught.exception))
            said = " ".join(text(m) for one in found for m in (one.state, one.remedy) if m)
            self.assertIn(name, said)
            self.assertNotRegex(said, "cat_l3|Haswell|rdt=|family|libpqos|DDIO|Zen")

    def test_mounted_without_l3(self):
        """A mounted resctrl without L3 is a finding with the cure of the CPU."""
        self.without_l3()
        (found,) = (one for one in probe.findings(self.host()) if one.subject == "resctrl")
        self.assertEqual("l3-off", found.state.code)
        self.cpuinfo(ARM)
        (found,) = (one for one in probe.findings(self.host()) if one.subject == "resctrl")
        self.assertEqual(("mpam-without-l3", None), (found.state.code, found.remedy))
