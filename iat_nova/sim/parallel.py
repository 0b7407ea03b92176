# SPDX-License-Identifier: Apache-2.0
"""Runs side by side: each in a process of its own, or on the workers of a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from iat_nova.sim import sources

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_S = 30
"""So long a scheduler has to be reached, and to have a worker."""


class ParallelError(Exception):
    """There is nothing to run on, or it runs another version; the text says what is missing."""


@contextlib.contextmanager
def executor(jobs: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """Yield what runs things: `jobs` processes, one a core by default, or a Dask cluster.

    `scheduler`: the address of a Dask scheduler, as ``tcp://10.0.0.5:8786``. What it runs must be
    functions at the top of a module. Raises `ParallelError`.
    """
    if scheduler is not None:
        with _cluster(scheduler) as found:
            yield found
        return
    # Fresh processes: a fork would inherit threads of numpy and numba in the middle of things.
    pool = concurrent.futures.ProcessPoolExecutor(
        jobs or os.cpu_count() or 1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_process,
    )
    try:
        yield pool
    except BrokenProcessPool as error:
        raise ParallelError(
            "a process that runs scenarios ended at once or was killed, by the kernel for want of "
            "memory perhaps (dmesg): take fewer, --jobs 1; what was finished is kept"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def using(given: Executor | None) -> contextlib.AbstractContextManager[Executor]:
    """Return the executor given, which stays whole, or processes of this machine, one a core."""
    return contextlib.nullcontext(given) if given is not None else executor()


def completed(
    executor: Executor, function: Callable[[T], R], arguments: Sequence[T]
) -> Iterator[tuple[T, Future[R]]]:
    """Yield each argument with its future as it is done.

    `function` and the arguments must be picklable. What has not begun when the caller stops
    asking is not begun any more.
    """
    asked = {executor.submit(function, argument): argument for argument in arguments}
    try:
        for future in concurrent.futures.as_completed(asked):
            yield asked[future], future
    finally:
        for future in asked:
            future.cancel()


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """Yield the executor of a Dask cluster."""
    try:
        import distributed  # noqa: PLC0415 - an extra of its own
    except ImportError as error:
        raise ParallelError(
            f"a Dask scheduler needs {error.name or error}: pip install 'iat-nova[dask]'"
        ) from error
    try:
        client = distributed.Client(address, timeout=PATIENCE_S)
    except (OSError, ValueError) as error:
        raise ParallelError(f"no Dask scheduler answers at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE_S)
        except TimeoutError as error:
            raise ParallelError(
                f"the Dask scheduler at {address} has no worker after {PATIENCE_S} s: start some "
                f"with `dask worker {address} --nthreads 1`"
            ) from error
        # Not pure: what a function returns may be a measurement of the machine that it runs on.
        yield _Checked(client.get_executor(pure=False))


class _Checked(Executor):
    """Runs on an executor elsewhere, and only with the sources that are here."""

    def __init__(self, there: Executor) -> None:
        self._there = there

    def submit(self, function, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Submit, together with what the sources must be."""
        run = functools.partial(_run_there, sources.digest(sources.everything()), function)
        return self._there.submit(run, *args, **kwargs)


def _run_there(digest: str, function: Callable[[T], R], argument: T) -> R:
    """Run on a worker. Raises `ParallelError` where its sources are not the caller's."""
    if sources.digest(sources.everything()) != digest:
        raise ParallelError("a worker has another version of iat-nova than this machine")
    _be_quiet()
    return function(argument)


def _begin_process() -> None:
    """End at once and in silence when a person presses Ctrl-C; the parent reports it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _be_quiet()


def _be_quiet() -> None:
    """Keep what the agents of many runs have to say from the terminal; it is in their histories."""
    logger = logging.getLogger("iat_nova")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
