# SPDX-License-Identifier: Apache-2.0
"""Random histories of libpqos's registers: writes, refusals, deaths, CPUs and other programs.

The expected end is independent of the code: registers as found, and what another program has set.
"""

import contextlib
import copy
import os
import random
import unittest

from iat_nova.hardware.api import DEFAULT_CLASS, ClassMask, DomainOffline, HardwareError
from iat_nova.hardware.cat.pqos_lib import PqosError
from iat_nova.model import WayMask
from tests.unit.hardware.enforcement.test_pqos_snapshot import AgentsCase

SEEDS = 150 * int(os.environ.get("IAT_NOVA_EXAMPLES", "1"))
THEIRS = (5, 6, 7)  # classes that another program may use
THEIR_MASK = 0x70


class Killed(BaseException):
    """The process is no more."""


class Fixture:
    """What `AgentsCase` needs of a test case."""

    def __init__(self):
        self.ends = contextlib.ExitStack()
        self.addCleanup = self.ends.callback

    def setUp(self):
        """Nothing is left to do."""


class World(AgentsCase, Fixture):
    """One host, its agents one after the other, and another program."""

    def begin(self, seed):
        self.setUp()
        self.chance = random.Random(seed)
        self.told = []
        self.failing, self.left, self.amid = 0, None, None
        self.crashed = False  # then what another program began to use may be reset
        if self.chance.random() < 0.4:
            self.take(self.chance.randrange(8), THEIRS[0])
        self.expected = self.registers_now()
        self.change, self.registers._change = self.registers._change, self.hooked
        self.start()

    def registers_now(self):
        registers = self.registers
        return copy.deepcopy((registers.values, registers.classes, registers.limits))

    def hooked(self, text):
        """Fail or be killed instead of a write, or have something happen after it."""
        if self.failing and self.chance.random() < 0.5:
            self.failing -= 1
            raise PqosError("refused")
        if self.left is not None:
            self.left -= 1
            if not self.left:
                raise Killed
        self.change(text)
        if self.amid is not None and self.chance.random() < 0.2:
            event, self.amid = self.amid, None
            self.told.append(f"amid {text}: {event.__name__}")
            event()

    def start(self):
        """Begin a new process, which restores first."""
        self.allocator, self.snapshot = self.agent()
        self.tell("start", self.snapshot.put_back)

    def tell(self, name, call):
        try:
            call()
        except HardwareError as error:
            self.told.append(f"{name}: {error!s:.120}")
        else:
            self.told.append(name)

    # ------------------------------------------------------------------------------ the agent

    def apply(self):
        """Do as the loop does: finish, save, write; after a refusal restore."""
        self.finish()
        domain = self.chance.choice(self.allocator.domains())
        classes = self.classes(domain)
        self.told.append(f"apply {domain.id}: {[(one.name, one.cpus) for one in classes]}")
        try:
            self.snapshot.protect()
            self.snapshot.extend()
            self.allocator.apply(domain.id, classes)
        except DomainOffline:
            return
        except HardwareError as error:
            self.told.append(f"refused: {error!s:.120}")
            self.restore()

    def classes(self, domain):
        """Return random classes of CPUs that nobody else has, and at times of the default class."""
        free = [cpu for cpu in domain.cpus if cpu in self.cpus.on]
        free = [cpu for cpu in free if self.registers.classes[cpu] not in THEIRS]
        self.chance.shuffle(free)
        found = []
        for number, name in enumerate("ab"[: self.chance.randint(0, 2)]):
            own = [free.pop() for _ in range(min(len(free), self.chance.randint(1, 2)))]
            if own:
                limit = self.chance.choice((None, 40))
                found.append(ClassMask(name, tuple(own), WayMask(0x3 << 2 * number), limit))
        if self.chance.random() < 0.3:
            found.append(ClassMask(DEFAULT_CLASS, (), WayMask(0x180)))
        return tuple(found)

    def inspect(self):
        try:
            changed = self.allocator.inspect() and self.allocator.inspect()
        except HardwareError:
            return
        if changed:
            self.restore()

    def restore(self):
        self.tell("restore", self.snapshot.put_back)

    def finish(self):
        self.tell("finish", self.snapshot.finish)

    def end(self):
        self.restore()
        self.crashed = self.crashed or bool(self.snapshot.copy)
        self.start()

    # --------------------------------------------------------------------------- what happens

    def unplug_one(self):
        if len(self.cpus.on) > 1:
            self.cpus.unplug(self.chance.choice(sorted(self.cpus.on)))

    def unplug_socket(self):
        gone = self.cpus.on.intersection(self.chance.choice(([0, 1, 2, 3], [4, 5, 6, 7])))
        if gone != self.cpus.on:
            self.unplug(*sorted(gone))

    def plug_one(self):
        if off := sorted(set(range(8)) - self.cpus.on):
            self.cpus.plug(self.chance.choice(off))

    def plug_all(self):
        self.plug(*sorted(set(range(8)) - self.cpus.on))

    def other(self):
        """Another program takes a CPU and a class that nobody uses; the agent looks."""
        cpu, number = self.chance.randrange(8), self.chance.choice(THEIRS)
        ours = {n for numbers in self.allocator._numbers.values() for n in numbers.values()}
        free = self.registers.classes[cpu] in (0, *THEIRS) and cpu not in self.allocator._written
        mask = self.registers.values[10 + cpu // 4][number]
        if not free or number in ours or mask not in (0x7FF, THEIR_MASK):
            return
        if cpu not in self.cpus.on or (self.snapshot.copy and self.crashed):
            return
        self.take(cpu, number)
        self.expected[1][cpu], self.expected[0][10 + cpu // 4][number] = number, THEIR_MASK
        self.told.append(f"CPU {cpu} is in class {number} of another program")
        self.tell("look", self.allocator.domains)

    def take(self, cpu, number):
        self.registers.classes[cpu] = number
        self.registers.values[10 + cpu // 4][number] = THEIR_MASK

    def fail_soon(self):
        self.failing = self.chance.randint(1, 3)

    def kill_soon(self):
        self.left = self.chance.randint(1, 8)

    def amid_soon(self):
        events = self.unplug_one, self.plug_one, self.unplug_socket, self.plug_all
        self.amid = self.chance.choice(events)

    def live(self):
        events = [self.apply] * 6 + [self.inspect] * 3 + [self.restore, self.end, self.finish]
        events += [self.unplug_one, self.unplug_socket, self.plug_one, self.plug_one] * 2
        events += [self.plug_all, self.other] * 2 + [self.fail_soon, self.kill_soon, self.amid_soon]
        for event in self.chance.choices(events, k=self.chance.randint(3, 25)):
            self.told.append(event.__name__)
            try:
                event()
            except Killed:
                self.left, self.crashed = None, True
                self.start()
        self.failing, self.left, self.amid = 0, None, None
        self.plug_all()
        if self.chance.random() < 0.5:
            self.end()
        self.crashed = self.crashed or bool(self.snapshot.copy)
        self.start()

    def wrong(self):
        """Return the registers that are not as expected."""
        now = self.registers_now()
        classes = self.expected[1]
        found = [
            (table, cache, number)
            for table, place in (("mask", 0), ("limit", 2))
            for cache, numbers in self.expected[place].items()
            for number, value in numbers.items()
            if now[place][cache][number] != value
            and not (self.crashed and number in THEIRS and table == "mask")
        ]
        return found + [
            ("class", cpu, now[1][cpu])
            for cpu, number in classes.items()
            if now[1][cpu] not in ((number, 0) if self.crashed and number in THEIRS else (number,))
        ]


class Histories(unittest.TestCase):
    """Whatever happened, the registers are as found."""

    def test_as_found(self):
        """After the end of the last agent, with all CPUs online."""
        for seed in range(SEEDS):
            world = World()
            with world.ends:
                world.begin(seed)
                world.live()
                told = "\n".join(world.told)
                self.assertEqual([], world.wrong(), f"seed {seed}: {told}")
