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
from iat_nova.strategies.readings import MOST_STALLED
from tests.unit import pages

ROLE = pathlib.Path(__file__).parents[3] / "tools/ansible/roles/iat_nova"
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


def alerts():
    """Return the alert rules."""
    groups = yaml.safe_load((ETC / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def recorded():
    """Return the recorded series by name, with their expressions."""
    groups = yaml.safe_load((ETC / "recording-rules.yaml").read_text())["groups"]
    return {rule["record"]: rule["expr"] for group in groups for rule in group["rules"]}


# Fields of an annotation that Grafana's plug-in for Prometheus reads and the general schema lacks:
# AnnotationQueryEditor of the plug-in edits them.
OF_PROMETHEUS = ("titleFormat", "textFormat", "step")

TARGET = {"instance", "hypervisor", "availability_zone", "aggregate"}
"""Labels that the scrape gives."""


class DashboardTest(unittest.TestCase):
    """One host's dashboard."""

    name = "grafana-dashboard.json"

    def setUp(self) -> None:
        self.dashboard = json.loads((ETC / self.name).read_text())
        self.panels = self.dashboard["panels"]

    def metrics_in(self, text: str) -> set[str]:
        return set(re.findall(r"(?<![\w:\"-])(?:\w+:)?iat_nova_[\w:]+", text))

    def test_grafana_reads_all_of_it(self) -> None:
        """The classes generated from Grafana's own schema read it and lose nothing."""
        plugins.register_default_plugins()
        for annotation in self.dashboard["annotations"]["list"]:
            for name in OF_PROMETHEUS:
                annotation.pop(name, None)
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
                self.assertTrue(names or "up{" in target["expr"], target["expr"])
                self.assertLessEqual(names, {*known, *recorded()})
                labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - TARGET
                for name in names & set(known):
                    self.assertLessEqual(labels, set(known[name].labels), panel["title"])
                for name in names & set(recorded()):
                    for label in labels:
                        self.assertRegex(recorded()[name], rf"by \([^)]*\b{label}\b")

    def test_the_legends_say_what_a_number_is(self) -> None:
        """A bare number of a cache domain or CPU behind a name reads as a value."""
        for panel in self.panels:
            for target in panel.get("targets", ()):
                for label, word in (("domain", "domain"), ("cpu", "CPU")):
                    before = target["legendFormat"].split(f"{{{{{label}}}}}")[:-1]
                    self.assertTrue(all(one.endswith(f"{word} ") for one in before), panel["title"])

    def test_annotations_name_what_exists(self) -> None:
        """Their queries and texts name metrics and labels of these metrics."""
        known = {metric.name: metric for metric in metrics.METRICS}
        for one in self.dashboard["annotations"]["list"]:
            labels = set(re.findall(r"{{(\w+)}}", one["titleFormat"] + one["textFormat"]))
            for name in self.metrics_in(one["expr"]):
                self.assertLessEqual(labels, {*known[name].labels, *TARGET})

    def test_variables_are_defined(self) -> None:
        """Each variable that a query uses can be chosen at the top."""
        defined = {variable["name"] for variable in self.dashboard["templating"]["list"]}
        used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(self.panels)))
        self.assertEqual(defined, used)
        for variable in self.dashboard["templating"]["list"]:
            self.assertLessEqual(
                self.metrics_in(variable["query"]["query"])
                if variable["type"] == "query"
                else set(),
                {metric.name for metric in metrics.METRICS},
            )


class NightTest(unittest.TestCase):
    """What an operator looks for at night on one host."""

    def test_host(self) -> None:
        """The dashboard of a host has each of these, and decisions as marks."""
        text = (ETC / "grafana-dashboard.json").read_text()
        for name in (
            "pmd_busy_ratio", "pmd_cycles_per_packet", "switch_drops_per_second",
            "memory_bytes_per_second", "tenant_memory_bytes_per_second",
            "tenant_llc_occupancy_bytes", "tenant_held_ways", "masks_moved_total",
        ):  # fmt: skip
            self.assertIn(f"iat_nova_{name}{{", text)
        dashboard = json.loads(text)
        self.assertIn("iat_nova_steps_total", dashboard["annotations"]["list"][0]["expr"])
        of_guests = [
            target["expr"]
            for panel in dashboard["panels"]
            for target in panel.get("targets", ())
            if "iat_nova_tenant_" in target["expr"]
        ]
        self.assertGreater(len(of_guests), 8)
        self.assertEqual([], [one for one in of_guests if 'name=~"$guest"' not in one])


class FleetTest(DashboardTest):
    """The fleet's dashboard."""

    name = "grafana-fleet.json"

    def test_no_panel_is_of_tenants(self) -> None:
        """With many hosts each panel shows sums, or as many hosts as were chosen."""
        for panel in self.panels:
            for target in panel.get("targets", ()):
                self.assertNotRegex(target["expr"], "iat_nova_tenant_|tenant=|name=")
                if "instance" in target["legendFormat"] or target.get("format") == "table":
                    self.assertIn("topk($top, ", target["expr"], panel["title"])

    def test_links_lead_to_the_other_dashboard(self) -> None:
        """From a host of the fleet to its own."""
        host = json.loads((ETC / "grafana-dashboard.json").read_text())["uid"]
        links = re.findall(r"/d/([\w-]+)\?", json.dumps(self.panels))
        self.assertEqual({host}, set(links))


class RulesTest(unittest.TestCase):
    """Alerts and recorded series."""

    def metrics_in(self, text: str) -> set[str]:
        return set(re.findall(r"(?<![\w:\"-])(?:\w+:)?iat_nova_[\w:]+", text))

    def test_they_name_metrics_that_exist(self) -> None:
        """A renamed metric would silence its alert."""
        known = {metric.name for metric in metrics.METRICS}
        for name, expr in recorded().items():
            self.assertLessEqual(self.metrics_in(expr), {*known, *recorded()}, name)
        for rule in alerts():
            self.assertLessEqual(self.metrics_in(rule["expr"]), {*known, *recorded()})
            self.assertEqual({"summary", "description", "runbook_url"}, set(rule["annotations"]))

    def test_pages_name_what_exists(self) -> None:
        """Who copies a query at night finds something; so do a role's variables."""
        known = {metric.name for metric in metrics.METRICS} | set(recorded())
        role = ROLE.joinpath("defaults/main.yaml").read_text(encoding="utf-8")
        known |= {*yaml.safe_load(role), "iat_nova_serial"}
        for page in ("alerts", "rollout", "metrics"):
            text = (pages.SOURCE / "operator" / f"{page}.rst").read_text(encoding="utf-8")
            names = self.metrics_in(re.sub(r"iat_nova_tenant_\.\*\w+", "", text))
            self.assertLessEqual({name.rstrip(":") for name in names}, known)

    def test_every_alert_has_its_section(self) -> None:
        """What to do is on the page that the alert's link leads to, and begins with a command."""
        page = (pages.SOURCE / "operator" / "alerts.rst").read_text(encoding="utf-8")
        sections = set(re.findall(r"^(IatNova\w+)\n=+$", page, re.MULTILINE))
        self.assertEqual(sections, {rule["alert"] for rule in alerts()})
        begun = r"^(IatNova\w+)\n=+\n\n\.\. code-block:: console\n\n   [#$] \w"
        self.assertEqual(sections, set(re.findall(begun, page, re.MULTILINE)))
        for rule in alerts():
            url = rule["annotations"]["runbook_url"]
            self.assertTrue(url.endswith(f"/operator/alerts.html#{rule['alert'].lower()}"), url)

    def test_shares_of_cycles_that_the_metric_can_show(self) -> None:
        """No page names a larger share of stalled cycles than the metric ever has."""
        page = (pages.SOURCE / "operator" / "alerts.rst").read_text(encoding="utf-8")
        shares = [int(one) for one in re.findall(r"(\d+) % of (?:the|its) cycles", page)]
        self.assertTrue(shares)
        self.assertLessEqual(max(shares), round(100 * MOST_STALLED))
        (helped,) = (one for one in metrics.METRICS if one.name == "iat_nova_tenant_stalled_ratio")
        self.assertIn(f"0 to {MOST_STALLED:g};", helped.help)
