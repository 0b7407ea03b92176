# SPDX-License-Identifier: Apache-2.0
"""The systemd unit under a real systemd: its user, its sandbox, and its promise to restore.

A systemd of its own runs in a process namespace; `story` is a service of it, so that it may use
systemctl, and leaves what it saw in a file.
"""

import grp
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import unittest
from pathlib import Path

from iat_nova.hardware.resctrl_fs import DEFAULT_ROOT
from tests.lab.guest.machine import Registers, unmount

PROJECT = Path(__file__).resolve().parents[3]
UNIT = PROJECT / "etc/iat-nova/iat-nova-agent.service"
NAME = "iat-nova-agent"
INSTALLED = Path("/opt/iat-nova")  # where the unit looks for the programs
PROGRAM = f"""#!/bin/sh
export PYTHONPATH={INSTALLED}/project:{INSTALLED}/packages LD_LIBRARY_PATH={INSTALLED}/python/lib
exec {INSTALLED}/python/bin/python{sys.version_info.major}.{sys.version_info.minor} -m MODULE "$@"
"""
UNITS, SEEN = Path("/run/systemd/system"), Path("/run/iat-nova-seen.json")
LOG = Path("/run/iat-nova-agent.log")
DEADLINE_S = 240.0
CAPABILITIES = 1 << 17 | 1 << 38 | 1 << 1  # SYS_RAWIO, PERFMON, DAC_OVERRIDE
SAFETY = PROJECT / "doc/source/operator/safety.rst"
GUEST = """<node><domain type='test'><name>instance-00000001</name><memory unit='MiB'>64</memory>
<vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune><os><type>hvm</type></os></domain>
</node>"""
CONFIGURATION = """[iat]
libvirt_uri = test:///etc/iat-nova/node.xml
ovsdb_connection = none
[compute]
cpu_dedicated_set = 0-3
"""
# The unit itself is not changed, but for what makes this short and lets the end be looked at.
DROP_IN = f"""[Unit]
DefaultDependencies=no
[Service]
Restart=no
WatchdogSec=30
TimeoutStartSec={DEADLINE_S:.0f}
TimeoutStopSec=120
StandardOutput=append:{LOG}
StandardError=inherit
"""
STORY = f"""[Unit]
DefaultDependencies=no
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec={5 * DEADLINE_S:.0f}
WorkingDirectory={PROJECT}
ExecStart={sys.executable} -m tests.lab.guest.service
"""


def found():
    """Return what must be as it was, as JSON gives it back; unused classes need not be."""
    now = Registers().everything()
    return {
        "default": [masks[0] for masks in now["cbm"]],
        "ddio": now["ddio"],
        "classes": {str(cpu): number for cpu, number in now["classes"].items()},
        "groups": sorted(path.name for path in DEFAULT_ROOT.glob("iat-nova.*")),
    }


def install():
    """Have this code where the unit looks for it: its sandbox hides /root, /home and /tmp."""
    INSTALLED.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", INSTALLED], check=True)
    packages = sysconfig.get_path("purelib")
    for name, place in (("python", sys.base_prefix), ("packages", packages), ("project", PROJECT)):
        (INSTALLED / name).mkdir()
        subprocess.run(["mount", "--bind", place, INSTALLED / name], check=True)
    (INSTALLED / "bin").mkdir()
    for name, module in (("iat-nova-agent", "agent"), ("iat-nova", "main")):
        program = INSTALLED / "bin" / name
        program.write_text(PROGRAM.replace("MODULE", f"iat_nova.cmd.{module}"))
        program.chmod(0o755)


def unload_msr():
    """Leave the msr driver to the unit, as after a boot; have it where modprobe looks."""
    cache = Path(os.environ.get("RDT_LAB_CACHE", "~/.cache/rdt-lab")).expanduser() / "kernel"
    release = os.uname().release
    name = f"lib/modules/{release}/kernel/arch/x86/kernel/msr.ko*"
    (module,) = (*cache.glob(name), *(cache / "usr").glob(name))
    folder = Path("/lib/modules") / release
    folder.mkdir(parents=True)
    shutil.copy(module, folder)
    subprocess.run(["depmod", release], check=True, capture_output=True)
    subprocess.run(["rmmod", "msr"], check=True)


def said():
    """Return what the agent said, and what systemd and the kernel did."""
    kernel = subprocess.run(["dmesg"], capture_output=True, text=True, check=False).stdout
    return f"{LOG.read_text() if LOG.exists() else 'no log'}\n{kernel[-8000:]}"


def systemctl(*arguments):
    done = subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def shown(name):
    return systemctl("show", "--property", name, "--value", NAME)


def until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not seen within {DEADLINE_S:.0f} s: {what}")
        threading.Event().wait(0.2)


def enforcing():
    """Start the service and wait for its first masks; return its process."""
    systemctl("reset-failed", NAME)
    systemctl("start", NAME)
    until(lambda: (DEFAULT_ROOT / "iat-nova.1").exists(), "a group of the agent")
    return int(shown("MainPID"))


def killed(pid, how):
    """Send a signal, wait for the service's end; return its result and what is left."""
    os.kill(pid, how)
    until(lambda: shown("ActiveState") in ("failed", "inactive"), f"the end after {how.name}")
    return [shown("Result"), found()]


def story():
    """Start, kill, hang and stop the service under this systemd; return what was seen."""
    pid = enforcing()
    status = Path(f"/proc/{pid}/status").read_text()
    seen = {
        "status": dict(line.split(":\t") for line in status.splitlines() if ":\t" in line),
        "text": shown("StatusText"),
        "log": LOG.read_text(),
        "changed": found(),
        "snapshot": Path("/var/lib/iat-nova/snapshot.json").stat().st_uid,
    }
    seen["killed"] = killed(pid, signal.SIGKILL)
    seen["hung"] = killed(enforcing(), signal.SIGSTOP)
    enforcing()
    systemctl("stop", NAME)
    seen["stopped"] = [shown("Result"), found()]
    seen["pqos"] = through_libpqos()
    return seen


def through_libpqos():
    """Start and stop the service with the documentation's drop-in for libpqos's MSR interface."""
    block = r"libpqos in the sandbox\n.*?\.\. code-block:: ini\n\n(.*?)\n\n\S"
    drop_in = re.search(block, SAFETY.read_text(), re.S)[1]
    (UNITS / f"{NAME}.service.d/pqos.conf").write_text(drop_in)
    conf = Path("/etc/iat-nova/iat-nova.conf")
    conf.write_text(CONFIGURATION.replace("[iat]\n", "[iat]\ncat_interface = pqos-msr\n"))
    unmount()
    systemctl("daemon-reload")
    systemctl("start", NAME)
    until(lambda: found()["classes"]["1"] != 0, "a class of the agent, by libpqos")
    text = shown("StatusText")
    systemctl("stop", NAME)
    return [text, shown("Result"), found()]


class Service(unittest.TestCase):
    """Everything in one test: each start costs half a minute in an emulated machine."""

    def setUp(self):
        for program in ("/lib/systemd/systemd", "/usr/bin/systemd-sysusers", "/usr/bin/nsenter"):
            if not os.access(program, os.X_OK):
                self.skipTest(f"{program} is not installed")
        subprocess.run(["systemd-sysusers", UNIT.with_name("iat-nova.sysusers")], check=True)
        install()
        shutil.rmtree("/etc/iat-nova", ignore_errors=True)
        Path("/etc/iat-nova").mkdir()
        Path("/etc/iat-nova/node.xml").write_text(GUEST)
        Path("/etc/iat-nova/iat-nova.conf").write_text(CONFIGURATION)
        Path("/etc/nova/nova.conf").unlink(missing_ok=True)
        (UNITS / f"{NAME}.service.d").mkdir(parents=True)
        shutil.copy(UNIT, UNITS)
        (UNITS / f"{NAME}.service.d/lab.conf").write_text(DROP_IN)
        (UNITS / "story.service").write_text(STORY)
        # with the kernel's usual setting the capability is what lets the agent count
        Path("/proc/sys/kernel/perf_event_paranoid").write_text("2")
        Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")  # all that systemd says
        unmount()
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)

    def test_under_systemd(self):
        """As its user, with three capabilities, it enforces; after any end all is as found."""
        as_found = found()
        unload_msr()
        systemd = [
            "unshare", "--fork", "--pid", "--mount", "--propagation", "shared", "--mount-proc",
            "env", "container=lab", "/lib/systemd/systemd", "--system", "--unit=story.service",
            "--log-target=kmsg", "--show-status=no",
        ]  # fmt: skip
        subprocess.run(systemd, timeout=6 * DEADLINE_S, check=False)
        self.assertTrue(SEEN.exists(), said())
        seen = json.loads(SEEN.read_text())
        self.assertNotIn("error", seen, said())

        user = str(pwd.getpwnam("iat-nova").pw_uid)
        status = seen["status"]
        self.assertEqual([user] * 4, status["Uid"].split())
        self.assertEqual([str(grp.getgrnam("iat-nova").gr_gid)] * 4, status["Gid"].split())
        for which in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(CAPABILITIES, int(status[which], 16), which)
        self.assertEqual(("1", "2"), (status["NoNewPrivs"], status["Seccomp"]))
        self.assertEqual(int(user), seen["snapshot"])
        self.assertTrue(seen["text"].startswith("enforcing"), seen["text"])
        self.assertIn(" ddio: msr (", seen["log"])

        self.assertNotEqual(as_found["default"], seen["changed"]["default"])
        self.assertNotEqual(0, seen["changed"]["classes"]["1"])
        self.assertEqual(["signal", as_found], seen["killed"], said())
        self.assertEqual(["watchdog", as_found], seen["hung"], said())
        self.assertEqual(["success", as_found], seen["stopped"], said())

        text, *stopped = seen["pqos"]
        self.assertTrue(text.startswith("enforcing"), text)
        self.assertEqual(["success", as_found], stopped, said())


def main():
    """Tell the story, or why it could not be told to its end."""
    try:
        seen = story()
    except (AssertionError, OSError, ValueError) as error:
        seen = {"error": str(error)}
    SEEN.write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
