# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate figures."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Failure, Lister
from iat_nova.experiments.cmd.arguments import take_workers, unloadable
from iat_nova.experiments.cmd.common import Progress, make
from iat_nova.experiments.papers import heads

if TYPE_CHECKING:
    from iat_nova.experiments.papers.api import Figure, Point
    from iat_nova.experiments.papers.claims import ClaimVerdict
    from iat_nova.experiments.papers.sensitivity import TurnedVerdict

TURNS = ("constant", "factor", "claim", "set", "published", "before", "after", "met")
COLUMNS = ("figure", "claim", "set", "published", "measured", "met", "strict", "reason")
# Runs of a figure by default, and in the papers.
SEEDS = 3
_PAGE = "index.html"


class SimulateFigures(Lister):
    """Measure published figures again on the emulated server and compare them with their claims.

    Each claim has a row: data set, published value, measured value, whether the claim is met within
    25 % and strictly, and the observation. Claims on which constants were fitted (calibration) are
    counted apart.
    Data (JSON, CSV), charts (SVG) and a page with all of these go to a folder. Measurements are
    kept there, so a stopped run continues. Needs the extra iat-nova[sim].
    """

    _epilog = """
examples:
  iat-nova simulate figures --list                 the available figures
  iat-nova simulate figures                        all figures; ten minutes on two cores
  iat-nova simulate figures iat-3a iat-4           two figures
  iat-nova simulate figures iat-10 --seeds 10      with the papers' 10 runs
  iat-nova simulate figures -f json > verdicts.json
  iat-nova simulate figures iat-4 --sensitivity    verdicts that depend on a constant
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", metavar="NAME", nargs="*", help="a figure; default: all")
        parser.add_argument("--list", action="store_true", help="list the available figures")
        parser.add_argument(
            "--judge",
            action="store_true",
            help="judge the rows in DIR again, from any version, without measuring",
        )
        parser.add_argument(
            "--out",
            metavar="DIR",
            type=pathlib.Path,
            default=pathlib.Path("iat-nova-figures"),
            help="folder for data, charts and the page; default: ./%(default)s",
        )
        parser.add_argument(
            "--sensitivity",
            action="store_true",
            help="measure again with one of 21 constants of the emulated server multiplied by "
            "0.75, then by 1.25, then with the next, and show the verdicts that turn. The 21 are: "
            "times of caches and memory, memory bandwidth, prefetching, cycles and overlapping "
            "accesses of workloads, seek times of disks, lost time slices, shares of queues, "
            "weights of running means. Sizes, settings of workloads, and numbers from data sheets "
            "and from DPDK's sources stay. "
            "Takes up to 30 times as long as the figures alone (all figures: some five hours on "
            "two cores, two with --seeds 1); a stopped run continues; DIR has sensitivity.json, "
            "with the meaning of each constant",
        )
        parser.add_argument(
            "--seeds", metavar="N", type=natural, help=f"runs; default: {SEEDS}; as published: 10"
        )
        take_workers(parser)

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per verdict, or per figure."""
        if parsed_args.sensitivity and (parsed_args.judge or parsed_args.list):
            raise Failure("--sensitivity measures: leave out --judge and --list", EXIT_USAGE)
        names = _known(parsed_args.names)
        if parsed_args.list:
            listed = (one for one in heads.heads() if one.name in names)
            return ("figure", "title", "source"), map(dataclasses.astuple, listed)
        figures = {name: catalogued()[name] for name in names}
        machine = parsed_args.formatter in (*MACHINE_FORMATS, "csv")
        if not parsed_args.judge:
            make(parsed_args.out)  # if not, that is known at once
        if parsed_args.sensitivity:
            turns = self._turns(figures, parsed_args)
            return TURNS, (_turn(turn, machine) for turn in turns)
        verdicts = (self._recorded if parsed_args.judge else self._measured)(figures, parsed_args)
        self.note(f"{_summary(verdicts)}; see {parsed_args.out / _PAGE}")
        return COLUMNS, (_row(verdict, machine) for verdict in verdicts)

    def _recorded(
        self, figures: Mapping[str, Figure], parsed_args: argparse.Namespace
    ) -> list[ClaimVerdict]:
        from iat_nova.experiments.papers import pages  # noqa: PLC0415 - needs an extra

        folder: pathlib.Path = parsed_args.out
        try:
            rows = pages.recorded(folder, figures)
        except pages.FigureRecordError as error:
            raise Failure(str(error)) from None
        if not rows:
            raise Failure(f"{folder} holds none of these figures: measure them without --judge")
        return pages.write(folder, catalogued(), rows)

    def _measured(
        self, figures: Mapping[str, Figure], parsed_args: argparse.Namespace
    ) -> list[ClaimVerdict]:
        from iat_nova.experiments.papers import pages  # noqa: PLC0415 - needs an extra

        folder: pathlib.Path = parsed_args.out
        if compressed := _compressed(figures.values()):
            self.note(f"simulated share of each second: {compressed}")
        rows = _rows(list(figures.values()), folder / "points", parsed_args)
        return pages.write(folder, catalogued(), rows)

    def _turns(
        self, figures: Mapping[str, Figure], parsed_args: argparse.Namespace
    ) -> list[TurnedVerdict]:
        from iat_nova.experiments.papers import sensitivity  # noqa: PLC0415 - needs an extra

        turns = sensitivity.run(
            list(figures),
            parsed_args.out,
            lambda several, folder: _rows(several, folder, parsed_args),
        )
        self.note(f"{len(turns)} verdicts turn; see {parsed_args.out / sensitivity.RECORD}")
        return turns


def catalogued() -> Mapping[str, Figure]:
    """Return all figures by name. Raises Failure if the emulated server is not installed."""
    try:
        from iat_nova.experiments.papers import catalogue  # noqa: PLC0415 - needs an extra

        return catalogue.figures()
    except ImportError as error:
        raise unloadable(error) from error


def _known(names: list[str]) -> list[str]:
    """Return these names of figures, all if none is given. Raises `Failure` for unknown names."""
    known = [one.name for one in heads.heads()]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Failure(f"no figure {', '.join(unknown)}; there are: {', '.join(known)}", EXIT_USAGE)
    return list(dict.fromkeys(names)) or known


def _rows(
    figures: Sequence[Figure], folder: pathlib.Path, parsed_args: argparse.Namespace
) -> Mapping[str, Sequence[Point]]:
    """Measure figures, or take kept rows from the folder. Raises `Failure`."""
    from iat_nova.experiments.papers import runner  # noqa: PLC0415
    from iat_nova.experiments.runs import parallel  # noqa: PLC0415 - needs an extra

    seeds = parsed_args.seeds or SEEDS
    try:
        with Progress(f"{folder.name}: {{done}} of {{total}} points", folder) as progress:
            return runner.measure(
                figures, seeds, folder, parsed_args.jobs, progress, parsed_args.scheduler
            )
    except (runner.PointError, parallel.ParallelError) as error:
        raise Failure(str(error)) from error


def _turn(turn: TurnedVerdict, machine: bool) -> tuple[object, ...]:
    from iat_nova.experiments.papers import pages  # noqa: PLC0415

    before, after = turn.before, turn.after
    values: list[object] = [before.published, before.measured, after.measured]
    if not machine:
        unit = before.unit
        values = [
            pages.shown(one, unit) for one in (before.published, before.measured, after.measured)
        ]
    met = after.met if machine else ("yes" if after.met else "no")
    return (turn.constant, turn.factor, before.claim, before.set, *values, met)


def _summary(verdicts: list[ClaimVerdict]) -> str:
    """Return the numbers of claims met within the tolerance and strictly, by data set."""
    if not verdicts:
        return "no values of these figures were published, so no claim is judged"
    from iat_nova.experiments.papers import pages  # noqa: PLC0415 - needs an extra

    return "; ".join(
        f"{counts['met']} of {counts['total']} {name} claims met within 25 %, "
        f"{counts['strict']} strictly"
        for name, counts in pages.counted(map(dataclasses.asdict, verdicts)).items()
        if counts["total"]
    )


def _compressed(figures: Iterable[Figure]) -> str:
    """Return the figures with time compression, with their shares; "" without any."""
    names: dict[float, list[str]] = {}
    for figure in figures:
        if figure.compression < 1.0:
            names.setdefault(figure.compression, []).append(figure.name)
    return "; ".join(f"{', '.join(several)}: {share:.0%}" for share, several in names.items())


def _row(verdict: ClaimVerdict, machine: bool) -> tuple[object, ...]:
    from iat_nova.experiments.papers import pages  # noqa: PLC0415

    published: object = verdict.published
    measured: object = verdict.measured
    if not machine:
        published = pages.shown(verdict.published, verdict.unit)
        measured = pages.shown(verdict.measured, verdict.unit)
    met, strict = (
        one if machine else ("yes" if one else "no") for one in (verdict.met, verdict.strict)
    )
    return (
        verdict.figure, verdict.claim, verdict.set, published, measured, met, strict, verdict.reason
    )  # fmt: skip
