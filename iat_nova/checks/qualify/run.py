# SPDX-License-Identifier: Apache-2.0
"""The tests of `iat-nova qualify`, and a function to run the tests one after the other.

A test that cannot run has the outcome "unavailable".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from iat_nova.checks.qualify import bandwidth, ddio, mask, port, slices, write_time
from iat_nova.checks.qualify.api import Bench, Judgement, Outcome, Test, Unavailable, Verdict
from iat_nova.hardware.api import HardwareError
from iat_nova.model import message

TESTS: dict[str, Test[Any]] = {
    one.name: one
    for one in (mask.TEST, ddio.TEST, port.TEST, slices.TEST, bandwidth.TEST, write_time.TEST)
}
"""The tests by name, in the order of execution."""

_NOTHING = message("nothing-known")


def usual(*, ports: bool) -> tuple[Test[Any], ...]:
    """Return the tests of a host; `ports`: ports may have ways of their own."""
    return tuple(one for one in TESTS.values() if ports or one is not port.TEST)


def run(
    tests: Iterable[Test[Any]], bench: Bench, tell: Callable[[str], None]
) -> tuple[Outcome, ...]:
    """Run the tests and return the outcomes; `tell` receives a line of progress for each step."""
    return tuple(_one(test, bench, tell) for test in tests)


def none(tests: Iterable[Test[Any]], why: HardwareError) -> tuple[Outcome, ...]:
    """Return the outcomes if the host's interfaces cannot be opened at all."""
    return tuple(Outcome(one.name, one.question, _refused(why), 0.0) for one in tests)


def _one(test: Test[Any], bench: Bench, tell: Callable[[str], None]) -> Outcome:
    begin_s = bench.clock.now()
    tell(f"{test.name}: about {test.about_s:.0f} s")
    try:
        rows = test.measure(bench, lambda step: tell(f"{test.name}: {step}"))
    except (Unavailable, HardwareError) as error:
        took_s = bench.clock.now() - begin_s
        return Outcome(test.name, test.question, _refused(error), took_s)
    return outcome(test, rows, bench.clock.now() - begin_s)


def outcome(test: Test[Any], rows: Sequence[Any], seconds: float) -> Outcome:
    """Return the outcome of measured rows."""
    return Outcome(
        test.name,
        test.question,
        test.judge(rows),
        seconds,
        tuple(dataclasses.asdict(row) for row in rows),
        test.chart(rows),
    )


def _refused(error: Unavailable | HardwareError) -> Judgement:
    said = error.message if isinstance(error, Unavailable) else error.state
    return Judgement(Verdict.UNAVAILABLE, said, _NOTHING, error.remedy)
