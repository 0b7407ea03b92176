# SPDX-License-Identifier: Apache-2.0
"""iat-nova decisions."""

from __future__ import annotations

import argparse
import dataclasses
import math
import time
from collections.abc import Callable, Sequence

from iat_nova.cmd import guests
from iat_nova.cmd.arguments import natural, period, take_period, whole
from iat_nova.cmd.base import MACHINE_FORMATS, Lister, Table
from iat_nova.model import DDIO
from iat_nova.report import escape, times, turns
from iat_nova.report.subjects import Subject
from iat_nova.report.turns import KINDS, MOVE, Turn, concerns
from iat_nova.store.reader import HistoryReader

COLUMNS = ("time", "domain", "iteration", "what", "reason")
FIELDS = ("wall_s", "kind", "subject", "name", "ways_before", "ways_after", "written")
SCANNED = 256  # decisions read at a time


class Decisions(Lister):
    """List the decisions, one line per step, the latest last.

    Moves of a mask without another number of ways are listed for a GUEST or with --kind move.
    """

    _empty = "no such decision is recorded"
    _as_owner = True
    _epilog = f"""
KIND: {", ".join(KINDS)}

GUEST: as for explain, or ddio

TIME: 03:12, 2026-11-21T03:12, -10m, -2h, -1d (before now); UTC

examples:
  iat-nova decisions                          the last 25
  iat-nova decisions web --since=-1d          those about one guest
  iat-nova decisions --kind grow --kind undo -f csv
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        whom = parser.add_mutually_exclusive_group()
        whom.add_argument(
            "guest", nargs="?", metavar="GUEST", help="only decisions about this guest"
        )
        whom.add_argument("--guest", dest="named", metavar="GUEST", help="as the argument GUEST")
        take_period(parser, "")
        parser.add_argument(
            "--kind",
            action="append",
            choices=KINDS,
            metavar="KIND",
            help="only steps of this kind; may be repeated",
        )
        parser.add_argument("--domain", type=whole, metavar="N", help="only this cache domain")
        parser.add_argument(
            "--last",
            type=natural,
            metavar="N",
            help="at most N lines; default: 25, with --since all",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        """Return one row per step."""
        columns = self._columns(parsed_args)
        with self.history(parsed_args) as reader:
            guests.check_domain(reader, parsed_args.domain)
            wanted = self._wanted(parsed_args, reader)
            found = self._found(parsed_args, reader, wanted)
        if parsed_args.formatter == "table" and not (
            parsed_args.columns or parsed_args.sort_columns
        ):
            return _brief(found)
        return columns, [self.row(parsed_args, _values(turn), columns) for turn in found]

    def _columns(self, parsed_args: argparse.Namespace) -> tuple[str, ...]:
        machine = parsed_args.formatter in (*MACHINE_FORMATS, "csv")
        return (*COLUMNS, *FIELDS) if machine or parsed_args.columns else COLUMNS

    def _wanted(
        self, parsed_args: argparse.Namespace, reader: HistoryReader
    ) -> Callable[[Turn], bool]:
        subject: Subject | None = None
        name = parsed_args.guest or parsed_args.named
        if name is not None:
            devices = Subject(DDIO, "DDIO", None, ())
            subject = devices if name.lower() == DDIO else guests.anywhere(reader, name)[0]
        kinds = parsed_args.kind or [kind for kind in KINDS if kind != MOVE or subject is not None]

        def wanted(turn: Turn) -> bool:
            return turn.kind in kinds and (subject is None or concerns(subject, turn))

        return wanted

    def _found(
        self,
        parsed_args: argparse.Namespace,
        reader: HistoryReader,
        wanted: Callable[[Turn], bool],
    ) -> list[Turn]:
        """Return the last requested turns of the period, oldest first."""
        begin_s, end_s = period(parsed_args, time.time())
        most = parsed_args.last or (math.inf if parsed_args.since else 25)
        found: list[Turn] = []
        count, read = SCANNED, 0
        while len(found) < most:
            batch = reader.decisions(count, parsed_args.domain, begin_s, end_s)
            for recorded in batch[read:]:
                found += [one for one in reversed(turns.of(reader, recorded)) if wanted(one)]
            if len(batch) < count:
                break
            read, count = count, 4 * count
        kept = found if math.isinf(most) else found[: int(most)]
        return kept[::-1]


_WHAT = 22  # columns of an action with its tenant


def _brief(turns: Sequence[Turn]) -> Table:
    """Return headings and rows of the table for people.

    The date and the cache domain are left out where they are the same in all rows.
    """
    days = {times.utc(turn.wall_s, "%Y-%m-%d") for turn in turns}
    form = "%H:%M:%S" if len(days) <= 1 else "%m-%d %H:%M:%S"
    domains = len({turn.domain for turn in turns}) > 1
    heading = f"{next(iter(days))} UTC" if len(days) == 1 else "time (UTC)"
    rows: list[tuple[object, ...]] = [
        (
            times.utc(turn.wall_s, form),
            f"{turn.domain}:#{turn.iteration}" if domains else f"#{turn.iteration}",
            escape.middle(escape.plain(turn.what), _WHAT),
            escape.plain(turn.reason),
        )
        for turn in turns
    ]
    return (heading, "domain:#" if domains else "#", "what", "reason"), rows


def _values(turn: Turn) -> dict[str, object]:
    own = {"time": times.moment(turn.wall_s), "what": turn.what}
    return dataclasses.asdict(turn) | own
