# SPDX-License-Identifier: Apache-2.0
"""Runs one after the other in this process."""

import concurrent.futures


def completed(function, arguments, jobs=None):
    """Stand in for `pool.completed`, whose processes take a second each to begin.

    For tests of what is done with what it yields; others use the real one.
    """
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        for argument in arguments:
            future = thread.submit(function, argument)
            concurrent.futures.wait([future])
            yield argument, future
