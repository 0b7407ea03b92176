# SPDX-License-Identifier: Apache-2.0
"""Whole pages of iat-nova status."""

import dataclasses

from iat_nova.model import Pause, verbatim
from iat_nova.model.reasons import Reason
from iat_nova.report import status
from iat_nova.store.heartbeat import AgentNow, AgentState
from iat_nova.store.records import Shadow, ShadowDomain
from tests.unit import stories
from tests.unit.report.test_screens import StoryCase

PAGE = """\
agent       enforce, strategy iat, every 1 s, pid 4711, up 1
            min 20 s
data        0.4 s old
paused      no
degraded    nothing

domain 0    Low Keep, DDIO 5 ways 0x7c0, hits 31.0 M/s,
            misses 400 k/s
            0 [vsw…][pc1    ][b…~ddio][~~~ddio] 10
            a new guest would find: 1.5 ways if critical,
            1.5 ways if best effort (a shared way counts in
            part)
            last decision 2026-11-21 03:00:06 UTC, 14 s ago:
            domain 0 #6: Low Keep -> I/O Demand (1); grow
            ddio 4 -> 5 ways: misses 4.2 M/s above 1 M/s;
            moved: ddio"""


class PageTest(StoryCase):
    """The story of a night, twenty seconds after its begin."""

    def setUp(self):
        super().setUp()
        for file in self.folder.iterdir():
            file.unlink()
        self.tell(stories.NIGHT)
        seen = self.view()
        self.seen = dataclasses.replace(seen, now=dataclasses.replace(seen.now, age_s=0.4))

    def page(self, said=None, **changes):
        """Return the lines where the agent says something else, or the host is seen otherwise."""
        now = dataclasses.replace(
            self.seen.now, status=dataclasses.replace(self.seen.now.status, **(said or {}))
        )
        seen = dataclasses.replace(self.seen, **{"now": now, **changes})
        return status.page(seen, stories.NIGHT + 20).splitlines()

    def test_a_whole_page(self):
        """Wrapped at sixty columns; without wrapping a statement is a line."""
        self.assertEqual(PAGE, status.page(self.seen, stories.NIGHT + 20, width=60, wrap=True))
        lines = self.page()
        self.assertEqual(
            "agent       enforce, strategy iat, every 1 s, pid 4711, up 1 min 20 s", lines[0]
        )
        self.assertEqual(10, len(lines))

    def test_what_is_wrong(self):
        """Problems, notices, the last error: the first of a kind has its title."""
        one, two = (Reason("ddio-no-effect", verbatim(text)) for text in ("one", "two"))
        lines = self.page(
            {"problems": (one, two), "notices": (two, one), "last_error": verbatim("x")}
        )
        self.assertEqual(
            [
                "degraded    one", "            two", "notice      two", "            one",
                "last error  x", "",
            ],
            lines[3:9],
        )  # fmt: skip

    def test_a_shadow(self):
        """Its moves beside those of the strategy in force, and its map."""
        (domain,) = self.seen.domains
        domain = dataclasses.replace(domain, shadow=ShadowDomain(stories.layout(2), 10, 30))
        shadow = Shadow("quiet", stories.NIGHT - 3580)
        lines = self.page({"shadow": shadow}, domains=[domain])
        self.assertEqual(
            "shadow      quiet, nothing written; masks moved in 1 h: 10, by strategy iat 30 "
            "(240 and 720 a day)",
            lines[10],
        )
        self.assertEqual(
            "            0 [vswitch ][pc1          ][be1          ][...][~~~~ddio] 10", lines[11]
        )
        self.assertEqual(12, len(lines))

    def test_nothing_recorded(self):
        """No domain, a domain without an iteration, no agent."""
        self.assertEqual("No tenants were recorded yet.", self.page(domains=[])[-1])
        (domain,) = self.seen.domains
        early = dataclasses.replace(domain, latest=None)
        self.assertEqual("domain 0    11 ways, no iteration yet", self.page(domains=[early])[-1])
        stopped = AgentNow(AgentState.STOPPED, None, None)
        lines = self.page(now=None, agent=stopped)
        self.assertEqual("data        none", lines[1])

    def test_a_record(self):
        """The same for programs."""
        told = status.record(self.seen)
        expected = {
            "host": "compute-7", "mode": "enforce", "running": True, "state": "running",
            "state_age_s": 0.5, "data_age_s": 0.4, "paused": False, "paused_until_s": None,
            "pid": 4711, "version": "1.0", "strategy": "iat", "interval_s": 1.0,
            "waits_for": None, "reason": None, "degraded": [], "problems": [],
        }  # fmt: skip
        self.assertEqual(expected, {key: told[key] for key in expected})
        (domain,) = told["domains"]
        expected = {
            "domain": 0, "cache_ways": 11, "iteration": 12, "written": True, "ddio_ways": 5,
            "ddio_mask": "0x7c0", "ddio_mask_requested": "0x7c0",
            "last_decision_s": stories.NIGHT + 6,
            "newcomer_ways": {"PC": 1.5, "BE": 1.5}, "shadow": None, "rings": None,
        }  # fmt: skip
        self.assertEqual(expected, {key: domain[key] for key in expected})

    def test_a_record_of_a_pause(self):
        """One without an end has none; its reason is told."""
        for until_s, shown in ((stories.NIGHT + 60, stories.NIGHT + 60), (float("inf"), None)):
            pause = Pause(stories.NIGHT, until_s, "upgrade")
            told = status.record(dataclasses.replace(self.seen, pause=pause))
            self.assertEqual((True, shown, "upgrade"), (
                told["paused"], told["paused_until_s"], told["paused_reason"],
            ))  # fmt: skip
