# SPDX-License-Identifier: Apache-2.0
"""What the page of a run shows, and the last line of figures."""

import dataclasses
import unittest

from iat_nova.experiments.cmd import figures, simulate
from iat_nova.experiments.runs.run import Result
from iat_nova.model import DevicePort, PortGroup, WayMask
from tests.unit import stories


class PageTest(unittest.TestCase):
    def test_numbers(self):
        """One way change, two transitions."""
        result = Result(
            "s", "iat", 1, 1.0, 1.0, {}, (), (), (0.5,), ((0.2, 1), (0.5, 3)), (), None, None
        )
        first, *_ = simulate._page(result).splitlines()
        self.assertEqual(
            "s, strategy iat, seed 1, 1 emulated s: 1 way change, 2 transitions", first
        )

    def test_signs_of_ports(self):
        """A line below the way map names the ports of each digit."""
        first = stories.inventory()
        port = DevicePort("0000:5e:00.0", ("0000:5e:00.0",))
        domain = dataclasses.replace(first.domain, device_ports=(port,))
        inventory = dataclasses.replace(first, domain=domain)
        last = stories.quiet(1, stories.NIGHT).decision
        own = dataclasses.replace(last.layout, ports=(PortGroup((port.id,), WayMask(0x100)),))
        last = dataclasses.replace(last, layout=own)
        result = Result("s", "iat", 1, 1.0, 1.0, {}, (), (), (), (), (last,), last, inventory)
        page = simulate._page(result).splitlines()
        (drawn,) = (line for line in page if line.startswith("at the end: "))
        self.assertIn("][1111~~~~~ddio] 10", drawn)
        self.assertTrue(all(len(line) <= 80 for line in page), page)
        self.assertEqual("........1..  1 0x100 port 0000:5e:00.0 (no tenant)", page[-1].strip())


class FiguresTest(unittest.TestCase):
    def test_figures_without_claims(self):
        """The line says that nothing is judged."""
        self.assertIn("no claim is judged", figures._summary([]))
