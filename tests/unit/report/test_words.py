# SPDX-License-Identifier: Apache-2.0
"""Decisions are worded with their inputs, thresholds, transition and steps."""

import dataclasses
import json
import unittest

from iat_nova.model import (
    Action,
    BandwidthControl,
    DevicePort,
    Group,
    Hold,
    Pause,
    PmdThread,
    PortGroup,
    Sample,
    Step,
    VirtualSwitch,
    WayMask,
    message,
    verbatim,
)
from iat_nova.report import decision_page, times, words
from iat_nova.store import packing
from tests.unit import stories

PAGE = """\
Iteration #4 of cache domain 0, 2026-11-21 03:00:00 UTC, written

State      Low Keep -> I/O Demand, transition 1: misses high: I/O presses the
           LLC

Changes
  DDIO misses  400 k/s  -> 4.2 M/s  +950 %
  DDIO misses are above THRESHOLD_MISS_LOW 1.0 M/s

What was done
  grow ddio 2 -> 3 ways: misses 4.2 M/s above 1 M/s
  refuse pc1: no idle way

Ways
  before 0 [vswitch ][pc1          ][be1          ][...][~~~~ddio] 10
  after  0 [vswitch ][pc1          ][be1          ][~~~~~~~~~ddio] 10
  moved  ddio  2 ways 0x600  -> 3 ways 0x700

What was measured over 1.00 s, with the ways before the decision
  DDIO 0x600 (2 ways): hits 31.0 M/s, misses 4.2 M/s
  tenant  priority  ways mask  IPC references  misses  rate
  vswitch stack I/O    2  0x3 0.89   21.0 M/s 1.2 M/s  5.7%
  pc1     PC I/O       3 0x1c 0.63   12.0 M/s 900 k/s  7.5%
  be1     BE           3 0xe0 0.26    3.0 M/s 733 k/s 24.4%

Thresholds of iat
  stable 3.0%
  DDIO misses low 1.0 M/s
  DDIO 2..6 ways
  every 1 s"""

QUIET = """\
Iteration #4 of cache domain 0, 2026-11-21 03:00:00 UTC, not written

State      Low Keep
           nothing was done in this iteration
           the strategy gave no reason
           no move promises a gain

Changes: none

What was done: nothing

Ways
  after  0 [vswitch     ][pc1                ][be1                ][.....][~~~~~~~~ddio] 10

What was measured over 1.00 s, beside ways that were decided and not written
  DDIO 0x600 (2 ways): hits 31.0 M/s, misses 400 k/s
  tenant  priority  ways mask IPC references misses rate
  vswitch stack I/O    2  0x3   -          -      -    -
  pc1     PC I/O       3 0x1c   -          -      -    -
  be1     BE           3 0xe0   -          -      -    -"""


class TestWords(unittest.TestCase):
    def setUp(self):
        self.iteration = stories.burst(4, stories.NIGHT, 2)
        self.inventory = stories.inventory()
        self.settings = stories.status().settings

    def test_line(self):
        """The log's line has number, transition with its meaning, all steps and what moved."""
        self.assertEqual(
            "domain 0 #4: Low Keep -> I/O Demand (1): misses high: I/O presses the LLC; "
            "grow ddio 2 -> 3 ways: misses 4.2 M/s above 1 M/s; "
            "refuse pc1: no idle way; moved: ddio",
            words.line(self.iteration, self.inventory),
        )

    def test_a_whole_page(self):
        """Of a decision, in 80 columns."""
        page = decision_page.explain(self.iteration, self.inventory, self.settings)
        self.assertEqual(PAGE, page)

    def test_a_whole_page_of_a_quiet_iteration(self):
        """Nothing was counted, decided or written, and no thresholds are asked for."""
        quiet = stories.quiet(4, stories.NIGHT, 2)
        quiet = dataclasses.replace(
            quiet,
            effective=None,
            layout_before=None,
            sample=dataclasses.replace(quiet.sample, tenants={}),
        )
        page = decision_page.explain(
            quiet,
            self.inventory,
            self.settings,
            width=100,
            thresholds=False,
            search="no move promises a gain",
        )
        self.assertEqual(QUIET, page)

    def test_explain(self):
        """The page names the transition in words, what moved against which threshold, and holds."""
        page = decision_page.explain(self.iteration, self.inventory, self.settings)
        for part in (
            "Iteration #4 of cache domain 0",
            "Low Keep -> I/O Demand, transition 1: misses high",
            "+950 %\n  DDIO misses are above THRESHOLD_MISS_LOW 1.0 M/s",
            "refuse pc1: no idle way",
            "before 0 [",
            "after  0 [",
            "moved  ddio  2 ways 0x600  -> 3 ways 0x700",
            "over 1.00 s, with the ways before the decision",
            "DDIO 0x600 (2 ways): hits 31.0 M/s, misses 4.2 M/s",
            "stable 3.0%",
        ):
            self.assertIn(part, page)
        self.assertLessEqual(max(map(len, page.splitlines())), 100)

    def test_thresholds_are_those_the_strategy_reads(self):
        """Each says its own; of one that is not there, or does not say, the policy's are shown."""
        said = {
            "iat": "Thresholds of iat\n  stable 3.0%\n  DDIO misses low 1.0 M/s\n  DDIO 2..6",
            "pollute-buffer": "a move is tried after 2 samples\n",
            "a4": "T5 LLC misses 90%\n  every 1 s",
            "unmanaged": "Thresholds of unmanaged\n  none\n  every 1 s",
            "gone": "Thresholds of gone\n  THRESHOLD_STABLE 3.0%\n  THRESHOLD_MISS_LOW 1.0 M/s\n",
        }
        for strategy, text in said.items():
            with self.subTest(strategy):
                settings = dataclasses.replace(self.settings, strategy=strategy)
                page = decision_page.explain(self.iteration, self.inventory, settings)
                self.assertIn(text, page)
                self.assertEqual(strategy == "iat", "stable 3.0%" in page)

    def test_a_quiet_iteration_of_a_trial(self):
        """It is not called stable: what is tried goes on."""
        quiet = stories.quiet(5, stories.NIGHT)
        decision = dataclasses.replace(quiet.decision, phase_before="Trial", phase="Trial")
        iteration = dataclasses.replace(quiet, decision=decision)
        page = decision_page.explain(iteration, self.inventory, None)
        self.assertIn("State      Trial\n           nothing was done in this iteration", page)
        self.assertNotIn("stable", page)

    def test_what_counters_did_not_decide(self):
        """Where nothing was done nothing changed; else the steps have another cause, told there."""
        quiet = stories.quiet(5, stories.NIGHT)
        self.assertEqual((True, ()), (quiet.decision.stable, quiet.decision.changes))
        self.assertIn("Changes: none", decision_page.explain(quiet, self.inventory, None))
        did = dataclasses.replace(
            self.iteration, decision=dataclasses.replace(self.iteration.decision, changes=())
        )
        page = decision_page.explain(did, self.inventory, None)
        self.assertNotIn("Changes", page)
        self.assertIn("grow ddio", page)
        self.assertNotIn("\n\n\n", page)

    def test_limits_of_bandwidth(self):
        """What a decision changed is told in its line and its page, what holds in the page."""
        layout = self.iteration.decision.layout
        groups = tuple(
            dataclasses.replace(group, bandwidth=40) if stories.BE in group.tenants else group
            for group in layout.groups
        )
        limited = dataclasses.replace(layout, groups=groups)
        for before, said in ((layout, True), (limited, False)):
            decision = dataclasses.replace(self.iteration.decision, layout=limited)
            iteration = dataclasses.replace(self.iteration, decision=decision, layout_before=before)
            page = decision_page.explain(iteration, self.inventory, self.settings)
            line = words.line(iteration, self.inventory)
            for text in (page, line):
                self.assertEqual(said, "be1: memory bandwidth 100 % -> 40 %" in text)
            self.assertIn("  be1: memory bandwidth limited to 40 %\n", page)
        self.assertNotIn("bandwidth", words.line(self.iteration, self.inventory))

    def test_limits_in_gbps(self):
        """Beside the percentage, where the hardware has them; without a limit there are none."""
        control = BandwidthControl(1, 1, 2048, percent=False, whole=381)
        domain = dataclasses.replace(self.inventory.domain, bandwidth=control)
        inventory = dataclasses.replace(self.inventory, domain=domain)
        self.assertEqual("40 % (19.125 GB/s)", words.left(40, inventory))
        self.assertEqual("100 %", words.left(100, inventory))
        self.assertEqual("40 %", words.left(40, self.inventory))

    def test_measured_with_the_masks_before(self):
        """Rates stand beside the mask they were measured with; a tenant that came had none."""
        layout = stories.layout(2)
        before = dataclasses.replace(
            layout, groups=(layout.groups[0], Group((stories.PC,), WayMask(0x4)))
        )
        decision = dataclasses.replace(self.iteration.decision, moved=(stories.PC, stories.BE))
        iteration = dataclasses.replace(self.iteration, layout_before=before, decision=decision)
        page = decision_page.explain(iteration, self.inventory, self.settings)
        self.assertRegex(page, "moved  pc1  1 way 0x4 +-> 3 ways 0x1c\n +be1  - +-> 3 ways 0xe0\n")
        self.assertRegex(page, r"\n  pc1 +PC I/O +1 +0x4 .*\n  be1 +BE +- +- ")

    def test_a_strategy_that_keeps_no_layout(self):
        """Where the ways before are not recorded, those after are shown and called so."""
        iteration = dataclasses.replace(self.iteration, layout_before=None)
        page = decision_page.explain(iteration, self.inventory, self.settings)
        self.assertIn("over 1.00 s, beside the ways after the decision\n  DDIO 0x700", page)
        self.assertIn("moved  ddio  -  -> 3 ways 0x700", page)
        self.assertIsNone(decision_page.as_data(iteration, self.inventory, None)["layout_before"])

    def test_observed(self):
        """A decision that was not written says so."""
        observed = dataclasses.replace(self.iteration, effective=None)
        self.assertIn(", not written\n", decision_page.explain(observed, self.inventory, None))

    def test_coerced_mask(self):
        """A mask the machine made something else of is shown with both values."""
        coerced = dataclasses.replace(self.iteration, effective={"ddio": WayMask(0x600)})
        page = decision_page.explain(coerced, self.inventory, self.settings)
        self.assertIn("ddio: asked for 0x700, the machine has 0x600", page)

    def test_what_the_strategy_says_is_told(self):
        """Its phases as titles, its rule with the meaning, then the rest."""
        decision = dataclasses.replace(
            self.iteration.decision,
            phase_before="calm",
            phase="DDIO up\x1b",
            rule=7,
            why=(verbatim("the ring is long"), verbatim("and it grows")),
        )
        iteration = dataclasses.replace(self.iteration, decision=decision)
        page = decision_page.explain(iteration, self.inventory, None)
        self.assertIn(
            "State      Calm -> DDIO Up\\x1b, transition 7: the ring is long\n"
            "           and it grows\n",
            page,
        )
        self.assertIn("Calm -> DDIO Up\\x1b (7)", words.line(iteration, self.inventory))

    def test_a_phase_may_change_without_a_rule(self):
        """Then the change is told, and no number."""
        decision = dataclasses.replace(self.iteration.decision, rule=None, why=())
        self.assertEqual("Low Keep -> I/O Demand", words.state_change(decision))

    def test_names_are_harmless(self):
        """A tenant's name cannot bring control characters into log or page."""
        inventory = stories.inventory("\x1b]0;owned\x07")
        decision = dataclasses.replace(self.iteration.decision, moved=(stories.BE,))
        iteration = dataclasses.replace(self.iteration, decision=decision)
        for text in (
            words.line(iteration, inventory),
            decision_page.explain(iteration, inventory, self.settings),
        ):
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\x07", text)
            self.assertIn("\\x1b]0;owned\\x07", text)

    def test_guests_of_the_same_name(self):
        """Each has the begin of its UUID behind the name, also where names are cut."""
        decision = dataclasses.replace(self.iteration.decision, moved=(stories.BE,))
        iteration = dataclasses.replace(self.iteration, decision=decision)
        self.assertIn("; moved: pc1 (0b6b2c1a)", words.line(iteration, stories.inventory("pc1")))
        names = words.Names(stories.inventory("pc1"))
        self.assertEqual("p… (6f9619ff)", names.cut(stories.PC, 13))
        page = decision_page.explain(iteration, stories.inventory("pc1"), None)
        self.assertRegex(page, r"\n  pc1 \(6f9619ff\) +PC I/O .*\n  pc1 \(0b6b2c1a\) +BE ")
        names = words.Names(stories.inventory("vswitch"))
        self.assertEqual(("vswitch", "vswitch (0b6b2c1a)"), (names("stack"), names(stories.BE)))

    def test_a_tenants_name_in_a_reason(self):
        """Reasons show names instead of ids."""
        step = Step(
            Action.UNDO, "ddio", message("would-lose", tenant=stories.BE, loss=0.071, limit=0.05)
        )
        names = words.Names(stories.inventory("be1"))
        self.assertEqual("undo ddio: be1 lost 7.1% of its speed, more than 5%", names.step(step))

    def test_lent_ways(self):
        """The page tells what is the host's own, and what it has for the time being."""
        layout = self.iteration.decision.layout
        lent = Group((stories.BE,), WayMask(0x20))
        decision = dataclasses.replace(
            self.iteration.decision, layout=dataclasses.replace(layout, lent=lent)
        )
        iteration = dataclasses.replace(self.iteration, decision=decision)
        page = decision_page.explain(iteration, self.inventory, None)
        self.assertIn("be1: 1 way counted; 3 ways 0xe0 lent, as they are idle", page)

    def test_ports(self):
        """Ways of a port are told with the tenants behind, also from the history's record."""
        port = "0000:3b:00.0"
        first, *others = self.inventory.tenants
        inventory = dataclasses.replace(
            self.inventory,
            domain=dataclasses.replace(
                self.inventory.domain, device_ports=(DevicePort(port, (port,)),)
            ),
            tenants=(dataclasses.replace(first, ports=(port,)), *others),
        )
        decision = self.iteration.decision
        layout = dataclasses.replace(decision.layout, ports=(PortGroup((port,), WayMask(0x0C0)),))
        decision = dataclasses.replace(decision, layout=layout, moved=(port,))
        iteration = dataclasses.replace(
            self.iteration, decision=decision, effective={port: WayMask(0x080)}
        )
        packed = packing.pack_iteration(iteration, whole=True)
        values = {"wall_s": 0.0, "domain": 0, "inventory_id": 1}
        iteration = packing.unpack_iteration(packed.seen, packed.state, **values)
        page = decision_page.explain(iteration, inventory, self.settings)
        self.assertIn(f"moved  port {port}  -  -> 2 ways 0xc0\n", page)
        self.assertIn(f"  2 0xc0  port {port} ({first.name})\n", page)
        self.assertIn(f"port {port}: asked for 0xc0, the machine has 0x80", page)
        data = decision_page.as_data(iteration, inventory, self.settings)
        self.assertEqual([{"ports": [port], "mask": "0xc0"}], data["decision"]["layout"]["ports"])

    def test_data(self):
        """The same for machines is JSON and keeps the decision."""
        data = json.loads(
            json.dumps(decision_page.as_data(self.iteration, self.inventory, self.settings))
        )
        self.assertEqual(1, data["decision"]["rule"])
        self.assertEqual(("0x600", "0x700"), (data["layout_before"]["ddio"],
                                          data["decision"]["layout"]["ddio"]))  # fmt: skip
        self.assertEqual("be1", data["tenants"][stories.BE])

    def test_phases(self):
        """An unchanged phase is told once, a transition with its number."""
        decision = dataclasses.replace(self.iteration.decision, phase="a b", phase_before="a b")
        for before, rule, shown in (
            ("a b", None, "A B"),
            ("a b", 3, "A B -> A B (3)"),
            ("c", None, "C -> A B"),
            ("A", None, "A -> A B"),
        ):
            changed = dataclasses.replace(decision, phase_before=before, rule=rule)
            self.assertEqual(shown, words.state_change(changed))

    def test_steps(self):
        """Whose ways change is told, but not of the whole layout; so are ways that stay."""
        names = words.Names(self.inventory)
        for subject, ways, shown in (
            (stories.BE, (2, 3), "grow be1 2 -> 3 ways: why"),
            ("zzz", (None, 3), "grow zzz 3 ways: why"),
            ("layout", (None, None), "grow: why"),
        ):
            step = Step(Action.GROW, subject, verbatim("why"), *ways)
            self.assertEqual(shown, names.step(step))

    def test_the_reason_of_doing_nothing(self):
        """It is told where there is one and nothing was done."""
        decision = dataclasses.replace(
            self.iteration.decision, steps=(), moved=(), why=(verbatim("idle"),)
        )
        for why, shown in (((verbatim("idle"),), ": idle"), ((), "")):
            quiet = dataclasses.replace(decision, why=why)
            said = words.deeds(dataclasses.replace(self.iteration, decision=quiet), self.inventory)
            self.assertEqual("Low Keep -> I/O Demand (1)" + shown, said)
        self.assertNotIn("I/O presses", words.deeds(self.iteration, self.inventory))

    def test_holds_and_pauses(self):
        """Their end, the time that is left, their author and reason, as far as they are known."""
        hold = Hold("u", "web", 2, 0.0, by="eve", reason="a test")
        self.assertEqual("web at 2 ways until `iat-nova release` by eve: a test", words.held(hold))
        self.assertEqual("broken", words.held(Hold("u", "web", 0, 0.0, reason="broken")))
        pause = Pause(0.0, until_s=stories.NIGHT + 60)
        end = f"until {times.moment(stories.NIGHT + 60)}"
        self.assertEqual(end, words.until(pause, "resume"))
        self.assertEqual(
            end + " (20.0 s left)".replace(".0", ""),
            words.until(pause, "resume", stories.NIGHT + 40),
        )

    def test_inbound_writes(self):
        """Hits and misses where both are counted, else all writes."""
        for hits, misses, writes, shown in (
            (2e6, 1e6, None, "hits 2.0 M/s, misses 1.0 M/s"),
            (2e6, None, 3e6, "writes 3.0 M/s, hits not known"),
            (None, 1e6, None, "no counters"),
        ):
            counted = Sample(0, 1.0, 1.0, {}, hits, misses, ddio_writes_per_s=writes)
            self.assertEqual(shown, words.inbound(counted))

    def test_pmd_threads(self):
        """Those of the asked CPUs, with what they did."""
        switch = VirtualSwitch(
            {},
            (),
            (2, 3, 4),
            pmd_threads=(
                PmdThread(2, 0.5, 2e6, 300.0, 4e3),
                PmdThread(3, None, 0.0, None, 0.0),
                PmdThread(4, 1.0, 1e6, 9.0, 0.0),
            ),
        )
        self.assertEqual(
            [
                "CPU 2 50% busy, 300 cycles/packet, 2.0 M/s packets, 4 k/s upcalls lost",
                "CPU 3 did nothing",
            ],
            words.pmd_threads(switch, (2, 3)),
        )
        self.assertEqual([], words.pmd_threads(None, (2,)))

    def test_columns(self):
        """Each as wide as its widest text; figures to the right."""
        rows = [("name", "IPC"), ("a", "12.34")]
        self.assertEqual(["  name    IPC", "  a     12.34"], words.columns(rows, "lr"))
        self.assertEqual(["  name IPC", "  a    12.34"], words.columns(rows, "ll", 1))
