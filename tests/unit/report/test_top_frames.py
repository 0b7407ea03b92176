# SPDX-License-Identifier: Apache-2.0
"""Whole screens of iat-nova top, line by line."""

import dataclasses
import re
from unittest import mock

from iat_nova.model import (
    Hold,
    PmdThread,
    PortGroup,
    Rates,
    VirtualSwitch,
    WayMask,
    verbatim,
)
from iat_nova.model.reasons import Reason
from iat_nova.report import top
from iat_nova.report.top_screen import Mode, Screen
from iat_nova.store.heartbeat import AgentNow, AgentState
from tests.unit import stories
from tests.unit.report.test_screens import StoryCase

USUAL = """\
 iat-nova   compute-7   enforce   data 0.4 s old
 domain 0   Low Keep   DDIO 5 ways 0x7c0   hits 31.0 M/s, misses 400 k/s
 0 [vswitch   ][pc1             ][be1  ~~~~~~~ddio][~~~~~~~~~~~~ddio] 10

 DDIO misses                               ▁▁▁███▁▁▁▁▁▁ at most 4.2 M/s
 DDIO hits                                 ████████████ at most 31.0 M/s

 TENANT▾        PRIORITY  WAYS     MASK   IPC  REFERENCES    MISSES   RATE
 vswitch        stack I/O    2      0x3  0.89    21.0 M/s   1.2 M/s   5.7%
>pc1            PC I/O       3     0x1c  0.63    12.0 M/s   900 k/s   7.5%
 be1            BE           3     0xe0  0.26     3.0 M/s   733 k/s  24.4% ~ddio

 LAST DECISIONS
 03:00:06 0 [vswitch ][pc1          ][be1 ~~~~~ddio][~~~~~~~~~ddio] 10
          Low Keep -> I/O Demand (1); grow ddio 4 -> 5 ways: misses 4.2 M/s
          above 1 M/s; moved: ddio
 03:00:05 0 [vswitch ][pc1          ][be1      ~~~~][~~~~~~~~~ddio] 10
          Low Keep -> I/O Demand (1); grow ddio 3 -> 4 ways: misses 4.2 M/s
          above 1 M/s; moved: ddio
 03:00:04 0 [vswitch ][pc1          ][be1          ][~~~~~~~~~ddio] 10
          Low Keep -> I/O Demand (1); grow ddio 2 -> 3 ways: misses 4.2 M/s
          above 1 M/s; moved: ddio

 q quit  h help  up/down choose  enter explain  left/right look back  p pause"""

SMALL = """\
 iat-nova   compute…   enforce   data 0.4 s old
 domain 0   Low Keep   DDIO 5 ways 0x7c0   hits 31.0 M/s, m…
 0 [vswit…][pc1       ][be1~~~ddio][~~~~~~ddio] 10

 DDIO misses           ▁▁▁███▁▁▁▁▁▁ at most 4.2 M/s
 DDIO hits             ████████████ at most 31.0 M/s

 TENANT          PRIORITY  WAYS   IPC   MISSES▾   RATE
 vswitch         stack I/O    2  0.89   1.2 M/s   5.7%
 pc1             PC I/O       3  0.63   900 k/s   7.5%
 be1             BE           3  0.26   733 k/s  24.4% ~ddio

 LAST DECISIONS
 03:00:06 0 [vsw…][pc1    ][b…~ddio][~~~ddio] 10
          Low Keep -> I/O Demand (1); grow ddio 4 -> 5
          ways: misses 4.2 M/s above 1 M/s; moved: ddio
 03:00:05 0 [vsw…][pc1    ][be1  ~~][~~~ddio] 10
          Low Keep -> I/O Demand (1); grow ddio 3 -> 4
          ways: misses 4.2 M/s above 1 M/s; moved: ddio
 q quit  h help  up/down choose  enter explain  left/right …"""


class FrameTest(StoryCase):
    """The story of a night, seen twenty seconds after its begin."""

    def setUp(self):
        super().setUp()
        clock = mock.patch("time.time", return_value=stories.NIGHT + 20.0)
        clock.start()
        self.addCleanup(clock.stop)
        for file in self.folder.iterdir():
            file.unlink()
        self.tell(stories.NIGHT)
        seen = self.view()
        self.seen = dataclasses.replace(seen, now=dataclasses.replace(seen.now, age_s=0.4))
        (self.domain,) = self.seen.domains
        self.trace = top.Trace(0)
        self.trace.look(self.reader(), self.domain)

    def frame(self, width=80, height=24, seen=None, domain=None, **changes):
        """Return the lines, the first without the time of now."""
        screen = Screen(width, height, **changes)
        lines = top.frame(seen or self.seen, domain or self.domain, self.trace, screen)
        return [lines[0].removesuffix("\x1b[0m")[:-13].rstrip(), *lines[1:]]

    def row(self, domain, tenant=stories.BE):
        """Return the line of the chosen tenant."""
        (line,) = (one for one in self.frame(domain=domain, chosen=tenant) if one[0:1] == ">")
        return line

    def test_a_usual_terminal(self):
        """Its 24 lines of 80 columns."""
        self.assertEqual(USUAL.split("\n"), self.frame(chosen=stories.PC))

    def test_a_small_terminal(self):
        """Masks and references are left out, maps and names are cut."""
        self.assertEqual(SMALL.split("\n"), self.frame(60, 20, sort="misses"))

    def test_colours(self):
        """They change no letter: the chosen tenant and the first line are turned round."""
        lines = self.frame(chosen=stories.PC, colour=True)
        self.assertEqual(USUAL.split("\n"), [re.sub("\x1b.*?m", "", one) for one in lines])
        self.assertTrue(lines[0].startswith("\x1b[7m "))
        self.assertTrue(lines[1].startswith("\x1b[1m domain"))
        self.assertTrue(lines[9].startswith("\x1b[7m>pc1"))
        self.assertTrue(lines[-1].startswith("\x1b[2m q quit"))

    def test_where_more_is_shown(self):
        """From 30 lines on blank ones set parts off; from 72 columns masks are shown."""
        for height, place in ((29, 1), (30, 2)):
            self.assertIn("domain 0", self.frame(height=height)[place])
        for width, shown in ((71, False), (72, True)):
            text = "\n".join(self.frame(width))
            self.assertEqual((shown, shown), ("MASK" in text, "REFERENCES" in text))

    def test_what_is_monitored(self):
        """From 100 columns on, the lines in the LLC and the traffic, where they are counted."""
        row = self.domain.latest
        rates = Rates(1.2e9, 4.6e9, 3e6, 1e6, occupancy_bytes=3 << 20)
        sample = dataclasses.replace(row.iteration.sample, tenants={stories.BE: rates})
        iteration = dataclasses.replace(row.iteration, sample=sample)
        domain = dataclasses.replace(
            self.domain, latest=dataclasses.replace(row, iteration=iteration)
        )
        for width, shown in ((99, False), (100, True)):
            text = "\n".join(self.frame(width, domain=domain))
            self.assertEqual(shown, "    IN LLC      MEMORY" in text)
            self.assertEqual(shown, "   3.0 MiB           - ~ddio" in text)

    def test_many_tenants(self):
        """The chosen one is in the middle; how many are hidden is told."""
        template = self.domain.inventory.tenants[2]
        crowd = tuple(dataclasses.replace(template, id=f"{n}", name=f"be{n}") for n in range(40))
        inventory = dataclasses.replace(self.domain.inventory, tenants=crowd)
        domain = dataclasses.replace(self.domain, inventory=inventory)
        for chosen, first, told in (
            (None, "be0", " … 31 below, of 40 tenants"),
            ("2", "be0", " … 31 below, of 40 tenants"),
            ("20", "be16", " … 16 above, 15 below, of 40 tenants"),
            ("39", "be31", " … 31 above, of 40 tenants"),
        ):
            lines = self.frame(domain=domain, chosen=chosen)
            at = next(place for place, line in enumerate(lines) if " TENANT" in line)
            self.assertEqual(first, lines[at + 1][1:].split()[0])
            self.assertEqual(told, lines[at + 10])

    def test_few_lines(self):
        """However low the screen and whatever the alarms: hidden tenants are counted."""
        template = self.domain.inventory.tenants[2]
        crowd = tuple(dataclasses.replace(template, id=f"{n}", name=f"be{n}") for n in range(9))
        inventory = dataclasses.replace(self.domain.inventory, tenants=crowd)
        domain = dataclasses.replace(self.domain, inventory=inventory)
        holds = [Hold(stories.BE, "be1", ways, 0.0) for ways in (1, 2)]
        for height in range(8, 40):
            for changes in ({}, {"holds": holds, "damage": "broken " * 30}):
                if changes and height < 14:
                    continue  # alarms take six lines
                seen = dataclasses.replace(self.seen, **changes)
                text = "\n".join(self.frame(height=height, seen=seen, domain=domain))
                shown = len(re.findall(r"^ be\d ", text, re.MULTILINE))
                told = re.search(r"^ … (\d) below, of 9 tenants$", text, re.MULTILINE)
                self.assertEqual(9, shown + (int(told[1]) if told else 0), text)
                self.assertGreater(shown, 0, text)

    def test_a_long_host_name(self):
        """It gives way to the mode and the age of the data."""
        seen = dataclasses.replace(self.seen, hostname="compute-0017.rack-12.example.org")
        title = self.frame(60, seen=seen)[0]
        self.assertEqual(" iat-nova   compute…   enforce   data 0.4 s old", title)

    def test_the_critical_first(self):
        """The first of a full screen are those that must not suffer."""
        stack, critical, best_effort = self.domain.inventory.tenants
        tenants = (best_effort, critical, stack)
        inventory = dataclasses.replace(self.domain.inventory, tenants=tenants)
        domain = dataclasses.replace(self.domain, inventory=inventory)
        listed = top.listed(domain, Screen(80, 24))
        self.assertEqual([critical, stack, best_effort], listed)

    def test_order(self):
        """Largest first; tenants without figures last."""
        for sort, order in (
            ("name", ["stack", stories.PC, stories.BE]),
            ("misses", [stories.PC, stories.BE, "stack"]),
            ("references", [stories.BE, stories.PC, "stack"]),
            ("ipc", [stories.BE, stories.PC, "stack"]),
        ):
            row = self.domain.latest
            tenants = {
                stories.BE: Rates(4e9, 4e9, 9e6, 0.0),
                stories.PC: Rates(1e9, 4e9, 3e6, 1e6),
            }
            sample = dataclasses.replace(row.iteration.sample, tenants=tenants)
            iteration = dataclasses.replace(row.iteration, sample=sample)
            domain = dataclasses.replace(
                self.domain, latest=dataclasses.replace(row, iteration=iteration)
            )
            listed = top.listed(domain, Screen(80, 24, sort=sort))
            self.assertEqual(order, [one.id for one in listed])

    def test_a_tenant_of_which_little_is_known(self):
        """Without rates and mask there are dashes; a held tenant says so."""
        be = self.domain.inventory.tenants[2]
        held = dataclasses.replace(be, id="x", ways=dataclasses.replace(be.ways, held=True))
        inventory = dataclasses.replace(self.domain.inventory, tenants=(held,))
        self.assertEqual(
            ">be1            BE           -        -     -           -         -      - held",
            self.row(dataclasses.replace(self.domain, inventory=inventory), "x"),
        )

    def test_alarms(self):
        """At most three: masks that are held, the agent's end, holds, problems, damage."""
        reason = Reason("ddio-no-effect", verbatim("stuck"))
        status = dataclasses.replace(self.seen.now.status, problems=(reason,))
        now = dataclasses.replace(self.seen.now, status=status)
        hold = Hold(stories.BE, "be1", 2, 0.0)
        for changes, expected in (
            ({"now": now}, [" stuck"]),
            ({"now": now, "agent": AgentNow(AgentState.FAILED, 1, 0.0, "x")}, [" the agent is"]),
            ({"holds": [hold]}, [" held: not in force: be1 at 2"]),
            ({"damage": "broken"}, [" broken"]),
            ({"holds": [hold] * 3, "damage": "broken"}, [" held: not in force: be1"] * 3),
        ):
            with self.subTest(changes):
                seen = dataclasses.replace(self.seen, **changes)
                lines = self.frame(seen=seen)[1 : 2 + len(expected)]
                for begin, line in zip([*expected, " domain"], lines, strict=True):
                    self.assertTrue(line.startswith(begin), lines)

    def test_the_last_line(self):
        """A question, the typed text, a note, or the keys; what is frozen or left out is told."""
        keys = top.KEYS
        for changes, shown in (
            (
                {"mode": Mode.CONFIRM},
                " hold all masks as they are until `iat-nova resume`? y: yes, any other key: no",
            ),
            ({"mode": Mode.FILTER, "pattern": "be"}, " /be_   Enter keeps it, Esc shows all"),
            ({"mode": Mode.FILTER, "note": "x"}, " /_   Enter keeps it, Esc shows all"),
            ({"note": "not\x1bed"}, " not\\x1bed"),
            ({"mode": Mode.PAGE}, " q back"),
            ({"frozen": True}, f" FROZEN   {keys}"),
            ({"pattern": "be"}, f" only /be, Esc: all   {keys}"),
        ):
            self.assertEqual(shown, self.frame(120, 24, **changes)[-1])

    def test_pages(self):
        """Scrolled to their last line at most."""
        page = [f"line {number}" for number in range(30)]
        for offset, first, last in ((0, 0, 21), (5, 5, 26), (500, 8, 29)):
            screen = Screen(80, 24, mode=Mode.PAGE, offset=offset)
            lines = top.frame(self.seen, None, None, screen, page)
            self.assertEqual((f" line {first}", f" line {last}"), (lines[1], lines[-2]))
            self.assertEqual(24, len(lines))

    def test_nothing_recorded(self):
        """A host without tenants, and a domain without an iteration."""
        lines = top.frame(self.seen, None, None, Screen(80, 24))
        self.assertEqual(["", " No tenants were recorded yet.", ""], lines[1:4])
        domain = dataclasses.replace(self.domain, latest=None)
        self.assertEqual(" domain 0   no iteration yet", self.frame(domain=domain)[1])
        seen = dataclasses.replace(self.seen, domains=[domain, domain])
        self.assertEqual(
            " domain 0 of 2   no iteration yet", self.frame(seen=seen, domain=domain)[1]
        )

    def test_ports(self):
        """Ports with ways of their own have a line each below the map, cut to the screen."""
        ports = (
            PortGroup(("0000:3b:00.0",), WayMask(0x600)),
            PortGroup(("x" * 90,), WayMask(0x100)),
        )
        layout = dataclasses.replace(stories.layout(2), ports=ports)
        row = self.domain.latest
        decision = dataclasses.replace(row.iteration.decision, layout=layout)
        iteration = dataclasses.replace(row.iteration, decision=decision)
        domain = dataclasses.replace(
            self.domain, latest=dataclasses.replace(row, iteration=iteration)
        )
        lines = self.frame(domain=domain)
        self.assertEqual(" 1: 2 ways 0x600, 0000:3b:00.0 (no tenant)", lines[3])
        self.assertEqual(f" 2: 1 way 0x100, {'x' * 61}…", lines[4])

    def test_pmd_threads(self):
        """One line on a usual terminal, three on a tall one, and drops of ports at the end."""
        threads = [PmdThread(cpu, 0.5, 1e6, 100.0, 0.0) for cpu in range(9)]
        for count, height, lines, end in (
            (1, 24, 1, "drop 1…"),
            (9, 24, 1, " …"),
            (9, 30, 3, "; CPU 4 50…"),
        ):
            switch = VirtualSwitch({}, (), (), pmd_threads=tuple(threads[:count]), drops_per_s=12.0)
            seen = dataclasses.replace(self.seen, switch=switch)
            shown = self.frame(height=height, seen=seen)
            first = next(n for n, one in enumerate(shown) if one.startswith(" PMD threads: CPU 0"))
            self.assertTrue(shown[first + lines - 1].endswith(end), shown)
            self.assertEqual("", shown[first + lines])

    def test_the_past(self):
        """Its moment, and how long ago, instead of the agent's mode."""
        lines = self.frame(past_s=stories.NIGHT + 5)
        self.assertEqual(" iat-nova   compute-7   AT 2026-11-21 03:00:05 UTC, 15 s ago", lines[0])

    def test_bars(self):
        """Eight heights; the last values are shown."""
        self.assertEqual("▁▂▃▄▅▆▇█", top.sparkline([0.1, *range(1, 8)], 8))
        self.assertEqual("▁▁", top.sparkline([9.0, 0.0, 0.0], 2))
        self.assertEqual("", top.sparkline([1.0], -1))
