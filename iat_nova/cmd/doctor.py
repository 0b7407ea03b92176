# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor: the host's hardware, without the agent."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from iat_nova.agent import doctor
from iat_nova.cmd.base import EXIT_FAILURE, Lister, add_text_format
from iat_nova.hardware import probe

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
