# SPDX-License-Identifier: Apache-2.0
"""At rest: which deviation is a changed load, by figures done by hand."""

import dataclasses
import unittest

from iat_nova.model import DDIO, DomainInventory, Parameters, Priority, Sample, TenantKind
from iat_nova.strategies.pollute_buffer import watch
from iat_nova.strategies.pollute_buffer.judge import Now
from iat_nova.strategies.pollute_buffer.plan import Plan
from iat_nova.strategies.pollute_buffer.state import Phase, State
from iat_nova.strategies.readings import Look
from tests.unit.build import domain, tenant

TENANTS = (
    tenant("a", 1, priority=Priority.PC),
    tenant("b", 2),
    tenant("io", 3, io=True),
    tenant("host", 4, kind=TenantKind.HOST),
    tenant("stack", 5, kind=TenantKind.STACK, priority=Priority.STACK, io=True),
)


def look(speed=1.0, stalled=0.1, misses=1e6, references=1e7):
    return Look(speed, stalled, misses, references, cycles_per_s=1e9)


def state(looks, **more):
    """A state at rest, whose means are of three samples."""
    here = State(3, domain(), (), Plan(frozenset(), 2, 2), phase=Phase.REST, counted=3)
    return dataclasses.replace(here, looks=looks, **more)


def now(looks, **rates):
    sample = Sample(0, 9.0, 1.0, {}, **rates)
    return Now(DomainInventory(domain(), TENANTS), sample, looks)


class WatchTest(unittest.TestCase):
    def watched(self, before, after, **more):
        """The next state, the cause of a new search, and the reason for none."""
        found, cause, calm = watch.watch(state(before, **more), now(after))
        self.assertEqual(cause is None, len(calm) == 1)
        return found, cause, calm[0] if calm else None

    def test_limit(self) -> None:
        """A tenth, or two and a half times the usual; a quarter for the first two samples."""
        for share, counted, deviation, strange in (
            (0.10, 3, 0.0, 0),
            (0.11, 3, 0.0, 1),
            (0.11, 3, 0.044, 0),
            (0.12, 3, 0.044, 1),
            (0.25, 1, 0.0, 0),
            (0.26, 1, 0.0, 1),
            (0.25, 0, 0.9, 0),
            (0.26, 0, 0.9, 1),
            (0.25, 2, 0.0, 1),
        ):
            with self.subTest(share=share, counted=counted, deviation=deviation):
                before, after = {"a": look(1.0)}, {"a": look(1.0 - share)}
                found, cause, calm = self.watched(
                    before, after, counted=counted, deviation=deviation
                )
                self.assertEqual(strange, found.strange)
                self.assertIsNone(cause)
                self.assertEqual("changed-once" if strange else "same-load", calm.code)
                self.assertEqual("speed-changed", calm.values["largest"].code)

    def test_two_in_a_row(self) -> None:
        """The second deviating sample is a cause; a usual one between them ends the count."""
        before, other = {"a": look(1.0)}, {"a": look(0.5)}
        for strange, cause in ((0, None), (1, "speed-changed"), (2, "speed-changed")):
            found, why, _ = self.watched(before, other, strange=strange)
            self.assertEqual(strange + 1, found.strange)
            self.assertEqual(cause, why and why.code)
            self.assertEqual((before, 3, 0.0), (found.looks, found.counted, found.deviation))
        found, _, _ = self.watched(before, before, strange=1)
        self.assertEqual(0, found.strange)

    def test_means(self) -> None:
        """Of up to eight samples; the usual deviation is that of the first, then the mean."""
        before, after = {"a": look(1.0)}, {"a": look(0.92)}
        for counted, usual, mean, next_count, deviation in (
            (3, 0.0, 0.98, 4, 0.08),
            (3, 0.16, 0.98, 4, 0.15),
            (3, 0.04, 0.98, 4, 0.045),
            (1, 0.04, 0.96, 2, 0.04),
            (0, 0.04, 0.92, 1, 0.04),
            (7, 0.04, 0.99, 8, 0.045),
            (8, 0.04, 0.99, 8, 0.045),
        ):
            with self.subTest(counted=counted, usual=usual):
                found, _, _ = self.watched(before, after, counted=counted, deviation=usual)
                self.assertAlmostEqual(mean, found.looks["a"].speed)
                self.assertEqual(next_count, found.counted)
                self.assertAlmostEqual(deviation, found.deviation)

    def test_what_deviates(self) -> None:
        """The largest deviation of all tenants; misses and references where misses stall."""
        calm = {"stalled": 0.006, "misses": 1e3}
        for before, after, code, tenant_, change in (
            (look(), look(speed=0.95), "speed-changed", "a", 0.05),
            (look(), look(misses=1.05e6), "misses-changed", "a", 0.04762),
            (look(), look(references=0.95e7), "references-changed", "a", 0.05),
            (look(**calm), look(references=0.95e7, **calm), "speed-changed", "b", 0.01),
            (look(stalled=0.007), look(misses=0.95e6, stalled=0.006), "misses-changed", "a", 0.05),
            (look(stalled=0.006), look(misses=0.95e6, stalled=0.007), "misses-changed", "a", 0.05),
        ):
            with self.subTest(before=before, after=after):
                both = {"a": before, "b": look()}, {"a": after, "b": look(speed=0.99)}
                _, _, calm_why = self.watched(*both)
                largest = calm_why.values["largest"]
                self.assertEqual((code, tenant_), (largest.code, largest.values["tenant"]))
                self.assertAlmostEqual(change, largest.values["change"], places=5)
        figures = self.watched({"a": look(misses=3e6)}, {"a": look(misses=2.9e6)})[2]
        values = figures.values["largest"].values
        self.assertEqual((3e6, 2.9e6), (values["before"], values["after"]))

    def test_who_wakes_or_sleeps(self) -> None:
        """Deviates wholly; the host's own processes and DDIO's lines do not."""
        one = {"b": look()}
        for before, after, code, tenant_ in (
            (one, {**one, "a": look()}, "woke-up", "a"),
            ({**one, "a": look()}, one, "fell-asleep", "a"),
            ({"b": look(), "a": look()}, {"b": look(), "io": look()}, "woke-up", "io"),
        ):
            with self.subTest(before=before, after=after):
                found, why, calm = self.watched(before, after, strange=1)
                self.assertEqual((code, tenant_), (why.code, why.values["tenant"]))
                self.assertEqual(1.0, why.values["change"])
                self.assertEqual((2, None), (found.strange, calm))
        for other in ("host", DDIO):
            _, _, calm = self.watched(one, {**one, other: look()})
            self.assertEqual("same-load", calm.code)
            self.assertEqual("b", calm.values["largest"].values["tenant"])
        _, why, _ = self.watched(one, {**one, "stack": look()}, strange=1)
        self.assertEqual("stack", why.values["tenant"])

    def test_nobody_is_awake(self) -> None:
        """There is no deviation then, and the usual one falls."""
        found, _, calm = self.watched({}, {}, deviation=0.08)
        self.assertEqual("no-tenant-awake", calm.code)
        self.assertAlmostEqual(0.07, found.deviation)


class DdioTest(unittest.TestCase):
    def told(self, looks, misses_per_s):
        return watch.ddio(now(looks, ddio_misses_per_s=misses_per_s), Parameters())

    def test_busy(self) -> None:
        """Above the policy's threshold; the tenant with I/O that misses stall most."""
        low = Parameters().threshold_miss_low_per_s
        readers = {"io": look(stalled=0.2), "stack": look(stalled=0.3), "a": look(stalled=0.9)}
        for misses_per_s in (None, 0.0, low - 1, low):
            self.assertEqual((), self.told(readers, misses_per_s))
        (told,) = self.told(readers, 2.34567 * low)
        self.assertEqual(
            ("ddio-busy", "stack", 0.3, 2.346 * low, low),
            (told.code, *(told.values[one] for one in
                          ("tenant", "stalled", "misses_per_s", "low_per_s"))),
        )  # fmt: skip
        (told,) = self.told({"io": look(stalled=0.2)}, 2 * low)
        self.assertEqual("io", told.values["tenant"])
        for nobody in ({}, {"a": look(stalled=0.9)}):
            (told,) = self.told(nobody, 2 * low)
            self.assertEqual("ddio-busy-unread", told.code)
