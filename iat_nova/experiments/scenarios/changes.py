# SPDX-License-Identifier: Apache-2.0
"""Changes while a scenario runs: guests that arrive and leave, and traffic after an event."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from iat_nova.experiments.scenarios.scenario import Scenario, ScenarioEvent, WireTraffic


def comings_and_goings(scenario: Scenario) -> Iterator[ScenarioEvent]:
    """Yield the events of guests: absent at first, arrival, departure."""
    for uuid, stay in scenario.stays.items():
        if stay.arrives_s > 0:
            yield ScenarioEvent(0.0, uuid, "present", 0.0)
            yield ScenarioEvent(stay.arrives_s, uuid, "present", 1.0)
        if stay.leaves_s < math.inf:
            yield ScenarioEvent(stay.leaves_s, uuid, "present", 0.0)


def changed(traffic: WireTraffic, event: ScenarioEvent) -> WireTraffic:
    """Return a traffic as changed by an event."""
    match event.key:
        case "rate":
            return dataclasses.replace(traffic, rate_bits_per_s=event.value)
        case "packet":
            return dataclasses.replace(traffic, packet_bytes=int(event.value))
        case "flows":
            return dataclasses.replace(traffic, flows=int(event.value))
    return dataclasses.replace(traffic, burst=int(event.value))
