# SPDX-License-Identifier: Apache-2.0
"""Parallel runs: in processes of this machine, or on the workers of a Dask cluster."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from iat_nova.common.extras import install
from iat_nova.experiments.runs import sources, workers

T = TypeVar("T")
R = TypeVar("R")

PATIENCE_S = 30
"""Seconds to reach a scheduler, and to wait for its first worker."""


class ParallelError(Exception):
    """Runs cannot start, or a worker has another version; the text names the missing part."""


@contextlib.contextmanager
def executor(jobs: int | None = None, scheduler: str | None = None) -> Iterator[Executor]:
    """Yield an executor: `jobs` processes, by default one per CPU, or a Dask cluster.

    `scheduler`: the address of a Dask scheduler, such as ``tcp://10.0.0.5:8786``. Submitted
    functions must be at the top of a module. Raises `ParallelError`.
    """
    if scheduler is not None:
        with _cluster(scheduler) as found:
            yield found
        return
    # Fresh processes: a fork would inherit running threads of numpy.
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
    """Return the given executor, which stays open, or an executor with one process per CPU."""
    return contextlib.nullcontext(given) if given is not None else executor()


def submitted(
    executor: Executor, function: Callable[[T], R], arguments: Iterable[T]
) -> dict[Future[R], T]:
    """Submit a call for each argument; `function` and the arguments must be picklable."""
    return {executor.submit(function, argument): argument for argument in arguments}


def completed(
    executor: Executor, function: Callable[[T], R], arguments: Iterable[T]
) -> Iterator[tuple[T, Future[R]]]:
    """Submit a call for each argument; yield as `in_order`."""
    return in_order(submitted(executor, function, arguments))


def in_order(asked: Mapping[Future[R], T]) -> Iterator[tuple[T, Future[R]]]:
    """Yield each argument of submitted calls with its future, in order of completion.

    When the caller stops iterating, calls that have not begun are cancelled.
    """
    try:
        for future in concurrent.futures.as_completed(asked):
            yield asked[future], future
    finally:
        for future in asked:
            future.cancel()


def one_ahead(begun: Iterable[T]) -> Iterator[T]:
    """Yield each of `begun` after the next began, so that no process waits for the last runs."""
    ahead: list[T] = []
    for one in begun:
        yield from ahead
        ahead = [one]
    yield from ahead


@contextlib.contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    """Yield the executor of a Dask cluster."""
    try:
        import distributed  # noqa: PLC0415 - an extra of its own
    except ImportError as error:
        raise ParallelError(
            f"a Dask scheduler needs {error.name or error}: {install('dask')}"
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
        # Not pure: the result of a function may be a measurement of the worker's machine.
        yield _Checked(client.get_executor(pure=False))


class _Checked(Executor):
    """An executor on remote workers that refuses workers with other sources than this machine's."""

    def __init__(self, there: Executor) -> None:
        self._there = there

    def submit(self, function, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        """Submit a call, with the digest of the required sources."""
        run = functools.partial(_run_there, sources.digest(sources.everything()), function)
        return self._there.submit(run, *args, **kwargs)


def _run_there(digest: str, function: Callable[[T], R], argument: T) -> R:
    """Run on a worker. Raises `ParallelError` if the worker's sources differ from the caller's."""
    if sources.digest(sources.everything()) != digest:
        raise ParallelError("a worker has another version of iat-nova than this machine")
    _be_quiet()
    return function(argument)


def _begin_process() -> None:
    """Begin as each worker of a command (`workers.begin`), and log to no terminal."""
    workers.begin()
    _be_quiet()


def _be_quiet() -> None:
    """Keep log messages of the runs' agents off the terminal; histories have the messages."""
    logger = logging.getLogger("iat_nova")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
