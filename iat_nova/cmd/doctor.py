# SPDX-License-Identifier: Apache-2.0
"""iat-nova doctor: the host's hardware, without the agent."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.cmd.base import EXIT_FAILURE, MACHINE_FORMATS, Lister, Table, add_text_format
from iat_nova.report import sentences
from iat_nova.store import records

if TYPE_CHECKING:
    from iat_nova.hardware.host.probe import Finding

COLUMNS = ("subject", "level", "state", "remedy")
"""What people read: the texts."""

ALL_COLUMNS = (*COLUMNS, "code", "values", "remedy_code", "remedy_values")
"""What programs read besides: of state and remedy the code and the values."""

LEVELS = {
    "ok": "in order",
    "note": "works, in part or with care",
    "missing": "this cannot be used; something else may do",
    "observe": "the agent writes nothing while this holds",
    "impossible": "the agent does not start",
    "chosen": "the interface the agent would take for a role, and why",
}
"""The levels of findings in words."""


def _levels(some: Iterable[str]) -> str:
    """Return a list of these levels."""
    return "\n".join(("levels:", *(f"  {one:<12}{LEVELS[one]}" for one in LEVELS if one in some)))


LEAST_WIDTH, DEFAULT_WIDTH = 60, 100


class Doctor(Lister):
    """Show whether the agent can enforce here, what is missing, and other users of the cache.

    Changes nothing. A finding comes with its remedy (-->), if possible as a command. Run as root,
    doctor checks with the user and the capabilities of the service's unit if possible, and says
    so: root may do more than the service.
    """

    _epilog = f"""
{_levels(LEVELS)}

-f json and -f yaml add code, values, remedy_code and remedy_values to each finding: codes stay
where texts are reworded. Values have their units in their names.

exit status: 0 the agent can enforce here; 1 it cannot, or may only observe

examples:
  iat-nova doctor
  iat-nova doctor -f json | jq '.[] | select(.remedy)'
  iat-nova doctor -f json | jq '.[] | select(.code == "msr-not-loaded")'
"""

    formatter_default = "text"

    def _load_formatter_plugins(self) -> Any:
        return add_text_format(
            super()._load_formatter_plugins(), self.formatter_namespace, _Paragraphs
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return the columns and a row a finding."""
        from iat_nova.checks import doctor  # noqa: PLC0415 - slow to load
        from iat_nova.hardware.host import probe  # noqa: PLC0415

        found = doctor.as_service(self.settings(parsed_args), probe.Host())
        if not doctor.can_enforce(found):
            self._status = EXIT_FAILURE
        everything = parsed_args.formatter in MACHINE_FORMATS or parsed_args.columns
        columns = ALL_COLUMNS if everything else COLUMNS
        rows = map(row, found)
        return columns, [self.row(parsed_args, one, columns) for one in rows]


def row(finding: Finding) -> dict[str, object]:
    """Return a finding as plain values under `ALL_COLUMNS`: code and values are the state's."""
    state, remedy = finding.state, finding.remedy
    plain_remedy = {"code": None, "values": {}} if remedy is None else records.unstructure(remedy)
    return {
        "subject": finding.subject,
        "level": finding.level.value,
        "state": sentences.text(state),
        "remedy": None if remedy is None else sentences.text(remedy),
        **records.unstructure(state),
        "remedy_code": plain_remedy["code"],
        "remedy_values": plain_remedy["values"],
    }


class _Paragraphs:
    """The format for people: a paragraph a finding, as wide as the terminal."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Have no options but the table's --max-width."""

    def emit_list(self, columns: Sequence[str], rows: Any, stdout: Any, parsed_args: Any) -> None:
        """Write level, subject and state, the remedy on a line of its own, then the levels."""
        width = parsed_args.max_width or shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns
        found = [dict(zip(columns, row, strict=True)) for row in rows]
        for row in found:
            stdout.write(_paragraph(row, width) + "\n")
        if seen := {row["level"] for row in found if "level" in row} - {"ok"}:
            stdout.write(f"\n{_levels(seen)}\n")


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
