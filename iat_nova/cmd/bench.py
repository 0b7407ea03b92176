# SPDX-License-Identifier: Apache-2.0
"""iat-nova bench loop, bench llc."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator

from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import MACHINE_FORMATS, Failure, Lister
from iat_nova.hardware.api import HardwareError

PHASES = ("stable", "unstable")


class BenchLoop(Lister):
    """Measure what an iteration of the loop costs on this machine, in microseconds.

    Medians, and the 99th percentile of the overhead: everything in an iteration that is neither
    the bare reads of the processors' counters (floor) nor a write. Without --hardware, software
    events are counted and masks are written to hardware in memory. With --hardware auto, the
    counters are those the agent would take here, and masks and DDIO's ways are really changed while
    it runs: it is refused beside a running agent and on a host whose cache somebody else allocates,
    ends with everything as it was found, and after a kill `iat-nova restore` sees to that.
    """

    _epilog = """
examples:
  iat-nova bench loop                                    everything; takes minutes
  iat-nova bench loop --tenants 16 --iterations 200      one size, quickly
  iat-nova bench loop -f json > loop.json
  iat-nova bench loop --hardware auto                    on this host's counters and masks; be root
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the options."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--hardware",
            choices=("auto",),
            help="measure on this host's own hardware, chosen as the agent chooses",
        )
        parser.add_argument(
            "--tenants", type=natural, nargs="+", metavar="N", help="default: 1 2 4 8 16 64 256"
        )
        parser.add_argument(
            "--cores", type=natural, nargs="+", metavar="N", help="a tenant; default: 1 2"
        )
        parser.add_argument("--phase", choices=PHASES, help="default: both")
        parser.add_argument("--iterations", type=natural, metavar="N", help="default: 1000")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return a row a case."""
        from iat_nova.bench import loop as bench  # noqa: PLC0415 - opens counters, needs the whole agent

        columns = tuple(field.name for field in dataclasses.fields(bench.Row))
        return columns, self._rows(parsed_args)

    def _rows(self, parsed_args: argparse.Namespace) -> Iterator[tuple[object, ...]]:
        from iat_nova.bench import loop as bench  # noqa: PLC0415

        try:
            with contextlib.ExitStack() as stack:
                machine = None
                if parsed_args.hardware:
                    machine = bench.real_machine(self.settings(parsed_args))
                    stack.enter_context(machine.ours())
                for row in bench.rows(
                    tenants=parsed_args.tenants or bench.TENANTS,
                    cores=parsed_args.cores or bench.CORES,
                    phases=(parsed_args.phase,) if parsed_args.phase else bench.PHASES,
                    iterations=parsed_args.iterations or bench.ITERATIONS,
                    progress=self.note,
                    machine=machine,
                ):
                    yield tuple(
                        round(value, 1 if parsed_args.formatter not in MACHINE_FORMATS else 3)
                        if isinstance(value, float)
                        else value
                        for value in dataclasses.astuple(row)
                    )
        except HardwareError as error:
            if parsed_args.hardware:
                raise Failure(
                    f"this host's hardware cannot be driven now: {error}; `iat-nova doctor` tells "
                    "more, and without --hardware the loop is measured with software events"
                ) from error
            raise Failure(f"the counters cannot be opened: {error}") from error


class BenchLlc(Lister):
    """Measure how many accesses a second the emulated server's caches serve on one core.

    Each access walks at least one tag array. Needs the extra iat-nova[sim]; with iat-nova[bench],
    pycachesim is measured on the same traces. With --testbed the whole server is measured on a
    socket with two cards at 40 Gb/s: how many seconds of it one core emulates a second.
    """

    _epilog = """
examples:
  iat-nova bench llc
  iat-nova bench llc -f json > llc.json
  iat-nova bench llc --testbed           with 7 of the socket's cores busy, and with all 18
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the option."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--testbed", action="store_true", help="the whole emulated server, not the traces"
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return a row a trace and engine."""
        try:
            from iat_nova.sim import bench  # noqa: PLC0415 - compiles, takes seconds
        except ImportError as error:
            raise Failure("bench llc needs numba and numpy: pip install 'iat-nova[sim]'") from error
        columns = tuple(field.name for field in dataclasses.fields(bench.Row))
        found = bench.testbed_rows() if parsed_args.testbed else bench.rows(note=self.note)
        return columns, (
            (
                row.trace,
                row.engine,
                round(row.accesses_per_s),
                round(row.l2_hits, 3),
                round(row.llc_hits, 3),
                self.cell(parsed_args, row.emulated_s_per_s and round(row.emulated_s_per_s, 3)),
            )
            for row in found
        )
