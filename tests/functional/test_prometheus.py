# SPDX-License-Identifier: Apache-2.0
"""The files for Prometheus and Grafana, held against Prometheus' own tool; metrics of an agent."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import yaml
from prometheus_client import exposition
from prometheus_client.parser import text_string_to_metric_families

from iat_nova.model.reasons import Code, Reason
from iat_nova.report import exporter, metrics
from iat_nova.report.observed import Observer
from tests.functional import test_agent
from tests.functional.daemons import short_folder
from tests.unit import stories

ETC = pathlib.Path(__file__).parents[2] / "etc/iat-nova"
HOST = 'instance="c1"'
LOOP = f'{HOST},domain="0"'


def reason(code: Code) -> str:
    """Return the series of a reason's code."""
    return f'iat_nova_reason{{{HOST},code="{code}"}}'


# Name: for how long it must hold, the series while it does, and when nothing is wrong.
ALERTS = {
    "IatNovaDown": (6, {'up{job="iat-nova",instance="c1"}': ("0x300", "1x300")}),
    "IatNovaStalled": (
        12,
        {
            f"iat_nova_last_iteration_time_seconds{{{LOOP}}}": ("1x300", "0+60x300"),
            f"iat_nova_interval_seconds{{{HOST}}}": ("1x300", "1x300"),
            f"iat_nova_paused{{{HOST}}}": ("0x300", "0x300"),
        },
    ),
    "IatNovaDegraded": (12, {f"iat_nova_degraded{{{HOST}}}": ("2x300", "0x300")}),
    "IatNovaInventoryOld": (3, {reason(Code.INVENTORY_OLD): ("1x300", "0x300")}),
    "IatNovaOnlyObserves": (
        16,
        {
            f"iat_nova_enforcing{{{HOST}}}": ("0x300", "0x300"),
            reason(Code.OBSERVE_CONFIGURED): ("0x300", "1x300"),
        },
    ),
    "IatNovaNeedsRestart": (
        2,
        {
            reason(Code.CONFLICTING_CHANGE): ("1x300", "0x300"),
            reason(Code.REFUSED): ("1x300", "1x300"),
        },
    ),
    "IatNovaWriteRefused": (
        3,
        {
            reason(Code.REFUSED): ("1x300", "0x300"),
            reason(Code.OTHER_OWNER): ("1x300", "1x300"),
        },
    ),
    "IatNovaNotRestored": (6, {reason(Code.NOT_RESTORED): ("1x300", "0x300")}),
    "IatNovaPlacementOffer": (16, {reason(Code.PLACEMENT_OFFER): ("1x300", "0x300")}),
    "IatNovaPausedLong": (242, {f"iat_nova_paused{{{HOST}}}": ("1x300", "0x300")}),
    "IatNovaMaskNotEffective": (
        6,
        {
            f"iat_nova_ddio_mask{{{LOOP}}}": ("1024x300", "1536x300"),
            f"iat_nova_ddio_effective_mask{{{LOOP}}}": ("1536x300", "1536x300"),
        },
    ),
    "IatNovaErrors": (
        16,
        {f'iat_nova_events_total{{{HOST},severity="error"}}': ("0+1x300", "1x300")},
    ),
    "IatNovaSlowLoop": (
        25,
        {
            f"iat_nova_loop_seconds_total{{{LOOP}}}": ("0+12x300", "0+0.06x300"),
            f"iat_nova_iterations_total{{{LOOP}}}": ("0+60x300", "0+60x300"),
        },
    ),
}


class PromtoolTest(unittest.TestCase):
    """What ships is what Prometheus accepts."""

    def setUp(self) -> None:
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed (Debian: the package prometheus)")
        self.folder = self.enterContext(short_folder())

    def promtool(self, *arguments: object, text: str | None = None) -> str:
        done = subprocess.run(
            ["promtool", *map(str, arguments)],
            check=False,
            input=text,
            capture_output=True,
            text=True,
        )
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_rules_and_scrape(self) -> None:
        """The alert rules and the example configuration are accepted as they are."""
        self.promtool("check", "rules", "--lint-fatal", ETC / "alerts.yaml")
        self.promtool("check", "config", ETC / "prometheus-scrape.yaml")

    def test_every_alert_fires_when_it_should_and_only_then(self) -> None:
        """Each rule meets the trouble it is for, and the same series without trouble."""
        rules = yaml.safe_load((ETC / "alerts.yaml").read_text())["groups"][0]["rules"]
        self.assertEqual({rule["alert"] for rule in rules}, set(ALERTS))
        cases = []
        for rule in rules:
            minutes, series = ALERTS[rule["alert"]]
            for healthy in (False, True):
                cases.append(
                    {
                        "name": f"{rule['alert']}, healthy: {healthy}",
                        "interval": "1m",
                        "input_series": [
                            {"series": name, "values": values[healthy]}
                            for name, values in series.items()
                        ],
                        # one when it fires, none when not: texts are not compared
                        "promql_expr_test": [
                            {
                                "expr": 'count(ALERTS{alertstate="firing",'
                                f'alertname="{rule["alert"]}"}}) or vector(0)',
                                "eval_time": f"{minutes}m",
                                "exp_samples": [{"labels": "{}", "value": 0 if healthy else 1}],
                            }
                        ],
                    }
                )
        tests = self.folder / "tests.yaml"
        tests.write_text(yaml.safe_dump({"rule_files": [str(ETC / "alerts.yaml")], "tests": cases}))
        self.promtool("test", "rules", tests)

    def test_a_pause_is_no_stall(self) -> None:
        """While an operator holds the masks there are no iterations, and no alarm."""
        case = {
            "interval": "1m",
            "input_series": [
                {"series": f"iat_nova_last_iteration_time_seconds{{{LOOP}}}", "values": "1x60"},
                {"series": f"iat_nova_interval_seconds{{{HOST}}}", "values": "1x60"},
                {"series": f"iat_nova_paused{{{HOST}}}", "values": "1x60"},
            ],
            "alert_rule_test": [
                {"eval_time": "30m", "alertname": "IatNovaStalled", "exp_alerts": []}
            ],
        }
        tests = self.folder / "tests.yaml"
        tests.write_text(
            yaml.safe_dump({"rule_files": [str(ETC / "alerts.yaml")], "tests": [case]})
        )
        self.promtool("test", "rules", tests)

    def test_metrics_keep_the_conventions(self) -> None:
        """Prometheus' linter has nothing to say of what the agent serves."""
        seen = Observer()
        seen.status(
            stories.status(reasons=(Reason("refused", "so"),), problems=(Reason("source", "a"),))
        )
        seen.inventory({0: stories.inventory('a "name"\nwith\\all')})
        seen.iteration(stories.burst(1, stories.NIGHT))
        text = exposition.generate_latest(exporter.registry(seen)).decode()
        self.assertEqual("", self.promtool("check", "metrics", text=text))

    def test_the_dashboard_asks_what_prometheus_understands(self) -> None:
        """Every query of the dashboard parses once Grafana has filled in its variables."""
        dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
        queries = [
            target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
        ]
        self.assertGreater(len(queries), 12)
        variables = {"$__rate_interval": "1m", "$instance": "c1:9742", "$domain": "0|1"}
        rules = []
        for number, query in enumerate(queries):
            text = re.sub(r"\$\w+", lambda found: variables[found[0]], query)
            rules.append({"record": f"panel:query:{number}", "expr": text})
        path = self.folder / "queries.yaml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
        self.promtool("check", "rules", path)


class ScrapeTest(test_agent.HostCase):
    """A real agent, scraped while it works."""

    start, end = test_agent.AgentTest.start, test_agent.AgentTest.end

    def test_an_agent_is_scraped(self) -> None:
        """The guests that run are there under their names, and no metric is undocumented."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        agent = self.start(self.configure(metrics_port=port))
        found = self.scrape_until(port, "iat_nova_tenant_ways")
        self.assertLessEqual(set(found), {metric.name for metric in metrics.METRICS})
        names = {sample.labels["name"] for sample in found["iat_nova_tenant_ways"]}
        dedicated = {guest.name for guest in self.guests if guest.cpus}
        self.assertLessEqual(dedicated, names)
        (ddio,) = found["iat_nova_ddio_ways"]
        self.assertEqual("0", ddio.labels["domain"])
        self.assertGreaterEqual(ddio.value, 2)
        self.end(agent)

    def scrape_until(self, port: int, name: str):
        deadline = time.monotonic() + test_agent.DEADLINE_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as got:
                    text = got.read().decode()
            except urllib.error.URLError:
                text = ""
            found = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, []).append(sample)
            if name in found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{name} was not served within {test_agent.DEADLINE_S:.0f} s")
