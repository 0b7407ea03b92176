# SPDX-License-Identifier: Apache-2.0
"""Small curves of rates, with their last and highest values."""

import unittest

from iat_nova.model import PortRates, Rates
from iat_nova.report import rate_rows
from iat_nova.report.charts import Axis


class RowTest(unittest.TestCase):
    """Values of a tenant over ten seconds."""

    def test_cells(self) -> None:
        """The last value is the last that was counted; what was never counted is a dash."""
        rates = [
            (0.0, Rates(4e9, 4e9, 2e6, 1e6)),
            (5.0, Rates(2e9, 4e9, 4e6, 1e6)),
            (9.0, None),
        ]
        columns = (*rate_rows.COUNTED, *rate_rows.MONITORED)
        made = rate_rows.cells(Axis(0.0, 10.0), columns, rates, 60.0)
        self.assertEqual(
            [
                ("0.50", "1.00"), ("4.0 M/s", "4.0 M/s"), ("1.0 M/s", "1.0 M/s"),
                ("25.0%", "50.0%"), ("-", "-"), ("-", "-"),
            ],
            [(one.last, one.highest) for one in made],
        )  # fmt: skip
        self.assertEqual(("IPC", "M132.0 8.0L560.0 24.0"), made[0][:2])
        self.assertEqual(("In the LLC", ""), made[-2][:2])

    def test_monitored(self) -> None:
        """Columns of what some sample has."""
        for rates, titles in (
            ([], []),
            ([PortRates(None, None)], []),
            ([PortRates(None, None), PortRates(0, None)], ["In the LLC"]),
            ([PortRates(1, None), PortRates(None, 0.0)], ["In the LLC", "Memory traffic"]),
        ):
            self.assertEqual(titles, [title for title, *_ in rate_rows.monitored(rates)])
