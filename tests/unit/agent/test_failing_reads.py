# SPDX-License-Identifier: Apache-2.0
"""Reads of a working agent fail: the loop goes on, shows the fault, and restores the host.

The test finds the reads itself: it fails the first read that has not failed before, again and
again, until every place in the package that reads has failed.
"""

import builtins
import contextlib
import dataclasses
import errno
import fcntl
import io
import itertools
import logging
import os
import shutil
import socket
import struct
import sys
import threading
import types
from unittest import mock

from iat_nova.agent import restoring, sources, wiring
from iat_nova.agent.on_disk import OnDisk
from iat_nova.agent.ownership import ownership
from iat_nova.hardware.api import FAILURES
from iat_nova.inventory.pci import Pci
from iat_nova.inventory.reconcile import Reconciler
from iat_nova.inventory.spool import Spool
from iat_nova.model import Guest, Hold
from iat_nova.report.log import LogLanguage
from iat_nova.store.heartbeat import Heartbeat
from iat_nova.store.observed import Observer
from iat_nova.store.requests import Holds
from tests.unit.build import Clock
from tests.unit.hardware.enforcement import test_restore

CALLS = (
    (os, "open read pread stat lstat fstat listdir scandir readlink"),
    (io, "open"),
    (builtins, "open"),
    (fcntl, "ioctl fcntl flock"),
    (socket, "socket"),
)
CODES = (errno.EMFILE, errno.ENOMEM, errno.EIO, errno.ENODEV)
GUEST = Guest("0f7c1d2e-0000-4000-8000-000000000001", 1, "i-1", "web", None, None, None, (1,), ())
SILENT = {
    "common/owned_folder.py _remove_abandoned",
    "hardware/cat/resctrl_fs.py count",  # ENODEV: the group has just been removed
    "hardware/counters/perf_event.py read",  # ENODEV: the CPU is offline
    "hardware/enforcement/snapshot_file.py _identity",  # the file is read instead
}
"""Functions in which a failure has no consequence."""
QUIET = 25  # iterations without a new place: every place has failed


class Faults:
    """Fails reads at one place after another. A place is a call with three callers in the package.

    `lasts`: iterations for which a place fails; 0: only its first read fails. `silent`: places
    whose failure was shown nowhere.
    """

    def __init__(self, lasts):
        self.lasts, self.codes = lasts, itertools.cycle(CODES)
        self.places, self.silent, self.shown = [], [], []
        self.on = self.all = False
        self.place, self.age, self.quiet = None, 0, 0

    def check(self, call):
        """Raise an error if this read fails now."""
        if not (self.on or self.all) or threading.current_thread().name == "history":
            return
        if not self.all and self.place and (not self.lasts or call != self.place[0]):
            return
        callers, frame = [], sys._getframe(2)
        while frame is not None and len(callers) < 3:
            name = frame.f_code.co_filename
            if name.endswith("hardware/trees.py"):  # the imitated kernel
                return
            if "/iat_nova/" in name:
                callers.append(f"{name.rpartition('/iat_nova/')[2]} {frame.f_code.co_name}")
            frame = frame.f_back
        place = (call, *callers)
        new = self.place is None and place not in self.places
        if callers and (self.all or new or (place == self.place and self.lasts)):
            if new and not self.all:
                self.place, self.age, self.code = place, 0, next(self.codes)
                self.places.append(place)
            raise OSError(self.code, os.strerror(self.code))

    def turn(self, shown):
        """Note what the agent shows after an iteration; return whether every place has failed."""
        self.quiet += 1
        if self.place is not None:
            self.quiet, self.age, self.shown = 0, self.age + 1, self.shown + shown
            if self.age > self.lasts + 1:
                self.silent += [] if self.shown else [self.place]
                self.place, self.shown = None, []
        return self.quiet > QUIET

    def reading(self, read, name):
        """Return a read that fails at times."""
        return lambda *arguments, **options: self.check(name) or read(*arguments, **options)

    @contextlib.contextmanager
    def patched(self):
        with contextlib.ExitStack() as stack:
            for module, names in CALLS:
                for name in names.split():
                    read = self.reading(getattr(module, name), f"{module.__name__}.{name}")
                    stack.enter_context(mock.patch.object(module, name, read))
            yield


class Pipes:
    """Groups of counters of the kernel, each behind a pipe that has a reading each interval."""

    def __init__(self):
        self.groups = {}

    def open(self, events, _cpu):
        group = mock.Mock(spec_set=("fd", "close"))
        group.fd, end = os.pipe()
        group.close = lambda: [os.close(fd) for fd in self.groups.pop(group)[:2]]
        self.groups[group] = [group.fd, end, len(events), itertools.count(10**9, 10**9)]
        self.count(group)
        return group

    def count(self, *groups):
        for _, end, events, times in map(self.groups.get, groups or self.groups):
            now = next(times)
            os.write(end, struct.pack(f"={3 + events}Q", events, now, now, *[now] * events))


class FailingReads(test_restore.MachineCase):
    """A whole host in a folder, and an agent with all parts that read."""

    def setUp(self):
        super().setUp()
        self.sys = self.folder / "sys"
        for folder in ("run", "state", "spool", "sys/bus/pci/devices", "sys/devices/system"):
            (self.folder / folder).mkdir(parents=True, exist_ok=True)
        (self.sys / "devices/system/cpu").symlink_to(self.roots.cpus)
        for number in range(1, 18):  # one slice is enough
            shutil.rmtree(self.roots.pmus / f"uncore_cha_{number}")
        policy = self.folder / "policy.yaml"
        policy.write_text("{}\n")
        self.tree.monitoring(64)
        self.found = self.tree.state()
        with self.config.open("a") as file:
            file.write(
                f"mode = enforce\nmonitor_tenants = true\nsysfs_root = {self.sys}\n"
                f"policy_file = {policy}\nspool_dir = {self.folder / 'spool'}\n"
            )
        Holds(self.settings().state_dir).write(Hold(GUEST.uuid, "web", 3, 0.0))
        systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(systemd.close)
        systemd.bind(str(self.folder / "notify"))
        self.enterContext(mock.patch.dict(os.environ, NOTIFY_SOCKET=str(self.folder / "notify")))
        logging.getLogger("iat_nova").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("iat_nova").setLevel, logging.NOTSET)

    @contextlib.contextmanager
    def agent(self, faults, turn):
        """Yield an agent with an hour of virtual time; `turn` is called after each iteration."""
        settings, clock, pipes = self.settings(), Clock(), Pipes()
        self.msr.pread = faults.reading(type(self.msr).pread.__get__(self.msr), "msr")
        machine = dataclasses.replace(sources.machine(settings), clock=clock)
        for counters in (machine.counters, machine.counters._domains):
            counters._clock = clock
        for groups in (machine.counters.cores, machine.counters._domains._boxes):
            groups._open_group = pipes.open
        owned = ownership(settings, machine)
        held = owned.held()
        with faults.patched(), held, contextlib.closing(Heartbeat(settings.lock_path)) as heartbeat:
            host = sources.host_reader(settings, machine, owned.finish)
            spool = Spool(settings.spool_dir)
            libvirt = types.SimpleNamespace(
                guests=lambda _: [GUEST, spool.extra_specs_of(GUEST.uuid)][:1],
                warnings=(),
                waiting_for=None,
            )
            source = Reconciler(libvirt, None, Pci(self.sys), host, clock)
            observer = Observer()
            drift = OnDisk(settings, lambda: [str(self.config)]).drift
            agent = wiring.agent(
                settings, owned, source, host, LogLanguage(), observer, heartbeat, drift
            )
            self.errors = 0

            def wait(_wake, seconds):
                latest = agent.journal.latest
                shown = [*map(str, (*latest.problems, *latest.reasons))]
                shown += [latest.paused_reason] if latest.paused_reason else []
                errors = observer.now.events.get("error", 0)
                shown += ["error"] * (errors > self.errors)
                self.errors = errors
                clock.now_s += seconds + 60 * bool(shown)
                pipes.count()
                source.changed.set()
                if turn(agent, shown):
                    agent.stop()
                return True

            clock.wait = wait
            yield agent

    def test_one_after_the_other(self):
        """Once, and for an iteration: each is shown, ends, and the host is as found."""
        for lasts in (0, 1):
            with self.subTest(lasts=lasts):
                faults = Faults(lasts)

                def turn(agent, shown, faults=faults):
                    faults.on = faults.on or agent.enforcer.wrote
                    self.shown, self.enforces = shown, bool(agent.enforcer.writes)
                    over = faults.turn(shown)
                    faults.on = faults.on and not over
                    return over

                with self.agent(faults, turn) as agent:
                    agent.run(1e6)
                self.assertGreater(len(faults.places), 50)
                self.assertEqual(([], True), (self.shown, self.enforces))
                self.assertEqual([], [one for one in faults.silent if not SILENT & {*one[1:]}])
                self.assert_as_found()

    def test_all_at_once(self):
        """For some iterations the loop goes on; where they still fail, `restore` restores later."""
        for heals in (True, False):
            with self.subTest(heals=heals):
                faults, turns = Faults(0), itertools.count()
                faults.code = errno.EMFILE

                def turn(agent, shown, faults=faults, heals=heals, turns=turns):
                    number = next(turns)
                    faults.all = 5 < number < (15 if heals else 999)
                    if 10 < number < 15:
                        self.assertNotEqual([], shown)
                    self.shown, self.enforces = shown, bool(agent.enforcer.writes)
                    return number > (45 if heals else 20)

                with contextlib.ExitStack() as failing:
                    if not heals:
                        failing.enter_context(self.assertRaises(FAILURES))
                    with self.agent(faults, turn) as agent:
                        agent.run(1e6)
                faults.all = False
                if heals:
                    self.assertEqual(([], True), (self.shown, self.enforces))
                else:
                    restoring.restore(self.settings())
                self.assert_as_found()
