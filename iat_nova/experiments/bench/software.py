# SPDX-License-Identifier: Apache-2.0
"""Events of the kernel that need no counters of the CPU: they cost what hardware events cost."""

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
"""Events that do not count what the names say.

They need the same system calls, so that the loop's cost can be measured without hardware events.
"""
