# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate compare."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import pathlib
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Failure, Lister
from iat_nova.cmd.progress import Progress
from iat_nova.model import PRESETS
from iat_nova.policy import PolicyError
from iat_nova.report import escape
from iat_nova.strategies import StrategyError

if TYPE_CHECKING:
    from iat_nova.sim.compare import Row
    from iat_nova.sim.scenario import Scenario

SEEDS = 10
MEASURES = (
    ("pc_performance", "PC performance", ".3f"),
    ("be_throughput", "BE throughput", ".3f"),
    ("memory_bandwidth", "memory GB/s", ".2f"),
    ("way_changes_per_minute", "way changes/min", ".1f"),
    ("settle_s", "settle s", ".1f"),
)


class SimulateCompare(Lister):
    """Run strategies side by side on scenarios and show what each is worth.

    PC performance: of the performance-critical workloads, alone with the whole cache being 1.
    BE throughput: of the best-effort ones, under the baseline being 1. Both are geometric means;
    what does nothing alone (PC) or under the baseline (BE) is left out, and named. Memory: GB/s.
    Time to settle: the longest from an event, or a guest's coming or going, to the last move of a
    mask it caused. The table has the median over the seeds and the spread; -f json and -f csv have
    a row a strategy and seed. A picture and the rows go to a folder. Needs the extra iat-nova[sim].
    """

    _epilog = """
SCENARIO is a file, or the name of one that ships (simulate list). A strategy is a preset (iat,
core-only, io-iso, baseline) or a plug-in.

examples:
  iat-nova simulate compare leaky-dma
  iat-nova simulate compare leaky-dma latent-contender --seeds 3
  iat-nova simulate compare ./mine.yaml --strategy iat --strategy my-plug-in -f json
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument("scenarios", metavar="SCENARIO", nargs="+")
        parser.add_argument(
            "--strategy",
            action="append",
            metavar="NAME",
            help=f"may be repeated; default: {', '.join(PRESETS)}",
        )
        parser.add_argument(
            "--seeds", type=natural, metavar="N", default=SEEDS, help="default: %(default)s"
        )
        parser.add_argument(
            "--seconds", type=natural, metavar="S", help="default: each scenario's length"
        )
        parser.add_argument(
            "--jobs", type=natural, metavar="N", help="processes at a time; default: one a core"
        )
        parser.add_argument(
            "--out",
            metavar="DIR",
            type=pathlib.Path,
            default=pathlib.Path("iat-nova-compare"),
            help="where pictures and rows go; default: ./%(default)s",
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return a row a run, or a row a strategy."""
        rows = self._rows(parsed_args)
        if parsed_args.formatter in (*MACHINE_FORMATS, "csv"):
            names = tuple(dataclasses.asdict(rows[0]))
            return names, (dataclasses.astuple(row) for row in rows)
        return ("scenario", "strategy", *(label for _, label, _ in MEASURES)), _medians(rows)

    def _rows(self, parsed_args: argparse.Namespace) -> list[Row]:
        try:
            from iat_nova.sim import compare, compare_chart  # noqa: PLC0415 - compiles
            from iat_nova.sim.scenario import Scenario, ScenarioError  # noqa: PLC0415
        except ImportError as error:
            raise Failure(
                f"the emulated server needs {error.name or error}: pip install 'iat-nova[sim]'"
            ) from error
        out: pathlib.Path = parsed_args.out
        rows: list[Row] = []
        try:
            scenarios: list[Scenario] = [Scenario.load(name) for name in parsed_args.scenarios]
            for scenario in scenarios:
                with Progress(f"{scenario.name}: {{done}} of {{total}} runs") as progress:
                    found = compare.compare(
                        scenario,
                        parsed_args.strategy or list(PRESETS),
                        range(1, parsed_args.seeds + 1),
                        seconds=parsed_args.seconds,
                        jobs=parsed_args.jobs,
                        progress=progress,
                    )
                if found.left_out:
                    names = escape.plain(", ".join(found.left_out))
                    self.note(
                        f"{scenario.name}: not in the means, as there is nothing to compare with "
                        f"(no work alone if PC, under the baseline if BE): {names}"
                    )
                out.mkdir(parents=True, exist_ok=True)
                compare_chart.draw(out / f"{scenario.name}.svg", scenario.title, found.rows)
                _write(out / f"{scenario.name}.csv", found.rows)
                rows += found.rows
        except (ScenarioError, StrategyError, PolicyError) as error:
            raise Failure(escape.plain(str(error)), EXIT_USAGE) from error
        pictures = ", ".join(str(out / f"{scenario.name}.svg") for scenario in scenarios)
        self.note(f"pictures: {pictures}")
        return rows


def _write(path: pathlib.Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, dataclasses.asdict(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(dataclasses.asdict(row) for row in rows)


def _medians(rows: Sequence[Row]) -> Iterator[tuple[object, ...]]:
    """Yield a row a scenario and strategy: medians, and in brackets from where to where."""
    for scenario, strategy in dict.fromkeys((row.scenario, row.strategy) for row in rows):
        mine = [row for row in rows if (row.scenario, row.strategy) == (scenario, strategy)]
        cells = []
        for name, _, form in MEASURES:
            values = [v for v in (getattr(row, name) for row in mine) if v is not None]
            cells.append(_cell(values, form))
        yield (scenario, strategy, *cells)


def _cell(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    low, middle, high = (
        f"{value:{form}}" for value in (min(values), statistics.median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low}..{high})"
