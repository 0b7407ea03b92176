# SPDX-License-Identifier: Apache-2.0
"""The agent as an operator runs it: real libvirtd, real ovsdb-server, an emulated machine."""

import contextlib
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from iat_nova.store.database import HistoryError
from iat_nova.store.reader import HistoryReader
from tests.functional import host_case
from tools import demo_host

BIN = pathlib.Path(sys.executable).parent
DEADLINE_S = 180.0  # a limit for a busy machine: an idle one needs seconds


class HostCase(host_case.HostCase, unittest.TestCase):
    """One host with guests of the quick start's kind, and an emulated machine."""

    options = {
        "hardware": "emulated", "emulated_scenario": "quickstart", "emulated_seconds": 600,
    }  # fmt: skip

    @property
    def history(self) -> pathlib.Path:
        """Where the agent writes."""
        return self.state / "history.sqlite"


class AgentTest(HostCase):
    """The agent process, from its start to its end."""

    def start(self, config: pathlib.Path) -> subprocess.Popen[str]:
        """Start the agent and end it with the test."""
        agent = subprocess.Popen(
            [BIN / "iat-nova-agent", "--config-file", config], stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(agent.stderr.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        return agent

    def until(self, condition, what: str):
        """Wait until the history shows something and return that."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(HistoryError), HistoryReader(self.history) as reader:
                if found := condition(reader):
                    return found
            time.sleep(0.05)
        raise AssertionError(f"not seen within {DEADLINE_S:.0f} s: {what}")

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run iat-nova."""
        return subprocess.run(
            [BIN / "iat-nova", "--state-dir", self.folder / "state", *arguments],
            capture_output=True,
            text=True,
            check=False,
        )

    def ask(self, *arguments: str):
        """Run iat-nova and return its JSON."""
        done = self.command(*arguments, "-f", "json")
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def names(self, reader) -> set[str]:
        latest = reader.latest(0)
        if latest is None:
            return set()
        inventory = reader.inventory(latest.iteration.inventory_id)
        return {tenant.name for tenant in inventory.domains[0].tenants}

    def end(self, agent: subprocess.Popen[str]) -> str:
        """End the agent as a service manager does; return what it logged."""
        agent.send_signal(signal.SIGTERM)
        _, log = agent.communicate(timeout=DEADLINE_S)
        self.assertEqual(0, agent.returncode, log)
        self.assertNotIn("Traceback", log)
        return log

    def test_the_host_is_seen_and_followed(self) -> None:
        """Of one agent: what is found, what changes, and that a second agent refuses."""
        config = self.configure()
        agent = self.start(config)
        self.until(lambda reader: "web" in self.names(reader), "the first decision")
        self.every_tenant_was_found()
        self.a_guest_comes_and_goes()
        self.ovsdb_is_followed()
        self.a_second_agent_refuses(agent, config)
        self.end(agent)

    def every_tenant_was_found(self) -> None:
        """See every guest with its priority, its CPUs and how it meets the network."""
        tenants = {tenant["name"]: tenant for tenant in self.ask("tenants")}
        seen = {
            name: (one["priority"], one["io"], one["cpus"], one["model"])
            for name, one in tenants.items()
        }
        self.assertEqual(
            {
                "vswitch": ("stack", True, [2, 3], "aggregation"),
                "web": ("PC", True, [4, 5], "slicing"),
                "router": ("PC", True, [6, 7], "aggregation"),
                "db": ("PC", False, [8, 9], "none"),
                "batch": ("BE", False, [10, 11], "none"),
                "pool": ("BE", False, [12, 13, 14, 15], "none"),
                "host": ("BE", False, [0, 1, 16, 17], "none"),
            },
            seen,
        )
        self.assertEqual(demo_host.GUESTS[0].uuid, tenants["web"]["uuid"])

    def a_guest_comes_and_goes(self) -> None:
        """See events of libvirt followed: its ways are there at once, and given up with it."""
        domain = self.connection.lookupByName("instance-00000003")
        domain.destroy()
        self.until(lambda reader: "db" not in self.names(reader), "db gone")
        started = time.monotonic()
        domain.create()
        self.until(lambda reader: "db" in self.names(reader), "db back")
        self.assertLess(time.monotonic() - started, 5.0)

    def ovsdb_is_followed(self) -> None:
        """See another PMD mask move the stack to other CPUs."""
        self.addCleanup(self.set_pmd_mask, demo_host.PMD_CPU_MASK)
        self.set_pmd_mask("0x4")

        def moved(reader):
            inventory = reader.inventory(reader.latest(0).iteration.inventory_id)
            stack = next(t for t in inventory.domains[0].tenants if t.id == "stack")
            return stack.cpus == (2,)

        self.until(moved, "the stack on CPU 2 alone")

    def a_second_agent_refuses(self, agent: subprocess.Popen[str], config: pathlib.Path) -> None:
        """See that two do not fight for the cache: the first one is named and goes on."""
        second = self.start(config)
        _, log = second.communicate(timeout=DEADLINE_S)
        self.assertEqual(os.EX_TEMPFAIL, second.returncode)
        self.assertIn(str(agent.pid), log)
        self.assertIsNone(agent.poll())

    def set_pmd_mask(self, mask: str) -> None:
        self.ovs.vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={mask}")

    def test_its_log_goes_where_nova_conf_says(self) -> None:
        """[DEFAULT] debug and log_dir, what is logged is in that file alone."""
        logs = self.folder / "logs"
        logs.mkdir()
        config = self.configure()
        with config.open("a") as file:
            file.write(f"[DEFAULT]\ndebug = true\nlog_dir = {logs}\n")
        agent = self.start(config)
        log = logs / "iat-nova-agent.log"
        self.until(lambda _: re.search("DEBUG .* domain 0 #", log.read_text()), "an iteration")
        self.assertEqual("", self.end(agent))
        text = log.read_text()
        form = r"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}} {} {} iat_nova\S* \[-\] .*"
        for level, said in (
            ("DEBUG", "Settings("),
            ("DEBUG", "domain 0 #"),
            ("INFO", f"configuration: {config}\n"),
        ):
            self.assertRegex(text, form.format(agent.pid, level) + re.escape(said))
        every = re.compile(form.format(agent.pid, "[A-Z]+"))
        self.assertEqual([], [line for line in text.splitlines() if not every.match(line)])

    def test_a_broken_policy_refuses_the_start(self) -> None:
        """The line is named, nothing is started."""
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters:\n  interval: soon\n")
        agent = self.start(self.configure(policy_file=policy))
        _, log = agent.communicate(timeout=DEADLINE_S)
        self.assertEqual(os.EX_CONFIG, agent.returncode)
        self.assertRegex(log, r"policy\.yaml:2|line 2")
        self.assertNotIn("Traceback", log)
        self.assertFalse(self.history.exists())

    def test_a_broken_policy_is_not_reloaded(self) -> None:
        """A reload fails with a broken file, which keeps the old policy; a mended one wins."""
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters:\n  interval: 500ms\n")
        agent = self.start(self.configure(policy_file=policy))
        self.until(lambda reader: "web" in self.names(reader), "the first decision")
        policy.write_text("parameters:\n  interval: soon\n")
        for _ in range(2):
            refused = self.command("reload")
            self.assertEqual(1, refused.returncode)
            self.assertRegex(refused.stderr, r"reload failed, .*policy\.yaml: line 2: .*interval")
        (problem,) = self.ask("status")["problems"]
        self.assertEqual("policy-invalid", problem["code"])
        policy.write_text("parameters:\n  interval: 250ms\n")
        reloaded = self.command("reload")
        self.assertEqual((0, ""), (reloaded.returncode, reloaded.stderr))
        self.assertEqual(0.25, self.ask("status")["interval_s"])
        self.assertIn("keeping previous policy", self.end(agent))

    def test_a_hold_outlasts_agent_and_guest(self) -> None:
        """It is applied at once, to the guest's next run, and at the agent's next start."""
        for start in range(2):
            agent = self.start(self.configure())
            self.until(functools.partial(self.speaks, agent), "its first decision")
            if not start:
                done = self.command("hold", "instance-00000003", "--ways=3", "--reason=import")
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                self.until(self.held, "db held")
                domain = self.connection.lookupByName("instance-00000003")
                domain.destroy()
                self.until(lambda reader: "db" not in self.names(reader), "db gone")
                domain.create()
            self.until(self.held, "db held, again")
            self.assertEqual(0, self.command("explain", "--verify").returncode)
            account = self.ask("explain", "db")
            self.assertEqual((True, 3), (account["here"], account["domains"][0]["ways"]))
            self.assertRegex(account["reason"], "PC by extra spec")
            self.end(agent)

    def speaks(self, agent: subprocess.Popen[str], reader: HistoryReader) -> bool:
        """Whether what was recorded last is this agent's."""
        said = reader.status()
        return said is not None and said.status.pid == agent.pid and reader.latest(0) is not None

    def held(self, reader) -> bool:
        """Whether the guest db has three ways, by its bounds and by its mask."""
        latest = reader.latest(0)
        if latest.iteration.wall_s < reader.status().status.started_s:
            return False  # an earlier agent's
        inventory = reader.inventory(latest.iteration.inventory_id).domains[0]
        db = [one for one in inventory.tenants if one.name == "db" and one.ways.held]
        masks = latest.iteration.effective or {}
        return [masks[one.id].count for one in db if one.id in masks] == [3]

    def test_ended_while_a_policy_is_rendered(self) -> None:
        """SIGTERM does not wait for a template without end: the agent ends at once, in order."""
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters:\n  interval: {{ 250 * 2 }}ms\n")
        agent = self.start(self.configure(policy_file=policy))
        self.until(lambda reader: "web" in self.names(reader), "the first decision")
        policy.write_text(
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
        )
        agent.send_signal(signal.SIGHUP)
        child = self.until(lambda reader: self.child(agent), "the process that renders")
        self.addCleanup(self.kill, child)
        self.assertIn("agent stopped", self.end(agent))
        command = pathlib.Path(f"/proc/{child}/cmdline").read_text()  # it still renders
        self.assertIn("iat_nova.agent.policy_child", command)

    def child(self, agent: subprocess.Popen[str]) -> int | None:
        """Return the process in which the agent has a policy rendered, None when there is none."""
        for task in pathlib.Path(f"/proc/{agent.pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError):  # a thread may end meanwhile
                for pid in (task / "children").read_text().split():
                    if (
                        "iat_nova.agent.policy_child"
                        in pathlib.Path(f"/proc/{pid}/cmdline").read_text()
                    ):
                        return int(pid)
        return None

    def kill(self, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def test_one_line_a_decision_and_one_for_each_reason_for_none(self) -> None:
        """The log has a line for each decision, and after it one for each reason to do nothing."""
        config = self.configure(emulated_pace=0, emulated_seconds=20, strategy="iat")
        agent = self.start(config)
        _, log = agent.communicate(timeout=DEADLINE_S)
        self.assertEqual(0, agent.returncode, log)
        with HistoryReader(self.history) as reader:
            iterations = [one.iteration for one in reader.between(0, 1e12, 0)]
        told, expected = set(), []
        for one in iterations:
            codes = tuple(why.code for why in one.decision.why)
            told = set() if one.eventful else told
            if one.eventful or codes not in told:
                expected.append(one.decision.iteration)
            told |= set() if one.eventful else {codes}
        self.assertLess(len(expected), len(iterations))
        self.assertEqual(expected, [int(one) for one in re.findall(r"domain 0 #(\d+)", log)])

    def test_observing(self) -> None:
        """mode = observe decides and writes nothing."""
        agent = self.start(self.configure(mode="observe", emulated_pace=0, emulated_seconds=5))
        agent.communicate(timeout=DEADLINE_S)
        with HistoryReader(self.history) as reader:
            iterations = [one.iteration for one in reader.between(0, 1e12, 0)]
            self.assertEqual("observe", reader.status().status.mode)
        self.assertGreaterEqual(len(iterations), 5)
        self.assertTrue(all(one.effective is None for one in iterations))

    def test_wrong_configurations_are_one_sentence(self) -> None:
        """What, where, what to do; an exit status of its kind; no traceback."""
        cases = {
            "no such scenario": ({"emulated_scenario": "nowhere"}, 78),
            "no such strategy": ({"strategy": "magic"}, 78),
            "an unusable folder": ({"state_dir": "/proc/nowhere"}, 1),
        }
        agents = {}
        for name, (options, _) in cases.items():
            # At the same time: each needs a second to see what it was given.
            config = self.configure(**{"state_dir": self.folder / name, **options})
            config = config.rename(self.folder / f"{name}.conf")
            agents[name] = self.start(config)
        for name, (_, status) in cases.items():
            with self.subTest(name):
                agent = agents[name]
                _, log = agent.communicate(timeout=DEADLINE_S)
                self.assertEqual(status, agent.returncode, log)
                self.assertTrue(log.startswith("iat-nova-agent: "), log)
                self.assertNotIn("Traceback", log)


WITHOUT_SIMULATOR = """
import re, sys, threading
from iat_nova import conf
from iat_nova.agent import sources, wiring
from iat_nova.agent.ownership import Ownership
from iat_nova.hardware.host.machine import Machine
from iat_nova.experiments.times import fake
from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times.software import SOFTWARE
from iat_nova.hardware.counters.perf_event import EventGroup
from iat_nova.report.log import LogLanguage
from iat_nova.hardware.counters.perf import PerfCounters

settings = conf.load([sys.argv[1]])
clock = SystemClock()
counters = PerfCounters(SOFTWARE, clock, open_group=lambda events, cpu: EventGroup(events, 0))
machine = Machine(counters, fake.FakeAllocator(), fake.FakeDdio(), clock)
host = sources.host_reader(settings, machine)
source = sources.inventory(settings, host, clock)
agent = wiring.agent(settings, Ownership(machine), source, host, LogLanguage())
source.start()
iterate, iterations = agent.iterate, []
def counted():
    iterate()
    iterations.append(len(agent.tenants[0].tenants))
    if iterations.count(16) == 5:
        agent.stop()
agent.iterate = counted
agent.run(clock.now() + 60)
source.close()
assert "numpy" not in sys.modules
# Not getrusage's: that one counts what the parent had before it became this program.
(peak,) = re.findall(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(iterations[-1], int(peak) // 1024)
"""


class MemoryTest(HostCase):
    """What the agent takes on a compute host with sixteen tenants."""

    guests = tuple(
        demo_host.Guest(number, f"guest{number}", "m1", {"hw:cpu_policy": "dedicated"}, (cpu,), "")
        for number, cpu in enumerate(range(4, 18), start=1)
    )
    dedicated = "4-17"

    def test_resident_memory(self) -> None:
        """At most 120 MB with real libvirt and OVSDB, perf descriptors, and no simulator."""
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters:\n  interval: 250ms\n")
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_SIMULATOR, self.configure(policy_file=policy)],
            capture_output=True,
            text=True,
            check=False,
        )
        if "CAP_PERFMON" in done.stderr:
            self.skipTest("perf events may not be opened here: not root, or a container")
        self.assertEqual(0, done.returncode, done.stderr)
        tenants, megabytes = map(int, done.stdout.split())
        self.assertEqual(16, tenants)
        self.assertLessEqual(megabytes, 120)
