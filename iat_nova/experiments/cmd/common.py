# SPDX-License-Identifier: Apache-2.0
"""What commands of several laboratories share: progress of long work, and arguments."""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from iat_nova.cmd.base import Failure
from iat_nova.policy import units
from iat_nova.report import times


def make(folder: pathlib.Path) -> pathlib.Path:
    """Make a command's folder of results and return it. Raises `Failure`.

    A folder in which no file can be made is refused too.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = "a file is there" if isinstance(error, FileExistsError) else error.strerror
        raise Failure(f"folder {folder} cannot be used: {reason}; name another one") from error
    return folder


def share(least: float = 0.0) -> Callable[[str], float]:
    """Return a type for argparse: a share from `least` to 1, such as 5% or 0.05."""

    def parsed(text: str) -> float:
        try:
            value = units.parse(units.Kind.FRACTION, text)
        except units.UnitError:
            value = -1.0
        if not least <= value <= 1.0:
            expected = f"expected a share from {least:.1%} to 100%, such as 5% or 0.05"
            raise argparse.ArgumentTypeError(f"invalid share {text!r}: {expected}")
        return value

    return parsed


def take_without(parser: argparse.ArgumentParser, families: Sequence[str]) -> None:
    """Add the option that compares the default strategy with its ablations."""
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="FAMILY",
        help="compare the default strategy without a family of its moves as well; may be "
        "repeated, with commas between families that are left out together, or each for every "
        f"family in turn. Families: {', '.join(families)}",
    )


class Progress:
    """Shows progress and remaining time: live on a terminal, else at each tenth.

    `form` is the text, with ``{done}`` and ``{total}``; call the object with both numbers during
    work. `kept_in`: a folder that keeps what is finished; Ctrl-C names it.
    """

    def __init__(self, form: str, kept_in: pathlib.Path | None = None) -> None:
        self._form = form
        self._kept_in = kept_in
        self._started_s = time.monotonic()
        self._first: int | None = None
        self._told = 0
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show the progress."""
        if self._first is None:
            self._first = done - 1  # earlier work took no time here
        pace_s = (time.monotonic() - self._started_s) / (done - self._first)
        left = times.duration(pace_s * (total - done))
        text = f"{self._form.format(done=done, total=total)}, about {left} left"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        elif done * 10 // total > self._told:
            self._told = done * 10 // total
            print(text, file=sys.stderr, flush=True)

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Clear the line; after Ctrl-C say where the work continues."""
        if self._live:
            sys.stderr.write("\r\x1b[K")
        if kind is KeyboardInterrupt and self._kept_in is not None:
            kept = f"finished runs are kept in {self._kept_in}"
            print(f"iat-nova: stopped; {kept}, and the same command continues", file=sys.stderr)
        sys.stderr.flush()
