# SPDX-License-Identifier: Apache-2.0
"""Nothing is written that is not saved: counters and root ports come after the snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.enforcement.snapshot import Restored, Snapshot
from iat_nova.hardware import backends
from iat_nova.hardware.api import Counters
from iat_nova.hardware.rootport import RootPorts


class PortsOff:
    """Keeps the snapshot's promise; has DDIO off on an operator's ports while we enforce."""

    def __init__(self, snapshot: Snapshot, ports: RootPorts) -> None:
        self._snapshot = snapshot
        self._ports = ports

    def protect(self) -> Restored:
        """Save what is not saved yet, then switch DDIO off on the ports."""
        restored = self._snapshot.protect()
        self._ports.off()
        return restored

    def extend(self) -> None:
        """Add to the snapshot what came to the machine since."""
        self._snapshot.extend()

    def keep_file(self) -> str:
        """Write the snapshot's file again if it is lost; return the reason, or ""."""
        return self._snapshot.keep_file()

    def restore(self) -> Restored:
        """Put everything back, the ports too."""
        return self._snapshot.restore()


class SavedFirst:
    """Counters that are set up only with a snapshot on disk: setting some up writes registers.

    Also after a restore in the middle of a run, which took the snapshot away, and on CPUs
    that came since it was made.
    """

    def __init__(self, counters: Counters, snapshot: Snapshot) -> None:
        self._counters = counters
        self._snapshot = snapshot
        self._watched: frozenset[int] = frozenset()
        self.read = counters.read
        self.close = counters.close

    def watch(self, cpus: Iterable[int]) -> None:
        """Save what is about to be written, then count on these CPUs."""
        wanted = frozenset(cpus)
        self._snapshot.protect(backends.COUNTING)
        if self._watched and wanted - self._watched:
            self._snapshot.extend(backends.COUNTING)
        self._watched |= wanted
        self._counters.watch(wanted)
