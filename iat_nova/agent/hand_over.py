# SPDX-License-Identifier: Apache-2.0
"""Hand-over from one agent to the next across a restart: masks and decisions are kept.

`iat-nova hand-over` requests a hand-over. The unit runs this command before a stop; the command
makes a request only if systemd restores the host in case no agent follows. The agent then ends
without restoring, and leaves a file. The next agent removes the file before checking that the
settings are unchanged: a crash from then on restores. If a setting differs, the host is restored
and the next agent starts from the beginning.

Request and file are valid for some seconds of one boot; older requests and files are ignored.
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
from iat_nova.common.untrusted import Unreadable, worded
from iat_nova.hardware.api import DdioWays, DomainOffline, HardwareError
from iat_nova.hardware.cat.resctrl import Resctrl
from iat_nova.hardware.cat.resctrl_groups import ResctrlMemory
from iat_nova.hardware.enforcement import enforcer
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.enforcement.snapshot_file import BOOT_ID, SnapshotError, SnapshotFile
from iat_nova.model import CacheDomain, Message, Parameters, Sample, message
from iat_nova.model.message import as_message, verbatim
from iat_nova.store import records
from iat_nova.strategies import registry
from iat_nova.strategies.api import decide
from iat_nova.strategies.layout.check import InvalidLayout, check

LOG = logging.getLogger("iat_nova")

PARTS = frozenset(("resctrl", "ddio msr", "ddio io_alloc"))
"""The parts of the hardware that can be handed over; an agent with other parts restores."""

_PART = "left"


@dataclasses.dataclass(frozen=True, slots=True)
class HandedOver:
    """The state that an agent leaves to the next. `states`: by cache domain, as JSON in the file.

    `at_s`: time of the hand-over by the monotonic clock, which all processes share. `fixed`:
    domains whose DDIO register was found without effect. `saved`: a copy of the snapshot, in case
    the snapshot is lost between the two agents.
    """

    at_s: float
    version: str
    strategy: str
    domains: tuple[CacheDomain, ...]
    states: Mapping[int, Any]
    fixed: tuple[int, ...]
    enforcer: enforcer.EnforcerMemory
    resctrl: ResctrlMemory
    saved: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class HandOverFiles:
    """The request (in a folder of /run) and the file; the file is valid for `within_s` seconds.

    With 0, no file is valid. The request is valid for half of this time: the ending agent has the
    other half to finish. `now_s` is the monotonic clock.
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
        # Never across kexec: the clock restarts there.
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
        """Request a hand-over at the agent's next end. Raises `OSError`."""
        self._requests.replace(self.request.name, f"{self.now_s()!r}\n")

    @property
    def asked(self) -> bool:
        """Whether a valid and readable request exists."""
        try:
            at_s = self._asked_at_s()
        except Unreadable:
            return False
        return at_s is not None and self._fresh(at_s, self.within_s / 2)

    @property
    def unreadable(self) -> str:
        """Why the request cannot be read; "" for a readable or missing request."""
        try:
            self._asked_at_s()
        except Unreadable as error:
            return HAND_OVER_REQUEST.unreadable(self.request, str(error))
        return ""

    def _asked_at_s(self) -> float | None:
        """Return the time of the request, None without a request. Raises `Unreadable`."""
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
        """Whether an agent may be about to hand over, or has handed over to the next."""
        return self.asked or self.lately

    def write(self, left: HandedOver) -> None:
        """Write the state to disk atomically. Raises `SnapshotError`."""
        # Through JSON first: the checksum covers text keys, as the reader gets.
        self._file.write({_PART: json.loads(json.dumps(records.unstructure(left)))})

    def read(self) -> HandedOver | None:
        """Return the state in a valid file, or None. Raises `SnapshotError`, `RecordError`."""
        content = self._content()
        if content is None:
            return None
        try:
            left = records.structure(content, HandedOver)
        except records.RecordError as error:
            raise records.RecordError(f"{self.path}: {error}") from error
        return left if self._fresh(left.at_s, self.within_s) else None

    def snapshot(self) -> Mapping[str, Any]:
        """Return the copy of the snapshot in the hand-over file; empty without a valid copy.

        systemd restores right after `within_s`, so the copy is valid for twice this time: later,
        another agent may have changed the host. Other fields of the file are not checked, because
        another release may use another format. Raises `SnapshotError`.
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
        """Whether an agent left a file that the next agent may still adopt."""
        try:
            return self.read() is not None
        except (SnapshotError, records.RecordError):
            return False

    @property
    def there(self) -> bool:
        """Whether a file exists, readable or not. Raises `SnapshotError`."""
        return self._file.exists

    def discard(self) -> tuple[Message, ...]:
        """Remove an expired or unusable file that no agent adopted; return a message if removed.

        Raises `SnapshotError`.
        """
        if self.pending or not self.there:
            return ()
        self._file.remove()
        return (message("hand-over-removed", path=str(self.path)),)

    def let_pass(self) -> bool:
        """Return whether an agent has just handed over by request; remove the request.

        So a second end before the next agent's adoption does not pass.
        """
        passes = self.asked and self.lately
        try:
            self._requests.remove(self.request.name)
        except OSError:
            return False
        return passes

    def remove(self) -> None:
        """Remove the hand-over file and the request for a hand-over. Raises `SnapshotError`."""
        self._file.remove()
        try:
            self._requests.remove(self.request.name)
        except OSError as error:
            raise SnapshotError(f"{self.request}: {error.strerror}") from error

    def _fresh(self, at_s: float, within_s: float) -> bool:
        return 0 <= self.now_s() - at_s < within_s


@dataclasses.dataclass(frozen=True)
class Succession:
    """Hand one host over to the next agent, and adopt the host from the previous agent.

    `files`: the files of the request and of the state that the previous agent left. `snapshot`,
    `allocator` and `ddio` belong to the host; `strategy` is the name of this agent's strategy.
    `forget` discards DDIO's ways that were read under the previous agent's settings.
    """

    files: HandOverFiles
    snapshot: Snapshot
    allocator: Resctrl
    ddio: DdioWays
    strategy: str
    version: str
    forget: Callable[[], None]

    def leave(
        self,
        states: Mapping[int, Any],
        fixed: Iterable[int],
        domains: Iterable[CacheDomain],
        memory: enforcer.EnforcerMemory,
    ) -> None:
        """Hand the host with its settings over; raises `HardwareError` if not done."""
        self._check_ours()
        try:
            plain = {number: records.unstructure(state) for number, state in states.items()}
            left = HandedOver(
                self.files.now_s(),
                self.version,
                self.strategy,
                tuple(domains),
                plain,
                tuple(sorted(fixed)),
                memory,
                self.allocator.memory,
                self.snapshot.copy,
            )
            self.files.write(left)
        except (TypeError, ValueError) as error:  # a state may be anything
            raise HardwareError(message("state-not-json", error=str(error))) from error
        self.snapshot.hand_over()

    def _check_ours(self) -> None:
        """Raise `HardwareError` unless all written settings can be handed over."""
        if not self.snapshot.pending:
            raise HardwareError(message("hand-over-of-nothing"))
        self.snapshot.keep_file()  # the next agent restores from the file
        others = sorted(self.snapshot.names - PARTS)
        if others:
            raise HardwareError(message("hand-over-of-others", parts=tuple(others)))
        if self.snapshot.unreached:
            settings = self.snapshot.unreached
            raise HardwareError(message("not-put-back-yet", settings=settings))
        if registry.state_type(self.strategy) is None:
            raise HardwareError(message("strategy-without-state", strategy=self.strategy))

    def take(self) -> HandedOver | None:
        """Adopt the state that the previous agent left; return None without a valid file.

        Call as the only writer, after `recover`. The file is removed first. Raises `HardwareError`
        if a setting differs from the hand-over: then nothing is adopted.
        """
        try:
            left = self.files.read()
        except records.RecordError as error:
            self.files.remove()
            raise HardwareError(as_message(error)) from error
        except SnapshotError:
            self.files.remove()
            raise
        self.files.remove()
        if left is None:
            return None
        try:
            return self._adopted(left)
        except HardwareError:
            self.allocator.remember(())
            self.forget()
            raise

    def _adopted(self, left: HandedOver) -> HandedOver:
        """Check and adopt the left state, with states of the strategy's own type."""
        if left.strategy != self.strategy:
            raise HardwareError(
                message("strategy-changed", before=left.strategy, now=self.strategy)
            )
        try:
            kind = registry.state_type(self.strategy)
        except registry.StrategyError as error:
            raise HardwareError(as_message(error)) from error
        if kind is None:
            raise HardwareError(message("strategy-without-state", strategy=self.strategy))
        try:
            states: dict[int, Any] = {
                n: records.structure(one, kind) for n, one in left.states.items()
            }
        except records.RecordError as error:
            raise HardwareError(as_message(error)) from error
        self.allocator.remember(left.domains)
        there = tuple(map(_hardware, self.allocator.domains()))
        if there != tuple(map(_hardware, left.domains)):
            raise HardwareError(message("domains-changed"))
        try:
            states = self._sound(left, states)
        except Exception as error:  # the states and the strategy may be anything
            why = as_message(error) if isinstance(error, InvalidLayout) else verbatim(worded(error))
            raise HardwareError(why) from error
        written = {}
        for number, one in left.enforcer.written.items():
            try:
                now, was = self.ddio.read(number), one.effective.ddio
            except DomainOffline:
                continue  # the whole domain is written again when online
            if now != was:
                raise HardwareError(message("ddio-changed", domain=number, left=was, now=now))
            written[number] = one
        self.allocator.adopt(left.resctrl)
        self.snapshot.adopt()
        enforcer = dataclasses.replace(left.enforcer, written=written)
        return dataclasses.replace(left, states=states, enforcer=enforcer)

    def _sound(self, left: HandedOver, states: Mapping[int, Any]) -> dict[int, Any]:
        """Return the states of domains with a layout. Raises any error for unsound content.

        Each layout must fit its tenants on the domain, and the strategy must go on from each state.
        """
        domains = {domain.id: domain for domain in left.domains}
        for number, mask in left.enforcer.found.items():
            if mask is not None and not 0 < mask < 1 << domains[number].ways:
                raise InvalidLayout(f"DDIO of cache domain {number} was found at {mask}")
        strategy = registry.make(self.strategy, Parameters())
        for number, one in left.enforcer.written.items():
            domain = one.inventory.domain  # where the policy may reserve more ways
            reserved = domains[number].reserving(domain.reserved_ways)
            there = dataclasses.replace(domains[number], reserved_ways=reserved)
            if _hardware(domain) != _hardware(there):
                raise InvalidLayout(f"the layout of cache domain {number} is one of another domain")
            check(one.inventory, one.layout)
            if number in states:
                sample = Sample(number, left.at_s, 1.0, {})
                decide(strategy, states[number], one.inventory, sample, left.at_s)
        return {number: one for number, one in states.items() if number in left.enforcer.written}


def recover(snapshot: Snapshot, files: HandOverFiles) -> None:
    """Write a snapshot again that was lost since a hand-over.

    Raises `SnapshotError`. After an error, the hand-over file may be the only copy on disk and must
    not be removed before a restore.
    """
    if lost := snapshot.recover(files.snapshot()):
        LOG.warning("%s", lost)


def _hardware(domain: CacheDomain) -> CacheDomain:
    """Return the fixed properties of a domain, without findings and free resources.

    CPUs are also left out: offline CPUs are known only if an agent has seen these CPUs online.
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
        device_ports=(),
        shared_port_classes=0,
    )
