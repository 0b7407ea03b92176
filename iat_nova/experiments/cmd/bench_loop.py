# SPDX-License-Identifier: Apache-2.0
"""iat-nova bench loop."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Failure, Lister
from iat_nova.hardware.api import HardwareError
from iat_nova.report import sentences
from iat_nova.strategies.registry import DEFAULT, StrategyError

PHASES = ("stable", "unstable")


class BenchLoop(Lister):
    """Measure the time of an iteration of the loop on this machine, in microseconds.

    The results are medians, and the 99th percentile of the overhead. Overhead: the time of an
    iteration without the bare reads of the CPUs' counters (floor) and without writes.

    Without --hardware, software events are counted and masks are written to hardware in memory.
    With --hardware auto, the command uses the counters that the agent would choose, and really
    changes masks and DDIO's ways. The command then refuses to run beside an agent or another
    program that allocates cache. At the end the original settings are restored; after a kill, run
    `iat-nova restore`.
    """

    _epilog = """
examples:
  iat-nova bench loop                                    everything; takes minutes
  iat-nova bench loop --tenants 16 --iterations 200      one size, quickly
  iat-nova bench loop -f json > loop.json
  iat-nova bench loop --hardware auto                    on this host's counters and masks; as root
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--hardware",
            choices=("auto",),
            help="measure on this host's own hardware, with the interfaces that the agent chooses",
        )
        parser.add_argument(
            "--tenants", type=natural, nargs="+", metavar="N", help="default: 1 2 4 8 16 64 256"
        )
        parser.add_argument(
            "--cores", type=natural, nargs="+", metavar="N", help="per tenant; default: 1 2"
        )
        parser.add_argument(
            "--strategy", default=DEFAULT, metavar="NAME", help="default: %(default)s"
        )
        parser.add_argument("--phase", choices=PHASES, help="default: both")
        parser.add_argument("--iterations", type=natural, metavar="N", help="default: 1000")

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per case."""
        from iat_nova.experiments.times import loop as bench  # noqa: PLC0415 - opens counters, needs the whole agent

        columns = tuple(field.name for field in dataclasses.fields(bench.TimesRow))
        return columns, self._rows(parsed_args)

    def _rows(self, parsed_args: argparse.Namespace) -> Iterator[tuple[object, ...]]:
        from iat_nova.experiments.times import loop as bench  # noqa: PLC0415

        try:
            with contextlib.ExitStack() as stack:
                owned = None
                if parsed_args.hardware:
                    owned = bench.real_machine(self.settings(parsed_args))
                    stack.enter_context(owned.held())
                for row in bench.rows(
                    tenants=parsed_args.tenants or bench.TENANTS,
                    cores=parsed_args.cores or bench.CORES,
                    phases=(parsed_args.phase,) if parsed_args.phase else bench.PHASES,
                    iterations=parsed_args.iterations or bench.ITERATIONS,
                    progress=self.note,
                    owned=owned,
                    strategy=parsed_args.strategy,
                ):
                    yield tuple(
                        round(value, 1 if parsed_args.formatter not in MACHINE_FORMATS else 3)
                        if isinstance(value, float)
                        else value
                        for value in dataclasses.astuple(row)
                    )
        except StrategyError as error:
            raise Failure(str(error), EXIT_USAGE) from error
        except HardwareError as error:
            told = sentences.text(error.message)
            if parsed_args.hardware:
                raise Failure(
                    f"this host's hardware cannot be driven now: {told}; `iat-nova doctor` shows "
                    "more, and without --hardware the loop is measured with software events"
                ) from error
            raise Failure(f"the counters cannot be opened: {told}") from error
