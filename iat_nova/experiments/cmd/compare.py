# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate compare."""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import json
import pathlib
import statistics
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Failure, Lister, told
from iat_nova.experiments.cmd import worth
from iat_nova.experiments.cmd.arguments import (
    OVERVIEW,
    SCENARIO,
    chosen,
    take_random,
    take_time,
    take_workers,
    unloadable,
)
from iat_nova.experiments.cmd.bound import FOLDER
from iat_nova.experiments.cmd.common import Progress, make, take_without
from iat_nova.experiments.rivals import ablation
from iat_nova.experiments.runs.failure import StrategyFailed
from iat_nova.policy import PolicyError
from iat_nova.report import escape
from iat_nova.strategies.registry import BUILT_IN, StrategyError, find

if TYPE_CHECKING:
    from iat_nova.experiments.compare.compare import Begun, Comparison, Row, TenantRow
    from iat_nova.experiments.compare.overview import ScenarioStanding
    from iat_nova.experiments.compare.workload_rows import WorkloadRow
    from iat_nova.experiments.scenarios.scenario import Scenario

SEEDS = 10
UNMANAGED = BUILT_IN[0]
ALL = "all scenarios"
MEASURES = (
    ("pc_performance", "PC performance", ".3f"),
    ("be_throughput", "BE throughput", ".3f"),
    ("memory_bandwidth", "memory GB/s", ".2f"),
    ("way_changes_per_minute", "way changes/min", ".1f"),
    ("settle_s", "settle s", ".1f"),
    ("pc_of_bound", "PC of bound", ".3f"),
)
BY_TENANT = ("scenario", "strategy", "seeds", "tenant", "priority", "alone", "related")
RATIOS = frozenset({"pc_performance", "be_throughput", "pc_of_bound"})
Measures = Sequence[tuple[str, str, str]]


class SimulateCompare(Lister):
    """Run strategies side by side on scenarios and compare their performance.

    The command answers the question whether a strategy helps critical guests, and what best-effort
    guests pay. Each strategy runs each scenario with the same seeds, beside the reference: a host
    without the agent (unmanaged), or the strategy of --against. Needs the extra iat-nova[sim].

    The table has a row per scenario and strategy: the median over the seeds, with the lowest and
    the highest value in brackets. Several scenarios also have a row of means. -f json and -f csv
    have one row per strategy and seed, with --tenants one row per guest's workload.

    DIR gets a chart and the rows of each scenario, the results of each workload (throughput,
    latency, loss, cycles per packet; CSV and JSON), and for several scenarios an overview of
    winners. Each finished run is a file in DIR/runs: a stopped comparison continues there, but
    starts again with another version of iat-nova. Counters resemble hardware (1 % noise, DDIO
    counted at one CHA) unless the scenario has other settings.

    --random draws hosts: sizes, priorities, loads from idle to beyond capacity, rings, events,
    guests that arrive and leave, guaranteed ways, noise of 1, 3 or 5 %, one or two sockets. Each
    random host is an ordinary scenario.

    --worth shows how well observing predicts the gain of enforcing: a row per host, and the rank
    correlation (Spearman). It is 1 if the prediction puts the hosts in the right order, 0 if it
    says nothing. Values are means of runs with seeds 1 to --seeds, by default seed 1 alone.
    """

    _epilog = """
columns:
  PC performance   of critical guests; 1: as if alone with the whole cache
  BE throughput    of best-effort guests; 1: as much as under the reference
  memory GB/s      memory traffic, reads and writes; the mean of the run
  way changes/min  moves of masks a minute; 0: nothing moved
  settle s         longest time from a change to the last move of a mask
  PC of bound      PC performance; 1: that of the best layouts found
  worst tenant     who fares worst; 1: as much as under the reference

PC and BE are geometric means over workloads. Left out and named are workloads without any work to
compare with: PC without work alone, BE without work under the reference. Changes are the start,
events, guests that arrive or leave, and restarts; only moves before the next change count. The
column PC of bound appears after simulate bound, whose results it takes from --bound.

how to read rows (the numbers are invented):
  unmanaged  0.510 (0.508..0.512)  1.000                 ...  web 1.000
  iat        0.612 (0.609..0.617)  0.940 (0.938..0.941)  ...  batch 0.931

Without the agent critical guests reach 51 % of the performance that each has alone, with iat 61 %:
a gain of a fifth. It costs best-effort guests 6 % of their throughput, and batch, the worst, 7 %.

columns of --worth:
  likely  gain of critical guests that observing predicts
  most    the most that it holds for possible
  known   share of the guests of which the cost of a miss is known
  came    the gain when the strategy writes its masks

examples:
  iat-nova simulate compare noisy-storage --seeds 3
      one scenario, all strategies: begin here
  iat-nova simulate compare tenant-churn --tenants --against baseline
      which guest gains and which loses, against another strategy than none
  iat-nova simulate compare --all --seeds 1 --compression 3%
      all scenarios, quickly and less exactly
  iat-nova simulate compare ./mine.yaml --strategy iat --strategy my-plug-in -f json
      a scenario and a strategy of your own, for a program
  iat-nova simulate compare --random 30 --seed 7 --seeds 1
      hosts that nobody chose; the seed draws them again
  iat-nova simulate compare iat-nova-compare/hosts/random-7-003.yaml
      one of them alone
  iat-nova simulate compare --random 30 --seeds 1 --strategy pollute-buffer --without each
      what each family of the default strategy's moves brings
  iat-nova simulate compare --random 100 --seed 9001 --worth
      how well observe mode predicts the gain
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("scenarios", metavar="SCENARIO", nargs="*", help=SCENARIO)
        parser.add_argument("--all", action="store_true", help="all shipped scenarios")
        parser.add_argument(
            "--strategy",
            action="append",
            metavar="NAME",
            help=f"{', '.join(BUILT_IN)} or a plug-in; may be repeated; default: all but plug-ins",
        )
        parser.add_argument(
            "--against",
            metavar="NAME",
            help=f"the reference strategy; default: {UNMANAGED}",
        )
        take_random(parser)
        take_without(parser, ablation.FAMILIES)
        parser.add_argument(
            "--worth",
            action="store_true",
            help="set the gain that observing predicts against the gain of the strategy",
        )
        parser.add_argument("--tenants", action="store_true", help="show each guest's workload")
        parser.add_argument(
            "--seeds",
            type=natural,
            metavar="N",
            help=f"number of seeds, from 1 on; default: {SEEDS}; with --worth, 1",
        )
        take_time(parser)
        take_workers(parser)
        parser.add_argument(
            "--bound",
            metavar="DIR",
            type=pathlib.Path,
            help=f"folder with results of simulate bound; default: ./{FOLDER}",
        )
        parser.add_argument(
            "--out",
            metavar="DIR",
            type=pathlib.Path,
            default=pathlib.Path("iat-nova-compare"),
            help="folder for charts and rows; default: ./%(default)s",
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per run, per strategy, or per tenant."""
        if parsed_args.worth:
            worth.check(parsed_args)
            with self._hosts(parsed_args) as (hosts, executor):
                return worth.compared(self, parsed_args, hosts, executor)
        found = self._found(parsed_args)
        rows = [row for one in found for row in one.rows]
        machine = parsed_args.formatter in (*MACHINE_FORMATS, "csv")
        if parsed_args.tenants:
            tenants = [row for one in found for row in one.tenants]
            if machine:
                names = tuple(dataclasses.asdict(tenants[0])) if tenants else ("tenant",)
                return names, map(dataclasses.astuple, tenants)
            return BY_TENANT, _by_tenant(tenants)
        if machine:
            return tuple(dataclasses.asdict(rows[0])), map(dataclasses.astuple, rows)
        measures = MEASURES if _bounded(rows) else MEASURES[:-1]
        labels = (label for _, label, _ in measures)
        return ("scenario", "strategy", *labels, "worst tenant"), _medians(found, measures)

    def _found(self, parsed_args: argparse.Namespace) -> list[Comparison]:
        parsed_args.against = parsed_args.against or UNMANAGED
        with self._hosts(parsed_args) as (scenarios, executor):
            from iat_nova.experiments.runs import parallel  # noqa: PLC0415 - needs an extra

            asked = [*(parsed_args.strategy or BUILT_IN), *ablation.labels(parsed_args.without)]
            strategies = list(dict.fromkeys(asked))
            found = []
            # For Ctrl-C, also between scenarios: runs of the next scenario may be finished.
            with Progress("", parsed_args.out / "runs"), contextlib.ExitStack() as ending:
                begun = (
                    self._begun(one, strategies, parsed_args, executor, ending) for one in scenarios
                )
                pairs = zip(scenarios, parallel.one_ahead(begun), strict=True)
                for number, (one, comparison) in enumerate(pairs, 1):
                    at = f"{one.name} ({number} of {len(scenarios)})"
                    found.append(self._compared(one, at, comparison, parsed_args))
        pictures = [f"{one.name}.svg" for one in scenarios]
        if len(found) > 1:
            pictures.insert(0, _overview(found, parsed_args.out, parsed_args.against))
        self.note(f"pictures: {', '.join(str(parsed_args.out / name) for name in pictures)}")
        return found

    @contextlib.contextmanager
    def _hosts(self, parsed_args: argparse.Namespace) -> Iterator[tuple[list[Scenario], Executor]]:
        """Yield the chosen scenarios and an executor; turn errors of the runs into `Failure`."""
        try:
            from iat_nova.experiments.runs import parallel  # noqa: PLC0415 - needs an extra
            from iat_nova.experiments.scenarios.scenario import ScenarioError  # noqa: PLC0415
            from iat_nova.experiments.scenarios.shipped import shipped  # noqa: PLC0415
        except ImportError as error:
            raise unloadable(error) from error
        names = list(
            dict.fromkeys([*parsed_args.scenarios, *(shipped() if parsed_args.all else ())])
        )
        if not names and not parsed_args.random:
            text = "no scenario: name one or several, or give --all or --random N"
            raise Failure(text, EXIT_USAGE)
        if parsed_args.bound is not None and not parsed_args.bound.is_dir():
            text = f"there is no folder {parsed_args.bound} of simulate bound"
            raise Failure(text, EXIT_USAGE)
        try:
            for strategy in (*(parsed_args.strategy or ()), parsed_args.against or UNMANAGED):
                find(strategy)  # a wrong name is reported before anything is compiled and run
            scenarios = list(chosen(parsed_args, names))
            make(parsed_args.out)  # if not, that is known at once
            with parallel.executor(parsed_args.jobs, parsed_args.scheduler) as executor:
                yield scenarios, executor
        except (parallel.ParallelError, StrategyFailed) as error:
            raise Failure(escape.lines(told(error))) from error
        except (ScenarioError, StrategyError, PolicyError) as error:
            raise Failure(escape.lines(told(error)), EXIT_USAGE) from error

    def _begun(
        self,
        scenario: Scenario,
        strategies: Sequence[str],
        parsed_args: argparse.Namespace,
        executor: Executor,
        ending: contextlib.ExitStack,
    ) -> Begun:
        """Submit a scenario's runs; at the `ending` finished runs are kept."""
        from iat_nova.experiments.compare import compare  # noqa: PLC0415 - needs an extra

        begun = compare.begin(
            scenario,
            strategies,
            range(1, (parsed_args.seeds or SEEDS) + 1),
            against=parsed_args.against,
            seconds=parsed_args.seconds,
            kept_in=parsed_args.out / "runs",
            executor=executor,
        )
        ending.callback(begun.keep)
        return begun

    def _compared(
        self, scenario: Scenario, at: str, begun: Begun, parsed_args: argparse.Namespace
    ) -> Comparison:
        """Compare on one scenario and write the files. `at`: the command's progress, as text."""
        from iat_nova.experiments.compare import bound, compare_chart  # noqa: PLC0415 - needs an extra

        length_s = parsed_args.seconds or scenario.length_s
        bounds = parsed_args.bound or FOLDER
        best = bound.read(bounds, dataclasses.replace(scenario, length_s=length_s))
        if best is None and (bounds / f"{scenario.name}.json").exists():
            self.note(
                f"{scenario.name}: the bound in {bounds} is of another length, "
                "compression, scenario or version; search again with iat-nova simulate bound"
            )
        with Progress(f"{at}: {{done}} of {{total}} runs") as progress:
            found = begun.finish(None if best is None else best.pc, progress)
        if found.left_out:
            listed = escape.plain(", ".join(found.left_out))
            self.note(
                f"{scenario.name}: not in the means, as there is nothing to compare with "
                f"(no work alone if PC, under {parsed_args.against} if BE): {listed}"
            )
        out: pathlib.Path = parsed_args.out
        compare_chart.draw(
            out / f"{scenario.name}.svg", scenario.title, found.rows, parsed_args.against
        )
        _write(out / f"{scenario.name}.csv", found.rows)
        _write(out / f"{scenario.name}-tenants.csv", found.tenants)
        _write(out / f"{scenario.name}-workloads.csv", found.workloads)
        with (out / f"{scenario.name}-workloads.json").open("w", encoding="utf-8") as file:
            json.dump([dataclasses.asdict(row) for row in found.workloads], file, indent=1)
        return found


def _overview(found: Sequence[Comparison], out: pathlib.Path, against: str) -> str:
    """Write the overview of all scenarios; return the name of the chart."""
    from iat_nova.experiments.compare import overview  # noqa: PLC0415 - needs an extra

    rows = [row for one in found for row in one.rows]
    overview.draw(out / f"{OVERVIEW}.svg", rows, against)
    _write(out / f"{OVERVIEW}.csv", rows)
    _write(out / f"{OVERVIEW}-standings.csv", overview.standings(rows))
    _write(out / f"{OVERVIEW}-tenants.csv", [row for one in found for row in one.tenants])
    return f"{OVERVIEW}.svg"


def _write(
    path: pathlib.Path, rows: Sequence[Row | TenantRow | WorkloadRow | ScenarioStanding]
) -> None:
    if not rows:
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, dataclasses.asdict(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            cells = dataclasses.asdict(row).items()
            writer.writerow({column: escape.csv_cell(value) for column, value in cells})


def _bounded(rows: Sequence[Row]) -> bool:
    """Tell whether any scenario has results of simulate bound."""
    return any(row.pc_of_bound is not None for row in rows)


def _medians(found: Sequence[Comparison], measures: Measures) -> Iterator[tuple[object, ...]]:
    """Yield one row per scenario and strategy: medians, with smallest and largest in brackets."""
    for one in found:
        for strategy in dict.fromkeys(row.strategy for row in one.rows):
            mine = [row for row in one.rows if row.strategy == strategy]
            cells = [_cell(_values(mine, name), form) for name, _, form in measures]
            yield (mine[0].scenario, strategy, *cells, _worst([one], strategy))
    if len(found) > 1:
        for strategy in dict.fromkeys(row.strategy for one in found for row in one.rows):
            yield (ALL, strategy, *_means(found, strategy, measures), _worst(found, strategy))


def _means(found: Sequence[Comparison], strategy: str, measures: Measures) -> Iterator[str]:
    """Yield each measure's mean over the scenarios' medians; the geometric mean for ratios."""
    for name, _, form in measures:
        each = [_values([r for r in one.rows if r.strategy == strategy], name) for one in found]
        medians = [statistics.median(values) for values in each if values]
        ratios = name in RATIOS and all(medians)
        mean = statistics.geometric_mean if ratios else statistics.fmean
        yield f"{mean(medians):{form}}" if medians else "-"


def _worst(found: Sequence[Comparison], strategy: str) -> str:
    worst = [one for one in (each.worst(strategy) for each in found) if one is not None]
    if not worst:
        return "-"
    name, value = min(worst, key=lambda one: one[1])
    return f"{escape.plain(name)} {value:.3f}"


def _by_tenant(rows: Sequence[TenantRow]) -> Iterator[tuple[object, ...]]:
    """Yield one row per scenario, strategy and tenant, with medians over the seeds."""
    groups: dict[tuple[str, str, str, str], list[TenantRow]] = {}
    for row in rows:
        key = (row.scenario, row.strategy, row.tenant, row.priority)
        groups.setdefault(key, []).append(row)
    for (scenario, strategy, tenant, priority), mine in groups.items():
        seeds = len(mine)
        cells = (_cell(_values(mine, name), ".3f") for name in ("alone", "related"))
        yield (scenario, strategy, seeds, escape.plain(tenant), priority, *cells)


def _values(rows: Iterable[Row | TenantRow], name: str) -> list[float]:
    return [value for value in (getattr(row, name) for row in rows) if value is not None]


def _cell(values: Sequence[float], form: str) -> str:
    if not values:
        return "-"
    low, middle, high = (
        f"{value:{form}}" for value in (min(values), statistics.median(values), max(values))
    )
    return middle if low == high else f"{middle} ({low}..{high})"
