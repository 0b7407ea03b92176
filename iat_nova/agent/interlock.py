# SPDX-License-Identifier: Apache-2.0
"""Reasons against writes: other owners, conflicting changes, refusals.

For each reason the original settings are restored: masks that are not adapted to the guests fit by
chance only. Some reasons end by themselves. A refused write is tried again after growing pauses,
because most causes pass: all RMIDs in use, a busy group. After a conflicting change, the agent
restores once. It restores nothing once another process is the host's writer, which restores itself.

When CPUs go offline and online, the kernel resets their settings, and operations fail. This is an
event, not an error, and not another program's change.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping

from iat_nova.agent.journal import Journal
from iat_nova.common.clock import Clock
from iat_nova.common.retry import Retry
from iat_nova.hardware.api import FAILURES, ForeignHand, HardwareError, LastingRefusal
from iat_nova.hardware.enforcement.enforcer import Enforcer
from iat_nova.hardware.enforcement.snapshot import HostTaken, Restored
from iat_nova.hardware.kernel.cpu_watch import FIXED, TRIES, Cpus
from iat_nova.model import Facts
from iat_nova.model.message import Message, Value, as_message, message
from iat_nova.model.reasons import Code, Reason
from iat_nova.store.records import EventKind

CONFIGURED = Reason(Code.OBSERVE_CONFIGURED, message("observe-configured"))
"""The reason of an agent with ``[iat] mode = observe``."""

Tell = Callable[[], tuple[str | Message, ...]]
"""A check that returns one message per finding. May raise `HardwareError`."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outside:
    """Checks of the agent's environment, called when needed.

    `owners`: other programs that allocate cache. `changes`: changes of our settings by other
    programs. `unrestored`: settings that a restore could not reach, because their CPUs were and
    still are offline. `missing`: missing interfaces (resctrl). `cpus`: CPUs that went online or
    offline. `guard` keeps the lock of the host's only writer, and raises `HostTaken` once another
    process has the lock. `missing` and `guard` are called in every iteration.
    """

    owners: Tell = tuple
    changes: Tell = tuple
    unrestored: Tell = tuple
    missing: Tell = tuple
    cpus: Cpus = FIXED
    guard: Callable[[], None] = lambda: None


_CHECK = (Code.OWNERS_UNKNOWN, "owners-unknown", "owners-known")

ALONE = Outside()
"""An environment without any other program."""


class Interlock:
    """The reasons for which the loop only observes; called from the loop's thread.

    `observe` forbids every write from the start.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        journal: Journal,
        clock: Clock,
        outside: Outside = ALONE,
        *,
        observe: bool = False,
    ) -> None:
        self._enforcer = enforcer
        self._journal = journal
        self._clock = clock
        self._outside = outside
        self._retry = Retry()
        self._lasting = False
        self._taken = False
        self._refusal = message("several", causes=())
        self._cpus_moved = False  # during a restore, unknown to the loop
        self._reasons: dict[Code, Message] = {}
        if observe:
            self._reasons[Code.OBSERVE_CONFIGURED] = CONFIGURED.message

    @property
    def reasons(self) -> Mapping[Code, Message]:
        """The reasons against writes, by code; empty if writes are allowed."""
        return self._reasons

    @property
    def taken(self) -> bool:
        """Whether another process is the host's writer: then nothing at all is written any more."""
        return self._taken

    def check(self) -> bool:
        """Check the reasons before an iteration; return whether to read the inventory again."""
        self._guard()
        if not self._taken:
            self._keep_snapshot()
        missing = self._missing()
        if missing is not None and Code.RESCTRL_UNMOUNTED not in self._reasons:
            self._only_observe(Code.RESCTRL_UNMOUNTED, missing)
            self.restore()
        self._try_again()
        moved, self._cpus_moved = self._cpus_moved, False
        return moved or (missing is None and Code.RESCTRL_UNMOUNTED in self._reasons)

    def _guard(self) -> None:
        """Keep the writer's lock. Taken by another process: only observe. Lost: also restore."""
        if self._taken:
            return
        try:
            self._outside.guard()
        except HostTaken as error:
            self._taken = True
            taken = message("other-writer", error=as_message(error))
            self._only_observe(Code.WRITER_LOCK, taken)
        except HardwareError as error:
            if Code.WRITER_LOCK not in self._reasons:
                self._only_observe(
                    Code.WRITER_LOCK,
                    message("writer-lock-lost", error=as_message(error)),
                )
                self.restore()
        else:
            self._tell(Code.WRITER_LOCK, None, message("writer-lock-held"))

    def _keep_snapshot(self) -> None:
        """Ensure that the snapshot is on disk; otherwise restore and only observe.

        With the original settings in memory alone, a crash would leave the host changed.
        """
        try:
            lost = self._enforcer.keep_snapshot()
        except HardwareError as error:
            if Code.REFUSED not in self._reasons:
                self.refused(error)
            return
        if lost is not None:
            problem = message("snapshot-rewritten", error=lost)
            self._journal.problem(Code.SNAPSHOT_LOST, problem)
        else:
            self._journal.solved(Code.SNAPSHOT_LOST, message("snapshot-kept"))

    def _try_again(self) -> None:
        """Allow writes again when a refusal's pause is over and all settings are restored."""
        waits = Code.REFUSED in self._reasons and not self._lasting
        if (
            not waits
            or not self._retry.is_due(self._clock.now())
            or Code.RESCTRL_UNMOUNTED in self._reasons
        ):
            return
        if self._enforcer.wrote and not self.restore():
            self._wait(self._refusal)
            return
        del self._reasons[Code.REFUSED]
        self._journal.tell(message("write-tried-again"))

    def accepted(self) -> None:
        """Report that a write was accepted."""
        self._journal.solved(Code.REFUSED, message("writes-accepted"))

    def look(self, facts: Facts) -> None:
        """Restore the host if another program allocates cache or changed our settings."""
        self._tell_unrestored()
        self._wait_for(facts.waiting_for)
        with self.stage(*_CHECK, "cpus-moved-checking"):
            self._look(facts)

    @contextlib.contextmanager
    def stage(
        self, code: Code, failed: str, over: str, event: str, subject: object = ""
    ) -> Iterator[None]:
        """Bound a stage of an iteration: report one of `FAILURES`, and go on after the context.

        `failed` and `over` are the message codes of the problem and of its end. `event` is the code
        of the log's event where a change of online CPUs explains the failure.
        """
        problem = None
        try:
            yield
        except FAILURES as error:
            if self.excuses(event):
                return
            problem = message(failed, error=as_message(error))
        self._journal.note(code, problem, message(over), subject)

    def excuses(self, failure: str, **values: Value) -> bool:
        """Return whether a change of online CPUs explains a failure, and log the event.

        `failure` is the code of the event, `values` are further values beside the CPUs. CPUs that
        cannot be read now explain nothing.
        """
        try:
            event = self._outside.cpus.moved()
        except FAILURES:
            return False
        if event is not None:
            self._journal.tell(message(failure, event=as_message(event), **values))
        return event is not None

    def _wait_for(self, sources: tuple[Message, ...]) -> None:
        """Only observe until each source of facts has answered once.

        Before, the owners of CPUs are unknown.
        """
        waits = message("sources-unanswered", sources=sources) if sources else None
        self._tell(Code.SOURCE_UNANSWERED, waits, message("sources-answered"))

    def _look(self, facts: Facts) -> None:
        guests = tuple(sorted(guest.name for guest in facts.guests if guest.cachetune))
        missing, gone = self._missing(), message("other-owners-gone")
        tuned = message("guests-tuned", guests=guests) if guests else None
        self._tell(Code.RESCTRL_UNMOUNTED, missing, message("resctrl-mounted"))
        self._tell(Code.CACHETUNE, tuned, gone)
        owners = () if missing is not None else self._outside.owners()
        self._tell(
            Code.OTHER_OWNER, message("other-owners", owners=owners) if owners else None, gone
        )
        if not self._reasons and (changes := self._conflicts()):
            self._yield_to_hand(changes)
        if self._reasons and self._enforcer.wrote:
            self.restore()  # after a failure, tried again at each `look`

    def _missing(self) -> Message | None:
        """Return the missing interfaces as the reason against writes; None while unknown."""
        missing: tuple[str | Message, ...] = ()
        with self.stage(*_CHECK, "cpus-moved-checking", "interfaces"):
            missing = self._outside.missing()
        return message("resctrl-missing", missing=missing) if missing else None

    def _conflicts(self) -> tuple[str | Message, ...]:
        """Return changes by other programs, confirmed by two readings with the same CPUs online.

        The kernel resets the settings of offline CPUs; the next iterations write these again.
        """
        if not self._changes():
            return ()
        again = self._changes()
        if again and self.excuses("cpus-moved-comparing"):
            return ()
        return again

    def _changes(self) -> tuple[str | Message, ...]:
        return (*self._outside.changes(), *self._enforcer.foreign_ddio())

    def _tell(self, code: Code, reason: Message | None, over: Message) -> None:
        """Begin or end observing for a reason that ends by itself."""
        if reason is not None:
            self._only_observe(code, reason)
        elif self._reasons.pop(code, None):
            self._journal.solved(code, over)

    def _tell_unrestored(self) -> None:
        left = self._outside.unrestored()
        waits = message("restore-waits", settings=left) if left else None
        self._journal.notice(Code.RESTORE_WAITS, waits, message("restore-complete"))

    def refused(self, error: Exception) -> None:
        """Restore the host and only observe after a refused write or a conflicting change."""
        if (missing := self._missing()) is not None:  # what was unmounted looks changed, too
            self._only_observe(Code.RESCTRL_UNMOUNTED, missing)
        elif isinstance(error, ForeignHand):
            self._yield_to_hand((as_message(error),))
        elif isinstance(error, LastingRefusal):
            self._lasting = True
            refused = message("write-refused-for-good", error=as_message(error))
            self._only_observe(Code.REFUSED, refused)
        else:
            self._refusal = as_message(error)
            self._wait(self._refusal)
        self.restore()

    def _wait(self, error: Message) -> None:
        """Only observe until the next try; report the time of the next try."""
        at_s = self._clock.wall() + self._retry.failed(self._clock.now())
        self._only_observe(Code.REFUSED, message("write-refused", at_s=at_s, error=error))

    def _yield_to_hand(self, changes: tuple[str | Message, ...]) -> None:
        conflict = message("conflicting-changes", changes=changes)
        self._only_observe(Code.CONFLICTING_CHANGE, conflict)

    def restore(self) -> bool:
        """Restore the original settings; return whether all succeeded; report failures.

        Settings are reported as restored only after reading back. Nothing is restored once another
        process is the host's writer.
        """
        if self._taken:
            return False
        wrote = self._enforcer.wrote
        try:
            restored = self._restore()
        except FAILURES as error:
            problem = message("not-restored", error=as_message(error))
            self._journal.problem(Code.NOT_RESTORED, problem)
            return False
        self._journal.note(Code.NOT_RESTORED, restored.stale, message("restorable"))
        self._tell_unrestored()
        if wrote and restored.agreed and not restored.left:
            self._journal.tell(message("restored", parts=restored.agreed), EventKind.RESTORED)
        return True

    def _restore(self) -> Restored:
        for _ in range(TRIES - 1):
            try:
                return self._enforcer.restore()
            except FAILURES:
                if not self.excuses("cpus-moved-restoring"):
                    raise
                self._cpus_moved = self._outside.cpus.begin() or self._cpus_moved
        return self._enforcer.restore()

    def _only_observe(self, code: Code, reason: Message) -> None:
        self._reasons[code] = reason
        self._journal.problem(code, message("only-observing", reason=reason))
