# SPDX-License-Identifier: Apache-2.0
"""iat-nova reload."""

from __future__ import annotations

import argparse
import contextlib
import signal
import time
from collections.abc import Iterator

from iat_nova.cmd.base import EXIT_NOT_RUNNING, Command, Failure
from iat_nova.cmd.pause import existing
from iat_nova.common.owned_folder import become_owner
from iat_nova.conf import LOCK
from iat_nova.model.reasons import Code
from iat_nova.report import escape, words
from iat_nova.store.database import NoHistory
from iat_nova.store.heartbeat import Living, NoAgent, living
from iat_nova.store.records import Status

PATIENCE_S = 30.0  # a template may be rendered for 10 s
POLL_S = 0.05


class Reload(Command):
    """Make the agent read its policy again, and show whether the policy is accepted.

    Ends with status 1 if the policy is refused: the previous policy stays, and every error is
    shown. The service's `systemctl reload` runs this command.
    """

    _writes = True
    _tells_state = True
    _epilog = """
example:
  iat-nova reload
"""

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Signal the agent and wait for its answer."""
        folder = existing(self.state_dir(parsed_args))
        try:
            with living(folder / LOCK) as agent, _ended_in_order():
                # Root signals no more than the owner of the lock could.
                become_owner(folder)
                return self._reload(parsed_args, agent)
        except NoAgent as error:
            told = (
                f"no agent is seen running with {folder}; an agent reads the policy when it starts"
            )
            raise Failure(str(error) or told, EXIT_NOT_RUNNING) from None

    def _reload(self, parsed_args: argparse.Namespace, agent: Living) -> int:
        before = self._said(parsed_args, agent.pid)
        try:
            signal.pidfd_send_signal(agent.pidfd, signal.SIGHUP)
        except OSError as error:
            why = f"{error.strerror}; run as root, or as the agent's user"
            raise Failure(f"process {agent.pid} cannot be signalled: {why}") from error
        said = self._answer(parsed_args, agent.pid, before.policy_reads if before else 0)
        refused = words.texts(one for one in said.problems if one.code == Code.POLICY_INVALID)
        if refused:
            raise Failure(escape.lines("\n".join(refused)))
        self.app.stdout.write("The policy is reloaded.\n")
        invalid = (one for one in said.problems if one.code == Code.SHADOW_POLICY_INVALID)
        for text in words.texts(invalid):
            self.note(escape.lines(text))
        return 0

    def _answer(self, parsed_args: argparse.Namespace, pid: int, reads: int) -> Status:
        end_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < end_s:
            said = self._said(parsed_args, pid)
            if said is not None and said.policy_reads > reads:
                return said
            time.sleep(POLL_S)
        raise Failure(
            f"process {pid} has not answered for {PATIENCE_S:g} s: `iat-nova status` and its log "
            "tell what it waits for"
        )

    def _said(self, parsed_args: argparse.Namespace, pid: int) -> Status | None:
        """Return the last recorded status of this agent, None before its first status."""
        try:
            with self.history(parsed_args) as reader:
                now = reader.status()
        except NoHistory:  # the agent is starting
            return None
        return now.status if now is not None and now.status.pid == pid else None


@contextlib.contextmanager
def _ended_in_order() -> Iterator[None]:
    """Make SIGTERM end the wait with status 0.

    systemd sends SIGTERM to the reload command of a service that is stopped meanwhile. A reload
    that ends by a signal would mark the service as failed.
    """

    def end(number: int, frame: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
