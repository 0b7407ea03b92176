# SPDX-License-Identifier: Apache-2.0
"""From one agent to the next across a restart: masks are kept, and so is what was decided.

Somebody asks for it (`iat-nova hand-over`, which the unit runs before a stop, and which does so
only where systemd restores the host if nobody comes). The agent then ends without restoring, and
leaves a file. The next one takes the file away before it looks whether all is as it was left: a
crash from then on restores. Where something is not, the host is restored and all begins anew.

Both are good for some seconds of one boot: a request and a file that are older are none.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from iat_nova.common.owned_folder import OwnedFolder
from iat_nova.common.readers import HAND_OVER, HAND_OVER_REQUEST
from iat_nova.common.untrusted import Unreadable
from iat_nova.enforcement import enforcer
from iat_nova.enforcement.snapshot import Snapshot
from iat_nova.enforcement.snapshot_file import BOOT_ID, SnapshotError, SnapshotFile
from iat_nova.hardware import resctrl
from iat_nova.hardware.api import DdioWays, DomainOffline, HardwareError
from iat_nova.model import CacheDomain, Message, message
from iat_nova.model.message import as_message
from iat_nova.store import records
from iat_nova.strategies import registry

LOG = logging.getLogger("iat_nova")

PARTS = frozenset(("resctrl", "ddio msr", "ddio io_alloc"))
"""The parts of the hardware that are handed over; an agent with others restores."""

_PART = "left"


@dataclasses.dataclass(frozen=True, slots=True)
class Left:
    """What an agent leaves to the next. `states` by cache domain, as plain JSON values in the file.

    `at_s`: when, on the monotonic clock, which goes on across processes. `fixed`: domains in
    which DDIO's register was found without effect. `saved`: a copy of the snapshot, should that be
    lost between the two agents.
    """

    at_s: float
    version: str
    strategy: str
    domains: tuple[CacheDomain, ...]
    states: Mapping[int, Any]
    fixed: tuple[int, ...]
    enforcer: enforcer.EnforcerMemory
    resctrl: resctrl.ResctrlMemory
    saved: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class HandOverFiles:
    """The request (in a folder of /run) and the file, which is none after `within_s`; 0: at once.

    The request is none after half of it: the agent that ends has the other half to be gone by then.
    `now_s` is the monotonic clock.
    """

    def __init__(
        self,
        path: Path,
        request: Path,
        within_s: float,
        *,
        boot_id: Path = BOOT_ID,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        # Never across kexec: the clock begins anew there.
        self._file = SnapshotFile(
            path,
            {_PART: {"type": "object"}},
            boot_id=boot_id,
            bootloader=Path(os.devnull),
            kind=HAND_OVER,
        )
        self.path = path
        self.request = request
        self._requests = OwnedFolder(request.parent)
        self.within_s = within_s
        self.now_s = now_s

    def ask(self) -> None:
        """Ask that the agent's next end hands over. Raises `OSError`."""
        self._requests.replace(self.request.name, f"{self.now_s()!r}\n")

    @property
    def asked(self) -> bool:
        """Whether somebody has asked lately, by a request that can be read."""
        try:
            at_s = self._asked_at_s()
        except Unreadable:
            return False
        return at_s is not None and self._fresh(at_s, self.within_s / 2)

    @property
    def unreadable(self) -> str:
        """Why the request cannot be read; "" where it can be, or where there is none."""
        try:
            self._asked_at_s()
        except Unreadable as error:
            return HAND_OVER_REQUEST.unreadable(self.request, str(error))
        return ""

    def _asked_at_s(self) -> float | None:
        """Return when somebody asked, None where nobody did. Raises `Unreadable`."""
        try:
            return float(self._requests.read(self.request.name, HAND_OVER_REQUEST.most_bytes))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from error
        except ValueError as error:
            raise Unreadable("it is not a number") from error

    @property
    def pending(self) -> bool:
        """Whether an agent may be about to leave something, or has left it for the next."""
        return self.asked or self.lately

    def write(self, left: Left) -> None:
        """Put it on disk, whole or not at all. Raises `SnapshotError`."""
        # Through JSON at once: the checksum is of keys that are text, as they are read.
        self._file.write({_PART: json.loads(json.dumps(records.unstructure(left)))})

    def read(self) -> Left | None:
        """Return what was left lately, None: nothing. Raises `SnapshotError`, `RecordError`."""
        content = self._content()
        if content is None:
            return None
        try:
            left = records.structure(content, Left)
        except records.RecordError as error:
            raise records.RecordError(f"{self.path}: {error}") from error
        return left if self._fresh(left.at_s, self.within_s) else None

    def snapshot(self) -> Mapping[str, Any]:
        """Return the copy of the snapshot, should that be lost; empty where there is none.

        It is good for twice the time in which an agent may adopt: systemd restores right after that
        time. Later an agent may have come and gone. The other content is not looked at: another
        release may write it in another form. Raises `SnapshotError`.
        """
        content = self._content() or {}
        at_s, saved = content.get("at_s"), content.get("saved")
        good = isinstance(at_s, float) and self._fresh(at_s, 2 * self.within_s)
        return saved if good and isinstance(saved, dict) else {}

    def _content(self) -> dict[str, Any] | None:
        content: dict[str, Any] | None = (self._file.read() or {}).get(_PART)
        return content

    @property
    def lately(self) -> bool:
        """Whether an agent left something that the next may take yet."""
        try:
            return self.read() is not None
        except (SnapshotError, records.RecordError):
            return False

    @property
    def there(self) -> bool:
        """Whether there is a file, readable or not. Raises `SnapshotError`."""
        return self._file.exists

    def discard(self) -> tuple[Message, ...]:
        """Remove a file that no agent took and that none may take any more; tell of it.

        Its agents use other interfaces, or an older release, or it is damaged. Raises
        `SnapshotError`.
        """
        if self.pending or not self.there:
            return ()
        self._file.remove()
        return (message("hand-over-removed", path=str(self.path)),)

    def let_pass(self) -> bool:
        """Whether an agent left something lately, as it was asked; the request is over then.

        So an end after that agent's, and before the next has taken it, does not pass.
        """
        passes = self.asked and self.lately
        try:
            self._requests.remove(self.request.name)
        except OSError:
            return False
        return passes

    def remove(self) -> None:
        """End the request, and remove what was left. Raises `SnapshotError`."""
        self._file.remove()
        try:
            self._requests.remove(self.request.name)
        except OSError as error:
            raise SnapshotError(f"{self.request}: {error.strerror}") from error

    def _fresh(self, at_s: float, within_s: float) -> bool:
        return 0 <= self.now_s() - at_s < within_s


class Succession:
    """Leaves one host to the next agent, and takes it over from the last.

    `snapshot`, `allocator` and `ddio` are the host's, `strategy` is the name of ours. `forget`:
    what was found of DDIO's ways while the last agent's lay there is to be looked at anew.
    """

    def __init__(
        self,
        files: HandOverFiles,
        snapshot: Snapshot,
        allocator: resctrl.Resctrl,
        ddio: DdioWays,
        strategy: str,
        version: str,
        forget: Callable[[], None],
    ) -> None:
        self._files = files
        self._snapshot = snapshot
        self._allocator = allocator
        self._ddio = ddio
        self._strategy = strategy
        self._version = version
        self._forget = forget

    @property
    def asked(self) -> bool:
        """Whether the end of this agent is to hand over."""
        return self._files.asked

    @property
    def unreadable(self) -> str:
        """Why the request for a hand-over cannot be read; "" where it can be, or is missing."""
        return self._files.unreadable

    def leave(
        self,
        states: Mapping[int, Any],
        fixed: Iterable[int],
        domains: Iterable[CacheDomain],
        memory: enforcer.EnforcerMemory,
    ) -> None:
        """Leave the host as it is to the next agent. Raises `HardwareError`: it is not left."""
        self._check_ours()
        try:
            plain = {number: records.unstructure(state) for number, state in states.items()}
            left = Left(
                self._files.now_s(),
                self._version,
                self._strategy,
                tuple(domains),
                plain,
                tuple(sorted(fixed)),
                memory,
                self._allocator.memory,
                self._snapshot.copy,
            )
            self._files.write(left)
        except (TypeError, ValueError) as error:  # a state may be anything
            raise HardwareError(message("state-not-json", error=str(error))) from error
        self._snapshot.hand_over()

    def _check_ours(self) -> None:
        """Raise `HardwareError` unless all that was written is of parts that are handed over."""
        if not self._snapshot.pending:
            raise HardwareError(message("hand-over-of-nothing"))
        self._snapshot.keep_file()  # the next agent restores from the file
        others = sorted(self._snapshot.names - PARTS)
        if others:
            raise HardwareError(message("hand-over-of-others", parts=tuple(others)))
        if self._snapshot.unreached:
            settings = self._snapshot.unreached
            raise HardwareError(message("not-put-back-yet", settings=settings))
        if registry.state_type(self._strategy) is None:
            raise HardwareError(message("strategy-without-state", strategy=self._strategy))

    def take(self) -> Left | None:
        """Take over what the last agent left; None: there is nothing.

        Call it as the only writer, after `recover`. The file is removed first. Raises
        `HardwareError` where something is not as it was left: then nothing is taken over.
        """
        try:
            left = self._files.read()
        except records.RecordError as error:
            self._files.remove()
            raise HardwareError(as_message(error)) from error
        except SnapshotError:
            self._files.remove()
            raise
        self._files.remove()
        if left is None:
            return None
        try:
            return self._adopted(left)
        except HardwareError:
            self._allocator.remember(())
            self._forget()
            raise

    def _adopted(self, left: Left) -> Left:
        """Go on from what was left, with states of the strategy's own type."""
        if left.strategy != self._strategy:
            raise HardwareError(
                message("strategy-changed", before=left.strategy, now=self._strategy)
            )
        kind = registry.state_type(self._strategy)
        if kind is None:
            raise HardwareError(message("strategy-without-state", strategy=self._strategy))
        try:
            states: dict[int, Any] = {
                n: records.structure(one, kind) for n, one in left.states.items()
            }
        except records.RecordError as error:
            raise HardwareError(as_message(error)) from error
        self._allocator.remember(left.domains)
        there = tuple(map(_hardware, self._allocator.domains()))
        if there != tuple(map(_hardware, left.domains)):
            raise HardwareError(message("domains-changed"))
        written = {}
        for number, one in left.enforcer.written.items():
            try:
                now, was = self._ddio.read(number), one.effective.ddio
            except DomainOffline:
                continue  # all of it is written anew when the domain is back
            if now != was:
                raise HardwareError(message("ddio-changed", domain=number, left=was, now=now))
            written[number] = one
        self._allocator.adopt(left.resctrl)
        self._snapshot.adopt()
        enforcer = dataclasses.replace(left.enforcer, written=written)
        return dataclasses.replace(left, states=states, enforcer=enforcer)


def recover(snapshot: Snapshot, files: HandOverFiles) -> None:
    """Write a snapshot that was lost since a hand-over again.

    Raises `SnapshotError`. What was handed over may be the only copy on disk then: it must not be
    removed before a restore.
    """
    if lost := snapshot.recover(files.snapshot()):
        LOG.warning("%s", lost)


def _hardware(domain: CacheDomain) -> CacheDomain:
    """Return what of a domain is the machine's own, not what somebody found or left free.

    Nor its CPUs: those that are offline are known only if an agent has seen them online.
    """
    return dataclasses.replace(
        domain,
        cpus=(),
        classes=1,
        ddio_found=None,
        ddio_resizable=False,
        ddio_counters=False,
        numa_nodes=(),
        dca_ports=(),
    )
