# SPDX-License-Identifier: Apache-2.0
"""Enforce the order of writes: snapshot first, then root ports."""

from __future__ import annotations

from iat_nova.hardware.ddio.rootport import RootPorts
from iat_nova.hardware.enforcement.snapshot import Restored, Snapshot
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
