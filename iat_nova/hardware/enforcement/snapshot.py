# SPDX-License-Identifier: Apache-2.0
"""The guarantee that the host ends with its original settings.

Before the first write the agent saves every setting that may change. The settings are saved in
memory, and in a file that is on disk (fsync) before anything is written. The agent restores from
memory when it ends. After a crash ``iat-nova restore`` (systemd's ExecStopPost) or the next start
restores from the file.

Only one process per host may write: the writer holds a lock (flock). The kernel drops the lock with
the process, however the process ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.enforcement.merging import joined, merged
from iat_nova.hardware.enforcement.snapshot_file import (
    BOOT_ID,
    BOOTLOADER,
    SnapshotError,
    SnapshotFile,
)
from iat_nova.hardware.kernel import locks
from iat_nova.hardware.kernel.rollback import Growing, Noting, Reach, Restorable
from iat_nova.model import Message, message

__all__ = ["HostTaken", "RestoreError", "Restored", "Snapshot", "SnapshotError"]


class RestoreError(SnapshotError):
    """An original setting could not be restored now."""


class HostTaken(SnapshotError):
    """Another process is the host's writer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore.

    `done`: settings that were changed back. `failed`: settings that are not restored, with the
    reason. `left`: settings that are out of reach now; the snapshot keeps them. `agreed`: parts of
    the hardware whose settings were read back and equal the original settings. `stale`: why the
    snapshot's file holds more than the left settings, or None.
    """

    done: tuple[Message, ...] = ()
    failed: tuple[Message, ...] = ()
    left: tuple[Message, ...] = ()
    agreed: tuple[str | Message, ...] = ()
    stale: Message | None = None

    @property
    def not_done(self) -> tuple[Message, ...]:
        """All failures; settings out of reach are not failures."""
        return self.failed if self.stale is None else (*self.failed, self.stale)


class Snapshot:
    """Saves, restores and locks one host.

    Original settings are kept in three places, each by part of the hardware:

    * **memory** (`_memory`): settings that this process saved before its first write. This process
      restores from memory, even if the file is lost.
    * **left** (`_left`): settings that an earlier restore left changed, because a CPU was offline,
      a root port was removed, or a write failed. They are restored as soon as they are in reach.
    * **the file**: both of them, for the process that restores after this one. A process without
      memory (``iat-nova restore``, the next agent) begins with the file, and its content becomes
      left. From then on memory decides: `keep_file` and `restore` repair a file that differs.

    `parts` are saved, and restored in the order given: the part that gives up CPUs comes first.
    `others` restore settings that a writer with other interfaces saved. `unreached`: settings that
    the last restore or `finish` could not reach. `handed_over`: another process restores instead of
    this process.
    """

    def __init__(
        self,
        parts: Mapping[str, Restorable],
        *,
        snapshot: Path,
        lock: Path,
        boot_id: Path = BOOT_ID,
        bootloader: Path = BOOTLOADER,
        others: Mapping[str, Restorable] | None = None,
    ) -> None:
        self._parts = dict(parts)
        self._restorers = {**(others or {}), **self._parts}
        shapes = {name: part.shape for name, part in self._restorers.items()}
        self._file = SnapshotFile(snapshot, shapes, boot_id=boot_id, bootloader=bootloader)
        self._path = snapshot
        self._lock = lock
        self._memory: dict[str, Any] = {}
        self._left: dict[str, Any] = {}
        self._begun = False  # memory and left are known: the file was read, or adopted
        self._adopted = False  # memory is another process's, whose writes are not known
        self.unreached: tuple[Message, ...] = ()
        self.handed_over = False
        self._held: locks.FileLock | None = None
        self._taken: HostTaken | None = None

    @contextlib.contextmanager
    def only_writer(self) -> Iterator[None]:
        """Be the host's only writer. Raises `HostTaken`, or `SnapshotError` for the lock's file."""
        with _worded(self._lock):
            held = self._held = locks.FileLock(self._lock)
        try:
            yield
        finally:
            self._held = None
            held.close()

    def keep_lock(self) -> None:
        """Stay the only writer if the lock's file was removed: create and lock it again.

        Raises `HostTaken` if another process has locked a new file. Every later call, and each
        method that writes, then raises `HostTaken` too: the host belongs to the other process,
        which restored it first. Raises `SnapshotError` while the file cannot be created.
        """
        if self._taken is not None:
            raise self._taken
        if self._held is not None:
            try:
                with _worded(self._lock):
                    self._held.keep()
            except HostTaken as error:
                self._taken = error
                raise

    @property
    def taken(self) -> bool:
        """Whether another process was found to be the writer."""
        return self._taken is not None

    def _check_sole(self) -> None:
        """Raise `HostTaken` if another process is the writer, found now or earlier."""
        try:
            self.keep_lock()
        except SnapshotError as error:  # others, of the lock's file, must not prevent a restore
            if isinstance(error, HostTaken):
                raise

    def protect(self) -> Restored:
        """Ensure that a snapshot of the untouched host is on disk; call before the first write.

        An existing snapshot means that a writer ended without restoring: the host is restored from
        this snapshot first. Raises `SnapshotError` when the restore fails or nothing can be saved;
        nothing may be written then.
        """
        self._check_sole()
        if self._memory:
            return Restored()
        restored = self.put_back()
        self._save({name: self._found(name) for name in self._parts})
        return restored

    def extend(self) -> None:
        """Add new CPUs and sockets to the snapshot; settings saved earlier stay.

        Call before the first write to them. Raises `HardwareError`.
        """
        self._check_sole()
        saved = {name: self._grown(name) for name in self._memory}
        if saved != self._memory:
            self._save(saved)

    def _grown(self, name: str) -> Any:
        """Return the saved settings of a part, with settings that appeared since then."""
        now, part = self._found(name), self._parts[name]
        extended = joined(self._memory[name], now)
        return part.grown(extended, now) if isinstance(part, Growing) else extended

    def keep_file(self) -> Message | None:
        """Write the file again if missing, damaged or changed; return the reason, or None.

        Only for the writer. Cheap while no program touches the file. Raises `SnapshotError` if the
        file cannot be written: the host would not be restored after a crash.
        """
        self._check_sole()
        saved = self._all()
        why = self._file.difference(saved) if self._begun and saved else None
        if why is not None:
            self._file.write(saved)
        return why

    def put_back(self) -> Restored:
        """Restore the settings that an earlier writer left. Raises `SnapshotError` after a failure.

        Settings out of reach are not failures: they stay in the snapshot, also in the next
        snapshot.
        """
        restored = self.restore()
        if restored.not_done:
            raise RestoreError(message("settings-not-restored", causes=restored.not_done))
        return restored

    def restore(self) -> Restored:
        """Restore the original settings, and read them back. May be repeated.

        Only for the writer. Memory counts if there is any, otherwise the file. Without a snapshot,
        or with a snapshot of another boot, the hardware is not touched. A part that fails does not
        block other parts, and stays in the snapshot. The file is removed when no setting is left.
        Raises `SnapshotError` for a refused file: then nothing was done.
        """
        self._check_sole()
        lost = None
        if not self._begun:
            self._left = self._file.read() or {}
            self._begun = True
        elif saved := self._all():
            lost = self._file.difference(saved)
        self._left, self._memory = merged(self._left, self._written()), {}
        self._adopted = False
        restored = self._put_back_left()
        return dataclasses.replace(
            restored,
            done=(() if lost is None else (message("restored-from-memory", reason=lost),))
            + restored.done,
            stale=self._updated_file(),
        )

    def _written(self) -> dict[str, Any]:
        """Return the settings in memory, without those that this process has not written."""
        if self._adopted:
            return self._memory
        found = dict(self._memory)
        for name, saved in self._memory.items():
            part = self._parts[name]
            if isinstance(part, Noting):
                with contextlib.suppress(HardwareError):  # not known now: all saved settings
                    found[name] = part.written(saved)
        return {name: saved for name, saved in found.items() if saved is not None}

    @property
    def unfinished(self) -> bool:
        """Whether `finish` has settings to restore; False while another process is the writer."""
        return bool(self._left) and self._taken is None

    def finish(self) -> Restored:
        """Restore settings that an earlier restore left changed and that are in reach now."""
        with contextlib.suppress(HostTaken):  # then nothing is unfinished any more
            self._check_sole()
        if not self.unfinished:
            return Restored()
        before = self._left
        restored = self._put_back_left()
        if before != self._left:
            restored = dataclasses.replace(restored, stale=self._updated_file())
        return restored

    @property
    def names(self) -> frozenset[str]:
        """Names of the hardware parts (resctrl, DDIO ...) that this process may have changed."""
        return frozenset(self._memory)

    def adopt(self) -> None:
        """Take over the snapshot on disk: this process restores from it at its end.

        Only for the writer. Raises `SnapshotError` without a snapshot, or for a snapshot of parts
        that this process does not write.
        """
        saved = self._file.read() or {}
        if not saved or not saved.keys() <= self._parts.keys():
            raise SnapshotError(
                message(
                    "snapshot-of-other-parts", saved=tuple(sorted(saved)), used=tuple(self._parts)
                )
            )
        self._memory, self._left, self._begun, self._adopted = saved, {}, True, True

    def recover(self, copy: Mapping[str, Any]) -> Message | None:
        """Write a lost or damaged file again from another process's copy; return why, or None.

        Only for the writer, before the file is read. Raises `SnapshotError` for a damaged copy, and
        where the file cannot be written: a restore then uses the copy in memory.
        """
        if not copy or self._begun:
            return None
        try:
            if self._file.read() is not None:
                return None
            why = message("snapshot-gone")
        except SnapshotError as error:
            why = error.message
        try:
            self._file.check_parts(copy)
        except (ValueError, RecursionError) as error:
            damaged = message("snapshot-copy-damaged", reason=why, error=str(error))
            raise SnapshotError(damaged) from error
        self._left, self._begun = dict(copy), True
        self._file.write(copy)
        return message("snapshot-recovered", reason=why)

    @property
    def copy(self) -> dict[str, Any]:
        """All saved settings, for `recover` in the next process."""
        return self._all()

    def hand_over(self) -> None:
        """Leave the host unchanged, with the snapshot, to another process."""
        self.handed_over = True

    def _put_back_left(self) -> Restored:
        """Restore left settings, read them back, and keep settings that could not be restored."""
        done: list[Message] = []
        failed: list[Message] = []
        places: list[Message] = []
        agreed: list[str] = []
        left = {name: saved for name, saved in self._left.items() if name not in self._restorers}
        failed += [message("part-absent", part=name) for name in left]
        for name in (name for name in self._restorers if name in self._left):
            part, saved = self._restorers[name], self._left[name]
            try:
                reach = part.reachable(saved)
                if reach.now is not None:
                    done += part.restore(reach.now)
                    _check_read_back(part, reach.now)
                    agreed.append(name)
            except HardwareError as error:
                failed.append(message("of-part", part=name, what=error.message))
                left[name] = saved
            else:
                places += _of_part(name, reach)
                left |= {} if reach.later is None else {name: reach.later}
        self._left, self.unreached = left, tuple(places)
        return Restored(tuple(done), tuple(failed), tuple(places), tuple(agreed))

    @property
    def pending(self) -> bool:
        """Whether there is a snapshot of this boot: the host may have other settings now.

        Raises `SnapshotError` for a file that cannot be read or is not a snapshot, unless this
        process has the settings in memory.
        """
        return bool(self._known())

    @property
    def on_disk(self) -> bool:
        """Whether there is a file, readable or not. Raises `SnapshotError`."""
        return self._file.exists

    def out_of_reach(self) -> tuple[Message, ...] | None:
        """Return the places of all saved settings, if none of them can be restored now.

        None if a part can be restored, or without a snapshot. Raises `SnapshotError`.
        """
        saved = self._known()
        if not saved or not saved.keys() <= self._restorers.keys():
            return None
        reaches = {name: self._restorers[name].reachable(one) for name, one in saved.items()}
        if any(reach.now is not None for reach in reaches.values()):
            return None
        return tuple(place for name, one in reaches.items() for place in _of_part(name, one))

    def _known(self) -> dict[str, Any]:
        """Return all saved settings: memory and left if known, otherwise the file's."""
        return self._all() if self._begun else self._file.read() or {}

    def _all(self) -> dict[str, Any]:
        """Return memory and left merged, in the form of the file."""
        return merged(self._left, self._memory)

    def _found(self, name: str) -> Any:
        """Return a part's settings before any agent's first write. Raises `HardwareError`.

        A left setting may be in reach again before `finish` restores it: the hardware then still
        has an agent's value, and the left value is the original.
        """
        now = self._parts[name].save()
        return joined(self._left[name], now) if name in self._left else now

    def _save(self, memory: dict[str, Any]) -> None:
        """Write this memory to disk, with left settings, then use it."""
        self._file.write(merged(self._left, memory))
        self._memory = memory

    def _updated_file(self) -> Message | None:
        """Write the left settings to the file, or remove the file; return the failure, or None."""
        saved = self._all()
        try:
            if not saved:
                self._file.remove()
            elif self._file.difference(saved):
                self._file.write(saved)
        except SnapshotError as error:
            return message("snapshot-not-updated", error=error.message)
        return None


def _of_part(name: str, reach: Reach) -> tuple[Message, ...]:
    """Return a part's settings that are out of reach, with the part's name."""
    return tuple(message("of-part", part=name, what=place) for place in reach.places)


def _check_read_back(part: Restorable, saved: Any) -> None:
    """Raise `HardwareError` if a part does not have the saved settings.

    The check is a second restore, which must find nothing to change.
    """
    if differs := part.restore(saved):
        raise HardwareError(message("settings-not-kept", settings=differs))


@contextlib.contextmanager
def _worded(lock: Path) -> Iterator[None]:
    """Turn errors of the lock into errors with a remedy."""
    try:
        yield
    except locks.LockHeld as held:
        raise HostTaken(
            message("host-taken", process=held.owner, path=str(lock)), message("end-writer-first")
        ) from None
    except OSError as error:
        raise SnapshotError(unusable(lock, error)) from error
