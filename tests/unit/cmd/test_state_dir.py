# SPDX-License-Identifier: Apache-2.0
"""Every command that offers --state-dir works in that folder alone, and so by the environment.

A folder full of traps lies at the default place; an audit hook sees each file that Python opens.
"""

import contextlib
import dataclasses
import io
import os
import pathlib
import sys
import tomllib
from unittest import mock

from iat_nova import conf
from iat_nova.agent import policy_file, state_pointer
from iat_nova.checks import rights
from iat_nova.cmd import main as program
from iat_nova.common import config_files
from iat_nova.conf import reading
from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile
from iat_nova.report import escape
from tests.unit import stories
from tests.unit.cmd.test_cli import CliCase
from tests.unit.hardware.enforcement.test_restore import MachineCase

TRAP, NAMED = "poisoned-default", "named-state"
PROJECT = pathlib.Path(__file__).parents[3] / "pyproject.toml"
POLICY = PROJECT.with_name("etc") / "iat-nova/policy.yaml"
NO_AGENT = "not running|not held|No agent is seen running|no agent ran"
GUEST = "6f9619ff-8b86-d011-b42d-00cf4fc964ff"
DEFAULTS = ("snapshot.json", "hand-over.json", "history.sqlite", "pause.json", "agent.lock")

ARGUMENTS = {
    "advise": (),
    "bench loop": ("--hardware", "auto"),
    "decisions": (),
    "doctor": (),
    "explain": (),
    "hand-over": (),
    "hold": (GUEST, "--ways", "3"),
    "pause": (),
    "policy check": (),
    "policy diff": (),
    "policy facts": (),
    "policy show": (),
    "provider-config": ("-o", "{out}"),
    "qualify": ("--yes", "--only", "mask"),
    "release": (GUEST,),
    "reload": (),
    "report": ("-o", "-"),
    "restore": (),
    "resume": (),
    "status": (),
    "tenants": (),
    "top": ("--once",),
}
STATELESS = {
    "bench history": ("--strategy", "none"),
    "bench llc": ("--testbed", "none"),
    "policy schema": (),
    "simulate bound": ("none",),
    "simulate compare": ("none",),
    "simulate figures": ("--only", "none"),
    "simulate list": (),
    "simulate run": ("none",),
}
"""Commands that have the option like all others, and no use for a state directory."""


class Opened:
    """The audit events that name one of two folders, while it is entered; child processes too."""

    _now = None
    _hooked = False

    def __init__(self, log):
        self._log = log

    def __enter__(self):
        if not Opened._hooked:
            sys.addaudithook(Opened._hook)  # for good: it does nothing outside
            Opened._hooked = True
        self._fd = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        Opened._now = self._fd
        return self

    def __exit__(self, *_error):
        Opened._now = None
        os.close(self._fd)

    @staticmethod
    def _hook(event, arguments):
        fd = Opened._now
        if fd is None or event in ("os.putenv", "subprocess.Popen", "os.posix_spawn", "os.exec"):
            return
        for one in arguments:
            if isinstance(one, (str, bytes, os.PathLike)):
                name = os.fsdecode(one)
                if TRAP in name or NAMED in name:
                    os.write(fd, f"{event} {name!r}\n".encode())

    def of(self, name):
        return [line for line in self._log.read_text().splitlines() if name in line]


class StateDir(MachineCase):
    """Named by option, before or behind the command, or by the environment."""

    tell = CliCase.tell

    def setUp(self):
        super().setUp()
        self.heartbeat = None
        self.named, self.trap = self.folder / NAMED, self.folder / TRAP
        host, self.folder = self.folder, self.named
        self.named.mkdir()
        self.tell(agent=stories.status(stopped=True))
        self.folder = host
        (option,) = (one for one in conf.IAT_OPTS if one.name == "state_dir")
        alive = mock.Mock(alive=True)
        for patch in (
            mock.patch.object(reading, "STATE_DIR", str(self.trap)),
            mock.patch.object(option, "default", str(self.trap)),
            mock.patch.object(config_files, "PATTERNS", ()),
            mock.patch.object(rights, "service", lambda: rights.SHIPPED),
            mock.patch("iat_nova.cmd.hand_over.look", return_value=alive),
            mock.patch("iat_nova.cmd.hand_over._run", self.systemd),
            mock.patch("iat_nova.hardware.host.probe.Host", self.host),
            mock.patch("iat_nova.cmd.qualify.run", lambda *_arguments: ()),
            mock.patch(
                "iat_nova.cmd.qualify.choose_cpus", lambda _cpus, domains, *_: (domains[0], (1,))
            ),
            mock.patch("iat_nova.cmd.qualify._LOOK_S", 0.0),
            mock.patch("iat_nova.cmd.qualify.busy_times"),
            mock.patch("iat_nova.cmd.qualify.Qualify._check"),
            mock.patch("iat_nova.cmd.qualify.Qualify._bench"),
            mock.patch("iat_nova.cmd.qualify.Qualify._described", return_value={}),
            mock.patch("iat_nova.cmd.qualify.Qualify.page", lambda *_arguments: ""),
            mock.patch("iat_nova.experiments.times.loop.rows", lambda **_arguments: iter(())),
        ):
            self.enterContext(patch)
        os.environ.pop(conf.STATE_DIR_VARIABLE, None)

    def systemd(self, *command):
        self.asked.append(" ".join(map(str, command)))
        return ""

    def prepare(self):
        """Have a snapshot in the folder that is named, and the traps."""
        self.asked = []
        SnapshotFile(self.named / "snapshot.json", {}).write({"ddio msr": {"0": "600"}})
        (self.trap / "holds").mkdir(parents=True, exist_ok=True)
        (self.trap / "holds" / f"{GUEST}.json").write_text("{")
        for name in DEFAULTS:
            (self.trap / name).write_text("poison")
        SnapshotFile(self.trap / "snapshot.json", {}).write({"ddio msr": {"0": "400"}})
        state_pointer.write(self.trap)
        self.msr.set(0, 0xC8B, 0x7C0)

    def run_command(self, *words):
        """Run it to its end, which may be a failure; return what it said."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                status = program.main(list(words))
            except SystemExit as end:
                status = end.code
        return f"status {status}: {said.getvalue()}"

    def traps(self):
        return {
            str(path): path.read_bytes() for path in sorted(self.trap.rglob("*")) if path.is_file()
        }

    def test_every_command_is_here(self):
        """A new command is tried as well."""
        project = tomllib.loads(PROJECT.read_text())["project"]["entry-points"]
        ours = {name.replace("_", " ") for name in project["iat_nova.commands"]}
        self.assertEqual({*program.COMMANDS, *ours}, {*ARGUMENTS, *STATELESS})

    def test_only_the_folder_that_is_named(self):
        """Nothing at the default place is opened, changed or restored from."""
        provider = self.folder / "provider.yaml"
        state = str(self.named)
        for command, given in {**ARGUMENTS, **STATELESS}.items():
            words = (*command.split(), *(one.format(out=provider) for one in given))
            for way, before, behind, environment in (
                ("behind", (), ("--state-dir", state), {}),
                ("before", ("--state-dir", state), (), {}),
                ("environment", (), (), {conf.STATE_DIR_VARIABLE: state}),
            ):
                with self.subTest(command=command, way=way):
                    self.prepare()
                    if command == "qualify":  # as an agent does, it first restores what is noted
                        state_pointer.POINTER.unlink()
                    traps = self.traps()
                    opened = Opened(self.folder / "opened")
                    with opened, mock.patch.dict(os.environ, environment):
                        said = self.run_command(*before, *words, *behind)
                    self.assertEqual([], opened.of(TRAP), said)
                    self.assertEqual(traps, self.traps())
                    self.assertNotEqual(0x400, self.msr.get(0, 0xC8B))
                    if command in ARGUMENTS:
                        self.assertTrue(opened.of(NAMED) or NAMED in str(self.asked), said)
                    if opened.of(f"{NAMED}/history.sqlite"):  # whose agent has ended
                        self.assertRegex(said, NO_AGENT)
                    if command == "restore":
                        self.assertEqual(0x600, self.msr.get(0, 0xC8B))


class Terminal(io.StringIO):
    """Text for a terminal."""

    def isatty(self):
        return True


class Width(StateDir):
    """80 columns hold the tables and pages of every command, whatever the guests are called."""

    DATA = {"policy schema", "report"}  # for programs
    MORE = (
        ("tenants", "--long"),
        ("tenants", "-c", "name", "-c", "devices", "-c", "warnings"),
        ("decisions", "--kind", "refuse"),
        ("explain", "-v"),
        ("explain", GUEST),
        ("explain", "#6"),
        ("policy", "diff", str(POLICY)),
        ("policy", "show", "--running"),
        ("provider-config",),
        ("--help",),
        ("help",),
    )

    test_every_command_is_here = test_only_the_folder_that_is_named = None

    def test_width(self):
        """Of a recorded history; a command or path to copy stays in one piece."""
        running = dataclasses.replace(
            stories.status(stopped=True),
            policy=policy_file.load(None, stories.facts().host).effective,
        )
        commands = {**ARGUMENTS, **STATELESS}
        walked = [
            (*command.split(), *(one.format(out=self.folder / "out.yaml") for one in given))
            for command, given in commands.items()
            if command not in self.DATA
        ]
        host, long = self.folder, "production-database-replica-eu-central-1-of-customer-4711"
        for name in ("be1", long, "\u6570\u636e\u5e93" * 20):
            self.folder = self.named
            self.tell(agent=running, be_name=name)
            self.folder = host
            for words in (*walked, *self.MORE):
                with self.subTest(words=words, name=name):
                    self.prepare()
                    out, err = Terminal(), io.StringIO()
                    if "help" in words[0]:
                        out = io.StringIO()  # on a terminal, a pager is started
                    columns = {
                        "COLUMNS": "80",
                        "NO_COLOR": "1",
                        conf.STATE_DIR_VARIABLE: str(self.named),
                    }
                    with (
                        mock.patch.dict(os.environ, columns),
                        contextlib.redirect_stdout(out),
                        contextlib.redirect_stderr(err),
                        contextlib.suppress(SystemExit),
                    ):
                        program.main(list(words))
                    lines = [one for one in out.getvalue().splitlines() if self.breakable(one)]
                    told = f"{name}: "  # a warning of this guest, in one piece
                    wide = [x for x in lines if escape.width(x) > 80 and not x.startswith(told)]
                    self.assertEqual([], wide)

    def breakable(self, line):
        """Tell whether a line may be broken: a message, a path or a command may not."""
        whole = "-->" in line or str(self.folder) in line or line.startswith("iat-nova: ")
        return not whole
