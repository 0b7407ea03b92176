# SPDX-License-Identifier: Apache-2.0
"""doctor names the cause first and once, and its command mends it: against real daemons."""

import codecs
import contextlib
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from iat_nova.checks import doctor, rights
from iat_nova.hardware.cat import pqos_lib
from iat_nova.hardware.host import backends, probe
from iat_nova.report import sentences
from tests.functional.daemons import TestLibvirtd, short_folder
from tests.functional.ovs_daemons import OvsDaemons
from tests.unit.checks.test_doctor import DoctorCase
from tests.unit.cmd.test_entry import PROJECT, ROOT, SCRIPT, ProgramCase
from tests.unit.hardware import trees

CPUINFO = pathlib.Path("/proc/cpuinfo")
RUN_AS = rights.run_as  # DoctorCase replaces it
NOBODY = 65534
BARE = rights.Service("nobody", frozenset())


class Causes(DoctorCase):
    """A host on which all is well but for one cause."""

    def causes(self):
        """Return the findings that keep the agent from enforcing, in order, and their places."""
        status, rows = self.everything()
        rows = [row for row in rows if row["subject"] != "rights"]
        bad = [row for row in rows[:-1] if row["level"] in ("impossible", "observe")]
        self.assertEqual(bad, rows[: len(bad)], "a note comes before a cause")
        self.assertEqual(int(bool(bad)), status)
        if bad:
            verdict = rows[-1]
            subjects = list(dict.fromkeys(row["subject"] for row in bad))
            self.assertEqual(subjects, list(verdict["values"]["subjects"]))
            for row in bad:
                self.assertNotIn(row["state"], verdict["state"], "the verdict repeats the cause")
        self.check_once(rows)
        return bad

    def check_once(self, rows):
        """Check that a cause and a remedy are shown once, and remedies before what is in order."""
        remedies = [row["remedy"] for row in rows if row["remedy"]]
        self.assertEqual(list(dict.fromkeys(remedies)), remedies)
        for remedy in remedies:
            self.assertFalse([row["state"] for row in rows if remedy in row["state"]])
        told = [row for row in rows if row["level"] != "chosen"]
        for row in told:
            others = [one["subject"] for one in told if one["state"] in row["state"]]
            self.assertEqual([row["subject"]], others)
        wanting = [bool(row["remedy"]) for row in told]
        self.assertEqual(sorted(wanting, reverse=True), wanting)

    def run_command(self, remedy, **environment):
        """Run a printed command as it stands, in a shell."""
        environment["PATH"] = f"{environment.pop('bin', '')}:{os.environ['PATH']}"
        done = subprocess.run(
            ["sh", "-c", remedy], env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(0, done.returncode, f"{remedy}: {done.stderr}")

    def programs(self, **scripts):
        """Put stand-ins of programs, such as systemctl, into a folder; return the folder."""
        folder = self.folder / "bin"
        for name, script in scripts.items():
            self.put(folder / name, f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        return str(folder)


def flags():
    """Return the flags of this machine's first CPU."""
    lines = CPUINFO.read_text().splitlines()
    return next((one.split() for one in lines if one.startswith("flags")), [])


class Cpu(Causes):
    """A CPU without cache allocation: this machine's own, where it has none."""

    def setUp(self):
        super().setUp()
        if "cat_l3" in flags():
            self.skipTest("this machine's CPU has cache allocation")

    def check(self, first, code, remedy):
        """Check that a finding is the cause, and has the only remedy that would help."""
        self.assertEqual(("cache allocation", "impossible", code, remedy), tuple(
            first[name] for name in ("subject", "level", "code", "remedy_code")))  # fmt: skip

    def test_this_machine(self):
        """The installed program, on the machine on which the test runs."""
        if "hypervisor" not in flags():
            self.skipTest("this is no virtual machine")
        command = [pathlib.Path(sys.executable).with_name("iat-nova"), "doctor", "-f", "json"]
        done = subprocess.run(
            [*command, "--config-file", self.config], capture_output=True, text=True, check=False
        )
        self.assertEqual(1, done.returncode, done.stderr)
        rows = [row for row in json.loads(done.stdout) if row["subject"] != "rights"]
        self.check(rows[0], "no-cat-virtual-machine", "use-compute-host")
        self.assertEqual({None}, {row["remedy"] for row in rows[1:]})


class OpenVSwitch(Causes):
    """A real ovsdb-server."""

    def setUp(self):
        super().setUp()
        self.ovs = OvsDaemons(self.enterContext(short_folder()))
        self.addCleanup(self.ovs.stop)

    def test_only_its_socket_answers(self):
        """The default address is refused; the printed ovs-vsctl opens it."""
        self.ovs.start_ovsdb("db:Open_vSwitch,Open_vSwitch,manager_options")
        self.ovs.vsctl("--no-wait", "init")
        path = pathlib.Path(self.ovs.folder) / "db.sock"
        self.configure(ovsdb_connection="tcp:127.0.0.1:6640")
        with mock.patch.object(doctor, "OVSDB_SOCKET", path):
            (row,) = self.causes()
        self.assertEqual(("Open vSwitch", "use-ovsdb-socket"), (row["subject"], row["remedy_code"]))
        self.run_command(row["remedy"], OVS_RUNDIR=str(self.ovs.folder))
        self.assertEqual([], self.causes())

    def test_it_does_not_run(self):
        """The printed command starts it."""
        self.configure(ovsdb_connection=self.ovs.address)
        with mock.patch.object(doctor, "OVSDB_SOCKET", self.folder / "none"):
            (row,) = self.causes()
        self.assertEqual("start-switch", row["remedy_code"])
        bin_ = self.programs(systemctl='[ "$*" = "start openvswitch-switch" ]')
        self.run_command(row["remedy"], bin=bin_)
        self.ovs.start_ovsdb()
        self.ovs.vsctl("--no-wait", "init")
        self.assertEqual([], self.causes())

    def test_no_address(self):
        """A word that is no address: the option is named, not the daemon."""
        self.configure(ovsdb_connection="db.sock")
        (row,) = self.causes()
        self.assertEqual("set-option", row["remedy_code"])
        self.assertEqual("ovsdb_connection", row["remedy_values"]["option"])


class Libvirt(Causes):
    """A real libvirtd with its test driver."""

    def setUp(self):
        super().setUp()
        if missing := TestLibvirtd.missing():
            self.skipTest(missing)
        self.daemon = TestLibvirtd(self.enterContext(short_folder()))
        self.addCleanup(self.daemon.stop)

    def test_wrong_uri(self):
        """The daemon listens, and the URI is another: the option is named, with its value."""
        self.daemon.start()
        path = pathlib.Path(self.daemon.uri.partition("socket=")[2])
        self.assertTrue(path.is_socket())
        wrong = self.daemon.uri.replace(str(path), f"{path}-none")
        for uri in (wrong, "qeum:///system", "not a uri"):
            self.configure(libvirt_uri=uri)
            with (
                mock.patch.object(doctor, "LIBVIRT_SOCKETS", (path,)),
                mock.patch.object(doctor, "QEMU_URI", self.daemon.uri),
            ):
                (row,) = self.causes()
            self.assertEqual(("libvirt", "set-option"), (row["subject"], row["remedy_code"]))
            self.configure(**{row["remedy_values"]["option"]: row["remedy_values"]["value"]})
            self.assertEqual([], self.causes())

    def test_it_does_not_run(self):
        """The printed command starts the daemon that is installed."""
        self.configure(libvirt_uri=self.daemon.uri)
        with mock.patch.object(doctor, "LIBVIRT_SOCKETS", ()):
            (row,) = self.causes()
        self.assertEqual("start-libvirt", row["remedy_code"])
        bin_ = self.programs(systemctl='[ "$1 $#" = "start 2" ]')
        self.run_command(row["remedy"], bin=bin_)
        self.daemon.start()
        self.assertEqual([], self.causes())


class Registers(Causes):
    """The msr driver."""

    def test_writes_are_off(self):
        """The printed command switches writes on."""
        path = self.roots.msr_parameters / "allow_writes"
        self.put(path, "off\n")
        row = self.rows()[1]["msr writes"]
        self.run_command(row["remedy"])
        self.assertEqual("on", path.read_text().strip())
        self.assertNotIn("msr writes", self.rows()[1])


@unittest.skipUnless(os.geteuid() == 0, "needs root, to become another user")
class Rights(Causes):
    """A user without rights."""

    def setUp(self):
        super().setUp()
        codecs.lookup("ascii")
        self.everything()  # loads modules: nobody may not enter the folder of root's own Python

    def skip_unless_readable(self):
        """Skip where nobody cannot load the program, as in a checkout of root's home folder."""
        try:
            with mock.patch.object(sys, "base_prefix", sys.prefix):  # see setUp
                RUN_AS(BARE, int)
        except rights.NotPossible as reason:
            self.skipTest(sentences.text(reason.message))

    def as_nobody(self):
        """Return the findings of doctor in a process of nobody."""
        self.skip_unless_readable()
        self.folder.chmod(0o755)
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(reading)
            with contextlib.suppress(Exception), os.fdopen(writing, "w") as pipe:
                rights.run_as = RUN_AS
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                json.dump(self.everything()[1], pipe)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            said = pipe.read()
        os.wait()
        return json.loads(said)

    def test_ordinary_user(self):
        """The first finding says whose rights were examined; the command asks as root."""
        first, *others = self.as_nobody()
        self.assertEqual(("rights", "note", "ask-as-root"), tuple(
            first[name] for name in ("subject", "level", "remedy_code")))  # fmt: skip
        self.assertEqual({"code": "not-root", "values": {}}, first["values"]["cause"])
        self.assertNotIn("ask-as-root", [row["remedy_code"] for row in others])
        bin_ = self.programs(sudo='[ "$*" = "iat-nova doctor" ]')
        self.run_command(first["remedy"], bin=bin_)
        status, (first, *_) = self.everything()
        self.assertEqual((0, "ok"), (status, first["level"]))

    def test_a_socket_of_root(self):
        """OVSDB's socket without rights for the service: named first, once."""
        ovs = OvsDaemons(self.enterContext(short_folder()))
        self.addCleanup(ovs.stop)
        ovs.start_ovsdb()
        ovs.vsctl("--no-wait", "init")
        ovs.folder.chmod(0o711)
        ovs.socket.chmod(0o600)
        self.configure(ovsdb_connection=ovs.address)
        _, first, *others = self.as_nobody()
        self.assertEqual(("Open vSwitch", "observe"), (first["subject"], first["level"]))
        self.assertIn("Permission denied", first["state"])
        self.assertNotIn("Permission denied", " ".join(row["state"] for row in others))
        self.assertIsNone(first["remedy"], "that of the rights, before, is the remedy")

    def test_a_folder_of_root_at_the_usual_place(self):
        """Without the right to look into the usual sockets' folder doctor has findings, too."""
        folder = self.enterContext(short_folder())
        folder.chmod(0o700)
        sockets = {"OVSDB_SOCKET": folder / "db.sock", "LIBVIRT_SOCKETS": (folder / "sock",)}
        for uri in ("qemu+tcp://[::1/system", "qemu:///system?socket=/none"):
            self.configure(ovsdb_connection="tcp:127.0.0.1:1", libvirt_uri=uri)
            with self.subTest(uri=uri), mock.patch.multiple(doctor, **sockets):
                rows = self.as_nobody()
                self.assertLessEqual({"libvirt", "Open vSwitch"}, {row["subject"] for row in rows})

    def test_a_service_without_its_right(self):
        """A unit without CAP_DAC_OVERRIDE: the right is named, not a daemon that runs."""
        self.skip_unless_readable()
        folder = self.enterContext(short_folder())
        folder.chmod(0o755)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "db.sock"))
            (folder / "db.sock").chmod(0o600)
            listener.listen()
            self.configure(ovsdb_connection=f"unix:{folder}/db.sock")
            self.config.chmod(0o644)
            self.folder.chmod(0o755)
            rights.run_as.side_effect = RUN_AS
            with (
                mock.patch.object(sys, "base_prefix", sys.prefix),  # see setUp
                mock.patch.object(rights, "service", return_value=BARE),
            ):
                _, rows = self.everything()
        row = next(row for row in rows if row["subject"] == "Open vSwitch")
        self.assertEqual("give-dac-override", row["remedy_code"], row)

    def test_a_program_that_only_root_reads(self):
        """A checkout below root's folder: the first finding names the file, and what to do."""
        self.folder.chmod(0o700)
        shutil.copytree(ROOT / "iat_nova", self.folder / "iat_nova")
        folder = self.programs(systemctl="echo LoadState=loaded; echo User=nobody")
        environment = {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(self.folder)}
        call = "import sys; from iat_nova.cmd import entry; sys.exit(entry.program())"
        done = subprocess.run(
            [sys.executable, "-P", "-c", call, "doctor", "-f", "json"],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.assertEqual("", done.stderr)
        first, *others = json.loads(done.stdout)
        self.assertIn(f"the service may not read {self.folder}/iat_nova/", first["state"])
        self.assertEqual(("rights", "list-file"), (first["subject"], first["remedy_code"]))
        self.assertNotIn("rights", [row["subject"] for row in others])


class Libpqos(Causes):
    """A host that is to allocate through libpqos."""

    def test_not_installed(self):
        """The printed command installs the library; without the option it is no cause."""
        self.assertEqual([], self.causes())
        self.configure(cat_interface="pqos-msr")
        installed = self.folder / "installed"

        def load(*_):
            return mock.Mock(_name="libpqos.so.5") if installed.exists() else pqos_lib.load(("no",))

        for module in (backends, probe):
            self.enterContext(mock.patch.object(module, "load", load))
        (row,) = self.causes()
        self.assertEqual(
            ("interfaces", "impossible", "pqos-absent", "install-pqos"),
            tuple(row[name] for name in ("subject", "level", "code", "remedy_code")),
        )
        bin_ = self.programs(
            **{"apt-get": f'[ "$*" = "install intel-cmt-cat" ] && : > {installed}'}
        )
        self.run_command(row["remedy"], bin=bin_)
        self.assertEqual([], self.causes())


class Lockdown(Causes):
    """A kernel that lets nobody write registers: secure boot, as a rule."""

    def test_until_the_next_boot(self):
        """DDIO's register is what falls away, and the agent says why; its masks do not."""
        for setting in ("none [integrity] confidentiality", "none integrity [confidentiality]"):
            self.put(self.roots.lockdown, f"{setting}\n")
            self.assertEqual([], self.causes())
            _, rows = self.rows()
            self.assertEqual("lockdown", [*rows][1], "after the finding on the rights")
            row, ddio = rows["lockdown"], rows["ddio"]
            self.assertEqual(("missing", "kernel-locked-down", "unlock-kernel"), tuple(
                row[name] for name in ("level", "code", "remedy_code")))  # fmt: skip
            self.assertIn(setting.partition("[")[2].partition("]")[0], row["state"])
            self.assertNotEqual("msr", ddio["values"]["chosen"])
            self.assertIn("the kernel is locked down", ddio["state"])
        self.put(self.roots.lockdown, "[none] integrity confidentiality\n")
        _, rows = self.rows()
        self.assertNotIn("lockdown", rows)
        self.assertEqual("msr", rows["ddio"]["values"]["chosen"])

    def test_masks_through_registers(self):
        """Where the masks are to go through registers too, lockdown is the cause, once."""
        (self.roots.resctrl / "schemata").unlink()
        for cpu in range(4):
            trees.put_cpuid(self.roots.msr, cpu)
        self.configure(cat_interface="pqos-msr")
        self.put(self.roots.lockdown, "none [integrity] confidentiality\n")
        with mock.patch.object(backends, "load"):
            (row,) = self.causes()
            self.assertEqual(
                ("kernel-locked-down", "unlock-kernel"), (row["code"], row["remedy_code"])
            )
            self.put(self.roots.lockdown, "[none] integrity confidentiality\n")
            self.assertEqual([], self.causes())


class Packages(ProgramCase):
    """Each program without each package that it loads at its start."""

    def test_missing(self):
        """One line that names the command, and nothing else."""
        both = ("cattrs", "libvirt-python", "oslo.config", "ovs", "ovsdbapp", "PyYAML")
        for program, packages in {
            "iat-nova": (*both, "cliff", "stevedore"),
            "iat-nova-agent": (*both, "Jinja2", "oslo.log"),
        }.items():
            for package in packages:
                with self.subTest(program, package=package):
                    self.without(program, package, *(["doctor"] * (program == "iat-nova")))

    def test_the_command(self):
        """It installs the package, as it stands, and the program starts; pip is a stand-in."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "pip").mkdir()
        asked = folder / "asked"
        (folder / "pip/__init__.py").touch()
        (folder / "pip/__main__.py").write_text(
            "import pathlib, sys\n"
            f"pathlib.Path({str(asked)!r}).write_text(' '.join(sys.argv[1:]))\n"
        )
        program = PROJECT["scripts"]["iat-nova"]
        for hidden, status in (("cliff", 1), ("nothing", 0)):
            code = SCRIPT.format(hidden=hidden, words=["--version"], entry=program)
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=False
            )
            self.assertEqual(status, done.returncode, done.stderr)
            if status:
                command = done.stderr.partition("missing: ")[2]
                path = {**os.environ, "PYTHONPATH": str(folder)}
                subprocess.run(["sh", "-c", command], env=path, check=True)
                self.assertEqual("install cliff", asked.read_text())
