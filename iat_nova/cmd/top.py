# SPDX-License-Identifier: Apache-2.0
"""iat-nova top."""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import shutil
import time

from iat_nova.cmd import arguments, full_screen, guests
from iat_nova.cmd.base import EXIT_OK, EXITS, Command, Failure
from iat_nova.cmd.full_screen import FullScreen
from iat_nova.cmd.pause import who
from iat_nova.conf import LOCK
from iat_nova.model import Pause
from iat_nova.report import account, decision_page, escape, times, top
from iat_nova.report.top_screen import Act, Mode, Screen, press
from iat_nova.report.view import NOBODY, DomainView, HostView, gather, then, without_history
from iat_nova.store.database import HistoryError, NoHistory
from iat_nova.store.heartbeat import look
from iat_nova.store.reader import HistoryReader
from iat_nova.store.requests import Holds, PauseFile

_BESIDE = 30  # lines, with all alarms, beside the table of tenants


class Top(Command):
    """Show the way map, the rates and the last decisions, live.

    Keys: up and down choose a tenant, Enter explains the tenant's ways, left and right go to the
    previous and the next decision of the history, h lists all keys, q quits.
    """

    _as_owner = True
    _tells_state = True
    _epilog = """
examples:
  iat-nova top
  iat-nova top --interval 0.2
  iat-nova top --once          one screen, for a script or a report
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="print one screen and end")
        parser.add_argument(
            "--interval",
            type=_interval,
            default=1.0,
            metavar="S",
            help="seconds between two updates; default: 1",
        )
        parser.add_argument(
            "--domain", type=arguments.whole, metavar="N", help="begin with this cache domain"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Draw until q."""
        folder = self.state_dir(parsed_args)
        scene = Scene(folder, parsed_args.domain)
        if parsed_args.once or not full_screen.possible():
            columns, rows = shutil.get_terminal_size((100, 40))
            scene.look()
            screen = Screen(columns, rows, self.colour)
            if not self.app.stdout.isatty():  # a file has lines for all
                rows = max(rows, len(scene.listed(screen)) + _BESIDE)
            lines = scene.draw(dataclasses.replace(screen, height=rows))
            text = "\n".join(lines[:-1]).rstrip()
            self.app.stdout.write(f"{text}\n")
            return EXITS[scene.agent.state]
        scene.wait_for_history = True
        try:
            with full_screen.opened() as terminal:
                self._live(scene, parsed_args.interval, terminal)
        except full_screen.Ended as signal:
            return 128 + signal.number
        return EXIT_OK

    def _live(self, scene: Scene, interval_s: float, terminal: FullScreen) -> None:
        """Read the history, draw, and wait for keys, in turn. Raises `Ended`."""
        screen = Screen(80, 24, self.colour)
        due_s = 0.0
        while True:
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + interval_s
                if not screen.frozen and screen.past_s is None:
                    scene.look()
            width, height = terminal.size()
            screen = dataclasses.replace(screen, width=width, height=height)
            screen = scene.bounded(screen)
            terminal.draw(scene.draw(screen))
            for key in terminal.keys(max(0.0, due_s - time.monotonic())):
                screen, act = press(screen, key, scene.listed(screen))
                if act is Act.QUIT:
                    return
                screen = scene.act(act, screen)


class Scene:
    """The data of a screen: a moment of the history, and traces of its cache domains."""

    def __init__(self, folder: pathlib.Path, domain: int | None = None) -> None:
        self.wait_for_history = False
        self.agent = NOBODY
        self._folder = folder
        self._pause, self._holds = PauseFile(folder), Holds(folder)
        self._wanted = domain
        self._number = 0
        self._view: HostView | None = None
        self._traces: dict[int, top.Trace] = {}
        self._past: dict[int, top.Trace] = {}
        self._page: list[str] = []
        self._missing = ""

    def look(self) -> None:
        """Read new records. Opens the history each time, because the file may be replaced."""
        self.agent = look(self._folder / LOCK)
        self._past = {}
        try:
            with HistoryReader(self._folder / "history.sqlite") as reader:
                self._view = self._gather(reader)
                for domain in self._view.domains:
                    number = domain.inventory.domain.id
                    self._traces.setdefault(number, top.Trace(number)).look(reader, domain)
        except NoHistory as error:
            now_s = time.time()
            paused, holds = self._pause.current(now_s), self._holds.current(now_s)
            self._view, self._missing = without_history(self.agent, paused, holds), str(error)
            if self._view is None and not self.wait_for_history:
                raise

    def act(self, act: Act, screen: Screen) -> Screen:
        """Perform an action; return the next screen, with a note if the action is impossible."""
        if act is Act.NEXT_DOMAIN:
            self._number += 1
        elif act is Act.HELP:
            self._page = top.help_page()
            return dataclasses.replace(screen, mode=Mode.PAGE)
        elif act is Act.PAUSE:
            return dataclasses.replace(screen, note=self._hold_or_resume())
        elif act is Act.NOW:
            self.look()
            return dataclasses.replace(screen, past_s=None)
        elif act is not Act.NONE:
            try:
                with HistoryReader(self._folder / "history.sqlite") as reader:
                    return self._read(reader, act, screen)
            except (HistoryError, Failure) as error:
                return dataclasses.replace(screen, note=str(error))
        return screen

    def _read(self, reader: HistoryReader, act: Act, screen: Screen) -> Screen:
        domain = self._domain()
        if domain is None:
            return screen
        if act is Act.GUEST:
            if screen.chosen is None:
                return dataclasses.replace(screen, note="choose a tenant first: up, down")
            subject, picture = guests.anywhere(reader, screen.chosen.partition("/")[0])
            told = account.give(reader, self._gather(reader), subject, picture)
            page = account.page(told, time.time(), width=screen.width - 2)
        elif act is Act.DECISION:
            if domain.decision is None:
                return dataclasses.replace(screen, note="no decision is recorded")
            settings = reader.settings(domain.decision)
            iteration = domain.decision.iteration
            inventory = reader.domain_inventory(iteration) or domain.inventory
            page = decision_page.explain(iteration, inventory, settings, width=screen.width - 2)
        else:
            return self._travel(reader, act, screen, domain.inventory.domain.id)
        self._page = page.splitlines()
        return dataclasses.replace(screen, mode=Mode.PAGE, offset=0)

    def _travel(self, reader: HistoryReader, act: Act, screen: Screen, number: int) -> Screen:
        here_s = time.time() if screen.past_s is None else screen.past_s
        if act is Act.EARLIER:
            found = next(iter(reader.decisions(1, number, end_s=here_s - 1e-3)), None)
            there_s = found.iteration.wall_s if found else None
        elif act is Act.LATER:
            found = reader.next_decision(number, here_s + 1e-3)
            there_s = found.iteration.wall_s if found else None
        else:
            there_s = here_s + (60.0 if act is Act.MINUTE_LATER else -60.0)
            begin_s, end_s = reader.span() or (0.0, 0.0)
            there_s = there_s if begin_s <= there_s <= end_s else None
        if there_s is None:
            return dataclasses.replace(screen, note="the history has nothing there; n: now")
        self._view = then(reader, self._gather(reader), there_s)
        self._past = {}
        for domain in self._view.domains:
            trace = top.Trace(domain.inventory.domain.id)
            trace.until(reader, domain, there_s)
            self._past[trace.domain] = trace
        return dataclasses.replace(screen, past_s=there_s, note=self._thinned(reader, there_s))

    def _thinned(self, reader: HistoryReader, there_s: float) -> str:
        """Return a note if the screen shows an older iteration, as later ones are not kept."""
        domain = self._domain()
        if domain is None or domain.latest is None or not reader.thinned_after(domain.latest):
            return ""
        shown_s = domain.latest.iteration.wall_s
        if there_s - shown_s < 1.0:
            return ""
        return f"as of {times.moment(shown_s)}: what followed did nothing and is not kept any more"

    def _gather(self, reader: HistoryReader) -> HostView:
        now_s = time.time()
        held = self._holds.current(now_s)
        return gather(reader, self._pause.current(now_s), agent=self.agent, holds=held)

    def _hold_or_resume(self) -> str:
        """Begin a pause, or end the present pause; return a note for the screen."""
        try:
            if self._pause.current(time.time()) is not None:
                self._pause.clear()
                return "resumed"
            self._pause.write(Pause(time.time(), math.inf, "", who()))
        except OSError as error:
            return f"{self._pause.path}: {error.strerror}; `iat-nova pause` as root does it"
        if not self.agent.alive:
            return "no agent runs; one that starts is paused until `iat-nova resume`, or p again"
        return "the masks are frozen until `iat-nova resume`, or p again"

    def listed(self, screen: Screen) -> list[str]:
        """Return the ids of the listed tenants."""
        domain = self._domain()
        return [one.id for one in top.listed(domain, screen)] if domain else []

    def _domain(self) -> DomainView | None:
        domains = self._view.domains if self._view else ()
        return domains[self._number % len(domains)] if domains else None

    def bounded(self, screen: Screen) -> Screen:
        """Return the screen with the page scrolled no further than its end."""
        return screen if self._view is None else top.bounded(self._view, screen, self._page)

    def draw(self, screen: Screen) -> list[str]:
        """Return the lines of a screen. Raises `Failure` if the cache domain does not exist."""
        if self._view is None:
            text = f"{self._missing}; waiting for the agent. q quits."
            lines = [f" {line}" for line in escape.wrap(text, screen.width - 2, screen.height)]
            return [*lines, *[""] * (screen.height - len(lines))]
        domains = self._view.domains
        if self._wanted is not None:
            for number, domain in enumerate(domains):
                if domain.inventory.domain.id == self._wanted:
                    self._number, self._wanted = number, None
        if self._wanted is not None and domains:
            known = [domain.inventory.domain.id for domain in domains]
            raise guests.no_domain(self._wanted, known)
        shown = self._domain()
        traces = self._traces if screen.past_s is None else self._past
        trace = traces[shown.inventory.domain.id] if shown else None
        return top.frame(self._view, shown, trace, screen, self._page)


def _interval(text: str) -> float:
    """Return the seconds between two readings of the history. Raises `ArgumentTypeError`."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.05 <= value <= 3600:
        raise argparse.ArgumentTypeError(
            f"invalid interval {text!r}: expected 0.05 to 3600 seconds"
        )
    return value
