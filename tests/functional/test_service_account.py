# SPDX-License-Identifier: Apache-2.0
"""An adversary with the service's account, who owns the service's folders, against root.

Processes of an account of no rights swap the files of these folders for links, folders, pipes and
other files, as fast as they can, while root runs each command. Outside the folders nothing may
change, and no process may be signalled. ``IAT_NOVA_ADVERSARY_S``: seconds for each attack.
"""

import contextlib
import fcntl
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest
from unittest import mock

from iat_nova.agent import state_pointer
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.checks.qualify.run import none
from iat_nova.cmd import main as program
from iat_nova.common.owned_folder import OwnedFolder, write_named
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.enforcement.snapshot_file import SnapshotFile
from iat_nova.hardware.kernel.locks import FileLock, LockHeld
from iat_nova.model import Hold, Pause
from iat_nova.store import heartbeat
from iat_nova.store.requests import Holds, PauseFile
from iat_nova.store.writer import History
from tests.unit import stories
from tests.unit.hardware.enforcement import test_restore

ACCOUNT = 64123  # nobody's number
SECONDS = float(os.environ.get("IAT_NOVA_ADVERSARY_S", "0.7"))
LONGEST_S = 60.0  # of one command: it may be slow, and must end
NAMES = (
    "pause.json",
    "snapshot.json",
    "snapshot.new",
    "hand-over.json",
    "hand-over.new",
    "hand-over",
    "agent.lock",
    "writer.lock",
    "holds",
    "holds/web.json",
    "history.sqlite",
    "history.sqlite-wal",
    "history.sqlite-shm",
    "history.sqlite-journal",
    "qualify.json",
    "report.html",
)


@unittest.skipUnless(os.geteuid() == 0, "only root can be attacked, and make an account's process")
class AdversaryCase(test_restore.MachineCase):
    """A host whose folders belong to the account, and what must not change beside them."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.config.chmod(0o600)
        self.state, self.run_folder = self.folder / "state", self.folder / "run"
        self.outside = self.folder / "outside"
        for folder in (self.state, self.run_folder):
            folder.mkdir()
            os.chown(folder, ACCOUNT, ACCOUNT)
        self.outside.mkdir()
        (self.outside / "folder").mkdir()
        for folder in (self.outside, self.outside / "folder"):
            for name in NAMES:
                if name != "holds" and "/" not in name:
                    (folder / name).write_text("root's")
                    (folder / name).chmod(0o600)
        self.make_history()
        shutil.copy(self.state / "history.sqlite", self.outside / "history.sqlite")
        for target, value in (
            ("iat_nova.cmd.hand_over.restore_in", lambda *_arguments: None),
            ("iat_nova.cmd.reload.PATIENCE_S", 0.1),
        ):
            self.enterContext(mock.patch(target, value))
        self.victim = subprocess.Popen(["sleep", "600"])
        self.addCleanup(self.victim.wait)
        self.addCleanup(self.victim.kill)
        self.before = self.seen()
        self.addCleanup(self.check)

    def make_history(self):
        with OwnedFolder(self.state).acting_as_owner():
            clock = stories.SetClock(time.time() - 12)
            history = History(
                self.state / "history.sqlite", max_age_s=1e9, max_bytes=8 << 20, clock=clock
            )
            stories.tell(history, clock=clock)
            self.assertTrue(history.flush(), history.problem)
            history.close()

    def seen(self):
        """Return all that lies outside the account's folders, with content, mode and owner."""
        found = {}
        for folder, folders, files in os.walk(self.folder):
            if folder == str(self.folder):
                folders[:] = set(folders) - {"state", "run"}
            for name in (*folders, *files):
                path = os.path.join(folder, name)
                one = os.lstat(path)
                content = b""
                if stat.S_ISREG(one.st_mode) and one.st_size < 1 << 20:
                    with open(path, "rb") as file:
                        content = file.read()
                found[path] = (one.st_mode, one.st_uid, one.st_gid, one.st_nlink, content)
        return found

    def check(self):
        changed = [path for path, _ in self.before.items() ^ self.seen().items()]
        self.assertEqual([], changed)
        self.assertIsNone(self.victim.poll(), "the victim was signalled")

    @contextlib.contextmanager
    def attacked(self, names=NAMES):
        """Have two processes of the account swap these files meanwhile."""
        with contextlib.ExitStack() as ends:
            for _ in range(2):
                one = os.fork()
                if one == 0:
                    self.swap(names)
                ends.callback(os.waitpid, one, 0)
                ends.callback(os.kill, one, signal.SIGKILL)
            yield

    def swap(self, names):
        """Be the account; never returns."""
        try:
            os.setgroups([])
            os.setresgid(ACCOUNT, ACCOUNT, ACCOUNT)
            os.setresuid(ACCOUNT, ACCOUNT, ACCOUNT)
            Swapper(self.state, self.run_folder, self.outside, names, self.victim.pid).run()
        finally:
            os._exit(1)

    def as_root(self, call):
        """Run a function in a process of root's; a traceback of its own is a failure."""
        child = os.fork()
        if child == 0:
            status = 99
            try:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, 1)
                status = call() or 0
            finally:
                os._exit(status)
        end_s = time.monotonic() + LONGEST_S
        while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
            if time.monotonic() > end_s:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                self.fail("root is held up")
            time.sleep(0.002)
        status = os.waitstatus_to_exitcode(ended[1])
        self.assertNotEqual(99, status, "an error that nobody foresaw")
        self.assertGreaterEqual(status, 0, "root's process was signalled")
        return status

    def command(self, *arguments):
        """Return what runs a command as root, with its errors out of the way."""

        def run():
            with open(os.devnull, "w") as nowhere, mock.patch("sys.stderr", nowhere):
                return program.main([*arguments, "--config-file", str(self.config)])

        return run


class Swapper:
    """What the account does."""

    def __init__(self, state, run, outside, names, victim):
        self.chance = random.Random(os.getpid())
        self.folders = (state, run)
        self.outside = outside
        self.names = names
        self.victim = victim
        self.history = (state / "history.sqlite").read_bytes()
        self.kinds = (
            self.link,
            self.link_to_folder,
            self.dangling,
            self.hard_link,
            self.folder,
            self.pipe,
            self.file,
            self.forged,
            self.nothing,
        )

    def run(self):
        while True:
            folder = self.chance.choice(self.folders)
            name = self.chance.choice(self.names)
            with contextlib.suppress(OSError):
                fresh = [one for one in os.listdir(folder) if one.startswith(".")]
                if fresh and self.chance.random() < 0.7:
                    name = self.chance.choice(fresh)
            path = str(folder / name)
            with contextlib.suppress(OSError):
                self.remove(path)
            with contextlib.suppress(OSError):
                kinds = self.kinds
                if "sqlite" in name:  # SQLite would wait for a pipe's other end
                    kinds = tuple(one for one in kinds if one != self.pipe)
                self.chance.choice(kinds)(path, os.path.basename(name))

    def remove(self, path):
        if os.path.isdir(path) and not os.path.islink(path):
            os.rename(path, f"{path}.{self.chance.random()}")
        else:
            os.unlink(path)

    def link(self, path, name):
        os.symlink(self.outside / name, path)

    def link_to_folder(self, path, name):
        os.symlink(self.outside / "folder", path)

    def dangling(self, path, name):
        os.symlink(self.outside / f"new-{name}", path)

    def hard_link(self, path, name):
        os.link(self.outside / name, path)  # the kernel may refuse (fs.protected_hardlinks)

    def folder(self, path, name):
        os.mkdir(path)

    def pipe(self, path, name):
        os.mkfifo(path)

    def file(self, path, name):
        with open(path, "wb") as file:
            file.write(self.history if name == "history.sqlite" else b'{"ways": 3}')

    def forged(self, path, name):
        with open(path, "wb") as file:
            file.write(f"{time.monotonic()}\n{self.victim}\n".encode())

    def nothing(self, path, name):
        pass


class Commands(AdversaryCase):
    """The program's commands, whole."""

    def attack(self, *commands, names=NAMES):
        with self.attacked(names):
            for command in commands:
                end_s = time.monotonic() + SECONDS
                while time.monotonic() < end_s:
                    self.as_root(self.command(*command))
                self.check()

    def test_writing(self):
        """What persons and the unit have root write and remove."""
        self.attack(
            ("pause", "--for", "1h"),
            ("resume",),
            ("hold", "web", "--ways", "2"),
            ("release", "--all"),
            ("hand-over",),
        )

    def test_restoring(self):
        """The unit's, the timer's and a person's restore."""
        self.attack(
            ("restore",),
            ("restore", "--unless-taken"),
            ("restore", "--unless-handed-over"),
        )

    def test_reading(self):
        """SQLite writes files of its own beside the history."""
        history = tuple(name for name in NAMES if "history" in name)
        self.attack(("status",), ("decisions",), ("policy", "facts"), names=history)
        self.attack(("tenants",), ("explain",), ("top", "--once"), ("doctor",))

    def test_files_for_persons(self):
        """Pages and an offer to Placement that root writes into the account's folder."""
        self.attack(
            ("report", "-o", str(self.state / "report.html")),
            ("provider-config", "-o", str(self.state / "provider.yaml")),
            names=("report.html", "provider.yaml"),
        )

    def test_qualify(self):
        """It restores, saves and restores as an agent does, and writes two files."""
        shutil.copy("/proc/stat", self.roots.proc)
        unmeasured = HardwareError("not measured")
        for target, value in (
            ("_LOOK_S", 0.0),
            ("choose_cpus", lambda _cpus, domains, *_busy: (domains[0], (0, 1))),
            ("run", lambda tests, _bench, _note: none(tests, unmeasured)),
        ):
            self.enterContext(mock.patch(f"iat_nova.cmd.qualify.{target}", value))
        command = ("qualify", "--yes", "--only", "mask", "--out", str(self.state))
        state_pointer.write(self.state)  # the note that it writes itself, as root
        self.before = self.seen()
        self.assertEqual(1, self.as_root(self.command(*command)))
        self.assertTrue((self.state / "qualify.html").exists())
        names = ("qualify.json", "qualify.html", "snapshot.json", "hand-over.json", "writer.lock")
        self.attack(command, names=names)

    def test_reload(self):
        """Root signals who holds the lock, and nobody whom a file names."""
        self.attack(("reload",), names=("agent.lock",))


class Functions(AdversaryCase):
    """What the commands call, again and again: many more tries at the same moments."""

    def attack(self, *calls, names=NAMES):
        with self.attacked(names):
            for call in calls:

                def again(call=call):
                    end_s = time.monotonic() + SECONDS
                    while time.monotonic() < end_s:
                        with contextlib.suppress(OSError, HardwareError, LockHeld):
                            call()

                self.as_root(again)
                self.check()

    def test_pause_and_holds(self):
        """Small files, one of them in a folder below."""
        pause, holds = PauseFile(self.state), Holds(self.state)
        self.attack(
            lambda: pause.write(Pause(1.0)),
            lambda: pause.current(2.0),
            pause.clear,
            lambda: holds.write(Hold("web", "web", 2, 1.0)),
            lambda: holds.current(2.0),
            lambda: holds.clear("web"),
        )

    def test_snapshot_and_hand_over(self):
        """What is restored from, and the request of a hand-over."""
        file = SnapshotFile(self.state / "snapshot.json", {})
        left = HandOverFiles(self.state / "hand-over.json", self.run_folder / "hand-over", 60.0)
        self.attack(
            lambda: file.write({"x": {}}),
            file.read,
            file.remove,
            left.ask,
            lambda: left.asked,
            left.let_pass,
            left.remove,
        )

    def test_locks(self):
        """A lock's file is written in place."""
        lock = self.run_folder / "writer.lock"

        def write():
            with Snapshot({}, snapshot=self.state / "snapshot.json", lock=lock).only_writer():
                pass

        def be_agent():
            with (
                contextlib.suppress(heartbeat.AlreadyRunning, heartbeat.StateError),
                heartbeat.only_agent(self.state / "agent.lock") as mine,
            ):
                mine.iteration(1.0, None)

        self.attack(
            write,
            lambda: FileLock(lock).close(),
            be_agent,
            lambda: heartbeat.look(self.state / "agent.lock"),
        )

    def test_replaced_files(self):
        """The one way in which all files are written."""
        folder = OwnedFolder(self.state)
        self.attack(
            lambda: folder.replace("pause.json", "x", durable=True),
            lambda: write_named(self.state / "qualify.json", "x"),
            lambda: folder.subfolder("holds").make(),
            lambda: folder.rename("pause.json", "hand-over.json"),
        )


class Signals(AdversaryCase):
    """`reload` and processes that are no agent."""

    def test_a_forged_process_number(self):
        """The account holds the lock and names root's process in its file."""
        ready, told = os.pipe()
        self.addCleanup(os.close, ready)
        heartbeat.boot_id()  # loads what the account may not be able to read
        child = os.fork()
        if child == 0:
            try:
                os.setresgid(ACCOUNT, ACCOUNT, ACCOUNT)
                os.setresuid(ACCOUNT, ACCOUNT, ACCOUNT)
                with heartbeat.only_agent(self.state / "agent.lock") as mine:
                    mine._beat = heartbeat.Beat(
                        self.victim.pid, heartbeat.boot_id(), "running", 0.0, time.monotonic()
                    )
                    mine.iteration(1.0, None)
                    os.write(told, b"1")
                    time.sleep(600)
            finally:
                os._exit(1)
        self.addCleanup(os.waitpid, child, 0)
        self.addCleanup(os.kill, child, signal.SIGKILL)
        os.close(told)
        self.assertEqual(b"1", os.read(ready, 1))
        self.assertEqual(3, self.as_root(self.command("reload")))
        self.check()

    def test_a_process_that_was_given_the_lock(self):
        """Root's process that has the locked file open is signalled no more than the owner may."""
        with OwnedFolder(self.state).acting_as_owner():
            fd = os.open(self.state / "agent.lock", os.O_RDWR | os.O_CREAT, 0o644)
        self.addCleanup(os.close, fd)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, heartbeat._whole_file(fcntl.F_WRLCK))
        victim = subprocess.Popen(["sleep", "600"], pass_fds=(fd,))
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        beat = heartbeat.Beat(victim.pid, heartbeat.boot_id(), "running", 0.0, time.monotonic())
        os.pwrite(fd, heartbeat._page(beat), 0)
        self.assertEqual(1, self.as_root(self.command("reload")))
        self.assertIsNone(victim.poll(), "it was signalled")

    def test_the_agent(self):
        """The agent itself is signalled, by root as its user."""
        program_text = (
            "import os, pathlib, signal, sys, time\n"
            "from iat_nova.store.heartbeat import boot_id, only_agent\n"
            "boot_id()\n"
            "signal.signal(signal.SIGHUP, lambda *_: os._exit(42))\n"
            f"os.setresuid({ACCOUNT}, {ACCOUNT}, {ACCOUNT})\n"
            "with only_agent(pathlib.Path(sys.argv[1])) as mine:\n"
            "    mine.iteration(1.0, None)\n"
            "    print(flush=True)\n"
            "    time.sleep(600)\n"
        )
        agent = subprocess.Popen(
            [sys.executable, "-c", program_text, self.state / "agent.lock"], stdout=subprocess.PIPE
        )
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.kill)
        self.assertEqual(b"\n", agent.stdout.readline())
        self.as_root(self.command("reload"))
        self.assertEqual(42, agent.wait(10))


class OneByOne(AdversaryCase):
    """Moments that a race seldom meets."""

    def test_a_hard_link_of_a_lock(self):
        """Where the kernel allows such links (fs.protected_hardlinks = 0) root still refuses."""
        SnapshotFile(self.state / "snapshot.json", {}).write({"x": {}})  # as the folder's owner
        os.link(self.outside / "writer.lock", self.run_folder / "writer.lock")
        self.before = self.seen()
        self.assertEqual(1, self.as_root(self.command("restore")))

    def test_a_pipe_for_the_history(self):
        """It is refused, and nobody waits for its other end."""
        (self.state / "history.sqlite").unlink()
        os.mkfifo(self.state / "history.sqlite")
        self.assertEqual(1, self.as_root(self.command("status")))

    def test_a_file_of_the_account_alone(self):
        """What root makes belongs to the account, so that its service can go on."""
        self.assertEqual(0, self.as_root(self.command("pause")))
        self.assertEqual(0, self.as_root(self.command("hold", "be1", "--ways", "1")))
        for folder, folders, files in os.walk(self.state):
            for name in (*folders, *files):
                self.assertEqual(ACCOUNT, os.lstat(os.path.join(folder, name)).st_uid, name)
