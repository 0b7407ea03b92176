# SPDX-License-Identifier: Apache-2.0
"""Two readings of running totals become rates."""

import dataclasses
import unittest

from hypothesis import given, settings
from hypothesis import strategies as st

from iat_nova.agent.sampling import Sampler
from iat_nova.hardware.api import (
    CoreCounts,
    Counts,
    DomainCounts,
    InboundCounts,
    L2Counts,
    TenantCounts,
)
from iat_nova.model import (
    CacheDomain,
    DevicePort,
    DomainInventory,
    PortRates,
    Rates,
    Sample,
    Tenant,
)
from tests.unit.build import tenant


def inventory(*tenants: Tenant, domain: int = 0) -> dict[int, DomainInventory]:
    return {domain: DomainInventory(CacheDomain(domain, tuple(range(8)), 11, 16), tenants)}


NOTHING = DomainCounts(None, None, None)


class SamplerTest(unittest.TestCase):
    def sample(self, before, after, tenants, domains=(NOTHING, NOTHING), seconds=2.0):
        sampler = Sampler()
        known = inventory(*tenants)
        self.assertEqual({}, sampler.update(Counts(10.0, before, {0: domains[0]}), known))
        return sampler.update(Counts(10.0 + seconds, after, {0: domains[1]}), known)[0]

    def test_emulator_threads_do_not_count(self) -> None:
        """The rates are those of the vCPUs' CPUs; the emulator's may even be unreadable."""
        guest = dataclasses.replace(tenant("a", 1, 2), emulator_cpus=(2,))
        before, after = {1: CoreCounts(0, 0, 0, 0)}, {1: CoreCounts(8, 6, 4, 2)}
        found = self.sample(before, after, [guest]).tenants["a"]
        self.assertEqual(Rates(4.0, 3.0, 2.0, 1.0), found)

    def test_l2_and_inbound_bytes_where_they_are_counted(self) -> None:
        """Rates where every CPU has a reading; None, never zero, where one has none."""
        cores = {cpu: CoreCounts(1, 1, 1, 1) for cpu in (1, 2)}
        known = inventory(tenant("a", 1), tenant("b", 1, 2))

        def sample(l2: dict[int, L2Counts], inbound: dict[int, InboundCounts]) -> Sample:
            sampler = Sampler()
            before = {1: L2Counts(10, 5)}, {0: InboundCounts(100, 7)}
            sampler.update(Counts(0.0, cores, {}, *before), known)
            return sampler.update(Counts(2.0, cores, {}, l2, inbound), known)[0]

        full = sample({1: L2Counts(14, 25), 2: L2Counts(1, 1)}, {0: InboundCounts(300, 7)})
        a, b = full.tenants["a"], full.tenants["b"]
        self.assertEqual((2.0, 10.0), (a.l2_hits_per_s, a.l2_misses_per_s))
        self.assertEqual((None, None), (b.l2_hits_per_s, b.l2_misses_per_s))
        self.assertEqual((100.0, 0.0), (full.storage_in_bytes_per_s, full.network_in_bytes_per_s))
        none = sample({}, {})
        self.assertIsNone(none.tenants["a"].l2_hits_per_s)
        self.assertIsNone(none.storage_in_bytes_per_s)
        backwards = sample({1: L2Counts(9, 25)}, {0: InboundCounts(99, 8)})
        self.assertIsNone(backwards.tenants["a"].l2_misses_per_s)
        self.assertIsNone(backwards.storage_in_bytes_per_s)

    def test_rates_are_sums_over_processors_divided_by_the_interval(self) -> None:
        """Two CPUs, two seconds: half the sum of the differences."""
        sample = self.sample(
            {1: CoreCounts(10, 20, 30, 40), 2: CoreCounts(1, 1, 1, 1)},
            {1: CoreCounts(12, 26, 40, 42), 2: CoreCounts(3, 3, 3, 1)},
            [tenant("a", 1, 2)],
        )
        self.assertEqual(Rates(2.0, 4.0, 6.0, 1.0), sample.tenants["a"])
        self.assertEqual((12.0, 2.0), (sample.taken_at_s, sample.interval_s))

    def test_a_missing_processor_makes_its_tenant_absent(self) -> None:
        """Absent, not zero; the neighbour is still measured."""
        sample = self.sample(
            {1: CoreCounts(0, 0, 0, 0), 2: CoreCounts(0, 0, 0, 0)},
            {2: CoreCounts(2, 2, 2, 2)},
            [tenant("a", 1, 2), tenant("b", 2)],
        )
        self.assertEqual(["b"], list(sample.tenants))

    def test_a_counter_that_went_back_makes_its_tenant_absent(self) -> None:
        """A wrapped counter is not a huge or negative rate."""
        sample = self.sample(
            {1: CoreCounts(5, 5, 5, 5)}, {1: CoreCounts(6, 6, 4, 6)}, [tenant("a", 1)]
        )
        self.assertEqual({}, dict(sample.tenants))

    def test_a_tenant_without_processors_is_absent(self) -> None:
        """Nothing measured is no measurement of zero."""
        sample = self.sample({}, {}, [tenant("host")])
        self.assertEqual({}, dict(sample.tenants))

    def test_ddio_rates(self) -> None:
        """Hits and misses of the domain; what the machine does not count stays None."""
        sample = self.sample({}, {}, [], (DomainCounts(100, 10, None), DomainCounts(300, 20, None)))
        self.assertEqual(100.0, sample.ddio_hits_per_s)
        self.assertEqual(5.0, sample.ddio_misses_per_s)
        self.assertIsNone(sample.memory_bytes_per_s)

    def test_ports_that_are_counted(self) -> None:
        """By port of the domain; no traffic where a new counter began, no port without counts."""
        disk, card = (DevicePort(one, (one,)) for one in ("0000:5e:00.0", "0000:3b:00.0"))
        (known,) = inventory(tenant("a", 1)).values()
        domain = dataclasses.replace(known.domain, device_ports=(disk, card))
        inventories = {0: dataclasses.replace(known, domain=domain)}
        sampler = Sampler()
        for at_s, counts in enumerate(((7, 100), (9, 300), (9, 50))):
            monitored = {(0, disk.id): TenantCounts(*counts), (1, card.id): TenantCounts(1, 1)}
            found = sampler.update(Counts(2.0 * at_s, {}, {}, monitored=monitored), inventories)
            if at_s:
                expected = PortRates(9, 100.0 if at_s == 1 else None)
                self.assertEqual({disk.id: expected}, found[0].ports)

    def test_what_is_monitored(self) -> None:
        """Occupancy as it is now; traffic as a rate, absent where a new counter began."""
        cores = {cpu: CoreCounts(1, 1, 1, 1) for cpu in (1, 2)}
        known = inventory(tenant("a", 1), tenant("b", 2))

        def sample(*counts: tuple[int | None, int | None] | None) -> Rates:
            sampler = Sampler()
            for at_s, one in enumerate(counts):
                monitored = {} if one is None else {(0, "a"): TenantCounts(*one)}
                found = sampler.update(Counts(2.0 * at_s, cores, {}, monitored=monitored), known)
            self.assertIsNone(found[0].tenants["b"].occupancy_bytes)
            return found[0].tenants["a"]

        for counts, expected in (
            (((7, 100), (9, 300)), (9, 100.0)),
            ((None, (9, 300)), (9, None)),
            (((7, 100), (9, 50)), (9, None)),
            (((7, 100), (None, None)), (None, None)),
            (((7, 100), None), (None, None)),
        ):
            with self.subTest(counts):
                seen = sample(*counts)
                self.assertEqual(expected, (seen.occupancy_bytes, seen.memory_bytes_per_s))

    def test_lines_of_which_nobody_knows_whether_they_hit(self) -> None:
        """All that devices wrote is known, hits and misses are absent."""
        before = DomainCounts(None, None, None, 100)
        sample = self.sample({}, {}, [], (before, before._replace(ddio_writes=500)))
        self.assertEqual((None, None), (sample.ddio_hits_per_s, sample.ddio_misses_per_s))
        self.assertEqual((200.0, 200.0), (sample.ddio_writes_per_s, sample.inbound_lines_per_s))
        apart = self.sample({}, {}, [], (DomainCounts(0, 0, None), DomainCounts(6, 4, None)))
        self.assertEqual((None, 5.0), (apart.ddio_writes_per_s, apart.inbound_lines_per_s))
        self.assertIsNone(self.sample({}, {}, []).inbound_lines_per_s)

    def test_a_domain_nobody_counts(self) -> None:
        """A domain absent from the reading gives absent rates."""
        sampler = Sampler()
        sampler.update(Counts(0.0, {}, {}), inventory())
        sample = sampler.update(Counts(1.0, {}, {}), inventory())[0]
        self.assertIsNone(sample.ddio_hits_per_s)

    def test_a_newcomer_does_not_inherit_the_leavers_counts(self) -> None:
        """What its CPUs counted for somebody else is nobody's rate."""
        sampler = Sampler()
        sampler.update(Counts(0.0, {1: CoreCounts(0, 0, 0, 0)}, {}), inventory(tenant("leaver", 1)))
        known = inventory(tenant("newcomer", 1))
        after = {1: CoreCounts(9, 9, 9, 9)}
        self.assertEqual({}, dict(sampler.update(Counts(1.0, after, {}), known)[0].tenants))
        after = {1: CoreCounts(10, 10, 10, 10)}
        sample = sampler.update(Counts(2.0, after, {}), known)[0]
        self.assertEqual(Rates(1.0, 1.0, 1.0, 1.0), sample.tenants["newcomer"])

    def test_no_time_no_sample(self) -> None:
        """Two readings of one moment give nothing, not a division by zero."""
        sampler = Sampler()
        sampler.update(Counts(1.0, {}, {}), inventory())
        self.assertEqual({}, sampler.update(Counts(1.0, {}, {}), inventory()))

    @settings(derandomize=True, max_examples=50)
    @given(
        st.lists(st.integers(0, 1 << 48), min_size=4, max_size=4),
        st.lists(st.integers(0, 1 << 40), min_size=4, max_size=4),
        st.floats(0.01, 100),
    )
    def test_rate_times_interval_is_the_difference(self, start, moved, seconds) -> None:
        """Whatever the interval, nothing is lost or made up."""
        end = [a + b for a, b in zip(start, moved, strict=True)]
        sample = self.sample(
            {1: CoreCounts(*start)}, {1: CoreCounts(*end)}, [tenant("a", 1)], seconds=seconds
        )
        rates = sample.tenants["a"]
        for value, expected in zip(
            (
                rates.instructions_per_s,
                rates.cycles_per_s,
                rates.references_per_s,
                rates.misses_per_s,
            ),
            moved,
            strict=True,
        ):
            self.assertAlmostEqual(
                expected, value * sample.interval_s, delta=1e-6 * max(1, expected)
            )
