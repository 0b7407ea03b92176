# SPDX-License-Identifier: Apache-2.0
"""iat-nova report."""

from __future__ import annotations

import argparse
import gc
import time

from iat_nova.cmd.arguments import period, take_period
from iat_nova.cmd.base import Command, Failure
from iat_nova.common.owned_folder import write_named
from iat_nova.conf import LOCK
from iat_nova.store.heartbeat import look


class Report(Command):
    """Write one HTML file: ways over time, states, DDIO, rates, decisions, tenants.

    The file needs neither network nor script and may be mailed or attached to a ticket.
    """

    _epilog = """
TIME: 03:12, 2026-11-21T03:12, -10m, -2h, -1d (before now); UTC

examples:
  iat-nova report                          the last day, to report.html
  iat-nova report --since -2h -o now.html
  iat-nova report --since 02:00 --until 03:00
  iat-nova report --since 03:00 -o - | ssh desk 'cat > night.html'
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "-o", "--output", default="report.html", metavar="FILE", help="- for standard output"
        )
        take_period(parser, "; default: a day before the end")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Write the file."""
        from iat_nova.report import html  # noqa: PLC0415 - Jinja2 is only needed here

        with self.history(parsed_args) as reader:
            begin_s, end_s = period(parsed_args, time.time())
            if not parsed_args.since and (span := reader.span()) is not None:
                begin_s = min(end_s, span[1]) - 86400
            gc.disable()  # until the page is written all records are needed: none can be collected
            try:
                page = html.write(reader, begin_s, end_s, look(self.state_dir(parsed_args) / LOCK))
            except html.NothingToReport as error:
                raise Failure(str(error)) from error
            finally:
                gc.enable()
        if parsed_args.output == "-":
            self.app.stdout.write(page)
        else:
            write_named(parsed_args.output, page)
            self.app.stdout.write(f"{parsed_args.output} written\n")
        return 0
