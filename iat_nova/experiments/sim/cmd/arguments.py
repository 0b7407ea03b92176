# SPDX-License-Identifier: Apache-2.0
"""Arguments of several commands of the emulated server."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from iat_nova.cmd.arguments import natural, whole

if TYPE_CHECKING:
    from iat_nova.experiments.sim.scenario import Scenario


def percent(text: str) -> float:
    """Return the share, 0..1, of a percentage such as 3 or 3%. Raises an error for argparse."""
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0.001 <= share <= 1.0:
        raise argparse.ArgumentTypeError(f"invalid percentage {text!r}: expected 0.1 to 100")
    return share


def take_time(parser: argparse.ArgumentParser) -> None:
    """Add the options for the time of scenarios' runs."""
    parser.add_argument(
        "--seconds", type=natural, metavar="S", help="default: each scenario's length"
    )
    parser.add_argument(
        "--compression",
        type=percent,
        metavar="PERCENT",
        help="simulate at most this share of each second, which is faster and less exact; default: "
        "each scenario's own",
    )


def take_random(parser: argparse.ArgumentParser) -> None:
    """Add the options for drawn hosts."""
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
        default=1,
        help="seed of drawn hosts; default: %(default)s",
    )
    parser.add_argument(
        "--hosts",
        choices=("any", "storage"),
        default="any",
        help="draw hosts of all kinds, or guests with drives beside a critical receiver of packets "
        "on a CPU with I/O RDT; default: %(default)s",
    )


def chosen(parsed_args: argparse.Namespace, names: list[str]) -> Iterator[Scenario]:
    """Yield the named scenarios and the drawn hosts; write a file for each drawn host.

    Raises `ScenarioError`.
    """
    from iat_nova.experiments.sim import draw  # noqa: PLC0415 - needs an extra
    from iat_nova.experiments.sim.reader import load_scenario  # noqa: PLC0415

    for name in names:
        yield compressed(load_scenario(name), parsed_args.compression)
    hosts: pathlib.Path = parsed_args.out / "hosts"
    kind = draw.Kind(parsed_args.hosts)
    for scenario, text in draw.scenarios(parsed_args.random, parsed_args.seed, kind):
        hosts.mkdir(parents=True, exist_ok=True)
        (hosts / f"{scenario.name}.yaml").write_text(text, encoding="utf-8")
        yield compressed(scenario, parsed_args.compression)


def announce_compiling(note: Callable[[str], None]) -> None:
    """Announce the compilation in the first run of a version; silent with compiled kernels."""
    from iat_nova.experiments.sim._compile import is_cold  # noqa: PLC0415 - needs an extra

    if is_cold():
        note("compiling the emulated server's kernels, once for this version: half a minute")


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
