# SPDX-License-Identifier: Apache-2.0
"""The documentation's strategy of one's own, installed as another package, from agent to report."""

import json
import logging
import pathlib
import shutil
import sys

from prometheus_client import exposition

from iat_nova.agent.journal import Journal
from iat_nova.agent.loop import Agent
from iat_nova.agent.parts import Parts
from iat_nova.agent.policy_keeper import PolicyKeeper
from iat_nova.model import Parameters, WayMask
from iat_nova.report import exporter
from iat_nova.report.log import LogLanguage
from iat_nova.store.observed import Observer
from iat_nova.store.reader import HistoryReader
from iat_nova.store.records import Status
from iat_nova.store.writer import History
from iat_nova.strategies import registry
from tests.unit import build
from tests.unit.agent import test_loop as test_agent
from tests.unit.cmd.test_cli import CliCase

EXAMPLE = pathlib.Path(__file__).parents[3] / "doc/source/examples/confine.py"


def install(folder: pathlib.Path) -> None:
    """Put the example where Python finds packages, with its entry point."""
    shutil.copy(EXAMPLE, folder)
    metadata = folder / "confine-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: confine\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        f"[{registry.NAMESPACE}]\nconfine = confine:Confine\n"
    )


class ConfineTest(CliCase):
    def setUp(self) -> None:
        super().setUp()
        install(self.folder)
        sys.path.insert(0, str(self.folder))
        self.addCleanup(sys.path.remove, str(self.folder))
        self.addCleanup(sys.modules.pop, "confine", None)
        logging.getLogger("iat_nova").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("iat_nova").setLevel, logging.NOTSET)
        self.observer = Observer()
        self.run_agent()

    def run_agent(self) -> None:
        """Four calm seconds, then a burst of DDIO misses."""
        clock = build.Clock()
        counters, allocator = test_agent.Counters(clock), test_agent.FakeAllocator()
        counters.ddio_per_s = (1e6, 0.5e6)
        path = self.folder / "history.sqlite"
        history = History(path, max_age_s=1e9, max_bytes=1 << 24, clock=clock)
        status = Status(
            "enforce", 1, "0", "confine", 1.0, 0.0, Parameters(),
            phases=registry.phases("confine"), rules=registry.rules("confine"),
        )  # fmt: skip
        self.masks = []

        def look() -> None:
            self.masks.append(dict(allocator.effective(0)))

        def burst() -> None:
            look()
            counters.ddio_per_s = (1e6, 400e6)

        clock.planned = [lambda: None, lambda: None, look, burst, lambda: None, lambda: None, look]
        inventory, policy = test_agent.Inventory(), test_agent.Policy()
        journal = Journal(history, status, clock, LogLanguage(), self.observer)
        parts = Parts(
            inventory=inventory,
            policies=PolicyKeeper(policy, lambda: policy, None, journal, inventory.changed),
            make_strategy=lambda parameters: registry.make("confine", parameters),
            counters=counters,
            enforcer=test_agent.Enforcer(allocator, test_agent.FakeDdio()),
            journal=journal,
            clock=clock,
        )
        Agent(parts).run(clock.now() + 7.0)

    def test_its_masks_are_on_the_hardware(self) -> None:
        """Everything first, the lowest two ways during the burst."""
        self.assertEqual(
            [WayMask(0x7FF), WayMask(0x3)], [self.masks[0]["first"], self.masks[-1]["first"]]
        )

    def test_every_command_speaks_its_words(self) -> None:
        """status, top and explain name its phases, its rule and what it says of it."""
        for arguments, parts in (
            (("status",), ("Confined",)),
            (("top", "--once"), ("Confined",)),
            (
                ("explain",),
                ("Open -> Confined, transition 1: DDIO misses", "11 ways 0x7ff", "2 ways 0x3"),
            ),
        ):
            with self.subTest(arguments):
                _, out, err = self.run_it(*arguments)
                self.assertEqual("", err)
                for part in parts:
                    self.assertIn(part, out)

    def test_its_decisions_replay(self) -> None:
        """`explain --verify` decides each recorded iteration once more, and it is the same."""
        with HistoryReader(self.folder / "history.sqlite") as reader:
            numbers = [one.iteration.decision.iteration for one in reader.newer(0, 0, 99)]
        self.assertEqual(8, len(numbers))
        for number in numbers:
            status, out, err = self.run_it("explain", "--verify", f"#{number}")
            self.assertEqual(0, status, out + err)

    def test_data_report_and_metrics(self) -> None:
        """The record for programs, the page, and the metrics have its phases."""
        _, out, _ = self.run_it("explain", "-f", "json")
        decision = json.loads(out)["decision"]
        self.assertEqual(("open", "confined", 1), tuple(
            decision[name] for name in ("phase_before", "phase", "rule")
        ))  # fmt: skip
        page = self.folder / "report.html"
        status, _, err = self.run_it("report", "-o", str(page))
        self.assertEqual(0, status, err)
        self.assertIn("Confined", page.read_text())
        text = exposition.generate_latest(exporter.registry(self.observer)).decode()
        self.assertIn('iat_nova_state{domain="0",state="confined"} 1', text)
        self.assertIn('iat_nova_state{domain="0",state="open"} 0', text)
        self.assertIn('source="open",target="confined",transition="1"} 1', text)
        self.assertIn('source="confined",target="open",transition="2"} 0', text)
