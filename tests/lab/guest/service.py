# SPDX-License-Identifier: Apache-2.0
"""The systemd unit under a real systemd: its user, its sandbox, and its promise to restore.

A systemd of its own runs in a process namespace; `story` is a service of it, so that it may use
systemctl, and leaves what it saw in a file.
"""

import contextlib
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

from iat_nova.agent import state_pointer
from iat_nova.checks import rights
from iat_nova.hardware.cat.resctrl_fs import DEFAULT_ROOT
from iat_nova.hardware.counters import events, perf_event
from tests.lab.guest.machine import Registers, mount, unmount
from tests.proofs import proves
from tests.said import sentence

PROJECT = Path(__file__).resolve().parents[3]
UNIT = PROJECT / "etc/iat-nova/iat-nova-agent.service"
NAME = "iat-nova-agent"
INSTALLED = Path("/opt/iat-nova")  # where the unit looks for the programs
# Like the script that pip makes, it knows its own path.
RUN = "import sys; sys.argv[0] = '$0'; from MODULE import main; sys.exit(main())"
PROGRAM = f"""#!/bin/sh
export PYTHONPATH={INSTALLED}/project:{INSTALLED}/packages LD_LIBRARY_PATH={INSTALLED}/python/lib
python={INSTALLED}/python/bin/python{sys.version_info.major}.{sys.version_info.minor}
exec $python -c "{RUN}" "$@"
"""
UNITS, SEEN = Path("/run/systemd/system"), Path("/run/iat-nova-seen.json")
LOG = Path("/run/iat-nova-agent.log")
STATE, ELSEWHERE = Path("/var/lib/iat-nova"), Path("/var/lib/iat-nova-elsewhere")
DEADLINE_S = 240.0
CAPABILITIES = 1 << 17 | 1 << 38 | 1 << 1  # SYS_RAWIO, PERFMON, DAC_OVERRIDE
SAFETY = PROJECT / "doc/source/operator/safety.rst"
GUEST = """<node><domain type='test'><name>instance-00000001</name><memory unit='MiB'>64</memory>
<vcpu>1</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune><os><type>hvm</type></os></domain>
</node>"""
CONFIGURATION = """[iat]
mode = enforce
strategy = iat
libvirt_uri = test:///etc/iat-nova/node.xml
hand_over_s = 240
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
StateDirectory={ELSEWHERE.name}
"""
CONF, NOVA_CONF = Path("/etc/iat-nova/iat-nova.conf"), Path("/etc/nova/nova.conf")
POLICY = Path("/etc/iat-nova/policy.yaml")
WITH_POLICY = CONFIGURATION.replace("[iat]\n", f"[iat]\npolicy_file = {POLICY}\n")
TEMPLATE = "parameters:\n  interval: {{ 500 * 2 }}ms\n"
ENDLESS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
CPU = events.cpu_model().known
KNOB = "msr" if CPU.ddio_msr else "io_alloc"
PARANOID, DEBIANS_OWN = perf_event.PARANOID, "3"
SYSCTL, ALLOWED = "/lib/systemd/systemd-sysctl", "/etc/sysctl.d/60-iat-nova.conf"
STORY = f"""[Unit]
DefaultDependencies=no
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec={5 * DEADLINE_S:.0f}
WorkingDirectory={PROJECT}
ExecStart={sys.executable} -m tests.lab.guest.service PARTS
"""
# Starts what `systemctl enable` put under multi-user.target, without the rest of a system.
BOOT = """[Unit]
DefaultDependencies=no
Wants=story.service
"""
STATE = Path("/var/lib/iat-nova")
DISK = Path("/mnt/state.tar")  # the state as a power cut leaves it; outlives the guest
# A service that fails at once, with the unit's own restarts and pauses.
FAILING = """[Service]
Restart=on-failure
RestartSec=100ms
ExecStart=
ExecStart=/bin/false
ExecStopPost=
"""


def found():
    """Return what must be as it was, as JSON gives it back; unused classes need not be."""
    now = Registers().everything()
    return {
        "default": [masks[0] for masks in now["cbm"]],
        "ddio": now["ddio"],
        "io_alloc": now["io_alloc"],
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


def counting():
    """Return why this process may not count, None when it may."""
    refused = perf_event.available(CPU.core.events)
    return None if refused is None else sentence(refused)


def unload_msr():
    """Leave the msr driver to the unit, as after a boot; have it where modprobe looks."""
    cache = Path(os.environ.get("RDT_LAB_CACHE", "~/.cache/rdt-lab")).expanduser()
    release = os.uname().release
    name = f"lib/modules/{release}/kernel/arch/x86/kernel/msr.ko*"
    (module,) = (*cache.glob(f"kernel*/{name}"), *cache.glob(f"kernel*/usr/{name}"))
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
    if shown("Result") != "success":
        raise AssertionError(f"it did not start: {shown('Result')}")
    return enforced()


def enforced():
    """Wait for the first masks of the service; return its process."""
    until(lambda: (DEFAULT_ROOT / "iat-nova.1").exists(), "a group of the agent")
    return int(shown("MainPID"))


def killed(pid, how):
    """Send a signal, wait for the service's end; return its result and what is left."""
    os.kill(pid, how)
    until(lambda: shown("ActiveState") in ("failed", "inactive"), f"the end after {how.name}")
    return [shown("Result"), found()]


def story(*parts):
    """Start the service under this systemd, then do these parts; return what was seen of each."""
    pid = enforced() if "booted" in parts else enforcing()
    return first(pid) | {part: PARTS[part]() for part in parts}


def first(pid):
    """Return what is seen of the running service."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {
        "pid": pid,
        "status": dict(line.split(":\t") for line in status.splitlines() if ":\t" in line),
        "text": shown("StatusText"),
        "log": LOG.read_text(),
        "changed": found(),
        "snapshot": Path("/var/lib/iat-nova/snapshot.json").stat().st_uid,
    }


def restarted():
    """Restart the service; return all that lay on the machine meanwhile, and what it said of it."""
    pid = int(shown("MainPID")) or enforcing()
    seen = []
    systemctl("restart", "--no-block", NAME)

    def done():
        if (now := lies()) not in seen:
            seen.append(now)
        return shown("MainPID") not in ("0", str(pid)) and shown("ActiveState") == "active"

    before = time.monotonic()
    until(done, "the restarted service")
    told = [line for line in LOG.read_text().splitlines() if "adopted: " in line]
    return {"lay": seen, "adopted": told, "took_s": time.monotonic() - before}


def lies():
    """Return what lies on the machine: all registers, and our groups."""
    groups = {}
    for path in sorted(DEFAULT_ROOT.glob("iat-nova.*")):
        with contextlib.suppress(OSError):  # it may go meanwhile
            groups[path.name] = [(path / n).read_text() for n in ("schemata", "cpus_list")]
    return json.loads(json.dumps([Registers().everything(), groups]))


def in_the_gap():
    """Restart the service and kill the new agent before it has adopted; see `killed`."""
    pid = shown("MainPID")
    systemctl("restart", "--no-block", NAME)
    until(lambda: shown("MainPID") not in ("0", pid), "the new agent")
    os.kill(int(shown("MainPID")), signal.SIGKILL)
    left = [Path("/var/lib/iat-nova/hand-over.json").exists(), found()]
    until(lambda: shown("ActiveState") in ("failed", "inactive"), "the end of the new agent")
    return [*left, shown("Result"), found()]


def nobody_came():
    """Hand over by hand, then stop the service; return what lay there, and what does in the end."""
    pid = int(shown("MainPID")) or enforcing()
    conf = Path("/etc/iat-nova/iat-nova.conf")
    conf.write_text(conf.read_text().replace("hand_over_s = 240", "hand_over_s = 160"))
    subprocess.run([INSTALLED / "bin/iat-nova", "hand-over"], check=True, capture_output=True)
    systemctl("stop", NAME)
    left = [shown("Result"), found()]
    until(lambda: found()["groups"] == [], f"systemd's restore after process {pid}")
    until(lambda: not Path("/var/lib/iat-nova/snapshot.json").exists(), "its end")
    return [*left, found()]


def stopped():
    """Stop the service while it renders a template for a policy."""
    pid = int(shown("MainPID"))
    POLICY.write_text(ENDLESS)
    systemctl("reload", "--no-block", NAME)
    until(lambda: renders(pid), "the process that renders the policy")
    systemctl("stop", NAME)
    return [shown("Result"), found()]


def snapshot_lost():
    """Delete the snapshot, then stop the service; return its exit status, too."""
    (STATE / "snapshot.json").unlink()
    systemctl("stop", NAME)
    return [shown("Result"), found(), shown("ExecMainStatus")]


def state_lost():
    """Delete the state directory, then end the agent at once; return its exit status, too."""
    pid = enforcing()
    # An agent at work makes files meanwhile: the folder would not be empty when it is removed.
    os.kill(pid, signal.SIGSTOP)
    until(lambda: stands_still(pid), "all threads stopped")
    shutil.rmtree(STATE)
    os.kill(pid, signal.SIGCONT)
    return [*killed(pid, signal.SIGTERM), shown("ExecMainStatus")]


def stands_still(pid):
    """Tell whether all threads of a process are stopped (proc(5), status)."""
    threads = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/status")]
    return all("State:\tT" in text for text in threads)


def broken():
    """Have another service's typo in nova.conf, then kill the agent, whose state is elsewhere."""
    CONF.write_text(CONFIGURATION.replace("[iat]\n", f"[iat]\nstate_dir = {ELSEWHERE}\n"))
    pid = enforcing()
    noted = state_pointer.POINTER.read_text()
    there = (ELSEWHERE / "snapshot.json").exists()
    NOVA_CONF.parent.mkdir(exist_ok=True)
    NOVA_CONF.write_text("[DEFAULT\ndebug = true\n")
    seen = killed(pid, signal.SIGKILL)
    NOVA_CONF.unlink()
    return [*seen, noted, there, (ELSEWHERE / "snapshot.json").exists()]


def renders(pid):
    """Tell whether the agent has a policy rendered now."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):  # a thread may end meanwhile
            for child in children.read_text().split():
                if b"iat_nova.agent.policy_child" in Path(f"/proc/{child}/cmdline").read_bytes():
                    return True
    return False


def pauses():
    """Have starts fail; return what systemd's limit is and the arguments of two waits."""
    (UNITS / f"{NAME}.service.d/zz-failing.conf").write_text(FAILING)
    systemctl("daemon-reload")
    systemctl("start", NAME)
    waits = {}
    for count in ("2", "3"):
        until(lambda count=count: shown("NRestarts") == count and waiting(), f"restart {count}")
        waits[count] = waiting()
    systemctl("stop", NAME)
    return [shown("StartLimitIntervalUSec"), waits]


def waiting():
    """Return the command of the unit that waits now, empty when none does."""
    pid = shown("ControlPID")
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return " ".join(map(os.fsdecode, words)).strip() if words[0] == b"sleep" else ""


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


def power_cut():
    """Keep the state directory as it is in the midst of the agent's work."""
    command = ["tar", "-C", STATE.parent, "-cf", DISK, STATE.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1:  # 1: the agent wrote meanwhile, as it does when the power goes
        raise AssertionError(done.stderr)


PARTS = {
    "power cut": power_cut,
    "booted": lambda: systemctl("is-enabled", NAME),
    "killed": lambda: killed(int(shown("MainPID")), signal.SIGKILL),
    "restarted": restarted,
    "in the gap": in_the_gap,
    "nobody came": nobody_came,
    "hung": lambda: killed(int(shown("MainPID")), signal.SIGSTOP),
    "stopped": stopped,
    "snapshot lost": snapshot_lost,
    "state lost": state_lost,
    "broken": broken,
    "pqos": through_libpqos,
    "pauses": pauses,
}


@proves("the service as shipped")
class Service(unittest.TestCase):
    """A test for each kernel: each start costs half a minute in an emulated machine."""

    def setUp(self):
        for program in (
            "/lib/systemd/systemd", SYSCTL, "/usr/bin/systemd-sysusers", "/usr/bin/nsenter",
        ):  # fmt: skip
            if not os.access(program, os.X_OK):
                self.skipTest(f"{program} is not installed")
        subprocess.run(["systemd-sysusers", UNIT.with_name("iat-nova.sysusers")], check=True)
        install()
        shutil.rmtree("/etc/iat-nova", ignore_errors=True)
        Path("/etc/iat-nova").mkdir()
        Path("/etc/iat-nova/node.xml").write_text(GUEST)
        Path("/etc/iat-nova/iat-nova.conf").write_text(WITH_POLICY)
        POLICY.write_text(TEMPLATE)
        Path("/etc/nova/nova.conf").unlink(missing_ok=True)
        (UNITS / f"{NAME}.service.d").mkdir(parents=True)
        shutil.copy(UNIT, UNITS)
        (UNITS / f"{NAME}.service.d/lab.conf").write_text(DROP_IN)
        self.allow_counting()
        Path("/proc/sys/kernel/printk_devkmsg").write_text("on\n")  # all that systemd says
        unmount()
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"], check=True)

    def allow_counting(self):
        """At the kernel's own setting the service may not count; what is installed lets it."""
        who = rights.SHIPPED.existing()
        self.assertEqual(("iat-nova", DEBIANS_OWN), (who.user, PARANOID.read_text().strip()))
        refused = rights.run_as(who, counting)
        self.assertIn(f"perf_event_paranoid = {DEBIANS_OWN}: above 2, CAP_PERFMON may", refused)
        Path("/etc/sysctl.d").mkdir(exist_ok=True)
        shutil.copy(UNIT.with_name("iat-nova.sysctl"), ALLOWED)
        subprocess.run([SYSCTL, ALLOWED], check=True)
        self.assertIsNone(rights.run_as(who, counting))

    def test_restarted_and_stopped(self):
        """As its user, with three capabilities, it enforces; after its end all is as found.

        Across a restart not one mask changes, and who has adopted them restores them at a stop. A
        template is rendered in the sandbox, and a stop does not wait for one without end. Starts
        that fail are repeated without end, after pauses that grow.
        """
        seen = self.see("restarted", "stopped", "pauses")
        self.check_restarted(seen)
        self.assertEqual(["0", {"2": "sleep 5", "3": "sleep 15"}], seen["pauses"])

    def test_lost(self):
        """A lost snapshot, a lost state directory and a broken configuration change nothing."""
        seen = self.see("snapshot lost", "state lost", "broken")
        for part in ("snapshot lost", "state lost"):
            self.assertEqual(["success", self.as_found, "0"], seen[part], f"{part}\n{said()}")
        broken = ["signal", self.as_found, f"{ELSEWHERE}\n", True, False]
        self.assertEqual(broken, seen["broken"], said())
        self.assertRegex(LOG.read_text(), "without the configuration, which cannot be used: .*nova")

    def test_handed_over(self):
        """Who has adopted may be killed; what nobody adopts is restored by systemd."""
        seen = self.see("restarted", "killed", "nobody came")
        self.check_restarted(seen)
        result, left, restored = seen["nobody came"]
        self.assertEqual("success", result)
        self.assertNotEqual(self.as_found, left, said())
        self.assertEqual(self.as_found, restored, said())

    def test_killed_in_the_gap(self):
        """Who is killed in the midst of a restart, before it has adopted, leaves all as found."""
        handed, lay, result, restored = self.see("in the gap")["in the gap"]
        self.assertEqual((True, "signal"), (handed, result), said())
        self.assertNotEqual(self.as_found, lay)
        self.assertEqual(self.as_found, restored, said())

    def check_restarted(self, seen):
        self.assertEqual(1, len(seen["restarted"]["lay"]), f"{seen['restarted']}\n{said()}")
        self.assertEqual(1, len(seen["restarted"]["adopted"]), said())

    def test_hung_and_through_libpqos(self):
        """The same where the loop stands still, and with libpqos's MSR interface."""
        seen = self.see("hung", "pqos")
        text, *stopped = seen["pqos"]
        self.assertTrue(text.startswith("enforcing"), text)
        self.assertEqual(["success", self.as_found], stopped, said())

    @proves("a reboot of the host")
    def test_before_a_reboot(self):
        """The power goes while the agent enforces: its state is kept."""
        self.see("power cut")
        self.assertTrue(DISK.exists())

    @proves("a reboot of the host")
    def test_after_a_reboot(self):
        """An enabled service enforces after a boot, and knows a snapshot of another boot for none.

        What the firmware of this boot has set is what the host has again in the end.
        """
        subprocess.run(["tar", "-C", STATE.parent, "-xf", DISK], check=True)
        self.assertTrue((STATE / "snapshot.json").exists())
        enable = ["systemctl", "--root=/", "--runtime", "enable", NAME]
        subprocess.run(enable, check=True, capture_output=True)
        (UNITS / "boot.target").write_text(BOOT)
        (UNITS / "multi-user.target.wants").rename(UNITS / "boot.target.wants")
        mount()
        (DEFAULT_ROOT / "schemata").write_text("L3:0=1ff\n")
        seen = self.see("booted", "stopped", unit="boot.target")
        self.assertEqual(("enabled-runtime", 0x1FF), (seen["booted"], self.as_found["default"][0]))
        self.assertNotRegex(LOG.read_text(), "had not restored|adopted: |ERROR|Traceback")

    def see(self, *parts, unit="story.service"):
        """Run the parts of the story; check what all ends have in common; return what was seen."""
        self.as_found = as_found = found()
        (UNITS / "story.service").write_text(
            STORY.replace("PARTS", " ".join(f'"{part}"' for part in parts))
        )
        unload_msr()
        systemd = [
            "unshare", "--fork", "--pid", "--mount", "--propagation", "shared", "--mount-proc",
            "env", "container=lab", "/lib/systemd/systemd", "--system", f"--unit={unit}",
            "--log-target=kmsg", "--show-status=no",
        ]  # fmt: skip
        subprocess.run(systemd, timeout=6 * DEADLINE_S, check=False)
        self.assertTrue(SEEN.exists(), said())
        seen = json.loads(SEEN.read_text())
        self.assertNotIn("error", seen, f"{said()}\nthe story ended early: {seen.get('error')}")

        user = str(pwd.getpwnam("iat-nova").pw_uid)
        status = seen["status"]
        self.assertEqual([user] * 4, status["Uid"].split())
        self.assertEqual([str(grp.getgrnam("iat-nova").gr_gid)] * 4, status["Gid"].split())
        for which in ("CapPrm", "CapEff", "CapBnd", "CapAmb"):
            self.assertEqual(CAPABILITIES, int(status[which], 16), which)
        self.assertEqual(("1", "2"), (status["NoNewPrivs"], status["Seccomp"]))
        self.assertEqual(int(user), seen["snapshot"])
        self.assertTrue(seen["text"].startswith("enforcing"), seen["text"])
        self.assertIn(f" ddio: {KNOB} (", seen["log"])

        self.assertNotEqual(as_found["default"], seen["changed"]["default"])
        self.assertNotEqual(0, seen["changed"]["classes"]["1"])
        results = {"killed": "signal", "hung": "watchdog", "stopped": "success"}
        for part in results.keys() & parts:
            self.assertEqual([results[part], as_found], seen[part], said())
        return seen


def main():
    """Tell the story, or why it could not be told to its end."""
    try:
        seen = story(*sys.argv[1:])
    except (AssertionError, OSError, ValueError) as error:
        seen = {"error": f"{type(error).__name__}: {error}"}
    SEEN.write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
