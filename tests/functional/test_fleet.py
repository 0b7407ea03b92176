# SPDX-License-Identifier: Apache-2.0
"""500 hosts in a real Prometheus: rules, the dashboard's queries and documented joins answer."""

import contextlib
import dataclasses
import datetime
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml
from prometheus_client import exposition

from iat_nova.model import DDIO, verbatim
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import exporter
from iat_nova.store.observed import Observer
from iat_nova.store.records import Placement
from tests.functional.daemons import short_folder
from tests.unit import stories

ROOT = pathlib.Path(__file__).parents[2]
ETC = ROOT / "etc/iat-nova"
HOSTS = 500
DEADLINE_S = 60.0  # for a busy machine: an idle one needs five
TRAITS = ("CUSTOM_IAT",)
VARIABLES = {
    "$availability_zone": ".*", "$aggregate": ".*", "$top": "10", "$__range": "5m",
}  # fmt: skip

# Which hosts are not as all others are.
DOWN = range(40, 50)
OBSERVE = range(100, 120)
REFUSED = range(120, 150)
UNREAD = range(150, 155)
OFFER = range(155, 158)
FEW_WAYS = range(160, 162)
WARNED = (80, 82)  # hosts whose guests have warnings of their own
STALLED = (200,)
NEWER = range(450, 500)


def group(number):
    """Return a host's availability zone and aggregate."""
    return f"az{number % 2 + 1}", "pilot" if number < 50 else "rest"


def misses(number):
    """Return a host's DDIO misses a second."""
    return 1000.0 * number


def told(number, now_s):
    """Return what the agent of a host serves."""
    status = stories.status(placement=Placement(4, TRAITS, 4, TRAITS))
    changes = {}
    if number in OBSERVE:
        reasons = (Reason(Code.OBSERVE_CONFIGURED, verbatim("mode = observe")),)
        changes = {"mode": "observe", "reasons": reasons, "placement": Placement(0, ())}
    elif number in REFUSED:
        problem = Reason(Code.REFUSED, verbatim("a write was refused"))
        changes = {"mode": "observe", "reasons": (problem,), "problems": (problem,)}
    elif number in UNREAD:
        changes = {"problems": (Reason(Code.POLICY_UNREAD, verbatim("not the policy that runs")),)}
    elif number in OFFER:
        problem = Reason(Code.PLACEMENT_OFFER, verbatim("offers 6 ways"))
        changes = {"problems": (problem,), "placement": Placement(4, TRAITS, 6, TRAITS)}
    version = "1.1" if number in NEWER else "1.0"
    seen = Observer()
    seen.status(dataclasses.replace(status, version=version, **changes))
    inventory = stories.inventory()
    if number not in WARNED:
        tenants = tuple(dataclasses.replace(one, warnings=()) for one in inventory.tenants)
        inventory = dataclasses.replace(inventory, tenants=tenants)
    if number in FEW_WAYS:
        tenants = tuple(
            dataclasses.replace(one, ways=dataclasses.replace(one.ways, min=9))
            if one.priority == "PC"
            else one
            for one in inventory.tenants
        )
        inventory = dataclasses.replace(inventory, tenants=tenants)
    seen.inventory({0: inventory})
    burst = stories.burst(1, now_s - (300 if number in STALLED else 0))
    sample = dataclasses.replace(
        burst.sample, ddio_misses_per_s=misses(number), ddio_hits_per_s=misses(number)
    )
    effective = {**burst.effective, DDIO: burst.decision.layout.ddio}
    seen.iteration(dataclasses.replace(burst, sample=sample, effective=effective))
    text = exposition.generate_latest(exporter.registry(seen)).decode()
    return text.replace(stories.PC.partition("/")[0], guest(number)).encode()


def guest(number):
    """Return the UUID of a host's performance-critical guest."""
    return f"6f9619ff-8b86-d011-b42d-{number:012x}"


def nova():
    """Return what openstack-exporter serves of the hosts' guests and vCPUs."""
    for number in range(HOSTS):
        zone, aggregate = group(number)
        host = f'hostname="compute-{number}"'
        yield (
            f'openstack_nova_vcpus_used{{aggregates="{aggregate}",availability_zone="{zone}",'
            f"{host}}} 10"
        )
        yield (
            f'openstack_nova_server_status{{uuid="{guest(number)}",status="ACTIVE",'
            f'tenant_id="project-{number % 4}",hypervisor_hostname="compute-{number}"}} 0'
        )


class Exports:
    """Serves what the agents would, each below its number."""

    def __init__(self):
        now_s = time.time()
        texts = {f"/{number}": told(number, now_s) for number in range(HOSTS) if number not in DOWN}
        texts["/openstack"] = ("\n".join(nova()) + "\n").encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = texts.get(self.path)
                self.send_response(503 if text is None else 200)
                self.send_header("Content-Type", exposition.CONTENT_TYPE_LATEST)
                self.end_headers()
                self.wfile.write(text or b"")

            def log_message(self, *arguments):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = HOSTS

            def handle_error(self, *arguments):
                """Prometheus went away, or had waited for too long: it comes again."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def target(self, path, **labels):
        """Return a target of Prometheus' configuration."""
        address = f"127.0.0.1:{self.server.server_port}"
        return {"targets": [address], "labels": {"__metrics_path__": path, **labels}}

    def close(self):
        """Serve no more."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def configuration(exports):
    """Return Prometheus' configuration: our rules, and the hosts with the labels they sum by."""
    hosts = []
    for number in range(HOSTS):
        zone, aggregate = group(number)
        name = f"compute-{number}"
        labels = {"instance": name, "hypervisor": name}
        labels |= {"availability_zone": zone, "aggregate": aggregate}
        hosts.append(exports.target(f"/{number}", **labels))
    return {
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(ETC / "recording-rules.yaml"), str(ETC / "alerts.yaml")],
        "scrape_configs": [
            {"job_name": "iat-nova", "static_configs": hosts},
            {"job_name": "openstack", "static_configs": [exports.target("/openstack")]},
        ],
    }


def joins():
    """Return the queries that the page of the metrics has below Joins."""
    page = (ROOT / "doc/source/operator/metrics.rst").read_text(encoding="utf-8")
    section = page[page.index("\nJoins\n") : page.index("\nHow many series\n")]
    blocks = re.findall(r"code-block:: text\n\n((?:   .*\n|\n)+)", section)
    return [" ".join(block.split()) for block in blocks]


@unittest.skipIf(shutil.which("prometheus") is None, "prometheus is not installed")
class FleetTest(unittest.TestCase):
    """Prometheus scrapes the hosts once for all tests, which ask of one moment: `at_s`."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(short_folder())
        exports = Exports()
        cls.enterClassContext(contextlib.closing(exports))
        config = folder / "prometheus.yaml"
        config.write_text(yaml.safe_dump(configuration(exports)))
        with socket.create_server(("127.0.0.1", 0)) as free:
            cls.port = free.getsockname()[1]
        log = cls.enterClassContext((folder / "log").open("w"))
        prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{cls.port}",
                "--log.level=warn",
            ],
            stdout=log,
            stderr=log,
        )
        cls.addClassCleanup(prometheus.wait)
        cls.addClassCleanup(prometheus.kill)
        deadline = time.monotonic() + DEADLINE_S
        cls.scraped = None
        while not cls.ready():
            if time.monotonic() > deadline or prometheus.poll() is not None:
                raise AssertionError((folder / "log").read_text())
            time.sleep(0.1)

    @classmethod
    def ready(cls):
        """Whether every host was scraped, and every group of rules evaluated since."""
        cls.at_s = time.time()
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            served = HOSTS - len(DOWN)
            found = all(
                cls.value(query) == expected
                for query, expected in (
                    ('count(up{job="iat-nova"})', HOSTS),
                    ("sum(fleet:iat_nova_hosts:count)", served),
                    ("sum(fleet:iat_nova_hosts_down:sum)", len(DOWN)),
                    ("sum(fleet:iat_nova_ddio_misses_per_second:sum)", sum(map(misses, UP))),
                    ("sum(fleet:iat_nova_pc_below_ways:sum)", len(FEW_WAYS)),
                    ('count(ALERTS{alertname="IatNovaDown"})', len(DOWN)),
                    ('count(ALERTS{alertname="IatNovaPcBelowWays"})', len(FEW_WAYS)),
                    ('count(ALERTS{alertname="IatNovaManyOnlyObserve"})', 2),
                    ("count(openstack_nova_vcpus_used)", HOSTS),
                )
            )
            # An alert of which no host is told yet may have been evaluated before the last scrape.
            if found and cls.scraped is None:
                cls.scraped = datetime.datetime.fromtimestamp(cls.at_s, datetime.UTC)
            groups = cls.ask("rules")["groups"] if found else ()
            ends = [datetime.datetime.fromisoformat(one["lastEvaluation"]) for one in groups]
            return found and all(end > cls.scraped for end in ends)
        return False

    @classmethod
    def ask(cls, path, **arguments):
        """Return the data of an answer of Prometheus' API."""
        url = f"http://127.0.0.1:{cls.port}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.SERVICE_UNAVAILABLE:  # it starts
                raise
            raise AssertionError(f"{arguments}: {error.read().decode()}") from error

    @classmethod
    def series(cls, query):
        """Return the labels and the value of each series that a query finds."""
        found = cls.ask("query", query=query, time=cls.at_s)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    @classmethod
    def value(cls, query):
        """Return the one value of a query; None where it has not one."""
        found = cls.series(query)
        return found[0][1] if len(found) == 1 else None

    def panels(self):
        return json.loads((ETC / "grafana-fleet.json").read_text())["panels"]

    def found(self, target):
        """Return what a panel shows of a query: label sets with the last value."""
        query = re.sub(r"\$\w+", lambda name: VARIABLES[name[0]], target["expr"])
        if target["instant"]:
            return self.series(query)
        times = {"start": self.at_s - 30, "end": self.at_s, "step": 1}
        found = self.ask("query_range", query=query, **times)["result"]
        return [(one["metric"], float(one["values"][-1][1])) for one in found]

    def by(self, title, *labels):
        """Return a panel's values by labels; of one label no tuple is made."""
        (panel,) = (one for one in self.panels() if one["title"] == title)
        found = {}
        for target in panel["targets"]:
            for metric, value in self.found(target):
                key = tuple(metric.get(label, "") for label in labels)
                found[key if len(key) != 1 else key[0]] = value
        return found

    def test_every_panel_answers(self):
        """No panel is empty, none has more series than it can show, and legends have words."""
        for panel in self.panels():
            for target in panel.get("targets", ()):
                with self.subTest(panel["title"]):
                    found = self.found(target)
                    self.assertTrue(found)
                    self.assertLessEqual(len(found), 10)
                    for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                        self.assertTrue(all(metric.get(label) for metric, _ in found))

    def test_the_fleet_in_six_numbers(self):
        """Counted from the hosts' kinds."""
        expected = {
            "Hosts": HOSTS,
            "Enforcing": HOSTS - len(DOWN) - len(OBSERVE) - len(REFUSED),
            "Down": len(DOWN),
            "Kept from enforcing": len(REFUSED),
            "Drifting": len(UNREAD) + len(OFFER),
        }
        for title, number in expected.items():
            self.assertEqual({(): number}, self.by(title), title)
        below = self.stat_and_bars("PC guests below their ways")
        self.assertEqual([{(): 2.0}, {f"compute-{n}": 1.0 for n in FEW_WAYS}], below)

    def stat_and_bars(self, title):
        """Return what each of two panels of one title shows, by host where it has hosts."""
        shown = []
        for panel in self.panels():
            if panel["title"] == title:
                (target,) = panel["targets"]
                found = self.found(target)
                shown.append({m.get("instance", ()): value for m, value in found})
        return shown

    def test_reasons_and_drift(self):
        """By code, and the hosts themselves: those that should enforce come first."""
        self.assertEqual(
            {"observe-configured": 20, "refused": 30}, self.by("Only observing, by reason", "code")
        )
        self.assertEqual(
            {"policy-unread": 5, "placement-offer": 3}, self.by("Drift, by kind", "code")
        )
        hosts = self.by("Hosts that only observe", "instance", "code", "mode")
        self.assertLessEqual(set(hosts), {(f"compute-{n}", "refused", "enforce") for n in REFUSED})
        self.assertEqual(10, len(hosts))
        hosts = self.by("Hosts that drift", "instance")
        self.assertEqual({f"compute-{n}" for n in (*UNREAD, *OFFER)}, set(hosts))

    def test_the_hosts_with_the_most(self):
        """The ten with the most misses, and the one that no longer decides."""
        expected = {f"compute-{n}": misses(n) for n in range(HOSTS - 10, HOSTS)}
        self.assertEqual(expected, self.by("DDIO misses", "instance"))
        self.assertEqual({0.5}, set(self.by("DDIO miss ratio", "instance").values()))
        ages = self.by("Age of the latest iteration", "instance")
        self.assertGreater(ages["compute-200"], 300)
        self.assertEqual(1, sum(age > 299 for age in ages.values()))

    def test_sums_by_zone_and_aggregate(self):
        """Each group's own, and what all offer to Placement."""
        expected = {}
        for number in UP:
            expected[group(number)] = expected.get(group(number), 0) + misses(number)
        found = self.by("DDIO misses, all hosts", "availability_zone", "aggregate")
        self.assertEqual(expected, found)
        self.assertEqual(
            {"1.0": HOSTS - len(DOWN) - len(NEWER), "1.1": len(NEWER)},
            self.by("Versions", "version"),
        )
        self.assertEqual(
            {("iat", "enforce"): 470, ("iat", "observe"): 20},
            self.by("Strategies and modes", "strategy", "mode"),
        )
        panel = next(one for one in self.panels() if one["title"].startswith("Ways offered"))
        offered, could = (self.found(target)[0][1] for target in panel["targets"])
        self.assertEqual((470 * 4 + 2 * len(OFFER), 470 * 4), (offered, could))

    def test_alerts_that_are_due(self):
        """Those whose trouble is there wait for their time, and no others."""
        waiting = {}
        for metric, _ in self.series('ALERTS{alertname=~"IatNova.*"}'):
            waiting.setdefault(metric["alertname"], set()).add(metric.get("instance"))
        names = {
            "IatNovaDown": DOWN,
            "IatNovaDegraded": (*REFUSED, *UNREAD, *OFFER),
            "IatNovaOnlyObserves": REFUSED,
            "IatNovaWriteRefused": REFUSED,
            "IatNovaDrift": UNREAD,
            "IatNovaPlacementOffer": OFFER,
            "IatNovaPcBelowWays": FEW_WAYS,
            "IatNovaGuestWarnings": WARNED,
            "IatNovaStalled": STALLED,
        }
        expected = {name: {f"compute-{n}" for n in hosts} for name, hosts in names.items()}
        names = ("IatNovaManyDown", "IatNovaManyOnlyObserve", "IatNovaVersions")
        fleet = {name: {None} for name in names}
        self.assertEqual({**expected, **fleet}, waiting)
        groups = {
            (metric["alertname"], metric["availability_zone"], metric["aggregate"])
            for metric, _ in self.series('ALERTS{alertname=~"IatNovaMany.*"}')
        }
        zones = ("az1", "az2")
        expected = {("IatNovaManyDown", zone, "pilot") for zone in zones}
        expected |= {("IatNovaManyOnlyObserve", zone, "rest") for zone in zones}
        self.assertEqual(expected, groups)

    def test_documented_joins(self):
        """The page's queries find projects and aggregates of Nova, of all hosts that answer."""
        by_project, by_vcpus, by_aggregate = joins()
        projects = {metric["tenant_id"] for metric, value in self.series(by_project) if value > 0}
        self.assertEqual({f"project-{n}" for n in range(4)}, projects)
        found = {metric["hypervisor"]: value for metric, value in self.series(by_vcpus)}
        self.assertEqual({f"compute-{n}": misses(n) / 10 for n in UP}, found)
        found = {metric["aggregates"]: value for metric, value in self.series(by_aggregate)}
        expected = {
            name: sum(misses(n) for n in UP if group(n)[1] == name) for name in ("pilot", "rest")
        }
        self.assertEqual(expected, found)


UP = [number for number in range(HOSTS) if number not in DOWN]
"""Those that answer."""
