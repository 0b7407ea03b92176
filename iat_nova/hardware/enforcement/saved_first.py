# SPDX-License-Identifier: Apache-2.0
"""Enforce the order of writes: snapshot first, then counters and root ports."""

from __future__ import annotations

from collections.abc import Iterable

from iat_nova.hardware.api import Counters
from iat_nova.hardware.ddio.rootport import RootPorts
from iat_nova.hardware.enforcement.snapshot import Restored, Snapshot
from iat_nova.hardware.host import backends
from iat_nova.model import Message


class PortsOff:
    """A snapshot keeper that also switches DDIO off on the operator's ports while enforcing."""

    def __init__(self, snapshot: Snapshot, ports: RootPorts) -> None:
        self._snapshot = snapshot
        self._ports = ports

    def protect(self) -> Restored:
        """Save all settings that are not saved yet, then switch DDIO off on the ports."""
        restored = self._snapshot.protect()
        self._ports.off()
        return restored

    def extend(self) -> None:
        """Add CPUs and sockets that appeared since to the snapshot."""
        self._snapshot.extend()

    def keep_file(self) -> Message | None:
        """Write the snapshot's file again if lost; return the reason, or None."""
        return self._snapshot.keep_file()

    def restore(self) -> Restored:
        """Restore all saved settings, including root ports."""
        return self._snapshot.restore()


class SavedFirst:
    """Counters that are set up only with a snapshot on disk, because some set-ups write registers.

    The rule also holds after a restore during a run, which removed the snapshot. The rule holds for
    CPUs that appeared after the snapshot, too.
    """

    def __init__(self, counters: Counters, snapshot: Snapshot) -> None:
        self._counters = counters
        self._snapshot = snapshot
        self.read = counters.read
        self.close = counters.close

    def watch(self, cpus: Iterable[int]) -> None:
        """Save the settings about to be written, then count on these CPUs."""
        self._snapshot.protect(backends.COUNTING)
        self._snapshot.extend(backends.COUNTING)
        self._counters.watch(cpus)
