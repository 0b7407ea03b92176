# SPDX-License-Identifier: Apache-2.0
"""The promise that the host ends as it was found.

Before the first write everything that may be changed is saved in one file, on disk for good
(fsync) before anything is written. Whoever comes next restores from it: this process when it ends,
``iat-nova restore`` after a crash (systemd's ExecStopPost), or the next start. The file names the
boot it belongs to; after a reboot the hardware is as new, so an older snapshot is thrown away.

Only one process a host may write: it holds a lock (flock) that the kernel drops with the process,
however that ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from iat_nova.hardware.api import HardwareError

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_FORMAT = 1


class GuardError(HardwareError):
    """The host cannot be guarded, so it must not be changed."""


class HostTaken(GuardError):
    """Another process is the host's writer."""


class Restorable(Protocol):
    """A part of the hardware that can be saved and put back."""

    def save(self) -> Any:
        """Return, as plain JSON values, what `restore` needs."""

    def restore(self, saved: Any) -> tuple[str, ...]:
        """Put everything back and tell what was done; nothing when it is back already."""


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: `done` in words, `failed` what could not be put back and why."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Guard:
    """Saves, restores and locks one host.

    `parts` are saved, and restored in the order given, so the one that gives up processors comes
    first. `others` restore what a writer with other interfaces saved.
    """

    def __init__(
        self,
        parts: Mapping[str, Restorable],
        *,
        snapshot: Path,
        lock: Path,
        boot_id: Path = BOOT_ID,
        others: Mapping[str, Restorable] | None = None,
    ) -> None:
        self._parts = dict(parts)
        self._restorers = {**(others or {}), **self._parts}
        self._snapshot = snapshot
        self._lock = lock
        self._boot_id = boot_id
        self._saved: dict[str, Any] = {}

    @contextlib.contextmanager
    def only_writer(self) -> Iterator[None]:
        """Be the host's only writer. Raises `HostTaken`, or `GuardError` for the lock's file."""
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise GuardError(f"{self._lock}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
                raise HostTaken(
                    f"process {owner} writes this host's cache masks ({self._lock}); end it first "
                    "(systemctl stop iat-nova-agent)"
                ) from None
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            yield
        finally:
            os.close(fd)

    def protect(self, names: Collection[str] | None = None) -> Restored:
        """Make sure a snapshot of the untouched host is on disk; call before the first write.

        `names` are the parts about to be written, all when None. No others are saved, for what is
        saved is put back: who does not write must not undo what another hand does meanwhile.
        A snapshot that is there means that a writer ended without restoring: the host is put back
        from it first. Raises `GuardError` when that fails or nothing can be saved: then nothing
        must be written.
        """
        wanted = self._parts if names is None else self._parts.keys() & names
        unsaved = [name for name in wanted if name not in self._saved]
        if not unsaved:
            return Restored()
        restored = Restored() if self._saved else self.put_back()
        saved = {**self._saved, **{name: self._parts[name].save() for name in unsaved}}
        self._write(saved)
        self._saved = saved
        return restored

    def extend(self, names: Collection[str] | None = None) -> None:
        """Add to the snapshot what came to the machine since: processors, a socket.

        Call before the first write to it. `names` are the parts about to be written, all when
        None; what was saved of them stays. Raises `HardwareError`.
        """
        wanted = self._saved.keys() if names is None else self._saved.keys() & names
        saved = self._saved | {
            name: _extended(self._saved[name], self._parts[name].save()) for name in wanted
        }
        if saved != self._saved:
            self._write(saved)
            self._saved = saved

    def put_back(self) -> Restored:
        """Restore what a writer before us left. Raises `GuardError` when something stays."""
        restored = self.restore()
        if restored.failed:
            raise GuardError(
                "the host could not be put back as it was found: " + "; ".join(restored.failed)
            )
        return restored

    def restore(self) -> Restored:
        """Put the host back as the snapshot has it and remove the snapshot. May be repeated.

        Call it as the only writer. Without a snapshot, or with one of another boot, nothing is done
        to the hardware. What cannot be put back does not keep the other parts from it; the snapshot
        then stays.
        """
        saved = self._read()
        if saved is None:
            self._remove()  # of another boot
            return Restored()
        done: list[str] = []
        failed: list[str] = []
        for name, part in self._restorers.items():
            if name not in saved:
                continue
            try:
                done += part.restore(saved[name])
            except HardwareError as error:
                failed.append(f"{name}: {error}")
        failed += [f"{name}: no such part here" for name in saved if name not in self._restorers]
        if not failed:
            self._remove()
        return Restored(tuple(done), tuple(failed))

    def saved(self, name: str) -> Any:
        """Return what the snapshot of this boot has of a part, None when it has nothing.

        Raises `GuardError` as `pending` does.
        """
        return (self._read() or {}).get(name)

    @property
    def pending(self) -> bool:
        """Whether a snapshot of this boot is on disk: the host may differ from how it was found.

        Raises `GuardError` for a file that cannot be read or is no snapshot.
        """
        return self._read() is not None

    # ------------------------------------------------------------------------ the file

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text().strip()
        except OSError as error:
            raise GuardError(f"{self._boot_id}: {error.strerror}") from error

    def _read(self) -> dict[str, Any] | None:
        """Return the snapshot's parts; None where there is none of this boot."""
        try:
            text = self._snapshot.read_text()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise GuardError(f"{self._snapshot}: {error.strerror}") from error
        try:
            content = json.loads(text)
            version, boot, parts = content["format"], content["boot"], content["parts"]
        except (ValueError, KeyError, TypeError) as error:
            # It is renamed into place when whole, so this is another program's doing.
            raise GuardError(
                f"{self._snapshot}: not a snapshot ({error}); look at it, and remove it when the "
                "host is as it should be"
            ) from error
        if boot != self._boot():
            return None
        if version != _FORMAT:
            raise GuardError(
                f"{self._snapshot}: format {version}, this version knows {_FORMAT}; restore with "
                "the version that wrote it"
            )
        return dict(parts)

    def _write(self, parts: Mapping[str, Any]) -> None:
        """Put the snapshot on disk, whole or not at all, and wait until it is there."""
        content = {"format": _FORMAT, "boot": self._boot(), "parts": parts}
        new = self._snapshot.with_suffix(".new")
        try:
            self._snapshot.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "w") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._snapshot)
            self._sync_folder()
        except OSError as error:
            raise GuardError(
                f"{self._snapshot}: {error.strerror}; without a snapshot nothing is written"
            ) from error

    def _remove(self) -> None:
        self._saved = {}
        try:
            self._snapshot.unlink()
            self._sync_folder()
        except FileNotFoundError:
            return
        except OSError as error:
            raise GuardError(f"{self._snapshot}: {error.strerror}") from error

    def _sync_folder(self) -> None:
        fd = os.open(self._snapshot.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


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
