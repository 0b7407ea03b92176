# SPDX-License-Identifier: Apache-2.0
"""iat-nova bench llc."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from iat_nova.cmd.base import Lister
from iat_nova.experiments.cmd.arguments import unloadable


class BenchLlc(Lister):
    """Measure the speed of the emulated server's caches on one core, in accesses per second.

    Each access walks at least one tag array. Needs the extra iat-nova[sim]; with iat-nova[bench],
    pycachesim is measured on the same traces. --testbed measures the whole server on a socket with
    two cards at 40 Gb/s: the number of seconds that one core emulates per second.
    """

    _epilog = """
examples:
  iat-nova bench llc
  iat-nova bench llc -f json > llc.json
  iat-nova bench llc --testbed           with 7 of the socket's cores busy, and with all 18
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--testbed", action="store_true", help="measure the whole emulated server, not traces"
        )

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterator[tuple[object, ...]]]:
        """Return one row per trace and engine."""
        try:
            from iat_nova.experiments.times import llc as bench  # noqa: PLC0415 - needs an extra
        except ImportError as error:
            raise unloadable(error) from error
        columns = tuple(field.name for field in dataclasses.fields(bench.PassRow))
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
