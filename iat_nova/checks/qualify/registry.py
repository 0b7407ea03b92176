# SPDX-License-Identifier: Apache-2.0
"""The tests by name, in the order of execution."""

from __future__ import annotations

from typing import Any

from iat_nova.checks.qualify import bandwidth, ddio, mask, port, slices, write_time
from iat_nova.checks.qualify.api import Test

TESTS: dict[str, Test[Any]] = {
    one.name: one
    for one in (mask.TEST, ddio.TEST, port.TEST, slices.TEST, bandwidth.TEST, write_time.TEST)
}


def usual(*, ports: bool) -> tuple[Test[Any], ...]:
    """Return the tests of a host; `ports`: ports may have ways of their own."""
    return tuple(one for one in TESTS.values() if ports or one is not port.TEST)
