# SPDX-License-Identifier: Apache-2.0
"""Tenants by their names and ids, the CPUs that count, and the ways that a tenant keeps."""

import dataclasses
import unittest

from iat_nova.model import (
    DcaPort,
    DeviceModel,
    DevicePort,
    DomainInventory,
    Tenant,
    TenantKind,
    WayRequest,
    message,
    own_warnings,
)
from tests.unit.build import domain, tenant

UUIDS = ("11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002")


def guest(number: int, name: str, *cpus: int, **more: object) -> Tenant:
    return tenant(name, *cpus, id=f"{UUIDS[number]}/7", **more)  # type: ignore[arg-type]


class TenantTest(unittest.TestCase):
    def test_who_it_is(self) -> None:
        """A guest is its UUID, in any run; another tenant is its id."""
        web, pool = guest(0, "web"), tenant("pool", kind=TenantKind.POOL)
        self.assertEqual((UUIDS[0], UUIDS[0]), (web.uuid, web.key))
        self.assertEqual((None, "pool"), (pool.uuid, pool.key))

    def test_whose_warnings(self) -> None:
        """Guests of one name are two, also in different cache domains; a guest of both is one."""
        said = message("guest-tuned")
        web, other, db = (
            guest(number, name, warnings=(said,))
            for number, name in ((0, "web"), (1, "web"), (1, "db"))
        )
        for there, names in (
            ((web, other), ["web (11111111)", "web (22222222)"]),
            ((web, db), ["web", "db"]),
            ((web, web), ["web"]),
            ((web, dataclasses.replace(web, id=f"{UUIDS[0]}/8")), ["web"]),
        ):
            found = own_warnings(DomainInventory(domain(), (one,)) for one in there)
            self.assertEqual([(name, said) for name in names], list(found))

    def test_what_nobody_asked_for(self) -> None:
        """A tenant has two ways at first, all bandwidth, and the weight of any other."""
        request, one = WayRequest(), tenant("web")
        self.assertEqual(
            (1, 2, 0, False), (request.min, request.initial, request.promised, request.held)
        )
        self.assertEqual((100, 1.0), (one.bandwidth_min, one.weight))

    def test_who_has_a_device(self) -> None:
        """Whoever has a VF, or a device by its PCI address; a port of the switch is none."""
        for model, devices, expected in (
            (DeviceModel.SLICING, (), True),
            (DeviceModel.NONE, ("vda", "0000:3b:02.1"), True),
            (DeviceModel.AGGREGATION, ("dpdk0",), False),
        ):
            self.assertIs(expected, guest(0, "web", model=model, devices=devices).has_device)

    def test_whose_counters_count(self) -> None:
        """Those of the vCPUs' CPUs; of the emulator's only where there are no others."""
        self.assertEqual((2, 3), guest(0, "web", 2, 3).counted_cpus)
        self.assertEqual((2, 3), guest(0, "web", 2, 3, 4, emulator_cpus=(4,)).counted_cpus)
        self.assertEqual((4,), guest(0, "web", 4, emulator_cpus=(4,)).counted_cpus)

    def test_kept_ways(self) -> None:
        """What a flavor guarantees, or what an operator holds; a bare minimum is neither."""
        request = WayRequest(3, 4, 8)
        self.assertEqual(0, request.kept)
        self.assertEqual(2, dataclasses.replace(request, promised=2).kept)
        self.assertEqual(3, dataclasses.replace(request, promised=2, held=True).kept)


class DomainInventoryTest(unittest.TestCase):
    def test_equal_names_are_told_apart(self) -> None:
        """By the beginning of the UUID, which only guests have; other names stay as they are."""
        web, other = guest(0, "web"), guest(1, "web")
        rest = tenant("db"), tenant("host", kind=TenantKind.HOST)
        seen = DomainInventory(domain(), (web, other, *rest))
        marks = {web.id: " (11111111)", other.id: " (22222222)"}
        self.assertEqual(marks, seen.marks)
        names = {web.id: "web (11111111)", other.id: "web (22222222)", "db": "db", "host": "host"}
        self.assertEqual(names, seen.names)

    def test_ports(self) -> None:
        """They have names, too, and tenants behind them."""
        ports = (DevicePort("0000:3b:00.0", ("0000:3b:00.0",)), DevicePort("x", ("x",)))
        web = guest(0, "web", ports=("0000:3b:00.0",))
        seen = DomainInventory(domain(device_ports=ports), (web, tenant("db")))
        self.assertEqual("port 0000:3b:00.0", seen.names["0000:3b:00.0"])
        self.assertEqual(((web,), ()), (seen.behind("0000:3b:00.0"), seen.behind("x")))

    def test_root_ports(self) -> None:
        """A tenant is below a root port if one of its devices is."""
        web, disk = (guest(n, "web", devices=(f"0000:3b:00.{n}",)) for n in (0, 1))
        seen = DomainInventory(domain(), (web, disk, tenant("db")))
        below = ((web,), (web, disk), ())
        for count, devices in enumerate((("0000:3b:00.0", "x"), (*disk.devices, *web.devices), ())):
            self.assertEqual(below[count], seen.below(DcaPort("0000:3a:00.0", devices)))
