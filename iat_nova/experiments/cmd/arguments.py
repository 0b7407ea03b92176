# SPDX-License-Identifier: Apache-2.0
"""Arguments of several commands of the emulated server."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from iat_nova.cmd.arguments import natural, whole
from iat_nova.cmd.base import EXIT_USAGE, Failure
from iat_nova.common.extras import install
from iat_nova.experiments.cmd.common import make, share
from iat_nova.report import escape

if TYPE_CHECKING:
    from iat_nova.experiments.scenarios.scenario import Scenario


DRAWN_SEED = 1
ANY = "any"
SCENARIO = "a file, or the name of a shipped scenario (simulate list)"
OVERVIEW = "overview"  # name of the files with all scenarios


def take_time(parser: argparse.ArgumentParser) -> None:
    """Add the options for the time of scenarios' runs."""
    parser.add_argument(
        "--seconds", type=natural, metavar="S", help="default: each scenario's length"
    )
    parser.add_argument(
        "--compression",
        type=share(0.001),
        metavar="SHARE",
        help="simulate at most this share of each second, which is faster and less exact; default: "
        "each scenario's own",
    )


def take_random(parser: argparse.ArgumentParser) -> None:
    """Add the options for random hosts."""
    parser.add_argument(
        "--random",
        type=natural,
        metavar="N",
        default=0,
        help="also draw N hosts; their files are written to DIR/hosts",
    )
    parser.add_argument(
        "--seed",
        type=whole,
        metavar="S",
        help=f"seed of random hosts; default: {DRAWN_SEED}",
    )
    parser.add_argument(
        "--hosts",
        choices=(ANY, "storage"),
        help="draw hosts of all kinds, or guests with drives beside a critical receiver of packets "
        "on a CPU with I/O RDT; default: "
        f"{ANY}",
    )


def chosen(parsed_args: argparse.Namespace, names: list[str]) -> Iterator[Scenario]:
    """Yield the named scenarios and the random hosts; write a file for each random host.

    Raises `ScenarioError`, and `Failure` for two scenarios of one name, and for options of random
    hosts without --random.
    """
    if not parsed_args.random and (parsed_args.seed, parsed_args.hosts) != (None, None):
        text = (
            "--seed and --hosts are for random hosts: give --random N; runs have seeds 1 to --seeds"
        )
        raise Failure(text, EXIT_USAGE)
    from iat_nova.experiments.hosts import draw  # noqa: PLC0415 - needs an extra
    from iat_nova.experiments.scenarios.reader import load_scenario  # noqa: PLC0415

    known = {OVERVIEW: "all scenarios"}
    for name in names:
        scenario = load_scenario(name)
        if scenario.name in known:
            raise _overwriting(name, known[scenario.name])
        known[scenario.name] = name
        yield compressed(scenario, parsed_args.compression)
    kind = draw.Kind(parsed_args.hosts or ANY)
    seed = DRAWN_SEED if parsed_args.seed is None else parsed_args.seed
    for scenario, text in draw.scenarios(parsed_args.random, seed, kind):
        if scenario.name in known:
            raise _overwriting(known[scenario.name], f"random host {scenario.name}")
        hosts = make(make(parsed_args.out) / "hosts")
        (hosts / f"{scenario.name}.yaml").write_text(text, encoding="utf-8")
        yield compressed(scenario, parsed_args.compression)


def _overwriting(name: str, other: str) -> Failure:
    text = f"{name}: the results would overwrite those of {other}; rename it"
    return Failure(escape.lines(text), EXIT_USAGE)


def unloadable(error: ImportError) -> Failure:
    """Return the failure of a command that could not import the emulated server."""
    if not isinstance(error, ModuleNotFoundError) or error.name is None:  # the text says why
        return Failure(str(error))
    return Failure(f"the emulated server needs {error.name}: {install('sim')}")


def compressed(scenario: Scenario, most: float | None) -> Scenario:
    """Return the scenario with at most the share `most` (0..1) of each second simulated.

    None: the share of the scenario.
    """
    compression = min(scenario.compression, most or 1.0)
    return dataclasses.replace(scenario, compression=compression)


def take_workers(parser: argparse.ArgumentParser) -> None:
    """Add the options for the place of many runs: local processes or a cluster."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--jobs", type=natural, metavar="N", help="processes at a time; default: one per core"
    )
    group.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="run on the cluster of this Dask scheduler (tcp://HOST:8786) instead of this machine; "
        "needs the extra iat-nova[dask], and the same version of iat-nova on both sides",
    )
