# SPDX-License-Identifier: Apache-2.0
"""The files for Prometheus and Grafana, held against Prometheus' own tool; metrics of an agent."""

import dataclasses
import json
import logging
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request
from unittest import mock

import yaml
from prometheus_client import exposition
from prometheus_client.parser import text_string_to_metric_families

from iat_nova.model import verbatim
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import exporter, metrics, metrics_server
from iat_nova.store.observed import Observer
from tests.functional import test_agent
from tests.functional.daemons import short_folder
from tests.unit import stories

ETC = pathlib.Path(__file__).parents[2] / "etc/iat-nova"
RULES = (ETC / "recording-rules.yaml", ETC / "alerts.yaml")
DASHBOARDS = ("grafana-dashboard.json", "grafana-fleet.json")
HOST = 'instance="c1"'
LOOP = f'{HOST},domain="0"'
WEB, DB = 'tenant="1",name="web"', 'tenant="3",name="db"'


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
    "IatNovaDrift": (
        16,
        {
            f'iat_nova_reason{{{HOST},about="drift",code="policy-unread"}}': ("1x300", "0x300"),
            f'iat_nova_reason{{{HOST},about="drift",code="placement-offer"}}': ("1x300", "1x300"),
        },
    ),
    "IatNovaPcBelowWays": (
        7,
        {
            f'iat_nova_tenants_below_ways{{{LOOP},priority="PC"}}': ("1x300", "0x300"),
            f'iat_nova_tenants_below_ways{{{LOOP},priority="BE"}}': ("1x300", "1x300"),
            f"iat_nova_enforcing{{{HOST}}}": ("1x300", "1x300"),
        },
    ),
    "IatNovaLatePackets": (
        22,
        {
            f"iat_nova_tenant_stalled_ratio{{{LOOP},{WEB}}}": ("0.6x300", "0.6x300"),
            f'iat_nova_tenant_info{{{LOOP},{WEB},priority="PC",io="true"}}': ("1x300", "1x300"),
            f"iat_nova_ddio_misses_per_second{{{LOOP}}}": ("68e6x300", "6e5x300"),
            # without I/O: misses stall it for another reason
            f"iat_nova_tenant_stalled_ratio{{{LOOP},{DB}}}": ("0.6x300", "0.6x300"),
            f'iat_nova_tenant_info{{{LOOP},{DB},priority="PC",io="false"}}': ("1x300", "1x300"),
        },
    ),
    "IatNovaSwitchDrops": (
        17,
        {
            f"iat_nova_switch_drops_per_second{{{HOST}}}": ("2500x300", "1500x300"),
            f'iat_nova_pmd_packets_per_second{{{HOST},cpu="2"}}': ("1e6x300", "1e6x300"),
            f'iat_nova_pmd_packets_per_second{{{HOST},cpu="3"}}': ("1e6x300", "1e6x300"),
        },
    ),
    # hours: nine days as ever, then slower, with misses or because of another program
    "IatNovaGuestSlow": (
        60 * (9 * 24 + 3),
        {
            f"iat_nova_tenant_instructions_per_second{{{LOOP},{DB}}}": ("2e9x216 1e9x20",) * 2,
            f"iat_nova_tenant_cycles_per_second{{{LOOP},{DB}}}": ("2e9x240", "2e9x240"),
            f"iat_nova_tenant_stalled_ratio{{{LOOP},{DB}}}": ("0.1x216 0.4x20", "0.1x240"),
            f'iat_nova_tenant_info{{{LOOP},{DB},priority="PC",io="false"}}': ("1x240", "1x240"),
        },
    ),
    # three hosts in trouble, or two: not more than two, whatever part of the group they are
    "IatNovaManyDown": (
        7,
        {
            f'up{{job="iat-nova",aggregate="pilot",instance="c{n}"}}': (
                "0x300",
                f"{int(n > 2)}x300",
            )
            for n in range(1, 4)
        },
    ),
    "IatNovaManyOnlyObserve": (
        12,
        {
            f'{name}{{aggregate="pilot",instance="c{n}"{more}}}': values
            for n in range(1, 4)
            for name, more, values in (
                ("iat_nova_enforcing", "", ("0x300", f"{int(n > 2)}x300")),
                ("iat_nova_agent_info", ',mode="enforce",version="1"', ("1x300", "1x300")),
            )
        },
    ),
    "IatNovaVersions": (
        7 * 1440 + 60,
        {
            'iat_nova_agent_info{instance="c1",version="1"}': ("1x300", "1x300"),
            'iat_nova_agent_info{instance="c2",version="2"}': ("1x300", "1x3"),
        },
    ),
    "IatNovaGuestWarnings": (
        17,
        {f'iat_nova_tenants_with_warnings{{{HOST},code="extra-spec-unknown"}}': ("2x300", "0x300")},
    ),
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
        self.promtool("check", "rules", "--lint-fatal", *RULES)
        self.promtool("check", "config", ETC / "prometheus-scrape.yaml")

    def test_every_alert_fires_when_it_should_and_only_then(self) -> None:
        """Each rule meets the trouble it is for, and the same series without trouble."""
        groups = yaml.safe_load((ETC / "alerts.yaml").read_text())["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertEqual({rule["alert"] for rule in rules}, set(ALERTS))
        for rule in rules:
            minutes, series = ALERTS[rule["alert"]]
            step = "1h" if minutes > 1440 else "1m"
            cases = [
                {
                    "name": f"{rule['alert']}, healthy: {healthy}",
                    "interval": step,
                    "input_series": [
                        {"series": name, "values": values[healthy]}
                        for name, values in series.items()
                    ],
                    # one when it fires, none when not: texts are not compared
                    "promql_expr_test": [
                        {
                            "expr": 'count(ALERTS{alertstate="firing",'
                            f'alertname="{rule["alert"]}"}}) > bool 0 or vector(0)',
                            "eval_time": f"{minutes}m",
                            "exp_samples": [{"labels": "{}", "value": 0 if healthy else 1}],
                        }
                    ],
                }
                for healthy in (False, True)
            ]
            self.evaluate(cases, step)

    def evaluate(self, cases, step="1m") -> None:
        """Have promtool evaluate our rules at each step, and hold what it finds against `cases`."""
        tests = self.folder / "tests.yaml"
        # Without an order promtool takes groups at random, and alerts may see series a step late.
        groups = [yaml.safe_load(file.read_text())["groups"] for file in RULES]
        rules = {
            "rule_files": list(map(str, RULES)),
            "evaluation_interval": step,
            "group_eval_order": [group["name"] for of_file in groups for group in of_file],
        }
        tests.write_text(yaml.safe_dump({**rules, "tests": cases}))
        self.promtool("test", "rules", tests)

    def test_recorded_series(self) -> None:
        """Sums are by zone and aggregate, and over all hosts where the targets have neither."""
        for labels in ('availability_zone="a",aggregate="g",', ""):
            series = {}
            for n, (misses, hits, up) in enumerate(((10, 30, 1), (20, 0, 1), (0, 0, 0))):
                host = f'{{{labels}instance="c{n}"'
                for domain in (0, 1):
                    series[f'iat_nova_ddio_misses_per_second{host},domain="{domain}"}}'] = misses
                    series[f'iat_nova_ddio_hits_per_second{host},domain="{domain}"}}'] = hits
                    age = f'iat_nova_last_iteration_time_seconds{host},domain="{domain}"}}'
                    series[age] = 60 * domain
                    series[f'iat_nova_tenants{host},domain="{domain}",priority="PC"}}'] = 2
                series[f"iat_nova_enforcing{host}}}"] = up
                series[f"iat_nova_degraded{host}}}"] = 3 * (1 - up)
                mode = "enforce" if n else "observe"
                series[f'iat_nova_agent_info{host},mode="{mode}",version="1"}}'] = 1
                series[f"iat_nova_placement_able_ways{host}}}"] = 4
                series[f'up{host},job="iat-nova"}}'] = up
            self.recorded(
                [{"series": name, "values": f"{value}x10"} for name, value in series.items()],
                {
                    "instance:iat_nova_ddio_misses_per_second:sum": [20, 40, 0],
                    "instance:iat_nova_ddio_misses:ratio": [0.25, 1],
                    "instance:iat_nova_iteration_age_seconds:max": [300] * 3,
                    "fleet:iat_nova_hosts_down:sum": [1],
                    "fleet:iat_nova_hosts:count": [1, 2],
                    "fleet:iat_nova_hosts_enforcing:sum": [2],
                    "fleet:iat_nova_hosts_kept_from_enforcing:sum": [1],
                    "fleet:iat_nova_hosts_degraded:sum": [1],
                    "fleet:iat_nova_ddio_misses_per_second:sum": [60],
                    "fleet:iat_nova_tenants:sum": [12],
                    "fleet:iat_nova_placement_able_ways:sum": [12],
                    "fleet:iat_nova_placement_offered_ways:sum": [],
                },
                ("availability_zone", "aggregate") if labels else (),
            )

    def recorded(self, series, expected, labels) -> None:
        """Hold the values of recorded series against what is expected."""
        checks = []
        for name, values in expected.items():
            asked = [f"count({name}) or vector(0)"]
            wanted = [len(values)]
            for value in sorted(set(values)):
                asked.append(f"count({name} == {value})")
                wanted.append(values.count(value))
            asked += [f'count({name}{{{label}=""}}) or vector(0)' for label in labels]
            wanted += [0] * len(labels)
            checks += [
                {
                    "expr": expr,
                    "eval_time": "5m",
                    "exp_samples": [{"labels": "{}", "value": value}],
                }
                for expr, value in zip(asked, wanted, strict=True)
            ]
        case = {"interval": "1m", "input_series": series, "promql_expr_test": checks}
        self.evaluate([case])

    def test_the_panel_of_warnings(self) -> None:
        """One number a host: the sum over codes, or 0 where the agent serves no such series."""
        panels = json.loads((ETC / "grafana-dashboard.json").read_text())["panels"]
        (panel,) = (one for one in panels if one["title"] == "Guests with warnings")
        query = panel["targets"][0]["expr"].replace("$instance", ".*")
        series = {
            'iat_nova_tenants_with_warnings{instance="c1",job="iat-nova",code="a"}': 2,
            'iat_nova_tenants_with_warnings{instance="c1",job="iat-nova",code="b"}': 1,
            'iat_nova_degraded{instance="c1",job="iat-nova"}': 0,
            'iat_nova_degraded{instance="c2",job="iat-nova"}': 4,
        }
        found = [
            {"labels": f'{{instance="c{n}"}}', "value": count} for n, count in ((1, 3), (2, 0))
        ]
        case = {
            "interval": "1m",
            "input_series": [{"series": name, "values": f"{n}x9"} for name, n in series.items()],
            "promql_expr_test": [{"expr": query, "eval_time": "5m", "exp_samples": found}],
        }
        self.evaluate([case])

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
        self.evaluate([case])

    def test_metrics_keep_the_conventions(self) -> None:
        """Prometheus' linter has nothing to say of what the agent serves."""
        seen = Observer()
        seen.status(
            stories.status(
                reasons=(Reason("refused", verbatim("so")),),
                problems=(Reason("source", verbatim("a")),),
            )
        )
        seen.inventory({0: stories.inventory('a "name"\nwith\\all')})
        seen.iteration(stories.burst(1, stories.NIGHT))
        text = exposition.generate_latest(exporter.registry(seen)).decode()
        self.assertEqual("", self.promtool("check", "metrics", text=text))

    def test_the_dashboard_asks_what_prometheus_understands(self) -> None:
        """Every query of the dashboards parses once Grafana has filled in its variables."""
        panels = [
            panel for name in DASHBOARDS for panel in json.loads((ETC / name).read_text())["panels"]
        ]
        queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
        for name in DASHBOARDS:
            annotations = json.loads((ETC / name).read_text())["annotations"]["list"]
            queries += [one["expr"] for one in annotations]
        self.assertGreater(len(queries), 40)
        variables = {
            "$__rate_interval": "1m", "$instance": "c1:9742", "$domain": "0|1", "$__range": "1h",
            "$guest": "web|db",
            "$availability_zone": ".*", "$aggregate": ".*", "$top": "10",
        }  # fmt: skip
        rules = []
        for number, query in enumerate(queries):
            text = re.sub(r"\$\w+", lambda found: variables[found[0]], query)
            rules.append({"record": f"panel:query:{number}", "expr": text})
        path = self.folder / "queries.yaml"
        path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
        self.promtool("check", "rules", path)


class SlowClientsTest(unittest.TestCase):
    """Scrapes while clients hold connections: silent, a byte at a time, or reading no answer."""

    EACH, UNREAD = 40, 5
    LASTS_S = 5.0

    def setUp(self) -> None:
        self.enterContext(mock.patch.object(metrics_server, "DEADLINE_S", 2.0))
        seen = Observer()
        seen.status(stories.status())
        seen.inventory({0: stories.inventory()})
        # An answer longer than what the kernel keeps for a client that does not read.
        help_text = mock.patch.object(exporter, "METRICS", [
            dataclasses.replace(metric, help=metric.help + " x" * 30_000)
            for metric in metrics.METRICS
        ])  # fmt: skip
        self.enterContext(help_text)
        before = threading.active_count()
        self.logged = self.enterContext(self.assertLogs("iat_nova", logging.WARNING))
        self.port = self.enterContext(exporter.serving("127.0.0.1", 0, seen))
        self.threads = lambda: threading.active_count() - before

    def connect(self) -> socket.socket:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", self.port))
        self.addCleanup(client.close)
        return client

    def scrape(self) -> tuple[float, str]:
        """Return how long a scrape took and what it brought."""
        began_s = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as got:
            text = got.read().decode()
        return time.monotonic() - began_s, text

    def test_every_scrape_is_answered(self) -> None:
        """85 clients a second, for five seconds."""
        whole = b"GET /metrics HTTP/1.1\r\n\r\n"
        dripping: list[tuple[socket.socket, float]] = []
        durations_s, opened, lived_s = [], 0, []
        end_s = time.monotonic() + self.LASTS_S
        next_s = 0.0
        while (now_s := time.monotonic()) < end_s:
            if now_s >= next_s:
                next_s = now_s + 1
                for number in range(self.EACH):
                    self.connect()
                    dripping.append((self.connect(), now_s))
                    if number < self.UNREAD:
                        self.connect().sendall(whole)
                opened += 2 * self.EACH + self.UNREAD
            for client, since_s in list(dripping):
                try:
                    client.sendall(b"G")
                except OSError:
                    dripping.remove((client, since_s))
                    lived_s.append(time.monotonic() - since_s)
            took_s, text = self.scrape()
            durations_s.append(took_s)
            self.assertLessEqual(self.threads(), 1)
        self.assertGreater(len(durations_s), 5)
        self.assertLess(max(durations_s), 2.0, durations_s)
        self.assertGreater(len(lived_s), self.EACH)
        self.assertLess(max(lived_s), 2.0 + 2.0)  # the deadline is looked at each second
        counts = {
            sample.labels["reason"]: sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "iat_nova_metrics_connections_closed_total"
        }
        self.assertGreater(counts["limit"], 0)
        self.assertLessEqual(sum(counts.values()), opened)
        self.assertGreaterEqual(sum(counts.values()), opened - metrics_server.CONNECTIONS)
        self.assertEqual(1, len(self.logged.output))


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

    def test_drift_is_seen_and_ends(self) -> None:
        """A policy that nobody read, and a mode that waits for a restart, until each is mended."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        policy = self.folder / "policy.yaml"
        policy.write_text("parameters: {ddio_ways_max: 6}\n")
        config = self.configure(metrics_port=port, policy_file=policy, reconcile_s=1)
        agent = self.start(config)
        self.drift_until(port, set())
        policy.write_text("parameters: {ddio_ways_max: 5}\n")
        self.drift_until(port, {"policy-unread"})
        written = config.read_text()
        config.write_text(written.replace("mode = enforce", "mode = observe"))
        self.drift_until(port, {"policy-unread", "config-unread"})
        agent.send_signal(signal.SIGHUP)
        self.drift_until(port, {"config-unread"})
        config.write_text(written)
        self.drift_until(port, set())
        self.end(agent)

    def drift_until(self, port: int, codes: set[str]) -> None:
        """Scrape until these codes of drift hold, and no others."""
        deadline = time.monotonic() + test_agent.DEADLINE_S
        while time.monotonic() < deadline:
            found = {
                sample.labels["code"]
                for sample in self.scrape_until(port, "iat_nova_reason")["iat_nova_reason"]
                if sample.labels["about"] == "drift" and sample.value
            }
            if found == codes:
                return
            time.sleep(0.05)
        self.fail(f"{codes} was not served within {test_agent.DEADLINE_S:.0f} s, but {found}")

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
