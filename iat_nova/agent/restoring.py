# SPDX-License-Identifier: Apache-2.0
"""Puts a host back as an agent found it, where that agent could not, or left it to another.

The unit, the timer of a restart and people run `restore`; the other functions say where the
snapshot and what was handed over lie, and who writes now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.conf import WRITER_LOCK, Settings
from iat_nova.enforcement.snapshot import HostTaken, Restored, RestoreError, Snapshot
from iat_nova.hardware import backends, pqos, probe
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.locks import lock_holder
from iat_nova.hardware.rollback import Restorable


def hand_over_files(settings: Settings) -> HandOverFiles:
    """Return where an agent leaves to the next what it wrote, and where it is asked to."""
    request = WRITER_LOCK.with_name("hand-over")
    return HandOverFiles(settings.hand_over_path, request, settings.hand_over_s)


def snapshot(
    settings: Settings, host: probe.Host, parts: Mapping[str, Restorable] | None = None
) -> Snapshot:
    """Make what saves `parts`, and restores anything an agent saved here."""
    return Snapshot(
        parts or {},
        snapshot=settings.snapshot_path,
        lock=WRITER_LOCK,
        others=backends.restorers(host),
    )


def groups_of_libpqos(keeper: Snapshot, host: probe.Host) -> tuple[str, ...]:
    """Return the groups libpqos made for an agent of ours, as its snapshot says.

    Raises `HardwareError`.
    """
    saved = keeper.saved("pqos-os")
    return pqos.groups_made(host.fs, saved) if saved else ()


def writer(host: probe.Host) -> int | None:
    """Return the process that writes this host's cache masks now, None when there is none."""
    return lock_holder(WRITER_LOCK, host.roots.proc)


def all_back(keeper: Snapshot) -> Restored:
    """Restore; tell what was done, and what is out of reach. Raises `HardwareError` for the rest.

    Settings of CPUs that are offline are out of reach: no failure of an end, which keeps them in
    the snapshot.
    """
    restored = keeper.restore()
    if restored.failed or restored.stale:
        not_restored = (*restored.failed, *out_of_reach(restored.left))
        told = ("not restored: " + "; ".join(not_restored)) if not_restored else "restored"
        raise RestoreError("; ".join(filter(None, (told, restored.stale))))
    return restored


def out_of_reach(left: Iterable[str]) -> tuple[str, ...]:
    """Return settings that a restore could not reach, each with what becomes of it."""
    return tuple(
        f"{one}; it stays in the snapshot and is restored when it is back: by an agent that runs, "
        "the next start, or iat-nova restore"
        for one in left
    )


def restore(
    settings: Settings, *, unless_handed_over: bool = False, unless_taken: bool = False
) -> tuple[str, ...]:
    """Put the host back as an agent found it that could not do so itself; tell what was done.

    Without a snapshot there is nothing to do on any machine, but for groups that carry our
    name. `unless_handed_over`: nothing is done, once, when the agent that ended has just left the
    host to the next; `unless_taken`: nothing while somebody writes, who restores at its end. Else
    raises `HardwareError` while an agent runs, and whenever something cannot be restored; with
    `unless_taken` also while the next agent may adopt yet: ask again.
    """
    host = probe.Host()
    left = hand_over_files(settings)
    if unless_handed_over and left.let_pass():
        return (f"handed over: the next agent has {settings.hand_over_s:g} s to adopt it",)
    if unless_taken and left.lately:  # a timer of an earlier restart
        raise HardwareError("handed over just now, and may be adopted yet; restore it later")
    try:
        if not settings.snapshot_path.exists() and not host.resctrl.own_groups():
            return ()
    except OSError as error:
        raise HardwareError(f"{settings.snapshot_path}: {error.strerror}; run as root") from error
    keeper = snapshot(settings, host)
    try:
        with keeper.only_writer():
            left.remove()
            restored = all_back(keeper)
            if left_over := out_of_reach(restored.left):
                raise RestoreError("not restored: " + "; ".join(left_over))
            return (*restored.done, *host.resctrl.remove_left_over())
    except HostTaken:
        if unless_taken and not left.pending:  # else that writer is about to end without restoring
            return ()
        raise
