# SPDX-License-Identifier: Apache-2.0
"""Ports of devices as rows, as a table and as sentences."""

import dataclasses
import math
import unittest
from unittest import mock

from iat_nova.model import DevicePort, PortGroup, PortRates, WayMask
from iat_nova.report import port_table
from iat_nova.report.view import DomainView
from tests.unit import stories

CARD, DISK = "0000:3b:00.0", "0000:3c:00.0"


def seen(own=0x100, ddio=0x600, domain=0, **counted):
    """Return a domain with a card, which has ways of its own, and a disk that has DDIO's."""
    inventory = stories.inventory()
    stack, pc, be = inventory.tenants
    inventory = dataclasses.replace(
        inventory,
        domain=dataclasses.replace(
            inventory.domain,
            id=domain,
            device_ports=(DevicePort(CARD, (CARD,)), DevicePort(DISK, (DISK,))),
        ),
        tenants=(stack, *(dataclasses.replace(one, ports=(CARD,)) for one in (pc, be))),
    )
    made = stories.quiet(1, stories.NIGHT)
    groups = (PortGroup((CARD,), WayMask(own)),) if own else ()
    layout = dataclasses.replace(stories.layout(2), ddio=WayMask(ddio), ports=groups)
    ports = {CARD: PortRates(3 << 20, 2.5e9), **counted}
    made = dataclasses.replace(
        made,
        sample=dataclasses.replace(made.sample, ports=ports),
        decision=dataclasses.replace(made.decision, layout=layout),
        effective=None,
    )
    return DomainView(inventory, mock.Mock(iteration=made), None)


class TableTest(unittest.TestCase):
    """What people and programs read."""

    def test_lines(self) -> None:
        """Who is behind, whose ways they are, and what was counted."""
        self.assertEqual(
            [
                "port          tenants   ways    mask   in the LLC  memory traffic",
                "0000:3b:00.0  pc1, be1  1       0x100  3.0 MiB     2.3 GiB/s",
                "0000:3c:00.0  -         2 DDIO  0x600",
            ],
            port_table.lines([seen()], 80),
        )

    def test_narrow(self) -> None:
        """Names of tenants are cut, to eight columns at least."""
        one = seen()
        for width, shown in ((65, "pc1, be1"), (20, "pc1, be1")):
            self.assertIn(shown, port_table.lines([one], width)[1])
        be = dataclasses.replace(one.inventory.tenants[2], name="best-effort-guest")
        tenants = (*one.inventory.tenants[:2], be)
        named = dataclasses.replace(
            one, inventory=dataclasses.replace(one.inventory, tenants=tenants)
        )
        for width, shown in ((200, "pc1, best-effort-guest  1"), (70, "pc1, best-…  1"),
                             (20, "pc1, be…  1")):  # fmt: skip
            lines = port_table.lines([named], width)
            self.assertIn(shown, lines[1])
            self.assertLessEqual(max(map(len, lines)), max(width, 65))

    def test_several_domains(self) -> None:
        """Only then a port's domain is told."""
        lines = port_table.lines([seen(), seen(domain=1)], 100)
        self.assertTrue(lines[0].endswith("memory traffic  domain"))
        self.assertEqual(["0", "0", "1", "1"], [line.split()[-1] for line in lines[1:]])

    def test_nothing(self) -> None:
        """Without ports there is no table."""
        self.assertEqual([], port_table.lines([], 80))
        self.assertEqual([], port_table.lines([DomainView(stories.inventory(), None, None)], 80))

    def test_rows(self) -> None:
        """Under the columns that programs know; traffic as whole bytes."""
        for rate, whole in ((2.6, 3), (math.inf, None), (None, None)):
            rows = list(port_table.rows([seen(**{CARD: PortRates(None, rate)})]))
            self.assertEqual(whole, rows[0]["memory_bytes_per_s"])
        self.assertEqual(set(port_table.COLUMNS), set(rows[0]))
        self.assertEqual((1, None, 0), (rows[0]["ways"], rows[1]["ways"], rows[1]["domain"]))

    def test_sentences(self) -> None:
        """Of ways of its own, of DDIO's, and of devices that may write anywhere."""
        one, anywhere = seen(), seen(own=0, ddio=0)
        card, disk = one.ports()
        self.assertEqual(
            f"port {CARD} has 1 way 0x100, 3.0 MiB in the LLC, 2.3 GiB/s to and from memory",
            port_table.sentence(one, card),
        )
        self.assertEqual(f"port {DISK} has DDIO's 2 ways 0x600", port_table.sentence(one, disk))
        self.assertEqual(f"port {DISK} has any way", port_table.sentence(anywhere, disk))
