# SPDX-License-Identifier: Apache-2.0
"""Runs tests inside the rdt-lab: a virtual machine with emulated RDT registers and a real kernel.

The lab is tools/rdt-lab, whose emulator is built once and kept in the user's cache
(tools/rdt-lab/build); ``$IAT_NOVA_RDT_LAB`` names a folder with another one.
Nothing here can wait for ever: every guest has its time, and all guests of a worker a budget.
"""

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
VARIABLE = "IAT_NOVA_RDT_LAB"
# Of one guest, and of all guests of a worker: one that hangs leaves the four others 450 s each.
TIMEOUT_S = float(os.environ.get("IAT_NOVA_LAB_TIMEOUT_S", "900"))
BUDGET_S = float(os.environ.get("IAT_NOVA_LAB_BUDGET_S", "2400"))
FIRST_BOOT_S = 240  # it may install packages and fetch a kernel
# Until a guest runs our code. While it boots, dozens of CPUs that wait for each other's
# interrupts may get nowhere on a busy machine of two; then another guest is tried.
BEGIN_S = 240
BEGUN = "begun"  # what a guest makes in the share then
_NOT_BEGUN = -1  # a status no program has
_ENDED = 125  # of rdt-lab: the machine ended without the command

# The emulator runs the guest's CPUs on several threads and may execute code that the kernel
# has just patched: the breakpoint it patches with is then met when its handler is gone already.
# That ends a boot, or a later mount of resctrl, now and then; no fault of what is tested.
_EMULATOR_FAULT = "Oops: int3"
_ATTEMPTS = 4

NEW_KERNEL = "7.2"  # the newer of the lab's two: Debian's backports bring it

_BEGIN = time.monotonic()


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one test in the guest; `text` is the traceback or the reason to skip."""

    test: str
    status: str  # passed, failed, skipped
    seconds: float
    text: str = ""
    proves: tuple[str, tuple[str, ...]] | None = None  # see tests/proofs.py


def find():
    """Return the lab's folder."""
    return Path(os.environ.get(VARIABLE) or PROJECT / "tools/rdt-lab").resolve()


@functools.cache
def missing():
    """Return why the lab cannot be used here, None when it can: then a guest has been seen."""
    if not (find() / "rdt-lab").is_file():
        return f"${VARIABLE} names {find()}, which has no rdt-lab (tools/rdt-lab/README.md)"
    if platform.machine() != "x86_64":
        return f"the rdt-lab's emulator is built for x86_64, this is {platform.machine()}"
    if os.geteuid() != 0:
        return "the rdt-lab reads root's files and installs packages: run as root"
    with open(find() / "rdt-lab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # only one worker has it install and fetch what it needs
        _compile()
        for _ in range(_ATTEMPTS):
            status, words = _run_lab(["--timeout", "180"], ["true"], FIRST_BOOT_S)
            if status == 0:
                return None
            if status != _ENDED and _EMULATOR_FAULT not in words:
                break
    last = [*words.split("\n"), ""]
    return f"the rdt-lab does not start here (status {status}): {' / '.join(last[-5:])}"


@functools.cache
def features():
    """Return what the lab's emulator says it has that not every build of it has: see its --help.

    One that does not know the question has none of it.
    """
    said = subprocess.run([find() / "rdt-lab", "--features"], capture_output=True, check=False)
    return frozenset(said.stdout.decode().split()) if said.returncode == 0 else frozenset()


def _compile():
    """Compile what the guests import: there it takes a fifth of every program's start.

    A fresh clone has nothing compiled, and never gets it where PYTHONDONTWRITEBYTECODE is set.
    """
    folders = [PROJECT / name for name in ("iat_nova", "tests", "tools")]
    folders.append(sysconfig.get_path("purelib"))
    # Packages may hold templates that are no Python.
    subprocess.run([sys.executable, "-m", "compileall", "-qq", *folders], check=False)


def has_kernel(series):
    """Tell whether the lab has fetched a kernel: a guest's first start does."""
    cache = Path(os.environ.get("RDT_LAB_CACHE", "~/.cache/rdt-lab")).expanduser()
    folder = cache / ("kernel" if series == "6.12" else f"kernel-{series}")
    return any((*folder.glob("boot/vmlinuz-*"), *folder.glob("usr/lib/modules/*/vmlinuz")))


def run(
    modules,
    *,
    kernel=None,
    options=(),
    sockets=1,
    cpus=4,
    timeout_s=TIMEOUT_S,
    share=None,
    beside=lambda share: contextlib.nullcontext(),
):
    """Run modules of tests.lab.guest in one guest; return their outcomes.

    `kernel` is a series of the lab's, its own when None; `options` are further ones of the lab.
    `share` is the folder that is /mnt in the guest, else a temporary one; `beside(share)` is
    entered for as long as each guest runs.
    When the emulator fails (see above), or a boot gets nowhere, another guest runs the tests that
    have no outcome yet.
    Raises `SkipTest` when a `kernel` cannot be fetched, `AssertionError` with the guest's last
    words when it ends early otherwise, or late.
    """
    end = time.monotonic() + timeout_s
    with contextlib.ExitStack() as stack:
        if share is None:
            share = stack.enter_context(tempfile.TemporaryDirectory(prefix="iat-nova-lab-"))
        for attempt in range(1, _ATTEMPTS + 1):
            left_s = min(end, _BEGIN + BUDGET_S) - time.monotonic()
            if left_s <= 0:
                raise AssertionError(
                    f"no time is left for {modules}: a guest has {timeout_s:.0f} s, all guests of "
                    f"a worker {BUDGET_S:.0f} s (IAT_NOVA_LAB_TIMEOUT_S, IAT_NOVA_LAB_BUDGET_S)"
                )
            with beside(share):
                shape = [
                    *(("--kernel", kernel) if kernel else ()),
                    *options,
                    "--sockets",
                    str(sockets),
                    "--cpus",
                    str(cpus),
                ]
                status, words = _start(share, modules, shape, left_s)
            lines = [json.loads(line) for line in _lines(Path(share) / "results")]
            failed = status == _NOT_BEGUN or _EMULATOR_FAULT in words
            if {"end": True} in lines or not failed:
                break
            print(f"rdt-lab: the emulator failed, guest {attempt} of {modules}", file=sys.stderr)
    outcomes = [Outcome(**line) for line in lines if "test" in line]
    if {"end": True} in lines:
        _record(lines)
        return outcomes
    if kernel and not has_kernel(kernel):
        raise unittest.SkipTest(f"the rdt-lab has no kernel {kernel}: {words[-300:].strip()}")
    done = "".join(
        f"  {one.seconds:5.1f} s {one.status} {one.test}\n{one.text}" for one in outcomes
    )
    raise AssertionError(
        f"the guest ended early (status {status}; 124: its time was over, {_NOT_BEGUN}: it did "
        f"not run our code within {BEGIN_S} s); it had done\n{done}"
        f"and its last words were\n{words[-5000:]}"
    )


def _record(lines):
    """Keep what became of a guest's tests where tools/record-support looks, if it is asked to."""
    if folder := os.environ.get("IAT_NOVA_LAB_RECORD"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{os.getpid()}-{time.monotonic_ns()}.json"
        path.write_text(json.dumps(lines))


def _start(share, modules, options, left_s):
    begun = Path(share) / BEGUN
    begun.unlink(missing_ok=True)
    told = ("IAT_NOVA_LAB_", "RDT_LAB_CACHE")
    amounts = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(told)]
    command = [
        "env", "PYTHONDONTWRITEBYTECODE=1", *amounts,
        sys.executable, "-m", "tests.lab.guest", *modules,
    ]  # fmt: skip
    if PROJECT.is_relative_to("/tmp"):  # the guest has another /tmp, in front of ours
        command = ["sh", "-c", f"umount /tmp && cd {PROJECT} && exec {shlex.join(command)}"]
    return _run_lab(
        [
            *options, "--timeout", str(left_s),
            "--shm", f"{share}/shm", "--share", str(share),
        ],
        command,
        left_s + 15,
        begun,
    )  # fmt: skip


def _run_lab(options, command, timeout_s, begun=None):
    """Run a command in a guest; return its status and all that was said. Ends in time.

    `begun` is a file that must be there in `BEGIN_S`.
    """
    with tempfile.TemporaryFile("w+") as said:
        lab = subprocess.Popen(
            [find() / "rdt-lab", *options, "--", *command],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
        try:
            status = _wait(lab, timeout_s, begun)
        except subprocess.TimeoutExpired:
            status = 124
        finally:
            with contextlib.suppress(ProcessLookupError):  # the emulator is in its group
                os.killpg(lab.pid, signal.SIGKILL)
            lab.wait()
        said.seek(0)
        return status, said.read()


def _wait(lab, timeout_s, begun):
    """Wait for the lab and return its status. Raises `subprocess.TimeoutExpired`."""
    begin_s = min(timeout_s, BEGIN_S)
    try:
        return lab.wait(begin_s)
    except subprocess.TimeoutExpired:
        if begun is not None and not begun.exists() and timeout_s > BEGIN_S:
            return _NOT_BEGUN
    return lab.wait(timeout_s - begin_s)


def _lines(path):
    return path.read_text().splitlines() if path.exists() else []


class GuestCase(unittest.TestCase):
    """A test case each test of which is a guest running modules of tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)

    def needs(self, feature):
        """Skip a test where the lab's emulator lacks what only later builds of it have."""
        if feature not in features():
            self.skipTest(
                f"the emulator of the rdt-lab in {find()} has no {feature}: build one by "
                f"tools/rdt-lab/build, and set {VARIABLE}"
            )

    def needs_pqos(self):
        """Skip a test where a pqos that knows I/O RDT cannot be fetched."""
        done = subprocess.run(
            [find() / "rdt-lab", "--pqos"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            self.skipTest(f"no pqos that knows I/O RDT: {done.stderr.strip()}")

    def guest(self, *modules, least, **options):
        """All tests of a guest passed, and there were at least so many of them."""
        outcomes = run(modules, **options)
        for outcome in outcomes:
            with self.subTest(outcome.test):
                self.assertNotEqual("failed", outcome.status, outcome.text)
        passed = [outcome for outcome in outcomes if outcome.status == "passed"]
        self.assertGreaterEqual(len(passed), least, [o.test for o in outcomes])
