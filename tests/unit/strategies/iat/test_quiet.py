# SPDX-License-Identifier: Apache-2.0
"""Why an iteration did nothing: the largest change with its limits, or a pause."""

from __future__ import annotations

import unittest

from iat_nova.model import DDIO, Allocation, Message, Parameters, Rates, Sample, message
from iat_nova.strategies.iat.change import why_quiet
from iat_nova.strategies.iat.state import FsmState, IatState
from tests.unit.build import domain
from tests.unit.strategies.iat.worlds import M, rates

PARAMETERS = Parameters(floor_references_per_s=100e3, floor_ddio_per_s=50e3)
LIMIT, LOW = PARAMETERS.threshold_stable, PARAMETERS.threshold_miss_low_per_s
FLOOR, DDIO_FLOOR = PARAMETERS.floor_references_per_s, PARAMETERS.floor_ddio_per_s


def seen(
    tenants: dict[str, Rates], hits: float | None = None, misses: float | None = None
) -> Sample:
    """A sample at second 10."""
    return Sample(0, 10.0, 1.0, tenants, hits, misses)


def why(before: Sample, after: Sample, retry_at_s: float | None = None) -> tuple[Message, ...]:
    """Why nothing is done for the tenants a and b."""
    state = IatState(domain(), 1, FsmState.LOW_KEEP, Allocation(2, {}), retry_at_s=retry_at_s)
    return why_quiet(state, before, after, ("a", "b"), PARAMETERS)


class WhyTest(unittest.TestCase):
    def largest(self, before: Sample, after: Sample) -> Message:
        """The largest change that is named."""
        (said,) = why(before, after)
        self.assertEqual(("no-change", LIMIT), (said.code, said.values["limit"]))
        largest = said.values["largest"]
        assert isinstance(largest, Message)
        floor = DDIO_FLOOR if largest.values["tenant"] == DDIO else FLOOR
        self.assertEqual(floor, said.values["floor_per_s"])
        return largest

    def test_pause(self) -> None:
        """Between changes of masks the rest of the pause is told, to a tenth of a second."""
        quiet_ = seen({"a": rates()})
        self.assertEqual((message("masks-held", delay_s=2.3),), why(quiet_, quiet_, 12.34))
        for over in (10.0, 9.0, None):
            self.assertEqual("no-change", why(quiet_, quiet_, over)[0].code)

    def test_nothing_measured(self) -> None:
        """No tenant was measured before and after, nor was DDIO."""
        some = seen({"a": rates()}, 1 * M, None)
        for before, after in (
            (seen({}), seen({})),
            (seen({}), some),
            (some, seen({}, None, 0.5 * M)),
            (seen({"c": rates()}), seen({"c": rates()})),
        ):
            with self.subTest(before=before, after=after):
                self.assertEqual((message("nothing-measured"),), why(before, after))

    def test_largest(self) -> None:
        """Of each quantity of each tenant and of DDIO, the one nearest to its limit."""
        still = {"a": rates(), "b": rates()}
        base = seen(still, 20 * M, 0.5 * M)
        for after, code, tenant, before, now, change in (
            (seen({**still, "a": rates(ipc=1.02)}, 20 * M, 0.5 * M),
             "ipc-changed", "a", 1.0, 1.02, 0.02),
            (seen({**still, "a": rates(ipc=0.98)}, 20 * M, 0.5 * M),
             "ipc-changed", "a", 1.0, 0.98, 0.02),
            (seen({**still, "b": rates(5.1 * M)}, 20 * M, 0.5 * M),
             "references-changed", "b", 5e6, 5.1e6, 0.02),
            (seen({**still, "b": rates(misses=0.95 * M)}, 20 * M, 0.5 * M),
             "misses-changed", "b", 1e6, 0.95e6, 0.05),
            (seen(still, 20.12345 * M, 0.5 * M), "ddio-hits-moved", DDIO, 2e7, 2.012e7, 0.006173),
            (seen(still, 20 * M, 0.51 * M), "ddio-misses-moved", DDIO, 5e5, 5.1e5, 0.02),
        ):  # fmt: skip
            with self.subTest(code):
                expected = message(code, tenant=tenant, before=before, after=now, change=change)
                self.assertEqual(expected, self.largest(base, after))

    def test_nearest(self) -> None:
        """Of several changes the one nearest to its own limit, not the largest one."""
        base = seen({"a": rates(5 * M)}, 20 * M, 0.5 * M)
        for after, code in (
            (seen({"a": rates(5.05 * M, ipc=1.02)}, 20 * M, 0.5 * M), "ipc-changed"),
            (seen({"a": rates(5.1 * M)}, 20.3 * M, 0.5 * M), "references-changed"),
            (seen({"a": rates(5.1 * M)}, 20.5 * M, 0.5 * M), "ddio-hits-moved"),
            (seen({"a": rates(5.1 * M)}, 20 * M, 0.535 * M), "ddio-misses-moved"),
        ):
            with self.subTest(code):
                self.assertEqual(code, self.largest(base, after).code)

    def test_floors(self) -> None:
        """A change counts by its threshold or its floor, whichever is larger.

        Instructions per cycle count of a tenant with references above the floor alone.
        """
        few = FLOOR / 2
        before = seen({"a": rates(few, 0.0), "b": rates(50 * M, 0.0)})
        after = seen({"a": rates(few, 0.0, ipc=9.0), "b": rates(50.1 * M, 0.0)})
        self.assertEqual("references-changed", self.largest(before, after).code)
        for both in ((few, 2 * FLOOR), (2 * FLOOR, few)):
            first, second = (seen({"a": rates(one, 0.0, ipc)})
                             for one, ipc in zip(both, (1.0, 9.0), strict=True))  # fmt: skip
            self.assertEqual("ipc-changed", self.largest(first, second).code)

    def test_who_is_not_measured(self) -> None:
        """Tenants that were not measured before and after do not hide the others."""
        for before, after in (({}, {"a": rates()}), ({"a": rates()}, {})):
            first, second = seen({**before, "b": rates()}), seen({**after, "b": rates(5.1 * M)})
            self.assertEqual("b", self.largest(first, second).values["tenant"])

    def test_from_nothing(self) -> None:
        """A change from zero has no share."""
        before, after = seen({"a": rates(5 * M, 0.0)}), seen({"a": rates(5 * M, 0.09 * M)})
        self.assertEqual(
            message("misses-changed", tenant="a", before=0.0, after=9e4, change=0.0),
            self.largest(before, after),
        )

    def test_misses_of_ddio(self) -> None:
        """They may be high all the time: this is told beside."""
        still = {"a": rates()}
        for misses, high in ((LOW, False), (LOW + 1234.5, True)):
            before = seen(still, 1 * M, misses)
            said = why(before, before)
            self.assertEqual(1 + high, len(said))
        misses_per_s = float(f"{LOW + 1234.5:.4g}")
        expected = message("ddio-high-unchanged", misses_per_s=misses_per_s, low_per_s=LOW)
        self.assertEqual(expected, said[1])
