# SPDX-License-Identifier: Apache-2.0
"""The tests by name, in the order of execution."""

from __future__ import annotations

from typing import Any

from iat_nova.checks.qualify import bandwidth, ddio, mask, slices, write_time
from iat_nova.checks.qualify.api import Test

TESTS: dict[str, Test[Any]] = {
    one.name: one for one in (mask.TEST, ddio.TEST, slices.TEST, bandwidth.TEST, write_time.TEST)
}
