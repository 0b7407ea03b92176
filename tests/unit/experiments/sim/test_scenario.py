# SPDX-License-Identifier: Apache-2.0
"""Scenario files: what they mean, and what is said of wrong ones."""

import importlib.metadata
import pathlib
import pickle
import tempfile
import unittest
from importlib.metadata import EntryPoint
from unittest import mock

from iat_nova.common import plugins
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.scenarios.scenario import ScenarioError
from iat_nova.experiments.scenarios.shipped import heads, shipped
from iat_nova.experiments.server.server import EmulatedServer
from iat_nova.model import AttachmentKind
from tests.said import codes, raises, sentence

GOOD = """\
length: 10s
nics:
  nic0: {address: "0000:3b:00.0", speed: 40Gb/s}
workloads:
  ovs: {profile: ovs, cpus: [0], nic: nic0}
  vm: {profile: virtio-forward, cpus: [2], switch: ovs}
  xmem: {profile: xmem, cpus: [3], working_set: 2MiB}
traffic:
  vm: {to: vm, rate: 1Gb/s, packet: 64B}
"""


def problems(text):
    try:
        read_scenario(text, "x", "x.yaml")
    except ScenarioError as error:
        return sentence(error).splitlines()
    return []


class TestProblems(unittest.TestCase):
    """Every problem has its line and its path."""

    CASES = (
        ("length: 10s", "length: soon", "line 1: length: invalid value .*: expected a duration"),
        (
            '"0000:3b:00.0"',
            "3b:00.0",
            'line 3: nics.nic0.address: invalid value "3b:00.0": expected a PCI address such as 0',
        ),
        (
            "speed: 40Gb/s",
            "speed: 40",
            "line 3: nics.nic0.speed: invalid value .*: expected a rate such as 8Gb/s",
        ),
        (
            "profile: xmem",
            "profile: xmen",
            "line 7: workloads.xmem.profile: invalid value .*: expected .* mean xmem",
        ),
        (
            "profile: xmem",
            "profile: [xmem]",
            "line 7: workloads.xmem.profile: invalid value .*: expected ",
        ),
        (
            "cpus: [3]",
            "cpus: [18]",
            r"line 7: workloads.xmem.cpus: invalid value \[18\]: expected .* 0 to 17",
        ),
        ("cpus: [3]", "cpus: [2]", "line 7: workloads.xmem.cpus: CPU 2 runs vm already"),
        (
            "cpus: [3]",
            "cpus: [yes]",
            "line 7: workloads.xmem.cpus: invalid value .*: expected a list of",
        ),
        ("switch: ovs", "nic: nic7", "line 6: workloads.vm.nic: invalid value .*: expected nic0"),
        (", switch: ovs", "", "line 6: workloads.vm: virtio-forward needs nic or switch"),
        ("cpus: [3],", "cpus: [3], nic: nic0,", "line 7: workloads.xmem.nic: xmem has no network"),
        ("working_set", "workingset", "line 7: .* unknown key; did you mean working_set"),
        (
            "2MiB",
            "2GiB",
            "line 7: workloads.xmem.working_set: invalid value .2GiB.: expected a size .* from 4",
        ),
        ("to: vm,", "to: xmem,", "line 9: traffic.vm.to: invalid value .*: expected ovs, vm"),
        ("rate: 1Gb/s", "rate: 41Gb/s", "line 9: traffic.vm.rate: more than nic0 can carry"),
        ("to: vm, ", "", "line 9: traffic.vm: the key to is missing"),
        ("64B}", "64B}\nevents: [{at: 1s, set: xmem.rate, to: 1}]", "line 10: events.0..set: "),
        (
            "64B}",
            "64B}\nevents: [{at: 1s, set: traffic.mv.rate, to: 1Gb/s}]",
            "line 10: events.0..set: invalid value .traffic.mv.rate.: .* mean traffic.vm.rate",
        ),
        ("64B}", "64B}\nevents: [{at: 1s, set: xmem.duty, to: 9}]", "line 10: events.0..to: "),
        ("64B}", "64B}\nevents: [{at: 1s, set: ddio.ways, to: 12}]", "line 10: .* 11 ways"),
        (
            "64B}",
            "64B}\nmasks: {xmem: 0x5}",
            "line 10: masks.xmem: invalid mask: expected a contiguous mask",
        ),
        ("64B}", "64B}\npolicy: {speed: 3}", "line 10: policy.speed: unknown key"),
        (
            "64B}",
            "64B}\npolicy: {ddio_ways_min: x}",
            'line 10: policy.ddio_ways_min: invalid value "x": ',
        ),
        ("64B}", "64B}\npolicy: {interval_s: 5s}", "line 10: policy.interval_s: unknown key"),
        (
            "64B}",
            "64B}\npolicy:\n  ddio_ways_max: 2\n  ddio_ways_min: 9",
            "line 12: policy.ddio_ways_min: invalid value 9: expected up to ddio_ways_max, which",
        ),
        (
            "64B}",
            "64B}\npolicy: {ddio_ways_max: 12}",
            "line 10: policy.ddio_ways_max: invalid value 12: ",
        ),
        (
            "64B}",
            '64B}\nguests: [{name: a, uuid: u, extra_specs: {"iat:priority": XX}}]',
            "line 10: guests.0..extra_specs..iat:priority..: iat:priority='XX' is not used",
        ),
        (
            "64B}",
            '64B}\nguests: [{name: a, uuid: u, extra_specs: {"iat:llc_ways": 3, '
            '"iat:llc_ways_max": 2}}]',
            "line 10: guests.0..extra_specs: iat:llc_ways_max=2 is not",
        ),
        (
            "64B}",
            "64B}\nevents: [{at: 1s, set: traffic.vm.rate, to: 41Gb/s}]",
            "line 10: events.0..to: more than nic0 can carry",
        ),
        (
            "64B}",
            "64B}\nevents: [{at: 10s, set: xmem.duty, to: 9%}]",
            "line 10: events.0..at: the scenario is over then: its length is 10 s",
        ),
        (
            "64B}",
            "64B}\nguests: [{name: a, uuid: u, arrives: 10s}]",
            "line 10: guests.0..arrives: the scenario is over then: its length is 10 s",
        ),
        (
            "64B}",
            "64B}\nguests: [{name: a, uuid: u, leaves: 11s}]",
            "line 10: guests.0..leaves: the scenario is over then: its length is 10 s",
        ),
        (
            "64B}",
            "64B}\nrestarts: [10s]",
            "line 10: restarts.0.: invalid time: expected .* before the end",
        ),
        (
            "64B}",
            "64B}\nrestarts: [3s, 3s]",
            "line 10: restarts.1.: invalid time: expected a time after the restart",
        ),
        (
            "64B}",
            "64B}\nevents: [{at: 1s, set: vm.duty, to: 9%}]",
            "line 10: events.0..set: virtio-forward does not use duty",
        ),
        ("profile: xmem", "profile: mcf", "line 7: workloads.xmem.working_set: mcf does not use"),
        ("cpus: [3],", "cpus: [3], ring: 64,", "line 7: workloads.xmem.ring: xmem does not use it"),
        ("cpus: [2],", "cpus: [2], duty: 9%,", "line 6: workloads.vm.duty: virtio-forward does no"),
        ("64B}", "64B}\nmachine: i486", "line 10: machine: invalid value .*: expected gold-6140"),
        (
            "64B}",
            "64B}\nguests: [{name: a, uuid: u}, {name: a, uuid: v}]",
            "line 10: guests.1..name: guests.0. has it already",
        ),
        (
            "cpus: [3], working_set: 2MiB}",
            "cpus: [3, 4], working_set: 2MiB}\nguests: [{name: a, uuid: u, cpus: [3]}]",
            "line 7: workloads.xmem.cpus: CPU 4 is not a CPU of guest a, the rest are",
        ),
        ("64B}", "64B}\nguests: [{name: a}]", "line 10: guests.0.: the key uuid is missing"),
        ("nics:", "\tnics:", "line 2: invalid tab"),
        (
            "profile: ovs",
            "profile: vso",
            "line 5: workloads.ovs.profile: invalid value .*: expected xmem, .* mean ovs",
        ),
        ("profile: ovs, cpus: [0]", "profile: l3fwd, cpus: [0]", "line 6: .* expected nothing, as"),
    )

    def test_a_problem_is_a_message(self):
        """Codes and values, also of a keyword of the schema of scenarios; no sentence yet."""
        with self.assertRaises(ScenarioError) as caught:
            read_scenario("length: 1s\nworkloads: {a: {cpus: [x]}}\n", "x", "x.yaml")
        found = pickle.loads(pickle.dumps(caught.exception)).message  # as from another process
        self.assertEqual(caught.exception.message, found)
        self.assertEqual("problems", found.code)
        self.assertIn(
            ("of-source", "in-line", "at-path", "not-allowed", "verbatim", "verbatim"),
            list(map(codes, found.values["problems"])),
        )

    def test_each_mistake_is_named_with_line_and_path(self):
        """One mistake gives one line of text that tells where it is and what is allowed."""
        self.assertEqual([], problems(GOOD))
        for right, wrong, expected in self.CASES:
            with self.subTest(wrong):
                found = problems(GOOD.replace(right, wrong, 1))
                self.assertEqual(1, len(found), found)
                self.assertRegex(found[0], "^x.yaml: " + expected)

    def test_a_guest_with_dedicated_and_shared_cpus(self):
        """Its workload may run on both; on CPUs that float alone, beside others' workloads."""
        for cpus, guest, count in (
            ("3, 4", "cpus: [3], floating: [4]", 0),
            ("3, 4", "floating: [4]", 0),
            ("3, 4, 5", "cpus: [3], floating: [4]", 1),
        ):
            with self.subTest(cpus=cpus, guest=guest):
                text = GOOD.replace("cpus: [3],", f"cpus: [{cpus}],")
                text += f"guests: [{{name: a, uuid: u, {guest}}}]\n"
                self.assertEqual(count, len(problems(text)), problems(text))

    def test_a_mistake_has_no_others_in_tow(self):
        """An event that sets the rate of traffic with a mistake of its own is right."""
        text = GOOD + "events: [{at: 1s, set: traffic.vm.rate, to: 2Gb/s}]\n"
        wrong = (("40Gb/s", "40"), ("1Gb/s", "1"), ("64B", "1B"), ("nic: nic0", "nic: nic1"))
        for right, one in wrong:
            with self.subTest(one):
                self.assertEqual(1, len(problems(text.replace(right, one, 1))))

    def test_strategies_of_packages(self):
        """A strategy of an installed package is as good as a built-in one."""
        point = EntryPoint("theirs", "iat_nova.model:Layout", plugins.STRATEGIES)
        with mock.patch.object(importlib.metadata, "entry_points", return_value=[point]):
            self.assertEqual([], problems(GOOD + "strategy: theirs\n"))
        self.assertEqual(1, len(problems(GOOD + "strategy: theirs\n")))

    def test_nothing_runs(self):
        """A scenario without workloads is refused."""
        (problem,) = problems("length: 10s\nworkloads: {}\n")
        self.assertIn(
            "line 2: workloads: invalid empty value: expected at least one entry", problem
        )

    def test_events_share_a_card(self):
        """Rates of all traffic of a card count together, after all events of a moment."""
        text = GOOD + (
            "  ovs: {to: ovs, rate: 30Gb/s, packet: 64B}\n"
            "events:\n"
            "  - {at: 2s, set: traffic.vm.rate, to: 30Gb/s}\n"
            "  - {at: 2s, set: traffic.ovs.rate, to: 1Gb/s}\n"
        )
        self.assertEqual([], problems(text))
        (problem,) = problems(text + "  - {at: 1s, set: traffic.vm.rate, to: 11Gb/s}\n")
        self.assertIn("line 14: events[2].to: more than nic0 can carry", problem)

    def test_a_card_that_is_to_be_overloaded(self):
        """With `overload` more than a card's speed may be sent to it, at once and by events."""
        text = GOOD.replace("rate: 1Gb/s", "rate: 41Gb/s")
        text += "events: [{at: 1s, set: traffic.vm.rate, to: 80Gb/s}]\n"
        self.assertEqual(2, len(problems(text)))
        self.assertEqual([], problems(text.replace("speed: 40Gb/s", "speed: 40Gb/s, overload: on")))

    def test_the_policys_parameters(self):
        """The keys of the policy's own parameters, in its units, become the controller's."""
        text = GOOD + "policy: {interval: 500ms, ddio_ways_max: 4}\n"
        policy = read_scenario(text, "x", "x.yaml").policy
        self.assertEqual({"interval_s": 0.5, "ddio_ways_max": 4}, policy)

    def test_a_backlog_fills_the_ring_up_to_a_power_of_two(self):
        """512 descriptors and 1,536 that wait are 2,048 slots; 1,000 that wait are refused."""
        app = "  app: {profile: netperf, cpus: [5], nic: nic0, ring: 512, backlog: 1536}\n"
        text = GOOD.replace("traffic:\n", app + "traffic:\n")
        self.assertEqual([], problems(text))
        (problem,) = problems(text.replace("1536", "1000"))
        self.assertIn("app.backlog: must be a power of two together with the ring", problem)

    def test_all_mistakes_are_told_at_once(self):
        """Three mistakes are three lines, in the order of the file."""
        text = GOOD.replace("10s", "-1").replace("40Gb/s", "fast").replace("64B", "3kB")
        found = problems(text)
        self.assertEqual([1, 3, 9], [int(line.split("line ")[1].split(":")[0]) for line in found])

    def test_files_that_are_not_there(self):
        """An unknown name tells which ship; an unreadable file tells why."""
        with raises(self, ScenarioError, "there are: .*quickstart"):
            load_scenario("quickstrat")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "none.yaml"
            with raises(self, ScenarioError, "none.yaml: cannot be read"):
                load_scenario(path)
            path.write_bytes(b"\xff")
            with raises(self, ScenarioError, "cannot be read: it is not text in UTF-8"):
                load_scenario(path)
            path.write_bytes(b"\xff\xfe\x00")
            with raises(self, ScenarioError, "none.yaml: cannot be read"):
                load_scenario(path)


class TestShipped(unittest.TestCase):
    """The scenarios in the package."""

    def test_all_can_be_read_and_started(self):
        """Each is right, and its machine can be built."""
        for name in shipped():
            with self.subTest(name):
                self.assertEqual(0.0, EmulatedServer(load_scenario(name)).now())

    def test_heads(self):
        """The head of a file, read alone, is that of the scenario."""
        for one in heads():
            whole = load_scenario(one.scenario)
            self.assertEqual(
                (whole.title, whole.length_s, whole.machine.name),
                (one.title, one.length_s, one.machine),
            )

    def test_processors_of_guests_and_workloads_agree(self):
        """A workload runs on processors of one guest or of the switch."""
        for name in shipped():
            scenario = load_scenario(name)
            owners = [{*g.dedicated_cpus, *g.floating_cpus} for g in scenario.guests]
            owners += [set(scenario.switch.pmd_cpus)] if scenario.switch else []
            for workload in scenario.workloads:
                with self.subTest(f"{name}: {workload.name}"):
                    self.assertEqual(1, sum(set(workload.cpus) <= cpus for cpus in owners))

    def test_facts_of_the_quick_start(self):
        """Its facts show six tenants as an inventory would."""
        facts = load_scenario("quickstart").facts()
        names = [guest.display_name for guest in facts.guests]
        self.assertEqual(["web", "router", "db", "batch", "dev"], names)
        web = facts.guests[0]
        self.assertEqual((4, 5), web.dedicated_cpus)
        self.assertEqual("true", web.extra_specs["iat:io"])
        self.assertEqual(AttachmentKind.VF, web.attachments[0].kind)
        self.assertEqual("0000:3b:00.0", web.attachments[0].pf)
        self.assertEqual((2, 3), facts.switch.pmd_cpus)
        self.assertEqual((12, 13, 14, 15), facts.guests[4].floating_cpus)
        self.assertEqual(100.0, facts.host.nics[0].speed_gbps)
