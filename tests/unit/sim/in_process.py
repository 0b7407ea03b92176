# SPDX-License-Identifier: Apache-2.0
"""Runs one after the other in this process."""

import concurrent.futures
import contextlib


@contextlib.contextmanager
def executor(jobs=None, scheduler=None):
    """Stand in for `parallel.executor`, whose processes take a second each to begin.

    For tests of what is done with what runs; others use the real one.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        yield thread
