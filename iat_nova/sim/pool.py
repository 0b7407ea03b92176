# SPDX-License-Identifier: Apache-2.0
"""Runs side by side, each in a process of its own."""

from __future__ import annotations

import concurrent.futures
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def completed(
    function: Callable[[T], R], arguments: Sequence[T], jobs: int | None = None
) -> Iterator[tuple[T, concurrent.futures.Future[R]]]:
    """Yield each argument with its future as it is done; `jobs` at a time, one a core by default.

    `function` and the arguments must be picklable. What has not begun when the caller stops
    asking is not begun any more.
    """
    if not arguments:
        return
    # Fresh processes: a fork would inherit threads of numpy and numba in the middle of things.
    pool = concurrent.futures.ProcessPoolExecutor(
        min(jobs or os.cpu_count() or 1, len(arguments)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_be_quiet,
    )
    try:
        asked = {pool.submit(function, argument): argument for argument in arguments}
        for future in concurrent.futures.as_completed(asked):
            yield asked[future], future
    finally:
        pool.shutdown(cancel_futures=True)


def _be_quiet() -> None:
    """Keep what the agents of many runs have to say from the terminal; it is in their histories."""
    logging.getLogger("iat_nova").addHandler(logging.NullHandler())
