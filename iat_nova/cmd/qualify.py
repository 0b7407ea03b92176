# SPDX-License-Identifier: Apache-2.0
"""iat-nova qualify: test whether the hardware of this host obeys the agent's settings."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import platform
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from iat_nova.checks.qualify import record
from iat_nova.checks.qualify.api import Bench, Outcome, Test
from iat_nova.checks.qualify.programs import DiskReads, PresentTraffic, stream
from iat_nova.checks.qualify.resources import (
    NoCpus,
    SlicePmus,
    busy_times,
    choose_cpus,
)
from iat_nova.checks.qualify.run import TESTS, none, run, usual
from iat_nova.checks.qualify.walker import Chase
from iat_nova.cmd.base import EXIT_FAILURE, EXIT_USAGE, Failure, Page
from iat_nova.cmd.doctor import DEFAULT_WIDTH, wrapped
from iat_nova.common.clock import SystemClock
from iat_nova.common.cpulist import format_cpus, parse_cpus
from iat_nova.common.kernel_files import exists
from iat_nova.common.owned_folder import write_named
from iat_nova.conf import Settings
from iat_nova.hardware.api import HardwareError
from iat_nova.hardware.host.machine import Machine
from iat_nova.model import CacheDomain
from iat_nova.report import sentences, times

if TYPE_CHECKING:
    from iat_nova.agent.ownership import Ownership
    from iat_nova.hardware.host.probe import Host

_LOOK_S = 1.0  # in which CPUs are seen to be idle
_ENDED_BY = 128  # and the signal's number: the status of a shell


class Qualify(Page):
    """Measure whether the hardware of this host obeys the agent's settings.

    Run qualify once on each kind of server, before [iat] mode = enforce: does a mask limit misses,
    do DDIO's ways change hits and misses (with I/O RDT also of a single port), do the slices of
    the LLC agree, does a limit of memory bandwidth throttle, how long does a write take. The
    command asks before the start, then uses a free class of service and a few idle CPUs for some
    two minutes. At the end, and after an interruption, all settings are restored; after kill -9
    run iat-nova restore. The command refuses to start while an agent runs, even paused, and where
    another program allocates cache.

    The results, qualify.html and qualify.json, name no host, guest or disk. Send both files with a
    bug report, or to report on a CPU to the project.
    """

    _epilog = """
verdicts:
  pass          the hardware obeys
  fail          the hardware does not obey, and what that means for the agent
  inconclusive  measured, but the figures allow no judgement
  unavailable   not measured: a tool, an interface or a right is missing, with the remedy

exit status: 0 every test passed; 1 one did not, or nothing could be begun; 130, 143 interrupted

examples:
  iat-nova qualify --disk /dev/nvme0n1             reads of an NVMe disk are the I/O (fio)
  iat-nova qualify --cpus 30-31                    traffic that is there is the I/O
  iat-nova qualify --only mask,write-time --yes    no I/O needed; asks nothing
  iat-nova qualify --yes -f json | jq '.tests[] | {name, verdict}'
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--yes", action="store_true", help="begin without asking")
        parser.add_argument(
            "--cpus",
            metavar="LIST",
            type=_cpus,
            default=frozenset(),
            help="idle CPUs of one cache domain to work on, such as 30-31; default: two that are "
            "idle and in no dedicated set",
        )
        parser.add_argument(
            "--disk",
            metavar="FILE",
            type=Path,
            help="a block device or large file that fio reads past the page cache (nothing is "
            "written to it); default: traffic that is there",
        )
        parser.add_argument(
            "--only",
            metavar="TESTS",
            type=_tests,
            help=f"some of {','.join(TESTS)}; default: all, port with I/O RDT",
        )
        parser.add_argument(
            "--out", metavar="FOLDER", type=Path, default=Path(), help="default: this folder"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[list[str], list[Any]]:
        """Measure, write both files, and return the page or the record."""
        if not exists(os.path.join(parsed_args.out, "")):
            raise Failure(f"--out {parsed_args.out}: there is no such folder; mkdir it", EXIT_USAGE)
        settings = dataclasses.replace(
            self.settings(parsed_args), cha_slices=None, port_dca=False, monitor_tenants=False
        )
        if settings.hardware == "emulated":
            raise Failure(
                "[iat] hardware = emulated: there is no hardware to qualify; run it on a real host"
            )
        with ending_by_signal() as ending:
            self._data = self._measured(parsed_args, settings, ending)
        if not self._data["passed"]:
            self._status = EXIT_FAILURE
        self._write(parsed_args.out)
        return super().take_action(parsed_args)

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Return the summary for people."""
        width = shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns
        written = f"{parsed_args.out / 'qualify.html'} and qualify.json written"
        return f"{summary(self._data, width)}\n{written}"

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Return the content of qualify.json."""
        return self._data

    def _measured(
        self, parsed_args: argparse.Namespace, settings: Settings, ending: Ending
    ) -> dict[str, Any]:
        from iat_nova.agent import restoring, sources  # noqa: PLC0415 - slow to load
        from iat_nova.agent.ownership import ownership  # noqa: PLC0415
        from iat_nova.hardware.host.probe import Host  # noqa: PLC0415

        host = Host()
        try:
            machine = sources.machine(settings)
            domains = machine.locate(machine.allocator.domains())
        except HardwareError as error:
            tests = parsed_args.only or usual(ports=False)
            return self._described(host, none(tests, error), None, None)
        tests = parsed_args.only or usual(ports=machine.port_ways is not None)
        try:
            domain, cpus = self._place(parsed_args, settings, host, domains)
            owned = ownership(settings, machine)
            self._check(owned, host, domain)
            self._ask(parsed_args, tests, cpus)
            with contextlib.ExitStack() as stack:
                stack.enter_context(ending.deferred())
                restoring.note_state_dir(settings)
                for line in restoring.restore_earlier(settings):
                    self.note(f"an agent with another state directory: {sentences.text(line)}")
                stack.enter_context(owned.held())
                stack.enter_context(contextlib.closing(machine.counters))
                if owned.snapshot is not None:
                    owned.snapshot.protect()
                machine.forget()  # DDIO's ways may have been an earlier agent's
                domains = machine.locate(machine.allocator.domains())
                domain = next(one for one in domains if one.id == domain.id)
                bench = self._bench(parsed_args, host, machine, domains, domain, cpus)
                with ending.at_once():
                    outcomes = run(tests, bench, self.note)
        except HardwareError as error:
            raise Failure(sentences.text(error.message)) from error
        return self._described(host, outcomes, machine, domain)

    def _place(
        self,
        parsed_args: argparse.Namespace,
        settings: Settings,
        host: Host,
        domains: tuple[CacheDomain, ...],
    ) -> tuple[CacheDomain, tuple[int, ...]]:
        """Return a cache domain and its CPUs for the tests."""
        before = busy_times(host.roots.proc)
        SystemClock().wait(threading.Event(), _LOOK_S)
        after = busy_times(host.roots.proc)
        taken = parse_cpus(settings.cpu_dedicated_set or "")
        try:
            return choose_cpus(parsed_args.cpus, domains, before, after, taken)
        except NoCpus as error:
            raise Failure(sentences.text(error.message)) from error

    def _check(self, owned: Ownership, host: Host, domain: CacheDomain) -> None:
        """Raise `Failure` if another program owns the cache, or no class of service is free."""
        from iat_nova.agent import restoring  # noqa: PLC0415 - slow to load

        if agent := restoring.writer(host):
            raise Failure(
                f"process {agent} writes this host's cache masks, paused or not: it would write "
                "over what is measured; systemctl stop iat-nova-agent"
            )
        if others := owned.owners():
            raise Failure(
                "another program allocates cache here: "
                + "; ".join(map(sentences.text, others))
                + "; iat-nova doctor says what ends that"
            )
        if domain.classes < 2:
            raise Failure("no class of service is free; iat-nova doctor says who has them")

    def _ask(
        self, parsed_args: argparse.Namespace, tests: Sequence[Test[Any]], cpus: tuple[int, ...]
    ) -> None:
        """Describe the tests and ask for consent. Raises `Failure` without consent."""
        about_s = sum(one.about_s for one in tests)
        load = "reads of the disk by fio" if parsed_args.disk else "the traffic that is there"
        self.note(
            f"{', '.join(one.name for one in tests)}: about {times.duration(about_s)}; "
            f"CPUs {format_cpus(cpus)} get a class of service of their own, DDIO's ways go to and "
            f"fro, I/O is {load}. Guests may be slower meanwhile; all is restored at the end."
        )
        if parsed_args.yes:
            return
        if not sys.stdin.isatty():
            raise Failure(
                "there is no terminal to ask for confirmation; --yes begins without asking",
                EXIT_USAGE,
            )
        print("Begin? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise Failure("nothing was done")

    def _bench(
        self,
        parsed_args: argparse.Namespace,
        host: Host,
        machine: Machine,
        domains: tuple[CacheDomain, ...],
        domain: CacheDomain,
        cpus: tuple[int, ...],
    ) -> Bench:
        chosen = {one.role: one for one in machine.choices}
        caches = {cache.id: cache for cache in host.topology.caches()}
        fixed = chosen["ddio"].chosen == "none"
        disk = parsed_args.disk
        return Bench(
            domain=domain,
            domains=domains,
            cpus=cpus,
            clusters=max(len(caches[domain.id].nodes), 1),
            counters=machine.counters,
            allocator=machine.allocator,
            ddio=machine.ddio,
            ddio_refused=chosen["ddio"].why if fixed else None,
            ddio_counted=chosen["ddio counters"].why,
            clock=machine.clock,
            walker=Chase(),
            inbound=DiskReads(disk, machine.clock) if disk else PresentTraffic(),
            streams=stream,
            slices=lambda: SlicePmus(host),
            port_ways=machine.port_ways,
        )

    def _described(
        self,
        host: Host,
        outcomes: tuple[Outcome, ...],
        machine: Machine | None,
        domain: CacheDomain | None,
    ) -> dict[str, Any]:
        return record.as_data(
            outcomes,
            version=version("iat-nova"),
            at_s=time.time(),
            kernel=platform.release(),
            cpu=record.cpu_and_microcode(host.roots.proc / "cpuinfo"),
            choices=machine.choices if machine else (),
            domain=domain,
        )

    def _write(self, folder: Path) -> None:
        from iat_nova.checks.qualify import html  # noqa: PLC0415 - Jinja2 is only needed here

        write_named(folder / "qualify.json", json.dumps(self._data, indent=1) + "\n")
        write_named(folder / "qualify.html", html.write(self._data))


def summary(data: Mapping[str, Any], width: int) -> str:
    """Return a record (`record.as_data`) as text for the terminal, a paragraph per test."""
    lines = []
    for _, alike in itertools.groupby(data["tests"], key=_reason):
        one, *others = alike
        head = f"{one['verdict']:<13} {f'{1 + len(others)} tests' if others else one['name']:<11} "
        lines += wrapped(head, f"{one['says']}. {one['means']}", width)
        lines += [f"{'':<{len(head)}}--> {one['remedy']}"] if one["remedy"] else []
    return "\n".join(lines)


def _reason(test: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return verdict, code, values and meaning of a test: the same for equal outcomes."""
    return tuple(test[key] for key in ("verdict", "code", "values", "means_code"))


class Ending:
    """An orderly end of the program after the first signal; further signals are ignored.

    Inside `deferred`, a saving or a restore is finished first.
    """

    def __init__(self) -> None:
        self._number: int | None = None
        self._waits = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal. The first raises `SystemExit`, at once or at the end of `deferred`."""
        if self._number is None:
            self._number = number
            if not self._waits:
                self._end()

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """Defer the program's end to the end of this context. Raises `SystemExit` there."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False
        self._end()

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Let a signal end this context at once, also inside `deferred`. Raises `SystemExit`."""
        self._end()
        self._waits = False
        try:
            yield
        finally:
            self._waits = True

    def _end(self) -> None:
        if self._number is not None:
            raise SystemExit(_ENDED_BY + self._number)


@contextlib.contextmanager
def ending_by_signal() -> Iterator[Ending]:
    """End this context in order after the first SIGTERM, SIGINT or SIGHUP; ignore later signals."""
    ending = Ending()
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, ending.handle) for number in numbers}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _cpus(text: str) -> frozenset[int]:
    try:
        found = parse_cpus(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not found:
        raise argparse.ArgumentTypeError("it names no CPU")
    return found


def _tests(text: str) -> tuple[Test[Any], ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in TESTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"no such test: {', '.join(unknown) or 'none named'}; there are {', '.join(TESTS)}"
        )
    return tuple(one for name, one in TESTS.items() if name in names)
