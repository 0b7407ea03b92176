# SPDX-License-Identifier: Apache-2.0
"""The last lines of the quick start: the gain over a run without the agent."""

import json
import unittest

from tools import demo_gain


def results(seconds: float, **workloads: tuple[float, float]) -> str:
    """Return the results of a run: work per second and loss, by workload."""
    rows = [
        {"name": name, "work_per_s": work, "loss": loss} for name, (work, loss) in workloads.items()
    ]
    return json.dumps({"seconds": seconds, "workloads": rows})


class GainTest(unittest.TestCase):
    def test_lines(self) -> None:
        """Gains in work, losses of packets where a run has any; -0 % is +0 %."""
        ours = results(50.0, web=(2.2e6, 0.1), db=(999.0, 0.0), batch=(85.0, 0.0))
        theirs = results(50.0, web=(1.5e6, 0.394), db=(1000.0, 0.0), batch=(100.0, 0.004))
        critical, rest = demo_gain.lines(ours, theirs, ["web", "db"], ["batch"])
        self.assertEqual("critical: web +47% (packets lost: 39% -> 10%), db +0%", critical)
        self.assertEqual("best effort: batch -15%", rest)

    def test_other_lengths(self) -> None:
        """A run that was stopped early is not compared."""
        self.assertIsNone(
            demo_gain.lines(results(12.3, web=(1, 0)), results(50, web=(1, 0)), ["web"], [])
        )
