# SPDX-License-Identifier: Apache-2.0
"""Where the PMD threads run, as each of the three sources tells it."""

import pathlib
import tempfile
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.inventory import pmd
from iat_nova.inventory.ovs_rpc import OvsUnavailableError
from iat_nova.model import message

TWO_NODES = """\
Displaying last 60 seconds pmd usage %
pmd thread numa_id 0 core_id 9:
  isolated : false
  port: dpdk0             queue-id:  0 (enabled)   pmd usage: 12 %
  port: vhu0              queue-id:  0 (disabled)  pmd usage:  0 %
  overhead:  1 %
pmd thread numa_id 1 core_id 37:
  isolated : true
  overhead: NOT AVAIL
"""


def unavailable() -> str:
    raise OvsUnavailableError("unix:/none: No such file or directory")


class ParseMaskTest(unittest.TestCase):
    def test_values(self):
        """Masks are hexadecimal, with or without 0x, as wide as they like."""
        cases = {
            "0x2": (1,),
            "6": (1, 2),
            "0X0000c": (2, 3),
            "aA": (1, 3, 5, 7),
            "0": (),
            "1" + "0" * 32: (128,),
        }
        for text, cpus in cases.items():
            with self.subTest(text):
                self.assertEqual(cpus, pmd.parse_mask(text))

    def test_malformed(self):
        """Whatever else Python's int would take is refused, and named in the error."""
        for text in ("zz", "", "0x", "-2", " 2", "1_0", "0x2,4", "1-3", "2\n"):
            with self.subTest(text), self.assertRaises(ValueError) as caught:
                pmd.parse_mask(text)
            self.assertIn(repr(text), str(caught.exception))

    def test_too_long(self):
        """A mask of more CPUs than any kernel knows is refused, shortly; zeros in front are not."""
        self.assertEqual((16383,), pmd.parse_mask("0x8" + "0" * 4095))
        self.assertEqual((0,), pmd.parse_mask("0x" + "0" * 20_000 + "1"))
        with self.assertRaisesRegex(ValueError, "more than 16384 bits") as caught:
            pmd.parse_mask("0x1" + "0" * 20_000)
        self.assertLess(len(str(caught.exception)), 200)

    @settings(derandomize=True, max_examples=50)
    @given(st.sets(st.integers(0, 600)))
    def test_round_trip(self, cpus):
        """Every set of CPUs is read back from its mask."""
        self.assertEqual(tuple(sorted(cpus)), pmd.parse_mask(hex(sum(1 << cpu for cpu in cpus))))


class ParseRxqShowTest(unittest.TestCase):
    def test_threads(self):
        """Each PMD thread is found once, the one without queues too."""
        self.assertEqual((9, 37), pmd.parse_rxq_show(TWO_NODES))

    def test_none(self):
        """A datapath without PMD threads lists none."""
        self.assertEqual((), pmd.parse_rxq_show("Displaying last 60 seconds pmd usage %\n"))

    def test_long_number(self):
        """A number that no CPU has is passed over."""
        text = f"pmd thread numa_id 0 core_id {'9' * 5000}:\n"
        self.assertEqual((9, 37), pmd.parse_rxq_show(text + TWO_NODES))


class ProcTestCase(unittest.TestCase):
    """A small /proc."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.proc = pathlib.Path(folder.name)

    def process(self, pid, name, *threads):
        for tid, comm in enumerate((name, *threads), pid):
            task = self.proc / str(pid) / "task" / str(tid)
            task.mkdir(parents=True)
            (task / "comm").write_text(comm + "\n")
        (self.proc / str(pid) / "comm").write_text(name + "\n")


class ThreadsTest(ProcTestCase):
    def test_names(self):
        """The CPUs are the decimal numbers in the names of ovs-vswitchd's PMD threads."""
        self.process(10, "ovs-vswitchd-dp", "pmd-c03/id:8", "pmd-c110/id:12", "revalidator7")
        self.assertEqual((3, 110), pmd.cpus_of_threads(self.proc))

    def test_other_process(self):
        """Another program's thread of such a name is not Open vSwitch's."""
        self.process(10, "ovsdb-server", "pmd-c03/id:8")
        self.assertIsNone(pmd.cpus_of_threads(self.proc))

    def test_no_pmd_threads(self):
        """ovs-vswitchd without PMD threads is something else than no ovs-vswitchd."""
        self.process(10, "ovs-vswitchd", "handler6")
        self.assertEqual((), pmd.cpus_of_threads(self.proc))

    def test_ended_process(self):
        """A process that ends while we look, or a /proc that is not there, stops nothing."""
        (self.proc / "11").mkdir()
        self.process(12, "ovs-vswitchd", "pmd-c05/id:1")
        (self.proc / "12" / "task" / "99").mkdir()
        self.assertEqual((5,), pmd.cpus_of_threads(self.proc))
        self.assertIsNone(pmd.cpus_of_threads(self.proc / "none"))


class AbsenceTest(ProcTestCase):
    """What becomes of a mask's CPUs when ovs-vswitchd has ended."""

    ASKED = {"dpdk-init": "true", "pmd-cpu-mask": "0xc"}

    def find(self):
        return pmd.find(self.ASKED, unavailable, self.proc)

    def test_what_is_certain(self):
        """ovs-vswitchd has ended where its database server is seen and itself is not."""
        self.assertFalse(self.find().ended)  # a container that sees neither
        self.process(9, "ovsdb-server")
        self.assertTrue(self.find().ended)
        self.process(10, "ovs-vswitchd-dpdk")
        self.assertFalse(self.find().ended)

    def test_kept_for_a_restart_and_given_back(self):
        """The warning says so, with the remedy; it ends when ovs-vswitchd returns."""
        self.process(9, "ovsdb-server")
        absence = pmd.Absence()
        for now_s, cpus, source, told in (
            (100.0, (2, 3), "pmd-cpu-mask", message("pmd-cpus-kept", cpus="2-3", kept_s=60.0)),
            (159.0, (2, 3), "pmd-cpu-mask", message("pmd-cpus-kept", cpus="2-3", kept_s=60.0)),
            (160.0, (), "ended", message("pmd-cpus-given", cpus="2-3")),
            (900.0, (), "ended", message("pmd-cpus-given", cpus="2-3")),
        ):
            with self.subTest(now_s):
                found = absence.apply(self.find(), now_s)
                self.assertEqual((cpus, source), (found.cpus, found.source))
                self.assertEqual((told,), found.warnings)
        back = pmd.PmdCpus((2,), "pmd-rxq-show")
        self.assertEqual(back, absence.apply(back, 901.0))
        self.assertEqual((2, 3), absence.apply(self.find(), 902.0).cpus)


class FindTest(ProcTestCase):
    def find(self, ask=unavailable, **other_config):
        other_config = {key.replace("_", "-"): value for key, value in other_config.items()}
        return pmd.find(other_config, ask, self.proc)

    def test_mask(self):
        """A mask with DPDK on counts where ovs-vswitchd does not answer."""
        for dpdk in ("true", "try", "True"):
            found = self.find(dpdk_init=dpdk, pmd_cpu_mask="0xc")
            self.assertEqual(pmd.PmdCpus((2, 3), "pmd-cpu-mask"), found)

    def test_the_threads_are_the_truth(self):
        """What ovs-vswitchd answers counts, whatever the mask, and whether DPDK is on."""
        for answer, cpus, dpdk, mask in (
            (TWO_NODES, (9, 37), "true", "0xc"),
            ("", (), "true", "0xc"),
            (TWO_NODES, (9, 37), "", "0xc"),
            (TWO_NODES, (9, 37), "true", "0"),
        ):
            found = self.find(lambda text=answer: text, dpdk_init=dpdk, pmd_cpu_mask=mask)
            self.assertEqual(pmd.PmdCpus(cpus, "pmd-rxq-show"), found)

    def test_malformed_mask(self):
        """A malformed mask is shown and ovs-vswitchd is asked what it made of it."""
        found = self.find(lambda: TWO_NODES, dpdk_init="true", pmd_cpu_mask="zz")
        self.assertEqual(((9, 37), "pmd-rxq-show"), (found.cpus, found.source))
        (warning,) = found.warnings
        self.assertEqual("pmd-mask-invalid", warning.code)
        self.assertIn("'zz'", warning.values["error"])

    def test_lcore_mask(self):
        """dpdk-lcore-mask is not about forwarding threads."""
        found = self.find(lambda: "", dpdk_init="true", dpdk_lcore_mask="0x4")
        self.assertEqual((), found.cpus)

    def test_threads(self):
        """Where the control socket is closed to us, the threads' names tell."""
        self.process(10, "ovs-vswitchd", "pmd-c03/id:8")
        self.assertEqual(pmd.PmdCpus((3,), "threads"), self.find(dpdk_init="true"))

    def test_unknown(self):
        """Where nobody tells, that is said, with what was tried and what to do."""
        found = self.find(dpdk_init="true", pmd_cpu_mask="0xg")
        self.assertEqual(((), None), (found.cpus, found.source))
        bad_mask, unknown = found.warnings
        codes = (bad_mask.code, unknown.code)
        self.assertEqual(("pmd-mask-invalid", "pmd-cpus-unknown"), codes)
        self.assertIn("0xg", bad_mask.values["error"])
        self.assertEqual("unix:/none: No such file or directory", unknown.values["error"])
