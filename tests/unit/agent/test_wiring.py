# SPDX-License-Identifier: Apache-2.0
"""The reader of a host's facts, and the policy of an agent that starts."""

import dataclasses
import shutil
import unittest
from unittest import mock

from iat_nova import conf
from iat_nova.agent import policy_file, sources, wiring
from iat_nova.agent.loop import Agent
from iat_nova.agent.ownership import Ownership
from iat_nova.common.clock import SystemClock
from iat_nova.experiments.times import fake
from iat_nova.experiments.times.steady import SteadyInventory
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.host.machine import Machine
from iat_nova.model import WayMask, message, verbatim
from iat_nova.policy import PolicyError, Problem
from iat_nova.report import sentences
from iat_nova.report.log import LogLanguage
from tests.unit.hardware import trees


class PlatformTest(unittest.TestCase):
    """A machine by name, in the place of this host."""

    def test_a_platform_that_nobody_registered(self) -> None:
        """The name is told; this host is not opened instead."""
        settings = dataclasses.replace(conf.load([]), hardware="moon")
        with self.assertRaises(conf.ConfigError) as caught:
            sources.machine(settings)
        self.assertEqual(message("platform-absent", name="moon"), caught.exception.message)


class HostReaderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = trees.folder(self)
        self.cpus = trees.Cpus(folder / "devices/system/cpu")
        self.tree = trees.KernelTree(folder / "resctrl", self.cpus)
        (folder / "bus/pci/devices").mkdir(parents=True)
        for cpu in (2, 3):
            self.tree.unplug(cpu)
        settings = dataclasses.replace(conf.load([]), sysfs_root=folder)
        masks = iter((WayMask(0x600), WayMask(0x700), WayMask(0x7C0)))
        allocator = Resctrl(
            self.tree,
            self.cpus.topology,
            complete=lambda domain: dataclasses.replace(domain, ddio_found=next(masks)),
        )
        self.read = sources.host_reader(
            settings, Machine(mock.Mock(), allocator, mock.Mock(), SystemClock())
        )

    def test_processors_that_come_later(self) -> None:
        """Whoever was offline at the start is in the domain once it is online."""
        self.assertEqual((0, 1), self.read().domains[0].cpus)
        self.tree.plug(2)
        host = self.read()
        self.assertEqual(((0, 1, 2),) * 2, (host.domains[0].cpus, host.online_cpus))
        self.assertEqual(0x600, host.domains[0].ddio_found)  # not what an agent made of it

    def test_domains_that_cannot_be_read(self) -> None:
        """Later that is no end: it is an error of the facts, like any other of them."""
        shutil.rmtree(self.tree.root)
        with self.assertRaises(sources.HostUnreadable) as raised:
            self.read()
        self.assertIn("no L3 cache allocation there", sentences.text(raised.exception.message))


class FirstPolicy(unittest.TestCase):
    def start(self, **options: str) -> Agent:
        """Make an agent on a machine in memory."""
        folder = trees.folder(self)
        settings = dataclasses.replace(conf.load([]), state_dir=folder, **options)
        machine = Machine(mock.Mock(), fake.FakeAllocator(), fake.FakeDdio(), SystemClock())
        source = SteadyInventory(fake.SKYLAKE)
        agent = wiring.agent(
            settings, Ownership(machine), source, lambda: source.facts().host, LogLanguage()
        )
        self.addCleanup(agent.journal.close)
        return agent

    def test_it_is_read_once(self) -> None:
        """To render a policy may take a process of its own."""
        with mock.patch.object(policy_file, "load", wraps=policy_file.load) as load:
            self.start()
        load.assert_called_once()

    def test_the_first_status_has_the_configured_mode(self) -> None:
        """Metrics are served before the first iteration, which waits for libvirt."""
        for mode, codes in (("observe", ["observe-configured"]), ("enforce", [])):
            with self.subTest(mode=mode):
                status = self.start(mode=mode).journal.latest
                self.assertEqual((mode, codes), (status.mode, [one.code for one in status.reasons]))

    def test_a_broken_policy_is_no_start(self) -> None:
        """The error reaches the command that starts the agent."""
        error = PolicyError([Problem("classes", 3, verbatim("not a list"))], "p.yaml")
        broken = mock.patch.object(policy_file, "load", side_effect=error)
        with broken, self.assertRaises(PolicyError):
            self.start()
