# SPDX-License-Identifier: Apache-2.0
"""Ownership of one machine: the only writer, from the first reading of the host to the restore.

An agent that takes a host adopts, or restores, the settings of the last agent. An agent that ends
restores the original settings, unless the next agent adopts its settings.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import logging
from collections.abc import Iterator

from iat_nova.agent import restoring
from iat_nova.agent.hand_over import HandedOver, HandOverFiles, Succession, recover
from iat_nova.agent.interlock import Outside
from iat_nova.conf import Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.cat.pqos import PqosAllocator
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.host import backends, probe
from iat_nova.hardware.host.machine import Machine
from iat_nova.hardware.kernel.cpu_watch import settled
from iat_nova.model import Message, message

LOG = logging.getLogger("iat_nova")


@dataclasses.dataclass(frozen=True)
class Ownership:
    """An agent's ownership of a machine.

    `snapshot` has the original settings; None for a machine in memory, which needs none.
    `left_files`: files in which an agent leaves its state to the next. `succession` hands the
    machine over; None for interfaces that cannot be handed over.
    """

    machine: Machine
    snapshot: Snapshot | None = None
    left_files: HandOverFiles | None = None
    succession: Succession | None = None

    @contextlib.contextmanager
    def held(self, *, adopt: bool = False) -> Iterator[HandedOver | None]:
        """Hold the machine as its only writer, after restoring settings that a crash left.

        `adopt`: adopt the state of the last agent instead, and yield this state. Nothing is saved
        before the first write: an agent that only observes has nothing to restore. Raises
        `HardwareError` while another process writes, or if the host cannot be restored. Settings of
        CPUs that are offline at the end stay in the snapshot.
        """
        if self.snapshot is None:
            yield None
            return
        with self.snapshot.only_writer():
            recovered = self._recovered()
            adopted = self._adopted() if recovered and adopt else None
            if adopted is None:
                lost = not (recovered or self.snapshot.pending)
                self._restore_left(self.snapshot, lost=lost)
            try:
                yield adopted
            finally:
                if not self.snapshot.handed_over:  # the ending agent hands over if possible
                    self._restore(self.snapshot)

    def finish(self) -> None:
        """Restore settings that were out of reach of an earlier restore and are in reach now."""
        if self.snapshot is None or not self.snapshot.unfinished:
            return
        watch = self.machine.watch()
        watch.begin()
        restored = self.snapshot.finish()
        for line in restored.done:
            LOG.info("%s", message("restored-late", setting=line))
        if restored.not_done:
            level = logging.WARNING if watch.moved() is None else logging.INFO
            for line in restored.not_done:
                LOG.log(level, "%s", message("not-put-back", settings=line))

    def outside(self) -> Outside:
        """Return the checks of other programs and of the host, for the agent's `Interlock`.

        A check that fails makes the agent observe only.
        """
        if self.snapshot is None:  # a machine in memory: no other program has a part of it
            return Outside(changes=self.machine.inspect)
        return Outside(
            owners=self.owners,
            changes=self.machine.inspect,
            unrestored=self._unrestored,
            missing=self.machine.missing,
            cpus=self.machine.watch(),
            guard=self.snapshot.keep_lock,
        )

    def owners(self) -> tuple[Message, ...]:
        """Return messages on other programs that allocate cache. Raises `HardwareError`."""
        host, allocator = self.machine.host, self.machine.allocator
        if host is None:
            return ()
        kernel = allocator.beside_resctrl() if isinstance(allocator, PqosAllocator) else None
        return (*(() if kernel is None else (kernel,)), *probe.owners(host))

    def _unrestored(self) -> tuple[Message, ...]:
        """Return settings that no restore could reach yet, because their CPUs are offline."""
        return () if self.snapshot is None else restoring.out_of_reach(self.snapshot.unreached)

    def _restore_left(self, snapshot: Snapshot, *, lost: bool) -> None:
        """Restore the settings of an earlier agent, and remove its groups and its hand-over."""
        for line in settled(self.machine.watch(), snapshot.put_back).done:
            LOG.warning("%s", message("restored-for-earlier-agent", setting=line))
        host = self.machine.host
        if host is not None and (groups := backends.remove_left_over(host, lost=lost)):
            LOG.warning("%s", message("several", causes=(*groups, restoring.NO_SNAPSHOT)))
        if self.left_files is not None and self.left_files.there:
            self.left_files.remove()
            LOG.warning("%s", message("hand-over-unusable", path=str(self.left_files.path)))

    def _restore(self, snapshot: Snapshot) -> None:
        restored = settled(self.machine.watch(), lambda: restoring.all_back(snapshot))
        for line in restored.done:
            LOG.info("%s", message("setting-restored", setting=line))
        for line in restoring.out_of_reach(restored.left):
            LOG.info("%s", message("not-restored-yet", setting=line))

    def _recovered(self) -> bool:
        """Write a lost snapshot again from the hand-over; return whether nothing failed."""
        if self.snapshot is not None and self.left_files is not None:
            try:
                recover(self.snapshot, self.left_files)
            except HardwareError as error:
                LOG.warning("%s", message("hand-over-not-adopted", error=error.message))
                return False
        return True

    def _adopted(self) -> HandedOver | None:
        """Adopt the state of the last agent; return None if there is none, or it does not fit."""
        if self.succession is None:
            return None
        try:
            return self.succession.take()
        except HardwareError as error:
            LOG.warning("%s", message("hand-over-not-adopted", error=error.message))
            return None


def ownership(settings: Settings, machine: Machine) -> Ownership:
    """Return the ownership of a machine, before anything is locked or written."""
    if machine.host is None:
        return Ownership(machine)
    snapshot = restoring.snapshot(settings, machine.host, machine.parts)
    left_files = restoring.hand_over_files(settings)
    succession = None
    if isinstance(machine.allocator, Resctrl):
        succession = Succession(
            left_files,
            snapshot,
            machine.allocator,
            machine.ddio,
            settings.strategy,
            importlib.metadata.version("iat-nova"),
            machine.forget,
        )
    return Ownership(machine, snapshot, left_files, succession)
