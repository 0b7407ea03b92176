# SPDX-License-Identifier: Apache-2.0
"""Whole agents on hosts in a folder, under random events: an agent never harms its host.

    python -m tests.random_hosts --seeds 100 --first 1000 [HOST...]

Each agent is a process of its own, and a kill is one. What the kernel, libvirt and operators do is
in `tests.random_events`. Checked are: nothing is written before it is saved on disk, and every
setting is as found at the end; the loop never ends by itself and logs no traceback; the status is
true. A failure prints the seed, and the shortest history that fails.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import logging
import os
import pickle
import random
import signal
import sys
import threading
import traceback
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from iat_nova import policy
from iat_nova.agent import restoring, sources
from iat_nova.agent.endings import Endings
from iat_nova.cmd import agent as program
from iat_nova.common import config_files
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.enforcement.snapshot import RestoreError
from iat_nova.report import log
from iat_nova.report.sentences import text
from iat_nova.store.heartbeat import StateError, only_agent
from iat_nova.store.observed import Observer
from iat_nova.strategies import registry
from tests import random_events, random_machines
from tests.unit.hardware.enforcement.test_restore import MachineCase
from tests.unit.policy.hosts import ONE

CALM = 4  # iterations after the last event of the host, until its settings must agree
LONGEST_S = 60.0  # of one agent, in real time
HISTORIES = 12  # of one seed and host
KILLED = 9
SETS = ("pwrite", "store", "set_masks", "set_class", "set_bandwidth")  # what is saved before

_quiet = logging.getLogger("iat_nova")

policy.default(ONE)  # imports in this process what each agent would
for _name in ("iat", registry.DEFAULT):
    registry.phases(_name)


class Fault(AssertionError):
    """An agent has broken a promise."""


class Notes(logging.Handler):
    """Keeps what the agent logs for the story of a failure; a traceback is a fault."""

    def __init__(self, world):
        super().__init__(logging.WARNING)
        self.world = world

    def emit(self, record):
        said = f"    {record.levelname}: {record.getMessage():.500}"
        if said not in self.world.told[-3:]:
            self.world.told.append(said)
        said.encode()  # else no log takes it
        if record.exc_info:
            self.world.blame("traceback: " + logging.Formatter().formatException(record.exc_info))


class World(random_machines.Hardware, random_events.Software, MachineCase):
    """One host and its agents. Skylake with resctrl and DDIO's register, unless derived."""

    def runTest(self):
        """Only a fixture."""

    def begin(self, seed):
        self.setUp()
        self.kind_chance = random.Random(seed)
        self.clock = random_events.SetClock(1000.0)
        self.holders = []  # of locks of the history
        self.chance = random.Random(0)
        self.told, self.faults, self.unsure = [], [], ""
        self.count, self.kill_at, self.failing, self.amid = 0, None, range(0), None
        self.calm, self.watched, self.lost, self.broken = 0, False, False, False
        self.equip()
        for owner, names, error in self.writers():
            for name in names:
                setattr(owner, name, self.hooked(name, getattr(owner, name), error))
        self.original = self.as_is()

    def equip(self):
        """Change the host before its first agent."""
        root = self.folder / "sys/devices/system"
        root.mkdir(parents=True)
        (root / "cpu").symlink_to(self.roots.cpus)
        self.equip_software()

    def writers(self):
        """Return what an agent writes to, the names of its functions, and how they fail."""
        fails = random_events.os_error
        return (self.tree, ("write", "mkdir", "rmdir"), fails), (self.msr, ("pwrite",), fails)

    def as_is(self):
        """Return all settings that an end of the agent must bring back."""
        return {**self.tree.state(), **self.msr.values}

    def mask_of(self, cpu, domain):
        """Return the mask that the hardware applies to a CPU."""
        group = self.tree.group_of(cpu) or ""
        return self.tree.masks(group, self.tree.resources[0]).get(domain)

    def shared(self):
        """Return what must pass from an agent's process to the next: the host, and the story."""
        names = ("tree", ("_assigned", "_given_rmids")), ("cpus", ("on", "_ballast"))
        names += ("msr", ("values", "off")), ("clock", ("now_s", "step_s"))
        return (*names, ("", ("told", "faults", "unsure", "lost", "clean", "left", *self.kept)))

    def blame(self, fault):
        self.faults.append(fault)

    # ------------------------------------------------------------------ writes, and kills in them

    def hooked(self, name, write, error):
        def hook(*arguments, **options):
            if self.watched and threading.current_thread() is threading.main_thread():
                self.before_write(name, arguments, error)
            return write(*arguments, **options)

        return hook

    def before_write(self, name, arguments, error):
        self.count += 1
        if self.kill_at is not None and self.count >= self.kill_at:
            self.kill(f"{name} {arguments[-2:]!s:.80}")
        if name in SETS and not self.lost and not self.settings().snapshot_path.exists():
            self.blame(f"not saved before {name} {arguments[-2:]!s:.80}")
        if self.count in self.failing:
            self.told.append(f"    fails: {name} {arguments[-2:]!s:.80}")
            self.clean = False
            raise error(self.chance)
        if self.amid is not None and self.count >= self.amid[0]:
            event, self.amid = self.amid[1], None
            self.clean = self.clean and bool(self.clock.planned)  # not amid the end's restore
            self.told.append(f"    amid {name} {arguments[-2:]!s:.80}:")
            self.watched = False
            event()
            self.watched = True

    def kill(self, where):
        self.told.append(f"  killed at {where}")
        self.clean = False
        self.leave(KILLED)

    def saved(self):
        """Tell whether the snapshot is on disk, whole."""
        try:
            return bool(json.loads(self.settings().snapshot_path.read_bytes()))
        except (OSError, ValueError):
            return False

    def leave(self, status):
        """End this agent's process, and give the host back to the parent."""
        there = self.settings().snapshot_path.exists()
        if self.lost and not self.saved() and (there or self.broken or status == KILLED):
            self.unsure = "the snapshot was lost, and this agent's end could not restore"
        try:
            found = {}
            for owner, names in self.shared():
                held = getattr(self, owner) if owner else self
                found[owner] = {name: getattr(held, name) for name in names if hasattr(held, name)}
            (self.folder / "passed").write_bytes(pickle.dumps(found))
            os._exit(status)
        finally:
            os._exit(1)

    # ------------------------------------------------------------------------------ one agent

    def live(self, events, seed):
        """Run one agent in a process of its own, with one event before each iteration.

        The first events may come before its start.
        """
        while events and events[0][0] in random_machines.BETWEEN:
            self.happen(*events[0])
            events = events[1:]
        self.clean, self.left = self.mounted() and self.state_is_good, False
        child = os.fork()
        if child == 0:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0)
                faulthandler.dump_traceback_later(LONGEST_S, exit=True)
                self.chance.seed(seed)
                self.agent(events)
            except BaseException:  # noqa: BLE001 - all that ends an agent is judged
                self.blame(f"ended: {traceback.format_exc()}")
            finally:
                self.leave(0)
        try:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        if status not in (0, KILLED):
            raise Fault(f"the agent hangs: exit status {status}")
        for owner, values in pickle.loads((self.folder / "passed").read_bytes()).items():
            for name, value in values.items():
                setattr(getattr(self, owner) if owner else self, name, value)
        if status == 0 and self.clean and not self.left and self.online() and self.mounted():
            self.verify()
        if self.faults:
            raise Fault("\n".join(map(str, self.faults[:3])))

    def agent(self, events):
        """Be an agent as `iat_nova.cmd.agent` is, until the events are over."""
        _quiet.handlers[:] = [Notes(self)]
        _quiet.propagate = False
        _quiet.setLevel(logging.INFO)
        log.speak()
        self.endings = Endings(lambda: self.blame("left"))
        threading.excepthook = self.endings.died
        observer = Observer()
        self.clock.planned = [lambda event=event: self.step(observer, event) for event in events]
        self.clock.planned.append(lambda: self.endings.obey(signal.SIGTERM))
        self.watched = True
        with contextlib.ExitStack() as stack:
            for patch in self.patches():
                stack.enter_context(patch)
            settings = self.settings()
            try:
                with only_agent(settings.lock_path) as heartbeat:
                    named = functools.partial(config_files.expanded, [str(self.config)])
                    on_disk = program.OnDisk(settings, named)
                    program._run(settings, on_disk, observer, heartbeat, self.endings)
            except (HardwareError, OSError, policy.PolicyError, StateError) as error:
                self.ended(error, observer)
            else:
                if self.clock.planned:
                    self.blame(f"it ended by itself, before {len(self.clock.planned)} events")
        self.left = settings.hand_over_path.exists()

    def ended(self, error, observer):
        """Judge the error that ended an agent: one of its start, or of its restore, with cause."""
        self.told.append(f"  ended: {text(program.as_message(error))}")
        self.broken = True
        started = observer.now.latest or not self.clock.planned
        refused = isinstance(error, (policy.PolicyError, StateError)) and not started
        if (self.clean and not refused) or (started and not isinstance(error, RestoreError)):
            self.blame(f"ended by {error!r}")
        self.clean = False

    def patches(self):
        real = sources.inventory

        def inventory(*arguments, **options):
            self.source = real(*arguments, **options)
            return self.source

        yield mock.patch.object(sources, "inventory", inventory)
        yield mock.patch.object(sources, "SystemClock", lambda: self.clock)
        yield mock.patch(
            "iat_nova.strategies.registry.make", lambda *_: random_events.Chance(self.chance)
        )
        for name in ("replace", "remove"):
            real_one = getattr(OwnedFolder, name)
            yield mock.patch.object(
                OwnedFolder, name, self.hooked(name, real_one, random_events.os_error)
            )
        yield from self.patched_software()

    def step(self, observer, event):
        self.check_status(observer)
        self.happen(*event)

    def happen(self, name, number):
        self.told.append(f"  {name} {number}")
        self.calm = self.calm if name in random_events.QUIET else 0
        self.watched = False
        chance, self.chance = self.chance, random.Random(number)
        try:
            if self.mounted() or name == "mount":  # the fake kernel keeps its CPUs in resctrl
                getattr(self, name)()
        finally:
            self.chance, self.watched = chance, self.source is not None

    # ------------------------------------------------------------------------------ what holds

    def check_status(self, observer):
        """In calm times the hardware is as the status and the last iterations say."""
        agent, status = self.endings._agent, observer.now.status
        self.calm += 1
        if self.amid is not None or (self.failing and self.count < self.failing[-1]):
            self.calm = 0
        if not self.mounted() or self.calm < CALM or not observer.now.looked_s:
            return
        if status.mode == "observe":
            changed = {name for name in self.difference() if self.counts_nothing(name)}
            if self.clean and self.online() and changed:
                self.blame(f"it only observes ({status.reasons}), and changed: {changed}")
            return
        for domain, inventory in agent.tenants.items():
            seen = observer.now.latest.get(domain)
            if status.paused_until_s is not None or seen is None or seen.effective is None:
                continue
            for tenant in inventory.tenants:
                for cpu in set(tenant.cpus) & self.cpus.on:
                    mask, told = self.mask_of(cpu, domain), seen.effective.get(tenant.id)
                    if told is not None and mask != told:
                        self.blame(f"CPU {cpu} of {tenant.name} has {mask}, the status says {told}")

    def online(self):
        return len(self.cpus.on) == len(self.msr.cpus)

    @staticmethod
    def counts_nothing(name):
        """Tell settings that decide from those that count: an agent that observes counts."""
        if isinstance(name, tuple):
            return name[0] == "memory" or name[1] == 0xC8B
        return not name.startswith("mon_")

    @staticmethod
    def is_ours(name):
        return isinstance(name, tuple) or not name.startswith(f"{random_machines.THEIRS}/")

    def difference(self):
        """Return the settings that differ from those found, by name."""
        now = self.as_is()
        names = {one for one in self.original.keys() | now.keys() if self.is_ours(one)}
        pairs = {name: (self.original.get(name), now.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if not self.same(name, *pair)}

    def same(self, name, before, now):
        """Compare two values; a register that nobody had written has its value of a reset."""
        if isinstance(name, tuple) and name[0] != "memory":
            reset = {0xC8B: 0x600}.get(name[1], 0)
            before, now = (reset if one is None else one for one in (before, now))
        return before == now

    def verify(self):
        if found := self.difference():
            raise Fault(f"not as found: {found}")
        if self.settings().snapshot_path.exists():
            raise Fault("all is as found, and the snapshot is still there")

    def settle(self):
        """Bring all back online and restore, as the unit does after a crash: all is as found."""
        self.mount()
        self.mend_state_dir()
        self.plug(self.off())
        with contextlib.suppress(HardwareError) if self.unsure else contextlib.nullcontext():
            restoring.restore(self.settings())
        if not self.unsure:
            self.verify()


KINDS = random_machines.kinds(World)


def histories(kind):
    """Return a strategy of histories: the events of each agent, then those until the next."""
    names = [name for name, weight in kind.events.items() for _ in range(weight)]
    # Few kinds of events in one history: some faults need the same event again and again.
    some = st.lists(st.sampled_from(names), min_size=3, max_size=8)

    def lives(some):
        event = st.tuples(st.sampled_from(some), st.integers(0, 2**16))
        return st.lists(st.lists(event, min_size=2, max_size=16), min_size=2, max_size=4)

    return some.flatmap(lives)


def live_through(kind, history, seed):
    """Run one history on a new host. Raises `Fault`."""
    world = kind()
    world.begin(seed)
    try:
        for number, events in enumerate(history):
            world.told.append(f"agent {number}")
            world.live(events, seed + number)
            if world.unsure:
                break
        world.settle()
    except Fault as fault:
        told = "\n".join(world.told)
        raise Fault(f"{fault}\nwhat happened:\n{told}") from None
    finally:
        world.doCleanups()


def test_of(kind, **options):
    """Return the test of one kind of host."""

    @hypothesis.settings(
        deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck), **options
    )
    @hypothesis.given(histories(kind), st.integers(0, 2**16))
    def test(history, seed):
        live_through(kind, history, seed)

    return test


def main():
    """Run the seeds that the command line names; end at the first failure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("hosts", nargs="*", default=list(KINDS), metavar="HOST", help=str([*KINDS]))
    arguments = parser.parse_args()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        for name in arguments.hosts:
            try:
                hypothesis.seed(seed)(test_of(KINDS[name], max_examples=HISTORIES))()
            except Fault as fault:
                print(f"seed {seed}, host {name}: {fault}", *getattr(fault, "__notes__", ()))
                return 1
    print(f"{arguments.seeds} seeds from {arguments.first}: no fault")
    return 0


if __name__ == "__main__":
    sys.exit(main())
