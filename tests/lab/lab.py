# SPDX-License-Identifier: Apache-2.0
"""Runs tests inside the rdt-lab: a virtual machine with emulated RDT registers and a real kernel.

The lab is looked for beside the project (``../shared/rdt-lab``) and at ``$IAT_NOVA_RDT_LAB``.
Its README tells what it models; the emulator is Debian's qemu with the patch that lies there.
"""

import contextlib
import dataclasses
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
VARIABLE = "IAT_NOVA_RDT_LAB"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of one test in the guest; `text` is the traceback or the reason to skip."""

    test: str
    status: str  # passed, failed, skipped
    text: str = ""


def find():
    """Return the lab's folder, None when this machine has none."""
    for place in (os.environ.get(VARIABLE), PROJECT.parent / "shared" / "rdt-lab"):
        if place and (Path(place) / "rdt-lab").is_file():
            return Path(place).resolve()
    return None


def missing():
    """Return why the lab cannot be used here, None when it can."""
    if find() is None:
        return f"no rdt-lab beside the project or at ${VARIABLE}"
    if platform.machine() != "x86_64":
        return f"the rdt-lab's emulator is built for x86_64, this is {platform.machine()}"
    if os.geteuid() != 0:
        return "the rdt-lab reads root's files and installs packages: run as root"
    return None


# The emulator runs the guest's processors on several threads and may execute code that the kernel
# has just patched: the breakpoint it patches with is then met when its handler is gone already.
# That ends a boot, or a later mount of resctrl, now and then; no fault of what is tested.
_EMULATOR_FAULT = "Oops: int3"
_ATTEMPTS = 4


def registers(shm):
    """Open the shared file of a guest: its registers and counters (the lab's own `rdtlab`)."""
    sys.path.insert(0, str(find()))
    try:
        return importlib.import_module("rdtlab").Lab(str(shm))
    finally:
        sys.path.pop(0)


def run(
    module,
    *,
    sockets=1,
    cpus=4,
    timeout_s=400,
    arguments=(),
    share=None,
    beside=lambda share: contextlib.nullcontext(),
):
    """Run a module of tests.lab.guest in a guest; return its outcomes.

    `share` is the folder that is /mnt in the guest, else a temporary one; `beside(share)` is
    entered for as long as each guest runs.
    When the emulator fails (see above) another guest runs the tests that have no outcome yet.
    Raises `AssertionError` with the guest's last words when it ends early otherwise.
    """
    options = ["--sockets", str(sockets), "--cpus", str(cpus), "--timeout", str(timeout_s)]
    with contextlib.ExitStack() as stack:
        if share is None:
            share = stack.enter_context(tempfile.TemporaryDirectory(prefix="iat-nova-lab-"))
        for attempt in range(1, _ATTEMPTS + 1):
            with beside(share):
                status, words = _start(share, options, [module, *arguments], timeout_s)
            lines = [json.loads(line) for line in _lines(Path(share) / "results")]
            if {"end": True} in lines or _EMULATOR_FAULT not in words:
                break
            print(f"rdt-lab: the emulator failed, guest {attempt} of {module}", file=sys.stderr)
    outcomes = [Outcome(**line) for line in lines if "test" in line]
    if {"end": True} in lines:
        return outcomes
    raise AssertionError(
        f"the guest ended early (status {status}) after {len(outcomes)} tests\n{words[-5000:]}"
    )


def _start(share, options, module, timeout_s):
    lab = find()
    amounts = [f"{k}={v}" for k, v in os.environ.items() if k.startswith("IAT_NOVA_LAB_")]
    done = subprocess.run(
        [
            str(lab / "rdt-lab"), *options, "--shm", f"{share}/shm", "--share", str(share), "--",
            "env", f"{VARIABLE}={lab}", "PYTHONDONTWRITEBYTECODE=1", *amounts,
            sys.executable, "-m", "tests.lab.guest", *module,
        ],
        check=False,
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=timeout_s + 60,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def _lines(path):
    return path.read_text().splitlines() if path.exists() else []


class GuestCase(unittest.TestCase):
    """A test case each test of which is a guest running a module of tests."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = missing()
        if reason:
            raise unittest.SkipTest(reason)

    def guest(self, module, *, least, **options):
        """All tests of a guest passed, and there were at least so many of them."""
        outcomes = run(module, **options)
        for outcome in outcomes:
            with self.subTest(outcome.test):
                self.assertNotEqual("failed", outcome.status, outcome.text)
        passed = [outcome for outcome in outcomes if outcome.status == "passed"]
        self.assertGreaterEqual(len(passed), least, [o.test for o in outcomes])
