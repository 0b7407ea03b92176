# SPDX-License-Identifier: Apache-2.0
"""vCPU hot plug: libvirt sends no event, so guests with hot plug are polled.

Seen with libvirt 9.0 and QEMU: ``virsh setvcpus --live`` and ``setvcpu`` send no event of any kind.
Only guests whose XML allows hot plug are polled; Nova makes no such guests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import libvirt

_VCPUS = 3  # virDomainInfo: state, memory, used memory, number of vCPUs, CPU time
_JOIN_S = 1.0


class VcpuWatch:
    """Asks libvirt every `interval_s` how many vCPUs the followed guests have.

    libvirt answers without asking QEMU. `on_change` is called with a guest's UUID, on the watch's
    own thread, which runs only while there are guests to follow.
    """

    def __init__(self, on_change: Callable[[str], None], interval_s: float = 1.0) -> None:
        self._on_change = on_change
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._connection: Any | None = None  # libvirt.virConnect, which has no types
        self._counts: dict[str, int] = {}
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, connection: Any, counts: Mapping[str, int]) -> None:
        """Follow exactly these guests: the number of plugged vCPUs by UUID, as last read."""
        with self._lock:
            self._connection, self._counts = connection, dict(counts)
            if self._counts and self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="vcpus", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        thread = self._thread
        if thread is not None:
            thread.join(_JOIN_S)

    def look(self) -> None:
        """Poll once; report each guest whose number of vCPUs has changed."""
        with self._lock:
            connection, counts = self._connection, dict(self._counts)
        for uuid, known in counts.items():
            try:
                now = connection.lookupByUUIDString(uuid).info()[_VCPUS]  # type: ignore[union-attr]
            except libvirt.libvirtError:
                continue  # the guest or the connection ended: libvirt has events for both
            if now != known:
                with self._lock:
                    if uuid in self._counts:
                        self._counts[uuid] = now  # reported once
                self._on_change(uuid)

    def _run(self) -> None:
        while not self._closed.wait(self._interval_s):
            with self._lock:
                if not self._counts:
                    self._thread = None
                    return
            self.look()
