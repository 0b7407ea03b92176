# SPDX-License-Identifier: Apache-2.0
"""What is served to Prometheus: true, bounded, and whole whatever a tenant calls itself."""

import collections
import dataclasses
import math
import pathlib
import socket
import unittest
import urllib.error
import urllib.request

import yaml
from prometheus_client import exposition
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from iat_nova.model import (
    DDIO,
    DomainInventory,
    PmdThread,
    PortGroup,
    PortRates,
    VirtualSwitch,
    WayMask,
    WayRequest,
    message,
    verbatim,
)
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import exporter, metric_values, metrics
from iat_nova.store.observed import Observer
from iat_nova.store.records import Placement, Shadow, ShadowDomain
from tests.said import raises
from tests.unit import pages, stories

ETC = pathlib.Path(__file__).parents[3] / "etc/iat-nova"
HOSTILE = (
    'quote " brace } comma , equals =',
    "line\nbreak\riat_nova_paused 1",
    "back\\slash\\n",
    "\x1b[2J\u202eevil\u2028",
    "\ud800 lone surrogate",
    "\U0001f600" * 200,
    "",
)


def observer(*iterations, names=("be1",)) -> Observer:
    """An agent with a host of stack, PC and as many BE guests as there are names."""
    seen = Observer()
    seen.status(stories.status())
    seen.looked(stories.NIGHT)
    stack, pc, be = stories.inventory().tenants
    more = [
        dataclasses.replace(be, id=f"0b6b2c1a-4b0e-4c8e-9a51-{number:012x}/4", name=name)
        for number, name in enumerate(names[1:])
    ]
    first = dataclasses.replace(be, name=names[0])
    seen.inventory({0: DomainInventory(stories.DOMAIN, (first, *more, pc, stack))})
    for iteration in iterations:
        seen.iteration(iteration)
    return seen


_FIRST = (1, "low keep", "I/O demand")


class MetricsTest(unittest.TestCase):
    def scrape(self, seen: Observer, form=exposition.generate_latest) -> str:
        return form(exporter.registry(seen)).decode()

    def values(self, seen: Observer) -> dict[tuple[str, frozenset], float]:
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.scrape(seen))
            for sample in family.samples
        }

    def value(self, values, metric: str, **labels: str) -> float:
        wanted = frozenset(labels.items())
        found = [v for (known, has), v in values.items() if known == metric and wanted <= has]
        self.assertEqual(1, len(found), (metric, labels))
        return found[0]

    def test_ports(self) -> None:
        """Ports with ways of their own have a series; tenants share ways with them, too."""
        burst = stories.burst(2, stories.NIGHT)
        ports = (PortGroup(("0000:3b:00.0", "0000:3c:00.0"), WayMask(0x0C0)),)
        layout = dataclasses.replace(burst.decision.layout, ports=ports)
        iteration = dataclasses.replace(
            burst,
            decision=dataclasses.replace(burst.decision, layout=layout),
            effective={**burst.effective, "0000:3b:00.0": WayMask(0x080)},
            sample=dataclasses.replace(burst.sample, ports={"0000:3c:00.0": PortRates(5, None)}),
        )
        got = self.values(observer(iteration))
        for port, ways in (("0000:3b:00.0", 1), ("0000:3c:00.0", 2)):
            self.assertEqual(ways, self.value(got, "iat_nova_port_ways", domain="0", port=port))
        held = self.value(got, "iat_nova_port_occupancy_bytes", domain="0", port="0000:3c:00.0")
        self.assertEqual(5, held)
        self.assertNotIn("iat_nova_port_memory_bytes_per_second", {name for name, _ in got})
        self.assertEqual(2, self.value(got, "iat_nova_tenant_ddio_overlap_ways", name="be1"))
        names = {metric for metric, _ in self.values(observer(burst))}
        self.assertNotIn("iat_nova_port_ways", names)

    def test_what_happened_is_served(self) -> None:
        """Ways, masks, state, totals, rates and loop time are those of the decisions."""
        quiet, burst = stories.quiet(1, stories.NIGHT), stories.burst(2, stories.NIGHT + 1)
        seen = observer(quiet, burst)
        seen.event("error")
        got = self.values(seen)
        expected = [
            ("iat_nova_ddio_ways", {"domain": "0"}, 3),
            ("iat_nova_ddio_mask", {}, 0x700),
            ("iat_nova_llc_ways", {}, 11),
            ("iat_nova_tenant_ways", {"name": "be1"}, 3),
            ("iat_nova_tenant_bandwidth_percent", {"name": "be1"}, 100),
            ("iat_nova_tenant_mask", {"tenant": "stack"}, 0x3),
            ("iat_nova_tenant_effective_mask", {"tenant": stories.PC.partition("/")[0]}, 0x1C),
            ("iat_nova_tenant_ddio_overlap_ways", {"name": "be1"}, 0),
            ("iat_nova_tenant_llc_references_per_second", {"tenant": "stack"}, 21e6),
            ("iat_nova_ddio_misses_per_second", {}, 4.2e6),
            ("iat_nova_state", {"state": "I/O demand"}, 1),
            ("iat_nova_state", {"state": "low keep"}, 0),
            ("iat_nova_transitions_total", {"transition": "1"}, 1),
            ("iat_nova_transitions_total", {"transition": "2"}, 0),
            ("iat_nova_steps_total", {"action": "grow"}, 1),
            ("iat_nova_steps_total", {"action": "refuse"}, 1),
            ("iat_nova_masks_moved_total", {}, 1),
            ("iat_nova_iterations_total", {}, 2),
            ("iat_nova_loop_phase_seconds", {"phase": "read"}, 40.5e-6),
            ("iat_nova_loop_seconds_total", {}, 2 * 52.7e-6),
            ("iat_nova_last_iteration_time_seconds", {}, stories.NIGHT + 1),
            ("iat_nova_events_total", {"severity": "error"}, 1),
            ("iat_nova_last_inventory_time_seconds", {}, stories.NIGHT),
            ("iat_nova_enforcing", {}, 1),
            ("iat_nova_tenants", {"priority": "BE"}, 1),
            ("iat_nova_tenant_stalled_ratio", {"tenant": "stack"}, 1.2e6 * 100 / 4.6e9),
            ("iat_nova_tenant_loss_ratio", {"name": "be1", "bound": "least"}, 0.012),
            ("iat_nova_tenant_loss_ratio", {"tenant": "stack", "bound": "least"}, 0.0),
            (
                "iat_nova_tenant_loss_ratio",
                {"name": "be1", "bound": "most"},
                2.2e6 / 3 * 200 / 4.6e9,
            ),
            ("iat_nova_tenant_llc_ratio", {"name": "be1", "source": "estimated"}, 3 / 11),
            ("iat_nova_exhausted", {}, 1),
            ("iat_nova_outlook", {"outlook": "all-failed"}, 1),
            ("iat_nova_outlook", {"outlook": "searching"}, 0),
            ("iat_nova_newcomer_ways", {"priority": "PC"}, 1.5),
        ]
        for name, labels, value in expected:
            with self.subTest(name=name, labels=labels):
                self.assertAlmostEqual(value, self.value(got, name, **labels), places=9)

    def test_what_enforcing_could_gain(self) -> None:
        """The likely gain of critical guests and its bound, only while nothing is written."""
        name = "iat_nova_enforcing_gain_ratio"
        written = stories.quiet(1, stories.NIGHT)
        self.assertNotIn(name, {one for one, _ in self.values(observer(written))})
        got = self.values(observer(dataclasses.replace(written, effective=None)))
        likely, most = (self.value(got, name, bound=bound) for bound in ("likely", "most"))
        self.assertTrue(0.0 < likely < most, (likely, most))

    def test_what_is_not_known_has_no_sample(self) -> None:
        """Nothing is invented: not before the first iteration, not for absent counters."""
        names = {name for name, _ in self.values(Observer())}
        self.assertEqual(
            {"iat_nova_events_total", "iat_nova_metrics_connections_closed_total"}, names
        )
        quiet = stories.quiet(1, stories.NIGHT)
        blind = dataclasses.replace(
            quiet,
            sample=dataclasses.replace(quiet.sample, tenants={}, ddio_hits_per_s=None),
            effective=None,
        )
        names = {name for name, _ in self.values(observer(blind))}
        self.assertNotIn("iat_nova_tenant_cycles_per_second", names)
        self.assertNotIn("iat_nova_ddio_hits_per_second", names)
        self.assertNotIn("iat_nova_tenant_effective_mask", names)
        self.assertNotIn("iat_nova_tenant_loss_ratio", names)
        self.assertNotIn("iat_nova_newcomer_ways", names)
        self.assertNotIn("iat_nova_exhausted", names)  # its strategy does not say
        self.assertIn("iat_nova_tenant_ways", names)

    def test_a_domain_that_is_offline_has_no_gauges(self) -> None:
        """Its last iteration grows old without being overdue; what was counted stays."""
        seen = observer(stories.burst(2, stories.NIGHT))
        self.assertIn("iat_nova_last_iteration_time_seconds{", self.scrape(seen))
        seen.inventory({})
        text = self.scrape(seen)
        self.assertNotIn("iat_nova_last_iteration_time_seconds{", text)
        self.assertNotIn("iat_nova_ddio_mask{", text)
        self.assertIn('iat_nova_iterations_total{domain="0"} 1.0', text)

    def test_hostile_names_stay_names(self) -> None:
        """A tenant's name can neither break the scrape nor make a metric of its own."""
        known = {metric.name for metric in metrics.METRICS}
        for form in (exposition.generate_latest, openmetrics.generate_latest):
            text = self.scrape(observer(stories.quiet(1, stories.NIGHT), names=HOSTILE), form)
            for line in filter(None, text.splitlines()):
                if not line.startswith("#"):
                    self.assertIn(line.split("{")[0].split(" ")[0], known)
            self.assertNotIn("\x1b", text)
        got = self.values(observer(stories.quiet(1, stories.NIGHT), names=HOSTILE))
        names = [dict(labels)["name"] for name, labels in got if name == "iat_nova_tenant_info"]
        self.assertEqual(len(HOSTILE) + 2, len(names))
        self.assertIn('quote " brace } comma , equals =', names)
        self.assertIn("line\\nbreak\\riat_nova_paused 1", names)
        self.assertLessEqual(max(map(len, names)), metric_values.NAME_MAX)
        self.assertEqual(0, self.value(got, "iat_nova_paused"))

    def test_the_number_of_series_is_bounded(self) -> None:
        """Tenants past the bound are counted, not shown, and those who matter come first."""
        many = [f"be{number}" for number in range(3 * metric_values.TENANTS_MAX)]
        got = self.values(observer(stories.quiet(1, stories.NIGHT), names=many))
        shown = [dict(labels) for name, labels in got if name == "iat_nova_tenant_info"]
        self.assertEqual(metric_values.TENANTS_MAX, len(shown))
        self.assertEqual({"stack", "PC", "BE"}, {labels["priority"] for labels in shown})
        total = len(many) + 2
        self.assertEqual(
            total - metric_values.TENANTS_MAX, self.value(got, "iat_nova_tenants_omitted")
        )
        self.assertLess(len(got), 80 + 11 * metric_values.TENANTS_MAX)

    def test_reasons_are_bounded(self) -> None:
        """A long list of long troubles is cut; how many there are is still known."""
        seen = observer()
        troubles = tuple(
            Reason("source", verbatim(f"trouble {number} " + "x" * 1000)) for number in range(50)
        )
        seen.status(
            stories.status(
                mode="observe",
                reasons=(Reason("cachetune", verbatim("libvirt allocates cache")),),
                paused_until_s=math.inf,
                problems=(*troubles, troubles[0]),
            )
        )
        got = self.values(seen)
        reasons = [dict(labels) for name, labels in got if name == "iat_nova_reason_info"]
        self.assertEqual(metric_values.REASONS_MAX, len(reasons))
        self.assertLessEqual(max(len(one["reason"]) for one in reasons), metric_values.REASON_MAX)
        labels = {"about": "observe", "code": "cachetune", "reason": "libvirt allocates cache"}
        self.assertIn(labels, reasons)
        self.assertEqual(51, self.value(got, "iat_nova_degraded"))
        self.assertEqual(0, self.value(got, "iat_nova_enforcing"))
        self.assertEqual(1, self.value(got, "iat_nova_paused"))

    def test_codes_tell_what_holds(self) -> None:
        """Every code has its series, at 0 while it does not hold: rules need no text."""
        seen = observer()
        seen.status(
            stories.status(
                mode="observe",
                reasons=(Reason(Code.REFUSED, verbatim("a write was refused")),),
                problems=(
                    Reason(Code.SOURCE, verbatim("libvirt unavailable")),
                    Reason("of-tomorrow", verbatim("?")),
                ),
                paused_until_s=math.inf,
            )
        )
        got = self.values(seen)
        codes = {
            dict(labels)["code"]: value
            for (name, labels), value in got.items()
            if name == "iat_nova_reason"
        }
        self.assertEqual(set(Code), set(codes))
        self.assertEqual({"refused", "source", "paused"}, {c for c, v in codes.items() if v})

    def test_codes_tell_of_what_they_are(self) -> None:
        """A rule counts the hosts that only observe by reason, and those that drift."""
        seen = observer()
        seen.status(
            stories.status(
                mode="observe",
                reasons=(Reason(Code.OBSERVE_CONFIGURED, verbatim("mode = observe")),),
                problems=(
                    Reason(Code.POLICY_UNREAD, verbatim("not read")),
                    Reason(Code.SOURCE, verbatim("silent")),
                ),
                shadow=Shadow("iat", stories.NIGHT),
            )
        )
        got = self.values(seen)
        holds = {
            (dict(labels)["about"], dict(labels)["code"])
            for (name, labels), value in got.items()
            if name == "iat_nova_reason" and value
        }
        expected = {
            ("observe", "observe-configured"),
            ("drift", "policy-unread"),
            ("degraded", "source"),
        }
        self.assertEqual(expected, holds)
        told = [dict(labels) for name, labels in got if name == "iat_nova_reason_info"]
        self.assertEqual(expected, {(one["about"], one["code"]) for one in told})
        (info,) = (dict(labels) for name, labels in got if name == "iat_nova_agent_info")
        self.assertEqual(
            ("iat", "iat", "observe"), tuple(info[k] for k in ("strategy", "shadow", "mode"))
        )

    def test_the_mode_is_the_configured_one(self) -> None:
        """A refused write makes no other series of what the agent is."""
        seen = observer()
        seen.status(
            stories.status(mode="observe", reasons=(Reason(Code.REFUSED, verbatim("refused")),))
        )
        self.assertEqual(1, self.value(self.values(seen), "iat_nova_agent_info", mode="enforce"))

    def test_a_reason_is_told_once(self) -> None:
        """The problem of an agent that only observes repeats the reason in other words."""
        seen = observer()
        seen.status(
            stories.status(
                mode="observe",
                reasons=(Reason(Code.CACHETUNE, verbatim("tuned")),),
                problems=(
                    Reason(Code.CACHETUNE, verbatim("only observing: tuned")),
                    Reason(Code.REFUSED, verbatim("only observing: refused")),
                ),
            )
        )
        told = [
            dict(labels) for name, labels in self.values(seen) if name == "iat_nova_reason_info"
        ]
        expected = [
            {"about": "observe", "code": "cachetune", "reason": "tuned"},
            {"about": "observe", "code": "refused", "reason": "only observing: refused"},
        ]
        self.assertEqual(expected, told)

    def test_placement(self) -> None:
        """What is offered has no sample where no file offers anything."""
        seen = observer()
        for offered, names in ((3, {"offered", "able"}), (None, {"able"})):
            seen.status(stories.status(placement=Placement(4, ("CUSTOM_IAT",), offered)))
            got = {
                name.removeprefix("iat_nova_placement_").removesuffix("_ways"): value
                for (name, _), value in self.values(seen).items()
                if name.startswith("iat_nova_placement_")
            }
            self.assertEqual(names, set(got))
            self.assertEqual((offered, 4), (got.get("offered"), got["able"]))

    def test_who_has_fewer_ways_than_its_least(self) -> None:
        """The machine's mask counts before the decided one, and no mask is no way."""
        quiet = stories.quiet(1, stories.NIGHT)
        effective = {**quiet.effective, stories.PC: WayMask(0x4)}
        for iteration, below in (
            (quiet, 0),
            (dataclasses.replace(quiet, effective=effective), 1),
            (dataclasses.replace(quiet, effective=None), 0),
        ):
            seen = observer(iteration)
            pc = dataclasses.replace(stories.inventory().tenants[1], ways=WayRequest(2, 3, 8))
            seen.inventory({0: DomainInventory(stories.DOMAIN, (pc,))})
            got = self.values(seen)
            self.assertEqual(below, self.value(got, "iat_nova_tenants_below_ways", priority="PC"))
            self.assertEqual(0, self.value(got, "iat_nova_tenants_below_ways", priority="BE"))
        new = dataclasses.replace(pc, id="3d0b6c6e-0b1c-4f9c-8d0b-9f2a1c2d3e4f/9")
        seen.inventory({0: DomainInventory(stories.DOMAIN, (pc, new))})
        got = self.values(seen)
        self.assertEqual(1, self.value(got, "iat_nova_tenants_below_ways", priority="PC"))

    def test_tenants_with_warnings(self) -> None:
        """Each counts once a kind, in however many cache domains; guests of the pool count, too."""
        seen = observer(stories.quiet(1, stories.NIGHT))
        first, second, *_ = stories.inventory().tenants
        seen.inventory({0: DomainInventory(stories.DOMAIN, (first, second))})
        self.assertNotIn("iat_nova_tenants_with_warnings{", self.scrape(seen))
        unknown = [message("extra-spec-unknown", name=name, known=()) for name in ("a", "b")]
        warned = (
            dataclasses.replace(first, warnings=(*unknown, message("guest-tuned"))),
            dataclasses.replace(second, member_warnings=(("small", unknown[0]),)),
        )
        inventory = DomainInventory(stories.DOMAIN, warned)
        seen.inventory({0: inventory, 1: inventory})
        got = self.values(seen)
        for code, count in (("extra-spec-unknown", 2), ("guest-tuned", 1)):
            self.assertEqual(count, self.value(got, "iat_nova_tenants_with_warnings", code=code))

    def test_two_runs_of_a_guest_are_one_series(self) -> None:
        """A repeated label set would cost Prometheus the whole scrape."""
        seen = observer(stories.quiet(1, stories.NIGHT))
        tenants = seen.now.inventories[0].tenants
        again = dataclasses.replace(tenants[0], id=tenants[0].id.replace("/4", "/5"))
        seen.inventory({0: DomainInventory(stories.DOMAIN, (*tenants, again))})
        lines = [line for line in self.scrape(seen).splitlines() if not line.startswith("#")]
        series = [line.rsplit(" ", 1)[0] for line in lines]
        self.assertEqual(len(set(series)), len(series))

    def test_a_picture_is_whole(self) -> None:
        """What was read stays as it was while the loop goes on."""
        seen = observer(stories.burst(1, stories.NIGHT))
        before = seen.now
        seen.iteration(stories.burst(2, stories.NIGHT + 1))
        seen.event("error")
        self.assertEqual(
            (1, {_FIRST: 1}), (before.totals[0].iterations, before.totals[0].transitions)
        )
        self.assertEqual({}, before.events)
        self.assertEqual({_FIRST: 2}, seen.now.totals[0].transitions)

    def test_an_address_in_use_is_one_sentence(self) -> None:
        """The operator reads which option to change."""
        with socket.create_server(("127.0.0.1", 0)) as other:
            _, port = other.getsockname()
            with (
                raises(self, exporter.CannotListen, f"metrics_port {port}: cannot listen there"),
                exporter.serving("127.0.0.1", port, Observer()),
            ):
                self.fail("it listens twice")

    def test_served_until_the_end(self) -> None:
        """Prometheus gets the text at /metrics; nobody answers after the agent's end."""
        seen = observer(stories.quiet(1, stories.NIGHT))
        with exporter.serving("127.0.0.1", 0, seen) as port:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                self.assertEqual(self.scrape(seen), answer.read().decode())
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)

    def test_the_reference_says_how_many_series(self) -> None:
        """Whatever happens on a host, no metric has more series than its documentation says."""
        burst = stories.burst(1, stories.NIGHT)
        monitored = {
            tenant: dataclasses.replace(rates, occupancy_bytes=1 << 20, memory_bytes_per_s=1e9)
            for tenant, rates in burst.sample.tenants.items()
        }
        counted = dataclasses.replace(
            burst.sample,
            memory_bytes_per_s=1e9,
            ddio_writes_per_s=1e6,
            tenants=monitored,
            ports={"0000:3b:00.0": PortRates(4096, 1e9)},
        )
        layout = dataclasses.replace(
            burst.decision.layout, ports=(PortGroup(("0000:3b:00.0",), WayMask(0x0C0)),)
        )
        burst = dataclasses.replace(
            burst,
            sample=counted,
            decision=dataclasses.replace(burst.decision, layout=layout),
            effective={**burst.effective, DDIO: layout.ddio},
        )
        seen = observer(burst, names=("be1", "be2", "be3"))
        thread = PmdThread(2, 0.4, 1e6, 500.0, 0.0)
        switch = VirtualSwitch({}, (), (2,), pmd_threads=(thread,), drops_per_s=0.0)
        seen.inventory(seen.now.inventories, switch)
        seen.event("error")
        troubles = tuple(Reason("source", verbatim(f"trouble {n}")) for n in range(20))
        shadow = Shadow("x", 0.0, {0: ShadowDomain(stories.layout(2), 1, 1)})
        offer = Placement(4, ("CUSTOM_IAT",), 4, ("CUSTOM_IAT",))
        seen.status(stories.status(problems=troubles, shadow=shadow, placement=offer))
        observing = observer(dataclasses.replace(burst, effective=None))
        tenants = len(seen.now.inventories[0].tenants)
        metrics_reference = pages.extension("metrics_reference")
        for metric in metrics.METRICS:
            most = metrics_reference.series(metric) * (
                tenants if metrics_reference.scope(metric) == "tenant" else 1
            )
            served = max(len(list(metric.read(one.now))) for one in (seen, observing))
            self.assertLessEqual(served, most, metric.name)
            self.assertGreaterEqual(served, 1, metric.name)
            if metric.name.endswith(("_closed_total", "_gain_ratio", "_newcomer_ways")):
                self.assertEqual(served, most, metric.name)  # all that it can have

    def test_the_example_scrape_takes_the_largest_host(self) -> None:
        """Beyond `sample_limit` Prometheus drops the whole scrape: a full host stays below."""
        reference = pages.extension("metrics_reference")
        each = collections.Counter()
        for metric in metrics.METRICS:
            each[reference.scope(metric)] += reference.series(metric)
        sockets, pmd_threads, ports = 2, 64, 64
        most = each["host"] + pmd_threads * each["PMD thread"] + sockets * each["cache domain"]
        most += ports * each["port"]
        most += sockets * metric_values.TENANTS_MAX * each["tenant"]
        scrape = yaml.safe_load((ETC / "prometheus-scrape.yaml").read_text())
        (job,) = scrape["scrape_configs"]
        self.assertLess(most, job["sample_limit"])
        self.assertGreater(most, job["sample_limit"] / 2)

    def test_pmd_threads(self) -> None:
        """What each PMD thread did; what is not known of an idle one has no sample."""
        seen = observer()
        busy, idle = PmdThread(2, 0.4, 1e6, 500.0, 3.0), PmdThread(3, 0.0, 0.0, None, 0.0)
        switch = VirtualSwitch({}, (), (2, 3), pmd_threads=(busy, idle), drops_per_s=12.0)
        seen.inventory(seen.now.inventories, switch)
        text = self.scrape(seen)
        for line in (
            'iat_nova_pmd_busy_ratio{cpu="2"} 0.4',
            'iat_nova_pmd_cycles_per_packet{cpu="2"} 500.0',
            'iat_nova_pmd_lost_upcalls_per_second{cpu="2"} 3.0',
            'iat_nova_pmd_packets_per_second{cpu="3"} 0.0',
            "iat_nova_switch_drops_per_second 12.0",
        ):
            self.assertIn(line, text.splitlines())
        self.assertNotIn('iat_nova_pmd_cycles_per_packet{cpu="3"}', text)
        seen.inventory(seen.now.inventories)
        self.assertNotIn("iat_nova_pmd_busy_ratio{", self.scrape(seen))

    def test_names_follow_prometheus(self) -> None:
        """One prefix, units in names, counters end in _total, no name twice."""
        page = pages.extension("metrics_reference").reference()
        names = [metric.name for metric in metrics.METRICS]
        self.assertEqual(len(set(names)), len(names))
        for metric in metrics.METRICS:
            self.assertTrue(metric.name.startswith("iat_nova_"))
            self.assertEqual(metric.kind == "counter", metric.name.endswith("_total"))
            self.assertTrue(metric.help.endswith("."), metric.name)
            self.assertIn(f"``{metric.name}``", page)
