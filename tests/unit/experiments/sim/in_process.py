# SPDX-License-Identifier: Apache-2.0
"""Runs one after the other in this process."""

import concurrent.futures
import contextlib
import sys


@contextlib.contextmanager
def executor(jobs=None, scheduler=None):
    """Stand in for `parallel.executor`, whose processes take a second each to begin.

    For tests of what is done with what runs; others use the real one.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        yield thread


@contextlib.contextmanager
def without(module):
    """Have a module not installed. What is imported meanwhile stays, unlike with `patch.dict`."""
    before = sys.modules.get(module)
    sys.modules[module] = None
    try:
        yield
    finally:
        if before is None:
            del sys.modules[module]
        else:
            sys.modules[module] = before
