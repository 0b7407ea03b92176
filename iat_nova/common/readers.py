# SPDX-License-Identifier: Apache-2.0
"""Kinds of files from operators or other programs: limits, and the meaning of unreadable files.

This is the full list of kinds. Readers take limits from here, so that each limit is written once.
The tests feed every kind with broken content and run its remedy.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from iat_nova.common import files
from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.untrusted import Unreadable, parse_json, shortened

_MOST_SHOWN = 200  # characters of an error


@dataclasses.dataclass(frozen=True, slots=True)
class FileKind:
    """One kind of file: `path` is the display name, `treated_as` the meaning of an unreadable file.

    `remedy`: the command or the action on the file that ends the unreadable state. A file has at
    most `most_bytes`; JSON is nested at most `depth` levels deep (0: the file is not JSON).
    `follow`: a symbolic link in place of the file is followed. `infinite`: numbers may be infinite.
    """

    path: str
    most_bytes: int
    treated_as: str
    remedy: str
    depth: int = 0
    follow: bool = False
    infinite: bool = False

    def read(self, path: str | Path) -> bytes:
        """Return a file's content. Raises `OSError`, also for a file that is too large."""
        if self.follow:
            return files.read_bytes(path, self.most_bytes)
        return OwnedFolder(Path(path).parent).read(Path(path).name, self.most_bytes)

    def parse_object(self, content: bytes) -> dict[str, Any]:
        """Return the JSON object that is a file's content. Raises `Unreadable`."""
        plain = parse_json(content, depth=self.depth, infinite=self.infinite)
        if not isinstance(plain, dict):
            raise Unreadable("it is not an object")
        return plain

    def unreadable(self, path: str | Path, why: str, remedy: str | None = None) -> str:
        """Return the message for an unreadable file: path, consequence, cause and remedy."""
        remedy = remedy or self.remedy
        why = shortened(why, _MOST_SHOWN)
        return f"{path} is unreadable: treated as {self.treated_as} until {remedy} ({why})"


PAUSE = FileKind("STATE_DIR/pause.json", 64 << 10, "paused", "`iat-nova resume`", depth=4)
HOLD = FileKind(
    "STATE_DIR/holds/TENANT.json", 64 << 10, "no hold", "`iat-nova release TENANT`", depth=4
)
SNAPSHOT = FileKind(
    "STATE_DIR/snapshot.json",
    4 << 20,
    "a host that cannot be guarded: nothing is written",
    "the file is looked at and removed",
    depth=16,
)
HAND_OVER = FileKind(
    "STATE_DIR/hand-over.json",
    16 << 20,
    "nothing to take over: the host is restored",
    "the next start, which removes it",
    depth=32,
    infinite=True,  # times in a strategy's state may be infinite
)
HAND_OVER_REQUEST = FileKind(
    "/run/iat-nova/hand-over",
    64,
    "no request: the agent's end restores the host",
    "`iat-nova hand-over`",
)
HEARTBEAT = FileKind(
    "STATE_DIR/agent.lock",
    4096,
    "an agent that has said nothing yet",
    "its next iteration",
    depth=2,
)
SPOOL = FileKind(
    "SPOOL_DIR/UUID.json",
    256 << 10,
    "a guest of unknown extra specs, with a warning",
    "the driver writes it again, or it is removed",
    depth=16,
)
POLICY = FileKind(
    "[iat] policy_file, [iat] shadow_policy",
    4 << 20,
    "no policy: the one in force stays, a start fails",
    "it is mended and `iat-nova reload`",
    follow=True,
)
FACTS = FileKind(
    "FACTS of iat-nova policy",
    4 << 20,
    "no facts",
    "`iat-nova policy facts` writes it again",
    follow=True,
)
CONFIGURATION = FileKind(
    "/etc/iat-nova/iat-nova.conf, /etc/nova/nova.conf and others",
    4 << 20,
    "an invalid configuration: what runs goes on, a start fails",
    "it is mended",
    follow=True,
)
PROVIDER = FileKind(
    "[compute] provider_config_location/*.yaml",
    64 << 10,
    "an offer that is not known, with a warning",
    "it is mended or `iat-nova provider-config` writes it again",
    follow=True,
)
SCENARIO = FileKind(
    "SCENARIO of iat-nova simulate", 4 << 20, "no scenario", "it is mended", follow=True
)
