# SPDX-License-Identifier: Apache-2.0
"""The security page: each sentence has its test, and the page agrees with unit and files."""

import ast
import configparser
import contextlib
import itertools
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.agent import state_pointer
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile
from iat_nova.hardware.kernel.locks import FileLock
from iat_nova.model import Hold, Pause
from iat_nova.store import database
from iat_nova.store.requests import Holds, PauseFile
from tests.unit import pages

ROOT = pathlib.Path(__file__).parents[2]
UNIT = ROOT / "etc/iat-nova/iat-nova-agent.service"
PAGE = pages.SOURCE / "operator/security.rst"

GUIDE = "a sentence that says what the page has, or what a reader should do"
HERE = "tests.unit.test_security_page"
CHECKS = "tests.unit.checks.qualify"
ATTACK = "tests.functional.test_service_account"
OWNED = "tests.unit.common.test_owned_folder"
SERVICE = "tests.lab.guest.service.Service"
_RESTORE = "tests.unit.hardware.enforcement.test_restore"
RESTORE = f"{_RESTORE}.Restrained"
NOTE = f"{_RESTORE}.WithoutConfiguration.test_a_note_that_is_not_roots"
REFUSED = "tests.unit.hardware.test_refusals.Perf.test_the_right_to_count"
SPOOL = "tests.unit.nova.test_spool"
SERVER = "tests.unit.report.test_metrics_server.ServerTest"
METRICS = "tests.unit.report.test_metrics.MetricsTest"
FENCES = f"{HERE}.Unit.test_fences"
MODES = f"{HERE}.Modes.test_files"
PROBE = "tests.unit.hardware.test_probe"
READERS = "tests.unit.test_readers.TestEveryFile.test_far_too_much"
VALIDATORS = "tests.openstack.test_validators.ControllerTest"
ESCAPE = "tests.unit.report.test_escape"
WAYMAP = "tests.unit.report.test_waymap"
PROVEN = {
    "This page says": GUIDE,
    # What it may do, and why
    "The agent runs as the user": "tests.unit.test_etc.UnitTest.test_its_privileges_are_the_three",
    "``CAP_SYS_RAWIO``": f"{PROBE}.Choosing.test_no_register",
    "``CAP_PERFMON`` | counters": f"{REFUSED} "
    f"{PROBE}.Choosing.test_perf_refused",
    "``CAP_DAC_OVERRIDE``": "tests.unit.checks.test_rights.BeIt.test_what_it_may_not",
    "Two things limit what": GUIDE,
    "**The unit.**": FENCES,
    "**The program.**": "tests.unit.hardware.test_msr.Registers.test_only_the_listed_ones",
    "Registers in physical memory": "tests.unit.hardware.test_iordt.Tags.test_addresses",
    "The one program": f"{HERE}.Program.test_what_it_starts "
    "tests.functional.test_policy_limits.EndlessTest.test_templates_without_end "
    "tests.unit.agent.test_policy_file.LimitedTest.test_the_child_has_no_capabilities",
    "``tox -e lab``": f"{SERVICE}.test_restarted_and_stopped",
    "At Debian's own": f"{SERVICE}.test_restarted_and_stopped",
    "The unit has the msr driver loaded": f"{SERVICE}.test_restarted_and_stopped",
    "As its unprivileged user": f"{SERVICE}.test_restarted_and_stopped",
    "An expired watchdog": f"{SERVICE}.test_hung_and_through_libpqos "
    f"{SERVICE}.test_restarted_and_stopped {SERVICE}.test_handed_over",
    "``iat-nova qualify``": "tests.unit.test_imports.ContractsTest.test_the_sources_as_they_are",
    "It writes the same registers": "tests.lab.guest.qualify.Qualify.test_interrupted",
    "It starts ``fio``": f"{HERE}.Program.test_what_it_starts",
    "It runs a few bytes": f"{CHECKS}.test_resources.Walk.test_it_takes_time_by_accesses",
    "Its record for others": f"{CHECKS}.test_report.Report.test_schema",
    # The right to count
    "``kernel.perf_event_paranoid`` says": REFUSED,
    "Debian starts with 3": f"{SERVICE}.allow_counting {HERE}.Unit.test_the_setting",
    "2 | ``CAP_PERFMON``": f"{REFUSED} {SERVICE}.allow_counting",
    "3 | Debian": f"{REFUSED} {SERVICE}.allow_counting",
    "4 | ``CAP_SYS_ADMIN``": REFUSED,
    "The entries for Ubuntu": GUIDE,
    "The patch's text": GUIDE,
    "Launchpad's bug": GUIDE,
    "At 2 it is enough": f"{REFUSED} {SERVICE}.allow_counting",
    "Above 2 there are two ways": GUIDE,
    "**The setting.**": f"{HERE}.Unit.test_the_setting",
    "Every process of the host": GUIDE,
    "**The capability.**": GUIDE,
    "It is the widest": FENCES,
    "``systemd-analyze security``": f"{HERE}.Unit.test_exposure",
    "The service cannot write": FENCES,
    "The agent's refusal": f"{REFUSED} {PROBE}.Findings.test_perf_refused",
    # What reaches it
    "libvirt |": f"{HERE}.Program.test_libvirt_is_only_read "
    "tests.functional.test_hostile_inventory.HostileTest.test_domain_xml",
    "Open vSwitch |": "tests.functional.test_hostile_inventory.HostileTest.test_ovsdb "
    "tests.unit.inventory.test_ovs_bounds.Bounds.test_a_message_without_end "
    "tests.unit.inventory.test_ovs_bounds.Bounds.test_rows_without_end",
    "the notification driver": "tests.unit.inventory.test_spool.SpoolTest."
    "test_faults_name_the_file",
    "operators |": READERS,
    "configuration and policy": "tests.unit.policy.test_render.ErrorTest."
    "test_errors_carry_line_and_reason",
    "Prometheus |": f"{SERVER}.test_requests_are_bounded "
    f"{SERVER}.test_the_oldest_goes_where_there_are_too_many "
    f"{SERVER}.test_bytes_do_not_prolong_the_deadline",
    "The agent listens": f"{HERE}.Program.test_it_listens_on_nothing",
    "It uses no library": f"{HERE}.Program.test_no_bus_and_no_password",
    "Nova may run": f"{VALIDATORS}."
    "test_nothing_of_the_agents_is_imported "
    "tests.openstack.test_notifier.NotifierTest.test_a_folder_that_cannot_be_written",
    # Where the privileges end
    "``/var/lib/iat-nova``": f"{HERE}.Modes.test_folders",
    "``history.sqlite``": MODES,
    "``snapshot.json``": f"{MODES} tests.unit.hardware.test_ddio.Register.test_forged_bits",
    "``hand-over.json``": MODES,
    "``pause.json``": MODES,
    "``holds/``": MODES,
    "``[iat] spool_dir``": f"{SPOOL}.FolderTest.test_the_documented_folder "
    f"{SPOOL}.FolderTest.test_bounded",
    "``/run/iat-nova/writer.lock``": MODES,
    "``/run/iat-nova/hand-over``": MODES,
    "``/run/iat-nova.state-dir``": f"{MODES} {NOTE}",
    "Put operators": GUIDE,
    "Root and the user": f"{HERE}.Modes.test_folders",
    "The notification driver writes": f"{SPOOL}.FolderTest.test_the_documented_folder",
    # Root and the service's account
    "The account ``iat-nova`` owns": f"{ATTACK}.Commands.test_writing",
    "Root acts as the owner": f"{ATTACK}.OneByOne.test_a_file_of_the_account_alone",
    "Nothing outside the folders": f"{ATTACK}.Commands.test_writing",
    "No symbolic link": f"{OWNED}.Paths.test_of_others",
    "A lock file that has a second name": f"{ATTACK}.OneByOne.test_a_hard_link_of_a_lock",
    "A pipe": f"{ATTACK}.OneByOne.test_a_pipe_for_the_history",
    "``status``": f"{OWNED}.AnotherAccount.test_for_good",
    "``reload``": f"{ATTACK}.Signals.test_a_forged_process_number",
    "A snapshot has root write": "tests.unit.hardware.test_rootport.Wired.test_forged_registers",
    "Of these registers": "tests.unit.hardware.test_ddio.Register.test_forged_bits "
    "tests.unit.hardware.test_ddio.Register.test_forged_masks "
    "tests.unit.hardware.test_iordt_classes.Contract.test_forged",
    "A snapshot of resctrl": "tests.unit.hardware.test_resctrl.Restoring."
    "test_forged_monitoring_groups",
    "A snapshot that another account": "tests.unit.hardware.enforcement.test_snapshot.Snapshots."
    "test_planted tests.unit.common.test_owned_folder.AnotherAccount.test_files_of_a_third_account",
    "A root port": "tests.unit.hardware.test_rootport.Wired.test_a_forged_snapshot",
    "``report``": f"{OWNED}.Named.test_refused",
    "A lock file that is removed": f"{RESTORE}.test_another_writer",
    "Files that an operator names": "tests.unit.common.test_files.ReadBytes.test_symbolic_links",
    "The agent limits size": READERS,
    "It reports a file": READERS,
    # What a tenant can bring about
    "name a guest anything": f"{METRICS}.test_hostile_names_stay_names "
    "tests.unit.report.test_screens.TestReport.test_well_formed_and_alone "
    f"{ESCAPE}.HarmlessTest.test_plain "
    f"{ESCAPE}.CutTest.test_fit",
    "So is every record": "tests.unit.cmd.test_logs.LogsTest.test_texts_of_other_programs",
    "use a flavor": "tests.unit.inventory.test_nova_metadata.MetadataTest."
    "test_an_image_asks_for_nothing",
    "A class of the policy": "tests.unit.policy.test_classify.MatchTest.test_conditions",
    "An image may ask": "tests.nova.test_nova.NovaTest.test_pinned_by_its_image",
    "make traffic": "tests.unit.strategies.iat.test_properties.TestEveryWorld.test_every_invariant",
    "The default strategy": "tests.unit.strategies.test_pollute_buffer.TrialTest."
    "test_who_streams_is_confined_and_critical_tenants_keep_clear_of_it",
    "With ``iat``": "tests.unit.policy.test_classify.WaysTest.test_what_a_flavor_asks_for "
    "tests.unit.strategies.iat.test_controller.TestCoreDemand."
    "test_a_best_effort_tenant_gives_and_never_below_its_minimum",
    "change load": "tests.unit.strategies.iat.test_controller.TestDamping."
    "test_the_limit_holds_and_then_goes_on",
    "A move that failed": "tests.unit.strategies.test_pollute_buffer.TrialTest."
    "test_what_failed_is_barred_twice_as_long_each_time "
    "tests.unit.strategies.test_pollute_buffer.TrialTest."
    "test_loads_that_change_too_often_for_trials_are_left_as_found",
    "boot many guests": "tests.unit.policy.test_classify.WhoTest.test_floating_guests_are_one_pool",
    "Metrics are bounded": f"{METRICS}.test_the_number_of_series_is_bounded",
    "learn something": f"{WAYMAP}.TestWayMap."
    "test_shared_ways_are_seen_one_by_one",
    "Do not take": GUIDE,
    "A metrics port": f"{METRICS}.test_what_happened_is_served",
    "Its address": f"{HERE}.Program.test_it_listens_on_nothing",
    "A way around": GUIDE,
}  # fmt: skip
"""The begin of a sentence, and the tests that fail where the sentence is wrong."""


def sentences(text):
    """Return a page's sentences; a row of a table is its cells joined, and its sentences."""
    blocks = [block for block in re.split(r"\n\s*\n", text) if block]
    found, inside = [], None
    for block in blocks:
        indent = len(block) - len(block.lstrip())
        if inside is not None and indent > inside:
            continue
        inside = None
        if re.match(r"\s*\.\. (code-block|literalinclude|_)", block):
            inside = indent
        elif not re.match(r"\s*\.\. ", block) and not re.search(r"^[=]{4,}$", block, re.MULTILINE):
            table = re.match(r"\s*\* - ", block)
            rows = re.split(r"^\s*\* - " if table else r"^\s*\* ", block, flags=re.MULTILINE)
            for row in rows[2 if table else 0 :]:  # the first row of a table is its head
                text = " ".join(re.sub(r"\n\s*- ", " | ", row).split())
                found += [part for part in re.split(r"(?<=\.) (?=[A-Z`*])", text) if part]
    return found


class SecurityPage(unittest.TestCase):
    def test_each_sentence(self):
        """Each sentence begins as one of the table, in its order, and the tests are there."""
        begins, found = iter(PROVEN), sentences(PAGE.read_text(encoding="utf-8"))
        for sentence, begin in itertools.zip_longest(found, begins, fillvalue=""):
            self.assertTrue(begin and sentence.startswith(begin), f"{sentence!r} is not {begin!r}")
        for tests in PROVEN.values():
            for test in tests.split() if tests != GUIDE else ():
                self.assertTrue(_there(test), test)


def _there(test):
    """Return whether a test is defined; its module may need what is not installed here."""
    module, case, name = test.rsplit(".", 2)
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == case]
    return any(getattr(node, "name", "") == name for one in classes for node in one.body)


class Unit(unittest.TestCase):
    """What the page says of the unit is what the unit says."""

    def setUp(self):
        self.unit = configparser.RawConfigParser(strict=False)
        self.unit.optionxform = str
        self.unit.read(UNIT)
        self.service = self.unit["Service"]

    def test_fences(self):
        """A setting for each thing that the unit keeps away."""
        expected = {
            "ProtectSystem": "strict", "ReadWritePaths": "-/sys/fs/resctrl",
            "StateDirectory": "iat-nova", "LogsDirectory": "iat-nova",
            "RuntimeDirectory": "iat-nova", "DevicePolicy": "closed",
            "DeviceAllow": "char-cpu/msr rw", "ProtectHome": "yes", "NoNewPrivileges": "yes",
            "InaccessiblePaths": "-/etc/shadow -/etc/gshadow -/root",
            "RestrictNamespaces": "yes", "ProtectKernelModules": "yes",
            "ProtectKernelTunables": "yes",  # /proc/sys is read-only
            "SystemCallFilter": "@system-service perf_event_open",  # without @mount, @module
        }  # fmt: skip
        self.assertEqual(expected, {name: self.service.get(name) for name in expected})

    def test_the_setting(self):
        """The file sets 2; Debian's and Ubuntu's own values stand there, too."""
        text = UNIT.with_name("iat-nova.sysctl").read_text()
        self.assertIn("\nkernel.perf_event_paranoid = 2\n", text)
        self.assertIn("Debian's kernels start with 3 and Ubuntu's with 4", text)

    def test_exposure(self):
        """systemd's figure with the drop-in is higher by the page's, as 252's and 257's are."""
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is not installed")
        text = PAGE.read_text(encoding="utf-8")
        more = float(re.search(r"security`` says ([\d.]+) more\.", text)[1])
        added = "\nAmbientCapabilities=CAP_SYS_ADMIN\nCapabilityBoundingSet=CAP_SYS_ADMIN\n"
        self.assertIn(added.replace("\n", "\n     ").rstrip(), text)
        widened = self.exposure(f"\n[Service]{added}")
        self.assertAlmostEqual(more, widened - self.exposure(""))

    def exposure(self, more):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        unit = folder / UNIT.name
        unit.write_text(UNIT.read_text() + more)
        done = subprocess.run(
            ["systemd-analyze", "security", "--offline=yes", "--no-pager", unit],
            capture_output=True,
            text=True,
            check=False,
        )
        return float(re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)[1])


class Program(unittest.TestCase):
    """What the page says of the program is what its source has."""

    def sources(self):
        for path in sorted((ROOT / "iat_nova").rglob("*.py")):
            name = str(path.relative_to(ROOT / "iat_nova"))
            if not name.startswith("experiments/"):
                yield name, path.read_text(encoding="utf-8")

    def test_what_it_starts(self):
        """The agent starts Python for a policy; commands start systemd's, qualify two more."""
        starts = re.compile(r"subprocess\.(run|Popen)\(|os\.(fork|exec\w+|posix_spawn|system)\(")
        found = {name for name, text in self.sources() if starts.search(text)}
        expected = {"agent/policy_file.py", "cmd/hand_over.py", "checks/qualify/programs.py",
                    "checks/rights.py"}  # of doctor: a child that is the service # fmt: skip
        self.assertEqual(expected, found)
        texts = dict(self.sources())
        self.assertIn("sys.executable", texts["agent/policy_file.py"])
        programs = set(re.findall(r'"(fio|stress-ng)"', texts["checks/qualify/programs.py"]))
        self.assertEqual({"fio", "stress-ng"}, programs)
        self.assertIn('"--readonly"', texts["checks/qualify/programs.py"])

    def test_libvirt_is_only_read(self):
        """Every connection is opened read-only."""
        opened = [re.findall(r"libvirt\.(open\w*)\(", text) for _, text in self.sources()]
        self.assertEqual({"openReadOnly"}, set(itertools.chain(*opened)))

    def test_it_listens_on_nothing(self):
        """By default no port is opened; one that is asked for is of this host alone."""
        with mock.patch.dict(os.environ):
            os.environ.pop(conf.STATE_DIR_VARIABLE, None)
            settings = conf.load()
        self.assertEqual((0, "127.0.0.1"), (settings.metrics_port, settings.metrics_address))

    def test_no_bus_and_no_password(self):
        """What the agent requires speaks to no bus, no database's server and no Keystone."""
        required = (ROOT / "requirements.txt").read_text().lower()
        self.assertNotRegex(required, r"messaging|oslo\.db|sqlalchemy|mysql|keystone|openstacksdk")


class Modes(unittest.TestCase):
    """Files have the modes that the page's table has."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        text = PAGE.read_text(encoding="utf-8").partition("Where the privileges end")[2]
        self.table = dict(re.findall(r"\* - ``(\S+?)``\n     - (.+)", text))

    def check(self, name, path):
        self.assertRegex(self.table[name], f"\\b{stat.S_IMODE(path.stat().st_mode):04o}\\b", name)

    def test_files(self):
        """Those of the agent with the unit's umask, those of commands with a shell's."""
        with self.umask(0o027):
            database.open_writable(self.folder / "history.sqlite").close()
            SnapshotFile(self.folder / "snapshot.json", {}).write({})
            FileLock(self.folder / "writer.lock").close()
        with self.umask(0o022):
            HandOverFiles(self.folder / "hand-over.json", self.folder / "hand-over", 1.0).ask()
            PauseFile(self.folder).write(Pause(0.0))
            Holds(self.folder).write(Hold("host", "host", 1, 0.0))
            with mock.patch.object(state_pointer, "POINTER", self.folder / "state-dir"):
                state_pointer.write(self.folder)
        for name in ("history.sqlite", "snapshot.json", "pause.json"):
            self.check(name, self.folder / name)
        self.check("holds/", self.folder / "holds")
        self.check("holds/", self.folder / "holds/host.json")
        self.assertEqual(self.table["snapshot.json"], self.table["hand-over.json"])  # one writer
        self.check("/run/iat-nova/writer.lock", self.folder / "writer.lock")
        self.check("/run/iat-nova/hand-over", self.folder / "hand-over")
        self.check("/run/iat-nova.state-dir", self.folder / "state-dir")

    def test_folders(self):
        """The state directory is the service's, and of its group's members to read."""
        service = configparser.RawConfigParser(strict=False)
        service.read(UNIT)
        keys = ("statedirectory", "statedirectorymode", "user", "umask")
        found = [service["Service"][key] for key in keys]
        self.assertEqual(["iat-nova", "0750", "iat-nova", "0027"], found)
        self.assertEqual("0750, ``iat-nova``", self.table["/var/lib/iat-nova"])

    @contextlib.contextmanager
    def umask(self, mask):
        before = os.umask(mask)
        try:
            yield
        finally:
            os.umask(before)
