# SPDX-License-Identifier: Apache-2.0
"""iat-nova hold and iat-nova release."""

from __future__ import annotations

import argparse
import dataclasses
import math
import shlex
import time
from typing import Any

from iat_nova.cmd import guests
from iat_nova.cmd.arguments import natural
from iat_nova.cmd.base import Command, Failure, Page, folded
from iat_nova.cmd.pause import agent_runs, end_s, existing, take_while, who
from iat_nova.common import amounts as figures
from iat_nova.model import Hold
from iat_nova.policy import holds
from iat_nova.report import escape, sentences, times, words
from iat_nova.store.requests import Holds


class HoldCommand(Page):
    """Hold a guest at a fixed number of ways, for a time or until `iat-nova release`.

    All other decisions continue. status, tenants, top and explain show the hold until its end.
    Without --for only `iat-nova release` ends it. A hold outlasts restarts of the agent, the guest
    and the host.
    Minimum ways of other tenants, and ways guaranteed by flavors, take precedence: a hold that does
    not fit is refused. Held ways are the guest's alone: fewer than it shares now may slow it down.
    """

    _writes = True
    _tells_state = True
    _epilog = """
GUEST is a UUID or its first 8 digits, a name, or the name in libvirt (instance-0000002a);
also vswitch, pool, host.

examples:
  iat-nova hold db --ways 3 --for 2h --reason "nightly import"
  iat-nova hold instance-0000002a --ways 1       until iat-nova release
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("guest", metavar="GUEST", help="the guest to hold")
        parser.add_argument(
            "--ways", type=natural, required=True, metavar="N", help="the number of ways"
        )
        take_while(parser, "release it")

    def page(self, parsed_args: argparse.Namespace) -> str:
        """Write the hold's file, if the hold fits; return the hold and its effect as text."""
        hold, changes, remarks = self._hold(parsed_args)
        lines = [f"Held: {words.held(hold)}."]
        for number, ways, sharers in changes:
            where = f"domain {number}: " if len(changes) > 1 else ""
            shared = f", shared with {figures.names(sharers)}" if sharers else ""
            now = f"{where}{hold.name} has {figures.ways(ways)} now{shared}"
            lines.append(f"{now}; will have {hold.ways} alone.")
        return "\n".join(folded(escape.plain(one), self.app.stdout) for one in (*lines, *remarks))

    def record(self, parsed_args: argparse.Namespace) -> dict[str, Any]:
        """Write the hold's file, if the hold fits; return the hold and its effect as data."""
        hold, changes, remarks = self._hold(parsed_args)
        keys = ("domain", "ways_before", "shared_with")
        return {
            **dataclasses.asdict(hold),
            "until_s": None if math.isinf(hold.until_s) else hold.until_s,
            "domains": [dict(zip(keys, one, strict=True)) for one in changes],
            "remarks": remarks,
        }

    def _hold(self, parsed_args: argparse.Namespace) -> tuple[Hold, list[Change], list[str]]:
        """Write the hold's file; return the hold, the guest's present ways, and remarks."""
        from iat_nova.report.view import gather  # noqa: PLC0415 - slow to load

        now_s = time.time()
        until_s = end_s(parsed_args, now_s)
        folder = existing(self.state_dir(parsed_args))
        with self.history(parsed_args) as reader:
            subject = guests.now(reader, parsed_args.guest)
            seen = gather(reader)
        if subject.floats or not subject.tenants:
            raise Failure(
                f"{subject.title} floats over shared CPUs: it has no ways of its own, but the "
                "pool's (iat-nova hold pool)"
            )
        reason, ways = parsed_args.reason, parsed_args.ways
        hold = Hold(subject.key, subject.name, ways, now_s, until_s, reason, who())
        if (why := holds.why_not(hold, subject.tenants)) is not None:
            raise Failure(
                f"{subject.title} cannot be held at {ways}: {escape.plain(sentences.text(why))}"
            )
        Holds(folder).write(hold)
        if not agent_runs(self, folder):
            told = f"No agent is seen running with {folder}; one that starts there holds it."
            return hold, [], [told]
        if seen.now is not None and seen.now.status.reasons:
            return hold, [], [_OBSERVES]
        changes = [
            (domain.inventory.domain.id, mask.count, domain.sharers(tenant.id))
            for domain in seen.domains
            for tenant in domain.inventory.tenants
            if tenant.key == subject.key and (mask := domain.mask_of(tenant.id)) is not None
        ]
        fewer = any(ways < before for _, before, _ in changes)
        return hold, changes, [_FEWER.format(shlex.quote(parsed_args.guest))] if fewer else []


Change = tuple[int, int, list[str]]
"""A cache domain, a guest's ways before the hold, and the names of the tenants that share them."""

_FEWER = (
    "These are fewer ways than now: it may get slower. iat-nova explain {} shows what the hold "
    "takes and gives."
)
_OBSERVES = (
    "The agent only observes: the hold changes nothing on the hardware. iat-nova status says why."
)


class Release(Command):
    """End a hold of `iat-nova hold`.

    From the next iteration on, the guest has the policy's bounds again.
    """

    _writes = True
    _tells_state = True
    _epilog = """
examples:
  iat-nova release db
  iat-nova release --all
"""

    def _options(self, parser: argparse.ArgumentParser) -> None:
        whom = parser.add_mutually_exclusive_group(required=True)
        whom.add_argument("guest", nargs="?", metavar="GUEST", help="the guest to release")
        whom.add_argument("--all", action="store_true", help="all held guests")

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Remove the files of the holds."""
        folder = Holds(existing(self.state_dir(parsed_args)))
        held = folder.current(time.time())
        found = held if parsed_args.all else self._found(parsed_args, held)
        if parsed_args.all:
            folder.clear_all()
        for hold in found:
            if not parsed_args.all:
                folder.clear(hold.tenant)
            since = times.duration(time.time() - hold.since_s)
            by = f" by {escape.plain(hold.by)}" if hold.by else ""
            name = escape.plain(hold.name)
            self.app.stdout.write(f"Released: {name}. It was held{by} for {since}.\n")
        if not found:
            whom = "No guest" if parsed_args.all else escape.plain(parsed_args.guest)
            self.app.stdout.write(f"{whom} {'was' if parsed_args.all else 'was not'} held.\n")
        return 0

    def _found(self, parsed_args: argparse.Namespace, held: tuple[Hold, ...]) -> tuple[Hold, ...]:
        """Return the requested hold; a hold's own name finds guests that have left."""
        text = parsed_args.guest
        for found in (
            tuple(hold for hold in held if hold.tenant == text),
            tuple(hold for hold in held if hold.name == text),
        ):
            if len(found) == 1:
                return found
        with self.history(parsed_args) as reader:
            subject, _ = guests.anywhere(reader, text)
        return tuple(hold for hold in held if hold.tenant == subject.key)
