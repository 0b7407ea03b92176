# SPDX-License-Identifier: Apache-2.0
"""Grafana's dashboard and Prometheus' rules speak of metrics that exist."""

import json
import pathlib
import re
import unittest

import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from iat_nova.report import metrics

ETC = pathlib.Path(__file__).parents[3] / "etc/iat-nova"


def lost(ours: object, theirs: object, path: str = ""):
    """Yield the paths of what is in ours and not, or otherwise, in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs.get(key), f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{number}")
    elif ours != theirs:
        yield path


class DashboardTest(unittest.TestCase):
    def setUp(self) -> None:
        self.dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
        self.panels = self.dashboard["panels"]

    def metrics_in(self, text: str) -> set[str]:
        return set(re.findall(r"\biat_nova_\w+", text))

    def test_grafana_reads_all_of_it(self) -> None:
        """The classes generated from Grafana's own schema read it and lose nothing."""
        plugins.register_default_plugins()
        read = Dashboard.from_json(self.dashboard)
        written = json.loads(json.dumps(read, cls=JSONEncoder))
        self.assertEqual([], list(lost(self.dashboard, written)))

    def test_panels_lie_beside_each_other(self) -> None:
        """No panel covers another or leaves the grid, and numbers are unique."""
        taken = set()
        for panel in self.panels:
            grid = panel["gridPos"]
            self.assertLessEqual(grid["x"] + grid["w"], 24)
            cells = {
                (x, y)
                for x in range(grid["x"], grid["x"] + grid["w"])
                for y in range(grid["y"], grid["y"] + grid["h"])
            }
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
        numbers = [panel["id"] for panel in self.panels]
        self.assertEqual(len(set(numbers)), len(numbers))

    def test_queries_name_metrics_and_labels_that_exist(self) -> None:
        """A renamed metric or label is noticed here, not by an empty graph."""
        known = {metric.name: metric for metric in metrics.METRICS}
        for panel in self.panels:
            for target in panel.get("targets", ()):
                names = self.metrics_in(target["expr"])
                self.assertTrue(names, target["expr"])
                self.assertLessEqual(names, set(known))
                labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - {"instance"}
                for name in names:
                    self.assertLessEqual(labels, set(known[name].labels), panel["title"])

    def test_variables_are_defined(self) -> None:
        """Each variable that a query uses can be chosen at the top."""
        defined = {variable["name"] for variable in self.dashboard["templating"]["list"]}
        used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(self.panels)))
        self.assertEqual(defined, used)
        for variable in self.dashboard["templating"]["list"]:
            self.assertLessEqual(
                self.metrics_in(variable["query"]["query"])
                if variable["type"] == "query"
                else set(),
                {metric.name for metric in metrics.METRICS},
            )

    def test_alerts_name_metrics_that_exist(self) -> None:
        """A renamed metric would silence its alert."""
        for rule in yaml.safe_load((ETC / "alerts.yaml").read_text())["groups"][0]["rules"]:
            names = self.metrics_in(rule["expr"])
            self.assertLessEqual(names, {metric.name for metric in metrics.METRICS})
            self.assertEqual({"summary", "description"}, set(rule["annotations"]))
