# SPDX-License-Identifier: Apache-2.0
"""A whole agent with other sentences: it decides, stores, hands over and answers the same.

One story is told twice on a host in a folder, with the sentences of the tables and with nonsense:
sources that have not answered, guests, a pause, holds, a broken policy and a mended one, another
owner, a hand-over, a refused one, a conflicting change, and the commands of an operator. All that
is not a sentence must be the same.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
import random
import re
import string
import threading
import unittest
from typing import Any
from unittest import mock

from iat_nova.agent import restoring, sources, wiring
from iat_nova.agent.hand_over import HandOverFiles
from iat_nova.agent.on_disk import OnDisk
from iat_nova.cmd import agent as program_of_agent
from iat_nova.hardware.api import CoreCounts, Counts, DomainCounts
from iat_nova.model import Facts, Guest, Hold, HostFacts, Pause, message
from iat_nova.report import escape, exporter, sentences
from iat_nova.report.log import LogLanguage
from iat_nova.report.sentences import SENTENCES
from iat_nova.store import records
from iat_nova.store.observed import Observer
from iat_nova.store.reader import HistoryReader
from iat_nova.store.replay import Replay
from iat_nova.store.requests import Holds, PauseFile
from tests.unit.build import Clock, problems
from tests.unit.hardware.enforcement import test_restore

POLICY = """
classes:
- {name: gold, match: {flavor: gold}, priority: PC, ways: {min: 2}}
- {name: never, match: {flavor: gold, instance: x}}
"""
MENDED = "classes: [{name: gold, match: {flavor: gold}, priority: PC, ways: {min: 3}}]\n"
BROKEN = "parameters: {ddio_ways_max: 99, interval: 1us}\nclases: []\n"
TEMPLATE = "parameters: {ddio_ways_max: {{ wayz }}}\n"
TESTS = """
tests:
- {name: a, guest: {flavor: gold}, expect: {class: silver}}
- {name: b, guest: {flavor: gold}, expect: {error: not-yaml}}
"""


def guest(name: str, run: int, *cpus: int, flavor: str = "m1", **more: object) -> Guest:
    """Return a guest whose CPUs are its own."""
    uuid, specs = f"00000000-0000-4000-8000-00000000000{run}", more.pop("specs", {})
    return Guest(uuid, run, f"instance-{run}", name, flavor, specs, None, cpus, (), **more)


Said = tuple[list[str], list[str]]
"""The sentences that either story made."""


VARY = (".timings_us", ".resctrl.online", ".resctrl.plugged")
"""What is measured, and the numbers of files."""


class Counters:
    """Counts that grow with the time of the clock, of some CPUs faster than of others."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.cpus = clock, ()

    def watch(self, cpus: object) -> None:
        self.cpus = tuple(sorted(cpus))

    def read(self) -> Counts:
        now = int(self.clock.now_s * 1e6)
        grows = 1 + (int(self.clock.now_s) // 3) % 5
        cores = {cpu: CoreCounts(now, now, now * (cpu + 1), now * grows // 2) for cpu in self.cpus}
        domains = {number: DomainCounts(now * grows, now * 2, None) for number in (0, 1)}
        return Counts(self.clock.now_s, cores, domains)

    def close(self) -> None:
        pass


class Source:
    """A host's guests, as the story has them."""

    def __init__(self, host: object) -> None:
        self.host, self.changed = host, threading.Event()
        self.guests: tuple[Guest, ...] = ()
        self.warnings: tuple[object, ...] = ()
        self.waiting_for: tuple[object, ...] = ()

    def facts(self) -> Facts:
        return Facts(self.host(), self.guests, None, problems(self.warnings, self.waiting_for))


class Story(test_restore.MachineCase):
    """Not a test by itself: `seen` has what was there after each chapter."""

    def setUp(self) -> None:
        super().setUp()
        self.seen: list[tuple[str, object]] = []
        self.history: list[object] = []
        for name in ("run", "state"):
            (self.folder / name).mkdir(exist_ok=True)
        self.policy = self.folder / "policy.yaml"
        self.policy.write_text(POLICY)
        self.config.write_text(
            f"{self.config.read_text()}policy_file = {self.policy}\nmode = enforce\n"
        )
        self.clock = Clock()
        self.waiting: tuple[object, ...] = (message("libvirt-unanswered", uri="qemu:///system"),)
        self.guests: tuple[Guest, ...] = ()
        self.loaded = dataclasses.replace(super().settings(), mode="enforce")
        self.enterContext(mock.patch("time.time", self.clock.wall))
        self.enterContext(mock.patch("iat_nova.agent.policy_keeper.POLICY_S", 60.0))
        moments = HandOverFiles.__init__.__kwdefaults__
        self.enterContext(mock.patch.dict(moments, now_s=self.clock.now))

    def settings(self, **changes: object) -> object:
        return dataclasses.replace(self.loaded, **changes)

    # ------------------------------------------------------------------ what is looked at

    def note(self, chapter: str) -> None:
        """Keep the machine, the status, the metrics and what else there is."""
        status = records.unstructure(self.observer.now.status)
        tree = str(sorted(self.tree.state().items()))
        self.seen.append((chapter, {"tree": tree, "status": status, "metrics": self.metrics()}))

    def metrics(self) -> list[object]:
        """Return what a scrape returns, but times that were measured."""
        return [
            (sample.name, dict(sample.labels), sample.value)
            for family in exporter.registry(self.observer).collect()
            for sample in family.samples
            if "seconds" not in sample.name
        ]

    def ask(self, *arguments: str) -> None:
        """Run a command and keep its status, and its JSON."""
        status, out, _ = self.run_it(*arguments)
        answer = json.loads(out) if "json" in arguments and out.startswith(("{", "[")) else None
        self.seen.append((" ".join(arguments), (status, answer)))

    # ------------------------------------------------------------------ what happens

    def life(self, *planned: object, seconds: float = 60.0, **changes: object) -> None:
        """Let an agent live; what is planned is done one a wait."""
        owned = self.owned(**changes)
        machine = dataclasses.replace(
            owned.machine, clock=self.clock, counters=Counters(self.clock)
        )
        owned = dataclasses.replace(owned, machine=machine)
        settings = self.settings(**changes)
        self.observer = Observer()
        self.clock.planned = list(planned)
        with owned.held(adopt=True) as left:
            read = sources.host_reader(settings, machine, owned.finish, left)

            def host() -> HostFacts:
                with mock.patch("iat_nova.agent.sources.read_host", lambda found, *_, **__: found):
                    domains = read()
                return HostFacts("h", domains, tuple(sorted(self.cpus.on)))

            self.source = Source(host)
            self.source.guests, self.source.waiting_for = self.guests, self.waiting
            drift = OnDisk(settings, lambda: [str(self.config)]).drift
            self.agent = wiring.agent(
                settings,
                owned,
                self.source,
                host,
                LogLanguage(),
                self.observer,
                None,
                drift,
                left,
            )
            self.seen.append(("adopted", left is not None))
            self.agent.run(self.clock.now_s + seconds)
        self.note("the end")

    def look_again(self) -> None:
        self.source.guests, self.source.waiting_for = self.guests, self.waiting
        self.source.changed.set()

    def answered(self) -> None:
        self.waiting = ()
        self.guests = (
            guest("gold", 1, 1, flavor="gold"),
            guest("batch", 2, 3, specs={"iat:priority": "high", "iat:llc_ways": "2"}),
        )
        self.look_again()

    def policy_is(self, text: str) -> None:
        self.policy.write_text(text)
        self.agent.reload_policy()

    def pause(self, reason: str | None) -> None:
        file = PauseFile(self.settings().state_dir)
        file.clear() if reason is None else file.write(
            Pause(self.clock.wall(), reason=reason, by="eve")
        )

    def hold(self, name: str, ways: int) -> None:
        tenant = next(one for one in self.guests if one.display_name == name)
        held = Hold(tenant.uuid, name, ways, self.clock.wall(), self.clock.wall() + 9, "why", "eve")
        Holds(self.settings().state_dir).write(held)

    def hand_over(self) -> None:
        """Have the agent end, and leave the host to the next."""
        restoring.hand_over_files(self.settings()).ask()
        self.agent.stop()

    def left(self) -> None:
        """Keep what the agent left to the next."""
        left = restoring.hand_over_files(self.settings()).read()
        self.seen.append(("left", None if left is None else records.unstructure(left)))

    def others(self) -> None:
        """Have another program make a group, or remove it."""
        there = (self.tree.root / "theirs").exists()
        (self.tree.rmdir if there else self.tree.mkdir)("theirs")
        self.look_again()

    def change(self) -> None:
        """Have another program change the masks of a group of the agent's."""
        self.tree.write("iat-nova.1/schemata", "L3:1=7f\n")
        self.look_again()

    def live(self) -> None:
        """Tell the story."""
        note = lambda chapter: lambda: self.note(chapter)  # noqa: E731
        after = lambda *done: (*done, lambda: None)  # noqa: E731 - an iteration later
        config = self.config.read_text()
        self.life(
            *after(note("started")), note("unanswered"),
            *after(self.answered), note("guests"),
            *after(lambda: self.pause("a test")), note("paused"), *after(lambda: self.pause(None)),
            *after(lambda: self.hold("gold", 4)), note("held"),
            *after(lambda: self.hold("batch", 40)), note("a hold that does not fit"),
            *after(lambda: Holds(self.settings().state_dir).clear_all()),
            *after(lambda: self.policy_is(BROKEN)), note("a broken policy"),
            *after(lambda: self.policy_is(TEMPLATE)), note("a broken template"),
            *after(lambda: self.policy_is(MENDED)), note("a mended policy"),
            lambda: self.config.write_text("[iat]\nmode = both\n"),
            *after(self.look_again), note("drift"), lambda: self.config.write_text(config),
            *after(lambda: self.others()), note("another owner"),
            *after(lambda: self.others()), *after(), note("no other owner"),
            *after(lambda: self.policy_is("[")), note("at the end"),
            self.hand_over,
        )  # fmt: skip
        self.policy.write_text(MENDED)
        self.left()
        self.ask("restore", "--unless-handed-over")
        self.life(
            *after(note("adopted")), *after(), note("on"),
            *after(self.change), note("a conflicting change"), self.hand_over,
        )  # fmt: skip
        self.left()
        self.life(*after(), note("enforces"), lambda: self.clock.wall(), self.unreadable_request)
        self.life(*after(), self.hand_over)
        self.life(*after(note("another strategy")), strategy="iat")
        self.asked()
        self.stored()

    def unreadable_request(self) -> None:
        """Ask for a hand-over by what is none; the agent restores, and says so."""
        request = restoring.hand_over_files(self.settings()).request
        request.write_text("now\n")
        self.agent.stop()

    def asked(self) -> None:
        """Run what an operator runs."""
        for arguments in (
            ("status",), ("tenants",), ("decisions",), ("explain",), ("explain", "--verify"),
            ("explain", "gold"), ("policy", "check"),
        ):  # fmt: skip
            self.ask(*arguments, "-f", "json")
        self.ask("status")
        self.ask("policy", "show")
        self.ask("restore")
        for text in (BROKEN, TEMPLATE, "["):
            self.policy.write_text(text)
            self.ask("policy", "check", "-f", "json")
            with mock.patch("iat_nova.cmd.logs.setup"), mock.patch("sys.stderr", io.StringIO()):
                status = program_of_agent.main(["--config-file", str(self.config)])
            self.seen.append(("the agent's exit status", status))
        tests = self.folder / "tests.yaml"
        tests.write_text(TESTS)
        self.ask("policy", "test", str(tests), "-f", "json")

    def stored(self) -> None:
        """Keep what the history holds, and decide all of it once more."""
        with HistoryReader(self.settings().history_path) as reader:
            replay = Replay(reader)
            for recorded in reader.decisions(10_000):
                again = replay.decide(recorded)
                self.assertEqual(recorded.iteration.decision, again)
                plain = records.unstructure(dataclasses.replace(recorded.iteration, timings_us={}))
                self.history.append(plain)
            self.history += map(records.unstructure, reader.events(10_000))
            self.history += map(records.unstructure, reader.inventories())
            self.history.append(records.unstructure(reader.status().status))


def told(sentences_of: dict[str, str]) -> tuple[Story, list[str]]:
    """Tell the story with these sentences; return it, and the sentences that were made."""
    story, said = Story("live"), set[str]()
    make = sentences._Sentence.vformat

    def kept(self: object, *arguments: object) -> str:
        text = make(self, *arguments)
        said.update((text, escape.plain(text)))
        return text

    with (
        mock.patch.object(sentences, "SENTENCES", sentences_of),
        mock.patch.object(sentences._Sentence, "vformat", kept),
    ):
        result = unittest.TestResult()
        story.run(result)
    for _, error in (*result.errors, *result.failures):
        raise AssertionError(error)
    return story, [text.replace(str(story.folder), "/x") for text in said if text]


def nonsense(seed: int) -> dict[str, str]:
    """Return for each sentence another one: the same values in any order, between letters."""
    chance = random.Random(seed)
    made = {}
    for code, sentence in SENTENCES.items():
        fields = [
            f"{{{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}}}"
            for _, name, form, conversion in string.Formatter().parse(sentence)
            if name is not None
        ]
        chance.shuffle(fields)
        words = ["".join(chance.choices(string.ascii_letters, k=9)) for _ in range(len(fields) + 1)]
        made[code] = "".join(map("".join, itertools.zip_longest(words, fields, fillvalue="")))
    return made


def differences(one: Any, two: Any, said: Said, at: str = "") -> list[str]:
    """Return where two answers differ, but for sentences. `said`: what either has of these."""
    if at.endswith(VARY):
        return []
    if isinstance(one, dict) and isinstance(two, dict):
        if one.keys() != two.keys():
            return [f"{at}: {sorted(map(str, one.keys() ^ two.keys()))}"]
        return [
            wrong for key in one for wrong in differences(one[key], two[key], said, f"{at}.{key}")
        ]
    if isinstance(one, (list, tuple)) and isinstance(two, (list, tuple)) and len(one) == len(two):
        pairs = enumerate(zip(one, two, strict=True))
        return [wrong for n, (a, b) in pairs for wrong in differences(a, b, said, f"{at}[{n}]")]
    both = (one, two)
    words = all(isinstance(one, str) for one in both) and all(
        any(made in text or (text.endswith("…") and text[:-1] in made) for made in those)
        for text, those in zip(both, said, strict=True)
    )
    return [] if one == two or words else [f"{at}: {one!r} and {two!r}"]


class Rewording(unittest.TestCase):
    """Sentences change nothing but themselves."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.enterClassContext(mock.patch("logging.Logger.isEnabledFor", return_value=False))
        cls.first, cls.said = told(dict(SENTENCES))
        cls.second, cls.reworded = told(nonsense(7))

    def same(self, of: str) -> None:
        """Compare what two stories have under a name, but for the folders of the two."""
        one, two = (
            json.loads(json.dumps(getattr(story, of), default=str).replace(str(story.folder), "/x"))
            for story in (self.first, self.second)
        )
        self.assertEqual([], differences(one, two, (self.said, self.reworded)))

    def test_it_tells(self) -> None:
        """The story has what could go by words: decisions, reasons, problems, refusals."""
        codes = set(re.findall(r'"code": "([^"]+)"', json.dumps(self.first.history, default=str)))
        self.assertLessEqual(
            {"conflicting-changes", "other-owners", "sources-unanswered", "policy-reload-failed",
             "hold-refused", "adopted", "handed-over", "not-handed-over", "config-invalid"},
            codes,
        )  # fmt: skip
        (verified,) = (of for asked, of in self.first.seen if asked == "explain --verify -f json")
        self.assertIs(True, verified[1]["verified"])
        self.assertFalse(set(self.said) & set(self.reworded))

    def test_machine_status_metrics_and_answers(self) -> None:
        """After each chapter, and from each command: the same but for sentences."""
        self.same("seen")

    def test_history(self) -> None:
        """Stored are codes and values: the same to the last character."""
        self.said, self.reworded = [], []
        self.same("history")


if __name__ == "__main__":
    unittest.main()
