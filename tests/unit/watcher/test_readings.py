# SPDX-License-Identifier: Apache-2.0
"""What is taken from Prometheus; the queries themselves meet a real one in tests/openstack."""

import re
import unittest

from iat_nova.report.metrics import METRICS
from iat_nova.watcher import readings
from iat_nova.watcher.hosts import Domain, Reading


class Answers:
    """Answers by the name of the metric in a query, and keeps the queries."""

    def __init__(self, **answers) -> None:
        self.answers, self.asked = answers, []

    def __call__(self, promql):
        self.asked.append(promql)
        name = re.search(r"iat_nova_(\w+)", promql)[1]
        return [
            ({"fqdn": "c1", "domain": "0", **labels}, n) for labels, n in self.answers.get(name, ())
        ]


class OnlyLeast(Answers):
    """Knows no likely losses."""

    def __call__(self, promql):
        return [] if 'bound="likely"' in promql else super().__call__(promql)


WHOLE = {
    "last_iteration_time_seconds": [({}, 1.0), ({"domain": "1"}, 2.5)],
    "enforcing": [({}, 1.0)],
    "exhausted": [({}, 0.9), ({"domain": "1"}, 0.2)],
    "llc_ways": [({}, 11.0), ({"domain": "1"}, 11.0)],
    "newcomer_ways": [({"priority": "PC"}, 5.5), ({"priority": "BE"}, 1.1)],
    "tenant_info": [
        ({"tenant": "u1", "priority": "PC", "io": "true"}, 1.0),
        ({"tenant": "u2", "priority": "BE", "io": "false"}, 1.0),
    ],
    "tenant_loss_ratio": [({"tenant": "u1"}, 0.2)],
    "tenant_llc_ratio": [({"tenant": "u1"}, 0.3), ({"tenant": "u2"}, 0.5)],
    "tenant_stalled_ratio": [
        ({"tenant": "u1"}, 0.4), ({"tenant": "u2"}, 0.1), ({"tenant": "gone"}, 1.0),
    ],
}  # fmt: skip


class ReadingsTest(unittest.TestCase):
    def test_a_host(self) -> None:
        (seen,) = readings.read(Answers(**WHOLE), "fqdn", 600).values()
        self.assertEqual((True, 2.5), (seen.enforcing, seen.age_s))
        self.assertEqual(Domain(True, 11, {True: 0.5, False: 0.1}), seen.domains[0])
        self.assertEqual(Domain(False, 11, {}), seen.domains[1])
        self.assertEqual(({"u1"}, {"u1"}), (seen.critical, seen.io))
        self.assertEqual({0: Reading(0.4, 0.3, 0.2)}, seen.guests["u1"])
        self.assertEqual({0: Reading(0.1, 0.5, None)}, seen.guests["u2"])

    def test_what_is_missing_is_not_known(self) -> None:
        for name in ("exhausted", "tenant_loss_ratio", "tenant_llc_ratio", "newcomer_ways"):
            answers = Answers(**{**WHOLE, name: ()})
            (seen,) = readings.read(answers, "fqdn", 600).values()
            with self.subTest(name=name):
                if name == "exhausted":
                    self.assertIsNone(seen.domains[0].exhausted)
                if name == "newcomer_ways":
                    self.assertEqual({}, seen.domains[0].finds)
                if name == "tenant_loss_ratio":
                    self.assertIsNone(seen.guests["u1"][0].loss)
                if name == "tenant_llc_ratio":
                    self.assertEqual({}, seen.guests["u1"])
        shown = {**WHOLE, "tenant_loss_ratio": [({"tenant": "u2"}, 0.0), ({"tenant": "u1"}, 0.3)]}
        (seen,) = readings.read(OnlyLeast(**shown), "fqdn", 600).values()
        self.assertEqual(0.3, seen.guests["u1"][0].loss)
        self.assertIsNone(seen.guests["u2"][0].loss)  # has shown nothing
        self.assertEqual({}, readings.read(Answers(), "fqdn", 600))
        self.assertEqual({}, readings.read(Answers(**WHOLE), "hypervisor", 600))

    def test_it_asks_for_metrics_that_are_served(self) -> None:
        """One query a metric, whatever the number of hosts; no name that the agent lacks."""
        answers = Answers(**WHOLE)
        readings.read(answers, "fqdn", 600)
        self.assertEqual(10, len(answers.asked))
        served = {metric.name for metric in METRICS}
        for promql in answers.asked:
            for name in re.findall(r"iat_nova_\w+", promql):
                self.assertIn(name, served)

    def test_how_old_data_may_be(self) -> None:
        self.assertEqual([60.0, 20.0], [readings.oldest_s(600), readings.oldest_s(10)])


if __name__ == "__main__":
    unittest.main()
