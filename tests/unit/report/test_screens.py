# SPDX-License-Identifier: Apache-2.0
"""The live screen fits every terminal; the report is one well-formed, harmless file."""

import dataclasses
import functools
import html.parser
import itertools
import math
import pathlib
import re
import shutil
import tempfile
import time
import unittest
from unittest import mock

from iat_nova.model import (
    DDIO,
    BandwidthControl,
    DevicePort,
    DomainInventory,
    Group,
    Pause,
    PmdThread,
    PortGroup,
    PortRates,
    Rates,
    VirtualSwitch,
    WayMask,
    verbatim,
)
from iat_nova.model.reasons import Reason
from iat_nova.report import escape, gains, status, top
from iat_nova.report import html as report
from iat_nova.report.top_screen import Mode, Screen
from iat_nova.report.view import gather, shadow_rates, tenant_row, then
from iat_nova.store.heartbeat import AgentNow, AgentState
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Placement, Shadow, ShadowDomain
from iat_nova.store.writer import History
from iat_nova.strategies.prospect import Prospect
from tests.unit import stories

AGENT = AgentNow(AgentState.RUNNING, stories.status().pid, 0.5)
EVIL = "<script>alert(1)</script>\x1b[2J\"'&"


class StoryCase(unittest.TestCase):
    """A history with the story in it; the BE tenant has a hostile name."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-screens-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.path = self.folder / "history.sqlite"
        self.tell(be_name=EVIL)

    def tell(self, at_s=None, **changes):
        clock = stories.SetClock(at_s or time.time() - 12)
        history = History(self.path, max_age_s=1e9, max_bytes=8 << 20, clock=clock)
        stories.tell(history, clock=clock, **changes)
        self.assertTrue(history.flush(60.0), history.problem)
        history.close()

    def reader(self):
        reader = HistoryReader(self.path)
        self.addCleanup(reader.close)
        return reader

    def view(self, pause=None, agent=AGENT):
        return gather(self.reader(), pause, agent=agent)


class TestStatus(StoryCase):
    def test_page(self):
        """The page has mode, age, state, map and last decision, and harmless names."""
        page = status.page(self.view(), time.time())
        for part in ("enforce, strategy iat", " s old", "Low Keep", "DDIO 5 ways 0x7c0", "#6: "):
            self.assertIn(part, page)
        self.assertNotIn("\x1b", page)

    def test_paused(self):
        """A pause is shown with its end, its author and its reason."""
        now_s = time.time()
        page = status.page(self.view(Pause(now_s, now_s + 1800, "firmware", "eve")), now_s)
        self.assertIn("(30 min left) by eve: firmware", page)
        page = status.page(self.view(Pause(now_s, math.inf)), now_s)
        self.assertIn("until `iat-nova resume`", page)
        self.assertEqual("paused", status.record(self.view(Pause(now_s)))["mode"])

    def test_not_running(self):
        """What an agent does that does not iterate, in the words an operator looks for."""
        for agent, words in (
            (AgentNow(AgentState.STOPPED, 7), "not running (it ended properly)"),
            (AgentNow(AgentState.UNCLEAN, 7), "not running (unclean shutdown)"),
            (AgentNow(AgentState.STOPPED, text="x"), "not running (unclean shutdown): x"),
            (
                AgentNow(AgentState.FAILED, 7, text="not restored: x\n"),
                "not running (it ended with an error: not restored: x\\n)",
            ),
            (
                AgentNow(AgentState.STALLED, 7, 95.0),
                "stalled: process 7, last iteration 1 min 35 s ago",
            ),
            (
                AgentNow(AgentState.STARTING, 7, 12.0, "compiling\n"),
                "starting, no iteration yet (process 7, for 12 s): compiling\\n",
            ),
            (AgentNow(AgentState.STARTING), "starting, no iteration yet;"),
            (AgentNow(AgentState.STOPPING, 7, 1.0), "stopping: process 7 restores the original"),
        ):
            view = self.view(agent=agent)
            self.assertIn(words, status.page(view, time.time()))
            record = status.record(view)
            self.assertEqual((agent.state, agent.age_s), (record["state"], record["state_age_s"]))
            self.assertFalse(record["running"])

    def test_across_a_hand_over(self):
        """That the masks were adopted, or when they were left to the next agent, is told."""
        seen = self.view()
        self.assertNotIn("hand-over", status.page(seen, time.time()))
        for changes, agent, words in (
            ({"adopted_s": stories.NIGHT}, AGENT, r"up .* since a hand-over\n"),
            (
                {"handed_over_s": stories.NIGHT, "stopped": True},
                AgentNow(AgentState.STOPPED, 7),
                r"not running \(it handed over to the next agent at 20\d\d-.*\)",
            ),
            ({"handed_over_s": stories.NIGHT}, AgentNow(AgentState.UNCLEAN, 7), "unclean shutdown"),
        ):
            said = dataclasses.replace(seen.now.status, **changes)
            now = dataclasses.replace(seen.now, status=said)
            view = dataclasses.replace(seen, now=now, agent=agent)
            self.assertRegex(status.page(view, time.time()), words)
            record = status.record(view)
            for name in ("adopted_s", "handed_over_s"):
                self.assertEqual(changes.get(name), record[name])

    def test_a_history_that_cannot_be_written(self):
        """The agent's own page tells it, where the history cannot; it is no dead agent."""
        full = dataclasses.replace(AGENT, text="history h: the disk is full")
        page = status.page(self.view(agent=full), time.time())
        self.assertRegex(page, "(?m)^degraded +history h: the disk is full")
        other = dataclasses.replace(full, pid=7)  # the history is an earlier agent's
        page = status.page(self.view(agent=other), time.time())
        self.assertRegex(page, r"^agent +running: process 7, last iteration .* nothing recorded: h")
        (problem,) = status.record(self.view(agent=other))["problems"]
        self.assertEqual("history-unwritable", problem["code"])

    def test_observing_says_why(self):
        """An agent that only observes gives its reason."""
        self.tell(
            agent=stories.status(
                mode="observe",
                reasons=(Reason("other-owner", verbatim("a foreign control group")),),
            )
        )
        page = status.page(self.view(), time.time())
        self.assertIn("observes only: a foreign control group", page)

    def test_drift_says_what_is_not_in_force(self):
        """The codes, and both sides of what Placement is offered, go through the history."""
        self.assertEqual(([], None), self.drift())
        self.tell(
            agent=stories.status(
                problems=(
                    Reason("policy-unread", verbatim("p is not the policy")),
                    Reason("source", verbatim("x")),
                ),
                placement=Placement(4, ("CUSTOM_IAT",), 3, ()),
            )
        )
        codes, placement = self.drift()
        self.assertEqual(["policy-unread"], codes)
        self.assertEqual((3, 4), (placement["offered_ways"], placement["able_ways"]))
        self.assertRegex(status.page(self.view(), time.time()), "(?m)^degraded +p is not the pol")

    def drift(self):
        record = status.record(self.view())
        return record["drift"], record["placement"]

    def test_tenant_row(self):
        """A tenant's mask is the machine's, and its overlap is with DDIO's mask."""
        (domain,) = self.view().domains
        rows = [tenant_row(domain, tenant) for tenant in domain.inventory.tenants]
        self.assertEqual([False, False, True], [row["overlaps_ddio"] for row in rows])
        self.assertEqual(["0x3", "0x1c", "0xe0"], [row["mask"] for row in rows])
        self.assertEqual(EVIL, rows[2]["name"])

    def test_lent(self):
        """A row tells how many of the ways are promised to no one, 0 of whom nothing is lent."""
        (domain,) = self.view().domains
        layout = dataclasses.replace(domain.layout, lent=Group((stories.BE,), WayMask(0x20)))
        iteration = domain.latest.iteration
        decision = dataclasses.replace(iteration.decision, layout=layout)
        iteration = dataclasses.replace(iteration, decision=decision)
        latest = dataclasses.replace(domain.latest, iteration=iteration)
        domain = dataclasses.replace(domain, latest=latest)
        rows = [tenant_row(domain, tenant) for tenant in domain.inventory.tenants]
        self.assertEqual([0, 0, 2], [row["lent"] for row in rows])

    def test_limits_of_bandwidth(self):
        """In percent, and in GB/s where the hardware has them."""
        view = self.view()
        (domain,) = view.domains
        groups = tuple(
            dataclasses.replace(group, bandwidth=40) if stories.BE in group.tenants else group
            for group in domain.layout.groups
        )
        latest = domain.latest.iteration
        layout = dataclasses.replace(latest.decision.layout, groups=groups)
        decision = dataclasses.replace(latest.decision, layout=layout)
        iteration = dataclasses.replace(latest, decision=decision)
        latest = dataclasses.replace(domain.latest, iteration=iteration)
        control = BandwidthControl(1, 1, 2048, percent=False, whole=381)
        for known, words, gbps in (
            (control, r"40 % \(19.125 GB/s\)$", {stories.BE: 19.125}),
            (None, "40 %$", {}),
        ):
            cache = dataclasses.replace(domain.inventory.domain, bandwidth=known)
            inventory = dataclasses.replace(domain.inventory, domain=cache)
            one = dataclasses.replace(domain, inventory=inventory, latest=latest)
            limited = dataclasses.replace(view, domains=(one,))
            page = status.page(limited, time.time())
            self.assertRegex(page, f"(?m): memory bandwidth limited to {words}")
            (record,) = status.record(limited)["domains"]
            self.assertEqual(
                ({stories.BE: 40}, gbps), (record["bandwidth_percent"], record["bandwidth_gbps"])
            )

    def test_pressure(self):
        """Whether moves are left, what a newcomer would find, and what each tenant loses."""
        view = self.view()
        (domain,) = view.domains
        (record,) = status.record(view)["domains"]
        self.assertIsNone(record["exhausted"])  # this strategy does not say
        self.assertNotIn("no layout left", status.page(view, time.time()))
        told = dataclasses.replace(
            domain.latest.iteration, outlook="all-failed", shown={stories.BE: 0.012}
        )
        latest = dataclasses.replace(domain.latest, iteration=told)
        view = dataclasses.replace(view, domains=(dataclasses.replace(domain, latest=latest),))
        (record,) = status.record(view)["domains"]
        self.assertEqual(("all-failed", True), (record["outlook"], record["exhausted"]))
        self.assertEqual({"PC": 1.5, "BE": 1.5}, record["newcomer_ways"])
        page = status.page(view, time.time())
        self.assertIn("no layout left to try: all moves that promised", page)
        self.assertIn(
            "a new guest would find: 1.5 ways if critical, 1.5 ways if best effort (", page
        )
        row = tenant_row(view.domains[0], domain.inventory.tenants[2])
        self.assertEqual(
            (0.012, 0.016, 0.273), (row["loss_least"], row["loss_likely"], row["llc_share"])
        )

    def test_what_enforcing_could_gain(self):
        """While nothing is written: likely, at most, and how many misses have a known cost."""
        view = self.view()
        (domain,) = view.domains
        self.assertIsNone(status.record(view)["domains"][0]["enforcing_gain"])
        self.assertNotIn("if the agent enforced", status.page(view, time.time()))
        told = dataclasses.replace(domain.latest.iteration, effective=None)
        latest = dataclasses.replace(domain.latest, iteration=told)
        view = dataclasses.replace(view, domains=(dataclasses.replace(domain, latest=latest),))
        found = status.record(view)["domains"][0]["enforcing_gain"]
        self.assertEqual((1, 1), (found["known"], found["guests"]))
        self.assertTrue(0.0 < found["likely"] < found["most"], found)
        self.assertRegex(
            status.page(view, time.time()),
            r"gain of critical guests if the agent enforced: likely 0\.\d% \(at most 4%; cost of a "
            "miss known for 1 of 1 critical guests\\)",
        )

    def test_rates_of_a_shadow(self):
        """Masks a day of the time since it began; in the first minute there are none."""
        shadow, domain = Shadow("x", 1000.0), ShadowDomain(stories.layout(2), 10, 30)
        self.assertIsNone(shadow_rates(shadow, domain, 1059.0))
        self.assertEqual((14400.0, 43200.0), shadow_rates(shadow, domain, 1060.0))
        self.assertEqual((240.0, 720.0), shadow_rates(shadow, domain, 1000.0 + 3600))

    def test_coerced(self):
        """What the machine made something else of is told wherever masks are shown."""
        view = self.view()
        (domain,) = view.domains
        effective = {stories.BE: WayMask(0x7E0), DDIO: WayMask(0x780)}
        iteration = dataclasses.replace(domain.latest.iteration, effective=effective)
        latest = dataclasses.replace(domain.latest, iteration=iteration)
        domain = dataclasses.replace(domain, latest=latest)
        view = dataclasses.replace(view, domains=(domain,))
        decided = iteration.decision.layout.ddio

        page = status.page(view, time.time())
        self.assertIn("asked for 0xe0, the machine has 0x7e0", page)
        self.assertIn(f"ddio: asked for {decided}, the machine has 0x780", page)
        (record,) = status.record(view)["domains"]
        self.assertEqual((str(decided), "0x780"),
                         (record["ddio_mask_requested"], record["ddio_mask"]))  # fmt: skip
        self.assertEqual({"0xe0", str(decided)}, {one["requested"] for one in record["coerced"]})
        row = tenant_row(domain, domain.inventory.tenants[2])
        self.assertEqual(("0x7e0", "0xe0"), (row["mask"], row["mask_requested"]))
        self.assertIn("mask 0xe0 was asked for, the machine has 0x7e0", row["warnings"])
        shown = "\n".join(top.frame(view, domain, top.Trace(0), Screen(120, 24)))
        self.assertIn(f"0x780 (asked for {decided})", shown)
        self.assertIn("(asked for 0xe0)", shown)

    def test_ports(self):
        """Ways of a port, and who is behind it, are shown by status, top and tenants."""
        view = self.view()
        (domain,) = view.domains
        port, other = (
            DevicePort(one, (one, f"{one}0")) for one in ("0000:3b:00.0", "0000:3c:00.0")
        )
        first, *others = domain.inventory.tenants
        inventory = dataclasses.replace(
            domain.inventory,
            domain=dataclasses.replace(domain.inventory.domain, device_ports=(port, other)),
            tenants=(dataclasses.replace(first, ports=(port.id,)), *others),
        )
        iteration = domain.latest.iteration
        layout = dataclasses.replace(
            iteration.decision.layout, ports=(PortGroup((port.id,), WayMask(0x0C0)),)
        )
        iteration = dataclasses.replace(
            iteration,
            decision=dataclasses.replace(iteration.decision, layout=layout),
            effective={port.id: WayMask(0x0E0)},
            sample=dataclasses.replace(
                iteration.sample, ports={port.id: PortRates(3_000_000, 2e9)}
            ),
        )
        latest = dataclasses.replace(domain.latest, iteration=iteration)
        domain = dataclasses.replace(domain, latest=latest, inventory=inventory)
        view = dataclasses.replace(view, domains=(domain,))

        (record,) = status.record(view)["domains"]
        self.assertEqual(
            [
                {
                    "port": port.id,
                    "devices": [*port.devices],
                    "tenants": [first.name],
                    "ways": 3,
                    "mask": "0xe0",
                    "mask_requested": "0xc0",
                    "occupancy_bytes": 3_000_000,
                    "memory_bytes_per_s": 2e9,
                },
                {
                    "port": other.id,
                    "devices": [*other.devices],
                    "tenants": [],
                    "ways": None,
                    "mask": None,
                    "mask_requested": None,
                    "occupancy_bytes": None,
                    "memory_bytes_per_s": None,
                },
            ],
            record["ports"],
        )
        counted = f"port {port.id} ({first.name}) 2.9 MiB in the LLC, 1.9 GiB/s to and from memory"
        self.assertIn(counted, status.page(view, time.time()))
        frame = top.frame(view, domain, top.Trace(0), Screen(120, 40))
        self.assertIn(counted, "\n".join(frame) if isinstance(frame, list) else frame)
        line = f"port {port.id} ({first.name})"
        self.assertIn(line, status.page(view, time.time()))
        for height in (24, 40):
            frame = top.frame(view, domain, top.Trace(0), Screen(120, height))
            self.assertLessEqual(len(frame), height)
            self.assertIn(f" 1: 3 ways 0xe0, {line}", frame)
        self.assertEqual([port.id], tenant_row(domain, inventory.tenants[0])["ports"])
        self.assertTrue(tenant_row(domain, inventory.tenants[2])["overlaps_ddio"])


class TestTop(StoryCase):
    def frame(self, width, height, page=(), **changes):
        view = self.view()
        domain = view.domains[0]
        trace = top.Trace(0)
        trace.look(self.reader(), domain)
        return top.frame(view, domain, trace, Screen(width, height, **changes), page)

    def test_every_size(self):
        """From tiny to huge no line is wider and no screen longer than the terminal."""
        sizes = itertools.product((40, 60, 80, 120, 200), (5, 10, 24, 50))
        for width, height in sizes:
            lines = self.frame(width, height)
            self.assertEqual(height, len(lines))
            self.assertLessEqual(max(map(escape.width, lines)), width, lines)
            self.assertNotIn("\x1b", "".join(lines))

    def test_80_by_24_has_it_all(self):
        """The usual terminal shows state, map, curves, tenants and the trail of maps."""
        text = "\n".join(self.frame(80, 24))
        for part in ("Low Keep", "[vswitch", "DDIO misses", "pc1", "LAST DECISIONS", "q quit"):
            self.assertIn(part, text)

    def test_pmd_threads(self):
        """What the switch's PMD threads on this domain did, cut where there is little room."""
        threads = [PmdThread(2, 0.83, 2.4e6, 412.0, 0.0), PmdThread(3, 0.0, 0.0, None, 7.0)]
        threads += [PmdThread(40, 1.0, 1e6, 300.0, 0.0)]  # of another socket
        switch = VirtualSwitch({}, (), (2, 3, 40), pmd_threads=tuple(threads), drops_per_s=12.0)
        view = dataclasses.replace(self.view(), switch=switch)
        told = "PMD threads: CPU 2 83% busy, 412 cycles/packet, 2.4 M/s packets; CPU 3 0% busy, "
        with mock.patch.object(self, "view", lambda: view):
            wide = self.frame(200, 60)
            self.assertIn(f" {told}7 /s upcalls lost; ports drop 12 /s", wide)
            narrow = self.frame(80, 24)
            (line,) = (line for line in narrow if "PMD" in line)
            self.assertTrue(line.endswith(" …") and told.startswith(line[1:-2]), line)
            self.assertNotIn("PMD", "\n".join(self.frame(80, 24, past_s=stories.NIGHT)))
        self.assertNotIn("PMD", "\n".join(self.frame(200, 60)))

    def test_reasons(self):
        """On every usual terminal the newest decision is shown with its whole reason."""
        for width, height in ((80, 24), (120, 40), (200, 50)):
            text = " ".join("\n".join(self.frame(width, height)).split())
            self.assertRegex(
                text,
                r"LAST DECISIONS [\d:]{8} 0 \[vswitch.*? 10 Low Keep -> I/O Demand \(1\); "
                r"grow ddio 4 -> 5 ways: misses 4\.2 M/s above 1 M/s; moved: ddio [\d:]{8} ",
            )

    def test_long_reasons(self):
        """What does not fit is cut with an ellipsis, and never leaves a map without its reason."""
        view, trace = self.view(), top.Trace(0)
        turn = top.PastDecision(stories.NIGHT, stories.layout(2), stories.inventory(), "why " * 200)
        trace.decisions.extend([turn] * 9)
        for height in range(20, 50):
            lines = top.frame(view, view.domains[0], trace, Screen(80, height))
            shown = [line for line in lines[lines.index(" LAST DECISIONS") : -1] if line]
            self.assertRegex(shown[-1], "why ?…$")
            self.assertEqual(height, len(lines))

    def test_wrapped_alarms(self):
        """What is wrong is told in two lines where one is too short."""
        self.tell(
            agent=stories.status(
                problems=(Reason("ddio-no-effect", verbatim("the knob " * 15 + "is stuck")),)
            )
        )
        lines = self.frame(80, 24)
        self.assertTrue(lines[2].endswith(" is stuck"), lines)

    def test_who_left_since_a_decision(self):
        """Has its name in the trail all the same, and guests of one name are told apart."""
        self.tell(be_name="pc1")
        view, trace = self.view(), top.Trace(0)
        (domain,) = view.domains
        text = "\n".join(top.frame(view, domain, trace, Screen(80, 24)))
        self.assertRegex(text, r"(?s)\n pc1 \(6f9619ff\) PC I/O .*\n pc1 \(0b6b2c1a\) BE ")
        remaining = DomainInventory(domain.inventory.domain, domain.inventory.tenants[:2])
        trace.look(self.reader(), dataclasses.replace(domain, inventory=remaining))
        self.assertIn(stories.BE, [tenant.id for tenant in trace.decisions[0].inventory.tenants])

    def test_many_tenants(self):
        """Tenants that do not fit are counted."""
        lines = top.frame(self.view(), self.crowded(), top.Trace(0), Screen(80, 24))
        self.assertEqual(24, len(lines))
        self.assertTrue(any(" below, of 99 tenants" in line for line in lines))

    def test_sort(self):
        """Sorting by IPC puts the busiest first."""
        lines = self.frame(80, 24, sort="ipc")
        first = next(number for number, line in enumerate(lines) if line.startswith(" TENANT"))
        self.assertIn("vswitch", lines[first + 1])

    def test_the_sorted_column_is_marked(self):
        """A mark stands at the heading that the tenants are sorted by, and at no other."""
        for sort, heading in (("name", "TENANT"), ("misses", "MISSES"), ("ipc", "IPC")):
            text = "\n".join(self.frame(100, 24, sort=sort))
            self.assertEqual([heading], re.findall(r"(\w+)▾", text))

    def test_scrolled_to_the_chosen_one(self):
        """The chosen tenant is in sight, and how many are above and below is told."""
        domain = self.crowded()
        for chosen, told in (
            ("be/0", "… 88 below, of 99 tenants"),
            ("be/50", "above, "),
            ("be/98", "above"),
        ):
            screen = Screen(60, 20, chosen=chosen)
            lines = top.frame(self.view(), domain, top.Trace(0), screen)
            marked = [line for line in lines if line.startswith(">")]
            self.assertEqual([chosen.replace("/", "")], [line[1:].split()[0] for line in marked])
            self.assertTrue(any(told in line for line in lines), lines)
            self.assertEqual(20, len(lines))

    def test_a_filter(self):
        """Only tenants with that in their name are listed; nobody: that is told."""
        shown = top.listed(self.crowded(), Screen(80, 24, pattern="E9"))
        self.assertEqual(10, len(shown))
        lines = top.frame(self.view(), self.crowded(), top.Trace(0), Screen(80, 24, pattern="zz"))
        self.assertIn(" no tenant matches: zz", lines)

    def test_narrow(self):
        """At 60 columns misses and their rate are there; masks and references are not."""
        text = "\n".join(self.frame(60, 20))
        self.assertRegex(text, r"MISSES +RATE")
        self.assertNotIn("MASK", text)
        self.assertNotIn("REFERENCES", text)

    def test_pages_and_questions(self):
        """A page is scrolled within its bounds; a question and a note take the last line."""
        page = [f"line {number}" for number in range(100)]
        lines = self.frame(80, 24, mode=Mode.PAGE, offset=500, page=page)
        self.assertIn(" line 99", lines)
        self.assertEqual(" lines 79 to 100 of 100   up/down scroll   q back", lines[-1])
        screen = Screen(80, 24, mode=Mode.PAGE, offset=500)
        self.assertEqual(78, top.bounded(self.view(), screen, page).offset)
        self.assertEqual(" q back", self.frame(80, 24, mode=Mode.PAGE, page=page[:22])[-1])
        self.assertIn("hold all masks", self.frame(80, 24, mode=Mode.CONFIRM)[-1])
        self.assertIn("nothing there", self.frame(80, 24, note="nothing there")[-1])
        self.assertIn("/ab_", self.frame(80, 24, mode=Mode.FILTER, pattern="ab")[-1])

    def test_looking_back(self):
        """A moment of the history is shown as it was: state, decision and rates of then."""
        seen = self.view()
        now = seen.domains[0].latest.iteration
        first = next(self.reader().between(0, math.inf, 0)).iteration
        past = then(self.reader(), seen, first.wall_s + 0.1)
        self.assertEqual(first, past.domains[0].latest.iteration)
        self.assertNotEqual(now, first)
        trace = top.Trace(0)
        trace.until(self.reader(), past.domains[0], first.wall_s + 0.1)
        self.assertEqual(1, len(trace.misses))
        screen = Screen(100, 24, past_s=first.wall_s)
        lines = top.frame(past, past.domains[0], trace, screen)
        self.assertRegex(lines[0], r"AT 20.* ago")

    def crowded(self):
        """Return a domain with 99 guests."""
        domain = self.view().domains[0]
        template = domain.inventory.tenants[2]
        crowd = DomainInventory(
            stories.DOMAIN,
            tuple(dataclasses.replace(template, id=f"be/{n}", name=f"be{n}") for n in range(99)),
        )
        return dataclasses.replace(domain, inventory=crowd)

    def test_trace_reads_only_what_is_new(self):
        """A second look adds what was recorded in between, once, and notices a new history."""
        trace = top.Trace(0)
        trace.look(self.reader(), self.view().domains[0])
        self.assertEqual((12, 3), (len(trace.misses), len(trace.decisions)))
        trace.look(self.reader(), self.view().domains[0])
        self.assertEqual((12, 3), (len(trace.misses), len(trace.decisions)))
        self.tell()
        trace.look(self.reader(), self.view().domains[0])
        self.assertEqual((24, 6), (len(trace.misses), len(trace.decisions)))
        for file in self.folder.iterdir():
            file.unlink()
        self.tell(seconds=5)
        trace.look(self.reader(), self.view().domains[0])
        self.assertEqual((5, 2), (len(trace.misses), len(trace.decisions)))

    def test_sparkline(self):
        """Bars are relative to the maximum; what is not known is blank."""
        self.assertEqual("▁▅ █", top.sparkline([0.0, 4.0, None, 8.0], 10))
        self.assertEqual("█▅", top.sparkline([1.0, 8.0, 4.0], 2))
        self.assertEqual("", top.sparkline([1.0], 0))


class _Checker(html.parser.HTMLParser):
    """Collects the tags that are open, the tags seen and all addresses."""

    VOID = frozenset({"meta", "br", "link", "img"})

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.addresses, self.text = [], set(), [], []

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes nothing")

    def handle_data(self, data):
        self.text.append(data)


class TestReport(StoryCase):
    def page(self, **arguments):
        page = report.write(self.reader(), **arguments)
        checker = _Checker()
        checker.feed(page)
        checker.close()
        self.assertEqual([], checker.open)
        return page, checker

    def test_well_formed_and_alone(self):
        """Every tag is closed, nothing is loaded from anywhere, there is no script."""
        page, checker = self.page()
        self.assertEqual([], checker.addresses)
        self.assertFalse(checker.seen & {"script", "link", "img", "iframe"})
        self.assertNotIn("<script", page)
        self.assertEqual([], re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", page))
        self.assertIn("default-src 'none'", page)

    def test_tells_the_story(self):
        """Transition, way map, thresholds and tenants are all in it."""
        with mock.patch.object(gains, "worth", return_value=Prospect(0.02, 0.3, 1, 1)):
            _, checker = self.page()
        text = " ".join(checker.text)
        for part in (
            "+2.0% likely gain of critical guests if the agent had enforced (at most 30%)",
            "Low Keep → I/O Demand (1)",
            "busy above 1.0 M/s",
            "vswitch, 2 ways 0x3",
            "2 to 5",
            "no extra specs",
        ):
            self.assertIn(part, text)

    def test_gap(self):
        """While nothing was recorded no ways are drawn."""
        end_s = time.time()
        for file in self.folder.iterdir():
            file.unlink()
        self.tell(at_s=end_s - 600)
        self.tell(at_s=end_s - 12)
        _, checker = self.page()
        spans = [one for one in checker.text if one.endswith("vswitch, 2 ways 0x3")]
        pause = time.strftime("%H:%M:%S", time.gmtime(end_s - 588))
        self.assertTrue(any(f"to {pause}: " in one for one in spans), spans)

    def test_nothing(self):
        """An empty period is said, not drawn."""
        with self.assertRaises(report.NothingToReport):
            report.write(self.reader(), begin_s=time.time() + 1000)


class TestMonitored(TestTop, TestReport):
    """All of it where occupancy and memory traffic of tenants are monitored."""

    def tell(self, at_s=None, **changes):
        monitored = functools.partial(Rates, occupancy_bytes=3 << 20, memory_bytes_per_s=2 << 30)
        with mock.patch("tests.unit.stories.Rates", monitored):
            super().tell(at_s, **changes)

    def test_shown(self):
        """In the row, on a wide terminal, and in the report."""
        (domain,) = self.view().domains
        row = tenant_row(domain, domain.inventory.tenants[0])
        self.assertEqual((3 << 20, 2 << 30), (row["occupancy_bytes"], row["memory_bytes_per_s"]))
        self.assertRegex("\n".join(self.frame(120, 40)), r"IN LLC +MEMORY\n.* 3.0 MiB +2.0 GiB/s")
        self.assertNotIn("IN LLC", "\n".join(self.frame(80, 24)))
        text = " ".join(self.page()[1].text)
        for part in ("In the LLC", "3.0 MiB", "Memory traffic", "2.0 GiB/s"):
            self.assertIn(part, text)
