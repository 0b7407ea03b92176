# SPDX-License-Identifier: Apache-2.0
"""Two sockets: each with caches, ways and counters of its own, and the link between them."""

import dataclasses
import pathlib
import tempfile
import unittest

from iat_nova.experiments.engine import cache
from iat_nova.experiments.engine import threads as th
from iat_nova.experiments.engine.layout import number
from iat_nova.experiments.engine.memory import memory_writes
from iat_nova.experiments.runs.run import run
from iat_nova.experiments.scenarios.reader import load_scenario, read_scenario
from iat_nova.experiments.scenarios.scenario import ScenarioError
from iat_nova.hardware.api import ClassMask, HardwareError
from iat_nova.model import WayMask
from iat_nova.store.reader import HistoryReader
from tests.said import raises
from tests.unit.experiments.sim import scenes

# The same forwarder on a processor of the card's socket (2) or of the other (20).
TEXT = """\
length: 10s
sockets: 2
nics:
  nic0: {{address: "0000:3b:00.0", speed: 40Gb/s, socket: 0}}
workloads:
  fwd: {{profile: testpmd, cpus: [{cpu}], nic: nic0, ring: 256}}
  xmem: {{profile: xmem, cpus: [22], working_set: 4MiB}}
traffic:
  fwd: {{to: fwd, rate: 4Gb/s, packet: 512B}}
"""


def totals(machine, domain):
    """Return a socket's counts by name."""
    counts = machine.plant.sockets[domain][0].totals
    return dict(zip(cache.TOTAL_NAMES, (int(n) for n in counts), strict=True))


class TestLink(unittest.TestCase):
    """Where DDIO acts, and what crosses the link."""

    @classmethod
    def setUpClass(cls):
        cls.machines = {cpu: scenes.server(TEXT.format(cpu=cpu)) for cpu in (2, 20)}
        for machine in cls.machines.values():
            machine.watch(range(36))
            scenes.run(machine, 0.01)

    def test_ddio_acts_on_the_cards_socket(self):
        """Whoever receives, the first socket's DDIO counts the packets and the second's none."""
        for cpu, machine in self.machines.items():
            first, second = (machine.read().domains[n] for n in (0, 1))
            self.assertGreater(first.ddio_hits + first.ddio_misses, 0, cpu)
            self.assertEqual(0, second.ddio_hits + second.ddio_misses, cpu)

    def test_a_remote_core_reads_across_the_link(self):
        """Its packets come from the other socket's LLC, which counts as misses of its own."""
        near, remote = (self.machines[cpu].plant.state.caches.served[cpu] for cpu in (2, 20))
        self.assertEqual(0, near[cache.REMOTE])
        self.assertGreater(near[cache.LLC], 0)
        self.assertGreater(remote[cache.REMOTE], near[cache.LLC] / 2)
        done = {cpu: machine.metrics()["fwd"] for cpu, machine in self.machines.items()}
        self.assertGreater(done[20].misses, 10 * max(1.0, done[2].misses))

    def test_a_remote_core_takes_longer(self):
        """It stalls longer for each line of a packet."""
        stalls = {}
        for cpu, machine in self.machines.items():
            (thread,) = machine.plant.threads["fwd"]
            t = machine.plant.state.threads
            row = t.inputs[t.ints[thread, th.INTS.inputs], th.INPUT.stalls]
            stalls[cpu] = t.stalls[row, number("PACKET")]
        self.assertGreater(stalls[20], 1.5 * stalls[2])

    def test_what_was_read_is_written_back(self):
        """Lines read across the link are written back; without a remote core none are."""
        # testpmd would take the line away, as it writes to it.
        reader = TEXT.replace("testpmd", "touch")
        machines = {cpu: scenes.server(reader.format(cpu=cpu)) for cpu in (2, 20)}
        for machine in machines.values():
            scenes.run(machine, 0.01)
        cleaned = totals(machines[20], 1)["cleaned"]
        self.assertGreater(cleaned, 0)
        self.assertGreaterEqual(memory_writes(machines[20].plant.sockets[1][0]), cleaned)
        self.assertEqual(0, totals(machines[2], 1)["cleaned"])

    def test_each_memory_has_its_own_load(self):
        """X-Mem on the second socket loads that one's memory and not the first's."""
        loads = [float(memory.load[0]) for _, memory in self.machines[2].plant.sockets]
        self.assertGreater(loads[1], 2 * loads[0])


class TestKnobs(unittest.TestCase):
    """Ways are set for each socket."""

    def test_domains_are_apart(self):
        """A mask or DDIO's ways of one domain leave the other's as they are."""
        machine = scenes.server(TEXT.format(cpu=2))
        self.assertEqual([(0, 0, 17), (1, 18, 35)], [
            (domain.id, domain.cpus[0], domain.cpus[-1]) for domain in machine.domains()
        ])  # fmt: skip
        machine.apply(1, (ClassMask("a", (22,), WayMask(0x3)),))
        machine.write(1, WayMask(0x780))
        self.assertEqual([{}, {"a": 0x3}], [dict(machine.effective(n)) for n in (0, 1)])
        self.assertEqual([0x600, 0x780], [machine.read(n) for n in (0, 1)])
        self.assertEqual([0x600, 0x780], [d.ddio_found for d in machine.domains()])
        self.assertEqual("a", machine.class_of(22))
        machine.apply(0, ())
        self.assertEqual("a", machine.class_of(22))
        with self.assertRaises(HardwareError):
            machine.read(2)


class TestScenario(unittest.TestCase):
    """What a file says of sockets."""

    def test_facts(self):
        """A guest is on its processors' NUMA node, its VF on the card's."""
        scenario = load_scenario("two-sockets-remote-vf")
        facts = scenario.facts()
        self.assertEqual(2, len(facts.host.domains))
        remote = next(guest for guest in facts.guests if guest.display_name == "remote")
        self.assertEqual(((1,), 0), (remote.numa_nodes, remote.attachments[0].numa_node))

    def test_refusals(self):
        """A socket that is not there, and more processors than can be kept apart, are refused."""
        good = TEXT.format(cpu=2)
        for old, new, said in (
            ("socket: 0", "socket: 2", "nics.nic0.socket: invalid value 2: expected 0, 1"),
            ("cpus: [22]", "cpus: [36]", "expected a list of CPUs, 0 to 35"),
            (
                "sockets: 2",
                "sockets: 2\nmachine: gold-6338",
                "sockets: invalid number: expected 1 for gold-6338",
            ),
        ):
            with raises(self, ScenarioError, said):
                read_scenario(good.replace(old, new), "x", "x.yaml")


class TestAgent(unittest.TestCase):
    def test_a_loop_a_socket(self):
        """The real loop decides for both sockets, the remote guest is warned of its far VF."""
        scenario = dataclasses.replace(load_scenario("two-sockets-remote-vf"), compression=0.002)
        with tempfile.TemporaryDirectory(prefix="iat-two-") as folder:
            path = pathlib.Path(folder) / "history.sqlite"
            run(scenario, seconds=4.0, history_path=path)
            with HistoryReader(path) as reader:
                self.assertEqual([0, 1], sorted(reader.domains()))
                last = [*reader.between(0.0, 1e12, 1)][-1].iteration
                tenants = reader.inventory(last.inventory_id).domains[1].tenants
        self.assertLessEqual({"remote", "remote-neighbour"}, {t.name for t in tenants})
        elsewhere = "device-elsewhere"
        warned = [t.name for t in tenants if elsewhere in [one.code for one in t.warnings]]
        self.assertEqual(["remote"], warned)
