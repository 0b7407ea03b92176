# SPDX-License-Identifier: Apache-2.0
"""The promise that the host ends as it was found.

Before the first write everything that may be changed is saved in one file, on disk for good
(fsync) before anything is written. What runs next restores from it: this process when it ends,
``iat-nova restore`` after a crash (systemd's ExecStopPost), or the next start. What is then out of
reach, because its CPUs are offline, stays in the file and is restored when they are back.

Only one process a host may write: it holds a lock (flock) that the kernel drops with the process,
however that ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from iat_nova.enforcement.snapshot_file import BOOT_ID, BOOTLOADER, SnapshotError, SnapshotFile
from iat_nova.hardware import locks
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.rollback import Restorable

__all__ = ["HostTaken", "RestoreError", "Restored", "Snapshot", "SnapshotError"]


class RestoreError(SnapshotError):
    """Something of the host is not as it was found, and could not be restored now."""


class HostTaken(SnapshotError):
    """Another process is the host's writer."""


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: `done` in words, `failed` what could not be restored and why.

    `left` is what nobody can reach now; it is in the snapshot still.
    """

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


class Snapshot:
    """Saves, restores and locks one host.

    `parts` are saved, and restored in the order given, so the one that gives up CPUs comes
    first. `others` restore what a writer with other interfaces saved.
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
        self._lock = lock
        self._saved: dict[str, Any] = {}  # what this process may have changed
        self._left: dict[str, Any] = {}  # what an earlier end could not restore
        self._unreached: tuple[str, ...] = ()
        self._handed_over = False

    @contextlib.contextmanager
    def only_writer(self) -> Iterator[None]:
        """Be the host's only writer. Raises `HostTaken`, or `SnapshotError` for the lock's file."""
        try:
            fd = locks.acquire(self._lock)
        except locks.LockHeld as held:
            raise HostTaken(
                f"process {held.owner} writes this host's cache masks ({self._lock}); end it first "
                "(systemctl stop iat-nova-agent)"
            ) from None
        except OSError as error:
            raise SnapshotError(f"{self._lock}: {error.strerror}") from error
        try:
            yield
        finally:
            os.close(fd)

    def protect(self, names: Collection[str] | None = None) -> Restored:
        """Make sure a snapshot of the untouched host is on disk; call before the first write.

        `names` are the parts about to be written, all when None. No others are saved, for what is
        saved is restored: what does not write must not undo what another program does meanwhile.
        A snapshot that is there means that a writer ended without restoring: the host is restored
        from it first. Raises `SnapshotError` when that fails or nothing can be saved: then nothing
        must be written.
        """
        wanted = self._parts if names is None else self._parts.keys() & names
        unsaved = [name for name in wanted if name not in self._saved]
        if not unsaved:
            return Restored()
        restored = Restored() if self._saved else self.put_back()
        self._keep({**self._saved, **{name: self._parts[name].save() for name in unsaved}})
        return restored

    def extend(self, names: Collection[str] | None = None) -> None:
        """Add to the snapshot what came to the machine since: CPUs, a socket.

        Call before the first write to it. `names` are the parts about to be written, all when
        None; what was saved of them stays. Raises `HardwareError`.
        """
        wanted = self._saved.keys() if names is None else self._saved.keys() & names
        saved = self._saved | {
            name: _extended(self._saved[name], self._parts[name].save()) for name in wanted
        }
        if saved != self._saved:
            self._keep(saved)

    def put_back(self) -> Restored:
        """Restore what a writer before us left. Raises `SnapshotError` when something fails.

        What nobody can reach now is not a failure: it stays in the snapshot, also in the next one.
        """
        restored = self.restore()
        if restored.failed:
            raise RestoreError(
                "could not restore the original hardware settings: " + "; ".join(restored.failed)
            )
        return restored

    def restore(self) -> Restored:
        """Put the host back as the snapshot has it. May be repeated.

        Call it as the only writer. Without a snapshot, or with one of another boot, nothing is done
        to the hardware. What cannot be restored does not keep the other parts from it, and stays in
        the snapshot, which is removed when nothing does. Raises `SnapshotError` for a snapshot that
        is refused: then nothing was done.
        """
        saved = self._file.read()
        self._saved, self._left = {}, saved or {}
        restored = self._put_back_left()
        if saved != self._left or not self._left:
            self._keep({})
        return restored

    def finish(self) -> Restored:
        """Restore what an earlier end could not reach and can be reached now."""
        before = self._left
        restored = self._put_back_left()
        if before != self._left:
            self._keep(self._saved)
        return restored

    @property
    def unreached(self) -> tuple[str, ...]:
        """What the last restore or `finish` could not reach."""
        return self._unreached

    @property
    def names(self) -> frozenset[str]:
        """The parts that this process may have changed."""
        return frozenset(self._saved)

    def adopt(self) -> None:
        """Take the snapshot on disk for this process's own: its end restores from it.

        Call it as the only writer. Raises `SnapshotError` where there is none, or one of parts
        that this process does not write.
        """
        saved = self._file.read() or {}
        if not saved or not saved.keys() <= self._parts.keys():
            have = ", ".join(sorted(saved)) or "nothing"
            raise SnapshotError(f"the snapshot is of {have}, we use {', '.join(self._parts)}")
        self._saved = saved

    def hand_over(self) -> None:
        """Leave the host as it is, and the snapshot, to another process."""
        self._handed_over = True

    @property
    def handed_over(self) -> bool:
        """Whether another process restores in this one's place."""
        return self._handed_over

    def _put_back_left(self) -> Restored:
        """Restore what is left, and keep what stays."""
        done: list[str] = []
        failed: list[str] = []
        places: list[str] = []
        left = {name: saved for name, saved in self._left.items() if name not in self._restorers}
        failed += [f"{name}: no such part here" for name in left]
        for name in (name for name in self._restorers if name in self._left):
            part, saved = self._restorers[name], self._left[name]
            try:
                reach = part.reachable(saved)
                if reach.now is not None:
                    done += part.restore(reach.now)
            except HardwareError as error:
                failed.append(f"{name}: {error}")
                left[name] = saved
            else:
                places += [f"{name}: {place}" for place in reach.places]
                left |= {} if reach.later is None else {name: reach.later}
        self._left, self._unreached = left, tuple(places)
        return Restored(tuple(done), tuple(failed), tuple(places))

    def saved(self, name: str) -> Any:
        """Return what the snapshot of this boot has of a part, None when it has nothing.

        Raises `SnapshotError` as `pending` does.
        """
        return (self._file.read() or {}).get(name)

    @property
    def pending(self) -> bool:
        """Whether a snapshot of this boot is on disk: the host may differ from how it was found.

        Raises `SnapshotError` for a file that cannot be read or is not a snapshot.
        """
        return self._file.read() is not None

    def out_of_reach(self) -> tuple[str, ...] | None:
        """Return what a snapshot on disk still has, when none of it can be restored now.

        None when some of it can, or when there is no snapshot. Raises `SnapshotError`.
        """
        saved = self._file.read()
        if not saved or not saved.keys() <= self._restorers.keys():
            return None
        reaches = {name: self._restorers[name].reachable(one) for name, one in saved.items()}
        if any(reach.now is not None for reach in reaches.values()):
            return None
        return tuple(f"{name}: {place}" for name, one in reaches.items() for place in one.places)

    def _keep(self, saved: dict[str, Any]) -> None:
        """Have this, and what is left of earlier ends, on disk; no file when that is nothing."""
        names = self._left.keys() | saved.keys()
        parts = {
            name: _extended(self._left[name], saved[name])
            if name in self._left and name in saved
            else self._left.get(name, saved.get(name))
            for name in sorted(names)
        }
        if parts:
            self._file.write(parts)
        else:
            self._file.remove()
        self._saved = saved


def _extended(had: Any, now: Any) -> Any:
    """Return what was saved, with what `now` has of other keys, or other registers.

    Registers are lists of lists, each of which ends with the value.
    """
    if isinstance(had, dict) and isinstance(now, dict):
        return {**now, **{key: _extended(value, now.get(key)) for key, value in had.items()}}
    if isinstance(had, list) and all(isinstance(one, list) for one in had):
        known = [one[:-1] for one in had]
        return had + [one for one in now if one[:-1] not in known]
    return had
