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
        for number, tenant in enumerate(without_split.TENANTS, start=1)
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
    """Devices that drive out what a database keeps, until they are confined: its misses fall.

    Behind the first L3 cache; each tenant has as many units in it as its first CPU's number, and
    ten more. `seen`, as that of `Feeder`.
    """

    def __init__(self, lab, folder):
        super().__init__(folder)
        self._lab = lab
        self._load = without_split.Socket(lambda ways: 2e6, lambda ways: 2e6 if ways else 12e6)
        self._moved = {}  # by RMID, in bytes
        self.seen = []

    def advance(self, now_s, until_s):
        """Feed what the tenants count under these ways of devices."""
        self.seen.append(self._look(now_s))
        rates = self._load.rates(self.seen[-1].ddio.count)
        span_s = until_s - now_s
        self._lab.add_dma(round(LINES_PER_S * span_s), root=3)
        for tenant in without_split.TENANTS:
            one = rates[tenant.name]
            counted = (
                one.instructions_per_s, one.cycles_per_s, one.references_per_s, one.misses_per_s
            )  # fmt: skip
            for cpu in tenant.cpus:
                self._lab.add_core(cpu, *(round(n * span_s / len(tenant.cpus)) for n in counted))
            rmid = self._lab.pqr_assoc(tenant.cpus[0])[1]
            moved = self._moved.get(rmid, 0.0) + one.misses_per_s * span_s * LINE
            self._moved[rmid] = moved
            units = round(moved) // RMID_UNIT
            self._lab.set_rmid(rmid, 10 + tenant.cpus[0], units, units)

    def _look(self, now_s):
        masks = {cpu: WayMask(self._lab.cbm(self._lab.pqr_assoc(cpu)[0])) for cpu in range(CPUS)}
        devices = WayMask(self._lab.io_alloc() or 0)
        return Seen(now_s, WayMask(0) if devices == FULL else devices, masks)


class Epyc(test_loop.Closed):
    """Two L3 caches of a socket under the newer kernel; tenants are monitored, too."""

    def test_devices_are_confined(self):
        """From what is counted to io_alloc's ways and to masks, and back at the end."""
        done, inventories, feeder = self.go_through(
            host(), Devices, kernel=NEW_KERNEL,
            options=("--cpu", "amd", "--ccx", str(CPUS)), cpus=2 * CPUS,
        )  # fmt: skip
        self.compare_registers(done, inventories, feeder.seen, least=50)
        ways = [moment.ddio.count for moment in feeder.seen]
        self.assertEqual(0, ways[0])
        self.assertGreaterEqual(statistics.median(ways[-20:]), 2)  # one may be a trial
        self.assertGreater(len({tuple(one.cpus.values()) for one in feeder.seen}), 1)
        last = done[-1]
        self.assertIsNone(last.sample.ddio_hits_per_s)
        self.assertAlmostEqual(LINES_PER_S, last.sample.ddio_writes_per_s, delta=1)
        found = {one.name: one for one in inventories[last.inventory_id].tenants}
        for tenant in without_split.TENANTS:
            with self.subTest(tenant.name):
                one = found[tenant.name]
                self.assertEqual((tenant.priority, tenant.cpus), (one.priority, one.cpus))
                rates = last.sample.tenants[one.id]
                self.assertEqual((10 + one.cpus[0]) * RMID_UNIT, rates.occupancy_bytes)
                self.assertAlmostEqual(
                    rates.misses_per_s * LINE, rates.memory_bytes_per_s, delta=RMID_UNIT
                )
