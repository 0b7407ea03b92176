# SPDX-License-Identifier: Apache-2.0
"""iat-nova simulate bound."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import EXIT_USAGE, MACHINE_FORMATS, Failure, Lister, told
from iat_nova.experiments.cmd.arguments import (
    SCENARIO,
    chosen,
    take_random,
    take_time,
    take_workers,
    unloadable,
)
from iat_nova.experiments.cmd.common import Progress, make, share
from iat_nova.policy import PolicyError
from iat_nova.report import escape

if TYPE_CHECKING:
    from iat_nova.experiments.compare.bound import BestPlan, Bound

RUNS, SEEDS = 240, 3
FOLDER = pathlib.Path("iat-nova-bound")
COLUMNS = (
    "scenario", "layout", "pc_performance", "be_throughput", "of_bound", "lack", "layouts",
)  # fmt: skip
LABELS = ("scenario", "layout", "PC performance", "BE throughput", "of bound", "lack", "ways")


class SimulateBound(Lister):
    """Search for the best layouts of scenarios: one fixed layout, and one layout for each phase.

    A layout has a mask for each workload (masks may overlap), DDIO's ways, and DDIO on or off at a
    disk's port. A phase lies between two changes: events, guests that arrive or leave, restarts.

    The best layout has the highest PC performance (see simulate compare) within limits. --be-loss
    limits the loss of BE throughput against a host without an agent. --tenant-least is the share of
    the performance under the static baseline that each guest must keep. If no layout keeps the
    limits, the layout with the smallest shortfall is the best.

    Layouts are tried in short runs (0.2 simulated seconds of each phase). The search starts from
    simple layouts and moves an end of a mask, DDIO's ways or a disk's DDIO. The best few layouts
    are run longer, the best of these in full with every seed. Layouts change exactly at an event,
    faster than any strategy can. The result is a lower bound of the best layout: a longer search
    may find more. Each run is kept in a folder, so a stopped search continues; simulate compare
    shows the share of the bound that strategies reach. Needs the extra iat-nova[sim].
    """

    _epilog = """
examples:
  iat-nova simulate bound be-streamer                      minutes on two cores
  iat-nova simulate bound be-streamer --runs 1000 -f json
  iat-nova simulate bound be-streamer --be-loss 100% --tenant-least 95% --out fair
  iat-nova simulate compare be-streamer                    shows the share of it
  iat-nova simulate bound --random 30 --seed 7             hosts drawn at random
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("scenarios", metavar="SCENARIO", nargs="*", help=SCENARIO)
        take_random(parser)
        parser.add_argument(
            "--runs",
            type=natural,
            metavar="N",
            default=RUNS,
            help="short runs of the search, half of these for fixed layouts; default: %(default)s",
        )
        parser.add_argument(
            "--seeds",
            type=natural,
            metavar="N",
            default=SEEDS,
            help="the best layouts are run in full with seeds 1 to N; default: %(default)s",
        )
        parser.add_argument(
            "--be-loss",
            type=share(),
            metavar="SHARE",
            default="5%",
            help="maximum loss of BE throughput against a host without an agent; default: 5%%",
        )
        parser.add_argument(
            "--tenant-least",
            type=share(),
            metavar="SHARE",
            default="0",
            help="minimum of each guest's performance, as a share of the static baseline; default: "
            "no limit",
        )
        take_time(parser)
        take_workers(parser)
        parser.add_argument(
            "--out",
            metavar="DIR",
            type=pathlib.Path,
            default=FOLDER,
            help="folder for runs and results; default: ./%(default)s",
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return three rows per scenario: no masks, best fixed layout, best layout per phase."""
        found = self._found(parsed_args)
        if parsed_args.formatter in MACHINE_FORMATS:
            return COLUMNS, (row for one in found for row in _records(one))
        if parsed_args.formatter == "csv":
            return COLUMNS, (row for one in found for row in _rows(one, exact=True))
        return LABELS, (row for one in found for row in _rows(one))

    def _found(self, parsed_args: argparse.Namespace) -> list[Bound]:
        try:
            from iat_nova.experiments.compare import bound  # noqa: PLC0415 - needs an extra
            from iat_nova.experiments.runs import parallel  # noqa: PLC0415 - needs an extra
            from iat_nova.experiments.runs.bound_run import BoundError  # noqa: PLC0415
            from iat_nova.experiments.scenarios.scenario import ScenarioError  # noqa: PLC0415
        except ImportError as error:
            raise unloadable(error) from error
        if not parsed_args.scenarios and not parsed_args.random:
            raise Failure("no scenario: name one or several, or give --random N", EXIT_USAGE)
        found = []
        try:
            names = list(dict.fromkeys(parsed_args.scenarios))
            scenarios = [
                dataclasses.replace(one, length_s=parsed_args.seconds or one.length_s)
                for one in chosen(parsed_args, names)
            ]
            make(parsed_args.out)  # if not, that is known at once
            with parallel.executor(parsed_args.jobs, parsed_args.scheduler) as executor:
                for scenario in scenarios:
                    form = f"{scenario.name}: {{done}} of at most {{total}} runs"
                    with Progress(form, parsed_args.out) as progress:
                        one = bound.search(
                            scenario,
                            parsed_args.out,
                            seeds=parsed_args.seeds,
                            runs=parsed_args.runs,
                            be_loss=parsed_args.be_loss,
                            tenant_least=parsed_args.tenant_least,
                            executor=executor,
                            progress=progress,
                        )
                    found.append(one)
        except parallel.ParallelError as error:
            raise Failure(escape.lines(str(error))) from error
        except (ScenarioError, PolicyError, BoundError) as error:
            raise Failure(escape.lines(told(error)), EXIT_USAGE) from error
        self.note(
            f"a lower bound, as a longer search may find better layouts; kept in {parsed_args.out}"
        )
        return found


def _kinds(bound: Bound) -> tuple[tuple[str, BestPlan], ...]:
    return (
        ("unmanaged", bound.unmanaged),
        ("best fixed", bound.fixed),
        ("best a phase", bound.phased),
    )


def _records(bound: Bound) -> Iterator[tuple[object, ...]]:
    """Yield rows for machine formats; performances have one value per seed."""
    for name, best in _kinds(bound):  # the lack is 0 or negative
        record = dataclasses.asdict(best)
        yield (
            bound.scenario, name, record["pc_performance"], record["be_throughput"],
            _of_bound(best, bound), abs(best.lack), record["layouts"],
        )  # fmt: skip


def _rows(bound: Bound, exact: bool = False) -> Iterator[tuple[object, ...]]:
    """Yield rows for the table: medians over the seeds, one line per phase.

    `exact`: numbers are not rounded.
    """
    for name, best in _kinds(bound):
        be = "-" if best.be is None else f"{best.be:.3f}"
        ways = "\n".join(_worded(one, len(best.layouts)) for one in best.layouts)
        of_bound = _of_bound(best, bound)
        if exact:
            yield bound.scenario, name, best.pc, best.be, of_bound, abs(best.lack), ways
            continue
        share = "-" if of_bound is None else f"{of_bound:.3f}"
        lack = f"{-best.lack:.1%}" if best.lack else "-"
        yield bound.scenario, name, f"{best.pc:.3f}", be, share, lack, ways


def _of_bound(best: BestPlan, bound: Bound) -> float | None:
    """Return a plan's PC performance as a share of the bound's.

    None if the plan falls further below its limits than the bound's plan.
    """
    return best.pc / bound.pc if best.lack >= bound.best.lack else None


def _worded(layout: Mapping[str, Any], layouts: int) -> str:
    """Return a layout as text: workloads by mask, DDIO, ports without DDIO."""
    masks: dict[str, list[str]] = {}
    for name, mask in layout["masks"].items():
        masks.setdefault(mask, []).append(escape.plain(name))
    parts = [f"{mask} {', '.join(names)}" for mask, names in masks.items()]
    parts.append(f"DDIO {_together(layout['ddio'])}")
    if layout["dca_off"]:
        parts.append(f"no DDIO at {', '.join(layout['dca_off'])}")
    text = "; ".join(parts)
    return text if layouts == 1 else f"{layout['from_s']:g}-{layout['to_s']:g} s: {text}"


def _together(masks: Sequence[str]) -> str:
    """Return the masks of the sockets, once if all are equal."""
    return ", ".join(dict.fromkeys(masks)) if len(set(masks)) == 1 else ", ".join(masks)
