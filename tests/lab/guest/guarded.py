# SPDX-License-Identifier: Apache-2.0
"""The whole set of back ends under the snapshot, killed at random moments on a real kernel."""

import itertools
import os
import random
import signal
import threading
import unittest
from pathlib import Path

from iat_nova.common.clock import SystemClock
from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask
from iat_nova.hardware.cat.resctrl_fs import ResctrlFs
from iat_nova.hardware.enforcement.snapshot import HostTaken, Snapshot
from iat_nova.hardware.host import probe
from iat_nova.hardware.host.backends import Preferences, choose
from iat_nova.hardware.host.probe import Host, Level
from iat_nova.model import WayMask, message
from tests.lab.guest.machine import Registers, mount
from tests.proofs import proves
from tests.said import raises

REGISTERS = Registers()
SNAPSHOT, LOCK = Path("/run/iat-nova/snapshot.json"), Path("/run/iat-nova/writer.lock")
KILLS = int(os.environ.get("IAT_NOVA_LAB_KILLS", "10"))


def make(**wanted):
    backends = choose(Host(), SystemClock(), Preferences(**wanted))
    return backends, Snapshot(backends.parts, snapshot=SNAPSHOT, lock=LOCK)


def state():
    """Everything that must be as it was found."""
    now = REGISTERS.everything()
    return {
        "default": [masks[0] for masks in now["cbm"]],
        "bandwidth": [words[0] for words in now["mba"]],
        "ddio": now["ddio"],
        "io_alloc": now["io_alloc"],
        "classes": now["classes"],
        "groups": ResctrlFs().groups(),
        "schemata": ResctrlFs().read("schemata"),
    }


class Writer:
    """A child process that writes for ever, from its first write on; forked, for speed."""

    def __init__(self, seed):
        begun, begins = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                write_for_ever(seed, begins)
            finally:
                os._exit(1)
        os.close(begins)
        self.wrote = os.read(begun, 1) == b"!"
        os.close(begun)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def write_for_ever(seed, begins):
    """Change masks, CPUs and DDIO at random, as fast as it goes, until killed."""
    dice = random.Random(seed)
    backends, snapshot = make()
    domains = backends.allocator.domains()
    with snapshot.only_writer():
        snapshot.protect()
        backends.counters.watch(cpu for domain in domains for cpu in domain.cpus)
        os.write(begins, b"!")
        while True:
            for domain in domains:
                backends.allocator.apply(domain.id, random_classes(dice, domain))
                count = dice.randint(1, 6)
                if domain.ddio_resizable:
                    backends.ddio.write(domain.id, WayMask.span(domain.ways - count, count))
            backends.counters.read()


def random_classes(dice, domain):
    cpus = list(domain.cpus)
    dice.shuffle(cpus)
    classes = [ClassMask(DEFAULT_CLASS, (), WayMask.span(dice.randint(0, 8), 2))]
    for n in range(dice.randint(0, domain.classes - 1)):
        count = dice.randint(1, 6)
        mask = WayMask.span(dice.randint(0, domain.ways - count), count)
        control = domain.bandwidth
        limits = (None, control.least, control.least + 4 * control.step) if control else (None,)
        limit = dice.choice(limits)
        classes.append(ClassMask(f"tenant {n}", tuple(cpus[n : n + 1]), mask, limit))
    return tuple(classes)


@proves("restored after kill -9")
class Killed(unittest.TestCase):
    """kill -9, and the host is as it was found."""

    def setUp(self):
        mount()
        self.found = state()

    def test_killed_at_random(self):
        """Killed at random moments while writing; restore brings all back, a second one nothing."""
        dice = random.Random(2021)
        changed = 0
        for seed in range(KILLS):
            child = Writer(seed)
            self.assertTrue(child.wrote)
            threading.Event().wait(dice.uniform(0.0, 0.2))  # the moment is what is random here
            child.kill()
            changed += state() != self.found
            _, snapshot = make()
            with snapshot.only_writer():
                restored = snapshot.restore()
                self.assertEqual((), restored.failed)
                self.assertEqual(self.found, state(), f"seed {seed}: {restored.done}")
                self.assertEqual((), snapshot.restore().done)
            self.assertFalse(SNAPSHOT.exists())
        self.assertGreater(changed, KILLS // 2)

    def test_the_next_start_restores(self):
        """Without a restore in between, the next writer first puts everything back."""
        child = Writer(1)
        self.assertTrue(child.wrote)
        _, snapshot = make()
        with raises(self, HostTaken, f"process {child.pid}"), snapshot.only_writer():
            self.fail("two writers")
        child.kill()
        with snapshot.only_writer():
            self.assertTrue(snapshot.protect().done)
            self.assertEqual(self.found, state())
            self.assertEqual((), snapshot.restore().done)


class Around(unittest.TestCase):
    """What others set in resctrl, and what a lost snapshot left there."""

    def setUp(self):
        mount()
        self.found = state()

    def test_what_others_set_in_resctrl(self):
        """A limit of bandwidth holds in our groups; a monitoring group gets its CPUs back."""
        fs = ResctrlFs()
        watcher = fs.root / "mon_groups/watcher"
        watcher.mkdir()
        self.addCleanup(watcher.rmdir)
        fs.write("mon_groups/watcher/cpus_list", "1-2\n")
        self.addCleanup(fs.write, "schemata", fs.read("schemata").strip().splitlines()[0] + "\n")
        fs.write("schemata", "MB:0=50\n")
        found, limits = state(), fs.other_lines("")
        self.assertIn("0=50", limits["MB"])
        backends, snapshot = make()
        with snapshot.only_writer():
            snapshot.protect()
            backends.allocator.domains()
            backends.allocator.apply(0, (ClassMask("a", (1,), WayMask(0x3)),))
            self.assertEqual(limits, fs.other_lines("iat-nova.1"))
            self.assertEqual({2}, fs.monitors()["watcher"])
            fs.write("schemata", "MB:0=60\n")
            self.assertEqual((), backends.allocator.inspect())
            self.assertEqual(fs.other_lines(""), fs.other_lines("iat-nova.1"))
            fs.write("schemata", "MB:0=50\n")
            snapshot.restore()
        self.assertEqual({1, 2}, fs.monitors()["watcher"])
        self.assertEqual(found, state())

    def test_a_mode_that_another_program_wrote(self):
        """The kernel refuses no restore: by the agent's own process, or by another one."""
        fs = ResctrlFs()
        for group, own in itertools.product(("iat-nova.1", ""), (True, False)):
            backends, snapshot = make()
            with snapshot.only_writer():
                snapshot.protect()
                for domain in backends.allocator.domains():  # without ways that the hardware uses
                    guest = ClassMask("a", domain.cpus[1:], WayMask(0x1F0))
                    classes = ClassMask(DEFAULT_CLASS, (), WayMask(0x3)), guest
                    backends.allocator.apply(domain.id, classes)
                fs.set_mode(group, "exclusive")
                changes = [one.code for one in backends.allocator.inspect()]
                self.assertEqual(["group-mode-changed"] if group else [], changes)
                restored = (snapshot if own else make()[1]).restore()
            self.assertEqual((), restored.not_done)
            self.assertEqual(self.found, state())

    def test_a_group_left_over(self):
        """Without a snapshot it is removed by the host's writer."""
        fs = ResctrlFs()
        fs.mkdir("iat-nova.1")
        fs.write("iat-nova.1/cpus_list", "1\n")
        self.assertEqual(1, len(Host().resctrl.remove_left_over()))
        self.assertEqual(self.found, state())


class Doctor(unittest.TestCase):
    """What the probe finds on a machine that has everything."""

    def test_nothing_is_missing(self):
        """Every finding is well; what only AMD's or later CPUs have is no finding."""
        mount()
        found = probe.findings(Host())
        bad = [(one.subject, one.state) for one in found if one.level is not Level.OK]
        self.assertEqual([], bad)

    def test_choices(self):
        """resctrl, the register, perf and the kernel's CHA PMUs are chosen, with what was found."""
        mount()
        backends, _ = make()
        self.assertEqual(
            ["resctrl", "msr", "perf", "perf"], [choice.chosen for choice in backends.choices]
        )
        for domain in backends.allocator.domains():
            self.assertEqual((0x600, 0x600), (domain.ddio_found, domain.coerced_ways))
            self.assertEqual((11, 8), (domain.ways, domain.classes))

    def test_writes_switched_off(self):
        """With allow_writes=off DDIO is fixed, and the command that mends it is told."""
        mount()
        setting = Path("/sys/module/msr/parameters/allow_writes")
        before = setting.read_text()
        setting.write_text("off")
        try:
            (one,) = (one for one in probe.findings(Host()) if one.subject == "msr writes")
            remedy = message("allow-msr-writes", path=str(setting))
            self.assertEqual(remedy, one.remedy)
            backends, _ = make()
            self.assertFalse(backends.allocator.domains()[0].ddio_resizable)
        finally:
            setting.write_text(before)
