# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate list, simulate run."""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from iat_nova.cmd.arguments import whole
from iat_nova.cmd.base import EXIT_USAGE, Failure, Lister, Page, told
from iat_nova.common import amounts as figures
from iat_nova.experiments.cmd.arguments import SCENARIO, unloadable
from iat_nova.experiments.cmd.common import make
from iat_nova.experiments.runs.failure import StrategyFailed
from iat_nova.policy import PolicyError
from iat_nova.report import escape, waymap, words
from iat_nova.strategies.registry import BUILT_IN, StrategyError

if TYPE_CHECKING:
    from iat_nova.experiments.runs.run import Result


SHOWN = 3  # columns of the table, which fits a terminal
_MAP_WIDTH = 68  # of the way map behind its title


class SimulateList(Lister):
    """Show the shipped scenarios for simulate run and simulate compare.

    All formats except the table include machine and file.
    """

    _epilog = """
examples:
  iat-nova simulate list
  iat-nova simulate list -f value -c scenario
"""

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per scenario."""
        from iat_nova.experiments.scenarios.shipped import heads  # noqa: PLC0415 - slow to load

        names = ("scenario", "title", "length_s", "machine", "file")
        rows = (
            (one.scenario, one.title, one.length_s, one.machine, str(one.file)) for one in heads()
        )
        if parsed_args.formatter != "table" or parsed_args.columns:
            return names, rows
        return names[:SHOWN], (row[:SHOWN] for row in rows)


class SimulateRun(Page):
    """Run a scenario on the emulated server: the real loop, policy and controller, virtual time.

    Needs the extra iat-nova[sim].
    """

    _epilog = """
examples:
  iat-nova simulate run quickstart --strategy iat
  iat-nova simulate run ./mine.yaml --strategy baseline --seed 7 -f json
  iat-nova simulate run quickstart --keep /tmp/run && iat-nova --state-dir /tmp/run report
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("scenario", metavar="SCENARIO", help=SCENARIO)
        parser.add_argument(
            "--strategy",
            metavar="NAME",
            help=f"{', '.join(BUILT_IN)} or a plug-in; default: the scenario's",
        )
        parser.add_argument("--seed", type=whole, metavar="N", help="default: the scenario's")
        parser.add_argument(
            "--seconds",
            type=_positive,
            metavar="S",
            help="emulated; default: the scenario's length",
        )
        parser.add_argument(
            "--keep",
            metavar="DIR",
            type=pathlib.Path,
            help="keep the history in this state directory, for report and explain",
        )

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the results as text."""
        return _page(self._run(parsed_args))

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the results as data."""
        from iat_nova.store import records  # noqa: PLC0415

        result = self._run(parsed_args)
        record: dict[str, Any] = records.unstructure(result)
        record["way_map"] = _way_map(result)
        return record

    def _run(self, parsed_args: argparse.Namespace) -> Result:
        try:
            from iat_nova.experiments.runs.run import run  # noqa: PLC0415 - needs an extra
            from iat_nova.experiments.scenarios.scenario import ScenarioError  # noqa: PLC0415
        except ImportError as error:
            raise unloadable(error) from error
        path = None
        if parsed_args.keep is not None:
            path = make(parsed_args.keep) / "history.sqlite"
            if path.exists():
                raise Failure(f"{path} exists; give an empty directory to --keep", EXIT_USAGE)
        try:
            result = run(
                parsed_args.scenario,
                parsed_args.strategy,
                parsed_args.seed,
                seconds=parsed_args.seconds,
                history_path=path,
                progress=self._progress,
            )
        except StrategyFailed as error:
            raise Failure(escape.lines(told(error))) from error
        except (ScenarioError, StrategyError, PolicyError) as error:
            raise Failure(escape.lines(told(error)), EXIT_USAGE) from error
        finally:
            self._end_progress()
        return result

    def _progress(self, done_s: float, total_s: float) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{done_s:.1f} of {total_s:g} emulated seconds ")
            sys.stderr.flush()

    def _end_progress(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def _page(result: Result) -> str:
    """Return the results of a run as text for a terminal."""
    moved = _counted(len(result.moves), "way change")
    if result.transitions:  # the paper's, of strategies that have them
        moved += f", {_counted(len(result.transitions), 'transition')}"
    lines = [
        f"{result.scenario}, strategy {result.strategy}, seed {result.seed}, "
        f"{result.seconds:g} emulated s: {moved}",
        "",
    ]
    rows: list[tuple[str, ...]] = [
        ("workload", "work/s", "Gb/s", "loss", "latency", "access", "IPC", "misses")
    ]
    for one in result.workloads:
        rows.append(
            (
                escape.plain(one.name),
                figures.rate(one.work_per_s).removesuffix("/s").rstrip(),
                f"{one.gbps:.2f}" if one.gbps else "-",
                f"{one.loss:.2%}" if one.gbps else "-",
                _latency(one.latency_us),
                f"{one.access_cycles:.1f} cyc" if one.access_cycles is not None else "-",
                f"{one.ipc:.2f}",
                figures.rate(one.misses_per_s),
            )
        )
    lines += words.columns(rows, "lrrrrrrr")
    if result.restarts:
        moments = ", ".join(f"{at_s:g} s" for at_s in result.restarts)
        lines += ["", f"agent restarted at {moments}"]
    if result.transitions:
        steps = ", ".join(f"{number} at {at_s:g} s" for at_s, number in result.transitions)
        lines += ["", f"transitions: {steps}"]
    if result.last is not None and result.inventory is not None:
        lines += ["", f"at the end: {_way_map(result)}"]
        sets = waymap.sets(result.last.layout, result.inventory, _MAP_WIDTH)
        lines += [f"{'':12}{line}" for line in sets]
    return "\n".join(lines)


def _counted(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _latency(latency_us: float | None) -> str:
    """Return the mean time of a packet or block as text."""
    if latency_us is None:
        return "-"
    return f"{latency_us:.1f} us" if latency_us >= 10 else f"{latency_us:.2f} us"


def _way_map(result: Result) -> str | None:
    if result.last is None or result.inventory is None:
        return None
    return waymap.text(result.last.layout, result.inventory, width=_MAP_WIDTH)


def _positive(text: str) -> float:
    """Return a positive number. Raises an error for argparse."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(
            f"invalid time {text!r}: expected a positive number of seconds"
        )
    return value
