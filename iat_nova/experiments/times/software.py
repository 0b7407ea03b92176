# SPDX-License-Identifier: Apache-2.0
"""Software events of perf, which stand in for hardware events in measurements of time.

The kernel counts software events without counters of the CPU. Reading software events takes the
same system calls as reading hardware events.
"""

from __future__ import annotations

from iat_nova.hardware.counters.events import CoreEvents
from iat_nova.hardware.counters.perf_event import PerfEvent

_TYPE = 1  # PERF_TYPE_SOFTWARE

SOFTWARE = CoreEvents(
    "software",
    (
        PerfEvent(_TYPE, 1),  # task-clock
        PerfEvent(_TYPE, 2),  # page-faults
        PerfEvent(_TYPE, 3),  # context-switches
        PerfEvent(_TYPE, 4),  # cpu-migrations
    ),
)
"""Four software events in the places of the four hardware events; the counts mean nothing."""
