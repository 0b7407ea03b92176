# SPDX-License-Identifier: Apache-2.0
"""iat-nova status."""

from __future__ import annotations

import argparse
import shutil
import time
from typing import Any

from iat_nova.cmd.base import Page
from iat_nova.report import status
from iat_nova.store.heartbeat import AgentState

_KILLED = (
    "the agent was killed, or the host failed: systemd restores the original hardware settings "
    "and starts the agent again; without systemd run iat-nova restore"
)


class StatusCommand(Page):
    """Show whether the agent is running, the way map, and the last decision.

    Ends with status 3 when the agent is not running, 4 while it starts, 5 while it is stalled.
    """

    _as_owner = True
    _tells_state = True
    _epilog = """
examples:
  iat-nova status              for people
  iat-nova status -f json      for programs
  iat-nova status >/dev/null   the exit status alone: 0 when it runs
"""

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the status as text."""
        terminal = self.app.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else 80
        view = self.view(parsed_args, leaks=True)
        if view.agent.state is AgentState.UNCLEAN and view.now is not None:
            self.note(_KILLED)
        return status.page(
            view,
            time.time(),
            width=width,
            colour=self.colour,
            wrap=terminal,
        )

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the status as plain JSON values, for the output formats json and yaml."""
        return status.record(self.view(parsed_args, leaks=True))
