# SPDX-License-Identifier: Apache-2.0
"""The commands as an operator types them: text out, exit status, never a traceback."""

import contextlib
import csv
import dataclasses
import datetime
import fnmatch
import gc
import importlib.metadata
import io
import json
import os
import pathlib
import re
import shutil
import sqlite3
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import yaml

from iat_nova.cmd import base, overview
from iat_nova.cmd import main as program
from iat_nova.cmd.arguments import moment
from iat_nova.cmd.base import Failure
from iat_nova.cmd.top import Scene
from iat_nova.common import plugins
from iat_nova.conf import LOCK
from iat_nova.model import (
    Action,
    DevicePort,
    Group,
    Hold,
    PortGroup,
    PortRates,
    TenantKind,
    WayMask,
    WayRequest,
    message,
    verbatim,
)
from iat_nova.model.reasons import Code, Reason
from iat_nova.report import escape, html, moments, times, view
from iat_nova.report.top_screen import Screen
from iat_nova.store import heartbeat
from iat_nova.store.heartbeat import only_agent
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Event, EventKind, Iteration
from iat_nova.store.requests import PauseFile
from iat_nova.store.writer import History
from tests.unit import build, stories

EVIL = "be\x1b[31m\u202e"
ROOT = pathlib.Path(__file__).parents[3]


class CliCase(unittest.TestCase):
    """Runs the program in this process on a folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="iat-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        environment = {"IAT_NOVA_STATE_DIR": str(self.folder), "COLUMNS": "80", "LINES": "24"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        self.heartbeat = None

    def tell(self, at_s=None, *, agent=None, **changes):
        """Write the story; this process is the agent at work, unless that has stopped."""
        agent = dataclasses.replace(agent or stories.status(), pid=os.getpid())
        if not agent.stopped and self.heartbeat is None:
            self.heartbeat = self.enterContext(only_agent(self.folder / LOCK))
        if self.heartbeat is not None:
            self.heartbeat.iteration(600.0, None)
        clock = stories.SetClock(at_s or time.time() - 12)
        history = History(
            self.folder / "history.sqlite", max_age_s=1e9, max_bytes=8 << 20, clock=clock
        )
        stories.tell(history, clock=clock, agent=agent, **changes)
        self.assertTrue(history.flush(60.0), history.problem)
        history.close()

    def with_ports(self, name="be1"):
        """Write the story on a CPU with I/O RDT: a card of two tenants, and a port of nobody."""
        inventory = stories.inventory(name)
        card, other = (DevicePort(one, (one,)) for one in ("0000:3b:00.0", "0000:5e:00.0"))
        stack, first, second = inventory.tenants
        inventory = dataclasses.replace(
            inventory,
            domain=dataclasses.replace(inventory.domain, device_ports=(card, other)),
            tenants=(
                dataclasses.replace(stack, ports=(card.id,)),
                first,
                dataclasses.replace(second, ports=(card.id,)),
            ),
        )
        counted = {card.id: PortRates(3 << 20, 2.5e9)}
        layout, sample = stories.layout, stories.sample
        for name, made in (
            ("inventory", lambda name: inventory),
            (
                "layout",
                lambda ways: dataclasses.replace(
                    layout(ways), ports=(PortGroup((card.id,), WayMask(0x0C0)),)
                ),
            ),
            (
                "sample",
                lambda *of, **more: dataclasses.replace(sample(*of, **more), ports=counted),
            ),
        ):
            self.enterContext(mock.patch.object(stories, name, made))
        self.tell()

    def run_it(self, *arguments):
        """Return status, standard output and standard error."""
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(sys, "stdout", out), mock.patch.object(sys, "stderr", err):
            try:
                status = program.main(list(arguments))
            except SystemExit as exit_:  # argparse
                status = exit_.code or 0
        self.assertNotIn("Traceback", out.getvalue() + err.getvalue())
        self.assertNotIn("internal error", err.getvalue())
        return status, out.getvalue(), err.getvalue()


class TestTenants(CliCase):
    def test_json(self):
        """The columns programs rely on, as plain values, names untouched."""
        self.tell(be_name=EVIL)
        status, out, _ = self.run_it("tenants", "-f", "json")
        rows = json.loads(out)
        self.assertEqual(0, status)
        self.assertEqual(
            {
                "name": "pc1",
                "uuid": "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
                "priority": "PC",
                "io": True,
                "cpus": [4, 5],
                "model": "slicing",
                "devices": ["0000:3b:02.1"],
                "domain": 0,
                "ways": 3,
                "mask": "0x1c",
                "held": None,
                "bandwidth": 100,
                "overlaps_ddio": False,
                "warnings": [],
            },
            rows[1],
        )
        self.assertEqual((EVIL, True), (rows[2]["name"], rows[2]["overlaps_ddio"]))
        self.assertNotIn("\x1b", out)

    def test_guests_of_the_same_name(self):
        """The list tells them apart; columns for programs keep the name as it is."""
        self.tell(be_name="pc1")
        _, out, _ = self.run_it("tenants")
        self.assertRegex(out, r"(?s)\| pc1 \(6f9619ff\) .*\| pc1 \(0b6b2c1a\) ")
        for formatter in ("csv", "json"):
            _, out, _ = self.run_it("tenants", "-f", formatter)
            self.assertNotIn("pc1 (", out)

    def test_every_format_is_harmless(self):
        """No format lets a name's control characters through."""
        self.tell(be_name=EVIL)
        for name in ("table", "json", "yaml", "csv", "value"):
            status, out, _ = self.run_it("tenants", "-f", name)
            self.assertEqual(0, status)
            self.assertNotIn("\x1b", out, name)
            self.assertNotIn("\u202e", out, name)
        _, out, _ = self.run_it("tenants", "-f", "yaml")
        self.assertEqual(EVIL, yaml.safe_load(out)[2]["name"])
        _, out, _ = self.run_it("tenants", "-f", "csv", "-c", "name", "-c", "cpus")
        self.assertEqual(["vswitch", "2-3"], list(csv.reader(io.StringIO(out)))[1])

    def test_the_table_fits_a_page(self):
        """What has no room stands below it, or is for --long; programs get all of it."""
        inventory = stories.inventory()
        be = dataclasses.replace(
            inventory.tenants[2], warnings=(verbatim("x" * 90), verbatim(EVIL))
        )
        tenants = (*inventory.tenants[:2], be)
        with mock.patch.object(
            stories, "inventory", lambda name: dataclasses.replace(inventory, tenants=tenants)
        ):
            self.tell()
        _, out, err = self.run_it("tenants")
        *table, below = out.splitlines()
        self.assertLessEqual(max(map(len, table)), 80)
        self.assertRegex(below, "^be1: x{90}; ")
        self.assertNotIn("\x1b", out)
        self.assertEqual("", err)
        self.assertIn("\n  warnings ", self.run_it("tenants", "--long")[1])
        names = self.run_it("tenants", "--long", "--sort-column", "name", "--max-width", "400")[1]
        found = [line.split("|")[1].strip() for line in names.splitlines() if line.startswith("|")]
        found = [name for name in found[1:] if name]  # a cell may have several lines
        self.assertEqual(["be1", "pc1", "vswitch"], found)
        self.assertEqual(7, self.run_it("tenants", "-c", "devices")[1].count("\n"))
        self.assertIn("x" * 90, self.run_it("tenants", "-f", "csv")[1])

    def test_ports(self):
        """Below the table: tenants behind, own ways or DDIO's, and what is counted."""
        self.with_ports("database-of-customer-4711-in-the-second-rack")
        _, out, err = self.run_it("tenants")
        self.assertEqual("", err)
        heading, card, other = out.splitlines()[-3:]
        self.assertLessEqual(len(card), 80)
        self.assertRegex(heading, "^port +tenants +ways +mask +in the LLC +memory traffic$")
        self.assertRegex(card, r"^0000:3b:00.0  vswitch, da.*  2 +0xc0 +3.0 MiB +2.3 GiB/s$")
        self.assertRegex(other, r"^0000:5e:00.0  - +5 DDIO  0x7c0$")
        self.assertRegex(self.run_it("tenants", "--long")[1], r"\n  ports +0000:3b:00.0\n")

    def test_ports_instead_of_tenants(self):
        """A row for each, for people and for programs."""
        self.with_ports()
        _, out, _ = self.run_it("tenants", "--ports")
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        self.assertRegex(out, r"\| 0000:3b:00.0 \| vswitch, be1 \| 2 +\| 0xc0 +\| 3.0 MiB ")
        _, out, _ = self.run_it("tenants", "--ports", "-f", "json")
        card, other = json.loads(out)
        self.assertEqual(
            {
                "port": "0000:3b:00.0",
                "domain": 0,
                "tenants": ["vswitch", "be1"],
                "devices": ["0000:3b:00.0"],
                "ways": 2,
                "mask": "0xc0",
                "mask_requested": "0xc0",
                "occupancy_bytes": 3 << 20,
                "memory_bytes_per_s": 2_500_000_000,
            },
            card,
        )
        nothing = dict.fromkeys(
            ("ways", "mask", "mask_requested", "occupancy_bytes", "memory_bytes_per_s")
        )
        self.assertEqual(nothing, {key: other[key] for key in nothing})
        _, out, _ = self.run_it("tenants", "--ports", "-c", "port", "-c", "ways", "-f", "csv")
        self.assertEqual([["port", "ways"], ["0000:3b:00.0", "2"], ["0000:5e:00.0", ""]],
                         list(csv.reader(io.StringIO(out))))  # fmt: skip
        self.assertEqual(2, self.run_it("tenants", "--ports", "--long")[0])

    def test_ports_are_explained(self):
        """Of a guest that of its devices; of a decision those that were counted."""
        self.with_ports()
        _, out, _ = self.run_it("explain", "be1")
        told = " ".join(out.split())
        self.assertIn(
            "port 0000:3b:00.0 has 2 ways 0xc0, 3.0 MiB in the LLC, 2.3 GiB/s to and from memory",
            told,
        )
        self.assertNotIn("00.0 has 2 ways", self.run_it("explain", "pc1")[1])
        rows = json.loads(self.run_it("explain", "be1", "-f", "json")[1])["domains"][0]["port_rows"]
        self.assertEqual([("0000:3b:00.0", 2)], [(row["port"], row["ways"]) for row in rows])
        self.assertRegex(
            self.run_it("explain")[1],
            r"\n  port 0000:3b:00.0 \(vswitch, be1\) 3.0 MiB in the LLC, 2.3 GiB/s .*\n    memory",
        )

    def test_a_port_is_explained(self):
        """By its address: who is behind it, its class and ways, since when, and why."""
        self.with_ports()
        status, out, err = self.run_it("explain", "3B:00.0")
        self.assertEqual((0, ""), (status, err))
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        told = " ".join(out.split())
        for text in (
            "Port 0000:3b:00.0 Behind it vswitch (stack: the virtual switch) be1 (BE: best effort)",
            "Class one of its own Domain 0 port 0000:3b:00.0 has 2 ways 0xc0, 3.0 MiB in the LLC",
            "11... 2 0xc0 port 0000:3b:00.0 (vswitch, be1)",
        ):
            self.assertIn(text, told)
        data = json.loads(self.run_it("explain", "0000:3b:00.0", "-f", "json")[1])
        self.assertEqual(
            ("0000:3b:00.0", 2, True, True, ["vswitch", "be1"]),
            (
                *(data[key] for key in ("port", "ways", "own_class", "here")),
                [one["name"] for one in data["behind"]],
            ),
        )
        told = " ".join(self.run_it("explain", "0000:5e:00.0")[1].split())
        for text in (
            "Behind it no tenant: the host's kernel has it",
            "Class that of all devices, with DDIO's ways",
            "the strategy iat gives no port ways of its own",
            "no recorded decision moved it",
        ):
            self.assertIn(text, told)
        status, _, err = self.run_it("explain", "0000:01:00.0")
        self.assertEqual(1, status)
        self.assertIn("there are 0000:3b:00.0, 0000:5e:00.0", err)
        self.assertEqual(2, self.run_it("explain", "0000:3b:00.0", "--exact")[0])

    def test_no_ports(self):
        """Without I/O RDT nothing is added, and there is nothing to list."""
        self.tell()
        self.assertNotIn("memory traffic", self.run_it("tenants")[1])
        self.assertEqual([], json.loads(self.run_it("tenants", "--ports", "-f", "json")[1]))
        self.assertIn("only with I/O RDT", self.run_it("explain", "0000:3b:00.0")[2])
        status, out, err = self.run_it("tenants", "--ports")
        self.assertEqual((0, "", True), (status, out, "only with I/O RDT" in err), err)

    def test_columns_in_the_help(self):
        """The help names columns that there are, and each that only --long has in numbers."""
        out = self.run_it("tenants", "--help")[1]
        told = out.partition("\ncolumns:\n")[2].partition("\n\n")[0]
        named = re.findall(r"[a-z_*]+", " ".join(line[:20] for line in told.splitlines()))
        there = (*view.TENANT_COLUMNS, *view.LONG_COLUMNS)
        for name in named:
            self.assertTrue(fnmatch.filter(there, name), name)
        for column in view.LONG_COLUMNS[view.LONG_COLUMNS.index("requested") :]:
            known = any(fnmatch.fnmatch(column, name) for name in named)
            self.assertTrue(known or column == "occupancy_bytes", column)

    def test_sorted(self):
        """Ways are sorted as numbers; a column that the table does not have is named."""
        self.tell()
        row = view.tenant_row

        def widened(domain, tenant):
            wide = {"ways": 10} if tenant.kind is TenantKind.STACK else {}
            return {**row(domain, tenant), **wide}

        with mock.patch.object(view, "tenant_row", widened):
            out = self.run_it("tenants", "--sort-column", "ways")[1]
        self.assertEqual(["3", "3", "10"], re.findall(r"\| +(\d+) \| 0x", out))

        def without(domain, tenant):
            absent = {"ways": None, "mask": "0x1"} if tenant.kind is TenantKind.STACK else {}
            return {**row(domain, tenant), **absent}

        with mock.patch.object(view, "tenant_row", without):
            for order in ("--sort-ascending", "--sort-descending"):
                out, err = self.run_it("tenants", "--sort-column", "ways", order)[1:]
                self.assertEqual(["3", "3", ""], re.findall(r"\| +(\d*) +\| 0x", out))
                self.assertEqual("", err)
        status, out, err = self.run_it("tenants", "--sort-column", "nonsense")
        self.assertEqual((0, self.run_it("tenants")[1]), (status, out))
        self.assertIn("not sorted: no such column: nonsense; there are: name, ", err)

    def test_stale(self):
        """Of an agent that has gone the list is shown with a warning and status 3."""
        self.tell(agent=stories.status(stopped=True))
        status, out, err = self.run_it("tenants")
        self.assertEqual(3, status)
        self.assertIn("pc1", out)
        self.assertIn("not running", err)

    def test_unknown_column(self):
        """A column that does not exist is a mistake of the caller."""
        self.tell()
        for columns in (
            ("-c", "nonsense"),
            ("-c", "name", "-c", "nonsense"),
        ):
            status, _, err = self.run_it("tenants", *columns)
            self.assertEqual((2, True), (status, "no such column: nonsense; there are: " in err))
            self.assertIn("overlaps_ddio", err)
            self.assertIn("references_per_s", err)
        self.assertIn("| ipc |", re.sub(" +", " ", self.run_it("tenants", "-c", "ipc")[1]))
        status, _, err = self.run_it("status", "-f", "value", "-c", "state", "-c", "nonsense")
        self.assertEqual((2, True), (status, "no such column: nonsense; there are: " in err))
        same = [self.run_it("tenants", "-f", "csv", "-c", name)[1] for name in ("ways", "WAYS")]
        self.assertEqual(same[0], same[1])
        status, _, err = self.run_it("status", "-c", "state")
        self.assertEqual((2, True), (status, "the text has no columns" in err))


class TestStatus(CliCase):
    def test_page_and_record(self):
        """At work: status 0, for people and for programs."""
        self.tell()
        status, out, _ = self.run_it("status")
        self.assertEqual(0, status)
        self.assertRegex(out, r"agent +enforce")
        status, out, _ = self.run_it("status", "-f", "json")
        record = json.loads(out)
        self.assertEqual(("enforce", True), (record["mode"], record["running"]))
        self.assertEqual("0x7c0", record["domains"][0]["ddio_mask"])

    def test_reasons(self):
        """Programs read code and values of each reason, people the sentence."""
        said = message("file-unusable", path="/dev/cpu/0/msr", reason="denied")
        self.tell(agent=stories.status(mode="observe", reasons=(Reason(Code.REFUSED, said),)))
        record = json.loads(self.run_it("status", "-f", "json")[1])
        values = {"path": "/dev/cpu/0/msr", "reason": "denied"}
        text = "/dev/cpu/0/msr: denied"
        self.assertEqual([{"code": "refused", "values": values, "text": text}], record["reasons"])

    def test_stopped(self):
        """Not at work: status 3."""
        self.tell(agent=stories.status(stopped=True))
        status, out, _ = self.run_it("status")
        self.assertEqual(3, status)
        self.assertIn("not running (it ended properly)", out)

    def test_killed(self):
        """Who restores the host is said beside the page, of a killed agent alone."""
        self.tell()
        self.assertEqual("", self.run_it("status")[2])
        look = heartbeat.AgentNow(heartbeat.AgentState.UNCLEAN)
        with mock.patch.object(base, "look", return_value=look):
            status, out, err = self.run_it("status")
        self.assertEqual((3, True), (status, "not running (unclean shutdown)" in out), out)
        self.assertIn("without systemd run iat-nova restore", err)

    def test_starting(self):
        """Before the first iteration, with and without an older history: status 4, and why."""
        heartbeat = self.enterContext(only_agent(self.folder / LOCK))
        heartbeat.starting("compiling the kernels")
        for old in (False, True):
            if old:
                self.tell(agent=stories.status(stopped=True))
            status, out, _ = self.run_it("status")
            self.assertEqual(4, status)
            self.assertRegex(out, r"agent +starting, .*: compiling the kernels")
            status, out, _ = self.run_it("top", "--once")
            self.assertEqual(4, status)
            if not old:
                self.assertIn("agent is starting, no iteration yet", out)
            record = json.loads(self.run_it("status", "-f", "json")[1])
            self.assertEqual(
                ("starting", False, "compiling the kernels", os.getpid()),
                (record["state"], record["running"], record["waits_for"], record["pid"]),
            )

    def test_a_first_start_that_failed(self):
        """No history yet: the error all the same, with status 3."""
        with self.assertRaises(OSError), only_agent(self.folder / LOCK):
            raise OSError("cannot listen there")
        for command in (("status",), ("tenants",), ("top", "--once")):
            status, out, err = self.run_it(*command)
            self.assertEqual(3, status)
            self.assertIn("not running (it ended with an error: cannot listen there)", out + err)
            self.assertNotIn("the last it recorded", out + err)
        self.assertEqual("failed", json.loads(self.run_it("status", "-f", "json")[1])["state"])

    def test_stalled(self):
        """Iterations that are overdue: status 5, however young the history is."""
        self.tell()
        self.heartbeat._now = lambda: time.monotonic() - 5000
        self.heartbeat.iteration(600.0, None)
        status, out, _ = self.run_it("status")
        self.assertEqual(5, status)
        self.assertIn(f"stalled: process {os.getpid()}, last iteration 1 h 23 min ago", out)
        self.assertEqual(5, self.run_it("top", "--once")[0])
        self.assertIn("stalled", self.run_it("tenants")[2])

    def test_state_dir_wins(self):
        """--state-dir is taken before and after the command, over the environment."""
        self.tell()
        with mock.patch.dict(os.environ, {"IAT_NOVA_STATE_DIR": "/nonexistent"}):
            self.assertEqual(3, self.run_it("status")[0])
            self.assertEqual(0, self.run_it("--state-dir", str(self.folder), "status")[0])
            self.assertEqual(0, self.run_it("status", "--state-dir", str(self.folder))[0])

    def test_config_file(self):
        """The state directory is found through the configuration."""
        self.tell()
        conf = self.folder / "iat.conf"
        conf.write_text(f"[iat]\nstate_dir = {self.folder}\n")
        with mock.patch.dict(os.environ, {"IAT_NOVA_STATE_DIR": "/nonexistent"}):
            self.assertEqual(0, self.run_it("status", "--config-file", str(conf))[0])
            self.assertEqual(0, self.run_it("status", "--config-dir", str(self.folder))[0])
            self.assertEqual(0, self.run_it("--config-dir", str(self.folder), "status")[0])


class TestWidth(CliCase):
    """80 columns hold what is listed, whatever the guests are called."""

    def test_listings(self):
        """Of a guest with a long name, whose end stays visible; also in wide characters."""
        for name in ("production-database-replica-eu-central-1-of-customer-4711", "数据库" * 20):
            self.tell(be_name=name)
            for arguments in (
                ("tenants",),
                ("decisions",),
                ("decisions", "--kind", "refuse"),
                ("explain",),
                ("explain", "-v"),
                ("explain", "pc1"),
            ):
                with self.subTest(arguments=arguments), mock.patch.dict(os.environ, COLUMNS="80"):
                    _, out, _ = self.run_it(*arguments)
                    lines = [one for one in out.splitlines() if not one.startswith(name)]
                    self.assertLessEqual(max(map(escape.width, lines)), 80, out)
            self.assertIn(f"{name[-5:]} ", self.run_it("tenants")[1])

    def test_helps(self):
        """Paragraphs are filled to the terminal; lists and examples have lines of their own."""
        for words in (*(one.split() for one in program.COMMANDS), ["simulate", "compare"]):
            with self.subTest(words=words):
                lines = self.run_it(*words, "--help")[1].splitlines()
                copied = re.compile("  (iat-nova .*|-f {json.*)")  # in one piece
                rest = [one for one in lines if not copied.fullmatch(one) or "  " in one.strip()]
                self.assertLessEqual(max(map(escape.width, rest)), 80)
        self.assertIn("\n  iat-nova explain 03:12\n", self.run_it("explain", "--help")[1])

    def test_messages_in_a_terminal(self):
        """Lines break between words; a command to copy that is longer stays in one piece."""
        terminal = mock.Mock(isatty=lambda: True)
        text = f"iat-nova: the agent is not running; see {'x' * 90} or so"
        lines = base.folded(text, terminal).splitlines()
        self.assertEqual(text.split(), " ".join(lines).split())
        self.assertEqual(2, sum(escape.width(line) <= 80 for line in lines))
        self.assertEqual(text, base.folded(text, io.StringIO()))

    def test_the_short_table(self):
        """Cells of people: I/O beside the priority, DDIO beside the mask, the pool's guests."""
        pool = build.tenant("pool", 12, kind=TenantKind.POOL, members=("dev",))
        found = stories.inventory()
        with mock.patch.object(
            stories,
            "inventory",
            lambda name: dataclasses.replace(found, tenants=(*found.tenants, pool)),
        ):
            self.tell()
        _, out, _ = self.run_it("tenants")
        self.assertIn("| pc1        | PC I/O    | 4-5  |    3 | 0x1c       |", out)
        self.assertIn("| 0xe0 ~ddio |", out)
        self.assertIn("| pool (dev) |", out)


class TestExplain(CliCase):
    def test_forms_of_time(self):
        """Every documented form leads to the decision in force then."""
        self.tell()
        last = time.time() - 6
        for form in (
            (),
            ("#6",),
            ("-0s",),
            (time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(last + 2)),),
        ):
            status, out, err = self.run_it("explain", *form)
            self.assertEqual((0, True), (status, "Iteration #6 " in out), (form, err))
        self.assertIn("Iteration #4 ", self.run_it("explain", "#4")[1])
        self.assertIn("Iteration #12 ", self.run_it("explain", "--exact", "-0s")[1])

    def test_a_mere_change_of_state_is_passed_over(self):
        """Who asks why wants to know of ways; without any the change of state is told."""

        def recorded(moved=(), actions=()):
            steps = [types.SimpleNamespace(action=action) for action in actions]
            decision = types.SimpleNamespace(moved=moved, steps=steps)
            iteration = Iteration(0.0, 0.0, 0, 0, None, None, decision)
            return types.SimpleNamespace(iteration=iteration)

        state_only = recorded(actions=(Action.REFUSE,))
        for other, expected in (
            (recorded(moved=("ddio",)), 1),
            (recorded(actions=(Action.GROW,)), 1),
            (recorded(), 0),
        ):
            found = [state_only, other]
            reader = mock.Mock(decisions=mock.Mock(return_value=found))
            self.assertIs(found[expected], moments.in_force(reader, 0.0, None))

    def test_json(self):
        """For programs the whole decision is there."""
        self.tell()
        data = json.loads(self.run_it("explain", "-f", "json")[1])
        for formatter in ("shell", "value", "table", "yaml"):
            with self.subTest(formatter):
                status, out, _ = self.run_it("explain", "-f", formatter)
                self.assertEqual((0, False), (status, "<Action" in out or "WayMask" in out))
        self.assertEqual(1, data["decision"]["rule"])

    def test_nothing_there(self):
        """Before the history no agent ran, as far as is known; an unknown number is an error."""
        self.tell()
        status, _, err = self.run_it("explain", "2001-01-01")
        self.assertEqual(3, status)
        told = "no agent ran at that time with this state directory; the history reaches from"
        self.assertIn(told, err)
        former = self.folder / "history.sqlite.schema-1-20010101"
        former.touch()  # what an older version recorded lies beside
        _, _, err = self.run_it("explain", "2001-01-01")
        self.assertIn("no agent ran at that time, or the history no longer has its records", err)
        former.unlink()
        begin_s = time.time() - 3600
        # Newest first: what the agent found wrong as it began comes after its start.
        refused = Event(begin_s + 1, "error", message("libvirt-not-connected"))
        started = message("agent-started", version="1", pid=2)
        events = [refused, Event(begin_s, "info", started, kind=EventKind.STARTED)]
        with mock.patch.object(HistoryReader, "events", return_value=events):
            status, _, err = self.run_it("explain", "-30m")
        self.assertEqual((4, True), (status, "and decided nothing yet" in err), err)
        self.assertEqual(1, self.run_it("explain", "#999999")[0])
        status, _, err = self.run_it("explain", "2999-01-01")
        self.assertEqual((2, "iat-nova: 2999-01-01 is in the future\n"), (status, err))

    def test_an_agent_that_starts(self):
        """Status 4 before its first decision, and 3 if it was killed before that."""
        self.tell(time.time() - 600, agent=stories.status(stopped=True))
        with HistoryReader(self.folder / "history.sqlite") as reader:
            begin_s = reader.span()[1] + 1
        clock = stories.SetClock(begin_s)
        history = History(
            self.folder / "history.sqlite", max_age_s=1e9, max_bytes=8 << 20, clock=clock
        )
        said = message("agent-started", version="1", pid=2)
        history.event(begin_s, "info", said, EventKind.STARTED)
        self.assertTrue(history.flush(60.0), history.problem)
        history.close()
        status, out, _ = self.run_it("explain")
        self.assertEqual((3, True), (status, "no agent ran: unclean shutdown after" in out), out)
        self.enterContext(only_agent(self.folder / LOCK)).starting("waiting")
        status, out, _ = self.run_it("explain")
        self.assertEqual((4, True), (status, "the agent had started at" in out), out)

    def test_verify_detects_a_difference(self):
        """A decision the controller would not take again is shown as different."""
        self.tell()  # an invented story: the controller decides otherwise
        status, out, _ = self.run_it("explain", "--verify")
        self.assertEqual(1, status)
        self.assertIn("DIFFERENT", out)

    def test_moment(self):
        """Times are read as people mean them, in UTC."""
        noon = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC).timestamp()
        for text, seconds in (
            ("-10m", -600),
            ("-1.5h", -5400),
            ("-2d", -172800),
            ("11:59", -0.001),
            ("11:58:30 UTC", -89.001),
            ("12:30:00", 1800.999 - 86400),
            ("2026-11-21T11:00:00", -3599.001),
            ("2026-11-21T11:00:00.5", -3599.5),
            ("2026-11-21T11:00", -3540.001),
            ("2026-11-21", -43200),
        ):
            self.assertAlmostEqual(noon + seconds, moment(text, noon), 4, text)
        for text, seconds in (
            ("11:59", -60),
            ("11:58:30", -90),
            ("2026-11-21T11:00", -3600),
            ("2026-11-21T11:00:00", -3600),
        ):
            self.assertAlmostEqual(noon + seconds, moment(text, noon, begin=True), 4, text)
        for text in ("25:99", "tomorrow", "", "-5y", "2026-13-01", "#x"):
            with self.assertRaises(Failure):
                moment(text, noon)


class TestPauseResume(CliCase):
    def test_shown_everywhere_until_resumed(self):
        """Pausing shows in status and top; resuming ends it."""
        self.tell()
        status, out, _ = self.run_it("pause", "--for", "30m", "--reason", "firm\x1bware")
        self.assertEqual(0, status)
        self.assertIn("frozen until", out)
        shown = self.run_it("status")[1]
        self.assertIn("firm\\x1bware", shown)
        self.assertIn("masks held", self.run_it("top", "--once")[1])
        self.assertEqual("paused", json.loads(self.run_it("status", "-f", "json")[1])["mode"])
        self.assertIn("Resumed", self.run_it("resume")[1])
        self.assertRegex(self.run_it("status")[1], "paused +no")
        self.assertIn("not paused", self.run_it("resume")[1])
        paused = dataclasses.replace(stories.status(), paused_until_s=time.time() + 60)
        self.tell(agent=paused)  # the agent has not seen the end yet
        told = r"paused +until the next iteration: the pause has ended"
        self.assertRegex(self.run_it("status")[1], told)

    def test_no_state_directory(self):
        """The status is that of an agent that does not run, as of every command."""
        for arguments in (
            ("pause", "--for=1h"),
            ("resume",),
            ("hold", "web", "--ways=2"),
            ("release", "web"),
            ("reload",),
            ("hand-over",),
            ("status",),
            ("top",),
            ("explain", "web"),
        ):
            status, _, err = self.run_it("--state-dir", "/nonexistent", *arguments)
            told = "iat-nova: there is no state directory /nonexistent; name it with --state-dir\n"
            self.assertEqual((3, told), (status, err))
        status, _, err = self.run_it("--state-dir", __file__, "pause")
        told = f"there is no state directory {__file__};"  # a file is none
        self.assertEqual((3, True), (status, told in err), err)

    def test_wrong_time(self):
        """A time that is none is a mistake of the caller."""
        for text in ("30", "soon", "-5m", "0s"):
            self.assertEqual(2, self.run_it("pause", f"--for={text}")[0])
        for arguments in (("pause",), ("hold", "pc1", "--ways=2")):  # with a blank, too
            status, _, err = self.run_it(*arguments, "--for", "-1h")
            self.assertEqual(2, status)
            self.assertIn("invalid duration '-1h': expected 90s, 30m, 2h or 1d", err)

    def test_no_agent(self):
        """Without an agent no masks are said to be held; the pause is there for the next one."""
        for ended in (False, True):
            if ended:
                self.tell(agent=stories.status(stopped=True))
            status, out, err = self.run_it("pause")
            self.assertEqual(
                (0, True, False),
                (
                    status,
                    f"No agent is seen running with {self.folder}" in out,
                    "held" in out + err,
                ),
            )
            self.assertIn("paused until `iat-nova resume`", out)
            self.assertIsNotNone(PauseFile(self.folder).current(time.time()))
            self.assertIn("Resumed", self.run_it("resume")[1])
        with mock.patch.dict(os.environ, {"IAT_NOVA_STATE_DIR": "/nonexistent"}):
            for command in ("pause", "resume"):
                status, _, err = self.run_it(command)
                self.assertEqual((3, True), (status, "/nonexistent; name it" in err), command)


def shared(ddio_ways, made=stories.layout):
    """Let the guests of the story share ways."""
    stack, critical, _ = made(ddio_ways).groups
    group = Group((stories.BE,), WayMask.span(2, 6))
    return dataclasses.replace(made(ddio_ways), groups=(stack, critical, group))


class TestHold(CliCase):
    def test_shown_everywhere_until_released(self):
        """By its display name, by libvirt's, by its UUID's begin: written, shown, released."""
        self.tell()
        for whom in ("pc1", "instance-00000003", "6f9619ff"):
            status, out, err = self.run_it("hold", whom, "--ways=4", "--for=2h", "--reason=a\x1bb")
            self.assertEqual((0, ""), (status, err))
            self.assertIn("Held: pc1 at 4 ways until", out)
            for command in ("status", ("top", "--once"), ("explain", "pc1")):
                shown = self.run_it(*((command,) if isinstance(command, str) else command))[1]
                self.assertIn("pc1 at 4 ways until", shown, command)
                self.assertIn("a\\x1bb", shown, command)
            (hold,) = json.loads(self.run_it("status", "-f", "json")[1])["holds"]
            self.assertEqual(("pc1", 4, False), (hold["name"], hold["ways"], hold["in_force"]))
            self.assertIn("Released: pc1.", self.run_it("release", whom)[1])
            self.assertNotIn("held", self.run_it("status")[1])
        self.assertEqual("pc1 was not held.\n", self.run_it("release", "pc1")[1])
        self.assertEqual("No guest was held.\n", self.run_it("release", "--all")[1])
        self.run_it("hold", "be1", "--ways=1")
        self.assertEqual("pc1 was not held.\n", self.run_it("release", "pc1")[1])
        self.run_it("release", "be1")
        self.run_it("hold", "pc1", "--ways=4")
        self.assertIn("until `iat-nova release`", self.run_it("status")[1])
        self.assertIn("Released: pc1.", self.run_it("release", "--all")[1])

    def test_effect(self):
        """The ways before and after, and that fewer may slow a guest down; also for programs."""
        with mock.patch.object(stories, "layout", shared):
            self.tell()
        out = self.run_it("hold", "pc1", "--ways=2")[1]
        told = "pc1 has 3 ways now, shared with be1; will have 2 alone.\nThese are fewer ways"
        self.assertIn(told, out)
        out = self.run_it("hold", "vswitch", "--ways=3")[1]
        self.assertIn("vswitch has 2 ways now; will have 3 alone.\n", out)
        self.assertNotIn("fewer", out)
        found = json.loads(self.run_it("hold", "be1", "--ways=6", "-f", "json")[1])
        self.assertEqual((6, None, []), tuple(found[one] for one in ("ways", "until_s", "remarks")))
        before = {"domain": 0, "ways_before": 3, "shared_with": ["pc1"]}
        self.assertEqual([before], found["domains"])

    def test_while_the_agent_only_observes(self):
        """A hold and a pause say that nothing changes on the hardware."""
        self.tell()
        for arguments in (("hold", "pc1", "--ways=4"), ("pause",)):
            self.assertNotIn("only observes", self.run_it(*arguments)[1])
        why = Reason(Code.REFUSED, message("file-unusable", path="/dev/cpu/0/msr", reason="denied"))
        self.tell(agent=stories.status(mode="observe", reasons=(why,)))
        out = self.run_it("hold", "pc1", "--ways=4")[1]
        self.assertIn("only observes: the hold changes nothing on the hardware", out)
        out = self.run_it("pause")[1]
        self.assertIn("The decisions are frozen until", out)
        self.assertIn("only observes: it writes no masks", out)

    def test_without_a_history(self):
        """Whether an agent runs decides what is said: with a full disk it records nothing."""
        status, _, err = self.run_it("hold", "pc1", "--ways=4")
        self.assertEqual((3, True), (status, "Is iat-nova-agent running with this" in err), err)
        agent = self.enterContext(only_agent(self.folder / LOCK))
        agent.starting("waiting")
        self.assertEqual(4, self.run_it("hold", "pc1", "--ways=4")[0])
        agent.iteration(600.0, None)
        status, _, err = self.run_it("hold", "pc1", "--ways=4")
        self.assertEqual((1, True), (status, "An agent runs there: iat-nova status" in err), err)

    def test_in_force(self):
        """What the agent has applied is told by every list."""
        held = dataclasses.replace(
            stories.inventory().tenants[1], ways=WayRequest(4, 4, 4, held=True)
        )
        inventory = stories.inventory()
        tenants = (inventory.tenants[0], held, inventory.tenants[2])
        with mock.patch.object(
            stories, "inventory", lambda name: dataclasses.replace(inventory, tenants=tenants)
        ):
            self.tell()
        self.run_it("hold", "pc1", "--ways=4")
        status = self.run_it("status")[1]  # the bounds hold, and the masks are older: a pause
        self.assertRegex(status, "held +not in force: pc1 at 4 ways until")
        self.run_it("hold", "pc1", "--ways=3")
        self.assertRegex(self.run_it("status")[1], "held +pc1 at 3 ways until")
        self.assertRegex(self.run_it("tenants")[1], r"pc1 .*\| 4 +\|")
        self.assertRegex(self.run_it("top", "--once")[1], " pc1 .* held")
        self.assertIn("iat-nova release pc1", self.run_it("explain", "pc1")[1])

    def test_refused(self):
        """What cannot be is said at once, and nothing is written."""
        self.tell()
        for arguments, status, words in (
            (("pc1", "--ways=10"), 1, "9 ways can be held"),
            (("nobody", "--ways=2"), 1, "there are pc1, vswitch, be1"),
            (("pc1", "--ways=0"), 2, "positive whole number"),
            (("pc1",), 2, "--ways"),
            (("pc1", "--ways=2", "--for=soon"), 2, "invalid duration"),
        ):
            found, _, err = self.run_it("hold", *arguments)
            self.assertEqual((status, True), (found, words in err), err)
        self.assertFalse((self.folder / "holds").exists())

    def test_no_agent(self):
        """It waits for the next agent, and says so."""
        self.tell(agent=stories.status(stopped=True))
        status, out, _ = self.run_it("hold", "pc1", "--ways=4")
        self.assertEqual((0, True), (status, "one that starts there holds it" in out))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files to another account")
    def test_a_folder_that_root_made(self):
        """Root releases and holds also where an earlier version made ``holds`` as root."""
        self.tell()
        for path in (self.folder, *self.folder.iterdir()):
            os.chown(path, 64123, 64123)
        holds = self.folder / "holds"
        holds.mkdir()
        (holds / "u1.json").write_text('{"ways": 3}')
        for arguments in (("release", "--all"), ("hold", "pc1", "--ways=4"), ("release", "pc1")):
            child = os.fork()
            if child == 0:  # a command may change this process's user for good
                status = 99
                try:
                    status, _, err = self.run_it(*arguments)
                    os.write(2, err.encode())
                finally:
                    os._exit(status)
            self.assertEqual(0, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), arguments)
            self.assertEqual(arguments[0] == "hold", any(holds.iterdir()))
        self.assertEqual({64123}, {one.stat().st_uid for one in self.folder.glob("history*")})


class TestDecisions(CliCase):
    def test_list_and_filters(self):
        """By kind, guest, time and number; for programs with all fields."""
        begin_s = time.time() - 12
        self.tell(begin_s)
        between = datetime.datetime.fromtimestamp(begin_s + 5.5, datetime.UTC).isoformat()
        rows = json.loads(self.run_it("decisions", "-f", "json")[1])
        self.assertEqual(["phase", "grow", "refuse"] * 3, [row["kind"] for row in rows])
        self.assertEqual([4, 5, 6], sorted({row["iteration"] for row in rows}))
        grown = rows[1]
        self.assertEqual(
            ("ddio", 2, 3, "grow ddio 2 -> 3", True),
            tuple(grown[key] for key in ("name", "ways_before", "ways_after", "what", "written")),
        )
        for arguments, count in (
            (("--kind", "grow"), 3),
            (("--kind", "grow", "--kind", "refuse"), 6),
            (("--guest", "pc1"), 3),
            (("pc1",), 3),
            (("--guest", "vswitch"), 0),
            (("ddio",), 3),
            (("--since", between), 3),
            (("--until", between), 6),
            (("--last", "2"), 2),
            (("--domain", "0"), 9),
        ):
            found = json.loads(self.run_it("decisions", "-f", "json", *arguments)[1])
            self.assertEqual(count, len(found), arguments)
        with mock.patch.object(HistoryReader, "domains", return_value=(0, 1)):  # 1 did nothing
            self.assertEqual("[]\n", self.run_it("decisions", "-f", "json", "--domain", "1")[1])
        last = json.loads(self.run_it("decisions", "-f", "json", "--last", "2")[1])
        self.assertEqual(rows[-2:], last)
        self.assertEqual(
            "what", self.run_it("decisions", "-f", "csv", "-c", "what")[1].split()[0][1:-1]
        )

    def test_wrong_arguments(self):
        """A mistake of the caller is named."""
        self.tell()
        for arguments in (
            ("--kind", "grew"),
            ("--since", "soon"),
            ("--last", "0"),
            ("-c", "what", "-c", "colour"),
            ("pc1", "--guest", "pc1"),
        ):
            self.assertEqual(2, self.run_it("decisions", *arguments)[0], arguments)
        told = "iat-nova: invalid time '#5': expected 03:12, 2026-11-21T03:12:05 or -10m\n"
        self.assertEqual((2, "", told), self.run_it("decisions", "--since", "#5"))
        for command in ("decisions", "report"):
            status, _, err = self.run_it(command, "--since", "-1h", "--until", "-2h")
            self.assertEqual(2, status)
            self.assertRegex(err, r"--until -2h \(2.* .*\) is before --since -1h \(2.* .*\)\n$")
        for command in (("decisions",), ("explain",), ("explain", "pc1")):
            status, _, err = self.run_it(*command, "--domain", "7")
            self.assertEqual((2, True), (status, "no cache domain 7; there are: 0" in err), err)
        for command in ("decisions", "explain", "top"):
            status, _, err = self.run_it(command, "--domain", "x")
            self.assertEqual(2, status)
            self.assertIn("--domain: invalid number 'x': expected 0 or more\n", err)

    def test_nothing_found(self):
        """An empty table is told in words, and programs get an empty list."""
        self.tell()
        period = ("decisions", "--since", "-2h", "--until", "-1h")
        told = "iat-nova: no such decision is recorded\n"
        self.assertEqual((0, "", told), self.run_it(*period))
        self.assertEqual((0, "[]\n", ""), self.run_it(*period, "-f", "json"))

    def test_help(self):
        """Kinds and times have a paragraph each."""
        self.assertIn("\n\nTIME: 03:12", self.run_it("decisions", "--help")[1])


class TestExplainGuest(CliCase):
    def test_page(self):
        """Who it is, what it may have and has, what happened, why not more."""
        self.tell()
        status, out, _ = self.run_it("explain", "pc1")
        self.assertEqual(0, status)
        for part in (
            "Guest      pc1 (instance-00000003, 6f9619ff-8b86-d011-b42d-00cf4fc964ff)",
            "flavor nfv.large",
            "may have 2 to 8 ways, starts with 3",
            "has 3 ways 0x1c",
            "refuse: no idle way",
            "What would help",
            "iat:llc_ways=4 in flavor nfv.large",
            "iat-nova hold pc1 --ways 4",
        ):
            self.assertIn(part, out)
        record = json.loads(self.run_it("explain", "pc1", "-f", "json")[1])
        self.assertEqual(("pc1", True), (record["name"], record["here"]))
        self.assertEqual(
            (2, 3, 8), tuple(record["domains"][0][k] for k in ("least", "initial", "most"))
        )

    def test_no_agent(self):
        """How the agent ended comes first; nothing of an end while it runs."""
        self.tell(time.time() - 600, agent=stories.status(stopped=True))
        first, told = self.run_it("explain", "pc1")[1].split("\n\n", 1)
        self.assertRegex(
            " ".join(first.split()),
            r"^Now no agent runs: unclean shutdown after .*; below is its last state$",
        )
        self.assertTrue(told.startswith("Guest      pc1"), told)
        data = json.loads(self.run_it("explain", "pc1", "-f", "json")[1])
        self.assertRegex(data["ended"], "^no agent runs: unclean shutdown after ")
        self.tell()
        self.assertTrue(self.run_it("explain", "pc1")[1].startswith("Guest      pc1"))
        self.assertIsNone(json.loads(self.run_it("explain", "pc1", "-f", "json")[1])["ended"])

    def test_guaranteed_ways(self):
        """They are called what the flavor's page and the decisions call them."""
        inventory = stories.inventory()
        stack, first, second = inventory.tenants
        first = dataclasses.replace(first, ways=WayRequest(3, 3, 8, promised=3))
        made = dataclasses.replace(inventory, tenants=(stack, first, second))
        with mock.patch.object(stories, "inventory", lambda name: made):
            self.tell()
        out = self.run_it("explain", "pc1")[1]
        self.assertIn("may have 3 to 8 ways, starts with 3, 3 guaranteed", " ".join(out.split()))

    def test_nobody_and_several(self):
        """Who is not there, and a name that several have, are errors that list who there is."""
        self.tell()
        for arguments, status, words in (
            (("nobody",), 1, "nobody is called 'nobody' here"),
            (("4",), 1, "write '#4' for the decision of this number"),
            (("ddio",), 1, "iat-nova decisions ddio lists what was done to it"),
            (("99:99",), 2, "invalid time '99:99': expected 03:12"),
            (("2026-13-01",), 2, "invalid time '2026-13-01': expected"),
            (("pc1", "--verify"), 2, "want a time"),
        ):
            found, _, err = self.run_it("explain", *arguments)
            self.assertEqual((status, True), (found, words in err), err)


class TestOthers(CliCase):
    def test_report(self):
        """The report is written where it is wanted."""
        self.tell()
        target = self.folder / "r.html"
        status, out, _ = self.run_it("report", "-o", str(target))
        self.assertEqual((0, f"{target} written\n"), (status, out))
        self.assertIn("</html>", target.read_text())
        with contextlib.chdir(self.folder):
            self.assertEqual("report.html written\n", self.run_it("report")[1])
        self.assertIn("</html>", (self.folder / "report.html").read_text())
        self.assertIn("</html>", self.run_it("report", "-o", "-", "--since=-1h")[1])
        self.assertEqual(1, self.run_it("report", "-o", "/nonexistent/r.html")[0])
        self.assertNotIn("Ports of devices", target.read_text())

    def test_top_into_a_file(self):
        """Nobody can scroll there: all tenants are listed."""
        inventory = stories.inventory("be1")
        crowd = [
            dataclasses.replace(inventory.tenants[2], id=f"{n}", name=f"g{n}") for n in range(60)
        ]
        more = dataclasses.replace(inventory, tenants=(*inventory.tenants, *crowd))
        with mock.patch.object(stories, "inventory", return_value=more):
            self.tell()
        status, out, _ = self.run_it("top", "--once")
        self.assertEqual(0, status)
        for number in range(60):
            self.assertRegex(out, rf"(?m)^ g{number} +BE ")
        self.assertIn("LAST DECISIONS", out)

    def test_top_before_a_history(self):
        """It waits, and says for what and how to end it, also on a narrow terminal."""
        scene = Scene(self.folder / ("long" * 8))
        scene.wait_for_history = True
        (self.folder / ("long" * 8)).mkdir()
        scene.look()
        lines = scene.draw(Screen(40, 12))
        self.assertEqual(12, len(lines))
        self.assertIn("waiting for the agent. q quits.", " ".join(" ".join(lines).split()))

    def test_report_of_a_period(self):
        """From one time to another: ways as of its end, and nothing that is only true now."""
        holding = dataclasses.replace(stories.status(), holds=(Hold("1", "pc1", 4, 0.0),))
        end_s = time.time() - 3600
        self.tell(end_s - 11.5, agent=holding)
        self.tell(agent=holding)
        until = datetime.datetime.fromtimestamp(end_s - 6.2, datetime.UTC).isoformat()
        cards = ("Held by a person", "strategy iat, enforce")
        _, whole, _ = self.run_it("report", "-o", "-")
        for card in cards:
            self.assertIn(card, whole)
        status, part, err = self.run_it("report", "--since=-2h", f"--until={until}", "-o", "-")
        self.assertEqual((0, ""), (status, err))
        for card in cards:
            self.assertNotIn(card, part)
        self.assertIn(f"to {times.moment(end_s - 6.2)} (", part)
        decided = re.compile(r'<td class="num inline">(\d+)</td>')
        self.assertEqual(["5", "4"], decided.findall(part)[:2])
        written = html.charts.Axis(end_s - 10.5, end_s - 6.2).moment
        self.assertIn(f"{written(end_s - 6.5)}</td>", part)  # the last decision in it
        self.assertNotIn(f"{written(end_s - 5.5)}</td>", part)
        # Without a begin: the day before the end.
        self.assertEqual(part.count("<tr"), self.run_it(
            "report", f"--until={until}", "-o", "-")[1].count("<tr"))  # fmt: skip
        for arguments in (("--since=-0s",), ("--until=-3h",), ("--since=-40m", "--until=-20m")):
            status, out, err = self.run_it("report", *arguments)
            self.assertEqual((1, ""), (status, out))
            self.assertRegex(err, "recorded in this period; the history goes from 2.* to 2")

    def test_report_collects_no_garbage(self):
        """What is read stays until the page is written; afterwards garbage is collected again."""
        self.tell()
        with mock.patch.object(html, "write", side_effect=lambda *_: str(gc.isenabled())):
            self.assertEqual((0, "False", ""), self.run_it("report", "-o", "-"))
        self.assertTrue(gc.isenabled())

    def test_report_of_ports(self):
        """Who is behind each port, its ways, and curves of what is counted."""
        self.with_ports()
        _, page, _ = self.run_it("report", "-o", "-")
        part = page[page.index("Ports of devices") : page.index("<h3>Decisions")]
        for text in (">0000:3b:00.0<", ">vswitch, be1<", ">0xc0<", ">5 DDIO<", "3.0 MiB<br>",
                     "2.3 GiB/s<br>", "<th>In the LLC</th><th>Memory traffic</th>"):  # fmt: skip
            self.assertIn(text, part)
        self.assertEqual(4, part.count("<svg"))

    def test_policy_check(self):
        """A sound policy lists the classes, a broken one its errors with their lines."""
        self.tell()
        status, out, err = self.run_it("policy", "check", "-f", "json")
        self.assertEqual(
            (0, True), (status, "pc1" in {row["name"] for row in json.loads(out)}), err
        )
        _, out, _ = self.run_it("policy", "check")
        self.assertTrue(out.endswith("+\nways: least/at the start/most\n"), out)
        self.assertRegex(out, r"\| pc1 +\| .*PC I/O ")
        _, out, _ = self.run_it("policy", "check", "-c", "name", "-c", "io")
        self.assertRegex(out, r"\| pc1 +\| yes +\|")
        broken = self.folder / "policy.yaml"
        broken.write_text("parameters:\n  threshold_stable: often\n")
        status, _, err = self.run_it("policy", "check", str(broken))
        self.assertEqual(1, status)
        self.assertIn("line 2", err)
        self.assertEqual(1, self.run_it("policy", "check", "/nonexistent")[0])

    def test_policy_show_and_diff(self):
        """What a file comes to is a policy; what differs from the running one is told."""
        path = self.folder / "policy.yaml"
        path.write_text("parameters: {interval: {{ 1 + 1 }}s}\n")
        self.tell()
        self.assertEqual(1, self.run_it("policy", "diff", str(path))[0])  # of no policy known
        shown = self.run_it("policy", "show", str(path))[1]
        self.assertIn("interval: 2s", shown)
        as_json = json.loads(self.run_it("policy", "show", "-f", "json", str(path))[1])
        self.assertEqual("2s", as_json["parameters"]["interval"])
        self.assertIn("ddio_ways_min: 2", shown)
        rendered = self.run_it("policy", "show", "--rendered", str(path))[1]
        self.assertEqual("parameters: {interval: 2s}\n", rendered)
        self.tell(agent=stories.status(policy=shown))
        self.assertEqual((0, "", ""), self.run_it("policy", "diff", str(path)))
        self.assertEqual(shown, self.run_it("policy", "show", "--running")[1])
        path.write_text("parameters: {interval: 3s}\n")
        status, out, _ = self.run_it("policy", "diff", str(path))
        self.assertEqual((1, True), (status, "-  interval: 2s\n+  interval: 3s" in out))
        # What runs is of this host: neither another file nor another host's facts.
        for arguments in (("show", "--running", str(path)), ("show", "--running", "--facts=x"),
                          ("diff", "--facts=x")):  # fmt: skip
            self.assertEqual(2, self.run_it("policy", *arguments)[0], arguments)

    def test_policy_diff_of_an_agent_elsewhere(self):
        """With a state directory alone it is the file its agent reads, not that of this host."""
        path = self.folder / "policy.yaml"
        path.write_text("parameters: {interval: 2s}\n")
        shown = self.run_it("policy", "show", str(path))[1]
        default = self.run_it("policy", "show")[1]
        config = self.folder / "agent.conf"
        config.write_text("[iat]\n")
        for source, running in ((str(path), shown), ("the default policy", default), ("", default)):
            self.tell(agent=stories.status(policy=running, policy_source=source))
            self.assertEqual((0, ""), self.run_it("policy", "diff")[:2], source)
        self.tell(agent=stories.status(policy=shown, policy_source=str(path)))
        path.write_text("parameters: {interval: 3s}\n")
        self.assertIn("+  interval: 3s", self.run_it("policy", "diff")[1])
        named = self.run_it("policy", "diff", "--config-file", str(config))[1]
        self.assertIn("+  interval: 1s", named)

    def test_policy_for_another_host(self):
        """Facts that were written on one host are read on another, without an agent there."""
        self.tell()
        facts = self.folder / "facts.yaml"
        facts.write_text(self.run_it("policy", "facts")[1])
        here = self.run_it("policy", "check", "-f", "json")
        with mock.patch.dict(os.environ, {"IAT_NOVA_STATE_DIR": str(self.folder / "none")}):
            there = self.run_it("policy", "check", "--facts", str(facts), "-f", "json")
            self.assertEqual(here[:2], there[:2])
            policy = self.folder / "policy.yaml"
            policy.write_text("default: {ways: {max: {{ 4 if hour == 3 else 8 }}}}")
            check = ("policy", "check", "--facts", str(facts), "-f", "json", str(policy))
            noon = self.run_it(*check)[1]
            facts.write_text(re.sub("hour: .*", "hour: 3", facts.read_text()))
            night = self.run_it(*check)[1]
            self.assertNotEqual(noon, night)
            self.assertEqual(noon.replace("/8", "/4"), night)
            for content in ("[]", "host: {hostname: x}", "host: {domains: 1}", "\x00"):
                facts.write_text(content)
                status, _, err = self.run_it("policy", "check", "--facts", str(facts))
                self.assertEqual(1, status, content)
                self.assertIn(str(facts), err)

    def test_policy_schema(self):
        """For editors: JSON."""
        self.assertEqual("object", json.loads(self.run_it("policy", "schema")[1])["type"])

    def test_files_without_end(self):
        """A device or a pipe in a file's place is refused, not read for ever."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for name in ("/dev/urandom", str(pipe), str(self.folder)):
            for arguments in (("policy", "check", name), ("status", "--config-file", name)):
                with self.subTest(arguments):
                    status, _, err = self.run_it(*arguments)
                    self.assertEqual(1, status)
                    self.assertIn("is not a regular file", err)

    def test_top_once(self):
        """One screen for scripts, without escape sequences."""
        self.tell(be_name=EVIL)
        status, out, _ = self.run_it("top", "--once")
        self.assertEqual(0, status)
        self.assertIn("LAST DECISIONS", out)
        self.assertNotIn("\x1b", out)
        status, _, err = self.run_it("top", "--once", "--domain", "7")
        self.assertEqual((2, True), (status, "no cache domain 7; there are: 0" in err))

    def test_help_of_no_command(self):
        """The status of wrong arguments, with the name as it was typed."""
        status, _, err = self.run_it("help", "policy", "chek")
        self.assertEqual((0, ""), (status, err))  # the commands that begin so are listed
        status, _, err = self.run_it("help", "polcy", "check")
        self.assertEqual(2, status)
        self.assertIn("'polcy' is not an iat-nova command; did you mean policy check", err)

    def test_no_such_command(self):
        """What may be meant is told on standard error, and nothing far from it."""
        for words, told in (
            (("statsu", "-f", "json"), "'statsu' is not an iat-nova command; did you mean status?"),
            (("res",), "'res' is not an iat-nova command; did you mean restore, resume?"),
            (("foo",), "'foo' is not an iat-nova command; `iat-nova --help` lists them"),
            (("bench", "lllc"), "'bench lllc' is not an iat-nova command; did you mean bench llc?"),
            (("-x",), "unknown option '-x': options of a command stand behind it"),
            (
                ("policy",),
                "'policy' is the beginning of: policy check, policy diff, policy facts, "
                "policy schema, policy show",
            ),
        ):
            self.assertEqual((2, "", f"iat-nova: {told}\n"), self.run_it(*words))

    def test_a_command_of_a_package_that_is_missing(self):
        """The package is named instead of commands of similar names."""
        missing = [
            point
            for point in importlib.metadata.entry_points(group=plugins.COMMANDS)
            if point.name.startswith("simulate_")
        ]
        self.assertTrue(missing)
        with (
            mock.patch.object(plugins, "absent", return_value=missing),
            mock.patch.object(plugins, "found", return_value=()),
        ):
            for words in (("simulate",), ("simulate", "list"), ("help", "simulate", "list")):
                status, out, err = self.run_it(*words)
                self.assertEqual((2, ""), (status, out))
                told = (
                    "'simulate' comes with the emulated server: install python3-iat-nova-simulator"
                )
                self.assertEqual(f"iat-nova: {told}\n", err)

    def test_help_of_every_command(self):
        """Every command explains itself, with an example."""
        for name in program.commands():
            status, out, _ = self.run_it(*name.split(), "--help")
            self.assertEqual(0, status, name)
            self.assertIn("example", out, name)
        status, out, _ = self.run_it("--help")
        self.assertEqual(0, status)
        self.assertNotIn("Could not load", out)
        self.assertIn("exit status", out)
        groups = overview.grouped((*program.commands(), "help"))
        self.assertEqual([*dict(overview.GROUPS)], [*groups])  # of other packages: none
        for title, names in groups.items():
            part = out.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
            listed = re.findall(r"^  (\S+(?: \S+)?)  ", part, re.MULTILINE)
            self.assertEqual(names, listed)
        self.assertEqual("status", groups["see what happens"][0])

    def test_commands_of_other_packages(self):
        """They are listed last, in a group of their own."""
        groups = overview.grouped(("mine again", "status", "mine"))
        self.assertEqual(
            {"see what happens": ["status"], overview.OTHERS: ["mine", "mine again"]}, groups
        )

    def test_wrong_arguments(self):
        """Mistakes end with status 2 and a word on what is right."""
        for arguments in (
            (),
            ("nonsense",),
            ("tenants", "--nonsense"),
            ("tenants", "-f", "nonsense"),
            ("top", "--interval", "0"),
            ("bench", "loop", "--tenants", "x"),
            ("simulate", "run"),
            ("policy",),
        ):
            status, out, err = self.run_it(*arguments)
            self.assertEqual(2, status, (arguments, err))
            self.assertTrue(out or err)


class TestFormats(CliCase):
    """What lists and pages write for programs."""

    LISTS = ("decisions", "doctor", "policy check", "tenants", "tenants --long", "tenants --ports")
    PAGES = ("advise", "explain", "explain pc1", "status")

    def test_every_format(self):
        """Each format is written, JSON and YAML with the same content."""
        self.tell()
        for command in (*self.LISTS, *self.PAGES):
            written = {}
            own = "csv" if command in self.LISTS else "shell"
            for form in ("json", "yaml", "value", "table", own):
                with self.subTest(command=command, form=form):
                    status, written[form], err = self.run_it(*command.split(), "-f", form)
                    self.assertEqual(command == "doctor", bool(status), err)
            read = json.loads(written["json"]), yaml.safe_load(written["yaml"])
            self.assertEqual(type(read[0]), type(read[1]))
            self.assertEqual(len(read[0]), len(read[1]))
            if command == "decisions":
                self.assertEqual(*read)

    def test_lists_of_nothing(self):
        """A list without rows is an empty list for programs."""
        self.tell()
        for command in ("decisions --until 2001-01-01", "tenants --ports"):
            for form, empty in (("json", "[]\n"), ("yaml", "[]\n"), ("value", "")):
                status, out, err = self.run_it(*command.split(), "-f", form)
                self.assertEqual((0, empty, ""), (status, out, err), command)


class TestSpreadsheets(CliCase):
    def test_no_cell_of_csv_is_a_formula(self):
        """Guests choose their names; numbers stay numbers (OWASP, CSV Injection)."""
        for name in ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\uff1d1"):
            self.tell(be_name=name)
            out = self.run_it("tenants", "-f", "csv")[1]
            cells = [cell for row in csv.reader(io.StringIO(out)) for cell in row]
            self.assertIn(f"'{name}", cells)
            self.assertNotIn(name, cells)

    def test_numbers(self):
        """What a number is written as is a number."""
        for value in ("-1", "+2.5", "-1e-3", "-", "=", "web", "", -1, None):
            self.assertIs(value, escape.csv_cell(value))


class TestMisfortune(CliCase):
    READERS = (("status",), ("tenants",), ("top", "--once"), ("explain",), ("report", "-o", "-"))

    def test_no_history(self):
        """Without a history every reader says where it looked, with status 3."""
        for arguments in self.READERS:
            status, _, err = self.run_it(*arguments)
            self.assertEqual(3, status, arguments)
            self.assertIn(str(self.folder), err)

    def test_empty_history(self):
        """A history in which nothing happened yet is no failure of the program."""
        history = History(
            self.folder / "history.sqlite", max_age_s=1e9, max_bytes=1, clock=stories.SetClock()
        )
        self.assertTrue(history.flush(60.0))
        history.close()
        for arguments in self.READERS:
            self.assertIn(self.run_it(*arguments)[0], (1, 3), arguments)

    def test_denied(self):
        """Of a folder of others the way in is named."""
        self.tell()
        denied = PermissionError(13, "Permission denied", str(self.folder / LOCK))
        denied.__cause__ = PermissionError(13, "Permission denied", LOCK)  # as of an open folder
        way = f"; run as root, or as a member of the group of {self.folder}"
        with mock.patch.object(base, "look", side_effect=denied):
            status, _, err = self.run_it("status")
        told = f"iat-nova: {self.folder / LOCK}: Permission denied{way}\n"
        self.assertEqual((1, told), (status, err))
        with mock.patch.object(PauseFile, "write", side_effect=denied):
            status, _, err = self.run_it("pause", "--for=1h")
        self.assertEqual((1, True), (status, f"root, or as the owner of {self.folder}" in err), err)
        with mock.patch.object(pathlib.Path, "stat", side_effect=denied):
            status, _, err = self.run_it("explain")
        self.assertEqual((1, True), (status, way in err), err)
        status, _, err = self.run_it("report", "-o", "/proc/1/x.html")
        self.assertEqual((1, False), (status, "run as root" in err), err)

    def test_garbage(self):
        """A history that is no database is named, with status 1."""
        (self.folder / "history.sqlite").write_bytes(b"garbage " * 999)
        for arguments in self.READERS:
            status, _, err = self.run_it(*arguments)
            self.assertEqual(1, status, arguments)
            self.assertRegex(
                err, "not a database .*; an agent that records or starts keeps it beside"
            )

    def test_times_that_have_no_date(self):
        """In history, status, hold and pause: told, or left out; never an error."""
        for far_s in (1e300, 2.6e11, -1e300, -5.0):
            with self.subTest(far_s):
                far = dataclasses.replace(
                    stories.status(),
                    started_s=far_s,
                    paused_until_s=far_s,
                    adopted_s=far_s,
                    handed_over_s=far_s,
                    holds=(Hold("u1", "db", 3, far_s, far_s),),
                )
                self.tell(agent=far)
                (self.folder / "pause.json").write_text(f'{{"until_s": {far_s!r}}}')
                holds = self.folder / "holds"
                holds.mkdir(exist_ok=True)
                (holds / "u1.json").write_text(f'{{"ways": 3, "since_s": {far_s!r}}}')
                os.utime(holds / "u1.json", (1, min(far_s, 2.6e11) if far_s > 0 else 1))
                for where in ("", " WHERE number = 6"):
                    with sqlite3.connect(self.folder / "history.sqlite") as connection:
                        connection.execute("UPDATE iteration SET wall_s = ?" + where, (far_s,))
                        connection.execute("UPDATE event SET wall_s = ?", (far_s,))
                        connection.execute("UPDATE beat SET written_s = ?", (far_s,))
                    for arguments in (*self.READERS, ("decisions",), ("explain", "pc1")):
                        self.assertIn(self.run_it(*arguments)[0], (0, 1), arguments)
                self.assertIn("Resumed", self.run_it("resume")[1])
                self.assertIn("Released", self.run_it("release", "--all")[1])

    def test_damaged_records(self):
        """They are left out, and all commands say so; without any left they say that, too."""
        self.tell()
        some = " WHERE number IN (6, 12)"  # a decision, and the last
        for which, statuses in ((some, {0}), ("", {0, 1})):
            with sqlite3.connect(self.folder / "history.sqlite") as connection:
                connection.execute(f"UPDATE iteration SET body = x'00'{which}")
            for arguments in self.READERS:
                status, out, err = self.run_it(*arguments)
                self.assertIn(status, statuses, (arguments, err))
                self.assertRegex(out + err, r"iteration \d+\s+cannot be read", arguments)
        self.assertIn("left out", json.loads(self.run_it("status", "-f", "json")[1])["unreadable"])

    def test_bad_configuration(self):
        """Configuration files that are absent or broken are named, with status 1."""
        broken = self.folder / "broken.conf"
        broken.write_text("[iat\nx")
        for name in (str(broken), "/nonexistent/x.conf"):
            status, _, err = self.run_it("status", "--config-file", name)
            self.assertEqual(1, status)
            self.assertIn(name, err)
