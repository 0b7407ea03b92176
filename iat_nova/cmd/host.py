# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor, iat-nova restore: the host's hardware, without the agent."""

from __future__ import annotations

import argparse
from typing import Any

from iat_nova import assembly
from iat_nova.cmd.base import EXIT_FAILURE, Command, Failure, Lister
from iat_nova.hardware import probe
from iat_nova.hardware.api import HardwareError


class Doctor(Lister):
    """Tell what this host can do for the agent, what is missing, and who else holds the cache.

    Reads only. Each finding that is not in order comes with the command that mends it.
    """

    _epilog = """
levels:
  ok        in order
  note      works, in part or with care
  missing   this interface cannot be used; another one may do
  observe   the agent writes nothing while this holds
  chosen    the interface the agent would take for a role, and why

exit status: 0 the agent can enforce here; 1 it cannot, or may only observe

examples:
  iat-nova doctor
  iat-nova doctor -f json | jq '.[] | select(.level != "ok")'
"""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the columns and a row a finding."""
        columns = ("subject", "level", "state", "remedy")
        host = probe.Host()
        found = probe.findings(host)
        rows = probe.as_rows(found) + self._choices(parsed_args, host)
        if probe.observe_reasons(found) or any(row["level"] == "impossible" for row in rows):
            self._status = EXIT_FAILURE
        return columns, [
            tuple(self.cell(parsed_args, row[name]) for name in columns) for row in rows
        ]

    def _choices(self, parsed_args: argparse.Namespace, host: probe.Host) -> list[Any]:
        """Return which interfaces the agent would take, or why it could not start."""
        try:
            hands = assembly.hardware(self.settings(parsed_args), host)
        except HardwareError as error:
            return [
                {"subject": "agent", "level": "impossible", "state": str(error), "remedy": None}
            ]
        return [
            {
                "subject": choice.role,
                "level": "chosen",
                "state": f"{choice.chosen}: {choice.why}",
                "remedy": None,
            }
            for choice in hands.choices
        ]


class Restore(Command):
    """Leave the host as the agent found it, from the snapshot it took before its first write.

    For after a crash; the agent does the same when it ends and before it starts. May be repeated:
    without a snapshot of this boot nothing is done. Refuses while an agent runs.
    """

    _epilog = """
examples:
  iat-nova restore
  iat-nova restore --config-file /etc/nova/nova.conf    (systemd: ExecStopPost)
"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Restore and tell what was done."""
        try:
            done = assembly.restore(self.settings(parsed_args))
        except HardwareError as error:
            raise Failure(str(error)) from error
        for line in done:
            self.app.stdout.write(f"{line}\n")
        if not done:
            self.app.stdout.write("nothing to restore\n")
