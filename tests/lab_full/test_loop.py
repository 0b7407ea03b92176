# SPDX-License-Identifier: Apache-2.0
"""The loop closed where the lab's own suite has no time for it: on an EPYC, too."""

import dataclasses
import statistics

from iat_nova.model import WayMask
from tests.lab import test_loop
from tests.lab.feeder import Behind, Seen
from tests.lab.lab import NEW_KERNEL
from tests.lab.registers import LINE, RMID_UNIT
from tests.unit.strategies import test_without_split as without_split
from tools import demo_host

SECONDS = 60.0
CPUS = 8  # of an L3 cache
LINES_PER_S = 20_000_000  # that devices write
FULL = WayMask.span(0, without_split.EPYC.ways)
BESIDE = tuple(  # in the other L3 cache of the socket, on as many CPUs as are there
    dataclasses.replace(tenant, id=f"{tenant.id} beside", name=f"{tenant.name} beside", cpus=cpus)
    for tenant, cpus in zip(
        without_split.TENANTS[1:], ((8, 9, 10), (11, 12, 13, 14, 15)), strict=True
    )
)
TENANTS = (without_split.TENANTS, BESIDE)  # by L3 cache


class Loop(test_loop.Closed):
    """One socket."""

    def test_slicing_on_one_socket(self):
        """Figure 7 B."""
        self.check("figure7-b", sockets=1)


def host():
    """Return the host that the guest is told of: the tenants of the strategies' own tests."""
    guests = [
        demo_host.Guest(
            number,
            tenant.name,
            "m1.small",
            {
                "hw:cpu_policy": "dedicated",
                "iat:priority": tenant.priority.name,
                "iat:io": str(tenant.io).lower(),
            },
            tenant.cpus,
            demo_host.GUESTS[0].device if tenant.io else "",
        )
        for number, tenant in enumerate((*TENANTS[0], *TENANTS[1]), start=1)
    ]
    return {
        "guests": [dataclasses.asdict(guest) for guest in guests],
        "switch": [],
        "dedicated": ",".join(str(cpu) for guest in guests for cpu in guest.cpus),
        "policy": "{}\n",
        "options": {"strategy": "pollute-buffer", "monitor_tenants": "true"},
        "seconds": SECONDS,
    }


class Devices(Behind):
    """Devices that drive out what databases keep, until they are confined: their misses fall.

    Behind two L3 caches of a socket; each tenant has as many units in its cache as its first CPU's
    number, and ten more. `seen`, as that of `Feeder`, by cache.
    """

    def __init__(self, lab, folder):
        super().__init__(folder)
        self._lab = lab
        self._loads = [
            without_split.Socket(lambda ways: 2e6, lambda ways: 2e6 if ways else 12e6)
            for _ in TENANTS
        ]
        self._moved = {}  # by tenant, in bytes
        self.seen = [[] for _ in TENANTS]

    def advance(self, now_s, until_s):
        """Feed what the tenants count under these ways of devices."""
        span_s = until_s - now_s
        self._lab.add_dma(round(LINES_PER_S * span_s), root=3)
        for cache, load in enumerate(self._loads):
            self.seen[cache].append(self._look(cache, now_s))
            # The tenants beside are as those of the same names, but for their CPUs.
            rates = load.rates(self.seen[cache][-1].ddio.count)
            for tenant in TENANTS[cache]:
                self._feed(cache, tenant, rates[tenant.name.partition(" ")[0]], span_s)

    def _feed(self, cache, tenant, one, span_s):
        counted = (
            one.instructions_per_s, one.cycles_per_s, one.references_per_s, one.misses_per_s
        )  # fmt: skip
        for cpu in tenant.cpus:
            self._lab.add_core(cpu, *(round(n * span_s / len(tenant.cpus)) for n in counted))
        moved = self._moved.get(tenant, 0.0) + one.misses_per_s * span_s * LINE
        self._moved[tenant] = moved
        units = round(moved) // RMID_UNIT
        rmid = self._lab.pqr_assoc(tenant.cpus[0])[1]
        self._lab.set_rmid(rmid, 10 + tenant.cpus[0], units, units, socket=cache)

    def _look(self, cache, now_s):
        cpus = range(cache * CPUS, (cache + 1) * CPUS)
        masks = {cpu: WayMask(self._lab.cbm(self._lab.pqr_assoc(cpu)[0], cache)) for cpu in cpus}
        devices = WayMask(self._lab.io_alloc(cache) or 0)
        return Seen(now_s, WayMask(0) if devices == FULL else devices, masks)


class Epyc(test_loop.Closed):
    """Two L3 caches of a socket under the newer kernel; tenants are monitored, too."""

    def test_devices_are_confined(self):
        """From what is counted to io_alloc's ways and to masks, and back at the end; in both."""
        self.check_both()

    def test_counters_are_assigned(self):
        """The same where there are just enough counters of bandwidth: a class must have none."""
        self.needs("abmc")
        self.check_both("--abmc", str(2 + len(TENANTS[0])))  # the default group has two

    def check_both(self, *more):
        found, feeder = self.go_through(
            host(), Devices, domains=range(len(TENANTS)), kernel=NEW_KERNEL,
            options=("--cpu", "amd", "--ccx", str(CPUS), *more), cpus=len(TENANTS) * CPUS,
        )  # fmt: skip
        for cache, (done, inventories) in enumerate(found):
            with self.subTest(cache=cache):
                self.check_confined(done, inventories, feeder.seen[cache])
                self.check_counted(done[-1], inventories, TENANTS[cache])

    def check_confined(self, done, inventories, seen):
        self.compare_registers(done, inventories, seen, least=50)
        ways = [moment.ddio.count for moment in seen]
        self.assertEqual(0, ways[0], "DDIO's ways before the agent's first decision")
        # One of them may be a trial.
        self.assertGreaterEqual(statistics.median(ways[-20:]), 2, "DDIO's ways at the end")
        self.assertGreater(len({tuple(one.cpus.values()) for one in seen}), 1, "no mask moved")

    def check_counted(self, last, inventories, tenants):
        self.assertIsNone(last.sample.ddio_hits_per_s)
        self.assertAlmostEqual(LINES_PER_S, last.sample.ddio_writes_per_s, delta=1)
        found = {one.name: one for one in inventories[last.inventory_id].tenants}
        for tenant in tenants:
            with self.subTest(tenant.name):
                one = found[tenant.name]
                self.assertEqual((tenant.priority, tenant.cpus), (one.priority, one.cpus))
                rates = last.sample.tenants[one.id]
                self.assertEqual((10 + one.cpus[0]) * RMID_UNIT, rates.occupancy_bytes)
                self.assertIsNotNone(rates.memory_bytes_per_s, "its traffic is not counted")
                self.assertAlmostEqual(
                    rates.misses_per_s * LINE, rates.memory_bytes_per_s, delta=RMID_UNIT
                )
