# SPDX-License-Identifier: Apache-2.0
"""Enforce the order of writes: snapshot first, then counters."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.hardware.api import Counters
from iat_nova.hardware.enforcement.snapshot import Snapshot
from iat_nova.hardware.host import backends


class SavedFirst:
    """Counters that are set up only with a snapshot on disk, because some set-ups write registers.

    The rule also holds after a restore during a run, which removed the snapshot. The rule holds for
    CPUs that appeared after the snapshot, too.
    """

    def __init__(self, counters: Counters, snapshot: Snapshot) -> None:
        self._counters = counters
        self._snapshot = snapshot
        self.read = counters.read

    def close(self) -> None:
        """Stop counting; registers that another process has taken over are left to it."""
        if not self._snapshot.taken:
            self._counters.close()

    def watch(self, cpus: Iterable[int]) -> None:
        """Save the settings about to be written, then count on these CPUs."""
        self._snapshot.protect(backends.COUNTING)
        self._snapshot.extend(backends.COUNTING)
        self._counters.watch(cpus)
