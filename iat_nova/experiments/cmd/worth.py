# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate compare --worth: the predicted gain of enforcing against the actual gain."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Command, Failure
from iat_nova.experiments.cmd.common import Progress
from iat_nova.strategies.registry import DEFAULT

if TYPE_CHECKING:
    from iat_nova.experiments.compare.worth import Row
    from iat_nova.experiments.scenarios.scenario import Scenario

SEEDS = 1  # of the two runs of a host


def check(parsed_args: argparse.Namespace) -> None:
    """Refuse options that --worth does not use, and a second strategy. Raises `Failure`."""
    idle = [name for name in ("against", "bound", "tenants", "without") if vars(parsed_args)[name]]
    if idle:
        options = ", ".join(f"--{name}" for name in idle)
        raise Failure(f"--worth does not use {options}: leave them out", EXIT_USAGE)
    if len(parsed_args.strategy or ()) > 1:
        raise Failure("--worth takes one --strategy", EXIT_USAGE)


def compared(
    command: Command,
    parsed_args: argparse.Namespace,
    scenarios: Sequence[Scenario],
    executor: Executor,
) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
    """Return columns and a row per host; print the gains' rank correlation on standard error.

    Without --strategy the agent's default strategy counts.
    """
    from iat_nova.experiments.compare import worth  # noqa: PLC0415 - needs an extra

    hosts = [
        dataclasses.replace(one, length_s=parsed_args.seconds or one.length_s) for one in scenarios
    ]
    strategy = (parsed_args.strategy or [DEFAULT])[0]
    seeds = parsed_args.seeds or SEEDS
    with Progress("{done} of {total} hosts") as progress:
        found = worth.rows(hosts, strategy, seeds, executor=executor, progress=progress)
        rows = sorted(found, key=lambda row: row.host)
    correlation, known = worth.rank_correlation(rows)
    text = "unknown" if correlation is None else f"{correlation:.2f}"
    counts = f"{known} of {len(rows)} hosts"
    command.note(f"rank correlation of likely and actual gain: {text} ({counts})")
    names = tuple(field.name for field in dataclasses.fields(worth.Row))
    machine = parsed_args.formatter in (*MACHINE_FORMATS, "csv")
    return names, (dataclasses.astuple(row) if machine else _cells(row) for row in rows)


def _cells(row: Row) -> tuple[object, ...]:
    """Return a row for people: gains and shares in percent."""
    host, *values = dataclasses.astuple(row)
    return (host, *("-" if value is None else f"{value:.1%}" for value in values))
