# SPDX-License-Identifier: Apache-2.0
"""iat-nova bench history."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, Failure, Lister
from iat_nova.strategies.registry import DEFAULT, StrategyError

LEAST = 600  # iterations: fewer do not show the cost of thinning out


class BenchHistory(Lister):
    """Measure the bytes that the history writes per day, and the time that its file covers.

    The command runs the agent's own loop and history in virtual time, on hardware in memory.
    Counters have a noise of 1 %, guests have traffic, and now and then the load of a tenant changes
    for a minute. Sizes are for the default options. The written bytes are the bytes passed to the
    kernel, with the write-ahead log.

    whole_hours: time with every iteration. days: time with all iterations that had an effect, and
    one iteration per minute. replay_days: the same time if old states of the strategy were kept, so
    that decisions can be computed again.
    """

    _epilog = """
examples:
  iat-nova bench history                           two sockets of 15 tenants, an hour: half a minute
  iat-nova bench history --strategy iat --strategy pollute-buffer -f json
  iat-nova bench history --sockets 1 --tenants 60 --change-s 3600
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--strategy",
            action="append",
            metavar="NAME",
            help=f"strategy; may be repeated; default: {DEFAULT}",
        )
        parser.add_argument("--sockets", type=natural, default=2, metavar="N", help="default: 2")
        parser.add_argument(
            "--tenants", type=natural, default=15, metavar="N", help="per socket; default: 15"
        )
        parser.add_argument(
            "--iterations",
            type=natural,
            default=3600,
            metavar="N",
            help=f"at least {LEAST}; default: 3600",
        )
        parser.add_argument(
            "--change-s",
            type=natural,
            default=300,
            metavar="N",
            help="seconds after which a tenant's load changes for a minute; default: 300",
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per strategy."""
        from iat_nova.experiments.times import history as bench  # noqa: PLC0415 - needs the whole agent

        if parsed_args.iterations < LEAST:
            raise Failure(
                f"--iterations {parsed_args.iterations}: at least {LEAST} are needed", EXIT_USAGE
            )
        columns = tuple(field.name for field in dataclasses.fields(bench.BytesRow))
        return columns, self._rows(parsed_args)

    def _rows(self, parsed_args: argparse.Namespace) -> Iterator[tuple[object, ...]]:
        from iat_nova.experiments.times import history as bench  # noqa: PLC0415

        try:
            for row in bench.rows(
                parsed_args.strategy or (DEFAULT,),
                parsed_args.sockets,
                parsed_args.tenants,
                parsed_args.iterations,
                parsed_args.change_s,
                progress=self.note,
            ):
                yield dataclasses.astuple(row)
        except StrategyError as error:
            raise Failure(str(error), EXIT_USAGE) from error
