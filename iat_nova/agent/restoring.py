# SPDX-License-Identifier: Apache-2.0
"""Restore a host that an agent left changed: after a crash, or if no next agent came.

The unit, the timer of a restart and operators run `restore`. The other functions name the files of
a state directory, and the process that writes now.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping

from iat_nova.agent import state_pointer
from iat_nova.agent.hand_over import HandOverFiles, recover
from iat_nova.conf import WRITER_LOCK, Settings
from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.enforcement.snapshot import (
    HostTaken,
    Restored,
    RestoreError,
    Snapshot,
    SnapshotError,
)
from iat_nova.hardware.host import backends, probe
from iat_nova.hardware.kernel.cpu_watch import CpuWatch, settled
from iat_nova.hardware.kernel.locks import lock_holder
from iat_nova.hardware.kernel.rollback import Restorable
from iat_nova.model import Message, message

LOG = logging.getLogger("iat_nova")

NO_SNAPSHOT = message("no-snapshot")


def hand_over_files(settings: Settings) -> HandOverFiles:
    """Return the files of a hand-over: the left state, and the request."""
    request = WRITER_LOCK.with_name("hand-over")
    return HandOverFiles(settings.hand_over_path, request, settings.hand_over_s)


def snapshot(
    settings: Settings, host: probe.Host, parts: Mapping[str, Restorable] | None = None
) -> Snapshot:
    """Return a snapshot that saves `parts`, by default none.

    It also restores parts that an earlier agent saved with other interfaces.
    """
    return Snapshot(
        parts or {},
        snapshot=settings.snapshot_path,
        lock=WRITER_LOCK,
        others=backends.restorers(host),
    )


def writer(host: probe.Host) -> int | None:
    """Return the PID of the process that writes this host's cache masks now, or None."""
    return lock_holder(WRITER_LOCK, host.roots.proc)


def all_back(keeper: Snapshot) -> Restored:
    """Restore all settings in reach; return the results. Raises `RestoreError` after a failure.

    Settings of CPUs that are offline are out of reach. Such settings stay in the
    snapshot, which is not a failure.
    """
    restored = keeper.restore()
    if restored.failed or restored.stale:
        settings = (*restored.failed, *out_of_reach(restored.left))
        told = message("not-put-back", settings=settings) if settings else message("put-back")
        stale = () if restored.stale is None else (restored.stale,)
        raise RestoreError(message("several", causes=(told, *stale)))
    return restored


def out_of_reach(left: Iterable[Message]) -> tuple[Message, ...]:
    """Return a message for each of the `left` settings, which could not be restored yet.

    The message says that the snapshot keeps the setting until its hardware is back.
    """
    return tuple(message("stays-in-snapshot", setting=one) for one in left)


def places(settings: Settings) -> tuple[Settings, ...]:
    """Return settings for each state directory in which an agent may have left a snapshot.

    Root has noted the directories of the last agents: the configuration may have changed since, or
    may be unreadable. The latest directory comes first.
    """
    folders = dict.fromkeys((*state_pointer.read(), settings.state_dir))
    return tuple(
        dataclasses.replace(settings, state_dir=folder)
        for folder in folders
        if state_pointer.holds_snapshot(folder)
    ) or (settings,)


def note_state_dir(settings: Settings) -> None:
    """Note the state directory, so that a restore finds the snapshot without the configuration.

    The unit notes the directory for agents that do not run as root.
    """
    if os.geteuid() != 0 or settings.hardware != "auto":
        return
    try:
        state_pointer.write(settings.state_dir)
    except OSError as error:
        LOG.warning("%s: %s", error.filename, error.strerror)


def restore_earlier(settings: Settings) -> tuple[Message, ...]:
    """Restore settings that agents with other state directories left; return messages.

    Call before any reading or saving of the hardware: otherwise the left masks count as original.
    For the same reason, settings that are out of reach are an error: their CPUs may come online.
    Raises `HostTaken` while another agent runs, and `RestoreError` if a setting stays changed.
    """
    done: list[Message] = []
    own = os.path.abspath(settings.state_dir)
    try:
        noted = state_pointer.read()
    except OSError as error:
        raise RestoreError(unusable(state_pointer.POINTER, error)) from error
    for folder in noted:
        if os.fspath(folder) == own or not state_pointer.holds_snapshot(folder):
            continue
        try:
            done += restore(dataclasses.replace(settings, state_dir=folder))
        except HostTaken:
            raise
        except HardwareError as error:
            raise RestoreError(
                message("earlier-agent-left", path=str(folder), error=error.message),
                message("restore-state-dir", path=str(folder)),
            ) from error
    return tuple(done)


def restore(
    settings: Settings, *, unless_handed_over: bool = False, unless_taken: bool = False
) -> tuple[Message, ...]:
    """Restore a host that an agent could not restore; return messages on the results.

    Only the state directory and `hand_over_s` of the settings are used. Groups with the agent's
    name that are still there mean that the snapshot was lost; see `backends.remove_left_over`.
    `unless_handed_over`: do nothing, once, if the agent that ended has just handed over (the unit's
    ExecStopPost sets this option). `unless_taken`: do nothing while another process writes; this
    process restores at its own end.

    Raises `HardwareError` while an agent runs, and whenever a setting stays changed; with
    `unless_taken` also while the next agent may still adopt: call again later. Settings out of
    reach are an error only without both options. With an option they stay in the snapshot, as at a
    regular end.
    """
    host = probe.Host()
    left = hand_over_files(settings)
    if unless_handed_over and left.let_pass():
        return (message("left-to-next-agent", within_s=settings.hand_over_s),)
    if unless_taken and left.lately:  # a timer of an earlier restart
        raise HardwareError(message("handed-over-just-now"), message("restore-later"))
    keeper = snapshot(settings, host)
    if not keeper.on_disk and not host.resctrl.left_over() and not left.there:
        return ()
    try:
        with keeper.only_writer():
            recovered = _recovered(left, keeper)
            lost = not (recovered or keeper.pending)
            problem = _removed(left) if recovered else None
            restored = settled(CpuWatch(host.topology), lambda: all_back(keeper))
            waits = out_of_reach(restored.left)
            if waits and not (unless_handed_over or unless_taken):
                raise RestoreError(message("not-put-back", settings=waits), message("bring-back"))
            groups = backends.remove_left_over(host, lost=lost)  # in no snapshot
            problem = problem if recovered else _removed(left)
    except HostTaken:
        if unless_taken and not left.pending:  # else the writer is about to end without restoring
            return left.discard()
        raise
    later = tuple(message("not-restored-yet", setting=one) for one in waits)
    done = (*restored.done, *groups, *later)
    problems = [NO_SNAPSHOT] if groups else []
    problems += [] if problem is None else [problem]
    if problems:
        told = done or (message("nothing-to-restore"),)
        raise RestoreError(message("restored-with-problems", done=told, problems=tuple(problems)))
    return done


def _recovered(left: HandOverFiles, keeper: Snapshot) -> bool:
    """Recover a lost snapshot from the hand-over file; return whether no error occurred.

    A failure must not stop a restore: the copy is in memory, and on disk in the hand-over file.
    """
    try:
        recover(keeper, left)
    except SnapshotError as error:
        LOG.info("%s", error)
        return False
    return True


def _removed(left: HandOverFiles) -> Message | None:
    try:
        left.remove()
    except SnapshotError as error:
        return error.message
    return None
