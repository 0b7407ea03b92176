# SPDX-License-Identifier: Apache-2.0
"""The start of worker processes of a command."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading


def begin() -> None:
    """Let Ctrl-C end this process at once and silently, and let it end with its parent.

    If the parent is killed, by ``timeout`` for example, nothing else ends its processes: they would
    wait for work for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
