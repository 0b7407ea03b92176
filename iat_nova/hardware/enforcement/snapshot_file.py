# SPDX-License-Identifier: Apache-2.0
"""The file with the original hardware settings: read whole and checked, or refused.

The file carries a checksum over its content and the id of its boot. The file is read and checked as
a whole before any setting is used.

A snapshot of another boot does not count: a reboot resets the hardware. A start by kexec does not
count as a reboot: the boot id changes, while no register is reset.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.readers import SNAPSHOT, FileKind
from iat_nova.common.untrusted import Unreadable, shortened
from iat_nova.hardware.api import HardwareError, unusable
from iat_nova.hardware.kernel import files
from iat_nova.hardware.kernel.shape import Shape, check, record, text, whole
from iat_nova.model import Message, message

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
BOOTLOADER = Path("/proc/sys/kernel/bootloader_type")
_KEXEC = (
    0xD  # Linux, Documentation/arch/x86/boot.rst, type_of_loader; sysctl kernel.bootloader_type
)
_FORMAT = 2
_MODE = 0o640  # root, and the service's group
_ADVICE = message("look-and-remove-snapshot")


_SHAPE = record(
    {
        "format": whole(_FORMAT, _FORMAT),
        "boot": text(r".{1,64}", "a boot id"),
        "parts": {"type": "object", "title": "an object"},
        "sha256": text(r"[0-9a-f]{64}", "a checksum"),
    }
)


class SnapshotError(HardwareError):
    """The host cannot be guarded, so it must not be changed."""


class SnapshotFile:
    """The snapshot's file; `shapes` gives the required form of every known part."""

    def __init__(
        self,
        path: Path,
        shapes: Mapping[str, Shape],
        *,
        boot_id: Path = BOOT_ID,
        bootloader: Path = BOOTLOADER,
        kind: FileKind = SNAPSHOT,
    ) -> None:
        self._kind = kind
        self._path = path
        self._folder = OwnedFolder(path.parent)
        self._shapes = shapes
        self._boot_id = boot_id
        self._bootloader = bootloader
        self._seen: tuple[tuple[int, ...], dict[str, Any]] | None = None

    def read(self) -> dict[str, Any] | None:
        """Return the saved settings by part; None without a snapshot of this boot.

        Raises `SnapshotError` for a file that cannot be read, is not a snapshot, or is damaged.
        """
        content = self._content()
        if content is None:
            return None
        try:
            self._check(content)
        except ValueError as error:
            raise self._refusal(str(error)) from error
        if self._was_reset(content):
            return None
        return dict(content["parts"])

    @property
    def exists(self) -> bool:
        """Whether there is a file, readable or not. Raises `SnapshotError`."""
        try:
            return self._folder.status(self._path.name) is not None
        except OSError as error:
            raise SnapshotError(unusable(self._path, error), message("run-as-root")) from error

    def difference(self, parts: dict[str, Any]) -> Message | None:
        """Return why the file does not hold these parts, None when it does.

        The file is read only if it was touched since the last successful comparison.
        """
        identity = self._identity()
        if identity and self._seen == (identity, parts):
            return None
        try:
            found = self.read()
        except SnapshotError as error:
            return error.message
        if found is None:
            return message("snapshot-file-gone", path=str(self._path))
        if found != parts:
            return message("snapshot-file-changed", path=str(self._path))
        self._seen = (identity, parts)
        return None

    def _identity(self) -> tuple[int, ...]:
        """Return values that change whenever another program replaces or writes the file."""
        try:
            status = self._folder.glance(self._path.name)
        except OSError:
            return ()
        if status is None:
            return ()
        return (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)

    def _content(self) -> dict[str, Any] | None:
        """Return the file's JSON; None if missing, or of another boot and an unknown format."""
        try:
            content = self._kind.parse_object(
                self._folder.read(self._path.name, self._kind.most_bytes, own=True)
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise SnapshotError(unusable(self._path, error)) from error
        except Unreadable as error:
            # The file is renamed into place when complete, so another program damaged it.
            raise self._refusal(str(error)) from error
        if content.get("format", _FORMAT) != _FORMAT:
            if self._was_reset(content):
                return None
            found = shortened(repr(content["format"]))
            raise SnapshotError(
                message("snapshot-format", path=str(self._path), found=found, known=_FORMAT),
                message("restore-with-its-version"),
            )
        return content

    def _check(self, content: dict[str, Any]) -> None:
        """Raise `ValueError` unless all of the content is as written."""
        check(_SHAPE, content)
        if content["sha256"] != _checksum(content):
            raise ValueError("its checksum is of other content")
        self.check_parts(content["parts"])

    def check_parts(self, parts: Mapping[str, Any]) -> None:
        """Raise `ValueError` unless every part has the form that its hardware interface saves."""
        check({"properties": self._shapes}, parts)

    def _refusal(self, why: str) -> SnapshotError:
        return SnapshotError(message("snapshot-damaged", path=str(self._path), why=why), _ADVICE)

    def write(self, parts: Mapping[str, Any]) -> None:
        """Write the snapshot to disk, whole or not at all, and wait until it is there.

        Raises `SnapshotError`, also for a content that `read` would refuse: then the file on disk
        stays as it is.
        """
        content = {"format": _FORMAT, "boot": self._boot(), "parts": dict(parts)}
        content["sha256"] = _checksum(content)
        text = json.dumps(content, indent=1).encode()
        self._check_readable(text)
        try:
            self._folder.make()
            self._folder.replace(self._path.name, text, _MODE, durable=True)
        except OSError as error:
            raise SnapshotError(
                message("snapshot-unwritten", path=str(error.filename), reason=error.strerror)
            ) from error

    def _check_readable(self, text: bytes) -> None:
        """Raise `SnapshotError` unless `read` accepts this text: a restore could not use it."""
        path, most = str(self._path), self._kind.most_bytes
        if len(text) > most:
            raise SnapshotError(message("snapshot-too-large", path=path, most_bytes=most))
        try:
            self._check(self._kind.parse_object(text))
        except ValueError as error:
            raise SnapshotError(
                message("snapshot-unwritten", path=path, reason=str(error))
            ) from error

    def remove(self) -> None:
        """Remove the file, if any. Raises `SnapshotError`."""
        try:
            self._folder.remove(self._path.name, durable=True)
        except OSError as error:
            raise SnapshotError(unusable(self._path, error)) from error

    def _boot(self) -> str:
        try:
            return self._boot_id.read_text().strip()
        except OSError as error:
            raise SnapshotError(unusable(self._boot_id, error)) from error

    def _was_reset(self, content: Mapping[str, Any]) -> bool:
        """Whether a reboot has reset the hardware since `content` was written."""
        return content.get("boot") != self._boot() and not self._by_kexec()

    def _by_kexec(self) -> bool:
        """Whether another kernel started this kernel by kexec, without a reset of the hardware."""
        return (files.number_of(self._bootloader) or 0) >> 4 == _KEXEC


def _checksum(content: Mapping[str, Any]) -> str:
    """Return the checksum of a snapshot's content without the checksum, in canonical layout."""
    covered = {key: value for key, value in content.items() if key != "sha256"}
    plain = json.dumps(covered, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()
