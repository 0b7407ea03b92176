# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor, iat-nova restore: the host's hardware, without the agent."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from iat_nova import conf
from iat_nova.agent import doctor, restoring, state_pointer
from iat_nova.cmd.base import EXIT_FAILURE, Command, Failure, Lister, add_text_format
from iat_nova.hardware import probe
from iat_nova.hardware.api import HardwareError

COLUMNS = ("subject", "level", "state", "remedy")
LEAST_WIDTH, DEFAULT_WIDTH = 60, 100


class Doctor(Lister):
    """Show what this host can do for the agent, what is missing, and who else holds the cache.

    Changes nothing. What is not in order comes with the command that repairs it (-->). Run by root
    it asks with the user and the capabilities of the service's unit, and says so: what root may do
    the service may not.
    """

    _epilog = """
levels:
  ok          in order
  note        works, in part or with care
  missing     this cannot be used; something else may do
  observe     the agent writes nothing while this holds
  impossible  the agent does not start
  chosen      the interface the agent would take for a role, and why

exit status: 0 the agent can enforce here; 1 it cannot, or may only observe

examples:
  iat-nova doctor
  iat-nova doctor -f json | jq '.[] | select(.remedy)'
"""

    formatter_default = "text"

    def _load_formatter_plugins(self) -> Any:
        return add_text_format(super()._load_formatter_plugins(), self.formatter_namespace, _Text)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the columns and a row a finding."""
        found = doctor.as_service(self.settings(parsed_args), probe.Host())
        if not doctor.can_enforce(found):
            self._status = EXIT_FAILURE
        rows = [(one.subject, one.level.value, one.state, one.remedy) for one in found]
        return COLUMNS, [tuple(self.cell(parsed_args, value) for value in row) for row in rows]


class _Text:
    """The format for people: a paragraph a finding, as wide as the terminal."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Have no options but the table's --max-width."""

    def emit_list(self, columns: Sequence[str], rows: Any, stdout: Any, parsed_args: Any) -> None:
        """Write level, subject and state, and the remedy on a line of its own."""
        width = parsed_args.max_width or shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns
        for row in rows:
            stdout.write(_paragraph(dict(zip(columns, row, strict=True)), width) + "\n")


def _paragraph(row: dict[str, Any], width: int) -> str:
    """Return one finding in lines; columns that were not asked for are left out."""
    head = f"{row.get('level', ''):<11} {row.get('subject', ''):<20} "
    lines = wrapped(head, row.get("state", ""), width)
    if row.get("remedy"):
        lines.append(f"{'':<{len(head)}}--> {row['remedy']}")  # in one piece, to be copied
    return "\n".join(lines)


def wrapped(head: str, text: str, width: int) -> list[str]:
    """Wrap a text behind a head; commands and paths are never broken."""
    return textwrap.wrap(
        text,
        max(width, LEAST_WIDTH),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


class Restore(Command):
    """Restore the original hardware settings, from the snapshot before the agent's first write.

    For after a crash; the agent does the same when it ends and before it starts. May be repeated:
    without a snapshot of this boot nothing is done. Refuses while an agent runs. What an agent
    handed over to the next is restored as well, and is not adopted then. No configuration is
    needed: without --state-dir the snapshot is looked for where the last agent kept it.
    """

    _epilog = """
examples:
  iat-nova restore
  iat-nova restore --state-dir /srv/iat-nova
  iat-nova restore --unless-handed-over    (systemd: ExecStopPost)
  iat-nova restore --note-state-dir        (systemd: ExecStartPre, as root)

exit status: 0 restored, or nothing to restore; 1 a setting stays changed, or an agent runs
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options of the unit."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--unless-handed-over",
            action="store_true",
            help="do nothing, once, when the agent that ended has just left the host to the next",
        )
        parser.add_argument(
            "--unless-taken",
            action="store_true",
            help="do nothing while an agent runs, which restores when it ends",
        )
        parser.add_argument(
            "--note-state-dir",
            action="store_true",
            help="restore nothing; as root note the configured state directory for later restores, "
            "which may find the configuration unreadable",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Restore and tell what was done, then what is wrong with the configuration."""
        if parsed_args.note_state_dir:
            state_pointer.write(self.settings(parsed_args).state_dir)
            return
        settings, unusable = self._settings(parsed_args)
        alone = self.names_state(parsed_args)
        done: list[str] = []
        failed: list[str] = []
        for place in (settings,) if alone else restoring.places(settings):
            try:
                done += restoring.restore(
                    place,
                    unless_handed_over=parsed_args.unless_handed_over,
                    unless_taken=parsed_args.unless_taken,
                )
            except HardwareError as error:
                failed.append(str(error))
        for line in done:
            self.app.stdout.write(f"{line}\n")
        if unusable is not None:
            self.note(f"done without the configuration, which cannot be used: {unusable}")
        if failed:
            raise Failure("; ".join(failed))
        if not done:
            self.app.stdout.write("nothing to restore\n")

    def _settings(
        self, parsed_args: argparse.Namespace
    ) -> tuple[conf.Settings, conf.ConfigError | None]:
        """Return the settings; the defaults, and the error, where the configuration is unusable."""
        try:
            return self.settings(parsed_args), None
        except conf.ConfigError as error:
            return conf.load(state_dir=self.named_state_dir(parsed_args)), error
