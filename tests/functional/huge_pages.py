# SPDX-License-Identifier: Apache-2.0
"""Huge pages for the tests, given back also when the tests were killed.

The kernel has one number for the whole machine, which outlives who changed it. So each claim is a
file, locked as long as its owner lives: the next one to claim gives back what the dead have left.
"""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import tempfile
from collections.abc import Iterator
from typing import IO

NUMBER = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
CLAIMS = pathlib.Path("/run/iat-nova-tests/huge-pages")
"""Gone with the next boot, as the pages are."""

PAGE_MB = 2


class HugePagesError(Exception):
    """The machine has no room for that many, or lets nobody reserve them, as in a container."""


@contextlib.contextmanager
def reserve(
    megabytes: int, number: pathlib.Path = NUMBER, claims: pathlib.Path = CLAIMS
) -> Iterator[None]:
    """Reserve huge pages on top of those that are there. Raises `HugePagesError`."""
    wanted = megabytes // PAGE_MB
    claims.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _locked(number) as pages:
            # Daemons of the dead may still use theirs; these go when they do.
            before = max(_read(pages) - _of_the_dead(claims), 0)
            claim = stack.enter_context(tempfile.NamedTemporaryFile("w+", dir=claims))
            fcntl.flock(claim, fcntl.LOCK_EX)
            _write(claim, wanted)  # first: the kernel may take its time
            _write(pages, before + wanted)
            got = _read(pages) - before
            _write(claim, got)
        try:
            if got < wanted:
                raise HugePagesError(
                    f"only {got} of {wanted} huge pages of {PAGE_MB} MB could be reserved"
                )
            yield
        finally:
            with _locked(number) as pages:
                _write(pages, max(_read(pages) - got, 0))
                _write(claim, 0)


@contextlib.contextmanager
def _locked(number: pathlib.Path) -> Iterator[IO[str]]:
    try:
        opened = number.open("r+")
    except OSError as error:
        raise HugePagesError(f"{number}: {error.strerror}") from error
    with opened as pages:
        fcntl.flock(pages, fcntl.LOCK_EX)  # somebody else's tests may do the same
        yield pages


def _of_the_dead(claims: pathlib.Path) -> int:
    """Return how many pages are claimed by nobody alive, and end those claims."""
    found = 0
    for path in claims.iterdir():
        with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open() as claim:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found += int(claim.read() or 0)
            path.unlink()
    return found


def _read(file: IO[str]) -> int:
    file.seek(0)
    return int(file.read())


def _write(file: IO[str], value: int) -> None:
    file.seek(0)
    file.write(f"{value}\n")
    file.truncate()
    file.flush()
