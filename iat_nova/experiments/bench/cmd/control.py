# SPDX-License-Identifier: Apache-2.0
"""iat-nova bench control."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from iat_nova.cmd.arguments import natural, whole
from iat_nova.cmd.base import EXIT_USAGE, Failure, Lister, told
from iat_nova.experiments.commands import Progress, share, take_without
from iat_nova.experiments.failure import StrategyFailed
from iat_nova.experiments.plant import bench, loop
from iat_nova.experiments.strategies import ablation
from iat_nova.strategies.registry import BUILT_IN, StrategyError


class BenchControl(Lister):
    """Measure the loss of strategies against the best static allocation, on modelled hosts.

    A host has 2 to 5 tenants on 11, 12 or 15 ways, miss curves with knees, its own cost of a miss,
    traffic, and noise on every counter. Each --seed draws other hosts. In phases of 90 s each, a
    host's guests boot one by one, one guest changes, half of the guests change, and the agent
    restarts.

    Utility: speed relative to running alone; PC tenants and the stack weigh 4, BE tenants 1.
    Regret: share of the best partition's utility that a strategy loses; the best partition is found
    by exhaustive search. Starved: share of phases that end with a slow PC tenant or stack while
    ways are idle or belong to best-effort tenants. Changes: decisions per minute that move masks
    long after the last change of the host.
    """

    _epilog = """
examples:
  iat-nova bench control                             every built-in strategy, 200 hosts; minutes
  iat-nova bench control --strategy iat --hosts 40
  iat-nova bench control --noise 5% -f json
  iat-nova bench control --seed 7 --strategy pollute-buffer --without each
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--strategy",
            action="append",
            metavar="NAME",
            help=f"may be repeated; default: {', '.join(BUILT_IN)}",
        )
        parser.add_argument(
            "--hosts", type=natural, metavar="N", default=bench.HOSTS, help="default: %(default)s"
        )
        parser.add_argument(
            "--seed",
            type=whole,
            metavar="S",
            default=loop.SEED,
            help="seed of the random hosts; default: %(default)s",
        )
        take_without(parser, ablation.FAMILIES)
        parser.add_argument(
            "--noise",
            type=share(),
            metavar="SHARE",
            default="1%",
            help="noise of every counter; default: 1%%",
        )
        parser.add_argument(
            "--jobs", type=natural, metavar="N", help="processes at a time; default: one per core"
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per strategy."""
        try:
            names = [*(parsed_args.strategy or BUILT_IN), *ablation.labels(parsed_args.without)]
            with Progress("{done} of {total} hosts") as progress:
                rows = bench.rows(
                    list(dict.fromkeys(names)),
                    parsed_args.hosts,
                    parsed_args.noise,
                    seed=parsed_args.seed,
                    jobs=parsed_args.jobs,
                    progress=progress,
                )
        except StrategyFailed as error:
            raise Failure(told(error)) from error
        except StrategyError as error:
            raise Failure(str(error), EXIT_USAGE) from error
        columns = tuple(field.name for field in dataclasses.fields(bench.RegretRow))
        return columns, (
            tuple(
                round(value, 4) if isinstance(value, float) else value
                for value in dataclasses.astuple(row)
            )
            for row in rows
        )
